"""What an experiment of the papers has found: tables, the papers' figures beside ours, plain data, a plot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from .paper_experiments import EXPERIMENTS, Experiment, Finding

#: The name on the command line.
NAME = "paper"

#: What is compared: how it is headed, and its decimals.
FIGURES: Mapping[str, tuple[str, int]] = {
    "latency": ("mean latency, ms", 0),
    "p99": ("99th percentile, ms", 0),
    "throughput": ("tuples/s", 0),
    "cpu": ("us of CPU a tuple", 1),
    "kept": ("rows kept", 0),
    "state": ("KB of state", 0),
    "sent": ("KB received by slots", 0),
    "shuffled": ("KB shuffled by Spark", 0),
    "intermediates": ("intermediate results", 0),
    "comparisons": ("comparisons", 0),
    "balance": ("rows of the fullest slot to the mean", 2),
    "volume": ("M tuples that fit", 1),
    "complete": ("share of the rows", 2),
    "results": ("results", 0),
    "own": ("MB of its own memory", 1),
    "cpu_seconds": ("seconds of CPU", 1),
    "seconds": ("seconds", 1),
    "rows": ("rows that came", 0),
    "load": ("load", 2),
    "units": ("units", 0),
    "converted": ("queries with a node of ours", 0),
    "nodes": ("nodes of ours", 0),
    "relations": ("relations in them", 0),
}

#: By the name of what an experiment varies: how a value is headed.
SWEPT = {
    "units": "units",
    "rows": "rows of a stream",
    "batches": "micro-batches",
    "window": "seconds of the window",
    "trigger": "seconds of a trigger",
    "memory": "MB of the warm copy",
    "limit": "GB of the paper",
    "batch": "micro-batch",
}


@dataclass(frozen=True, slots=True)
class Point:
    """What a contender had at a swept value."""

    label: str
    value: float | None
    figures: Mapping[str, float]
    problem: str | None = None


def ratio(finding: Finding, experiment: Experiment, points: Sequence[Point]) -> float | None:
    """Return our ratio for a finding, None if one of both has no figure."""
    figure = finding.figure or experiment.figures[0]

    def of(label: str, at: float | None) -> float | None:
        some = [point for point in points if point.label == label and at in (None, point.value)]
        if not some or any(figure not in point.figures for point in some):
            return None
        return fmean(point.figures[figure] for point in some)

    one = of(finding.of, finding.at)
    if not finding.to:
        return one
    other = of(finding.to, finding.base if finding.base is not None else finding.at)
    return one / other if one is not None and other else None


def wrong(experiment: Experiment, points: Sequence[Point]) -> Iterator[str]:
    """Yield, in a sentence each, who failed, and who found other numbers of results over the same rows."""
    counts: dict[tuple[str, float | None], dict[str, float]] = {}
    for point in points:
        if point.problem:
            yield f"{point.label} failed: {point.problem}"
        elif "results" in point.figures and point.figures.get("complete", 1) == 1:
            workload = experiment.contenders[point.label].workload
            counts.setdefault((workload, point.value), {})[point.label] = point.figures["results"]
    for (workload, _), found in counts.items():
        if len(set(found.values())) > 1:
            told = ", ".join(f"{label} {count:,.0f}" for label, count in found.items())
            yield f"{workload}: they found different numbers of results: {told}"


def _number(figure: str, value: float | None) -> str:
    return "" if value is None else f"{value:,.{FIGURES[figure][1]}f}"


def shown(name: str, experiment: Experiment, points: Sequence[Point]) -> Iterator[str | Table]:
    """Yield what was measured, a table for each figure where something varies, and the paper's findings beside ours."""
    if not experiment.swept:
        yield f"{name}: {experiment.title}"
        table = Table("")
        for figure in experiment.figures:
            table.add_column(FIGURES[figure][0], justify="right")
        for point in points:
            told = [_number(figure, point.figures.get(figure)) for figure in experiment.figures]
            table.add_row(point.label, *([point.problem] if point.problem else told))
        yield table
    at = {(point.label, point.value): point for point in points}
    values = list(dict.fromkeys(point.value for point in points))
    if experiment.swept == "batch":
        yield f"{name}: {experiment.title}"
        yield _over_time(experiment, points)
    elif experiment.swept:
        for figure in experiment.figures:
            yield f"{name}: {experiment.title}; {FIGURES[figure][0]}"
            table = Table()
            table.add_column(SWEPT[experiment.swept], justify="right")
            for label in experiment.contenders:
                table.add_column(label, justify="right")
            for value in values:
                cells = [at.get((label, value)) for label in experiment.contenders]
                told = ["" if one is None else one.problem or _number(figure, one.figures.get(figure)) for one in cells]
                table.add_row(f"{value:g}", *told)
            yield table
    table = Table("the paper found", "of")
    for heading in ("paper", "here", "agrees"):
        table.add_column(heading, justify="right")
    for finding in experiment.findings:
        ours = ratio(finding, experiment, points)
        number = _times if finding.to else _plain
        agrees = "" if ours is None else "yes" if finding.agrees(ours) else "no"
        table.add_row(finding.said, _compared(finding), number(finding.ratio), number(ours), agrees)
    yield table


