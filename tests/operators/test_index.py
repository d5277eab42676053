"""The index of an edge: whatever it is sorted by, a probe finds what a nested loop finds."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from decimal import Context, Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trijoin_sql.operators.checks import Band, Check, Compare, EdgeSpec
from trijoin_sql.operators.store.index import Probe
from trijoin_sql.operators.store.probe_plan import SortOrder, plan_probe
from trijoin_sql.operators.store.store import Store

from trijoin_sql.errors import JoinOverflowError

from .reference import DOMAINS, INT64, Row, batch_of, holds, matches
from .test_order_keys import WIDE

#: By name the checks of an edge on columns a and b (both sides have both), and the sort order they should get.
EDGES: dict[str, tuple[tuple[Check, ...], SortOrder]] = {
    "nothing": ((), SortOrder()),
    "equality": ((Compare("=", "a", "a"),), SortOrder("a")),
    "equality of other columns": ((Compare("=", "a", "b"),), SortOrder("b")),
    "two equalities": ((Compare("=", "a", "a"), Compare("=", "b", "b")), SortOrder("a")),
    "less": ((Compare("<", "a", "b"),), SortOrder(None, None, "b")),
    "at most": ((Compare("<=", "a", "b"),), SortOrder(None, None, "b")),
    "greater": ((Compare(">", "a", "b"),), SortOrder(None, "b", None)),
    "at least": ((Compare(">=", "a", "b"),), SortOrder(None, "b", None)),
    "not equal": ((Compare("<>", "a", "a"),), SortOrder()),
    "null-safe": ((Compare("<=>", "a", "a"),), SortOrder()),
    "two-sided range": ((Compare(">", "a", "b"), Compare("<=", "b", "b")), SortOrder(None, "b", "b")),
    "strict on both sides": ((Compare(">", "a", "b"), Compare("<", "b", "b")), SortOrder(None, "b", "b")),
    "stabbing": ((Compare(">=", "a", "a"), Compare("<=", "a", "b")), SortOrder(None, "a", "b")),
    "strict stabbing": ((Compare(">", "a", "a"), Compare("<", "a", "b")), SortOrder(None, "a", "b")),
    "equality and less": ((Compare("=", "a", "a"), Compare("<", "b", "b")), SortOrder("a", None, "b")),
    "equality and greater": ((Compare(">", "b", "b"), Compare("=", "a", "a")), SortOrder("a", "b", None)),
    "equality and range": (
        (Compare("=", "a", "a"), Compare(">=", "b", "b"), Compare("<", "a", "b")),
        SortOrder("a", "b", "b"),
    ),
    "equality and stabbing": (
        (Compare("=", "a", "a"), Compare(">=", "b", "a"), Compare("<=", "a", "b")),
        SortOrder("a", "a", None),
    ),
    "range and not equal": ((Compare(">=", "a", "a"), Compare("<>", "b", "b")), SortOrder(None, "a", None)),
    "two ranges the same way": ((Compare("<", "a", "a"), Compare("<=", "b", "b")), SortOrder(None, None, "a")),
}
BANDS: dict[str, tuple[tuple[Check, ...], SortOrder]] = {
    "band": ((Band("a", "a", -1, 1),), SortOrder(None, "a", "a")),
    "band off zero": ((Band("a", "a", 2, 4),), SortOrder(None, "a", "a")),
    "empty band": ((Band("a", "a", 2, -2),), SortOrder(None, "a", "a")),
    "lower bound": ((Band("a", "b", 2, None),), SortOrder(None, "b", None)),
    "upper bound": ((Band("a", "b", None, -2),), SortOrder(None, None, "b")),
    "two bands": ((Band("a", "a", -2, 2), Band("b", "b", -1, 3)), SortOrder("b", "a", "a", 5)),
    "wide band first": ((Band("a", "a", -2, 2, wide=True), Band("b", "b", -1, 3)), SortOrder(None, "b", "b")),
    "wide band alone": ((Band("a", "a", -2, 2, wide=True),), SortOrder(None, "a", "a")),
    "equality and band": ((Compare("=", "a", "a"), Band("b", "b", -1, 1)), SortOrder("a", "b", "b")),
    "band and range": ((Band("a", "a", -3, None), Compare("<", "a", "a")), SortOrder(None, "a", "a")),
    "band across the border": ((Band("a", "a", INT64[0], INT64[1]),), SortOrder(None, "a", "a")),
    "band beyond the border": ((Band("a", "a", -(1 << 66), 1 << 66),), SortOrder(None, "a", "a")),
}


#: Python's own arithmetic rounds to 28 digits.
WIDE_CONTEXT = Context(prec=40)


def rows_of(random: Random, domain: Sequence[Any], count: int, start: int) -> list[Row]:
    return [{"id": start + at, "a": random.choice(domain), "b": random.choice(domain)} for at in range(count)]


def probe_matches(
    edge: EdgeSpec, type_: pa.DataType, stored: list[list[Row]], probing: list[Row], compact: bool
) -> Counter[tuple[int, int]]:
    """Store batches, probe them, and return pairs of ids."""
    schema = {"id": pa.int64(), "a": type_, "b": type_}
    if edge.hash_left is not None:
        schema["h"] = pa.int64()
    plan = plan_probe(edge)
    store = Store("s", [plan.sort_order])
    for rows in stored:
        store.append(batch_of(rows, schema))
        if compact:
            store.compact()
    rows = batch_of(probing, schema)
    found: Counter[tuple[int, int]] = Counter()
    ids = rows.column("id").to_numpy()
    for mine, segment, theirs in store.probe(Probe(plan, rows)):
        found.update(zip(ids[mine].tolist(), segment.rows.column("id").to_numpy()[theirs].tolist(), strict=True))
    return found


def assert_same(edge: EdgeSpec, name: str, domain: Sequence[Any], seed: int, sizes: Sequence[int]) -> None:
    random = Random(seed)
    stored = [rows_of(random, domain, size, 100 * number) for number, size in enumerate(sizes)]
    for count in (25, 4):  # a segment of fewer rows than the probe searches it, a larger one is searched
        probing = rows_of(random, domain, count, 10_000)
        wanted = Counter(
            (one["id"], other["id"])
            for one in probing
            for rows in stored
            for other in rows
            if matches(edge.checks, one, other)
        )
        for compact in (False, True):
            assert probe_matches(edge, DOMAINS[name][0], stored, probing, compact) == wanted


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("kind", [*EDGES, *BANDS])
def test_every_layout_against_a_nested_loop(kind: str, mirrored: bool) -> None:
    """Small numbers, so that there are many matches and many ties; segments apart and merged."""
    checks, sort_order = {**EDGES, **BANDS}[kind]
    edge = EdgeSpec(0, 1, checks)
    assert plan_probe(edge).sort_order == sort_order
    edge = edge.seen_from(1) if mirrored else edge
    for seed in range(4):
        assert_same(edge, "int64", range(8), seed, (9, 1, 0, 7, 20, 3))


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("kind", EDGES)
def test_every_comparison_at_the_borders_of_every_type(kind: str, name: str) -> None:
    """The least and the greatest value have no neighbour that a strict bound could be moved to."""
    checks, _ = EDGES[kind]
    exact = name not in ("string", "binary", "wide_decimal")
    inexact = tuple(Compare(check.op, check.left, check.right, exact) for check in checks if isinstance(check, Compare))
    edge = EdgeSpec(0, 1, inexact)
    assert_same(edge, name, DOMAINS[name][1], 5, (12, 30, 2))
    assert_same(edge.seen_from(1), name, DOMAINS[name][1], 6, (12, 30, 2))


@pytest.mark.parametrize("kind", BANDS)
def test_bands_at_the_borders(kind: str) -> None:
    """A bound that would leave 64 bits must not let the border's own value in."""
    checks, _ = BANDS[kind]
    domain = [*DOMAINS["int64"][1], INT64[0] + 2, INT64[0] + 3, INT64[1] - 2, INT64[1] - 3]
    for seed in (1, 2):
        assert_same(EdgeSpec(0, 1, checks), "int64", domain, seed, (20, 30, 2))


