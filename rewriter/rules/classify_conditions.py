"""Tell what sort of predicate every conjunct of an inner join is, and merge the two sides of a band.

Example: ``s.ts >= r.ts AND s.ts <= r.ts + INTERVAL 5 MINUTES`` becomes the band
``INTERVAL '-5' MINUTE <= r.ts - s.ts <= INTERVAL '0' DAY``.
"""

from __future__ import annotations

import dataclasses

from ..plan import Block, Join, Node, Project
from ..predicates import Scope, classify
from ..settings import DEFAULTS, Settings
from .rule import NotApplicable, each_block, regions


def classify_conditions(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Classify the conjuncts of inner joins; those of outer joins are Spark's."""

    def change(block: Block) -> Block:
        scope = Scope.of(block.input, ansi=settings.ansi)

        def visit(node: Node) -> Node:
            match node:
                case Join(kind="inner" | "cross", by_spark=False):
                    return dataclasses.replace(
                        node,
                        left=visit(node.left),
                        right=visit(node.right),
                        predicates=classify(node.predicates, scope),
                    )
                case Join() | Project():
                    return (
                        regions(node, visit) if isinstance(node, Join) else node.with_inputs((visit(node.inputs[0]),))
                    )
            return node

        return dataclasses.replace(block, input=regions(block.input, visit))

    return each_block(plan, change, "there is no inner join with a condition")
