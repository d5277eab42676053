"""What the operators must compute, in plain Python: Spark's comparisons, a nested loop, and a runner without Spark."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from random import Random
from typing import Any

import pyarrow as pa
from trijoin_sql.operators.checks import AnyOf, Band, Check, Compare, EdgeSpec
from trijoin_sql.operators.results.bundle import Bundle
from trijoin_sql.operators.results.local_views import Reducer
from trijoin_sql.operators.results.outcomes import Outcome, PartialBlock, Reduced, Result, listed
from trijoin_sql.operators.schemes.base import Slot, Work
from trijoin_sql.operators.spec import JoinSpec, StreamSpec
from trijoin_sql.operators.task.wire import (
    block_from_bytes,
    block_to_bytes,
    bundle_from_bytes,
    bundle_to_bytes,
)

from ..bench.local_join import LocalJoin
from ..bench.local_join import hand_on as handed_on

Row = Mapping[str, Any]
INT64 = -(1 << 63), (1 << 63) - 1

#: By name an Arrow type and values at which its order could go wrong.
DOMAINS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, -127, -1, 0, 1, 126, 127]),
    "int16": (pa.int16(), [-32768, -1, 0, 1, 32767]),
    "int32": (pa.int32(), [-(1 << 31), -(1 << 31) + 1, -1, 0, 1, (1 << 31) - 2, (1 << 31) - 1]),
    "int64": (pa.int64(), [INT64[0], INT64[0] + 1, -1, 0, 1, 1 << 53, (1 << 53) + 1, INT64[1] - 1, INT64[1]]),
    "float": (pa.float32(), [-math.inf, -1.5, -1e-45, -0.0, 0.0, 1e-45, 1.5, 3.4e38, math.inf, math.nan]),
    "double": (pa.float64(), [-math.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 0.1, 1.5, 1e308, math.inf, math.nan]),
    "short_decimal": (
        pa.decimal128(18, 2),
        [Decimal(text) for text in ("-9999999999999999.99", "-0.01", "0.00", "0.01", "1.00", "9999999999999999.99")],
    ),
    "wide_decimal": (
        pa.decimal128(38, 6),
        [
            Decimal(text)
            for text in (
                "-99999999999999999999999999999999.999999",
                "-18446744073709.551617",
                "-18446744073709.551616",
                "-0.000001",
                "0.000000",
                "0.000001",
                "9223372036854.775807",
                "9223372036854.775808",
                "18446744073709.551615",
                "18446744073709.551616",
                "99999999999999999999999999999999.999999",
            )
        ],
    ),
    "date": (pa.date32(), [-719162, -1, 0, 1, 19723, 2932896]),
    "timestamp": (pa.timestamp("us"), [INT64[0], -62135596800000000, -1, 0, 1, 253402300799999999, INT64[1]]),
    "interval": (pa.duration("us"), [INT64[0], -1, 0, 1, INT64[1]]),
    "boolean": (pa.bool_(), [False, True]),
    "string": (
        pa.string(),
        [
            "",
            "\0",
            "\0\0",
            "a",
            "a ",
            "a\0",
            "a\0b",
            "aaaaaaaa",
            "aaaaaaaaa",
            "aaaaaaaab",
            "B",
            "Ä",
            "\uffff",
            "😀",
            "z",
        ],
    ),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff", b"\xff" * 8, b"\xff" * 9, b"a" * 9]),
}

_COMPARE = {"=": eq, "<=>": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}

OPS = tuple(_COMPARE)


def order(value: Any) -> Any:
    """Return what Python compares as Spark compares the value."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def compare(op: str, left: Any, right: Any) -> bool:
    """Return whether Spark finds ``left op right`` to be TRUE."""
    if left is None or right is None:
        return op == "<=>" and left is None and right is None
    return bool(_COMPARE[op](order(left), order(right)))


def float32(number: float) -> float:
    """Round to the nearest float."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def holds(check: Check, left: Row, right: Row) -> bool:
    """Evaluate a check on two rows."""
    if isinstance(check, AnyOf):
        return any(matches(branch.checks, left, right) for branch in check.branches) != check.negated
    x, y = left[check.left], right[check.right]
    if isinstance(check, Compare):
        return compare(check.op, x, y)
    if x is None or y is None:
        return False
    difference = x - y
    if check.arithmetic == "float32":
        difference = float32(difference)
    if isinstance(difference, Decimal):  # a band has unscaled integers
        difference = int(difference.scaleb(-int(difference.as_tuple().exponent)))
    if isinstance(difference, float) and math.isnan(difference):
        return check.nan
    low = check.lower is None or compare(">" if check.lower_strict else ">=", difference, check.lower)
    return low and (check.upper is None or compare("<" if check.upper_strict else "<=", difference, check.upper))


def matches(checks: Iterable[Check], left: Row, right: Row) -> bool:
    """Evaluate a conjunction."""
    return all(holds(check, left, right) for check in checks)


def nested_loop(spec: JoinSpec, inputs: Sequence[Sequence[Row]]) -> Counter[tuple[Any, ...]]:
    """Join by brute force; a result is the tuple of its rows' ``id``."""
    joined: list[tuple[int, ...]] = [()]  # row numbers
    for rank, rows in enumerate(inputs):
        partners = [
            (
                edge.left,
                [{n for n, row in enumerate(rows) if matches(edge.checks, left, row)} for left in inputs[edge.left]],
            )
            for edge in spec.edges
            if edge.right == rank
        ]
        every = set(range(len(rows)))
        joined = [
            (*numbers, n)
            for numbers in joined
            for n in every.intersection(*(found[numbers[left]] for left, found in partners))
        ]
    return Counter(tuple(inputs[rank][number]["id"] for rank, number in enumerate(numbers)) for numbers in joined)


