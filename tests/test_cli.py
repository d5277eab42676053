"""The command line as its users meet it: streams, exit codes, one message for a mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trijoin_sql import cli, errors

ENVIRONMENT = {**os.environ, "COLUMNS": "100"}


def trijoin(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trijoin_sql", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **environment},
        check=False,
    )


def test_help_names_the_commands_and_the_exit_codes() -> None:
    said = trijoin("--help")
    assert said.returncode == 0
    assert said.stderr == ""
    assert "doctor" in said.stdout
    assert "Exit codes: 0 done, 1 the query failed, 2 wrong usage" in said.stdout
    assert "--install-completion" in said.stdout


def test_version() -> None:
    assert trijoin("--version").stdout == "trijoin-sql 0.1.0\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["doctor", "--nonsense"], ["doctor", "argument"]])
def test_wrong_usage(arguments: list[str]) -> None:
    said = trijoin(*arguments)
    assert (said.returncode, said.stdout) == (2, "")
    assert "Traceback" not in said.stderr


def test_doctor_reports_on_stdout_without_colours() -> None:
    said = trijoin("doctor")
    assert (said.returncode, said.stderr) == (0, "")
    assert [line.split()[1] for line in said.stdout.splitlines()[:3]] == ["Python:", "Java:", "Packages:"]
    assert "\x1b" not in said.stdout


def test_quiet_doctor_says_nothing_where_all_is_well() -> None:
    said = trijoin("doctor", "--quiet")
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_no_java_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    said = trijoin("doctor", "--quiet", JAVA_HOME=str(tmp_path))
    assert (said.returncode, said.stdout) == (2, "")
    (line,) = said.stderr.splitlines()
    assert "Java 17 or 21 is needed: " in line


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


def test_a_bug_keeps_its_traceback() -> None:
    assert cli.explain_error(KeyError("ours")) is None
