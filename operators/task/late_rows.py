"""Rows that came too late: how late they were, and the rows themselves for those who ask for them.

A slot has the columns that the join needs, and those as values of expressions. So where late rows are asked for, Spark
adds to each input a column with the whole row as JSON (`compile.inputs`). The driver says for each micro-batch which
rows may be late; of all others the dispatcher drops that column, and no slot keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..batches.ipc import from_bytes, to_bytes
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

#: What a slot says of a late row: the rank of its stream, its event time and the watermark that it missed
#: (microseconds), and the row as JSON.
SCHEMA = pa.schema([("rank", pa.int32()), ("time", pa.int64()), ("watermark", pa.int64()), ("row", pa.string())])


def how_late(times: Int64s, watermark: int) -> list[int]:
    """Return how many rows are behind a watermark by how much: one number for each of `LIMITS`, and for the rest.

    Examples
    --------
    >>> how_late(np.array([0, 9_000_000, 10_000_000]), 10_000_000)
    [2, 1, 0, 0, 0, 0, 0]
    """
    found = np.searchsorted(_LIMITS, watermark - times)
    return [int(rows) for rows in np.bincount(found, minlength=len(LIMITS) + 1)]


@dataclass(frozen=True, slots=True)
class Late:
    """Late rows of one stream in a slot.

    Parameters
    ----------
    rank
        The stream's.
    times
        Their event times, shape (n,), microseconds.
    rows
        The rows as JSON, None if nobody asks for them.
    """

    rank: int
    times: Int64s
    rows: pa.Array | None = None


def packed(late: list[Late], watermark: int) -> bytes | None:
    """Return what a slot says of its late rows, compressed; None if it has none to say."""
    told = [one for one in late if one.rows is not None and len(one.times)]
    if not told:
        return None
    sizes = [len(one.times) for one in told]
    columns = [
        pa.array(np.repeat([one.rank for one in told], sizes), pa.int32()),
        pa.array(np.concatenate([one.times for one in told])),
        pa.array(np.full(sum(sizes), watermark, np.int64)),
        pa.concat_arrays([one.rows for one in told]),
    ]
    return to_bytes(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), compress=True)


def unpacked(data: bytes) -> pa.RecordBatch:
    """Return the rows of `packed`, with the columns of `SCHEMA`."""
    return from_bytes(data)


def candidates(rows: pa.RecordBatch, column: str, time: str, until: int | None) -> list[pa.RecordBatch]:
    """Return rows without the column that has them as JSON, and apart from them those that may be late, with it.

    Parameters
    ----------
    rows
        Of one stream.
    column, time
        The column with the JSON, and the one with the event time (microseconds).
    until
        The latest event time of a row that may be late, None if nobody asks for late rows.
    """
    plain = rows.drop_columns([column])
    if until is None:
        return [plain]
    late = pc.fill_null(pc.less_equal(rows.column(time), until), False)
    count = pc.sum(late).as_py() or 0
    if not count:
        return [plain]
    return [rows] if count == rows.num_rows else [plain.filter(pc.invert(late)), rows.filter(late)]
