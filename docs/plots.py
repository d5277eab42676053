"""The plots of the page on performance, drawn from ``performance.json``: one for light pages and one for dark ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: Ink, grid and the two series, for each kind of page. The series differ in lightness too, for who sees no colours.
_COLOURS = {
    "light": ("#1a1c1f", "#d5d5d0", "#2563c9", "#c98a3a"),
    "dark": ("#e8eaed", "#3a4048", "#7fb0ff", "#f0c080"),
}


def write_plots(data: Path, folder: Path) -> list[Path]:
    """Draw every plot.

    Parameters
    ----------
    data
        The figures.
    folder
        Where the SVG files go.

    Returns
    -------
    list of pathlib.Path
        The files.
    """
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures give the same bytes: no date, no random ids. Text stays text, in the page's own font.
    mpl.rcParams.update({"svg.hashsalt": "trijoin", "svg.fonttype": "none", "font.family": "sans-serif"})
    figures = json.loads(data.read_text("utf-8"))
    folder.mkdir(exist_ok=True)
    written = []
    for theme, colours in _COLOURS.items():
        for name, draw in (("latency", _latency), ("engines", _engines)):
            written.append(folder / f"{name}_{theme}.svg")
            figure = draw(figures[name], *colours)
            figure.savefig(written[-1], transparent=True, bbox_inches="tight", metadata={"Date": None})
    return written


def _axes(axes: Any, ink: str, grid: str, title: str) -> None:
    axes.set_title(title, color=ink, fontsize=11, loc="left")
    axes.tick_params(colors=ink, labelsize=9)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(grid)


def _latency(figures: list[dict[str, Any]], ink: str, grid: str, ours: str, other: str) -> Any:
    """Bars in pairs, with a line up to the 99th percentile."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.4))
    for axes, workload in zip(figure.subplots(1, len(figures), sharey=True), figures, strict=True):
        places = range(len(workload["rates"]))
        for shift, scheme, colour in ((-0.2, workload["scheme"], ours), (0.2, "tree", other)):
            means, ends = (workload[scheme][key] for key in ("mean", "p99"))
            errors = [[0] * len(means), [end - mean for end, mean in zip(ends, means, strict=True)]]
            at = [place + shift for place in places]
            axes.bar(at, means, 0.38, color=colour, label=scheme)
            axes.errorbar(at, means, yerr=errors, fmt="none", ecolor=ink, elinewidth=1, capsize=3)
        axes.set_xticks(list(places), [f"{rate:,}" for rate in workload["rates"]])
        axes.set_xlabel("tuples a second", color=ink, fontsize=9)
        axes.grid(axis="y", color=grid, linewidth=0.6)
        axes.legend(frameon=False, labelcolor=ink, fontsize=9)
        _axes(axes, ink, grid, workload["workload"])
    figure.axes[0].set_ylabel("seconds: mean, line to the 99th percentile", color=ink, fontsize=9)
    figure.tight_layout()
    return figure


def _engines(figures: list[dict[str, Any]], ink: str, grid: str, ours: str, other: str) -> Any:
    """Horizontal bars with their numbers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 2.2))
    axes = figure.subplots()
    names = [one["engine"] for one in figures]
    rates = [one["tuples_per_second"] for one in figures]
    colours = [ours if one["engine"].startswith("TriJoin") else other for one in figures]
    axes.barh(names, rates, color=colours)
    for place, (rate, one) in enumerate(zip(rates, figures, strict=True)):
        axes.text(rate + max(rates) * 0.01, place, one["label"], va="center", color=ink, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, max(rates) * 1.2)
    axes.set_xticks([])
    _axes(axes, ink, grid, "chain_band, tuples a second")
    return figure
