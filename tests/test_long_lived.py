"""A driver that lives for months: what has ended leaves nothing behind."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import DataFrame, SparkSession
from trijoin_sql.operators.spec import number_of
from trijoin_sql.operators.task import reports
from trijoin_sql.rewriter.sql.dialect import parse_expression

import trijoin_sql
from trijoin_sql.running import known_joins, listener

pytestmark = pytest.mark.spark


def until(true: Callable[[], bool]) -> bool:
    """Wait, at most half a minute, until something holds that other threads do."""
    end = time.monotonic() + 30
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("sink", ["noop", "foreachBatch"])
def test_a_query_that_has_ended_leaves_no_thread_and_no_descriptor(spark: SparkSession, sink: str) -> None:
    """Each thread of the JVM that calls Python opens a connection: 1,024 after 17 hours of a start a minute."""
    listener.listen(spark)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()

    def run() -> None:
        writer = rows.writeStream.trigger(availableNow=True)
        writer = writer.format("noop") if sink == "noop" else writer.foreachBatch(lambda frame, _: frame.collect())
        writer.start().awaitTermination()

    run()
    bus = spark.sparkContext._jsc.sc().listenerBus()  # type: ignore[union-attr]
    bus.waitUntilEmpty()
    held = [one for one in listener._listeners.values() if one.spark is spark or one.connections]
    assert until(lambda: not any(one.connections for one in held))
    threads, files = threading.active_count(), descriptors()
    for _ in range(4):
        run()
    bus.waitUntilEmpty()
    assert until(lambda: threading.active_count() <= threads)
    assert descriptors() <= files


@pytest.fixture
def streams(spark: SparkSession) -> Iterator[SparkSession]:
    """Two streams as views in a session of their own."""
    own = spark.newSession()
    for name in "rs":
        stream = own.readStream.format("rate").load().withWatermark("timestamp", "1 second")
        stream.createOrReplaceTempView(name)
    yield own
    for name in ("r", "s", "near"):
        own.catalog.dropTempView(name)


@pytest.mark.rare
def test_a_statement_that_nothing_can_run_any_more_is_forgotten(streams: SparkSession) -> None:
    """All of our tables, and PySpark's. A view keeps its statement, and so does a DataFrame made from another."""
    tj = trijoin_sql.TriJoinSession.create(streams)

    def near(width: int) -> DataFrame:
        sql = f"SELECT r.value, s.value AS other FROM r JOIN s ON ABS(r.value - s.value) < {width}"
        return tj.sql(sql, late_rows=width % 2 == 0)

    near(1).createOrReplaceTempView("near")
    kept = near(2).where("other > 5")
    view, frame = (tj.explain(one) for one in (streams.table("near"), kept))
    alive = {number_of(key) for key in reports.known_keys()}
    held = [near(width) for width in range(3, 11)]  # what nobody holds may go at any moment, before it is counted too
    gone = {number_of(key) for key in reports.known_keys()} - alive
    assert len(gone) == 8
    aids = {found.aid for key, found in reports._accumulators.items() if number_of(key) in gone}
    assert aids <= _accumulatorRegistry.keys()
    held.clear()

    def forgotten() -> bool:
        gc.collect()
        streams._jvm.java.lang.System.gc()  # type: ignore[union-attr]
        near(11)
        return not gone & {number_of(key) for key in reports.known_keys()}

    assert until(forgotten)
    assert not gone & known_joins.known_numbers()
    assert not gone & {number for number in tj.statements.compiled if number is not None}
    assert not aids & _accumulatorRegistry.keys()
    assert tj.explain(streams.table("near")).to_dict() == view.to_dict()
    assert tj.explain(kept).to_dict() == frame.to_dict()
    for one in (streams.table("near"), kept):
        keys = listener.join_keys(one._jdf.queryExecution().analyzed())
        assert keys
        assert all(known_joins.known_join(key) is not None for key in keys)


def test_cached_trees_are_few() -> None:
    """Each takes 12 KB."""
    assert (parse_expression.cache_info().maxsize or 0) <= 1024
