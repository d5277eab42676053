"""Results reduced to groups inside the units: the same as listing every result and adding up in Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import Band, Check, Compare, EdgeSpec
from trijoin_sql.operators.kernels.sums import as_sum, count_by, extreme_by, sum_by
from trijoin_sql.operators.results.bundle import Bundle, Part
from trijoin_sql.operators.results.local_views import Reducer
from trijoin_sql.operators.results.outcomes import Outcome, Reduced
from trijoin_sql.operators.spec import AggregateSpec, JoinSpec, KeySpec, Options, StateSpec, StreamSpec

from trijoin_sql.errors import JoinOverflowError

from .reference import Row, batch_of, cut, matches, order, run

SCHEMA: Mapping[str, pa.DataType] = {
    "id": pa.int64(),
    "a": pa.int32(),
    "x": pa.int64(),
    "f": pa.float64(),
    "d": pa.decimal128(12, 2),
    "w": pa.decimal128(30, 4),
    "k": pa.string(),
    "l": pa.list_(pa.int32()),
    "route": pa.int64(),
}
COLUMNS = tuple(name for name in SCHEMA if name != "route")
SUMMED = {"x": (None, 0), "f": (None, 0), "d": (22, 2), "w": (38, 4), "a": (None, 0)}


def streams(count: int) -> tuple[StreamSpec, ...]:
    return tuple(
        StreamSpec(f"s{rank}", tuple((c, f"{c}{rank}") for c in COLUMNS), COLUMNS, "route", ((rank, "route"),))
        for rank in range(count)
    )


def rows_of(random: Random, count: int) -> list[Row]:
    rows: list[Row] = []
    for number in range(count):
        row = {
            "id": number,
            "a": random.randrange(5),
            "x": random.choice([None, -3, 0, 7, 1 << 40, -(1 << 51)]),
            "f": random.choice([None, 0.5, -2.25, math.nan if number == 0 else 4.0]),
            "d": random.choice([None, Decimal("0.01"), Decimal("-9999999999.99")]),
            "w": random.choice(
                [None, Decimal("0.0001"), Decimal("-99999999999999999999999999.9999"), Decimal(1 << 70)]
            ),
            "k": random.choice([None, "", "u", "aaaaaaaab", "aaaaaaaac"]),
            "l": random.choice([None, [1], [2]]),
            "route": random.getrandbits(60),
        }
        rows.append(row)
    return rows


def added(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    with localcontext(prec=80):
        return sum(known[1:], known[0]) if known else None


def expected(spec: JoinSpec, inputs: Sequence[Sequence[Row]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Add up the results of a nested loop."""
    assert spec.aggregate is not None
    lists: dict[tuple[Any, ...], list[tuple[Row, ...]]] = {}
    for joined in product(*inputs):
        if all(matches(edge.checks, joined[edge.left], joined[edge.right]) for edge in spec.edges):
            key = tuple(str(joined[key.rank][key.column]) for key in spec.aggregate.keys)
            lists.setdefault(key, []).append(joined)
    return {key: tuple(state_of(one, found) for one in spec.aggregate.states) for key, found in lists.items()}


def state_of(state: StateSpec, found: Sequence[tuple[Row, ...]]) -> Any:
    if state.rank is None or state.column is None:
        return len(found)
    values = [row[state.rank][state.column] for row in found if row[state.rank][state.column] is not None]
    if state.function == "count":
        return len(values)
    if state.function == "sum":
        return added(values)
    return (max if state.function == "max" else min)(values, key=order) if values else None


def merged(spec: JoinSpec, groups: Sequence[pa.RecordBatch]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Do what Spark does with the units' groups."""
    assert spec.aggregate is not None
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in (row for batch in groups for row in batch.to_pylist()):
        found.setdefault(tuple(str(row[key.name]) for key in spec.aggregate.keys), []).append(row)
    result = {}
    for key, rows in found.items():
        states = []
        for state in spec.aggregate.states:
            values = [row[state.name] for row in rows if row[state.name] is not None]
            if state.function in ("count", "sum"):
                states.append(added(values))
            else:
                states.append((max if state.function == "max" else min)(values, key=order) if values else None)
        result[key] = tuple(states)
    return result


def close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)


def assert_same(found: Mapping[Any, Sequence[Any]], wanted: Mapping[Any, Sequence[Any]]) -> None:
    assert found.keys() == wanted.keys()
    for key, states in wanted.items():
        assert all(map(close, found[key], states)), [
            pair for pair in zip(found[key], states, strict=True) if not close(*pair)
        ]


