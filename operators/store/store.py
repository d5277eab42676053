"""The rows of one stream (or of hubs) in one unit: a log-structured merge of segments, each with its indexes.

A row is known by its id, its position in the order of storing, which never changes; a segment holds a contiguous range
of ids. Segments are immutable. New rows make a new segment; neighbours of like size merge, so that n appended batches
leave about log n segments and every row is copied about log n times.

A segment goes when its newest row may. One row with a time far ahead (a clock that is wrong by a year) would keep all
rows around it, and those that these are merged with; so such rows have ids and segments of their own, from `AHEAD` on.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..batches.pieces import concat, cuts, has_text, row_bytes, row_sizes, split
from ..checks import Band, Check, lefts, rights
from ..kernels.order_keys import Int64s, values
from ..kernels.pairs import Take, expand, fulfilling
from .index import Probe, SortedIndex
from .probe_plan import SortOrder
from .segment import AHEAD, ARCHIVE_PERIODS, Lifetime, Segment, lanes
from .settled import Settled

#: A segment merges with its younger neighbour once it is at most this many times larger. Less makes more segments, each
#: of which costs every probe; with 3 a fifth more was written to the warm copy, and joining took no less time.
TIER = 2

#: Bytes of rows in one segment at most: what a merge, or bringing a segment back, takes of a worker's own memory.
SEGMENT_BYTES = 32 << 20

#: A batch of at least this many rows tells by its own quartiles which times are far ahead.
_TELLING = 8

#: More segments than these merge whatever their times are: rows that stay too long cost less than so many pieces.
CROWDED = 64

#: Up to so many segments, ids are compared with the first id of each; a binary search is faster with more.
_FEW = 32

#: Rows are taken from a copy of all segments that hold them if these have less than this many rows for each ...
_SPARSE = 4

#: ... and not more bytes than this.
_WHOLE_BYTES = 16 << 20

#: Where none of the candidates at one end of a range fulfils all predicates, so many times more are looked at.
_WIDER = 8

#: The time of a row that has none: after all others.
_NEVER = 1 << 61

#: Bytes that the columns of candidate pairs take at most while predicates are evaluated on them.
_TAKEN_BYTES = 64 << 20


class Store:
    """Stored rows of one kind.

    Parameters
    ----------
    name
        Name within the unit, such as ``"r"`` or ``"r.hubs.s"``.
    sort_orders
        The indexes to keep.
    life
        What decides how long rows are kept.

    Attributes
    ----------
    segments
        From old to young.
    fresh
        Batches appended since the last save, each with the id of its first row.
    next_ids
        The id that the next row gets, and that of the next one far ahead.
    """

    def __init__(self, name: str, sort_orders: Sequence[SortOrder], life: Lifetime | None = None) -> None:
        self.name = name
        self.life = life or Lifetime()
        #: Comparisons so far: steps of searches, and candidates that they found.
        self.compared = 0
        self.sort_orders = {sort_order.key: sort_order for sort_order in sort_orders}
        self.segments: list[Segment] = []
        self.fresh: list[tuple[int, pa.RecordBatch]] = []
        self.next_ids = [0, AHEAD]
        #: Rows that have met a partner, or were put out without one; None if nobody asks.
        self.settled: Settled | None = None
        #: How much later than a row its last partner may be (microseconds) where that is bounded, and the set of
        #: `settled` that a row is in from then on; several where it may have partners by several joins.
        self.waits: tuple[tuple[int, int], ...] = ()
        #: Whether rows of another stream may be due when the watermark passes the time of a row here.
        self.emits_others = False
        #: By lane: rows with smaller ids are gone, whatever their time is.
        self.first = [0, AHEAD]
        #: Whether rows are looked at once more when their segment goes: what is durable of them stays until then.
        self.looks_back = False

    def __len__(self) -> int:
        return sum(segment.count for segment in self.segments)

    @property
    def row_bytes(self) -> float:
        """Bytes of a row in the mean, about."""
        return sum(segment.size for segment in self.segments) / max(len(self), 1)

    @property
    def longest(self) -> int:
        """Bytes of text and the like that a row has at most."""
        return max((segment.longest for segment in self.segments), default=0)

    def row_sizes(self, ids: Int64s, columns: Sequence[str]) -> float | npt.NDArray[np.float64]:
        """Return the bytes that some columns of each row have, shape (k,); a single number if there are no texts."""
        seen = next((segment.body[0] for segment in self.segments if segment.body is not None), None)
        if seen is not None and not has_text(seen, columns):
            return row_bytes(seen, columns)
        found, of = np.zeros(len(ids)), self._segments_of(ids)
        counts = np.bincount(of, minlength=len(self.segments))
        order, ends = np.argsort(of, kind="stable"), np.cumsum(counts)  # a radix sort: the numbers have 16 bits
        for at in np.flatnonzero(counts):
            segment, here = self.segments[at], order[ends[at] - counts[at] : ends[at]]
            sizes = row_sizes(segment.rows, columns, ids[here] - segment.start)
            if not isinstance(sizes, np.ndarray):
                return sizes
            found[here] = sizes
        return found

    def append(self, rows: pa.RecordBatch) -> Int64s:
        """Store rows, and return their ids, shape (n,)."""
        ahead = self._ahead(rows)
        if ahead is None:
            ids = np.arange(self.next_ids[0], self.next_ids[0] + rows.num_rows)
            self._append(0, rows)
            return ids
        ids = np.empty(rows.num_rows, np.int64)
        for lane, some in enumerate((~ahead, ahead)):
            ids[some] = np.arange(self.next_ids[lane], self.next_ids[lane] + np.count_nonzero(some))
            self._append(lane, rows.filter(pa.array(some)))
        return ids

    def _append(self, lane: int, rows: pa.RecordBatch) -> None:
        for piece in split(rows, SEGMENT_BYTES):
            start = self.next_ids[lane]
            segment = Segment.of(start, piece, self.indexed(piece), self.life)
            insort(self.segments, segment, key=lambda one: one.start)
            self.fresh.append((start, piece))
            self.next_ids[lane] += piece.num_rows

    def _ahead(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
        """Return which rows are so far ahead of the others that these would be kept for their sake, None if none is."""
        oldest, newest = self.life.span(rows)
        if oldest is None or newest is None or self.life.keep_for is None or self.life.time is None:
            return None
        period = max(self.life.keep_for // ARCHIVE_PERIODS, 1)
        known = max((one.newest for one in self.segments if one.start < AHEAD and one.newest is not None), default=None)
        if newest - oldest <= period and (known is None or newest <= known + period):
            return None
        times = values(pc.fill_null(rows.column(self.life.time), oldest))
        if len(times) >= _TELLING:
            low, high = np.quantile(times, (0.25, 0.75))
            limit = high + max(period, 4 * (high - low))
        else:
            limit = (np.median(times) if known is None else known) + period
        ahead = times > limit
        return ahead if ahead.any() else None

    def indexed(self, rows: pa.RecordBatch) -> dict[str, SortedIndex]:
        """Return the indexes of some rows."""
        return {key: SortedIndex.build(sort_order, rows) for key, sort_order in self.sort_orders.items()}

    @property
    def until(self) -> int:
        """When the last of its rows expires (microseconds), 0 if there is none."""
        newest = [segment.newest for segment in self.segments if segment.newest is not None]
        return max(newest) + (self.life.keep_for or 0) if newest else 0

    def may_forget(self, start: int, stop: int, newest: int | None, watermark: int) -> bool:
        """Return whether nobody needs the rows of some ids, up to an event time, any more."""
        if stop <= self.first[start >= AHEAD]:
            return True
        held = self.looks_back and any(one.start < stop and start < one.stop for one in self.segments)
        return not held and self.life.is_over(newest, watermark)

    def replace(self, rows: pa.RecordBatch) -> None:
        """Store rows in the place of all that are stored."""
        self.clear()
        self.append(rows)

    def clear(self) -> None:
        """Forget all rows."""
        self.segments, self.fresh, self.first = [], [], list(self.next_ids)

    def compact(self) -> None:
        """Merge neighbours of like size."""
        self.segments = [segment for lane in lanes(self.segments) for segment in self._compacted(lane)]

    def _compacted(self, segments: list[Segment]) -> list[Segment]:
        while len(segments) > 1:
            older, younger = segments[-2], segments[-1]
            apart = older.stop != younger.start  # what lay between has expired
            if apart or older.count > TIER * younger.count:
                break
            if len(segments) <= CROWDED and not self.life.may_merge(older, younger):
                break
            if older.size + younger.size > SEGMENT_BYTES or older.body is None or younger.body is None:
                break
            segments[-2:] = [self._merged(older, younger)]
        return segments

    def _merged(self, older: Segment, younger: Segment) -> Segment:
        rows = concat([older.rows, younger.rows])
        indexes = {key: index.merge(younger.indexes[key], older.count, rows) for key, index in older.indexes.items()}
        return Segment.of(older.start, rows, indexes, self.life)

    def next_due(self, watermark: int) -> int | None:
        """Return the watermark (microseconds) at which the next row may be due to be emitted, None if none is."""
        lengths = {reach for reach, _ in self.waits} | ({0} if self.emits_others else set())
        return min((due for reach in lengths if (due := self._next_due(reach, watermark)) is not None), default=None)

    def _next_due(self, reach: int, watermark: int) -> int | None:
        due = []
        for segment in self.segments:
            if segment.oldest is None or segment.newest is None:
                continue
            if not watermark or segment.oldest + reach > watermark:  # there is none yet: nothing has been emitted
                due.append(segment.oldest)
            elif segment.newest + reach > watermark:
                times = self._times(segment)
                due.append(int(times[times + reach > watermark].min()))
        return min(due) + reach if due else None

    def settle_emitted(self, watermark: int) -> None:
        """Settle the rows that were due by a watermark (microseconds) at which the slot was called.

        The warm copy of a machine that the slot comes back to may still hold rows that have expired elsewhere, and what
        was known of them went with them.
        """
        if self.settled is None or not watermark:
            return
        for reach, mark in self.waits:
            for segment in self.segments:
                ids = self.due(segment, reach, watermark)
                self.settled.add(ids[~self.settled.has(ids, mark)], mark)

    def _times(self, segment: Segment) -> Int64s:
        """Return the event times of a segment's rows; one without comes last."""
        return values(pc.fill_null(segment.rows.column(self.life.time), _NEVER))

    def due(self, segment: Segment, reach: int, watermark: int) -> Int64s:
        """Return the ids of a segment's rows that are due at a watermark (microseconds), shape (k,)."""
        if segment.oldest is None or segment.oldest + reach > watermark:
            return np.zeros(0, np.int64)
        times = self._times(segment)
        return np.flatnonzero(times + reach <= watermark) + segment.start

    def expire(self, watermark: int) -> int:
        """Drop the segments of which no row can still find a partner; return how many rows went.

        Only rows whose time predicates no row above the watermark can fulfil are dropped, so when it happens does not
        show in the results.
        """
        live = [segment for segment in self.segments if not self.life.is_over(segment.newest, watermark)]
        gone = sum(segment.count for segment in self.segments) - sum(segment.count for segment in live)
        self.segments = live
        return gone

    def held(self, start: int, stop: int) -> list[pa.RecordBatch] | None:
        """Return the rows of some ids as they are in memory or mapped, None where some are not."""
        pieces = []
        for segment in self.segments:
            if segment.stop <= start:
                continue
            if segment.start > start or segment.body is None:
                return None
            end = min(segment.stop, stop)
            pieces.append(segment.body[0].slice(start - segment.start, end - start))
            start = end
            if start == stop:
                return pieces
        return None

    @property
    def is_whole(self) -> bool:
        """Whether all rows that were ever stored still are."""
        return len(self) == self.next_ids[0] + self.next_ids[1] - AHEAD

    def present(self, ids: Int64s) -> npt.NDArray[np.bool_] | None:
        """Return which ids, shape (k,), are still stored, or None if all ever given out are."""
        if self.is_whole and self.segments:
            return None
        if not self.segments:
            return np.zeros(len(ids), np.bool_)
        stops_ = np.array([segment.stop for segment in self.segments])
        return np.asarray((ids >= self.segments[0].start) & (ids < stops_[self._segments_of(ids)]))

    def probe(self, probe: Probe) -> Iterator[tuple[Int64s, Segment, npt.NDArray[np.int32]]]:
        """Find the partners of a batch of rows.

        Yields
        ------
        ``(probe row, segment, row in the segment)``: aligned arrays of shape (k,), every predicate of the plan true.
        """
        for part in probe.parts:
            for segment, narrow in self._near(part):
                for mine, theirs in self._pairs(part, segment, narrow=narrow):
                    yield mine, segment, theirs

    def _near(self, probe: Probe) -> Iterator[tuple[Segment, bool]]:
        """Yield the segments that may hold partners, and whether no difference can overflow there.

        A search counts as the comparisons of a binary search among all their rows: in how many segments these lie
        follows from the micro-batches so far.
        """
        key = probe.plan.sort_order.key
        near = [segment for segment in self.segments if probe.may_match(segment.zones.get(key))]
        self.compared += round(len(probe.order) * log2(sum(segment.count for segment in near) + 1))
        for segment in near:
            yield segment, probe.is_narrow(segment.zones.get(key))

    def _pairs(self, probe: Probe, segment: Segment, *, narrow: bool) -> Iterator[tuple[Int64s, npt.NDArray[np.int32]]]:
        _, indexes = segment.loaded()
        checks = self._open(probe, segment, narrow=narrow)
        for mine, theirs in probe.candidates(indexes[probe.plan.sort_order.key], narrow=narrow):
            yield from self._fulfilled(checks, probe, mine, segment, theirs)

    def _fulfilled(
        self, checks: Sequence[Check], probe: Probe, mine: Int64s, segment: Segment, theirs: npt.NDArray[np.int32]
    ) -> Iterator[tuple[Int64s, npt.NDArray[np.int32]]]:
        """Yield the candidates that fulfil checks: ``(probe row, row in the segment)``."""
        self.compared += len(mine)
        rows, most = segment.rows, len(mine) * (probe.longest + segment.longest)
        whole = (slice(0, len(mine)),)
        for some in whole if most <= _TAKEN_BYTES else _blocks(checks, probe.rows, mine, rows, theirs):
            left, right = _checked(checks, probe.rows, mine[some], rows, theirs[some])
            if len(left):
                yield left, right

    def _open(self, probe: Probe, segment: Segment, *, narrow: bool) -> tuple[Check, ...]:
        """Return what has to be evaluated on candidates: a wide band may hold for all of a segment's rows at once."""
        checks = probe.plan.narrow_checks if narrow else probe.plan.checks
        return tuple(check for check in checks if not self._holds(check, probe, segment))

    def _holds(self, check: Check, probe: Probe, segment: Segment) -> bool:
        """Return whether a band on the event time by which rows expire holds for all pairs of a batch and a segment."""
        if not isinstance(check, Band) or check.right != self.life.time or check.limits is not None:
            return False
        if segment.oldest is None or segment.newest is None or segment.rows.column(check.right).null_count:
            return False
        span = probe.span(check.left)
        return (
            span is not None
            and (check.lower is None or span[0] - segment.newest >= check.lower)
            and (check.upper is None or span[1] - segment.oldest <= check.upper)
        )

    def foremost(self, probe: Probe, *, last: bool) -> Iterator[tuple[Int64s, Segment, npt.NDArray[np.int32]]]:
        """Find partners of a batch of rows: of each segment at least the one that its index has first, or last.

        Where the index ends with a column, that is the partner with its least or its greatest value, and of several
        the row that came last. Candidates are looked at from that end on, more and more at a time, until one of them
        fulfils all predicates.

        Yields
        ------
        As `probe` does.
        """
        for segment, narrow in self._near(probe):
            index = segment.indexes[probe.plan.sort_order.key]
            if not narrow or index.low is None:
                for mine, theirs in self._pairs(probe, segment, narrow=narrow):
                    yield mine, segment, theirs
                continue
            begin, end = index.search(probe, narrow=True)
            checks, open_ = self._open(probe, segment, narrow=True), np.flatnonzero(end > begin)
            met, width = np.zeros(probe.rows.num_rows, np.bool_), 1
            while len(open_):
                low, high = begin[open_], end[open_]
                if last:
                    low = np.maximum(low, high - width)
                    end[open_] = low
                else:
                    high = index.run_ends(np.minimum(low + width, high) - 1, high)
                    low = high - 1 if width == 1 else low  # of equal ones the last came last
                    begin[open_] = begin[open_] if width == 1 else high
                for one, position in expand(low, high):
                    candidates = probe.order[open_[one]], segment, index.rows[position]
                    for mine, theirs in self._fulfilled(checks, probe, *candidates):
                        met[mine] = True
                        yield mine, segment, theirs
                open_ = open_[~met[probe.order[open_]] & (end[open_] > begin[open_])]
                width *= _WIDER

    def ranges(self, probe: Probe) -> Iterator[tuple[Int64s, Segment, npt.NDArray[np.int32], Int64s, Int64s]]:
        """Find the partners of a batch of rows as ranges of an index, where it decides the plan's predicates alone.

        Yields
        ------
        ``(probe row, segment, order, begin, end)``: the partners of each of k rows are the segment's rows at
        ``order[begin:end]``, one row where predicates had to be evaluated.
        """
        for part in probe.parts:
            yield from self._ranges(part)

    def _ranges(self, probe: Probe) -> Iterator[tuple[Int64s, Segment, npt.NDArray[np.int32], Int64s, Int64s]]:
        for segment, narrow in self._near(probe):
            if not narrow or self._open(probe, segment, narrow=narrow):
                for mine, theirs in self._pairs(probe, segment, narrow=narrow):
                    each = np.arange(len(mine))
                    yield mine, segment, theirs, each, each + 1
                continue
            index = segment.indexes[probe.plan.sort_order.key]
            if not len(index.rows):
                continue
            begin, end = index.search(probe, narrow=True)
            self.compared += int((end - begin).sum())
            some = np.flatnonzero(end > begin)
            if len(some):
                yield probe.order[some], segment, index.rows, begin[some], end[some]

    def take(self, ids: Int64s, columns: Sequence[str]) -> pa.RecordBatch:
        """Return rows by id, in the order of ``ids``, shape (k,), with some of their columns."""
        names = list(columns)
        if len(self.segments) == 1:
            segment = self.segments[0]
            return segment.rows.select(names).take(pa.array(ids - segment.start))
        if self.segments and all(older.stop == younger.start for older, younger in pairwise(self.segments)):
            whole = self._whole(self.segments, names, _SPARSE * len(ids))
            if whole is not None:  # no row has gone from among them: an id is a place
                return whole.take(pa.array(ids - self.segments[0].start))
        of = self._segments_of(ids)
        sizes = np.bincount(of, minlength=len(self.segments))
        used = np.flatnonzero(sizes)
        if not len(used):
            raise IndexError(f"{self.name}: no rows to take")
        whole = self._whole([self.segments[at] for at in used], names, _SPARSE * len(ids))
        if whole is not None:
            shifts = np.zeros(len(self.segments), np.int64)
            shifts[used] = np.cumsum([0] + [self.segments[at].count for at in used[:-1]])
            shifts[used] -= [self.segments[at].start for at in used]
            return whole.take(pa.array(ids + shifts[of]))
        order = np.argsort(of, kind="stable")  # a radix sort: the numbers have 16 bits
        pieces, first = [], 0
        for at in used:
            segment, size = self.segments[at], int(sizes[at])
            some = ids[order[first : first + size]] - segment.start
            pieces.append(segment.rows.select(names).take(pa.array(some)))
            first += size
        back = np.empty(len(ids), np.int64)
        back[order] = np.arange(len(ids))
        return concat(pieces).take(pa.array(back))

    def _segments_of(self, ids: Int64s) -> npt.NDArray[Any]:
        """Return the number of the segment that each id belongs to, shape (k,), if it is stored."""
        numbers: Any = np.uint16 if len(self.segments) <= 1 << 16 else np.uint32
        if len(self.segments) > _FEW:
            return np.searchsorted([segment.start for segment in self.segments[1:]], ids, "right").astype(numbers)
        of: npt.NDArray[Any] = np.zeros(len(ids), numbers)
        for segment in self.segments[1:]:  # a comparison for each of the few is ten times faster than a binary search
            of += ids >= segment.start
        return of

    @staticmethod
    def _whole(segments: Sequence[Segment], names: list[str], most: int) -> pa.RecordBatch | None:
        """Return some columns of segments as one batch, or None if that is too much for what is taken of them.

        Rows of several segments are put in order by a sort otherwise, which takes as long as copying 20 rows for each.
        """
        if sum(segment.count for segment in segments) > most or any(segment.body is None for segment in segments):
            return None
        pieces = [segment.rows.select(names) for segment in segments]
        return concat(pieces) if sum(piece.nbytes for piece in pieces) <= _WHOLE_BYTES else None


