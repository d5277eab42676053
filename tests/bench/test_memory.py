"""What a benchmark calls memory: what processes hold of their own, those below them included."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from .outcome import Outcome
from .outside import watch
from .processes import Peak, below, cpu_of, memory
from .report import as_table

MIB = 1 << 20

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="it is Linux that tells")

#: Holds some MiB of its own until its input ends.
HOLDS = "import sys; held = bytearray(b'x' * (64 << 20)); print('ready', flush=True); sys.stdin.read()"


def test_memory_is_that_of_all_processes_below_too() -> None:
    parent = f"""\
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {HOLDS!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline(); print(child.pid, flush=True); sys.stdin.read(); child.communicate()"""
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert child in below(process.pid)
    with Peak(lambda: (process.pid, *below(process.pid))) as peak:
        pass
    process.communicate()
    assert peak.most is not None
    assert 64 * MIB < peak.most < 200 * MIB
    assert memory(child) == {}
    with Peak(lambda: [child]) as gone:
        pass
    assert gone.most is None


def test_processor_time_is_told_apart() -> None:
    """That of a worker which has ended is its daemon's, and that of a daemon which has ended the JVM's."""
    burns = "import time\nwhile time.process_time() < 0.3: pass"
    daemon = f"""\
import subprocess, sys
subprocess.run([sys.executable, "-c", {burns!r}]); print(flush=True); sys.stdin.read()"""
    jvm = f"""\
import subprocess, sys
subprocess.run([sys.executable, "-c", {daemon!r}], input=b"", stdout=subprocess.DEVNULL)
child = subprocess.Popen([sys.executable, "-c", {daemon!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline(); print(flush=True); sys.stdin.read(); child.communicate()"""
    process = subprocess.Popen([sys.executable, "-c", jvm], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    cpu = cpu_of(os.getpid(), process.pid)
    process.communicate()
    assert cpu is not None
    assert 0.6 <= cpu.workers < 1.2
    assert cpu.jvm < 0.3
    assert cpu_of(os.getpid(), process.pid) is None


def test_an_engine_outside_tells_what_it_held() -> None:
    """In the table as in the JSON; runs that say nothing of it have an empty cell."""
    said = '{"ready": true}', '{"seconds": 1.0, "results": 1}'
    script = f"held = bytearray(b'x' * (64 << 20)); print('{said[0]}', flush=True); print('{said[1]}', flush=True)"
    script += "; import time; time.sleep(0.4)"
    found = watch([sys.executable, "-c", script], "flink", 300, 30)
    assert found.memory is not None
    assert found.memory > 64 * MIB
    console = Console(width=140)
    with console.capture() as text:
        console.print(as_table("t", {"flink": found, "spark": Outcome("spark", 1.0, 10, 1)}))
    (line,) = (line for line in text.get().splitlines() if "flink" in line)
    assert f"{found.memory / 1e6:,.0f}" in line
