"""What ``python -m tests.bench`` does: every engine over the same files, in turns."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from trijoin_sql.rewriter.sql.hints import SCHEMES

from trijoin_sql.errors import InvalidSettingError

from . import cliffs, overhead
from .engines import AT, Here, Session, run_cold, run_stream
from .idle import EVERY, TRIGGERS, WARM_UP, run_idle
from .live import BEHIND, Arrivals, Latency, Live, middle, run_live
from .outcome import OTHERS, Outcome, median
from .outside import PACKAGES, Version, commit_of, environment, run_outside, steps
from .report import as_document, as_runs, as_table, cpu_table, idle_table, latency_table, plot, write_json
from .runners import trijoin_runner
from .warming import SETTLED, Warming
from .workloads import WORKLOADS, Workload, check, write_files

#: Names that measure in a way of their own.
OWN = (overhead.NAME, cliffs.NAME)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line; see `bench_command.bench`."""

    names: list[str]
    rows: int
    batches: int
    schemes: tuple[str, ...]
    against: tuple[str, ...]
    runs: int
    warm_up: int
    settle: float
    seed: int
    units: int
    limit: float
    latency: float
    rates: tuple[float, ...]
    idle: bool
    cold: bool
    tables: bool = False
    cores: int | None = None
    window: int | None = None
    trigger: float = 0

    def workload(self, name: str) -> Workload:
        """Return a workload, with the window that is asked for."""
        own = WORKLOADS[name]
        return replace(own, window=self.window) if self.window and own.windowed else own

    @property
    def commits(self) -> list[str]:
        """The commits of ours to compare with."""
        return [one for one in dict.fromkeys(self.against) if one not in OTHERS]


@dataclass(slots=True)
class Measured:
    """All runs of one workload, by engine.

    ``compiling`` is the share of a core that the JVM's compiler took in the last warm-up round, by kind of run.
    """

    runs: dict[str, list[Outcome]]
    latencies: list[Latency] = field(default_factory=list)
    idle: dict[str, Live] = field(default_factory=dict)
    cold: dict[str, list[Outcome]] = field(default_factory=dict)
    compiling: dict[str, float | None] = field(default_factory=dict)

    def wrong(self) -> Iterator[str]:
        """Yield, in a sentence each, which engines failed, and where results differ."""
        runs = [outcome for outcomes in (*self.runs.values(), *self.cold.values()) for outcome in outcomes]
        problems = [(run.engine, run.problem) for run in runs]
        live = [run for latency in self.latencies for run in latency.runs.values()]
        problems += [(run.engine, run.problem) for run in (*live, *self.idle.values())]
        for engine, problem in dict.fromkeys(problems):
            if problem is not None:
                yield f"{engine} failed: {problem}"
        counts = dict.fromkeys(
            (run.engine, run.results) for run in runs if run.results is not None and not run.exceeded
        )
        if len({count for _, count in counts}) > 1:
            told = ", ".join(f"{engine} {count:,}" for engine, count in counts)
            yield f"the engines found different numbers of results: {told}"

    def unsettled(self) -> Iterator[str]:
        """Yield, in a sentence each, what was measured while the JVM still compiled."""
        for kind, share in self.compiling.items():
            if share is not None and share >= SETTLED:
                told = f"{kind}: the JVM's compiler still took {share:.0%} of a core"
                yield f"{told}; a longer --settle shows steady state"


