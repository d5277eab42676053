"""Classify every conjunct of a join that may be ours, and merge the two sides of a band.

Example: ``s.ts >= r.ts AND s.ts <= r.ts + INTERVAL 5 MINUTES`` becomes the band
``INTERVAL '-5' MINUTE <= r.ts - s.ts <= INTERVAL '0' DAY``.
"""

from __future__ import annotations

import dataclasses

from ..options import DEFAULTS, Settings
from ..plan.nodes import Block, Node
from ..predicates.classify import classify
from ..predicates.terms import Scope
from .rule import NotApplicable, each_block, joins_of_ours


def classify_conditions(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Classify the conjuncts of joins; those of joins that Spark runs stay as they are."""

    def change(block: Block) -> Block:
        scope = Scope.of(block.input, ansi=settings.ansi, ask=settings.ask)
        scope = dataclasses.replace(scope, left_to_spark=settings.left_to_spark)
        return joins_of_ours(block, lambda join: dataclasses.replace(join, predicates=classify(join.predicates, scope)))

    return each_block(plan, change, "there is no inner join with a condition")