@pytest.mark.parametrize("name", ["float", "double"])
@pytest.mark.parametrize("strict", [False, True])
def test_fractional_bands(name: str, strict: bool) -> None:
    """Constants that no float is, rounded differences: the index decides, to the last digit."""
    kind = "float32" if name == "float" else "float64"
    domain = [*DOMAINS[name][1], 0.1, 0.2, 0.3, 0.4, 1.1, 1e7, 1e7 + 1]
    domain = [pa.scalar(number, DOMAINS[name][0]).as_py() for number in domain]
    for lower, upper in ((-0.1, 0.1), (-1.0, 0.2), (0.1, 0.3)):
        band = Band("a", "b", lower, upper, strict, strict, kind)
        for seed in range(3):
            assert_same(EdgeSpec(0, 1, (band,)), name, domain, seed, (20, 30, 2))


@settings(max_examples=60, deadline=None)
@given(st.lists(WIDE, min_size=1, max_size=8), st.sampled_from(list(EDGES)), st.integers(0, 99))
def test_wide_decimals_of_any_length_against_a_nested_loop(numbers: list[int], kind: str, seed: int) -> None:
    """Their keys are prefixes of 57 bits: neighbours may share one, and no match may be lost for that."""
    domain = [
        Decimal(number).scaleb(-6, WIDE_CONTEXT)
        for near in numbers
        for number in (near, near + 1 if near < 0 else near - 1)
    ]
    checks = tuple(Compare(check.op, check.left, check.right, False) for check in EDGES[kind][0])
    assert_same(EdgeSpec(0, 1, checks), "wide_decimal", domain, seed, (6, 9, 2))


