"""The result of a benchmark: a table, JSON, a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from .engines import Outcome


def as_document(workload: str, about: str, rows: int, batches: int, outcomes: Mapping[str, list[Outcome]]) -> Any:
    """Return everything measured as plain data: every run, not only the median."""
    return {
        "workload": workload,
        "about": about,
        "rows_a_stream": rows,
        "batches": batches,
        "engines": {
            name: [{**asdict(outcome), "tuples_a_second": round(outcome.rate)} for outcome in runs]
            for name, runs in outcomes.items()
        },
    }


def as_table(title: str, medians: Mapping[str, Outcome]) -> Table:
    """Return a table of the median runs, with ratios to the first engine."""
    table = Table(title=title, title_justify="left")
    table.add_column("engine")
    for heading in ("tuples/s", "ratio", "p50 s", "p95 s", "p99 s", "results", "packs", "pairs", "MB shuffled"):
        table.add_column(heading, justify="right")
    first = next((outcome.rate for outcome in medians.values() if outcome.problem is None), 0.0)
    for name, outcome in medians.items():
        if outcome.problem is not None:
            table.add_row(name, outcome.problem)
            continue
        counters = outcome.counters
        table.add_row(
            name,
            f"{outcome.rate:,.0f}",
            f"{outcome.rate / first:.2f}" if first else "",
            *(_seconds(outcome.latency(quantile)) for quantile in (0.5, 0.95, 0.99)),
            "" if outcome.results is None else f"{outcome.results:,}",
            f"{counters['packs']:,}" if counters else "",
            f"{counters['pairs']:,}" if counters else "",
            f"{counters['bytes_in'] / 1e6:,.1f}" if counters else "",
        )
    return table


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def write_json(path: Path, documents: list[Any]) -> None:
    """Write documents to a file."""
    path.write_text(json.dumps(documents, indent=2) + "\n", encoding="utf-8")


def plot(path: Path, documents: list[Any]) -> None:
    """Draw tuples a second of every engine, a group of bars a workload.

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed (``pip install 'trijoin-sql[bench]'``).
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(documents), figsize=(5 * len(documents), 4), squeeze=False)
    for axis, document in zip(axes[0], documents, strict=True):
        rates = {
            name: sorted(run["tuples_a_second"] for run in runs)[(len(runs) - 1) // 2]
            for name, runs in document["engines"].items()
        }
        axis.bar(list(rates), list(rates.values()))
        axis.set_title(document["workload"])
        axis.set_ylabel("tuples/s (median)")
        axis.tick_params(axis="x", rotation=30)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
