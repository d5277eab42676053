"""What a query that starts on a checkpoint may change, without Spark: the layouts of its units, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from trijoin_sql.operators.spec import Block, JoinSpec, Options, Ranges, StreamSpec
from trijoin_sql.operators.state.layout import History, laid_out
from trijoin_sql.rewriter.plan.stored import Stored

from trijoin_sql.errors import CheckpointMismatchError
from trijoin_sql.running.checkpoint import SavedJoin, follow, groups_of
from trijoin_sql.running.layouts import held_back_in_all
from trijoin_sql.running.metrics import held_by_slot, join_keys

STREAMS = tuple(StreamSpec(name, (), (), "route", time="ts") for name in "rs")
BOUNDS = ((0, 1, 10), (1, 0, 10))
SPEC = JoinSpec("j", STREAMS, (), "biclique", 2, fingerprint="scheme: biclique", bounds=BOUNDS, elastic=True)


class Seq(list["Node"]):
    """A sequence as py4j gives it."""

    def size(self) -> int:
        return len(self)

    def apply(self, number: int) -> Node:
        return self[number]


class Node:
    """A node of a plan as py4j gives it."""

    def __init__(self, kind: str, *below: Node, key: str = "", inside: Sequence[Node] = ()) -> None:
        self.kind, self.below, self.key, self.inside = kind, below, key, inside

    def nodeName(self) -> str:  # noqa: N802 (Spark's name)
        return self.kind

    def name(self) -> str:
        return self.key

    def children(self) -> Seq:
        return Seq(self.below)

    def subqueries(self) -> Seq:
        return Seq(self.inside)

    subqueriesAll = subqueries  # noqa: N815


def after(*entries: tuple[int, int]) -> list[SavedJoin]:
    return [SavedJoin(SPEC.fingerprint, History(entries))]


def layouts(joins: Sequence[SavedJoin]) -> list[tuple[tuple[int, int], ...]]:
    return [join.history.entries for join in joins]


def test_a_new_checkpoint_has_one_layout() -> None:
    fixed = replace(SPEC, elastic=False, units=8)
    assert layouts(follow([], [SPEC, fixed], [3, 3], 0)) == [((0, 3),), ((0, 8),)]


def test_other_units_begin_with_the_first_batch_that_is_not_planned() -> None:
    """A batch that was planned, and is replayed after a crash, keeps its layout."""
    assert layouts(follow(after((0, 2)), [SPEC], [4], 7)) == [((0, 2), (7, 4))]
    assert layouts(follow(after((0, 2)), [SPEC], [2], 7)) == [((0, 2),)]


def test_a_start_that_planned_nothing_leaves_no_trace() -> None:
    assert layouts(follow(after((0, 2), (7, 4)), [SPEC], [3], 7)) == [((0, 2), (7, 3))]
    assert layouts(follow(after((0, 2), (7, 4)), [SPEC], [2], 7)) == [((0, 2),)]
    assert layouts(follow(after((0, 2)), [SPEC], [5], 0)) == [((0, 5),)]


def test_what_is_emptied_stays_known() -> None:
    saved = [SavedJoin(SPEC.fingerprint, History(((0, 4), (3, 2)), (5, 3)))]
    (join,) = follow(saved, [SPEC], [3], 9)
    assert join.history == History(((0, 4), (3, 2), (9, 3)), (5, 3))


@pytest.mark.parametrize(
    ("spec", "units", "words"),
    [
        (replace(SPEC, fingerprint="scheme: tree"), 2, "scheme was biclique and is now tree"),
        (replace(SPEC, bounds=()), 1, "units was 2 and is now 1; rows are kept for ever"),
    ],
)
def test_another_query_is_refused(spec: JoinSpec, units: int, words: str) -> None:
    with pytest.raises(CheckpointMismatchError) as caught:
        follow(after((0, 2)), [spec], [units], 4)
    assert words in str(caught.value)


def test_another_number_of_joins_is_refused() -> None:
    with pytest.raises(CheckpointMismatchError, match="1 joins of streams, and this one has 2"):
        follow(after((0, 2)), [SPEC, SPEC], [2, 2], 4)


def test_the_keys_of_a_plans_joins() -> None:
    """Each once, in the order of the plan; metrics of others are none of ours."""
    plan = Node("CollectMetrics", Node("CollectMetrics", Node("CollectMetrics", key="__trijoin_1@17"), key="mine"))
    plan.key = "__trijoin_2@17"
    inner = Node("CollectMetrics", key="__trijoin_3@17")
    assert join_keys(Node("Union", plan, plan)) == ["__trijoin_2@17", "__trijoin_1@17"]
    assert join_keys(Node("Filter", plan, inside=[inner])) == ["__trijoin_3@17", "__trijoin_2@17", "__trijoin_1@17"]


def test_what_slots_say_they_hold() -> None:
    texts = [f'{{"slot": {slot}, "state_rows": {rows}, "state_chunks": {rows}}}' for slot, rows in ((0, 3), (2, 0))]
    observed = {"__trijoin_1@3": {"slots": texts}, "other": {"slots": texts}, "__trijoin_2@3": {}}
    progress = {"id": "q", "batchId": 3, "observedMetrics": observed}
    assert held_by_slot(progress) == {"__trijoin_1@3": {0: True, 2: False}, "__trijoin_2@3": {}}


def test_a_watermark_that_is_held_back_otherwise_turns_where_it_stands() -> None:
    """What the checkpoint's watermark means stays as it was until rows have moved it on: none is late by the change."""
    old = SavedJoin("scheme: matrix", History(((0, 2),)))
    assert old.turned(0, 5_000) is old
    now = old.turned(9_000_000, 5_000)
    assert (now.held_back, now.turn) == (9_000_000, (5_000, 0))
    again = now.turned(2_000_000, 5_000)  # before it moved on
    assert (again.held_back, again.turn) == (2_000_000, (5_000, 0))
    later = now.turned(2_000_000, 5_001)
    assert (later.held_back, later.turn) == (2_000_000, (5_001, 9_000_000))
    assert old.turned(9_000_000, 0).turn is None  # there was no watermark yet
    assert SavedJoin.from_dict(now.to_dict()) == now
    spec = replace(SPEC, held_back=now.held_back, turn=now.turn)
    assert [spec.held_back_at(watermark) for watermark in (4_999, 5_000, 5_001)] == [0, 0, 9_000_000]


