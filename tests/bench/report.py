"""The result of a benchmark: tables, JSON, a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from .engines import AT
from .live import Latency, Live
from .outcome import OTHERS, Outcome
from .processes import Cpu

#: The baseline of the papers: latencies are compared with it.
BASELINE = "tree"

#: Parts of a micro-batch by Spark's names, in order of time.
PARTS = ("latestOffset", "queryPlanning", "getBatch", "walCommit", "addBatch", "commitBatch", "commitOffsets")


def as_document(
    workload: str,
    about: str,
    rows: int,
    batches: int,
    outcomes: Mapping[str, list[Outcome]],
    latencies: Sequence[Latency] = (),
    idle: Mapping[str, Live] | None = None,
) -> dict[str, Any]:
    """Return everything measured as plain data: every run, not only the median."""
    return {
        "workload": workload,
        "about": about,
        "rows_a_stream": rows,
        "batches": batches,
        "seconds_hold": {name: OTHERS.get(name, OTHERS["spark"]) for name in outcomes},
        "engines": as_runs(outcomes),
        "latency": [
            {
                "tuples_a_second": round(latency.rate),
                "sample": latency.sample,
                "engines": {name: _live(run) for name, run in latency.runs.items()},
            }
            for latency in latencies
        ],
        "idle": {name: _live(run) for name, run in (idle or {}).items()},
    }


def as_runs(outcomes: Mapping[str, list[Outcome]]) -> dict[str, Any]:
    """Return every run as plain data."""
    return {
        name: [{**asdict(outcome), "tuples_a_second": round(outcome.rate)} for outcome in runs]
        for name, runs in outcomes.items()
    }


def _live(run: Live) -> dict[str, Any]:
    return {
        **asdict(run),
        "results": run.results,
        "mean": run.mean,
        **{f"p{round(100 * quantile)}": run.latency(quantile) for quantile in (0.5, 0.95, 0.99)},
    }


def as_table(title: str, medians: Mapping[str, Outcome]) -> Table:
    """Return a table of the median runs, with ratios to the first engine, of a commit to the present one's scheme."""
    table = Table(title=title, title_justify="left")
    table.add_column("engine")
    counted = ("results", "packs", "pairs", "MB shuffled", "MB state", "MB memory")
    for heading in ("tuples/s", "ratio", "trigger s", *counted):
        table.add_column(heading, justify="right")
    rates = {name: outcome.rate for name, outcome in medians.items() if outcome.problem is None}
    for name, outcome in medians.items():
        if outcome.problem is not None:
            table.add_row(name, outcome.problem)
            continue
        counters = outcome.counters
        table.add_row(
            f"{name} (> {outcome.seconds:,.0f} s)" if outcome.exceeded else name,
            f"{'< ' if outcome.exceeded else ''}{outcome.rate:,.0f}",
            _ratio(outcome, _base(name, rates)),
            _seconds(outcome.trigger(0.5)),
            "" if outcome.results is None else f"{outcome.results:,}",
            f"{counters['packs']:,}" if counters else "",
            f"{counters['pairs']:,}" if counters else "",
            f"{counters['bytes_in'] / 1e6:,.1f}" if counters else "",
            f"{counters['state_bytes'] / 1e6:,.1f}" if counters else "",
            "" if outcome.memory is None else f"{outcome.memory / 1e6:,.0f}",
        )
    return table


def _base(name: str, figures: Mapping[str, float]) -> float:
    """Return what an engine is compared with: the same scheme of the present version, else the first engine."""
    present, at, _ = name.partition(AT)
    return figures.get(present, 0.0) if at else next(iter(figures.values()), 0.0)


