"""Dispatch: rows packed for slots, and slots spread over Spark's partitions."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.batches.ipc import UNMEASURED_BYTES, UNMEASURED_ROWS, from_bytes, to_bytes, uniform
from trijoin_sql.operators.batches.pieces import concat, split
from trijoin_sql.operators.checks import EdgeSpec
from trijoin_sql.operators.results.outcomes import Pack
from trijoin_sql.operators.schemes.base import MEMBERS
from trijoin_sql.operators.spec import JoinSpec, Options
from trijoin_sql.operators.task import dispatch
from trijoin_sql.operators.task.dispatch import PACKED_SCHEMA, Dispatcher, Reading, slot_keys, unmurmur3
from trijoin_sql.operators.task.outputs import Output
from trijoin_sql.operators.task.wire import pack_from_bytes, pack_to_bytes

from trijoin_sql.running.vanished import Vanished

from .reference import DOMAINS, streams

#: ``SELECT hash(1), hash(42), hash(0), hash(-1), hash(2147483647)`` in Spark 4.3.
HASHES = {1: -559580957, 42: 29417773, 0: 933211791, -1: -1604776387, 2147483647: 133916647}


def murmur3(number: int) -> int:
    """Return Spark's ``hash(number)``: Murmur3 of four bytes with the seed 42."""

    def rotated(word: int, left: int) -> int:
        return (word << left | word >> 32 - left) % (1 << 32)

    k = rotated(number * 0xCC9E2D51 % (1 << 32), 15) * 0x1B873593 % (1 << 32)
    h = (rotated(42 ^ k, 13) * 5 + 0xE6546B64) % (1 << 32) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B % (1 << 32)
    h = (h ^ h >> 13) * 0xC2B2AE35 % (1 << 32)
    h ^= h >> 16
    return h - (h >> 31 << 32)


def test_hash_is_sparks_backwards() -> None:
    assert {number: murmur3(number) for number in HASHES} == HASHES
    assert unmurmur3(np.array(list(HASHES.values()), np.int32)).tolist() == list(HASHES)


def test_every_integer_has_a_hash_of_its_own() -> None:
    numbers = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, 2_000).astype(np.int32)
    hashes = np.array([murmur3(int(number)) for number in numbers], np.int32)
    assert np.array_equal(unmurmur3(hashes), numbers)


@pytest.mark.parametrize("count", [1, 2, 5, 16, 40, 300])
def test_slots_spread_evenly_over_any_number_of_partitions(count: int) -> None:
    """Spark puts a key into partition ``pmod(hash(key), P)``; plain keys 0..n-1 collide and leave cores idle."""
    keys = slot_keys(count)
    assert len(set(keys)) == count
    assert slot_keys(count + 3)[:count] == keys, "a checkpoint's keys must not depend on how many there are"
    hashes = [murmur3(key) for key in keys]
    for partitions in (*range(1, 130), 200, 1009):
        assert [h % partitions for h in hashes] == [slot % partitions for slot in range(count)]


def test_every_type_survives_packing() -> None:
    """Bytes cross the shuffle, so types, NULLs and time zones do not change; slices send only their rows."""
    columns = {name: pa.array([None, *numbers], type_) for name, (type_, numbers) in DOMAINS.items()}
    inner = pa.struct([("k", pa.null())])
    nested = pa.array(
        [{"x": [1, None], "y": {"k": None}}, None], pa.struct([("x", pa.list_(pa.int32())), ("y", inner)])
    )
    zoned = pa.array([1, None], pa.timestamp("us", "Europe/Berlin"))
    for name, column in {**columns, "nested": nested, "zoned": zoned}.items():
        batch = pa.RecordBatch.from_arrays([column], names=[name])
        for some in (batch, batch.slice(1, 1), batch.slice(0, 0)):
            for compress in (False, True):
                back = from_bytes(to_bytes(some, compress=compress))
                assert back.schema == some.schema
                assert str(back) == str(some) or back.equals(some)


