"""Joins with the closest rows outside of Spark: each row takes its closest partners once, when no closer can come."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import Band, Check, Compare, EdgeSpec
from trijoin_sql.operators.spec import Closest, JoinSpec, Options, StreamSpec

from trijoin_sql.errors import JoinOverflowError

from .slots import another_worker
from .test_outer import DELAY, START, Row, Run
from .test_state import no_machine

SCHEMA = {"id": pa.int64(), "k": pa.int32(), "x": pa.int32(), "f": pa.float64(), "t": pa.int64(), "route": pa.int64()}
COLUMNS = ("id", "k", "x", "f", "t")


def join(closest: Closest, checks: tuple[Check, ...], units: int, bounds: tuple[int | None, int | None]) -> JoinSpec:
    """Return a join of r and s, in which ``-bounds[0] <= s.t - r.t <= bounds[1]`` is known."""
    types = tuple((name, SCHEMA[name]) for name in COLUMNS)
    compared = {check.right for check in checks if isinstance(check, Compare)}
    read = {closest.right, *compared}
    required = tuple((name, name) for name in COLUMNS if name in read)
    keyed = any(isinstance(check, Compare) and check.op == "=" for check in checks)
    streams = tuple(
        StreamSpec(
            name, (("id", f"{name}_id"),), COLUMNS, "route",
            ((0, "k"),) if keyed else ((rank, "route"),), None, "t", required=required, types=types,
        )
        for rank, name in enumerate("rs")
    )  # fmt: skip
    grid = (units,) if keyed else (units, 1)
    known = [] if bounds[1] is None else [(0, 1, bounds[1])]
    known += [] if bounds[0] is None else [(1, 0, bounds[0])]
    return JoinSpec(
        "j", streams, (EdgeSpec(0, 1, checks),), "matrix", units, options=Options(grid=grid),
        bounds=tuple(known), join="left_closest", closest=closest,
    )  # fmt: skip


def rows_of(random: Random, count: int) -> list[Row]:
    """Rows that are out of order by less than the delay, with few different times, some of them twice."""
    rows: list[Row] = []
    for at in range(count):
        row: Row = {
            "id": at,
            "k": random.choice([None, 0, 1, 2]),
            "x": random.choice([None, *range(5)]),
            "f": random.choice([None, math.nan, -0.0, 0.0, 0.25, 3.5, math.inf]),
            "t": START + 2_000 * (2 * at + random.randrange(DELAY // 2_000)),
            "route": random.getrandbits(40),
        }
        rows.append({**rows[-1], "id": at} if at % 4 == 3 else row)
    return rows


def holds(check: Check, r: Row, s: Row) -> bool:
    assert not hasattr(check, "branches")
    one, other = r[check.left], s[check.right]  # type: ignore[union-attr]
    if one is None or other is None:
        return False
    if isinstance(check, Band):
        return bool((check.lower or 0) <= one - other <= (check.upper or 0))
    assert isinstance(check, Compare)
    compare = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}[check.op]
    return bool(compare(key(one), key(other)))


def key(value: float) -> tuple[bool, float]:
    """Return a value in Spark's order: NaN is above all numbers."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def partners(spec: JoinSpec, r: Row, side: Sequence[Row]) -> dict[int, Any]:
    """Return by id of a row's partners how far they are."""
    closest, found = spec.closest, {}
    assert closest is not None
    (edge,) = spec.edges
    for s in side:
        one, other = r[closest.left], s[closest.right]
        if one is None or other is None or not all(holds(check, r, s) for check in edge.checks):
            continue
        match closest.by:
            case "distance":
                found[s["id"]] = key(abs(float(one) - float(other)))
            case "least":
                found[s["id"]] = key(other)
            case _:
                above, value = key(other)
                found[s["id"]] = (not above, -value)
    return found


By = Literal["greatest", "least", "distance"]
CASES: dict[str, tuple[By, str, Compare | None]] = {
    "the latest before": ("greatest", "t", Compare(">=", "t", "t")),
    "the latest but now": ("greatest", "t", Compare(">", "t", "t")),
    "the first from now on": ("least", "t", Compare("<=", "t", "t")),
    "the greatest below": ("greatest", "x", Compare(">", "x", "x")),
    "the least above": ("least", "f", Compare("<=", "f", "f")),
    "the nearest number": ("distance", "x", None),
    "the nearest float": ("distance", "f", None),
    "the nearest in time": ("distance", "t", None),
}
BOUNDS = [(30_000, 0), (60_000, 15_000), (0, 40_000)]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIJOIN_LOCAL_DIR", str(tmp_path))