@pytest.mark.parametrize("kind", ["at least", "two-sided range", "stabbing"])
def test_wide_decimals_of_few_digits_are_no_candidates_of_each_other(kind: str) -> None:
    """bigint beside decimal(10, 2) is decimal(22, 2): a key of the high word made such a join quadratic."""
    checks = tuple(Compare(check.op, check.left, check.right, False) for check in EDGES[kind][0])
    type_ = pa.decimal128(22, 2)
    low = [Decimal(number) for number in range(500)]
    stored = pa.RecordBatch.from_arrays(
        [pa.array(low, type_), pa.array([one + 1 for one in low], type_)], names=["a", "b"]
    )
    probing = stored.slice(0, 1)
    plan = plan_probe(EdgeSpec(0, 1, checks))
    store = Store("s", [plan.sort_order])
    store.append(stored)
    (segment,) = store.segments
    found = Probe(plan, probing).candidates(segment.indexes[plan.sort_order.key], narrow=True)
    assert sum(len(mine) for mine, _ in found) <= 2


def test_a_band_of_event_times_that_all_stored_rows_lie_in_is_not_what_is_searched() -> None:
    """In a window of an hour nearly every pair is within an hour; whatever else is on the edge leaves out more."""
    within, near = Band("t", "t", -60, 60, wide=True), Band("a", "a", -1, 1)
    for checks in ((within, near), (near, within)):
        plan = plan_probe(EdgeSpec(0, 1, checks))
        assert plan.sort_order == SortOrder(None, "a", "a")
        assert plan.narrow_checks == (within,)
        assert not plan.wide
    assert plan_probe(EdgeSpec(0, 1, (within,))).wide
    assert plan_probe(EdgeSpec(0, 1, (within, Compare("<>", "a", "a")))).wide
    equal = plan_probe(EdgeSpec(0, 1, (within, Compare("=", "a", "a"))))
    assert equal.sort_order == SortOrder("a", "t", "t")
    assert not equal.wide
    limited = dataclasses.replace(within, limits=(-(1 << 31), (1 << 31) - 1))  # it raises on pairs far apart
    assert plan_probe(EdgeSpec(0, 1, (limited, near))).sort_order == SortOrder("a", "t", "t", 3)
    narrow = dataclasses.replace(within, wide=False)
    assert plan_probe(EdgeSpec(0, 1, (narrow, near))).sort_order == SortOrder("a", "t", "t", 3)


