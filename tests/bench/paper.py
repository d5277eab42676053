"""``python -m tests.bench paper``: runs the experiments of `paper_experiments`, and prints the papers' figures too."""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from trijoin_sql.rewriter.options import Settings as RewriterSettings
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import InvalidSettingError, UnavailableError
from trijoin_sql.settings import WARM_BYTES

from .bounded import Asked as Bound
from .bounded import Kept, run_bounded
from .engines import Here, run_stream
from .live import Arrivals, run_live
from .outcome import Outcome
from .paper_experiments import EXPERIMENTS, Contender, Experiment
from .paper_report import FIGURES, NAME, SWEPT, Point, document, list_experiments, plot, shown, wrong
from .report import write_json
from .runners import trijoin_runner
from .warming import Warming
from .workloads import WORKLOADS, Workload, query, write_files

#: Figures that a cold JVM changes: each contender runs once before, and that run does not count.
TIMED = {"latency", "p99", "throughput", "cpu"}

#: One in so many tuples of the first stream has its results timed: Spark counts them slower than we join.
_SAMPLE = 10

#: Bytes that a gigabyte of 004's experiments is here, for each row of the largest stream; see ``004-fig5``.
_GIGABYTE = 54

#: The rows of 003-fig12: in how many micro-batches how many times the least rate comes.
_LOAD = ((12, 1), (12, 2), (14, 0.5), (2, 1), (8, 0.5))

#: A unit's bytes in 003-fig12 for each row that comes, and the seconds of event time in a micro-batch.
_UNIT_BYTES, _STEP = 2.0, 10


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: experiments by name (none to list them), and what is not as they have it."""

    names: tuple[str, ...]
    rows: int | None = None
    batches: int | None = None
    runs: int | None = None
    settle: float = 0.0
    seconds: float | None = None
    cores: int = 2
    seed: int = 1

    def sized(self, experiment: Experiment) -> Experiment:
        """Return an experiment in the size that is asked for; of swept rows the largest is that many."""
        values = experiment.values
        if self.rows and experiment.swept == "rows":
            values = tuple(max(round(value * self.rows / values[-1]), 1) for value in values)
        return replace(
            experiment,
            rows=self.rows or experiment.rows,
            batches=self.batches or experiment.batches,
            seconds=self.seconds or experiment.seconds,
            runs=self.runs or experiment.runs,
            values=values,
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run: an experiment's, with the swept value."""

    rows: int
    batches: int
    units: int
    window: int | None = None
    trigger: float = 0.0
    memory: float | None = None
    limit: float | None = None

    @classmethod
    def of(cls, experiment: Experiment, value: float | None) -> Settings:
        """Return those of an experiment at a value."""
        own = cls(experiment.rows, experiment.batches, experiment.units)
        if value is None or experiment.swept in ("", "batch"):
            return own
        whole = experiment.swept in ("rows", "batches", "units", "window")
        varied: dict[str, Any] = {experiment.swept: round(value) if whole else value}
        return replace(own, **varied)


def workload_of(contender: Contender, settings: Settings) -> Workload:
    """Return a contender's workload with the window of its run."""
    workload = WORKLOADS[contender.workload]
    return replace(workload, window=settings.window) if settings.window else workload


def engine_of(contender: Contender, units: int) -> str:
    """Return a contender's scheme with its units, as ``bench --scheme`` takes it."""
    scheme, plus, more = contender.scheme.partition("+")
    return f"{scheme}*{max(round(contender.units * units), 1)}{plus}{more}"


def figures_of(outcome: Outcome, units: int, slots: int) -> dict[str, float]:
    """Return the figures of a run over streams.

    Parameters
    ----------
    units
        In the paper's way of counting.
    slots
        Ours.
    """
    counters, tuples = outcome.counters, outcome.read
    kept = max(counters["state_rows"], 1)
    found = {
        "throughput": outcome.rate,
        "kept": counters["state_rows"],
        "state": counters["state_bytes"] / 1e3,
        "sent": counters["bytes_in"] / 1e3,
        "intermediates": counters["packs"],
        "comparisons": counters["comparisons"],
        "volume": units * tuples / kept,
        "balance": max(outcome.slots, default=0) * slots / max(sum(outcome.slots), 1),
        "results": outcome.results or 0,
    }
    return found | ({"cpu": 1e6 * outcome.cpu.total / tuples} if outcome.cpu else {})


