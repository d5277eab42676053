"""Self joins: Spark reads a source once for all of its aliases, and the rows are those of batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)
from pyspark.sql.streaming.query import StreamingQuery
from trijoin_sql.operators.compile import inputs

import trijoin_sql

from .differential import Bag, Tables, bag, cut, random_rows, run_stream

pytestmark = pytest.mark.slow

#: By name: queries over one table, whose aliases differ in filters, keys and columns.
QUERIES = {
    "three aliases": """\
SELECT a.id x, b.s y, c.id z FROM r a JOIN r b ON ABS(a.si - b.si) < 2 JOIN r c ON b.i <= c.i AND c.i < b.i + 2""",
    "filters of each": """\
SELECT a.id x, b.d y, c.x z FROM r a JOIN r b ON a.si + 1 = b.i JOIN r c ON c.si = b.i
WHERE a.si < 3 AND b.si <> 0 AND c.si <> 0 AND 100 / c.si > 1""",
    "filters with something in common that may fail": """\
SELECT a.id x, b.id y FROM r a JOIN r b ON a.si + 1 = b.si
WHERE a.i <> 0 AND 100 / a.i > 1 AND b.i <> 0 AND 100 / b.i < 60""",
    "a filter of one": "SELECT a.id x, b.n y FROM r a JOIN r b ON a.n BETWEEN b.n - 1 AND b.n + 1 WHERE a.bo",
    "what fails on others' rows": """\
SELECT a.id x, b.id y FROM r a JOIN r b ON 6 / a.i < b.si AND b.si < a.i WHERE a.i <> 0""",
    "derived tables": """\
SELECT a.id x, b.big y FROM (SELECT id, si, upper(s) big FROM r WHERE i > 0) a
JOIN (SELECT id, si, upper(s) big FROM r WHERE i > 0) b ON a.si < b.si AND b.big <> a.big""",
    "a CTE": """\
WITH p AS (SELECT *, si * 2 AS k FROM r)
SELECT a.id x, b.id y FROM p a JOIN p b ON a.k < b.si AND a.id <> b.id""",
    "another table": """\
SELECT a.id x, b.id y, c.id z FROM r a JOIN s c ON a.si < c.si JOIN r b ON b.i = c.i AND b.si < a.si""",
    "left": """\
SELECT a.id x, b.id y FROM r a LEFT JOIN r b ON a.ts <= b.ts AND b.ts < a.ts + INTERVAL 1 HOUR AND b.i = 2""",
    "left, with conditions of one side that guard others": """\
SELECT a.id x, b.id y FROM r a LEFT JOIN r b ON a.i <> 0 AND 6 / a.i > 1 AND 6 / a.i + a.si <= b.si + 6
AND a.ts <= b.ts AND b.ts < a.ts + INTERVAL 1 HOUR""",
    "aggregated": """\
SELECT a.si, COUNT(*) n, SUM(c.i) m FROM r a JOIN r b ON a.si < b.si JOIN r c ON c.i = b.i GROUP BY a.si""",
}


def small(seed: int, count: int) -> list[dict[str, Any]]:
    """Return random rows without the numbers whose differences overflow."""
    return [{**row, "si": 4 if row["si"] == -32768 else row["si"]} for row in random_rows(seed, count)]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    made = Tables(spark, tmp_path / "in")
    made.create("r", cut(small(5, 60), (25, 20)))
    made.create("s", cut(small(6, 20), (12,)))
    return made


def batch(tables: Tables, sql: str) -> Bag:
    tables.use(streaming=False)
    return bag(tables.spark.sql(sql).collect())


@pytest.mark.parametrize("name", QUERIES)
def test_the_rows_are_those_of_batch(spark: SparkSession, tables: Tables, tmp_path: Path, name: str) -> None:
    """Of tables and of streams; a stream of 60 rows brings 60, not 60 for each alias."""
    sql = QUERIES[name]
    expected = batch(tables, sql)
    assert expected
    tj = trijoin_sql.TriJoinSession.create(spark)
    assert bag(tj.sql(sql).collect()) == expected
    tables.views = dict.fromkeys("rs", lambda frame: frame.withWatermark("ts", "90 days"))
    tables.use(streaming=True)
    read: list[int] = []

    def look(query: StreamingQuery) -> None:
        read.append(sum(progress.numInputRows for progress in query.recentProgress))

    found = run_stream(tj.sql(sql), tmp_path / "checkpoint", "complete" if name == "aggregated" else "append", look)
    if name.startswith("left"):  # rows without a partner wait for the watermark
        assert found <= expected
        assert all(row.endswith("None]") for row in expected - found)
    else:
        assert found == expected
    assert read == [80 if name == "another table" else 60]


DRAWN = ("(SELECT *, rand() AS u FROM r)", "(SELECT *, 1 AS u FROM r TABLESAMPLE (50 PERCENT))")


@pytest.mark.parametrize("relation", DRAWN)
def test_aliases_that_stand_for_different_rows_are_read_apart(
    spark: SparkSession, tables: Tables, relation: str
) -> None:
    """Spark batch draws for each alias; one draw for both would give rows that no batch query gives."""
    tables.use(streaming=False)
    frame = trijoin_sql.TriJoinSession.create(spark).sql(
        f"SELECT a.id, a.u, b.id, b.u FROM {relation} a JOIN {relation} b ON a.si < b.si AND b.si < a.si + 3"
    )
    assert dispatching(frame) == ["dispatch_a", "dispatch_b"]


@pytest.mark.parametrize("guarded", [True, False])
def test_a_function_in_python_is_called_behind_the_filters_alone(
    spark: SparkSession, tables: Tables, tmp_path: Path, guarded: bool
) -> None:
    """Spark calls it for all rows that it reads, whatever IF is around it."""
    spark.udf.register("six_by", lambda number: 6 // (number or 0) if guarded else number and number + 1, "int")
    where = "WHERE a.i <> 0 AND b.si > 0 AND six_by(b.si) > 0" if guarded else ""
    sql = f"SELECT a.id x, b.id y FROM r a JOIN r b ON six_by(a.i) < b.si AND b.si < six_by(a.i) + 3 {where}"
    expected = batch(tables, sql)
    assert expected
    tables.use(streaming=True)
    frame = trijoin_sql.TriJoinSession.create(spark).sql(sql)
    assert dispatching(frame) == (["dispatch_a", "dispatch_b"] if guarded else ["dispatch_a_b"])
    assert run_stream(frame, tmp_path / "checkpoint") == expected


def dispatching(frame: DataFrame) -> list[str]:
    """Return the names of the functions that read, in Spark's plan."""
    words = frame._jdf.queryExecution().analyzed().toString().split()  # type: ignore[operator]
    return sorted({word.partition("(")[0] for word in words if word.startswith("dispatch_")})


