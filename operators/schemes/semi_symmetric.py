"""The semi-symmetric partitioning scheme for chain joins R - S - T with hub S (001 section 3.2.2).

Exactly one rule for each order of arrival:

===========  =========  =================================================================================
order        made in    how
===========  =========  =================================================================================
r, s, t      R unit     s becomes a hub of the earlier r; t probes the hubs of earlier s
t, s, r      T unit     s becomes a hub of the earlier t; r probes the hubs of earlier s
r, t, s      T unit     the pack (s, r ...) from an R unit joins the stored t that are earlier than s
t, r, s      T unit     likewise
s, r, t      S unit     r enters the list of s; t reads it
s, t, r      S unit     t enters the list of s; r reads it
===========  =========  =================================================================================

Packs go from R to T only, never back, or results double. Stage 1 holds the R units, stage 2 the S and T units.

Rows of one micro-batch come at once, so which is earlier is ours to say: t, then s, then r (`turns`). So all results
whose rows came in one micro-batch are of the order t, s, r, and made where the rows that they consist of already are.
What crosses to stage 2, the results of the R units and the packs for the T units, needs an r from a micro-batch before
that of its s. By rank, most results would cross where micro-batches are long for the window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..batches.pieces import cuts, list_parts
from ..kernels.order_keys import Int64s
from ..kernels.pairs import expand
from ..results.bundle import Bundle, Part, numbered
from ..results.outcomes import Outcome, Pack, joined
from ..spec import JoinSpec
from ..store.index import Probe
from ..store.probe_plan import ProbePlan, SortOrder, plan_probe
from ..store.segment import Lifetime
from ..store.store import Store
from .base import MEMBERS, Scheme, Work, gathered, kept, matches, owned, pack, passing
from .routing import TO_GROUPS
from .symmetric import HubUnit

#: Bytes of a pack that crosses to the T units, about: each is one value to Spark.
PACK_BYTES = 4 << 20

#: A stored row's id as a probing column.
_ID = "__id"


def ends(spec: JoinSpec) -> tuple[int, int, int]:
    """Return the ranks of R, S and T: S is the hub, R the end with the lower rank."""
    hub = 1 if spec.hub is None else spec.hub
    first, last = (rank for rank in range(3) if rank != hub)
    return first, hub, last


def turns(spec: JoinSpec) -> tuple[int, int, int]:
    """Return the ranks in the order in which both stages take a micro-batch: T, S, R."""
    first, hub, last = ends(spec)
    return last, hub, first


class ListUnit:
    """The S unit: each stored s has a list of later r and one of later t."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        first, self.rank, last = ends(spec)
        self.sides = {first: last, last: first}
        self.pairs = spec.options.pairs
        alias = spec.streams[self.rank].alias
        self.plans = {side: plan_probe(spec.edge(side, self.rank)) for side in self.sides}
        life = Lifetime(spec.streams[self.rank].time, spec.keep_for(self.rank))
        self.stored = Store(alias, [order for plan in self.plans.values() for order in plan.sort_orders], life)
        self.by_id = ProbePlan(SortOrder(equal=MEMBERS), _ID, None, None, (), ())
        self.lists = {
            side: Store(
                f"{alias}.lists.{spec.streams[side].alias}",
                [self.by_id.sort_order],
                life=Lifetime(spec.streams[side].time, spec.most(side, other)),
            )
            for side, other in self.sides.items()
        }
        self.counters: Counter[str] = Counter()

    @property
    def stores(self) -> list[Store]:
        """All stores of the unit."""
        return [self.stored, *self.lists.values()]

    def arrive(self, side: int, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Read the lists of the other side, then enter one's own."""
        at, ids = matches(self.stored, self.plans[side], rows)
        if not len(at):
            return
        other = self.sides[side]
        checks = self.spec.edge(side, other).checks
        probe = Probe(self.by_id, pa.RecordBatch.from_arrays([pa.array(ids)], names=[_ID]))
        if self.spec.aggregate is not None and not checks:
            yield from self._bundles(side, rows, at, ids, probe)
        else:
            for mine, segment, theirs in self.lists[other].probe(probe):
                self.counters["comparisons"] += len(mine) if checks else 0
                keep = passing(checks, Part(rows, at[mine]), Part(segment.rows, theirs))
                if keep is not None:
                    mine, theirs = mine[keep], theirs[keep]
                if len(mine):
                    parts = {side: Part(rows, at[mine]), self.rank: Part(self.stored, ids[mine])}
                    columns = [stream.listed for stream in self.spec.streams]
                    yield from joined({**parts, other: Part(segment.rows, theirs)}, columns)
        entries = pack(kept(self.spec, side, rows), at, ids, pairs=self.pairs)
        self.lists[side].append(entries)
        self.counters["packs"] += entries.num_rows
        self.counters["pairs"] += len(at)

    def _bundles(self, side: int, rows: pa.RecordBatch, at: Int64s, ids: Int64s, probe: Probe) -> Iterator[Bundle]:
        """Return what the lists of the other side hold for each pair of an arriving row and a stored one."""
        for mine, segment, order, begin, end in self.lists[self.sides[side]].ranges(probe):
            parts = {side: Part(rows, at[mine]), self.rank: Part(self.stored, ids[mine])}
            yield Bundle(parts, self.sides[side], segment.rows, order, begin, end)

    def keep(self, rows: pa.RecordBatch) -> None:
        """Store rows of S."""
        self.stored.append(rows)
        self.counters["stored"] += rows.num_rows


class FirstStageSlot:
    """R unit ``slot``: results of the order r, s, t, and packs for the T units."""

    forwards = frozenset(range(3))

    def __init__(self, spec: JoinSpec, slot: int) -> None:
        self.spec, self.slot = spec, slot
        self.first, self.hub, self.last = ends(spec)
        # A result with an event time may be late; the stage that finds it decides that, on a listed result.
        self.unit = HubUnit(spec, self.first, (self.hub,), bundled=spec.result_time is None)
        self.counters = self.unit.counters
        self.stores = {store.name: store for store in self.unit.stores}

    def process(self, work: Work) -> Iterator[Outcome]:
        """Handle one micro-batch."""
        for rank in turns(self.spec):
            for rows in gathered(work.rows.pop(rank, ())):
                if rank == self.first:
                    self.unit.keep(owned(self.spec, rank, rows, self.slot))
                elif rank == self.last:
                    yield from self.unit.probe_hubs(rank, rows)
                else:
                    hubs = self.unit.become_hub(rank, rows)
                    if hubs is not None:
                        yield from self._packs(hubs)

    def _packs(self, hubs: pa.RecordBatch) -> Iterator[Pack]:
        """Send hubs with the rows that they are hubs of, in packs of about `PACK_BYTES`."""
        offsets, _ = list_parts(hubs.column(MEMBERS))
        waiting = [
            hubs.slice(some.start, some.stop - some.start)
            for some in cuts(np.diff(offsets) * float(offsets.itemsize), PACK_BYTES, hubs.num_rows)
        ]
        while waiting:
            some = waiting.pop(0)
            made = self._pack(some)
            half = some.num_rows // 2
            if half and made.hubs.nbytes + made.members.nbytes > 2 * PACK_BYTES:  # wide rows
                waiting[:0] = [some.slice(0, half), some.slice(half)]
            else:
                yield made

    def _pack(self, hubs: pa.RecordBatch) -> Pack:
        offsets, ids = list_parts(hubs.column(MEMBERS))
        different, position = numbered(ids)
        lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(position.astype(np.int32)))
        sent = hubs.set_column(hubs.schema.get_field_index(MEMBERS), MEMBERS, lists)
        members = self.unit.stored.take(different, self.spec.streams[self.first].columns)
        return Pack(self.hub, sent, self.first, members)