def test_a_hash_only_finds_candidates() -> None:
    """Two different pairs of values may share a 64-bit hash; the values decide."""
    checks = (Compare("=", "a", "a", False), Compare("=", "b", "b", False))
    edge = EdgeSpec(0, 1, checks, "h", "h")
    assert plan_probe(edge).sort_order.equal == "h"
    random = Random(1)
    words = ["aaaaaaaab", "aaaaaaaac", "x"]
    stored = [[{**row, "h": 7} for row in rows_of(random, words, 20, 0)]]
    probing = [{**row, "h": 7} for row in rows_of(random, words, 20, 100)]
    wanted = Counter((p["id"], s["id"]) for p in probing for s in stored[0] if matches(checks, p, s))
    assert probe_matches(edge, pa.string(), stored, probing, True) == wanted


def test_a_sliced_batch_can_be_indexed() -> None:
    """Chunks are cut by slicing; their buffers begin elsewhere."""
    band = Band("a", "a", 0, 0)
    plan = plan_probe(EdgeSpec(0, 1, (band,)))
    whole = pa.RecordBatch.from_pydict({"a": pa.array(range(10), pa.int32())})
    store = Store("s", [plan.sort_order])
    for start in (5, 2):
        store.append(whole.slice(start, 3))
    store.compact()
    found = [
        (mine.tolist(), segment.rows.column("a").take(pa.array(theirs)).to_pylist())
        for mine, segment, theirs in store.probe(Probe(plan, whole.slice(4, 2)))
    ]
    assert found == [([0, 1], [4, 5])]


INT = (-(1 << 31), (1 << 31) - 1)


def limited(stored: list[tuple[int, int]], probing: tuple[int, int], *before: Check) -> int:
    """Probe rows (a, b) on ABS(a - a) < 2, after some other checks; return the number of matches."""
    checks = (*before, Band("a", "a", -1, 1, limits=INT, sql="ABS(r.a - s.a) < 2", type_name="int"))
    schema = {"a": pa.int32(), "b": pa.int32()}
    results = []
    for edge in (EdgeSpec(0, 1, checks), EdgeSpec(1, 0, tuple(check.mirrored() for check in checks)).seen_from(0)):
        plan = plan_probe(edge)
        store = Store("s", [plan.sort_order])
        for a, b in stored:
            store.append(batch_of([{"a": a, "b": b}], schema))
            store.compact()
        found = store.probe(Probe(plan, batch_of([{"a": probing[0], "b": probing[1]}], schema)))
        results.append(sum(len(mine) for mine, _, _ in found))
    assert results[0] == results[1]
    return results[0]


@pytest.mark.parametrize(("x", "y"), [(INT[1], -1), (INT[0], 1), (-2, INT[1]), (5, INT[0])])
def test_overflow_is_noticed_on_pairs_that_the_index_skips(x: int, y: int) -> None:
    """Spark computes the difference for every pair; the index alone would never look at this one."""
    assert not INT[0] <= x - y <= INT[1]
    for stored in ([(0, 0), (y, 0), (1, 0)], [(y, 0)]):
        with pytest.raises(JoinOverflowError, match="ABS"):
            limited(stored, (x, 0))


@pytest.mark.parametrize(("x", "y"), [(INT[1], 0), (INT[0], 0), (INT[0], -1), (0, INT[1])])
def test_no_overflow_at_the_border(x: int, y: int) -> None:
    assert limited([(0, 0), (y, 0)], (x, 0)) == sum(abs(x - z) < 2 for z in (0, y))


