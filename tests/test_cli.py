"""The command line as its users meet it: streams, exit codes, one message for a mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import pytest
import typer
from typer.testing import CliRunner

from trijoin_sql import cli, errors
from trijoin_sql.spark.java import either_java


def trijoin(*arguments: str, stdin: str = "", **environment: str) -> Any:
    """Run a command in this process; its exit code is that of a process."""
    return CliRunner().invoke(cli.app, arguments, input=stdin, env={"COLUMNS": "100", **environment})


def process(
    *arguments: str, stdin: bytes = b"", stdout: int | IO[str] = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as users do, which takes a second."""
    said = subprocess.run(
        [sys.executable, "-m", "trijoin_sql", *arguments],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "100", **environment},
        check=False,
    )
    return subprocess.CompletedProcess(
        said.args, said.returncode, (said.stdout or b"").decode(errors="replace"), (said.stderr or b"").decode()
    )


def test_help_names_the_commands_and_the_exit_codes() -> None:
    said = process("--help")
    assert said.returncode == 0
    assert said.stderr == ""
    assert all(command in said.stdout for command in ("demo", "doctor", "explain"))
    assert "Exit codes: 0 done, 1 the query failed, 2 wrong usage" in said.stdout
    assert "--install-completion" in said.stdout


def test_help_is_of_the_command_and_its_flags_have_no_type() -> None:
    said = process("run", "--help")
    assert "Usage: trijoin-sql run [OPTIONS] {JOB.sql}" in said.stdout
    assert "bool" not in said.stdout + process("--help").stdout


@pytest.mark.parametrize("command", sorted(typer.main.get_group(cli.app).commands))
def test_each_command_has_help(command: str) -> None:
    """Rich reads square brackets in help as markup, and fails on those that are none."""
    said = trijoin(command, "--help")
    assert (said.exit_code, said.stderr) == (0, "")
    assert f" {command} [OPTIONS]" in said.stdout
    assert "\\b" not in said.stdout


def test_help_shows_how_masters_are_written() -> None:
    assert "local[*,4]" in trijoin("run", "--help", COLUMNS="80").stdout


def test_version() -> None:
    assert trijoin("--version").stdout == f"trijoin-sql {version('trijoin-sql')}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["doctor", "--nonsense"], ["doctor", "argument"]])
def test_wrong_usage(arguments: list[str]) -> None:
    said = trijoin(*arguments)
    assert (said.exit_code, said.stdout) == (2, "")
    assert "Traceback" not in said.stderr


def test_doctor_reports_on_stdout_without_colours() -> None:
    said = trijoin("doctor")
    assert (said.exit_code, said.stderr) == (0, "")
    assert [line.split()[1] for line in said.stdout.splitlines()[:3]] == ["Python:", "Java:", "Packages:"]
    assert "\x1b" not in said.stdout


def test_quiet_doctor_says_nothing_where_all_is_well() -> None:
    said = trijoin("doctor", "--quiet")
    assert (said.exit_code, said.stdout, said.stderr) == (0, "", "")


