"""Aggregation inside the units: the rows of Spark batch, with it and without it, in every scheme and mode."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import trijoin_sql
from trijoin_sql.errors import TriJoinError

from .differential import COLUMNS, Tables

CHAIN = "FROM r JOIN s ON r.i BETWEEN s.i - 1 AND s.i + 1 JOIN t ON s.s = t.s AND s.ti <= t.ti"
CYCLE = "FROM r JOIN s ON ABS(r.si - s.si) < 2 AND r.si > -9 AND s.si > -9 JOIN t ON s.s <= t.s AND r.m = t.m"
BY_KEY = "FROM r JOIN s ON r.f = s.f AND r.bo = s.bo JOIN t ON s.bo = t.bo AND s.f = t.f"
PAIR = "FROM r JOIN s ON r.n BETWEEN s.n - 1 AND s.n"

#: Types whose values are all small enough to be added up.
SUMMED = ("ti", "si", "i", "f", "d", "n")


@pytest.fixture
def tj(spark: SparkSession) -> Iterator[trijoin_sql.TriJoinSession]:
    """A session; our settings are put back afterwards."""
    yield trijoin_sql.TriJoinSession.create(spark)
    spark.conf.unset("spark.trijoin.aggregateInUnits")


def near(rows: Iterable[Any]) -> Counter[str]:
    """Return rows as a bag; sums of floats may differ in their last digits, and 0.0 may be -0.0."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return value if math.isnan(value) or math.isinf(value) else f"{value + 0.0:.10g}"
        return bytes(value) if isinstance(value, bytearray) else value

    return Counter(repr([plain(value) for value in row]) for row in rows)


def said(tj: trijoin_sql.TriJoinSession, sql: str) -> list[dict[str, Any]]:
    """Return what EXPLAIN says about the aggregation of each group."""
    return [group["aggregation"] for group in tj.explain(sql).to_dict()["groups"] if "aggregation" in group]


def stream(frame: DataFrame, checkpoint: Path, mode: str) -> Counter[str]:
    """Run a streaming query over what is there; return its last answer, in update mode for each key in column 0."""
    last: dict[Any, Any] = {}

    def keep(batch: DataFrame, _: int) -> None:
        if mode == "complete":
            last.clear()
        for row in batch.collect():
            last[len(last) if mode == "complete" else repr(row[0])] = row

    writer = frame.writeStream.outputMode(mode).foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    query.stop()
    return near(last.values())


def assert_same(tables: Tables, tj: trijoin_sql.TriJoinSession, sql: str, *, in_units: bool = True) -> Counter[str]:
    tables.use(streaming=False)
    assert [found["in_units"] for found in said(tj, sql)] == [in_units], (sql, said(tj, sql))
    original, ours = tables.spark.sql(sql), tj.sql(sql)
    assert [(f.name, f.dataType) for f in ours.schema] == [(f.name, f.dataType) for f in original.schema], sql
    wanted = near(original.collect())
    assert near(ours.collect()) == wanted, sql
    return wanted


def listing(functions: str, alias: str, columns: Iterable[str]) -> str:
    return ", ".join(f"{function}({alias}.{column})" for column in columns for function in functions.split())


