"""The jar with Java's operator of the trigger ``realTime``: the wheel's, or one that a JDK makes of the sources.

``python -m trijoin_sql.spark.operator_jar FILE`` makes one, for a wheel (`.ci/run`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from ..errors import UnavailableError
from .java import find_java
from .jvm import home

#: The wheel's jar, beside the sources.
NAME = "operator.jar"

_WHAT = "the trigger realTime"


def _sources() -> dict[str, bytes]:
    folder = resources.files("trijoin_sql.operators").joinpath("realtime")
    found = sorted((one for one in folder.iterdir() if one.name.endswith(".java")), key=lambda one: one.name)
    return {one.name: one.read_bytes() for one in found}


def jar_of_wheel() -> Path | None:
    """Return the jar that came with the package, None if none did."""
    path = Path(str(resources.files("trijoin_sql.operators").joinpath("realtime", NAME)))
    return path if path.is_file() else None


def jdk() -> tuple[str, str] | None:
    """Return the programs that compile Java and pack its classes, None where they are not installed."""
    java = find_java()  # a JRE has none beside it, and another JDK may be in PATH
    places = os.pathsep.join([*([str(Path(java).resolve().parent)] if java else []), os.environ.get("PATH", "")])
    compiler, packer = (shutil.which(name, path=places) for name in ("javac", "jar"))
    return (compiler, packer) if compiler and packer else None


def jar(version: str, class_path: str) -> Path:
    """Return a jar, made if there is none yet: it takes some seconds, once.

    Parameters
    ----------
    version
        Of Spark.
    class_path
        Where Spark's classes are.

    Raises
    ------
    UnavailableError
        There is no JDK, or it fails.
    """
    if (found := jar_of_wheel()) is not None:
        return found
    digest = hashlib.sha256(b"".join([version.encode(), *_sources().values()])).hexdigest()
    kept = home() / f"realtime-{digest[:16]}.jar"
    if not kept.is_file():
        make(kept, class_path)
    return kept


def make(path: Path, class_path: str) -> None:
    """Compile the sources into a jar; what `jar` says is raised."""
    programs = jdk()
    if programs is None:
        raise UnavailableError(_WHAT, "its operator is made by javac, and there is no JDK", "install a JDK 17 or newer")
    compiler, packer = programs
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="trijoin-javac-", dir=path.parent) as scratch:
        texts = _sources()
        for name, text in texts.items():
            Path(scratch, name).write_bytes(text)
        classes, made = Path(scratch, "classes"), Path(scratch, NAME)
        given = [str(Path(scratch, name)) for name in texts]
        for command in (
            [compiler, "--release", "17", "-nowarn", "-cp", class_path, "-d", str(classes), *given],
            [packer, "--create", "--file", str(made), "--date", "2026-01-01T00:00:00Z", "-C", str(classes), "."],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                said = next(iter((done.stderr or done.stdout).splitlines()), "it says nothing")
                why = re.sub(r"\S*/(?=\w+\.java)", "", said)
                raise UnavailableError(_WHAT, f"{Path(command[0]).name} fails: {why}", "install a JDK 17 or newer")
        made.replace(path)


if __name__ == "__main__":
    import pyspark

    make(Path(sys.argv[1]), str(Path(pyspark.__file__).parent / "jars" / "*"))