def test_no_java_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    said = process("doctor", "--quiet", JAVA_HOME=str(tmp_path))
    assert (said.returncode, said.stdout) == (2, "")
    (line,) = said.stderr.splitlines()
    assert f"Java {either_java()} is needed: " in line


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.SqlSyntaxError("unexpected FROM", "SELECT FROM r", 1, 8), 2),
        (errors.UnsupportedQueryError("an outer join", hint="use an inner join"), 2),
        (errors.JoinOverflowError("r.a - s.a", "BIGINT"), 1),
        (errors.PlanError("two nodes"), 1),
        (FileNotFoundError(2, "No such file or directory", "job.sql"), 2),
    ],
)
def test_a_users_error_is_one_message(error: Exception, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("trijoin_sql.doctor.examine", fail)
    result = CliRunner().invoke(cli.app, ["doctor"])
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    if isinstance(error, errors.TriJoinError):
        assert result.stderr == f"error: {error}\n"


SCRIPT = """\
CREATE STREAM r (a INT, ts TIMESTAMP) USING rate;
CREATE STREAM s (a INT, b INT, ts TIMESTAMP) USING rate;
CREATE STREAM t (b INT, ts TIMESTAMP) USING rate;
SET spark.sql.shuffle.partitions = 2;
SELECT r.a, t.b FROM r JOIN s ON r.a < s.a JOIN t ON s.b = t.b;
"""


def test_explain_needs_no_spark_and_says_what_the_contract_says(tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text(SCRIPT)
    said = process("explain", str(tmp_path / "query.sql"), "--format", "json", JAVA_HOME=str(tmp_path))
    assert (said.returncode, said.stderr) == (0, "")
    document = json.loads(said.stdout)
    assert {"version", "sql", "stages", "groups", "advice"} <= set(document)
    assert document["groups"][0]["graph"]["shape"] == "chain"
    assert document["groups"][0]["graph"]["hub"] == "s"


@pytest.mark.parametrize("within", ["", " WITHIN 1 MINUTE"])
def test_explain_finds_a_column_that_a_stream_does_not_have(within: str) -> None:
    """As ``run`` does; it was explained as a join that Spark has to do, or WITHIN was called wrong."""
    sql = SCRIPT.partition("SELECT")[0] + f"SELECT r.a FROM r JOIN s ON r.a < s.aa{within};"
    said = trijoin("explain", "-", stdin=sql)
    assert (said.exit_code, said.stdout) == (2, "")
    assert "`s`.`aa` cannot be resolved: s has no column aa" in said.stderr
    assert "stdin:5:35" in said.stderr
    assert "did you mean a?" in said.stderr


def test_explain_marks_the_join_that_does_not_run() -> None:
    """The caret stood nowhere: a user had to find the join of a long statement."""
    sql = SCRIPT.partition("SELECT")[0] + "SELECT r.a FROM r\nLEFT JOIN s ON r.a LIKE s.a WITHIN 1 MINUTE;"
    said = trijoin("explain", "-", stdin=sql)
    assert (said.exit_code, said.stdout) == (2, "")
    assert "stdin:6:1: This query cannot run on streams: a LEFT JOIN of streams: only Spark can" in said.stderr


def test_explain_strict_refuses_what_keeps_rows_for_ever() -> None:
    setting = SCRIPT.replace("SET spark.sql.shuffle.partitions = 2", "SET spark.trijoin.strict = false")
    for arguments, script in ((["--strict"], setting), ([], setting.replace("false", "true"))):
        said = trijoin("explain", "-", *arguments, stdin=script)
        assert (said.exit_code, said.stdout) == (2, "")
        assert "stdin:5:22: Strict mode refuses this query: rows of r are kept for ever (UNBOUNDED)" in said.stderr
        assert "Hint: give it one with r WATERMARK ts DELAY OF" in said.stderr
    assert trijoin("explain", "-", stdin=setting).exit_code == 0


@pytest.mark.parametrize(
    ("form", "start"), [("text", "TriJoin SQL: "), ("mermaid", "flowchart "), ("html", "<!doctype")]
)
def test_explain_formats(form: str, start: str) -> None:
    said = trijoin("explain", "-", "--format", form, stdin=SCRIPT)
    assert (said.exit_code, said.stderr) == (0, "")
    assert start in said.stdout[:400]


def test_explain_of_several_queries() -> None:
    script = SCRIPT + "SELECT r.a FROM r JOIN s ON r.a <= s.a;"
    assert len(json.loads(trijoin("explain", "-", "-f", "json", stdin=script).stdout)) == 2
    second = trijoin("explain", "-", "-f", "json", "--statement", "2", stdin=script).stdout
    assert json.loads(second)["groups"][0]["graph"]["relations"] == ["r", "s"]
    for arguments in (["-f", "html"], ["--statement", "3"]):
        said = trijoin("explain", "-", *arguments, stdin=script)
        assert (said.exit_code, said.stdout) == (2, "")
        assert "holds 2 queries" in said.stderr


JOB = """\
CREATE STREAM r USING rate WATERMARK timestamp DELAY OF INTERVAL 1 SECOND;
CREATE STREAM s USING rate-micro-batch OPTIONS (rowsPerBatch 4) WATERMARK timestamp DELAY OF INTERVAL 1 SECOND;
CREATE STREAM q USING socket OPTIONS (host 'h', port 1, includeTimestamp true);
CREATE SINK `the sink` USING console;
CREATE SINK another USING memory;
CREATE TEMPORARY VIEW `plain view` AS SELECT value * 2 AS v, timestamp AS ts FROM r;
SET spark.sql.shuffle.partitions = 2;
INSERT INTO `the sink`
  SELECT p.v FROM `plain view` AS p JOIN s ON p.v < s.value WITHIN 5 SECONDS;
INSERT INTO another (SELECT * FROM q JOIN s ON q.timestamp < s.timestamp);
"""


def test_explain_of_a_job_shows_what_its_inserts_ask() -> None:
    """Streams without declared columns have those of their format, and views those of their query."""
    said = trijoin("explain", "-", "-f", "json", stdin=JOB)
    assert said.stderr == ""
    first, second = json.loads(said.stdout)
    assert first["sql"].startswith("SELECT p.v")
    assert {stream["alias"]: stream["keep_for"] for stream in first["groups"][0]["state"]["streams"]} == {
        "p": "5 seconds",  # the view's event time is its stream's
        "s": "5 seconds",
    }
    assert second["groups"][0]["graph"]["relations"] == ["q", "s"]


def test_a_syntax_error_in_an_insert_gives_the_place_in_the_file() -> None:
    said = trijoin("explain", "-", stdin=JOB.replace("FROM q JOIN", "FROM q JOIN WHERE"))
    assert said.exit_code == 2
    *_, line, caret = said.stderr.rstrip("\n").splitlines()
    assert line.startswith("INSERT INTO another (SELECT * FROM q JOIN WHERE")
    assert caret.index("^") >= line.index("WHERE")


def test_a_view_that_joins_is_explained_too() -> None:
    script = SCRIPT.replace("SELECT r.a", "CREATE TEMPORARY VIEW v AS SELECT r.a") + "INSERT INTO o SELECT a FROM v;"
    view, insert = json.loads(trijoin("explain", "-", "-f", "json", stdin=script).stdout)
    assert (view["kind"], len(view["groups"])) == ("create_view", 1)
    assert (insert["kind"], insert["groups"]) == ("select", [])


def test_a_syntax_error_gives_the_place_in_the_file() -> None:
    said = trijoin("explain", "-", stdin=SCRIPT + "\n  SELECT a FROM r WHERE AND;")
    assert (said.exit_code, said.stdout) == (2, "")
    assert said.stderr.startswith("stdin:7:")
    *_, line, caret = said.stderr.rstrip("\n").splitlines()
    assert line == "  SELECT a FROM r WHERE AND;"
    assert line[caret.index("^") :].startswith("AND")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("r.a < s.a", "r.a < s.aa"),
        ("SELECT r.a", "SELECT FROM r.a"),
        ("s.b = t.b", "s.b = t.b WITHIN 5 LIGHTYEARS"),
        ("SELECT r.a", "SELECT /*+ SCHEME('none') */ r.a"),
        ("shuffle.partitions = 2", "shuffle.partitions = 2; SET spark.trijoin.units = no"),
        ("USING json", "USING jsn"),
    ],
)
def test_explain_and_run_say_a_mistake_in_the_same_words(old: str, new: str, tmp_path: Path) -> None:
    """The place comes first, as compilers write it; `explain` wrote a condition's name before it."""
    job = SCRIPT.replace("USING rate", "USING json OPTIONS (path '.')")
    job = job.replace("SELECT r.a", "CREATE SINK o USING noop;\nINSERT INTO o SELECT r.a").replace(old, new, 1)
    (tmp_path / "job.sql").write_text(job)
    explain, run = (trijoin(command, str(tmp_path / "job.sql")) for command in ("explain", "run"))
    assert explain.stderr == run.stderr
    assert explain.stderr.startswith(f"{tmp_path}/job.sql:")
    assert (explain.exit_code, run.exit_code) == (2, 2)


