"""``python -m tests.bench scale``: schemes in more and more units, predicted beside what their units count.

Without Spark (`simulate`); with a master also on Spark, over the same rows in the same micro-batches.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.rewriter.options import CostDefaults
from trijoin_sql.rewriter.plan.trees import root_of

from trijoin_sql.errors import InvalidSettingError

from . import calibrate
from .processes import Cpu, cpu_of
from .report import write_json
from .runners import trijoin_runner
from .simulate import (
    COUNTED,
    MEASURED,
    MOST_SLOTS,
    Data,
    Planned,
    balance,
    count,
    measured_costs,
    measured_shares,
    plan,
    totals,
)
from .workloads import WORKLOADS, check, query, watermark

#: The name on the command line, the workloads and the rows where none are given.
NAME, ROWS = "scale", 2000
DEFAULT = ("chain_band", "cyclic_loose", "pair_band", "chain_equal", "common_key", "zipf_key")

#: Rows of each stream of the runs before, on Spark, that do not count.
WARMING = 500

#: Another scheme wins if it is better by this factor.
NOTICED = 1.05

#: What of each counter a table tells.
HEADINGS = {"rows_in": "rows sent", "state_rows": "rows kept", "comparisons": "comparisons", "results": "results"}

#: By workload: schemes beside its own ones, for they route otherwise.
ROUTED = {
    "chain_band": ("matrix@range", "operator_tree((r, s), t)@range"),
    "cyclic_loose": ("matrix@range", "operator_tree((r, s), t)@range"),
    "pair_band": ("biclique@range",),
    "chain_equal": ("operator_tree((r, s), t)",),
    "common_key": ("symmetric@random",),
    "zipf_key": ("biclique@contrand:{half}", "biclique@random"),
}


@dataclass(frozen=True, slots=True)
class Point:
    """A scheme in a number of units: figures by tuple that arrives (kept rows: by tuple that is stored).

    Parameters
    ----------
    engine, units
        What runs.
    predicted, counted, measured
        By counter: by the cost model, in the simulator, on Spark. What only routing tells has fewer counters.
    balance
        By counter: the most of a unit to the mean.
    work
        Microseconds of one core a tuple, by the weights of the cost model.
    rate
        Tuples a second if every unit has a core of its own: the busiest one decides; None where it is not known.
    cpu
        Seconds of all processes a tuple, on Spark.
    """

    engine: str
    units: int
    predicted: dict[str, float]
    counted: dict[str, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    balance: dict[str, float] = field(default_factory=dict)
    work: float = 0.0
    rate: float | None = None
    cpu: float | None = None

    def ratios(self) -> dict[str, float]:
        """Return what is predicted, to what is counted."""
        return {name: self.predicted[name] / one for name, one in self.counted.items() if name in COUNTED and one}


def engines(name: str, chosen: Sequence[str], units: int) -> list[str]:
    """Return the schemes that run a workload in so many units."""
    found = chosen or (*WORKLOADS[name].schemes, *ROUTED.get(name, ()))
    filled = [one.format(half=max(units // 2, 1)) for one in found]
    return [one for one in dict.fromkeys(filled) if not _divided(one, units)]


def _divided(engine: str, units: int) -> bool:
    subgroups = engine.partition(":")[2]
    return bool(subgroups) and units % int(subgroups) != 0


def doublings(most: int) -> list[int]:
    """Return 1, 2, 4 and so on."""
    return [2**power for power in range(most.bit_length()) if 2**power <= most]


def measure_scale(
    names: Sequence[str],
    chosen: Sequence[str],
    rows: int | None,
    units: Sequence[int],
    seed: int,
    *,
    master: str | None,
    output: str,
    json_file: Path | None,
    plot_file: Path | None,
    quiet: bool,
) -> None:
    """Measure workloads, and print tables or JSON; see `bench_command.bench`."""
    from .measure import check_files

    names = names or DEFAULT
    for name in names:
        if name not in WORKLOADS:
            raise InvalidSettingError("WORKLOAD", name, f"there are {', '.join(WORKLOADS)}")
        for engine in chosen:
            check(WORKLOADS[name], name, engine, int(engine.partition(":")[2] or 1))
    check_files(json_file, plot_file)
    out, err = Console(width=None if sys.stdout.isatty() else 190), Console(stderr=True, quiet=quiet)
    documents = []
    with _session(master) as spark:
        if spark is not None:  # it starts executors and Python, and compiles: not what the first scheme costs
            for _ in points("chain_band", ("matrix", "semi_symmetric"), WARMING, units[-1:], seed, spark):
                pass
        for name in names:
            found: list[Point] = []
            with err.status(name) as status:
                for one in points(name, chosen, rows or ROWS, units, seed, spark):
                    status.update(f"{name}: {one.engine} in {one.units} units")
                    found.append(one)
            documents.append(scale_document(name, rows or ROWS, found))
            if output == "markdown":
                for line in (f"### {name}", "", *(f"- {told}" for told in winners(found)), "", *as_markdown(found), ""):
                    typer.echo(line)
            if output == "text":
                streams = len(WORKLOADS[name].streams)
                told = "at most " if WORKLOADS[name].shares else ""
                out.print(scale_table(f"{name}: {streams} x {told}{rows or ROWS:,} rows, figures by tuple", found))
                for told in winners(found):
                    out.print(told)
            if json_file is not None:
                write_json(json_file, documents)
    if output == "json":
        typer.echo(json.dumps(documents))
    if plot_file is not None:
        plot_scale(plot_file, documents)


def measure_weights(master: str, *, output: str, quiet: bool) -> None:
    """Measure the weights of the cost model, and print a table and settings, or JSON."""
    out, err = Console(), Console(stderr=True, quiet=quiet)
    with _session(master) as spark, err.status("calibrate: some minutes"):
        found = calibrate.calibrated(spark)
    if output == "json":
        typer.echo(json.dumps(calibrate.as_data(found)))
        return
    out.print(calibrate.weights_table(found))
    for statement in calibrate.settings(found):
        out.print(statement)


@contextmanager
def _session(master: str | None) -> Iterator[Any]:
    """Start Spark on a master; None without one."""
    if master is None:
        yield None
        return
    from trijoin_sql.spark.quiet import quiet_jvm, quiet_python

    cores = re.search(r"\d+", master)
    settings = {
        "spark.app.name": "python -m tests.bench scale",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": cores[0] if cores else "2",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    with quiet_python(), quiet_jvm():
        spark = trijoin_runner.session(settings)
        try:
            yield spark
        finally:
            spark.stop()


def points(
    name: str, chosen: Sequence[str], rows: int, counts: Sequence[int], seed: int, spark: Any = None
) -> Iterator[Point]:
    """Yield each scheme in each number of units; with a session also as it runs there."""
    data = Data.of(WORKLOADS[name], rows, seed)
    costs, shares = measured_costs(data), measured_shares(data)
    for units in counts:
        for engine in engines(name, chosen, units):
            planned = plan(data, engine, units, costs, shares)
            measured, cpu = ([], None) if spark is None else on_spark(spark, planned, data, engine)
            yield point(planned, data, costs, engine, units, measured, cpu)


def point(
    planned: Planned,
    data: Data,
    costs: CostDefaults,
    engine: str,
    units: int,
    measured: list[Counter[str]],
    cpu: Cpu | None,
) -> Point:
    """Return what is predicted and counted of a scheme, by tuple."""
    tuples, stored = data.more * data.streams, data.kept * data.streams
    slots = count(planned, data)

    def by_tuple(found: Mapping[str, float]) -> dict[str, float]:
        return {name: one / (stored if name.startswith("state_") else tuples) for name, one in found.items()}

    counted, predicted = by_tuple(totals(slots)), by_tuple(planned.predicted(data))
    routed = len(slots) > MOST_SLOTS
    if routed:
        counted = {name: one for name, one in counted.items() if name in _told(planned)}
    known = predicted | counted
    shares = [costs.taken, costs.sent * known["rows_in"], costs.compared * known["comparisons"]]
    work = sum(shares) + costs.listed * known["results"]
    spread = {name: balance(slots, f"whole_{name}") for name in ("rows_in", "comparisons", "results")}
    spread["state_rows"] = balance(slots, "state_rows")
    busiest = max(spread["rows_in"], spread["comparisons"], spread["results"])
    return Point(
        engine,
        units,
        predicted,
        counted,
        by_tuple(totals(measured)),
        spread,
        work,
        None if routed else 1e6 * units / (work * busiest),
        None if cpu is None else cpu.total / (data.streams * (data.rows + data.more)),
    )


def _told(planned: Planned) -> tuple[str, ...]:
    """Return what routing alone tells. A further stage of a join, packs and hubs are beyond it."""
    specs = [join.spec for join in planned.joins]
    if any(len(SCHEMES[spec.scheme].stages(spec)) > 1 for spec in specs):
        return ()
    stores = all(spec.scheme in ("matrix", "biclique") for spec in specs)
    return ("rows_in", "state_rows") if stores else ("rows_in",)


def on_spark(spark: Any, planned: Planned, data: Data, engine: str) -> tuple[list[Counter[str]], Cpu | None]:
    """Run a workload on Spark, and return by slot what the micro-batches that are counted have added.

    Returns
    -------
    The counters, and the processor time of the whole run, None where the system does not tell, or other machines work.
    """
    folder = Path(tempfile.mkdtemp(prefix="trijoin-bench-"))
    try:
        sources = {name: folder / name for name in data.workload.streams}
        for name, source in sources.items():
            source.mkdir()
            for number, (first, last) in enumerate(data.cuts(data.part(name))):
                path = source / f"{number:05d}.parquet"
                pq.write_table(data.tables[name].rows.slice(first, last - first), path)
                os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
            frame = spark.readStream.schema(spark.read.parquet(str(source)).schema)
            rows = frame.option("maxFilesPerTrigger", 1).parquet(str(source))
            late = watermark(data.workload)
            (rows.withWatermark(*late) if late else rows).createOrReplaceTempView(name)
        spark.conf.set("spark.trijoin.units", str(planned.root.spec.units))
        frame, metrics = trijoin_runner.frame_of(spark, query(data.workload, engine), False)
        jvm = trijoin_runner.jvm(spark)
        here = str(spark.sparkContext.master).startswith("local")  # local-cluster's executors are below our JVM
        before = cpu_of(os.getpid(), jvm) if here else None
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        after = cpu_of(os.getpid(), jvm) if here else None
        assert metrics is not None, "ours has counters"
        batches = [one for one in metrics(running).batches if one.slots]  # each node of an operator tree has its own
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = [Counter[str]() for _ in range(planned.root.spec.slots)]
    counted = sorted({one.batch for one in batches})[: len(data.cuts())][-MEASURED:]
    for batch in (one for one in batches if one.batch in counted):
        for slot in batch.slots:
            for name, value in slot.items():
                if name.startswith("state_"):
                    found[slot["slot"]][name] += value / len(counted)
                elif isinstance(value, int) and (name != "results" or root_of(batch.node) == batch.node):
                    found[slot["slot"]][name] += value
    return found, after - before if before and after else None


def scale_table(title: str, found: Sequence[Point]) -> Table:
    """Return a table with a line for each scheme and number of units: figures by tuple."""
    table = Table(title=title, title_justify="left")
    for column in ("units", "scheme"):
        table.add_column(column)
    for heading in HEADINGS.values():
        table.add_column(heading, justify="right")
        table.add_column("predicted", justify="right")
    for heading in ("balance", "us", "tuples/s"):
        table.add_column(heading, justify="right")
    on_spark = any(one.measured for one in found)
    for heading in ("sent on Spark", "kept", "comparisons", "CPU us") if on_spark else ():
        table.add_column(heading, justify="right")
    for one in found:
        told = []
        for name in HEADINGS:
            told.append(f"{one.counted[name]:,.3g}" if name in one.counted else "")
            told.append(f"{one.predicted[name]:,.3g}")
        told += [f"{max(one.balance.values()):.2f}", f"{one.work:,.3g}", f"{one.rate or 0:,.0f}"]
        if one.measured:
            told += [f"{one.measured[name]:,.3g}" for name in ("rows_in", "state_rows", "comparisons")]
            told.append("" if one.cpu is None else f"{1e6 * one.cpu:,.0f}")
        table.add_row(str(one.units), one.engine, *told)
    return table


def as_markdown(found: Sequence[Point]) -> Iterator[str]:
    """Yield the lines of a smaller table for a page: by scheme, in 1, 4, 16 ... units, figures by tuple.

    With bytes and processor time where it ran on Spark, too.
    """
    further = ("bytes sent", "bytes kept", "CPU, us") if any(one.measured for one in found) else ()
    headings = ("scheme", "units", *HEADINGS.values(), "balance", "predicted", *further)
    yield f"| {' | '.join(headings)} |"
    yield f"|---|{'---:|' * (len(headings) - 1)}"
    counts = sorted({one.units for one in found})
    for engine in dict.fromkeys(one.engine.partition(":")[0] for one in found):
        for one in found:
            if one.engine.partition(":")[0] == engine and counts.index(one.units) % 2 == 0:
                told = [f"{one.counted.get(name, one.predicted[name]):,.3g}" for name in HEADINGS]
                told = [text if name in one.counted else f"*{text}*" for name, text in zip(HEADINGS, told, strict=True)]
                off = [abs(ratio - 1) for ratio in one.ratios().values()]
                within = f"±{max(off):.0%}" if off else ""
                told += [f"{max(one.balance.values()):.2f}", within]
                if one.measured:
                    told += [f"{one.measured[name]:,.3g}" for name in ("bytes_in", "state_bytes")]
                    told.append("" if one.cpu is None else f"{1e6 * one.cpu:,.0f}")
                yield f"| `{engine}` | {one.units} | {' | '.join(told)} |"


def winners(found: Sequence[Point]) -> Iterator[str]:
    """Yield in a sentence each which scheme takes the most tuples a second, and which keeps the fewest rows."""
    sorts: tuple[tuple[str, Callable[[Point], float]], ...] = (
        ("takes the most tuples a second", lambda one: 1 / one.rate if one.rate else inf),
        ("sends the fewest rows", lambda one: one.counted.get("rows_in", one.predicted["rows_in"])),
        ("keeps the fewest rows", lambda one: one.counted.get("state_rows", one.predicted["state_rows"])),
    )
    for what, cost in sorts:
        at: list[tuple[str, int]] = []
        for units in sorted({one.units for one in found}):
            costs = {one.engine.partition(":")[0]: cost(one) for one in found if one.units == units}
            winner = min(costs, key=costs.__getitem__)
            if costs[winner] < inf and (not at or costs.get(at[-1][0], inf) > NOTICED * costs[winner]):
                at.append((winner, units))
        told = [f"{engine} from {units} units on" if number else engine for number, (engine, units) in enumerate(at)]
        yield f"{what}: {', '.join(told)}"


def scale_document(name: str, rows: int, found: Sequence[Point]) -> dict[str, Any]:
    """Return everything as plain data."""
    return {
        "workload": name,
        "bench": NAME,
        "rows_a_stream": rows,
        "points": [{**asdict(one), "ratios": one.ratios()} for one in found],
    }


def plot_scale(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Draw rows sent, rows kept and tuples a second by units, a column each workload; dashed is predicted.

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": NAME, "font.size": 9})
    lines = (("rows_in", "rows sent a tuple"), ("state_rows", "rows kept a tuple"), ("rate", "tuples/s"))
    figure, axes = pyplot.subplots(
        len(lines), len(documents), figsize=(3.6 * len(documents), 2.6 * len(lines)), squeeze=False, sharex=True
    )
    for column, document in enumerate(documents):
        schemes = dict.fromkeys(one["engine"].partition(":")[0] for one in document["points"])
        for color, scheme in enumerate(schemes):
            mine = [one for one in document["points"] if one["engine"].partition(":")[0] == scheme]
            for axis, (name, _) in zip(axes[:, column], lines, strict=True):
                if name == "rate":
                    axis.plot([one["units"] for one in mine], [one["rate"] for one in mine], f"C{color}-", label=scheme)
                    continue
                axis.plot(
                    [one["units"] for one in mine], [one["predicted"][name] for one in mine], f"C{color}--", lw=0.8
                )
                told = [one for one in mine if name in one["counted"]]
                axis.plot([one["units"] for one in told], [one["counted"][name] for one in told], f"C{color}-")
        for axis, (_, label) in zip(axes[:, column], lines, strict=True):
            axis.set(yscale="log", ylabel=label if column == 0 else "")
            axis.set_xscale("log", base=2)
            axis.minorticks_off()
            axis.xaxis.set_major_locator(LogLocator(base=4, numticks=8))
            axis.xaxis.set_major_formatter("{x:.0f}")
        axes[0, column].set_title(document["workload"])
        axes[-1, column].set_xlabel("units")
        axes[-1, column].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