class SecondStageSlot:
    """S unit and T unit ``slot``."""

    forwards: frozenset[int] = frozenset()

    def __init__(self, spec: JoinSpec, slot: int) -> None:
        self.spec, self.slot = spec, slot
        self.first, self.hub, self.last = ends(spec)
        self.middle = ListUnit(spec)
        self.unit = HubUnit(spec, self.last, (self.hub,))
        self.stores = {store.name: store for store in (*self.middle.stores, *self.unit.stores)}
        self._counters: Counter[str] = Counter()

    @property
    def counters(self) -> Counter[str]:
        """Counters of both units."""
        return self.middle.counters + self.unit.counters + self._counters

    def process(self, work: Work) -> Iterator[Outcome]:
        """Handle one micro-batch."""
        for rank in turns(self.spec):
            if rank == self.hub:
                for pack_ in work.packs:
                    yield from self._join_pack(pack_)
            for rows in gathered(work.rows.pop(rank, ())):
                if rank == self.hub:
                    self.unit.become_hub(rank, rows)
                    self.middle.keep(owned(self.spec, rank, rows, self.slot))
                    continue
                if rank == self.first:
                    yield from self.unit.probe_hubs(rank, rows)
                else:
                    self.unit.keep(owned(self.spec, rank, rows, self.slot))
                yield from self.middle.arrive(rank, rows)

    def _join_pack(self, pack_: Pack) -> Iterator[Outcome]:
        """Join a pack (s, r ...) with the stored t that are earlier than s."""
        offsets, members = list_parts(pack_.hubs.column(MEMBERS))
        plan = self.unit.to_stored[self.hub]
        checks = self.spec.edge(self.first, self.last).checks
        for mine, segment, theirs in self.unit.stored.probe(Probe(plan, pack_.hubs)):
            if self.spec.aggregate is not None and not checks:
                parts = {self.hub: Part(pack_.hubs, mine), self.last: Part(segment.rows, theirs)}
                yield Bundle.of_packs(parts, self.first, pack_.members, members, offsets, mine)
                continue
            for pair, position in expand(offsets[mine], offsets[mine + 1]):
                hub, member, at = mine[pair], members[position], theirs[pair].astype(np.int64)
                self._counters["comparisons"] += len(hub) if checks else 0
                keep = passing(checks, Part(pack_.members, member), Part(segment.rows, at))
                if keep is not None:
                    hub, member, at = hub[keep], member[keep], at[keep]
                if len(hub):
                    parts = {self.first: Part(pack_.members, member), self.hub: Part(pack_.hubs, hub)}
                    columns = [stream.listed for stream in self.spec.streams]
                    yield from joined({**parts, self.last: Part(segment.rows, at)}, columns)


SCHEMES = {"semi_symmetric": Scheme(TO_GROUPS, lambda _: (FirstStageSlot, SecondStageSlot))}
