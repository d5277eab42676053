"""Runs a workload in the benchmark's own Spark session: under our schemes, and as Spark's own cascade."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trijoin_sql.errors import TriJoinError

from .outcome import Outcome
from .process_memory import Peak, python_workers
from .workloads import SCHEMA, Workload, query, with_event_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Name of the observed metric with the number of results, for engines that have no counters.
_COUNTED = "bench"


def frame_of(spark: SparkSession, workload: Workload, engine: str) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return a workload's query over the streams' views: under one of our schemes, or in Spark's own cascade.

    Returns
    -------
    The frame, and a function that reads the counters of its running query (Spark has none).
    """
    from trijoin_sql.session import TriJoinSession

    if engine == "spark":
        return type(spark).sql(spark, query(workload)), None
    session = TriJoinSession.create(spark)
    return session.sql(query(workload, engine)), session.metrics


def run_stream(spark: SparkSession, workload: Workload, folder: Path, engine: str, rows: int) -> Outcome:
    """Run a workload as streams with this many rows each, one file a micro-batch, as fast as possible."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    for stream in workload.streams:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frame = with_event_time(workload, reader.parquet(str(folder / stream)), rows)
        frame.createOrReplaceTempView(stream)
    checkpoint = tempfile.mkdtemp(prefix="trijoin-bench-")
    running = None
    try:
        frame, metrics = frame_of(spark, workload, engine)
        if metrics is None:
            frame = frame.observe(_COUNTED, F.count(F.lit(1)).alias("results"))
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        jvm = spark._jvm
        assert jvm is not None, "a classic session has a JVM"
        pid = int(jvm.java.lang.ProcessHandle.current().pid())
        with Peak(lambda: python_workers(pid)) as peak:
            running = writer.start()
            running.awaitTermination()
    except (PySparkException, TriJoinError) as error:
        return Outcome(engine, problem=str(error).partition("\n")[0][:160])
    finally:
        if running is not None:  # else it makes its folders anew, where SIGTERM has ended the waiting
            with suppress(Exception):
                running.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    reports = [report for report in running.recentProgress if report.numInputRows]
    took = [report.durationMs["triggerExecution"] / 1000 for report in reports[1:]]
    counters = metrics(running).total() if metrics is not None else {}
    results = counters.get("results")
    if metrics is None:
        results = sum(report.observedMetrics[_COUNTED]["results"] for report in reports)
    return Outcome(
        engine,
        sum(took),
        sum(report.numInputRows for report in reports[1:]),
        results,
        tuple(took),
        counters,
        memory=peak.most if metrics is not None else None,
    )