def test_overflow_only_on_pairs_that_reach_the_difference() -> None:
    """Spark evaluates AND from left to right, and a join's equalities before all else."""
    stored = [(INT[0], 1), (5, 2)]
    for before in (Compare("=", "b", "b"), Compare("<", "b", "b"), Compare("<>", "b", "b")):
        assert limited([(INT[0], 1), (5, 3)], (5, 1 if before.op == "<>" else 3), before) == (before.op != "<")
    with pytest.raises(JoinOverflowError):
        limited(stored, (5, 1), Compare("=", "b", "b"))
    with pytest.raises(JoinOverflowError):
        limited(stored, (5, 0), Compare("<", "b", "b"))


@pytest.mark.parametrize("shift", [0, INT64[0], INT64[1] - 12])
@pytest.mark.parametrize(
    "kind", ["band", "band off zero", "lower bound", "upper bound", "equality and band", "two bands"]
)
def test_where_nothing_can_overflow_the_index_decides(kind: str, shift: int) -> None:
    """Segments with and without differences beyond the limits, also at the borders of the keys themselves."""
    checks = tuple(
        Band(check.left, check.right, check.lower, check.upper, limits=(-7, 7)) if isinstance(check, Band) else check
        for check in BANDS[kind][0]
    )
    edge = EdgeSpec(0, 1, checks)
    assert not set(plan_probe(edge).narrow_checks) & set(checks[-1:] if kind != "two bands" else checks[:1])
    raised = found = 0
    for seed in range(40):
        random = Random(seed)
        domain = range(shift, shift + random.choice([5, 8, 12]))
        stored = [rows_of(random, domain, size, 100 * number) for number, size in enumerate((6, 1, 3))]
        probing = rows_of(random, domain, 4, 10_000)
        pairs = [(one, other) for one in probing for rows in stored for other in rows]
        wanted: Counter[tuple[int, int]] = Counter()
        beyond = False
        for one, other in pairs:
            for check in checks:  # as Spark does: one after the other, until one is false
                difference = one[check.left] - other[check.right]
                beyond |= isinstance(check, Band) and not -7 <= difference <= 7
                if not holds(check, one, other):
                    break
            else:
                wanted[(one["id"], other["id"])] += 1
        for compact in (False, True):
            if beyond:
                with pytest.raises(JoinOverflowError):
                    probe_matches(edge, pa.int64(), stored, probing, compact)
            else:
                assert probe_matches(edge, pa.int64(), stored, probing, compact) == wanted
        raised, found = raised + beyond, found + len(wanted) * (not beyond)
    assert raised > 3
    assert found > 10


@pytest.mark.parametrize("beside", [(-2, 2, True), (-30, 30, True), (-2, 2, False)], ids=str)
def test_two_dimensions_whose_differences_can_overflow(beside: tuple[int, int, bool]) -> None:
    """Where a pair overflows Spark raises, unless the band before it is false; elsewhere both bands are searched."""
    *ends, limited = beside
    checks = (
        Band("a", "a", *ends, limits=(-1000, 1000) if limited else None),
        Band("b", "b", -1, 3, limits=(-1000, 1000)),
    )
    plan = plan_probe(EdgeSpec(0, 1, checks))
    assert plan.cells is not None
    raised = found = 0
    for seed in range(40):
        random = Random(seed)
        domain = range(random.choice([20, 900, 1300]))
        sizes = enumerate((6, 1, 30))
        stored = [rows_of(random, [*domain, *[5] * len(domain)], size, 100 * number) for number, size in sizes]
        probing = rows_of(random, [*domain, *[5] * len(domain)], 4, 10_000)
        wanted: Counter[tuple[int, int]] = Counter()
        beyond = False
        for one, other in ((one, other) for one in probing for rows in stored for other in rows):
            for check in checks:
                beyond |= check.limits is not None and not -1000 <= one[check.left] - other[check.right] <= 1000
                if not holds(check, one, other):
                    break
            else:
                wanted[(one["id"], other["id"])] += 1
        for compact in (False, True):
            if beyond:
                with pytest.raises(JoinOverflowError):
                    probe_matches(EdgeSpec(0, 1, checks), pa.int64(), stored, probing, compact)
            else:
                assert probe_matches(EdgeSpec(0, 1, checks), pa.int64(), stored, probing, compact) == wanted
        raised, found = raised + beyond, found + len(wanted) * (not beyond)
    assert raised > 1
    assert found > 10


