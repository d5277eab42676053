"""The dispatcher (the papers' DispatchBolt): Arrow batches of a source in, packed rows of its streams for slots out.

What crosses the shuffle is a handful of binary rows for each partition and slot, never one row a tuple.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..batches.ipc import PACKED_BYTES, UNMEASURED_BYTES, UNMEASURED_ROWS, to_bytes, uniform
from ..batches.pieces import combined, split
from ..kernels.order_keys import values
from ..schemes import SCHEMES
from ..spec import DISPATCH, JoinSpec, StreamSpec
from ..worker_memory import release, settle
from .micro_batch import batch_id, for_this_batch, turn

#: Schema of packed rows: the slot's key, what is inside (a rank, or one of the codes below), Arrow IPC bytes.
PACKED_SCHEMA = "slot int, kind int, data binary"

#: In a slot's report: rows with NULL where a condition needs a value, by input.
NULL_ROWS = "null_rows"

#: ``kind`` of packs, of results on their way out, of a slot's counters, of intermediate results, of bundles, and of
#: blocks of partial results.
PACK, RESULT, COUNTED, PARTIAL, BUNDLE, BLOCK = -1, -2, -3, -4, -5, -6

#: ``kind`` of empty rows: to call a slot, and behind a packed row. Spark bounds how many rows it hands to Python at
#: once without a look at them, but their bytes by measuring before each row: so rows are as many as their bytes are.
FILLER = -7


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return what came: a worker that can do so has this package."""
    return batches


