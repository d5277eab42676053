"""The state of a slot: durable chunks are the truth, the two copies of it must agree with them or be left alone."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from trijoin_sql.operators.batches.ipc import from_bytes, to_bytes
from trijoin_sql.operators.checks import Band, Compare, EdgeSpec
from trijoin_sql.operators.kernels import order_keys, sorting
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.spec import JoinSpec, Options
from trijoin_sql.operators.state import slot_state as state_module
from trijoin_sql.operators.state import warm, warm_file
from trijoin_sql.operators.state.changed_query import difference
from trijoin_sql.operators.state.manifest import FORMAT, MANIFEST, Chunk
from trijoin_sql.operators.state.slot_state import FAN_IN, SlotState
from trijoin_sql.operators.state.worker import WORKER
from trijoin_sql.operators.store import index, probe_plan
from trijoin_sql.operators.store.store import Store
from trijoin_sql.operators.task.dispatch import slot_keys
from trijoin_sql.operators.task.stage import Stage, StageTask

from trijoin_sql.errors import CheckpointDamagedError, CheckpointMismatchError, CheckpointVersionError

from .reference import Row, batch_of, nested_loop, streams
from .slots import ONE, Chunks, Task

SCHEMA = {"id": pa.int64(), "a": pa.int64(), "t": pa.string(), "route": pa.int64()}
EDGES = (
    EdgeSpec(0, 1, (Band("a", "a", -1, 1),)),
    EdgeSpec(1, 2, (Compare("<=", "t", "t", exact=False), Compare("=", "a", "a"))),
)
SPECS = {
    scheme: JoinSpec("j", streams(3, ("a", "t"), {r: ((r, "route"),) for r in range(3)}), EDGES, scheme, 1, 1, options)
    for scheme, options in (
        ("symmetric", Options()),
        ("semi_symmetric", Options()),
        ("matrix", Options(grid=(1, 1, 1))),
        ("tree", Options()),
        ("non_materializing", Options(order=(1, 0, 2))),
    )
}


pytestmark = pytest.mark.usefixtures("local")


def inputs(count: int, batches: int) -> tuple[list[list[Row]], list[dict[int, pa.RecordBatch]]]:
    random = Random(4)
    rows: list[list[Row]] = [
        [
            {"id": 1000 * rank + at, "a": random.randrange(9), "t": random.choice(["", "aaaaaaaab", "b"]), "route": 0}
            for at in range(count)
        ]
        for rank in range(3)
    ]
    step = count // batches
    cut = [
        {rank: batch_of(rows[rank][start : start + step], SCHEMA) for rank in range(3) if (start // step + rank) % 4}
        for start in range(0, count, step)
    ]
    kept = [[row for at, row in enumerate(rows[rank]) if (at // step + rank) % 4] for rank in range(3)]
    return kept, cut


def no_worker() -> None:
    """The slot lands on another Python worker."""
    WORKER.recent.clear()


def no_machine() -> None:
    """The slot lands on another machine, or the disk was cleaned."""
    no_worker()
    shutil.rmtree(warm.root(), ignore_errors=True)


def nothing_happens() -> None:
    return None


#: Whether all segments have files, some have, or none; so have the chunks keys of their own.
SMALL = [0, 150, 16 << 10]


def small_are(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Say how small segments without a file are, and chunks without a key."""
    monkeypatch.setattr(warm, "SMALL_BYTES", size)
    monkeypatch.setattr(state_module, "INSIDE_BYTES", 6 * size)  # a chunk of 150 bytes of rows has some 900


