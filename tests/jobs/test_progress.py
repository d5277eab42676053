"""What is told of running queries, from made-up progress reports; and why they failed, from Spark's texts."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row
from rich.console import Console
from trijoin_sql.operators.compile.node import OBSERVED

from trijoin_sql.explain.wording import byte_size
from trijoin_sql.jobs import progress
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.progress import IDLE, Board, Tally, input_names
from trijoin_sql.jobs.run import Outcome, with_socket
from trijoin_sql.jobs.run_command import summary
from trijoin_sql.running import live as within_batch
from trijoin_sql.running.metrics import OUTPUT
from trijoin_sql.spark.messages import reason

FOLDER = "FileStreamSource[file:/data/r]"


def report(batch: int, rows: tuple[int, int], **more: Any) -> SimpleNamespace:
    state = SimpleNamespace(
        operatorName="stateStoreSave",
        numRowsTotal=7,
        memoryUsedBytes=2048,
        numRowsDroppedByWatermark=1,
        customMetrics={"rocksdbSstFileSize": 1024},
    )
    values = {
        "batchId": batch,
        "timestamp": f"2024-01-01T10:00:{batch * 2:02}.000Z",
        "batchDuration": 100,
        "durationMs": {"addBatch": 90},
        "numInputRows": sum(rows),
        "id": "q",
        "runId": "run",
        "observedMetrics": {OUTPUT: (sum(rows) * 2,)},
        "eventTime": {"watermark": "2024-01-01T10:00:00.000Z"},
        "stateOperators": [state],
        "sources": [
            SimpleNamespace(description=FOLDER, numInputRows=rows[0]),
            SimpleNamespace(description="RateStreamV2[rowsPerSecond=5, ramp", numInputRows=rows[1]),
        ],
    }
    return SimpleNamespace(**{**values, **more})


def streams() -> dict[str, str]:
    script = Script(
        "job.sql",
        "CREATE STREAM orders (a INT) USING csv OPTIONS (path '/data/r');"
        "CREATE STREAM ticks USING rate OPTIONS (rowsPerSecond 5);",
    )
    return input_names(parse_job(script).streams)


def test_a_tally_adds_up_and_names_idle_inputs() -> None:
    tally = Tally("o")
    for batch in range(IDLE):
        tally.add(report(batch, (0, 10)), streams())
        tally.add(report(batch, (0, 10)), streams())  # seen twice, counted once
    assert (tally.batches, tally.input_rows, tally.output_rows, tally.late_rows) == (3, 30, 60, 3)
    assert (tally.rate, tally.latency, tally.state_rows, tally.state_bytes) == (5, 100, 7, 3072)
    assert tally.idle == ("orders",)
    tally.add(report(IDLE, (1, 0)), streams())
    assert tally.idle == ()
    assert tally.to_dict()["watermark"] == "2024-01-01T10:00:00.000Z"
    assert str(tally).startswith("o: batch 3 · 31 rows in · 62 rows out · 0.5 rows/s · 100 ms a batch · state 7 rows")


class Cells:
    """What Java has of a run in real time: the last report of each batch and cell."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def reports(self, run: str, first: int) -> str:
        return "\n".join(json.dumps(one) for one in self.told if run == "run" and one["batch"] >= first)

    def tell(self, batch: int, rows: int, results: int, latency: dict[int, int], cell: int = 0) -> None:
        """Cell in batch: rows of r, as many of s in the other cell, and what was how late (microseconds)."""
        one = {
            "node": "__trijoin_1@4",
            "batch": batch,
            "begun": 0,
            "at": 2000,
            "slot": cell,
            "rows": {"r": rows, "s": 0},
            "results": results,
            "state_rows": rows,
            "state_bytes": 100 * rows,
            "watermark": 1_704_103_190_000_000,
            "inputs": {"r": 1_704_103_195_000_000, "s": None},
            "latency": latency,
        }
        self.told = [old for old in self.told if (old["batch"], old["slot"]) != (batch, cell)] + [one]


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> Cells:
    found = Cells()
    monkeypatch.setattr(within_batch, "_entries", {"run": found})
    monkeypatch.setattr(progress, "SECOND", 1e-9)
    monkeypatch.setattr(progress, "readings", lambda _query: {FOLDER: 1})
    return found


