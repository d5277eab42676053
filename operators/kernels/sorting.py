"""Sorting keys and searching sorted ones, the largest costs of a micro-batch.

Every arriving stream is sorted once for each index it meets.

Two things make it cheap. A key and the number of its row are one integer of 64 bits, as far as both go into it: NumPy
sorts such integers several times as fast as it finds an order, and where some bits do not, hardly a key is amiss. And a
column that probes one index and enters another is sorted once.
"""

from __future__ import annotations

from functools import cache
from timeit import repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..recent import Recent
from .order_keys import HIGHEST, LOWEST, Int64s, float_key, mirrored, order_key

#: Columns whose order is remembered: those of a micro-batch's current stream.
_REMEMBERED = 4

#: So few keys are sorted as they are.
_MANY = 1000

#: Of so many keys one may be behind a greater one when they are sorted by their highest bits.
_AMISS = 16

#: Fewer ranges than these are followed to their ends one by one.
_SHORT = 64

#: So few probes search for their ends at once: each step of a walk costs more than their searches.
_FEW = 256

#: Keys are counted number by number for searches of so many probes for each number that they span, or more ...
_PROBES = 1 / 16

#: ... if they span no more numbers than these; and so many counts are remembered.
_SPAN, _TABLES = 1 << 22, 6

#: So many other keys are counted by buckets, if there are no more than some for each probe, and in a bucket.
_SEVERAL, _KEYS, _TOGETHER = 1 << 12, 4, 2.0

#: So many keys tell how even they are.
_SAMPLE = 512

#: Floats below this are whole numbers to the last, or have digits behind the point.
_WHOLE = 2.0**52

_orders = Recent[tuple[int, ...], tuple[pa.Array, Int64s, Int64s]](_REMEMBERED)


def sort_keys(keys: Int64s) -> tuple[Int64s, Int64s]:
    """Sort keys stably.

    Parameters
    ----------
    keys
        Shape (n,).

    Returns
    -------
    The order and the keys in that order, shape (n,) each.
    """
    if len(keys) < _MANY:
        order = np.argsort(keys, kind="stable")
        return order, keys[order]
    least = keys.min()
    with np.errstate(over="ignore"):  # differences of up to 64 bits wrap around to what they are as unsigned numbers
        numbers = (keys - least).view(np.uint64)
    if not _sorts_fast():
        order = _radix(numbers)
        return order, keys[order]
    bits = (len(keys) - 1).bit_length()
    beyond = max(int(numbers.max()).bit_length() + bits - 64, 0)
    packed = numbers >> np.uint64(beyond)
    packed <<= np.uint64(bits)
    packed |= np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << bits) - 1)).view(np.int64)
    found = keys[order]
    amiss = np.count_nonzero(found[1:] < found[:-1]) if beyond else 0
    if not amiss:
        return order, found
    # What the highest bits do not tell apart is sorted in passing if it is little.
    mended = np.argsort(found, kind="stable") if amiss * _AMISS <= len(keys) else _radix(numbers[order])
    return order[mended], found[mended]


@cache
def _sorts_fast() -> bool:
    """Return whether NumPy sorts integers by instructions for many at once, as on most processors since 2013."""
    numbers = np.random.default_rng(1).integers(0, HIGHEST, 1 << 12)
    digits = numbers.astype(np.uint16)
    by_comparison = min(repeat(lambda: np.sort(numbers), number=1, repeat=5))
    return by_comparison < 4 * min(repeat(lambda: np.argsort(digits, kind="stable"), number=1, repeat=5))


def _radix(numbers: npt.NDArray[np.uint64]) -> Int64s:
    """Return the stable order of numbers by digits of 16 bits, the least first: NumPy does not compare these."""
    spread = int(np.bitwise_or.reduce(numbers))
    first = max((spread & -spread).bit_length() - 1, 0)  # floats of few digits end in zeros
    order = np.argsort((numbers >> np.uint64(first)).astype(np.uint16), kind="stable")
    for shift in range(first + 16, spread.bit_length(), 16):
        digit = (numbers >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digit[order], kind="stable")]
    return order


