"""Pairs of row numbers: from ranges of an index, and through the predicates that the index did not decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import JoinOverflowError
from ..checks import AnyOf, Band, Check, Compare
from .order_keys import HIGHEST, LOWEST, Int64s, is_exact, order_key, values

Mask = npt.NDArray[np.bool_]

#: Gives a column of the rows of pairs: of all of them, or of those with some numbers.
Take = Callable[[str, Int64s | None], pa.Array]

#: Pairs that are looked at in one go; bounds the memory of a probe (about 100 bytes a pair).
BLOCK = 1 << 20

#: Bytes of two integers together whose difference has no more bits than int64.
_NARROW = 8

#: Also Arrow's names of the same comparisons.
_NUMPY = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def expand(begin: Int64s, end: Int64s, block: int = BLOCK) -> Iterator[tuple[Int64s, Int64s]]:
    """Turn half-open ranges into pairs.

    Parameters
    ----------
    begin, end
        Shape (m,): the range of positions that probe row i matches.
    block
        At most about this many pairs are given at a time (more if a single range is longer).

    Yields
    ------
    ``(probe, position)``, both of shape (k,), ordered by probe.
    """
    counts = np.maximum(end - begin, 0)
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    first = 0
    while total:
        done = int(ends[first - 1]) if first else 0
        last = len(counts) if total - done <= block else max(int(np.searchsorted(ends, done + block)), first + 1)
        some = counts[first:last]
        size = int(ends[last - 1]) - done
        if size:
            probe = repeated(ends[first:last] - done)
            position = (begin[first:last] - (ends[first:last] - some - done))[probe]  # faster than to repeat that, too
            position += np.arange(size)
            probe += first
            yield probe, position
        first = last
        if first >= len(counts):
            return


def repeated(ends: Int64s) -> Int64s:
    """Return each number as often as it has a place before its end: ``np.repeat``, in a quarter of its time.

    Parameters
    ----------
    ends
        Shape (n,): where the places of each number end, none if with those of the one before.

    Examples
    --------
    >>> repeated(np.array([2, 2, 5])).tolist()
    [0, 0, 2, 2, 2]
    """
    size = int(ends[-1]) if len(ends) else 0
    return np.cumsum(np.bincount(ends, minlength=size + 1)[:size])


def fulfilling(check: Check, left: Take, right: Take, count: int) -> Mask:
    """Return which of `count` pairs of rows fulfil a predicate.

    Parameters
    ----------
    left, right
        Give a column of the left or the right rows of all pairs, or of some of them, by their numbers.
    """
    if not isinstance(check, AnyOf):
        return evaluate(check, left(check.left, None), right(check.right, None))
    taken = np.zeros(count, np.bool_)
    for branch in check.branches:  # as Spark does: on pairs that no branch before it took
        some = np.flatnonzero(~taken)
        for one in branch.checks:
            if not len(some):
                break
            some = some[fulfilling(one, _among(left, some), _among(right, some), len(some))]
        taken[some] = True
    return ~taken if check.negated else taken


def _among(take: Take, some: Int64s) -> Take:
    return lambda column, at: take(column, some if at is None else some[at])


def evaluate(check: Compare | Band, left: pa.Array, right: pa.Array, among: Mask | None = None) -> Mask:
    """Evaluate one predicate on aligned values, with Spark's semantics; NULL counts as false.

    Parameters
    ----------
    check
        The predicate.
    left, right
        Shape (k,), of one type.
    among
        Shape (k,): which pairs fulfil the predicates before this one, all if None. Spark does not evaluate it on
        others, so they do not overflow.

    Raises
    ------
    JoinOverflowError
        If a difference leaves its type.
    """
    if isinstance(check, Compare) and check.op == "<=>":
        return _null_safe(left, right)
    valid: Mask | None = among
    for side in (left, right):
        if side.null_count:
            here = np.asarray(side.is_valid())
            valid = here if valid is None else valid & here
    result = _compare(check, left, right) if isinstance(check, Compare) else _band(check, left, right, valid)
    return result if valid is None else result & valid


def _compare(check: Compare, left: pa.Array, right: pa.Array) -> Mask:
    if is_exact(left.type) and is_exact(right.type):
        return np.asarray(_NUMPY[check.op](order_key(left), order_key(right)))
    compared = pc.call_function(_NUMPY[check.op].__name__, [left, right])
    return np.asarray(pc.fill_null(compared, False))


def _null_safe(left: pa.Array, right: pa.Array) -> Mask:
    equal = _compare(Compare("=", "", ""), left, right)
    valid_left, valid_right = np.asarray(left.is_valid()), np.asarray(right.is_valid())
    return np.asarray((equal & valid_left & valid_right) | (~valid_left & ~valid_right))


def _band(check: Band, left: pa.Array, right: pa.Array, valid: Mask | None) -> Mask:
    if check.arithmetic == "int":
        return _int_band(check, _integers(left), _integers(right), valid)
    dtype = np.float32 if check.arithmetic == "float32" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        difference = (values(left).astype(dtype) - values(right).astype(dtype)).astype(np.float64)
    nan = np.isnan(difference)  # Spark: NaN is above every number
    result = np.ones(len(difference), np.bool_)
    if check.lower is not None:
        result &= difference > check.lower if check.lower_strict else difference >= check.lower
    if check.upper is not None:
        result &= difference < check.upper if check.upper_strict else difference <= check.upper
    return np.asarray(result | nan if check.nan else result & ~nan)


def _integers(column: pa.Array) -> npt.NDArray[Any]:
    """Return a column's numbers, as they are where they have 32 bits at most, else as order keys."""
    type_ = column.type
    narrow = pa.types.is_date32(type_) or (pa.types.is_signed_integer(type_) and type_.bit_width <= 32)
    return values(column) if narrow else order_key(column)


