"""Outer, semi and anti joins of two streams, in the cells of a grid.

Every row of a side that is *tested* (the preserved sides of an outer join, the left side of a semi or anti join) is in
one cell, and all rows that may be its partners come to that cell. So whether it has met one is known where it is
stored, as a bit beside the row (`store.settled`). The other side is copied to as many cells as the tested side has.

A tested row without a partner is emitted when none can come any more: when the watermark has passed its event time by
as much as a partner may be later (the closed bound by which rows expire, 003 section 3.3). The rows of a micro-batch
are handled first, since all of them were above the watermark of the one before. A row in which the conditions find NULL
has no partner, and is emitted at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..results.bundle import Part
from ..results.outcomes import Outcome, Result, joined
from ..spec import JoinSpec
from ..store.index import Probe
from ..store.settled import Settled
from .base import Work, any_null, gathered, kept, padding
from .iterative import IterativeUnit


class OuterSlot:
    """One cell of an outer, semi or anti join.

    Parameters
    ----------
    spec
        The join, of two streams.
    slot
        The number of the cell.
    """

    forwards: frozenset[int] = frozenset()

    def __init__(self, spec: JoinSpec, slot: int) -> None:
        self.spec, self.slot = spec, slot
        self.unit = IterativeUnit(spec)
        self.stores = {store.name: store for store in self.unit.stored.values()}
        for rank in spec.tested:
            self.unit.stored[rank].settled = Settled()
            reach = spec.most(rank, 1 - rank)
            self.unit.stored[rank].waits = () if reach is None else ((reach, 0),)

    @property
    def counters(self) -> Counter[str]:
        """Counters of the unit."""
        return self.unit.counters

    def process(self, work: Work) -> Iterator[Outcome]:
        """Handle one micro-batch."""
        for rank in (0, 1):
            for rows in gathered(work.rows.pop(rank, ())):
                if rank in self.spec.tested:
                    rows, never = self._apart(rank, rows)
                    yield from self._unmatched(rank, Part(never))
                yield from self._arrive(rank, kept(self.spec, rank, rows))
        yield from self._emit_due(work.watermark)

    def _emit_due(self, watermark: int | None) -> Iterator[Outcome]:
        """Emit the rows that no partner can come for any more, once each."""
        if not self.spec.emits_unmatched and self.spec.closest is None:
            return
        for rank in self.spec.tested:
            store = self.unit.stored[rank]
            settled, waits = store.settled, store.waits
            assert settled is not None
            for segment in store.segments:
                ids = np.arange(segment.start, segment.stop)
                if watermark is not None:
                    ids = store.due(segment, waits[0][0], watermark) if watermark and waits else ids[:0]
                ids = ids[~settled.has(ids)]
                if len(ids):
                    yield from self._emit_final(rank, Part(segment.rows, ids - segment.start))
                    settled.add(ids)

    def _emit_final(self, rank: int, rows: Part) -> Iterator[Outcome]:
        """Emit what is known of rows that no partner can come for any more."""
        yield from self._unmatched(rank, rows)

    def _apart(self, rank: int, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the rows that may find a partner, and those that never do."""
        never = any_null(rows, (name for name, _ in self.spec.streams[rank].required))
        if not never.any():
            return rows, rows.slice(0, 0)
        return rows.filter(pa.array(~never)), rows.filter(pa.array(never))

    def _arrive(self, rank: int, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Join arriving rows with the other side's, and store them."""
        if not rows.num_rows:
            return
        spec, other = self.spec, 1 - rank
        (step,) = self.unit.orders[rank]
        met = np.zeros(rows.num_rows, np.bool_)
        settled = self.unit.stored[other].settled
        probe = Probe(step.plan, rows.select(list(step.plan.columns or spec.streams[rank].columns[:1])))
        for mine, segment, theirs in self.unit.stored[other].probe(probe):
            met[mine] = True
            if settled is not None:
                yield from self._settle(other, segment.rows, segment.start, theirs)
            if spec.pairs and not spec.settles:
                parts = {rank: Part(rows, mine), other: Part(segment.rows, theirs)}
                yield from joined(parts, self.unit.listed)
        if rank not in spec.tested:
            if not spec.settles:
                self.unit.keep(rank, rows)
            elif spec.pairs and self.slot in spec.blocks[0].slots:  # all layouts of cells have it
                yield from joined({rank: Part(rows)}, self.unit.listed)
            return
        if not spec.pairs:  # a row that has met a partner is done with
            if spec.join == "semi" and met.any():
                yield from joined({rank: Part(rows, np.flatnonzero(met))}, self.unit.listed)
            rows, met = rows.filter(pa.array(~met)), met[~met]
        ids = self.unit.keep(rank, rows)
        mine_settled = self.unit.stored[rank].settled
        assert mine_settled is not None
        mine_settled.add(ids[met])

    def _settle(self, rank: int, rows: pa.RecordBatch, start: int, at: npt.NDArray[np.int32]) -> Iterator[Outcome]:
        """Settle stored rows that have met a partner; a semi join gives those for which it is the first."""
        settled = self.unit.stored[rank].settled
        assert settled is not None
        new = np.unique(at).astype(np.int64)
        new = new[~settled.has(new + start)]
        if len(new):
            settled.add(new + start)
            if self.spec.join == "semi":
                yield from joined({rank: Part(rows, new)}, self.unit.listed)

    def _unmatched(self, rank: int, rows: Part) -> Iterator[Outcome]:
        """Emit rows without a partner, padded with NULLs where the output has columns of the other side."""
        if not len(rows) or not self.spec.emits_unmatched:
            return
        other = 1 - rank
        for result in joined({rank: rows}, self.unit.listed):
            assert isinstance(result, Result)
            self.counters["padded"] += len(result)
            result.parts[other] = padding(self.spec.streams[other], len(result))
            yield result