def test_in_real_time_a_tally_looks_into_the_batch(cells: Cells) -> None:
    """Totals are those of ended batches and of the one that runs; latencies are of the results since the last look."""
    query: Any = SimpleNamespace(runId="run", recentProgress=[], lastProgress=None)
    tally = Tally("o")
    tally.look(query, {})
    assert str(tally) == "o: batch 0 · 0 rows in · 0 rows out"
    cells.tell(0, 10, 5, {1000: 5})
    cells.tell(0, 20, 5, {3000: 5}, cell=1)
    tally.look(query, {})
    assert (tally.all_in, tally.all_out, tally.state_rows, tally.state_bytes) == (30, 10, 30, 3000)
    assert tally.latencies == {"p50": 1.0, "p95": 3.0, "p99": 3.0, "max": 3.0}
    cells.tell(0, 10, 8, {1000: 5, 200_000: 3})
    tally.look(query, {})
    assert tally.latencies["p50"] == 200
    assert "30 rows in · 13 rows out" in str(tally)
    assert "200 ms (99 %: 200 ms)" in str(tally)
    ended = report(0, (10, 20), observedMetrics={OUTPUT: (11,), "__trijoin_1@4": Row("results")(13)}, stateOperators=[])
    query.recentProgress, query.lastProgress = [ended], ended
    tally.look(query, {})
    assert (tally.all_in, tally.all_out) == (30, 11)
    cells.tell(1, 4, 2, {})
    tally.look(query, {})
    assert (tally.all_in, tally.all_out, tally.to_dict()["input_rows"]) == (34, 13, 34)


def test_a_summary_is_of_the_whole_run() -> None:
    """A rate and a latency are of the last micro-batch: a line of progress has them, a summary has not."""
    tally = Tally("o")
    tally.add(report(0, (0, 1)), {})
    assert str(tally).startswith("o: batch 0 · 1 row in · 2 rows out · 10 rows/s · 100 ms a batch · state 7 rows")
    summary = "o: 1 row in · 2 rows out · state 7 rows, 3 KiB · watermark 2024-01-01 10:00:00 · 1 row late"
    assert tally.summary() == summary


def test_the_time_of_a_run_begins_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """And not when Spark is there."""
    outcome = Outcome((Tally("o"),), "done", 2.0)
    summary(outcome, "job.sql", False, 20.0)
    ended = "done after 22.0 s: 20.0 s to start, 2.0 s for the queries"
    assert capsys.readouterr().out == f"o: 0 rows in · 0 rows out\n{ended}\n"
    summary(outcome, "job.sql", True, 20.0)
    told = json.loads(capsys.readouterr().out)
    assert (told["seconds"], told["starting_seconds"]) == (22, 20)
    summary(outcome, "job.sql", False)  # in the shell Spark is there
    assert capsys.readouterr().out.endswith("\ndone after 2.0 s\n")


def test_rates_are_those_of_the_input() -> None:
    """Not those of the work on it: ten rows a second are ten, however fast they are joined."""
    tally = Tally("o")
    tally.add(report(0, (0, 10)), {})
    assert tally.rate == 100  # nobody knows since when they were waiting
    tally.add(report(1, (0, 20)), {})
    assert tally.rate == 10
    tally.add(report(2, (0, 20), batchDuration=4000), {})
    assert tally.rate == 5


def test_rows_kept_are_rows_and_not_chunks_of_them() -> None:
    """An entry in a join's store is a chunk; a unit that no rows reached reports nothing, and keeps what it has."""

    def slots(**rows: int) -> dict[str, Any]:
        listed = [json.dumps({"slot": int(name[1:]), "state_rows": count}) for name, count in rows.items()]
        return {"__trijoin_1@1": Row(**{OBSERVED: listed}), "__trijoin_1@2": Row(**{OBSERVED: []})}

    tally = Tally("o")
    ours = SimpleNamespace(
        **{**vars(report(0, (0, 1)).stateOperators[0]), "operatorName": "transformWithStateInPandas"}
    )
    tally.add(report(0, (1, 1), observedMetrics=slots(s0=300, s1=200), stateOperators=[ours]), {})
    assert tally.state_rows == 500
    spark = report(1, (1, 1)).stateOperators
    tally.add(report(1, (1, 1), observedMetrics=slots(s0=350), stateOperators=[ours, *spark]), {})
    assert tally.state_rows == 550 + 7


