"""Turn WITHIN (BiStream's clause) into a band between the event times of every pair of relations.

Example: ``FROM r JOIN s ON r.a = s.a WITHIN 10 MINUTES`` adds
``INTERVAL '-10' MINUTE <= r.ts - s.ts <= INTERVAL '10' MINUTE``. The distance is a length of time, not one on the
calendar: 1 DAY is 24 hours. Static relations are left out.
"""

from __future__ import annotations

import dataclasses
from itertools import combinations

from ...errors import UnsupportedQueryError
from ..plan.conjuncts import Band, Bounds, Term, interval_text
from ..plan.nodes import Block, Join, Node, Scan, scans, walk
from ..predicates.terms import column_term
from ..sql.spark_types import TIMES, UNKNOWN
from .push_down_conditions import place
from .rule import NotApplicable, each_block, regions


def apply_within(plan: Node) -> Node | NotApplicable:
    """Add the bands that WITHIN stands for.

    Raises
    ------
    UnsupportedQueryError
        A relation has no event time, or a join is not an inner one.
    """

    def change(block: Block) -> Block:
        if block.within is None:
            return block
        length = block.within
        covered: list[str] = []

        def add(region: Node) -> Node:
            below = scans(region)
            outer = any(isinstance(one, Join) and one.kind not in ("inner", "cross") for one in walk(region))
            covered.extend(scan.alias for scan in below if not outer)
            streams = [scan for scan in below if scan.streaming is not False]
            for left, right in combinations(streams or below, 2):
                placed = place(region, dataclasses.replace(_band(left, right, length), places=block.within_places))
                region = placed or region
            return region

        changed = regions(block.input, add)
        if len(covered) != len(scans(block.input)):
            raise UnsupportedQueryError(
                "WITHIN bounds inner joins, and there is an outer, semi or anti join",
                "bound it in ON instead, beside an equality: AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 10 MINUTES",
            )
        return dataclasses.replace(block, input=changed)

    return each_block(plan, change, "there is no WITHIN")


def event_time(scan: Scan) -> str | None:
    """Return the column with a relation's event time: the column of the watermark, or else its only timestamp."""
    if scan.event_time is not None:
        return scan.event_time
    times = [column.name for column in scan.columns if column.type in TIMES]
    return times[0] if len(times) == 1 else None


def _band(left: Scan, right: Scan, length: int) -> Band:
    times = []
    for scan in (left, right):
        name = event_time(scan)
        if name is None:
            raise UnsupportedQueryError(
                f"WITHIN needs the event time of {scan.alias}",
                f"declare it: {scan.alias} WATERMARK column DELAY OF INTERVAL 10 SECONDS",
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