def measure(options: Options, *, output: str, json_file: Path | None, plot_file: Path | None, quiet: bool) -> bool:
    """Measure, and print the results, workload by workload.

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
        Whether every engine finished, and all found the same number of results.

    Raises
    ------
    InvalidSettingError
        An option names something that does not exist, or that cannot be run or written.
    """
    names = options.names
    _check(names, options)
    check_files(json_file, plot_file)
    well = True
    err = Console(stderr=True, quiet=quiet)
    for engine in dict.fromkeys(options.against):
        if engine != "spark":
            with err.status(f"{engine}: its environment"):
                environment(engine)
    documents = []
    out = Console(width=None if sys.stdout.isatty() else 140)
    for name in names:
        if name == overhead.NAME:
            documents.append(_overhead(options, out, show=output == "text"))
        elif name == cliffs.NAME:
            document, failed = _cliffs(options, out, err, show=output == "text")
            documents.append(document)
            well = well and not failed
        else:
            found = _measure(name, options, err)
            documents.append(_document(name, options, found))
            if output == "text":
                _print(out, name, options, found)
            for wrong in found.wrong():
                Console(stderr=True).print(f"{name}: {wrong}", style="red")
                well = False
            for told in found.unsettled():
                err.print(f"{name}: {told}", style="yellow")
        if json_file is not None:  # one workload may take an hour, and the next one fail
            write_json(json_file, documents)
    if output == "json":
        typer.echo(json.dumps(documents))
    drawn = [document for document in documents if document["workload"] not in OWN]
    if plot_file is not None and drawn:
        plot(plot_file, drawn)
    return well


def _check(names: list[str], options: Options) -> None:
    """Refuse unknown names before anything starts."""
    for name in names:
        if name not in WORKLOADS and name not in OWN:
            raise InvalidSettingError("WORKLOAD", name, f"there are {', '.join((*WORKLOADS, *OWN))}")
    for one in options.schemes:
        if re.split("[(/@*+]", one)[0] not in SCHEMES:
            raise InvalidSettingError("--scheme", one, f"there are {', '.join(SCHEMES)}")
        for name in names:
            if name in WORKLOADS:
                check(WORKLOADS[name], name, one, options.units)
    if options.tables and (options.latency or options.idle or options.cold or not set(names) <= set(WORKLOADS)):
        raise InvalidSettingError("--tables", True, "of a query over tables only the throughput is measured")
    for name in (name for name in names if name in WORKLOADS):
        own = WORKLOADS[name]
        if options.latency and not own.timed:
            raise InvalidSettingError(
                "--latency", options.latency, f"{name}: its results do not say when they were due"
            )
        if own.mode != "append" and set(options.against) & set(OTHERS):
            told = f"{name}: it aggregates, and of ours the results before that are counted"
            raise InvalidSettingError("--against", ", ".join(options.against), told)
    for one in options.against:
        if one not in OTHERS:
            commit_of(one)
            if options.latency:
                raise InvalidSettingError("--latency", options.latency, f"it is not measured against the commit {one}")
        for name in names if one in PACKAGES else ():
            if name in WORKLOADS:
                steps(WORKLOADS[name])
        for name in names if one in OTHERS else ():
            if name in WORKLOADS and WORKLOADS[name].windowed:
                raise InvalidSettingError("--against", one, f"{name}: its window (WITHIN) is a clause of ours alone")


def check_files(json_file: Path | None, plot_file: Path | None) -> None:
    """Refuse files that could not be written at the end, perhaps after an hour."""
    for option, file in (("--json", json_file), ("--plot", plot_file)):
        if file is not None and (file.is_dir() or not os.access(file.parent, os.W_OK)):
            why = "it is a folder" if file.is_dir() else f"the folder {file.parent} cannot be written"
            raise InvalidSettingError(option, file, why)
    if plot_file is not None and importlib.util.find_spec("matplotlib") is None:
        raise InvalidSettingError("--plot", plot_file, "it takes matplotlib: pip install matplotlib")


def _document(name: str, options: Options, found: Measured) -> dict[str, Any]:
    about = WORKLOADS[name].about
    document = as_document(name, about, options.rows, options.batches, found.runs, found.latencies, found.idle)
    return {**document, "cold": as_runs(found.cold), "jvm_compiling": found.compiling}


