"""Another number of cells in the middle of a run: what each micro-batch gives is what it gives without the change.

The models are those of `test_outer_life` and `test_mixed_life`, so a result that comes a micro-batch too late, or is
padded although a row of an older layout would match, is seen. Cells are asked, told and forgotten as in a query, but by
a driver that loses reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from random import Random
from typing import Any, cast

import pytest
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.spec import JoinSpec, Kind
from trijoin_sql.operators.state.layout import History, is_done, is_left, laid_out, obstacle, others_until
from trijoin_sql.operators.state.manifest import MANIFEST
from trijoin_sql.operators.state.slot_state import SlotState

from . import test_mixed_life, test_outer_life
from .slots import Chunks, small_pieces
from .test_outer_life import EDGES, START, Cells, Found, Row, arriving


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)


class Changing(Cells):
    """All cells of a join whose number changes now and then."""

    def __init__(self, spec: JoinSpec, random: Random) -> None:
        super().__init__(spec, random)
        self.planned, self.first = spec, spec.options.grid
        self.history = History(((0, spec.units),))
        self.chunks = []
        #: The most layouts at a time, and how many were forgotten.
        self.layouts = self.most = self.forgotten = 0

    def batch(self, rows: Sequence[Row], watermark: int) -> Found:
        """Run a micro-batch, before which there may be a restart with other cells."""
        if self.number and self.random.random() < 0.2:
            grid = tuple(1 if share == 1 else self.random.randrange(1, 4) for share in self.grids())
            units = prod(grid)
            same = self.history.at(self.number)[0].units == units
            self.history = self.history.changed(self.number, units, apart=True, shape=() if same else grid)
        before = self.history.at(self.number)
        self.spec = laid_out(self.planned, self.history, self.number, self.first)
        self.forgotten += max(self.layouts - len(before), 0)
        self.layouts, self.most = len(before), max(self.most, len(before))
        self.chunks += [Chunks() for _ in range(self.spec.slots - len(self.chunks))]
        self.route = SCHEMES[self.spec.scheme].routing.router(self.spec)
        self.times: dict[int, tuple[int, int]] = {}
        self.held: dict[int, bool] = {}
        number = self.number
        found = super().batch(rows, watermark)
        if self.random.random() < 0.7:
            following = number + self.random.choice((1, 2, 3))
            self.history = self.history.passed(number, self.times, following)
            self.history = self.history.retire(number, self.held, following)
            self.history = History.from_dict(self.history.to_dict())
        return found

    def grids(self) -> tuple[int, ...]:
        """Along which dimensions there may be more than one cell: more than 1."""
        tested = self.planned.tested or self.planned.core
        known = {axis for rank in tested for axis, _ in self.planned.streams[rank].dimensions}
        shared = [{axis for axis, _ in self.planned.streams[rank].dimensions} for rank in self.planned.tested]
        free = known if not shared else set.intersection(*shared)
        return tuple(2 if axis in free else 1 for axis in range(len(self.first)))

    def is_called(self, cell: int) -> bool:
        """Whether a cell of an earlier layout is asked for a report."""
        return any(cell in block.slots for block in self.spec.earlier) and not self.random.random() < 0.1

    def state_of(self, number: int, limit: int | None) -> SlotState:
        (make,) = SCHEMES[self.spec.scheme].stages(self.spec)
        layouts = self.history.until(self.number)
        return SlotState(lambda: make(self.spec, number), self.chunks[number], "text", layouts, limit, self.spec)

    def ended(self, number: int, state: SlotState, watermark: int) -> None:
        stores = state.slot.stores
        if is_done(self.spec, number, stores):
            state.clear()
        until = others_until(self.spec, number, stores)
        if until is not None:
            self.times[number] = until, watermark
        self.held[number] = any(map(len, stores.values())) or (until is not None and not is_left(self.spec, number))


def check(spec: JoinSpec, model: test_outer_life.Model | test_mixed_life.Model, random: Random) -> tuple[Changing, int]:
    """Run a join, and compare what each micro-batch gives; return how many results there were, too."""
    cells, total = Changing(spec, random), 0
    batches = arriving(random, 30, streams=len(spec.streams))
    last, watermark = batches[-1]
    for number, (rows, watermark) in enumerate([*batches, *[(last, watermark + 2 + more) for more in range(9)]]):
        wanted, found = model.batch(list(rows), watermark), cells.batch(rows, watermark)
        if isinstance(model, test_mixed_life.Model):
            found = model.by_time(found)
        assert found == wanted, f"micro-batch {number}: lost {wanted - found}, too many {found - wanted}"
        total += wanted.total()
    assert all(set(chunks.committed) <= {MANIFEST} for chunks in cells.chunks), "nothing is left of rows that are over"
    return cells, total


@pytest.mark.parametrize("kind", [kind for kind in test_outer_life.KINDS if kind != "full"])
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize(
    ("lower", "upper"),
    [(-30_000, 0), *(pytest.param(*some, marks=pytest.mark.rare) for some in ((5_000, 60_000), (-90_000, -40_000)))],
)
def test_outer_joins(kind: Kind, edge: str, lower: int, upper: int) -> None:
    random = Random(f"{kind}{edge}{lower}")
    spec = test_outer_life.join(kind, edge, random.choice([1, 2, 3]), lower, upper)
    cells, total = check(spec, test_outer_life.Model(spec, edge, lower, upper), random)
    assert total > 5, "there has to be something to compare"
    assert cells.most > 1
    assert cells.forgotten > 0


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(one, marks=pytest.mark.rare) for one in range(8, 60))])
def test_trees_of_joins(seed: int) -> None:
    """Inner joins of up to three streams among them, with branches or without."""
    random = Random(seed)
    spec, edges = test_mixed_life.random_join(random)
    cells, _ = check(spec, test_mixed_life.Model(spec, edges), random)
    assert cells.most > 1


def test_a_layout_is_forgotten_while_rows_come() -> None:
    """Rows of the other stream come to the old cells as long as those have rows of the pivot, and then go with them."""
    spec = test_outer_life.join("left", "range", 2, -30_000, 0)
    cells = Changing(spec, Random(0))
    cells.random = cast(Random, Always())
    model, layouts = test_outer_life.Model(spec, "range", -30_000, 0), []
    for number in range(12):
        if number == 3:
            cells.history = cells.history.changed(3, 4, apart=True, shape=(4, 1))
        now = START + 20_000 * number
        rows = [Row(rank, 10 * number + at, at, 0, now + at, 37 * at, number) for rank in (0, 1) for at in range(6)]
        wanted = model.batch(rows, now - 1 if number else 0)
        assert cells.batch(rows, now - 1 if number else 0) == wanted
        layouts.append([block.units for block in cells.history.at(number + 1)])
    assert layouts[:3] == [[2]] * 3
    assert layouts[3] == [4, 2]
    assert layouts[-1] == [4]
    assert layouts.count([4, 2]) == 3, "the other stream's rows are over in the next micro-batch, the pivot's two later"


class Always:
    """Chance that loses nothing: no report, no task, no worker's memory."""

    def random(self) -> float:
        return 0.5

    def randrange(self, stop: int) -> int:
        return 0

    def choice(self, some: Sequence[Any]) -> Any:
        return some[0]


