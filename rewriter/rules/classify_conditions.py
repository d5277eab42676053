"""Classify every conjunct of a join that may be ours, and merge the two sides of a band.

Example: ``s.ts >= r.ts AND s.ts <= r.ts + INTERVAL 5 MINUTES`` becomes the band
``INTERVAL '-5' MINUTE <= r.ts - s.ts <= INTERVAL '0' DAY``.
"""

from __future__ import annotations

import dataclasses

from ..options import DEFAULTS, Settings
from ..plan.nodes import Block, Join, Node, scans
from ..predicates.classify import classify
from ..predicates.terms import Scope
from .rule import NotApplicable, each_block, inputs_of_inner, joins_of_ours


def classify_conditions(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Classify the conjuncts of joins; those of joins that Spark runs stay as they are."""

    def change(block: Block) -> Block:
        scope = Scope.of(block.input, ansi=settings.ansi, ask=settings.ask)
        scope = dataclasses.replace(scope, left_to_spark=settings.left_to_spark)

        def change_join(join: Join) -> Join:
            inputs = _inputs(join) if any(len(one.relations) > 2 for one in join.predicates) else {}
            return dataclasses.replace(join, predicates=classify(join.predicates, scope, inputs))

        return joins_of_ours(block, change_join)

    return each_block(plan, change, "there is no inner join with a condition")


def _inputs(join: Join) -> dict[str, str]:
    """Return for each relation below a join the first one of the input of its group that has it."""
    sides = join.inputs if join.kind not in ("inner", "cross") else tuple(inputs_of_inner(join))
    return {scan.alias: scans(side)[0].alias for side in sides for scan in scans(side)}
