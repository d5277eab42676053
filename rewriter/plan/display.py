"""A plan as text: one node a line, one detail a line, two spaces a level, the same text every time."""

from __future__ import annotations

import textwrap

from .conjuncts import Predicate
from .nodes import (
    Block,
    Exchange,
    Filter,
    Join,
    JoinGroup,
    JoinNode,
    LeftAlone,
    Node,
    Project,
    Query,
    Scan,
    StaticJoin,
    Where,
)
from .parts import Aggregation

WIDTH = 100


def plan_text(plan: Node) -> str:
    """Return a plan as an indented tree; lines are not broken."""
    return "\n".join(_lines(plan, 0, set()))


def folded(text: str) -> str:
    """Return a plan's text in at most 100 columns; longer lines continue four spaces further in."""
    return "\n".join(part for line in text.splitlines() for part in _folded(line))


def _lines(node: Node, depth: int, seen: set[int]) -> list[str]:
    title, details = _describe(node)
    if isinstance(node, JoinNode | Block):
        if id(node) in seen:
            return [_indented(f"{title} (see above)", depth)]
        seen.add(id(node))
    lines = [_indented(title, depth), *(_indented(detail, depth + 2) for detail in details)]
    for below in node.inputs:
        lines += _lines(below, depth + 1, seen)
    return lines


def _indented(text: str, depth: int) -> str:
    return "  " * depth + " ".join(text.splitlines())


def _folded(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    return textwrap.wrap(
        line.strip(),
        width=max(WIDTH, len(indent) + 40),
        initial_indent=indent,
        subsequent_indent=indent + "    ",
        break_long_words=True,
        break_on_hyphens=False,
    ) or [indent]


def _describe(node: Node) -> tuple[str, list[str]]:
    match node:
        case Query():
            return "Query", [node.sql]
        case Block():
            reason = f": left alone, {node.problem}" if node.problem else ""
            return f"Select {node.number + 1}{reason}", []
        case Where():
            return "Where", [p.condition.sql for p in node.predicates]
        case Join():
            owner = " (Spark's)" if node.by_spark else ""
            return f"Join {node.kind}{owner}", [predicate_text(p) for p in node.predicates]
        case JoinGroup():
            kinds = " of several kinds" if node.mixed else ""
            return f"JoinGroup of {node.members} member{'s' if node.members != 1 else ''}{kinds}", []
        case LeftAlone():
            return f"LeftAlone: {node.decision.reason}", []
        case JoinNode():
            return _join_node(node)
        case Exchange():
            return f"Exchange hash({', '.join(node.keys)})" if node.keys else "Exchange broadcast", []
        case Filter():
            return "Filter", [condition.sql for condition in node.conditions]
        case Project():
            return f"Project {', '.join(f'{sql} AS {name}' for name, sql in node.items)}", []
        case StaticJoin():
            return "StaticJoin", [p.condition.sql for p in node.predicates]
        case Scan():
            return _scan(node)
    return type(node).__name__, []


def _join_node(node: JoinNode) -> tuple[str, list[str]]:
    graph, decision = node.graph, node.decision
    scheme = f" {decision.scheme}" if decision.scheme else ""
    scheme += f", {decision.units} units;" if decision.units else ";" if scheme else ""
    hub = f" with hub {graph.hub}" if graph.hub else ""
    join = "" if node.join == "inner" else f" {node.join}"
    title = f"{type(node).__name__}{join} {node.name}:{scheme} {graph.shape}{hub} of {', '.join(graph.relations)}"
    details = [predicate_text(p) for edge in graph.edges for p in edge.predicates]
    details += [f"matching only where: {one.sql}" for one in node.matching]
    details += [f"closest: {node.closest.sql}"] if node.closest is not None else []
    details += [one.sql for one in node.branches]
    details += [f"a node of its own: {node.apart}"] if node.apart else []
    details += [f"residual: {p.sql}" for p in graph.residuals]
    details += [f"time: {_bound(b.lower)} <= {b.right} - {b.left} <= {_bound(b.upper)}" for b in graph.time_bounds]
    for retention in node.retention:
        kept = duration_text(retention.keep_for) if retention.keep_for is not None else "for ever (UNBOUNDED)"
        if retention.latest is not None:
            kept += f", then the latest row of each ({', '.join(retention.latest)})"
        details.append(f"keep {retention.alias}: {kept}")
    if node.event_times:
        held_back = f"; watermarks held back by {duration_text(node.held_back)}" if node.held_back else ""
        details.append(f"event time of results: {', '.join(node.event_times)}{held_back}")
    if node.aggregation is not None:
        details.append(f"aggregated inside the units: {aggregation_text(node.aggregation)}")
        names = [one.name for one in node.aggregation.columns]
    else:
        names = [column.name for column in node.output]
    if node.not_aggregated is not None:
        details.append(f"not aggregated inside the units: {node.not_aggregated}")
    details.append(f"output: {', '.join(names)}")
    return title, details


def aggregation_text(aggregation: Aggregation) -> str:
    """Return an aggregation for people: ``COUNT(*), SUM(r.x) by (s.k); from packs``."""
    keys = f" by ({', '.join(key.term.sql for key in aggregation.keys)})" if aggregation.keys else ""
    packs = "; from packs" if aggregation.from_packs else ""
    listed = f", those of {' and '.join(aggregation.listed)} listed" if aggregation.listed else ""
    return f"{', '.join(aggregation.shown)}{keys}{packs}{listed}".strip()


def _bound(micros: int | None) -> str:
    return "unbounded" if micros is None else duration_text(micros)


def predicate_text(predicate: Predicate) -> str:
    """Return a predicate for people: its kind and how it is evaluated."""
    return f"{predicate.kind}{' (derived)' if predicate.derived else ''}: {predicate.shown}"


def _scan(node: Scan) -> tuple[str, list[str]]:
    kind = {True: "stream", False: "table", None: "relation"}[node.streaming]
    columns = f" [{', '.join(column.name for column in node.columns)}]" if node.columns else ""
    rows = ""
    if node.rows is not None:
        rows = f", {node.rows:g} rows{'/s' if node.streaming else ''} {node.rows_from}"
    time = f", event time {node.event_time}" if node.event_time else ""
    ctes = f", with {', '.join(name for name, _ in node.ctes)}" if node.ctes else ""
    return f"Scan {node.alias} ({kind} {node.relation}{time}{rows}{ctes}){columns}", []


def duration_text(micros: int) -> str:
    """Return a length of time such as ``-1 minute 30 seconds``.

    Examples
    --------
    >>> duration_text(90_000_000)
    '1 minute 30 seconds'
    >>> duration_text(1_500_000), duration_text(1_500_001)
    ('1 second 500 milliseconds', '1 second 500001 microseconds')
    """
    sign, rest = ("-" if micros < 0 else ""), abs(micros)
    parts = []
    for name, size in (("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {name}{'s' if count != 1 else ''}")
    if rest:
        parts.append(f"{rest} microseconds" if rest % 1000 else f"{rest // 1000} milliseconds")
    return sign + (" ".join(parts) or "0 seconds")
