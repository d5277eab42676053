"""The kind of each conjunct: from a condition to kernel predicates, bands and residuals.

Bands are found among conjuncts of the form ``base + constant <op> base + constant`` over integers, dates, timestamps
and decimals, where moving the constants to one side is exact, and among differences of floats beside a constant. Other
floats keep their expressions as keys: ``x >= y - 0.5`` and ``x - y >= -0.5`` differ in the last digit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ..plan.conjuncts import ALWAYS, FLIPPED, Band, Compare, ComparisonOp, Either, NotEqual, Predicate, Residual, Term
from ..plan.expr import At, Call, Expr, bare, parts_of
from ..sql.expressions import parsed
from ..sql.failing import may_fail
from ..sql.spark_types import is_window
from .bands import Difference
from .differences import exact_difference, rounded_difference
from .simple_form import branches_of, ends_of
from .terms import Scope, column

#: What stands for NULL among numbers of microseconds; Spark's timestamps end long before it.
_NO_TIME = 2**63 - 1


def classify(
    predicates: Iterable[Predicate], scope: Scope, inputs: Mapping[str, str] = MappingProxyType({})
) -> tuple[Predicate, ...]:
    """Classify raw predicates, and merge the two sides of a band into one predicate.

    One that reads more than two relations may compare two `inputs` of the join (`Scope.inputs`).
    """
    done: list[Predicate | Difference] = []
    for predicate in predicates:
        if isinstance(predicate, Residual):
            for found in _classified(predicate, scope, inputs if len(predicate.relations) > 2 else {}):
                _add(done, found)
        else:
            done.append(predicate)
    return tuple(dict.fromkeys(one.predicate() if isinstance(one, Difference) else one for one in done))


def _classified(predicate: Residual, scope: Scope, inputs: Mapping[str, str]) -> Sequence[Predicate | Difference]:
    expr = predicate.condition.expr
    if not inputs:
        return _classify(predicate, expr, scope)
    scope = dataclasses.replace(scope, inputs=inputs)
    found = _classify(dataclasses.replace(predicate, condition=scope.term(expr)), expr, scope)
    return [predicate] if any(isinstance(one, Residual) for one in found) else found


def _add(done: list[Predicate | Difference], found: Predicate | Difference) -> None:
    if isinstance(found, Difference):
        for index, known in enumerate(done):
            if isinstance(known, Difference) and known.key == found.key:
                done[index] = known.within(found)
                return
    done.append(found)


# -------------------------------------------------------------------------------------------------------- one conjunct


def _classify(predicate: Residual, expr: Expr, scope: Scope) -> list[Predicate | Difference]:
    expr = bare(expr)
    if len(scope.relations(expr)) != 2 or predicate.sql in scope.left_to_spark:
        return [predicate]
    if any(node.op == "COLLATE" for node in parts_of(expr)):  # as a key, a text would lose its explicit collation
        return [predicate]
    branches = branches_of(expr, scope.relations)
    if branches is not None:
        return [_either(predicate, branches, scope) or predicate]
    match expr:
        case Call("BETWEEN"):
            parts = [found for part in ends_of(expr) for found in _classify(predicate, part, scope)]
            return [predicate] if all(isinstance(part, Residual) for part in parts) else parts
        case Call("=", (left, right)) if is_window(left.type) and is_window(right.type):
            ends = [(_end_of(left, name), _end_of(right, name)) for name in ("start", "end")]
            return [found for end in ends for found in _comparison(predicate, "=", *end, scope) or [predicate]]
        case Call(op, (left, right)) if op in FLIPPED:
            return _comparison(predicate, op, left, right, scope) or [predicate]
    return [predicate]


def _end_of(window: Expr, name: str) -> Expr:
    """Return one end of a window as a number. Inside of structs, NULL equals NULL."""
    text = window.sql
    return parsed(f"IF({text} IS NULL, NULL, COALESCE(unix_micros({text}.`{name}`), {_NO_TIME}))")


def _comparison(
    predicate: Residual, op: ComparisonOp, left: Expr, right: Expr, scope: Scope
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


def _plain(predicate: Predicate, op: ComparisonOp, left: Expr, right: Expr, scope: Scope) -> Compare | NotEqual:
    sides = scope.term(bare(left)), scope.term(bare(right))
    if op == "<>":
        return NotEqual(predicate.sql, predicate.condition, *sides, derived=predicate.derived, places=predicate.places)
    return Compare(predicate.sql, predicate.condition, *sides, op, derived=predicate.derived, places=predicate.places)


# ------------------------------------------------------------------------------------------------------------------ OR


def _either(predicate: Residual, branches: list[list[Expr]], scope: Scope) -> Either | None:
    """Return an OR whose branches the kernel evaluates, None if Spark has to.

    Spark does not evaluate a branch for a pair that an earlier one takes, and the kernel has what all branches compare
    computed beforehand: nothing in it may raise an error, except for the overflow of a sum.
    """
    found = []
    for branch in branches:
        done: list[Predicate | Difference] = []
        for expr in branch:
            if may_fail(expr):
                return None
            part = dataclasses.replace(predicate, condition=scope.term(expr))
            if len(part.relations) == 1:
                there = (at for at in predicate.condition.columns if scope.input_of(at[0]) not in part.relations)
                _add(done, flag(part, predicate, there))
                continue
            for one in _classify(part, expr, scope):
                _add(done, one)
        compared = [one.predicate() if isinstance(one, Difference) else one for one in done]
        kept = tuple(one for one in compared if isinstance(one, Compare | Band | NotEqual))
        if not kept or len(kept) < len(compared):
            return None
        found.append(kept)
    flags = predicate.derived, predicate.places
    return Either(predicate.sql, predicate.condition, tuple(found), derived=flags[0], places=flags[1])


def flag(part: Residual, whole: Residual, there: Iterable[At]) -> Compare:
    """Return a condition over one relation as ``condition = TRUE``, where the other relation has TRUE in every row.

    ``there`` are columns of the other relation, by which the constant moves with it.
    """
    first, second = whole.relations
    (own,) = part.relations
    always = Call("true", tuple(map(column, there)), (ALWAYS,), "boolean")
    flag, constant = part.condition, Term(always, (second if own == first else first,))
    sides = (flag, constant) if own == first else (constant, flag)
    return Compare(part.sql, part.condition, *sides, "=")
