"""Stores: rows keep their ids, segments stay few, and what is stored can be read back in every way."""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import log

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trijoin_sql.operators.batches.pieces import concat, list_parts
from trijoin_sql.operators.checks import AnyOf, Band, Branch, Check, Compare, EdgeSpec
from trijoin_sql.operators.kernels import pairs as pairs_module
from trijoin_sql.operators.results.bundle import Part
from trijoin_sql.operators.results.outcomes import RESULT_BYTES, joined
from trijoin_sql.operators.schemes.base import MEMBERS, pack
from trijoin_sql.operators.store import store as store_module
from trijoin_sql.operators.store.index import Probe
from trijoin_sql.operators.store.probe_plan import ProbePlan, SortOrder, plan_probe
from trijoin_sql.operators.store.segment import Body, Lifetime, Segment
from trijoin_sql.operators.store.store import Store

PLAN = plan_probe(EdgeSpec(0, 1, (Band("a", "a", -1, 1),)))
SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=14)


def batch(start: int, count: int) -> pa.RecordBatch:
    """Rows whose ``id`` says where they were stored, with a NULL text here and there."""
    ids = range(start, start + count)
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(ids, pa.int64()),
            "a": pa.array([number * 7 % 5 for number in ids], pa.int32()),
            "text": pa.array([None if number % 3 == 0 else f"text {number}" for number in ids], pa.string()),
        }
    )


def _given(body: Body, _: Segment) -> Body:
    return body


def filled(sizes: list[int], compact: bool) -> Store:
    store = Store("s", [PLAN.sort_order])
    for size in sizes:
        store.append(batch(store.next_ids[0], size))
        if compact:
            store.compact()
    return store


@settings(max_examples=60)
@given(SIZES, st.booleans(), st.randoms(use_true_random=False))
def test_rows_are_found_by_their_ids(sizes: list[int], compact: bool, random) -> None:
    """Merging must not move a row: hubs refer to members by id for the life of the query."""
    store = filled(sizes, compact)
    total = sum(sizes)
    assert len(store) == store.next_ids[0] == total
    assert [segment.start for segment in store.segments] == sorted({segment.start for segment in store.segments})
    wanted = [random.randrange(total) for _ in range(20)] if total else []
    if wanted:
        assert store.take(np.array(wanted), ["text", "id"]).to_pydict() == {
            "text": [None if number % 3 == 0 else f"text {number}" for number in wanted],
            "id": wanted,
        }


@settings(max_examples=80)
@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=8),
    st.sets(st.integers(0, 7)),
    st.sets(st.integers(0, 7)),
    st.sampled_from([1, 5, 400]),
    st.sampled_from([0, 1 << 20]),
    st.randoms(use_true_random=False),
)
def test_rows_are_found_whatever_way_is_the_shortest(
    sizes: list[int], expired: set[int], evicted: set[int], count: int, most_bytes: int, random
) -> None:
    """From a copy of all segments or from each of them, with gaps where rows expired, and where a body is elsewhere."""
    store = filled(sizes, compact=False)
    kept = [segment for number, segment in enumerate(store.segments) if number not in expired]
    store.segments = kept or store.segments
    for number, segment in enumerate(store.segments):
        if number in evicted:
            segment.fetch, segment.body = partial(_given, segment.body), None
    stored = [number for segment in store.segments for number in range(segment.start, segment.stop)]
    wanted = [random.choice(stored) for _ in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trijoin_sql.operators.store.store._WHOLE_BYTES", most_bytes)
        rows = store.take(np.array(wanted), ["id", "text"])
    assert rows.column("id").to_pylist() == wanted
    assert rows.column("text").to_pylist() == [None if number % 3 == 0 else f"text {number}" for number in wanted]
    asked = np.arange(-1, store.next_ids[0] + 2)
    present = store.present(asked)
    if present is not None:
        assert asked[present].tolist() == stored


@settings(max_examples=80)
@given(SIZES, st.booleans(), st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)), st.data())
def test_what_is_held_of_some_ids_is_all_of_them_or_nothing(
    sizes: list[int], compact: bool, expired: set[int], evicted: set[int], data: st.DataObject
) -> None:
    """Merged chunks are made of it: a row too few would be lost, and one that is elsewhere must not be fetched."""
    store = filled(sizes, compact)
    store.segments = [segment for number, segment in enumerate(store.segments) if number not in expired]
    for number, segment in enumerate(store.segments):
        if number in evicted:
            segment.fetch, segment.body = partial(_given, segment.body), None
    start = data.draw(st.integers(0, store.next_ids[0]))
    stop = data.draw(st.integers(start + 1, store.next_ids[0] + 1))
    here = {at for one in store.segments if one.body is not None for at in range(one.start, one.stop)}
    held = store.held(start, stop)
    if here.issuperset(range(start, stop)):
        assert held is not None
        assert [number for rows in held for number in rows.column("id").to_pylist()] == list(range(start, stop))
    else:
        assert held is None


