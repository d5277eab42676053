"""Latency: rows arrive at a fixed rate, and each result is timed from the arrival of its last tuple to its emission.

A stream's stored rows are there first. Then a file for each stream appears every tenth of a second, as another process
would drop it, and the query takes whatever is there, micro-batch after micro-batch. A result's tuples show from which
files they came (``l`` counts rows), so the youngest of them shows when the result could first be known. The result is
out when its micro-batch has ended, with everything committed. Spark's own `observe` counts results by file on the way
to a ``noop`` sink, so nothing else has to run. Counting takes Spark longer than joining if a tuple has
dozens of results; then only a part of them is timed.

Only a workload with a window is in a steady state: without one, the state and the cost of a tuple grow.
"""

from __future__ import annotations

import datetime
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from trijoin_sql.errors import TriJoinError

from .outcome import StoppedError
from .processes import Cpu
from .runners.trijoin_runner import frame_of, wait
from .workloads import SCHEMA, Workload, query, table, with_event_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Name of the observed metric: results by the file of their last tuple.
ARRIVALS = "arrivals"

#: Seconds that the last results may take after the last file.
PATIENCE = 60.0

#: The start of the problem text of a run whose query was slower than its input, as in a cold JVM.
BEHIND = "did not keep up"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How rows arrive.

    Parameters
    ----------
    stored
        Rows of each stream stored before the run, at least one.
    ticks
        How often files appear.
    every
        Seconds between them.
    rows
        Rows of each stream in a file.
    sample
        One in this many tuples of the first stream has its results timed.
    trigger
        Seconds from the start of a micro-batch to that of the next (001's signal period); 0 for no pause.
    """

    stored: int
    ticks: int
    every: float
    rows: int
    sample: int = 1
    trigger: float = 0.0

    @classmethod
    def at(
        cls,
        rate: float,
        streams: int,
        seconds: float,
        stored: int,
        every: float = 0.1,
        sample: int = 1,
        trigger: float = 0.0,
    ) -> Arrivals:
        """Return arrivals at a rate (tuples a second over all streams)."""
        return cls(
            stored, max(round(seconds / every), 1), every, max(round(rate * every / streams), 1), sample, trigger
        )

    @property
    def drawn_for(self) -> int:
        """The rows to draw keys for: a tuple has as many partners, on average, as in a run that starts empty.

        Keys drawn for the stored rows would give a tuple more partners the higher the rate is, and the longer the run.
        """
        return 2 * self.stored + self.ticks * self.rows

    def rate(self, streams: int) -> float:
        """Tuples a second, of all streams."""
        return self.rows * streams / self.every


@dataclass(frozen=True, slots=True)
class Live:
    """One live run.

    Parameters
    ----------
    engine
        A scheme of ours, or ``spark``.
    latencies
        ``(seconds, results)``: how many of the timed results had that latency.
    durations
        The median milliseconds of each part of a micro-batch with rows, by Spark's names.
    triggers
        How many micro-batches with rows there were.
    problem
        Why there is no result, if there is none.
    cpu
        The processor time a micro-batch, the start of the query included; None if unknown.
    """

    engine: str
    latencies: tuple[tuple[float, int], ...] = ()
    durations: Mapping[str, float] = field(default_factory=dict)
    triggers: int = 0
    problem: str | None = None
    cpu: Cpu | None = None

    @property
    def results(self) -> int:
        """The number of timed results."""
        return sum(count for _, count in self.latencies)

    @property
    def trigger(self) -> float | None:
        """The median milliseconds of a micro-batch with rows."""
        return self.durations.get("triggerExecution")

    @property
    def mean(self) -> float | None:
        """The mean latency in seconds."""
        return sum(late * count for late, count in self.latencies) / self.results if self.results else None

    def latency(self, quantile: float) -> float | None:
        """Return a quantile of the results' latencies (nearest rank)."""
        below = 0
        for late, count in sorted(self.latencies):
            below += count
            if below > quantile * self.results or below == self.results:
                return late
        return None


@dataclass(frozen=True, slots=True)
class Latency:
    """The median live runs at one rate, by engine.

    Parameters
    ----------
    rate
        Tuples a second that arrive, of all streams.
    sample
        One in this many tuples of the first stream had its results timed.
    """

    rate: float
    sample: int
    runs: Mapping[str, Live]


def middle(runs: Sequence[Live], figure: Callable[[Live], float | None]) -> Live:
    """Return the run with the median of a figure (the lower of two); a failed run if one failed."""
    failed = [run for run in runs if run.problem is not None or figure(run) is None]
    return failed[0] if failed else sorted(runs, key=lambda run: figure(run) or 0.0)[(len(runs) - 1) // 2]


def run_live(spark: SparkSession, workload: Workload, engine: str, arrivals: Arrivals, seed: int) -> Live:
    """Run one engine while files arrive."""

    def run(home: Path) -> Live:
        rows = arrivals.stored if workload.windowed else arrivals.drawn_for
        _prepare(workload, home, arrivals, workload.domain(rows), seed)
        for stream in workload.streams:
            reader = spark.readStream.schema(SCHEMA)
            read = with_event_time(workload, reader.parquet(str(home / stream)), arrivals.stored)
            read.createOrReplaceTempView(stream)
        plain = engine == "spark"
        frame, _ = frame_of(spark, query(workload, None if plain else engine), plain)
        writer = _observed(frame, workload, arrivals).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(home / "checkpoint"))
        running = writer.trigger(processingTime=f"{arrivals.trigger} seconds").start()
        try:
            arrived, kept_up = _drop(running, workload, home, arrivals)
        finally:
            running.stop()
        if not kept_up:  # the missing results would have the highest latency of all
            return Live(engine, problem=f"{BEHIND}: rows were left {PATIENCE:.0f} s after the last had come")
        return _timed(engine, [progress for progress in running.recentProgress if progress.numInputRows], arrived)

    return in_scratch(engine, run)


def in_scratch(engine: str, run: Callable[[Path], Live]) -> Live:
    """Run an engine with a temporary folder; an error of Spark becomes the run's problem, in one line."""
    from pyspark.errors import PySparkException

    with tempfile.TemporaryDirectory(prefix="trijoin-live-", ignore_cleanup_errors=True) as home:
        try:
            return run(Path(home))
        except (PySparkException, TriJoinError, StoppedError) as error:
            return Live(engine, problem=str(error).partition("\n")[0][:160])


def _prepare(workload: Workload, home: Path, arrivals: Arrivals, domain: int, seed: int) -> None:
    """Write the stored rows, and, where the query does not see them, one file of each stream a tick."""
    for number, stream in enumerate(workload.streams):
        rng = np.random.default_rng([seed, number])
        (home / stream).mkdir()
        (home / "later" / stream).mkdir(parents=True)
        pq.write_table(table(workload, number, rng, 0, arrivals.stored, domain), home / stream / "stored.parquet")
        for tick in range(arrivals.ticks):
            first = arrivals.stored + tick * arrivals.rows
            pq.write_table(
                table(workload, number, rng, first, arrivals.rows, domain),
                home / "later" / stream / f"{tick:05}.parquet",
            )


def _observed(frame: Any, workload: Workload, arrivals: Arrivals, name: Any = ARRIVALS) -> Any:
    """Count results by the tick of their last tuple; exact, as there are fewer ticks than bins.

    The tick is a column, and NULL if it is not counted, as Spark interprets expressions inside `observe` row by row.
    """
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    youngest = F.greatest(*[F.col(f"{stream}_l") for stream in workload.streams])
    tick = F.floor((youngest - arrivals.stored) / arrivals.rows).cast("double")
    if arrivals.sample > 1:
        tick = F.when(F.col(f"{workload.streams[0]}_l") % arrivals.sample == 0, tick)
    counted = F.histogram_numeric("tick", F.lit(arrivals.ticks + 1)).alias("ticks")
    return frame.withColumn("tick", tick).observe(name, counted)


def _drop(running: StreamingQuery, workload: Workload, home: Path, arrivals: Arrivals) -> tuple[dict[int, float], bool]:
    """Wait for the stored rows, then make files appear on time.

    Returns
    -------
    When each tick's last file appeared, and whether the query has read all of them in the end.
    """
    wait(running, lambda last: last.batchId > 0 or last.numInputRows > 0, 10 * PATIENCE)
    arrived: dict[int, float] = {}
    start = time.monotonic()
    pause = threading.Event()
    for tick in range(arrivals.ticks):
        pause.wait(max(start + tick * arrivals.every - time.monotonic(), 0))
        for stream in workload.streams:
            (home / "later" / stream / f"{tick:05}.parquet").rename(home / stream / f"{tick:05}.parquet")
        arrived[tick] = time.time()
    total = len(workload.streams) * (arrivals.stored + arrivals.ticks * arrivals.rows)

    def read(last: Any) -> bool:
        return sum(progress.numInputRows for progress in running.recentProgress) >= total

    return arrived, wait(running, read, PATIENCE)


def _timed(engine: str, reports: list[Any], arrived: Mapping[int, float]) -> Live:
    """Turn progress reports into latencies; the first second of the arrivals warms up and does not count."""
    latencies: list[tuple[float, int]] = []
    counted: list[dict[str, int]] = []
    first = min(arrived.values(), default=0.0) + 1.0
    for report in reports[1:]:
        took = dict(report.durationMs)
        began = datetime.datetime.fromisoformat(report.timestamp).timestamp()
        if began < first:
            continue
        counted.append(took)
        emitted = began + took["triggerExecution"] / 1000
        for bin_ in report.observedMetrics[ARRIVALS]["ticks"] or []:
            at = arrived.get(round(bin_["x"]))
            if at is not None and at >= first:
                latencies.append((emitted - at, round(bin_["y"])))
    return Live(engine, tuple(latencies), medians(counted), len(counted))


def medians(durations: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Return the median of each part over some micro-batches; a missing part counts as no time."""
    names = dict.fromkeys(name for one in durations for name in one)
    return {name: float(median(one.get(name, 0) for one in durations)) for name in names}
