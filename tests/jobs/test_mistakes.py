"""Every mistake in a job file is one message with its line, column and a caret, before Spark is even loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from trijoin_sql.rewriter.sql.clauses import Word
from typer.testing import CliRunner

from trijoin_sql import cli
from trijoin_sql.errors import SHOWN, JobError
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.statements import CreateSink, CreateStream, SparkStatement
from trijoin_sql.jobs.user_code import load_function
from trijoin_sql.settings import NAMES
from trijoin_sql.spark.java import either_java

from .mistakes import INSERT, MISTAKES, NOT_A_MISTAKE, REST, SINK, STREAM, Mistake


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    data, file = tmp_path / "data", tmp_path / "file"
    data.mkdir()
    file.write_text("a\n")
    return {"data": data, "file": file, "free": tmp_path / "free"}


def fill(text: str, folders: dict[str, Path]) -> str:
    for name, path in folders.items():
        text = text.replace(f"{{{name}}}", str(path))
    return text


@pytest.mark.parametrize("text", ["go", "BEGIN", "b", "create"])
def test_a_statement_of_one_word_is_sparks(text: str) -> None:
    """It ended in a traceback: there is no second word to look at."""
    first, *_ = parse_job(Script("job.sql", f"{text}; {STREAM}{REST}")).statements
    assert isinstance(first, SparkStatement)
    assert first.sql.text == text


def check(text: str) -> list[str]:
    return check_job(parse_job(Script("job.sql", text)))


def test_there_are_more_than_fifty_kinds() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) > 50


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_one_message_at_its_place(mistake: Mistake, folders: dict[str, Path]) -> None:
    marked = fill(mistake.job, folders)
    before, _, after = marked.partition("^")
    with pytest.raises(JobError) as caught:
        check(before + after)
    error = caught.value
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert (error.path, error.line, error.column) == ("job.sql", line, column), error.located
    place, text, caret, *rest = error.located.splitlines()
    assert place.startswith(f"job.sql:{line}:{column}: ")
    assert mistake.says in error.located
    whole = (before + after).split("\n")[line - 1]
    assert (text == whole) is (len(whole) <= SHOWN)  # else a part of it
    assert text.strip("…") in whole
    shift = whole.index(text.strip("…")) - text.startswith("…")
    assert caret == " " * (column - 1 - shift) + "^"
    assert len(rest) <= 1
    assert "\n" not in error.detail
    assert all(hint.startswith("Hint: ") for hint in rest)


@pytest.mark.parametrize("query", NOT_A_MISTAKE)
def test_only_what_is_certainly_no_column_is_one(query: str) -> None:
    """A query that Spark runs must not be refused for a name that we misread."""
    view = "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT value AS nope FROM r;\n"
    timed = "USING rate WATERMARK timestamp DELAY OF INTERVAL 1 SECOND;\n"
    streams = "".join(f"CREATE STREAM {name} {timed}" for name in "rqv")
    check(f"{streams}{view}{SINK}INSERT INTO o {query}")


def test_a_job_without_mistakes_passes(folders: dict[str, Path]) -> None:
    job = """\
-- a semicolon; in a comment, one in a 'string;' below
CREATE STREAM `my r` (a BIGINT, `b c` STRUCT<x: INT, y: ARRAY<DECIMAL(10, 2)>>, ts TIMESTAMP NOT NULL)
  USING JSON OPTIONS (path '{data}', "maxFilesPerTrigger" = 3, latestFirst true)
  WATERMARK ts DELAY OF INTERVAL '1 hour 30 minutes';
CREATE STREAM k USING kafka OPTIONS (kafka.bootstrap.servers 'h:1', subscribe 'a;b', kafka.security.protocol 'SSL')
  WATERMARK timestamp DELAY OF INTERVAL '10' SECONDS;;
