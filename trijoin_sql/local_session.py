"""A local Spark session for the command line: failure budget, quiet terminal, our settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .config import configure, submitted_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def local_session(app_name: str, *, log: Path | None = None) -> Iterator[SparkSession]:
    """Start a session for the time of a ``with`` block.

    Parameters
    ----------
    app_name
        Name of the application.
    log
        File for what the JVM and its Python workers write to stderr; None leaves it on stderr.

    Notes
    -----
    A master, or any other setting, in ``spark-defaults.conf`` or ``PYSPARK_SUBMIT_ARGS`` wins.
    """
    from pyspark.sql import SparkSession

    submitted = submitted_settings()
    builder = SparkSession.builder.appName(app_name)
    ours = {
        # Four attempts a task: with one, a Python worker that dies takes the query with it.
        "spark.master": os.environ.get("MASTER", "local[*,4]"),
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in ours.items():
        if key not in submitted:
            builder.config(key, value)
    with _stderr_to(log):  # the JVM keeps the stderr that it is started with
        spark = configure(builder).getOrCreate()
    try:
        yield spark
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.stop()


@contextmanager
def _stderr_to(path: Path | None) -> Iterator[None]:
    """Let processes that are started inside the block write their stderr to a file."""
    if path is None:
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
