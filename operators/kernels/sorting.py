"""Sorting keys, the largest single cost of a micro-batch: every arriving stream is sorted once for each index it meets.

Two things make it cheap. Keys of a micro-batch span few digits of 16 bits, and such digits NumPy sorts by radix: one
digit four to ten times as fast as by comparison, two twice as fast. And a column that probes one index and enters
another is sorted once.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pyarrow as pa

from .order_keys import Int64s, order_key

#: Columns whose order is remembered: those of a micro-batch's current stream.
_REMEMBERED = 4

#: From so many keys on a radix sort is faster than one by comparison, whatever they span.
_MANY = 1000

#: Fewer ranges than these are followed to their ends one by one.
_SHORT = 64

#: So few probes search for their ends at once: each step of a walk costs more than their searches.
_FEW = 256

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
    order = _radix(keys) if len(keys) >= _MANY else np.argsort(keys, kind="stable")
    return order, keys[order]


def _radix(keys: Int64s) -> Int64s:
    """Return the stable order of keys by digits of 16 bits, the least first: such digits NumPy counts, not compares."""
    with np.errstate(over="ignore"):  # differences of up to 64 bits wrap around to what they are as unsigned numbers
        digits = (keys - keys.min()).view(np.uint64)
    spread = int(np.bitwise_or.reduce(digits))
    shift = max((spread & -spread).bit_length() - 1, 0)  # floats of few digits end in zeros
    if shift:
        digits >>= np.uint64(shift)
    passes = -(-(spread >> shift).bit_length() // 16)
    order = np.argsort(digits.astype(np.uint16), kind="stable")
    for number in range(1, passes):
        digit = (digits >> np.uint64(16 * number)).astype(np.uint16)
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
    if len(begin) <= _FEW:
        return np.maximum(begin, np.searchsorted(keys, upper, "right" if right else "left"))
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
        if (len(active) > before // 2 and len(active) > _SHORT) or steps == 4:
            end[active] = np.searchsorted(keys, upper[active], "right" if right else "left")
            break
    return end