@dataclass(frozen=True, slots=True)
class Reading:
    """What one stream takes of the rows that Spark reads of a source, for it alone or for several streams.

    Parameters
    ----------
    rank
        The stream's rank.
    columns
        Its packed columns as ``(name, column of the batches)``; None if the batches have these and no others.
    keep
        The boolean column that says which rows are its own; None for all.
    """

    rank: int
    columns: tuple[tuple[str, str], ...] | None = None
    keep: str | None = None

    def taken(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the stream's rows, with its own columns under their names."""
        if self.columns is None:
            return rows
        own = pa.RecordBatch.from_arrays(
            [rows.column(column) for _, column in self.columns], names=[name for name, _ in self.columns]
        )
        if self.keep is None:
            return own
        kept = rows.column(self.keep)
        return own if kept.true_count == len(kept) else own.filter(kept)


class Dispatcher:
    """Packs the rows of a source for the slots they go to; a function for ``mapInArrow``.

    Parameters
    ----------
    spec
        The join.
    readings
        The streams that the rows are of: several where a source is read once for all of its aliases.
    warm_bytes
        Bytes that the warm copies of a machine may take, None for any number; it says what memory a worker may keep.
    freezes
        Whether a worker may keep what it has imported out of garbage collection.
    """

    def __init__(
        self,
        spec: JoinSpec,
        readings: Sequence[Reading],
        warm_bytes: int | None = None,
        freezes: bool = False,
    ) -> None:
        self.spec, self.readings, self.warm_bytes, self.freezes = spec, tuple(readings), warm_bytes, freezes
        names = (re.sub(r"\W", "_", spec.streams[reading.rank].alias) for reading in readings)
        self.__name__ = DISPATCH + "_".join(names)  # Spark's plan shows it

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the batches of one partition."""
        told = for_this_batch(self.spec)
        packings = [(reading, Packing(told.spec, reading.rank)) for reading in self.readings]
        if told.calls_all(batch_id()):
            keys = slot_keys(told.spec.slots)
            reached = [keys[slot] for slot in sorted({slot for block in told.spec.blocks for slot in block.slots})]
            yield packed_rows(reached, [FILLER] * len(reached), [b""] * len(reached))
        handled = 0
        for rows in _gathered(batches):
            handled += rows.nbytes
            for reading, packing in packings:
                yield from packing.packed(reading.taken(rows))
        for _, packing in packings:
            yield from packing.told()
        release(handled, self.warm_bytes)
        if self.freezes:
            settle()


class Packing:
    """Packs the rows that one partition has of one stream.

    Parameters
    ----------
    spec, rank
        The join in this micro-batch, and the stream's rank in it.
    """

    def __init__(self, spec: JoinSpec, rank: int) -> None:
        routing = SCHEMES[spec.scheme].routing
        self.rank, self.stream = rank, spec.streams[rank]
        self._route = routing.router(spec)
        self._keys = slot_keys(spec.slots)
        # Where rows go by a key or to cells, an old slot may get none, and would never report. So each is asked, and is
        # retired once it says that it is empty.
        asked = spec.earlier if spec.earlier and spec.bounded and spec.has_own_slots else ()
        self._asked = [self._keys[slot] for block in asked for slot in block.slots]
        self._alike = AlikeRows(turn()) if routing.spreads(spec, rank) else None
        self._nulls = NullRows(self.stream)
        self._tested = rank in spec.tested  # rows that cannot join are results
        self._unmeasured = spec.fixed_width

    def packed(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield packed rows of some of the rows."""
        if not self._tested:
            rows = self._nulls.dropped(rows)
        if not rows.num_rows:
            return
        if self._alike is not None:
            rows = self._alike.spread(rows, self.stream.route)
        for slots, some in self._route(self.rank, rows):
            data = to_bytes(rows if some is None else rows.take(pa.array(some)))
            empty = len(data) * UNMEASURED_ROWS // UNMEASURED_BYTES if self._unmeasured else 0
            kinds, rows_of_slot = [self.rank] + [FILLER] * empty, [data] + [b""] * empty
            together = max(PACKED_BYTES // len(data), 1)
            for first in range(0, len(slots), together):
                wanted = [self._keys[slot] for slot in slots[first : first + together]]
                keys = [key for key in wanted for _ in kinds]
                yield packed_rows(keys, kinds * len(wanted), rows_of_slot * len(wanted))

    def told(self) -> Iterator[pa.RecordBatch]:
        """Yield what a slot has to tell of the rows that were dropped, in its report; have retired slots report."""
        if self._asked:
            count = len(self._asked)
            yield packed_rows(self._asked, [COUNTED] * count, [b'{"inputs": {}}'] * count)
        if self._nulls.count:
            yield packed_rows([self._keys[0]], [COUNTED], [json.dumps(self._nulls.report()).encode()])


class NullRows:
    """Drops the rows of one partition that cannot join, because they have NULL where a condition needs a value.

    A corrupt line, a column that is not in the files, or a time in another format gives NULL. So these rows are
    counted. That costs nothing where there are none: Arrow's batches come with their number of NULLs.
    """

    def __init__(self, stream: StreamSpec) -> None:
        self.stream = stream
        self.rows = self.count = 0
        self.by_column: Counter[str] = Counter()

    def dropped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows without those that cannot join."""
        self.rows += rows.num_rows
        columns = [(rows.column(name), text) for name, text in self.stream.required]
        columns = [(column, text) for column, text in columns if column.null_count]
        if not columns:
            return rows
        self.by_column.update({text: column.null_count for column, text in columns})
        kept = rows.filter(reduce(pc.and_, (column.is_valid() for column, _ in columns)))
        self.count += rows.num_rows - kept.num_rows
        return kept

    def report(self) -> dict[str, Any]:
        """Return what a slot's report adds: rows seen, rows dropped, and NULLs by the text of their column."""
        time = dict(self.stream.required).get(self.stream.time or "")
        found = {"rows": self.rows, "dropped": self.count, "time": time, "columns": dict(self.by_column)}
        return {"nulls": self.count, "inputs": {}, NULL_ROWS: {self.stream.alias: found}}


class AlikeRows:
    """Gives rows of one partition that are alike routes of their own, one after the other.

    The route of a row is the hash of what is packed of it. Where that is a heavy key and nothing else, all of its rows
    would be stored in one unit, and the others have nothing to do (001 section 3.2 deals rows out in turns, 003 section
    3.2.2 at random). So the n-th row with a route gets that route plus n. Rows with one route are alike, and any of
    them may be the n-th: a task that is tried again, with its rows in another order, sends the same ones.

    Parameters
    ----------
    first
        What the first of them gets: where each micro-batch has few of them, they go in turns all the same.
    """

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.earlier: list[np.ndarray] = []
        self.met = np.zeros(0, np.bool_)  # by bucket of routes: whether one of its routes came

    def spread(self, rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
        """Return rows with the routes that they get among the rows so far."""
        at = rows.schema.get_field_index(column)
        routes = values(rows.column(at))
        ranks = self._ranks(routes) if len(routes) else None
        if ranks is None and not self.first:
            return rows
        found = routes + self.first if ranks is None else routes + (ranks + self.first)
        return rows.set_column(at, rows.schema.field(at), pa.array(found))

    def _ranks(self, routes: np.ndarray) -> np.ndarray | None:
        """Return how many rows with its route came before each, shape (n,); None if none did.

        Nearly all rows of most streams are unlike any other. Buckets tell that of nine in ten without a sort.
        """
        if not len(self.met):
            self.met = np.zeros(1 << len(routes).bit_length() + 3, np.bool_)
        mask = len(self.met) - 1
        counts = np.bincount(routes & mask, minlength=len(self.met))
        shared = (counts > 1) | (self.met & (counts > 0))
        some = np.flatnonzero(shared[routes & mask])
        order = some[np.argsort(routes[some], kind="stable")]
        different, starts, sizes = np.unique(routes[order], return_index=True, return_counts=True)
        before = np.zeros(len(different), np.int64)
        for old in self.earlier if len(some) else ():
            near = old[shared[old & mask]]
            place = np.minimum(np.searchsorted(different, near), len(different) - 1)
            before += np.bincount(place[different[place] == near], minlength=len(different))
        self.met |= counts > 0
        self.earlier.append(routes)
        among = np.arange(len(order)) - np.repeat(starts - before, sizes)
        if not among.any():
            return None
        ranks = np.zeros(len(routes), np.int64)
        ranks[order] = among
        return ranks


def packed_rows(slots: Sequence[int], kinds: Sequence[int], data: Sequence[bytes]) -> pa.RecordBatch:
    """Return packed rows as an Arrow batch of `PACKED_SCHEMA`."""
    return pa.RecordBatch.from_arrays(
        [pa.array(slots, pa.int32()), pa.array(kinds, pa.int32()), pa.array(data, pa.binary())],
        names=["slot", "kind", "data"],
    )


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches up to `PACKED_BYTES` and cut large ones, so that there are few packed rows, none too large."""
    pieces = (piece for batch in batches for piece in split(batch, PACKED_BYTES))
    return combined(map(uniform, pieces), PACKED_BYTES)


@cache
def slot_keys(count: int) -> tuple[int, ...]:
    """Return a key for each slot, such that Spark's hash partitioner puts slot i into partition i mod P, for every P.

    Murmur3 maps 32-bit integers to 32-bit integers one to one, so there is one key whose hash is the slot's number.
    Keys are part of a checkpoint; they depend on nothing but that number.

    Parameters
    ----------
    count
        How many slots.
    """
    return tuple(int(key) for key in unmurmur3(np.arange(count, dtype=np.int32)))


#: Murmur3's multipliers (of the key, then of the hash) and what it adds; inverses are those modulo 2^32.
_C1, _C2, _M, _N, _F1, _F2 = 0xCC9E2D51, 0x1B873593, 5, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35
#: Spark's.
_SEED = 42


def unmurmur3(hashes: np.ndarray) -> np.ndarray:
    """Return the 32-bit integers whose ``hash(x)`` in Spark is this, shape (n,): Murmur3 step by step backwards."""
    with np.errstate(over="ignore"):
        h = hashes.astype(np.uint32)
        h ^= h >> np.uint32(16)
        h = h * _inverse(_F2)
        h ^= (h >> np.uint32(13)) ^ (h >> np.uint32(26))
        h = h * _inverse(_F1)
        h ^= h >> np.uint32(16)
        h ^= np.uint32(4)
        k = _rotated((h - np.uint32(_N)) * _inverse(_M), 32 - 13) ^ np.uint32(_SEED)
        numbers = _rotated(k * _inverse(_C2), 32 - 15) * _inverse(_C1)
    return numbers.view(np.int32)


def _rotated(words: np.ndarray, left: int) -> np.ndarray:
    return (words << np.uint32(left)) | (words >> np.uint32(32 - left))


def _inverse(factor: int) -> np.uint32:
    return np.uint32(pow(factor, -1, 1 << 32))
