"""Make the units of a join reduce their results if the SELECT above aggregates (BiStream, 003 section 3.4.2).

The node puts out a row of keys and states for each group and micro-batch instead of its results; the SELECT's text
then merges states. It applies where the aggregation stands directly on the node: nothing filters or joins the results
first, and every key and argument is over one input of the node, so that it is computed before the join. A residual that
reads GROUP BY keys alone is the same for all results of a group: it filters groups behind the units, as HAVING would.

Example: ``SELECT r.k, SUM(t.x) FROM r JOIN s ... JOIN t ... GROUP BY r.k`` makes the node put out ``r.k`` and the sum
of ``t.x`` of this micro-batch's results, and Spark adds up these sums.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from ..options import DEFAULTS, Settings
from ..plan.conjuncts import Residual
from ..plan.expr import parts_of
from ..plan.joins import KINDS_OF_JOINS
from ..plan.nodes import Block, JoinNode, LeftAlone, Node, Scan, scans, source_scan, transform
from ..plan.parts import Aggregation
from ..predicates.terms import over_output
from ..sql.functions import PARTS_OF_DATES, PURE, SCALARS
from .rule import NotApplicable

#: Types of which equal values are the same, and functions that give the same for them.
_EXACT = re.compile(r"(tinyint|smallint|int|bigint|boolean|date|timestamp|timestamp_ntz|string|binary|decimal.*)")
_SAME = PURE | PARTS_OF_DATES | SCALARS


def pre_aggregate(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Give the first step of an aggregation to the join nodes directly below it."""
    reasons: list[str] = []

    def visit(node: Node) -> Node:
        if not isinstance(node, Block) or node.problem is not None:
            return node
        if node.aggregation is None and node.not_aggregated is None:
            return node
        found = _nodes(node.input)
        if not found:
            return node
        reason = _why_not(node, settings)
        if reason is None:
            return _aggregated(node)
        reasons.append(reason)
        noted = {id(one): dataclasses.replace(one, not_aggregated=reason) for one in found}
        return dataclasses.replace(node, input=transform(node.input, lambda one: noted.get(id(one), one), own=True))

    changed = transform(plan, visit)
    if changed is plan:
        return NotApplicable(reasons[0] if reasons else "no SELECT aggregates the results of a join node")
    return changed


def _why_not(block: Block, settings: Settings) -> str | None:
    node, aggregation = block.input, block.aggregation
    if not block.hints.aggregate:
        return "the hint NO_UNIT_AGGREGATE"
    if not settings.aggregate_in_units:
        return "it is switched off (spark.trijoin.aggregateInUnits)"
    if aggregation is None:
        return block.not_aggregated or "it cannot be taken apart"
    if not isinstance(node, JoinNode):
        return "the results are filtered or joined once more before they are aggregated"
    if node.join != "inner":
        return f"units do not aggregate the results of {KINDS_OF_JOINS[node.join]}"
    names = _keys_by_output(node, aggregation)
    for residual in node.graph.residuals:
        if not _filters_groups(residual, names):
            return f"Spark has to filter by {residual.sql} first"
    if not settings.ansi and any(state.function == "sum" and state.type != "double" for state in aggregation.states):
        return "with spark.sql.ansi.enabled off a sum that overflows stays with Spark"
    owners = _owners(node)
    for term in aggregation.terms:
        if len({owners[alias] for alias in term.relations}) > 1:
            return f"{term.sql} is over several inputs of the join"
    times = {(scan.alias, scan.event_time) for source in node.sources for scan in scans(source)}
    for key in aggregation.keys:
        if any(f"{alias}.{time}".lower() == key.term.sql.replace("`", "").lower() for alias, time in times if time):
            return f"{key.term.sql} is event time, whose groups Spark closes"
    return None


def _keys_by_output(node: JoinNode, aggregation: Aggregation) -> dict[str, str]:
    """Return by output column of a node the GROUP BY key that it is, as far as equal values are the same value.

    Two zeros of a floating-point type are one key, and texts of other collations may be.
    """
    keys = {key.term.columns: key.name for key in aggregation.keys if key.term.expr.op == "COLUMN"}
    exact = (one for one in node.output if _EXACT.fullmatch(one.type))
    return {one.name: keys[at] for one in exact if (at := ((one.relation, one.column),)) in keys}


def _filters_groups(residual: Residual, names: Mapping[str, str]) -> bool:
    """Tell whether a residual is the same for all results of a group: it reads keys alone, and calls nothing else."""
    return {name for _, name in residual.condition.columns} <= names.keys() and all(
        part.op != "QUERY" and (not part.op.islower() or part.op in _SAME) for part in parts_of(residual.condition.expr)
    )


def may_count_packs(node: JoinNode, block: Block, settings: Settings) -> bool:
    """Tell whether results would be counted from packs, for a chain that is the whole FROM of a SELECT."""
    if block.input is not node or block.aggregation is None or _why_not(block, settings) is not None:
        return False
    return _listed(node, block.aggregation) is not None


def _owners(node: JoinNode) -> dict[str, str]:
    return {scan.alias: source_scan(source).alias for source in node.sources for scan in scans(source)}


def _aggregated(block: Block) -> Block:
    node, aggregation = block.input, block.aggregation
    assert isinstance(node, JoinNode)
    assert aggregation is not None
    listed = _listed(node, aggregation) if node.decision.scheme == "semi_symmetric" else None
    counted = dataclasses.replace(aggregation, from_packs=listed is not None, listed=listed or ())
    names = {("", name): key for name, key in _keys_by_output(node, aggregation).items()}
    residuals = tuple(over_output(residual, names) for residual in node.graph.residuals)
    graph = dataclasses.replace(node.graph, residuals=residuals)
    changed = dataclasses.replace(node, graph=graph, aggregation=counted, output=())
    return dataclasses.replace(block, input=changed, required=())


def _listed(node: JoinNode, aggregation: Aggregation) -> tuple[str, ...] | None:
    """Return the ends of a chain whose rows are listed although they are in packs; None without packs.

    A key is needed for every row.
    """
    graph = node.graph
    ends = [name for name in graph.relations if name != graph.hub]
    if graph.shape != "chain" or len(ends) != 2 or not aggregation.states:
        return None
    if (between := graph.edge(*ends)) is not None and graph.not_implied(between):
        return None
    owners = _owners(node)
    listed = {owners[alias] for key in aggregation.keys for alias in key.term.relations}
    return tuple(name for name in ends if name in listed) if not listed.issuperset(ends) else None


def _nodes(node: Node) -> list[JoinNode]:
    """Return the join nodes of one SELECT."""
    if isinstance(node, JoinNode):
        return [node]
    if isinstance(node, Scan | LeftAlone):
        return []
    return [found for below in node.inputs for found in _nodes(below)]