def test_state_of_no_checkpoint_speaks_of_the_folder(tmp_path: Path) -> None:
    """And not of a setting, which there is none of."""
    (tmp_path / "file").write_text("")
    for name, why in (("none", "there is no such folder"), ("file", "it is a file, not a folder")):
        said = trijoin("state", str(tmp_path / name))
        assert (said.exit_code, said.stdout) == (2, "")
        assert f"the state in the folder {tmp_path}/{name} is not available: {why}." in said.stderr
        assert "setting" not in said.stderr


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    """`run` ignores it; behind it, `explain` overlooked the first declaration."""
    (tmp_path / "query.sql").write_text(SCRIPT, encoding="utf-8-sig")
    said = trijoin("explain", str(tmp_path / "query.sql"))
    assert (said.exit_code, said.stdout) == (0, trijoin("explain", "-", stdin=SCRIPT).stdout)
    assert trijoin("explain", "-", stdin="\ufeff" + SCRIPT).stdout == said.stdout


def test_what_is_no_text_is_told_with_its_place(tmp_path: Path) -> None:
    """In a POSIX locale Python reads stdin with half characters in the place of other bytes, and says nothing."""
    sql = "SELECT r.a\r\nFROM r JOIN größer ON r.a < größer.a".encode("latin-1")
    (tmp_path / "query.sql").write_bytes(sql)
    for file, name in ((str(tmp_path / "query.sql"), str(tmp_path / "query.sql")), ("-", "stdin")):
        said = process("explain", file, stdin=sql, LC_ALL="POSIX")
        assert (said.returncode, said.stdout) == (2, "")
        assert f"{name}:2:15: the file is not UTF-8 text from here on" in said.stderr


