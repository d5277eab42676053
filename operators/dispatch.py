"""The dispatcher (the papers' DispatchBolt): Arrow batches of one stream in, packed rows for slots out.

What crosses the shuffle is a handful of binary rows for each partition and slot, never one row a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
import pyarrow as pa

from .chunk import PACKED_BYTES, to_bytes
from .memory import release, settle
from .schemes import SCHEMES
from .spec import JoinSpec
from .store import concat
from .task import for_this_batch

#: Schema of packed rows: the slot's key, what is inside (a rank, or one of the codes below), Arrow IPC bytes.
PACKED_SCHEMA = "slot int, kind int, data binary"

#: ``kind`` of packs, of results on their way out, of a slot's counters, of intermediate results, and of bundles.
PACK, RESULT, COUNTED, PARTIAL, BUNDLE = -1, -2, -3, -4, -5

#: A number with many divisors: for every partition count among them slots spread evenly.
_MODULUS = 1441440


class Dispatcher:
    """Packs the rows of one stream for the slots they go to; a function for ``mapInArrow``.

    Parameters
    ----------
    spec, rank
        The join, and the stream's rank in it.
    warm_bytes
        Bytes that the warm copies of a machine may take, None for any number; it says what memory a worker may keep.
    """

    def __init__(self, spec: JoinSpec, rank: int, warm_bytes: int | None = None) -> None:
        self.spec, self.rank, self.warm_bytes = spec, rank, warm_bytes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the batches of one partition."""
        spec, _ = for_this_batch(self.spec)
        route = SCHEMES[spec.scheme].route(spec)
        keys = slot_keys(spec.slots)
        handled = 0
        for rows in _gathered(batches):
            handled += rows.nbytes
            whole: bytes | None = None
            slots: list[int] = []
            data: list[bytes] = []
            for slot, some in route(self.rank, rows):
                if some is None:
                    whole = whole or to_bytes(rows)
                    packed = whole
                else:
                    packed = to_bytes(rows.take(pa.array(some)))
                slots.append(keys[slot])
                data.append(packed)
            for slot_key, packed in zip(slots, data, strict=True):
                yield packed_rows([slot_key], self.rank, [packed])
        release(handled, self.warm_bytes)
        settle()


def packed_rows(slots: list[int], kind: int, data: list[bytes]) -> pa.RecordBatch:
    """Return packed rows as an Arrow batch of `PACKED_SCHEMA`."""
    return pa.RecordBatch.from_arrays(
        [pa.array(slots, pa.int32()), pa.array([kind] * len(slots), pa.int32()), pa.array(data, pa.binary())],
        names=["slot", "kind", "data"],
    )


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches up to `PACKED_BYTES`, so that there are few packed rows."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= PACKED_BYTES:
            yield concat(waiting)
            waiting, size = [], 0
    if waiting:
        yield concat(waiting)


@cache
def slot_keys(count: int) -> tuple[int, ...]:
    """Return a key for each slot, such that Spark's hash partitioner puts slot i into partition i mod P.

    That holds for every number P of partitions that divides 1441440 (all up to 16, and 18, 20, 24, 32 ...). Keys are
    part of a checkpoint, so they depend on nothing but the slot's number.

    Parameters
    ----------
    count
        How many slots.
    """
    found: dict[int, int] = {}
    first, step = 0, 1 << 20
    while len(found) < count:
        candidates = np.arange(first, first + step, dtype=np.int64)
        remainders = np.mod(murmur3(candidates.astype(np.int32)).astype(np.int64), _MODULUS)
        for at in np.flatnonzero(remainders < count):
            found.setdefault(int(remainders[at]), int(candidates[at]))
        first += step
    return tuple(found[slot] for slot in range(count))


def murmur3(numbers: np.ndarray, seed: int = 42) -> np.ndarray:
    """Return Spark's Murmur3 hash of 32-bit integers (``hash(x)`` in SQL), shape (n,)."""
    with np.errstate(over="ignore"):
        k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
        k = (k << np.uint32(15)) | (k >> np.uint32(17))
        k = k * np.uint32(0x1B873593)
        h = np.uint32(seed) ^ k
        h = (h << np.uint32(13)) | (h >> np.uint32(19))
        h = h * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)
        h ^= h >> np.uint32(16)
        h = h * np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h = h * np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    return h.view(np.int32)
