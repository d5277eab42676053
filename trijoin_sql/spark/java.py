"""Which Java Spark will find, and how to get one."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path

from packaging.version import Version


def java_versions() -> tuple[int, ...]:
    """Return the Java versions that the installed PySpark supports."""
    try:
        spark = Version(metadata.version("pyspark"))
    except metadata.PackageNotFoundError:
        return (17, 21)
    return (17, 21, 25) if spark.release >= (4, 2) else (17, 21)


def find_java() -> str | None:
    """Return the Java that Spark's launch script runs: ``$JAVA_HOME/bin/java``, else ``java`` on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")


def missing_java() -> str | None:
    """Return what to do if Spark's launch script finds no Java, None if it finds one."""
    home = os.environ.get("JAVA_HOME")
    where = f"JAVA_HOME={home} has no bin/java" if home else "Java is not installed"
    return None if find_java() else f"{where}; Java {either_java()} is needed: {install_java()}"


def either_java() -> str:
    """Return the supported versions, in words."""
    *most, last = map(str, java_versions())
    return f"{', '.join(most)} or {last}"


def install_java() -> str:
    """Return the commands that install a supported Java, this system's first."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        system = {}
    # Debian 13 has no Java 17.
    newer = system.get("ID") == "debian" and system.get("VERSION_ID", "0").split(".")[0] >= "13"
    commands = {
        "Debian/Ubuntu": f"apt-get install openjdk-{21 if newer else 17}-jre-headless",
        "macOS": "brew install openjdk@17",
        "conda": "conda install -c conda-forge openjdk=17",
    }
    first = "conda" if "CONDA_PREFIX" in os.environ else "macOS" if sys.platform == "darwin" else "Debian/Ubuntu"
    order = sorted(commands, key=lambda name: name != first)
    return ", ".join(f"{commands[name]} ({name})" for name in order)
