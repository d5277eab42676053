"""A Spark session for tests and long runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

import trijoin_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_session(home: Path, name: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a classic session as `configure` makes it: two cores, four attempts a task, no UI, files in a folder.

    Parameters
    ----------
    home
        The folder.
    name
        Of the application.
    settings
        Further ones.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,4]").appName(f"trijoin-sql {name}")
    ours = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(home / "local"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.trijoin.tables": "all",  # joins of tables by equalities alone are compared with Spark's, too
    }
    for key, value in {**ours, **settings}.items():
        builder = builder.config(key, value)
    return trijoin_sql.configure(builder).getOrCreate()


def quick_session(home: Path, name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return a `local_session` for many short queries, in a JVM of its own that is set up for them.

    Half of the JVM's processor time would go to a compiler whose work pays off later than a test run lasts. Without it
    the JVM takes 48 MiB for code, which Spark's generated classes fill; then it would stop compiling. Two such
    processes share two cores, so one thread collects.
    """
    java = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xmn512m -XX:MetaspaceSize=512m"
    ours = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": java}
    with compiled_pyspark(home / "home"):
        session = local_session(home, name, {**ours, **(settings or {})})
    session.sparkContext.setLogLevel("OFF")
    return session


@contextmanager
def compiled_pyspark(home: Path) -> Iterator[None]:
    """Let a JVM that starts in here give its Python workers the installed PySpark, not Spark's copy in a zip file.

    That has no bytecode, so each new process compiles anew what it imports: 1.5 s for each stage of each query that
    starts, of 2 s. It is the same code otherwise. Whoever has another Spark in ``SPARK_HOME`` keeps it.

    Parameters
    ----------
    home
        A folder for what Spark then takes for its own: links to the installed package, but for ``python/lib``.
    """
    if "SPARK_HOME" in os.environ:
        yield
        return
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]
