"""Units that change between micro-batches: rows stay where they are, nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import Band, Check, Compare, EdgeSpec
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import Work
from trijoin_sql.operators.spec import JoinSpec
from trijoin_sql.operators.state.layout import History, Layout, laid_out, obstacle
from trijoin_sql.operators.store.store import Store
from trijoin_sql.operators.task.dispatch import slot_keys

from .reference import Row, batch_of, hand_on, nested_loop, streams

SCHEMA = {"id": pa.int64(), "a": pa.int64(), "ts": pa.int64(), "route": pa.int64()}
WINDOW = 20
NEAR: tuple[Check, ...] = (Band("a", "a", -1, 1), Band("ts", "ts", -WINDOW, WINDOW))


def spec_of(scheme: str, *, bounded: bool) -> JoinSpec:
    """A join of three streams (two for biclique), within a window if bounded."""
    count = 2 if scheme == "biclique" else 3
    parts = tuple(replace(one, time="ts") if bounded else one for one in streams(count, ("a", "ts")))
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    if scheme == "semi_symmetric":
        pairs.remove((0, 2))
    edges = tuple(EdgeSpec(i, j, NEAR if bounded else (Compare("<", "a", "a"),)) for i, j in pairs)
    wide = {(0, 2): 2 * WINDOW} if scheme == "semi_symmetric" else {}
    bounds = tuple(
        (i, j, wide.get((min(i, j), max(i, j)), WINDOW)) for i in range(count) for j in range(count) if i != j
    )
    hub = 1 if scheme == "semi_symmetric" else None
    return JoinSpec("j", parts, edges, scheme, 1, hub, bounds=bounds if bounded else (), elastic=True)


class Run:
    """Slots of all stages, as keys of Spark's grouping: each batch makes those that its layout reaches."""

    def __init__(self, spec: JoinSpec, history: History) -> None:
        self.spec, self.history = spec, history
        self.stores: dict[tuple[int, int], dict[str, Store]] = {}
        self.found: Counter[tuple[Any, ...]] = Counter()
        self.most = 0

    def batch(self, number: int, rows: dict[int, list[Row]], watermark: int) -> None:
        """Dispatch and join one micro-batch; every slot is built anew, as on another worker."""
        layout = self.history.at(number)
        self.most = max(self.most, layout.slots)
        spec = laid_out(self.spec, layout)
        scheme = SCHEMES[spec.scheme]
        works = [Work() for _ in range(spec.slots)]
        for rank, some in rows.items():
            for slots, taken in scheme.routing.router(spec)(rank, batch_of(some, SCHEMA)):
                assert taken is None
                for slot in slots:
                    works[slot].rows[rank] = [batch_of(some, SCHEMA)]
        for stage, make in enumerate(scheme.stages(spec)):
            following = [Work() for _ in works]
            for number_, work in enumerate(works):
                slot = make(spec, number_)
                for name, store in self.stores.get((stage, number_), {}).items():
                    slot.stores[name].segments, slot.stores[name].next_ids = store.segments, store.next_ids
                for store in slot.stores.values():
                    store.expire(watermark)
                following[number_].rows = {r: list(b) for r, b in work.rows.items() if r in slot.forwards}
                hand_on(spec, number_, slot.process(work), following, self.found)
                self.stores[stage, number_] = dict(slot.stores)
            works = following

    def held(self) -> dict[int, bool]:
        """Tell which slots hold anything."""
        held: dict[int, bool] = {}
        for (_, slot), stores in self.stores.items():
            held[slot] = held.get(slot, False) or any(len(store) for store in stores.values())
        return held


def rows_over_time(random: Random, count: int, batches: int, spec: JoinSpec) -> Iterator[dict[int, list[Row]]]:
    """Yield micro-batches whose event times go on by ten; any batch may lack a stream."""
    for batch in range(batches):
        rows: dict[int, list[Row]] = {}
        for rank in range(len(spec.streams)):
            some = [
                {
                    "id": 1000 * (batch * 3 + rank) + at,
                    "a": random.randrange(4),
                    "ts": 10 * batch + random.randrange(10),
                    "route": random.getrandbits(63),
                }
                for at in range(random.randrange(count))
            ]
            if some:
                rows[rank] = some
        yield rows


