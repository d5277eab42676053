"""What a shell remembers, and what Ctrl-C does to what runs: with a session that is made up. No Spark."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from rich.console import Console

from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.start_spark import SparkStartError
from trijoin_sql.jobs.statements import Job
from trijoin_sql.running.stopping import StopRequest
from trijoin_sql.shell import engine as engines
from trijoin_sql.shell import shell as shells
from trijoin_sql.shell.engine import Engine, StoppedError
from trijoin_sql.shell.shell import Shell


class Made:
    """What stands for Spark: it notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cancelled = threading.Event()
        context = SimpleNamespace(cancelAllJobs=self.cancelled.set)
        catalog = SimpleNamespace(dropTempView=lambda name: self.asked.append(f"drop {name}"))
        self.session = SimpleNamespace(spark=SimpleNamespace(sparkContext=context, catalog=catalog))
        self.start: Callable[[], object] = int

    @contextmanager
    def job_session(self, *_: object) -> Iterator[Any]:
        self.start()
        yield self.session
        self.asked.append("end")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    found = Made()
    monkeypatch.setattr(engines, "job_session", found.job_session)
    monkeypatch.setattr(shells, "prepare", lambda job, _: found.asked.append(type(job.statements[0]).__name__))
    return found


@pytest.fixture
def engine(made: Made) -> Iterator[Engine]:
    running = Engine(Job(Script("shell", ""), ()), {}, None)
    yield running
    running.close()
    assert made.asked[-1] == "end"


@pytest.fixture
def shell(engine: Engine) -> Shell:
    return Shell(engine, Console(file=io.StringIO()), Console(file=io.StringIO(), record=True, width=200))


def entered(shell: Shell, text: str) -> str:
    """Enter something; return what the shell says of it."""
    assert shell.enter(text)
    return shell.err.export_text()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_cancels_what_has_no_way_to_stop(engine: Engine, made: Made) -> None:
    def work(_: object) -> None:
        interrupt()
        assert made.cancelled.wait(10)
        raise PySparkException("Job cancelled")

    with pytest.raises(StoppedError):
        engine.run(work)
    assert engine.run(lambda _: 7) == 7  # and the next thing runs


def test_ctrl_c_is_left_to_what_can_stop(engine: Engine, made: Made) -> None:
    request = StopRequest()

    def work(_: object) -> str:
        interrupt()
        while not request.count:
            pass
        return "done"

    assert engine.run(work, request) == "done"
    assert not made.cancelled.is_set()


def test_an_error_is_no_stop(engine: Engine) -> None:
    def work(_: object) -> None:
        raise PySparkException("no such thing")

    with pytest.raises(PySparkException, match="no such thing"):
        engine.run(work)


def test_ctrl_c_while_spark_starts_gives_the_prompt_back(made: Made) -> None:
    go = threading.Event()
    made.start = lambda: go.wait(30)
    engine = Engine(Job(Script("shell", ""), ()), {}, None)
    threading.Timer(0.3, interrupt).start()
    with pytest.raises(StoppedError):
        engine.run(lambda _: made.asked.append("ran"))
    assert engine.starting
    go.set()
    engine.close()
    assert made.asked == ["end"]  # what was stopped never runs


def test_spark_that_does_not_start_ends_the_shell(made: Made) -> None:
    def fails() -> None:
        raise SparkStartError("Spark does not start: no Java")

    made.start = fails
    engine = Engine(Job(Script("shell", ""), ()), {}, None)
    shell = Shell(engine, Console(quiet=True), Console(quiet=True))
    assert shell.enter("CREATE STREAM r;")  # a mistake of the user's own is no reason
    assert not shell.enter("SELECT 1;")
    engine.close()


def test_names_are_declared_once_replaced_and_dropped(shell: Shell, made: Made) -> None:
    assert entered(shell, "CREATE STREAM r USING rate; CREATE SINK o USING noop;") == ""
    for again in ("CREATE STREAM R USING rate;", "CREATE SINK r USING noop;", "CREATE STREAM o USING rate;"):
        told = entered(shell, again)
        assert "there is already something named" in told
        assert "CREATE OR REPLACE" in told
    assert entered(shell, "CREATE OR REPLACE STREAM r USING rate OPTIONS (rowsPerSecond 5);") == ""
    assert len(shell.streams["r"].options) == 1
    assert "there is no sink named r" in entered(shell, "DROP SINK r;")
    assert entered(shell, "DROP STREAM R; DROP SINK o;") == ""
    assert (shell.streams, shell.sinks) == ({}, {})
    assert made.asked == ["CreateStream", "CreateSink", "CreateStream", "drop R"]


def test_a_mistake_changes_nothing(shell: Shell, made: Made) -> None:
    """Not even what stands before it in the same input, if it shows in the text."""
    assert "did you mean parquet?" in entered(shell, "CREATE SINK a USING parqet OPTIONS (path 'x');")
    assert "USING and a format are missing" in entered(shell, "CREATE SINK b USING noop; CREATE SINK c;")
    assert "no option rowPerSecond" in entered(shell, "CREATE STREAM d USING rate OPTIONS (rowPerSecond 1);")
    assert "does not exist" in entered(shell, "CREATE STREAM e USING text OPTIONS (path '/no/such/folder');")
    assert (shell.streams, shell.sinks, made.asked) == ({}, {}, [])


def test_commands(shell: Shell) -> None:
    for text in (r"\rows 7", r"\once on"):
        assert entered(shell, text) == ""
    assert (shell.rows, shell.once) == (7, True)
    for text, says in (
        (r"\rows", "a number of rows"),
        (r"\rows -1", "a number of rows"),
        (r"\rows 0", "a number of rows"),
        (r"\once maybe", "on or off"),
        (r"\run", "the name of a file"),
        (r"\nothing", r"\help says which there are"),
    ):
        assert says in entered(shell, text)
    assert "there is no sink named out" in entered(shell, "INSERT INTO out SELECT a.x FROM a JOIN b WITHIN 1 DAY;")
    assert r"\tables lists streams" in entered(shell, "SHOW STREAMS;")
    assert "No such file" in entered(shell, r"\run no.sql")
    assert not any(shell.enter(text) for text in ("exit", "QUIT;", r"\q"))
