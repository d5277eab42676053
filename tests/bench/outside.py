"""Other engines: each has its own environment with a runner, which is watched and, if needed, stopped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.conjuncts import Band, KernelPredicate
from trijoin_sql.rewriter.plan.nodes import JoinNode
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import InvalidSettingError

from .outcome import Outcome
from .process_memory import Peak, below
from .workloads import SCHEMA, Workload, declarations, query

#: The packages in each engine's environment.
PACKAGES = MappingProxyType({"duckdb": "duckdb==1.4.4", "flink": "apache-flink==2.3.0", "pathway": "pathway==0.33.0"})

RUNNERS = Path(__file__).parent / "runners"

#: Seconds that an engine may take to start and load, before its measured run.
START_LIMIT = 300.0


def home() -> Path:
    """Return the folder of all environments; it can be deleted at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trijoin-sql" / "bench"


def environment(engine: str) -> Path:
    """Return the Python of an engine's own environment; create it if it is missing or has another version.

    Raises
    ------
    InvalidSettingError
        If it cannot be created, with pip's last sentence.
    """
    folder = home() / engine
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == PACKAGES[engine]:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettingError("--against", engine, f"no environment can be made in {folder}: {error}") from None
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGES[engine]]
    for command in ([sys.executable, "-m", "venv", str(folder)], pip):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2].removeprefix("ERROR: ").rstrip(".")
            reason = f"{PACKAGES[engine]} could not be installed in {folder}: {last or 'no reason given'}"
            raise InvalidSettingError("--against", engine, reason)
    ready.write_text(PACKAGES[engine], encoding="utf-8")
    return python


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
    tuples = rows * len(workload.streams)
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
        complaints.seek(0)
        lines = [line for line in complaints.read().splitlines() if line.strip()]
        return Outcome(engine, problem=(lines[-1] if lines else "ended without a result").strip()[:160])


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
    left, right = (side.sql.replace(".", "_") for side in predicate.keys)
    if predicate.kind == "equi":
        return {"op": "=", "left": left, "right": right}
    assert isinstance(predicate, Band), predicate.sql
    bounds = predicate.bounds
    step = 0 if bounds.rounded else 1
    lower = (bounds.lower or 0) + step * (not bounds.lower_inclusive)
    upper = (bounds.upper or 0) - step * (not bounds.upper_inclusive)
    return {"op": "band", "left": left, "right": right, "lower": lower, "upper": upper}