def _print(out: Console, name: str, options: Options, found: Measured) -> None:
    streams = len(WORKLOADS[name].streams)
    parts = "tables" if options.tables else f"{options.batches} micro-batches"
    sizes = set(WORKLOADS[name].sizes(options.rows))
    rows = f"{streams} x {options.rows:,}" if len(sizes) == 1 else f"{streams} streams, up to {options.rows:,}"
    title = f"{name}: {rows} rows, {parts}, {options.runs} runs"
    _print_runs(out, title, found.runs)
    for latency in found.latencies:
        title = f"{name}: arrival of the last tuple to emission, {latency.rate:,.0f} tuples/s arriving"
        title += f" on {streams} x {options.rows:,} stored rows"
        title += f", a sample of 1 in {latency.sample}" if latency.sample > 1 else ""
        out.print(latency_table(title, latency.runs))
    if found.idle:
        title = f"{name}: triggers with {10 * streams} rows, medians in ms, parts by Spark's names"
        out.print(idle_table(title, found.idle))
        cpus = {engine: [run.cpu] if run.cpu else [] for engine, run in found.idle.items()}
        out.print(cpu_table("processor time of such a trigger, in seconds", cpus))
    if found.cold:
        _print_runs(out, f"{name}: a new process each, from its start to the end of the query", found.cold)


def _print_runs(out: Console, title: str, runs: Mapping[str, list[Outcome]]) -> None:
    out.print(as_table(title, {engine: median(outcomes) for engine, outcomes in runs.items()}))
    cpus = {engine: [run.cpu for run in outcomes if run.cpu] for engine, outcomes in runs.items()}
    out.print(cpu_table("processor time of the same, in seconds", cpus))


def _measure(name: str, options: Options, err: Console) -> Measured:
    """Run every engine ``runs`` times, in turns, over the same files; then the live runs."""
    workload = options.workload(name)
    schemes = dict.fromkeys(options.schemes or workload.schemes)
    streaming = [
        f"{scheme}{AT}{commit}" if commit else scheme for scheme in schemes for commit in ("", *options.commits)
    ]
    engines = list(dict.fromkeys([*streaming, *(one for one in options.against if one in OTHERS)]))
    streaming += ["spark"] if "spark" in engines else []
    found = Measured({engine: [] for engine in engines})
    folder = Path(tempfile.mkdtemp(prefix="trijoin-bench-"))

    def version(commit: str) -> Version:
        return Version.of(environment(commit) if commit else Path(sys.executable), settings, options.limit)

    from trijoin_sql.spark.quiet import quiet_jvm, quiet_python

    settings = settings_of(name, options.units, options.cores)
    sessions: dict[str, Session] = {}
    try:
        with quiet_python(), quiet_jvm(), _progress(err) as progress:
            if options.commits:  # then ours has a process too, to be run alike
                sessions.update({commit: version(commit) for commit in ("", *options.commits)})
            else:
                sessions[""] = Here(trijoin_runner.session(settings))
            rounds = _Rounds(name, options, progress, lambda: sum(one.compiled() for one in sessions.values()))
            write_files(workload, folder, options.rows, options.batches, options.seed)

            def fast(engine: str, warming: bool) -> str | None:
                if any(outcome.exceeded for outcome in found.runs[engine]):  # once is as good as three times
                    return None
                if engine in PACKAGES:
                    outcome = run_outside(engine, workload, folder, options.rows, options.units, options.limit)
                else:
                    limit = options.limit if options.tables else 0
                    outcome = run_stream(
                        sessions[engine.partition(AT)[2]], workload, folder, engine, options.rows, limit
                    )
                found.runs[engine] += [outcome] if not warming or outcome.problem or outcome.exceeded else []
                return outcome.problem

            rounds.run("throughput", streaming, engines, options.warm_up, fast)
            rates = [median(runs).rate for engine, runs in found.runs.items() if engine in streaming]
            offered = options.rates or (min((rate for rate in rates if rate), default=1000) / 2,)
            results = max((run.results or 0 for runs in found.runs.values() for run in runs), default=0)
            sample = max(round(results / sum(workload.sizes(options.rows))), 1)

            def arriving(arrivals: Arrivals, engine: str, warming: bool) -> Live:
                here = sessions[""]
                assert isinstance(here, Here), "_check has refused it"
                return run_live(here.spark, workload, engine, arrivals, options.seed)

            def idling(engine: str, warming: bool) -> Live:
                triggers, every = (WARM_UP, 0.0) if warming else (TRIGGERS, EVERY)
                session = sessions[engine.partition(AT)[2]]
                return run_idle(session, workload, engine, options.rows, triggers, every)

            def cold(engine: str, warming: bool) -> str | None:
                outcome = run_cold(version(engine.partition(AT)[2]), workload, folder, engine, options.rows)
                found.cold.setdefault(engine, []).append(outcome)
                return outcome.problem

            for rate in offered if options.latency else ():
                streams, trigger = len(workload.streams), options.trigger
                steady = Arrivals.at(rate, streams, options.latency, options.rows, sample=sample, trigger=trigger)
                kind = f"latency at {steady.rate(len(workload.streams)):,.0f} tuples/s"
                live = _middles(rounds, kind, streaming, partial(arriving, steady), lambda run: run.mean)
                found.latencies.append(Latency(steady.rate(len(workload.streams)), sample, live))
            if options.idle:
                found.idle = _middles(rounds, "idle", streaming, idling, lambda run: run.trigger)
            if options.cold:
                rounds.run("cold", (), streaming, 0, cold)
            found.compiling = rounds.compiling
    finally:
        for session in sessions.values():
            session.close()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _middles(
    rounds: _Rounds,
    kind: str,
    engines: Sequence[str],
    run: Callable[[str, bool], Live],
    figure: Callable[[Live], float | None],
) -> dict[str, Live]:
    """Return each engine's live run with the median figure."""
    found: dict[str, list[Live]] = {engine: [] for engine in engines}

    def one(engine: str, warming: bool) -> str | None:
        live = run(engine, warming)
        cold = warming and (live.problem or "").startswith(BEHIND)
        found[engine] += [live] if not warming or (live.problem and not cold) else []
        return None if cold else live.problem

    rounds.run(kind, engines, engines, rounds.options.warm_up, one)
    return {engine: middle(several, figure) for engine, several in found.items()}