def test_packs_survive_packing() -> None:
    members = pa.RecordBatch.from_pydict({"id": pa.array([7, 8], pa.int64())})
    lists = pa.array([[0, 1], [1]], pa.list_(pa.int64()))
    hubs = pa.RecordBatch.from_arrays([pa.array(["s", None]), lists], names=["t", MEMBERS])
    for some in (hubs, hubs.slice(1)):
        back = pack_from_bytes(pack_to_bytes(Pack(1, some, 0, members)))
        assert (back.rank, back.member_rank) == (1, 0)
        assert back.hubs.to_pydict() == some.to_pydict()
        assert back.members.equals(members)


@pytest.mark.parametrize("limit", [1, 100, 1 << 20])
def test_split_loses_nothing(limit: int) -> None:
    batch = pa.RecordBatch.from_pydict({"x": list(range(1000)), "t": ["word" * (i % 7) for i in range(1000)]})
    pieces = list(split(batch, limit))
    assert pa.Table.from_batches(pieces).combine_chunks().equals(pa.Table.from_batches([batch]))
    assert len(pieces) == {1: 1000, 1 << 20: 1}.get(limit, len(pieces))
    assert max(piece.nbytes for piece in pieces) <= max(2 * limit, batch.nbytes // 100)
    assert list(split(batch.slice(0, 0), limit)) == []


def dispatched(spec: JoinSpec, rank: int, batches: list[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    dispatcher = pickle.loads(pickle.dumps(Dispatcher(spec, [Reading(rank)])))
    found: dict[int, list[pa.RecordBatch]] = {}
    for packed in dispatcher(iter(batches)):
        assert packed.schema.names == [part.split()[0] for part in PACKED_SCHEMA.split(", ")]
        assert packed.schema.types == [pa.int32(), pa.int32(), pa.binary()]
        for slot, kind, data in zip(*packed.to_pydict().values(), strict=True):
            assert kind == rank
            found.setdefault(slot_keys(spec.units).index(slot), []).append(from_bytes(data))
    return found


def rows(count: int, width: int = 1) -> list[pa.RecordBatch]:
    ids = pa.array(range(count), pa.int64())
    batch = pa.RecordBatch.from_pydict({"id": ids, "a": ["x" * width] * count, "route": ids})
    return [batch.slice(start, 10) for start in range(0, count, 10)]


def test_small_batches_are_packed_together() -> None:
    """What crosses the shuffle is one row a slot, not one a tuple or one an Arrow batch."""
    spec = JoinSpec("j", streams(3, ("a",)), (EdgeSpec(0, 1),), "symmetric", 3)
    found = dispatched(spec, 1, [pa.RecordBatch.from_pydict({"id": [], "a": [], "route": []}), *rows(95)])
    assert set(found) == {0, 1, 2}
    for packed in found.values():
        assert [batch.column("id").to_pylist() for batch in packed] == [list(range(95))]


def test_large_inputs_are_packed_in_pieces() -> None:
    """A value of hundreds of megabytes would not pass through Spark; each row is still sent once."""
    spec = JoinSpec("j", streams(3, ("a",)), (EdgeSpec(0, 1),), "symmetric", 1)
    (packed,) = dispatched(spec, 0, rows(120, width=100_000)).values()
    assert len(packed) > 1
    assert [number for batch in packed for number in batch.column("id").to_pylist()] == list(range(120))


def test_unmeasured_rows_are_as_many_as_their_bytes() -> None:
    """Spark may put `UNMEASURED_ROWS` packed rows into one batch, which has to stay as small as if it were measured."""
    spec = JoinSpec("j", streams(3, ("a",)), (EdgeSpec(0, 1),), "symmetric", 2, fixed_width=True)
    ids = pa.array(range(800_000), pa.int64())
    batch = pa.RecordBatch.from_arrays([ids, ids, ids], names=["id", "a", "route"])
    batches = (batch.slice(at, 10_000) for at in range(0, batch.num_rows, 10_000))
    packed = pa.Table.from_batches(list(Dispatcher(spec, [Reading(0)])(batches)))
    sizes = [len(data) for data in packed["data"].to_pylist()]
    assert sum(sizes) > 2 * UNMEASURED_BYTES
    for first in range(0, len(sizes), 100):
        assert sum(sizes[first : first + UNMEASURED_ROWS]) < 1.3 * UNMEASURED_BYTES
    kinds = packed["kind"].to_pylist()
    assert {kind: sum(size for one, size in zip(kinds, sizes, strict=True) if one == kind) for kind in set(kinds)} == {
        0: sum(sizes),
        dispatch.FILLER: 0,
    }
    few = list(Dispatcher(spec, [Reading(0)])(iter([batch.slice(0, 10)])))
    assert {kind for one in few for kind in one["kind"].to_pylist()} == {0}, "few rows need none"


def test_a_few_long_texts_among_short_ones_are_not_packed_together() -> None:
    """By the mean of all rows a packed row of them would have 40 MB, and so would a chunk of the state."""
    texts = ["x" * 1_000_000] * 40 + [""] * 40_000
    batch = pa.RecordBatch.from_pydict({"a": texts})
    pieces = list(split(batch, 4 << 20))
    assert max(piece.nbytes for piece in pieces) <= 4.1 * (1 << 20)
    assert len(pieces) <= 12
    assert pa.Table.from_batches(pieces).combine_chunks().equals(pa.Table.from_batches([batch]))
    assert [len(piece) for piece in split(batch.slice(0, 3), 1000)] == [1, 1, 1], "a row is never cut"


def test_what_can_be_null_is_the_same_in_all_batches() -> None:
    """Spark says it anew for every plan; rows of two micro-batches are put together all the same, nested ones too."""
    strict = pa.struct([pa.field("x", pa.list_(pa.field("element", pa.int32(), nullable=False)), nullable=False)])
    kinds = {"id": pa.int64(), "s": strict, "m": pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))}
    loose = pa.struct([pa.field("x", pa.list_(pa.field("element", pa.int32())))])
    names, rows = ["id", "s", "m"], [[1], [{"x": [1]}], [[("k", 2)]]]
    one = pa.RecordBatch.from_arrays(
        [pa.array(some, kind) for some, kind in zip(rows, kinds.values(), strict=True)],
        schema=pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds.items()]),
    )
    other = pa.RecordBatch.from_arrays(
        [
            pa.array([*some, None], kind)
            for some, kind in zip(rows, (pa.int64(), loose, pa.map_(pa.string(), pa.int32())), strict=True)
        ],
        names=names,
    )
    together = concat([uniform(one), uniform(other)])
    assert together.to_pylist() == one.to_pylist() + other.to_pylist()


