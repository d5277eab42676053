"""Add the bands of times implied by conditions that stay with Spark.

Example: ``timestampdiff(SECOND, r.ts, s.ts) < 10`` is a residual. It implies that ``s.ts`` is at most 11 seconds later
than ``r.ts``. This bounds the state, and a search by it leaves few pairs for Spark to check.
"""

from __future__ import annotations

import dataclasses

from ..options import DEFAULTS, Settings
from ..plan.conjuncts import Band, Bounds, Predicate, Residual
from ..plan.expr import At
from ..plan.nodes import Block, Join, Node
from ..predicates.forms import Implied, implied_bounds
from ..predicates.terms import Scope, column_term
from ..sql.spark_types import TIMES
from .rule import NotApplicable, each_block, inner_joins


def derive_time_bands(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Add derived bands to inner joins; a band contains all pairs that its residual lets through."""

    def change(block: Block) -> Block:
        scope = Scope.of(block.input, ansi=settings.ansi)

        def derive(join: Join) -> Join:
            found = [band for predicate in join.predicates for band in _bands(predicate, scope, settings)]
            return dataclasses.replace(join, predicates=(*join.predicates, *found))

        return inner_joins(block, derive)

    return each_block(plan, change, "no condition that stays with Spark bounds times")


def _bands(predicate: Predicate, scope: Scope, settings: Settings) -> list[Band]:
    """Return the bands that a residual implies, one for each pair of columns."""
    if not isinstance(predicate, Residual) or len(predicate.relations) != 2:
        return []

    def time(at: At) -> str | None:
        kind = scope.types.get(at)
        return kind if kind in TIMES else None

    most: dict[tuple[At, At], int] = {}
    for bound in implied_bounds(predicate.condition.expr, Implied(time, settings.ansi), settings.zone_shift):
        pair = (bound.earlier, bound.later)
        most[pair] = min(bound.most, most.get(pair, bound.most))
    found = []
    first = predicate.relations[0]
    for left, right in dict.fromkeys(tuple(sorted(pair, key=lambda at: at[0] != first)) for pair in most):
        lower, upper = most.get((left, right)), most.get((right, left))  # of right - left, and of left - right
        if (kind := time(left)) is not None and kind == time(right):
            sides = column_term(left, kind), column_term(right, kind)
            bounds = Bounds("timestamp", None if lower is None else -lower, upper, True, True)
            found.append(Band(predicate.sql, predicate.condition, *sides, bounds, derived=True))
    return found
