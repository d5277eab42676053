"""A join in this process: the router, the slots and the stages that tasks of Spark run, without Spark or state store.

The benchmarks count with it what each unit gets, keeps and compares; the tests of the operators run random rows
through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from trijoin_sql.operators.batches.ipc import to_bytes
from trijoin_sql.operators.results.bundle import Bundle
from trijoin_sql.operators.results.outcomes import Forwarded, Outcome, Pack, Partial, PartialBlock, Result
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import Slot, Work
from trijoin_sql.operators.schemes.routing import partner_slots
from trijoin_sql.operators.spec import JoinSpec
from trijoin_sql.operators.task.wire import block_to_bytes, pack_to_bytes

#: Changes what leaves a slot: lists results, or reduces them.
Through = Callable[[Iterator[Outcome]], Iterator[Outcome]]


def unchanged(items: Iterator[Outcome]) -> Iterator[Outcome]:
    """Return what leaves a slot as it is."""
    return items


def hand_on(spec: JoinSpec, slot: int, items: Iterator[Outcome], following: Sequence[Work]) -> Iterator[Outcome]:
    """Give what a slot finds to the slots of the next stage that get it, and yield the rest: results."""
    for item in items:
        if isinstance(item, Forwarded):
            following[slot].rows.setdefault(item.rank, []).append(item.rows)
            continue
        if not isinstance(item, Pack | Partial | PartialBlock):
            yield item
            continue
        stays = isinstance(item, PartialBlock) and item.stays
        for other in [slot] if stays else partner_slots(spec, slot):
            if isinstance(item, Pack):
                following[other].packs.append(item)
            elif isinstance(item, PartialBlock):
                following[other].blocks.append(item)
            else:
                following[other].partials.append(item.rows)


@dataclass
class LocalJoin:
    """All slots of a join.

    Parameters
    ----------
    spec
        The join.
    through
        What happens to the outcomes of a slot on their way.
    compact
        Whether stores merge their segments after a micro-batch, as they do when they are made durable.
    counts
        Whether rows and bytes are counted that reach slots: by slot, in `received`.
    """

    spec: JoinSpec
    through: Through = unchanged
    compact: bool = True
    counts: bool = False
    stages: list[list[Slot]] = field(init=False)
    received: list[Counter[str]] = field(init=False)
    results: list[int] = field(init=False)

    def __post_init__(self) -> None:
        scheme = SCHEMES[self.spec.scheme]
        self.route = scheme.routing.router(self.spec)
        self.stages = [[make(self.spec, slot) for slot in range(self.spec.units)] for make in scheme.stages(self.spec)]
        self.received = [Counter() for _ in range(self.spec.units)]
        self.results = [0] * self.spec.units

    def batch(self, rows: Mapping[int, Sequence[pa.RecordBatch]]) -> Iterator[Outcome]:
        """Take a micro-batch, and yield its results."""
        works = [Work() for _ in range(self.spec.units)]
        for rank, pieces in rows.items():
            for piece in pieces:
                for slots, some in self.route(rank, piece):
                    sent = piece if some is None else piece.take(pa.array(some))
                    for to in slots:
                        works[to].rows.setdefault(rank, []).append(sent)
        for stage in self.stages:
            if self.counts:
                self._count(works)
            following = [Work() for _ in works]
            for number, (slot, work) in enumerate(zip(stage, works, strict=True)):
                following[number].rows = {r: list(rows) for r, rows in work.rows.items() if r in slot.forwards}
                for item in hand_on(self.spec, number, self.through(slot.process(work)), following):
                    self.results[number] += len(item) if isinstance(item, Result | Bundle) else 0
                    yield item
                for store in slot.stores.values():
                    store.fresh.clear()
                    if self.compact:
                        store.compact()
            works = following

    def expire(self, watermark: int) -> None:
        """Forget what no row above a watermark (microseconds) can join."""
        for stage in self.stages:
            for slot in stage:
                for store in slot.stores.values():
                    store.expire(watermark)

    def _count(self, works: Sequence[Work]) -> None:
        """Count what has reached the slots of a stage; what goes to several is encoded once."""
        sizes: dict[int, int] = {}

        def encoded(item: pa.RecordBatch | Pack | PartialBlock) -> bytes:
            if isinstance(item, PartialBlock):
                return block_to_bytes(item)
            return pack_to_bytes(item) if isinstance(item, Pack) else to_bytes(item)

        def size(item: pa.RecordBatch | Pack | PartialBlock) -> int:
            if id(item) not in sizes:
                sizes[id(item)] = len(encoded(item))
            return sizes[id(item)]

        for work, received in zip(works, self.received, strict=True):
            batches = [*(batch for batches in work.rows.values() for batch in batches), *work.partials]
            received["rows_in"] += work.count
            received["bytes_in"] += sum(map(size, [*batches, *work.packs, *work.blocks]))

    def counters(self) -> list[Counter[str]]:
        """Return what slots have counted so far, and what they hold now, by slot."""
        found = []
        for number, received in enumerate(self.received):
            slots = [stage[number] for stage in self.stages]
            stores = [store for slot in slots for store in slot.stores.values()]
            counted = Counter(received)
            for slot in slots:
                counted.update(slot.counters)
            counted["comparisons"] += sum(store.compared for store in stores)
            counted["results"] += self.results[number]
            counted["state_rows"] = sum(map(len, stores))
            counted["state_bytes"] = sum(segment.size for store in stores for segment in store.segments)
            found.append(counted)
        return found
