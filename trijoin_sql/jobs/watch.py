"""``run --watch``: a page about the running queries, over the last minutes; served on this machine, or as a file.

The page is one document without anything to fetch, in the styles of EXPLAIN's. It is drawn anew each time that it is
asked for, from what Spark reported: a `Report` for each micro-batch.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..explain.charts import Chart, Form, Points, Shape, chart_of, duration
from ..explain.html import asset, digest, environment
from ..explain.wording import byte_size
from ..running.metrics import BatchCounters, batch_counters
from .progress import Tally, number, rate, short_time

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_log = logging.getLogger("trijoin_sql")

#: The page shows at most this many seconds.
SHOWN = 600.0
#: Seconds between two versions of the page.
EVERY = 2.0
#: What this machine is called by a browser on it. Under another name it is a page from elsewhere that asks.
_HOSTS = ("127.0.0.1", "localhost")


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
    output_rows
        Rows for the sink.
    lags
        By how many seconds the newest event time of each input, and the ``watermark``, were behind the clock.
    state_rows, state_bytes
        What was kept afterwards.
    latencies
        In real time: percentiles of the results of these seconds, in milliseconds. A report is of some seconds of a
        batch then.
    """

    at: float
    seconds: float
    gap: float
    phases: dict[str, int]
    rows: dict[str, int]
    output_rows: int
    lags: dict[str, float]
    state_rows: int
    state_bytes: int
    latencies: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Watched:
    """A query and its reports; ``endless`` are the inputs whose rows it keeps for ever."""

    tally: Tally
    endless: tuple[str, ...] = ()
    reports: deque[Report] = field(default_factory=lambda: deque(maxlen=20_000))
    _newest: dict[str, float] = field(default_factory=dict)

    def hear(self, progress: Any, rows: dict[str, int], output_rows: int) -> None:
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
        self.reports.append(Report(at, seconds, gap, phases, dict(rows), output_rows, lags, *kept))

    def hear_within(self, seconds: float, rows: dict[str, int], results: int, counters: BatchCounters) -> None:
        """Take what a query in real time did in some seconds of a batch."""
        at, tally = time.time(), self.tally
        for alias, newest in _newest_of([counters]):
            self._newest[alias] = max(newest, self._newest.get(alias, newest))
        if watermark := max(slot["watermark"] for slot in counters.slots):
            self._newest["watermark"] = watermark / 1e6
        lags = {name: at - newest for name, newest in self._newest.items()}
        kept = tally.state_rows, tally.state_bytes
        latencies = dict(tally.latencies) if results else {}
        self.reports.append(Report(at, seconds, seconds, {}, dict(rows), results, lags, *kept, latencies))


def _newest(progress: Any) -> Iterator[tuple[str, float]]:
    """Yield the newest event times in a micro-batch: by alias of a join of ours, else Spark's of the whole query."""
    found = list(_newest_of(batch_counters(progress)))
    newest = (progress.eventTime or {}).get("max")
    yield from found or ([("event time", datetime.fromisoformat(newest).timestamp())] if newest else [])


def _newest_of(found: Iterable[BatchCounters]) -> Iterator[tuple[str, float]]:
    yield from (
        (alias, micros / 1e6)
        for counters in found
        for slot in counters.slots
        for alias, micros in slot.get("inputs", {}).items()
        if micros is not None
    )


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
        tally.heard, tally.heard_within = watched.hear, watched.hear_within
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
        script, theme = asset("watch.js"), asset("theme.js")
        policy = (
            f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(theme)}' '{digest(script)}'; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'"
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
                theme=theme,
                queries=[(one, _tiles(one), _charts(one, now)) for one in self.queries],
            )
        )
        return shown

    def close(self) -> None:
        """Show for the last time: the job has ended."""
        self.over = True


class WatchFile(Watch):
    """The page as a file that is replaced every other second, as soon as it can be again where it could not."""

    def __init__(self, job: str, path: Path) -> None:
        super().__init__(job)
        self.place = str(path)
        self._path, self._ends = path, threading.Event()
        self._write()
        self._thread = threading.Thread(target=self._rewrite, name="watch", daemon=True)
        self._thread.start()

    def _rewrite(self) -> None:
        while not self._ends.wait(EVERY):
            with contextlib.suppress(OSError):
                self._write()

    def _write(self) -> None:
        # Under a name that nobody knows before, and only if it is new: in a folder of others it might be a link.
        beside = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        try:
            with beside.open("x", encoding="utf-8") as file:
                file.write(self.page())
            beside.replace(self._path)  # a reader never sees half a page
        finally:
            beside.unlink(missing_ok=True)

    def close(self) -> None:
        """Write the page for the last time."""
        super().close()
        self._ends.set()
        self._thread.join()
        try:
            self._write()
        except OSError as error:  # the job has run all the same
            _log.warning("the page %s was not written for the last time: %s", self.place, error.strerror or error)


