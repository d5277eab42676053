"""Checks that a machine has what TriJoin SQL needs, without starting Spark."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from .spark.config import submitted_settings
from .spark.java import either_java, find_java, install_java, java_versions, missing_java
from .spark.operator_jar import jar_of_wheel, jdk

Level = Literal["ok", "warning", "problem"]
GIB = 1 << 30

#: Needed by the driver (2 GiB by default here) and one Python worker a core, and for shuffles and state.
MEMORY_GIB, DISK_GIB = 4, 5

#: Packages that are imported by another name.
MODULES = {"protobuf": "google.protobuf"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Parameters
    ----------
    level
        ``"ok"``, ``"warning"`` (it runs, with a drawback) or ``"problem"`` (it does not run).
    subject
        What was checked, in one or two words.
    text
        What was found and, if it is wrong, what to do: one line.
    """

    level: Level
    subject: str
    text: str


def examine() -> list[Finding]:
    """Run all checks, the cheapest and most decisive first.

    Returns
    -------
    list of Finding
        At least one for each check.
    """
    return [
        check_python(),
        check_java(),
        *check_packages(),
        check_master(),
        check_memory(),
        check_disk(),
        check_copy(),
        check_real_time(),
    ]


def check_python() -> Finding:
    """Python 3.11 or newer, and one that PySpark names."""
    found = platform.python_version()
    if sys.version_info < (3, 11):  # noqa: UP036 (that is the check)
        return Finding("problem", "Python", f"Python {found} is too old, 3.11 or newer is needed")
    named = _pythons_of_pyspark()
    if named and sys.version_info[:2] > max(named):
        newest = ".".join(map(str, max(named)))
        text = f"Python {found} is newer than PySpark {metadata.version('pyspark')} is made for (up to {newest})"
        return Finding("warning", "Python", text)
    return Finding("ok", "Python", found)


def check_java() -> Finding:
    """A Java that the installed PySpark supports, found as its launch script finds it (`find_java`)."""
    java, needed = find_java(), f"Java {either_java()} is needed: {install_java()}"
    if java is None:
        return Finding("problem", "Java", str(missing_java()))
    try:
        # Jlinked runtimes leave out this module; Java 8 does not know the option, hence the second run.
        asked = _run(java, "--add-modules=jdk.incubator.vector", "-version")
        said = asked if asked.returncode == 0 else _run(java, "-version")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("problem", "Java", f"{java} does not run ({error}); {needed}")
    version = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', said.stderr + said.stdout)
    if said.returncode or version is None:
        return Finding("problem", "Java", f"{java} -version fails; {needed}")
    found, major = f"Java {version[1]} ({java})", int(version[2])
    if major < java_versions()[0]:
        return Finding("problem", "Java", f"{found} is too old, {either_java()} is needed: {install_java()}")
    if asked.returncode:
        lacks = "lacks the module jdk.incubator.vector that Spark needs"
        return Finding("problem", "Java", f"{found} {lacks}: {install_java()}")
    if major not in java_versions():
        return Finding("warning", "Java", f"{found} is not one that Spark is made for ({either_java()})")
    if re.match(r"25(\.0(\.[0-2](\.\d+)*)?)?([^\d.]|$)", version[1]):
        return Finding("warning", "Java", f"{found} can damage data (SPARK-55852), 25.0.3 does not")
    return Finding("ok", "Java", found)


def check_packages() -> list[Finding]:
    """The packages that we need: installed, importable and in a version of those that we go with."""
    needed = _requirements()
    if not needed:  # run from a folder
        return [Finding("warning", "Packages", "trijoin-sql is not installed, so nothing says which packages it needs")]
    findings = [_check_package(name, versions) for name, versions in needed.items()]
    wrong = [finding for finding in findings if finding.level != "ok"]
    return wrong or [Finding("ok", "Packages", ", ".join(f"{name} {metadata.version(name)}" for name in needed))]


def check_master() -> Finding:
    """A local master without a failure budget: a Python worker that dies takes the query with it."""
    master = submitted_settings().get("spark.master") or os.environ.get("MASTER", "")
    if single := re.fullmatch(r"local(?:\[\s*([^,\]\s]+)\s*(?:,\s*1\s*)?\])?", master):
        text = f"{master} allows a task one attempt: a lost worker ends the query. Use local[{single[1] or '*'},4]"
        return Finding("warning", "Master", text)
    return Finding("ok", "Master", master or "local[*,4] unless a session or a setting says otherwise")


