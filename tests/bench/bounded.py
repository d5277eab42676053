"""A slot of ours over a workload's rows within bounded memory, without Spark: 004's experiments with UMJoin.

004 bounds the memory of a state backend. Spark's JVM and its workers hold hundreds of megabytes beside what a join
keeps, so here one slot runs in a process of its own, with the code that a task runs. It keeps its rows in one of two
ways. In ``memory`` all stay in the process, as MultiStream has its hash tables: the run ends where it holds more than
the limit. On ``disk`` they are durable chunks, here files, which are UMJoin's SST files, and a warm copy that is mapped
from local disk, which is its block cache. What counts is the memory of the process' own, without mapped files, above
what it has before the first row.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from trijoin_sql.operators import worker_memory
from trijoin_sql.operators.checks import Compare, EdgeSpec
from trijoin_sql.operators.results.bundle import Bundle
from trijoin_sql.operators.results.outcomes import Partial, Result
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import Slot, Work
from trijoin_sql.operators.spec import JoinSpec, Options, StreamSpec
from trijoin_sql.operators.state.layout import History
from trijoin_sql.operators.state.slot_state import SlotState
from trijoin_sql.operators.state.worker import WORKER

from .processes import memory
from .workloads import WORKLOADS

#: Where a slot keeps its rows.
Kept = Literal["memory", "disk"]

#: The workload: 004's join of four tables by one key, of which all columns are results.
WORKLOAD = "star_four"

_COLUMNS, _KEY = ("s", "d", "l", "i", "im", "str"), "i"


@dataclass(frozen=True, slots=True)
class Asked:
    """A run.

    Parameters
    ----------
    folder
        The streams' files, one a micro-batch.
    scheme
        ``matrix`` (one unit: UMJoin) or ``tree`` (a binary join tree).
    order
        Of a tree: the ranks of the streams as they are joined.
    kept
        Where rows are kept.
    limit
        Bytes of its own memory at which the run ends, None for none.
    warm
        Bytes of the warm copy, None for any number.
    """

    folder: str
    scheme: str
    kept: Kept
    order: tuple[int, ...] = ()
    limit: int | None = None
    warm: int | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """A run after a micro-batch: seconds, of CPU too, rows and results so far, and the bytes of its own memory."""

    seconds: float
    cpu: float
    rows: int
    results: int
    own: int


@dataclass(frozen=True, slots=True)
class Bounded:
    """What a run did.

    Parameters
    ----------
    moments
        After each micro-batch.
    stored
        Rows in the slot's stores at the end, stored intermediate results included.
    state_bytes
        Bytes of the durable chunks, 0 in memory.
    complete
        Whether it came to the end.
    """

    moments: tuple[Moment, ...]
    stored: int
    state_bytes: int
    complete: bool

    @property
    def last(self) -> Moment:
        """The run at its end."""
        return self.moments[-1]

    @property
    def most(self) -> int:
        """The most memory of its own after a micro-batch."""
        return max(moment.own for moment in self.moments)


class _Files:
    """A state store's map as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def containsKey(self, key: tuple[int]) -> bool:  # noqa: N802 (Spark's name)
        return (self.folder / str(key[0])).exists()

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802
        return ((self.folder / str(key[0])).read_bytes(),)

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802
        (self.folder / str(key[0])).write_bytes(value[0])

    def removeKey(self, key: tuple[int]) -> None:  # noqa: N802
        (self.folder / str(key[0])).unlink()


def spec_of(scheme: str, order: tuple[int, ...] = ()) -> JoinSpec:
    """Return the join of `WORKLOAD` in one unit."""
    streams = tuple(
        StreamSpec(name, tuple((column, f"{name}_{column}") for column in _COLUMNS), _COLUMNS, "route", ((0, "route"),))
        for name in WORKLOADS[WORKLOAD].streams
    )
    ranks = range(len(streams))
    edges = tuple(EdgeSpec(a, b, (Compare("=", _KEY, _KEY),)) for a in ranks for b in ranks if a < b)
    options = Options(grid=(1,)) if scheme == "matrix" else Options(order=order)
    return JoinSpec(WORKLOAD, streams, edges, scheme, 1, options=options)


