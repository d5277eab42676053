"""Sorting keys, the largest single cost of a micro-batch: every arriving stream is sorted once for each index it meets.

Three things make it cheap. Keys of a micro-batch span few digits of 16 bits, and such digits NumPy sorts by radix: one
digit four to ten times as fast as by comparison, two twice as fast. In small batches with wide keys a row number goes
into the unused bits, and sorting plain numbers is twice as fast as an indirect sort. And a column that probes one index
and enters another is sorted once.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pyarrow as pa

from .order_keys import Int64s, order_key

#: Columns whose order is remembered: those of a micro-batch's current stream.
_REMEMBERED = 4

#: The largest row count that is sorted indirectly without a look at the range of its keys.
_FEW = 64

#: From so many rows on three and four passes of a radix sort are faster than a sort by comparison; one and two always.
_MANY = 4096

#: Numbers are made dense by marks in an array that is at most so many times as long as they are many.
_SPREAD = 8

_orders: OrderedDict[tuple[int, ...], tuple[pa.Array, Int64s, Int64s]] = OrderedDict()


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
    count = len(keys)
    if count > _FEW:
        lowest, highest = int(keys.min()), int(keys.max())
        width = (highest - lowest).bit_length()
        if width <= 32 or count >= _MANY:
            order = _radix(keys, lowest, max(-(-width // 16), 1))
            return order, keys[order]
        bits = (count - 1).bit_length()
        if width + bits <= 63:
            packed = keys - np.int64(lowest)
            packed <<= bits
            packed |= np.arange(count)
            packed.sort()
            order = packed & np.int64((1 << bits) - 1)
            packed >>= bits
            packed += np.int64(lowest)
            return order, packed
    order = np.argsort(keys, kind="stable")
    return order, keys[order]


def _radix(keys: Int64s, lowest: int, passes: int) -> Int64s:
    """Return the stable order of keys by digits of 16 bits, the least first: such digits NumPy counts, not compares."""
    with np.errstate(over="ignore"):  # differences of up to 64 bits wrap around to what they are as unsigned numbers
        digits = (keys - np.int64(lowest)).view(np.uint64)
    order = np.argsort(digits.astype(np.uint16), kind="stable")
    for number in range(1, passes):
        digit = (digits >> np.uint64(16 * number)).astype(np.uint16)
        order = order[np.argsort(digit[order], kind="stable")]
    return order


def dense(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Number different numbers from 0 up without gaps.

    Parameters
    ----------
    numbers
        Shape (n,).

    Returns
    -------
    The different ones in order, and which of them each is, shape (n,): ``np.unique`` with its inverse, without its sort
    where they are close together.
    """
    if not len(numbers):
        return numbers, np.zeros(0, np.int64)
    lowest, highest = int(numbers.min()), int(numbers.max())
    if highest - lowest < _SPREAD * len(numbers):
        shifted = numbers - np.int64(lowest)
        marks = np.zeros(highest - lowest + 1, np.bool_)
        marks[shifted] = True
        return np.flatnonzero(marks) + lowest, (np.cumsum(marks) - 1)[shifted]
    order, keys = sort_keys(numbers)
    first = np.concatenate([[True], keys[1:] != keys[:-1]])
    of = np.empty(len(numbers), np.int64)
    of[order] = np.cumsum(first) - 1
    return keys[first], of


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
    while len(_orders) > _REMEMBERED:
        _orders.popitem(last=False)
    return order, keys


def forget() -> None:
    """Let go of the remembered columns, at the end of a micro-batch."""
    _orders.clear()


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
    size = len(keys)
    end = begin.copy()
    active = np.flatnonzero(begin < size)
    steps = 0
    while len(active):
        at = keys[end[active]]
        inside = at <= upper[active] if right else at < upper[active]
        before, active = len(active), active[inside]
        end[active] += 1
        steps += 1
        active = active[end[active] < size]
        if (len(active) > before // 2 and len(active) > _FEW) or steps == 4:
            end[active] = np.searchsorted(keys, upper[active], "right" if right else "left")
            break
    return end
