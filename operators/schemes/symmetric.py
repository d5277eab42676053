"""The symmetric partitioning scheme for cyclic joins (001 section 3.2.1).

A tuple is stored in one unit of its own group and broadcast to the other two groups. In the unit that stores x, an
arriving z first probes the hubs of y on (y, z) and filters their packed members on (x, z), then becomes a hub itself
with the stored x that it matches. A result (x, y, z) so comes from the unit that stores its first tuple, when its last
one arrives. One stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from ..batches.pieces import list_parts
from ..kernels.pairs import expand
from ..results.bundle import Bundle, Part
from ..results.outcomes import Outcome, joined
from ..spec import JoinSpec
from ..store.index import Probe
from ..store.probe_plan import plan_probe
from ..store.segment import Lifetime
from ..store.store import Store
from .base import MEMBERS, Scheme, Work, gathered, kept, matches, owned, pack, passing
from .routing import TO_GROUPS


class HubUnit:
    """A unit that stores one stream x and the hubs of the two others.

    Also the R and T units of the semi-symmetric scheme, which differ only in the streams that become hubs or probe.

    Parameters
    ----------
    spec
        The join.
    rank
        The stream x that the unit stores.
    hubs
        The streams that become hubs here.
    bundled
        Whether results may stay packed although nothing sums them up: they have another stage before them.
    """

    def __init__(self, spec: JoinSpec, rank: int, hubs: tuple[int, ...], *, bundled: bool = False) -> None:
        self.spec = spec
        self.bundled = bundled
        self.rank = rank
        self.pairs = spec.options.pairs
        alias = spec.streams[rank].alias
        others = [other for other in range(3) if other != rank]
        self.to_stored = {other: plan_probe(spec.edge(other, rank)) for other in hubs}
        self.to_hubs = {other: plan_probe(spec.edge(other, hub)) for other in others for hub in hubs if hub != other}
        self.stored = Store(
            alias,
            [order for plan in self.to_stored.values() for order in plan.sort_orders],
            Lifetime(spec.streams[rank].time, spec.keep_for(rank)),
        )
        self.hubs = {}
        for hub in hubs:
            (third,) = (other for other in others if other != hub)
            plan = self.to_hubs[third]
            self.hubs[hub] = Store(
                f"{alias}.hubs.{spec.streams[hub].alias}",
                plan.sort_orders,
                Lifetime(spec.streams[hub].time, spec.most(hub, third)),
            )
        self.counters: Counter[str] = Counter()

    @property
    def stores(self) -> list[Store]:
        """All stores of the unit."""
        return [self.stored, *self.hubs.values()]

    def probe_hubs(self, arriving: int, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Join arriving rows with the hubs of the stream that is neither theirs nor the stored one."""
        (hub,) = (other for other in range(3) if other not in (self.rank, arriving))
        checks = self.spec.edge(arriving, self.rank).checks
        columns = [stream.listed for stream in self.spec.streams]
        bundled = self.bundled and self.stored.is_whole
        for mine, segment, theirs in self.hubs[hub].probe(Probe(self.to_hubs[arriving], rows)):
            offsets, members = list_parts(segment.rows.column(MEMBERS))
            if (bundled or self.spec.aggregate is not None) and not checks:
                # a hub of a member that has expired is reached by no row above the watermark: the bounds are closed
                parts = {hub: Part(segment.rows, theirs), arriving: Part(rows, mine)}
                yield Bundle.of_packs(parts, self.rank, self.stored, members, offsets, theirs)
                continue
            for pair, position in expand(offsets[theirs], offsets[theirs + 1]):
                ids = members[position]
                present = self.stored.present(ids)
                if present is not None:  # a member that has expired has no partner above the watermark
                    ids, pair = ids[present], pair[present]
                if not len(ids):
                    continue
                self.counters["comparisons"] += len(ids) if checks else 0
                few = passing(checks, Part(rows, mine[pair]), Part(self.stored, ids))
                if few is not None:  # of many: what else a result needs is looked up for those alone
                    ids, pair = ids[few], pair[few]
                if not len(ids):
                    continue
                found = {hub: Part(segment.rows, theirs), arriving: Part(rows, mine)}
                if self.bundled:
                    yield Bundle.of_rows(found, self.rank, self.stored, ids, pair)
                    continue
                parts = {other: part.at(pair) for other, part in found.items()}
                yield from joined({**parts, self.rank: Part(self.stored, ids)}, columns)

    def become_hub(self, arriving: int, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """Store arriving rows as hubs of the stored rows that they match; return them with their members' ids."""
        at, ids = matches(self.stored, self.to_stored[arriving], rows)
        if not len(at):
            return None
        hubs = pack(kept(self.spec, arriving, rows), at, ids, pairs=self.pairs)
        self.hubs[arriving].append(hubs)
        self.counters["hubs"] += hubs.num_rows
        self.counters["packs"] += hubs.num_rows
        self.counters["pairs"] += len(at)
        return hubs

    def keep(self, rows: pa.RecordBatch) -> None:
        """Store rows of the unit's own stream."""
        self.stored.append(rows)
        self.counters["stored"] += rows.num_rows


class SymmetricSlot:
    """Unit ``slot`` of each of the three groups."""

    forwards: frozenset[int] = frozenset()

    def __init__(self, spec: JoinSpec, slot: int) -> None:
        self.spec, self.slot = spec, slot
        self.units = [HubUnit(spec, rank, tuple(other for other in range(3) if other != rank)) for rank in range(3)]
        self.stores = {store.name: store for unit in self.units for store in unit.stores}

    @property
    def counters(self) -> Counter[str]:
        """Counters of all units."""
        return sum((unit.counters for unit in self.units), Counter())

    def process(self, work: Work) -> Iterator[Outcome]:
        """Handle one micro-batch."""
        for rank in range(3):
            for rows in gathered(work.rows.pop(rank, ())):
                for unit in self.units:
                    if unit.rank != rank:
                        yield from unit.probe_hubs(rank, rows)
                        unit.become_hub(rank, rows)
                self.units[rank].keep(owned(self.spec, rank, rows, self.slot))


SCHEMES = {"symmetric": Scheme(TO_GROUPS, lambda _: (SymmetricSlot,))}
