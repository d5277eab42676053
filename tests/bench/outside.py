"""Other engines: each has its own environment with a runner, which is watched and, if needed, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.conjuncts import Band, Either, KernelPredicate
from trijoin_sql.rewriter.plan.nodes import JoinNode
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import InvalidSettingError

from .outcome import OTHERS, Outcome, StoppedError
from .processes import Cpu, Peak, below, cpu_of
from .workloads import SCHEMA, Workload, declarations, query

#: The packages in each engine's environment.
PACKAGES = MappingProxyType({"duckdb": "duckdb==1.4.4", "flink": "apache-flink==2.3.0", "pathway": "pathway==0.33.0"})

RUNNERS = Path(__file__).parent / "runners"

#: The clone that the benchmarks are in.
ROOT = Path(__file__).parents[2]

#: Seconds that an engine may take to start and load, before its measured run.
START_LIMIT = 300.0

#: Seconds that a Spark session may take to end.
_END_LIMIT = 10.0

#: Settings of the environment that would give a version another one's code.
_OURS = ("PYTHONPATH", "PYTHONHOME", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def home() -> Path:
    """Return the folder of all environments; it can be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trijoin-sql" / "bench"


def commit_of(name: str) -> str:
    """Return the hash of a commit of ours.

    Raises
    ------
    InvalidSettingError
        There is no such commit, or no clone.
    """
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        there = f"there are {', '.join(OTHERS)}; a commit takes git, and a clone: {ROOT} is none"
        raise InvalidSettingError("--against", name, there)
    done = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if done.returncode:
        there = f"there are {', '.join(OTHERS)}, and the commits of this clone; it has none of that name"
        raise InvalidSettingError("--against", name, there)
    return done.stdout.strip()


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)


def environment(engine: str) -> Path:
    """Return the Python of an engine's own environment; create it if it is missing or has another version.

    Parameters
    ----------
    engine
        One of `PACKAGES`, or a commit of ours, which brings what it pins.

    Raises
    ------
    InvalidSettingError
        If it cannot be created, with pip's last sentence.
    """
    wanted = PACKAGES[engine] if engine in PACKAGES else f"commit {commit_of(engine)}"
    folder = home() / (engine if engine in PACKAGES else wanted[:19].replace(" ", "-"))
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettingError("--against", engine, f"no environment can be made in {folder}: {error}") from None
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory(prefix="trijoin-source-") as source:
        pip += [wanted] if engine in PACKAGES else _sources(wanted.removeprefix("commit "), Path(source))
        for command in ([sys.executable, "-m", "venv", str(folder)], pip):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                shutil.rmtree(folder, ignore_errors=True)
                last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
                told = last.removeprefix("ERROR: ").rstrip(".") or "no reason given"
                reason = f"{wanted} could not be installed in {folder}: {told}"
                raise InvalidSettingError("--against", engine, reason)
    ready.write_text(wanted, encoding="utf-8")
    return python


def _sources(commit: str, folder: Path) -> list[str]:
    """Write the files of a commit into a folder; return what pip is given to install it in its exact versions."""
    archive = folder / "archive.tar"
    _git("archive", "--output", str(archive), commit).check_returncode()
    with tarfile.open(archive) as files:
        files.extractall(folder / "files", filter="data")
    exact = folder / "files" / "constraints.txt"
    return [*(["-c", str(exact)] if exact.exists() else []), str(folder / "files")]


def run_outside(engine: str, workload: Workload, folder: Path, rows: int, units: int, limit: float) -> Outcome:
    """Run a workload in another engine, on the same files.

    Parameters
    ----------
    folder, rows
        The streams' Parquet files, and how many rows each stream has.
    units
        How many threads the engine gets.
    limit
        Seconds after which the measured run is stopped.
    """
    tuples = sum(workload.sizes(rows))
    scratch = Path(tempfile.mkdtemp(prefix=f"trijoin-{engine}-"))
    request = {
        "folder": str(folder),
        "scratch": str(scratch),
        "streams": workload.streams,
        "columns": [column.split() for column in SCHEMA.split(", ")],
        "sql": indexed(workload),
        "joins": steps(workload),
        "parallelism": units,
    }
    if engine == "pathway" and "CAST(" in workload.sql:
        return Outcome(engine, problem="its joins take columns, no expressions")
    try:
        python = environment(engine)
        return watch([str(python), str(RUNNERS / f"{engine}_runner.py"), json.dumps(request)], engine, tuples, limit)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class Version:
    """A Spark session with a version of ours, in a process of its own, which starts when it is needed.

    Parameters
    ----------
    command
        Starts `runners.trijoin_runner`.
    limit
        The seconds of a request; after them the process is stopped.
    """

    def __init__(self, command: Sequence[str], limit: float) -> None:
        self.command, self.limit = command, limit
        self._process: subprocess.Popen[str] | None = None
        self._jvm = 0
        self._compiled = 0.0

    @classmethod
    def of(cls, python: Path, settings: Mapping[str, str], limit: float) -> Version:
        """Return the version that an environment has."""
        return cls([str(python), str(RUNNERS / "trijoin_runner.py"), json.dumps(settings)], limit)

    @property
    def jvm(self) -> int:
        self._started()
        return self._jvm

    def cpu(self) -> Cpu | None:
        process = self._started()
        return cpu_of(process.pid, self._jvm)

    def compiled(self) -> float:
        return self._compiled

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        answer = self._answer(process, self.limit, "compiled")
        self._compiled = answer["compiled"]
        if "problem" in answer:
            raise StoppedError(answer["problem"])
        return answer

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_LIMIT)  # Spark removes its folders
        _kill(process)
        process.wait()
        process.stdout.close()
        self._complaints.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._home = tempfile.mkdtemp(prefix="trijoin-version-")
            self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it is the process's)
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                text=True,
                errors="replace",
                start_new_session=True,
                cwd=self._home,
                env={name: value for name, value in os.environ.items() if name not in _OURS},
            )
            self._jvm = int(self._answer(self._process, START_LIMIT, "jvm")["jvm"])
        return self._process

    def _answer(self, process: subprocess.Popen[str], limit: float, key: str) -> dict[str, Any]:
        """Return the next line that is an object with that key."""
        assert process.stdout is not None
        over = threading.Event()

        def stop() -> None:
            over.set()
            _kill(process)

        timer = threading.Timer(limit, stop)
        timer.start()
        try:
            for line in process.stdout:
                message = _message(line)
                if message is not None and key in message:
                    return message
            process.wait()
            problem = f"did not answer within {limit:.0f} s" if over.is_set() else _last_line(self._complaints)
        finally:
            timer.cancel()
        self.close()
        raise StoppedError(problem, limit if over.is_set() and key == "compiled" else None)