CREATE SINK o OPTIONS (path '{free}/o', checkpointLocation '{free}/c') USING Parquet TRIGGER AVAILABLE NOW MODE APPEND;
CREATE SINK p USING console TRIGGER PROCESSING TIME INTERVAL 1 MINUTE;
SET spark.sql.shuffle.partitions = 4;
CREATE TEMPORARY VIEW v AS SELECT a, ts FROM `my r` WHERE ';' <> 'x';
INSERT INTO `O` SELECT /*+ SCHEME('biclique') */ a FROM v JOIN k ON v.a < k.offset WITHIN 10 MINUTES;
INSERT INTO p (SELECT a FROM v)"""
    parsed = parse_job(Script("job.sql", fill(job, folders)))
    assert check_job(parsed) == []
    stream, kafka, first, second = (s for s in parsed.statements if isinstance(s, CreateStream | CreateSink))
    assert isinstance(stream, CreateStream)
    assert isinstance(kafka, CreateStream)
    assert stream.watermark is not None
    assert stream.watermark.delay.text == "1 hours 30 minutes"
    assert [column.type.text for column in stream.columns][1] == "STRUCT<x: INT, y: ARRAY<DECIMAL(10, 2)>>"
    assert kafka.options.text("SUBSCRIBE") == "a;b"
    assert isinstance(first, CreateSink)
    assert isinstance(second, CreateSink)
    assert (first.output_mode, first.trigger) == ("append", {"availableNow": True})
    assert second.trigger == {"processingTime": "1 minutes"}
    assert parsed.inserts[0].query.text.startswith("SELECT /*+ SCHEME('biclique') */")


def test_what_is_not_used_is_a_warning() -> None:
    warnings = check(f"{STREAM}CREATE STREAM s USING rate;\n{SINK}CREATE SINK p USING noop;\n{INSERT}")
    assert warnings == ["job.sql:2:15: the stream s is read by no query", "job.sql:4:13: the sink p gets no rows"]


def test_a_rate_that_no_query_reads_is_a_warning() -> None:
    rates = "SET spark.trijoin.rate.q = 5;\nSET spark.trijoin.rate.R = 5;\nSET spark.trijoin.rate.c.d.`r` = 5;\n"
    assert check(rates + STREAM + REST) == ["job.sql:1:24: the rate of q counts for nothing: no query reads it"]


def test_a_module_beside_the_job_takes_no_place_of_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wave.py").write_text("def save(frame, number): pass\n")
    (tmp_path / "needs.py").write_text("import not_installed_anywhere\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    script = Script(str(tmp_path / "job.sql"), "wave:save")
    with pytest.raises(JobError, match=r"wave \(.*wave.py\) has no function save"):
        load_function(script, Word("wave:save", 0))
    assert sys.path[0] != str(tmp_path)
    with pytest.raises(JobError, match="needs does not import: there is no module named not_installed_anywhere"):
        load_function(script, Word("needs:save", 0))


def test_places_count_characters_and_keep_tabs() -> None:
    with pytest.raises(JobError) as caught:
        check("/* 🚀 */\tCREATE STREAM r USING rat;\r\n" + REST)
    *_, text, caret, _ = str(caught.value).splitlines()
    assert (caught.value.line, caught.value.column) == (1, 31)
    assert not text.endswith("\r")
    assert caret == " " * 7 + "\t" + " " * 22 + "^"


@pytest.mark.parametrize("spelled", ["{0}/out/../in", "{0}/link", "file:{0}/./in"])
def test_no_sink_writes_where_a_stream_reads(tmp_path: Path, spelled: str) -> None:
    """Spelled in another way it did: the stream then saw the sink's log instead of its files, and lost rows."""
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in")
    read = f"CREATE STREAM r (a INT) USING json OPTIONS (path '{tmp_path}/in');\n"
    path = spelled.format(tmp_path)
    for options in (
        f"path '{path}', checkpointLocation '{tmp_path}/c'",
        f"path '{tmp_path}/o', checkpointLocation '{path}'",
    ):
        with pytest.raises(JobError, match="is read by the stream r"):
            check(f"{read}CREATE SINK k USING json OPTIONS ({options});\nINSERT INTO k SELECT * FROM r")


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("CREATE STREAM r USING rate OPTIONS (rowsPerSecond '²');", "takes a whole number from 1 up, not '²'"),
        ("CREATE STREAM r USING rate; CREATE SINK `a``b` USING memory;", "letters, digits and _ only"),
    ],
)
def test_what_would_fail_inside_of_spark_is_refused_before(job: str, says: str) -> None:
    with pytest.raises(JobError, match=re.escape(says)):
        check(f"{job} CREATE SINK n USING noop; INSERT INTO n SELECT * FROM r")