def test_joins_of_a_view_are_held_back_for_those_above_it_too() -> None:
    """Each statement has held back the sources of those below it: their units must know by how much in all."""
    below = replace(SPEC, key="__trijoin_1@1", held_back=1)
    middle = replace(SPEC, key="__trijoin_1@2", held_back=20, above=("__trijoin_1@1",))
    top = replace(SPEC, key="__trijoin_1@3", held_back=300, above=("__trijoin_1@2", "__trijoin_1@1"))
    beside = replace(SPEC, key="__trijoin_2@3", held_back=4000)
    assert [one.held_back for one in held_back_in_all([top, middle, below, beside])] == [300, 320, 321, 4000]


def test_subgroups_have_units_of_their_own() -> None:
    """Scaling asks for them; as many units, asked for by hand, are those that there are."""
    spec = replace(SPEC, subgroups=2, units=4)
    (uneven,) = follow([SavedJoin(spec.fingerprint, History(((0, 4),)))], [spec], [5], 7, shapes=[(4, 1)])
    assert uneven.history.entries == ((0, 4), (7, 5, 4, 4, 1))
    assert SavedJoin.from_dict(uneven.to_dict()) == uneven
    (same,) = follow([uneven], [spec], [5], 9)
    assert same.history == uneven.history
    (moved,) = follow([uneven], [spec], [5], 9, shapes=[(2, 3)])
    assert moved.history.entries[-1] == (9, 5, 9, 2, 3)
    (even,) = groups_of([replace(uneven, stored=(Stored(("r", "s"), "biclique"),))])
    assert even.units == 4, "five cannot be divided by two in a plan"


def test_a_checkpoint_with_units_in_its_fingerprint_goes_on() -> None:
    """Older versions wrote them, and the grid of cells."""
    spec = replace(SPEC, subgroups=0, units=4)
    old = [SavedJoin(f"{spec.fingerprint}\nunits: 2\nsubgroups: 2", History(((0, 2),)))]
    assert layouts(follow(old, [spec], [2], 7)) == [((0, 2),)]
    assert layouts(follow(old, [spec], [4], 7)) == [((0, 2), (7, 4, 2))]
    options = Options(grid=(4, 1), ranges=(Ranges(1, 1, 0, "c0", 8, floats=False, bands=()),))
    cells = replace(spec, scheme="matrix", elastic=False, fingerprint="scheme: matrix", options=options, subgroups=1)
    written = "scheme: matrix\nunits: 6\nsubgroups: 1\noption grid: 2x3"
    saved = SavedJoin.from_dict({"fingerprint": written, "layouts": [[0, 6]], "stored": []})
    (join,) = follow([saved], [cells], [6], 7)
    assert SavedJoin.from_dict(join.to_dict()) == join
    told = laid_out(cells, join.history, 7, tuple(join.told()["grid"]))
    assert (told.units, told.options.grid, told.options.ranges[0].shares) == (6, (2, 3), 3)
    (changed,) = follow([join], [cells], [5], 7, shapes=[(4, 1)])
    assert changed.history.entries == ((0, 6), (7, 4, 6, 4, 1)), "as many as the grid has"
    assert SavedJoin.from_dict(changed.to_dict()) == changed
    told = laid_out(cells, changed.history, 7, changed.grid)
    assert (told.options.grid, told.earlier, told.lead) == ((4, 1), (Block(6, 0, (2, 3)),), Block(6, 0, (2, 3)))
    (again,) = follow([changed], [cells], [4], 9, shapes=[(2, 2)])
    assert again.history == changed.history, "as many cells are the same cells"
    with pytest.raises(CheckpointMismatchError, match="units was 6 and is now 4; rows that are kept for ever"):
        follow([join], [replace(cells, bounds=())], [4], 7, shapes=[(4, 1)])
