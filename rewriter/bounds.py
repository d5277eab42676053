"""Event-time bounds: how long must the rows of each stream be kept?

Predicates between event times are difference constraints ``t(right) - t(left) <= d``. Closed over the join graph by
shortest paths they bound every pair, also pairs that no predicate connects. A row of stream ``i`` can meet a later row
of ``j`` only while ``t(j) <= t(i) + d(i, j)``; so it is kept until the watermark passes the largest of these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from sqlglot import exp

from .dialect import interval_microseconds, parse_expression
from .plan import Join, JoinNode, Node, Predicate, Retention, Scan, TimeBound, scans, transform, walk
from .rules.rule import NotApplicable
from .settings import DEFAULTS, Settings

#: Shifts from this length on are on the calendar: a day is not always 24 hours.
DAY = 86_400_000_000


@dataclasses.dataclass(frozen=True)
class Constraint:
    """``t(later) - t(earlier) <= most``, in microseconds."""

    earlier: str
    later: str
    most: int


def bound_event_time(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Give every join node its closed time bounds and its streams' retention.

    Days on the calendar and differences on the wall clock are as much from elapsed time as the offset of the session's
    time zone changes; the bounds allow for it (`Settings.zone_shift`).
    """

    def visit(node: Node) -> Node:
        return _bounded(node, settings.zone_shift) if isinstance(node, JoinNode) else node

    changed = transform(plan, visit)
    return NotApplicable("no join node has a bound in event time") if changed == plan else changed


def input_scan(source: Node) -> Scan:
    """Return the scan that stands for an input of a join node.

    Its event time counts only if that of no other stream does: what comes out of a join of streams may be older than
    the watermark, such as the rows of an outer join that nothing was found for, and must be neither late nor expected
    to meet what is still kept.
    """
    first, *others = scans(source)
    alone = all(scan.streaming is False for scan in others)
    optional = any(isinstance(below, Join) and below.kind in ("right", "full") for below in walk(source))
    event_time = first.event_time if alone and not optional else None
    streaming = first.streaming if alone else any(scan.streaming for scan in (first, *others)) or None
    if (event_time, streaming) == (first.event_time, first.streaming):
        return first
    return dataclasses.replace(first, event_time=event_time, streaming=streaming)


def _bounded(node: JoinNode, slack: int) -> JoinNode:
    below = [input_scan(source) for source in node.sources]
    predicates = [p for edge in node.graph.edges for p in edge.predicates]
    closed = close(node.graph.relations, constraints(predicates, below, slack))
    bounds = []
    for index, left in enumerate(node.graph.relations):
        for right in node.graph.relations[index + 1 :]:
            upper, reverse = closed.get((left, right)), closed.get((right, left))
            lower = None if reverse is None else -reverse
            if upper is not None or lower is not None:
                bounds.append(TimeBound(left, right, lower, upper))
    graph = dataclasses.replace(node.graph, time_bounds=tuple(bounds))
    return dataclasses.replace(node, graph=graph, retention=retentions(below, closed))


def constraints(predicates: Iterable[Predicate], below: Iterable[Scan], zone_shift: int) -> list[Constraint]:
    """Read the difference constraints off the kernel predicates that compare event times."""
    times = {scan.alias: scan.event_time.lower() for scan in below if scan.event_time is not None}
    found = []
    for predicate in predicates:
        if predicate.left is None or predicate.right is None:
            continue
        one, other = (_event_time(side, times, zone_shift) for side in (predicate.left, predicate.right))
        if one is None or other is None:
            continue
        (left, left_shift, left_slack), (right, right_shift, right_slack) = one, other
        slack, shift = max(left_slack, right_slack), right_shift - left_shift
        low, high = _range(predicate)
        if high is not None:  # t(left) - t(right) <= high + shift
            found.append(Constraint(right, left, high + shift + slack))
        if low is not None:
            found.append(Constraint(left, right, -(low + shift) + slack))
    return found


def _range(predicate: Predicate) -> tuple[int | None, int | None]:
    match predicate.op:
        case "band":
            return _micros(predicate.lower), _micros(predicate.upper)
        case "=":
            return 0, 0
        case "<" | "<=":
            return None, 0
        case ">" | ">=":
            return 0, None
    return None, None


def _micros(text: str | None) -> int | None:
    return None if text is None else interval_microseconds(parse_expression(text))


def _event_time(text: str, times: dict[str, str], zone_shift: int) -> tuple[str, int, int] | None:
    """Read ``alias.time``, shifted by a constant or cast, as ``(alias, shift, slack)``."""
    tree = parse_expression(text)
    shift = slack = 0
    while True:
        if isinstance(tree, exp.Paren):
            tree = tree.this
        elif isinstance(tree, exp.Add | exp.Sub):
            length = interval_microseconds(tree.expression)
            if length is None:
                return None
            shift += length if isinstance(tree, exp.Add) else -length
            slack = zone_shift if abs(length) >= DAY else slack
            tree = tree.this
        elif isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Column):
            slack, tree = zone_shift, tree.this
        else:
            break
    if isinstance(tree, exp.Column) and times.get(tree.table) == tree.name.lower():
        return tree.table, shift, slack
    return None


def close(relations: Iterable[str], given: Iterable[Constraint]) -> dict[tuple[str, str], int]:
    """Close difference constraints: the shortest path from each relation to each other (Floyd and Warshall).

    Examples
    --------
    >>> close(["r", "s", "t"], [Constraint("r", "s", 5), Constraint("s", "t", 3)])[("r", "t")]
    8
    """
    names = tuple(relations)
    best: dict[tuple[str, str], int] = {}
    for constraint in given:
        pair = (constraint.earlier, constraint.later)
        best[pair] = min(constraint.most, best.get(pair, constraint.most))
    for middle in names:
        for one in names:
            first = best.get((one, middle))
            if first is None:
                continue
            for other in names:
                second = best.get((middle, other))
                if second is not None and other != one:
                    best[one, other] = min(first + second, best.get((one, other), first + second))
    return best


def retentions(below: Iterable[Scan], closed: dict[tuple[str, str], int]) -> tuple[Retention, ...]:
    """Say for each stream how long its rows are kept, and what would bound it."""
    all_scans = tuple(below)
    found = []
    for scan in all_scans:
        if scan.streaming is False:
            continue
        reach = [closed.get((scan.alias, other.alias)) for other in all_scans if other is not scan]
        known = [length for length in reach if length is not None]
        if len(known) == len(reach):
            found.append(Retention(scan.alias, max(0, *known) if known else 0))
        else:
            found.append(Retention(scan.alias, None, _advice(scan, all_scans, closed)))
    return tuple(found)


def _advice(scan: Scan, below: tuple[Scan, ...], closed: dict[tuple[str, str], int]) -> str:
    kept = f"{scan.alias} is kept for ever (UNBOUNDED)"
    for other in (scan, *below):
        if other.event_time is None:
            return (
                f"{kept}: {other.alias} has no event time; give it one with "
                f"{other.alias} WATERMARK column DELAY OF INTERVAL 10 SECONDS, and bound the join with WITHIN 10 "
                f"MINUTES"
            )
    missing = next(o for o in below if o is not scan and (scan.alias, o.alias) not in closed)
    return (
        f"{kept}: nothing says how much later {missing.alias} may be; add a condition such as "
        f"{missing.alias}.{missing.event_time} <= {scan.alias}.{scan.event_time} + INTERVAL 10 MINUTES, "
        f"or WITHIN 10 MINUTES after WHERE"
    )
