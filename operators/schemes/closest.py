"""Joins with the closest rows (ASOF JOIN, NEAREST BY), in the cells of a grid.

Every row of the first stream is in one cell, and all rows that may be its partners come to that cell. It waits until
none can come any more, which is when the watermark has passed its event time by as much as a partner may be later (as
in `outer`); then it looks for its partners, once, and the closest are its results. So rows of the second stream are
kept for as long as a partner may be later than they are, and for as long as such a row then waits.

Of equally close partners those that came last are results: Spark's batch gives any of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import JoinOverflowError
from ..kernels.order_keys import Int64s, float_key, order_key, values
from ..results.bundle import Part
from ..results.outcomes import Outcome, joined
from ..spec import Closest
from ..store.index import Probe
from .outer import OuterSlot

#: So many waiting rows look for their partners at a time.
_ROWS = 1 << 16

#: So many candidates are held before all but the closest are dropped.
_HELD = 1 << 20


class ClosestSlot(OuterSlot):
    """One cell of a join with the closest rows: see `outer.OuterSlot`."""

    def _arrive(self, rank: int, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Store rows: nothing is known of them before the watermark has passed."""
        self.unit.keep(rank, rows)
        yield from ()

    def _told(self, rank: int, rows: Part) -> Iterator[Outcome]:
        """Give waiting rows with their closest partners."""
        for first in range(0, len(rows), _ROWS):
            some = rows.at(np.arange(first, min(first + _ROWS, len(rows))))
            yield from self._with_partners(some)

    def _with_partners(self, rows: Part) -> Iterator[Outcome]:
        (step,) = self.unit.orders[0]
        columns = step.plan.columns or self.spec.streams[0].columns[:1]
        assert self.spec.closest is not None
        found = Nearby(self.spec.closest, len(rows))
        probe = Probe(step.plan, rows.take([*dict.fromkeys([*columns, self.spec.closest.left])], slice(0, len(rows))))
        store, plan, by = self.unit.stored[1], step.plan, self.spec.closest.by
        ordered = plan.sort_order.low == self.spec.closest.right and plan.sort_order.high in (None, plan.sort_order.low)
        if ordered and by != "distance" and self.spec.closest.count == 1 and not plan.others and plan.cells is None:
            candidates = store.foremost(probe, last=by == "greatest")
        else:
            candidates = store.probe(probe)
        for mine, segment, theirs in candidates:
            found.offer(mine, probe.rows, segment.rows, theirs, segment.start)
        mine, ids = found.closest()
        yield from joined({0: rows.at(mine), 1: Part(store, ids)}, self.unit.listed)
        alone = np.ones(len(rows), np.bool_)
        alone[mine] = False
        yield from self._spoken(0, rows.at(np.flatnonzero(alone)))


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
        """Take candidates: rows ``mine`` of ``left`` with rows ``theirs`` of ``right``, whose ids begin at ``start``."""
        if not len(mine):
            return
        there = right.column(self.spec.right).take(pa.array(theirs))
        far = self._distance(left.column(self.spec.left).take(pa.array(mine)), there)
        self.held.append((mine, far, theirs.astype(np.int64) + start))
        self.size += len(mine)
        if self.size > _HELD + self.count * self.spec.count:
            self._reduce()

    def closest(self) -> tuple[Int64s, Int64s]:
        """Return the closest candidates: the number of a row, ascending, and the id of its partner, shape (k,)."""
        self._reduce()
        mine, _, ids = self.held[0] if self.held else (np.zeros(0, np.int64),) * 3
        return mine, ids

    def _distance(self, here: pa.Array, there: pa.Array) -> Int64s:
        """Return a key of how far each candidate is, shape (k,): the least is closest."""
        if self.spec.by == "greatest":
            return ~order_key(there)  # as many below zero as above: unlike a minus, it does not overflow
        if self.spec.by == "least":
            return order_key(there)
        if pa.types.is_floating(there.type):
            with np.errstate(invalid="ignore", over="ignore"):
                return float_key(np.abs(values(here) - values(there)))
        one, other = order_key(here), order_key(there)
        with np.errstate(over="ignore"):
            far = np.where(one > other, one - other, other - one)
        if self.spec.most is not None and (far.view(np.uint64) > np.uint64(self.spec.most)).any():
            raise JoinOverflowError(self.spec.sql, self.spec.type_name)
        return far

    def _reduce(self) -> None:
        """Keep the closest candidates of each row."""
        if not self.held:
            return
        mine, far, ids = (np.concatenate(column) for column in zip(*self.held, strict=True))
        order = np.lexsort((~ids, far, mine))
        mine = mine[order]
        starts = np.flatnonzero(np.diff(mine, prepend=-1))
        rank = np.arange(len(mine)) - np.repeat(starts, np.diff(starts, append=len(mine)))
        order = order[rank < self.spec.count]
        self.held = [(mine[rank < self.spec.count], far[order], ids[order])]
        self.size = len(order)
