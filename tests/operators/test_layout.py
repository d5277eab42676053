"""Units that change between micro-batches: rows stay where they are, nothing is lost, nothing comes twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import Band, Check, Compare, EdgeSpec
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import Work
from trijoin_sql.operators.schemes.routing import partner_slots
from trijoin_sql.operators.spec import Block, JoinSpec, Options, Ranges
from trijoin_sql.operators.state.layout import History, laid_out, obstacle
from trijoin_sql.operators.store.store import Store
from trijoin_sql.operators.task.dispatch import slot_keys

from .reference import Row, batch_of, hand_on, nested_loop, streams

SCHEMA = {"id": pa.int64(), "a": pa.int64(), "f": pa.float64(), "ts": pa.int64(), "route": pa.int64()}
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


def divided(scheme: str, subgroups: int, column: str, *, bounded: bool) -> JoinSpec:
    """A join whose rows go by the key ``a``, or by ranges of ``f`` around the second stream."""
    plain = spec_of(scheme, bounded=bounded)
    count = len(plain.streams)
    band = Band("f", "f", -1.5, 0.25, arithmetic="float64")
    edges, others = [], [rank for rank in range(count) if rank != 1]
    for edge in plain.edges:
        check: Check = Compare("=", "a", "a")
        if column == "f":  # the ends meet by their times, or by nothing
            check = band if edge.right == 1 else band.mirrored() if edge.left == 1 else NEAR[0]
        edges.append(replace(edge, checks=(check, *(NEAR[1:] if bounded else ()))))
    axis = Ranges(0, 1, 1, "f", 2, floats=True, bands=tuple((other, band) for other in others))
    parts = tuple(
        replace(one, columns=("id", "a", "f", "ts"), group="a" if column == "a" else None) for one in plain.streams
    )
    options = Options(ranges=(axis,)) if column == "f" else Options()
    return replace(plain, streams=parts, edges=tuple(edges), subgroups=subgroups, options=options)


class Run:
    """Slots of all stages, as keys of Spark's grouping: each batch makes those that its layout reaches."""

    def __init__(self, spec: JoinSpec, history: History) -> None:
        self.spec, self.history = spec, history
        self.stores: dict[tuple[int, int], dict[str, Store]] = {}
        self.found: Counter[tuple[Any, ...]] = Counter()
        self.most = 0

    def batch(self, number: int, rows: dict[int, list[Row]], watermark: int) -> None:
        """Dispatch and join one micro-batch; every slot is built anew, as on another worker."""
        spec = laid_out(self.spec, self.history, number, self.spec.options.grid)
        self.most = max(self.most, spec.slots)
        scheme = SCHEMES[spec.scheme]
        works = [Work() for _ in range(spec.slots)]
        for rank, some in rows.items():
            batch = batch_of(some, SCHEMA)
            for slots, taken in scheme.routing.router(spec)(rank, batch):
                for slot in slots:
                    works[slot].rows.setdefault(rank, []).append(
                        batch if taken is None else batch.take(pa.array(taken))
                    )
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
                    "f": random.choice((math.nan, math.inf, -math.inf, *(step / 2 for step in range(-6, 7)))),
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
        retired += len(before) > len(history.at(number + 1))
    assert run is not None
    wanted = nested_loop(spec, inputs)
    assert run.found == wanted
    assert sum(wanted.values()) > 50
    assert run.most > 1
    assert retired > 0 or not bounded


BY_KEY = [("a", subgroups, scheme) for subgroups in (0, 2) for scheme in
          ("symmetric", "semi_symmetric", "biclique", "non_materializing")]  # fmt: skip
BY_RANGE = [("f", 0, "symmetric"), ("f", 0, "biclique"), ("f", 2, "symmetric"), ("f", 2, "semi_symmetric"),
            ("f", 2, "biclique"), ("f", 2, "non_materializing")]  # fmt: skip


def relaid(spec: JoinSpec, seed: int, *, apart: bool = True) -> tuple[Run, Counter[tuple[Any, ...]], History]:
    """Run a join with other units every few micro-batches, some of which come twice; return what is expected, too."""
    random = Random(seed)
    step = spec.subgroups or 1
    run, inputs = Run(spec, History(((0, step * random.randrange(1, 4)),))), [[] for _ in spec.streams]
    for number, rows in enumerate(rows_over_time(random, 5, 11, spec)):
        if number and random.random() < 0.3:
            least = 1 if spec.bounded else run.history.at(number)[0].units // step
            wanted = step * random.randrange(least, least + 3)
            shape = tuple(random.randrange(1, 4) for _ in range(step)) if step > 1 and random.random() < 0.7 else ()
            run.history = run.history.changed(number, sum(shape) or wanted, apart=apart, shape=shape)
        watermark = 10 * number - 1 if spec.bounded else 0
        if (
            random.random() < 0.25
        ):  # killed before its commit: another driver, with other units, runs it as it was planned
            before, found = deepcopy(run.stores), Counter(run.found)
            run.batch(number, rows, watermark)
            run.stores, run.found = before, found
            run.history = run.history.changed(number + 1, run.history.at(number)[0].units + step, apart=apart)
        run.batch(number, rows, watermark)
        for rank, some in rows.items():
            inputs[rank] += some
        run.history = run.history.retire(number, run.held())
    return run, nested_loop(spec, inputs), run.history


