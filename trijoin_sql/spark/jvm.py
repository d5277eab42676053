"""How the JVM of a local master starts: flags for its first minutes, and an archive of the classes that it loads.

Most of the processor time until a first row is the JVM's. Half of that goes to its optimizing compiler, which is made
for servers that run for days; much of the rest reads, checks and links some 24,000 classes.

Flags come with `configure` where nobody has chosen any. The archive (the JDK's application class data sharing) takes
200 MiB of disk, so `trijoin_sql.class_archive` makes it only on request. A JVM itself checks that an archive
is of its own build and of the same jar files in the same order, and else starts without it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from .java import find_java, java_versions
from .liberties import CLASS_ARCHIVE, JVM_FLAGS, taken

#: The setting that ours go with: Spark puts it before `EXTRA`.
OPTIONS = "spark.driver.defaultJavaOptions"
EXTRA = "spark.driver.extraJavaOptions"

#: Other places for a JVM's flags. Two collectors in all of them, and it does not start.
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")

#: Flags of a JVM that runs beside us.
FLAGS = (
    # Code goes to the optimizing compiler when it is twenty times as hot as usual. What a join runs for each row is
    # that hot in its first micro-batches; what Spark runs once for each micro-batch is not, and would not pay off.
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=800000",
    # Spark's classes fill 170 MiB. A JVM collects garbage on the way there, from 20 MiB on.
    "-XX:MetaspaceSize=256m",
)

#: No threads of its own beside the program's, and cheap writes of references. Pauses grow with the heap.
COLLECTOR = "-XX:+UseParallelGC"

#: The largest heap with `COLLECTOR`, in MiB.
LARGEST_HEAP = 4096

#: A JVM says on stdout what is wrong with an archive, and starts all the same.
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def java_options(user: Mapping[str, str]) -> str | None:
    """Return flags for the JVM that Spark will start on this machine, None where the user has chosen some.

    Parameters
    ----------
    user
        The settings that it will get, with those from outside of the program.
    """
    submitted = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    chosen = OPTIONS in user or EXTRA in user or any(name in os.environ for name in _VARIABLES)
    if chosen or "--driver-" in submitted or "--properties-file" in submitted or not hotspot():
        return None
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home, "conf")) if home else None)
    if folder and Path(folder, "spark-env.sh").exists():  # it may set what we have just looked for, and another Java
        return None
    options: list[str] = []
    if taken(JVM_FLAGS, user.get):
        options += FLAGS
        heap = _mebibytes(user.get("spark.driver.memory") or os.environ.get("SPARK_DRIVER_MEMORY") or "1g")
        options += [COLLECTOR] if heap is not None and heap <= LARGEST_HEAP else []
    if taken(CLASS_ARCHIVE, user.get) and (archive := find_archive()):
        options += [f"-XX:SharedArchiveFile={archive}", *QUIET.split()]
    return shlex.join(options) or None


def archive_name() -> str:
    """Return how the name of the archive for this Java and these jar files of Spark's begins."""
    from pyspark import __version__
    from pyspark.find_spark_home import _find_spark_home

    jars = sorted(Path(_find_spark_home(), "jars").glob("*.jar"))
    seen = [f"{jar} {(stat := jar.stat()).st_size} {stat.st_mtime_ns}" for jar in jars]
    return f"spark-{__version__}-{hashlib.sha256(chr(10).join([hotspot(), *seen]).encode()).hexdigest()[:12]}"


def find_archive() -> Path | None:
    """Return the archive for this Java and these jar files, None if there is none that is whole.

    Its name ends with its size: a JVM does not start with an archive whose end is missing.
    """
    found = (file for file in home().glob(f"{archive_name()}-*.jsa") if file.stem.endswith(f"-{file.stat().st_size}"))
    return next(found, None)


def home() -> Path:
    """Return the folder of the archives; it can be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trijoin-sql" / "classes"


def hotspot() -> str:
    """Return what a supported HotSpot that Spark will find says of itself, nothing if it is another Java."""
    java = find_java()
    root = Path(java).resolve().parent.parent if java else None
    release = root / "release" if root else None
    text = release.read_text(encoding="utf-8", errors="replace") if release and release.is_file() else ""
    version = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
    if version is None or int(version[1]) not in java_versions() or re.search(r"openj9", text, re.IGNORECASE):
        return ""
    return f"{root}\n{text}"


def _mebibytes(text: str) -> float | None:
    """Return a size in Spark's notation, None if it is none."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", text.strip().lower())
    return int(found[1]) * 1024.0 ** ("kmgt".index(found[2] or "m") - 1) if found else None