def states(ranks: Sequence[int], functions: Sequence[str] = ("count", "sum", "min", "max")) -> list[StateSpec]:
    made = [StateSpec("count", "n")]
    for rank in ranks:
        for function in functions:
            for column in ("x", "f", "d", "w", "k", "a"):
                if function == "sum" and column not in SUMMED:
                    continue
                precision, scale = SUMMED.get(column, (None, 0))
                name = f"{function}_{rank}_{column}"
                made.append(StateSpec(function, name, rank, column, precision, scale, column))  # type: ignore[arg-type]
    return made


EDGES: dict[str, tuple[Check, ...]] = {
    "band": (Band("a", "a", -1, 1),),
    "equality": (Compare("=", "a", "a"),),
    "band that may overflow": (Band("a", "a", 0, 1, limits=(-(1 << 31), (1 << 31) - 1)),),
    "not equal": (Compare("<>", "a", "a"),),
}
KEYS = [(), ((0, "k"),), ((1, "k"), (1, "a")), ((2, "k"), (0, "l"), (1, "f")), ((0, "id"), (1, "id"), (2, "id"))]


@pytest.mark.parametrize("scheme", ["semi_symmetric", "symmetric", "matrix", "tree", "non_materializing"])
@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_every_scheme_gives_the_groups_of_a_nested_loop(scheme: str, keys: Sequence[tuple[int, str]]) -> None:
    """Every key and state over every stream, several cuts into micro-batches: packs, ranges, lists and listed rows."""
    random = Random(str((scheme, keys)))
    results = 0
    for number, (kind, some) in enumerate(zip(EDGES, ([0, 1, 2], [0], [1], [2]), strict=True)):
        inputs = [rows_of(random, 12) for _ in range(3)]
        edges = (EdgeSpec(0, 1, EDGES[kind]), EdgeSpec(1, 2, EDGES["band" if number % 2 else "equality"]))
        if scheme == "symmetric":
            edges = (*edges, EdgeSpec(0, 2, EDGES["band"])) if number else edges
        functions = ("count", "sum") if number else ("count", "sum", "min", "max")
        made = [KeySpec(rank, column, f"key{at}") for at, (rank, column) in enumerate(keys)]
        aggregate = AggregateSpec(tuple(made), tuple(states(some, functions)))
        units = 1 + number % 3
        options = Options(grid=(units, 1, 1)) if scheme == "matrix" else Options()
        spec = JoinSpec("j", streams(3), edges, scheme, units, 1, options, aggregate=aggregate)
        cuts = [cut(random, rows, 3) for rows in inputs]
        batches = [
            {rank: [batch_of(one[at], SCHEMA)] for rank, one in enumerate(cuts) if at < len(one) and one[at]}
            for at in range(max(map(len, cuts)))
        ]
        groups: list[pa.RecordBatch] = []
        run(spec, batches, groups=groups)
        wanted = expected(spec, inputs)
        assert_same(merged(spec, groups), wanted)
        results += sum(found[0] for found in wanted.values())
    assert results > 100


@pytest.mark.parametrize("kind", EDGES)
def test_two_streams(kind: str) -> None:
    random = Random(kind)
    for keys in ((), ((0, "k"),), ((1, "k"),)):
        inputs = [rows_of(random, 30) for _ in range(2)]
        made = tuple(KeySpec(rank, column, "key") for rank, column in keys)
        aggregate = AggregateSpec(made, tuple(states([0, 1])))
        spec = JoinSpec("j", streams(2), (EdgeSpec(0, 1, EDGES[kind]),), "biclique", 2, aggregate=aggregate)
        groups: list[pa.RecordBatch] = []
        run(spec, [{rank: [batch_of(rows, SCHEMA)]} for rank, rows in enumerate(inputs)], groups=groups)
        assert_same(merged(spec, groups), expected(spec, inputs))


