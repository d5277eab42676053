"""The shell as a user has it: at a terminal, with Ctrl-C, and with statements from stdin. Some tests start a JVM."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

STREAMS = """\
CREATE STREAM r (a BIGINT, ts TIMESTAMP) USING json OPTIONS (path 'r') WATERMARK ts DELAY OF INTERVAL 1 HOUR;
CREATE STREAM s (b BIGINT, ts TIMESTAMP) USING json OPTIONS (path 's') WATERMARK ts DELAY OF INTERVAL 1 HOUR;
"""
JOIN = "SELECT r.a, s.b FROM r JOIN s ON ABS(r.a - s.b) <= 1 WITHIN 1 MINUTE"
ROWS = sorted((a, b) for a in range(5) for b in range(2) if abs(a - b) <= 1)
_NOISE = ("WARN", "Traceback", "log4j", "Exception", "Setting default log level")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, column, values in (("r", "a", range(5)), ("s", "b", range(2))):
        (tmp_path / name).mkdir()
        rows = [json.dumps({column: value, "ts": f"2024-01-01T00:00:{value:02}Z"}) for value in values]
        (tmp_path / name / "1.json").write_text("\n".join(rows) + "\n")
    return tmp_path


class Terminal:
    """A shell at a pseudo-terminal of its own; what it has shown is text without escape sequences."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        # The terminal becomes the controlling one, so that Ctrl-C is a signal as everywhere.
        code = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
            "os.execv(sys.executable, [sys.executable, '-m', 'trijoin_sql', 'shell', '--master', 'local[2,4]'])"
        )
        environment = {
            **os.environ,
            **environment,
            "TERM": "xterm-256color",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "TRIJOIN_HISTORY": str(folder / "history"),
        }
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        command = [sys.executable, "-c", code]
        self.process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **streams)  # type: ignore[call-overload]
        os.close(theirs)
        self.shown = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, pattern: str, seconds: float = 120) -> str:
        """Return what was shown since the last call, up to a pattern."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.shown, re.DOTALL)) is None:
            assert time.monotonic() < deadline, f"{pattern} never came:\n{self.shown[-3000:]}"
            ready, _, _ = select.select([self._ours], [], [], 0.2)
            if ready:
                self._read()
        told, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return told

    def _read(self) -> None:
        try:
            text = os.read(self._ours, 65536).decode(errors="replace")
        except OSError:  # it has ended
            time.sleep(0.1)
            return
        self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r", "", text)


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    with Terminal(folder) as shell:
        yield shell


def test_the_prompt_without_spark(folder: Path) -> None:
    """Typing, completion, help and mistakes need no Spark; where it does not start, the first statement says why."""
    with Terminal(folder, JAVA_HOME="/nonexistent", PATH="/nonexistent") as terminal:
        terminal.wait_for("trijoin>")
        terminal.type("SELECT 1 FRO\t")
        terminal.wait_for("FROM +keyword", 20)
        terminal.type("\x03")  # clears the line
        terminal.wait_for("trijoin>")
        terminal.type("\\help\r")
        terminal.wait_for("Ctrl-C ends a query, not the shell.*trijoin>")
        terminal.type("\\rows none\r")
        terminal.wait_for(r"\\rows takes a number of rows.*trijoin>")
        terminal.type("CREATE STREAM r\r")
        terminal.wait_for("->")
        terminal.type("USING;\r")
        terminal.wait_for(r"shell:2:6: the statement ends where a format .*\^\n.*trijoin>")
        terminal.type("SELECT 1;\r")
        terminal.wait_for("Spark does not start: JAVA_HOME=/nonexistent has no bin/java.*trijoin-sql doctor")
        assert terminal.process.wait(30) == 2
    assert "+USING;" in (folder / "history").read_text()
    assert (folder / "history").stat().st_mode & 0o777 == 0o600


@pytest.mark.rare
@pytest.mark.spark
@pytest.mark.slow
def test_at_a_terminal(terminal: Terminal, folder: Path) -> None:
    """A statement over lines, a mistake, a query over streams and a long one that Ctrl-C ends; the shell goes on."""
    told = terminal.wait_for("trijoin>")
    terminal.type("SELECT 1 + 1 AS two,\r")
    terminal.wait_for("->")
    terminal.type("NULL AS none;\r")
    told += terminal.wait_for(r"two +none.*2 +NULL.*1 row")
    for statement in STREAMS.splitlines():
        terminal.type(f"{statement}\r")
        told += terminal.wait_for("ok\n")
    terminal.type(f"{JOIN.replace('s.b FROM', 's.bb FROM')};\r")
    mistake = terminal.wait_for(r"shell:1:\d+: .*bb.*\^\n")
    terminal.type(f"{JOIN};\r")
    told += terminal.wait_for(rf"{len(ROWS)} rows · batch 0 .* Ctrl-C ends the query")
    terminal.type("\x03")
    told += terminal.wait_for("trijoin>", 60)
    # Groups: all of them, at any time, though the watermark closes none.
    terminal.type("SELECT a % 2 AS odd, COUNT(*) AS many FROM r GROUP BY 1;\r")
    told += terminal.wait_for(r"(0 +3.*1 +2|1 +2.*0 +3).*2 rows")
    terminal.type("\x03")
    told += terminal.wait_for("trijoin>", 60)
    terminal.type("SELECT SUM(x.id * y.id % 7) FROM range(1000000) x CROSS JOIN range(1000000) y;\r")
    terminal.wait_for("running")
    time.sleep(3)
    terminal.type("\x03")
    told += terminal.wait_for("stopped\n.*trijoin>", 60)
    terminal.type("SELECT r.\t")
    assert "a" in terminal.wait_for("column of r")
    terminal.type("\x03")
    terminal.wait_for("trijoin>")
    terminal.type("exit\r")
    assert terminal.process.wait(60) == 0
    assert not [word for word in _NOISE if word in told + mistake]
    assert "+NULL AS none;" in (folder / "history").read_text()


def run(folder: Path, text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trijoin_sql", "shell", "--master", "local[2,4]", *arguments]
    environment = {**os.environ, **environment}
    streams = {"input": text, "capture_output": True, "text": True}
    done = subprocess.run(command, cwd=folder, env=environment, timeout=300, check=False, **streams)
    assert not [word for word in _NOISE if word in done.stderr]
    return done


@pytest.mark.rare
@pytest.mark.spark
@pytest.mark.slow
def test_from_stdin(folder: Path) -> None:
    """Rows as JSON, also of streams and of a sink's table; the first mistake ends it, and says where it is."""
    text = f"""{STREAMS}
    {JOIN};
    CREATE SINK kept USING memory;
    INSERT INTO kept {JOIN};
    SELECT COUNT(*) AS n FROM kept;
    CREATE STREAM r USING rate;
    SELECT 'never';
    """
    done = run(folder, text, "--once", "--format", "json")
    assert done.returncode == 2
    line = text[: text.index("CREATE STREAM r USING rate")].count("\n") + 1
    assert f"stdin:{line}:19: there is already something named r\n" in done.stderr
    assert "CREATE OR REPLACE STREAM r" in done.stderr
    *rows, inserted, count = map(json.loads, done.stdout.splitlines())
    assert sorted((row["a"], row["b"]) for row in rows) == ROWS
    assert inserted["queries"][0]["output_rows"] == len(ROWS)
    assert count == {"n": len(ROWS)}


def test_a_mistake_in_the_text_shows_before_spark_starts(folder: Path) -> None:
    """No Java is there, which only Spark would miss."""
    done = run(folder, "", "-c", "SHOW TABLES; CREATE STREAM r", JAVA_HOME=str(folder))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("shell:1:29: USING and a format are missing")
