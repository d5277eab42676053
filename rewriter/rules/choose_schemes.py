"""The stage that decides how each join node runs."""

from __future__ import annotations

import dataclasses

from ...errors import InvalidHintError
from ..choose.decide import decide
from ..options import Settings
from ..plan.nodes import Block, JoinNode, Node, own_tree, transform
from .pre_aggregate import may_count_packs
from .rule import NotApplicable


def choose_schemes(plan: Node, settings: Settings) -> Node | NotApplicable:
    """Decide scheme and units of every join node by its shape, its cost and the hints of its SELECT."""

    def decided(node: JoinNode, block: Block, *, alone: bool) -> JoinNode:
        try:
            decision = decide(node, block.hints, settings, from_packs=may_count_packs(node, block, settings))
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
        alone = sum(isinstance(one, JoinNode) for one in own_tree(node.input)) == 1

        def change(one: Node) -> Node:
            return decided(one, node, alone=alone) if isinstance(one, JoinNode) else one

        return dataclasses.replace(node, input=transform(node.input, change, own=True))

    changed = transform(plan, visit)
    return NotApplicable("there is no join node") if changed is plan else changed
