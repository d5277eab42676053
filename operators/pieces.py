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

    It costs a good part of what taking the rows costs; see `longest_text` for when it is worth it.

    Parameters
    ----------
    rows
        Which rows, shape (k,); None for all.

    Returns
    -------
    Shape (k,); a single number if there are no texts.
    """
    texts = _texts(batch, names)
    mean = row_bytes(batch, [name for name in names if name not in texts]) + 4 * len(texts)
    if not texts:
        return mean
    found = [_offsets(column) for column in texts.values()]
    lengths = [np.diff(offsets) if rows is None else offsets[rows + 1] - offsets[rows] for offsets in found]
    return np.asarray(np.sum(lengths, axis=0, dtype=np.float64) + mean)


def row_bytes(batch: pa.RecordBatch, names: Sequence[str]) -> float:
    """Return the bytes that some columns of a row have in the mean."""
    return float(sum(batch.column(name).nbytes for name in names) / max(batch.num_rows, 1))


def longest_text(batch: pa.RecordBatch, names: Sequence[str]) -> int:
    """Return how many bytes of text and binaries some columns of one row have at most, about: a look at all lengths."""
    return sum(int(np.diff(_offsets(column)).max()) for column in _texts(batch, names).values())


def has_text(batch: pa.RecordBatch, names: Sequence[str]) -> bool:
    """Return whether some columns of a batch with rows are texts or binaries."""
    return bool(_texts(batch, names))


def _texts(batch: pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array]:
    columns = {name: batch.column(name) for name in names} if batch.num_rows else {}
    return {
        name: column
        for name, column in columns.items()
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    }


def _offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return several batches of one schema as one."""
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(list(batches))
