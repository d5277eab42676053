"""Other engines: what a runner says is read, its time limit holds, and a missing environment is one sentence."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from . import outside
from .__main__ import app
from .outcome import OTHERS, Outcome
from .outside import PACKAGES, environment, indexed, run_outside, steps, watch
from .report import as_table
from .workloads import WORKLOADS, write_files

#: TRIJOIN_ENGINES=all takes minutes, most of them for Flink's start.
NAMES = ("chain_band", "cyclic_band", "zipf_key") if os.environ.get("TRIJOIN_ENGINES") == "all" else ("cyclic_band",)

INSTALLED = [engine for engine in PACKAGES if (outside.home() / engine / "ready").exists()]


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


READY = "print('{\"ready\": true}', flush=True)\n"


def test_the_last_object_is_the_result_and_other_lines_are_noise() -> None:
    text = "print('Picked up JAVA_TOOL_OPTIONS')\n" + READY + "print('[1]')\nprint('{\"seconds\": 2, \"results\": 7}')"
    found = watch(script(text), "flink", 300, 30)
    assert replace(found, memory=None) == Outcome("flink", 2.0, 300, 7)
    assert found.rate == 150


def test_sigterm_stops_the_engine_too(tmp_path: Path) -> None:
    """It has a session of its own, and would go on at full speed."""
    told = tmp_path / "pid"
    engine = f"""\
import os, time
with open({str(told)!r}, "w") as file:
    file.write(str(os.getpid()))
os.rename({str(told)!r}, {str(told) + ".ready"!r})
time.sleep(60)"""
    bench = f"""\
import signal
from tests.bench.bench_command import _terminated
from tests.bench.outside import watch
signal.signal(signal.SIGTERM, _terminated)
watch({script(engine)!r}, "duckdb", 1, 60)"""
    process = subprocess.Popen(script(bench), cwd=Path(__file__).parents[2])
    ready = tmp_path / "pid.ready"
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(ready.read_text()), 0)


def test_duckdb_is_given_what_it_indexes() -> None:
    """A band as BETWEEN is an IEJoin, as ABS of a difference a nested loop."""
    sql = indexed(WORKLOADS["chain_band"])
    assert sql.endswith(
        "FROM r JOIN s ON r.i BETWEEN s.i + -1 AND s.i + 1 JOIN t ON s.im BETWEEN t.im + -1 AND t.im + 1"
    )
    assert "ABS" not in sql


def test_a_run_that_takes_longer_is_stopped_and_bounds_the_rate(tmp_path: Path) -> None:
    """With the process that the engine started: a JVM would go on for ten minutes."""
    os.mkfifo(tmp_path / "alive")
    child = f"""\
import time
with open({str(tmp_path / "alive")!r}, "w") as pipe:
    print(flush=True)
    time.sleep(60)
    pipe.write("alive")"""
    engine = f"""\
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE)
child.stdout.readline()
{READY}time.sleep(60)"""
    reader = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)  # so that the child need not wait for one
    os.set_blocking(reader, True)
    found = watch(script(engine), "flink", 300, 0.5)
    assert (found.exceeded, found.seconds, found.rate, found.results) == (True, 0.5, 600.0, None)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "", "the child went on to its end"


def test_the_limit_counts_from_the_measured_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of an engine has a limit of its own, which is off once the engine is ready."""
    said: list[tuple[str, float]] = []

    class Timer:
        def __init__(self, seconds: float, _: Callable[[], None]) -> None:
            self.seconds = seconds

        def start(self) -> None:
            said.append(("start", self.seconds))

        def cancel(self) -> None:
            said.append(("cancel", self.seconds))

    monkeypatch.setattr(threading, "Timer", Timer)
    text = READY + 'print(\'{"seconds": 0.1, "results": 1}\')'
    assert watch(script(text), "flink", 300, 7.0, start_limit=90.0).results == 1
    assert said == [("start", 90.0), ("cancel", 90.0), ("start", 7.0), ("cancel", 7.0)]


def test_a_runner_that_fails_or_never_starts_says_why() -> None:
    found = watch(script("raise ValueError('no such table')"), "flink", 300, 30)
    assert found.problem == "ValueError: no such table"
    found = watch(script("import time\ntime.sleep(60)"), "flink", 300, 30, start_limit=0.5)
    assert found.problem == "did not start within 0 s"
    assert watch(script(""), "flink", 300, 30).problem == "ended without a result"


