"""Differences of fractions: of floats, which Spark rounds, and of decimals.

``ABS(r.x - s.x) < 5`` over DOUBLE is a band whose difference the kernel rounds as Spark does. With a constant inside
(``ABS(r.x - s.x - 1) < 5``) Spark rounds twice: the band is slightly wider, and Spark checks the conjunct. Decimals are
exact, so their constants move to the other side: ``r.x <= s.x + 1.5`` is a band of decimals. Over floats Spark computes
``s.x + 1.5`` first, and that sum is a key.
"""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction

from sqlglot import exp

from ..plan.comparison import common_type, decimal_precision, decimal_scale
from ..plan.conjuncts import FLIPPED, Bounds, ComparisonOp, Residual
from ..sql.dialect import parse_expression, render
from ..sql.spark_types import FRACTIONS, INTEGERS, type_name
from .bands import Difference, bounds_of
from .constants import exact_constant
from .differences import absolute
from .terms import Scope, bare

#: What rounding can add to a bound, as a share of the numbers that were added.
_ROUNDING = 1e-6

#: Every whole number up to this one is a FLOAT.
_EXACT_FLOAT = 1 << 24

#: Digits of Spark's longest decimals.
_MOST_DIGITS = 38

Ranges = list[tuple[ComparisonOp, exp.Expr, exp.Expr]]


@dataclasses.dataclass(frozen=True)
class _Sides:
    """``left - right + shifts``, each side over one relation."""

    left: exp.Expr
    right: exp.Expr
    shifts: tuple[Fraction, ...]


def rounded_difference(
    predicate: Residual, op: ComparisonOp, left: exp.Expr, right: exp.Expr, scope: Scope
) -> Difference | Ranges | None:
    """Return a band for a difference of fractions beside a constant, None if the comparison is something else.

    Returns
    -------
    Difference
        The band; if ``derived``, the band is only implied, and the conjunct has to be evaluated too.
    list
        Comparisons of one side with a sum of the other, for decimals with too many digits for a band.
    """
    if not scope.relations(left):
        left, right, op = right, left, FLIPPED[op]
    moved = bool(scope.relations(right))
    inner = None if moved else absolute(left)
    bound = Fraction(0) if moved else exact_constant(right)
    sides = _moved(left, right, scope) if moved else _sides(bare(left) if inner is None else inner, scope)
    if sides is None or bound is None or op not in (("<", "<=") if inner is not None else ("<", "<=", ">", ">=")):
        return None
    common = common_type(scope.type_of(sides.left), scope.type_of(sides.right))
    if common is None or (moved and (not common.exact or common.type in ("float", "double"))):
        return None
    if common.type in ("float", "double"):
        bounds = _of_floats(op, bound, sides.shifts, common.type, is_absolute=inner is not None)
        return None if bounds is None else _difference(predicate, sides, bounds, scope, derived=bool(sides.shifts))
    precision, scale = decimal_precision(common.type), decimal_scale(common.type)
    if precision is None or scale is None or any(_has_double(tree) for tree in (left, right)):
        return None
    longest = max(_digits(one) for tree in (left, right) for one in tree.find_all(exp.Literal, exp.Cast))
    if precision + longest + len(sides.shifts) + 1 > _MOST_DIGITS:  # Spark may drop digits behind the point
        return None
    ends = [(op, bound - sum(sides.shifts))]
    if inner is not None:
        ends.append((FLIPPED[op], -bound - sum(sides.shifts)))
    if not common.exact:
        return [(end, sides.left, _plus(sides.right, value)) for end, value in ends]
    first, *more = (bounds_of(end, value * 10**scale, common.type) for end, value in ends)
    return _difference(predicate, sides, first.within(more[0]) if more else first, scope)


