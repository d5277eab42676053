"""Turn a group that was decided to run as an operator tree into a tree of join nodes (002 section 4).

The inner node is materialising: it joins some of the relations and its result is stored as an input of the root, which
is not. Which relations are inner was decided by cost (002's equation 1).

Example: ``MultiJoin(r, s, t, u)`` with the inner relations ``r, s`` becomes ``TriJoin(BiJoin(r, s), t, u)``.
"""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from ..cost import decide
from ..dialect import identifier, quote
from ..join_graph import build_graph
from ..plan import (
    BiJoin,
    Column,
    Decision,
    Hints,
    JoinGraph,
    JoinNode,
    MultiJoin,
    Node,
    OutputColumn,
    Predicate,
    Retention,
    Scan,
    TimeBound,
    TriJoin,
    source_scan,
    transform,
)
from ..predicates import columns_of, flipped, remap
from ..settings import DEFAULTS
from .rule import NotApplicable

#: The column with the event time of a stored result.
EVENT_TIME = "__event_time"


def grow_operator_trees(plan: Node) -> Node | NotApplicable:
    """Split every join node whose scheme is ``operator_tree``."""

    def visit(node: Node) -> Node:
        if isinstance(node, JoinNode) and node.decision.scheme == "operator_tree":
            return _split(node)
        return node

    changed = transform(plan, visit)
    return NotApplicable("no group runs as an operator tree") if changed is plan else changed


def _split(node: JoinNode) -> JoinNode:
    inside = [int(number) for number in dict(node.decision.options)["inner"].split(",")]
    names = node.graph.relations
    members = tuple(names[number] for number in inside)
    predicates = [predicate for edge in node.graph.edges for predicate in edge.predicates]
    within = [p for p in predicates if set(p.relations) <= set(members)]
    across = [p for p in predicates if not set(p.relations) <= set(members)]
    inner = _inner(node, members, within, across)
    alias = _fresh("_".join(members), names)
    columns = {(column.relation, column.column): column.name for column in inner.output}

    def moved(one: str, name: str) -> exp.Expr | None:
        if one not in members:
            return None
        return exp.column(identifier(columns[one, name]), identifier(alias))

    rank = {name: index for index, name in enumerate(names)}
    order = [alias if name == members[0] else name for name in names if name == members[0] or name not in members]
    root_predicates = []
    for predicate in across:
        assert predicate.left is not None
        assert predicate.right is not None
        changed = dataclasses.replace(
            predicate,
            relations=tuple(alias if one in members else one for one in predicate.relations),
            left=remap(predicate.left, moved),
            right=remap(predicate.right, moved),
            guards=tuple((alias if one in members else one, remap(sql, moved)) for one, sql in predicate.guards),
        )
        in_order = order.index(changed.relations[0]) < order.index(changed.relations[1])
        root_predicates.append(changed if in_order else flipped(changed))
    output = tuple(
        dataclasses.replace(column, relation=alias, column=columns[column.relation, column.column])
        if column.relation in members
        else column
        for column in node.output
    )
    graph = build_graph(order, [*root_predicates, *node.graph.residuals])
    below = _scan_of(inner, alias, columns)
    bounds = [b for b in node.graph.time_bounds if not {b.left, b.right} & set(members)]
    if below.event_time is not None:
        bounds += _stored_bounds(alias, members, order, node.graph.time_bounds)
    graph = dataclasses.replace(graph, time_bounds=tuple(bounds))
    sources = tuple(below if name == alias else node.sources[rank[name]] for name in order)
    kept = {retention.alias: retention for retention in node.retention}
    stored = _retention(alias, graph.time_bounds, order)
    retention = tuple(stored if name == alias else kept[name] for name in order if name == alias or name in kept)
    return _decided(node.name, sources, graph, output, retention, node.decision.units)


