"""Batches of rows in pieces: cut where they would take too many bytes, and put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def split(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices of at most about ``limit`` bytes each; a row is never cut."""
    if batch.nbytes <= limit:
        if batch.num_rows:
            yield batch
        return
    for piece in cuts(row_sizes(batch, batch.schema.names), limit, batch.num_rows):
        yield batch.slice(piece.start, piece.stop - piece.start)


def cuts(sizes: float | npt.NDArray[np.float64], limit: int, count: int, least: int = 1) -> Iterator[slice]:
    """Cut rows into pieces of at most about ``limit`` bytes and at least some rows each.

    Parameters
    ----------
    sizes
        Bytes of each row, shape (count,), or of any row.
    """
    if not isinstance(sizes, np.ndarray):
        step = max(int(limit / max(sizes, 1)), least)
        yield from (slice(first, min(first + step, count)) for first in range(0, count, step))
        return
    ends = np.cumsum(sizes)
    start = 0
    while start < count:
        before = ends[start - 1] if start else 0
        stop = min(max(int(np.searchsorted(ends, before + limit, "right")), start + least), count)
        yield slice(start, stop)
        start = stop


def row_sizes(
    batch: pa.RecordBatch, names: Sequence[str], rows: npt.NDArray[np.integer[Any]] | None = None
) -> float | npt.NDArray[np.float64]:
    """Return the bytes that some columns of each row have: texts and binaries their own, others the column's mean.

    Parameters
    ----------
    rows
        Which rows, shape (k,); None for all.

    Returns
    -------
    Shape (k,); a single number if there are no texts.
    """
    mean, own = 0.0, []
    for column in (batch.column(name) for name in names):
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            if not len(column):
                continue
            offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
            own.append(np.diff(offsets) if rows is None else offsets[rows + 1] - offsets[rows])
            mean += 4
        else:
            mean += column.nbytes / max(batch.num_rows, 1)
    return np.asarray(np.sum(own, axis=0, dtype=np.float64) + mean) if own else mean


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return several batches of one schema as one."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(list(batches))
