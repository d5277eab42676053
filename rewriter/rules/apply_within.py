"""Turn WITHIN (BiStream's clause) into a band between the event times of every pair of relations.

Example: ``FROM r JOIN s ON r.a = s.a WITHIN 10 MINUTES`` adds
``INTERVAL '-10' MINUTE <= r.ts - s.ts <= INTERVAL '10' MINUTE``. The distance is a length of time, not one on the
calendar: 1 DAY is 24 hours. Static relations are left out.
"""

from __future__ import annotations

import dataclasses
from itertools import combinations

from ...errors import UnsupportedQueryError
from ..plan.conjuncts import Bounds, interval_text
from ..plan.nodes import Block, Join, Node, Predicate, Scan, scans, walk
from ..sql.dialect import quote
from ..sql.spark_types import TIMES
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


def _band(left: Scan, right: Scan, length: int) -> Predicate:
    columns = []
    kinds = []
    for scan in (left, right):
        name = event_time(scan)
        if name is None:
            raise UnsupportedQueryError(
                f"WITHIN needs the event time of {scan.alias}",
                f"declare it: {scan.alias} WATERMARK column DELAY OF INTERVAL 10 SECONDS",
            )
        known = {column.name.lower(): column for column in scan.columns}
        column = known.get(name.lower())
        columns.append(f"{quote(scan.alias)}.{quote(column.name if column else name)}")
        kinds.append(column.type if column else "unknown")
    if kinds[0] != kinds[1] and "unknown" not in kinds:
        raise UnsupportedQueryError(
            f"WITHIN compares {left.alias}'s event time, a {kinds[0]}, with {right.alias}'s, a {kinds[1]}",
            "cast one of them in a derived table",
        )
    difference = " - ".join(f"unix_micros(CAST({column} AS TIMESTAMP))" for column in columns)
    return Predicate(
        f"WITHIN {interval_text(length).removeprefix('INTERVAL ')}",
        "band",
        (left.alias, right.alias),
        "band",
        columns[0],
        columns[1],
        Bounds("timestamp", -length, length, lower_inclusive=True, upper_inclusive=True),
        rendered=f"{difference} BETWEEN {-length} AND {length}",
        derived=True,
    )