def run_bounded(asked: Asked) -> Bounded:
    """Run in a process of its own, whose memory nothing else has used."""
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory(prefix="trijoin-bounded-") as home:
        command = [sys.executable, "-m", "tests.bench.bounded", json.dumps(asdict(asked)), home]
        # One thread: otherwise each has a heap of its own, which says nothing about the join.
        more = {"TRIJOIN_LOCAL_DIR": home, "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
        more |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}
        said = subprocess.run(command, cwd=root, env={**os.environ, **more}, stdout=subprocess.PIPE, check=True)
    found = json.loads(said.stdout)
    return Bounded(**{**found, "moments": tuple(Moment(**moment) for moment in found["moments"])})


def _run(asked: Asked, home: Path) -> Bounded:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    spec = spec_of(asked.scheme, tuple(asked.order))
    makers = [partial(make, spec, 0) for make in SCHEMES[spec.scheme].stages(spec)]
    files = [_Files(home / f"stage-{number}") for number in range(len(makers))] if asked.kept == "disk" else []
    held = [] if files else [make() for make in makers]
    states: list[SlotState] = []
    for work in _works(Path(asked.folder), spec, 2):  # what is loaded when it is first used is not what the join holds
        states = [SlotState(make, _Files(home / uuid.uuid4().hex), "", History(((0, 1),))) for make in makers]
        _through([state.slot for state in states], work)
        for state in states:
            state.save(0)
        states.clear()
    WORKER.recent.clear()
    gc.collect()
    _give_back()
    moments: list[Moment] = []
    before, began, used, rows, results = _own(), time.monotonic(), time.process_time(), 0, 0
    for number, work in enumerate(_works(Path(asked.folder), spec)):
        rows += sum(batch.num_rows for batches in work.rows.values() for batch in batches)
        states = [SlotState(make, chunks, "", History(((0, 1),)), asked.warm) for make, chunks in _both(makers, files)]
        results += _through([state.slot for state in states] or held, work)
        for state in states:
            state.save(number)
        for slot in held:
            for store in slot.stores.values():
                store.fresh.clear()
                store.compact()
        del work
        _give_back()
        took = time.monotonic() - began, time.process_time() - used
        moments.append(Moment(*took, rows, results, max(_own() - before, 0)))
        if asked.limit is not None and moments[-1].own > asked.limit:
            break
    slots = [state.slot for state in states] or held
    return Bounded(
        tuple(moments),
        sum(len(store) for slot in slots for store in slot.stores.values()),
        sum(state.size()["state_bytes"] for state in states),
        asked.limit is None or moments[-1].own <= asked.limit,
    )


def _both(makers: Sequence[Callable[[], Slot]], files: list[_Files]) -> Iterator[tuple[Callable[[], Slot], _Files]]:
    return zip(makers, files, strict=False)  # without files nothing is durable


def _give_back() -> None:
    """Give free memory back to the machine, as a worker does whose bound is tight: it is not what the join holds."""
    worker_memory.release(1 << 40, 1)


def _own() -> int:
    return memory(os.getpid()).get("Pss_Anon", 0)


def _works(folder: Path, spec: JoinSpec, count: int | None = None) -> Iterator[Work]:
    """Yield the micro-batches, or the first few, as dispatch hands them to one unit."""
    names = sorted({path.name for stream in spec.streams for path in (folder / stream.alias).glob("*.parquet")})
    for name in names[:count]:
        work = Work()
        for rank, stream in enumerate(spec.streams):
            with contextlib.suppress(FileNotFoundError):
                table = pq.read_table(folder / stream.alias / name, use_threads=False, memory_map=False)
                table = table.append_column(stream.route, table.column("l"))
                work.rows[rank] = table.combine_chunks().to_batches()
        yield work


def _through(slots: list[Slot], work: Work) -> int:
    """Send a micro-batch through the stages of a scheme; return how many results the last one has."""
    found = 0
    for slot in slots:
        following = Work({rank: list(some) for rank, some in work.rows.items() if rank in slot.forwards})
        for item in slot.process(work):
            if isinstance(item, Partial):
                following.partials.append(item.rows)
            elif isinstance(item, Result | Bundle):
                found += len(item)
        work = following
    return found


def settings_of(asked: Mapping[str, Any]) -> Asked:
    """Return what JSON says."""
    return Asked(**{**asked, "order": tuple(asked["order"])})


if __name__ == "__main__":
    print(json.dumps(asdict(_run(settings_of(json.loads(sys.argv[1])), Path(sys.argv[2])))))