def watch(command: list[str], engine: str, tuples: int, limit: float, start_limit: float = START_LIMIT) -> Outcome:
    """Run a runner (see `runners`), read its output, and stop it with all its children when its time is over."""
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout is not None
        began = over = False
        timer: threading.Timer | None = None
        answer: dict[str, Any] | None = None

        def stop() -> None:
            nonlocal over
            over = True
            _kill(process)

        try:  # right behind the start: SIGTERM may come at once
            timer = threading.Timer(start_limit, stop)
            timer.start()
            peak = Peak(lambda: (process.pid, *below(process.pid)))
            with peak:
                for line in process.stdout:
                    message = _message(line)
                    if message is None:
                        continue
                    if "ready" in message:
                        timer.cancel()
                        began = True
                        timer = threading.Timer(limit, stop)
                        timer.start()
                    elif "seconds" in message:
                        answer = message
        finally:
            if timer is not None:
                timer.cancel()
            _kill(process)
            process.wait()
            process.stdout.close()
        if answer is not None:
            return Outcome(engine, float(answer["seconds"]), tuples, int(answer["results"]), memory=peak.most)
        if over and began:
            return Outcome(engine, limit, tuples, memory=peak.most, exceeded=True)
        if over:
            return Outcome(engine, problem=f"did not start within {start_limit:.0f} s")
        return Outcome(engine, problem=_last_line(complaints))


def _last_line(complaints: IO[str]) -> str:
    complaints.seek(0)
    lines = [line for line in complaints.read().splitlines() if line.strip()]
    return (lines[-1] if lines else "ended without a result").strip()[:160]


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _message(line: str) -> dict[str, Any] | None:
    """Return a line of the runner as an object; libraries may print other lines."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def steps(workload: Workload) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return a query as one step for each stream after the first: the stream, and its conditions on earlier ones.

    A condition is ``{"op": "=", "left": "r_i", "right": "s_i"}``, or a ``band`` with closed whole bounds ``lower`` and
    ``upper`` of ``left - right``.

    Raises
    ------
    InvalidSettingError
        The query has another condition.
    """
    catalog, _ = read_script(declarations(workload))
    (node,) = rewrite(query(workload), catalog).groups
    assert isinstance(node, JoinNode)
    found: dict[str, list[dict[str, Any]]] = {stream: [] for stream in workload.streams[1:]}
    for edge in node.graph.edges:
        for predicate in edge.predicates:
            if not predicate.derived:
                found[max(predicate.relations, key=workload.streams.index)].append(_condition(predicate))
    return list(found.items())


def indexed(workload: Workload) -> str:
    """Return a query in a form that range indexes can use: bands as BETWEEN, not as ABS of a difference."""
    items = query(workload).partition(" FROM ")[0]
    first, *_ = workload.streams
    joins = [f"{stream} ON {' AND '.join(map(_indexed, conditions))}" for stream, conditions in steps(workload)]
    return " JOIN ".join([f"{items} FROM {first}", *joins])


def _indexed(condition: dict[str, Any]) -> str:
    left, right = (side.replace("_", ".", 1) for side in (condition["left"], condition["right"]))
    if condition["op"] == "=":
        return f"{left} = {right}"
    return f"{left} BETWEEN {right} + {condition['lower']} AND {right} + {condition['upper']}"


def _condition(predicate: KernelPredicate) -> dict[str, Any]:
    if isinstance(predicate, Either):
        raise InvalidSettingError(
            "--against", predicate.sql, "of conditions they take only equalities and bands from us"
        )
    left, right = (side.sql.replace(".", "_") for side in predicate.keys)
    if predicate.kind == "equi":
        return {"op": "=", "left": left, "right": right}
    assert isinstance(predicate, Band), predicate.sql
    bounds = predicate.bounds
    step = 0 if bounds.rounded else 1
    lower = (bounds.lower or 0) + step * (not bounds.lower_inclusive)
    upper = (bounds.upper or 0) - step * (not bounds.upper_inclusive)
    return {"op": "band", "left": left, "right": right, "lower": lower, "upper": upper}
