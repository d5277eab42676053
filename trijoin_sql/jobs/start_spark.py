"""The Spark session of a job: our settings, the user's above them, and a quiet terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..doctor import check_java
from ..errors import InvalidSettingError, UnavailableError
from ..session import TriJoinSession
from ..spark.config import configure, submitted_settings
from ..spark.liberties import JVM_FLAGS
from ..spark.quiet import quiet_jvm, quiet_python
from ..spark.versions import streaming_class
from .formats import CHECKPOINT
from .jars import PACKAGES, how_to_give, needed, start_settings, with_packages
from .paths import local_path
from .statements import Job


class SparkStartError(Exception):
    """Spark does not start, and the reason is neither in the job file nor in our code."""


@contextmanager
def job_session(
    job: Job, settings: Mapping[str, str], show: Callable[[str], None] | None = None
) -> Iterator[TriJoinSession]:
    """Start Spark for a job, and stop it after the block; ``show`` takes the lines of Spark's log.

    Raises
    ------
    JobError
        A format of the job needs a package that is not available.
    InvalidSettingError
        Spark does not know the master.
    SparkStartError
        Spark does not start: no Java, a setting that it refuses.
    """
    user = with_packages({**submitted_settings(), **start_settings(job), **settings}, job)
    builder = SparkSession.builder
    for key, value in {**_defaults(user, job), **user}.items():
        builder.config(key, value)
    with ExitStack() as stack:
        if show is None:
            stack.enter_context(quiet_python())
        with quiet_jvm(show, user) as lines:
            try:
                spark = configure(builder).getOrCreate()
                session = TriJoinSession.create(spark)
            except UnavailableError as error:
                raise SparkStartError(f"Spark does not start: {error.parameters['reason']}") from None
            except (PySparkException, Py4JError) as error:
                raise _start_error(error, list(lines), job, user) from None
        try:
            yield session
        finally:
            for query in spark.streams.active:
                query.stop()
            spark.stop()


def _defaults(user: Mapping[str, str], job: Job) -> dict[str, str]:
    """Return the Spark settings for a command line, which a user's own settings override."""
    in_real_time = any(sink.in_real_time for sink in job.sinks)  # all tasks have to run at once, however many cores
    master = user.get("spark.master") or os.environ.get("MASTER") or f"local[{16 if in_real_time else '*'},4]"
    settings = {
        "spark.master": master,
        "spark.app.name": f"trijoin-sql {Path(job.script.path).name}",
        "spark.log.level": "WARN",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.memory": "2g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
    if in_real_time:  # what runs for each row has to be compiled as well as it can
        settings[f"spark.trijoin.liberties.{JVM_FLAGS}"] = "false"
    checkpoints = (sink.options.text(CHECKPOINT) for sink in job.sinks)
    elsewhere = next((text for text in checkpoints if text and local_path(text) is None), None)
    if elsewhere is not None:  # the manager for local disks is not for object stores
        manager = streaming_class("checkpointing.FileContextBasedCheckpointFileManager", __version__)
        settings["spark.sql.streaming.checkpointFileManagerClass"] = manager
    return settings


def _start_error(error: Exception, lines: Sequence[str], job: Job, user: Mapping[str, str]) -> Exception:
    said = "\n".join(lines)
    packages = user.get(PACKAGES, "")
    unfound = re.findall(r"(?:unresolved dependency|download failed): ([\w.-]+)#([\w.-]+);([\w.-]+)", said)
    if unfound:
        names = list(dict.fromkeys(":".join(name) for name in unfound))
        detail = f"{', '.join(names)} could not be fetched from Maven's repositories"
        for word, package in needed(job):
            if any(package.stem in name for name in names):
                return job.script.error(word.start, f"{package.title} is missing: {detail}", how_to_give(package))
        return InvalidSettingError(PACKAGES, packages, detail)
    text = str(error)
    if "Master" in text or "Master must" in said:
        return InvalidSettingError(
            "spark.master", user.get("spark.master", ""), "Spark knows local[N,4], spark://..., yarn, k8s://..."
        )
    while (cause := getattr(error, "cause", None)) is not None:  # Spark's outer exceptions say little
        error, text = cause, str(cause)
    if "JAVA_GATEWAY_EXITED" in text:
        if (java := check_java()).level == "problem":
            return SparkStartError(f"Spark does not start: {java.text}")
        telling = [line for line in lines if line.strip() and not re.search(r"WARN|log4j|\bat |Picked up", line)]
        text = "; ".join(telling[:2]) or "Java ends at once"
    return SparkStartError(f"Spark does not start: {text.partition(chr(10))[0].strip()}")
