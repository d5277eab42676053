"""What runs a workload: our schemes and Spark's own cascade on streams, DuckDB in batch (as a yardstick)."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .workloads import SCHEMA, Workload, query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Packages that an engine needs beside ours, in an environment of its own.
PACKAGES = {"duckdb": "duckdb==1.4.4"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of one engine.

    Parameters
    ----------
    engine
        A scheme of ours, or ``"spark"``, ``"duckdb"``.
    seconds
        Of the whole run, without the first micro-batch (which starts Python and compiles code).
    tuples
        Input rows in those seconds.
    results
        Results of the whole run, None where an engine does not count them.
    latencies
        Seconds from the start of each later micro-batch (its tuples have arrived) to its end (its results are out).
    counters
        Of ours, summed over the run.
    problem
        Why there is no result, if there is none.
    """

    engine: str
    seconds: float = 0.0
    tuples: int = 0
    results: int | None = None
    latencies: tuple[float, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    problem: str | None = None

    @property
    def rate(self) -> float:
        """Tuples a second."""
        return self.tuples / self.seconds if self.seconds else 0.0

    def latency(self, quantile: float) -> float | None:
        """Return a quantile of the latencies (nearest rank)."""
        if not self.latencies:
            return None
        ranked = sorted(self.latencies)
        return ranked[min(int(quantile * len(ranked)), len(ranked) - 1)]


def run_scheme(spark: SparkSession, workload: Workload, folder: Path, rows: int, scheme: str) -> Outcome:
    """Run a workload under one of our schemes."""
    from ..session import TriJoinSession

    session = TriJoinSession.create(spark)
    sql = query(workload, rows, scheme)
    return _stream(spark, workload, folder, rows, scheme, lambda: session.sql(sql), session.metrics)


def run_spark(spark: SparkSession, workload: Workload, folder: Path, rows: int) -> Outcome:
    """Run a workload through Spark's own stream-stream joins, where Spark can."""
    sql = query(workload, rows)
    return _stream(spark, workload, folder, rows, "spark", lambda: type(spark).sql(spark, sql), None)


def _stream(
    spark: SparkSession,
    workload: Workload,
    folder: Path,
    rows: int,
    name: str,
    frame: Callable[[], Any],
    metrics: Callable[[Any], Any] | None,
) -> Outcome:
    from pyspark.errors import PySparkException

    for stream in workload.streams:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        reader.parquet(str(folder / stream)).createOrReplaceTempView(stream)
    checkpoint = tempfile.mkdtemp(prefix="trijoin-bench-")
    try:
        running = (
            frame()
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()
    except PySparkException as error:
        return Outcome(name, problem=str(error).partition("\n")[0][:160])
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    reports = [report for report in running.recentProgress if report.numInputRows]
    took = [report.durationMs["triggerExecution"] / 1000 for report in reports[1:]]
    counters = metrics(running).total() if metrics is not None else {}
    return Outcome(
        name,
        sum(took),
        sum(report.numInputRows for report in reports[1:]),
        counters.get("results"),
        tuple(took),
        counters,
    )


def run_duckdb(workload: Workload, folder: Path, rows: int) -> Outcome:
    """Run a workload as one batch join in DuckDB, in an environment of its own."""
    python = environment("duckdb")
    views = "".join(
        f"CREATE TABLE {stream} AS SELECT * FROM read_parquet('{folder / stream}/*.parquet');"
        for stream in workload.streams
    )
    sql = query(workload, rows)
    script = (
        "import duckdb, sys, time\n"
        "connection = duckdb.connect()\n"
        f"connection.execute({views!r})\n"
        "start = time.perf_counter()\n"
        f"count = connection.execute('SELECT count(*), sum(r_l) FROM (' + {sql!r} + ')').fetchone()[0]\n"
        "print(count, time.perf_counter() - start)\n"
    )
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        return Outcome("duckdb", problem=done.stderr.strip().rpartition("\n")[2][:160])
    count, seconds = done.stdout.split()[-2:]
    return Outcome("duckdb", float(seconds), rows * len(workload.streams), int(count))


def environment(engine: str) -> str:
    """Return the Python of an engine's own environment; make it if it is not there."""
    folder = Path(os.environ.get("TRIJOIN_BENCH_DIR", Path.home() / ".cache" / "trijoin-bench")) / engine
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGES[engine]]
        subprocess.run(install, check=True)
    return str(python)


def median(outcomes: list[Outcome]) -> Outcome:
    """Return the run with the median rate of several runs of one engine."""
    good = [outcome for outcome in outcomes if outcome.problem is None]
    if not good:
        return outcomes[0]
    middle = statistics.median_low([outcome.rate for outcome in good])
    return next(outcome for outcome in good if outcome.rate == middle)
