"""What may be different when a query goes on: the settings, the worker, what of the copy is left; Spark's calendar."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import struct
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.batches.ipc import from_bytes, uniform
from trijoin_sql.operators.checks import Band, Compare, EdgeSpec
from trijoin_sql.operators.schemes.iterative import IterativeUnit
from trijoin_sql.operators.spec import JoinSpec, Options, StreamSpec
from trijoin_sql.operators.state import warm
from trijoin_sql.operators.state.layout import History
from trijoin_sql.operators.state.manifest import MANIFEST
from trijoin_sql.operators.state.slot_state import FAN_IN, SlotState
from trijoin_sql.operators.store import segment as segment_module
from trijoin_sql.operators.store.probe_plan import SortOrder

from trijoin_sql.errors import CheckpointDamagedError, CheckpointMismatchError

from .slots import ONE, Chunks, OneStore, Task, all_rows, another_worker
from .test_bounded_state import rows

BEFORE_1970 = -365 * 86_400 * 1_000_000


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for warm copies, where every segment has a file."""
    monkeypatch.setattr(warm, "root", lambda: tmp_path)
    monkeypatch.setattr(warm, "SMALL_BYTES", 0)
    return tmp_path


@pytest.mark.parametrize("moves", [False, True])
def test_rows_from_before_1970_stay_until_there_is_a_watermark(moves: bool) -> None:
    """No watermark is 0, which is after them: their chunks went with the micro-batch that wrote them."""
    chunks = Chunks()
    for number in range(3):
        if moves:
            another_worker()
        state = SlotState(lambda: OneStore(10), chunks, "q", ONE)
        state.slot.stores["r"].append(rows([BEFORE_1970 + number]))
        state.save(number)
        chunks.commit()
        assert sum(chunk.rows for chunk in state.manifest.all()) == number + 1
    assert state.manifest.timer == 1, "they are looked at when the first watermark comes, and not before"
    state = SlotState(lambda: OneStore(10), chunks, "q", ONE)
    assert all_rows(state.slot.stores["r"]).num_rows == 3
    assert state.expire(1) == 3
    state.save(3)
    assert not list(state.manifest.all())


def payload(kind: pa.DataType, first: int, value: Any) -> pa.RecordBatch:
    """One row of a stream with a payload of some type."""
    columns = [pa.array([first]), pa.array([0]), pa.array([value], kind), pa.array([0])]
    return pa.RecordBatch.from_arrays(columns, names=["id", "a", "p", "route"])


NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


def zoned(zone: str) -> pa.DataType:
    """A type that has a time stamp of some zone in every kind of nest."""
    stamp = pa.timestamp("us", zone)
    return pa.struct([("one", stamp), ("many", pa.list_(stamp)), ("by_name", pa.map_(pa.string(), stamp))])


@pytest.mark.parametrize("noticed", [True, False], ids=["uniform", "as older versions stored it"])
@pytest.mark.parametrize("scheme", ["matrix", "symmetric", "semi_symmetric", "tree", "non_materializing"])
@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (zoned("Europe/Berlin"), zoned("UTC"), {"one": NOON, "many": [NOON], "by_name": [("x", NOON)]}),
        (zoned("UTC"), zoned("America/New_York"), {"one": NOON, "many": [NOON, None], "by_name": []}),
        (pa.string(), pa.large_string(), "x"),
        (pa.list_(pa.large_binary()), pa.list_(pa.binary()), [b"x"]),
    ],
)
def test_payloads_go_on_under_other_settings(
    before: pa.DataType, after: pa.DataType, value: Any, scheme: str, noticed: bool, local: Path
) -> None:
    """Another session time zone, or ``useLargeVarTypes``, gives Arrow other types; the query never ran again."""
    streams = tuple(
        StreamSpec(f"s{rank}", (("id", f"id{rank}"), ("p", f"p{rank}")), ("id", "a", "p"), "route", ((rank, "route"),))
        for rank in range(3)
    )
    edges = tuple(EdgeSpec(rank, rank + 1, (Band("a", "a", -1, 1),)) for rank in range(2))
    grid = Options(grid=(1, 1, 1)) if scheme == "matrix" else Options()
    task, found = Task(JoinSpec("j", streams, edges, scheme, 1, 1, grid)), Counter[tuple[Any, ...]]()
    for number in range(9):
        if number == 3:
            another_worker()
        kind = before if number < 3 else after
        batch = {rank: payload(kind, 100 * number + rank, value) for rank in range(3)}
        wanted = batch if number < 3 and not noticed else {rank: uniform(one) for rank, one in batch.items()}
        if number == 3 and not noticed:
            for path in local.glob("*"):  # copies of an older version are not read
                shutil.rmtree(path)
        found += task.batch(number, wanted)
    assert len(found) == sum(found.values()) == 9**3


