"""Jars of Kafka, Delta Lake, Iceberg and Apache Sedona for tests, from Maven Central, in a cache outside the checkout.

``python -m tests.maven_jars`` fetches them and says what there is. Tests call `connector`, `broker`,
`lake` and `sedona`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark

from trijoin_sql.jobs.jars import NEEDED

#: Where jars are kept, from run to run.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trijoin-sql-tests"

#: Seconds that one call of Maven may take.
PATIENCE = 90

CONNECTOR, TOKENS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13",
)


class NotObtainableError(Exception):
    """Jars cannot be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Jars:
    """Jars in a folder.

    Parameters
    ----------
    name
        What they are, for a reader.
    artifacts
        Maven's coordinates.
    transitive
        Whether Maven adds what they depend on.
    """

    name: str
    artifacts: tuple[str, ...]
    transitive: bool = True

    @property
    def folder(self) -> Path:
        """Where they are, or would be."""
        return CACHE / self.name.replace(" ", "-")


BROKER = Jars("kafka broker 4.1.0", ("org.apache.kafka:kafka_2.13:4.1.0",))

#: The connector of Spark's own version; and the newest that works with it where a mirror lacks that. Mirrors have been
#: seen with connector 4.2.0 and without the token provider of the same version, so its parts are named one by one.
CONNECTORS = (
    Jars(f"connector {pyspark.__version__}", (f"{CONNECTOR}:{pyspark.__version__}",)),
    Jars(
        "connector 4.2.0",
        (
            f"{CONNECTOR}:4.2.0",
            f"{TOKENS}:4.0.0",
            "org.apache.kafka:kafka-clients:3.9.2",
            "org.apache.commons:commons-pool2:2.13.1",
        ),
        transitive=False,
    ),
)


#: Parts of a Delta Lake that Spark does not have; Maven would add Hadoop and another Scala.
_OF_DELTA = ("delta-storage", "delta-kernel-api", "delta-kernel-defaults", "delta-kernel-unitycatalog")


def lake(name: str) -> Path:
    """Return the folder with the jars of ``delta`` or ``iceberg`` for the installed Spark."""
    package = NEEDED[name]
    coordinates = package.coordinates(pyspark.__version__)
    if coordinates is None:
        raise NotObtainableError(f"{package.title} has no package for Spark {pyspark.__version__}")
    artifact, version = coordinates.split(":")[1:]
    parts: tuple[str, ...] = (coordinates,)
    if name == "delta":
        parts += tuple(f"io.delta:{part}:{version}" for part in _OF_DELTA)
        parts += tuple(f"io.unitycatalog:unitycatalog-{part}:0.6.0" for part in ("client", "hadoop"))
    return _first((Jars(f"{artifact} {version}", parts, transitive=False),))[0].folder


#: The newest build of Sedona that we know, for the only Spark of ours that it is for.
SEDONA = Jars("sedona 1.8.0", ("org.apache.sedona:sedona-spark-shaded-4.0_2.13:1.8.0",), transitive=False)


def sedona() -> Path:
    """Return the folder with the jar of Apache Sedona for the installed Spark."""
    if not pyspark.__version__.startswith("4.0."):
        raise NotObtainableError(f"we know no build for Spark {pyspark.__version__}")
    return _first((SEDONA,))[0].folder


def broker() -> list[Path]:
    """Return the broker's jars, fetched if need be."""
    return _first((BROKER,))[1]


def connector() -> tuple[str, Path]:
    """Return the name of the best connector that is cached, else that can be fetched, and the folder of its jars."""
    jars, _ = _first(CONNECTORS)
    return jars.name, jars.folder


def _first(candidates: tuple[Jars, ...]) -> tuple[Jars, list[Path]]:
    for jars in candidates:
        if found := sorted(jars.folder.glob("*.jar")):
            return jars, found
    reasons = []
    for jars in candidates:
        try:
            _fetch(jars)
        except NotObtainableError as error:
            reasons.append(f"{jars.name}: {error}")
        else:
            return jars, sorted(jars.folder.glob("*.jar"))
    raise NotObtainableError("; ".join(reasons))


def _fetch(jars: Jars) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotObtainableError("Maven (mvn) is not installed, which fetches the jars")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        (Path(scratch) / "pom.xml").write_text(_project(jars), "utf-8")
        command = [
            maven,
            "--batch-mode",
            "--quiet",
            "--update-snapshots",
            "-f",
            scratch,
            "dependency:copy-dependencies",
        ]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={scratch}/jars"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise NotObtainableError(f"Maven took more than {PATIENCE} seconds") from None
        if done.returncode:
            said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            raise NotObtainableError("Maven cannot get them: " + (said[0][:300] if said else "it says nothing"))
        if not jars.folder.exists():  # another run may have been faster
            Path(scratch, "jars").rename(jars.folder)


def _project(jars: Jars) -> str:
    exclusions = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = [
        f"<dependency><groupId>{escape(group)}</groupId><artifactId>{escape(name)}</artifactId>"
        f"<version>{escape(version)}</version>{'' if jars.transitive else exclusions}</dependency>"
        for group, name, version in (artifact.split(":") for artifact in jars.artifacts)
    ]
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>none</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{''.join(dependencies)}</dependencies></project>"
    )


def main() -> None:
    """Fetch all, and say what there is."""
    wanted = {"Kafka": lambda: f"{connector()[0]}, {len(broker())} jars of a broker"}
    wanted |= {NEEDED[name].title: lambda name=name: lake(name).name for name in ("delta", "iceberg")}  # type: ignore[misc]
    for name, fetch in wanted.items():
        try:
            print(f"{name}: {fetch()}")
        except NotObtainableError as problem:
            print(f"{name} is left out: {problem}")


if __name__ == "__main__":
    main()
