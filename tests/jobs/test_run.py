"""Jobs that run: from files to files with a restart, a failing function, a signal, and clean streams all along."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from trijoin_sql import TriJoinSession
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare
from trijoin_sql.jobs.run import Outcome, QueryFailedError, run_queries
from trijoin_sql.jobs.statements import Job
from trijoin_sql.running.stopping import StopRequest

JOB = """\
CREATE STREAM r (a BIGINT, ts TIMESTAMP) USING json OPTIONS (path 'r') WATERMARK ts DELAY OF INTERVAL 1 HOUR;
CREATE STREAM s (b BIGINT, ts TIMESTAMP) USING json OPTIONS (path 's') WATERMARK ts DELAY OF INTERVAL 1 HOUR;
CREATE SINK files USING parquet OPTIONS (path 'out', checkpointLocation 'checkpoints/files');
CREATE SINK seen USING console;
CREATE TEMPORARY VIEW near AS SELECT r.a, s.b FROM r JOIN s ON ABS(r.a - s.b) <= 1;
INSERT INTO files SELECT a, b, a + b AS total FROM near;
INSERT INTO seen SELECT a AS `the a` FROM r;
"""


def write(folder: Path, name: str, column: str, values: range) -> None:
    folder.mkdir(exist_ok=True)
    rows = [json.dumps({column: value, "ts": f"2024-01-01T00:00:{value:02}Z"}) for value in values]
    (folder / name).write_text("\n".join(rows) + "\n")


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trijoin_sql", "run", *arguments, "--master", "local[2,4]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[list[Any], str]:
    assert process.stdout is not None
    assert process.stderr is not None
    # Not communicate(): a line may have been read already, and the rest be in the file object's buffer.
    with process, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(process.stderr.read)
        out, err = process.stdout.read(), reading.result()
    assert process.wait() == 0, err
    for noise in ("WARN", "Streaming Transform", "Traceback", "\x1b", "Warning", "log4j"):
        assert noise not in err
    return [json.loads(line) for line in out.splitlines()], err


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_drains_and_goes_on_after_a_restart(session: TriJoinSession, tmp_path: Path) -> None:
    """In a process of its own, then in this one."""
    import pyarrow.parquet as pq

    (tmp_path / "job.sql").write_text(JOB)
    write(tmp_path / "r", "1.json", "a", range(5))
    write(tmp_path / "s", "1.json", "b", range(2))
    *rows, summary = finish(start(tmp_path, "job.sql", "--once", "--format", "json"))[0]
    assert sorted(row["the a"] for row in rows) == list(range(5))
    assert summary["ended"] == "done"
    assert [(query["sink"], query["results"]) for query in summary["queries"]] == [("files", 5), ("seen", 5)]
    assert summary["queries"][0]["input_rows"] == 7
    assert summary["queries"][0]["state_bytes"] > 0

    # As after a kill between the sink's log and the checkpoint's: the batch is written again, in place of its files.
    commits = tmp_path / "checkpoints" / "files" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=name.endswith(".crc"))
    write(tmp_path / "s", "2.json", "b", range(2, 6))
    text = JOB
    for path in ("r", "s", "out", "checkpoints/files"):
        text = text.replace(f"'{path}'", f"'{tmp_path}/{path}'")
    outcome = carry_out(session, text, tmp_path)
    assert outcome.tallies[0].input_rows == 4
    table = pq.read_table([str(path) for path in (tmp_path / "out").glob("*.parquet")])
    expected = [(a, b, a + b) for a in range(5) for b in range(6) if abs(a - b) <= 1]
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == expected


@pytest.mark.spark
@pytest.mark.slow
def test_sigterm_to_the_whole_group_stops_after_the_running_batch(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(
        "CREATE STREAM r USING rate OPTIONS (rowsPerSecond 10);\nCREATE SINK o USING console;\n"
        "INSERT INTO o SELECT value FROM r;\n"
    )
    process = start(tmp_path, "job.sql", "--format", "json", "--quiet")
    assert process.stdout is not None
    first = process.stdout.readline()
    os.killpg(process.pid, signal.SIGTERM)
    rows, err = finish(process)
    assert err == ""
    *values, summary = [json.loads(first), *rows]
    assert summary["ended"] == "SIGTERM"
    assert sorted(row["value"] for row in values) == list(range(len(values)))  # no batch was cut
    assert summary["queries"][0]["results"] == len(values)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[TriJoinSession]:
    own = spark.newSession()
    yield TriJoinSession.create(own)
    assert not own.streams.active


def carry_out(session: TriJoinSession, text: str, path: Path, request: StopRequest | None = None) -> Outcome:
    job: Job = parse_job(Script(str(path / "job.sql"), text))
    check_job(job)
    console = Console(quiet=True)
    return run_queries(job, prepare(job, session), console, request or StopRequest(), once=request is None)


def test_a_memory_sink_shows_its_rows(session: TriJoinSession, tmp_path: Path) -> None:
    write(tmp_path / "r", "1.json", "a", range(3))
    outcome = carry_out(
        session,
        f"CREATE STREAM r (a BIGINT) USING json OPTIONS (path '{tmp_path}/r');\n"
        "CREATE SINK m USING memory OPTIONS (numRows 2) MODE complete;\n"
        "INSERT INTO m SELECT MAX(a) AS most, COUNT(*) AS n FROM r",
        tmp_path,
    )
    assert outcome.rows == {"m": ['{"most":2,"n":3}']}
    assert (outcome.ended, outcome.tallies[0].input_rows) == ("done", 3)


def test_a_failing_function_is_one_sentence_and_stops_the_others(
    session: TriJoinSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "fails_on_purpose.py").write_text("def save(frame, batch):\n    raise ValueError('the disk is full')\n")
    with pytest.raises(QueryFailedError) as caught:
        carry_out(
            session,
            "CREATE STREAM r USING rate OPTIONS (rowsPerSecond 10);\nCREATE SINK n USING noop;\n"
            f"CREATE SINK o USING foreachBatch OPTIONS (function 'fails_on_purpose:save', "
            f"checkpointLocation '{tmp_path}/c');\n"
            "INSERT INTO n SELECT value FROM r;\nINSERT INTO o SELECT value FROM r;\n",
            tmp_path,
            StopRequest(),
        )
    assert str(caught.value) == f"{tmp_path}/job.sql:5: the query into o failed: ValueError: the disk is full"


def test_a_request_before_the_first_look_stops_at_once(session: TriJoinSession, tmp_path: Path) -> None:
    request = StopRequest()
    request.ask("SIGINT")
    text = "CREATE STREAM r USING rate;\nCREATE SINK n USING noop;\nINSERT INTO n SELECT value FROM r;\n"
    assert carry_out(session, text, tmp_path, request).ended == "SIGINT"
