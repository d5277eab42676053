"""The stage that decides how each join node runs."""

from __future__ import annotations

import dataclasses

from ..choose.decide import decide
from ..options import Settings
from ..plan.nodes import Block, JoinNode, Node, transform
from .pre_aggregate import may_count_packs
from .rule import NotApplicable


def choose_schemes(plan: Node, settings: Settings) -> Node | NotApplicable:
    """Decide scheme and units of every join node by its shape, its cost and the hints of its SELECT."""

    def decided(node: Node, block: Block) -> Node:
        if not isinstance(node, JoinNode):
            return node
        decision = decide(node, block.hints, settings, from_packs=may_count_packs(node, block, settings))
        return dataclasses.replace(node, decision=decision)

    def visit(node: Node) -> Node:
        if not isinstance(node, Block):
            return node
        return dataclasses.replace(node, input=transform(node.input, lambda one: decided(one, node), own=True))

    changed = transform(plan, visit)
    return NotApplicable("there is no join node") if changed == plan else changed
