"""Stopped half way and started again from the checkpoint: no row lost, none twice; and only by the same query."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from trijoin_sql.operators.state import warm

import trijoin_sql

from .differential import Tables, bag, cut, random_rows, run_stream

SQL = (
    "SELECT /*+ {hint} */ r.id, s.id, t.id, t.s FROM r JOIN s ON r.i BETWEEN s.i - 1 AND s.i + 1 "
    "JOIN t ON s.s = t.s AND s.n <= t.n"
)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    """Half of three streams; `rest` holds the other half."""
    made = Tables(spark, tmp_path / "tables")
    for number, name in enumerate("rst"):
        made.create(name, cut(random_rows(number + 1, 60)[:30], (5, 15)))
    return made


def add_rest(tables: Tables) -> None:
    for number, name in enumerate("rst"):
        for piece in cut(random_rows(number + 1, 60)[30:], (20, 4)):
            tables.add(name, piece)


def start(tables: Tables, sql: str, checkpoint: Path) -> object:
    """Run what is there with a session object and a plan of its own, as a new driver would."""
    tables.use(streaming=True)
    return run_stream(trijoin_sql.TriJoinSession.create(tables.spark).sql(sql), checkpoint)


@pytest.mark.parametrize(
    ("hint", "forget"),
    [
        ("SCHEME('symmetric'), UNITS(2)", True),
        ("SCHEME('semi_symmetric'), UNITS(3)", False),
        ("SCHEME('semi_symmetric'), UNITS(2)", True),
        ("SCHEME('matrix'), UNITS(4)", True),
        ("SCHEME('non_materializing'), UNITS(2)", True),
    ],
)
def test_stopped_half_way(tables: Tables, tmp_path: Path, hint: str, forget: bool) -> None:
    """With the warm copy on this disk, and without: the state store alone must be enough."""
    sql = SQL.format(hint=hint)
    before = set(warm.root().glob("*"))
    first = start(tables, sql, tmp_path / "checkpoint")
    mine = set(warm.root().glob("*")) - before
    assert mine, "there is no warm copy to lose"
    if forget:
        for directory in mine:
            shutil.rmtree(directory, ignore_errors=True)
    add_rest(tables)
    second = start(tables, sql, tmp_path / "checkpoint")
    tables.use(streaming=False)
    assert first + second == bag(tables.spark.sql(sql).collect())
    assert first
    assert second


@pytest.mark.rare
def test_a_changed_predicate_is_refused_and_a_changed_layout_of_the_text_is_not(tables: Tables, tmp_path: Path) -> None:
    """Spark does not look into our state: old rows would be joined by new rules, silently."""
    sql = SQL.format(hint="UNITS(2)")
    first = start(tables, sql, tmp_path / "checkpoint")
    add_rest(tables)
    with pytest.raises(StreamingQueryException) as caught:
        start(tables, sql.replace("s.n <= t.n", "s.n < t.n"), tmp_path / "checkpoint")
    assert "TRIJOIN_CHECKPOINT_MISMATCH" in str(caught.value)
    assert "condition between s and t" in str(caught.value)
    second = start(tables, sql.replace(" AND ", "\n   and ").replace("JOIN", "join"), tmp_path / "checkpoint")
    tables.use(streaming=False)
    assert first + second == bag(tables.spark.sql(sql).collect())


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.session.timeZone", "America/New_York"),
        ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
    ],
)
def test_settings_that_change_types_in_arrow(tables: Tables, tmp_path: Path, setting: str, value: str) -> None:
    """Time stamps in structs carry the session's zone, which is the machine's if nobody sets it."""
    made = (
        "(SELECT id, i, s, struct(ts, array(ts) AS many, map(s, ts) AS by_name, s) AS nest FROM {0} WHERE s <> '') {0}"
    )
    sql = "SELECT /*+ UNITS(2) */ r.id, s.id, r.nest, s.nest, s.s FROM {} JOIN {} ON r.i BETWEEN s.i - 1 AND s.i + 1"
    sql = sql.format(made.format("r"), made.format("s"))
    first = start(tables, sql, tmp_path / "checkpoint")
    add_rest(tables)
    before = tables.spark.conf.get(setting)
    tables.spark.conf.set(setting, value)
    try:
        second = start(tables, sql, tmp_path / "checkpoint")
        tables.use(streaming=False)
        assert first + second == bag(tables.spark.sql(sql).collect())
    finally:
        tables.spark.conf.set(setting, str(before))
    assert first
    assert second


def test_a_failed_sink_sees_the_same_batch_again(tables: Tables, tmp_path: Path) -> None:
    """The sink fails after the join saved its state; the batch runs again with the same rows, duplicates included."""
    sql = SQL.format(hint="UNITS(2)")
    seen: dict[int, list[object]] = {}

    def keep(frame: object, batch: int) -> None:
        seen.setdefault(batch, []).append(bag(frame.collect()))  # type: ignore[attr-defined]
        if batch == 1 and len(seen[batch]) == 1:
            raise RuntimeError("the disk is full")

    for attempt in range(2):
        tables.use(streaming=True)
        frame = trijoin_sql.TriJoinSession.create(tables.spark).sql(sql)
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        if attempt == 0:
            with pytest.raises(StreamingQueryException, match="disk is full"):
                query.awaitTermination()
        else:
            query.awaitTermination()
    assert len(seen[1]) == 2
    assert seen[1][0] == seen[1][1]
    tables.use(streaming=False)
    total = sum((attempts[-1] for attempts in seen.values()), bag([]))  # type: ignore[misc]
    assert total == bag(tables.spark.sql(sql).collect())
