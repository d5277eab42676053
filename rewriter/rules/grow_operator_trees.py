"""Turn a group that will run as an operator tree into a tree of join nodes (002 section 4).

Inner nodes are materialising: they join some of the relations, and the result is stored as an input of the node above;
the root is not. Cost (002's equation 1) or a hint chose the tree.

Example: ``MultiJoin(r, s, t, u)`` with the tree ``(r, s), t, u`` becomes ``TriJoin(BiJoin(r, s), t, u)``, and with the
tree ``(r, s), (t, u)`` ``BiJoin(BiJoin(r, s), BiJoin(t, u))``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import chain, count, product
from math import prod
from typing import Any, TypeAlias

from ..choose.decide import decide, probes_of
from ..choose.operator_trees import hints_of
from ..event_time.bounds import keep_for
from ..event_time.event_times import RESULT_TIME, event_times
from ..options import Settings
from ..plan.conjuncts import KernelPredicate
from ..plan.join_graph import build_graph
from ..plan.nodes import JoinNode, Node, Scan, column_types, join_node_class, source_scan, transform
from ..plan.parts import Column, Edge, JoinGraph, Retention, TimeBound, named_columns, unused
from ..plan.trees import INNER, TreeOf, leaves
from ..predicates.terms import MovedColumns
from .rule import NotApplicable

Tree: TypeAlias = "TreeOf[str]"


def grow_operator_trees(plan: Node) -> Node | NotApplicable:
    """Split every join node whose scheme is ``operator_tree``."""

    def visit(node: Node) -> Node:
        if isinstance(node, JoinNode) and node.decision.scheme == "operator_tree":
            names = node.graph.relations

            def named(tree: TreeOf[int]) -> Tree:
                return tuple(named(part) if isinstance(part, tuple) else names[part] for part in tree)

            inner = (f"{node.name}{INNER}{number}" for number in chain(("",), count(2)))
            return _split(node, named(node.decision.options.tree), inner)
        return node

    changed = transform(plan, visit)
    return NotApplicable("no group runs as an operator tree") if changed is plan else changed


def _split(node: JoinNode, tree: Tree, names: Iterator[str]) -> JoinNode:
    """Return a node as a tree of nodes: each part that is itself a tree becomes an inner node, one after the other."""
    nested = next((part for part in tree if isinstance(part, tuple)), None)
    if nested is None:
        return _decided(node)
    below = set(leaves(nested))
    members = tuple(name for name in node.graph.relations if name in below)
    name = next(names)
    relations = node.graph.relations
    predicates = [predicate for edge in node.graph.edges for predicate in edge.predicates]
    within = [p for p in predicates if set(p.relations) <= set(members)]
    across = [p for p in predicates if not set(p.relations) <= set(members)]
    inner = _inner(node, name, members, within, across)
    alias = unused("_".join(members), {one.lower() for one in relations})
    columns = {(column.relation, column.column): column.name for column in inner.output}
    moved = MovedColumns({pair: (alias, column) for pair, column in columns.items()})
    rank = {name: index for index, name in enumerate(relations)}
    order = [alias if one == members[0] else one for one in relations if one == members[0] or one not in members]
    root_predicates = []
    for predicate in across:
        changed = predicate.with_terms(moved.term)
        one, other = map(order.index, changed.relations)
        root_predicates.append(changed if one < other else changed.mirrored())
    output = tuple(map(moved.output, node.output))
    graph = _with_shares(build_graph(order, [*root_predicates, *node.graph.residuals]), node.graph, {alias: members})
    stored_scan = scan_of(inner, _split(inner, nested, names), alias)
    bounds = [b for b in node.graph.time_bounds if not {b.left, b.right} & set(members)]
    if stored_scan.event_time is not None:
        bounds += _stored_bounds(alias, members, order, node.graph.time_bounds)
    graph = dataclasses.replace(graph, time_bounds=tuple(bounds))
    sources = tuple(stored_scan if one == alias else node.sources[rank[one]] for one in order)
    kept = {retention.alias: retention for retention in node.retention}
    stored = Retention(alias, keep_for(alias, order, graph.most))
    retention = tuple(stored if one == alias else kept[one] for one in order if one == alias or one in kept)
    aggregation = node.aggregation and node.aggregation.with_terms(moved.term)
    root = _node(
        JoinNode, node, sources=sources, graph=graph, output=output, retention=retention, aggregation=aggregation
    )
    return _split(root, tuple(alias if part is nested else part for part in tree), names)


def _inner(
    node: JoinNode, name: str, members: tuple[str, ...], within: list[KernelPredicate], across: list[KernelPredicate]
) -> JoinNode:
    """Return the node that joins some relations first, with all columns that nodes above it read."""
    needed = {(one.relation, one.column): one.name for one in node.output if one.relation in members}
    above = [*(term for predicate in across for term in predicate.terms)]
    above += node.aggregation.terms if node.aggregation is not None else ()
    wanted = [*needed, *(at for term in above for at in term.columns if at[0] in members)]
    sources = tuple(node.sources[node.graph.relations.index(alias)] for alias in members)
    below = [source_scan(source) for source in sources]
    types = column_types(below)
    wanted += [at for scan in below for at in types if at == (scan.alias, scan.event_time)]
    # Where nothing above reads a column, only the number of rows: rows without columns would be lost.
    wanted = wanted or [next(iter([*types, *(at for one in within for at in one.keys[0].columns)]))]
    output = named_columns(wanted, types, (one.name for one in node.output), needed)
    graph = _with_shares(build_graph(members, within), node.graph, {})
    bounds = tuple(b for b in node.graph.time_bounds if b.left in members and b.right in members)
    graph = dataclasses.replace(graph, time_bounds=bounds)
    kept = tuple(
        Retention(r.alias, keep_for(r.alias, members, graph.most)) for r in node.retention if r.alias in members
    )
    inner = JoinNode(name, sources, graph, node.decision, output, kept)
    inner = dataclasses.replace(inner, held_back=node.held_back, behind=node.behind)
    if not event_times(inner):
        return inner
    return dataclasses.replace(inner, result_time=RESULT_TIME, event_times=(RESULT_TIME,))


def _with_shares(graph: JoinGraph, before: JoinGraph, parts: Mapping[str, tuple[str, ...]]) -> JoinGraph:
    """Return a graph over parts of another one, with the shares that were declared between their members."""

    def told(edge: Edge) -> Edge:
        ends = (parts.get(one, (one,)) for one in (edge.left, edge.right))
        edges = [before.edge(*pair) for pair in product(*ends)]
        said = [one.declared for one in edges if one is not None and one.declared is not None]
        return dataclasses.replace(edge, share=prod(said), share_from="declared") if said else edge

    return dataclasses.replace(graph, edges=tuple(map(told, graph.edges)))


def _decided(node: JoinNode) -> JoinNode:
    """Return a node of the tree with its own decision: the units are those of the group.

    What is declared of its edges decides how rows probe, and nothing that a checkpoint would know it by.
    """
    hints = hints_of(node, node.decision.units, node.decision.options.routing)
    untold = tuple(dataclasses.replace(edge, share=None, share_from="assumed") for edge in node.graph.edges)
    found = decide(dataclasses.replace(node, graph=dataclasses.replace(node.graph, edges=untold)), hints, Settings())
    decision = dataclasses.replace(
        found,
        **probes_of(node, found, Settings()),
        reason="as a node of an operator tree with so many inputs runs",
        units_reason="those of the group",
        units_from=node.decision.units_from,
    )
    return _node(join_node_class(len(node.sources)), node, decision=decision)


def _node(kind: type[JoinNode], node: JoinNode, **changes: Any) -> JoinNode:
    """Return a node as a node of another class, with some fields changed."""
    return kind(**{**{field.name: getattr(node, field.name) for field in dataclasses.fields(JoinNode)}, **changes})


def scan_of(inner: JoinNode, below: JoinNode, alias: str) -> Scan:
    """Return the stored result of ``below`` as an input: its event time is the latest of its members'.

    ``inner`` is the same node before it became a tree itself. A result comes with its last member, and that member
    is not late; so the result is never late either.
    """
    members = [source_scan(source) for source in inner.sources]
    columns = [Column(column.name, column.type) for column in inner.output]
    if inner.result_time is not None:
        columns.append(Column(inner.result_time, "timestamp"))
    return Scan(
        alias,
        inner.name,
        tuple(columns),
        below=(below,),
        streaming=any(scan.streaming for scan in members) or None,
        event_time=inner.result_time,
        delay=max((scan.delay for scan in members if scan.delay is not None), default=None),
        stateful=any(scan.stateful for scan in members),
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