class WatchServer(Watch):
    """The page on a port of this machine, its data as ``/data.json``, and ``/metrics`` for Prometheus."""

    def __init__(self, job: str, port: int) -> None:
        super().__init__(job)
        #: What ``/metrics`` serves.
        self.registry: CollectorRegistry | None = None
        self.page()  # what it lacks shows now, and not to a browser
        watch = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.headers.get("Host", "").partition(":")[0] not in _HOSTS:
                    self.send_error(403)
                elif self.path == "/":
                    self._answer(watch.page().encode(), "text/html; charset=utf-8")
                elif self.path == "/data.json":
                    self._answer(json.dumps(watch.to_dict()).encode(), "application/json; charset=utf-8")
                elif self.path != "/metrics":
                    self.send_error(404)
                elif watch.registry is None:
                    self.send_error(404, "pip install 'trijoin-sql[metrics]'")
                else:
                    from prometheus_client.exposition import choose_encoder

                    encode, form = choose_encoder(self.headers.get("Accept", ""))
                    self._answer(encode(watch.registry), form)

            def _answer(self, body: bytes, form: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", form)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(body)

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
    ValueError
        The file's name says that it holds something else.
    """
    if Path(where).suffix.lower() not in ("", ".html", ".htm"):
        raise ValueError(f"the page is HTML: name the file {Path(where).with_suffix('.html').name}")
    return WatchServer(job, int(where)) if where.isdigit() else WatchFile(job, Path(where))


def _tiles(one: Watched) -> list[tuple[str, str]]:
    tally = one.tally
    last = one.reports[-1] if one.reports else None
    lag = last.lags.get("watermark") if last else None
    found = [
        ("rows a second", tally.shown_rate),
        ("rows in", number(tally.all_in)),
        ("rows out", number(tally.all_out)),
        ("latency", tally.shown_latency)
        if tally.latencies
        else ("time of a trigger", duration(last.seconds) if last else "–"),
        ("rows kept", number(tally.state_rows)),
        ("state", byte_size(tally.state_bytes)),
        ("watermark", short_time(tally.watermark) or "none"),
    ]
    found += [("behind the clock", duration(lag))] if lag is not None else []
    found += [("late rows", tally.shown_late)] if tally.late_rows else []
    return found + ([("late by", tally.furthest_late)] if tally.furthest_late else [])


def _charts(one: Watched, now: float) -> list[Chart]:
    reports = list(one.reports)
    if not reports:
        return []
    begins = max(now - SHOWN, min(reports[0].at, now - 30))
    some = [report for report in reports if report.at >= begins]
    inputs = list(dict.fromkeys(name for report in reports[-500:] for name in report.rows))
    aliases = [name for name in reports[-1].lags if name != "watermark"]

    def chart(name: str, form: Form, how: Shape, *found: tuple[str, str, Points]) -> Chart:
        return chart_of(name, form, how, found, begins, now)

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
    if one.tally.latencies:
        late = {name: [(at.at, at.latencies[name] / 1000) for at in some if at.latencies] for name in ("p50", "p99")}
        named = (("half of the results", "s0", late["p50"]), ("99 of 100", "s1", late["p99"]))
        times = [chart("Latency of results, up to", duration, "steps", *named)]
    else:
        taken = points(lambda one: one.seconds)
        times = [chart("Time of a trigger", duration, "steps", ("trigger", "plain", taken))]
    rows_out = points(lambda one: one.output_rows / one.gap)
    return [
        chart("Rows a second", rate, "steps", *rates),
        chart("Rows out a second", rate, "steps", ("rows out", "plain", rows_out)),
        *([chart("Behind the clock", duration, "line", *lags)] if lags else []),
        *times,
        chart("Rows kept", number, "line", ("rows", "plain", points(lambda one: one.state_rows))),
        chart("State", byte_size, "line", ("bytes", "plain", points(lambda one: one.state_bytes))),
    ]