def test_a_function_beside_the_job_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside_the_job.py").write_text("def save(frame, batch): pass\nbroken = 1\n")
    (tmp_path / "raises_at_import.py").write_text("1 / 0\n")
    sink = "CREATE SINK o USING foreachBatch OPTIONS (checkpointLocation '{}', function '{}');\n"

    def look(function: str) -> list[str]:
        text = STREAM + sink.format(tmp_path / "c", function) + INSERT
        return check_job(parse_job(Script(str(tmp_path / "job.sql"), text)))

    assert look("beside_the_job:save") == []
    with pytest.raises(JobError, match="raises_at_import does not import: ZeroDivisionError"):
        look("raises_at_import:save")


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "JAVA_HOME": str(folder)}  # no Java: nothing may start
    return subprocess.run(
        [sys.executable, "-m", "trijoin_sql", "run", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
    )


def test_the_command_prints_one_message_and_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(f"CREATE STREAM r USING rat;\n{REST}")
    said = run("job.sql", folder=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr == (
        "job.sql:1:23: there is no source format named rat\n"
        "CREATE STREAM r USING rat;\n"
        "                      ^\n"
        "Hint: did you mean rate?\n"
    )


def test_every_setting_of_ours_is_known_to_jobs() -> None:
    """A setting that is missing in the list would be refused as a slip."""
    root = Path(__file__).parents[2]
    files = [path for folder in ("trijoin_sql", "rewriter", "operators") for path in (root / folder).rglob("*.py")]
    written = {
        name
        for path in (*files, root / "README.md", *(root / "docs").glob("*.md"))
        for name in re.findall(r"spark\.trijoin\.[a-z]\w*(?:\.\w+)*", path.read_text("utf-8"))
    }
    prefixes = {name.rpartition(".")[0] for name in NAMES} | {"spark.trijoin.rate"}
    assert {name for name in written - prefixes if not name.startswith("spark.trijoin.rate.")} <= {
        *NAMES,
        *("spark.trijoin.selectivity.KIND", "spark.trijoin.cost.NAME", "spark.trijoin.unit"),
    }


@pytest.mark.slow
def test_no_java_is_one_message_that_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text(STREAM + REST)
    said = run("job.sql", "--quiet", folder=tmp_path)
    assert (said.returncode, said.stdout) == (2, "")
    first, hint = said.stderr.splitlines()
    why = f"JAVA_HOME={tmp_path} has no bin/java; Java {either_java()} is needed"
    assert first.startswith(f"Spark does not start: {why}: ")
    assert hint == "Hint: trijoin-sql doctor says what this machine lacks"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no.sql"], "no.sql: No such file or directory"),
        (["."], ".: Is a directory"),
        (["good.sql", "--conf", "nonsense"], "'nonsense' is not of the form KEY=VALUE"),
        (["good.sql", "--conf", "spark.trijoin.unit=4"], "did you mean spark.trijoin.units?"),
        (["good.sql", "--units", "0"], "--units"),
        (["good.sql", "--format", "xml"], "--format"),
        (["latin.sql"], "latin.sql:2:8: the file is not UTF-8 text from here on"),
        ([], "JOB.sql"),
    ],
)
def test_wrong_usage_exits_with_2(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.sql").write_text(STREAM + REST)
    (tmp_path / "latin.sql").write_bytes(b"-- fine\n-- Stra\xdfe\n")
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(cli.app, ["run", *arguments], env={"COLUMNS": "200", "JAVA_HOME": str(tmp_path)})
    assert (said.exit_code, said.stdout) == (2, "")
    assert says in said.stderr
    assert "Traceback" not in said.stderr


def test_names_that_differ_in_case_are_left_to_spark_where_a_setting_says_so() -> None:
    check(
        "SET spark.sql.caseSensitive = true;\nCREATE STREAM r (a INT) USING csv OPTIONS (path '/tmp');\n"
        "CREATE STREAM q (A INT) USING csv OPTIONS (path '/tmp');\n"
        f"{SINK}INSERT INTO o SELECT a FROM r JOIN q ON a < A;"
    )


def test_a_folder_with_the_results_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    """Spark would leave out the batches that its log of the folder has, and say nothing."""
    log, commits = tmp_path / "out" / "_spark_metadata", tmp_path / "c" / "commits"
    log.mkdir(parents=True)
    text = f"{STREAM}CREATE SINK o USING json OPTIONS (path '{tmp_path}/out', checkpointLocation '{tmp_path}/c');\n"
    check(text + INSERT)  # nothing is written yet
    for batch in ("0", "1.compact"):
        (log / batch).touch()
    with pytest.raises(JobError, match=r"results of another checkpoint, of batches up to 1, and .*/c is new") as caught:
        check(text + INSERT)
    assert (caught.value.line, caught.value.column) == (2, 40)
    assert "empty or rename that folder" in caught.value.located
    commits.mkdir(parents=True)
    (commits / "0").touch()
    (tmp_path / "c" / "offsets").mkdir()
    (tmp_path / "c" / "offsets" / "1").touch()
    check(text + INSERT)  # as after a kill between the two logs: the next start repairs it


@pytest.mark.parametrize(
    "options",
    [
        "subscrib 'r', kafka.ssl.key.password 'S3CRET'",
        "subscrib 'r', `kafka.sasl.jaas.config` 'x required password=\"S3CRET\";'",
        "kafka.sasl.jaas.config 'x required\n password=\"S3CRET\";', subscrib 'r'",
        "kafka.ssl.truststore.password = \"S3CRET\", my.Token 'S3CRET', subscrib 'r'",
        "subscrib 'r', kafka.ssl.key.password 'S3CRET",
        "kafka.ssl.key.password S3CRET, subscribe 'r'",
    ],
)
def test_no_message_shows_a_password(options: str) -> None:
    """Logs keep messages. The line of a mistake is shown without the values of such keys; its caret stays in place."""
    with pytest.raises(JobError) as caught:
        check(f"CREATE STREAM r (x INT) USING kafka OPTIONS ({options});\n")
    assert "S3CRET" not in str(caught.value) + caught.value.located + str(caught.value.getMessageParameters())
    _, shown, caret, *_ = [*caught.value.located.splitlines(), ""]
    if options.endswith(("';", "'")) and "subscrib '" in shown:
        assert shown[caret.index("^") :].startswith("subscrib")
