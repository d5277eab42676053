"""The index of a stored stream for one edge, and how an arriving stream probes it.

A segment's index is a sort order. It answers ``equal = e and low <= u and high >= v`` for stored columns *equal*, *low*
and *high* and values e, u and v of the probing row, each part optional:

- bands and two-sided ranges have one column as *low* and *high*: two binary searches, exact;
- ``low <= x <= high`` with two stored columns (a stabbing query): sorted by *low*, and the running maximum of *high*
  along that order is searched for the first row that can still reach x;
- equality comes first in the order, ranges are then searched inside the rows of one key.

What the search does not decide is evaluated on the candidates (`kernels.pairs.evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..batches.pieces import list_parts, longest_text
from ..checks import Band, lefts
from ..kernels.order_keys import Int64s, cells, order_key, plus
from ..kernels.pairs import BLOCK, expand, repeated
from ..kernels.sorting import range_ends, ranges, sort_column, sort_keys
from .probe_plan import Bound, ProbePlan, SortOrder, same_order

#: Extremes of an index: least and greatest ``equal``, least and greatest ``low``, greatest ``reach``; None for unknown.
Zone = tuple[int | None, int | None, int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class SortedIndex:
    """One segment's rows in the order of a `SortOrder`.

    Parameters
    ----------
    equal, low
        Sorted keys, shape (n,); None where the sort_order has none. ``low`` is sorted within equal ``equal``. Where the
        sort_order has only ``high``, ``low`` holds that column.
    reach
        The running maximum of ``high`` along the order, for stabbing sort_orders.
    rows
        Row numbers in the segment, shape (n,).
    """

    sort_order: SortOrder
    equal: Int64s | None
    low: Int64s | None
    reach: Int64s | None
    rows: npt.NDArray[np.int32]

    @classmethod
    def build(cls, sort_order: SortOrder, batch: pa.RecordBatch) -> SortedIndex:
        """Sort the rows of a segment."""
        single = sort_order.single
        if single is not None and not pa.types.is_list(batch.column(single).type):
            order, keys = sort_column(batch.column(single))
            equal, low = (None, keys) if sort_order.equal is None else (keys, None)
            return cls(sort_order, equal, low, None, order.astype(np.int32))
        equal, parents = _equal_keys(sort_order, batch)
        low = order_key(batch.column(sort_order.low or sort_order.high)) if sort_order.low or sort_order.high else None
        high = order_key(batch.column(sort_order.high)) if sort_order.stabs else None
        return cls._sorted(sort_order, equal, low, high, parents, presorted=False)

    @classmethod
    def _sorted(
        cls,
        sort_order: SortOrder,
        equal: Int64s | None,
        low: Int64s | None,
        high: Int64s | None,
        rows: npt.NDArray[np.int32],
        *,
        presorted: bool,
    ) -> SortedIndex:
        lead = low if equal is None else equal
        if lead is None:
            return cls(sort_order, None, None, None, rows)
        if equal is not None and low is not None:
            order, _ = sort_keys(low)
            order = order[sort_keys(equal[order])[0]]
        elif presorted:  # NumPy's stable sort finds sorted runs: a merge is ten times cheaper
            order = np.argsort(lead, kind="stable")
        else:
            order, _ = sort_keys(lead)
        return cls(
            sort_order,
            None if equal is None else equal[order],
            None if low is None else low[order],
            None if high is None else np.maximum.accumulate(high[order]) if len(high) else high,
            rows[order],
        )

    def merge(self, other: SortedIndex, shift: int, batch: pa.RecordBatch) -> SortedIndex:
        """Merge with the index of the segment behind, whose row 0 becomes row ``shift`` of ``batch``."""
        rows = np.concatenate([self.rows, other.rows + np.int32(shift)])
        equal = None if self.equal is None or other.equal is None else np.concatenate([self.equal, other.equal])
        low = None if self.low is None or other.low is None else np.concatenate([self.low, other.low])
        high = order_key(batch.column(self.sort_order.high))[rows] if self.reach is not None else None
        return self._sorted(self.sort_order, equal, low, high, rows, presorted=True)

    def zone(self) -> Zone:
        """Return the extremes of the keys, by which a probe knows that it finds nothing here."""
        if not len(self.rows):
            return None, None, None, None, None
        first, last = (None, None) if self.equal is None else (int(self.equal[0]), int(self.equal[-1]))
        low, high = (None, None) if self.low is None else (int(self.low.min()), int(self.low.max()))
        return first, last, low, high, None if self.reach is None else int(self.reach[-1])

    def search(self, probe: Probe, *, narrow: bool) -> tuple[Int64s, Int64s]:
        """Return for each (sorted) probing row the half-open range of positions with its candidates.

        Parameters
        ----------
        narrow
            Whether no difference to any row here can overflow (`Probe.is_narrow`).
        """
        count, size = len(probe.order), len(self.rows)
        upper_right, lower_right = probe.upper_right, probe.lower_right
        begin, end = np.zeros(count, np.int64), np.full(count, size, np.int64)
        by_key = self.equal is not None and probe.equal is not None
        if self.equal is not None and probe.equal is not None:
            begin, end = ranges(self.equal, probe.equal, probe.equal, lower_right=False, upper_right=True)
        if self.low is None or (by_key and not count):
            return begin, end
        first, last = begin, end
        if by_key:
            if self.sort_order.low is not None and probe.upper is not None:
                end = _search_within(self.low, begin, end, probe.upper, right=upper_right)
            if probe.lower is not None and (
                self.sort_order.low is None or self.sort_order.high in (self.sort_order.low, None)
            ):
                begin = _search_within(self.low, first, end, probe.lower, right=lower_right)
        elif self.sort_order.high == self.sort_order.low and probe.lower is not None and probe.upper is not None:
            begin, end = ranges(self.low, probe.lower, probe.upper, lower_right=lower_right, upper_right=upper_right)
        else:
            if self.sort_order.high is not None and probe.lower is not None:
                along = self.reach if self.reach is not None else self.low
                begin = np.searchsorted(along, probe.lower, "right" if lower_right else "left")
            if self.sort_order.low is not None and probe.upper is not None:
                end = np.searchsorted(self.low, probe.upper, "right" if upper_right else "left")
        return (begin, end) if narrow else self._with_overflows(probe, first, last, begin, end)

    def run_ends(self, at: Int64s, end: Int64s) -> Int64s:
        """Return where the rows end that have the same value of the last column as the one at a position.

        Parameters
        ----------
        at, end
            Shape (k,): positions, and the ends of the ranges that they are in.
        """
        assert self.low is not None
        return _search_within(self.low, at, end, self.low[at], right=True)

    def _with_overflows(
        self, probe: Probe, first: Int64s, last: Int64s, begin: Int64s, end: Int64s
    ) -> tuple[Int64s, Int64s]:
        """Widen ``begin`` to ``end`` to the whole range ``first`` to ``last`` where a difference may overflow there."""
        band = probe.plan.limited
        if band is None or band.limits is None or probe.minuend is None or self.low is None or not len(self.low):
            return begin, end
        lowest = self.low[np.minimum(first, len(self.low) - 1)]
        highest = self.low[np.maximum(last - 1, 0)]
        over = (probe.minuend > plus(lowest, band.limits[1])) | (probe.minuend < plus(highest, band.limits[0]))
        over &= first < last
        return (np.where(over, first, begin), np.where(over, last, end)) if over.any() else (begin, end)


def _cannot_overflow(band: Band, minuends: tuple[int, int], low: int | None, high: int | None) -> bool:
    """Return whether no difference of a band does, between numbers of which the extremes are known."""
    if band.limits is None or low is None or high is None:
        return band.limits is None
    return minuends[0] - high >= band.limits[0] and minuends[1] - low <= band.limits[1]


def _equal_keys(sort_order: SortOrder, batch: pa.RecordBatch) -> tuple[Int64s | None, npt.NDArray[np.int32]]:
    """Return the equality keys and the row of each; a list column has a key for every element."""
    rows = np.arange(batch.num_rows, dtype=np.int32)
    if sort_order.equal is None:
        return None, rows
    column = batch.column(sort_order.equal)
    if sort_order.width is not None:
        return cells(order_key(column), sort_order.width, floats=pa.types.is_floating(column.type)), rows
    if not pa.types.is_list(column.type):
        return order_key(column), rows
    offsets, items = list_parts(column)
    return items, np.repeat(rows, np.diff(offsets))


def _search_within(keys: Int64s, begin: Int64s, end: Int64s, wanted: Int64s, *, right: bool) -> Int64s:
    """Binary search inside a range of positions for each row: `np.searchsorted` with borders of one's own."""
    low, high = begin.copy(), end.copy()
    last = len(keys) - 1
    for _ in range(int((end - begin).max()).bit_length()):
        middle = (low + high) >> 1
        at = keys[np.minimum(middle, last)]
        below = (at <= wanted if right else at < wanted) & (low < high)
        low = np.where(below, middle + 1, low)
        high = np.where(below, high, np.minimum(middle, high))
    return low


