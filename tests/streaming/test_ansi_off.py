"""With ``spark.sql.ansi.enabled`` off integers wrap around: Spark's rows, at the borders of every type."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import trijoin_sql

from .differential import Tables, bag

TYPES = {"ti": ("tinyint", pa.int8(), 7), "i": ("int", pa.int32(), 31), "b": ("bigint", pa.int64(), 63)}
SCHEMA = "id int, d double, " + ", ".join(f"{name} {ddl}" for name, (ddl, _, _) in TYPES.items())
ARROW = pa.schema([("id", pa.int32()), ("d", pa.float64()), *((name, kind) for name, (_, kind, _) in TYPES.items())])

#: Over columns of one type, whatever it is.
SAME = (
    "r.{c} BETWEEN s.{c} - 1 AND s.{c} + 1",
    "r.{c} < s.{c} + 10",
    "-r.{c} < s.{c}",
    "abs(r.{c} - s.{c}) <= 1",
    "r.{c} + s.{c} > 3",
    "r.{c} - s.{c} < 1.5",
    "10 - abs(r.{c}) <= s.{c}",
)
OTHERS = (
    "CAST(r.b AS INT) < s.i + 1",
    "r.i - s.b < 3",
    "r.ti + 1 < s.i - 1",
    "abs(r.i - s.d) <= 3",
    "CAST(r.i AS BIGINT) - CAST(s.i AS BIGINT) BETWEEN -2 AND 2",
)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Iterator[Tables]:
    made = Tables(spark, tmp_path)
    for name in "rs":
        random = Random(name)
        made.create(name, [[_row(random, number) for number in range(25)]], SCHEMA, ARROW)
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield made
    spark.conf.set("spark.sql.ansi.enabled", before)


def _row(random: Random, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"id": number, "d": random.choice([0.5, -1.0, 3.0])}
    for name, (_, _, bits) in TYPES.items():
        end = 1 << bits
        row[name] = random.choice([-end, -end + 1, -end + 2, end - 1, end - 2, end - 3, 0, 1, -1, 2, None])
    return row


@pytest.mark.rare
def test_integers_wrap_around_as_in_spark(spark: SparkSession, tables: Tables) -> None:
    tables.use(streaming=False)
    tj = trijoin_sql.TriJoinSession.create(spark)
    for condition in chain((text.format(c=name) for name in TYPES for text in SAME), OTHERS):
        sql = f"SELECT r.id, s.id AS sid FROM r JOIN s ON {condition}"
        assert bag(tj.sql(sql).collect()) == bag(spark.sql(sql).collect()), condition


def test_what_cannot_wrap_around_is_still_a_band(spark: SparkSession, tables: Tables) -> None:
    """A wider type holds every difference, so an index may search for it."""
    tables.use(streaming=False)
    tj = trijoin_sql.TriJoinSession.create(spark)

    def kinds(condition: str) -> list[str]:
        (group,) = tj.explain(f"SELECT r.id FROM r JOIN s ON {condition}").to_dict()["groups"]
        return [one["kind"] for edge in group["graph"]["edges"] for one in edge["predicates"]]

    assert kinds("ABS(CAST(r.i AS BIGINT) - CAST(s.i AS BIGINT)) < 3") == ["band"]
    assert kinds("ABS(r.i - s.i) < 3") == ["residual"]
