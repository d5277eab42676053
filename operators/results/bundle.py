"""Results that are not listed: rows of all streams but one, each with a list or a range of that one's rows.

A scheme that keeps packs, or that finds partners as a range of an index, has its results in this form before it lists
them. Where the query only counts and sums them, they never are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..batches.pieces import cuts, has_text, longest_text, row_bytes, row_sizes
from ..kernels.order_keys import Int64s, values
from ..kernels.pairs import expand

#: A piece that is cut by the mean size of a row may have this many times the bytes that it should. Where it could have
#: more, the size of each row is looked at.
_MUCH = 8

#: A batch that has more rows than this for each result is not searched for its longest text.
_FAR_MORE = 4

#: Numbers whose range is less than this many times their count are told apart by an array of marks, others by hashing.
_DENSE = 4

#: Row numbers: positions are int64, those that an index gives int32.
Numbers = npt.NDArray[np.integer[Any]]


class Rows(Protocol):
    """Something that rows are taken from by number: a store."""

    def take(self, ids: Any, columns: Sequence[str]) -> pa.RecordBatch:
        """Return rows, with some of their columns."""
        ...

    def row_sizes(self, ids: Any, columns: Sequence[str]) -> float | npt.NDArray[np.float64]:
        """Return how many bytes some columns of each row have."""
        ...

    @property
    def row_bytes(self) -> float:
        """Return how many bytes a row has in the mean."""
        ...

    @property
    def longest(self) -> int:
        """Return how many bytes of text a row has at most."""
        ...


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one stream in results: which rows of a batch or a store, shape (k,); None for a whole batch."""

    source: pa.RecordBatch | Rows
    ids: Numbers | None = None

    def __len__(self) -> int:
        if self.ids is not None:
            return len(self.ids)
        assert isinstance(self.source, pa.RecordBatch)
        return int(self.source.num_rows)

    def column(self, name: str, rows: Numbers | None = None) -> pa.Array:
        """Return a column, of all rows or of some."""
        ids = self.ids if rows is None else rows if self.ids is None else self.ids[rows]
        if isinstance(self.source, pa.RecordBatch):
            whole = self.source.column(name)
            return whole if ids is None else whole.take(pa.array(ids))
        assert ids is not None
        return self.source.take(ids, [name]).column(0)

    def take(self, names: Sequence[str], some: slice) -> pa.RecordBatch:
        """Return some columns of some of the rows."""
        if self.ids is not None:
            ids = self.ids[some]
            if isinstance(self.source, pa.RecordBatch):
                return self.source.select(list(names)).take(pa.array(ids))
            return self.source.take(ids, names)
        assert isinstance(self.source, pa.RecordBatch)
        return self.source.select(list(names)).slice(some.start, some.stop - some.start)

    def row_bytes(self, names: Sequence[str]) -> float:
        """Return how many bytes some columns of a row have in the mean."""
        return row_bytes(self.source, names) if isinstance(self.source, pa.RecordBatch) else self.source.row_bytes

    def longest(self, names: Sequence[str]) -> float:
        """Return how many bytes of text some columns of a row have at most; infinity where that is not worth a look."""
        if not isinstance(self.source, pa.RecordBatch):
            return self.source.longest
        if not has_text(self.source, names):
            return 0
        return longest_text(self.source, names) if self.source.num_rows <= _FAR_MORE * len(self) else inf

    def row_sizes(self, names: Sequence[str]) -> float | npt.NDArray[np.float64]:
        """Return how many bytes some columns of each row have, shape (k,); a single number if there are no texts."""
        if isinstance(self.source, pa.RecordBatch):
            return row_sizes(self.source, names, self.ids)
        return self.source.row_sizes(self.ids, names)

    def at(self, rows: Numbers) -> Part:
        """Return some of the rows."""
        return Part(self.source, rows if self.ids is None else self.ids[rows])


def pieces(parts: Mapping[int, tuple[Part, Sequence[str]]], limit: int, least: int = 1) -> Iterator[slice]:
    """Cut results, some columns of rows of each stream, into pieces of at most about ``limit`` bytes.

    By the mean, where no text can make a piece much larger than that; else by what each row has.
    """
    count = max(len(part) for part, _ in parts.values())
    mean = sum(part.row_bytes(names) for part, names in parts.values())
    longest = sum(part.longest(names) for part, names in parts.values())
    if longest * max(limit / max(mean, 1), least) <= _MUCH * limit:
        return cuts(mean, limit, count, least)
    sizes = [part.row_sizes(names) for part, names in parts.values()]
    return cuts(sum(sizes[1:], sizes[0]), limit, count)


def encoded(columns: Sequence[pa.Array], length: int) -> tuple[Int64s, int]:
    """Return a number for each row, the same for rows with equal columns, and how many numbers there are.

    Columns and numbers have the shape (length,). Rows of a type that cannot be compared (arrays, structs) are all
    different.
    """
    codes, size = np.zeros(length, np.int64), 1
    for column in columns:
        if pa.types.is_nested(column.type):
            return np.arange(length), length
        found = pc.dictionary_encode(column, null_encoding="encode")
        some = max(len(found.dictionary), 1)
        codes, size = codes * some + values(found.indices), size * some
        if size > max(4 * length, 1 << 16):
            codes, size = compressed(codes)
    return codes, size