def _inner(node: JoinNode, members: tuple[str, ...], within: list[Predicate], across: list[Predicate]) -> JoinNode:
    needed = {(c.relation, c.column): (c.name, c.type) for c in node.output if c.relation in members}
    taken = {column.name.lower() for column in node.output}
    wanted = [
        column
        for p in across
        for text in (p.left, p.right, *(sql for _, sql in p.guards))
        if text
        for column in columns_of(text)
    ]
    for alias in members:
        scan = source_scan(node.sources[node.graph.relations.index(alias)])
        if scan.event_time is not None:
            wanted += [(alias, column.name) for column in scan.columns if column.name == scan.event_time]
    for alias, name in wanted:
        if alias in members and (alias, name) not in needed:
            unique = _fresh(f"{alias}__{name}", tuple(taken))
            taken.add(unique.lower())
            needed[alias, name] = (unique, "unknown")
    output = tuple(OutputColumn(unique, alias, name, kind) for (alias, name), (unique, kind) in needed.items())
    sources = tuple(node.sources[node.graph.relations.index(alias)] for alias in members)
    graph = build_graph(members, within)
    bounds = tuple(b for b in node.graph.time_bounds if b.left in members and b.right in members)
    kept = tuple(_retention(r.alias, bounds, list(members)) for r in node.retention if r.alias in members)
    graph = dataclasses.replace(graph, time_bounds=bounds)
    return _decided(f"{node.name}_inner", sources, graph, output, kept, node.decision.units)


def _decided(
    name: str,
    sources: tuple[Node, ...],
    graph: JoinGraph,
    output: tuple[OutputColumn, ...],
    retention: tuple[Retention, ...],
    units: int | None,
) -> JoinNode:
    bare = JoinNode(name, sources, graph, Decision("none", None, None, "not decided yet"), output, retention)
    decision = decide(bare, Hints(units=units), DEFAULTS)
    kind: type[JoinNode] = {"BiJoin": BiJoin, "TriJoin": TriJoin}.get(decision.node, MultiJoin)
    return kind(name, sources, graph, decision, output, retention)


def _scan_of(inner: JoinNode, alias: str, columns: dict[tuple[str, str], str]) -> Scan:
    """Return the stored result as an input: its event time is the latest of its members'.

    A result is made when its last member comes, and that one is not late; so the result is never late either.
    """
    below = [source_scan(source) for source in inner.sources]
    times = [columns.get((scan.alias, scan.event_time or "")) for scan in below]
    latest = [quote(time) for time in times if time is not None]
    delays = [scan.delay for scan in below if scan.delay is not None]
    bare = Scan(
        alias,
        inner.name,
        tuple(Column(column.name, column.type) for column in inner.output),
        below=(inner,),
        streaming=any(scan.streaming for scan in below) or None,
    )
    if len(latest) < len(below):
        return bare
    return dataclasses.replace(
        bare,
        relation=f"(SELECT *, greatest({', '.join(latest)}) AS {EVENT_TIME} FROM {quote(inner.name)})",
        columns=(*bare.columns, Column(EVENT_TIME, "timestamp")),
        event_time=EVENT_TIME,
        delay=max(delays, default=None),
    )


def _stored_bounds(
    alias: str, members: tuple[str, ...], order: list[str], bounds: tuple[TimeBound, ...]
) -> list[TimeBound]:
    """Bound the other inputs by the latest time among the members of a stored result."""
    most: dict[tuple[str, str], int] = {}
    for bound in bounds:
        if bound.upper is not None:
            most[bound.left, bound.right] = bound.upper
        if bound.lower is not None:
            most[bound.right, bound.left] = -bound.lower
    found = []
    for other in order:
        if other == alias:
            continue
        after = [most[one, other] for one in members if (one, other) in most]
        before = [most.get((other, one)) for one in members]
        known = [length for length in before if length is not None]
        upper = min(after, default=None)
        reverse = max(known) if len(known) == len(members) else None
        if upper is None and reverse is None:
            continue
        if order.index(alias) < order.index(other):
            found.append(TimeBound(alias, other, None if reverse is None else -reverse, upper))
        else:
            found.append(TimeBound(other, alias, None if upper is None else -upper, reverse))
    return found


def _retention(alias: str, bounds: tuple[TimeBound, ...], order: list[str]) -> Retention:
    """Return how long rows are kept: until no other input can reach them."""
    reach: dict[str, int | None] = {name: None for name in order if name != alias}
    for bound in bounds:
        if bound.left == alias:
            reach[bound.right] = bound.upper
        elif bound.right == alias:
            reach[bound.left] = None if bound.lower is None else -bound.lower
    lengths = [length for length in reach.values() if length is not None]
    return Retention(alias, max(0, *lengths) if lengths and len(lengths) == len(reach) else None)


def _fresh(name: str, taken: tuple[str, ...]) -> str:
    used = {one.lower() for one in taken}
    unique, number = name, 2
    while unique.lower() in used:
        unique, number = f"{name}_{number}", number + 1
    return unique