@settings(max_examples=60)
@given(SIZES, st.booleans())
def test_a_probe_sees_all_segments(sizes: list[int], compact: bool) -> None:
    store = filled(sizes, compact)
    probing = batch(0, 6)
    found = Counter()
    for mine, segment, theirs in store.probe(Probe(PLAN, probing)):
        assert (segment.rows.column("id").to_numpy()[theirs] == theirs + segment.start).all()
        found.update(zip(mine.tolist(), (theirs + segment.start).tolist(), strict=True))
    keys = probing.column("a").to_pylist()
    assert found == Counter(
        (row, number) for row, key in enumerate(keys) for number in range(sum(sizes)) if abs(key - number * 7 % 5) <= 1
    )


def test_many_small_batches_leave_few_segments_and_copy_little() -> None:
    """A probe walks all segments, so n micro-batches must not leave n of them."""
    store, copied, most = Store("s", [PLAN.sort_order]), 0, 0
    for number in range(600):
        store.append(batch(number * 4, 4))
        before = {id(segment) for segment in store.segments}
        store.compact()
        copied += sum(segment.rows.num_rows for segment in store.segments if id(segment) not in before)
        most = max(most, len(store.segments))
    assert most <= 2 * log(600, 2)
    assert copied <= 2400 * 2 * log(600, 2)


def test_sizes_are_those_of_the_rows_asked_for() -> None:
    """In any order, from any number of segments."""
    store = filled([5, 1, 40, 3], compact=False)
    wanted = np.random.default_rng(2).integers(0, 49, 200)
    sizes = store.row_sizes(wanted, ["text", "a"])
    assert isinstance(sizes, np.ndarray)
    texts = np.array([0 if number % 3 == 0 else len(f"text {number}") for number in wanted])
    assert (sizes - texts).min() >= 4
    assert (sizes - texts).max() < 16
    assert isinstance(store.row_sizes(wanted, ["a"]), float)


def test_lists_of_members_are_no_texts_of_the_row() -> None:
    """No result has them; as texts they would have every row of a block looked at where one hub is large."""
    store = Store("s", [])
    store.append(pack(batch(0, 4), np.ones(5000, np.int64), np.arange(5000)))
    assert 0 < store.longest < 20


class Compared(np.ndarray):
    """Numbers that count how often they are compared."""

    times = 0

    def __ge__(self, other: object) -> np.ndarray:
        Compared.times += 1
        return np.asarray(self) >= other