@pytest.mark.parametrize("bounded", [True, False], ids=["window", "full history"])
@pytest.mark.parametrize(("column", "subgroups", "scheme"), [*BY_KEY, *BY_RANGE])
def test_units_by_key_and_by_range_change(column: str, subgroups: int, scheme: str, bounded: bool) -> None:
    """Exactly once over grow, shrink and replays, at range borders and with NaN; slots of empty layouts are used again.

    Rows with NULL in a key or a band do not get that far: the dispatcher drops them.
    """
    spec = divided(scheme, subgroups, column, bounded=bounded)
    results = changes = again = 0
    for seed in (1, 2):
        run, wanted, history = relaid(spec, seed)
        assert run.found == wanted, seed
        results += sum(wanted.values())
        changes += len(history.entries) - 1
        if bounded:
            again += run.most < sum(entry[1] for entry in history.entries)
            assert history.since is not None
    assert results > 10
    assert changes > 2
    assert again or not bounded


@pytest.mark.parametrize(("column", "subgroups", "scheme"), [("a", 0, "biclique"), ("f", 0, "biclique"),
                                                             ("f", 2, "symmetric")])  # fmt: skip
def test_layouts_by_key_need_slots_of_their_own(column: str, subgroups: int, scheme: str) -> None:
    """The near miss: in shared slots a row is stored twice, or met twice."""
    spec = divided(scheme, subgroups, column, bounded=True)
    runs = [relaid(spec, seed, apart=False) for seed in range(1, 4)]
    assert any(run.found != wanted for run, wanted, _ in runs)


def test_what_two_ranges_found_would_meet_twice_in_other_ranges() -> None:
    """Why units do not change there: the near miss of `is_elastic`, which ranges of a hint do not have."""
    spec = divided("semi_symmetric", 0, "f", bounded=False)
    runs = [relaid(spec, seed) for seed in range(1, 4)]
    assert any(run.found != wanted for run, wanted, _ in runs)


def test_a_pack_goes_where_its_key_may_be() -> None:
    """To one unit of a multiple, to the others of a common divisor, to all without one; to its subgroup by contrand."""
    spec = replace(divided("semi_symmetric", 0, "a", bounded=True), units=4, earlier=(Block(6, 4), Block(3, 10)))
    assert partner_slots(spec, 1) == [1, 5, 7, 9, 10, 11, 12]
    assert partner_slots(spec, 11) == [0, 1, 2, 3, 5, 8, 11]
    spec = replace(spec, subgroups=2, units=4, earlier=(Block(6, 4),))
    assert partner_slots(spec, 2) == partner_slots(spec, 8) == [2, 3, 7, 8, 9]
    spec = replace(spec, earlier=(Block(6, 4, (1, 5)),))
    assert partner_slots(spec, 2) == partner_slots(spec, 5) == [2, 3, 5, 6, 7, 8, 9]
    assert partner_slots(spec, 0) == partner_slots(spec, 4) == [0, 1, 4]


@pytest.mark.parametrize("scheme", ["symmetric", "semi_symmetric", "biclique", "tree", "non_materializing"])
def test_retired_slots_must_be_reached(scheme: str) -> None:
    """The near miss: rows that reach the new units alone miss what the old ones hold."""
    random = Random(5)
    spec = spec_of(scheme, bounded=False)
    inputs: list[list[Row]] = [[] for _ in spec.streams]
    right, wrong = Run(spec, History(((0, 4), (2, 1)))), Run(spec, History(((0, 4), (2, 1)), (1, 2)))
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
    assert [history.at(batch) for batch in (0, 4, 5)] == [(Block(2),), (Block(2),), (Block(4), Block(2))]
    history = history.changed(7, 1)
    assert history.at(8) == (Block(1), Block(4), Block(2))
    assert history.until(6) == History(((0, 2), (5, 4)))
    assert history.changed(7, 4) == History(((0, 2), (5, 4))), "a change that no batch has seen is as if it never was"
    assert history.changed(9, 1) == history
    assert History.from_dict(history.to_dict()) == history


def test_slots_are_left_out_once_they_are_empty() -> None:
    """A slot that says nothing may hold rows; one that a later layout uses again is back."""
    history = History(((0, 4), (5, 1)))
    assert history.retire(6, {0: True, 2: False, 3: True}) == history
    assert history.retire(6, {0: True, 1: False, 2: False}) == history
    emptied = history.retire(6, {0: True, 1: False, 2: False, 3: False})
    assert [emptied.at(batch) for batch in (4, 6, 7)] == [(Block(4),), (Block(1), Block(4)), (Block(1),)]
    again = emptied.changed(9, 3).changed(12, 1)
    assert [again.at(batch) for batch in (8, 9, 13)] == [(Block(1),), (Block(3), Block(1)), (Block(1), Block(3))]
    assert History.from_dict(again.to_dict()) == again


def test_layouts_with_slots_of_their_own() -> None:
    """New units take the first slots that are free; those of a layout are free when all of them are empty."""
    history = History(((0, 2),)).changed(3, 4, apart=True).changed(5, 2, apart=True)
    assert history.at(5) == (Block(2, 6), Block(4, 2), Block(2))
    assert history.retire(5, dict.fromkeys(range(2, 8), False)) == history, "the oldest one may hold rows"
    emptied = history.retire(6, {0: False, 1: False, 2: True, 6: True})
    assert [emptied.at(batch)[1:] for batch in (6, 7)] == [(Block(4, 2), Block(2)), (Block(4, 2),)]
    assert emptied.changed(8, 2, apart=True) == emptied
    assert emptied.changed(8, 1, apart=True).at(8)[0] == Block(1)
    assert emptied.changed(8, 3, apart=True).at(8)[0] == Block(3, 8)
    assert History.from_dict(emptied.to_dict()) == emptied


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
