"""Turn WITHIN (BiStream's clause) into a band between the event times of every pair of relations.

Example: ``FROM r JOIN s ON r.a = s.a WITHIN 10 MINUTES`` adds
``INTERVAL '-10' MINUTE <= r.ts - s.ts <= INTERVAL '10' MINUTE``. The distance is a length of time, not one on the
calendar: 1 DAY is 24 hours. Static relations are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import combinations, product

from ...errors import UnsupportedQueryError
from ..event_time.bounds import likely_time, watermark_clause
from ..plan.conjuncts import Band, Bounds, Term, interval_text
from ..plan.nodes import Block, Join, Node, Scan, scans, transform
from ..predicates.terms import column_term
from ..sql.spark_types import UNKNOWN
from .push_down_conditions import place
from .rule import NotApplicable, each_block, regions


def apply_within(plan: Node) -> Node | NotApplicable:
    """Add the bands that WITHIN stands for.

    Raises
    ------
    UnsupportedQueryError
        A relation has no event time.
    """

    def change(block: Block) -> Block:
        if block.within is None:
            return block
        length = block.within

        def add(region: Node) -> Node:
            for left, right in combinations(
                _streams(scan for side in _inner_inputs(region) for scan in scans(side)), 2
            ):
                placed = place(region, band(left, right))
                region = placed or region
            return region

        def band(left: Scan, right: Scan) -> Band:
            return dataclasses.replace(_band(left, right, length), places=block.within_places)

        def bound(node: Node) -> Node:
            if not isinstance(node, Join) or node.kind in ("inner", "cross"):
                return node
            static = [all(scan.streaming is False for scan in scans(side)) for side in node.inputs]
            if static[0] != static[1]:
                return node
            bands = (band(left, right) for left, right in product(*map(_streams, map(scans, node.inputs))))
            return dataclasses.replace(node, predicates=(*node.predicates, *bands))

        return dataclasses.replace(block, input=transform(regions(block.input, add), bound, own=True))

    return each_block(plan, change, "there is no WITHIN")


def _streams(below: Iterable[Scan]) -> list[Scan]:
    """Return the relations that may be streams, or all if none is."""
    found = list(below)
    return [scan for scan in found if scan.streaming is not False] or found


def _inner_inputs(node: Node) -> Iterator[Node]:
    """Yield the inputs of a tree of inner joins, without those below other joins."""
    match node:
        case Join(kind="inner" | "cross"):
            yield from _inner_inputs(node.left)
            yield from _inner_inputs(node.right)
        case Scan():
            yield node
        case Join():
            return
        case _:
            for below in node.inputs:
                yield from _inner_inputs(below)


def _band(left: Scan, right: Scan, length: int) -> Band:
    times = []
    for scan in (left, right):
        name = likely_time(scan)
        if name is None:
            raise UnsupportedQueryError(
                f"WITHIN needs the event time of {scan.alias}",
                f"declare it: {watermark_clause(scan)}",
            )
        known = {column.name.lower(): column for column in scan.columns}
        column = known.get(name.lower())
        times.append(column_term((scan.alias, column.name if column else name), column.type if column else UNKNOWN))
    one, other = times
    if one.type != other.type and UNKNOWN not in (one.type, other.type):
        raise UnsupportedQueryError(
            f"WITHIN compares {left.alias}'s event time, a {one.type}, with {right.alias}'s, a {other.type}",
            "cast one of them in a derived table",
        )
    difference = " - ".join(f"unix_micros(CAST({time.sql} AS TIMESTAMP))" for time in times)
    text = f"{difference} BETWEEN {-length} AND {length}"
    return Band(
        f"WITHIN {interval_text(length).removeprefix('INTERVAL ')}",
        Term(text, one.columns + other.columns, one.relations + other.relations, "boolean"),
        one,
        other,
        Bounds("timestamp", -length, length, lower_inclusive=True, upper_inclusive=True),
        derived=True,
    )