def cpu_table(title: str, cpus: Mapping[str, Sequence[Cpu]]) -> Table:
    """Return a table of the processor time of the runs with the median of it, with ratios as in `as_table`."""
    medians = {
        name: sorted(runs, key=lambda run: run.total)[(len(runs) - 1) // 2] for name, runs in cpus.items() if runs
    }
    totals = {name: cpu.total for name, cpu in medians.items()}
    table = Table(title=title, title_justify="left")
    table.add_column("engine")
    for heading in ("CPU s", "ratio", "JVM", "Python workers", "driver"):
        table.add_column(heading, justify="right")
    for name, cpu in medians.items():
        base = _base(name, totals)
        parts = (f"{part:,.3g}" for part in (cpu.jvm, cpu.workers, cpu.driver))
        table.add_row(name, f"{cpu.total:,.3g}", f"{cpu.total / base:.2f}" if base else "", *parts)
    return table


def latency_table(title: str, live: Mapping[str, Live]) -> Table:
    """Return a table of result latencies, with what each scheme saves against the baseline."""
    table = Table(title=title, title_justify="left")
    table.add_column("engine")
    for heading in ("p50 s", "p95 s", "p99 s", "mean s", f"mean against {BASELINE}", "trigger s", "results"):
        table.add_column(heading, justify="right")
    base = live[BASELINE].mean if BASELINE in live else None
    for name, run in live.items():
        if run.problem is not None or run.mean is None:
            table.add_row(name, run.problem or "no results in time")
            continue
        saved = "" if base is None or name == BASELINE else f"{100 * (run.mean / base - 1):+.0f} %"
        quantiles = (_seconds(run.latency(quantile)) for quantile in (0.5, 0.95, 0.99))
        trigger = _seconds(run.durations["triggerExecution"] / 1000)
        table.add_row(name, *quantiles, _seconds(run.mean), saved, trigger, f"{run.results:,}")
    return table


def idle_table(title: str, idle: Mapping[str, Live]) -> Table:
    """Return a table of where the time of small triggers goes."""
    table = Table(title=title, title_justify="left")
    table.add_column("engine")
    for heading in ("trigger", *PARTS):
        table.add_column(heading, justify="right")
    for name, run in idle.items():
        if run.problem is not None or not run.durations:
            table.add_row(name, run.problem or "no triggers in time")
            continue
        parts = (f"{run.durations.get(part, 0):.0f}" for part in ("triggerExecution", *PARTS))
        table.add_row(name, *parts)
    return table


def _ratio(outcome: Outcome, first: float) -> str:
    """Return a rate as a ratio to the first engine's, with two significant digits."""
    if not first or not outcome.rate:
        return ""
    ratio = outcome.rate / first
    sign = "< " if outcome.exceeded else ""
    return f"{sign}{ratio:.2f}" if ratio >= 0.1 else f"{sign}1/{1 / ratio:,.0f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def write_json(path: Path, documents: list[Any]) -> None:
    """Write documents to a file."""
    path.write_text(json.dumps(documents, indent=2) + "\n", encoding="utf-8")


def plot(path: Path, documents: list[Any]) -> None:
    """Draw tuples a second of every engine, one column of bars a workload, and latencies below them, if there are any.

    A run that was stopped at its time limit is drawn hollow: its bar is an upper bound.

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed (``pip install matplotlib``).
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = 2 if any(document["latency"] for document in documents) else 1
    figure, axes = pyplot.subplots(lines, len(documents), figsize=(5 * len(documents), 4 * lines), squeeze=False)
    for axis, document in zip(axes[0], documents, strict=True):
        for name, runs in document["engines"].items():
            good = [run for run in runs if run["problem"] is None] or runs
            middle = sorted(good, key=lambda run: run["tuples_a_second"])[(len(good) - 1) // 2]
            axis.bar(name, middle["tuples_a_second"], color="C0", fill=not middle["exceeded"], edgecolor="C0")
        heights = [bar.get_height() for bar in axis.patches if bar.get_height()]
        if heights and max(heights) > 30 * min(heights):
            axis.set_yscale("log")
        axis.set_title(document["workload"])
        axis.set_ylabel("tuples/s (median)")
        axis.tick_params(axis="x", rotation=30)
    for axis, document in zip(axes[1] if lines == 2 else (), documents, strict=False):
        _plot_latency(axis, document["latency"])
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def _plot_latency(axis: Any, latency: Sequence[Mapping[str, Any]]) -> None:
    """Draw the latencies of one rate as bars, those of several rates as lines."""
    if len(latency) == 1:
        for name, run in latency[0]["engines"].items():
            axis.bar(name, run["p50"] or 0, color="C1")
            axis.plot([name, name], [run["p50"] or 0, run["p99"] or 0], color="black")
        axis.set_ylabel("latency in s (p50, line to p99)")
        axis.tick_params(axis="x", rotation=30)
        return
    for name in latency[0]["engines"] if latency else ():
        means = [one["engines"][name]["mean"] for one in latency]
        kept_up = [mean if mean is not None else float("nan") for mean in means]
        axis.plot([one["tuples_a_second"] for one in latency], kept_up, "o-", label=name)
        axis.legend()
    axis.set_ylabel("mean latency in s")
    axis.set_xlabel("tuples/s arriving")
