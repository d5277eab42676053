"""Joins with the closest rows (ASOF JOIN, NEAREST BY), in the cells of a grid.

Every row of the first stream is in one cell, and all rows that may be its partners come to that cell. It waits until
none can come any more, which is when the watermark has passed its event time by as much as a partner may be later (as
in `outer`); then it looks for its partners, once, and the closest are its results. So rows of the second stream are
kept for as long as a partner may be later than they are, and for as long as such a row then waits.

Where the latest of earlier rows is closest (``MATCH_CONDITION (r.ts >= s.ts) ON r.k = s.k``), a row that expires may be
closest to rows of any later time, until the watermark passes a later one with its key. Of each key the latest row that
has expired is stored apart; what later ones have replaced goes when it is half of these rows.

Where the first of later rows is closest (``r.ts <= s.ts``), a row that has found one waits until the watermark has
passed that one, and no longer: no other row before it can come.

Of equally close partners the one that came last is a result: Spark's batch gives any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import JoinOverflowError
from ..batches.pieces import concat
from ..kernels.order_keys import Int64s, float_key, order_key, values
from ..results.bundle import Part
from ..results.outcomes import Outcome, joined
from ..spec import Closest, JoinSpec
from ..store.index import Probe
from ..store.segment import Lifetime, Segment
from ..store.store import Store
from .iterative import Step
from .outer import OuterSlot

#: So many waiting rows look for their partners at a time.
_ROWS = 1 << 16

#: So many candidates are held before all but the closest are dropped.
_HELD = 1 << 20

#: Fewer latest rows than these are not worth a look for those that later ones have replaced.
_FEW = 1 << 10

#: Added to the ids of rows that have not expired: they came after all others.
_LATER = 1 << 50


class ClosestSlot(OuterSlot):
    """One cell of a join with the closest rows: see `outer.OuterSlot`."""

    def __init__(self, spec: JoinSpec, slot: int) -> None:
        super().__init__(spec, slot)
        assert spec.closest is not None
        (step,) = self.unit.orders[0]
        self.partners = ClosestPartners(spec, spec.closest, step, self.unit.stored[1])
        self.stores |= self.partners.stores

    def _emit_due(self, watermark: int | None) -> Iterator[Outcome]:
        """Emit the rows that no closer partner can come for any more, with their closest ones, once each."""
        yield from super()._emit_due(watermark)
        if self.partners.is_next and watermark:
            yield from self._with_next(watermark)
        if watermark:
            self.partners.keep_latest(watermark)

    def _arrive(self, rank: int, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Store rows: nothing is known of them before the watermark has passed."""
        self.unit.keep(rank, rows)
        yield from ()

    def _emit_final(self, rank: int, rows: Part) -> Iterator[Outcome]:
        """Emit waiting rows with their closest partners."""
        for some in pieces_of(rows):
            mine, ids = self.partners.of(some)
            yield from self._paired(some, mine, ids)
            alone = np.ones(len(some), np.bool_)
            alone[mine] = False
            yield from self._unmatched(0, some.at(np.flatnonzero(alone)))

    def _with_next(self, watermark: int) -> Iterator[Outcome]:
        """Emit waiting rows all of whose closest partners the watermark has passed."""
        waiting = self.unit.stored[0]
        settled = waiting.settled
        assert settled is not None
        for segment in waiting.segments:
            ids = np.arange(segment.start, segment.stop)
            ids = ids[~settled.has(ids)]
            for some in pieces_of(Part(segment.rows, ids - segment.start)):
                mine, theirs, enough = self.partners.passed(some, watermark)
                final = enough[mine]
                yield from self._paired(some, mine[final], theirs[final])
                assert some.ids is not None
                settled.add(some.ids[enough].astype(np.int64) + segment.start)

    def _paired(self, rows: Part, mine: Int64s, ids: Int64s) -> Iterator[Outcome]:
        """Emit some of the rows with their partners."""
        for at, part in self.partners.parts(ids):
            yield from joined({0: rows.at(mine[at]), 1: part}, self.unit.listed)


