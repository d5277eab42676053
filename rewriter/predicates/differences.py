"""Comparisons of sums over two relations, as bands of a difference.

``ABS(r.a - s.a - 5) <= 1`` is ``4 <= r.a - s.a <= 6``. Only where that is exact: over integers, dates and timestamps
constants move to the other side, and intermediate results of Spark are kept as guards (of one relation) and limits (of
the difference). `rounded_difference` handles fractions:

``ABS(r.x - s.x) < 5`` over DOUBLE is a band whose difference the kernel rounds as Spark does. With a constant inside
(``ABS(r.x - s.x - 1) < 5``) Spark rounds twice: the band is slightly wider, and Spark checks the conjunct. Decimals are
exact, so their constants move to the other side: ``r.x <= s.x + 1.5`` is a band of decimals. Over floats Spark computes
``s.x + 1.5`` first, and that sum is a key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction

from ..plan.comparison import common_type, decimal_digits
from ..plan.conjuncts import FLIPPED, Bounds, ComparisonOp, Residual
from ..plan.expr import Constant, Expr, bare, cast, infix, is_infix, negative, parenthesized, parts_of
from ..sql.expressions import parsed
from ..sql.spark_types import FRACTIONS, INTEGERS, type_of_call
from .bands import Difference, bounds_of
from .constants import exact_constant
from .forms import DAY, Exact, Form, NoFormError, absolute, apart, unit_of
from .overflow import limits_of, may_wrap
from .terms import Scope

#: What rounding can add to a bound, as a share of the numbers that were added.
_ROUNDING = 1e-6

#: Every whole number up to this one is a FLOAT.
_EXACT_FLOAT = 1 << 24

#: Digits of Spark's longest decimals.
_MOST_DIGITS = 38

Ranges = list[tuple[ComparisonOp, Expr, Expr]]


def exact_difference(predicate: Residual, op: ComparisonOp, left: Expr, right: Expr, scope: Scope) -> Difference | None:
    """Return a comparison of integers, dates or times as a band, None if it is not one."""
    ones, others = len(scope.relations(left)), len(scope.relations(right))
    if op not in ("<", "<=", ">", ">=", "=") or (op == "=" and ones < 2 and others < 2):
        return None  # keys are equal
    if not ones:
        left, right, op = right, left, FLIPPED[op]
    if not scope.ansi and any(may_wrap(side) for side in (left, right) if scope.relations(side)):
        return None
    inner = absolute(left)
    if inner is not None and (scope.relations(right) or op not in ("<", "<=")):
        return None
    reader = Exact(scope)
    try:
        form, bound = reader.form(left if inner is None else inner), reader.form(right)
        ends: list[tuple[ComparisonOp, Form]] = [("<=", bound), (">=", bound)] if op == "=" else [(op, bound)]
        if inner is not None:
            ends.append((FLIPPED[op], bound.negated()))
        found = [_band(predicate, end, reader.difference(form, to), scope) for end, to in ends]
        limits, kind = limits_of((left, right), inner, reader)
    except NoFormError:
        return None
    whole = found[0].within(found[-1])
    if op == "=" and whole.bounds.lower != whole.bounds.upper:
        return None
    limits = None if predicate.derived else limits
    return replace(whole, bounds=replace(whole.bounds, limits=limits, computed_as=kind))


def _band(predicate: Residual, op: ComparisonOp, total: Form, scope: Scope) -> Difference:
    """Return ``total <op> 0`` as a band of the difference of its two bases."""
    if len(total.terms) != 2:
        raise NoFormError

    def place(base: Expr) -> int:
        return scope.order.index(scope.relations(base)[0])

    (first, sign), (second, other_sign) = sorted(total.terms, key=lambda term: place(term[0]))
    if sign < 0:
        total, op = total.negated(), FLIPPED[op]
    unit = unit_of(total)
    if sign == other_sign:  # a sum: the difference from the negated second base, which a wider type always holds
        if unit != "integer" or "bigint" in (first.type, second.type):
            raise NoFormError
        second = negative(cast(second, "bigint"))
    bounds = bounds_of(op, -total.low / (DAY if unit == "date" else 1), unit)
    guards = tuple(map(scope.term, sorted(total.guards, key=place)))
    return Difference(scope.term(first), scope.term(second), bounds, guards, (predicate,), predicate.derived)


# ---------------------------------------------------------------------------------------------------------- fractions


@dataclass(frozen=True)
class _Sides:
    """``left - right + shifts``, each side over one relation."""

    left: Expr
    right: Expr
    shifts: tuple[Fraction, ...]


def rounded_difference(
    predicate: Residual, op: ComparisonOp, left: Expr, right: Expr, scope: Scope
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
    sides = _on_two_sides(left, right) if moved else _on_one_side(left if inner is None else inner)
    if sides is None or bound is None or op not in (("<", "<=") if inner is not None else ("<", "<=", ">", ">=")):
        return None
    read = [scope.relations(side) for side in (sides.left, sides.right)]
    common = common_type(sides.left.type, sides.right.type)
    if any(len(one) != 1 for one in read) or read[0] == read[1] or common is None:
        return None
    if common.type in FRACTIONS:
        bounds = None if moved else _of_floats(op, bound, sides.shifts, common.type, is_absolute=inner is not None)
        return None if bounds is None else _difference(predicate, sides, bounds, scope, derived=bool(sides.shifts))
    digits = decimal_digits(common.type)
    parts = [node for side in (left, right) for node in parts_of(side) if node.op in ("CONSTANT", "CAST", "TRY_CAST")]
    if digits is None or any(part.type in FRACTIONS for part in parts):
        return None  # beside a double, a decimal is one too
    longest = max(map(_digits, parts))
    if (moved and not common.exact) or digits[0] + longest + len(sides.shifts) + 1 > _MOST_DIGITS:
        return None  # Spark may drop digits behind the point
    ends = [(op, bound - sum(sides.shifts))]
    if inner is not None:
        ends.append((FLIPPED[op], -bound - sum(sides.shifts)))
    if not common.exact:
        return [(end, sides.left, _plus(sides.right, value)) for end, value in ends]
    first, *more = (bounds_of(end, value * 10 ** digits[1], common.type) for end, value in ends)
    found = _difference(predicate, sides, first.within(more[0]) if more else first, scope)
    overflowing = {scope.relations(side): side for side in (left, right) if moved and side.type in INTEGERS}
    pairs = ((key, overflowing.get(key.relations)) for key in (found.left, found.right))
    return replace(found, guards=tuple(scope.term(side) for key, side in pairs if side and bare(side) != key.expr))


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


def _number(expr: Expr, _: Expr) -> Fraction | None:
    return exact_constant(expr)


def _on_one_side(expr: Expr) -> _Sides | None:
    """Return ``x``, ``y`` and the constants of ``x - y + c``."""
    base, shifts = apart(expr, _number)
    return _Sides(bare(base.args[0]), bare(base.args[1]), tuple(shifts)) if base.op == "-" else None


def _on_two_sides(left: Expr, right: Expr) -> _Sides | None:
    """Return what a comparison of ``x + c`` with ``y + d`` compares with 0, None if it has no constants."""
    (x, mine), (y, others) = apart(left, _number), apart(right, _number)
    shifts = (*mine, *(-one for one in others))
    return _Sides(x, y, shifts) if shifts else None


def _digits(part: Expr) -> int:
    """Return how many digits a constant, or a number cast to a type, has as a decimal."""
    if isinstance(part, Constant):
        return len(re.sub(r"\D", "", part.sql))
    digits = decimal_digits(part.type)
    return digits[0] if digits else 20 if part.type in INTEGERS else 0


def _plus(side: Expr, value: Fraction) -> Expr:
    """Return the sum of a decimal and a constant, with all digits."""
    scale = 0
    while value.denominator != 1:
        value, scale = value * 10, scale + 1
    text = Bounds(f"decimal(38,{scale})", int(value)).text_of(int(value))
    terms = parenthesized(side) if is_infix(side) else side, parsed(text)
    return infix("+", *terms, type_of_call("+", terms))