COLUMNS_OF = [name for name in COLUMNS if name != "x"]
QUERIES = [
    f"SELECT COUNT(*), {listing('SUM AVG COUNT', 'r', SUMMED)} {CHAIN}",
    f"SELECT r.s, COUNT(*) AS n, {listing('SUM AVG COUNT', 's', SUMMED)} {CHAIN} GROUP BY r.s",
    f"SELECT {listing('SUM AVG COUNT', 't', SUMMED)}, s.f, s.bo {CHAIN} GROUP BY s.f, s.bo",
    f"SELECT t.ts, {listing('MIN MAX', 'r', COLUMNS_OF)}, COUNT(r.w) {CHAIN} GROUP BY t.ts",
    f"SELECT r.tn, t.w, {listing('MIN MAX', 's', ('s', 'f', 'w'))}, SUM(r.m), AVG(t.d) {CYCLE} GROUP BY 1, 2",
    f"SELECT UPPER(r.s) AS k, year(s.dt), COUNT(*) FILTER (WHERE t.i > 0) AS n, SUM(t.b % 1000), count_if(s.bo) "
    f"{CHAIN} GROUP BY k, year(s.dt) HAVING COUNT(*) > 2 AND MAX(t.i) >= 0 ORDER BY n DESC, k",
    f"SELECT SUM(n) FROM (SELECT s.bo, COUNT(*) AS n {PAIR} GROUP BY s.bo) WHERE n > 1",
    f"SELECT r.bi, SUM(r.n * (1 - r.m)), AVG(r.si + 1), COUNT(s.i, s.d), SUM(CASE WHEN s.bo THEN s.i ELSE 0 END), "
    f"SUM(1), MIN(upper(s.s)), SUM(-s.n), COUNT(1) {PAIR} GROUP BY r.bi",
    f"SELECT COUNT(*), SUM(t.i), MIN(r.s), AVG(r.n) {CHAIN} WHERE r.i > 100 AND t.i < 0",
    f"SELECT r.bo, s.bo {PAIR} GROUP BY r.bo, s.bo",
    f"SELECT COUNT(*), SUM(t.i), MIN(r.s), AVG(s.n) {BY_KEY}",
    f"SELECT t.f, COUNT(*), {listing('SUM AVG COUNT', 'r', SUMMED)} {BY_KEY} GROUP BY t.f",
    f"SELECT r.bo, COUNT(*), SUM(s.i), AVG(t.d) {BY_KEY} AND r.i < t.i GROUP BY r.bo",
    f"SELECT SUM(t.i) {CHAIN} AND concat(r.s, t.s) <> 'aa' AND r.s LIKE t.s GROUP BY r.s, t.s",
    "SELECT COUNT(*), COUNT(t.i), SUM(s.i), MIN(t.s) FROM r JOIN nothing s ON r.i < s.i JOIN t ON s.i = t.i",
]


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_batch(tables: Tables, tj: trijoin_sql.TriJoinSession, number: int) -> None:
    """Every aggregate of every type over every stream, by keys of every stream: the rows and the types of Spark."""
    assert assert_same(tables, tj, QUERIES[number])


LEFT_TO_SPARK = [
    ("SELECT COUNT(DISTINCT r.i), COUNT(*)", "", "needs all values"),
    ("SELECT r.s, collect_list(t.i)[0] IS NULL", " GROUP BY r.s", "COLLECT_LIST is not among"),
    ("SELECT r.s, SUM(r.i + t.i)", " GROUP BY r.s", "several inputs"),
    ("SELECT r.i + t.i, COUNT(*)", " GROUP BY r.i + t.i", "several inputs"),
    ("SELECT COUNT(*)", " WHERE r.i = 3 OR r.s LIKE t.s", "filter by"),
    ("SELECT r.bo, COUNT(*)", " GROUP BY ROLLUP (r.bo)", "ROLLUP"),
    ("SELECT r.bo, SUM(COUNT(*)) OVER ()", " GROUP BY r.bo", "stays with Spark"),
    ("SELECT AVG(r.n), AVG(r.w)", "", "AVG is not computed in units for the type decimal(38,10)"),
    ("SELECT COUNT(1 / r.d)", " WHERE r.d > 0", "could raise an error"),
    ("SELECT /*+ NO_UNIT_AGGREGATE */ COUNT(*)", "", "the hint"),
]


@pytest.mark.parametrize("number", range(len(LEFT_TO_SPARK)))
def test_what_stays_with_spark_says_why(tables: Tables, tj: trijoin_sql.TriJoinSession, number: int) -> None:
    before, after, reason = LEFT_TO_SPARK[number]
    sql = f"{before} {CHAIN}{after}"
    tables.use(streaming=False)
    assert reason in said(tj, sql)[0]["reason"]
    if number < 2:
        assert_same(tables, tj, sql, in_units=False)


def test_the_setting_switches_it_off(tables: Tables, tj: trijoin_sql.TriJoinSession, spark: SparkSession) -> None:
    sql = f"SELECT r.s, COUNT(*), SUM(t.i) {CHAIN} GROUP BY r.s"
    with_it = assert_same(tables, tj, sql)
    spark.conf.set("spark.trijoin.aggregateInUnits", "false")
    assert assert_same(tables, tj, sql, in_units=False) == with_it


