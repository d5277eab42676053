"""A tree of joins of several kinds, in the cells of a grid: inner joins, and branches that hang on rows of theirs.

A branch is a LEFT, SEMI, ANTI, ASOF or NEAREST join with one more stream, whose conditions read one stream of the core,
its *anchor*. So which of its rows are partners depends on the anchor's row alone. For each row of an anchor and each
branch two bits are kept beside the row (`store.settled`): whether it has *met* a partner, and whether it is *over*: no
partner can come any more. Together they say what a result has of the branch:

=============== ================================================ =====================
branch          a result has                                     nothing yet, or never
=============== ================================================ =====================
left            each partner if it has met one, NULL if over     neither
semi            no column, if it has met one                     not met
anti            no column, if it is over and has met none        met, or not over
closest         its closest partners, if over; NULL (left) if    not over
                there are none
=============== ================================================ =====================

A result of the whole join is a result of the core with one of these for each branch. It comes when the last of them
does: with a row of the core, with a partner, or when the watermark says that a row of an anchor is over for a branch
(the closed bound by which rows expire, 003 section 3.3). Each of these is handled by itself, against what was there
before, as the rows of an inner join are (004 equation 3). So each result comes once, and no branch waits for another.

A row of an anchor that has NULL where a condition of a branch needs a value is over for it when it comes.

The core's own results are not stored (004 section 4.1): they are found again, by iterative probing, from the row of the
anchor. What may still be part of a result is kept until it cannot be any more (`JoinSpec.keep_for`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..batches.pieces import concat
from ..kernels.order_keys import Int64s
from ..results.bundle import Part
from ..results.outcomes import Outcome, joined
from ..spec import Branch, JoinSpec
from ..store.index import Probe
from ..store.probe_plan import plan_probe
from ..store.segment import Segment
from ..store.settled import Settled
from .base import Work, any_null, gathered, kept, padding
from .closest import ClosestPartners, pieces_of
from .iterative import Chosen, IterativeUnit, Step, probe_steps

#: Results of the core, by rank, with what they have of branches so far.
_Results = dict[int, Chosen]

#: So many partners of a branch are put together at most.
_TOGETHER = 1 << 18


class MixedSlot:
    """One cell of a tree of joins.

    Parameters
    ----------
    spec
        The join.
    slot
        The number of the cell.
    """

    forwards: frozenset[int] = frozenset()

    def __init__(self, spec: JoinSpec, slot: int) -> None:
        self.spec, self.slot = spec, slot
        self.core = {rank: probe_steps(spec, rank, spec.core) for rank in spec.core}
        self.down = {one.rank: _step(spec, one.anchor, one.rank) for one in spec.branches}
        self.up = {one.rank: _step(spec, one.rank, one.anchor) for one in spec.branches}
        self.unit = IterativeUnit(spec, orders={**self.core, -1: (*self.down.values(), *self.up.values())})
        self.counters, stored = self.unit.counters, self.unit.stored
        self.partners = {
            one.rank: ClosestPartners(spec, one.closest, self.down[one.rank], stored[one.rank])
            for one in spec.branches
            if one.closest is not None
        }
        self.stores = {store.name: store for store in stored.values()}
        for partners in self.partners.values():
            self.stores |= partners.stores
        self.hanging = {rank: [one for one in spec.branches if one.anchor == rank] for rank in spec.core}
        #: By rank of a branch: which bits of its anchor's rows say that they have met a partner, or that they are over.
        #: Of closest partners, which are not looked for before: that they never have one.
        self.met = {one.rank: 2 * at for some in self.hanging.values() for at, one in enumerate(some)}
        self.over = {rank: bit + 1 for rank, bit in self.met.items()}
        for rank, branches in self.hanging.items():
            if branches:
                reach = [(spec.most(rank, one.rank), self.over[one.rank]) for one in branches if one.kind != "semi"]
                stored[rank].waits = tuple((most, bit) for most, bit in reach if most is not None)
                stored[rank].settled = Settled(2 * len(branches))

    def process(self, work: Work) -> Iterator[Outcome]:
        """Handle one micro-batch: its rows, and then what the watermark has passed."""
        branches = {one.rank: one for one in self.spec.branches}
        for rank in range(len(self.spec.streams)):
            for rows in gathered(work.rows.pop(rank, ())):
                rows = kept(self.spec, rank, rows)
                if not rows.num_rows:
                    continue
                yield from self._partners_arrive(branches[rank], rows) if rank in branches else self._arrive(rank, rows)
        for branch in self.spec.branches:
            if branch.kind != "semi":
                yield from self._end(branch, work.watermark)
        for partners in self.partners.values():
            if work.watermark:
                partners.keep_latest(work.watermark)

    # ------------------------------------------------------------------------------------------------ what may happen

    def _arrive(self, rank: int, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Take rows of the core."""
        never = {one.rank: any_null(rows, one.required) for one in self.hanging[rank]}
        if self.spec.is_alone(rank):
            alone = np.logical_and.reduce(list(never.values()))
            if alone.any():  # they may have no time, by which they would go
                yield from self._without_partners(rank, rows.filter(pa.array(alone)))
                rows, never = rows.filter(pa.array(~alone)), {one: some[~alone] for one, some in never.items()}
        store = self.unit.stored[rank]
        before = {id(segment) for segment in store.segments}
        ids = self.unit.keep(rank, rows)
        for branch in self.hanging[rank]:
            assert store.settled is not None
            store.settled.add(ids[never[branch.rank]], self.over[branch.rank])
            if branch.closest is not None:
                store.settled.add(ids[never[branch.rank]], self.met[branch.rank])
        for segment in [one for one in store.segments if id(one) not in before]:
            for branch in self.hanging[rank]:
                self._meet(branch, segment)
            yield from self._emit(rank, {rank: Chosen(segment.rows, np.arange(segment.count), segment.start)})

    def _meet(self, branch: Branch, segment: Segment) -> None:
        """Note which new rows of an anchor have partners."""
        settled = self.unit.stored[branch.anchor].settled
        if branch.closest is not None or settled is None or not self.unit.stored[branch.rank].segments:
            return
        step = self.down[branch.rank]
        met = np.zeros(segment.count, np.bool_)
        probe = Probe(step.plan, segment.rows.select(list(self.unit.columns_of(step))))
        for mine, _, _ in self.unit.stored[branch.rank].probe(probe):
            met[mine] = True
        ids = np.flatnonzero(met) + segment.start
        settled.add(ids[~settled.has(ids, self.over[branch.rank])], self.met[branch.rank])

    def _partners_arrive(self, branch: Branch, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Take rows of a branch."""
        self.unit.keep(branch.rank, rows)
        if branch.closest is not None:
            return  # which ones are closest is not known before the watermark has passed
        step, store = self.up[branch.rank], self.unit.stored[branch.anchor]
        settled, bit = store.settled, self.met[branch.rank]
        assert settled is not None
        probe = Probe(step.plan, rows.select(list(self.unit.columns_of(step))))
        for mine, segment, theirs in store.probe(probe):
            may = ~settled.has(theirs.astype(np.int64) + segment.start, self.over[branch.rank])
            if not may.all():  # the index takes NULL for a value
                mine, theirs = mine[may], theirs[may]
            found = np.unique(theirs).astype(np.int64)
            new = found[~settled.has(found + segment.start, bit)]
            settled.add(new + segment.start, bit)
            if branch.kind == "left":
                anchors = Chosen(segment.rows, theirs, segment.start)
                yield from self._emit(branch.anchor, {branch.anchor: anchors, branch.rank: Chosen(rows, mine)}, branch)
            elif branch.kind == "semi":
                yield from self._emit(branch.anchor, {branch.anchor: Chosen(segment.rows, new, segment.start)}, branch)

    def _end(self, branch: Branch, watermark: int | None) -> Iterator[Outcome]:
        """Emit what rows of an anchor have been waiting for that the watermark has passed, once each."""
        store, bit = self.unit.stored[branch.anchor], self.over[branch.rank]
        reach, settled = self.spec.most(branch.anchor, branch.rank), store.settled
        assert settled is not None
        for segment in list(store.segments):
            ids = np.arange(segment.start, segment.stop)
            if watermark is not None:
                ids = store.due(segment, reach, watermark) if watermark and reach is not None else ids[:0]
            ids = ids[~settled.has(ids, bit)]
            if watermark and branch.rank in self.partners and self.partners[branch.rank].is_next:
                ids = np.union1d(ids, self._passed(branch, segment, watermark))
            settled.add(ids, bit)
            if branch.closest is None:
                ids = ids[~settled.has(ids, self.met[branch.rank])]
            for some in pieces_of(Part(segment.rows, ids - segment.start)):
                yield from self._emit(branch.anchor, {branch.anchor: Chosen(segment.rows, some.ids, segment.start)})

    def _passed(self, branch: Branch, segment: Segment, watermark: int) -> Int64s:
        """Return the ids of waiting rows all of whose closest partners the watermark has passed."""
        settled = self.unit.stored[branch.anchor].settled
        assert settled is not None
        ids = np.arange(segment.start, segment.stop)
        ids = ids[~settled.has(ids, self.over[branch.rank])]
        found = [ids[:0]]
        for some in pieces_of(Part(segment.rows, ids - segment.start)):
            _, _, enough = self.partners[branch.rank].passed(some, watermark)
            assert some.ids is not None
            found.append(some.ids[enough].astype(np.int64) + segment.start)
        return np.concatenate(found)

    # ------------------------------------------------------------------------------------------------------- results

    def _emit(self, start: int, found: _Results, given: Branch | None = None) -> Iterator[Outcome]:
        """Emit the results with some rows of a stream of the core, and with rows of a branch where these are given."""
        ready = self._ready(start, found, given)
        if ready is not None:
            yield from self._with_core(self.core[start], ready, given)

    def _with_core(self, steps: Sequence[Step], found: _Results, given: Branch | None) -> Iterator[Outcome]:
        """Go on to the other streams of the core, depth first."""
        if not steps:
            todo = [one for one in self.spec.branches if one is not given and one.kind not in ("semi", "anti")]
            yield from self._with_branches(todo, found)
            return
        for further in self.unit.further(steps[0], found):
            ready = self._ready(steps[0].target, further, given)
            if ready is not None:
                yield from self._with_core(steps[1:], ready, given)

    def _with_branches(self, branches: Sequence[Branch], found: _Results) -> Iterator[Outcome]:
        """Go on to what results have of branches, depth first."""
        if not branches:
            yield from joined({rank: some.part for rank, some in found.items()}, self.unit.listed)
            return
        for mine, partners in self._of_branch(branches[0], found[branches[0].anchor]):
            further = {rank: some.of(mine) for rank, some in found.items()}
            yield from self._with_branches(branches[1:], {**further, branches[0].rank: partners})

    def _ready(self, rank: int, found: _Results, given: Branch | None) -> _Results | None:
        """Return the results that have something of each branch on a stream of the core, None if none has."""
        settled, ids = self.unit.stored[rank].settled, found[rank].ids
        ready = np.ones(len(ids), np.bool_)
        for branch in self.hanging[rank]:
            if branch is given:
                continue
            assert settled is not None
            if branch.closest is not None:
                ready &= settled.has(ids, self.over[branch.rank])
                continue
            met = settled.has(ids, self.met[branch.rank])
            if branch.kind == "semi":
                ready &= met
            else:
                over = settled.has(ids, self.over[branch.rank])
                ready &= met | over if branch.kind == "left" else over & ~met
        if ready.all():
            return found if len(ready) else None
        some = np.flatnonzero(ready)
        return {one: rows.of(some) for one, rows in found.items()} if len(some) else None

    def _of_branch(self, branch: Branch, anchors: Chosen) -> Iterator[tuple[Int64s, Chosen]]:
        """Yield what results have of a branch: which of them, shape (k,), with repeats, and its rows, shape (k,)."""
        listed = list(self.unit.listed[branch.rank])
        alone = np.ones(len(anchors.ids), np.bool_)
        waiting: list[tuple[Int64s, pa.RecordBatch]] = []
        size = 0
        for mine, part in self._partners(branch, anchors):
            alone[mine] = False
            if size + len(mine) > _TOGETHER and waiting:
                yield _together(waiting)
                waiting, size = [], 0
            waiting.append((mine, part.take(listed, slice(0, len(mine)))))
            size += len(mine)
        if branch.pads and alone.any():
            mine = np.flatnonzero(alone)
            self.counters["padded"] += len(mine)
            waiting.append((mine, padding(self.spec.streams[branch.rank], len(mine))))
        if waiting:
            yield _together(waiting)

    def _partners(self, branch: Branch, anchors: Chosen) -> Iterator[tuple[Int64s, Part]]:
        """Yield the partners of rows of an anchor in a branch: the number of each row, shape (k,), and the partners."""
        settled = self.unit.stored[branch.anchor].settled
        assert settled is not None
        has_met = settled.has(anchors.ids, self.met[branch.rank])
        if branch.rank in self.partners:
            looking = np.flatnonzero(~has_met)
            partners, first = self.partners[branch.rank], 0
            for some in pieces_of(anchors.of(looking).part):
                mine, ids = partners.of(some)
                for at, part in partners.parts(ids):
                    yield looking[mine[at] + first], part
                first += len(some)
            return
        met = np.flatnonzero(has_met)
        if len(met):
            for mine, segment, theirs in self.unit.matches(self.down[branch.rank], anchors.of(met)):
                yield met[mine], Part(segment.rows, theirs)

    def _without_partners(self, rank: int, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Emit rows that are the whole core and have no partner in any branch."""
        if any(one.kind not in ("left", "left_closest", "anti") for one in self.spec.branches):
            return
        self.counters["padded"] += rows.num_rows
        padded = [one.rank for one in self.spec.branches if one.pads]
        parts = {one: Part(padding(self.spec.streams[one], rows.num_rows)) for one in padded}
        yield from joined({rank: Part(rows), **parts}, self.unit.listed)


def _step(spec: JoinSpec, source: int, target: int) -> Step:
    return Step(source, target, plan_probe(spec.edge(source, target)), ())


def _together(some: Sequence[tuple[Int64s, pa.RecordBatch]]) -> tuple[Int64s, Chosen]:
    return np.concatenate([mine for mine, _ in some]), Chosen(concat([rows for _, rows in some]))
