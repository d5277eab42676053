"""What ``trijoin-sql bench`` does: every engine over the same files, in turns."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ..errors import InvalidSettingError
from ..rewriter.hints import SCHEMES
from . import overhead
from .engines import run_stream
from .idle import EVERY, TRIGGERS, WARM_UP, run_idle
from .live import Arrivals, Live, middle, run_live
from .outcome import OTHERS, Outcome, median
from .outside import PACKAGES, environment, run_outside
from .report import as_document, as_table, idle_table, latency_table, plot, write_json
from .workloads import WORKLOADS, check, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for; see `command.bench`."""

    names: list[str]
    rows: int
    batches: int
    schemes: tuple[str, ...]
    against: tuple[str, ...]
    runs: int
    warm_up: int
    seed: int
    units: int
    limit: float
    latency: float
    rate: float | None
    idle: bool


@dataclass(slots=True)
class Measured:
    """All runs of one workload, by engine."""

    runs: dict[str, list[Outcome]]
    live: dict[str, Live] = field(default_factory=dict)
    idle: dict[str, Live] = field(default_factory=dict)
    rate: float = 0.0

    def wrong(self) -> Iterator[str]:
        """Yield, in a sentence each, which engines failed, and where results differ."""
        runs = [outcome for outcomes in self.runs.values() for outcome in outcomes]
        problems = [(run.engine, run.problem) for run in runs]
        problems += [(run.engine, run.problem) for run in (*self.live.values(), *self.idle.values())]
        for engine, problem in dict.fromkeys(problems):
            if problem is not None:
                yield f"{engine} failed: {problem}"
        counts = dict.fromkeys(
            (run.engine, run.results) for run in runs if run.results is not None and not run.exceeded
        )
        if len({count for _, count in counts}) > 1:
            told = ", ".join(f"{engine} {count:,}" for engine, count in counts)
            yield f"the engines found different numbers of results: {told}"


def measure(options: Options, *, output: str, json_file: Path | None, plot_file: Path | None, quiet: bool) -> bool:
    """Measure, and say what was found, workload by workload.

    Parameters
    ----------
    options
        What to measure.
    output
        What to print, a table or JSON.
    json_file, plot_file
        Where to write JSON, and draw a plot.
    quiet
        Whether to leave out progress.

    Returns
    -------
    bool
        Whether every engine came through, and all found the same number of results.

    Raises
    ------
    InvalidSettingError
        Something that is asked for is not there, or cannot be run or written.
    """
    names = options.names
    _check(names, options)
    _check_files(json_file, plot_file)
    well = True
    err = Console(stderr=True, quiet=quiet)
    for engine in dict.fromkeys(options.against):
        if engine in PACKAGES:
            with err.status(f"{engine}: its environment"):
                environment(engine)
    documents = []
    out = Console(width=None if sys.stdout.isatty() else 140)
    for name in names:
        if name == overhead.NAME:
            documents.append(_overhead(options, out, show=output == "text"))
        else:
            found = _measure(name, options, err)
            documents.append(_document(name, options, found))
            if output == "text":
                _print(out, name, options, found)
            for wrong in found.wrong():
                Console(stderr=True).print(f"{name}: {wrong}", style="red")
                well = False
        if json_file is not None:  # one workload may take an hour, and the next one fail
            write_json(json_file, documents)
    if output == "json":
        typer.echo(json.dumps(documents))
    drawn = [document for document in documents if document["workload"] != overhead.NAME]
    if plot_file is not None and drawn:
        plot(plot_file, drawn)
    return well


def _check(names: list[str], options: Options) -> None:
    """Refuse what is not there, before anything starts."""
    for name in names:
        if name not in WORKLOADS and name != overhead.NAME:
            raise InvalidSettingError("WORKLOAD", name, f"there are {', '.join((*WORKLOADS, overhead.NAME))}")
    for one in options.schemes:
        if re.split("[/@]", one)[0] not in SCHEMES:
            raise InvalidSettingError("--scheme", one, f"there are {', '.join(SCHEMES)}")
        for name in names:
            if name != overhead.NAME:
                check(WORKLOADS[name], name, one, options.units)
    for one in options.against:
        if one not in OTHERS:
            raise InvalidSettingError("--against", one, f"there are {', '.join(OTHERS)}")


def _check_files(json_file: Path | None, plot_file: Path | None) -> None:
    """Refuse files that could not be written in the end, after an hour perhaps."""
    for option, file in (("--json", json_file), ("--plot", plot_file)):
        if file is not None and (file.is_dir() or not os.access(file.parent, os.W_OK)):
            why = "it is a folder" if file.is_dir() else f"the folder {file.parent} cannot be written"
            raise InvalidSettingError(option, file, why)
    if plot_file is not None and importlib.util.find_spec("matplotlib") is None:
        raise InvalidSettingError("--plot", plot_file, "it takes matplotlib: pip install 'trijoin-sql[bench]'")


def _document(name: str, options: Options, found: Measured) -> dict[str, Any]:
    about = WORKLOADS[name].about
    return as_document(name, about, options.rows, options.batches, found.runs, found.rate, found.live, found.idle)


