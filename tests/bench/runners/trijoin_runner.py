"""A version of TriJoin SQL: a workload's query over streams, by what every version has.

``run`` serves the benchmark's own session as it is. As a script, in the environment of a version, it answers until its
input ends: a line with a JSON object asks for a run, a line answers. Its one argument is the session's settings.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

#: Name of the observed metric with the number of results, for Spark, which has no counters.
_COUNTED = "bench"

#: How Spark's own joins of streams keep state. Its default is old; each Spark knows some of these, the best one first.
_JOIN_STATE = "spark.sql.streaming.join.stateFormatVersion"
_JOIN_STATES = ("4", "3", "2")

#: Seconds between two checks while waiting for a query.
LOOK = 0.1


def session(settings: Mapping[str, str]) -> Any:
    """Return a Spark session that this version has configured."""
    from pyspark.sql import SparkSession

    import trijoin_sql

    builder: Any = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = trijoin_sql.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def jvm(spark: Any) -> int:
    """Return the process id of a session's JVM."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


def compiling(spark: Any) -> Callable[[], float]:
    """Return a function that returns the milliseconds of compilation in the session's JVM, over all threads."""
    bean = spark._jvm.java.lang.management.ManagementFactory.getCompilationMXBean()
    return lambda: float(bean.getTotalCompilationTime())


def run(spark: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a query to the end of its streams, or for some micro-batches, or once over tables.

    Parameters
    ----------
    request
        ``streams``: the name of each with its ``format``, ``options``, ``schema``, the ``columns`` that are selected
        and a ``watermark`` (the latter may be None). ``sql``, and ``plain`` if it is Spark's own to run. The output
        ``mode`` and the ``trigger`` as PySpark takes them, ``checkpoint`` (a new folder), ``batches`` (None: until its
        streams end) and the
        ``seconds`` that these may take. With ``tables`` the streams are tables, and the query may take that many
        seconds.

    Returns
    -------
    The number of ``results``, the ``counters`` of ours, the rows that each of its ``slots`` keeps, the ``batches`` that
    have run, and of those with rows the
    ``reports``: how many rows, and the milliseconds of each part by Spark's names.
    """
    if request.get("tables"):
        return _run_tables(spark, request)
    for name, stream in request["streams"].items():
        reader = spark.readStream.format(stream["format"]).options(**stream["options"])
        frame = (reader.schema(stream["schema"]) if stream["schema"] else reader).load().selectExpr(*stream["columns"])
        (frame.withWatermark(*stream["watermark"]) if stream["watermark"] else frame).createOrReplaceTempView(name)
    frame, metrics = frame_of(spark, request["sql"], request["plain"])
    writer = frame.writeStream.format("noop").option("checkpointLocation", request["checkpoint"])
    running = writer.outputMode(request["mode"]).trigger(**request["trigger"]).start()
    try:
        if request["batches"] is None:
            running.awaitTermination()
        else:
            wait(running, lambda last: last.batchId + 1 >= request["batches"], request["seconds"])
    finally:
        with suppress(Exception):  # else it makes its folders anew, where SIGTERM has ended the waiting
            running.stop()
    reports = [report for report in running.recentProgress if report.numInputRows]
    found = metrics(running) if metrics else None
    counters = found.total() if found else {}
    kept = {
        (batch.node, slot["slot"]): slot["state_rows"]
        for batch in (found.batches if found else ())
        for slot in batch.slots
    }
    counted = counters.get("results") if metrics else sum(one.observedMetrics[_COUNTED]["results"] for one in reports)
    return {
        "results": counted,
        "counters": dict(counters),
        "slots": list(kept.values()),
        "batches": len(running.recentProgress),
        "reports": [{"rows": report.numInputRows, "took": dict(report.durationMs)} for report in reports],
    }


def _run_tables(spark: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    rows = 0
    for name, table in request["streams"].items():
        frame = spark.read.format(table["format"]).load(table["options"]["path"])
        rows += frame.count()
        frame.selectExpr(*table["columns"]).createOrReplaceTempView(name)
    began, counted = time.perf_counter(), Observation()
    over = threading.Timer(request["tables"], spark.sparkContext.cancelAllJobs)
    over.start()
    try:
        found = frame_of(spark, request["sql"], request["plain"])[0].observe(counted, F.count(F.lit(1)).alias(_COUNTED))
        found.write.format("noop").mode("overwrite").save()
        results = counted.get[_COUNTED]
    except Exception:
        if over.is_alive():
            raise
        results = None
    finally:
        over.cancel()
    took = {"triggerExecution": 1000 * (time.perf_counter() - began)}
    return {"results": results, "counters": {}, "slots": [], "batches": 1, "reports": [{"rows": rows, "took": took}]}


def frame_of(spark: Any, sql: str, plain: bool) -> tuple[Any, Callable[[Any], Any] | None]:
    """Return a query over the streams' views: joined by us, or in Spark's own cascade.

    Returns
    -------
    The frame, and a function that reads the counters of its running query (Spark has none).
    """
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    import trijoin_sql

    if plain:
        use_newest_join_state(spark)
        frame = type(spark).sql(spark, sql)
        return frame.observe(_COUNTED, F.count(F.lit(1)).alias("results")), None
    tj = trijoin_sql.TriJoinSession.create(spark)
    return tj.sql(sql), tj.metrics


def use_newest_join_state(spark: Any) -> None:
    """Give Spark's own joins of streams the newest state that this Spark has; its merges are the newest anyway."""
    for version in _JOIN_STATES:
        with suppress(Exception):  # this Spark takes no such value
            spark.conf.set(_JOIN_STATE, version)
            return


def wait(running: Any, done: Callable[[Any], bool], seconds: float) -> bool:
    """Wait until a query has reached a point, or failed, or the time is over; return whether it has.

    Parameters
    ----------
    done
        Checks the last progress report, each once. Asking for all reports, and
        often, slows down the measured query: PySpark fetches each with a call and some JSON.
    """
    until = time.monotonic() + seconds
    seen: tuple[int, str] | None = None
    there = False
    while not there:
        active, last = running.isActive, running.lastProgress  # in this order: the last report comes before the end
        if last is not None and seen != (last.batchId, last.timestamp):
            seen = (last.batchId, last.timestamp)
            there = done(last)
        if not active or time.monotonic() > until:
            break
        time.sleep(LOOK)
    error = running.exception()
    if error is not None:
        raise error
    return there


def main(settings: Mapping[str, str]) -> None:
    """Answer requests until the input ends; a query's error is an answer."""
    spark = session(settings)
    compiled = compiling(spark)
    print(json.dumps({"jvm": jvm(spark)}), flush=True)
    for line in sys.stdin:
        try:
            answer = run(spark, json.loads(line))
        except Exception as error:  # of whatever class this version has
            answer = {"problem": str(error).partition("\n")[0] or type(error).__name__}
        print(json.dumps({**answer, "compiled": compiled()}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