def sort_column(column: pa.Array) -> tuple[Int64s, Int64s]:
    """Sort a column by its order keys; the last few columns are remembered by their buffers.

    Returns
    -------
    The order and the order keys in that order, shape (n,) each; callers must not change them.
    """
    if not len(column):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    name = (column.offset, len(column), *(0 if buffer is None else buffer.address for buffer in column.buffers()))
    known = _orders.get(name)
    # The remembered column keeps its buffers alive, so that no other column can have come to lie at their addresses.
    if known is not None and known[0].type == column.type:
        return known[1], known[2]
    order, keys = sort_keys(order_key(column))
    _orders[name] = (column, order, keys)
    return order, keys


def forget() -> None:
    """Let go of the remembered columns and tables, at the end of a micro-batch."""
    _orders.clear()
    _tables.clear()


class Table:
    """How many of some sorted keys are in the buckets below each bucket: a search is a look, and a few steps at most.

    Where keys lie as close together as integers of a domain do, each whole number is a bucket, and a search ten times
    faster than a binary one. Other keys are put into buckets of equal width, and compared inside of one.

    Parameters
    ----------
    keys
        Shape (n,), n > 0, sorted.
    buckets
        The bucket of each key, shape (n,), from 0 on.
    ends
        The keys with the outermost buckets; what is outside counts as these.
    least
        The number of the first of them.
    floats
        Whether keys are those of floats.
    scale
        Buckets for each 1 that the numbers grow by; None where they are whole, and each is a bucket.
    """

    def __init__(
        self, keys: Int64s, buckets: Int64s, ends: Int64s, least: float, *, floats: bool, scale: float | None = None
    ) -> None:
        self.keys, self.ends, self.least, self.floats, self.scale = keys, ends, least, floats, scale
        counts = np.bincount(buckets).astype(np.int32)  # sums are made faster in the type that they come in
        self.below = np.zeros(len(counts) + 2, np.int32)
        np.cumsum(counts, dtype=np.int32, out=self.below[1:-1])
        self.below[-1] = len(keys)

    def search(self, wanted: Int64s, begin: Int64s | None = None, *, right: bool) -> Int64s:
        """Return ``np.searchsorted(keys, wanted)``, but not below ``begin``."""
        at = np.clip(wanted, *self.ends)
        if self.scale is not None:
            at = _pieces(at, self.least, self.scale, floats=self.floats)
            near = self.below[at].astype(np.int64)
            return range_ends(self.keys, near if begin is None else np.maximum(near, begin), wanted, right=right)
        if self.floats:
            # Below the key of 0.0 comes that of -0.0, which only integers have: no whole number, so the next one below.
            if (zeros := at == -1).any():
                at[zeros] = -2
            at = (np.floor if right else np.ceil)(_floats(at)).astype(np.int64)
        at -= int(self.least)
        found = (self.below[1:] if right else self.below)[at].astype(np.int64)
        return found if begin is None else np.maximum(found, begin)


def _floats(keys: Int64s) -> npt.NDArray[np.float64]:
    """Return the floats that keys stand for, if they do."""
    return (keys if keys.min(initial=0) >= 0 else mirrored(keys)).view(np.float64)


def _numbers(keys: Int64s, *, floats: bool) -> npt.NDArray[np.float64]:
    """Return what keys stand for, or about that: it does not decrease as keys grow."""
    return _floats(keys) if floats else keys.astype(np.float64)


def _pieces(keys: Int64s, least: float, scale: float, *, floats: bool) -> Int64s:
    """Return the bucket of equal width of each key: nor does this decrease as keys grow, however it is rounded."""
    return ((_numbers(keys, floats=floats) - least) * scale).astype(np.int64)