def _print(out: Console, name: str, options: Options, found: Measured) -> None:
    streams = len(WORKLOADS[name].streams)
    title = f"{name}: {streams} x {options.rows:,} rows, {options.batches} micro-batches, {options.runs} runs"
    out.print(as_table(title, {engine: median(outcomes) for engine, outcomes in found.runs.items()}))
    if found.live:
        title = f"{name}: arrival of the last tuple to emission, {found.rate:,.0f} tuples/s arriving"
        out.print(latency_table(f"{title} on {streams} x {options.rows:,} stored rows", found.live))
    if found.idle:
        title = f"{name}: triggers with {10 * streams} rows, medians in ms, parts by Spark's names"
        out.print(idle_table(title, found.idle))


def _measure(name: str, options: Options, err: Console) -> Measured:
    """Run every engine ``runs`` times, in turns, over the same files; then the live runs."""
    workload = WORKLOADS[name]
    streaming = list(dict.fromkeys(options.schemes or workload.schemes))
    engines = list(dict.fromkeys([*streaming, *options.against]))
    streaming += ["spark"] if "spark" in engines else []
    found = Measured({engine: [] for engine in engines})
    folder = Path(tempfile.mkdtemp(prefix="trijoin-bench-"))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    rounds = options.warm_up + (1 + options.runs) * (bool(options.latency) + options.idle)
    total = len(engines) * options.runs + len(streaming) * rounds
    from ..quiet import quiet_jvm, quiet_python

    try:
        with quiet_python(), quiet_jvm(), Progress(*columns, console=err, disable=not err.is_terminal) as progress:
            task = progress.add_task(f"{name}: data", total=total)
            write_files(workload, folder, options.rows, options.batches, options.seed)
            spark = _session(name, options.units)
            for _ in range(options.warm_up):
                for engine in streaming:
                    progress.update(task, description=f"{name}: {engine}, warming up")
                    _run(spark, engine, name, folder, options)
                    progress.advance(task)
            for order in turns(engines, options.runs):
                for engine in order:
                    progress.update(task, description=f"{name}: {engine}")
                    if not any(outcome.exceeded for outcome in found.runs[engine]):  # once says as much as thrice
                        found.runs[engine].append(_run(spark, engine, name, folder, options))
                    progress.advance(task)
            rates = [median(runs).rate for engine, runs in found.runs.items() if engine in streaming]
            offered = options.rate or min((rate for rate in rates if rate), default=1000) / 2
            steady = Arrivals.at(offered, len(workload.streams), options.latency, options.rows)

            def arriving(engine: str, warming: bool) -> Live:
                progress.update(task, description=f"{name}: {engine}, latency{', warming up' if warming else ''}")
                return run_live(spark, workload, engine, steady, options.seed)

            def idling(engine: str, warming: bool) -> Live:
                progress.update(task, description=f"{name}: {engine}, idle{', warming up' if warming else ''}")
                triggers, every = (WARM_UP, 0.0) if warming else (TRIGGERS, EVERY)
                return run_idle(spark, workload, engine, workload.domain(options.rows), triggers, every)

            if options.latency:
                found.rate = steady.rate(len(workload.streams))
                found.live = _in_turns(streaming, options.runs, arriving, lambda run: run.mean, progress, task)
            if options.idle:
                found.idle = _in_turns(streaming, options.runs, idling, lambda run: run.trigger, progress, task)
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def turns(engines: Sequence[str], rounds: int) -> list[list[str]]:
    """Return the order of engines in each round: another one begins every time.

    Who comes behind whom counts: what one leaves to the garbage collector the next one pays for.
    """
    starts = [turn % max(len(engines), 1) for turn in range(rounds)]
    return [[*engines[start:], *engines[:start]] for start in starts]


def _in_turns(
    engines: list[str],
    runs: int,
    run: Callable[[str, bool], Live],
    figure: Callable[[Live], float | None],
    progress: Progress,
    task: TaskID,
) -> dict[str, Live]:
    """Return each engine's run with the median figure; they take turns, after a round that does not count.

    Whoever came first would pay for the JVM's compiler.
    """
    found: dict[str, list[Live]] = {engine: [] for engine in engines}
    for turn, order in enumerate(turns(engines, 1 + runs)):
        for engine in order:
            one = run(engine, turn == 0)
            found[engine] += [one] if turn or one.problem else []
            progress.advance(task)
    return {engine: middle(several, figure) for engine, several in found.items()}


def _overhead(options: Options, out: Console, *, show: bool) -> dict[str, Any]:
    from ..quiet import quiet_jvm, quiet_python

    with quiet_python(), quiet_jvm():
        spark = _session(overhead.NAME, options.units)
        found = overhead.measure_overhead(spark)
        spark.stop()
    if show:
        out.print(overhead.overhead_table(found))
    return overhead.overhead_document(found)


def _session(name: str, units: int) -> SparkSession:
    from pyspark.sql import SparkSession

    from ..config import configure
    from ..settings import UNITS

    builder = SparkSession.builder.appName(f"trijoin-sql bench {name}").master(f"local[{units},4]")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": str(units),
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }.items():
        builder = builder.config(key, value)
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set(UNITS, str(units))
    return spark


def _run(spark: SparkSession, engine: str, name: str, folder: Path, options: Options) -> Outcome:
    workload = WORKLOADS[name]
    if engine in PACKAGES:
        return run_outside(engine, workload, folder, options.rows, options.units, options.limit)
    return run_stream(spark, workload, folder, engine)