class _Rounds:
    """Rounds in which engines take turns, with a progress bar; the first ones warm up.

    Otherwise the first engine would pay for the JVM's compiler.
    """

    def __init__(self, name: str, options: Options, progress: Progress, compiled: Callable[[], float]) -> None:
        self.name, self.options, self.progress, self.compiled = name, options, progress, compiled
        self.task = progress.add_task(f"{name}: data", total=None)
        self.total = 0
        self.compiling: dict[str, float | None] = {}

    def run(
        self,
        kind: str,
        warming: Sequence[str],
        engines: Sequence[str],
        least: int,
        run: Callable[[str, bool], str | None],
    ) -> None:
        """Run some engines until the JVM is warm, at least this often, then the measured ones.

        ``run`` returns why an engine failed; a failed engine does not warm up again.
        """
        failed: set[str] = set()
        settle = Warming(self.compiled, self.options.settle if least else 0)
        self._expect(len(warming) * least + len(engines) * self.options.runs)
        for number in settle.rounds(least):
            self._expect(len(warming) if number >= least else 0)
            for engine in warming:
                if engine not in failed and self._one(f"{engine}, {kind}, warming up", run, engine, True):
                    failed.add(engine)
        for order in turns(engines, self.options.runs):
            for engine in order:
                self._one(f"{engine}, {kind}", run, engine, False)
        self.compiling[kind] = settle.share

    def _expect(self, more: int) -> None:
        self.total += more
        self.progress.update(self.task, total=self.total)

    def _one(self, told: str, run: Callable[[str, bool], str | None], engine: str, warming: bool) -> str | None:
        self.progress.update(self.task, description=f"{self.name}: {told}")
        problem = run(engine, warming)
        self.progress.advance(self.task)
        return problem


