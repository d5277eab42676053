"""What has another value later is no stored key, whatever door it comes by; Spark knows more of it than its names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

import trijoin_sql

from .differential import random_tables

pytestmark = pytest.mark.slow


def packed(frame: DataFrame) -> str:
    """Return what Spark computes before rows are packed, which is stored with them."""
    plan = frame._jdf.queryExecution().analyzed().toString().lower()
    lines = plan.split("\n")
    dispatched = [at for at, line in enumerate(lines) if "dispatch_" in line]
    assert dispatched, "it is our join"
    return "\n".join(line for at in dispatched for line in lines[at : at + 6])


def test_what_has_another_value_later_is_not_stored(spark: SparkSession, tmp_path: Path) -> None:
    """By text and as columns; a user's own function (which Spark refuses in ON) as those that have a name."""
    tables = random_tables(spark, tmp_path)
    spark.udf.register("drawn", F.udf(lambda x: x if random() < 2 else 0, "int").asNondeterministic())
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    r, s = spark.table("r"), spark.table("s")

    def joined(condition: str) -> Callable[[], DataFrame]:
        return lambda: tj.sql(f"SELECT r.id, s.id FROM r, s WHERE {condition} AND r.i <= s.i")

    def framed(*conditions: object) -> Callable[[], DataFrame]:
        return lambda: tj.join({"r": r, "s": s}, on=["r.i <= s.i", *conditions], select=["r.id", "s.id"])

    doors = {
        "drawn(r.i) < s.i": ("drawn", joined("drawn(r.i) < s.i")),
        "unix_timestamp()": ("timestamp", joined("UNIX_TIMESTAMP() - r.i > s.i")),
        "current_date column": ("current_date", framed(F.date_diff(F.current_date(), "r.dt") > F.col("s.i"))),
        "unix_timestamp column": ("timestamp", framed(F.unix_timestamp() - F.col("r.i") > F.col("s.i"))),
        "localtimestamp": ("localtimestamp", joined("DATEDIFF(LOCALTIMESTAMP(), r.dt) + r.i > s.i")),
    }
    for name, (word, door) in doors.items():
        assert word not in packed(door()), name
    literal = tj.sql("SELECT r.id, '__trijoin_1' AS text FROM r JOIN s ON r.i < s.i")
    assert "__trijoin_1 AS text" in literal._jdf.queryExecution().analyzed().toString(), "the user's, not our name"
