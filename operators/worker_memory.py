"""What a worker does about its memory between micro-batches: Python workers live as long as their executor.

Memory that was freed goes back to the machine. Arrow's pool and the C library both keep it for the next allocation.
With several workers on a machine, each of which once had a large micro-batch in hand, that is most of what they hold.
Giving it back costs a tenth of a large micro-batch's time, because it has to be asked for again. So a worker keeps some
of it: the less the warm copy may take, the less.

What a worker has imported is kept out of Python's garbage collection: PySpark collects after every task, before the
worker takes its next one, and walks over all modules each time (44 ms of processor time with pandas and Arrow; a
micro-batch of one stage has five tasks).

That, `settle`, is done only where the driver allows it (`trijoin_sql.spark.liberties`).
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa

#: From this many bytes in a micro-batch on, a look at the C library's memory is worth the milliseconds that it takes.
WORTH = 4 << 20

#: A worker keeps at most this much of its own memory, and at most this share (one over it) of the warm copies' bound.
MOST, SHARE = 256 << 20, 8

#: How many modules this process had imported when their objects were last set aside.
_settled = 0


def settle() -> None:
    """Set aside what is imported, so that a garbage collection does not look at it: modules live on anyway.

    To be called where a task has little else in hand, for what is alive then stays out of collection too. (It is still
    freed when nothing refers to it any more; only cycles among such objects would stay.)
    """
    global _settled
    if len(sys.modules) != _settled:
        gc.collect()
        gc.freeze()
        _settled = len(sys.modules)


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
    if trim is not None and held() > _share(bound):
        trim(0)


def _share(bound: int | None) -> int:
    return MOST if bound is None else min(MOST, bound // SHARE)


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