def _made(keys: Int64s, probes: int) -> Table | None:
    """Return a table of keys that makes so many searches faster, None where none does."""
    most = min(_SPAN, probes / _PROBES)
    if LOWEST < keys[0] <= keys[-1] < HIGHEST and int(keys[-1]) - int(keys[0]) < most:
        ends = keys[[0, -1]] + (-1, 1)
        return Table(keys, keys - ends[0], ends, int(ends[0]), floats=False)
    first, last = map(float, _floats(keys[[0, -1]]))
    if abs(first) < _WHOLE and abs(last) < _WHOLE and last - first < most:
        numbers = _floats(keys)
        whole = numbers.astype(np.int64)
        integers = np.searchsorted(keys, -1) < np.searchsorted(keys, -1, "right")  # no float has the key of -0.0
        if not integers and (whole == numbers).all():
            whole -= int(first) - 1
            return Table(keys, whole, float_key(np.array([first - 1, last + 1])), first - 1, floats=True)
    return _even(keys, min(2 * len(keys), most)) if _SEVERAL <= len(keys) <= _KEYS * probes else None


def _even(keys: Int64s, buckets: float) -> Table | None:
    """Return a table of keys by buckets of equal width, None where these would hold too many keys.

    The outermost keys may be far from the others (infinities, NaN), and have no say.
    """
    apart = len(keys) // _SAMPLE
    sample = keys[apart : len(keys) - apart : apart]
    ends, found = sample[[0, -1]], []
    for floats in (False, True):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            first, last = _numbers(ends, floats=floats).tolist()
            scale = float(np.float64(buckets) / (last - first))
            if 0 < scale < np.inf:
                places = _numbers(sample, floats=floats) * scale
                # As many keys are in a bucket as a key finds there in the mean.
                found.append((float((apart / np.maximum(np.diff(places), 1)).mean()), floats, first, scale))
    together, floats, least, scale = min(found, default=(np.inf, False, 0.0, 1.0))
    if not together <= _TOGETHER:
        return None
    at = _pieces(np.clip(keys, *ends), least, scale, floats=floats)
    return Table(keys, at, ends, least, floats=floats, scale=scale)


_tables = Recent[int, tuple[Int64s, Table]](_TABLES)


def _table(keys: Int64s, probes: int) -> Table | None:
    """Return the table of an index's keys, None where it takes longer than searching; the last few are remembered."""
    known = _tables.get(id(keys))
    if known is not None:  # the remembered keys are alive, so that no others can have come to have their id
        return known[1]
    table = _made(keys, probes) if len(keys) else None
    if table is None:
        return None
    _tables[id(keys)] = keys, table
    return table


def ranges(
    keys: Int64s, lower: Int64s, upper: Int64s, *, lower_right: bool, upper_right: bool
) -> tuple[Int64s, Int64s]:
    """Return where the keys between two bounds begin and end, shape (m,) each; where they begin if there are none.

    Parameters
    ----------
    keys
        Of an index, shape (n,), sorted.
    lower, upper
        Shape (m,).
    lower_right, upper_right
        Whether keys that are equal to the bound lie before the beginning, or before the end.
    """
    table = _table(keys, len(lower))
    if table is None:
        begin = np.searchsorted(keys, lower, "right" if lower_right else "left")
        return begin, range_ends(keys, begin, upper, right=upper_right)
    begin = table.search(lower, right=lower_right)
    return begin, table.search(upper, begin, right=upper_right)


def range_ends(keys: Int64s, begin: Int64s, upper: Int64s, *, right: bool) -> Int64s:
    """Return ``np.searchsorted(keys, upper)``, but not below ``begin``, where most ranges are short.

    Parameters
    ----------
    keys
        Shape (n,), sorted.
    begin
        Shape (m,): where the range of each probe begins, 0 to n.
    upper
        Shape (m,): the bound from above.
    right
        Whether keys equal to the bound are inside.
    """
    if len(begin) <= _FEW:
        return np.maximum(begin, np.searchsorted(keys, upper, "right" if right else "left"))
    size = len(keys)
    end = begin.copy()
    at = keys.take(end, mode="clip")
    active = np.flatnonzero((at <= upper if right else at < upper) & (end < size))
    before, steps = len(end), 1
    while len(active):
        end[active] += 1
        if (len(active) > before // 2 and len(active) > _SHORT) or steps == 4:
            end[active] = np.searchsorted(keys, upper[active], "right" if right else "left")
            break
        active = active[end[active] < size]
        at = keys[end[active]]
        before, active = len(active), active[at <= upper[active] if right else at < upper[active]]
        steps += 1
    return end