DECLARED = "CREATE STREAM r (a INT); CREATE STREAM s (a INT);\n"
JOINED = "SELECT r.a FROM r JOIN s ON r.a < s.a"


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (f"SELEC{JOINED[6:]}; {JOINED}", "stdin:2:1: no statement begins with SELEC"),
        (f"-- note\nINSRT INTO k {JOINED}; {JOINED}", "stdin:3:1: no statement begins with INSRT"),
        (f"CREATE STRAEM k (a INT) USING json; {JOINED}", "stdin:2:8: no statement begins with CREATE STRAEM"),
        (f"SET spark.trijoin.unit = 3; {JOINED}", "stdin:2:5: there is no setting spark.trijoin.unit"),
        (f"/* SET spark.trijoin.unit = 3 */ SET spark.trijoin.unit = 3; {JOINED}", "stdin:2:38: there is no setting"),
        (f"SET spark.trijoin.units = abc; {JOINED}", "spark.trijoin.units = abc is not usable"),
        (f"SET spark.trijoin.units = 0; {JOINED}", "units = 0 is not usable"),
        (f"SET spark.trijoin.units = ²; {JOINED}", "units = ² is not usable"),
        (f"SET spark.trijoin.aggregateInUnits = yes; {JOINED}", "aggregateInUnits = yes is not usable"),
        (f"SET spark.trijoin.rate.r = many; {JOINED}", "rate.r = many is not usable"),
        (JOINED.replace("SELECT", "SELECT /*+ UNITS(1000000007) */"), "it takes one whole number from 1 to 100000."),
        (JOINED.replace("SELECT", "SELECT /*+ UNITS(2), UNITS(3) */"), "UNITS stands there twice."),
        (JOINED.replace("SELECT", "SELECT /*+ SCHEM('tree') */"), "perhaps SCHEME is meant."),
        (f"{JOINED} WITHIN 99999999999999999999 SECONDS", "WITHIN"),
        (JOINED.replace("r.a <", "r.aa <") + " WITHIN 1 MINUTE", "r has no column aa\n"),
        (JOINED.replace("r.a <", "a <") + " WITHIN 1 MINUTE", "the column a is ambiguous: r and s have it"),
        (JOINED.replace("FROM r", "FROM rr AS r") + " WITHIN 1 MINUTE", "there is no stream or table named rr in this"),
        (JOINED.replace("JOIN s", "ASOF JOIN s") + " AND r.a = s.a", "ASOF JOIN needs MATCH_CONDITION"),
    ],
)
def test_explain_refuses_what_run_would(sql: str, says: str) -> None:
    """A slip was passed over, with exit code 0; so many units took minutes; two hints of one name were the last."""
    said = trijoin("explain", "-", stdin=DECLARED + sql)
    assert (said.exit_code, said.stdout) == (2, "")
    assert says in said.stderr


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("r USING rate WATERMARK timestamp", "r USING rate WATERMARK ts", "stdin:1:38: r has no column ts"),
        ("STREAM s", "STREAM r", "stdin:2:15: there is already something named r, on line 1"),
        (
            "USING socket OPTIONS (host 'h', ",
            "(a INTT) USING csv OPTIONS (path 'x', ",
            "stdin:3:20: there is no type INTT",
        ),
        ("USING socket", "USING sockt", "stdin:3:23: there is no source format named sockt"),
        ("INTO another", "INTO anoter", "stdin:10:13: there is no sink named anoter"),
        ("sink` USING console", "sink` USING parquet", "stdin:4:30: parquet needs the option path"),
        ("SECOND;", "MONTH;", "stdin:1:66: '1 month' is no length of time"),
    ],
)
def test_explain_refuses_declarations_that_run_would(old: str, new: str, says: str) -> None:
    """They were passed over: `explain` read the columns and no more, and `run` refused the file."""
    said = trijoin("explain", "-", stdin=JOB.replace(old, new, 1))
    assert (said.exit_code, said.stdout) == (2, "")
    assert says in said.stderr


