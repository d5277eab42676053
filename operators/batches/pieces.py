"""Batches of rows in pieces: cut where they would take too many bytes, and put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..kernels.order_keys import Int64s, values

#: Bytes of an offset, by the id of the types that have offsets: what they hold may be longer in one row than in others.
_OFFSETS = {
    **{type_.id: 4 for type_ in (pa.string(), pa.binary(), pa.list_(pa.int8()), pa.map_(pa.int8(), pa.int8()))},
    **{type_.id: 8 for type_ in (pa.large_string(), pa.large_binary(), pa.large_list(pa.int8()))},
}


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
    """Return how many bytes some columns take in each row. Texts and the like count as they are, others by their mean.

    "Texts and the like" are strings, binaries, lists, maps, and structs with any of them. Looking at each costs a good
    part of what taking the rows costs; `longest_text` tells whether it is worth it.

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
    lengths = [_lengths(column, rows) for column in texts.values()]
    return np.asarray(np.sum(lengths, axis=0, dtype=np.float64) + mean)


def row_bytes(batch: pa.RecordBatch, names: Sequence[str]) -> float:
    """Return the bytes that some columns of a row have in the mean."""
    return float(sum(batch.column(name).nbytes for name in names) / max(batch.num_rows, 1))


def longest_text(batch: pa.RecordBatch, names: Sequence[str]) -> int:
    """Return about how many bytes the texts and the like of some columns have in one row at most; looks at all rows."""
    return sum(int(_lengths(column).max()) for column in _texts(batch, names).values())


def has_text(batch: pa.RecordBatch, names: Sequence[str]) -> bool:
    """Return whether some columns of a batch with rows are texts or the like."""
    return bool(_texts(batch, names))


def _texts(batch: pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array]:
    columns = {name: batch.column(name) for name in names} if batch.num_rows else {}
    return {name: column for name, column in columns.items() if _width(column.type) is None}


def _width(type_: pa.DataType) -> float | None:
    """Return how many bytes every value of a type has, None if one may have more than another."""
    if type_.id in _OFFSETS:
        return None
    if pa.types.is_struct(type_):
        widths = [_width(type_.field(number).type) for number in range(type_.num_fields)]
        return None if None in widths else sum(width for width in widths if width is not None)
    if pa.types.is_fixed_size_list(type_):
        width = _width(type_.value_type)
        return None if width is None else width * type_.list_size
    fixed = pa.types.is_primitive(type_) or pa.types.is_decimal(type_) or pa.types.is_fixed_size_binary(type_)
    return type_.bit_width / 8 if fixed else 0  # NULLs, and types that Spark never sends


def _lengths(column: pa.Array, rows: npt.NDArray[np.integer[Any]] | None = None) -> npt.NDArray[Any]:
    """Return the bytes of each value of a column of texts or the like, or of some rows, without their offsets."""
    if rows is not None:
        first: Int64s = rows.astype(np.int64, copy=False)
        return np.asarray(_before(column, first + 1) - _before(column, first))
    if not pa.types.is_nested(column.type):
        return np.diff(_offsets(column))
    return np.diff(_before(column, np.arange(len(column) + 1)))


def _before(column: pa.Array, rows: Int64s) -> npt.NDArray[Any]:
    """Return how many bytes of a column, its own offsets apart, are before some rows, counted from anywhere.

    The values of a list are the rows from one offset to the next of another column; so nothing but these rows is
    looked at, however long the lists are.
    """
    type_ = column.type
    width = _width(type_)
    if width is not None:
        return rows * width
    if pa.types.is_struct(type_):
        parts = [_nested(column.field(number), rows) for number in range(type_.num_fields)]
        return np.asarray(np.sum(parts, axis=0))
    if pa.types.is_fixed_size_list(type_):
        return _nested(column.values, (rows + column.offset) * type_.list_size)
    offsets = _offsets(column)[rows]
    return _nested(column.values, offsets.astype(np.int64)) if pa.types.is_nested(type_) else offsets


def _nested(column: pa.Array, rows: Int64s) -> npt.NDArray[Any]:
    """Return the same with the column's offsets."""
    return _before(column, rows) + rows * _OFFSETS.get(column.type.id, 0)


def _offsets(column: pa.Array) -> npt.NDArray[Any]:
    """Return where values begin, and where the last one ends, shape (n + 1,)."""
    if not len(column):  # then there may be no buffer
        return np.zeros(1, np.int64)
    numbers = np.frombuffer(column.buffers()[1], np.int32 if _OFFSETS[column.type.id] == 4 else np.int64)
    return numbers[column.offset : column.offset + len(column) + 1]


def combined(batches: Iterable[pa.RecordBatch], limit: int, rows: float = inf) -> Iterator[pa.RecordBatch]:
    """Put small batches of one schema together, up to about ``limit`` bytes or a number of rows each."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        waiting.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count >= rows or size >= limit:
            yield concat(waiting)
            waiting, count, size = [], 0, 0
    if waiting:
        yield concat(waiting)


def concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return several batches of one schema as one; a single one as it is."""
    return batches[0] if len(batches) == 1 else copied(batches)


def copied(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return a copy of the rows of one or more batches of one schema as one batch."""
    if hasattr(pa, "concat_batches"):  # since PyArrow 19
        return pa.concat_batches(list(batches))
    rows = pa.concat_arrays([batch.to_struct_array() for batch in batches])
    # The struct's own fields are all nullable, and without columns only it knows how many rows there are.
    schema = batches[0].schema
    return (
        pa.RecordBatch.from_arrays(rows.flatten(), schema=schema) if schema else pa.RecordBatch.from_struct_array(rows)
    )


def list_parts(column: pa.ListArray) -> tuple[npt.NDArray[np.int64], Int64s]:
    """Return offsets (shape (n + 1,), from 0) and values of a list<int64> column, for whichever slice it is."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    offsets = offsets.astype(np.int64) if len(offsets) else np.zeros(1, np.int64)
    items = values(column.values)[int(offsets[0]) : int(offsets[-1])]
    return offsets - offsets[0], items
