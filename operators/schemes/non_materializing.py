"""The non-materializing operator over partitioned stores (002 section 4.1, figure 4).

Each stream is stored once, in the units of one stage, and nothing else is. A new row goes from store to store; what it
has found so far goes with it, as a block of partial results, to all units of the next stage. So every row that probes
takes the stages in one order, and goes through the one that stores its own stream without a probe:

======  ==========  =====================
stage   stores      is probed by
======  ==========  =====================
1       s           r, t
2       r           s, t⋈s
3       t           s⋈r, r⋈s
======  ==========  =====================

Every stage takes a micro-batch's streams in the same turns: what a stream's rows have found is joined with the rows of
this micro-batch whose streams had their turn before, and with all earlier ones. So a result is found once, from the
row that is its last one in the order (micro-batch, turn).

The stream of the first stage has the last turn. What comes in one micro-batch is found from its rows then, and they
have one stage less to go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from ..batches.ipc import PACKED_BYTES
from ..batches.pieces import concat
from ..checks import lefts
from ..kernels.order_keys import Int64s
from ..results.bundle import Part, numbered
from ..results.outcomes import Forwarded, Outcome, PartialBlock
from ..spec import JoinSpec
from .base import Scheme, SlotMaker, Work, gathered, kept, owned, routed
from .iterative import Chosen, IterativeUnit, Step
from .routing import TO_GROUPS
from .tree import join_order

#: Partial results that travel together where they are found a few at a time.
TOGETHER = 1 << 16


class StoreSlot:
    """Unit ``slot`` of the store of one stream.

    Parameters
    ----------
    spec, slot
        The join, and the slot.
    stage
        Number of the stage; it stores the stream ``join_order(spec)[stage]``.
    """

    forwards: frozenset[int] = frozenset()

    def __init__(self, spec: JoinSpec, slot: int, stage: int) -> None:
        self.order = join_order(spec)
        self.rank, self.stage, self.slot = self.order[stage], stage, slot
        probes = tuple(tuple(one for one in self.order if one != rank) for rank in range(len(self.order)))
        self.spec = replace(spec, options=replace(spec.options, probes=probes))
        self.unit = IterativeUnit(self.spec, only=self.rank)
        self.counters = self.unit.counters
        self.stores = {store.name: store for store in self.unit.stored.values()}
        self.later = {start: self._steps_from_here(start) for start in self.order if start != self.rank}

    def process(self, work: Work) -> Iterator[Outcome]:
        """Handle one micro-batch."""
        blocks: dict[int, list[PartialBlock]] = {}
        while work.blocks:
            block = work.blocks.pop()
            blocks.setdefault(block.start, []).append(block)
        for rank in reversed(self.order):
            for rows in gathered(work.rows.pop(rank, ())):
                yield from self._rows(rank, rows)
                del rows  # the next rows are not in memory beside these
            waiting = blocks.pop(rank, [])
            while waiting:
                block = waiting.pop()
                if rank == self.rank:
                    yield replace(block, stays=False)
                    continue
                yield from self._found(rank, {at: _chosen(part) for at, part in block.parts.items()})

    def _rows(self, rank: int, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Store rows of a stream, or probe with them; send on those that a later stage needs."""
        if rank == self.rank:
            self.unit.keep(rank, owned(self.spec, rank, rows, self.slot))
            if self.stage == 0:
                yield Forwarded(rank, rows)
            return
        if self.stage == (1 if rank == self.order[0] else 0):
            yield from self._found(rank, {rank: Chosen(kept(self.spec, rank, rows))})
        if self.stage < self.order.index(rank):
            own = routed(self.spec, rank, rows, self.slot)
            if own.num_rows:
                yield Forwarded(rank, own)

    def _found(self, start: int, chosen: dict[int, Chosen]) -> Iterator[Outcome]:
        """Join rows, or partial results that began with rows of a stream, with what is stored here."""
        step, *later = self.later[start]
        if not later:
            yield from self.unit.probe((step,), chosen)
            return
        waiting: list[dict[int, Chosen]] = []
        count = 0
        for found in self.unit.further(step, chosen):
            waiting.append(found)
            count += len(_numbers(found[start]))
            if count >= TOGETHER:
                yield from self._blocks(start, waiting)
                waiting, count = [], 0
        if waiting:
            yield from self._blocks(start, waiting)

    def _blocks(self, start: int, found: Sequence[dict[int, Chosen]]) -> Iterator[PartialBlock]:
        """Yield partial results for the next stage, each row that they consist of once a block."""
        parts = {rank: _merged([one[rank] for one in found], self._columns(start, rank)) for rank in found[0]}
        passes = self.order[self.stage + 1] == start
        waiting = [PartialBlock(start, parts, passes)]
        while waiting:
            block = waiting.pop()
            if block.nbytes > 2 * PACKED_BYTES and len(block) > 1:
                half = len(block) // 2
                waiting += [block.some(slice(0, half)), block.some(slice(half, len(block)))]
            else:
                yield block

    def _columns(self, start: int, rank: int) -> Sequence[str]:
        """Return which columns of a stream's rows the stages behind this one need."""
        needed = {*self.spec.streams[rank].listed}
        for step in self.later[start][1:]:
            needed.update(step.plan.columns if step.source == rank else ())
            needed.update(name for source, check in step.others if source == rank for name in lefts((check,)))
        return [name for name in self.spec.streams[rank].columns if name in needed]

    def _steps_from_here(self, start: int) -> tuple[Step, ...]:
        """Return the probe of this stage, and those behind it, of what began with rows of a stream."""
        steps = self.unit.orders[start]
        here = next(number for number, step in enumerate(steps) if step.target == self.rank)
        return steps[here:]


def _chosen(part: Part) -> Chosen:
    assert isinstance(part.source, pa.RecordBatch)
    return Chosen(part.source, part.ids)


def _merged(some: Sequence[Chosen], columns: Sequence[str]) -> Part:
    """Return rows that were chosen from one batch or from several as a choice from one that has no others."""
    batch = some[0].rows
    if all(one.rows is batch for one in some):
        some = [Chosen(batch, np.concatenate([_numbers(one) for one in some]))]
    taken, places, first = [], [], 0
    for one in some:
        different, place = numbered(_numbers(one))
        taken.append(one.rows.select(list(columns)).take(pa.array(different)))
        places.append(place + first)
        first += len(different)
    return Part(concat(taken), np.concatenate(places))


def _numbers(chosen: Chosen) -> Int64s:
    if chosen.at is None:
        return np.arange(chosen.rows.num_rows)
    return chosen.at.astype(np.int64, copy=False)


def _stages(spec: JoinSpec) -> tuple[SlotMaker, ...]:
    return tuple(partial(StoreSlot, stage=stage) for stage in range(len(spec.streams)))


SCHEMES = {"non_materializing": Scheme(TO_GROUPS, _stages)}
