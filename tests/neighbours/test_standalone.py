"""Spark's own standalone cluster: a master and two workers as processes, whose Python has nothing of ours."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pyspark
import pytest

from ..bench.processes import below
from ..crash.harness import Moment, Program
from ..crash.workload import write_streams

FILES = 4


class Standalone:
    """A standalone cluster on loopback.

    Parameters
    ----------
    home
        A folder; each worker has one of its own in it, also for warm copies, as machines have.

    Attributes
    ----------
    master
        Its URL.
    workers
        The process of each worker; its executors are below it.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.workers: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()
        self._start("master", "master.Master")
        self.master = self._said("master", r"Starting Spark master at (spark://\S+)")
        for name in ("first", "second"):
            self.workers.append(self._start(name, "worker.Worker", "--cores", "1", "--memory", "1g", self.master))
        for name in ("first", "second"):
            self._said(name, r"(Successfully registered)")

    def _start(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        folder = self.home / name
        folder.mkdir(parents=True)
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "TRIJOIN_LOCAL_DIR": str(folder / "warm"),
        }
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}"]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._stack.callback(kill, process)
        return process

    def _log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def _said(self, name: str, pattern: str, seconds: float = 60) -> str:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := re.search(pattern, self._log(name).read_text(errors="replace")):
                return found[1]
            time.sleep(0.05)
        raise TimeoutError(f"{name} has not come up: {self._log(name).read_text(errors='replace')[-2000:]}")

    def close(self) -> None:
        """End all processes."""
        self._stack.close()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all below it, as a machine that fails."""
    for pid in (process.pid, *below(process.pid)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    with ExitStack() as stack:
        made = Standalone(tmp_path / "cluster")
        stack.callback(made.close)
        yield made


@pytest.mark.rare
@pytest.mark.spark
@pytest.mark.slow
def test_a_query_goes_on_when_one_of_two_workers_dies(
    tmp_path: Path, cluster: Standalone, bare_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both workers hold units; one dies with its executor, the other takes over, and the rows are Spark batch's."""
    home = tmp_path / "job"
    write_streams(home / "in", 1, range(FILES), 40)
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare_python))
    settings = {"spark.executor.memory": "512m"}
    with Program(home, "semi_symmetric window", "files", cluster.master, settings) as program:
        program.launch()
        assert program.wait_for(Moment("commit", 1)), program.error()[:3000]
        assert all(any((cluster.home / name / "warm").rglob("*.*")) for name in ("first", "second"))
        kill(cluster.workers[1])
        assert program.running, "it was over before"
        outcome = program.finish()
    assert outcome is not None, program.error()[:3000]
    assert (outcome["lost"], outcome["twice"], outcome["batches"] >= FILES) == (0, 0, True)
    assert outcome["wanted"] > 100