class Probe:
    """A batch of probing rows, made ready once for all segments of a store.

    The keys are sorted first: a sorted probe walks an index instead of jumping about in it (two to three times faster
    on large segments).
    """

    def __init__(self, plan: ProbePlan, rows: pa.RecordBatch) -> None:
        self.plan = plan
        self.rows = rows
        self.equal: Int64s | None = None
        equal = None if plan.equal is None else order_key(rows.column(plan.equal))
        upper, below_all = (None, None) if plan.upper is None else plan.upper.keys(rows, up=True)
        lower, above_all = (None, None) if plan.lower is None else plan.lower.keys(rows, up=False)
        if plan.cells is not None:
            self.order, self.equal = self._in_cells(*plan.cells)
        else:
            self.order = self._order(equal, lower)
        out_of_keys = False
        for nothing in (below_all, above_all):
            if nothing is None:
                continue
            if plan.limited is None:
                there = ~nothing[self.order]
                self.order = self.order[there]
                self.equal = None if self.equal is None else self.equal[there]
            else:  # such a row may still have to find that its difference overflows
                out_of_keys = True
        if equal is not None:
            self.equal = equal[self.order]
        self.upper = None if upper is None else upper[self.order]
        self.lower = None if lower is None else lower[self.order]
        self.minuend = None if plan.limited is None else order_key(rows.column(plan.limited.left))[self.order]
        #: By limited band: its least and greatest minuend; None where nothing is known of one.
        self._minuends: dict[Band, tuple[int, int]] | None = None if out_of_keys else {}
        for band in (plan.limited, plan.limited_cells):
            if band is not None and self._minuends is not None and rows.num_rows:
                keys = order_key(rows.column(band.left))
                self._minuends[band] = int(keys.min()), int(keys.max())
        self._spans: dict[str, tuple[int, int] | None] = {}
        self.upper_right = plan.upper is None or not plan.upper.strict
        self.lower_right = plan.lower is not None and plan.lower.strict

    @cached_property
    def parts(self) -> tuple[Probe, ...]:
        """The searches that find the partners, each once: this one, and one for each further branch of an OR."""
        return (self, *(Probe(plan, self.rows) for plan in self.plan.others))

    @cached_property
    def longest(self) -> int:
        """Bytes of text at most in what of a row is evaluated on candidates."""
        return longest_text(self.rows, lefts(self.plan.checks))

    def span(self, column: str) -> tuple[int, int] | None:
        """Return the least and the greatest order key of a column, None if a row has NULL in it."""
        if column not in self._spans:
            found = self.rows.column(column)
            keys = order_key(found) if len(found) and not found.null_count else ()
            self._spans[column] = (int(np.min(keys)), int(np.max(keys))) if len(keys) else None
        return self._spans[column]

    def _order(self, equal: Int64s | None, lower: Int64s | None) -> Int64s:
        """Return the rows in the order of the keys by which the index is searched first."""
        bound = self.plan.lower if lower is not None else self.plan.upper
        if equal is not None:
            return sort_column(self.rows.column(self.plan.equal))[0]
        if bound is None:
            return np.arange(self.rows.num_rows)
        return sort_column(self.rows.column(bound.column))[0]

    def _in_cells(self, lower: Bound, upper: Bound) -> tuple[Int64s, Int64s]:
        """Return the rows, once for each cell that their bounds reach, and these cells, in the order of the cells."""
        width = self.plan.sort_order.width
        assert width is not None
        reached = []
        none = np.zeros(self.rows.num_rows, np.bool_)
        for bound, up in ((lower, False), (upper, True)):
            keys, nothing = bound.keys(self.rows, up=up)
            reached.append(cells(keys, width, floats=bound.floats is not None))
            none = none if nothing is None else none | nothing
        first, last = reached
        counts = np.where(none, 0, np.maximum(last - first + 1, 0))
        ends = np.cumsum(counts)
        rows = repeated(ends)
        found = first[rows] + np.arange(len(rows)) - (ends - counts)[rows]
        order, _ = sort_keys(found)
        return rows[order], found[order]

    def is_narrow(self, zone: Zone | None) -> bool:
        """Return whether no difference between a probing row and one with keys of that zone can overflow."""
        if self.plan.limited is None and self.plan.limited_cells is None:
            return True
        if zone is None or self._minuends is None:
            return False
        first, last, low, high, _ = zone
        ends = {self.plan.limited: (low, high)}
        if self.plan.limited_cells is not None and first is not None and last is not None:
            width = int(self.plan.sort_order.width or 1)
            ends[self.plan.limited_cells] = first * width, last * width + width - 1
        return all(_cannot_overflow(band, some, *ends.get(band, (None, None))) for band, some in self._minuends.items())

    def may_match(self, zone: Zone | None) -> bool:
        """Return False if no probing row can find a partner (or overflow) among rows with keys of that zone."""
        if not self.rows.num_rows:
            return False
        if zone is None or not self.is_narrow(zone):
            return True
        if not len(self.order):
            return False
        first, last, low, high, reach = zone
        sort_order = self.plan.sort_order
        if self.equal is not None and first is not None and last is not None:
            near = np.searchsorted(self.equal, first, "left")  # equal is what the rows are ordered by
            if near == len(self.equal) or self.equal[near] > last:
                return False
        if sort_order.low is not None and self.upper is not None and low is not None and int(self.upper.max()) < low:
            return False
        greatest = reach if sort_order.low is not None and sort_order.high not in (sort_order.low, None) else high
        if sort_order.high is None or self.lower is None or greatest is None:
            return True
        return int(self.lower.min()) <= greatest

    def candidates(self, index: SortedIndex, *, narrow: bool) -> Iterator[tuple[Int64s, npt.NDArray[np.int32]]]:
        """Yield blocks of ``(probe row, segment row)`` that the index cannot rule out."""
        if self.plan.cells is not None and not narrow:
            every = np.zeros(self.rows.num_rows, np.int64)
            for probe, position in expand(every, every + len(index.rows)):
                yield probe, index.rows[position]
            return
        if not len(self.order) or not len(index.rows):
            return
        # A range is given whole, and here it may be all rows of the probe.
        if narrow and len(index.rows) < len(self.order) <= BLOCK and self._is_searchable(index):
            begin, end = self._search(index)
            for position, probe in expand(begin, end):
                yield self.order[probe], index.rows[position]
            return
        begin, end = index.search(self, narrow=narrow)
        for probe, position in expand(begin, end):
            yield self.order[probe], index.rows[position]

    def _is_searchable(self, index: SortedIndex) -> bool:
        """Return whether an index' rows may search the probing ones, as these are in the order of all their bounds."""
        sort_order, bounds = self.plan.sort_order, (self.plan.lower, self.plan.upper)
        if sort_order.equal is not None:
            return index.low is None and self.equal is not None
        return sort_order.low is not None and sort_order.low == sort_order.high and same_order(*bounds)

    def _search(self, index: SortedIndex) -> tuple[Int64s, Int64s]:
        """Return for each row of an index the half-open range of (sorted) probing rows that it is a candidate of.

        A window has many segments, each smaller than a micro-batch: to search them all for every row that arrives takes
        longer than the other way round.
        """
        if self.equal is not None and index.equal is not None:
            begin = np.searchsorted(self.equal, index.equal, "left")
            return begin, range_ends(self.equal, begin, index.equal, right=True)
        assert index.low is not None
        assert self.lower is not None
        assert self.upper is not None
        begin = np.searchsorted(self.upper, index.low, "left" if self.upper_right else "right")
        end = range_ends(self.lower, begin, index.low, right=not self.lower_right)
        return begin, end
