"""Results of a unit reduced to groups and states before they leave it (BiStream's local views, 003 section 3.4.2).

Whatever a scheme finds in a micro-batch comes here, a block at a time: results one by one (`Result`), or as `Bundle`s,
in which one stream's rows are not listed but stand as lists of members (packs) or ranges of an index. A bundle is
counted and summed without listing its results; it is listed where a key or an extreme is over its members.

What comes out are partial groups: Spark merges those of all units and micro-batches, so a group may come out more than
once, and its key in any form that Spark takes for the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..batches.pieces import concat
from ..kernels.order_keys import Int64s
from ..kernels.pairs import BLOCK, expand
from ..kernels.sums import as_sum, count_by, extreme_by, sum_by, whole_numbers
from ..spec import AggregateSpec, StateSpec
from .bundle import Bundle, Part, compressed, encoded, pieces
from .columns import Columns, Picked
from .outcomes import Outcome, Reduced, Result

#: How many groups may wait before they are merged. If as many as the second number are left then, they are given out.
WAITING, MANY = 1 << 18, 1 << 17

#: Bytes of groups that may wait, and of one batch of them. If half as many are left after a merge, they are given out.
GROUP_BYTES = 32 << 20


class Reducer:
    """Reduces the results of one micro-batch of one slot."""

    def __init__(self, aggregate: AggregateSpec) -> None:
        self.aggregate = aggregate
        self.waiting: list[pa.RecordBatch] = []
        self.count = self.size = 0

    def run(self, outcomes: Iterator[Outcome], earlier: Iterable[pa.RecordBatch] = ()) -> Iterator[Outcome]:
        """Yield groups instead of results, and everything else as it is.

        Parameters
        ----------
        outcomes
            What a scheme gives.
        earlier
            Groups of an earlier stage of this slot.
        """
        for groups in earlier:
            self._add(groups)
            yield from self._many()
        for outcome in outcomes:
            if isinstance(outcome, Result | Bundle) and not len(outcome):
                continue
            if isinstance(outcome, Result):
                parts = {rank: Part(rows, None) for rank, rows in outcome.parts.items()}
                found = self._reduced(parts, len(outcome), None)
            elif isinstance(outcome, Bundle):
                found = self._of_bundle(outcome)
            else:
                yield outcome
                continue
            for groups in found:
                self._add(groups)
                yield from self._many()
        self._merge()
        yield from self._given()

    def _add(self, groups: pa.RecordBatch) -> None:
        if groups.num_rows:
            self.waiting.append(groups)
            self.count += groups.num_rows
            self.size += groups.nbytes

    def _many(self) -> Iterator[Outcome]:
        """Merge the groups that wait where they are many, and give them out where they stay many."""
        if self.count < WAITING and self.size < GROUP_BYTES:
            return
        self._merge()
        if self.count >= MANY or self.size >= GROUP_BYTES // 2:
            yield from self._given()

    def _given(self) -> Iterator[Outcome]:
        for groups in self.waiting:
            yield Reduced(groups)
        self.waiting, self.count, self.size = [], 0, 0

    def _merge(self) -> None:
        """Merge the groups that wait."""
        if len(self.waiting) < 2:
            return
        rows = concat(self.waiting)
        keys, states = self.aggregate.keys, self.aggregate.states
        groups, size = encoded([rows.column(key.name) for key in keys], rows.num_rows)
        groups, size = compressed(groups)
        first = _representatives(groups, size)
        columns = [rows.column(key.name).take(pa.array(first)) for key in keys]
        for state in states:
            columns.append(_state(_merged(state), groups, size, rows.column(state.name), None))
        merged = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
        self.waiting, self.count, self.size = [merged], merged.num_rows, merged.nbytes

    # --------------------------------------------------------------------------------------------------------- results

    def _reduced(
        self,
        parts: dict[int, Part],
        length: int,
        weights: Int64s | None,
        folded: dict[str, pa.Array | Picked] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Reduce listed rows.

        Parameters
        ----------
        parts
            By rank.
        length
            How many rows.
        weights
            How many results each stands for, None for one.
        folded
            By name: states that are known for each row already.
        """
        columns = {rank: Columns(part) for rank, part in parts.items()}
        codes, size = np.zeros(length, np.int64), 1
        for rank in dict.fromkeys(key.rank for key in self.aggregate.keys):
            found, some = columns[rank].encoded([key.column for key in self.aggregate.keys if key.rank == rank])
            codes, size = found + codes * some, size * some
            if size > max(4 * length, 1 << 16):
                codes, size = compressed(codes)
        if size > 1 or not length:
            present = np.zeros(size, np.bool_)
            present[codes] = True
            if not present.all():
                codes = (np.cumsum(present) - 1)[codes]
                size = int(present.sum())
        first = _representatives(codes, size)
        reduced: list[pa.Array | Picked] = []
        for key in self.aggregate.keys:
            part = parts[key.rank]
            reduced.append(Picked(part.source, key.column, first if part.ids is None else part.ids[first]))
        for state in self.aggregate.states:
            if folded is not None and state.name in folded:
                known = folded[state.name]
                if isinstance(known, Picked):
                    reduced.append(known.extreme(codes, size, greatest=state.function == "max"))
                else:
                    reduced.append(_state(_merged(state), codes, size, known, None))
            elif state.rank is None or state.column is None:
                reduced.append(count_by(codes, size, None, weights))
            else:
                reduced.append(_of_columns(state, codes, size, columns[state.rank], weights))
        return _batches(reduced, size, list(self.aggregate.names))

    # --------------------------------------------------------------------------------------------------------- bundles

    def _of_bundle(self, bundle: Bundle) -> Iterator[pa.RecordBatch]:
        states = [state for state in self.aggregate.states if state.rank == bundle.rank]
        folded: dict[str, pa.Array | Picked] | None = {}
        if any(key.rank == bundle.rank for key in self.aggregate.keys):
            folded = None
        elif states:
            folded = _folded(bundle, states)
        if folded is None:
            for parts, length in bundle.listed():
                yield from self._reduced(parts, length, None)
            return
        yield from self._reduced(bundle.parts, len(bundle.begin), bundle.counts, folded)