def test_two_dimensions_with_infinities_among_the_values() -> None:
    """NaN and infinities have cells of their own, far out, and those around zero stay apart."""
    checks = (
        Band("a", "a", 0.0, 0.5, arithmetic="float64"),
        Band("b", "b", -3.0, 4.0, arithmetic="float64"),
    )
    assert plan_probe(EdgeSpec(0, 1, checks)).sort_order.width == 7
    numbers = [number / 4 for number in range(-12, 12)]
    for seed in range(60):
        assert_same(EdgeSpec(0, 1, checks), "double", [*numbers, math.nan, math.inf, -math.inf], seed, (6, 1, 30))


def test_a_band_that_is_not_watched_for_overflow_is_evaluated() -> None:
    """The index watches one band; a second on the same column, and those of a stabbing search, are looked at."""
    apart = Band("a", "a", 0, None, limits=(-7, 7)), Band("a", "a", None, 3, limits=(-9, 9))
    assert plan_probe(EdgeSpec(0, 1, apart)).limited == apart[0]
    assert plan_probe(EdgeSpec(0, 1, apart)).narrow_checks == apart[1:]
    stabbing = Band("a", "a", 0, None, limits=(-7, 7)), Band("a", "b", None, 3, limits=(-7, 7))
    assert plan_probe(EdgeSpec(0, 1, stabbing)).narrow_checks == stabbing


def test_two_bands_each_watch_their_own_column() -> None:
    """One store, two edges, two columns: the extremes of one must not raise for the other."""
    schema = {"a": pa.int8(), "b": pa.int8()}
    plans = [plan_probe(EdgeSpec(0, 1, (Band(name, name, -1, 1, limits=(-128, 127)),))) for name in "ab"]
    store = Store("s", [plan.sort_order for plan in plans])
    store.append(batch_of([{"a": 100, "b": 0}], schema))
    probing = batch_of([{"a": 0, "b": -100}], schema)
    assert [list(store.probe(Probe(plan, probing))) for plan in plans] == [[], []]
    with pytest.raises(JoinOverflowError):
        list(store.probe(Probe(plans[0], batch_of([{"a": -100, "b": 0}], schema))))


def test_probing_nothing_and_nothing_stored() -> None:
    for kind, (checks, _) in {**EDGES, **BANDS}.items():
        edge = EdgeSpec(0, 1, checks)
        assert_same(edge, "int64", range(3), 1, ())
        assert not probe_matches(edge, pa.int64(), [[{"id": 1, "a": 1, "b": 2}]], [], True), kind


def test_rounded_differences_are_found_to_the_last_digit() -> None:
    """x - y is rounded: y may lie outside the range that x and the bound span, and still match."""
    random = np.random.default_rng(3)
    rows = [{"id": at, "a": float(x), "b": float(x)} for at, x in enumerate(random.normal(0, 1e8, 400))]
    near = [
        {"id": 1000 + row["id"], "a": row["a"] + 0.1, "b": math.nextafter(row["a"] - 0.1, -math.inf)} for row in rows
    ]
    band = Band("a", "a", -0.1, 0.1, arithmetic="float64")
    wanted = Counter((p["id"], s["id"]) for p in near for s in rows if holds(band, p, s))
    assert 0 < sum(wanted.values()) < 400
    assert probe_matches(EdgeSpec(0, 1, (band,)), pa.float64(), [rows], near, True) == wanted