def test_predicates_that_only_spark_decides(tables: Tables, tj: trijoin_sql.TriJoinSession) -> None:
    """The kernel has no order for a text and a number: Spark filters the results, one state each."""
    sql = "SELECT s.bo, COUNT(*), COUNT(t.i), SUM(s.n), MAX(r.x) FROM r JOIN s ON r.x = s.i JOIN t ON s.s = t.s"
    assert_same(tables, tj, f"{sql} GROUP BY s.bo")


def test_a_type_that_was_taken_for_another(
    tables: Tables, tj: trijoin_sql.TriJoinSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The SQL above the node would have another type than Spark's, so the aggregation is left to Spark after all."""
    monkeypatch.setattr("trijoin_sql.rewriter.aggregates.two_steps.sum_type", lambda _: "decimal(20,0)")
    assert_same(tables, tj, f"SELECT SUM(r.ti) {PAIR}")
    assert "aggregated by Spark alone" in caplog.text


@pytest.mark.parametrize("argument", ["r.b", "r.w"])
def test_overflow_raises_as_in_spark(tables: Tables, tj: trijoin_sql.TriJoinSession, argument: str) -> None:
    sql = f"SELECT SUM({argument}) FROM r JOIN s ON r.bo = s.bo WHERE r.{argument[-1]} < 0"
    tables.use(streaming=False)
    for session in (tables.spark, tj):
        with pytest.raises(Exception, match=r"(?i)overflow|out.of.range|NUMERIC_VALUE") as raised:
            session.sql(sql).collect()
        assert not isinstance(raised.value, TriJoinError) or raised.value.getSqlState() == "22003"


STREAMED = [
    ("SCHEME('semi_symmetric')", "update", f"SELECT r.s, COUNT(*), SUM(t.i), AVG(s.n), MAX(s.s) {CHAIN} GROUP BY r.s"),
    ("SCHEME('semi_symmetric')", "complete", f"SELECT COUNT(*) AS n, SUM(r.i), MIN(t.ts), SUM(t.d) {CHAIN}"),
    (
        "SCHEME('semi_symmetric'), UNITS(5)",
        "update",
        f"SELECT t.f, COUNT(*), SUM(r.i), AVG(s.n), MAX(r.s) {BY_KEY} GROUP BY t.f",
    ),
    (
        "SCHEME('semi_symmetric'), ROUTING('contrand', 2), UNITS(4)",
        "complete",
        f"SELECT COUNT(*) AS n, SUM(r.i), MIN(t.ts) {BY_KEY}",
    ),
    (
        "SCHEME('semi_symmetric'), ROUTING('random')",
        "update",
        f"SELECT s.f, COUNT(*), SUM(s.i), MIN(t.ts) {BY_KEY} GROUP BY s.f",
    ),
    ("SCHEME('symmetric'), UNITS(3)", "update", f"SELECT t.bo, COUNT(*), SUM(s.n), MIN(r.dt) {CYCLE} GROUP BY t.bo"),
    ("SCHEME('matrix'), UNITS(4)", "update", f"SELECT s.s, COUNT(t.i), SUM(t.m) {CHAIN} GROUP BY s.s"),
    ("UNITS(5)", "update", f"SELECT r.s, COUNT(*), SUM(s.n) {PAIR} GROUP BY r.s"),
    ("SCHEME('symmetric')", "complete", f"SELECT r.s, t.s, COUNT(*) {CYCLE} AND r.s LIKE t.s GROUP BY r.s, t.s"),
]


@pytest.mark.rare
@pytest.mark.parametrize("number", range(len(STREAMED)))
def test_streams(tables: Tables, tj: trijoin_sql.TriJoinSession, tmp_path: Path, number: int) -> None:
    """Spark adds up the micro-batches' groups: the last answer is that of batch."""
    hint, mode, sql = STREAMED[number]
    tables.use(streaming=False)
    wanted = near(tables.spark.sql(sql).collect())
    tables.use(streaming=True)
    hinted = sql.replace("SELECT", f"SELECT /*+ {hint} */", 1)
    assert said(tj, hinted)[0]["in_units"], said(tj, hinted)
    assert said(tj, hinted)[0]["from_packs"] == any(chain in sql for chain in (CHAIN, BY_KEY)) or "matrix" in hint
    found = stream(tj.sql(hinted), tmp_path / "checkpoint", mode)
    assert found == wanted