class Runner:
    """Runs contenders; it starts Spark when the first of them needs it.

    Parameters
    ----------
    asked
        What is asked for.
    """

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._session: Here | None = None
        self._home = Path(tempfile.mkdtemp(prefix="trijoin-paper-"))

    @property
    def session(self) -> Here:
        """The session of all streams."""
        if self._session is None:
            from .measure import settings_of

            settings = settings_of(NAME, self.asked.cores) | {"spark.ui.liveUpdate.period": "0"}
            self._session = Here(trijoin_runner.session(settings))
        return self._session

    def warming(self) -> Iterator[int]:
        """Yield one round, and more until the JVM has compiled, if time is given to that."""
        yield from Warming(self.session.compiled, self.asked.settle).rounds(1)

    def close(self) -> None:
        """End the session, and remove what was written."""
        if self._session is not None:
            self._session.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def run(self, experiment: Experiment, label: str, value: float | None) -> list[Point]:
        """Run a contender of an experiment at a swept value."""
        settings, contender = Settings.of(experiment, value), experiment.contenders[label]
        ways: Mapping[str, Callable[..., list[Point]]] = {
            "stream": self._stream,
            "live": self._live,
            "bounded": self._bounded,
            "scaling": self._scaling,
            "plans": _plan,
        }
        return ways[experiment.kind](Point(label, value, {}), contender, settings, experiment)

    def _files(self, name: str, rows: int, batches: int) -> Path:
        """Return a folder with a workload's files, of which the first to ask for it has them written."""
        folder = self._home / f"{name}-{rows}-{batches}"
        if not folder.exists():
            write_files(WORKLOADS[name], folder, rows, batches, self.asked.seed)
        return folder

    def _stream(self, point: Point, contender: Contender, settings: Settings, experiment: Experiment) -> list[Point]:
        if experiment.warm is None:
            self.session.spark.conf.unset(WARM_BYTES)
        else:
            rows = experiment.values[-1] if experiment.swept == "rows" else settings.rows
            self.session.spark.conf.set(WARM_BYTES, str(round(experiment.warm * rows)))
        folder = self._files(contender.workload, settings.rows, settings.batches)
        engine, workload = engine_of(contender, settings.units), workload_of(contender, settings)
        before = self._shuffled()
        outcome = run_stream(self.session, workload, folder, engine, settings.rows)
        if outcome.problem:
            return [replace(point, problem=outcome.problem)]
        slots = max(round(contender.units * settings.units), 1)
        shuffled = {"shuffled": (self._shuffled() - before) / 1e3}
        return [replace(point, figures=figures_of(outcome, settings.units, slots) | shuffled)]

    def _shuffled(self) -> int:
        """Return the bytes that the session's tasks have shuffled so far."""
        context: Any = self.session.spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        executors = context.statusStore().executorList(False)
        return sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size()))

    def _live(self, point: Point, contender: Contender, settings: Settings, experiment: Experiment) -> list[Point]:
        workload = workload_of(contender, settings)
        streams = len(workload.streams)
        arrivals = Arrivals.at(
            experiment.rate, streams, experiment.seconds, settings.rows, sample=_SAMPLE, trigger=settings.trigger
        )
        engine = engine_of(contender, settings.units)
        run = run_live(self.session.spark, workload, engine, arrivals, self.asked.seed)
        if run.problem or run.mean is None:
            return [replace(point, problem=run.problem or "no results in time")]
        return [replace(point, figures={"latency": 1e3 * run.mean, "p99": 1e3 * (run.latency(0.99) or 0.0)})]

    def _bounded(self, point: Point, contender: Contender, settings: Settings, _: Experiment) -> list[Point]:
        folder = self._files(contender.workload, settings.rows, settings.batches)
        scheme, _slash, kept = contender.scheme.partition("/")
        name, _open, order = scheme.rstrip(")").partition("(")
        streams = WORKLOADS[contender.workload].streams
        run = run_bounded(
            Bound(
                str(folder),
                name,
                _kept(kept),
                tuple(streams.index(one.strip()) for one in order.split(",")) if order else (),
                None if settings.limit is None else round(settings.limit * _GIGABYTE * settings.rows),
                None if settings.memory is None else round(settings.memory * 1e6),
            )
        )
        rows = sum(WORKLOADS[contender.workload].sizes(settings.rows))
        figures = {
            "complete": run.last.rows / rows,
            "own": run.most / 1e6,
            "seconds": run.last.seconds,
            "cpu_seconds": run.last.cpu,
            "kept": float(run.stored),
            "state": run.state_bytes / 1e3,
            "results": float(run.last.results),
        }
        return [replace(point, figures=figures)]

    def _scaling(self, point: Point, contender: Contender, settings: Settings, _: Experiment) -> list[Point]:
        """Run a query whose units follow its load: a point for each micro-batch after which it decided."""
        import trijoin_sql

        workload, spark = workload_of(contender, settings), self.session.spark
        parts = [part for batches, part in _LOAD for _ in range(batches)]
        each = settings.rows / sum(parts)
        counts = [max(round(each * part), 1) for part in parts]
        folder = self._loads(contender.workload, settings.rows, counts)
        for stream in workload.streams:
            reader = spark.readStream.schema(_TIMED_SCHEMA).option("maxFilesPerTrigger", 1)
            reader.parquet(str(folder / stream)).withWatermark("ts", "1 second").createOrReplaceTempView(stream)
        ours = {"enabled": "true", "unitBytes": str(round(_UNIT_BYTES * settings.rows)), "maxUnits": "16"}
        for name, text in ours.items():
            spark.conf.set(f"spark.trijoin.scaling.{name}", text)
        checkpoint = Path(tempfile.mkdtemp(dir=self._home))
        try:
            tj = trijoin_sql.TriJoinSession.create(spark)
            writer = tj.sql(query(workload, engine_of(contender, settings.units))).writeStream.format("noop")
            running = tj.start(writer.trigger(processingTime="0 seconds"), str(checkpoint))
            while not running.awaitTermination(0.2):
                read = sum(_read(checkpoint, stream) for stream in range(len(workload.streams)))
                last: Any = running.query.lastProgress
                if read >= len(counts) * len(workload.streams) and last is not None and not last.numInputRows:
                    break
            running.stop()
        finally:
            for name in ours:
                spark.conf.unset(f"spark.trijoin.scaling.{name}")
        said = {one.batch: one for some in running.decisions.values() for one in some}
        return [
            replace(
                point,
                value=batch,
                figures={"rows": counts[batch] if batch < len(counts) else 0, "load": one.load, "units": one.units},
            )
            for batch, one in sorted(said.items())
            if batch < len(counts)
        ]

    def _loads(self, name: str, rows: int, counts: Sequence[int]) -> Path:
        """Write streams whose micro-batches have so many rows, within `_STEP` seconds of event time each."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        from .workloads import table

        folder, workload = self._home / f"{name}-load", WORKLOADS[name]
        for number, stream in enumerate(workload.streams):
            rng, first = np.random.default_rng([self.asked.seed, number]), 0
            (folder / stream).mkdir(parents=True, exist_ok=True)
            for batch, count in enumerate(counts):
                at = 1_000_000 * _STEP * (batch + np.sort(rng.random(count)))
                times = pa.array(at.astype(np.int64), pa.timestamp("us", "UTC"))
                drawn = table(workload, number, rng, first, count, workload.domain(rows))
                pq.write_table(drawn.append_column("ts", times), folder / stream / f"{batch:05d}.parquet")
                first += count
        return folder


_TIMED_SCHEMA = "s STRING, d DOUBLE, l BIGINT, i INT, im INT, str STRING, ts TIMESTAMP"


def _read(checkpoint: Path, source: int) -> int:
    """Return how many files a source of a query has logged."""
    log = checkpoint / "sources" / str(source)
    lines = [path.read_text().splitlines()[1:] for path in log.glob("[0-9]*")] if log.exists() else []
    return len({json.loads(line)["path"] for some in lines for line in some if line})


def _kept(text: str) -> Kept:
    return "memory" if text == "memory" else "disk"


def _plan(point: Point, contender: Contender, _settings: Settings, _experiment: Experiment) -> list[Point]:
    """Return how many queries have nodes of ours in their plans, how many nodes, and over how many relations."""
    folder, found = Path(__file__).parents[2] / "queries" / "tpch", []
    for name in contender.workload.split():
        path = folder / f"{name}.sql"
        if not path.exists():
            raise UnavailableError(path.name, "TPC-H's queries are not there", hint="`make corpus` writes them")
        catalog, (sql,) = read_script(path.read_text(encoding="utf-8"))
        groups = rewrite(sql, catalog, RewriterSettings(tables="all")).groups
        found.append([len(group.graph.relations) for group in groups if group.decision.node != "none"])
    nodes = [relations for some in found for relations in some]
    return [replace(point, figures={"converted": sum(map(bool, found)), "nodes": len(nodes), "relations": sum(nodes)})]


def check(name: str) -> None:
    """Check that each contender of an experiment can be planned, and that findings name what is there.

    Raises
    ------
    InvalidSettingError
        A scheme does not fit its workload.
    """
    from .workloads import check as check_scheme

    experiment = EXPERIMENTS[name]
    for finding in experiment.findings:
        for label, at in ((finding.of, finding.at), (finding.to, finding.base)):
            if label and label not in experiment.contenders:
                raise InvalidSettingError(name, label, "a finding compares who does not run")
            if at is not None and experiment.swept != "batch" and at not in experiment.values:
                raise InvalidSettingError(name, at, "a finding is at a value that does not run")
        if (finding.figure or experiment.figures[0]) not in FIGURES:
            raise InvalidSettingError(name, finding.figure, "a finding compares what is not measured")
    for contender in experiment.contenders.values():
        if experiment.kind in ("stream", "live", "scaling"):
            for value in experiment.values or (None,):
                settings = Settings.of(experiment, value)
                engine = engine_of(contender, settings.units)
                check_scheme(workload_of(contender, settings), contender.workload, engine, settings.units)


def measure(
    experiment: Experiment,
    run: Callable[[str, float | None], list[Point]],
    advance: Callable[[str], None],
    warming: Iterable[int] = (0,),
) -> list[Point]:
    """Run all contenders over all values, in turns; of several runs the median of each figure counts.

    Parameters
    ----------
    warming
        The rounds before that do not count, where something is timed.
    """
    values = experiment.values or (None,)
    for _ in warming if TIMED & set(experiment.figures) else ():
        for label in experiment.contenders:
            advance(f"{label}, warming up")
            run(label, values[0])
    found: list[Point] = []
    for value in values:
        several: dict[tuple[str, float | None], list[Point]] = {}
        for turn in range(experiment.runs):
            labels = list(experiment.contenders)
            for label in (*labels[turn % len(labels) :], *labels[: turn % len(labels)]):
                advance(label if value is None else f"{label}, {value:g} {SWEPT[experiment.swept]}")
                for point in run(label, value):
                    several.setdefault((point.label, point.value), []).append(point)
        in_order = [key for label in experiment.contenders for key in several if key[0] == label]
        found += [_median(several[key]) for key in in_order]
    return found


def _median(points: list[Point]) -> Point:
    failed = [point for point in points if point.problem]
    if failed:
        return failed[0]
    names = points[0].figures
    return replace(points[0], figures={name: median(point.figures[name] for point in points) for name in names})


def run(asked: Asked, *, output: str, json_file: Path | None, plot_file: Path | None, quiet: bool) -> bool:
    """List the experiments, or run some; return whether all contenders had figures, and equal numbers of results."""
    from trijoin_sql.spark.quiet import quiet_jvm, quiet_python

    from .measure import check_files

    for name in asked.names:
        if name not in EXPERIMENTS:
            raise InvalidSettingError("EXPERIMENT", name, f"there are {', '.join(EXPERIMENTS)}")
    out = Console(width=None if sys.stdout.isatty() else 140)
    if not asked.names:
        list_experiments(out, output)
        return True
    check_files(json_file, plot_file)
    err, well, documents = Console(stderr=True, quiet=quiet), True, []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    runner = Runner(asked)
    logging.getLogger("trijoin_sql").setLevel(logging.ERROR)  # that full-history joins keep all is what they are for
    with ExitStack() as stack:
        stack.callback(runner.close)
        stack.enter_context(quiet_python())
        stack.enter_context(quiet_jvm())
        progress = stack.enter_context(Progress(*columns, console=err, disable=not err.is_terminal))
        for name in asked.names:
            experiment = asked.sized(EXPERIMENTS[name])
            warm = bool(TIMED & set(experiment.figures))
            rounds = len(experiment.values or (None,)) * experiment.runs + warm
            task = progress.add_task(name, total=rounds * len(experiment.contenders))

            def advance(told: str, task: Any = task, name: str = name) -> None:
                progress.update(task, description=f"{name}: {told}", advance=1)

            warming = runner.warming() if warm else ()
            points = measure(experiment, lambda *at, one=experiment: runner.run(one, *at), advance, warming)
            settings = {one: getattr(asked, one) for one in ("cores", "settle", "seed")}
            documents.append(document(name, experiment, settings, points))
            if output == "text":
                for part in shown(name, experiment, points):
                    out.print(part)
                out.print(f"Here: {experiment.here}")
                out.print(f"Why: {experiment.why}\n")
            if problems := list(wrong(experiment, points)):
                Console(stderr=True).print("\n".join(problems), style="red")
            well = well and not problems
            if json_file is not None:
                write_json(json_file, documents)
    if output == "json":
        typer.echo(json.dumps(documents))
    if plot_file is not None:
        plot(plot_file, documents)
    return well
