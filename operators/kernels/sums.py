"""Counts, sums and extremes by group, exact: NULLs are left out, nothing wraps, decimals keep every digit.

Groups are numbers from 0 up, one for each value. A *weight* says how often a value counts: a row that stands for a pack
of results counts as often as the pack has members.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import JoinOverflowError
from .order_keys import HIGHEST, LOWEST, Int64s, decimal_words, is_exact, order_key, values

_LOW = np.int64(0xFFFFFFFF)

#: Limbs of 32 bits add up exactly as long as the weights' sum is below this.
MOST_WEIGHT = 1 << 31


def valid_rows(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return which values are not NULL, None if all are."""
    return np.asarray(column.is_valid()) if column.null_count else None


def count_by(groups: Int64s, size: int, column: pa.Array | None, weights: Int64s | None) -> pa.Array:
    """Return how many values that are not NULL each group has, shape (size,); without a column, how many rows."""
    valid = None if column is None else valid_rows(column)
    if valid is not None:
        groups, weights = groups[valid], None if weights is None else weights[valid]
    return pa.array(_added(groups, size, weights))


def _added(groups: Int64s, size: int, amounts: Int64s | None) -> Int64s:
    if amounts is None:
        return np.bincount(groups, minlength=size)
    total = np.zeros(size, np.int64)
    np.add.at(total, groups, amounts)
    return total


