"""Add conditions that follow from the user's conjuncts: transitive equalities, and filters on one relation.

Examples: ``r.a = s.a`` and ``s.a = t.a`` give ``r.a = t.a``; with ``r.a > 5`` they give ``s.a > 5`` and ``t.a > 5``;
``(r.n = 'x' AND s.n = 'y') OR (r.n = 'y' AND s.n = 'x')`` gives the filter ``r.n = 'x' OR r.n = 'y'`` on ``r``.

Equality is transitive only between values of one type: Spark compares ``'1' = 1`` and ``1 = 1.0`` by different casts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import networkx as nx

from ..plan.conjuncts import FLIPPED, Predicate, Residual, Term
from ..plan.expr import UNKNOWN, At, Call, Expr, infix, is_infix, joined, operands, parts_of
from ..plan.nodes import Block, Filter, Join, Node, Scan
from ..predicates.simple_form import simplify
from ..predicates.terms import Scope, remap, sides_of
from .push_down_conditions import place
from .rule import NotApplicable, each_block, regions

#: What raises no error.
_SAFE = {"()", "NEG", "NOT", "AND", "OR", "BETWEEN", "IN", "IS", "LIKE", *FLIPPED} - {"<=>"}


def derive_conditions(plan: Node) -> Node | NotApplicable:
    """Add derived equalities and filters to every tree of inner joins."""

    def change(block: Block) -> Block:
        return dataclasses.replace(block, input=regions(block.input, _derived))

    return each_block(plan, change, "nothing follows from the conditions")


def _derived(region: Node) -> Node:
    scope = Scope.of(region)
    joins = list(_predicates(region))
    filters = list(filters_of(region))
    equal = _equalities(joins)
    found = [*_transitive(equal, joins, scope), *_copied_filters(equal, filters, scope)]
    for predicate in joins:
        found += _from_or(predicate, scope)
    for predicate in found:
        region = place(region, predicate) or region
    return region


def _predicates(node: Node) -> Iterator[Predicate]:
    if isinstance(node, Join) and node.kind in ("inner", "cross"):
        yield from _predicates(node.left)
        yield from _predicates(node.right)
        yield from node.predicates
    elif not isinstance(node, Scan | Join):
        for below in node.inputs:
            yield from _predicates(below)


def filters_of(node: Node) -> Iterator[Term]:
    """Yield the conditions on single relations that all rows of a tree of inner joins fulfil."""
    if isinstance(node, Filter):
        yield from node.conditions
    elif not isinstance(node, Scan) and not (isinstance(node, Join) and node.kind not in ("inner", "cross")):
        for below in node.inputs:
            yield from filters_of(below)


def _equalities(predicates: list[Predicate]) -> nx.Graph[At]:
    """Return the graph of columns, connected by equalities between columns of one known type."""
    graph: nx.Graph[At] = nx.Graph()
    for predicate in predicates:
        sides = sides_of(predicate.condition, "=")
        if sides and sides[0].type == sides[1].type != UNKNOWN and all(side.op == "COLUMN" for side in sides):
            graph.add_edge(*(side.columns[0] for side in sides))
    return graph


def _classes(graph: nx.Graph[At], scope: Scope) -> list[list[At]]:
    rank = {column: (scope.order.index(column[0]), column[1]) for column in graph.nodes}
    return sorted((sorted(c, key=rank.__getitem__) for c in nx.connected_components(graph)), key=lambda c: rank[c[0]])


def _transitive(graph: nx.Graph[At], joins: list[Predicate], scope: Scope) -> list[Residual]:
    found = []
    for columns in _classes(graph, scope):
        for index, one in enumerate(columns):
            for other in columns[index + 1 :]:
                if one[0] != other[0] and not graph.has_edge(one, other):
                    found.append(_follows(scope.term(infix("=", scope.column(one), scope.column(other)))))
    written = {p.condition for p in joins}
    return [p for p in found if p.condition not in written]


def _copied_filters(graph: nx.Graph[At], filters: list[Term], scope: Scope) -> list[Residual]:
    found = []
    for condition in filters:
        columns = condition.columns
        if len(columns) != 1 or columns[0] not in graph or not _is_safe(condition.expr):
            continue
        for other in sorted(nx.node_connected_component(graph, columns[0])):
            if other != columns[0]:
                copied = remap(condition.expr, {columns[0]: scope.column(other)})
                found.append(_follows(scope.term(copied)))
    return found


def _from_or(predicate: Predicate, scope: Scope) -> list[Residual]:
    branches = [simplify(branch) for branch in operands(predicate.condition.expr, "OR")]
    found: list[Residual] = []
    if len(branches) < 2:
        return found
    for alias in predicate.relations:
        parts = [[c for c in branch if scope.relations(c) == (alias,) and _is_safe(c)] for branch in branches]
        if all(parts):
            implied = joined("OR", *(joined("AND", *part) for part in parts))
            found.append(_follows(scope.term(implied)))
    return found


def _is_safe(expr: Expr) -> bool:
    """Tell whether a condition may be evaluated for more rows than in the user's text: it raises no errors."""
    for node in parts_of(expr):
        is_constant = node.op == "CAST" and node.args[0].op == "CONSTANT"
        if node.op in _SAFE or is_constant or (is_infix(node) and not node.columns):
            continue
        if isinstance(node, Call) or node.type == "boolean":
            return False
    return True


def _follows(term: Term) -> Residual:
    return Residual(term.sql, term, derived=True)