@pytest.mark.parametrize("before", [nothing_happens, no_worker, no_machine])
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("scheme", SPECS)
def test_all_three_ways_to_get_the_state_agree(
    scheme: str, small: int, before: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the process, mapped from the disk, rebuilt from the state store: the same results, batch by batch."""
    small_are(small, monkeypatch)
    rows, batches = inputs(60, 20)
    task, found = Task(SPECS[scheme]), Counter[tuple[Any, ...]]()
    for number, batch in enumerate(batches):
        before()
        found += task.batch(number, batch)
    assert found == nested_loop(SPECS[scheme], rows)
    assert found


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("scheme", SPECS)
def test_any_mixture_of_workers_failures_and_lost_disks(
    scheme: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts that fail after they saved, then run again here or elsewhere: every result once."""
    small_are(small, monkeypatch)
    random = Random(9)
    rows, batches = inputs(60, 20)
    task, found = Task(SPECS[scheme]), Counter[tuple[Any, ...]]()
    for number, batch in enumerate(batches):
        for _ in range(random.choice([0, 0, 1, 4])):
            random.choice([nothing_happens, no_worker, no_machine])()
            task.batch(number, batch, fail=True)
        random.choice([nothing_happens, no_worker, no_machine])()
        found += task.batch(number, batch)
    assert found == nested_loop(SPECS[scheme], rows)


def test_many_batches_leave_few_chunks() -> None:
    """A restart reads every chunk, so n micro-batches must leave about log n of them, and none that is not listed."""
    task = Task(SPECS["matrix"])
    _, batches = inputs(300, 100)
    most = 0
    for number, batch in enumerate(batches):
        task.batch(number, batch)
        ((chunks, _),) = task.stages
        listed = chunks.manifest.chunks
        numbered = [chunk.number for chunk in chunks.manifest.all() if chunk.number is not None]
        assert sorted(chunks.now) == [MANIFEST, *sorted(numbered)]
        most = max(most, *(len(entries) for entries in listed.values()))
    assert most <= 2 * FAN_IN
    starts = {name: [(chunk.start, chunk.rows) for chunk in entries] for name, entries in listed.items()}
    for name, ranges in starts.items():
        for (start, count), (following, _) in pairwise(ranges):
            assert start + count == following, name


def test_the_warm_copy_keeps_few_files(local: Path) -> None:
    """A copy that only grows fills the disk of a query that runs for weeks."""
    task = Task(SPECS["matrix"])
    _, batches = inputs(120, 60)
    sizes = []
    for number, batch in enumerate(batches):
        task.batch(number, batch)
        (directory,) = local.iterdir()
        sizes.append(len(list(directory.iterdir())))
    assert max(sizes[40:]) <= 2.5 * max(sizes[10:40])


def test_a_view_of_another_version_is_ignored(local: Path) -> None:
    """A failed attempt's files are newer than the truth; an old view is older. Neither may be used."""
    rows, batches = inputs(60, 20)
    task, found = Task(SPECS["matrix"]), Counter[tuple[Any, ...]]()
    for number, batch in enumerate(batches):
        found += task.batch(number, batch)
        no_worker()
        for view in local.glob("*/*.view"):
            view.rename(view.with_name(f"{'0' * 32}-{view.name}"))
    assert found == nested_loop(SPECS["matrix"], rows)


def damaged(path: Path, keep: int) -> None:
    data = path.read_bytes()
    path.unlink()  # a new file: the old one may still be mapped
    path.write_bytes(data[:keep])


def test_a_small_micro_batch_writes_one_file(local: Path) -> None:
    """A file for each of nine stores was a fifth of such a micro-batch; another worker finds all rows in the view."""
    task = Task(SPECS["symmetric"])
    _, batches = inputs(60, 10)
    for number, batch in enumerate(batches):
        no_worker()
        before = set(local.glob("*/*"))
        task.batch(number, batch)
        assert [path.suffix for path in set(local.glob("*/*")) - before] == [".view"]
    no_worker()
    chunks, make = task.stages[0]
    state = SlotState(task._make(make), chunks, "stream r: id", ONE)
    assert all(segment.rows.num_rows for store in state.slot.stores.values() for segment in store.segments)
    assert state.fetched == 0


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99])
@pytest.mark.parametrize(("suffix", "small"), [("seg", 0), ("view", 0), ("view", 16 << 10)])
def test_a_damaged_copy_is_rebuilt(
    local: Path, suffix: str, small: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that lost power leaves files of any length; the state store has it all."""
    small_are(small, monkeypatch)
    rows, batches = inputs(60, 10)
    task, found = Task(SPECS["symmetric"]), Counter[tuple[Any, ...]]()
    for number, batch in enumerate(batches):
        no_worker()
        files = sorted(local.glob(f"*/*.{suffix}"))
        assert files or not number
        for path in files:
            damaged(path, int(path.stat().st_size * share))
        found += task.batch(number, batch)
    assert found == nested_loop(SPECS["symmetric"], rows)


def flipped(path: Path, random: Random) -> None:
    """Flip three bits of a file in place, where a worker may have it mapped."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        for _ in range(3):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))  # a clock may tick every 4 ms only


@pytest.mark.parametrize(("suffix", "small"), [("seg", 0), ("view", 0), ("view", 16 << 10)])
@pytest.mark.parametrize("scheme", ["symmetric", "matrix"])
def test_bits_that_flip_in_a_copy_change_no_row(
    scheme: str, suffix: str, small: int, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they are, in files that a worker has mapped before or maps now: the rows come from the state store."""
    small_are(small, monkeypatch)
    rows, batches = inputs(60, 10)
    for seed in range(3):
        random, task, found = Random(seed), Task(SPECS[scheme]), Counter[tuple[Any, ...]]()
        for number, batch in enumerate(batches):
            if number % 3:
                no_worker()
            for path in sorted(local.glob(f"*/*.{suffix}")):
                flipped(path, random)
            found += task.batch(number, batch)
        assert found == nested_loop(SPECS[scheme], rows)


@pytest.mark.parametrize(("error", "stays"), [(pa.ArrowIndexError, False), (MemoryError, False), (EOFError, True)])
def test_a_task_that_fails_does_not_try_the_same_copy_again(
    error: type[Exception], stays: bool, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt found the same damage, and so did each restart. A task that is stopped has found none."""
    _, batches = inputs(60, 10)
    chunks, stage = Chunks(), Stage(replace(SPECS["symmetric"], fingerprint="stream r: id"), 0, packed=True)
    packed = {"kind": list(batches[1]), "data": [to_bytes(rows) for rows in batches[1].values()]}
    work = StageTask(stage, None, chunks)
    assert list(work.join(slot_keys(1), iter([packed]), None))
    assert list(local.glob("*/*.view"))

    def fail(*_: Any) -> Iterator[Any]:
        raise error("damaged")

    monkeypatch.setattr(StageTask, "_counted", fail)
    with pytest.raises(error):
        list(work.join(slot_keys(1), iter([packed]), None))
    assert bool(list(local.glob("*/*.view"))) is stays


@pytest.mark.parametrize("small", SMALL)
def test_a_copy_of_another_version_is_rebuilt(local: Path, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its indexes and zones hold order keys as that version made them; searched for others they would lose rows."""
    small_are(small, monkeypatch)
    rows, batches = inputs(60, 20)
    task, found = Task(SPECS["symmetric"]), Counter[tuple[Any, ...]]()
    key = order_keys.order_key
    with monkeypatch.context() as other:
        other.setattr(warm_file, "VERSION", warm_file.VERSION - 1)
        for module in (index, probe_plan, sorting):
            other.setattr(module, "order_key", lambda array: key(array) + 1000)
        for number, batch in enumerate(batches[:10]):
            task.batch(number, batch)
    assert list(local.glob("*/*.view"))
    for number, batch in enumerate(batches[10:], 10):
        no_worker()
        found += task.batch(number, batch)
    before = nested_loop(SPECS["symmetric"], [[row for row in some if row["id"] % 1000 < 30] for some in rows])
    assert found == nested_loop(SPECS["symmetric"], rows) - before
    assert found


def test_a_full_disk_costs_the_copy_and_not_the_query(local: Path) -> None:
    rows, batches = inputs(60, 10)
    local.parent.mkdir(parents=True, exist_ok=True)
    local.write_text("a file where the directory should be")
    task, found = Task(SPECS["symmetric"]), Counter[tuple[Any, ...]]()
    for number, batch in enumerate(batches):
        no_worker()
        found += task.batch(number, batch)
    assert found == nested_loop(SPECS["symmetric"], rows)
    ((_, _, slot, _),) = WORKER.recent.values()
    bodies = [segment.body for store in slot.stores.values() for segment in store.segments]
    assert bodies
    assert not any(bodies), "what has no file is not kept in memory without a bound instead"


def test_another_query_is_refused() -> None:
    """Spark does not look into our state: a changed predicate would join old rows by new rules."""
    task = Task(SPECS["symmetric"])
    _, batches = inputs(30, 10)
    task.batch(0, batches[1])
    chunks, _ = task.stages[0]
    spec = SPECS["symmetric"]
    with pytest.raises(CheckpointMismatchError) as caught:
        SlotState(lambda: SCHEMES["symmetric"].stages(spec)[0](spec, 0), chunks, "stream r: id, a", ONE)
    assert "stream r was id and is now id, a" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("scheme: x\nunits: 2", "scheme: y", "scheme was x and is now y"),
        (
            "scheme: biclique\noption routing: random",
            "scheme: matrix\nkind of join: left\nconditions on one side: \nstored columns of r: c0 int",
            "kind of join was inner and is now left",
        ),
        ("a: 1", "a: 1\nb: 2", "b was absent and is now 2"),
        ("a: 1\nb: x: y", "a: 1", "b was x: y and is now absent"),
        ("a: 1\nb: 2", "b: 2\na: 1", "it was written by another version"),
    ],
)
def test_what_changed_is_said_in_a_sentence(old: str, new: str, words: str) -> None:
    assert difference(old, new) == words


@pytest.mark.parametrize(
    ("keep", "words"), [(None, "is missing"), (0, "0 bytes instead of"), (0.9, "bytes instead of")]
)
def test_a_missing_or_truncated_chunk_is_said_and_not_skipped(
    keep: float | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence would lose rows."""
    monkeypatch.setattr(state_module, "INSIDE_BYTES", 0)
    task = Task(SPECS["symmetric"])
    _, batches = inputs(30, 10)
    task.batch(0, batches[1])
    no_machine()
    stored = task.stages[0][0].now
    for number, data in list(stored.items()):
        if number == MANIFEST:
            continue
        del stored[number]
        if keep is not None:
            stored[number] = data[: int(len(data) * keep)]
    with pytest.raises(CheckpointDamagedError, match=words):
        task.batch(1, batches[2])


def rewritten(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return a manifest in which the JSON object is another."""
    (length,) = struct.unpack_from("<q", data)
    body = json.loads(data[8 : 8 + length])
    change(body)
    head = json.dumps(body).encode()
    return struct.pack("<q", len(head)) + head + data[8 + length :]


@pytest.mark.parametrize("written", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused(written: int) -> None:
    """Read by today's rules it might give wrong rows without a word."""
    task = Task(SPECS["symmetric"])
    _, batches = inputs(30, 10)
    task.batch(0, batches[1])
    stored = task.stages[0][0].now
    stored[MANIFEST] = rewritten(stored[MANIFEST], lambda body: body.update(format=written))
    told = f"version of TriJoin SQL or Spark: its state has format {written}, and this version reads format {FORMAT}"
    with pytest.raises(CheckpointVersionError, match=told):
        task.batch(1, batches[2])


def test_chunks_with_fewer_rows_than_the_manifest_says_are_damage() -> None:
    task = Task(SPECS["symmetric"])
    _, batches = inputs(30, 10)
    task.batch(0, batches[1])
    no_machine()

    def more(body: dict[str, Any]) -> None:
        for name, listed in body["chunks"].items():
            for chunk in listed:
                chunk[2] += 3
                body["next_ids"][name][0] += 3

    stored = task.stages[0][0].now
    stored[MANIFEST] = rewritten(stored[MANIFEST], more)
    with pytest.raises(CheckpointDamagedError, match=r"of the rows 0 to \d+ of \S+ it holds \d+"):
        task.batch(1, batches[2])


@pytest.mark.parametrize(("keep", "words"), [(4, "cannot be read"), (40, "cannot be read"), (-1, "bytes instead of")])
def test_a_truncated_manifest_is_said(keep: int, words: str) -> None:
    """The smallest chunks are at its end."""
    task = Task(SPECS["symmetric"])
    _, batches = inputs(30, 10)
    task.batch(0, batches[1])
    stored = task.stages[0][0].now
    stored[MANIFEST] = stored[MANIFEST][:keep]
    with pytest.raises(CheckpointDamagedError, match=words):
        task.batch(1, batches[2])


def test_small_chunks_cost_no_call_of_the_state_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """A micro-batch of some rows reads the manifest and writes it; what is merged is larger, and written by itself."""
    calls = Counter[str]()
    for name in ("containsKey", "getValue", "updateValue", "removeKey"):
        real = getattr(Chunks, name)
        monkeypatch.setattr(
            Chunks, name, lambda self, *key, real=real, name=name: calls.update((name,)) or real(self, *key)
        )
    task = Task(SPECS["symmetric"])
    _, batches = inputs(60, 20)
    for number, batch in enumerate(batches[: FAN_IN - 1]):
        calls.clear()
        task.batch(number, batch)
        assert calls == {"containsKey": 1, "updateValue": 1} if not number else calls["getValue"] == 1
        assert calls.total() == (3 if number else 2)


@pytest.mark.parametrize("scheme", SPECS)
def test_chunks_merge_without_being_read_back(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the slot holds is merged from there: Spark gives bytes out slowly. The chunks are those of their parts."""
    small_are(0, monkeypatch)
    read = Counter[bool]()
    real = Chunks.getValue
    monkeypatch.setattr(Chunks, "getValue", lambda self, key: read.update((key == (MANIFEST,),)) or real(self, key))
    _, batches = inputs(300, 3 * FAN_IN)
    task, other = Task(SPECS[scheme]), Task(SPECS[scheme])
    for number, batch in enumerate(batches):
        task.batch(number, batch)
    assert set(read) == {True}
    assert any(chunk.tier for chunks, _ in task.stages for chunk in chunks.manifest.all())
    monkeypatch.setattr(Store, "held", lambda self, start, stop: None)
    for number, batch in enumerate(batches):
        other.batch(number, batch)
    assert read[False]
    for (one, _), (same, _) in zip(task.stages, other.stages, strict=True):
        assert [rows_of(one, chunk) for chunk in one.manifest.all()] == [
            rows_of(same, chunk) for chunk in same.manifest.all()
        ]


def rows_of(chunks: Chunks, chunk: Chunk) -> tuple[int, list[dict[str, Any]]]:
    """Return a chunk's first id and its rows."""
    assert chunk.number is not None
    return chunk.start, from_bytes(chunks.committed[chunk.number]).to_pylist()


def ids(batches: Sequence[dict[int, pa.RecordBatch]]) -> int:
    return sum(rows.num_rows for batch in batches for rows in batch.values())


def test_large_batches_are_cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of many megabytes kill the JVM's side; large chunks are never merged again."""
    monkeypatch.setattr(state_module, "CHUNK_BYTES", 300)
    monkeypatch.setattr(state_module, "INSIDE_BYTES", 0)
    rows, batches = inputs(80, 4)
    task, found = Task(SPECS["matrix"]), Counter[tuple[Any, ...]]()
    for number, batch in enumerate(batches):
        no_machine()
        found += task.batch(number, batch)
    ((chunks, _),) = task.stages
    assert len(chunks.now) > 8
    assert max(len(data) for data in chunks.now.values()) < 3000
    assert ids(batches) == sum(len(part) for part in rows)
    assert found == nested_loop(SPECS["matrix"], rows)
