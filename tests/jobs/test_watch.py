"""The page about running queries, from made-up progress reports: numbers, lines, its server and its file."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client import CollectorRegistry, Gauge
from typer.testing import CliRunner

from tests.explain.browser import Browser, find_chromium
from trijoin_sql.cli import app
from trijoin_sql.explain.charts import _top, duration
from trijoin_sql.explain.wording import byte_size, compact
from trijoin_sql.jobs.progress import Tally
from trijoin_sql.jobs.watch import Watch, WatchFile, WatchServer, start_watch

from .test_progress import FOLDER, Cells, cells, report

__all__ = ["cells"]  # a fixture

BEGUN = 1_704_103_200.0  # of `report`'s first micro-batch


def filled(watch: Watch, batches: int = 5, sink: str = "near", **more: Any) -> Tally:
    tally = Tally(sink)
    watch.add(tally, ())
    for batch in range(batches):
        tally.add(report(batch, (10, 20), **more), {"data/r": "orders", "RateStream": "ticks"})
    return tally


def text_of(page: str) -> str:
    body = re.sub(r"<(style|script|svg).*?</\1>", " ", page.partition("<body>")[2], flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def test_reports_are_those_of_spark() -> None:
    """Rows by input, results of each micro-batch (not all so far), what it took, and how far event time is behind."""
    watch = Watch("job.sql")
    filled(watch, eventTime={"watermark": "2024-01-01T09:59:00.000Z", "max": "2024-01-01T09:59:58.000Z"})
    *_, last = watch.to_dict()["queries"][0]["reports"]
    assert (last["rows"], last["output_rows"]) == ({"orders": 10, "ticks": 20}, 60)
    assert (last["seconds"], last["gap"], last["phases"]) == (0.1, 2, {"addBatch": 90})
    assert last["lags"] == {"event time": 10, "watermark": 68}
    assert (last["state_rows"], last["state_bytes"]) == (7, 3072)
    assert json.loads(json.dumps(watch.to_dict()))["queries"][0]["sink"] == "near"


def test_an_input_that_brings_nothing_falls_behind() -> None:
    watch = Watch("job.sql")
    tally = Tally("near")
    watch.add(tally, ())
    tally.add(report(0, (1, 1), eventTime={"max": "2024-01-01T10:00:00.000Z"}), {})
    tally.add(report(5, (1, 0), eventTime={}), {})
    assert [one.lags["event time"] for one in watch.queries[0].reports] == [0, 10]


def test_the_page_says_what_there_is() -> None:
    watch = Watch("job.sql")
    filled(watch)
    watch.add(Tally("later"), ("r", "s"))
    told = text_of(watch.page(BEGUN + 10))
    for part in (
        *("running 2024-01-01 10:00:10 UTC", "near batch 4", "rows a second 15", "rows in 150", "rows out 300"),
        *("orders 5", "ticks 10", "rows out 30", "trigger 100 ms", "state 3 KiB", "rows kept 7", "late rows 5"),
        *("watermark 2024-01-01 10:00:00", "behind the clock 8.0 s"),
        *("later batch –", "No micro-batch has ended yet", "UNBOUNDED Rows of r, s are kept for ever"),
    ):
        assert part in told
    watch.close()
    assert "ended 2024-01-01 10:00:10 UTC The job has" in text_of(watch.page(BEGUN + 10))  # and no way to stop it


def test_names_are_text_and_nothing_is_fetched() -> None:
    watch = Watch("<job>.sql")
    watch.add(tally := Tally("<b>sink</b>"), ("<i>",))
    tally.add(report(0, (1, 1)), {FOLDER: "<script>alert(1)</script>", "Rate": 'a"b'})
    page = watch.page(BEGUN + 1)
    assert "<b>sink" not in page
    assert "<script>alert" not in page
    assert "http" not in re.sub(r"http-equiv|startsWith\('http'\)", "", page)


def test_old_reports_leave_the_page_and_many_are_thinned() -> None:
    watch = Watch("job.sql")
    tally = Tally("near")
    watch.add(tally, ())
    for batch in range(2000):
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(BEGUN + batch)) + ".000Z"
        took = 9000 if batch in (10, 1700) else 100
        tally.add(report(batch, (batch, 0), timestamp=at, batchDuration=took), {})
    page = watch.page(BEGUN + 2000)
    assert "10 min ago" in page
    assert "Time of a trigger 10 s 5 s 0" in text_of(page)  # the peak is there, however many points are left out
    assert len(page) < 200_000
    assert "Time of a trigger 100 ms 50 ms 0" in text_of(watch.page(BEGUN + 2300 + 2))  # only batches after the peak


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0 ms"),
        (0.0123, "12 ms"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
        (-5, "-5.0 s"),
    ],
)
def test_lengths_of_time(value: float, told: str) -> None:
    assert duration(value) == told


def test_scales_end_at_round_numbers() -> None:
    assert [compact(_top(value, compact)) for value in (0, 0.3, 7, 101, 4_200)] == ["1", "0.5", "10", "200", "5k"]
    assert [duration(_top(value, duration)) for value in (0.3, 7, 70, 4000, 8e6)] == [
        *("500 ms", "10.0 s", "2 min", "2 h", "100 d")
    ]
    assert byte_size(_top(3 * 1024**2, byte_size)) == "5 MiB"


@pytest.fixture
def server() -> Iterator[WatchServer]:
    watch = start_watch("job.sql", "0")
    assert isinstance(watch, WatchServer)
    yield watch
    if not watch.over:
        watch.close()


def test_the_server_answers_this_machine_alone(server: WatchServer) -> None:
    filled(server)
    with urlopen(server.place) as answer:
        assert "near" in answer.read().decode()
    with urlopen(f"{server.place}data.json") as answer:
        assert json.load(answer)["queries"][0]["output_rows"] == 300
    port = int(server.place.rstrip("/").rpartition(":")[2])
    for path, host, status in (("/", "evil.example", 403), ("/etc/passwd", "localhost", 404)):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", path, headers={"Host": host})
        assert connection.getresponse().status == status
        connection.close()


def test_the_server_has_numbers_for_prometheus(server: WatchServer) -> None:
    """In the format that is asked for; without the library it says what to install."""
    with pytest.raises(HTTPError, match=r"404: pip install 'trijoin-sql\[metrics\]'"):
        urlopen(f"{server.place}metrics")
    server.registry = CollectorRegistry()
    Gauge("near", "A number.", registry=server.registry).set(7)
    asked = Request(f"{server.place}metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urlopen(asked) as answer:
        assert answer.read().decode().endswith("near 7.0\n# EOF\n")
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")


def test_the_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thread, again and again, until the job ends."""
    monkeypatch.setattr("trijoin_sql.jobs.watch.EVERY", 0.0)
    watch = start_watch("job.sql", str(tmp_path / "page.html"))
    assert isinstance(watch, WatchFile)
    written = threading.Event()
    write = watch._write
    monkeypatch.setattr(watch, "_write", lambda: (write(), written.set()))
    filled(watch)
    written.clear()
    written.wait()  # one that began before may end now
    written.clear()
    written.wait()
    assert "rows in" in (tmp_path / "page.html").read_text()
    watch.close()
    assert "data-over>" in (tmp_path / "page.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_file_that_cannot_be_written_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The page goes on when its folder is back; if it is not, the job ends as it ends."""
    monkeypatch.setattr("trijoin_sql.jobs.watch.EVERY", 0.0)
    folder, away = tmp_path / "pages", tmp_path / "away"
    folder.mkdir()
    watch = start_watch("job.sql", str(folder / "page.html"))
    assert isinstance(watch, WatchFile)
    tried = threading.Event()
    write = watch._write

    def trying() -> None:
        try:
            write()
        finally:
            tried.set()

    monkeypatch.setattr(watch, "_write", trying)
    folder.rename(away)
    for _ in range(2):
        tried.clear()
        assert tried.wait(10)
    folder.mkdir()
    while not (folder / "page.html").exists():
        tried.clear()
        assert tried.wait(10)
    folder.rename(tmp_path / "gone")
    watch.close()
    assert [message for message in caplog.messages if "was not written for the last time" in message]


def test_the_file_beside_the_page_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link under its name is not followed, not even where the name is known."""
    monkeypatch.setattr("trijoin_sql.jobs.watch.secrets.token_hex", lambda _: "known")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".page.html.known").symlink_to(victim)
    with pytest.raises(FileExistsError):
        start_watch("job.sql", str(tmp_path / "page.html"))
    assert victim.read_text() == "mine"


def test_a_place_that_cannot_be_used(server: WatchServer, tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(
        "CREATE STREAM r USING rate; CREATE SINK o USING noop; INSERT INTO o SELECT value FROM r"
    )
    port = server.place.rstrip("/").rpartition(":")[2]
    for option, where, why in (
        ("--watch", port, "in use"),
        ("--watch", "99999", "65535"),
        ("--watch", str(tmp_path / "no" / "page.html"), "cannot be written"),
        ("--watch", "page.pdf", "name the file page.html"),
        ("--metrics", port, "in use"),
        ("--metrics", "99999", "65535"),
        ("--metrics", "here", "name a port, or HOST:PORT"),
    ):
        result = CliRunner().invoke(app, ["run", str(tmp_path / "job.sql"), option, where])
        assert result.exit_code == 2
        assert why in " ".join(result.output.replace("│", " ").split())


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser(server: WatchServer, tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fits a narrow window, in both colours, and what it shows is replaced without loading it anew."""
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium on the PATH; Debian's package is chromium")
    monkeypatch.setattr("trijoin_sql.jobs.watch.EVERY", 0.1)
    tally = filled(server, sink="a_sink_with_quite_a_long_name_for_a_narrow_window_of_a_phone")
    with Browser(chromium) as browser:
        browser.system_colours(scheme)
        for width in (1280, 420):
            browser.size(width, 900)
            browser.call("Page.navigate", url=server.place)
            browser.wait_for("document.querySelectorAll('.chart').length === 6")
            assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        browser.click("#theme")
        assert browser.run("document.documentElement.dataset.theme") == "light"
        browser.run("window.mine = true")
        tally.add(report(7, (5000, 0)), {})
        browser.wait_for("document.body.innerText.includes('5,150') && window.mine")
        server.close()
        # a page fetched while the server ends says so itself, and then nothing is asked again
        browser.wait_for(
            "!document.getElementById('lost').hidden || 'over' in document.getElementById('watch').dataset"
        )


def test_a_report_of_ours_has_a_lag_for_each_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [SimpleNamespace(slots=({"inputs": {"r": 1_704_103_190_000_000, "s": None}},))]
    monkeypatch.setattr("trijoin_sql.jobs.watch.batch_counters", lambda _: slots)
    monkeypatch.setattr("trijoin_sql.jobs.progress.batch_counters", lambda _: [])
    watch = Watch("job.sql")
    filled(watch, 1, eventTime={"max": "2024-01-01T10:00:00.000Z"})
    assert watch.queries[0].reports[0].lags == {"r": 10}


def test_in_real_time_reports_are_of_seconds_of_a_batch(cells: Cells) -> None:
    watch = Watch("job.sql")
    tally = Tally("near")
    watch.add(tally, ())
    query: Any = SimpleNamespace(runId="run", recentProgress=[], lastProgress=None)
    for rows in (10, 25):
        cells.tell(0, rows, rows, {4000: rows})
        tally.look(query, {})
    ended = report(0, (25, 0), stateOperators=[], observedMetrics={})
    query.recentProgress, query.lastProgress = [ended], ended
    tally.look(query, {})
    first, second = watch.queries[0].reports
    assert (first.rows, second.rows, second.output_rows) == ({"r": 10, "s": 0}, {"r": 15, "s": 0}, 15)
    assert second.latencies == {"p50": 4.0, "p95": 4.0, "p99": 4.0, "max": 4.0}
    assert second.lags.keys() == {"r", "watermark"}
    told = text_of(watch.page(second.at + 1))
    for part in ("latency 4.0 ms (99 %: 4.0 ms)", "Latency of results, up to", "99 of 100 4 ms", "rows in 25"):
        assert part in told
