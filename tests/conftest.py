"""Fixtures that all tests share. Most important: one Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import trijoin_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A classic session as `configure` makes it: two cores, four attempts a task, no UI, files in a temporary folder.

    Tests that use it are marked ``spark`` by themselves.
    """
    from pyspark.sql import SparkSession

    home = tmp_path_factory.mktemp("spark")
    builder = (
        SparkSession.builder.master("local[2,4]")
        .appName("trijoin-sql tests")
        .config("spark.driver.memory", "2g")
        # Half of the JVM's processor time would go to a compiler whose work pays off later than a test run lasts.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(home / "local"))
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
    )
    session = trijoin_sql.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whatever uses the session, so that ``-m 'not spark'`` needs no list kept by hand."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
