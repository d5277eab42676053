"""The stage that decides how each join node runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...errors import InvalidHintError
from ..choose.decide import decide
from ..options import Settings
from ..plan.nodes import Block, Hints, JoinNode, Node, own_tree, transform
from ..plan.parts import Edge
from ..plan.stored import edge_key
from .pre_aggregate import may_count_packs
from .rule import NotApplicable


def _known(node: JoinNode, hints: Hints, settings: Settings) -> JoinNode:
    """Return a node whose edges say which share of their pairs matches, where a hint declares it or it was observed."""
    said = {frozenset((one.lower(), other.lower())): share for one, other, share in hints.shares}

    def told(edge: Edge) -> Edge:
        declared = said.get(frozenset((edge.left.lower(), edge.right.lower())))
        if declared is not None:
            return dataclasses.replace(edge, share=declared, share_from="declared")
        seen = settings.seen.get(edge_key(node, edge))
        return edge if seen is None else dataclasses.replace(edge, share=seen, share_from="observed")

    edges = tuple(told(edge) if edge.counts else edge for edge in node.graph.edges)
    return dataclasses.replace(node, graph=dataclasses.replace(node.graph, edges=edges))


def _check(hints: Hints, nodes: Sequence[JoinNode]) -> None:
    """Refuse a SELECTIVITY of two relations that no node of a SELECT joins by a condition."""
    edges = (edge for node in nodes for edge in node.graph.edges if edge.counts)
    joined = {frozenset((edge.left.lower(), edge.right.lower())) for edge in edges}
    for one, other, share in hints.shares:
        if frozenset((one.lower(), other.lower())) not in joined:
            reason = f"no condition that the units evaluate joins {one} and {other}"
            raise InvalidHintError(f"SELECTIVITY({one}, {other}, {share:g})", reason)


def choose_schemes(plan: Node, settings: Settings) -> Node | NotApplicable:
    """Decide scheme and units of every join node by its shape, its cost and the hints of its SELECT."""

    def decided(node: JoinNode, block: Block, *, alone: bool) -> JoinNode:
        from_packs = may_count_packs(node, block, settings)
        node = _known(node, block.hints, settings)
        try:
            decision = decide(node, block.hints, settings, from_packs=from_packs)
        except InvalidHintError as error:
            if alone:
                raise
            *others, last = node.graph.relations
            where = f"it is for every join group of its SELECT, and in that of {', '.join(others)} and {last}"
            raise InvalidHintError(error.parameters["hint"], f"{where} {error.parameters['reason']}") from None
        return dataclasses.replace(node, decision=decision)

    def visit(node: Node) -> Node:
        if not isinstance(node, Block):
            return node
        nodes = [one for one in own_tree(node.input) if isinstance(one, JoinNode)]
        alone = len(nodes) == 1
        if nodes:
            _check(node.hints, nodes)

        def change(one: Node) -> Node:
            return decided(one, node, alone=alone) if isinstance(one, JoinNode) else one

        return dataclasses.replace(node, input=transform(node.input, change, own=True))

    changed = transform(plan, visit)
    return NotApplicable("there is no join node") if changed is plan else changed