def turns(engines: Sequence[str], rounds: int) -> list[list[str]]:
    """Return the order of engines in each round: another one begins every time.

    The order matters: the next engine pays for the garbage of the previous one.
    """
    starts = [turn % max(len(engines), 1) for turn in range(rounds)]
    return [[*engines[start:], *engines[:start]] for start in starts]


def _overhead(options: Options, out: Console, *, show: bool) -> dict[str, Any]:
    from trijoin_sql.spark.quiet import quiet_jvm, quiet_python

    with quiet_python(), quiet_jvm():
        spark = trijoin_runner.session(settings_of(overhead.NAME, options.units, options.cores))
        found = overhead.measure_overhead(spark)
        spark.stop()
    if show:
        out.print(overhead.overhead_table(found))
    return overhead.overhead_document(found)


def _cliffs(options: Options, out: Console, err: Console, *, show: bool) -> tuple[dict[str, Any], bool]:
    """Run every cliff and every twin, in turns, in one session.

    Returns
    -------
    What was measured, and whether a run failed.
    """
    workloads = {name: (one, options.batches) for name, one in cliffs.PLAIN.items()}
    workloads |= {name: (one.workload, options.batches * one.batches) for name, one in cliffs.CLIFFS.items()}
    found = Measured({name: [] for name in workloads})
    warming = [name for name, (_, batches) in workloads.items() if batches == options.batches]
    session: Here | None = None
    from trijoin_sql.spark.quiet import quiet_jvm, quiet_python

    with quiet_python(), quiet_jvm(), _progress(err) as progress, tempfile.TemporaryDirectory() as home:
        try:
            session = here = Here(trijoin_runner.session(settings_of(cliffs.NAME, options.units, options.cores)))
            for name, (workload, batches) in workloads.items():
                write_files(workload, Path(home, name), options.rows, batches, options.seed)

            def run(name: str, cold: bool) -> str | None:
                outcome = run_stream(here, workloads[name][0], Path(home, name), cliffs.SCHEME, options.rows)
                found.runs[name] += [replace(outcome, engine=name)] if not cold or outcome.problem else []
                return outcome.problem

            rounds = _Rounds(cliffs.NAME, options, progress, here.compiled)
            rounds.run("throughput", warming, list(workloads), options.warm_up, run)
            found.compiling = rounds.compiling
        finally:
            if session is not None:
                session.close()
    costs = {
        name: cost
        for name, cliff in cliffs.CLIFFS.items()
        if (cost := cliffs.cost(cliff, options.rows, found.runs[name], found.runs[cliff.twin])) is not None
    }
    if show:
        title = f"{cliffs.NAME}: {options.rows:,} rows a stream, {options.batches} micro-batches, {options.runs} runs, "
        out.print(cliffs.cliffs_table(title + f"{cliffs.SCHEME}; microseconds of processor time", costs))
        for told in cliffs.sentences(costs):
            out.print(told)
    problems = {f"{run.engine} failed: {run.problem}" for runs in found.runs.values() for run in runs if run.problem}
    for told in (*sorted(problems), *found.unsettled()):
        Console(stderr=True).print(f"{cliffs.NAME}: {told}", style="red")
    return cliffs.cliffs_document(options.rows, options.batches, costs, as_runs(found.runs)), bool(problems)


def _progress(err: Console) -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=err, disable=not err.is_terminal)


def settings_of(name: str, units: int, cores: int | None = None) -> dict[str, str]:
    """Return the settings of the benchmark's sessions; there are as many cores and partitions as units, if not said."""
    from trijoin_sql.settings import UNITS

    cores = cores or units
    return {
        "spark.app.name": f"python -m tests.bench {name}",
        "spark.master": f"local[{cores},4]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        UNITS: str(units),
    }