def streams(
    count: int,
    columns: Sequence[str],
    dimensions: Mapping[int, tuple[tuple[int, str], ...]] | None = None,
    group: str | None = None,
) -> tuple[StreamSpec, ...]:
    """Return stream specs ``s0``, ``s1`` ... with an ``id``, some columns, and a route."""
    known = dimensions or {}
    return tuple(
        StreamSpec(f"s{rank}", (("id", f"id{rank}"),), ("id", *columns), "route", known.get(rank, ()), group)
        for rank in range(count)
    )


def batch_of(rows: Sequence[Row], schema: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Return rows as Arrow."""
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(name) for row in rows], type_) for name, type_ in schema.items()], names=list(schema)
    )


def run(
    spec: JoinSpec,
    batches: Iterable[Mapping[int, Sequence[pa.RecordBatch]]],
    compact: bool = True,
    groups: list[pa.RecordBatch] | None = None,
) -> tuple[Counter[tuple[Any, ...]], list[list[Slot]]]:
    """Run micro-batches through the real router, slots and stages, as `operators.task.stage` does.

    Returns
    -------
    The results as tuples of ids, and the slots of every stage. Where the spec aggregates, ``groups`` gets its groups.
    """
    found: Counter[tuple[Any, ...]] = Counter()
    join = LocalJoin(spec, through=lambda items: leaving(spec, items), compact=compact)
    for batch in batches:
        _take(spec, join.batch(batch), found, groups)
    return found, join.stages


def hand_on(
    spec: JoinSpec,
    number: int,
    items: Iterator[Outcome],
    following: Sequence[Work],
    found: Counter[tuple[Any, ...]],
    groups: list[pa.RecordBatch] | None = None,
) -> None:
    """Put what a slot gives where it belongs: results, groups, the work of the next stage's slots."""
    _take(spec, handed_on(spec, number, leaving(spec, items), following), found, groups)


def _take(
    spec: JoinSpec,
    items: Iterator[Outcome],
    found: Counter[tuple[Any, ...]],
    groups: list[pa.RecordBatch] | None,
) -> None:
    for item in items:
        if isinstance(item, Reduced):
            assert groups is not None
            groups.append(item.rows)
        else:
            assert isinstance(item, Result)
            found.update(ids_of(spec, item))


def leaving(spec: JoinSpec, items: Iterator[Outcome]) -> Iterator[Outcome]:
    """Return what leaves a slot: groups where the spec aggregates, no bundles."""
    return unbundled(spec, items if spec.aggregate is None else Reducer(spec.aggregate).run(items))


def unbundled(spec: JoinSpec, items: Iterator[Outcome]) -> Iterator[Outcome]:
    """List the results that a first stage leaves packed, after a way through the shuffle."""
    columns = [stream.listed for stream in spec.streams]
    for item in items:
        if isinstance(item, PartialBlock):
            yield replace(block_from_bytes(block_to_bytes(item)), stays=item.stays)
            continue
        if not isinstance(item, Bundle):
            yield item
            continue
        for piece, small in item.sendable(columns, 4000):
            yield from listed(bundle_from_bytes(bundle_to_bytes(piece)) if small else piece, columns)


def ids_of(spec: JoinSpec, result: Result) -> Iterator[tuple[Any, ...]]:
    """Return results as tuples of ids."""
    return zip(*(result.parts[rank].column("id").to_pylist() for rank in range(len(spec.streams))), strict=True)


def cut(random: Random, rows: Sequence[Row], cuts: int) -> list[list[Row]]:
    """Cut rows into that many pieces, some of which may be empty."""
    places = sorted(random.randrange(len(rows) + 1) for _ in range(cuts - 1))
    return [list(rows[start:stop]) for start, stop in zip([0, *places], [*places, len(rows)], strict=True)]


__all__ = ["DOMAINS", "INT64", "OPS", "Band", "Compare", "EdgeSpec", "JoinSpec", "StreamSpec"]