def hourly(frame: DataFrame) -> DataFrame:
    """Return rows that an operator with state makes."""
    days = frame.withWatermark("ts", "1 second").groupBy(F.window("ts", "1 hour").alias("hour"), "si")
    return days.agg(F.count("*").alias("n")).selectExpr("hour.start AS ts", "si", "n")


@pytest.mark.parametrize("stateful", [False, True])
def test_a_checkpoint_from_before_goes_on(
    spark: SparkSession, tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stateful: bool
) -> None:
    """It has an offset for each alias, and Spark takes no other number: `resuming` reads as often as before."""
    tables.views = {"r": hourly if stateful else lambda frame: frame, "s": lambda frame: frame}
    sql = f"SELECT a.{'n' if stateful else 'id'} x, b.si y FROM r a JOIN r b ON a.si < b.si AND b.si < a.si + 3"
    tj, checkpoint = trijoin_sql.TriJoinSession.create(spark), tmp_path / "checkpoint"
    with monkeypatch.context() as before:
        before.setattr(inputs, "_read_together", lambda *_: None)
        tables.use(streaming=True)
        found = run_stream(tj.sql(sql), checkpoint)
    (file,) = (checkpoint / "trijoin").glob("joins-*.json")
    body = json.loads(file.read_text())
    for join in body["joins"]:
        for one in join["stored"]:
            del one["together"]
    file.write_text(json.dumps(body))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    tables.add("r", small(7, 20))
    tables.use(streaming=True)
    if not stateful:
        changed = r"read together with a was absent and is now b\. An older version .*: plan the query in tj\.resuming"
        with pytest.raises(Exception, match=changed):
            run_stream(tj.sql(sql), checkpoint)
    with tj.resuming(str(checkpoint)):
        frame = tj.sql(sql)
    assert dispatching(frame) == ["dispatch_a", "dispatch_b"]
    found += run_stream(frame, checkpoint)
    if not stateful:
        assert found == batch(tables, sql)
    with tj.resuming(str(checkpoint)):  # the record of the second start is like the first
        assert dispatching(tj.sql(sql)) == ["dispatch_a", "dispatch_b"]
    assert dispatching(tj.sql(sql)) == ["dispatch_a_b"]


def test_delays_of_aliases_may_differ_and_change_at_a_restart(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    """As in Spark, which goes by the longest of them; the sources of a checkpoint are as many as before."""
    relation = "STREAM r WATERMARK ts DELAY OF INTERVAL {} DAYS AS"
    sql = f"SELECT a.id x, b.id y FROM {relation} a JOIN {relation} b ON a.si < b.si WITHIN 1 HOUR"
    within = "AND a.ts BETWEEN b.ts - INTERVAL 1 HOUR AND b.ts + INTERVAL 1 HOUR"
    tj, checkpoint = trijoin_sql.TriJoinSession.create(spark), tmp_path / "checkpoint"
    found: Bag = Bag()
    watermarks = []

    def look(query: StreamingQuery) -> None:
        watermarks.append(query.recentProgress[-1].eventTime["watermark"][:10])

    for number, delays in enumerate([(90, 90), (80, 95), (99, 91)]):
        tables.add("r", small(7 + number, 20))
        tables.use(streaming=True)
        frame = tj.sql(sql.format(*delays))
        assert dispatching(frame) == ["dispatch_a_b"]
        found += run_stream(frame, checkpoint, look=look)
    assert found == batch(tables, f"SELECT a.id x, b.id y FROM r a JOIN r b ON a.si < b.si {within}")
    assert watermarks[0] == "2024-01-01"