def test_explain_looks_at_no_folder_that_a_job_names() -> None:
    """The plan of a job can be asked for where its data are not."""
    files = "(timestamp TIMESTAMP, value BIGINT) USING csv OPTIONS (path '/not/there') WATERMARK"
    assert trijoin("explain", "-", stdin=JOB.replace("USING rate WATERMARK", files, 1)).exit_code == 0


def explained(sql: str) -> Any:
    (group,) = json.loads(trijoin("explain", "-", "-f", "json", stdin=DECLARED + sql).stdout)["groups"]
    return group


def test_explain_knows_what_a_job_sets() -> None:
    """All settings that a plan depends on, not units and rates alone."""
    for sets in ("SET spark.trijoin.units = 3", "SET `spark.trijoin.units`=3", "SET spark.sql.shuffle.partitions = 3"):
        assert explained(f"{sets}; {JOINED}")["decision"]["units"] == 3
    counted = "SELECT COUNT(*) AS n FROM r JOIN s ON r.a < s.a"
    assert explained(counted)["aggregation"]["in_units"]
    assert not explained(f"SET spark.trijoin.aggregateInUnits = false; {counted}")["aggregation"]["in_units"]
    shares = [
        {one["scheme"]: one["cost"]["cpu"] for one in explained(sets + JOINED)["decision"]["alternatives"]}
        for sets in ("", "SET spark.trijoin.selectivity.range = 0.001; ")
    ]
    assert shares[0]["biclique"] > 10 * shares[1]["biclique"]


def test_what_a_locale_cannot_write_is_written_in_escapes() -> None:
    said = process("explain", "-", stdin=JOINED.encode(), PYTHONIOENCODING="latin-1")
    assert (said.returncode, said.stderr) == (0, "")
    assert "\\u251c" in said.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        said = process("explain", "-", stdin=b"SELECT 1", stdout=full)
    assert (said.returncode, said.stderr) == (1, "error: cannot write: No space left on device\n")


@pytest.mark.parametrize("content", [b"", b"SET a = 1", b"\xff\xfe"])
def test_explain_of_a_file_without_a_query(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "query.sql").write_bytes(content)
    said = trijoin("explain", str(tmp_path / "query.sql"))
    assert (said.exit_code, said.stdout) == (2, "")
    assert "Traceback" not in said.stderr


def test_explain_of_a_file_that_is_not_there() -> None:
    said = process("explain", "absent.sql")
    assert (said.returncode, said.stdout, said.stderr) == (2, "", "error: absent.sql: No such file or directory\n")


def test_sparks_errors_are_one_message_too() -> None:
    from pyspark.errors import AnalysisException, PySparkRuntimeError

    assert cli.explain_error(AnalysisException("[NO] no column x;\n'Project ['x]\n\nJVM stacktrace:\nat a.b")) == (
        "[NO] no column x",
        2,
    )
    assert cli.explain_error(PySparkRuntimeError("the query stopped\nTraceback (most recent call last)")) == (
        "the query stopped",
        1,
    )


def test_without_pyspark_it_is_what_doctor_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    message, code = cli.explain_error(ModuleNotFoundError("No module named 'pyspark'", name="pyspark")) or ("", 0)
    assert "pyspark is not installed: pip install" in message
    assert code == 2


def test_a_bug_keeps_its_traceback() -> None:
    assert cli.explain_error(KeyError("ours")) is None