class ClosestPartners:
    """Finds the closest partners of rows.

    Parameters
    ----------
    spec, closest
        The join, and which partners are results.
    step
        How a row probes the stored rows that may be its partners.
    recent
        These rows, but for those that have expired.
    """

    def __init__(self, spec: JoinSpec, closest: Closest, step: Step, recent: Store) -> None:
        self.closest, self.plan, self.recent = closest, step.plan, recent
        #: The latest expired rows, if they may still be closest.
        self.latest: Store | None = None
        #: How many of them later ones had not replaced when that was last looked at (0: this process has not yet).
        self.kept = 0
        if closest.latest is not None and spec.most(step.target, step.source) is None:
            self.latest = Store(f"{recent.name}.latest", list(recent.sort_orders.values()), Lifetime())
            recent.looks_back = True
        #: Whether the first of later rows is closest.
        self.is_next = closest.by == "least" and closest.right == spec.streams[step.target].time
        recent.emits_others = self.is_next

    @property
    def stores(self) -> dict[str, Store]:
        """The stores of its own."""
        return {} if self.latest is None else {self.latest.name: self.latest}

    def of(self, rows: Part) -> tuple[Int64s, Int64s]:
        """Return the closest partners of some rows: the number of a row, ascending, and an id, shape (k,)."""
        read = dict.fromkeys([*self.plan.columns, self.closest.left])
        probe = Probe(self.plan, rows.take([*read], slice(len(rows))))
        nearby = Nearby(self.closest, len(rows))
        for store, later in ((self.latest, 0), (self.recent, _LATER)):
            for mine, segment, theirs in () if store is None else self._candidates(store, probe):
                nearby.offer(mine, probe.rows, segment.rows, theirs, segment.start + later)
        return nearby.closest()

    def passed(self, rows: Part, watermark: int) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
        """Return what `of` returns, and for which rows the watermark has passed all of them, shape (len(rows),)."""
        mine, theirs = self.of(rows)
        passed = np.zeros(len(mine), np.bool_)
        if len(mine):
            passed = values(self.recent.take(theirs - _LATER, [self.closest.right]).column(0)) <= watermark
        return mine, theirs, np.bincount(mine[passed], minlength=len(rows)) == self.closest.count

    def parts(self, ids: Int64s) -> Iterator[tuple[Int64s, Part]]:
        """Yield partners by where they are stored: which of the ids, and their rows."""
        for store, some, later in ((self.latest, ids < _LATER, 0), (self.recent, ids >= _LATER, _LATER)):
            if store is not None and some.any():
                yield np.flatnonzero(some), Part(store, ids[some] - later)

    def _candidates(self, store: Store, probe: Probe) -> Iterator[tuple[Int64s, Segment, npt.NDArray[np.int32]]]:
        """Yield partners of waiting rows, the closest of each segment among them, as `Store.probe` does."""
        plan, closest = probe.plan, self.closest
        order = plan.sort_order
        ordered = order.low == closest.right and order.high in (None, order.low) and not plan.others
        if ordered and closest.by != "distance" and closest.count == 1 and plan.cells is None:
            return store.foremost(probe, last=closest.by == "greatest")
        return store.probe(probe)

    def keep_latest(self, watermark: int) -> None:
        """Keep the latest of the rows that expire now."""
        recent, latest = self.recent, self.latest
        if latest is None:
            return
        over = [segment.rows for segment in recent.segments if recent.life.is_over(segment.newest, watermark)]
        if not over:
            return
        latest.append(self._latest_of(concat([self._latest_of(rows) for rows in over])))
        if len(latest) > max(2 * self.kept, _FEW):
            rows = self._latest_of(concat([segment.rows for segment in latest.segments]))
            self.kept = rows.num_rows
            if len(latest) > 2 * self.kept:  # a slot that comes to another worker does not write them all anew
                latest.replace(rows)

    def _latest_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the latest row of each key, of several of one time the last."""
        keys = list(self.closest.latest or ())
        order = np.argsort(order_key(rows.column(self.closest.right)), kind="stable")
        if not keys:
            return rows.take(pa.array(order[-1:]))
        columns = [rows.column(name).take(pa.array(order)) for name in keys]
        by_time = pa.table([*columns, pa.array(np.arange(len(order)))], names=[*map(str, range(len(keys))), "row"])
        last = by_time.group_by(by_time.column_names[:-1]).aggregate([("row", "max")]).column("row_max")
        return rows.take(pa.array(np.sort(order[last.to_numpy()])))


def pieces_of(rows: Part) -> Iterator[Part]:
    """Cut rows into as many as look for their partners at a time."""
    for first in range(0, len(rows), _ROWS):
        yield rows.at(np.arange(first, min(first + _ROWS, len(rows))))


class Nearby:
    """The closest candidates of some rows so far.

    Parameters
    ----------
    closest
        What is close.
    count
        How many rows there are.
    """

    def __init__(self, closest: Closest, count: int) -> None:
        self.spec, self.count = closest, count
        self.held: list[tuple[Int64s, Int64s, Int64s]] = []
        self.size = 0

    def offer(
        self, mine: Int64s, left: pa.RecordBatch, right: pa.RecordBatch, theirs: npt.NDArray[np.int32], start: int
    ) -> None:
        """Take candidates: rows ``mine`` of ``left`` and ``theirs`` of ``right``, whose ids begin at ``start``."""
        if not len(mine):
            return
        of = pa.array(mine), pa.array(theirs)
        far = self._far(left.column(self.spec.left).take(of[0]), right.column(self.spec.right).take(of[1]))
        self.held.append((mine, far, theirs.astype(np.int64) + start))
        self.size += len(mine)
        if self.size > _HELD + self.count * self.spec.count:
            self._reduce()

    def closest(self) -> tuple[Int64s, Int64s]:
        """Return the closest candidates: the number of a row, ascending, and the id of its partner, shape (k,)."""
        self._reduce()
        mine, _, ids = self.held[0] if self.held else (np.zeros(0, np.int64),) * 3
        return mine, ids

    def _far(self, here: pa.Array, there: pa.Array) -> Int64s:
        """Return a key of how far each candidate is, shape (k,): the least is closest."""
        if self.spec.by == "greatest":
            return ~order_key(there)  # as many below zero as above: unlike a minus, it does not overflow
        if self.spec.by == "least":
            return order_key(there)
        with np.errstate(all="ignore"):
            apart = np.abs(self._difference(here, there))
            if apart.dtype.kind in "iu":
                whole: Int64s = apart.astype(np.int64)
                return whole
            return ~float_key(-apart) if self.spec.similarity else float_key(apart)

    def _difference(self, here: pa.Array, there: pa.Array) -> npt.NDArray[Any]:
        """Return the differences of two columns, shape (k,), in their type; integers that do not fit have no sign."""
        difference: npt.NDArray[Any]
        if pa.types.is_floating(there.type) or (self.spec.wraps and pa.types.is_integer(there.type)):
            difference = values(here) - values(there)
            return difference
        one, other = order_key(here), order_key(there)
        difference = np.where(one > other, one - other, other - one).view(np.uint64)
        if self.spec.most is not None and (difference > self.spec.most).any():
            raise JoinOverflowError(self.spec.sql, self.spec.type_name)
        return difference

    def _reduce(self) -> None:
        """Keep the closest candidates of each row."""
        if not self.held:
            return
        mine, far, ids = map(np.concatenate, zip(*self.held, strict=True))
        order = np.lexsort((~ids, far, mine))
        mine = mine[order]
        starts = np.flatnonzero(np.diff(mine, prepend=-1))
        place = np.arange(len(mine)) - np.repeat(starts, np.diff(starts, append=len(mine)))
        order = order[place < self.spec.count]
        self.held = [(mine[place < self.spec.count], far[order], ids[order])]
        self.size = len(order)