def _int_band(check: Band, a: npt.NDArray[Any], b: npt.NDArray[Any], valid: Mask | None) -> Mask:
    if not len(a):
        return np.zeros(0, np.bool_)
    narrow = a.itemsize + b.itemsize <= _NARROW
    if narrow or (int(a.min()) - int(b.max()) >= LOWEST and int(a.max()) - int(b.min()) <= HIGHEST):
        return _plain_band(check, np.subtract(a, b, dtype=np.int64), valid)
    return _wide_band(check, a, b, valid)


def _plain_band(check: Band, difference: Int64s, valid: Mask | None) -> Mask:
    """Evaluate a band on differences that did not wrap around, in few passes; they are overwritten."""
    if check.limits is not None:
        low, high = check.limits
        if int(difference.min()) < low or int(difference.max()) > high:
            outside = (difference < low) | (difference > high)
            if (outside if valid is None else outside & valid).any():
                raise JoinOverflowError(check.sql, check.type_name)
    lower = LOWEST if check.lower is None else max(int(check.lower), LOWEST)
    upper = HIGHEST if check.upper is None else min(int(check.upper), HIGHEST)
    if lower > upper:
        return np.zeros(len(difference), np.bool_)
    difference -= lower  # what is below, or was above by more than int64 has, is a large number without a sign
    return np.asarray(difference.view(np.uint64) <= np.uint64(upper - lower))


def _wide_band(check: Band, a: Int64s, b: Int64s, valid: Mask | None) -> Mask:
    """Evaluate a band on integers whose difference may have 65 bits."""
    with np.errstate(over="ignore"):
        difference = a - b
    wrapped = ((a ^ b) & (a ^ difference)) < 0
    if check.limits is not None:
        outside = _outside(a, difference, wrapped, *check.limits)
        if (outside if valid is None else outside & valid).any():
            raise JoinOverflowError(check.sql, check.type_name)
    result = np.ones(len(difference), np.bool_)
    if not wrapped.any():
        if check.lower is not None:
            result &= difference >= check.lower
        if check.upper is not None:
            result &= difference <= check.upper
        return result
    # 65 bits: the difference's sign and its magnitude, which comparisons with Python's integers take exactly.
    above = a >= b
    with np.errstate(over="ignore"):
        size = np.where(above, difference, -difference).view(np.uint64)
    if check.lower is not None:
        result &= above & (size >= check.lower) if check.lower > 0 else above | (size <= -check.lower)
    if check.upper is not None:
        result &= ~above & (size >= -check.upper) if check.upper < 0 else ~above | (size <= check.upper)
    return result


def _outside(a: Int64s, difference: Int64s, wrapped: Mask, low: int, high: int) -> Mask:
    """Return which differences are below ``low`` or above ``high``; those that wrapped around are off by 2^64."""
    found = (difference < low) | (difference > high)
    if not wrapped.any():
        return np.asarray(found)
    up = (difference < low - (1 << 64)) | (difference > high - (1 << 64))
    down = (difference < low + (1 << 64)) | (difference > high + (1 << 64))
    return np.where(wrapped, np.where(a >= 0, up, down), found)
