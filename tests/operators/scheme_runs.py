"""Random rows, the edges of joins, and every way to cut the rows into micro-batches, for the tests of schemes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
from trijoin_sql.operators.checks import AnyOf, Band, Branch, Check, Compare, EdgeSpec
from trijoin_sql.operators.spec import JoinSpec

from .reference import Row, batch_of, cut, nested_loop, run

SCHEMA: Mapping[str, pa.DataType] = {
    "id": pa.int64(),
    "a": pa.int32(),
    "b": pa.int64(),
    "f": pa.float64(),
    "t": pa.string(),
    "h": pa.int64(),
    "n": pa.int32(),
    "route": pa.int64(),
}
COLUMNS = ("a", "b", "f", "t", "h", "n")
EDGES: dict[str, tuple[Check, ...]] = {
    "nothing": (),
    "equality": (Compare("=", "a", "a"),),
    "band": (Band("a", "a", -1, 1),),
    "one-sided": (Compare("<", "b", "a"),),
    "two-sided": (Compare(">=", "a", "a"), Compare("<", "a", "b")),
    "not equal": (Compare("<>", "a", "a"),),
    "null-safe": (Compare("<=>", "b", "b"),),
    "equality and band": (Compare("=", "a", "a"), Band("b", "b", -2, 3)),
    "floats": (Compare("<=", "f", "f"), Compare("<>", "b", "b")),
    "plane": (Band("a", "a", -1, 1), Band("b", "b", 0, 2)),
    "plane of floats": (
        Compare("<>", "a", "a"),
        Band("f", "f", -0.5, 1.75, arithmetic="float64"),
        Band("b", "b", -1, 1),
    ),
    "either": (AnyOf((Branch((Compare("=", "a", "a"),)), Branch((Band("b", "b", -1, 1),)))),),
    "either of NULLs": (
        AnyOf(
            (
                Branch((Compare("=", "n", "n"), Compare("<", "b", "b"))),
                Branch((Compare("=", "t", "t", exact=False), Compare("<", "n", "n")), "h", "h"),
                Branch((Compare(">=", "n", "b"), Compare("<", "n", "a"))),
            )
        ),
    ),
    "either, one without an index": (AnyOf((Branch((Compare("=", "a", "n"),)), Branch((Compare("<>", "b", "b"),)))),),
    "either beside others": (
        Compare("<>", "b", "b"),
        AnyOf((Branch((Band("n", "n", 0, 1),)), Branch((Compare("=", "a", "a"),)))),
        Compare("<=", "a", "b"),
    ),
    "either beside an equality": (Compare("=", "a", "a"), AnyOf((Branch((Compare("=", "n", "n"),)), Branch(())))),
    "band with exceptions": (
        Compare("=", "a", "a"),
        AnyOf(
            (
                Branch((Band("f", "f", -0.5, 1.75, arithmetic="float64"),)),
                Branch((Compare("=", "n", "b"),)),
                Branch((Compare("=", "b", "n"),)),
            ),
            exceptions=True,
        ),
    ),
    "strings": (Compare(">", "t", "t", exact=False), Band("a", "b", None, 2)),
}


def edge(left: int, right: int, kind: str) -> EdgeSpec:
    if kind == "hashed strings":
        return EdgeSpec(left, right, (Compare("=", "t", "t", exact=False),), "h", "h")
    return EdgeSpec(left, right, EDGES[kind])


KINDS = [*EDGES, "hashed strings"]


def rows_of(random: Random, count: int, start: int) -> list[Row]:
    """Few different values, so that there are many matches; every third row is there twice."""
    rows: list[dict[str, Any]] = []
    for at in range(count):
        if at % 3 == 2:
            rows.append({**rows[-1], "id": start + at})
            continue
        text = random.choice(["aaaaaaaab", "aaaaaaaac", "", "z"])
        rows.append(
            {
                "id": start + at,
                "a": random.randrange(6),
                "b": random.randrange(6),
                "f": random.choice([float("nan"), -0.0, 0.0, 1.5, float("-inf")]),
                "t": text,
                "h": len(text) % 3,
                "n": random.choice([None, None, *range(5)]),
                "route": random.getrandbits(63) - (1 << 62),
            }
        )
    return rows


def batches_of(cuts: Sequence[Sequence[Sequence[Row]]], pieces: int = 1) -> list[dict[int, list[pa.RecordBatch]]]:
    """Turn each stream's pieces into micro-batches; each piece into several Arrow batches."""
    batches = []
    for number in range(max(len(one) for one in cuts)):
        batch: dict[int, list[pa.RecordBatch]] = {}
        for rank, one in enumerate(cuts):
            if number < len(one) and one[number]:
                rows = batch_of(one[number], SCHEMA)
                step = -(-rows.num_rows // pieces)
                batch[rank] = [rows.slice(start, step) for start in range(0, rows.num_rows, step)]
        batches.append(batch)
    return batches


def chain(hub: int, kinds: Sequence[str]) -> tuple[EdgeSpec, ...]:
    ends = [rank for rank in range(3) if rank != hub]
    return tuple(edge(*sorted((hub, end)), kind) for end, kind in zip(ends, kinds, strict=True))


def cycle(kinds: Sequence[str]) -> tuple[EdgeSpec, ...]:
    return tuple(edge(left, right, kind) for (left, right), kind in zip(((0, 1), (1, 2), (0, 2)), kinds, strict=True))


def assert_exact(spec: JoinSpec, random: Random, count: int = 15) -> int:
    """Run one random input under every way to cut it into micro-batches; return the number of results."""
    inputs = [rows_of(random, count, 1000 * rank) for rank in range(len(spec.streams))]
    wanted = nested_loop(spec, inputs)
    ways = [
        [[rows] for rows in inputs],
        [cut(random, rows, 4) for rows in inputs],
        [[[]] * random.randrange(4) + cut(random, rows, 3) for rows in inputs],
    ]
    if spec.units in (1, 3):  # one row a micro-batch, and some streams later than others
        few = [rows[:8] for rows in inputs]
        single = [[[]] * random.randrange(9) + [[row] for row in rows] for rows in few]
        assert run(spec, batches_of(single))[0] == nested_loop(spec, few)
    for number, cuts in enumerate(ways):
        found, _ = run(spec, batches_of(cuts, pieces=1 + number % 2), compact=number != 1)
        assert found == wanted, (spec.scheme, spec.units, spec.hub, number)
    return sum(wanted.values())
