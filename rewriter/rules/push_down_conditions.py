"""Move every conjunct to the lowest place that sees its columns: a join of its relations, or a filter on one relation.

Example: ``WHERE r.a < s.a AND r.b > 5`` over ``r CROSS JOIN s`` leaves ``r.a < s.a`` on the join and ``r.b > 5`` on
``r``. Nothing moves to the side of an outer join that may be filled with NULL, and nothing leaves the ON of one.
"""

from __future__ import annotations

import dataclasses

from ..plan.conjuncts import Predicate
from ..plan.nodes import Block, Filter, Join, Node, Project, Scan, Where, scans
from .rule import NotApplicable, beyond_spark, each_block


def push_down_conditions(plan: Node) -> Node | NotApplicable:
    """Push conjuncts of WHERE and of inner joins down."""

    def change(block: Block) -> Block:
        return dataclasses.replace(block, input=_settle(block.input))

    return each_block(plan, change, "every conjunct is at its lowest place already")


def _settle(node: Node) -> Node:
    match node:
        case Where():
            below = _settle(node.input)
            kept = []
            for predicate in node.predicates:
                placed = place(below, predicate)
                if placed is None:
                    kept.append(predicate)
                else:
                    below = placed
            return Where(below, tuple(kept)) if kept else below
        case Join(kind="inner" | "cross"):
            bare: Node = dataclasses.replace(
                node, kind="cross", left=_settle(node.left), right=_settle(node.right), predicates=()
            )
            for predicate in node.predicates:
                bare = place(bare, predicate) or bare
            return bare
        case Scan():
            return node
        case Join() if beyond_spark(node):
            return _settle_outer(node)
    return node.with_inputs(tuple(_settle(below) for below in node.inputs))


#: The side whose rows are nothing but partners.
_PARTNERS = {"right": "left", **dict.fromkeys(("left", "semi", "anti", "closest", "left_closest"), "right")}


def _settle_outer(node: Join) -> Join:
    """Filter the side whose rows are only partners by the conditions of ON over it alone."""
    sides = {"left": _settle(node.left), "right": _settle(node.right)}
    partners = _PARTNERS.get(node.kind)
    kept = []
    for predicate in node.predicates:
        placed = None
        if partners is not None and set(predicate.relations) <= {scan.alias for scan in scans(sides[partners])}:
            placed = place(sides[partners], predicate, under_inner=True) if predicate.relations else None
        if placed is None:
            kept.append(predicate)
        else:
            sides[str(partners)] = placed
    return dataclasses.replace(node, left=sides["left"], right=sides["right"], predicates=tuple(kept))


def place(node: Node, predicate: Predicate, under_inner: bool = False) -> Node | None:
    """Return the tree with a conjunct at its lowest place, None if it cannot move below ``node``."""
    relations = set(predicate.relations)
    match node:
        case Scan() | Filter():
            if not under_inner:
                return None
            if isinstance(node, Filter):
                if predicate.condition in node.conditions:
                    return node
                return dataclasses.replace(node, conditions=(*node.conditions, predicate.condition))
            return Filter(node, (predicate.condition,))
        case Project() | Where():
            below = place(node.inputs[0], predicate, under_inner)
            return None if below is None else node.with_inputs((below,))
        case Join():
            return _place_in_join(node, predicate, relations)
    return None


def _place_in_join(node: Join, predicate: Predicate, relations: set[str]) -> Node | None:
    inner = node.kind in ("inner", "cross")
    left, right = ({scan.alias for scan in scans(side)} for side in (node.left, node.right))
    if inner and not relations:
        left |= relations  # a constant: it empties the first relation or changes nothing
    # A condition on rows of a preserved side does not change who has a partner, so it may move below the join.
    ours = inner or beyond_spark(node)
    if relations <= left and node.kind not in ("right", "full"):
        below = place(node.left, predicate, ours)
        if below is not None:
            return dataclasses.replace(node, left=below)
    elif relations <= right and node.kind in ("inner", "cross", "right"):
        below = place(node.right, predicate, ours)
        if below is not None:
            return dataclasses.replace(node, right=below)
    if not inner or not relations <= left | right:
        return None
    if predicate in node.predicates:
        return node
    return dataclasses.replace(node, kind="inner", predicates=(*node.predicates, predicate))
