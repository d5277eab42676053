"""Turn WITHIN (BiStream's clause) into bands between the event times of the two sides of every join.

Example: ``FROM r JOIN s ON r.a = s.a WITHIN 10 MINUTES`` adds
``INTERVAL '-10' MINUTE <= r.ts - s.ts <= INTERVAL '10' MINUTE``. The distance is a length of time, not one on the
calendar: 1 DAY is 24 hours. Static relations are left out.

WITHIN bounds rows that are there. Where ``s`` may be padded, ``COALESCE(s.ts, r.ts)`` takes its place: that is the time
of a row of the same join that is there, and is bounded anyway. A row without an event time is near no other one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from ...errors import UnsupportedQueryError
from ..event_time.bounds import likely_time, watermark_clause
from ..plan.conjuncts import Band, Bounds, Term, interval_text
from ..plan.expr import UNKNOWN, Constant, between, cast, function, infix
from ..plan.nodes import Block, Join, Node, Scan, in_results, scans, transform
from ..predicates.terms import column_term
from ..sql.spark_types import TIMES
from .rule import NotApplicable, each_block, inputs_of_inner


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
        relations = scans(block.input)
        streams = [scan.alias for scan in relations if scan.streaming is not False]
        timed = frozenset(streams or (scan.alias for scan in relations))

        def bound(node: Node) -> Node:
            if not isinstance(node, Join):
                return node
            left, right = (list(_times(side, timed)) for side in node.inputs)
            bands = [
                dataclasses.replace(_band(one, other, length), places=block.within_places)
                for one, other in product(left, right)
            ]
            if not bands:
                return node
            kind = "inner" if node.kind == "cross" else node.kind
            return dataclasses.replace(node, kind=kind, predicates=(*node.predicates, *bands))

        return dataclasses.replace(block, input=transform(block.input, bound, own=True))

    return each_block(plan, change, "there is no WITHIN")


def _times(side: Node, timed: frozenset[str]) -> Iterator[tuple[str, Term]]:
    """Yield each relation of one side of a join whose rows WITHIN bounds, and the time that stands for its rows."""
    for below in inputs_of_inner(side):
        found = [(scan, padded) for scan, padded in in_results(below) if scan.alias in timed]
        there = next((at for at, (_, padded) in enumerate(found) if not padded), len(found))
        for scan, padded in found:
            # of the others, as many as it takes until one is there for certain
            others = [one for one, _ in found[: there + 1] if one is not scan] if padded else []
            yield scan.alias, _first_of([_time(one) for one in (scan, *others)])


def _first_of(times: list[Term]) -> Term:
    """Return the first of some times that is not NULL, as a term of the first one's relation."""
    first, *others = times
    if not others:
        return first
    return Term(function("COALESCE", *(time.expr for time in times), type_=first.type), first.relations)


def _time(scan: Scan) -> Term:
    """Return the event time of a relation."""
    name = likely_time(scan)
    if name is None and scan.streaming is False:
        raise UnsupportedQueryError(
            f"WITHIN bounds event times, and {scan.alias} is a table without a column of times",
            "leave WITHIN out",
            subject="WITHIN",
        )
    if name is None:
        timeless = scan.columns and all(one.type not in (UNKNOWN, *TIMES) for one in scan.columns)
        hint = f"declare it: {watermark_clause(scan)}"
        if scan.relation.startswith("(") or scan.ctes:
            hint = f"put it into the SELECT of {scan.alias}"
        elif timeless:
            hint = f"{scan.alias} has no column of times: give it one, with a watermark"
        raise UnsupportedQueryError(
            f"WITHIN needs the event time of {scan.alias}",
            hint,
            subject="WITHIN",
            unknown=scan.alias,
        )
    column = next((column for column in scan.columns if column.name.lower() == name.lower()), None)
    if column is not None and column.type.startswith("struct"):
        raise UnsupportedQueryError(
            f"WITHIN needs the event time of {scan.alias}, and {scan.alias}.{name} is a window of it",
            f"select the time beside it, or window_time({name})",
            subject="WITHIN",
        )
    return column_term((scan.alias, column.name if column else name), column.type if column else UNKNOWN)


def _band(left: tuple[str, Term], right: tuple[str, Term], length: int) -> Band:
    (name, one), (other_name, other) = left, right
    if one.type != other.type and UNKNOWN not in (one.type, other.type):
        raise UnsupportedQueryError(
            f"WITHIN compares {name}'s event time, a {one.type}, with {other_name}'s, a {other.type}",
            "cast one of them in a derived table",
            subject="WITHIN",
        )
    first, second = (function("unix_micros", cast(time.expr, "timestamp"), type_="bigint") for time in (one, other))
    ends = (Constant(str(end), Fraction(end), "bigint") for end in (-length, length))
    condition = between(infix("-", first, second, "bigint"), *ends)
    return Band(
        f"WITHIN {interval_text(length).removeprefix('INTERVAL ')}",
        Term(condition, one.relations + other.relations),
        one,
        other,
        Bounds("timestamp", -length, length, lower_inclusive=True, upper_inclusive=True),
        derived=True,
    )
