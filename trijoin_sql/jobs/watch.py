"""``run --watch``: a page about the running queries, over the last minutes; served on this machine, or as a file.

The page is one document without anything to fetch, in the styles of EXPLAIN's. It is drawn anew each time that it is
asked for, from what Spark reported: a `Report` for each micro-batch.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from ..explain.html import asset, digest, environment
from ..explain.svg import element, title
from ..explain.wording import byte_size, compact, shorten
from ..running.metrics import batch_counters
from .progress import Tally, number, short_time

#: The page shows at most this many seconds, and of a line this many points.
SHOWN, POINTS = 600.0, 150
#: Seconds between two versions of the page.
EVERY = 2.0
#: What this machine is called by a browser on it. Under another name it is a page from elsewhere that asks.
_HOSTS = ("127.0.0.1", "localhost")
_WIDE, _HIGH = 600, 120
#: Round lengths of time, in seconds, for scales: half a minute to a day.
_TIMES = (20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18_000, 36_000, 86_400)

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Report:
    """What Spark said about a micro-batch.

    Parameters
    ----------
    at
        When it began, in seconds since 1970.
    seconds
        How long it took.
    gap
        The time since the micro-batch before began, or how long this one took if that is more.
    phases
        What the time was spent on, in milliseconds, by Spark's names.
    rows
        Rows by input.
    results
        Rows for the sink.
    lags
        By how many seconds the newest event time of each input, and the ``watermark``, were behind the clock.
    state_rows, state_bytes
        What was kept afterwards.
    """

    at: float
    seconds: float
    gap: float
    phases: dict[str, int]
    rows: dict[str, int]
    results: int
    lags: dict[str, float]
    state_rows: int
    state_bytes: int


@dataclass(slots=True)
class Watched:
    """A query and its reports; ``endless`` are the inputs whose rows it keeps for ever."""

    tally: Tally
    endless: tuple[str, ...] = ()
    reports: deque[Report] = field(default_factory=lambda: deque(maxlen=20_000))
    _newest: dict[str, float] = field(default_factory=dict)

    def hear(self, progress: Any, rows: dict[str, int], results: int) -> None:
        """Take a progress report of Spark's, after the tally has taken it."""
        at, seconds = datetime.fromisoformat(progress.timestamp).timestamp(), progress.batchDuration / 1000
        for name, newest in _newest(progress):
            self._newest[name] = max(newest, self._newest.get(name, newest))
        if self.tally.watermark:
            self._newest["watermark"] = datetime.fromisoformat(self.tally.watermark).timestamp()
        gap = max(at - self.reports[-1].at if self.reports else 0.0, seconds, 0.001)
        phases = {name: int(spent) for name, spent in (progress.durationMs or {}).items()}
        lags = {name: at - newest for name, newest in self._newest.items()}
        kept = self.tally.state_rows, self.tally.state_bytes
        self.reports.append(Report(at, seconds, gap, phases, dict(rows), results, lags, *kept))


def _newest(progress: Any) -> Iterator[tuple[str, float]]:
    """Yield the newest event times in a micro-batch: by alias of a join of ours, else Spark's of the whole query."""
    found = [
        (alias, micros / 1e6)
        for counters in batch_counters(progress)
        for slot in counters.slots
        for alias, micros in slot.get("inputs", {}).items()
        if micros is not None
    ]
    newest = (progress.eventTime or {}).get("max")
    yield from found or ([("event time", datetime.fromisoformat(newest).timestamp())] if newest else [])


class Watch:
    """The page about a job.

    Parameters
    ----------
    job
        The name of its file.
    queries
        Filled by `add`.
    """

    def __init__(self, job: str) -> None:
        self.job = job
        self.queries: list[Watched] = []
        self.status: Callable[[], str] = lambda: "starting"
        self.over = False

    def add(self, tally: Tally, endless: tuple[str, ...]) -> None:
        """Watch a query."""
        watched = Watched(tally, endless)
        tally.heard = watched.hear
        self.queries.append(watched)

    def to_dict(self) -> dict[str, Any]:
        """Return all that the page shows as plain data."""
        queries = [
            {
                **one.tally.to_dict(),
                "endless": list(one.endless),
                "reports": [asdict(report) for report in list(one.reports)],
            }
            for one in self.queries
        ]
        return {"job": self.job, "status": self.status(), "over": self.over, "queries": queries}

    def page(self, now: float | None = None) -> str:
        """Return the page.

        Parameters
        ----------
        now
            Seconds since 1970; None asks the clock.
        """
        style = "\n".join(asset(name) for name in ("page.css", "figures.css", "watch.css"))
        script = asset("watch.js")
        policy = (
            f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'"
        )
        now = time.time() if now is None else now
        shown: str = (
            environment()
            .get_template("watch.html")
            .render(
                job=self.job,
                status="" if self.over else self.status().partition("running; ")[0],
                over=self.over,
                every=EVERY,
                at=datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
                policy=policy,
                style=style,
                script=script,
                queries=[(one, _tiles(one), _charts(one, now)) for one in self.queries],
            )
        )
        return shown

    def close(self) -> None:
        """Show for the last time: the job has ended."""
        self.over = True