def test_packs_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and sums over a chain come from the packs: nothing may expand a bundle."""

    def refuse(_: Bundle) -> None:
        raise AssertionError("a bundle was listed")

    monkeypatch.setattr(Bundle, "listed", refuse)
    random = Random(5)
    inputs = [rows_of(random, 40) for _ in range(3)]
    edges = (EdgeSpec(0, 1, EDGES["band"]), EdgeSpec(1, 2, EDGES["equality"]))
    for keys in ((), (KeySpec(1, "k", "key"),)):
        aggregate = AggregateSpec(keys, tuple(states([0, 1, 2], ("count", "sum"))))
        spec = JoinSpec("j", streams(3), edges, "semi_symmetric", 2, 1, aggregate=aggregate)
        groups: list[pa.RecordBatch] = []
        run(spec, [{rank: [batch_of(rows, SCHEMA)]} for rank, rows in enumerate(inputs)], groups=groups)
        assert_same(merged(spec, groups), expected(spec, inputs))


def reduced(aggregate: AggregateSpec, outcomes: Sequence[Outcome]) -> list[Row]:
    found = list(Reducer(aggregate).run(iter(outcomes)))
    assert all(isinstance(one, Reduced) for one in found)
    return [row for one in found if isinstance(one, Reduced) for row in one.rows.to_pylist()]


def test_long_ranges_are_summed_by_running_totals() -> None:
    """Ranges that overlap so much that listing them would take gigabytes."""
    count = 20_000
    members = pa.RecordBatch.from_pydict({"x": pa.array([None, *range(1, count)], pa.int64())})
    rows = pa.RecordBatch.from_pydict({"k": pa.array([n % 2 for n in range(count)])})
    order_ = np.arange(count)
    bundle = Bundle({0: Part(rows, order_)}, 1, members, order_, np.zeros(count, np.int64), np.arange(count) + 1)
    aggregate = AggregateSpec(
        (KeySpec(0, "k", "k"),),
        (StateSpec("count", "n"), StateSpec("count", "c", 1, "x"), StateSpec("sum", "s", 1, "x")),
    )
    for row in reduced(aggregate, [bundle]):
        ends = range(1 + row["k"], count + 1, 2)
        assert (row["n"], row["c"]) == (sum(ends), sum(end - 1 for end in ends))
        assert row["s"] == sum(end * (end - 1) // 2 for end in ends)


def test_sums_do_not_wrap() -> None:
    """Spark raises; a sum that comes back into the range on the way does not."""
    groups = np.zeros(4, np.int64)
    most = (1 << 63) - 1
    column = pa.array([most, most, -most, -most])
    assert sum_by(groups, 1, column, None).to_pylist() == [0]
    assert sum_by(groups, 1, column, np.array([3, 3, 2, 4])).to_pylist() == [0]
    with pytest.raises(JoinOverflowError, match="bigint"):
        sum_by(groups, 1, column, np.array([2, 2, 1, 1]), sql="x")
    nines = Decimal("9" * 38)
    wide = pa.array([nines, nines, Decimal(1 - 10**38), Decimal(-1)], pa.decimal128(38, 0))
    assert sum_by(groups, 1, wide, np.array([1, 1, 1, 5]), 38, 0).to_pylist() == [Decimal(10**38 - 6)]
    with pytest.raises(JoinOverflowError, match="decimal"):
        sum_by(groups, 1, wide, np.array([1, 1, 1, 0])[[0, 1, 3, 3]], 38, 0)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_more_digits_than_its_type_has_raises(sign: int) -> None:
    """As Spark raises in ANSI mode: by how often a row counts, on both ways through the arithmetic, on either side."""
    groups = np.zeros(2, np.int64)
    short = pa.array([Decimal(sign * 99_999_999_999)] * 2, pa.decimal128(11, 0))
    wide = pa.array([Decimal(sign * (10**38 - 1)), Decimal(sign)], pa.decimal128(38, 0))
    whole = pa.array([sign * (1 << 62)] * 2, pa.int64())
    for column, precision in ((short, 11), (wide, 38), (whole, None)):
        with pytest.raises(JoinOverflowError, match="SUM"):
            sum_by(groups, 1, column, np.array([1, 2]), precision, sql="r.x")
        assert sum_by(groups[:1], 1, column[:1], None, precision).to_pylist() == [column[0].as_py()]
    with pytest.raises(JoinOverflowError, match="SUM"):
        as_sum(np.array([sign * 10**11]), np.array([False]), 11, 0, "r.x")
    assert as_sum(np.array([sign * 10**11]), np.array([False]), 12, 0, "").to_pylist() == [Decimal(sign * 10**11)]


def test_nothing_but_nulls_sums_to_null() -> None:
    groups = np.array([0, 1, 1])
    for type_ in (pa.int64(), pa.float64(), pa.decimal128(10, 2)):
        column = pa.array([None, 1, None], type_)
        precision, scale = (20, 2) if pa.types.is_decimal(type_) else (None, 0)
        assert sum_by(groups, 2, column, None, precision, scale).to_pylist() == [None, 1]
        assert count_by(groups, 2, column, np.array([5, 6, 7])).to_pylist() == [0, 6]
    assert extreme_by(groups, 2, pa.array([None, "a", "b"]), greatest=True).tolist() == [-1, 2]


def test_nan_is_the_greatest_number() -> None:
    column = pa.array([math.nan, 1.0, -math.inf])
    assert extreme_by(np.zeros(3, np.int64), 1, column, greatest=True).tolist() == [0]
    assert extreme_by(np.zeros(3, np.int64), 1, column, greatest=False).tolist() == [2]
