"""Columns of rows that are given by number: what an aggregation asks of them, without a copy of a text for each result.

A row is in as many results as it has partners, and a text taken once a result is its bytes as many times. Whether it is
NULL, whether it equals another and which comes first in the order is found out on the different rows, and the answers
are taken by number; texts themselves are copied for what goes out, and where a store's rows have to be looked at, some
of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..batches.pieces import cuts
from ..kernels.order_keys import Int64s
from ..kernels.sums import extreme_by, valid_rows
from .bundle import Numbers, Part, Rows, encoded, numbered

#: Bytes of a store's rows that are copied at a time, about.
COPIED_BYTES = 32 << 20

#: Texts that cannot be more bytes than these however often a row is there are taken as they are.
FEW_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Picked:
    """A column of some rows that is not taken yet.

    Parameters
    ----------
    source, name
        Where it comes from.
    ids
        Which rows, shape (n,); -1 stands for NULL.
    """

    source: pa.RecordBatch | Rows
    name: str
    ids: Numbers

    @property
    def part(self) -> Part:
        """The rows; any row for NULL."""
        lacking = self.ids < 0
        return Part(self.source, np.where(lacking, self.ids.max(initial=0), self.ids) if lacking.any() else self.ids)

    def most_bytes(self) -> float:
        """Return how many bytes the values cannot exceed."""
        source, count = self.source, len(self.ids)
        if isinstance(source, pa.RecordBatch):
            return float(count * source.column(self.name).nbytes)
        return count * (source.longest + source.row_bytes)

    def slice(self, first: int, length: int) -> Picked:
        """Return some of the rows, as an array does."""
        return Picked(self.source, self.name, self.ids[first : first + length])

    def take(self, rows: pa.Array) -> Picked:
        """Return the rows by number, as an array does."""
        return Picked(self.source, self.name, self.ids[np.asarray(rows)])

    def array(self) -> pa.Array:
        """Return the values, shape (n,)."""
        lacking = self.ids < 0
        if not lacking.any():
            return Part(self.source, self.ids).column(self.name)
        known = np.flatnonzero(~lacking)
        # a store gives no column of no rows
        taken = Part(self.source, self.ids[known] if len(known) else np.zeros(1, np.int64)).column(self.name)
        at = np.zeros(len(self.ids), np.int64)
        at[known] = np.arange(len(known))
        return taken.take(pa.array(at, mask=lacking))

    def extreme(self, groups: Int64s, size: int, *, greatest: bool) -> Picked:
        """Return the least or greatest value of each group, shape (size,); see `Columns.extreme`."""
        known = self.ids >= 0
        if not known.any():
            return Picked(self.source, self.name, np.full(size, -1, np.int64))
        columns = Columns(Part(self.source, self.ids[known]))
        return columns.extreme(self.name, groups[known], size, greatest=greatest)


class Columns:
    """The columns of a part of results.

    Parameters
    ----------
    part
        Which rows, shape (k,), each as often as it is in results.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self._values: dict[str, pa.Array] = {}
        self._different: tuple[Part, Numbers] | None = None

    @property
    def different(self) -> tuple[Part, Numbers]:
        """The rows with few repetitions or none, and which of them each row is, shape (k,)."""
        if self._different is None:
            source, ids = self.part.source, self.part.ids
            if ids is None:
                self._different = self.part, np.arange(len(self.part))
            elif isinstance(source, pa.RecordBatch) and source.num_rows <= len(ids):
                self._different = Part(source), ids
            else:
                rows, of = numbered(np.asarray(ids, np.int64))
                if not isinstance(source, pa.RecordBatch):
                    order = np.argsort(rows)  # its segments one after the other
                    back = np.empty(len(rows), np.int64)
                    back[order] = np.arange(len(rows))
                    rows, of = rows[order], back[of]
                self._different = Part(source, rows), of
        return self._different

    def values(self, name: str) -> pa.Array:
        """Return the value of each row, shape (k,): where `is_taken` says so, or they are numbers."""
        if name not in self._values:
            if self.is_taken([name]):
                self._values[name] = self.part.column(name)
            else:
                rows, of = self.different
                self._values[name] = rows.column(name).take(pa.array(of))
        return self._values[name]

    def valid(self, name: str) -> npt.NDArray[np.bool_] | None:
        """Return which rows' values are not NULL, shape (k,), None if all are."""
        if isinstance(self.part.source, pa.RecordBatch):
            valid = valid_rows(self.part.source.column(name))
            return valid if valid is None or self.part.ids is None else valid[self.part.ids]
        if self.is_taken([name]):
            return valid_rows(self.values(name))
        rows, of = self.different
        found = np.concatenate([np.asarray(column.is_valid()) for _, (column,) in _copied(rows, [name])])
        return None if found.all() else found[of]

    def extreme(self, name: str, groups: Int64s, size: int, *, greatest: bool) -> Picked:
        """Return the least or greatest value of each group, NULL where it has none: see `kernels.sums.extreme_by`."""
        source, ids = self.part.source, self.part.ids
        if self.is_taken([name]):
            rows = extreme_by(groups, size, self.values(name), greatest=greatest)
            return Picked(source, name, rows if ids is None else np.where(rows < 0, -1, ids[rows]))
        different, of = self.different
        best = np.full(size, -1, np.int64)
        for some, (column,) in _copied(different, [name]):
            if len(column) == len(different):
                best = extreme_by(groups, size, column, greatest=greatest, of=of)
                break
            inside = np.flatnonzero((of >= some.start) & (of < some.stop))
            found = extreme_by(groups[inside], size, column, greatest=greatest, of=of[inside] - some.start)
            found[found >= 0] += some.start
            best = _better(different, name, best, found, greatest=greatest)
        return Picked(source, name, best if different.ids is None else np.where(best < 0, -1, different.ids[best]))

    def encoded(self, names: Sequence[str]) -> tuple[Int64s, int]:
        """Return a number for each row, shape (k,), and how many there are.

        Rows with one number are equal in these columns. Equal rows have one number, unless they are of a store and too
        many to be looked at together.
        """
        source = self.part.source
        few = isinstance(source, pa.RecordBatch) and source.num_rows < len(self.part)
        if not few and self.is_taken(names):
            return encoded([self.part.column(name) for name in names], len(self.part))
        rows, of = self.different
        codes, size = [], 0
        for some, columns in _copied(rows, names):
            found, count = encoded(columns, some.stop - some.start)
            codes.append(found + size)
            size += count
        return np.concatenate(codes)[of], size

    def is_taken(self, names: Sequence[str]) -> bool:
        """Return whether each row's values are there, or numbers, or too few for a look at which rows differ."""
        source, ids = self.part.source, self.part.ids
        if ids is None:
            return True
        if not isinstance(source, pa.RecordBatch):
            return len(ids) * (source.longest + source.row_bytes) <= FEW_BYTES
        columns = [source.column(name) for name in names]
        return all(_is_number(column.type) or len(ids) * column.nbytes <= FEW_BYTES for column in columns)


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type_) or pa.types.is_decimal(type_))


