"""The first query of a newcomer shows its result, and nothing that is not for the user."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark import java_gateway
from pyspark.logger import PySparkLogger

from trijoin_sql.spark.quiet import leave_out_chatter, quiet_jvm, quiet_python

ROOT = Path(__file__).parent.parent

CHATTER = """\
WARNING: Using incubator modules: jdk.incubator.vector
WARNING: package sun.security.action not in java.base
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/26 04:36:25 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1; using 192.0.2.2 instead
26/11/26 04:37:09 WARN ResolveWriteToStream: spark.sql.adaptive.enabled is not supported in streaming
Starting Streaming TransformWithStateInPandas Python worker.

"""
NEWS = """\
26/11/26 04:37:09 WARN TaskSetManager: Lost task 0.0 in stage 1.0

26/11/26 04:37:10 ERROR Utils: Aborting task
	at org.apache.spark.util.Utils
printed by a function of the user's
"""


def start(text: bytes) -> None:
    """Start a process as PySpark does, that writes a text to its stderr; return when all of it has been passed on."""
    before = set(threading.enumerate())
    vars(java_gateway)["Popen"]([sys.executable, "-c", f"import os; os.write(2, {text!r})"]).wait()
    for thread in set(threading.enumerate()) - before:
        thread.join()


def started(text: bytes, capfd: pytest.CaptureFixture[str]) -> str:
    """What is then on our stderr."""
    start(text)
    return capfd.readouterr().err


def test_what_is_never_for_the_user_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    leave_out_chatter()
    lines = started(f"{CHATTER}{NEWS}{CHATTER}".encode(), capfd).splitlines()
    ours = [line for line in lines if line in f"{CHATTER}{NEWS}".splitlines()]  # a Spark of other tests may write, too
    assert ours == NEWS.splitlines()
    assert vars(java_gateway)["Popen"] is subprocess.Popen, "only for the next JVM"


def test_bars_of_progress_and_bytes_that_are_no_text_pass(capfd: pytest.CaptureFixture[str]) -> None:
    leave_out_chatter()
    assert started(b"\r[Stage 0:>  (0 + 2) / 6]\r[Stage 1]\n\xff\n", capfd).startswith("\r[Stage 0:>")


def test_the_command_line_keeps_all_lines(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_jvm(settings={}) as lines:
        leave_out_chatter()  # as `configure` calls it there
        start(b"one\ntwo\n")
    assert list(lines) == ["one", "two"]
    assert capfd.readouterr().err == ""


@pytest.mark.rare
@pytest.mark.spark
@pytest.mark.slow
def test_the_first_query_says_nothing_but_its_result(tmp_path: Path) -> None:
    """In a Python of its own, as the README's reader runs it; the daemon of its workers has imported what they need."""
    text = (ROOT / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    code += """
def seen(batches):
    import sys
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"loaded": ["trijoin_sql.operators.preload" in sys.orig_argv]})
import pyarrow as pa
assert spark.range(1).mapInArrow(seen, "loaded boolean").collect()[0].loaded
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert ran.stdout.startswith("+---")


def test_loggers_of_pyspark_stay_its_own() -> None:
    """A logger that is made as a plain one first fails at the next error that names a place in SQL: a TypeError."""
    with quiet_python():
        assert not logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.ERROR)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        assert isinstance(logging.getLogger(name), PySparkLogger)
        assert logging.getLogger(name).isEnabledFor(logging.ERROR)