def run(spec: JoinSpec, sides: Sequence[Sequence[Row]], random: Random) -> None:
    """Run a join over some cut into micro-batches, and compare what each row got, and when, with nested loops."""
    assert spec.closest is not None
    needed = [name for name, _ in spec.streams[1].required]  # the dispatcher drops other rows
    sides = [sides[0], [row for row in sides[1] if all(row[name] is not None for name in needed)]]
    by_row: defaultdict[int, list[int]] = defaultdict(list)
    at_all = Run(spec, random, SCHEMA)
    watermark, newest, left = 0, [0, 0], [list(side) for side in sides]
    due = {row["id"]: row["t"] + (spec.most(0, 1) or 0) for row in sides[0]}
    if spec.closest.by == "least" and spec.closest.right == "t":  # a row that has found the next one need not wait
        for row in sides[0]:
            best = sorted(value for _, value in partners(spec, row, sides[1]).values())[: spec.closest.count]
            if len(best) == spec.closest.count:
                due[row["id"]] = min(due[row["id"]], max(row["t"], int(best[-1])))
    whole = {row["id"]: all(row[name] is not None for name, _ in spec.streams[0].required) for row in sides[0]}

    def take(rows: Sequence[Sequence[Row]]) -> None:
        for one, other in at_all.batch(rows, watermark).elements():
            assert one is not None
            assert not whole[one] or due[one] <= watermark, "a closer row might still have come"
            by_row[one] += [-1 if other is None else other]

    while any(left):
        sizes = [random.choice([0, 1, 2, 9, 40]) for _ in "rs"]
        rows, left = zip(*((side[:size], side[size:]) for side, size in zip(left, sizes, strict=True)), strict=True)
        take(rows)
        newest = [max([old, *(row["t"] for row in some)]) for old, some in zip(newest, rows, strict=True)]
        watermark = max(watermark, min(newest) - DELAY)
        take(([], []))
        came = {row["id"] for row in sides[0]} - {row["id"] for row in left[0]}
        assert all(one in by_row for one in came if due[one] <= watermark), "the watermark has passed them"
    watermark = 10**12
    take(([], []))
    for row in sides[0]:
        far = partners(spec, row, sides[1])
        got = by_row.pop(row["id"])
        if not far:
            assert got == [-1], row
            continue
        best = sorted(far.values())[: spec.closest.count]
        assert sorted(far[one] for one in got) == best, (row, got, far)
        assert len(set(got)) == len(got)
    assert not by_row
    watermark = 2 * 10**12
    take(([], []))
    assert not by_row, "each row gets its partners once"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(8))
def test_random_runs(case: str, seed: int) -> None:
    random = Random(f"{case}{seed}")
    by, column, match = CASES[case]
    before, after = random.choice(BOUNDS)
    checks: list[Check] = [Band("t", "t", -after, before)]
    checks += [Compare("=", "k", "k")] if random.random() < 0.5 else []
    checks += [Compare("<>", "x", "x")] if random.random() < 0.3 else []
    checks += [match] if match is not None else []
    random.shuffle(checks)
    closest = Closest(column, column, by, count=random.choice([1, 1, 1, 2, 5]))
    spec = join(closest, tuple(checks), random.choice([1, 2, 5]), (before, after))
    run(spec, [rows_of(random, random.randrange(60)) for _ in "rs"], random)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("op", [">=", ">"])
@pytest.mark.parametrize("seed", range(6))
def test_the_latest_of_each_key_stays(keyed: bool, op: Literal[">=", ">"], seed: int) -> None:
    random = Random(f"{keyed}{op}{seed}")
    keys = (Compare("=", "k", "k"),) if keyed else ()
    closest = Closest("t", "t", "greatest", latest=("k",) if keyed else ())
    spec = join(closest, (*keys, Compare(op, "t", "t")), random.choice([1, 3]), (None, 0))
    run(spec, [rows_of(random, random.randrange(80)) for _ in "rs"], random)


def test_replaced_rows_go() -> None:
    """Of a key the latest expired row is kept, and of all rows some twice as many as there are keys."""
    checks = (Compare("=", "k", "k"), Compare(">=", "t", "t"))
    spec = join(Closest("t", "t", "greatest", latest=("k",)), checks, 1, (None, 0))
    there = Run(spec, Random(1), SCHEMA)
    for number in range(40):
        time = START + 1_000_000 * number
        rows = [{"id": 1000 * number + k, "k": k, "x": 0, "f": 0.0, "t": time, "route": 0} for k in range(1000)]
        there.batch(([], rows), time - 1)
    (chunks,) = there.chunks
    kept = {name: sum(chunk.rows for chunk in some) for name, some in chunks.manifest.chunks.items()}
    assert kept["s"] <= 2000
    assert 1000 <= kept["s.latest"] <= 3000
    asking = [{"id": k, "k": k, "x": 0, "f": 0.0, "t": START + 10**9, "route": 0} for k in range(1000)]
    there.batch((asking, []), START + 10**9 - 1)
    assert set(there.batch(([], []), START + 10**9)) == {(k, 39_000 + k) for k in range(1000)}