def _batches(columns: Sequence[pa.Array | Picked], size: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield groups, shape (size,) each column, at most about `GROUP_BYTES` at a time."""
    picked = {at: column for at, column in enumerate(columns) if isinstance(column, Picked)}
    if sum(column.most_bytes() for column in picked.values()) <= GROUP_BYTES:
        cut = iter([slice(0, size)])
    else:
        cut = pieces({at: (column.part, [column.name]) for at, column in picked.items()}, GROUP_BYTES)
    for some in cut:
        taken = columns
        if some.stop - some.start < size:
            taken = [column.slice(some.start, some.stop - some.start) for column in columns]
        arrays = [column.array() if isinstance(column, Picked) else column for column in taken]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _folded(bundle: Bundle, states: Sequence[StateSpec]) -> dict[str, pa.Array | Picked] | None:
    """Return states over the members of each row of a bundle, shape (k,); None where listing is the better way."""
    begin, end, of = bundle.distinct()
    counts = end - begin
    size = int(counts.sum())
    if bundle.lists is None and size > max(len(bundle.positions), BLOCK):
        return _by_prefixes(bundle, states)
    pairs = list(expand(begin, end))
    lists, at = map(np.concatenate, zip(*pairs, strict=True)) if pairs else np.zeros((2, 0), np.int64)
    columns = Columns(Part(bundle.members, bundle.positions[at]))
    found = {state.name: _of_columns(state, lists, len(begin), columns, None) for state in states}
    return {name: column.take(pa.array(of)) for name, column in found.items()}


def _by_prefixes(bundle: Bundle, states: Sequence[StateSpec]) -> dict[str, pa.Array | Picked] | None:
    """Return counts and sums over ranges as differences of running totals; None if one of them is not exact so."""
    found: dict[str, pa.Array | Picked] = {}
    columns = Columns(Part(bundle.members, bundle.positions))
    for state in states:
        name = str(state.column)
        valid = columns.valid(name)
        amounts = np.ones(len(bundle.positions), np.int64) if valid is None else valid.astype(np.int64)
        present = _differences(amounts, bundle)
        if state.function == "count":
            found[state.name] = pa.array(present)
            continue
        numbers = whole_numbers(columns.values(name)) if state.function == "sum" else None
        if numbers is None:
            return None
        sums = _differences(numbers if valid is None else np.where(valid, numbers, 0), bundle)
        found[state.name] = as_sum(sums, present == 0, state.precision, state.scale, state.sql)
    return found


def _differences(amounts: Int64s, bundle: Bundle) -> Int64s:
    totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(amounts)])
    return np.asarray(totals[bundle.end] - totals[bundle.begin])


def _of_columns(
    state: StateSpec, groups: Int64s, size: int, columns: Columns, weights: Int64s | None
) -> pa.Array | Picked:
    """Return a state of rows that are not taken."""
    name = str(state.column)
    if state.function == "count":
        valid = columns.valid(name)
        if valid is not None:
            groups, weights = groups[valid], None if weights is None else weights[valid]
        return count_by(groups, size, None, weights)
    if state.function == "sum" or columns.is_taken([name]):
        return _state(state, groups, size, columns.values(name), weights)
    return columns.extreme(name, groups, size, greatest=state.function == "max")


def _state(state: StateSpec, groups: Int64s, size: int, column: pa.Array | None, weights: Int64s | None) -> pa.Array:
    if state.function == "count":
        return count_by(groups, size, column, weights)
    assert column is not None
    if state.function == "sum":
        return sum_by(groups, size, column, weights, state.precision, state.scale, state.sql)
    rows = extreme_by(groups, size, column, greatest=state.function == "max")
    return column.take(pa.array(rows, mask=rows < 0))


def _merged(state: StateSpec) -> StateSpec:
    """Return what merges a state with itself: counts are added up."""
    return replace(state, function="sum") if state.function == "count" else state


def _representatives(groups: Int64s, size: int) -> Int64s:
    rows = np.zeros(size, np.int64)
    rows[groups] = np.arange(len(groups))
    return rows
