"""The kind of each conjunct: from a condition to kernel predicates, bands and residuals.

Bands are found among conjuncts of the form ``base + constant <op> base + constant`` over integers, dates, timestamps
and decimals, where moving the constants to one side is exact, and among differences of floats beside a constant. Other
floats keep their expressions as keys: ``x >= y - 0.5`` and ``x - y >= -0.5`` differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from ..plan.conjuncts import FLIPPED, Compare, ComparisonOp, NotEqual, Predicate, Residual
from .bands import Difference
from .differences import exact_difference
from .rounded import rounded_difference
from .terms import OPERATORS, Scope, bare, tree_of


def classify(predicates: Iterable[Predicate], scope: Scope) -> tuple[Predicate, ...]:
    """Classify raw predicates, and merge the two sides of a band into one predicate."""
    done: list[Predicate | Difference] = []
    for predicate in predicates:
        if isinstance(predicate, Residual):
            for found in _classify(predicate, tree_of(predicate.condition), scope):
                _add(done, found)
        else:
            done.append(predicate)
    return tuple(dict.fromkeys(one.predicate() if isinstance(one, Difference) else one for one in done))


def _add(done: list[Predicate | Difference], found: Predicate | Difference) -> None:
    if isinstance(found, Difference):
        for index, known in enumerate(done):
            if isinstance(known, Difference) and known.key == found.key:
                done[index] = known.within(found)
                return
    done.append(found)


# -------------------------------------------------------------------------------------------------------- one conjunct


def _classify(predicate: Residual, tree: exp.Expr, scope: Scope) -> list[Predicate | Difference]:
    tree = bare(tree)
    if len(scope.relations(tree)) != 2 or predicate.sql in scope.left_to_spark:
        return [predicate]
    if tree.find(exp.Collate):  # as a separate key, a text would lose its explicit collation
        return [predicate]
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
        high = exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
        parts = [found for part in (low, high) for found in _classify(predicate, part, scope)]
        return [predicate] if all(isinstance(part, Residual) for part in parts) else parts
    op = OPERATORS.get(type(tree))
    if op is None:
        return [predicate]
    return _comparison(predicate, op, tree.this, tree.expression, scope) or [predicate]


def _comparison(
    predicate: Residual, op: ComparisonOp, left: exp.Expr, right: exp.Expr, scope: Scope
) -> list[Predicate | Difference] | None:
    difference = exact_difference(predicate, op, left, right, scope)
    if difference is not None:
        return [difference]
    found = rounded_difference(predicate, op, left, right, scope)
    if isinstance(found, Difference):
        return [found, predicate] if found.derived and not predicate.derived else [found]
    if found is not None:
        return [part for end in found for part in _comparison(predicate, *end, scope) or [predicate]]
    ones, others = scope.relations(left), scope.relations(right)
    if len(ones) != 1 or len(others) != 1:
        return None
    if scope.order.index(ones[0]) > scope.order.index(others[0]):
        left, right, op = right, left, FLIPPED[op]
    sides = scope.as_compared(left, right)
    return None if sides is None else [_plain(predicate, op, *sides, scope)]


def _plain(predicate: Predicate, op: ComparisonOp, left: exp.Expr, right: exp.Expr, scope: Scope) -> Compare | NotEqual:
    sides = scope.term(bare(left)), scope.term(bare(right))
    if op == "<>":
        return NotEqual(predicate.sql, predicate.condition, *sides, derived=predicate.derived, places=predicate.places)
    return Compare(predicate.sql, predicate.condition, *sides, op, derived=predicate.derived, places=predicate.places)