@pytest.mark.parametrize("copied", [True, False], ids=["with the copies", "from the chunks"])
def test_a_probe_order_may_be_another_after_a_restart(copied: bool, local: Path) -> None:
    """Rates and selectivities that are declared since then change it, and with it the indexes that a stream has."""
    columns = ("id", "a", "b")
    streams = tuple(StreamSpec(f"s{r}", (("id", f"id{r}"),), columns, "route", ((r, "route"),)) for r in range(3))
    edges = (
        EdgeSpec(0, 1, (Band("a", "a", -1, 1),)),
        EdgeSpec(0, 2, (Compare("=", "a", "a"),)),
        EdgeSpec(1, 2, (Band("b", "b", 0, 2),)),
    )
    first = Options((1, 1, 1), probes=((1, 2), (0, 2), (0, 1)))
    then = Options((1, 1, 1), probes=((2, 1), (2, 0), (1, 0)), sources=((0, 2), (1, 1), (2, 2)))
    tasks = [Task(JoinSpec("j", streams, edges, "matrix", 1, options=one)) for one in (first, then)]
    indexes = [{r: set(store.sort_orders) for r, store in IterativeUnit(task.spec).stored.items()} for task in tasks]
    assert indexes[0] != indexes[1]
    tasks[1].stages = [(chunks, make) for (chunks, _), (_, make) in zip(tasks[0].stages, tasks[1].stages, strict=True)]
    found, seed = Counter[tuple[Any, ...]](), np.random.default_rng(7)
    values: dict[int, list[tuple[int, int, int]]] = {0: [], 1: [], 2: []}
    for number in range(8):
        batch = {}
        for rank, known in values.items():
            some = [(100 * number + i, *map(int, seed.integers(0, 6, 2))) for i in range(5)]
            known += some
            arrays = [pa.array(column) for column in zip(*some, strict=True)]
            batch[rank] = pa.RecordBatch.from_arrays([*arrays, pa.array([0] * len(some))], [*columns, "route"])
        if number == 4:
            another_worker()
            for path in [] if copied else local.glob("*"):
                shutil.rmtree(path)
        found += tasks[number >= 4].batch(number, batch)
    wanted = Counter(
        (r, s, t)
        for (r, a, _), (s, c, d), (t, e, f) in product(*values.values())
        if abs(a - c) <= 1 and a == e and 0 <= d - f <= 2
    )
    assert found == wanted


def test_a_slot_goes_on_with_what_the_query_is_now(local: Path) -> None:
    """A worker that had the slot in the run before went on with its bounds, and with its limit of the copy."""
    del local
    chunks = Chunks()
    for number, (keep_for, limit) in enumerate([(10, 1 << 40), (10**9, 1 << 20), (10**9, 1 << 20)]):
        state = SlotState(lambda keep=keep_for: OneStore(keep), chunks, "q", ONE, limit, made_for=keep_for)  # type: ignore[misc]
        assert state.slot.stores["r"].life.keep_for == keep_for
        assert state.warm.limit == limit
        state.slot.stores["r"].append(rows([1000 + number]))
        state.expire(1000)
        state.save(number)
        chunks.commit()
    assert all_rows(state.slot.stores["r"]).num_rows == 3


def test_evicted_segments_merge_as_their_chunks_do(local: Path) -> None:
    """One for each micro-batch stayed for ever: to read them all took 27 times the state from the store."""
    chunks = Chunks()
    for number in range(200):
        state = SlotState(lambda: OneStore(None), chunks, "q", ONE, 1 << 18)
        state.slot.stores["r"].append(rows(range(number * 1000, number * 1000 + 1000)))
        state.save(number)
        chunks.commit()
        for path in local.glob("*/*.seg"):
            path.unlink()
    another_worker()
    state = SlotState(lambda: OneStore(None), chunks, "q", ONE, 1 << 18)
    store = state.slot.stores["r"]
    assert len(store.segments) < 30
    assert all_rows(store)["t"].to_pylist() == list(range(200_000))
    assert state.fetched <= state.size()["state_bytes"]


def test_zones_of_pieces_hold_those_of_the_segments() -> None:
    """A piece that is brought back stands for several segments; what only one of them knows is not known of it."""
    one = segment_module.Segment(0, 1, zones={"x": (1, 5, -3, 4, None), "y": (1, 1, 1, 1, 1)})
    other = segment_module.Segment(1, 1, zones={"x": (0, 3, None, 9, None)})
    assert segment_module.joint_zones([one, other]) == {"x": (0, 5, None, 9, None)}


def test_units_that_changed_earlier_are_said_to() -> None:
    """It said "it has 4 units and the query 4"."""
    chunks = Chunks()
    state = SlotState(lambda: OneStore(None), chunks, "q", History(((0, 2), (3, 4))))
    state.save(5)
    chunks.commit()
    with pytest.raises(CheckpointMismatchError, match="its units changed earlier"):
        SlotState(lambda: OneStore(None), chunks, "q", History(((0, 4),)))


