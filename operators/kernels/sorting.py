"""Sorting keys and searching sorted ones, the largest costs of a micro-batch.

Every arriving stream is sorted once for each index it meets.

Two things make it cheap. Keys of a micro-batch span few digits of 16 bits, and such digits NumPy sorts by radix: one
digit four to ten times as fast as by comparison, two twice as fast. And a column that probes one index and enters
another is sorted once.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .order_keys import HIGHEST, LOWEST, Int64s, float_key, mirrored, order_key

#: Columns whose order is remembered: those of a micro-batch's current stream.
_REMEMBERED = 4

#: From so many keys on a radix sort is faster than one by comparison, whatever they span.
_MANY = 1000

#: Fewer ranges than these are followed to their ends one by one.
_SHORT = 64

#: So few probes search for their ends at once: each step of a walk costs more than their searches.
_FEW = 256

#: Keys are counted number by number for searches of so many probes for each number that they span, or more ...
_PROBES = 1 / 16

#: ... if they span no more numbers than these; and so many counts are remembered.
_SPAN, _TABLES = 1 << 22, 6

#: Floats below this are whole numbers to the last, or have digits behind the point.
_WHOLE = 2.0**52

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
    """Let go of the remembered columns and tables, at the end of a micro-batch."""
    _orders.clear()
    _tables.clear()


class Table:
    """How many of some sorted keys are below each whole number that they span: a search is a look.

    Ten times faster than a binary search, for keys that lie as close together as integers of a domain do.

    Parameters
    ----------
    keys
        Shape (n,), n > 0.
    floats
        Whether they are those of floats, which are whole numbers too.
    """

    def __init__(self, keys: Int64s, *, floats: bool = False) -> None:
        self.floats = floats
        numbers = _floats(keys).astype(np.int64) if floats else keys
        self.first, last = int(numbers[0]) - 1, int(numbers[-1]) + 1
        counts = np.bincount(numbers - self.first, minlength=last - self.first + 1)
        self.below = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=self.below[1:])
        ends = np.array([self.first, last])
        self.ends = float_key(ends) if floats else ends  # what is outside counts as these

    def search(self, wanted: Int64s, *, right: bool) -> Int64s:
        """Return ``np.searchsorted(keys, wanted)``."""
        at = np.clip(wanted, *self.ends)
        if self.floats:
            # Below the key of 0.0 comes that of -0.0, which only integers have: no whole number, so the next one below.
            at = np.where(at == -1, -2, at)
            at = (np.floor if right else np.ceil)(_floats(at)).astype(np.int64)
        at -= self.first
        return (self.below[1:] if right else self.below)[at].astype(np.int64)


def _floats(keys: Int64s) -> npt.NDArray[np.float64]:
    """Return the floats that keys stand for, if they do."""
    return mirrored(keys).view(np.float64)


def _made(keys: Int64s, most: float) -> Table | None:
    """Return a table of keys that span less than so many numbers, None where they do not."""
    if LOWEST < keys[0] <= keys[-1] < HIGHEST and int(keys[-1]) - int(keys[0]) < most:
        return Table(keys)
    first, last = map(float, _floats(keys[[0, -1]]))
    near = abs(first) < _WHOLE and abs(last) < _WHOLE and last - first < most
    whole = near and first.is_integer() and last.is_integer() and (_floats(keys) == np.floor(_floats(keys))).all()
    whole = whole and not (keys == -1).any()  # -0.0, so these are integers
    return Table(keys, floats=True) if whole else None


_tables: OrderedDict[int, tuple[Int64s, Table]] = OrderedDict()


def _table(keys: Int64s, probes: int) -> Table | None:
    """Return the table of an index's keys, None where it takes longer than searching; the last few are remembered."""
    known = _tables.get(id(keys))
    if known is not None:  # the remembered keys are alive, so that no others can have come to have their id
        return known[1]
    table = _made(keys, min(_SPAN, probes / _PROBES)) if len(keys) else None
    if table is None:
        return None
    _tables[id(keys)] = keys, table
    while len(_tables) > _TABLES:
        _tables.popitem(last=False)
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
    return begin, np.maximum(table.search(upper, right=upper_right), begin)


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