@pytest.mark.parametrize("segments", [1, 2, 32, 33, 500])
def test_finding_the_segments_of_ids_does_not_compare_them_with_each(segments: int) -> None:
    """A state of 16 GiB has more than 500 segments, and a block of results a million ids: that took seconds a block."""
    store = Store("s", [])
    starts = [10 * number for number in range(segments)]
    store.segments = [Segment(start, 5) for start in starts]
    ids = np.random.default_rng(1).permutation(10 * segments)
    Compared.times = 0
    of = store._segments_of(ids.view(Compared))
    assert of.tolist() == (ids // 10).tolist()
    assert Compared.times <= 32
    present = store.present(ids)
    assert present is not None
    assert present.tolist() == (ids % 10 < 5).tolist()


def test_a_large_segment_waits_for_its_like() -> None:
    """Merging a million rows with every arriving hundred would cost a micro-batch seconds."""
    store = Store("s", [PLAN.sort_order])
    store.append(batch(0, 1000))
    store.append(batch(1000, 10))
    store.compact()
    assert [segment.rows.num_rows for segment in store.segments] == [1000, 10]


@pytest.mark.parametrize("pairs", [False, True])
def test_lists_are_probed_by_member(pairs: bool) -> None:
    """The list of an s names the r packed with it; merged segments keep lists and rows together."""
    by_member = ProbePlan(SortOrder(equal=MEMBERS), "wanted", None, None, (), ())
    store = Store("lists", [by_member.sort_order])
    random = np.random.default_rng(5)
    wanted: Counter[tuple[int, int]] = Counter()
    for round_ in range(6):
        rows = batch(round_ * 10, 8)
        at, members = random.integers(0, 8, 15), random.integers(0, 6, 15)
        entries = pack(rows, at, members, pairs=pairs)
        assert entries.num_rows == (15 if pairs else len(np.unique(at)))
        store.append(entries)
        store.compact()
        wanted.update((int(member), round_ * 10 + int(row)) for row, member in zip(at, members, strict=True))
    probe = Probe(by_member, pa.RecordBatch.from_pydict({"wanted": pa.array(range(8), pa.int64())}))
    found: Counter[tuple[int, int]] = Counter()
    for mine, segment, theirs in store.probe(probe):
        found.update(zip(mine.tolist(), segment.rows.column("id").take(pa.array(theirs)).to_pylist(), strict=True))
    assert found == wanted
    assert len(store.segments) < 6


def test_lists_of_a_slice() -> None:
    """Chunks of state are slices: the offsets of a later slice do not begin at zero."""
    whole = pa.array([[1, 2], [], [3], [4, 5, 6]], pa.list_(pa.int64()))
    for start in range(4):
        offsets, items = list_parts(whole.slice(start))
        lists = [items[offsets[row] : offsets[row + 1]].tolist() for row in range(4 - start)]
        assert lists == whole.to_pylist()[start:]


def test_a_hub_has_one_row_and_all_its_members() -> None:
    """TuplePacking: k matches of one row are one hub, k pairs only if that is asked for."""
    rows = batch(0, 4)
    hubs = pack(rows, np.array([2, 0, 2, 2]), np.array([9, 8, 7, 9]))
    assert hubs.column("id").to_pylist() == [0, 2]
    assert hubs.column(MEMBERS).to_pylist() == [[8], [9, 7, 9]]


def test_ranges_leave_segments_out_of_reach_alone() -> None:
    """As `Store.probe` does: what no key of a probe can reach may be on another machine's disk."""
    store = Store("s", [PLAN.sort_order])
    for first in (0, 100, 200):
        store.append(pa.RecordBatch.from_pydict({"a": pa.array([first, first + 1], pa.int32())}))
    for segment in (store.segments[0], store.segments[2]):
        segment.body = None  # and nothing to fetch it with
    probe = Probe(PLAN, pa.RecordBatch.from_pydict({"a": pa.array([101], pa.int32())}))
    ((mine, segment, order, begin, end),) = store.ranges(probe)
    assert (mine.tolist(), segment.start, order[begin[0] : end[0]].tolist()) == ([0], 2, [0, 1])


def test_results_are_put_together_a_few_megabytes_at_a_time() -> None:
    """A block of index ranges holds up to a million pairs: with a kilobyte each they would not fit into a worker."""
    wide = pa.RecordBatch.from_pydict({"id": np.arange(50), "text": ["x" * 10_000] * 50})
    store = Store("s", [])
    store.append(wide)
    ids = np.arange(5000) % 50
    found = list(joined({0: Part(wide, ids), 1: Part(store, ids)}, [["id", "text"], ["id"]]))
    assert max(sum(part.nbytes for part in result.parts.values()) for result in found) < 1.1 * RESULT_BYTES
    for rank in (0, 1):
        assert [one for result in found for one in result.parts[rank]["id"].to_pylist()] == ids.tolist()


@pytest.mark.parametrize("count", [1, 2, 60, 250, 256])
@pytest.mark.parametrize("rows", [1, 2000])
@pytest.mark.parametrize("stored", [False, True])
def test_few_results_with_long_texts_are_not_put_together(count: int, rows: int, stored: bool) -> None:
    """250 of them with one text of 9 MB were more than Arrow takes into a column, which ended the query."""
    long = pa.RecordBatch.from_pydict({"text": ["x" * 1_500_000] + [""] * (rows - 1)})
    source: Store | pa.RecordBatch = long
    if stored:
        source = Store("s", [])
        source.append(long)
    others = pa.RecordBatch.from_pydict({"n": np.arange(count)})
    found = list(joined({0: Part(source, np.zeros(count, np.int64)), 1: Part(others)}, [["text"], ["n"]]))
    assert max(len(result) for result in found) <= 2
    assert [one for result in found for one in result.parts[1]["n"].to_pylist()] == list(range(count))


@pytest.mark.parametrize("rows", [50, 5000])
def test_few_results_with_short_texts_are_one_piece(rows: int) -> None:
    short = pa.RecordBatch.from_pydict({"text": ["x" * 100] * rows})
    ids = np.arange(256) % rows
    ((result),) = joined({0: Part(short, ids), 1: Part(short, ids)}, [["text"], ["text"]])
    assert len(result) == 256
    assert not list(joined({0: Part(short, ids[:0]), 1: Part(short, ids[:0])}, [["text"], ["text"]]))


def test_concat_of_one_batch_is_that_batch() -> None:
    rows = batch(0, 3)
    assert concat([rows]) is rows
    assert concat([rows, rows]).num_rows == 6


def test_equality_on_a_null_safe_edge_is_verified() -> None:
    """``<=>`` has no index of its own; NULL matches NULL and nothing else."""
    plan = plan_probe(EdgeSpec(0, 1, (Compare("<=>", "a", "a"),)))
    store = Store("s", [plan.sort_order])
    store.append(pa.RecordBatch.from_pydict({"a": pa.array([None, 0, 1], pa.int32())}))
    probing = pa.RecordBatch.from_pydict({"a": pa.array([0, None], pa.int32())})
    ((mine, _, theirs),) = store.probe(Probe(plan, probing))
    assert sorted(zip(mine.tolist(), theirs.tolist(), strict=True)) == [(0, 1), (1, 0)]


def test_long_texts_are_compared_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million pairs of two kilobytes each are more than Arrow takes into one column, which ended the query."""
    taken: list[int] = []
    evaluated = pairs_module.evaluate
    monkeypatch.setattr(store_module, "_TAKEN_BYTES", 50_000)
    monkeypatch.setattr(
        pairs_module, "evaluate", lambda check, one, other: taken.append(one.nbytes) or evaluated(check, one, other)
    )
    plan = plan_probe(EdgeSpec(0, 1, (Compare("=", "a", "a", exact=False),), "h", "h"))
    texts = ["x" * 2000, "y" * 2000, "z"] * 20
    rows = pa.RecordBatch.from_pydict({"a": texts, "h": pa.array([0] * 60, pa.int64())})
    store = Store("s", [plan.sort_order])
    store.append(rows)
    found = [pair for mine, _, theirs in store.probe(Probe(plan, rows)) for pair in zip(mine, theirs, strict=True)]
    assert sorted(found) == [(one, other) for one in range(60) for other in range(60) if texts[one] == texts[other]]
    assert max(taken) < 40_000


@pytest.mark.parametrize(
    ("newest", "evaluated", "wanted"),
    [
        (150, False, [(0, 0), (0, 1), (1, 0), (1, 1)]),
        (165, True, [(0, 0), (0, 1), (1, 1)]),
        (None, True, [(0, 0), (0, 1)]),
    ],
)
def test_a_window_is_evaluated_only_where_a_segment_is_not_all_within_it(
    newest: int | None, evaluated: bool, wanted: list[tuple[int, int]]
) -> None:
    """Most of what is kept lies in the window; to take two columns of each candidate for that is much of a probe."""
    plan = plan_probe(EdgeSpec(0, 1, (Band("t", "t", -60, 60, wide=True), Band("a", "a", -1, 1))))
    store = Store("s", [plan.sort_order], Lifetime("t", 600))
    store.append(pa.RecordBatch.from_pydict({"a": [1, 2, 9], "t": [100, 110, 100]}))
    probe = Probe(plan, pa.RecordBatch.from_pydict({"a": [1, 2], "t": pa.array([120, newest], pa.int64())}))
    assert bool(store._open(probe, store.segments[0], narrow=True)) == evaluated
    found = [pair for mine, _, ids in store.probe(probe) for pair in zip(mine.tolist(), ids.tolist(), strict=True)]
    assert sorted(found) == wanted


def test_each_branch_of_an_or_is_searched_by_its_own_index() -> None:
    """A pair that both branches take comes once, and what a search costs is what the branches find."""
    either = AnyOf((Branch((Compare("=", "a", "a"),)), Branch((Band("b", "b", 0, 1),))))
    plan = plan_probe(EdgeSpec(0, 1, (either,)))
    assert [order.key for order in plan.sort_orders] == ["a||", "|b|b"]
    store = Store("s", plan.sort_orders)
    numbers = np.random.default_rng(3).integers(0, 1000, (2, 4000))
    rows = pa.RecordBatch.from_pydict({"a": numbers[0], "b": numbers[1]})
    store.append(rows)
    found = [pair for mine, _, theirs in store.probe(Probe(plan, rows)) for pair in zip(mine, theirs, strict=True)]
    a, b = (np.subtract.outer(some, some) for some in numbers)
    wanted = np.argwhere((a == 0) | ((b >= 0) & (b <= 1)))
    assert sorted(found) == [tuple(pair) for pair in wanted]
    searches = 2 * 4000 * 13
    assert store.compared < searches + 1.1 * len(found)


def test_a_branch_is_not_searched_by_what_stands_behind_a_difference_that_may_overflow() -> None:
    """Spark computes the difference first, and so raises for pairs that an index on the rest would skip."""
    limited, equal = Band("x", "x", None, 4, limits=(-(1 << 31), (1 << 31) - 1)), Compare("=", "k", "k")
    for checks, key in (((limited, equal), "||x"), ((equal, limited), "k||x")):
        either = AnyOf((Branch(checks), Branch((Compare("=", "id", "id"),))))
        assert plan_probe(EdgeSpec(0, 1, (either,))).sort_order.key == key
    hashed = Branch((limited, Compare("=", "t", "t", exact=False)), "h", "h")
    assert plan_probe(EdgeSpec(0, 1, (AnyOf((hashed, Branch((equal,)))),))).sort_order.key == "||x"


@pytest.mark.parametrize(
    "branches",
    [
        ((Compare("=", "a", "a"),), (Compare("<>", "b", "b"),)),  # one of them has no index
        ((Compare("<", "a", "a"),), (Compare(">", "b", "b"),)),
    ],
)
def test_an_or_beside_a_better_index_is_evaluated(branches: tuple[tuple[Compare, ...], ...]) -> None:
    either = AnyOf(tuple(map(Branch, branches)))
    plan = plan_probe(EdgeSpec(0, 1, (either, Band("t", "t", 0, 5))))
    assert (plan.others, plan.checks, plan.sort_order.low) == ((), (either,), "t")


@pytest.mark.parametrize("beside", [(), (Compare("=", "k", "k"),), (Band("t", "t", -9_000, 9_000, wide=True),)])
@pytest.mark.parametrize("beyond", [0, 3])
def test_exceptions_to_a_band_cost_nothing_where_there_are_none(beside: tuple[Check, ...], beyond: int) -> None:
    """The search beside them is the one that the band has alone; each pair comes once, also of two exceptions."""
    chance = np.random.default_rng(7)
    band = Band("x", "x", -0.01, 0.01, arithmetic="float64")
    flags = Compare("=", "beyond", "yes"), Compare("=", "yes", "beyond")
    either = AnyOf((Branch((band,)), *(Branch((flag,)) for flag in flags)), exceptions=True)
    count = 4_000
    x = chance.uniform(-80, 80, count)
    x[:beyond] = [91.0, 91.0, np.inf][:beyond]
    rows = pa.RecordBatch.from_pydict(
        {
            "x": pa.array(x).take(pa.array(chance.permutation(count))),
            "k": chance.integers(0, 5, count),
            "t": chance.integers(0, 10_000, count),
            "yes": np.ones(count, np.bool_),
        }
    )
    rows = rows.append_column("beyond", pc.greater(pc.abs(rows.column("x")), 90))
    compared, found = {}, {}
    for name, checks in {"band": (*beside, band), "either": (*beside, either)}.items():
        plan = plan_probe(EdgeSpec(0, 1, checks))
        store = Store("s", plan.sort_orders)
        store.append(rows)
        pairs = store.probe(Probe(plan, rows))
        found[name] = sorted(pair for mine, _, theirs in pairs for pair in zip(mine, theirs, strict=True))
        compared[name] = store.compared
    columns = {name: np.asarray(rows.column(name)) for name in ("x", "k", "t", "beyond")}
    with np.errstate(invalid="ignore"):
        near = np.abs(np.subtract.outer(columns["x"], columns["x"])) <= 0.01
    near |= np.logical_or.outer(columns["beyond"], columns["beyond"])
    for one in beside:
        far = np.abs(np.subtract.outer(columns[one.left], columns[one.left]))
        near &= far <= (one.upper if isinstance(one, Band) else 0)
    assert found["either"] == [tuple(pair) for pair in np.argwhere(near)]
    assert (found["either"] == found["band"]) == (beyond == 0)
    assert (compared["either"] == compared["band"]) == (beyond == 0)


@pytest.mark.parametrize("type_", ["double", "bigint", "int"])
def test_two_bands_are_searched_in_two_dimensions(type_: str) -> None:
    """Of those that one band leaves, nearly all are too far away in the other dimension; whichever is written first."""
    floats, limits = type_ == "double", (-(1 << 31), (1 << 31) - 1) if type_ == "int" else None
    random = np.random.default_rng(5)
    points = random.uniform(-500, 500, (2, 20_000))
    points = points if floats else points.astype(np.int64)
    bands = tuple(Band(name, name, -6, 6, arithmetic="float64" if floats else "int", limits=limits) for name in "xy")
    plan = plan_probe(EdgeSpec(0, 1, bands))
    assert plan.sort_order.key == ("y/12|x|x" if floats else "y/13|x|x")
    store = Store("s", plan.sort_orders)
    rows = pa.RecordBatch.from_arrays([pa.array(one) for one in points], names=["x", "y"])
    store.append(rows)
    probing = rows.slice(0, 2_000)
    found = [pair for mine, _, theirs in store.probe(Probe(plan, probing)) for pair in zip(mine, theirs, strict=True)]
    near = [np.abs(np.subtract.outer(one[:2_000], one)) <= 6 for one in points]
    assert sorted(found) == [tuple(pair) for pair in np.argwhere(near[0] & near[1])]
    searches = 3 * 2_000 * 15
    assert store.compared < searches + 4 * len(found)


@pytest.mark.parametrize(
    "bands",
    [
        (Band("x", "x", -6, 6), Band("y", "y", -6, 6, limits=(-9, 9))),  # few cells: what may overflow is not known
        (Band("x", "x", -6, 6), Band("y", "y", None, 6)),  # one end
        (Band("x", "x", -6, 6), Compare("<", "y", "y"), Compare(">", "z", "y")),  # no constant width
        (Band("x", "x", -6, 6), Band("y", "y", 0.0, 0.0, arithmetic="float64")),
        (Band("x", "x", -6, 6), Band("y", "y", -6, 6, wide=True)),
    ],
)
def test_other_bands_are_searched_in_one_dimension(bands: tuple[Band | Compare, ...]) -> None:
    assert plan_probe(EdgeSpec(0, 1, bands)).cells is None