def check_memory() -> Finding:
    """Memory of the machine, or of the container around us."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return Finding("ok", "Memory", "unknown on this system")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        size = min(size, int(text))
    if size < MEMORY_GIB * GIB:
        return Finding("warning", "Memory", f"{size / GIB:.1f} GiB; {MEMORY_GIB} GiB or more are advised")
    return Finding("ok", "Memory", f"{size / GIB:.1f} GiB")


def check_disk() -> Finding:
    """Room where Spark puts shuffle files, state and temporary checkpoints."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("problem", "Disk", f"{folder} cannot be used: {error.strerror}")
    if free < DISK_GIB * GIB:
        text = f"{free / GIB:.1f} GiB free in {folder}; {DISK_GIB} GiB are advised (SPARK_LOCAL_DIRS)"
        return Finding("warning", "Disk", text)
    return Finding("ok", "Disk", f"{free / GIB:.0f} GiB free in {folder}")


def check_copy(mounts: Path = Path("/proc/self/mounts")) -> Finding:
    """Where workers keep their copy of the state: in a file system in memory it takes memory."""
    folder = Path(os.environ.get("TRIJOIN_LOCAL_DIR") or tempfile.gettempdir()).resolve()
    if not os.access(next(place for place in (folder, *folder.parents) if place.exists()), os.W_OK):
        return Finding("warning", "Copy of state", f"{folder} cannot be written, so there will be none: slower probes")
    kinds = {Path(place): kind for place, kind in _mounted(mounts)}
    kind = next((kinds[place] for place in (folder, *folder.parents) if place in kinds), "unknown")
    if kind in ("tmpfs", "ramfs"):
        text = f"{folder} is in memory ({kind}): set TRIJOIN_LOCAL_DIR to a folder on a disk, on all machines"
        return Finding("warning", "Copy of state", text)
    return Finding("ok", "Copy of state", f"in {folder}")


def check_real_time() -> Finding:
    """What the trigger realTime needs: a jar of its operator, or a JDK that makes one."""
    if jar_of_wheel() is not None or jdk() is not None:
        return Finding("ok", "Real time", "its operator is there" if jar_of_wheel() else "javac makes its operator")
    return Finding("ok", "Real time", "not without a JDK, which makes its operator: install javac 17 or newer")


def _mounted(mounts: Path) -> list[tuple[str, str]]:
    """Return places and kinds of the file systems, nothing if the system does not list them; the last one counts."""
    if not mounts.is_file():
        return []
    return [(fields[1], fields[2]) for line in mounts.read_text().splitlines() if len(fields := line.split()) > 2]


def _check_package(name: str, needed: SpecifierSet) -> Finding:
    wanted = f"{name}{needed}"
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding("problem", name, f"{name} is not installed: pip install '{wanted}'")
    if not needed.contains(found, prereleases=True):
        return Finding("problem", name, f"{name} {found} does not go with TriJoin SQL: pip install '{wanted}'")
    try:
        if name != "pyspark":  # the other packages have compiled parts that can be broken; it only costs time
            import_module(MODULES.get(name, name))
    except Exception as error:
        reason = str(error).splitlines()[:1] or [type(error).__name__]
        text = f"{name} {found} cannot be imported ({reason[0]}): pip install --force-reinstall '{wanted}'"
        return Finding("problem", name, text)
    return Finding("ok", name, found)


def _pythons_of_pyspark() -> set[tuple[int, int]]:
    """Return the versions of Python that PySpark names in its classifiers, none if it is not installed."""
    try:
        classifiers = metadata.metadata("pyspark").get_all("Classifier", [])
    except metadata.PackageNotFoundError:
        return set()
    found = (re.fullmatch(r"Programming Language :: Python :: (\d+)\.(\d+)", one) for one in classifiers)
    return {(int(one[1]), int(one[2])) for one in found if one}


def _requirements() -> dict[str, SpecifierSet]:
    """Return by name the versions that we go with, as the installed distribution declares them."""
    try:
        listed = [Requirement(text) for text in metadata.requires("trijoin-sql") or []]
    except metadata.PackageNotFoundError:  # run from a folder that is not installed
        return {}
    return {one.name: one.specifier for one in listed if one.marker is None}


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=30, check=False
    )
