"""Memory that a worker has freed goes back to the machine: Python workers live as long as their executor.

Arrow's pool and the C library both keep what was freed for the next allocation. With several workers on a machine, each
of which once had a large micro-batch in hand, that is most of what they hold. To give it back costs a tenth of a large
micro-batch's time, as it has to be asked for anew; so a worker keeps some, the less the tighter the bound of the warm
copy is.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa

#: From so many bytes in a micro-batch on a look at the C library's memory is worth the milliseconds that it takes.
WORTH = 4 << 20

#: A worker holds on to this much of its own at most, and to this share of what the warm copies may take.
MOST, SHARE = 256 << 20, 8


def release(handled: int, bound: int | None) -> None:
    """Give back what is free, if this process holds much.

    Parameters
    ----------
    handled
        Bytes that went through this worker's hands since the last call.
    bound
        Bytes that the warm copies of the machine may take, None for any number.
    """
    pa.default_memory_pool().release_unused()
    trim = _trim() if handled >= WORTH else None
    if trim is not None and held() > min(MOST, MOST if bound is None else bound // SHARE):
        trim(0)


def held() -> int:
    """Return the bytes of memory that this process has for itself: no pages of mapped files."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


@cache
def _trim() -> Callable[[int], int] | None:
    """Return the C library's ``malloc_trim``, None where there is none (macOS, musl)."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
        held()
    except (OSError, AttributeError, TypeError, ValueError):
        return None
    return found