def test_another_attempt_may_clean_up_at_the_same_time(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that had gone between two looks was taken for a full disk, and the whole copy was deleted."""
    monkeypatch.setattr(warm, "_KEPT_VIEWS", 2)
    chunks = Chunks()
    read_view, changed = warm.read_view, warm._changed

    def an_old_one_goes(path: Path) -> None:
        """What the other attempt does: it keeps the youngest, too."""
        views = sorted(path.parent.glob("*.view"), key=changed)
        if path in views[:-1]:
            path.unlink()

    def gone(path: Path) -> Any:
        an_old_one_goes(path)
        return read_view(path)

    def gone_too(path: Path) -> int:
        an_old_one_goes(path)
        return changed(path)

    for number in range(12):
        state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
        state.slot.stores["r"].append(rows([number]))
        if number == 7:
            monkeypatch.setattr(warm, "read_view", gone)
            monkeypatch.setattr(warm, "_changed", gone_too)
        state.save(number)
        chunks.commit()
    assert any(local.glob("*/*.seg")), "the copy is still there"
    assert all_rows(state.slot.stores["r"])["t"].to_pylist() == list(range(12))


def test_files_with_other_indexes_are_not_used(local: Path) -> None:
    """A version that plans other indexes would look for one that is not there."""
    chunks = Chunks()
    state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
    state.slot.stores["r"].append(rows([1]))
    state.save(0)
    another_worker()

    def more() -> OneStore:
        slot = OneStore(None)
        layout = SortOrder(low="n", high="n")
        slot.store.sort_orders[layout.key] = layout
        return slot

    state = SlotState(more, chunks, "q", ONE)
    (segment,) = state.slot.stores["r"].segments
    assert set(segment.indexes) == set(state.slot.stores["r"].sort_orders)


@pytest.mark.parametrize("left_out", ["uid", "chunks", "layouts", "timer"])
def test_a_manifest_without_a_part_is_damage(left_out: str) -> None:
    from trijoin_sql.operators.state import manifest as module

    state = SlotState(lambda: OneStore(None), Chunks(), "q", ONE)
    head, _ = module._head(state.manifest.to_bytes())
    del head[left_out]
    text = json.dumps(head).encode()
    with pytest.raises(CheckpointDamagedError, match=f"its manifest has no {left_out}"):
        module.Manifest.from_bytes(module._LENGTH.pack(len(text)) + text)


def live(state: SlotState) -> set[Path]:
    """Return the files that a slot's segments are mapped from."""
    segments = state.slot.stores["r"].segments
    return {state.warm.directory / segment.file for segment in segments if segment.file is not None}


def test_a_byte_that_flips_in_the_warm_copy_is_never_made_durable(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks merge from the rows that a slot holds, and those of a mapped file are as good as the disk."""
    monkeypatch.setattr("trijoin_sql.operators.state.slot_state.INSIDE_BYTES", 0)
    chunks, times = Chunks(), [[FAN_IN * at + number for at in range(500)] for number in range(FAN_IN)]
    for number, some in enumerate(times):
        state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
        state.slot.stores["r"].append(rows(some))
        state.save(number)
        chunks.commit()
        if number == FAN_IN - 2:
            another_worker()
            wanted = np.array(times[0][100:102], np.int64).tobytes()
            (path,) = (path for path in live(state) if wanted in path.read_bytes())
            whole = bytearray(path.read_bytes())
            whole[whole.index(wanted)] ^= 1
            path.write_bytes(whole)
    (merged,) = state.manifest.all()
    assert merged.tier == 1
    durable = from_bytes(chunks.committed[merged.number or 0]).column("t").to_pylist()
    assert durable == [time for some in times for time in some]


def test_a_chunk_with_other_bytes_than_were_written_is_damage() -> None:
    """Its length may still be right, and Arrow may read it."""
    chunks = Chunks()
    state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
    state.slot.stores["r"].append(rows(range(5000)))
    state.save(0)
    (chunk,) = state.manifest.all()
    data = bytearray(chunks.now[chunk.number or 0])
    data[len(data) // 2] ^= 1
    chunks.now[chunk.number or 0] = bytes(data)
    chunks.commit()
    another_worker()
    shutil.rmtree(warm.root(), ignore_errors=True)
    with pytest.raises(CheckpointDamagedError, match="chunk 0 has other bytes than were written"):
        all_rows(SlotState(lambda: OneStore(None), chunks, "q", ONE).slot.stores["r"])


def test_manifests_from_before_there_were_check_sums_are_read() -> None:
    """Their chunks are merged as they were then: read back first."""
    chunks = Chunks()
    state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
    state.slot.stores["r"].append(rows(range(5000)))
    state.save(0)
    new = state.manifest.to_bytes()
    (length,) = struct.unpack_from("<q", new)
    body = json.loads(new[8 : 8 + length])
    body["chunks"] = {name: [entry[:8] for entry in entries] for name, entries in body["chunks"].items()}
    head = json.dumps(body).encode()
    old = struct.pack("<q", len(head)) + head + new[8 + length :]
    chunks.now[MANIFEST] = old
    chunks.commit()
    another_worker()
    shutil.rmtree(warm.root(), ignore_errors=True)
    state = SlotState(lambda: OneStore(None), chunks, "q", ONE)
    assert all_rows(state.slot.stores["r"]).column("t").to_pylist() == list(range(5000))