def _blocks(
    checks: Sequence[Check], left: pa.RecordBatch, mine: Int64s, right: pa.RecordBatch, theirs: npt.NDArray[np.int32]
) -> Iterable[slice]:
    """Cut candidate pairs so that what is compared of them takes `_TAKEN_BYTES` at most: a text comes once a pair."""
    sizes = row_sizes(left, lefts(checks), mine) + row_sizes(right, rights(checks), theirs)
    return cuts(sizes, _TAKEN_BYTES, len(mine))


def taking(rows: pa.RecordBatch, at: npt.NDArray[np.integer[Any]] | None) -> Take:
    """Return what gives columns of the rows at some numbers (None for all rows)."""

    def take(column: str, some: Int64s | None) -> pa.Array:
        wanted = at if some is None else some if at is None else at[some]
        return rows.column(column) if wanted is None else rows.column(column).take(pa.array(wanted))

    return take


def _checked(
    checks: Sequence[Check], left: pa.RecordBatch, mine: Int64s, right: pa.RecordBatch, theirs: npt.NDArray[np.int32]
) -> tuple[Int64s, npt.NDArray[np.int32]]:
    """Return the pairs of rows that fulfil all checks."""
    for check in checks:
        keep = fulfilling(check, taking(left, mine), taking(right, theirs), len(mine))
        mine, theirs = mine[keep], theirs[keep]
        if not len(mine):
            break
    return mine, theirs
