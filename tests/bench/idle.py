"""Idle triggers: what a micro-batch costs when it has next to no rows.

Rows come from Spark's ``rate-micro-batch`` source, ten of each stream a trigger: it has no files to list and no log of
its own to write, so only the join's pipeline is measured. (The same query over a folder of files takes longer because
Spark lists them, the more files the longer.) The first triggers of a query, and of a JVM, are several times slower than
later ones, because the JVM compiles what runs often. So `WARM_UP` triggers, and every query's first ten, do not count.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .engines import frame_of
from .live import PATIENCE, Live, in_scratch, medians, wait
from .workloads import Workload, with_event_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows of each stream in a trigger.
ROWS = 10

#: Triggers of each engine, without a pause, before anything is measured.
WARM_UP = 200

#: Triggers of a measured run, and the seconds between their starts.
TRIGGERS, EVERY = 50, 0.5

#: Seconds that a trigger without a pause may take, such as the JVM's first ones on a slow machine.
SLOW = 2.0

#: Triggers at the beginning of a run that do not count.
_FIRST = 10

#: The millisecond at which the source's clock begins; it moves by a second a trigger.
_START = 1_700_000_000_000


def run_idle(spark: SparkSession, workload: Workload, engine: str, rows: int, triggers: int, every: float) -> Live:
    """Run some triggers with next to no rows.

    Parameters
    ----------
    engine
        A scheme of ours, or ``spark``.
    rows
        Rows of a stream; the few rows have its range of keys, and its window.
    triggers
        The number of triggers; more than ten.
    every
        Seconds from the start of one to the start of the next, 0 for no pause.

    Returns
    -------
    Live
        Without latencies; its durations are medians over the triggers after the first ten.
    """

    def run(home: Path) -> Live:
        for number, stream in enumerate(workload.streams):
            source = _source(spark, number, workload.domain(rows))
            with_event_time(workload, source, rows).createOrReplaceTempView(stream)
        frame, _ = frame_of(spark, workload, engine)
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(home / "checkpoint"))
        running = writer.trigger(processingTime=f"{every} seconds").start()
        try:
            done = wait(running, lambda last: last.batchId + 1 >= triggers, PATIENCE + (2 * every + SLOW) * triggers)
        finally:
            running.stop()
        if not done:
            return Live(engine, problem=f"had {len(running.recentProgress)} of {triggers} triggers in time")
        counted = [dict(report.durationMs) for report in running.recentProgress if report.numInputRows][_FIRST:]
        return Live(engine, durations=medians(counted), triggers=len(counted))

    return in_scratch(engine, run)


def _source(spark: SparkSession, number: int, domain: int) -> DataFrame:
    """Return a stream of the workloads' schema with `ROWS` rows a trigger."""
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 1)
    return (
        reader.option("startTimestamp", _START)
        .load()
        .selectExpr(
            "CONCAT('s', value % 1000) AS s",
            "value * 0.5D AS d",
            "value AS l",
            f"CAST(PMOD(HASH(value, {number}), {domain}) AS INT) AS i",
            f"CAST(PMOD(HASH(value, {number}, 1), {domain}) AS INT) AS im",
            "CONCAT('payload-', value) AS str",
        )
    )