class WatchFile(Watch):
    """The page as a file that is replaced every other second."""

    def __init__(self, job: str, path: Path) -> None:
        super().__init__(job)
        self.place = str(path)
        self._path, self._ends = path, threading.Event()
        self._write()
        self._thread = threading.Thread(target=self._rewrite, name="watch", daemon=True)
        self._thread.start()

    def _rewrite(self) -> None:
        while not self._ends.wait(EVERY):
            self._write()

    def _write(self) -> None:
        beside = self._path.with_name(f".{self._path.name}.new")
        beside.write_text(self.page(), encoding="utf-8")
        os.replace(beside, self._path)  # noqa: PTH105 (a reader never sees half a page)

    def close(self) -> None:
        """Write the page for the last time."""
        super().close()
        self._ends.set()
        self._thread.join()
        self._write()


class WatchServer(Watch):
    """The page on a port of this machine, and its data as ``/data.json``."""

    def __init__(self, job: str, port: int) -> None:
        super().__init__(job)
        self.page()  # what it lacks shows now, and not to a browser
        watch = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.headers.get("Host", "").partition(":")[0] not in _HOSTS:
                    self.send_error(403)
                elif self.path in ("/", "/data.json"):
                    page = self.path == "/"
                    body = (watch.page() if page else json.dumps(watch.to_dict())).encode()
                    self.send_response(200)
                    self.send_header("Content-Type", f"{'text/html' if page else 'application/json'}; charset=utf-8")
                    self.send_header("Content-Length", str(len(body)))
                    self.send_header("Cache-Control", "no-store")
                    self.end_headers()
                    self.wfile.write(body)
                else:
                    self.send_error(404)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: the terminal shows the job."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.place = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, name="watch", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        super().close()
        self._server.shutdown()
        self._server.server_close()


def start_watch(job: str, where: str) -> WatchFile | WatchServer:
    """Start the page: on a port, if ``where`` is a number (0: any free one), else as a file.

    Raises
    ------
    OSError
        The port is taken, or the file cannot be written.
    OverflowError
        There is no such port.
    """
    return WatchServer(job, int(where)) if where.isdigit() else WatchFile(job, Path(where))


def _tiles(one: Watched) -> list[tuple[str, str]]:
    tally = one.tally
    last = one.reports[-1] if one.reports else None
    lag = last.lags.get("watermark") if last else None
    found = [
        ("rows a second", tally.shown_rate),
        ("rows in", number(tally.input_rows)),
        ("results", number(tally.results)),
        ("time of a trigger", _seconds(last.seconds) if last else "–"),
        ("rows kept", number(tally.state_rows)),
        ("state", byte_size(tally.state_bytes)),
        ("watermark", short_time(tally.watermark) or "none"),
    ]
    found += [("behind the clock", _seconds(lag))] if lag is not None else []
    return found + ([("late rows", number(tally.late_rows))] if tally.late_rows else [])


def _seconds(value: float) -> str:
    """Return a length of time for people: ``120 ms``, ``4.2 s``, ``3 min 20 s``, ``2 h 5 min``, ``912 d 3 h``."""
    if value < 0:
        return f"-{_seconds(-value)}"
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
    """A chart as the template takes it."""

    title: str
    lines: list[Line]
    svg: str
    top: str
    begins: str


def _charts(one: Watched, now: float) -> list[Chart]:
    reports = list(one.reports)
    if not reports:
        return []
    begins = max(now - SHOWN, min(reports[0].at, now - 30))
    some = [report for report in reports if report.at >= begins]
    inputs = list(dict.fromkeys(name for report in reports[-500:] for name in report.rows))
    aliases = [name for name in reports[-1].lags if name != "watermark"]

    def chart(
        name: str, form: Callable[[float], str], how: Literal["steps", "line"], *found: tuple[str, str, Points]
    ) -> Chart:
        lines = [
            Line(shorten(label, 28), css, points, form(points[-1][1]) if points else "–")
            for label, css, points in found
        ]
        top = _top(max((value for line in lines for _, value in line.points), default=0.0), form)
        svg = _drawing(name, lines, begins, now, top, how, form)
        return Chart(name, lines, svg, form(top), f"{_seconds(now - begins)} ago".replace(".0 s", " s"))

    def points(get: Callable[[Report], float]) -> Points:
        return [(one.at, get(one)) for one in some]

    def lag(name: str) -> Points:
        return [(one.at, one.lags[name]) for one in some if name in one.lags]

    rates = [
        (name, f"s{rank % 8}", [(one.at, one.rows.get(name, 0) / one.gap) for one in some])
        for rank, name in enumerate(inputs)
    ]
    lags = [(name, f"s{rank % 8}", lag(name)) for rank, name in enumerate(aliases)]
    lags += [("watermark", "mark", lag("watermark"))] if one.tally.watermark else []
    return [
        chart("Rows a second", compact, "steps", *rates),
        chart("Results a second", compact, "steps", ("results", "plain", points(lambda one: one.results / one.gap))),
        *([chart("Behind the clock", _seconds, "line", *lags)] if lags else []),
        chart("Time of a trigger", _seconds, "steps", ("trigger", "plain", points(lambda one: one.seconds))),
        chart("Rows kept", compact, "line", ("rows", "plain", points(lambda one: one.state_rows))),
        chart("State", byte_size, "line", ("bytes", "plain", points(lambda one: one.state_bytes))),
    ]


def _top(value: float, form: Callable[[float], str]) -> float:
    """Return the top of a scale, a round number of its unit."""
    if form is _seconds and value > 10:
        return next((float(step) for step in _TIMES if step >= value), _round_up(value / 86400) * 86400)
    unit = 1024.0 ** max(int(math.log(value, 1024)), 0) if form is byte_size and value > 1 else 1.0
    return _round_up(value / unit) * unit


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
    how: Literal["steps", "line"],
    form: Callable[[float], str],
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
