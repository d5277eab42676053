"""A window of event time above a join in append mode: each closed window once, with Spark batch's own numbers."""

from __future__ import annotations

import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import trijoin_sql

from .differential import Tables, bag, run_stream

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
SCHEMA = "id bigint, x int, ts timestamp"
ARROW = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("ts", pa.timestamp("us", "UTC"))])
BATCHES, ROWS, STEP, DELAY = 8, 12, 10, 15

CYCLIC = "FROM r JOIN s ON ABS(r.x - s.x) <= 3 JOIN t ON t.x >= s.x AND t.x <= r.x + 2 WITHIN 12 SECONDS"
CHAIN = "FROM r JOIN s ON ABS(r.x - s.x) <= 3 JOIN t ON t.x >= s.x WITHIN 12 SECONDS"
LATEST = "greatest(r.ts, s.ts, t.ts)"


def streams(spark: SparkSession, home: Path) -> Tables:
    """Three streams with rows up to `DELAY` seconds late, the watermark on their heels, and a last row far ahead."""
    tables = Tables(spark, home)
    for name in "rst":
        random = Random(name)
        pieces: list[list[dict[str, Any]]] = []
        for batch in range(BATCHES):
            seconds = [batch * STEP + STEP - random.random() * (STEP + DELAY - 1) for _ in range(ROWS)]
            pieces.append([row(random, max(second, 0.0)) for second in [*seconds, batch * STEP + STEP]])
        pieces.append([row(random, BATCHES * STEP + 500)])
        tables.create(name, pieces, SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", f"{DELAY} seconds"))
    return tables


def row(random: Random, second: float) -> dict[str, Any]:
    return {
        "id": random.randrange(1000),
        "x": random.randrange(12),
        "ts": START + datetime.timedelta(milliseconds=int(second * 1000)),
    }


@pytest.mark.rare
@pytest.mark.parametrize(
    ("hint", "join"),
    [
        ("SCHEME('symmetric'), UNITS(2)", CYCLIC),
        ("SCHEME('semi_symmetric'), UNITS(2)", CHAIN),
        ("SCHEME('tree'), UNITS(2)", CHAIN),
        ("SCHEME('tree(t, s, r)'), UNITS(2)", CHAIN),
        ("SCHEME('non_materializing'), UNITS(2)", CHAIN),
    ],
    ids=["cyclic", "chain in two stages", "chain of stored results", "the last two first", "three stages"],
)
def test_windows_of_results(spark: SparkSession, tmp_path: Path, hint: str, join: str) -> None:
    """Rows late but above the watermark make results above it: none kills the query, none is lost."""
    sql = f"SELECT /*+ {hint} */ window({LATEST}, '20 seconds') AS w, count(*) AS n, min(r.id) AS low {join} GROUP BY 1"
    tables = streams(spark, tmp_path / "tables")
    tables.use(streaming=False)
    ahead = (START + datetime.timedelta(seconds=BATCHES * STEP + 100)).isoformat()
    wanted = bag(spark.sql(f"SELECT * FROM ({batch(join, sql)}) WHERE w.end < TIMESTAMP'{ahead}'").collect())
    tables.use(streaming=True)
    found = run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), tmp_path / "checkpoint")
    assert found == wanted
    assert len(found) >= 4


def batch(join: str, sql: str) -> str:
    """Return the query for Spark itself, which does not know WITHIN."""
    pairs = (("r", "s"), ("s", "t"), ("r", "t"))
    near = " AND ".join(
        f"{a}.ts BETWEEN {b}.ts - INTERVAL 12 SECONDS AND {b}.ts + INTERVAL 12 SECONDS" for a, b in pairs
    )
    return sql.replace(join, join.replace("WITHIN 12 SECONDS", f"WHERE {near}"))


def test_nested_columns_and_event_time_outside_of_a_window(spark: SparkSession, tmp_path: Path) -> None:
    """The same expression as a plain column is what it is in batch."""
    sql = f"SELECT r.id, {LATEST} AS at, array(s.id) AS ids {CYCLIC}"
    tables = streams(spark, tmp_path / "tables")
    tables.use(streaming=False)
    wanted = bag(spark.sql(batch(CYCLIC, sql)).collect())
    tables.use(streaming=True)
    assert run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), tmp_path / "checkpoint") == wanted