def numbered(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Return the different numbers, and which of them each is, shape (n,)."""
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, -1)
    if high - low < _DENSE * len(numbers):  # a mark for each is several times faster than hashing
        places = numbers - low
        used = np.zeros(high - low + 1, np.bool_)
        used[places] = True
        return np.flatnonzero(used) + low, (np.cumsum(used) - 1)[places]
    found = pa.array(numbers).dictionary_encode()
    return values(found.dictionary), values(found.indices).astype(np.int64)


def compressed(codes: Int64s) -> tuple[Int64s, int]:
    """Return numbers, shape (n,), as others from 0 up without gaps, and how many different ones there are."""
    different, codes = numbered(codes)
    return codes, len(different)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Results of which one stream's rows are not listed.

    Parameters
    ----------
    parts
        By rank: the rows of the other streams, shape (k,) each.
    rank
        The stream that is not listed.
    members, positions
        Its rows, and the order in which lists and ranges refer to them, shape (n,).
    begin, end
        The half-open range of ``positions`` of each of the k rows.
    lists
        For packs, ``(offsets, of)``: the lists, and which of them each row has. Then many rows share a list.
    """

    parts: dict[int, Part]
    rank: int
    members: pa.RecordBatch | Rows
    positions: Numbers
    begin: Int64s
    end: Int64s
    lists: tuple[Int64s, Numbers] | None = None

    @classmethod
    def of_packs(
        cls,
        parts: dict[int, Part],
        rank: int,
        members: pa.RecordBatch | Rows,
        positions: Numbers,
        offsets: Int64s,
        of: Numbers,
    ) -> Bundle:
        """Return results whose k rows have the list ``of`` each, shape (k,): list i is ``offsets[i:i + 2]``."""
        return cls(parts, rank, members, positions, offsets[of], offsets[of + 1], (offsets, of))

    @classmethod
    def of_rows(
        cls, parts: dict[int, Part], rank: int, members: pa.RecordBatch | Rows, positions: Numbers, of: Int64s
    ) -> Bundle:
        """Return results, shape (n,), n > 0, told by row: result i has row ``of[i]`` of the parts, in that order."""
        counts = np.bincount(of - of[0])
        used = np.flatnonzero(counts)
        offsets = np.append(np.zeros(1, np.int64), np.cumsum(counts[used]))
        found = {other: part.at(used + of[0]) for other, part in parts.items()}
        return cls.of_packs(found, rank, members, positions, offsets, np.arange(len(used)))

    @property
    def counts(self) -> Int64s:
        """How many results each row stands for."""
        return self.end - self.begin

    def __len__(self) -> int:
        return int(self.counts.sum())

    def distinct(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return the different lists that rows have, as begin and end, and which of them each row has."""
        if self.lists is not None:
            offsets, of = self.lists
            used = np.zeros(len(offsets) - 1, np.bool_)
            used[of] = True
            rows = np.flatnonzero(used)
            return offsets[rows], offsets[rows + 1], (np.cumsum(used) - 1)[of]
        both = self.begin * np.int64(len(self.positions) + 1) + self.end
        different, of = numbered(both)
        return *np.divmod(different, len(self.positions) + 1), of

    def listed(self) -> Iterator[tuple[dict[int, Part], int]]:
        """Yield the results one by one after all, a block at a time: rows by rank, and how many."""
        for row, position in expand(self.begin, self.end):
            parts = {rank: part.at(row) for rank, part in self.parts.items()}
            parts[self.rank] = Part(self.members, self.positions[position])
            yield parts, len(row)

    def _some(self, first: int, last: int) -> Bundle:
        """Return the results of some rows."""
        some = np.arange(first, last)
        lists = None if self.lists is None else (self.lists[0], self.lists[1][some])
        parts = {rank: part.at(some) for rank, part in self.parts.items()}
        return Bundle(parts, self.rank, self.members, self.positions, self.begin[some], self.end[some], lists)

    def sendable(self, columns: Sequence[Sequence[str]], limit: int) -> Iterator[tuple[Bundle, bool]]:
        """Yield pieces for another worker, and whether each holds copies of what it needs and nothing else.

        One that does not is better sent as a list of results: it has about as many as rows, or more bytes than allowed.

        Parameters
        ----------
        columns
            By rank: the columns that results have.
        limit
            Bytes of a piece, about.
        """
        for some in pieces({rank: (part, columns[rank]) for rank, part in self.parts.items()}, limit // 2):
            yield from self._some(some.start, some.stop)._sendable(columns, limit // 2)

    def _sendable(self, columns: Sequence[Sequence[str]], limit: int) -> Iterator[tuple[Bundle, bool]]:
        begin, end, of = self.distinct()
        if len(self) < 2 * len(of):
            yield self, False
            return
        copied = self._copied(columns, limit, begin, end, of)
        if copied is not None:
            yield copied, True
        elif len(of) > 1:
            for some in (slice(0, len(of) // 2), slice(len(of) // 2, len(of))):
                yield from self._some(some.start, some.stop)._sendable(columns, limit)
        else:
            yield self, False

    def _copied(
        self, columns: Sequence[Sequence[str]], limit: int, begin: Int64s, end: Int64s, of: Int64s
    ) -> Bundle | None:
        """Return the results with copies of what they need, None if lists or rows have more bytes than allowed."""
        if int((end - begin).sum()) * 4 > limit:
            return None
        ids = np.concatenate([self.positions[position] for _, position in expand(begin, end)])
        different, positions = numbered(ids)
        members = Part(self.members, different)
        if len(different) * members.row_bytes(columns[self.rank]) > limit:
            return None
        parts = {rank: Part(part.take(columns[rank], slice(0, len(of)))) for rank, part in self.parts.items()}
        rows = members.take(columns[self.rank], slice(0, len(different)))
        offsets = np.append(np.zeros(1, np.int64), np.cumsum(end - begin))
        return Bundle.of_packs(parts, self.rank, rows, positions, offsets, of)
