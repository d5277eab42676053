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
        Shape (k,), or None for 1 each.
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
        floats = values(column).astype(np.float64)
        total = np.zeros(size, np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.at(total, groups, floats if weights is None else floats * weights)
        return pa.array(total, mask=nothing)
    digits = precision if pa.types.is_decimal128(column.type) else None
    numbers = _unscaled(column)
    small = None if numbers is None else _small_total(numbers, weights)
    if small is not None:
        return as_sum(_added(groups, size, small), nothing, digits, scale, sql)
    type_ = pa.int64() if digits is None else pa.decimal128(digits, scale)
    return _wide_total(groups, size, column, weights, type_, sql)


def _unscaled(column: pa.Array) -> Int64s | None:
    """Return integers, or decimals without their point, as int64; None for all others, and for decimals too wide."""
    if pa.types.is_integer(column.type):
        return values(column).astype(np.int64)
    if pa.types.is_decimal128(column.type) and column.type.precision <= 18:
        return decimal_words(column)[:, 0]
    return None


def _small_total(numbers: Int64s, weights: Int64s | None) -> Int64s | None:
    """Return numbers times weights if no sum of them can leave int64, else None."""
    if not len(numbers):
        return numbers
    largest = max(int(numbers.max()), -int(numbers.min()))
    times = len(numbers) if weights is None else int(weights.sum())
    if largest * times > HIGHEST:
        return None
    return numbers if weights is None else numbers * weights


def _wide_total(
    groups: Int64s, size: int, column: pa.Array, weights: Int64s | None, type_: pa.DataType, sql: str
) -> pa.Array:
    """Return sums that int64 need not hold: they are decimals of 76 digits on the way."""
    scale = column.type.scale if pa.types.is_decimal(column.type) else 0
    numbers = column.cast(pa.decimal256(38, scale))
    if weights is not None:
        numbers = pc.multiply(numbers, pa.array(weights).cast(pa.decimal256(19, 0)))
    table = pa.table({"group": groups, "number": numbers})
    found = table.group_by("group", use_threads=False).aggregate([("number", "sum")]).combine_chunks()
    try:
        totals = found["number_sum"].cast(type_).combine_chunks()
    except pa.ArrowInvalid:
        raise _overflow(type_, sql) from None
    at = np.full(size, -1)
    at[found["group"].to_numpy()] = np.arange(found.num_rows)
    return totals.take(pa.array(at, mask=at < 0))


def _overflow(type_: pa.DataType, sql: str) -> JoinOverflowError:
    told = f"decimal({type_.precision},{type_.scale})" if pa.types.is_decimal(type_) else "bigint"
    return JoinOverflowError(f"SUM({sql})", told)


def whole_numbers(column: pa.Array) -> Int64s | None:
    """Return integers, or decimals without their point, whose running total stays in int64; None for all others."""
    numbers = _unscaled(column)
    if numbers is None:
        return None
    if column.null_count:
        numbers = np.where(np.asarray(column.is_valid()), numbers, 0)
    return _small_total(numbers, None)


def as_sum(totals: Int64s, nothing: npt.NDArray[np.bool_], precision: int | None, scale: int, sql: str) -> pa.Array:
    """Return totals of `whole_numbers` as `sum_by` returns them, NULL where there is nothing."""
    if precision is None:
        return pa.array(totals, mask=nothing)
    if 10**precision <= HIGHEST and (np.abs(totals) >= 10**precision).any():
        raise _overflow(pa.decimal128(precision, scale), sql)
    words = np.ascontiguousarray(np.stack([totals, totals >> np.int64(63)], axis=1))
    validity = pa.py_buffer(np.packbits(~nothing, bitorder="little").tobytes())
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(totals), [validity, pa.py_buffer(words)])


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
