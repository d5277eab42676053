"""A Spark session for tests and long runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

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
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(home / "local"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    for key, value in {**ours, **settings}.items():
        builder = builder.config(key, value)
    return trijoin_sql.configure(builder).getOrCreate()
