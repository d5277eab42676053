"""``python -m tests.bench calibrate``: the weights of the cost model on this machine, as settings.

Processor time is fitted to what runs have counted: rows read, rows sent, comparisons and results, each of which is most
of the work of some of them. What a trigger takes however few its rows are is timed: with one stage and with two, with
few units and with many, with few rows kept and with many. What does not stand out of the noise is said to be unknown.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.table import Table
from trijoin_sql.rewriter.options import CostDefaults

from trijoin_sql.spark.rates import COST, WEIGHTS

from .processes import cpu_of
from .runners import trijoin_runner
from .workloads import WORKLOADS, query, table

#: The name on the command line.
NAME = "calibrate"

#: Micro-batches of a run whose processor time is fitted; triggers that are timed, and those before that are not.
BATCHES, TRIGGERS, COLD = 4, 12, 4

#: How many times larger the runs are that tell the rows' work apart from what a query takes whatever comes.
LARGER = 4

#: The weights that are fitted; the last is what a query takes, which is no weight.
_FITTED = ("taken", "sent", "compared", "listed", "query")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A run whose processor time is fitted: a workload, a scheme, units, and rows of each stream."""

    workload: str
    engine: str
    units: int
    rows: int


#: Runs that are mostly reading, mostly sending, mostly comparing, and mostly listing results.
RUNS = (
    Fitted("pair_band", "matrix@range", 2, 60_000),
    Fitted("pair_band", "biclique", 32, 12_000),
    Fitted("cyclic_loose", "symmetric", 2, 3_000),
    Fitted("zipf_key", "biclique", 2, 5_000),
    Fitted("chain_dense", "matrix", 2, 8_000),
)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run has counted: seconds of all processes, seconds of each trigger, counters, rows that came."""

    cpu: float | None
    triggers: tuple[float, ...]
    counters: dict[str, int]
    rows: int


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight in microseconds, and its range: without any one of the runs, or by the noise of what is timed."""

    value: float
    least: float
    most: float

    @property
    def told(self) -> bool:
        """Whether it can be told from nothing."""
        return self.least > 0