def _compared(finding: Finding) -> str:
    if not finding.to:
        return finding.of
    if finding.of != finding.to:
        return f"{finding.of} to {finding.to}" + (f" at {finding.at:g}" if finding.at is not None else "")
    return finding.of if finding.at is None else f"{finding.of} at {finding.at:g} to {finding.base:g}"


def _times(value: float | None) -> str:
    return "" if value is None else f"x {value:.2f}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _over_time(experiment: Experiment, points: Sequence[Point]) -> Table:
    """Return a line for each micro-batch after which something was different."""
    table = Table()
    for heading in ("micro-batch", *(FIGURES[figure][0] for figure in experiment.figures)):
        table.add_column(heading, justify="right")
    before: Point | None = None
    for point in points:
        same = before is not None and all(
            before.figures.get(one) == point.figures.get(one) for one in ("rows", "units")
        )
        if not same or point is points[-1]:
            cells = [_number(figure, point.figures.get(figure)) for figure in experiment.figures]
            table.add_row(f"{point.value:g}", *cells)
        before = point
    return table


def document(name: str, experiment: Experiment, asked: Mapping[str, float], points: Sequence[Point]) -> dict[str, Any]:
    """Return an experiment's results as plain data, with what was asked for beside its own settings."""
    return {
        "workload": NAME,
        "experiment": name,
        "title": experiment.title,
        "kind": experiment.kind,
        "settings": {
            **{one: getattr(experiment, one) for one in ("rows", "batches", "units", "rate", "seconds", "runs")},
            **asked,
        },
        "swept": experiment.swept,
        "points": [
            {
                "contender": point.label,
                "scheme": experiment.contenders[point.label].scheme,
                "value": point.value,
                "figures": dict(point.figures),
                "problem": point.problem,
            }
            for point in points
        ],
        "findings": [
            {
                "said": finding.said,
                "compared": _compared(finding),
                "paper": finding.ratio,
                "here": (ours := ratio(finding, experiment, points)),
                "agrees": None if ours is None else finding.agrees(ours),
            }
            for finding in experiment.findings
        ],
        "here": experiment.here,
        "why": experiment.why,
    }


def list_experiments(out: Console, output: str) -> None:
    if output == "json":
        typer.echo(json.dumps({name: one.title for name, one in EXPERIMENTS.items()}))
        return
    table = Table(title="python -m tests.bench paper NAME ...", title_justify="left")
    for heading in ("name", "what it shows", "who is compared", "over"):
        table.add_column(heading)
    for name, one in EXPERIMENTS.items():
        table.add_row(name, one.title, ", ".join(one.contenders), SWEPT.get(one.swept, ""))
    out.print(table)


def plot(path: Path, documents: Sequence[Mapping[str, Any]]) -> None:
    """Draw each experiment's first figure: lines over what varies, bars where nothing does."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn, axes = pyplot.subplots(1, len(documents), figsize=(5 * len(documents), 4), squeeze=False)
    for axis, found in zip(axes[0], documents, strict=True):
        figure = EXPERIMENTS[found["experiment"]].figures[-1 if found["swept"] == "batch" else 0]
        lines: dict[str, list[tuple[Any, float]]] = {}
        for point in found["points"]:
            lines.setdefault(point["contender"], []).append((point["value"], point["figures"].get(figure, 0.0)))
        for label, points in lines.items():
            if found["swept"]:
                axis.plot(*zip(*points, strict=True), "o-", label=label)
            else:
                axis.bar(label, points[0][1], color="C0")
        if found["swept"]:
            axis.set_xlabel(SWEPT[found["swept"]])
            axis.legend(fontsize=8)
        else:
            axis.tick_params(axis="x", rotation=45)
        axis.set_title(f"{found['experiment']}: {found['title']}", fontsize=9)
        axis.set_ylabel(FIGURES[figure][0])
        axis.set_ylim(bottom=0)
    drawn.tight_layout()
    drawn.savefig(path)
    pyplot.close(drawn)
