"""Units and inputs that nothing comes for: their state expires all the same, and what they hold back is said."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import trijoin_sql
from trijoin_sql.running.state_report import read_state

from .differential import Tables, bag, run_stream

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
SCHEMA = "k int, ts timestamp"
ARROW = pa.schema([("k", pa.int32()), ("ts", pa.timestamp("us", "UTC"))])


def rows(second: int, keys: range) -> list[dict[str, Any]]:
    return [{"k": key, "ts": START + datetime.timedelta(seconds=second)} for key in keys]


def streams(spark: SparkSession, home: Path, pieces: dict[str, list[list[dict[str, Any]]]]) -> Tables:
    tables = Tables(spark, home)
    for name, some in pieces.items():
        tables.create(name, some, SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", "10 seconds"))
    return tables


def test_units_that_get_no_more_rows_let_theirs_expire(spark: SparkSession, tmp_path: Path) -> None:
    """Hash partitioning sends the later rows to one unit; the others hear of the watermark from their timers alone."""
    sql = "SELECT /*+ UNITS(4) */ r.k, s.ts FROM r JOIN s ON r.k = s.k AND ABS(r.ts - s.ts) <= INTERVAL 20 SECONDS"
    later = [rows(second, range(1)) for second in (500, 510, 520)]
    tables = streams(spark, tmp_path / "tables", {name: [rows(0, range(40)), *later] for name in "rs"})
    tables.use(streaming=False)
    wanted = bag(spark.sql(sql).collect())
    tables.use(streaming=True)
    assert run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), tmp_path / "checkpoint") == wanted
    found = read_state(spark, tmp_path / "checkpoint")
    assert {store.slot for store in found.stores} == set(range(4))
    assert sum(store.rows for store in found.stores) == 2 * len(later)


def test_trap_14_idle_inputs_are_shown_with_what_they_hold_back(spark: SparkSession, tmp_path: Path) -> None:
    """The watermark is the least of all inputs': one that sleeps keeps the others' rows in state."""
    sql = "SELECT r.k, t.ts FROM r JOIN s ON r.k < s.k JOIN t ON s.k < t.k WITHIN 20 SECONDS"
    awake = [rows(100 * second, range(3)) for second in range(6)]
    tables = streams(spark, tmp_path / "tables", {"r": awake, "s": awake, "t": awake[:1]})
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    writer = tj.sql(sql).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    (node,) = {batch.node for batch in tj.metrics(query).batches}
    inputs = {one.alias: one for one in tj.metrics(query).inputs(node)}
    assert [(inputs[alias].idle, inputs[alias].holds_watermark) for alias in "rst"] == [
        (False, False),
        (False, False),
        (True, True),
    ]
    assert inputs["t"].quiet_for == 5
    assert inputs["t"].newest == "2024-01-01T00:00:00Z"
    explained = tj.explain(query)
    (sentence,) = explained.to_dict()["groups"][0]["live"]["idle"]
    assert "it holds the watermark back" in sentence
    assert "t: no rows for 5 micro-batches" in str(explained)
    assert tj.metrics(query).total()["state_rows"] > 3 * 5


@pytest.mark.rare
def test_a_union_whose_one_side_brings_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Spark then drops that side from the plan, and what can be NULL changes; rows of all batches are put together."""

    def arrive(*names: str) -> None:
        for name in names:
            rows = spark.createDataFrame([(at, at % 7, name) for at in range(20)], "id bigint, x int, src string")
            rows.coalesce(1).write.mode("append").parquet(str(tmp_path / name))

    def use(reader: Any) -> None:
        for name in "abs":
            reader.schema("id bigint, x int, src string").parquet(str(tmp_path / name)).createOrReplaceTempView(name)

    sql = (
        "SELECT /*+ UNITS(1) */ r.id, r.src, s.id AS other FROM"
        " (SELECT id, x, src FROM a UNION ALL SELECT id, 3, 'b' FROM b) AS r JOIN s ON ABS(r.x - s.x) < 2"
    )
    found: Counter[Any] = Counter()
    for names in ("abs", "bs", "bs", "as", "b", "s"):
        arrive(*names)
        use(spark.readStream)
        found += run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), tmp_path / "checkpoint")
    use(spark.read)
    assert found == bag(spark.sql(sql).collect())


def test_counters_cost_results_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Behind the join nothing looks at each result for them, and no column is there for them (on Connect both are)."""
    tables = streams(spark, tmp_path / "tables", {name: [rows(0, range(3))] for name in "rst"})
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    frame = tj.sql("SELECT r.k FROM r JOIN s ON r.k < s.k JOIN t ON s.k < t.k")
    plan = frame._jdf.queryExecution().analyzed().toString()  # type: ignore[operator]
    behind = plan.partition("TransformWithStateInPySpark")[0]
    assert "TransformWithStateInPySpark" in plan
    assert not any(word in behind for word in ("CollectMetrics", "Filter", "__trijoin"))
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    assert tj.metrics(running).total()["results"] == 1


def test_rows_that_cannot_join_are_in_the_metrics_and_said_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows without event time, and a column that nobody has; with results that stay those of Spark batch."""
    sql = "SELECT r.k, s.ts FROM r JOIN s ON r.k = s.k AND 10 DIV r.v > s.v AND ABS(r.ts - s.ts) <= INTERVAL 20 SECONDS"
    schema = "k int, v int, ts timestamp"
    arrow = pa.schema([("k", pa.int32()), ("v", pa.int32()), ("ts", pa.timestamp("us", "UTC"))])
    good = [{"k": key, "v": 1 + key % 2, "ts": START} for key in range(6)]
    bad = [{"k": None, "v": 0, "ts": START}, {"k": 1, "v": 1, "ts": None}, {"k": 2, "v": None, "ts": START}]
    tables = Tables(spark, tmp_path / "tables")
    for name, some in {"r": [good, [*good, *bad], [*good, *bad]], "s": [good]}.items():
        tables.create(name, some, schema, arrow, lambda frame: frame.withWatermark("ts", "10 seconds"))
    tables.use(streaming=False)
    wanted = bag(spark.sql(sql).collect())  # a row whose key is NULL divides nothing by 0
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    with caplog.at_level("WARNING", "trijoin_sql"):
        query = tj.sql(sql).writeStream.format("memory").queryName("cannot_join")
        running = query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        running.awaitTermination()
        spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()  # type: ignore[attr-defined]
    assert bag(spark.table("cannot_join").collect()) == wanted
    metrics = tj.metrics(running)
    assert metrics.total()["nulls"] == 6
    lost = metrics.vanished().rows["r"]
    assert (lost["dropped"], lost["columns"]["r.k"], lost["columns"]["r.ts"], lost["time"]) == (6, 2, 2, "r.ts")
    (said,) = (message for message in caplog.messages if "event time" in message)
    assert said.startswith("1 row of r without event time, dropped: r.ts is NULL; ")
    assert any("without event time" in text for text in tj.explain(running).to_dict()["groups"][0]["live"]["vanished"])
