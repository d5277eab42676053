"""Memory that a worker has freed goes back to the machine: Python workers live as long as their executor.

Arrow's pool and the C library both keep what was freed for the next allocation. With several workers on a machine, each
of which once had a large micro-batch in hand, that is most of what they hold.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import pyarrow as pa

#: From so many bytes in a micro-batch on a look at the C library's memory is worth the milliseconds that it takes.
WORTH = 4 << 20


def release(handled: int) -> None:
    """Give back what is free.

    Parameters
    ----------
    handled
        Bytes that went through this worker's hands since the last call.
    """
    pa.default_memory_pool().release_unused()
    trim = _trim() if handled >= WORTH else None
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """Return the C library's ``malloc_trim``, None where there is none (macOS, musl)."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found
