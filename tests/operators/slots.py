"""A slot and its state outside of Spark: the state store's map, a whole slot in stages, one that only stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.results.outcomes import Forwarded, Outcome, Pack, PartialBlock, Result
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import Slot, Work
from trijoin_sql.operators.spec import JoinSpec
from trijoin_sql.operators.state import slot_state
from trijoin_sql.operators.state.layout import History
from trijoin_sql.operators.state.manifest import MANIFEST, Manifest
from trijoin_sql.operators.state.slot_state import SlotState
from trijoin_sql.operators.state.worker import WORKER
from trijoin_sql.operators.store import settled
from trijoin_sql.operators.store.probe_plan import SortOrder
from trijoin_sql.operators.store.segment import Lifetime
from trijoin_sql.operators.store.store import Store

from .reference import ids_of, unbundled

#: A join that has had one unit from the beginning.
ONE = History(((0, 1),))


def another_worker() -> None:
    """Be another worker process: one that knows nothing yet."""
    for one in (WORKER.recent, WORKER.visiting, WORKER.sums):
        one.clear()
    WORKER.unseen, WORKER.looked = 0, False


def all_rows(store: Store) -> pa.RecordBatch:
    """Return all that was stored in time, if all of it still is."""
    return store.take(np.arange(store.next_ids[0]), store.segments[0].rows.schema.names)


class OneStore:
    """A slot that only stores."""

    forwards: frozenset[int] = frozenset()

    def __init__(self, keep_for: int | None) -> None:
        self.store = Store("r", [SortOrder(low="t", high="t")], Lifetime("t", keep_for))
        self.stores = {"r": self.store}
        self.counters: Counter[str] = Counter()

    def process(self, work: Work) -> Iterator[Outcome]:
        yield from ()


class Chunks:
    """A state store's map: what a task changes is seen after its commit, and forgotten if it fails."""

    def __init__(self) -> None:
        self.committed: dict[int, bytes] = {}
        self.now: dict[int, bytes] = {}

    def containsKey(self, key: tuple[int]) -> bool:  # noqa: N802
        return key[0] in self.now

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802
        return (self.now[key[0]],) if key[0] in self.now else None

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:  # noqa: N802
        self.now[key[0]] = value[0]

    def removeKey(self, key: tuple[int]) -> None:  # noqa: N802
        del self.now[key[0]]

    @property
    def manifest(self) -> Manifest:
        """What the committed manifest says."""
        return Manifest.from_bytes(self.committed[MANIFEST])

    def commit(self) -> None:
        self.committed = dict(self.now)

    def abort(self) -> None:
        self.now = dict(self.committed)


class Task:
    """One slot through all stages, as tasks of a query on one machine."""

    def __init__(self, spec: JoinSpec) -> None:
        self.spec = spec
        self.stages = [(Chunks(), make) for make in SCHEMES[spec.scheme].stages(spec)]

    def batch(self, number: int, rows: dict[int, pa.RecordBatch], fail: bool = False) -> Counter[tuple[Any, ...]]:
        found: Counter[tuple[Any, ...]] = Counter()
        work = Work({rank: [batch] for rank, batch in rows.items()})
        for chunks, make in self.stages:
            state = SlotState(self._make(make), chunks, "stream r: id", ONE)
            following = Work({rank: list(some) for rank, some in work.rows.items() if rank in state.slot.forwards})
            for item in unbundled(self.spec, state.slot.process(work)):
                if isinstance(item, Result):
                    found.update(ids_of(self.spec, item))
                elif isinstance(item, Pack):
                    following.packs.append(item)
                elif isinstance(item, PartialBlock):
                    following.blocks.append(item)
                elif isinstance(item, Forwarded):
                    following.rows.setdefault(item.rank, []).append(item.rows)
                else:
                    following.partials.append(item.rows)
            state.save(number)
            work = following
        for chunks, _ in self.stages:
            chunks.abort() if fail else chunks.commit()
        return found

    def _make(self, make: Callable[[JoinSpec, int], Slot]) -> Callable[[], Slot]:
        return lambda: make(self.spec, 0)


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give state pages of 16 bits, and chunks of their own that merge three by three."""
    monkeypatch.setattr(settled, "PAGE_BITS", 4)
    monkeypatch.setattr(settled, "_PAGE", 16)
    monkeypatch.setattr(slot_state, "FAN_IN", 3)
    monkeypatch.setattr(slot_state, "INSIDE_BYTES", 0)
