"""What a scheme gives: results, blocks of them, and what other units have to see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import pyarrow as pa

from .bundle import Bundle, Part, numbered, pieces

#: Bytes of results that are put together at a time. A block of index ranges may hold a million of them.
RESULT_BYTES = 4 << 20

#: So few results are put together where no text makes them many bytes.
_FEW = 256


@dataclass(slots=True)
class Result:
    """Joined rows: for each rank a batch of the same length k, with at least the columns that the output needs."""

    parts: dict[int, pa.RecordBatch]

    def __len__(self) -> int:
        return int(next(iter(self.parts.values())).num_rows)


def joined(parts: Mapping[int, Part], listed: Sequence[Sequence[str]]) -> Iterator[Result]:
    """Yield the results that consist of some rows of each stream, at most about `RESULT_BYTES` at a time.

    Parameters
    ----------
    parts
        By rank: which rows, shape (k,) each.
    listed
        By rank: the columns that results have.
    """
    count = max(len(part) for part in parts.values())
    if not count:
        return
    few = count <= _FEW and count * sum(_longest(part, listed[rank]) for rank, part in parts.items()) <= RESULT_BYTES
    whole = {rank: (part, listed[rank]) for rank, part in parts.items()}
    for some in (slice(0, count),) if few else pieces(whole, RESULT_BYTES, _FEW):
        yield Result({rank: part.take(listed[rank], some) for rank, part in parts.items()})


def _longest(part: Part, names: Sequence[str]) -> float:
    """Return how many bytes of text some columns of few rows have at most, or all bytes of one of them."""
    longest = part.longest(names)
    return longest if isfinite(longest) else float(np.max(part.row_sizes(names)))


def listed(bundle: Bundle, columns: Sequence[Sequence[str]]) -> Iterator[Result]:
    """Yield the results of a bundle one by one; ``columns`` are those that results have, by rank."""
    for parts, _ in bundle.listed():
        yield from joined(parts, columns)


@dataclass(slots=True)
class Pack:
    """Packed intermediate results on their way to another unit: hub rows, and the rows packed with each.

    Parameters
    ----------
    rank, member_rank
        The hub stream and the other one.
    hubs
        Rows of the hub stream with a `MEMBERS` column of positions in ``members``.
    members
        Rows of the other stream.
    """

    rank: int
    hubs: pa.RecordBatch
    member_rank: int
    members: pa.RecordBatch


@dataclass(slots=True)
class Partial:
    """Joined rows of some of the streams on their way to the next stage, with columns as `partial_name` calls them.

    Parameters
    ----------
    rows
        The rows, with a route of their own.
    """

    rows: pa.RecordBatch


@dataclass(slots=True)
class PartialBlock:
    """Joined rows of some of the streams on their way to the units that store a further one.

    Parameters
    ----------
    start
        The stream whose rows arrived: they, and what they have found, are joined with what was there before.
    parts
        By rank: rows of a batch, shape (k,).
    stays
        Whether the next stage has nothing to join it with, and this slot there sends it on.
    """

    start: int
    parts: dict[int, Part]
    stays: bool = False

    def __len__(self) -> int:
        return len(self.parts[self.start])

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return sum(part.source.nbytes + 4 * len(part) for part in self.parts.values())  # type: ignore[union-attr]

    def some(self, few: slice) -> PartialBlock:
        """Return some of them, with no other rows than theirs."""
        parts = {}
        for rank, part in self.parts.items():
            assert isinstance(part.source, pa.RecordBatch)
            assert part.ids is not None
            different, places = numbered(part.ids[few].astype(np.int64, copy=False))
            parts[rank] = Part(part.source.take(pa.array(different)), places)
        return PartialBlock(self.start, parts, self.stays)


@dataclass(slots=True)
class Forwarded:
    """Rows of a stream, with their route, that a slot needs once more in the next stage."""

    rank: int
    rows: pa.RecordBatch


@dataclass(slots=True)
class Reduced:
    """Groups and states of results, under the names of the output."""

    rows: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.rows.num_rows)


Outcome = Result | Bundle | Reduced | Pack | Partial | PartialBlock | Forwarded