def sum_by(
    groups: Int64s,
    size: int,
    column: pa.Array,
    weights: Int64s | None,
    precision: int | None = None,
    scale: int = 0,
    sql: str = "",
) -> pa.Array:
    """Return the sum of each group, NULL where it has no value.

    Parameters
    ----------
    groups
        Shape (k,), below ``size``.
    column
        Shape (k,): integers (the sum is int64), floats (float64) or decimals.
    weights
        Shape (k,), or None for 1 each; at most `MOST_WEIGHT` together.
    precision, scale
        Of a decimal's sum.
    sql
        What is summed, for the message.

    Raises
    ------
    JoinOverflowError
        If a sum leaves its type, as Spark raises in ANSI mode.
    """
    valid = valid_rows(column)
    if valid is not None:
        groups, weights = groups[valid], None if weights is None else weights[valid]
        column = column.drop_null()
    nothing = np.ones(size, np.bool_)
    nothing[groups] = False
    if pa.types.is_floating(column.type):
        numbers = values(column).astype(np.float64)
        total = np.zeros(size, np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.at(total, groups, numbers if weights is None else numbers * weights)
        return pa.array(total, mask=nothing)
    if pa.types.is_decimal128(column.type):
        assert precision is not None
        words = decimal_words(column)
        small = _small_total(words[:, 0], weights) if column.type.precision <= 18 else None
        if small is not None:
            low = _added(groups, size, small)
            high = low >> np.int64(63)
            over = np.zeros(size, np.bool_)
        else:
            low, high, over = _wide_total(groups, size, _limbs_of_words(words), weights)
        if (over | _beyond(low, high, precision)).any():
            raise JoinOverflowError(f"SUM({sql})", f"decimal({precision},{scale})")
        return _decimals(low, high, nothing, precision, scale)
    numbers64 = values(column).astype(np.int64)
    exact = _small_total(numbers64, weights)
    if exact is not None:
        return pa.array(_added(groups, size, exact), mask=nothing)
    limbs = [numbers64 & _LOW, numbers64 >> np.int64(32)]
    low, high, over = _wide_total(groups, size, limbs, weights)
    if (over | (high != low >> np.int64(63))).any():
        raise JoinOverflowError(f"SUM({sql})", "bigint")
    return pa.array(low, mask=nothing)


def _small_total(numbers: Int64s, weights: Int64s | None) -> Int64s | None:
    """Return numbers times weights if no sum of them can leave int64, else None."""
    if not len(numbers):
        return numbers
    largest = max(int(numbers.max()), -int(numbers.min()))
    times = len(numbers) if weights is None else int(weights.sum())
    if largest * times > HIGHEST:
        return None
    return numbers if weights is None else numbers * weights


def _limbs_of_words(words: Int64s) -> list[Int64s]:
    """Return 128-bit numbers as four limbs of 32 bits, the last one with the sign."""
    unsigned = words.view(np.uint64)
    low = (unsigned & np.uint64(_LOW)).astype(np.int64)
    high = (unsigned >> np.uint64(32)).astype(np.int64)
    return [low[:, 0], high[:, 0], low[:, 1], words[:, 1] >> np.int64(32)]


def _wide_total(
    groups: Int64s, size: int, limbs: list[Int64s], weights: Int64s | None
) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Add up numbers in limbs; return the totals as low and high 64-bit words, and which leave 128 bits."""
    sums = [_added(groups, size, limb if weights is None else limb * weights) for limb in limbs]
    while len(sums) < 4:  # the sign goes on
        sums.append(np.zeros(size, np.int64))
    parts, carry = [], np.zeros(size, np.int64)
    for total in sums[:3]:
        total = total + carry
        parts.append(total & _LOW)
        carry = total >> np.int64(32)
    top = sums[3] + carry
    over = (top < -(1 << 31)) | (top >= 1 << 31)
    low = parts[0].view(np.uint64) | (parts[1].view(np.uint64) << np.uint64(32))
    high = parts[2].view(np.uint64) | (top.view(np.uint64) << np.uint64(32))
    return low.view(np.int64), high.view(np.int64), over


def _beyond(low: Int64s, high: Int64s, precision: int) -> npt.NDArray[np.bool_]:
    """Return which 128-bit numbers have more than ``precision`` digits."""
    limit = 10**precision - 1
    most = np.int64(limit >> 64), np.uint64(limit & (1 << 64) - 1)
    least = np.int64(-limit >> 64), np.uint64(-limit & (1 << 64) - 1)
    unsigned = low.view(np.uint64)
    above = (high > most[0]) | ((high == most[0]) & (unsigned > most[1]))
    return np.asarray(above | (high < least[0]) | ((high == least[0]) & (unsigned < least[1])))


def whole_numbers(column: pa.Array) -> Int64s | None:
    """Return integers, or decimals without their point, whose running total stays in int64; None for all others."""
    if pa.types.is_integer(column.type):
        numbers = values(column).astype(np.int64)
    elif pa.types.is_decimal128(column.type) and column.type.precision <= 18:
        numbers = decimal_words(column)[:, 0]
    else:
        return None
    if column.null_count:
        numbers = np.where(np.asarray(column.is_valid()), numbers, 0)
    return _small_total(numbers, None)


def as_sum(totals: Int64s, nothing: npt.NDArray[np.bool_], precision: int | None, scale: int, sql: str) -> pa.Array:
    """Return totals of `whole_numbers` as `sum_by` returns them, NULL where there is nothing."""
    if precision is None:
        return pa.array(totals, mask=nothing)
    high = totals >> np.int64(63)
    if _beyond(totals, high, precision).any():
        raise JoinOverflowError(f"SUM({sql})", f"decimal({precision},{scale})")
    return _decimals(totals, high, nothing, precision, scale)


def _decimals(low: Int64s, high: Int64s, nothing: npt.NDArray[np.bool_], precision: int, scale: int) -> pa.Array:
    words = np.ascontiguousarray(np.stack([low, high], axis=1))
    validity = pa.py_buffer(np.packbits(~nothing, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(low), [validity, pa.py_buffer(words)])


def extreme_by(
    groups: Int64s, size: int, column: pa.Array, *, greatest: bool, of: npt.NDArray[np.integer[Any]] | None = None
) -> Int64s:
    """Return for each group where its least or greatest value in Spark's order is, -1 where it has no value.

    Parameters
    ----------
    groups
        The group of each row, shape (n,), from 0 up.
    size
        How many groups there are, the length of the result.
    column
        The values, shape (n,); shape (m,) with ``of``.
    greatest
        Whether the greatest is wanted.
    of
        Which value each row has, shape (n,); None where each has its own.
    """
    valid = valid_rows(column)
    rows: npt.NDArray[np.integer[Any]]
    if of is None:
        rows = np.arange(len(groups)) if valid is None else np.flatnonzero(valid)
        groups = groups[rows]
    elif valid is None:
        rows = of
    else:
        some = np.flatnonzero(valid[of])
        rows, groups = of[some], groups[some]
    keys = (order_key(column) if is_exact(column.type) else _ranks(column))[rows]
    best = np.full(size, LOWEST if greatest else HIGHEST)
    (np.maximum if greatest else np.minimum).at(best, groups, keys)
    found = np.full(size, -1, np.int64)
    hits = keys == best[groups]
    found[groups[hits]] = rows[hits]
    return found


def _ranks(column: pa.Array) -> Int64s:
    """Return numbers in the order of the values, for types whose order key is a prefix."""
    return values(pc.rank(column, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
