"""Jars that a job needs in addition to Spark's own: the user's, and those of formats that come in a package."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..rewriter.sql.clauses import Word
from .formats import PYTHON, SINKS, SOURCES, find_format
from .job_text import Script
from .statements import CreateSink, CreateStream, Job, StartSetting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings of jars to fetch, by Maven coordinates, and of jars that are files.
PACKAGES, JARS = "spark.jars.packages", "spark.jars"


@dataclass(frozen=True, slots=True)
class Package:
    """What a format needs that Spark does not have.

    Parameters
    ----------
    title
        Its name for a reader.
    group, artifact
        Maven's names; ``{spark}`` stands for Spark's minor version, such as 4.2.
    versions
        Of the package, by Spark's minor version; empty if it has Spark's own version.
    settings
        What a session needs before it starts.
    """

    title: str
    group: str
    artifact: str
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """How the names of its jars begin, for every Spark."""
        return self.artifact.partition("{")[0].partition("_2.")[0].rstrip("_-")

    def coordinates(self, spark: str) -> str | None:
        """Return its Maven coordinates for a version of Spark, None if there is no build for it that we know of."""
        minor = ".".join(spark.split(".")[:2])
        version = self.versions.get(minor) if self.versions else spark
        return version and f"{self.group}:{self.artifact.format(spark=minor)}:{version}"


#: By format. Versions are those that `tests/neighbours` has run.
NEEDED: dict[str, Package] = {
    "kafka": Package("Spark's Kafka connector", "org.apache.spark", "spark-sql-kafka-0-10_2.13"),
    "avro": Package("Spark's Avro format", "org.apache.spark", "spark-avro_2.13"),
    "delta": Package(
        "Delta Lake",
        "io.delta",
        "delta-spark_{spark}_2.13",
        {"4.1": "4.4.0", "4.2": "4.4.0"},
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
    ),
    "iceberg": Package("Apache Iceberg", "org.apache.iceberg", "iceberg-spark-runtime-{spark}_2.13", {"4.1": "1.12.0"}),
}


def formats(declared: Iterable[CreateStream | CreateSink]) -> list[Word]:
    """Return the first mention of every format of streams and sinks."""
    found: dict[str, Word] = {}
    for one in declared:
        found.setdefault(one.format.text.lower(), one.format)
    return list(found.values())


def needed(job: Job) -> list[tuple[Word, Package]]:
    """Return the packages that a job's formats need, with where each is named."""
    words = formats((*job.streams, *job.sinks))
    return [(word, NEEDED[word.text.lower()]) for word in words if word.text.lower() in NEEDED]


def jar_files(paths: Iterable[Path]) -> list[str]:
    """Return jars as files; for a folder, all jars in it.

    Raises
    ------
    FileNotFoundError
        A path is neither a file nor a folder with jars.
    """
    found: list[str] = []
    for path in paths:
        files = sorted(path.glob("*.jar")) if path.is_dir() else [path]
        if not files or not all(file.is_file() for file in files):
            raise FileNotFoundError(f"{path} is neither a jar nor a folder with jars")
        found += [str(file.absolute()) for file in files]
    return found


def start_settings(job: Job) -> dict[str, str]:
    """Return the settings of a job file that must be known before Spark starts."""
    return {statement.key: statement.value for statement in job.statements if isinstance(statement, StartSetting)}


def with_packages(user: Mapping[str, str], job: Job) -> dict[str, str]:
    """Return the user's settings, and with them the packages that the job needs, and their settings.

    A package is left out if Spark has it already, or if the user names it, in another version or as a file.

    Raises
    ------
    JobError
        There is no build of a package for the installed Spark.
    """
    import pyspark

    settings = dict(user)
    for word, package in needed(job):
        if not _is_there(package, settings):
            coordinates = package.coordinates(pyspark.__version__)
            if coordinates is None:
                detail = f"{package.title} has no package for Spark {pyspark.__version__} that we know of"
                raise job.script.error(word.start, detail, how_to_give(package))
            named = [name for name in settings.get(PACKAGES, "").split(",") if name]
            settings[PACKAGES] = ",".join([*named, coordinates])
        settings = {**package.settings, **settings}
    return settings


def _is_there(package: Package, settings: Mapping[str, str]) -> bool:
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    named = " ".join(settings.get(key, "") for key in (PACKAGES, JARS, "spark.driver.extraClassPath"))
    return package.stem in named or any(home.glob(f"jars/{package.stem}*.jar"))


def check_formats(script: Script, declared: Iterable[CreateStream | CreateSink], spark: SparkSession) -> None:
    """Ask Spark for every format of streams or sinks that is not its own, before anything starts.

    Raises
    ------
    JobError
        Spark does not know it.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    inside: Any = spark
    for word in formats(declared):
        package = NEEDED.get(word.text.lower())
        ours = find_format(SOURCES, word.text) or find_format(SINKS, word.text)
        if package is None and ours is not None:
            continue
        try:
            source = inside._jvm.org.apache.spark.sql.execution.datasources.DataSource
            source.lookupDataSource(word.text, inside._jsparkSession.sessionState().conf())
        except (PySparkException, Py4JError):
            what = f"Spark has no format named {word.text}" if package is None else f"{package.title} is missing"
            raise script.error(word.start, what, how_to_give(package)) from None


def how_to_give(package: Package | None) -> str:
    """Return what a user without a package can do; None stands for one that we do not know."""
    import pyspark

    if package is None:
        return (
            "give the package that has it: --packages GROUP:NAME:VERSION, or --jars FOLDER; a data source in Python is "
            f"USING {PYTHON} OPTIONS (class 'module:Class')"
        )
    coordinates = package.coordinates(pyspark.__version__)
    if coordinates is None:
        minor = max(package.versions)
        known = package.coordinates(minor)
        return f"install PySpark {minor}, for which it is {known}, or give another: --packages or --jars"
    return (
        f"give --packages {coordinates}, or where there is no network a folder with that jar and those that it needs: "
        "--jars FOLDER"
    )