def _of_floats(
    op: ComparisonOp, bound: Fraction, shifts: tuple[Fraction, ...], kind: str, *, is_absolute: bool
) -> Bounds | None:
    """Return the bounds of ``x - y``; NaN is above every number, so it is within bounds without an upper end."""
    if shifts:
        if op not in ("<", "<="):
            return None
        margin = _ROUNDING * float(sum(map(abs, (*shifts, bound))))
        upper, lower = float(bound - sum(shifts)) + margin, float(-bound - sum(shifts)) - margin
        return Bounds(kind, lower if is_absolute else None, upper, is_absolute, True)
    value, inclusive = float(bound), op in ("<=", ">=")
    if kind == "float" and bound.denominator == 1 and abs(bound) > _EXACT_FLOAT:
        return None  # a whole number may be rounded before it is compared with a FLOAT
    if is_absolute:
        return Bounds(kind, -value, value, inclusive, inclusive)
    if op in ("<", "<="):
        return Bounds(kind, upper=value, upper_inclusive=inclusive)
    return Bounds(kind, lower=value, lower_inclusive=inclusive, nan=True)


def _difference(
    predicate: Residual, sides: _Sides, bounds: Bounds, scope: Scope, *, derived: bool = False
) -> Difference:
    left, right = scope.term(bare(sides.left)), scope.term(bare(sides.right))
    if scope.order.index(left.relations[0]) > scope.order.index(right.relations[0]):
        left, right, bounds = right, left, bounds.negated()
    return Difference(left, right, bounds, (), (predicate,), derived or predicate.derived)


def _sides(tree: exp.Expr, scope: Scope) -> _Sides | None:
    """Return ``x``, ``y`` and the constants of ``x - y + c``; ``x`` and ``y`` read one relation each."""
    tree, shifts = _without_constants(tree)
    return _over_two(bare(tree.left), bare(tree.right), shifts, scope) if isinstance(tree, exp.Sub) else None


def _moved(left: exp.Expr, right: exp.Expr, scope: Scope) -> _Sides | None:
    """Return what a comparison of ``x + c`` with ``y + d`` compares with 0, None if it has no constants."""
    (x, mine), (y, others) = _without_constants(bare(left)), _without_constants(bare(right))
    shifts = (*mine, *(-one for one in others))
    return _over_two(x, y, shifts, scope) if shifts else None


def _over_two(left: exp.Expr, right: exp.Expr, shifts: tuple[Fraction, ...], scope: Scope) -> _Sides | None:
    read = [scope.relations(side) for side in (left, right)]
    if any(len(one) != 1 for one in read) or read[0] == read[1]:
        return None
    return _Sides(left, right, shifts)


def _without_constants(tree: exp.Expr) -> tuple[exp.Expr, tuple[Fraction, ...]]:
    """Return a sum without its constants, and the constants."""
    shifts: list[Fraction] = []
    while isinstance(tree, exp.Add | exp.Sub):
        left, right = bare(tree.left), bare(tree.right)
        constant, rest = exact_constant(right), left
        if constant is not None and isinstance(tree, exp.Sub):
            constant = -constant
        elif constant is None and isinstance(tree, exp.Add):
            constant, rest = exact_constant(left), right
        if constant is None:
            break
        shifts.append(constant)
        tree = rest
    return tree, tuple(shifts)


def _digits(tree: exp.Expr) -> int:
    """Return how many digits a constant has as a decimal, 0 for what is none."""
    if isinstance(tree, exp.Literal):
        return len(re.sub(r"\D", "", tree.name))
    kind = type_name(render(tree.args["to"]))
    return decimal_precision(kind) or (20 if kind in INTEGERS else 0)


def _has_double(tree: exp.Expr) -> bool:
    """Return whether something in an expression is a double: beside it a decimal is one too."""
    types = (type_name(render(one.args["to"])) for one in tree.find_all(exp.Cast))
    exponent = ("e" in one.name.lower() for one in tree.find_all(exp.Literal) if not one.is_string)
    return any(exponent) or any(kind in FRACTIONS for kind in types)


def _plus(side: exp.Expr, value: Fraction) -> exp.Expr:
    """Return the sum of a decimal and a constant, with all digits."""
    scale = 0
    while value.denominator != 1:
        value, scale = value * 10, scale + 1
    text = Bounds(f"decimal(38,{scale})", int(value)).text_of(int(value))
    base = f"({render(side)})" if isinstance(side, exp.Binary) else render(side)
    return parse_expression(f"{base} + {text}")
