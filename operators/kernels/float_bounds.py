"""Bounds of differences of floats, moved across the subtraction without an error.

Spark rounds ``x - y``. Rounding is monotonic, so the numbers y whose rounded difference from one x is within a bound
are still all those up to one number, or from one number on. That number is found here. So an index search decides such
a band by itself, as it does for integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .order_keys import Int64s, float_key, mirrored

Floats = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def closed(limit: float, *, strict: bool, single: bool, below: bool) -> float:
    """Return the outermost difference that a bound allows.

    Parameters
    ----------
    limit
        The constant of the condition.
    strict
        Whether the constant itself is excluded.
    single
        Whether differences have 32 bits.
    below
        True for a bound from below, False for one from above.

    Examples
    --------
    >>> closed(5.0, strict=False, single=False, below=False), closed(5.0, strict=True, single=False, below=False)
    (5.0, 4.999999999999999)
    """
    dtype: Any = np.float32 if single else np.float64
    with np.errstate(over="ignore", under="ignore"):
        near = dtype(limit)
        number = float(near)  # NumPy would compare with the constant rounded to its own digits
        if (number > limit if below else number < limit) or (number == limit and not strict):
            return number
        return float(np.nextafter(near, dtype(np.inf if below else -np.inf)))


def last_within(numbers: Floats, limit: float, *, single: bool, below: bool) -> tuple[Int64s, Mask | None]:
    """Return for each x the order key of the last y whose difference ``x - y`` is within a bound.

    Parameters
    ----------
    numbers
        The x, shape (m,).
    limit
        The bound, finite, as `closed` returns it.
    single
        Whether differences have 32 bits; then the x are float32, and a key may lie between those of two of them.
    below
        True for ``x - y >= limit``, whose last y is the greatest; False for ``x - y <= limit``, whose last y is the
        least.

    Returns
    -------
    The keys, shape (m,), and which x have no such y (NaN, and an infinity), shape (m,); None for no such x.
    """
    dtype: Any = np.float32 if single else np.float64
    x = np.asarray(numbers, dtype)
    limit = limit or -0.0  # so that no difference from it is -0.0
    none = None
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        y = x - dtype(limit)
        # Where the gaps between the y are wider than those around the bound, this is the number, or the one behind it.
        keys = mirrored(y.astype(np.float64, copy=False).view(np.int64))
        size = np.abs(y)
        if below:
            keys -= x - y < limit
        else:
            keys += x - y > limit
        left = np.flatnonzero(~((size >= 4 * abs(limit)) & (size < np.inf)))
        if len(left):
            y, nothing = _last_near(x[left], limit, dtype, below=below)
            keys[left] = float_key(y)
            if nothing.any():
                none = np.zeros(len(x), np.bool_)
                none[left] = nothing
    return keys, none


def _last_near(x: Floats, limit: float, dtype: Any, *, below: bool) -> tuple[Floats, Mask]:
    """Return what `last_within` does, and the y themselves, for x of any size."""
    outwards, inwards = (dtype(np.inf), dtype(-np.inf)) if below else (dtype(-np.inf), dtype(np.inf))

    def within(one: Floats, other: Floats) -> Mask:
        return np.asarray(one - other >= limit if below else one - other <= limit)

    # A difference that is off the bound by half of the gap behind it is still rounded to the bound. Where x is
    # close to the bound, y is as small as that half, so this has to be exact.
    gap = float(np.nextafter(dtype(limit), inwards)) - limit
    wide = x.astype(np.float64)
    moved = wide - limit
    y = (moved + ((wide - (moved + limit)) - gap / 2)).astype(dtype)
    y = np.where(np.isfinite(y), y, dtype(0))
    none = np.zeros(len(x), np.bool_)
    left = np.flatnonzero(~within(x, y) | within(x, np.nextafter(y, outwards)))
    for _ in range(2):  # off by one number as a rule, if at all
        if not len(left):
            return y, none
        some, at = x[left], y[left]
        at = np.where(within(some, at), at, np.nextafter(at, inwards))
        further = np.nextafter(at, outwards)
        beyond = within(some, further)
        y[left] = np.where(beyond, further, at)
        left = left[beyond | ~within(some, at)]
    if len(left):
        y[left], none[left] = _bisect(x[left], within, dtype, below=below)
    return y, none


def _bisect(x: Floats, within: Any, dtype: Any, *, below: bool) -> tuple[Floats, Mask]:
    """Return what `last_within` does, by a search among all floats."""
    ends = np.array([-np.inf, np.inf] if below else [np.inf, -np.inf], dtype)
    first, last = (np.full(len(x), end) for end in ends)
    none = ~within(x, first)
    inside, outside = _places(first, below), _places(last, below)
    for _ in range(8 * dtype().itemsize):
        middle = (inside & outside) + ((inside ^ outside) >> 1)
        good = within(x, _numbers(middle, below))
        inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
    return _numbers(inside, below), none


def _places(numbers: Floats, below: bool) -> Any:
    """Return the place of each number in the order of all floats, counted from above if not ``below``."""
    places = mirrored(numbers.view(f"i{numbers.itemsize}"))
    return places if below else ~places


def _numbers(places: Any, below: bool) -> Floats:
    """Return the numbers at some `_places`."""
    bits = mirrored(places if below else ~places)
    return bits.view(f"f{bits.itemsize}")
