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

from .bundle import Bundle, Part, compressed, encoded
from .kernels.order_keys import Int64s
from .kernels.pairs import BLOCK, expand
from .kernels.sums import MOST_WEIGHT, as_sum, count_by, extreme_by, sum_by, whole_numbers
from .pieces import concat
from .schemes.base import Outcome, Reduced, Result
from .spec import AggregateSpec, StateSpec

#: Groups that may wait before they are merged, and so many left after that are given out as they are.
WAITING, MANY = 1 << 18, 1 << 17


class Reducer:
    """Reduces the results of one micro-batch of one slot."""

    def __init__(self, aggregate: AggregateSpec) -> None:
        self.aggregate = aggregate
        self.waiting: list[pa.RecordBatch] = []
        self.count = 0

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
        for outcome in outcomes:
            if isinstance(outcome, Result | Bundle) and not len(outcome):
                continue
            if isinstance(outcome, Result):
                parts = {rank: Part(rows, None) for rank, rows in outcome.parts.items()}
                self._add(self._reduced(parts, len(outcome), None))
            elif isinstance(outcome, Bundle):
                for groups in self._of_bundle(outcome):
                    self._add(groups)
            else:
                yield outcome
            if self.count >= WAITING:
                self._merge()
                if self.count >= MANY:
                    yield from self._given()
        self._merge()
        yield from self._given()

    def _add(self, groups: pa.RecordBatch) -> None:
        if groups.num_rows:
            self.waiting.append(groups)
            self.count += groups.num_rows

    def _given(self) -> Iterator[Outcome]:
        for groups in self.waiting:
            yield Reduced(groups)
        self.waiting, self.count = [], 0

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
        self.waiting, self.count = [merged], merged.num_rows

    # --------------------------------------------------------------------------------------------------------- results

    def _reduced(
        self,
        parts: dict[int, Part],
        length: int,
        weights: Int64s | None,
        folded: dict[str, pa.Array] | None = None,
    ) -> pa.RecordBatch:
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
        codes, size = np.zeros(length, np.int64), 1
        for rank in dict.fromkeys(key.rank for key in self.aggregate.keys):
            names = [key.column for key in self.aggregate.keys if key.rank == rank]
            found, some = parts[rank].encoded(names, length)
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
        arrays = [parts[key.rank].column(key.column, first) for key in self.aggregate.keys]
        for state in self.aggregate.states:
            if folded is not None and state.name in folded:
                arrays.append(_state(_merged(state), codes, size, folded[state.name], None))
                continue
            column = None if state.rank is None or state.column is None else parts[state.rank].column(state.column)
            arrays.append(_state(state, codes, size, column, weights))
        return pa.RecordBatch.from_arrays(arrays, names=list(self.aggregate.names))

    # --------------------------------------------------------------------------------------------------------- bundles

    def _of_bundle(self, bundle: Bundle) -> Iterator[pa.RecordBatch]:
        states = [state for state in self.aggregate.states if state.rank == bundle.rank]
        folded: dict[str, pa.Array] | None = {}
        if any(key.rank == bundle.rank for key in self.aggregate.keys):
            folded = None
        elif states:
            folded = _folded(bundle, states)
        if folded is None:
            for parts, length in bundle.listed():
                yield self._reduced(parts, length, None)
            return
        for at, some in bundle.cut(MOST_WEIGHT):
            known = {name: column.slice(at, len(some.begin)) for name, column in folded.items()}
            yield self._reduced(some.parts, len(some.begin), some.counts, known)


def _folded(bundle: Bundle, states: Sequence[StateSpec]) -> dict[str, pa.Array] | None:
    """Return states over the members of each row of a bundle, shape (k,); None where listing is the better way."""
    begin, end, of = bundle.distinct()
    counts = end - begin
    size = int(counts.sum())
    if bundle.lists is None and size > max(len(bundle.positions), BLOCK):
        return _by_prefixes(bundle, states)
    lists = np.repeat(np.arange(len(begin)), counts)
    pieces = [position for _, position in expand(begin, end)]
    at = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    names = list(dict.fromkeys(str(state.column) for state in states))
    rows = Part(bundle.members, bundle.positions[at])
    columns = {name: rows.column(name) for name in names}
    to = pa.array(of)
    return {s.name: _state(s, lists, len(begin), columns[str(s.column)], None).take(to) for s in states}


def _by_prefixes(bundle: Bundle, states: Sequence[StateSpec]) -> dict[str, pa.Array] | None:
    """Return counts and sums over ranges as differences of running totals; None if one of them is not exact so."""
    found: dict[str, pa.Array] = {}
    whole = Part(bundle.members, bundle.positions)
    for state in states:
        column = whole.column(str(state.column))
        valid = np.ones(len(column), np.bool_) if column.null_count == 0 else np.asarray(column.is_valid())
        amounts = valid.astype(np.int64)
        present = _differences(amounts, bundle)
        if state.function == "count":
            found[state.name] = pa.array(present)
            continue
        numbers = whole_numbers(column) if state.function == "sum" else None
        if numbers is None:
            return None
        sums = _differences(np.where(valid, numbers, 0), bundle)
        found[state.name] = as_sum(sums, present == 0, state.precision, state.scale, state.sql)
    return found


def _differences(amounts: Int64s, bundle: Bundle) -> Int64s:
    totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(amounts)])
    return np.asarray(totals[bundle.end] - totals[bundle.begin])


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