def test_a_report_without_a_batch_and_the_epoch_count_for_nothing() -> None:
    tally = Tally("o")
    tally.add(report(0, (1, 1), durationMs={"latestOffset": 1}), {})
    assert tally.batch == -1
    tally.add(report(0, (1, 1), eventTime={"watermark": "1970-01-01T00:00:00.000Z"}), {})
    assert (tally.batch, tally.watermark) == (0, "")


def test_a_terminal_gets_a_table_and_a_pipe_gets_none() -> None:
    tally = Tally("o")
    tally.add(report(0, (0, 10)), streams())
    for live in (True, False):
        console = Console(file=io.StringIO(), force_terminal=live, width=120, color_system=None)
        with Board(console, [tally], live=live) as board:
            board.refresh()
        said = console.file.getvalue()  # type: ignore[attr-defined]
        assert ("watermark" in said and "2024-01-01 10:00:00" in said) is live
        assert ("\x1b" in said) is live


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_all_of_it_fits_the_terminal(width: int) -> None:
    """No heading and no figure is cut, at the width of an old terminal either; only a long name may be."""
    tally = Tally(
        "matches_of_orders_and_payments", 123_456, 9, 29_600_000, 739_400, 31, 39_000.4, 11_599, 987_654, 5 << 30
    )
    tally.watermark, tally.idle, tally._waiting = "2026-11-22T01:03:11.123Z", ("refunds",), IDLE
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(Board(console, [Tally("near"), tally], live=True)._table())
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, said.splitlines())) <= width
    words = ["batch", "rows/s", "rows in", "rows out", "latency", "rows kept", "state", "late", "watermark", "idle"]
    words += ["123,456", "29.60 M", "739,400", "39,000", "11.6 s", "987,654", "5 GiB", "31", "2026-11-22 01:03:11"]
    words += ["refunds", "matches_of_"]
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (20 << 30, "20 GiB")])
def test_sizes(count: int, text: str) -> None:
    assert byte_size(count) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] "
            "An error occurred. Reason: Traceback (most recent call last):\n  File x, line 1\nKeyError: 'a'\n\tat x",
            "KeyError: 'a'",
        ),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted: Lost task 0.3: [DIVIDE_BY_ZERO] "
            "Division by zero. Use `try_divide`. SQLSTATE: 22012\n== SQL ==\n",
            "Division by zero. Use `try_divide` [DIVIDE_BY_ZERO]",
        ),
        (
            "[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):\n  x\n"
            "trijoin_sql.errors.JoinOverflowError: [TRIJOIN_ARITHMETIC_OVERFLOW] r.a - s.a overflows BIGINT.\n\tat",
            "[TRIJOIN_ARITHMETIC_OVERFLOW] r.a - s.a overflows BIGINT.",
        ),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Connection refused SQLSTATE: XXKST",
            "Connection refused",
        ),
        (
            "[STREAM_FAILED] Query terminated with exception: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the "
            "log. Multiple streaming jobs detected for 5.",
            "another run of this query is writing to the same checkpoint or folder: a job that was started twice. Let "
            "one of them end; the other goes on where it stopped",
        ),
    ],
)
def test_a_failure_is_one_sentence(text: str, said: str) -> None:
    assert reason(text) == said


def test_a_socket_that_nobody_serves_is_named() -> None:
    text = "CREATE STREAM a USING socket OPTIONS (host 'nowhere', port 9999); CREATE STREAM b USING rate;"
    listed = parse_job(Script("job.sql", text)).streams
    assert with_socket("Connection refused", listed) == (
        "Connection refused: nowhere:9999 (a server must listen first)"
    )
    assert with_socket("nowhere", listed) == "there is no host named nowhere"
    assert with_socket("Connection refused", listed[1:]) == "Connection refused"