def test_the_table_says_more_than_the_limit() -> None:
    from rich.console import Console

    console = Console(width=140, record=True, quiet=True)
    slow = Outcome("flink", 600.0, 300_000, exceeded=True)
    table = as_table("chain_band", {"semi_symmetric": Outcome("semi_symmetric", 1.0, 200_000), "flink": slow})
    with console.capture() as text:
        console.quiet = False
        console.print(table)
    (line,) = (line for line in text.get().splitlines() if "flink" in line)
    assert "flink (> 600 s)" in line
    assert "< 500" in line
    assert "1/400" in line


@pytest.mark.rare
@pytest.mark.slow
def test_an_environment_that_cannot_be_made_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip without an index, as on a machine without network; nothing half-made is left behind."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(app, ["chain_band", "--against", "pathway"])
    assert result.exit_code == 2
    assert f"pathway==0.33.0 could not be installed in {tmp_path}" in result.output.replace("\n", " ")
    assert "Traceback" not in result.output
    assert not (tmp_path / "trijoin-sql" / "bench" / "pathway").exists()


def test_every_workload_has_steps_for_engines_without_sql() -> None:
    """One step a stream, whole closed bounds, conditions that name the streams' columns."""
    for name, workload in WORKLOADS.items():
        if workload.windowed or " OR " in workload.sql:  # refused beside other engines
            continue
        found = steps(workload)
        assert [stream for stream, _ in found] == list(workload.streams[1:]), name
        assert all(conditions for _, conditions in found), name
    assert steps(WORKLOADS["chain_band"]) == [
        ("s", [{"op": "band", "left": "r_i", "right": "s_i", "lower": -1, "upper": 1}]),
        ("t", [{"op": "band", "left": "s_im", "right": "t_im", "lower": -1, "upper": 1}]),
    ]
    assert steps(WORKLOADS["chain_equal"])[1] == ("t", [{"op": "=", "left": "s_im", "right": "t_im"}])


def test_the_command_knows_the_engines() -> None:
    assert ("spark", *PACKAGES) == tuple(OTHERS)


def test_runners_import_nothing_of_ours() -> None:
    """They run in an environment that does not have us."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in outside.RUNNERS.glob("*_runner.py")}
    assert texts.keys() == {f"{name}_runner.py" for name in (*PACKAGES, "trijoin")}
    versions = texts.pop("trijoin_runner.py")
    assert set(re.findall(r"trijoin_sql(\S+)", versions)) == {
        ".configure(builder).getOrCreate()",
        ".TriJoinSession.create(spark)",
    }
    assert not any("trijoin" in text for text in texts.values())
    assert not any("from ." in text for text in (versions, *texts.values()))


@pytest.mark.slow
@pytest.mark.parametrize("engine", PACKAGES)
@pytest.mark.parametrize("name", NAMES)
def test_every_engine_finds_as_many_results(engine: str, name: str, tmp_path: Path) -> None:
    """The real engine, where `python -m tests.bench --against` has installed it; NumPy counts the results."""
    if engine not in INSTALLED or not environment(engine).exists():
        pytest.skip(f"{engine} is not installed: python -m tests.bench --against {engine}")
    rows = 300
    write_files(WORKLOADS[name], tmp_path, rows, 3, seed=1)
    found = run_outside(engine, WORKLOADS[name], tmp_path, rows, 2, 120)
    assert found.problem is None
    assert found.results == counted(name, tmp_path, rows)
    assert found.tuples == 3 * rows
    assert found.seconds > 0


def counted(name: str, folder: Path, rows: int) -> int:
    """Count the results by brute force."""
    columns = {
        stream: {column: pq.read_table(folder / stream).column(column).to_numpy() for column in ("l", "i", "im")}
        for stream in "rst"
    }
    first, second, third = None, None, None
    for _, conditions in steps(WORKLOADS[name]):
        for condition in conditions:
            (a, x), (b, y) = (condition[side].split("_") for side in ("left", "right"))
            difference = columns[a][x][:, None].astype(int) - columns[b][y][None, :]
            lower, upper = condition.get("lower", 0), condition.get("upper", 0)
            mask = (difference >= lower) & (difference <= upper)
            if (a, b) == ("r", "s"):
                first = mask if first is None else first & mask
            elif (a, b) == ("s", "t"):
                second = mask if second is None else second & mask
            else:
                third = mask
    assert first is not None
    assert second is not None
    pairs = first.astype(int) @ second.astype(int)
    return int((pairs * third).sum()) if third is not None else int(pairs.sum())
