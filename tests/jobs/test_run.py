"""Jobs that run: from files to files with a restart, a failing function, a signal, and clean streams all along."""

from __future__ import annotations

import io
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
    assert [(query["sink"], query["output_rows"]) for query in summary["queries"]] == [("files", 5), ("seen", 5)]
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


@pytest.mark.rare
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
    assert summary["queries"][0]["output_rows"] == len(values)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[TriJoinSession]:
    own = spark.newSession()
    yield TriJoinSession.create(own)
    assert not own.streams.active


def carry_out(
    session: TriJoinSession,
    text: str,
    path: Path,
    request: StopRequest | None = None,
    console: Console | None = None,
) -> Outcome:
    job: Job = parse_job(Script(str(path / "job.sql"), text))
    check_job(job)
    console = console or Console(quiet=True)
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


def test_a_console_shows_no_table_without_rows(
    session: TriJoinSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark runs a micro-batch without rows when the watermark has moved: a bounded run would end with that."""
    write(tmp_path / "r", "1.json", "a", range(30))
    outcome = carry_out(
        session,
        f"CREATE STREAM r (a BIGINT, ts TIMESTAMP) USING json OPTIONS (path '{tmp_path}/r')"
        "  WATERMARK ts DELAY OF INTERVAL 1 SECOND;\n"
        "CREATE SINK o USING console OPTIONS (numRows 2);\n"
        "INSERT INTO o SELECT p.a, q.a AS other FROM r AS p JOIN r AS q ON q.a < p.a AND p.a < q.a + 2 WITHIN 1 MINUTE",
        tmp_path,
    )
    assert outcome.tallies[0].batch == 1
    assert outcome.tallies[0].output_rows == 29
    shown = capsys.readouterr().out
    assert shown.count("Batch: ") == 1
    assert "|  a|other|" in shown
    assert "only showing top 2 rows" in shown


def test_a_late_row_of_a_self_join_counts_once(session: TriJoinSession, tmp_path: Path) -> None:
    """Each alias drops it; the stream brought it once, as "rows in" says."""
    for number, values in enumerate([range(40, 41), range(50, 51), range(1, 3)]):
        write(tmp_path / "r", f"{number}.json", "a", values)
        os.utime(tmp_path / "r" / f"{number}.json", (1000 + number, 1000 + number))
    job = (
        f"CREATE STREAM r (a BIGINT, ts TIMESTAMP) USING json OPTIONS (path '{tmp_path}/r', maxFilesPerTrigger 1)"
        "  WATERMARK ts DELAY OF INTERVAL 1 SECOND;\nCREATE SINK o USING noop;\nINSERT INTO o "
        "SELECT /*+ UNITS(1) */ p.a, q.a AS other FROM r AS p JOIN r AS q ON q.a < p.a WITHIN 1 MINUTE"
    )
    tally = carry_out(session, job, tmp_path).tallies[0]
    assert (tally.input_rows, tally.late_rows) == (4, 2)
    assert tally.summary().endswith(" · 2 rows late")
    both = job.replace("q.a < p.a", "q.a < p.a AND p.a <> 1 AND q.a <> 2")
    tally = carry_out(session, both, tmp_path).tallies[0]
    assert tally.summary().endswith(" · at least 1 row late")
    assert tally.to_dict()["late_rows_at_least"]
    assert tally.shown_late == "≥ 1"


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


@pytest.mark.rare
def test_rows_that_vanish_are_counted_and_said(session: TriJoinSession, tmp_path: Path) -> None:
    """Corrupt lines, a column that no file has, times in another format, and an empty folder: 0 results, exit 0."""
    write(tmp_path / "r", "1.json", "a", range(5))
    write(tmp_path / "s", "1.json", "a", range(5))
    for name in ("bad", "late", "empty"):
        (tmp_path / name).mkdir()
    good = (tmp_path / "r" / "1.json").read_text()
    (tmp_path / "bad" / "1.json").write_text(good + '{"a": 3, "ts": oops\n{"a": "x", "ts": "2024-01-01T00:00:01Z"}\n')
    (tmp_path / "late" / "1.json").write_text(good.replace("2024-01-01T", "01.01.2024 "))
    columns = dict.fromkeys(("r", "s", "bad", "late", "empty"), "a BIGINT, ts TIMESTAMP") | {
        "r": "nope BIGINT, ts TIMESTAMP"
    }
    text = "".join(
        f"CREATE STREAM {name} ({some}) USING json OPTIONS (path '{tmp_path}/{name}') "
        "WATERMARK ts DELAY OF INTERVAL 1 HOUR;\nCREATE SINK {0}_out USING noop;\n".format(name)
        for name, some in columns.items()
    )
    text += "".join(
        f"INSERT INTO {name}_out SELECT s.a FROM {name} JOIN s ON ABS({name}.{column} - s.a) < 1 WITHIN 1 MINUTE;\n"
        for name, column in (("r", "nope"), ("bad", "a"), ("late", "a"), ("empty", "a"))
    )
    text += "CREATE SINK self_out USING noop;\nCREATE SINK count_out USING noop MODE complete;\n"
    text += "INSERT INTO self_out SELECT x.a FROM bad AS x JOIN bad AS y ON ABS(x.a - y.a) < 1 WITHIN 1 MINUTE;\n"
    text += "INSERT INTO count_out SELECT COUNT(*) AS n FROM late;\n"
    console = Console(file=io.StringIO(), width=300, soft_wrap=True)
    outcome = carry_out(session, text, tmp_path, console=console)
    tallies = {tally.sink: tally for tally in outcome.tallies}
    assert tallies["r_out"].lost == ["5 rows of r cannot join (NULL: r.nope in 5)"]
    assert tallies["bad_out"].lost == [
        "2 corrupt records of bad",
        "2 rows of bad cannot join (NULL: bad.a in 2, bad.ts in 1)",
    ]
    assert tallies["bad_out"].output_rows == 5
    assert tallies["late_out"].lost == ["5 corrupt records of late", "5 rows of late cannot join (NULL: late.ts in 5)"]
    assert tallies["self_out"].corrupt == {"bad": 2}
    assert tallies["self_out"].vanished.rows.keys() == {"x", "y"}
    assert tallies["count_out"].corrupt.keys() <= {"late"}  # no column of it is parsed
    said = [line.partition("; ")[0] for line in console.file.getvalue().splitlines() if "(warning)" in line]
    said = [line for line in said if not line.startswith(("self_out", "count_out"))]
    assert sorted(said) == [
        "bad_out: 1 row of bad without event time, dropped: bad.ts is NULL",
        "bad_out: 2 records of bad so far: corrupt, or not of the declared types",
        "empty_out: no row of empty has come, so nothing joins",
        "late_out: 5 records of late so far: corrupt, or not of the declared types",
        "late_out: no row of late can join: late.ts is NULL in all 5 rows so far",
        "r_out: no row of r can join: r.nope is NULL in all 5 rows so far",
    ]
    assert tallies["late_out"].to_dict()["null_rows"]["late"]["dropped"] == 5
    assert tallies["late_out"].to_dict()["corrupt_records"] == {"late": 5}


def test_the_text_of_corrupt_records_is_kept_where_it_is_declared(session: TriJoinSession, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "1.csv").write_text("1\nx\n")
    outcome = carry_out(
        session,
        f"CREATE STREAM r (a BIGINT, bad STRING) USING csv OPTIONS (path '{tmp_path}/r', columnNameOfCorruptRecord "
        "'bad');\nCREATE SINK m USING memory;\nINSERT INTO m SELECT * FROM r",
        tmp_path,
    )
    assert sorted(outcome.rows["m"]) == ['{"a":1,"bad":null}', '{"a":null,"bad":"x"}']
    assert outcome.tallies[0].corrupt == {"r": 1}


def test_a_product_is_said_with_its_place(session: TriJoinSession, tmp_path: Path) -> None:
    text = (
        "CREATE STREAM r USING rate WATERMARK timestamp DELAY OF INTERVAL 1 SECOND;\nCREATE SINK n USING noop;\n"
        "CREATE TEMPORARY VIEW both AS SELECT r.value FROM r CROSS JOIN r AS s WITHIN 5 SECONDS;\n"
        "INSERT INTO n SELECT value FROM both;\n"
    )
    job = parse_job(Script("job.sql", text))
    (query,) = prepare(job, session)
    assert [one.partition(":")[0] for one in query.cautions] == ["CROSS PRODUCT"]