def test_hashed_rows_are_sent_once() -> None:
    """Under ``matrix`` with a common key every row has exactly one cell."""
    inputs = streams(2, ("a",), {0: ((0, "id"),), 1: ((0, "id"),)})
    spec = JoinSpec("j", inputs, (EdgeSpec(0, 1),), "matrix", 4, None, Options(grid=(4,)))
    found = dispatched(spec, 0, rows(40))
    sent = Counter(number for packed in found.values() for batch in packed for number in batch.column("id").to_pylist())
    assert sent == Counter(range(40))
    assert {number % 4 for batch in found[3] for number in batch.column("id").to_pylist()} == {3}


def test_rows_for_several_cells_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of a 2x3x5 grid that has one coordinate goes to 10 cells: encoding was most of dispatch."""
    packed, encode = Counter[str](), dispatch.to_bytes
    monkeypatch.setattr(dispatch, "to_bytes", lambda rows: packed.update(rows=rows.num_rows) or encode(rows))
    inputs = streams(2, ("a",), {0: ((1, "id"),), 1: ((0, "id"),)})
    spec = JoinSpec("j", inputs, (EdgeSpec(0, 1),), "matrix", 30, None, Options(grid=(2, 3, 5)))
    found = dispatched(spec, 0, rows(60))
    assert packed == {"rows": 60}
    sent = Counter(number for slot in found.values() for batch in slot for number in batch.column("id").to_pylist())
    assert sent == Counter(dict.fromkeys(range(60), 10))
    for slot, batches in found.items():
        assert {number % 3 for batch in batches for number in batch.column("id").to_pylist()} == {slot // 5 % 3}


def test_nothing_is_sent_for_nothing() -> None:
    spec = JoinSpec("j", streams(3, ("a",)), (EdgeSpec(0, 1),), "symmetric", 2)
    assert dispatched(spec, 0, []) == {}


def test_rows_with_null_where_a_value_is_needed_are_dropped_and_counted() -> None:
    """A corrupt line, or a column that no file has, is a NULL: such rows vanished, and nobody knew how many."""
    spec = JoinSpec("j", streams(2, ("x", "ts")), (EdgeSpec(0, 1, ()),), "biclique", 2)
    first = replace(spec.streams[0], required=(("x", "r.x"), ("ts", "r.ts")), time="ts")
    spec = replace(spec, streams=(first, *spec.streams[1:]))
    rows = {"id": [1, 2, 3, 4], "x": [1, None, 3, None], "ts": [1, 2, None, None], "route": [1, 2, 3, 4]}
    batch = pa.RecordBatch.from_pydict({name: pa.array(values, pa.int64()) for name, values in rows.items()})
    sent = list(Dispatcher(spec, [Reading(0)])(iter([batch, batch.slice(0, 1)])))
    packed = [one for piece in sent for one in zip(piece["kind"].to_pylist(), piece["data"].to_pylist(), strict=True)]
    assert {row["id"] for kind, data in packed if kind == 0 for row in from_bytes(data).to_pylist()} == {1}
    (report,) = (json.loads(data) for kind, data in packed if kind == dispatch.COUNTED)
    alias = spec.streams[0].alias
    assert report["null_rows"] == {
        alias: {"rows": 5, "dropped": 3, "time": "r.ts", "columns": {"r.x": 2, "r.ts": 2}},
    }
    # A slot's report has them, through a second stage too; the driver reads it.
    out = Output(spec, 0, packed=True)
    first = json.loads(out.report(0, [report, report, {"inputs": {alias: 7}}], 0))
    second = json.loads(out.report(0, [first, {"inputs": {}}], 0))
    assert (second["nulls"], second["null_rows"][alias]["columns"]) == (6, {"r.x": 4, "r.ts": 4})
    vanished = Vanished()
    (said,) = vanished.add([second])
    assert said.startswith(f"4 rows of {alias} without event time, dropped: r.ts is NULL")
    assert not any(
        one["kind"].to_pylist() == [dispatch.COUNTED] for one in Dispatcher(spec, [Reading(0)])(iter([batch[:1]]))
    )


def test_one_reading_serves_several_streams() -> None:
    """A self join reads its source once: each alias gets its own columns of its own rows, as if it read alone."""
    spec = JoinSpec("j", streams(3, ("x",)), (EdgeSpec(0, 1), EdgeSpec(1, 2)), "symmetric", 2)
    whole = pa.RecordBatch.from_pydict(
        {
            "p0": pa.array(range(100), pa.int64()),
            "p1": pa.array([n % 7 for n in range(100)], pa.int64()),
            "p2": pa.array([n * 5 for n in range(100)], pa.int64()),
            "keep1": pa.array([n % 3 == 0 if n % 5 else None for n in range(100)]),
        }
    )
    own = (("id", "p0"), ("x", "p1"), ("route", "p2"))
    swapped = (("id", "p1"), ("x", "p0"), ("route", "p2"))
    readings = [Reading(0, own), Reading(1, own, "keep1"), Reading(2, swapped)]
    together = list(Dispatcher(spec, readings)(iter([whole[:40], whole[40:]])))
    apart = [one for reading in readings for one in Dispatcher(spec, [reading])(iter([whole[:40], whole[40:]]))]
    found, expected = (
        Counter((str(row), kind) for piece in some for row, kind in rows_of(piece)) for some in (together, apart)
    )
    assert found == expected
    kept = {row["id"] for piece in together for row, kind in rows_of(piece) if kind == 1}
    assert kept == {n for n in range(100) if n % 5 and n % 3 == 0}


def rows_of(packed: pa.RecordBatch) -> list[tuple[dict[str, int], int]]:
    """Return the rows in packed rows, each with its stream's rank."""
    pairs = zip(packed["kind"].to_pylist(), packed["data"].to_pylist(), strict=True)
    return [(row, kind) for kind, data in pairs for row in from_bytes(data).to_pylist()]
