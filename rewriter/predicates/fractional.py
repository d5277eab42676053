"""Comparisons of differences of fractions: a slightly wider range for the kernel, and the conjunct itself for Spark.

Constants cannot move to the other side here, for each sum is rounded (`differences` is where they can).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from ..plan.nodes import FLIPPED, ComparisonOp, Predicate
from ..sql.dialect import parse_expression, render
from ..sql.spark_types import FRACTIONS, INTEGERS, is_decimal
from .differences import Types, absolute, bare

#: What rounding can add to a bound, as a share of the numbers that were added.
_ROUNDING = 1e-6


def fractional_difference(
    predicate: Predicate,
    op: ComparisonOp,
    left: exp.Expr,
    right: exp.Expr,
    scope: Types,
    plain: Callable[[ComparisonOp, exp.Expr, exp.Expr], Predicate],
) -> list[Predicate] | None:
    """Return the ranges that pairs lie in and the conjunct itself, None if it is no difference of fractions.

    Rounding is monotonic, so a bound that is wider by more than all rounding errors loses no pair. Only upper bounds of
    the difference the user wrote: NaN is greater than all numbers, so a lower bound lets it pass.
    """
    if not scope.relations(left):
        left, right, op = right, left, FLIPPED[op]
    inner = absolute(left)
    sides = _without_constants(bare(left) if inner is None else inner, scope)
    bound = _fraction(right)
    if sides is None or bound is None or op not in ("<", "<="):
        return None
    one, other, shifts = sides
    kinds = {scope.type_of(side) for side in (one, other)}
    if kinds <= set(FRACTIONS) or ("double" in kinds and kinds <= {"double", *INTEGERS}):
        is_double = True
    elif all(is_decimal(kind) and int(kind[8:].split(",")[0]) <= 30 for kind in kinds):
        is_double = False
        if any("e" in one.name.lower() for tree in (left, right) for one in tree.find_all(exp.Literal)):
            return None
    else:
        return None
    numbers = (*shifts, bound)

    def limit(value: Fraction) -> str:
        if not is_double:
            return _decimal_text(value)
        added = float(sum(map(abs, numbers)))
        wide = float(value) + _ROUNDING * added
        if not shifts:
            wide = float(value) * (1.000001 if value >= 0 else 0.999999)
        return f"{wide:.17E}"

    upper = limit(bound - sum(shifts))
    lower = limit(bound + sum(shifts))
    found = [("<=", one, _plus(other, upper))]
    if inner is not None:
        found.append((">=", _plus(one, lower), other))
    if scope.order.index(scope.relations(one)[0]) > scope.order.index(scope.relations(other)[0]):
        found = [(FLIPPED[end], b, a) for end, a, b in found]
    return [*(plain(end, a, b) for end, a, b in found), predicate]  # type: ignore[arg-type]


def _without_constants(tree: exp.Expr, scope: Types) -> tuple[exp.Expr, exp.Expr, list[Fraction]] | None:
    """Return ``x``, ``y`` and the constants of ``x - y + c``; ``x`` and ``y`` read one relation each."""
    shifts: list[Fraction] = []
    while isinstance(tree, exp.Add | exp.Sub):
        left, right = bare(tree.left), bare(tree.right)
        constant, rest = _fraction(right), left
        if constant is not None and isinstance(tree, exp.Sub):
            constant = -constant
        elif constant is None and isinstance(tree, exp.Add):
            constant, rest = _fraction(left), right
        if constant is None:
            break
        shifts.append(constant)
        tree = rest
    if not isinstance(tree, exp.Sub):
        return None
    sides = bare(tree.left), bare(tree.right)
    if any(len(scope.relations(side)) != 1 for side in sides):
        return None
    return (*sides, shifts)


def _fraction(tree: exp.Expr) -> Fraction | None:
    tree = bare(tree)
    if isinstance(tree, exp.Neg):
        inner = _fraction(tree.this)
        return None if inner is None else -inner
    if isinstance(tree, exp.Literal) and not tree.is_string:
        found = re.fullmatch(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", tree.name)
        return Fraction(tree.name) if found and len(tree.name) < 40 else None
    return None


def _decimal_text(value: Fraction) -> str:
    """Return a sum of decimal literals exactly, as one."""
    scale = 0
    while value.denominator != 1:
        value, scale = value * 10, scale + 1
    digits = f"{abs(int(value)):0{scale + 1}d}"
    text = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return f"-{text}" if value < 0 else text


def _plus(side: exp.Expr, text: str) -> exp.Expr:
    base = f"({render(side)})" if isinstance(side, exp.Binary) else render(side)
    return parse_expression(f"{base} + {text}")
