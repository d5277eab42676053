"""Every scheme x every kind of edge x every type: what a nested loop over Spark's comparisons gives.

Two bands apart, a type's comparisons differ by its order keys only; here they pass through indexes, packs, stored pairs
and merges too, with NULL, NaN, -0.0 and the borders of each type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import AnyOf, Band, Branch, Check, Compare, EdgeSpec
from trijoin_sql.operators.kernels.order_keys import is_exact
from trijoin_sql.operators.spec import JoinSpec, Options

from .reference import DOMAINS, Row, batch_of, cut, nested_loop, run, streams

COLUMNS = ("a", "b", "h")

#: Order keys of these types are whole numbers a band can be over (of decimals, without their point).
BANDED = ("int8", "int16", "int32", "int64", "short_decimal", "date", "timestamp", "interval")


def kinds(name: str) -> dict[str, tuple[Check, ...]]:
    """Return the checks of every kind of edge over columns a and b of a type."""
    exact = is_exact(DOMAINS[name][0])

    def compare(op: Any, left: str = "a", right: str = "a") -> Compare:
        return Compare(op, left, right, exact)

    found: dict[str, tuple[Check, ...]] = {
        "equality": (compare("="),),
        "two equalities": (compare("="), compare("=", "b", "b")),
        "null-safe": (compare("<=>"),),
        "not equal": (compare("<>"),),
        "less": (compare("<"),),
        "at least": (compare(">=", "a", "b"),),
        "two-sided": (compare(">", "a", "a"), compare("<=", "a", "b")),
        "equality and range": (compare("=", "b", "b"), compare("<=", "a", "a")),
        "null-safe and not equal": (compare("<=>", "b", "b"), compare("<>")),
    }
    if name in BANDED:
        found["band"] = (Band("a", "a", -2, 2),)
        found["open band"] = (Band("a", "b", None, 1),)
        found["equality and band"] = (compare("=", "b", "b"), Band("a", "a", -1, 200))
        found["equality or band"] = (AnyOf((Branch((compare("=", "a", "b"),)), Branch((Band("b", "a", -1, 3),)))),)
    if name in ("float", "double"):
        arithmetic: Any = "float32" if name == "float" else "float64"
        found["band"] = (Band("a", "a", -1.5, 1.5, True, False, arithmetic),)
        found["open band"] = (Band("a", "b", None, 1.5, arithmetic=arithmetic),)
        found["open band from the other side"] = (Band("a", "b", -1.5, None, True, arithmetic=arithmetic),)
        found["band that NaN is within"] = (Band("a", "b", 1.5, None, arithmetic=arithmetic, nan=True),)
        found["the same from the other side"] = (Band("a", "b", None, 1.5, arithmetic=arithmetic, nan=True),)
    return found


CELLS = [(name, kind) for name in DOMAINS for kind in kinds(name)]


def rows_of(random: Random, domain: Sequence[Any], count: int, start: int) -> list[Row]:
    """Few different values, NULL among them, each third row twice; the hash collides now and then."""
    values = [*random.sample(list(domain), min(len(domain), 5)), None]
    rows: list[dict[str, Any]] = []
    for at in range(count):
        if at % 3 == 2:
            rows.append({**rows[-1], "id": start + at})
            continue
        row = {"id": start + at, "a": random.choice(values), "b": random.choice(values)}
        rows.append({**row, "route": random.getrandbits(63) - (1 << 62)})
    return rows


def hashed(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """Add what Spark computes in front of an equality: a hash that equal values share."""

    def number(value: Any) -> int:
        if value is None:
            return -1
        if isinstance(value, float):
            return 7 if value != value else int(value == 0) + (5 if value > 0 else 0)
        return len(value) % 3 if isinstance(value, str | bytes) else int(value) % 5

    return [{**row, "h": sum(number(row[name]) * (at + 2) for at, name in enumerate(columns))} for row in rows]


def batches_of(schema: Mapping[str, pa.DataType], cuts: Sequence[Sequence[Sequence[Row]]]) -> list[Any]:
    longest = max(len(one) for one in cuts)
    return [
        {rank: [batch_of(one[at], schema)] for rank, one in enumerate(cuts) if at < len(one) and one[at]}
        for at in range(longest)
    ]


def without_nulls(rows: Sequence[Row], columns: Sequence[str]) -> list[Row]:
    """Leave out the rows that no predicate but <=> lets through, as the inputs do."""
    return [row for row in rows if all(row[name] is not None for name in columns)]


def spec_of(scheme: str, checks: tuple[Check, ...], exact: bool) -> JoinSpec:
    """Return the join of three streams (two for the biclique) that has these checks on every edge of its shape."""
    equal = [check for check in checks if isinstance(check, Compare) and check.op in ("=", "<=>")]
    by_hash = len(equal) > 1 or (equal and (not exact or equal[0].op == "<=>"))
    pairs = {"symmetric": ((0, 1), (1, 2), (0, 2)), "biclique": ((0, 1),)}.get(scheme, ((0, 1), (1, 2)))
    edges = tuple(EdgeSpec(*pair, checks, *(("h", "h") if by_hash else ())) for pair in pairs)
    count = 2 if scheme == "biclique" else 3
    dimensions = {rank: ((rank, "route"),) for rank in range(count)} if scheme == "matrix" else None
    options = Options(grid=(1, 2, 1)) if scheme == "matrix" else Options(pairs=True) if exact else Options()
    return JoinSpec("j", streams(count, COLUMNS, dimensions), edges, scheme, 2, 1, options)


@pytest.mark.parametrize("scheme", ["symmetric", "semi_symmetric", "tree", "matrix", "biclique", "non_materializing"])
@pytest.mark.parametrize(("name", "kind"), CELLS)
def test_every_type_under_every_kind_of_edge_and_scheme(scheme: str, name: str, kind: str) -> None:
    random = Random(f"{scheme} {name} {kind}")
    type_, domain = DOMAINS[name]
    checks = kinds(name)[kind]
    spec = spec_of(scheme, checks, is_exact(type_))
    schema = {"id": pa.int64(), "a": type_, "b": type_, "h": pa.int64(), "route": pa.int64()}
    equal = [check.left for check in checks if isinstance(check, Compare) and check.op in ("=", "<=>")]
    strict = [one for one in checks if isinstance(one, Band) or (isinstance(one, Compare) and one.op != "<=>")]
    inputs = [hashed(rows_of(random, domain, 9, 100 * rank), equal) for rank in range(len(spec.streams))]
    wanted = nested_loop(spec, inputs)
    for rank, rows in enumerate(inputs):
        sides = {check.left for check in strict if rank < len(inputs) - 1}
        sides |= {check.right for check in strict if rank > 0}
        inputs[rank] = without_nulls(rows, sorted(sides))
    cuts = [cut(random, rows, 3) for rows in inputs] if random.random() < 0.7 else [[rows] for rows in inputs]
    assert run(spec, batches_of(schema, cuts))[0] == wanted


def test_the_cells_have_results() -> None:
    """A test of a join that finds nothing proves nothing: most cells have matches."""
    found = 0
    for name, kind in CELLS:
        random = Random(f"{name} {kind}")
        rows = [rows_of(random, DOMAINS[name][1], 9, 100 * rank) for rank in range(2)]
        spec = JoinSpec("j", streams(2, COLUMNS), (EdgeSpec(0, 1, kinds(name)[kind]),), "biclique", 1)
        found += bool(nested_loop(spec, rows))
    assert found > 0.8 * len(CELLS)
