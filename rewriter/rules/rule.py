"""The interface of a rule."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..event_time.bounds import is_of_streams
from ..plan.conjuncts import KINDS, Band, Term
from ..plan.expr import At, parts_of
from ..plan.nodes import (
    Block,
    Exchange,
    Join,
    JoinNode,
    Node,
    Project,
    Scan,
    Where,
    column_types,
    own_tree,
    scans,
    transform,
    walk,
)
from ..predicates.terms import is_equality, sides_of


@dataclass(frozen=True)
class NotApplicable:
    """A rule found nothing to do; EXPLAIN prints the reason."""

    reason: str


Rule = Callable[[Node], Node | NotApplicable]


def each_block(plan: Node, change: Callable[[Block], Block], reason: str) -> Node | NotApplicable:
    """Apply a change to every convertible SELECT; the rule is not applicable if no plan changed."""

    def visit(node: Node) -> Node:
        return change(node) if isinstance(node, Block) and node.problem is None else node

    changed = transform(plan, visit)
    return NotApplicable(reason) if changed is plan else changed


def beyond_spark(node: Node, *, alone: bool = False) -> bool:
    """Tell whether a node is an outer, semi or anti join, or one with the closest rows, that Spark cannot run (well).

    On streams Spark needs an equality, runs neither anti joins nor joins with the closest rows, and does not know what
    WITHIN or a bucket of time bounds. Of tables it would try all pairs of rows. One that may be part of a tree of joins
    of streams is ours too, and so are a subquery in WHERE and a semi join of rows that come behind the watermark: where
    both rows of a pair come so in one micro-batch, Spark's semi join does not find it (its other joins do).
    Unless we ask what Spark does of a join ``alone``.
    """
    if not isinstance(node, Join) or node.kind in ("inner", "cross") or node.by_spark:
        return False
    if any(isinstance(one, Band) and one.derived for one in node.predicates):
        return True
    if not alone and (node.in_tree or node.in_where):
        return True
    if not alone and node.kind == "semi" and is_of_streams(node) and any(map(_come_late, node.inputs)):
        return True
    if all(scan.streaming is False for scan in scans(node)):
        return node.closest is None and not equates(node)
    if not all(any(scan.streaming for scan in scans(side)) for side in node.inputs):
        return False
    return node.kind == "anti" or node.closest is not None or not equates(node) or _is_bucketed(node)


def _come_late(side: Node) -> bool:
    """Return whether rows of an input come behind the watermark: from a join that waits, or in a derived table.

    An inner join of this SELECT is none: it may become one node with the semi join.
    """

    def joins(one: Node, *, waits: bool) -> bool:
        if isinstance(one, JoinNode):
            return one.pads or not waits
        kinds = ("inner", "cross", "semi") if waits else ()
        return isinstance(one, Join) and one.kind not in kinds and is_of_streams(one)

    inside = (one for scan in scans(side) for below in scan.below for one in walk(below))
    return any(joins(one, waits=False) for one in inside) or any(joins(one, waits=True) for one in own_tree(side))


def equates(join: Join) -> bool:
    """Tell whether a condition of a join equates one side with the other."""
    sides = [{scan.alias for scan in scans(side)} for side in join.inputs]
    types = column_types(scans(join))
    equal = (p for p in join.predicates if is_equality(p.condition) or KINDS[p.kind].equal)
    equal = (p for p in equal if not _is_collated(p.condition, types))  # Spark keeps no such text in a state
    return any(not any(side.issuperset(predicate.relations) for side in sides) for predicate in equal)


def _is_collated(condition: Term, types: Mapping[At, str]) -> bool:
    """Tell whether a condition compares texts by a collation."""
    by_type = any("collate" in types.get(at, "").lower() for at in condition.columns)
    return by_type or any(part.op == "COLLATE" for part in parts_of(condition.expr))


def _is_bucketed(join: Join) -> bool:
    """Tell whether what bounds a join in time is an equality of what is computed from event times, such as their day.

    It bounds the join, and Spark does not see that: it takes an event time itself for a bound, or a sum with one.
    """
    times = {(scan.alias, scan.event_time) for scan in scans(join)}
    timed = [one.condition for one in join.predicates if not times.isdisjoint(one.condition.columns)]
    sides = [sides_of(one, "=") for one in timed]
    return bool(timed) and all(sides) and not any(side.op == "COLUMN" for both in sides for side in both)


def joins_of_ours(block: Block, change: Callable[[Join], Join]) -> Block:
    """Apply a change to every join of a SELECT that may be ours."""

    def visit(node: Node) -> Node:
        return change(node) if isinstance(node, Join) and beyond_spark(node) else node

    block = inner_joins(block, change)
    return dataclasses.replace(block, input=transform(block.input, visit, own=True))


def inner_joins(block: Block, change: Callable[[Join], Join]) -> Block:
    """Apply a change to every inner join of a SELECT that may be ours, bottom up."""

    def visit(node: Node) -> Node:
        match node:
            case Join(kind="inner" | "cross", by_spark=False):
                return change(dataclasses.replace(node, left=visit(node.left), right=visit(node.right)))
            case Project():
                return node.with_inputs((visit(node.inputs[0]),))
        return node

    return dataclasses.replace(block, input=regions(block.input, visit))


def inputs_of_inner(node: Node) -> Iterator[Node]:
    """Yield the inputs of a tree of inner joins, or the node if it is none; a join of another kind is an input."""
    match node:
        case Scan() | Join(by_spark=True):
            yield node
        case Join(kind=kind) if kind not in ("inner", "cross"):
            yield node
        case _:
            for below in node.inputs:
                yield from inputs_of_inner(below)


def regions(node: Node, change: Callable[[Node], Node]) -> Node:
    """Apply a change to every maximal tree of inner joins below a node, without entering derived tables.

    Such a tree may contain another one, below an outer join; the inner one is changed first.
    """
    match node:
        case Join(kind="inner" | "cross", by_spark=False):
            return change(_inside(node, change))
        case Join() | Where() | Project() | Exchange() | Block():
            return node.with_inputs(tuple(regions(below, change) for below in node.inputs))
    return node


def _inside(node: Node, change: Callable[[Node], Node]) -> Node:
    """Apply a change to the trees inside another one."""
    match node:
        case Join(kind="inner" | "cross", by_spark=False) | Where() | Project() | Exchange():
            return node.with_inputs(tuple(_inside(below, change) for below in node.inputs))
    return regions(node, change)