def _copied(rows: Part, names: Sequence[str]) -> Iterator[tuple[slice, list[pa.Array]]]:
    """Yield some columns of rows, those of a store at most about `COPIED_BYTES` at a time."""
    source, count = rows.source, len(rows)
    if rows.ids is None:
        yield slice(0, count), [rows.column(name) for name in names]
        return
    if isinstance(source, pa.RecordBatch) or count * (source.longest + source.row_bytes) <= COPIED_BYTES:
        cut = iter([slice(0, count)])
    else:
        cut = cuts(source.row_sizes(rows.ids, names), COPIED_BYTES, count)
    for some in cut:
        yield some, rows.take(names, some).columns


def _better(rows: Part, name: str, one: Int64s, other: Int64s, *, greatest: bool) -> Int64s:
    """Return for each group the better of two rows, -1 for none."""
    best = np.where(one < 0, other, one)
    both = np.flatnonzero((one >= 0) & (other >= 0))
    sizes = rows.at(one[both]).row_sizes([name]) + rows.at(other[both]).row_sizes([name])
    for some in cuts(sizes, COPIED_BYTES, len(both)):
        pair = [side[both[some]] for side in (one, other)]
        count = len(pair[0])
        column = pa.concat_arrays([rows.column(name, side) for side in pair])
        winner = extreme_by(np.tile(np.arange(count), 2), count, column, greatest=greatest)
        best[both[some]] = np.where(winner < count, *pair)
    return best