def test_cells_that_rows_still_come_to_know_the_time() -> None:
    """An empty one is called with each watermark, or it takes late rows: those of all layouts up to the pivot's."""
    spec = test_outer_life.join("left", "equality", 2, -30_000, 0)
    history = History(((0, 2), (3, 3, 2, 3), (5, 4, 5, 4)), leads=((7, 3),))
    told = {batch: laid_out(spec, history, batch, (2,)) for batch in (2, 6, 7)}
    assert {batch: [slot for slot in range(9) if is_left(one, slot)] for batch, one in told.items()} == {
        2: [*range(2, 9)],
        6: [],
        7: [0, 1],
    }


def test_a_micro_batch_that_has_begun_keeps_its_slots() -> None:
    """Its second job shares what the first has dispatched, and may be told more."""
    history = History(((0, 2), (3, 4, 2, 4)), leads=((5, 3),))
    empty = history.retire(6, {0: False, 1: False}, 8)
    assert [len(empty.at(batch)) for batch in (6, 7, 8)] == [2, 2, 1]
    assert empty.retire(7, {0: False, 1: False}, 9) == empty, "it is not put off"


def test_what_cells_cannot_do() -> None:
    """Both sides of a FULL JOIN wait for rows of all layouts; rows that are kept for ever never leave theirs."""
    full = test_outer_life.join("full", "equality", 2, -30_000, 0)
    left = test_outer_life.join("left", "equality", 2, -30_000, 0)
    assert "FULL JOIN" in str(obstacle(full, 2, 4))
    assert "kept for ever" in str(obstacle(replace(left, bounds=left.bounds[:1]), 2, 4))
    assert obstacle(full, 2, 2) is None
    assert obstacle(left, 2, 4) is None
    assert obstacle(left, 4, 2) is None
    assert "realTime" in str(obstacle(left, 4, 2, real_time=True))
