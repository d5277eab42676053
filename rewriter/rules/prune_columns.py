"""Make join nodes put out only the columns that something above reads.

Example: under ``SELECT r.n`` a node puts out ``r__n`` and the columns of its residuals. If nothing reads a column of a
node (``SELECT count(*)``), it keeps one column, because a row needs one.
"""

from __future__ import annotations

import dataclasses

from ..event_time.bounds import input_scan
from ..plan.nodes import Block, Join, JoinNode, Node, Scan, StaticJoin, Where, transform
from ..plan.parts import OutputColumn
from .rule import NotApplicable


def prune_columns(plan: Node) -> Node | NotApplicable:
    """Drop output columns of join nodes that are not needed."""

    def visit(node: Node) -> Node:
        if not isinstance(node, Block):
            return node
        needed = set(node.required) | _read_by_spark(node.input)
        return dataclasses.replace(node, input=_prune(node.input, needed))

    changed = transform(plan, visit)
    return NotApplicable("every column is read") if changed is plan else changed


def _prune(node: Node, needed: set[tuple[str, str]]) -> Node:
    if isinstance(node, Scan):
        return node
    if isinstance(node, JoinNode):
        node = _pruned(node, needed)
        inside = read_by_node(node) | _event_times(node)
        return node.with_inputs(tuple(_prune(below, inside | _read_by_spark(below)) for below in node.inputs))
    return node.with_inputs(tuple(_prune(below, needed) for below in node.inputs)) if node.inputs else node


def read_by_node(node: JoinNode) -> set[tuple[str, str]]:
    """Return the columns of its inputs that a join node reads, as ``(alias, name)``."""
    found = {(column.relation, column.column) for column in node.output}
    if node.aggregation is not None:
        found.update(column for term in node.aggregation.terms for column in term.columns)
    for edge in node.graph.edges:
        for predicate in edge.predicates:
            found.update(column for term in predicate.terms for column in term.columns)
    terms = [one.condition for one in node.graph.residuals] if node.tests_pairs else []
    terms += [*node.matching, *(term for branch in node.branches for term in branch.matching)]
    terms += (term for closest in node.looks for term in closest.compared)
    found.update(column for term in terms for column in term.columns)
    return found


def _event_times(node: JoinNode) -> set[tuple[str, str]]:
    """Return the columns by which a join node knows how long rows are kept; another node may be below it."""
    inputs = [input_scan(source) for source in node.sources]
    found = {at for scan in inputs for at in scan.first_of}
    return found | {(scan.alias, scan.event_time) for scan in inputs if scan.event_time is not None}


def _read_by_spark(node: Node) -> set[tuple[str, str]]:
    """Return the columns in conditions that stay with Spark."""
    if isinstance(node, Scan | JoinNode):
        return set()
    found = {column for below in node.inputs for column in _read_by_spark(below)}
    if isinstance(node, Join | Where | StaticJoin):
        for predicate in node.predicates:
            found.update(predicate.condition.columns)
    if isinstance(node, Join) and node.closest is not None:
        found.update(node.closest.condition.columns)
    return found


def _pruned(node: JoinNode, needed: set[tuple[str, str]]) -> JoinNode:
    residual = {name for predicate in node.graph.residuals for _, name in predicate.condition.columns}

    def wanted(column: OutputColumn) -> bool:
        return (column.relation, column.column) in needed or column.name in residual

    if node.aggregation is not None:
        return node  # it puts out only keys and states
    kept = tuple(column for column in node.output if wanted(column)) or node.output[:1]
    return dataclasses.replace(node, output=kept)
