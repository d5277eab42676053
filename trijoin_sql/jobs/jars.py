"""Jars that a job needs in addition to Spark's own: the user's, and Spark's Kafka connector."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..rewriter.sql.clauses import Word
from .statements import Job, StartSetting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings of jars to fetch, by Maven coordinates, and of jars that are files.
PACKAGES, JARS = "spark.jars.packages", "spark.jars"

CONNECTOR = "spark-sql-kafka-0-10"


def kafka_coordinates() -> str:
    """Return the Maven coordinates of Spark's Kafka connector, in the version of the installed PySpark."""
    import pyspark

    return f"org.apache.spark:{CONNECTOR}_2.13:{pyspark.__version__}"


def kafka_format(job: Job) -> Word | None:
    """Return the first format of a job's streams and sinks that is Kafka's, None if none is."""
    formats = [*(stream.format for stream in job.streams), *(sink.format for sink in job.sinks)]
    return next((word for word in formats if word.text.lower() == "kafka"), None)


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


def with_connector(user: Mapping[str, str], job: Job) -> dict[str, str]:
    """Return the user's settings, and with them Spark's Kafka connector if the job needs it.

    It is left out if Spark has it already, or if the user names it, in another version or as a file.
    """
    settings = dict(user)
    if kafka_format(job) is not None and not _names_connector(settings):
        packages = [name for name in settings.get(PACKAGES, "").split(",") if name]
        settings[PACKAGES] = ",".join([*packages, kafka_coordinates()])
    return settings


def _names_connector(settings: Mapping[str, str]) -> bool:
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    named = " ".join(settings.get(key, "") for key in (PACKAGES, JARS, "spark.driver.extraClassPath"))
    return CONNECTOR in named or any(home.glob(f"jars/{CONNECTOR}*.jar"))


def check_connector(job: Job, spark: SparkSession) -> None:
    """Ask Spark for its Kafka connector before anything starts, if the job needs it.

    Raises
    ------
    JobError
        Spark has none.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    at = kafka_format(job)
    if at is None:
        return
    inside: Any = spark
    try:
        source = inside._jvm.org.apache.spark.sql.execution.datasources.DataSource
        source.lookupDataSource("kafka", inside._jsparkSession.sessionState().conf())
    except (PySparkException, Py4JError):
        raise job.script.error(at.start, "Spark has no Kafka connector", how_to_give()) from None


def how_to_give() -> str:
    """Return what a user without the connector can do."""
    return (
        f"give --packages {kafka_coordinates()}, or where there is no network a folder with that jar "
        "and those that it needs: --jars FOLDER"
    )
