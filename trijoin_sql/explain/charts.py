"""Charts of what happened over time, as SVG that a page stretches; the words around it are the page's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal

from .svg import element, title
from .wording import byte_size, shorten

#: Of a line at most this many points are drawn.
POINTS = 150
_WIDE, _HIGH = 600, 120
#: Round lengths of time, in seconds, for scales: half a minute to a day.
_TIMES = (20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18_000, 36_000, 86_400)

#: Seconds since 1970 and values.
Points = list[tuple[float, float]]
Form = Callable[[float], str]
Shape = Literal["steps", "line"]


def duration(value: float) -> str:
    """Return a length of time for people: ``120 ms``, ``4.2 s``, ``3 min 20 s``, ``2 h 5 min``, ``912 d 3 h``."""
    if value < 0:
        return f"-{duration(-value)}"
    if value < 60:
        return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
    for limit, big, small, base in ((3600, "min", "s", 60), (86400, "h", "min", 3600), (math.inf, "d", "h", 86400)):
        if value < limit:
            whole, rest = divmod(value, base)
            part = int(rest // {"s": 1, "min": 60, "h": 3600}[small])
            return f"{int(whole)} {big} {part} {small}" if part else f"{int(whole)} {big}"
    raise AssertionError("unreachable: the last limit is infinite")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: its points are seconds since 1970 and values, and ``latest`` is for people."""

    name: str
    css: str
    points: Points
    latest: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as a template takes it: ``marks`` (from the top down) and ``begins`` are the words at its axes."""

    title: str
    lines: list[Line]
    svg: str
    marks: tuple[str, ...]
    begins: str


def chart_of(
    name: str, form: Form, how: Shape, found: Sequence[tuple[str, str, Points]], begins: float, ends: float
) -> Chart:
    """Return a chart.

    Parameters
    ----------
    name
        Its title.
    form
        Writes values for people.
    how
        Whether a value holds from the point before (``steps``), or lines join the points.
    found
        For each line its name, its style, and its points.
    begins, ends
        Seconds since 1970.
    """
    lines = [
        Line(shorten(label, 28), css, points, form(points[-1][1]) if points else "–") for label, css, points in found
    ]
    top = _top(max((value for line in lines for _, value in line.points), default=0.0), form)
    svg = _drawing(name, lines, begins, ends, top, how, form)
    marks = tuple(form(top * part).replace(".0 s", " s").removesuffix(".0") for part in (1, 0.5))
    return Chart(name, lines, svg, (*marks, "0"), f"{duration(ends - begins)} ago".replace(".0 s", " s"))


def _top(value: float, form: Form) -> float:
    """Return the top of a scale, a round number of its unit."""
    if form is duration and value > 10:
        return next((float(step) for step in _TIMES if step >= value), _round_up(value / 86400) * 86400)
    unit = 1024.0 ** max(int(math.log(value, 1024)), 0) if form is byte_size and value > 1 else 1.0
    parts = _round_up(value / unit)
    return (parts if unit == 1 or parts < 1000 else 1024) * unit


def _round_up(value: float) -> float:
    """Return 1, 2 or 5 times a power of ten that is no less."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.9999)


def _thin(points: Points) -> Points:
    """Return fewer points: of neighbours the largest, since a peak is what one looks for."""
    step = math.ceil(len(points) / POINTS)
    groups = [points[at : at + step] for at in range(0, len(points), step)] if step > 1 else [[one] for one in points]
    return [(group[-1][0], max(value for _, value in group)) for group in groups]


def _drawing(
    label: str,
    lines: Sequence[Line],
    begins: float,
    ends: float,
    top: float,
    how: Shape,
    form: Form,
) -> str:
    """Return the lines as SVG that can be stretched; the words around it are the page's."""

    def x(at: float) -> float:
        return _WIDE * (at - begins) / max(ends - begins, 1.0)

    def y(value: float) -> float:
        return _HIGH - (_HIGH - 2) * max(value, 0.0) / top - 1

    parts = [element("path", d=f"M0 {y(top * part):.1f} H{_WIDE}", class_="rule") for part in (0, 0.5, 1)]
    told: dict[float, list[str]] = {}
    for line in lines:
        points = _thin(line.points)
        for at, value in points:
            told.setdefault(at, []).append(f"{line.name}: {form(value)}")
        data, before = "", None
        for at, value in points:
            here = f"{x(at):.1f} {y(value):.1f}"
            if before is None:
                data = f"M{here}"
            else:
                data += f" V{y(value):.1f} H{x(at):.1f}" if how == "steps" else f" L{here}"
            before = value
        if len(points) == 1:
            data += " h3"
        if data:
            parts.append(element("path", d=data, class_=f"trace {line.css}"))
    moments = sorted(told)
    for at, after in pairwise([*moments, ends]):
        when = datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
        text = title("\n".join([when, *told[at]]))
        parts.append(
            element("rect", text, x=x(at), y=0, width=max(x(after) - x(at), 1.0), height=_HIGH, class_="hover")
        )
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {_WIDE} {_HIGH}",
        preserveAspectRatio="none",
        class_="plot",
        role="img",
        aria_label=f"{label}: {', '.join(f'{line.name} {line.latest}' for line in lines)}",
    )
