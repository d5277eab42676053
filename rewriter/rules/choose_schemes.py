"""The stage that decides how each join node runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..choose.decide import decide
from ..options import Settings
from ..plan.nodes import Block, JoinNode, Node, Scan, transform
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
        return dataclasses.replace(node, input=_own(node.input, node, decided)) if isinstance(node, Block) else node

    changed = transform(plan, visit)
    return NotApplicable("there is no join node") if changed == plan else changed


def _own(node: Node, block: Block, change: Callable[[Node, Block], Node]) -> Node:
    """Apply a change to the nodes of one SELECT, not to the nodes of derived tables."""
    if isinstance(node, Scan):
        return change(node, block)
    below = tuple(_own(one, block, change) for one in node.inputs)
    same = all(one is old for one, old in zip(below, node.inputs, strict=True))
    return change(node if same else node.with_inputs(below), block)
