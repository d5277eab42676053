"""LATE ROWS INTO: results as without it, late rows in a sink of their own, and what is refused before anything runs."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from trijoin_sql import TriJoinSession
from trijoin_sql.errors import JobError
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare
from trijoin_sql.jobs.run import Outcome, run_queries
from trijoin_sql.jobs.run_command import summary
from trijoin_sql.running.stopping import StopRequest

pytestmark = pytest.mark.slow

#: A file each: the values of r, which are seconds of an hour; with a delay of a second, 1, 2 and 3 are late.
VALUES = [[40], [50], [1, 2, 55], [60], [70], [3, 80]]
LATE = Counter({1: 1, 2: 1, 3: 1})


@pytest.fixture
def session(spark: SparkSession) -> Iterator[TriJoinSession]:
    own = spark.newSession()
    yield TriJoinSession.create(own)
    assert not own.streams.active


def write(folder: Path, first: int, last: int) -> None:
    (folder / "r").mkdir(exist_ok=True)
    for number, values in list(enumerate(VALUES))[first:last]:
        rows = [{"a": a, "ts": f"2024-01-01T00:{a // 60:02}:{a % 60:02}.000001Z"} for a in values]
        file = folder / "r" / f"{number}.json"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(file, (1000 + number, 1000 + number))


def job(folder: Path, near: str, late: str | None, view: str = "") -> str:
    text = (
        f"CREATE STREAM r (a BIGINT, ts TIMESTAMP) USING json OPTIONS (path '{folder}/r', maxFilesPerTrigger 1)"
        f"  WATERMARK ts DELAY OF INTERVAL 1 SECOND;\nCREATE SINK near USING {near};\n"
    )
    text += "" if late is None else f"CREATE SINK late USING {late};\n"
    query = "SELECT /*+ UNITS(1) */ p.a, q.a AS other FROM r AS p JOIN r AS q ON q.a < p.a WITHIN 12 SECONDS"
    if view:
        text += f"CREATE TEMPORARY VIEW pairs AS {query};\n"
        query = view
    return f"{text}INSERT INTO near {query}" + ("" if late is None else "\nLATE ROWS INTO late")


def carry_out(session: TriJoinSession, text: str, folder: Path) -> Outcome:
    parsed = parse_job(Script(str(folder / "job.sql"), text))
    check_job(parsed)
    return run_queries(parsed, prepare(parsed, session), Console(quiet=True), StopRequest(), once=True)


def files(form: str, folder: Path, name: str) -> str:
    return f"{form} OPTIONS (path '{folder}/{name}', checkpointLocation '{folder}/checkpoints/{name}')"


PAIRS = {(50, 40), (55, 50), (60, 50), (60, 55), (70, 60), (80, 70)}


@pytest.mark.rare
def test_a_folder_of_results_goes_on_with_late_rows_and_without(session: TriJoinSession, tmp_path: Path) -> None:
    """The same files and log as Spark's own file sink; late rows have numbers of their own in the log of theirs."""
    near = files("parquet", tmp_path, "near")
    late = files("json", tmp_path, "late")
    for first, last, asks in ((0, 2, False), (2, 4, True), (4, 5, False), (5, 6, True)):
        write(tmp_path, first, last)
        carry_out(session, job(tmp_path, near, late if asks else None), tmp_path)
    found = session.spark.read.parquet(str(tmp_path / "near")).collect()
    assert Counter((row.a, row.other) for row in found) == Counter(PAIRS)
    kept = session.spark.read.schema("stream STRING, event_time TIMESTAMP, watermark TIMESTAMP, row STRING")
    rows = kept.json(str(tmp_path / "late")).collect()
    assert Counter(json.loads(row.row)["a"] for row in rows) == LATE
    assert {row.stream for row in rows} == {"r"}
    numbers = {int(path.name) for path in (tmp_path / "late" / "_spark_metadata").iterdir() if path.name.isdigit()}
    assert numbers == {0, 1}
    entry = max((tmp_path / "checkpoints" / "late" / "late").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(entry.read_text())["number"] == 1
    commits = {int(path.name) for path in (tmp_path / "checkpoints" / "near" / "commits").glob("[0-9]*")}
    logged = {int(path.name.removesuffix(".compact")) for path in (tmp_path / "near/_spark_metadata").glob("[0-9]*")}
    assert logged == commits


def test_sinks_that_do_not_last_show_late_rows(
    session: TriJoinSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through a view, into tables in memory; a summary has the rows, where they are, and how late they were."""
    write(tmp_path, 0, len(VALUES))
    text = job(tmp_path, "memory", "memory", view="SELECT a, other FROM pairs WHERE a <> 70")
    outcome = carry_out(session, text, tmp_path)
    assert {tuple(json.loads(row).values()) for row in outcome.rows["near"]} == PAIRS - {(70, 60)}
    late = [json.loads(row) for row in outcome.rows["late"]]
    assert Counter(json.loads(row["row"])["a"] for row in late) == LATE
    assert all(".000001" in json.loads(row["row"])["ts"] for row in late)
    summary(outcome, "job.sql", lines=True)
    (query,) = json.loads(capsys.readouterr().out)["queries"]
    assert (query["late_sink"], len(query["late"]), query["how_late"]) == ("late", 3, {"r": {"1 minute": 3}})
    summary(outcome, "job.sql", lines=False)
    assert "late rows of r, in late: 3 by up to 1 minute" in capsys.readouterr().out


@pytest.mark.rare
def test_other_sinks_take_late_rows(
    session: TriJoinSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text files as JSON lines, a function, a console beside a CSV file."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "keeps_late_rows.py").write_text(
        "kept = []\ndef save(frame, batch):\n    kept.extend(frame.collect())\n"
    )
    write(tmp_path, 0, len(VALUES))
    carry_out(session, job(tmp_path, "console", files("text", tmp_path, "texts")), tmp_path)
    lines = [json.loads(line.value) for line in session.spark.read.text(str(tmp_path / "texts")).collect()]
    assert Counter(json.loads(line["row"])["a"] for line in lines) == LATE
    assert "|" in capsys.readouterr().out
    function = f"foreachBatch OPTIONS (function 'keeps_late_rows:save', checkpointLocation '{tmp_path}/checkpoints/f')"
    carry_out(session, job(tmp_path, files("csv", tmp_path, "csvs"), function), tmp_path)
    kept = sys.modules["keeps_late_rows"].kept
    assert Counter(json.loads(row.row)["a"] for row in kept) == LATE
    carry_out(session, job(tmp_path, "noop", "console"), tmp_path)
    assert "event_time" in capsys.readouterr().out


@pytest.mark.rare
def test_a_folder_that_was_emptied_begins_anew(session: TriJoinSession, tmp_path: Path) -> None:
    """The number that the checkpoint remembers is too high for the log, which must have no gaps."""
    from shutil import rmtree

    near, late = files("parquet", tmp_path, "near"), files("parquet", tmp_path, "late")
    write(tmp_path, 0, 4)
    carry_out(session, job(tmp_path, near, late), tmp_path)
    rmtree(tmp_path / "late")
    entry = max((tmp_path / "checkpoints" / "late" / "late").glob("[0-9]*"), key=lambda path: int(path.name))
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "number": 7}))
    for checksum in entry.parent.glob(".*.crc"):
        checksum.unlink()
    write(tmp_path, 4, 6)
    carry_out(session, job(tmp_path, near, late), tmp_path)
    rows = session.spark.read.parquet(str(tmp_path / "late")).collect()
    assert [json.loads(row.row)["a"] for row in rows] == [3]
    assert (tmp_path / "late" / "_spark_metadata" / "0").exists()


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT p.value FROM plain AS p JOIN plain AS q ON p.value < q.value", "has a watermark"),
        ("SELECT value FROM timed", "no join of this query is ours"),
    ],
)
def test_where_nothing_can_be_late_is_said_before_anything_runs(session: TriJoinSession, query: str, says: str) -> None:
    text = (
        "CREATE STREAM plain USING rate;\n"
        "CREATE STREAM timed USING rate WATERMARK timestamp DELAY OF INTERVAL 1 SECOND;\n"
        f"CREATE SINK o USING noop;\nCREATE SINK l USING noop;\nINSERT INTO o {query} LATE ROWS INTO l"
    )
    parsed, line = parse_job(Script("job.sql", text)), text.splitlines()[4]
    for refuse in (check_job, lambda job: prepare(job, session)):
        with pytest.raises(JobError, match=says) as caught:
            refuse(parsed)
        assert (caught.value.line, caught.value.column) == (5, len(line))