def run(spark: Any, name: str, engine: str, units: int, sizes: Sequence[int]) -> Ran:
    """Run a workload in micro-batches of some rows of each stream."""
    workload, folder = WORKLOADS[name], Path(tempfile.mkdtemp(prefix="trijoin-bench-"))
    try:
        for number, stream in enumerate(workload.streams):
            (folder / stream).mkdir()
            rng, first = np.random.default_rng([1, number]), 0
            for batch, size in enumerate(sizes):
                path = folder / stream / f"{batch:05d}.parquet"
                pq.write_table(table(workload, number, rng, first, size, workload.domain(sum(sizes))), path)
                os.utime(path, (1_000_000_000 + batch, 1_000_000_000 + batch))
                first += size
            source = spark.readStream.schema(spark.read.parquet(str(folder / stream)).schema)
            source.option("maxFilesPerTrigger", 1).parquet(str(folder / stream)).createOrReplaceTempView(stream)
        spark.conf.set("spark.trijoin.units", str(units))
        frame, metrics = trijoin_runner.frame_of(spark, query(workload, engine), plain=False)
        assert metrics is not None, "ours has counters"
        jvm = trijoin_runner.jvm(spark)
        before = cpu_of(os.getpid(), jvm)
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        after = cpu_of(os.getpid(), jvm)
        reports = [report for report in running.recentProgress if report.numInputRows]
        took = tuple(report.durationMs["triggerExecution"] / 1000 for report in reports)
        used = (after - before).total if before and after else None
        return Ran(used, took, dict(metrics(running).total()), sum(sizes) * len(workload.streams))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def calibrated(spark: Any) -> dict[str, Weight]:
    """Return the weights by name, as far as this machine tells them."""

    def fitted(size: int) -> list[Ran]:
        return [run(spark, one.workload, one.engine, one.units, [one.rows * size // BATCHES] * BATCHES) for one in RUNS]

    fitted(1)  # starts Python, and the JVM compiles
    found = weights([*fitted(1), *fitted(LARGER)])
    run(spark, "chain_band", "semi_symmetric", 2, [10] * (COLD + TRIGGERS))  # the same for small triggers

    def trigger(engine: str, units: int, kept: int = 10) -> Sequence[float]:
        ran = run(spark, "chain_band", engine, units, [kept] + [10] * (COLD + TRIGGERS))
        return [1e6 * one for one in ran.triggers[1 + COLD :]]

    few, many, kept = 2, 8, 100_000
    one, two = trigger("matrix", few), trigger("semi_symmetric", few)
    found["unit"] = between(one, trigger("matrix", many), many - few)
    found["stage"] = between(one, two)
    found["stored"] = between(two, trigger("semi_symmetric", few, kept), 3 * kept)
    return found


def between(fewer: Sequence[float], more: Sequence[float], parts: int = 1) -> Weight:
    """Return by how much the median of some figures is above that of others, divided; the range is of two errors."""
    value = max(statistics.median(more) - statistics.median(fewer), 0.0)
    # The error of a median, from the quartiles: 1.25 deviations, each 0.74 of what lies between them.
    spread = [1.25 * 0.74 * np.subtract(*np.percentile(one, [75, 25])) / len(one) ** 0.5 for one in (fewer, more)]
    error = 2 * float(np.hypot(*spread))
    return Weight(value / parts, max(value - error, 0.0) / parts, (value + error) / parts)


def weights(runs: Sequence[Ran]) -> dict[str, Weight]:
    """Return microseconds of one core for a row that is read, a row sent, a comparison and a result.

    By least squares of the relative errors, without negative ones; and a constant for each run, which is no weight.
    """
    known = [one for one in runs if one.cpu]
    value = _fit(known)
    others = [value, *(_fit(known[:at] + known[at + 1 :]) for at in range(len(known)))]
    return {
        name: Weight(value[name], min(one[name] for one in others), max(one[name] for one in others))
        for name in _FITTED[:-1]
    }


def _fit(runs: Sequence[Ran]) -> dict[str, float]:
    """Solve by trying each set of weights that are not 0: the best of those without negative ones."""
    counted = [[one.rows, *(one.counters[name] for name in ("rows_in", "comparisons", "results")), 1] for one in runs]
    parts = np.array(counted) / np.array([[1e6 * (one.cpu or 0.0)] for one in runs])
    best, found = np.inf, dict.fromkeys(_FITTED, 0.0)
    sizes = range(1, len(_FITTED) + 1)
    for chosen in (list(some) for size in sizes for some in combinations(range(len(_FITTED)), size)):
        solved = np.linalg.lstsq(parts[:, chosen], np.ones(len(runs)), rcond=None)[0]
        error = float(((parts[:, chosen] @ solved - 1) ** 2).sum())
        if solved.min() >= 0 and error < best:
            best = error
            found = dict.fromkeys(_FITTED, 0.0) | {
                _FITTED[at]: float(one) for at, one in zip(chosen, solved, strict=True)
            }
    return found


def weights_table(found: dict[str, Weight]) -> Table:
    """Return a table of the weights, beside those without settings."""
    table_ = Table(title="weights of the cost model, in microseconds", title_justify="left")
    table_.add_column("weight")
    for heading in ("here", "from", "to", "default"):
        table_.add_column(heading, justify="right")
    table_.add_column("")
    defaults = {field.name: getattr(CostDefaults(), field.name) for field in fields(CostDefaults)}
    for name in WEIGHTS:
        one = found[name]
        told = [f"{figure:,.3g}" for figure in (one.value, one.least, one.most, defaults[name])]
        table_.add_row(name, *told, "" if one.told else "cannot be told from 0")
    return table_


def settings(found: dict[str, Weight]) -> list[str]:
    """Return the weights as statements; what cannot be told from nothing is left as it is."""
    return [f"SET {COST}{name} = {found[name].value:.3g};" for name in WEIGHTS if found[name].told]


def as_data(found: dict[str, Weight]) -> dict[str, dict[str, float]]:
    """Return the weights as plain data."""
    return {name: asdict(found[name]) for name in WEIGHTS}
