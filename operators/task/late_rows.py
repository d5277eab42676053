"""Rows that came too late: how late they were."""

from __future__ import annotations

import numpy as np

from ..kernels.order_keys import Int64s

_SECOND = 1_000_000

#: How late rows are told apart, each with its limit in microseconds behind the watermark; the rest is `FURTHER`.
LIMITS: dict[str, int] = {
    "1 second": _SECOND,
    "10 seconds": 10 * _SECOND,
    "1 minute": 60 * _SECOND,
    "10 minutes": 600 * _SECOND,
    "1 hour": 3600 * _SECOND,
    "1 day": 86400 * _SECOND,
}
FURTHER = "more"
_LIMITS = np.array(list(LIMITS.values()), np.int64)


def how_late(times: Int64s, watermark: int) -> list[int]:
    """Return how many rows are behind a watermark by how much: one number for each of `LIMITS`, and for the rest.

    Examples
    --------
    >>> how_late(np.array([0, 9_000_000, 10_000_000]), 10_000_000)
    [2, 1, 0, 0, 0, 0, 0]
    """
    found = np.searchsorted(_LIMITS, watermark - times)
    return [int(rows) for rows in np.bincount(found, minlength=len(LIMITS) + 1)]