@pytest.mark.parametrize("bounded", [True, False], ids=["window", "full history"])
@pytest.mark.parametrize("scheme", ["symmetric", "semi_symmetric", "biclique", "tree", "non_materializing"])
def test_units_change_every_few_batches(scheme: str, bounded: bool) -> None:
    """Up, down and up again; retired slots are left out once they are empty, which they must become in a window."""
    random = Random(1)
    spec = spec_of(scheme, bounded=bounded)
    units = (2, 5, 1, 3)
    run, history = None, History(((0, units[0]),))
    inputs: list[list[Row]] = [[] for _ in spec.streams]
    retired = 0
    for number, rows in enumerate(rows_over_time(random, 5, 23, spec)):
        if number % 6 == 5:
            history = history.changed(number, units[number // 6 + 1])
        run = run or Run(spec, history)
        run.history = history
        run.batch(number, rows, 10 * number - 1 if bounded else 0)
        for rank, some in rows.items():
            inputs[rank] += some
        before = history.at(number)
        history = history.retire(number, run.held())
        retired += before.slots - history.at(number + 1).slots
    assert run is not None
    wanted = nested_loop(spec, inputs)
    assert run.found == wanted
    assert sum(wanted.values()) > 50
    assert run.most > 1
    assert retired > 0 or not bounded


@pytest.mark.parametrize("scheme", ["symmetric", "semi_symmetric", "biclique", "tree", "non_materializing"])
def test_retired_slots_must_be_reached(scheme: str) -> None:
    """The near miss: rows that reach the new units alone miss what the old ones hold."""
    random = Random(5)
    spec = spec_of(scheme, bounded=False)
    inputs: list[list[Row]] = [[] for _ in spec.streams]
    right, wrong = Run(spec, History(((0, 4), (2, 1)))), Run(spec, History(((0, 4), (2, 1)), (0, 1)))
    for number, rows in enumerate(rows_over_time(random, 8, 4, spec)):
        right.batch(number, rows, 0)
        wrong.batch(number, rows, 0)
        for rank, some in rows.items():
            inputs[rank] += some
    wanted = nested_loop(spec, inputs)
    assert right.found == wanted
    assert wrong.found != wanted
    assert not wrong.found - wanted


def test_rows_are_stored_in_the_units_of_their_batch() -> None:
    """A row that two units store doubles its results; one that a retired unit stores keeps that for another window."""
    spec = spec_of("biclique", bounded=True)
    run = Run(spec, History(((0, 2), (1, 5), (2, 1))))
    random = Random(1)
    counts = []
    for number in range(3):
        rows: list[Row] = [{"id": i, "a": 0, "ts": 0, "route": random.getrandbits(63)} for i in range(50)]
        run.batch(number, {0: rows}, 0)
        counts.append([len(run.stores[0, slot]["s0"]) if (0, slot) in run.stores else 0 for slot in range(5)])
    assert [sum(count) for count in counts] == [50, 100, 150]
    assert counts[0][2:] == [0, 0, 0]
    assert all(counts[1])
    assert counts[2][1:] == counts[1][1:]


def test_history() -> None:
    history = History(((0, 2),)).changed(5, 4)
    assert [history.at(batch) for batch in (0, 4, 5, 9)] == [Layout(2, 2), Layout(2, 2), Layout(4, 4), Layout(4, 4)]
    history = history.changed(7, 1)
    assert history.at(8) == Layout(1, 4)
    assert history.until(6) == History(((0, 2), (5, 4)))
    assert history.changed(7, 4) == History(((0, 2), (5, 4))), "a change that no batch has seen is as if it never was"
    assert history.changed(9, 1) == history
    assert History.from_dict(history.to_dict()) == history


def test_slots_are_left_out_once_they_are_empty() -> None:
    """A slot that says nothing may hold rows; one that a later layout uses again is back."""
    history = History(((0, 4), (5, 1)))
    assert history.retire(6, {0: True, 2: False, 3: True}) == history
    assert history.retire(6, {0: True, 1: False, 2: False}) == history
    emptied = history.retire(6, {0: False, 1: True, 2: False, 3: False})
    assert [emptied.at(batch) for batch in (4, 6, 7)] == [Layout(4, 4), Layout(1, 4), Layout(1, 2)]
    assert emptied.retire(8, {0: False, 1: False}).at(9) == Layout(1, 1)
    again = emptied.changed(9, 3).changed(12, 1)
    assert [again.at(batch) for batch in (8, 9, 13)] == [Layout(1, 2), Layout(3, 3), Layout(1, 3)]
    assert History.from_dict(again.to_dict()) == again


def test_what_cannot_change_says_why() -> None:
    """Full history: what retires would never empty. More units are possible, even so."""
    spec = spec_of("symmetric", bounded=False)
    assert obstacle(spec, 2, 4) is None
    assert "units from 1 on would never empty" in str(obstacle(spec, 2, 1))
    assert obstacle(spec_of("symmetric", bounded=True), 2, 1) is None


def test_a_slots_key_does_not_depend_on_how_many_there_are() -> None:
    """Else another number of units would be another set of keys, and all state would be lost."""
    counts: Sequence[int] = (1, 2, 3, 8, 50)
    assert all(slot_keys(count) == slot_keys(50)[:count] for count in counts)