@pytest.mark.parametrize(("similarity", "nearest"), [(False, {2, 1}), (True, {0, 2})])
def test_nan_is_the_greatest_distance_and_the_greatest_similarity(similarity: bool, nearest: set[int]) -> None:
    """As in Spark, whose k greatest values begin with NaN."""
    closest = Closest("f", "f", "distance", 2, similarity=similarity)
    there = Run(join(closest, (Band("t", "t", 0, 10),), 1, (10, 0)), Random(3), SCHEMA)
    rows = [{"id": at, "k": 0, "x": 0, "f": f, "t": START, "route": 0} for at, f in enumerate((math.nan, 9.0, 2.0))]
    there.batch(([{**rows[0], "f": 1.0}], rows), START - 1)
    assert {other for _, other in there.batch(([], []), START)} == nearest


def test_great_distances_that_wrap_are_exact() -> None:
    """Doubles would take these two for equally close."""
    closest = Closest("route", "route", "distance", wraps=True)
    spec = join(closest, (Band("t", "t", 0, 10),), 1, (10, 0))
    streams = tuple(
        replace(one, columns=(*one.columns, "route"), types=(*one.types, ("route", pa.int64()))) for one in spec.streams
    )
    there = Run(replace(spec, streams=streams), Random(3), SCHEMA)
    rows = [{"id": at, "k": 0, "x": 0, "f": 0.0, "t": START, "route": 2**53 + at} for at in range(2)]
    there.batch(([{**rows[0], "route": 0}], rows), START - 1)
    assert set(there.batch(([], []), START)) == {(0, 0)}


def test_the_latest_row_outlives_its_machine() -> None:
    """Rows that merged in memory become the latest together: until then none of them may go from what is durable."""
    checks = (Compare("=", "k", "k"), Compare(">=", "t", "t"))
    spec = join(Closest("t", "t", "greatest", latest=("k",)), checks, 1, (None, 0))
    there = Run(spec, _Never(), SCHEMA)

    def row(number: int, k: int, time: int) -> Row:
        return {"id": number, "k": k, "x": 0, "f": 0.0, "t": START + 1000 * time, "route": 0}

    there.batch(([], [row(0, 0, 100), row(1, 1, 0)]), START - 1)
    there.batch(([], [row(2, 1, 5), row(3, 2, 120)]), START - 1)
    there.batch(([], []), START + 110_000)
    no_machine()
    there.batch(([row(4, 0, 130), row(5, 1, 130)], []), START + 110_000)
    assert set(there.batch(([], []), START + 130_000)) == {(4, 0), (5, 2)}


class _Never(Random):
    """No task fails, and none lands on another worker, unless a test says so."""

    def random(self) -> float:
        return 0.9


def test_rows_that_are_still_the_latest_are_not_written_anew() -> None:
    """A slot that each micro-batch another worker has knows nothing of when it looked last."""
    checks = (Compare("=", "k", "k"), Compare(">=", "t", "t"))
    spec = join(Closest("t", "t", "greatest", latest=("k",)), checks, 1, (None, 0))
    there = Run(spec, Random(1), SCHEMA)
    for number in range(6):
        time = START + 1_000_000 * number
        keys = range(2000) if number == 0 else range(5)
        another_worker()
        there.batch(([], [{"id": k, "k": k, "x": 0, "f": 0.0, "t": time, "route": 0} for k in keys]), time - 1)
    (chunks,) = there.chunks
    assert min(chunk.start for chunk in chunks.manifest.chunks["s.latest"]) == 0


@pytest.mark.parametrize("wraps", [False, True])
def test_a_distance_that_overflows(wraps: bool) -> None:
    """In ANSI mode it is an error, else it is what is left of its bits, as in Spark."""
    most = None if wraps else 2**31 - 1
    closest = Closest("x", "x", "distance", sql="ABS(r.x - s.x)", type_name="int", most=most, wraps=wraps)
    spec = join(closest, (Band("t", "t", 0, 10),), 1, (10, 0))
    there = Run(spec, Random(2), SCHEMA)
    one, far, near = (
        {"id": at, "k": 0, "x": x, "f": 0.0, "t": START, "route": 0} for at, x in enumerate((-(2**31), 2**31 - 1, -9))
    )
    there.batch(([one], [far, near]), START - 1)
    if wraps:
        assert set(there.batch(([], []), START)) == {(0, 1)}
        return
    with pytest.raises(JoinOverflowError, match=r"ABS\(r\.x - s\.x\)"):
        there.batch(([], []), START)
