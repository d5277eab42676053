"""``trijoin-sql bench calibrate``: the weights of the cost model on this machine, as settings.

Processor time is fitted to what runs have counted: rows read, rows sent, comparisons and results, each of which is most
of the work of one of them. What a trigger takes however few its rows are is timed: with one stage and with two, with
few units and with many, with few rows kept and with many.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
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


@dataclass(frozen=True, slots=True)
class Fitted:
    """A run whose processor time is fitted: a workload, a scheme, units, and rows of each stream."""

    workload: str
    engine: str
    units: int
    rows: int


#: Runs that are mostly reading, mostly sending, mostly comparing, and mostly listing results; each in two sizes, which
#: tell apart what a query takes whatever comes.
RUNS = tuple(
    Fitted(workload, engine, units, rows * size)
    for workload, engine, units, rows in (
        ("pair_band", "matrix@range", 2, 50_000),
        ("pair_band", "biclique", 16, 10_000),
        ("cyclic_loose", "symmetric", 2, 2_000),
        ("chain_dense", "matrix", 2, 5_000),
    )
    for size in (1, 3)
)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run has counted: seconds of all processes, seconds of each trigger, counters, rows that came."""

    cpu: float | None
    triggers: tuple[float, ...]
    counters: dict[str, int]
    rows: int


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


def calibrated(spark: Any) -> dict[str, float]:
    """Return the weights by name, as far as this machine tells them."""
    run(spark, "chain_dense", "semi_symmetric", 2, [1000] * BATCHES)  # starts Python, and compiles
    found = weights([run(spark, one.workload, one.engine, one.units, [one.rows // BATCHES] * BATCHES) for one in RUNS])

    def trigger(engine: str, units: int, kept: int = 10) -> float:
        ran = run(spark, "chain_band", engine, units, [kept] + [10] * (COLD + TRIGGERS))
        return 1e6 * statistics.median(ran.triggers[1 + COLD :])

    few, many = (2, 8)
    least = trigger("matrix", few)
    found["unit"] = max(trigger("matrix", many) - least, 0.0) / (many - few)
    found["stage"] = max(trigger("semi_symmetric", few) - least, 0.0)
    kept = 100_000
    found["stored"] = max(trigger("semi_symmetric", few, kept) - found["stage"] - least, 0.0) / (3 * kept)
    return found


def weights(runs: Sequence[Ran]) -> dict[str, float]:
    """Return microseconds of one core for a row that is read, a row sent, a comparison and a result.

    By least squares of the relative errors, without negative ones; and a constant for each run, which is no weight.
    """
    known = [one for one in runs if one.cpu]
    parts = np.array(
        [
            [one.rows, one.counters["rows_in"], one.counters["comparisons"], one.counters["results"], 1.0]
            for one in known
        ]
    )
    used = np.array([1e6 * (one.cpu or 0.0) for one in known])
    names, left = ("taken", "sent", "compared", "listed", "query"), list(range(parts.shape[1]))
    while left:
        solved = np.linalg.lstsq(parts[:, left] / used[:, None], np.ones(len(used)), rcond=None)[0]
        if solved.min() >= 0:
            break
        left.pop(int(solved.argmin()))
    found = dict.fromkeys(names, 0.0) | {names[at]: float(value) for at, value in zip(left, solved, strict=True)}
    del found["query"]
    return found


def weights_table(found: dict[str, float]) -> Table:
    """Return a table of the weights, beside those without settings."""
    table_ = Table(title="weights of the cost model, in microseconds", title_justify="left")
    table_.add_column("weight")
    for heading in ("here", "default"):
        table_.add_column(heading, justify="right")
    defaults = {field.name: getattr(CostDefaults(), field.name) for field in fields(CostDefaults)}
    for name in WEIGHTS:
        table_.add_row(name, f"{found[name]:,.3g}", f"{defaults[name]:,.3g}")
    return table_


def settings(found: dict[str, float]) -> list[str]:
    """Return the weights as statements; what came out as nothing is left as it is."""
    return [f"SET {COST}{name} = {found[name]:.3g};" for name in WEIGHTS if found[name] > 0]
