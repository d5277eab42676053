"""The bands that follow from a distance: ``POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) <= 25``.

A sum of numbers that are not negative is at most 25 only if each of them is, so ``r.x - s.x`` lies between -5 and 5.
The expression is read from the top: an upper bound of the whole gives one for its parts, and a bound of a part's
magnitude one for the difference in it. The condition itself stays with Spark. A band is never too narrow: Spark rounds
each step, and each step here widens its bound by more than that (`_wider`).

What else can make a condition true:

- NULL: all operations read here are NULL if an operand is, and so is the condition; except ``GREATEST`` and ``LEAST``,
  which pass over NULL.
- NaN is above all numbers for Spark, so an expression with an upper bound is no NaN, and no difference in it is.
- Integers that wrap around where ``spark.sql.ansi.enabled`` is off: nothing follows from them. In ANSI mode an
  overflow makes no condition true, it is an error; as beside other derived predicates, Spark reports it for the pairs
  that it evaluates, and the band reports none.
- Latitudes beyond the poles, where a cosine is negative (`poles`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from sqlglot import exp

from ..plan.comparison import common_type, decimal_precision, decimal_scale
from ..plan.conjuncts import Bounds
from ..sql.dialect import render
from ..sql.functions import called
from ..sql.spark_types import FRACTIONS
from .constants import constant
from .differences import may_wrap
from .known import MARGIN, STEEP, Facts, Known, alike, compared, factors_of, kind_of
from .poles import OutOfRange, out_of_range, with_unknown_cosine
from .terms import Scope, bare

#: What a bound grows by at each step beside `MARGIN`: more than the smallest numbers of FLOAT.
_TINY = 1e-40

#: Digits to which the bounds of floats are rounded outwards, to be read.
_READABLE = 6

#: The error of a cosine that is computed by the law of cosines, with room.
_COSINE = 1e-12

#: Digits of decimals whose squares and sums are exact.
_SQUARED, _SUMMED = 15, 30


@dataclass(frozen=True)
class Near:
    """``left - right`` is within bounds; each side reads one relation, `left` the first in plan order.

    Parameters
    ----------
    unless
        Conditions over one relation each. If one of them is true, nothing follows.
    """

    left: exp.Expr
    right: exp.Expr
    bounds: Bounds
    unless: tuple[OutOfRange, ...] = ()


def near(tree: exp.Expr, scope: Scope, known: Known) -> list[Near]:
    """Return the bands that follow from a condition over two relations.

    Parameters
    ----------
    tree
        A comparison with a constant, or BETWEEN constants; from others nothing follows.
    scope
        The relations and types.
    known
        What is known of the columns.

    Returns
    -------
    list
        One for each difference, without repetitions.
    """
    found = _near(tree, _Reader(scope, known))
    assumed = with_unknown_cosine(tree, Facts(scope, known))
    if assumed:
        unless = tuple(out_of_range(inner, most, scope) for inner, most in assumed.items())
        others = _near(tree, _Reader(scope, known, assumed))
        found = {key: replace(one, unless=unless) for key, one in others.items()} | found
    return list(found.values())


def _near(tree: exp.Expr, reader: _Reader) -> dict[tuple[str, str], Near]:
    """Return the bands by the texts of their sides."""
    scope, found = reader.scope, dict[tuple[str, str], Near]()
    for part, most in _limits(bare(tree)):
        if not scope.ansi and any(_wraps(node, scope) for node in part.walk()):
            continue
        for one in reader.upper(part, most):
            key = render(one.left), render(one.right)
            narrower = key not in found or one.bounds.unit != found[key].bounds.unit
            bounds = one.bounds if narrower else found[key].bounds.within(one.bounds)
            found[key] = Near(one.left, one.right, bounds)
    return found


def _limits(tree: exp.Expr) -> Iterator[tuple[exp.Expr, float]]:
    """Yield what a condition limits from above, and the limit."""
    for part, op, value in compared(tree):
        if op in ("<", "<=", "="):
            yield part, _wider(value) if value >= 0 else value * (1 - MARGIN)


def _wraps(node: exp.Expr, scope: Scope) -> bool:
    """Return whether a node computes integers that may wrap around."""
    if isinstance(node, exp.Mul):
        return kind_of(node, scope) == "integer"
    return isinstance(node, exp.Add | exp.Sub | exp.Neg) and kind_of(node, scope) == "integer" and may_wrap(node, scope)


def _wider(value: float) -> float:
    """Return a bound from above, not negative, with room for a step's rounding."""
    return value * (1 + MARGIN) + _TINY


class _Reader(Facts):
    """Reads from the top what bounds imply."""

    def upper(self, tree: exp.Expr, most: float) -> Iterator[Near]:
        """Yield what follows if an expression is at most ``most``, which has room for the last step's rounding."""
        tree = bare(tree)
        if not self.is_over_both(tree) or not math.isfinite(most):
            return
        if isinstance(tree, exp.Add | exp.Sub):
            yield from self.of_sum(tree, most)
        if most < 0:
            return
        match tree:
            case exp.Cast() if self.is_widening(tree):
                yield from self.upper(tree.this, _wider(most))
            case exp.Mul():
                yield from self.of_product(tree, most)
            case exp.Div():
                value = constant(tree.right)
                if value is not None and value > 0 and self.kind(tree) == "float":
                    yield from self.upper(tree.left, _wider(most * value) + _TINY * value)
            case exp.Anonymous():
                yield from self.of_call(called(tree), list(tree.expressions), most)

    def of_sum(self, tree: exp.Binary, most: float) -> Iterator[Near]:
        """Yield what follows from a sum; rounding keeps it at or above each part, if none is negative."""
        left, right = tree.left, tree.right
        for one, other in ((left, right), (right, left)):
            value = constant(other)
            if value is not None and (isinstance(tree, exp.Add) or other is right):
                moved = most - value if isinstance(tree, exp.Add) else most + value
                yield from self.upper(one, moved + MARGIN * (abs(most) + abs(value)) + _TINY)
            elif most >= 0 and isinstance(tree, exp.Add) and self.is_exact(tree, _SUMMED) and self.not_negative(other):
                yield from self.upper(one, _wider(most))

    def of_product(self, tree: exp.Mul, most: float) -> Iterator[Near]:
        """Yield what follows from a square, or from a product whose other factors are not near 0."""
        factors = list(factors_of(tree))
        least, varying = 1.0, []
        for factor in factors:
            value = constant(factor)
            low = value if value is not None else self.least(factor)
            if low is not None and low > 0:
                least *= low * (1 - MARGIN)
            else:
                varying.append(factor)
        if not 1e-30 < least < 1e30 or not self.kind(tree):
            return
        if len(varying) < len(factors) and self.kind(tree) == "decimal":  # digits may be cut off
            return
        most = _wider(most / least) + _TINY / least
        if len(varying) == 1:
            yield from self.upper(varying[0], most)
        elif len(varying) == 2 and alike(*varying) and self.is_exact(varying[0], _SQUARED):
            yield from self.magnitude(varying[0], _wider(math.sqrt(most)))

    def of_call(self, name: str, given: list[exp.Expr], most: float) -> Iterator[Near]:
        """Yield what follows from a function of Spark's."""
        match name, given:
            case (("power" | "pow"), [base, exponent]) if most < 1e150:
                value = constant(exponent)
                if value is not None and value >= 0.5 and (value % 2 == 0 or self.not_negative(base)):
                    root = most ** (1 / value)
                    rounding = _TINY ** (1 / value)  # Spark's power may be 0 for a base that is not
                    if value % 2 == 0:
                        yield from self.magnitude(base, _wider(root) + rounding)
                    else:
                        yield from self.upper(base, _wider(root) + rounding)
            case "sqrt", [inner] if most < 1e150:
                yield from self.upper(inner, _wider(most * most))
            case "abs", [inner]:
                yield from self.magnitude(inner, most)
            case "hypot", [one, other]:
                for side in (one, other):
                    yield from self.magnitude(side, _wider(most))
            case "greatest", _:
                for one in filter(self.is_given, given):
                    yield from self.upper(one, _wider(most))
            case "least", [one, other]:
                for cap, inner in ((one, other), (other, one)):
                    value = constant(cap)
                    if value is not None and value > _wider(most):
                        yield from self.upper(inner, _wider(most))
            case "asin", [inner] if most < math.pi / 2 * STEEP:
                yield from self.upper(inner, _wider(math.sin(most)))
            case "atan2", [one, other] if most < math.pi / 2 * STEEP:
                yield from self.of_half_angle(one, other, most)
            case "acos", [inner] if most < math.pi:
                yield from self.of_cosines(inner, math.cos(_wider(most)) - _COSINE)

    def of_half_angle(self, one: exp.Expr, other: exp.Expr, most: float) -> Iterator[Near]:
        """Yield what follows from ``ATAN2(SQRT(a), SQRT(1 - a))``, which is ``ASIN(SQRT(a))``."""
        roots = [bare(side.expressions[0]) if called(side) == "sqrt" else None for side in (bare(one), bare(other))]
        a, rest = roots
        if a is None or not isinstance(rest, exp.Sub) or constant(rest.left) != 1:
            return
        if alike(rest.right, a) and self.kind(a) == "float":
            yield from self.upper(a, _wider(math.sin(_wider(most)) ** 2))

    def of_cosines(self, tree: exp.Expr, least: float) -> Iterator[Near]:
        """Yield what follows if ``SIN(a) * SIN(b) + COS(a) * COS(b) * COS(...)`` is at least ``least``.

        That is at most ``COS(a - b)``, where no cosine of ``a`` and ``b`` is negative.
        """
        tree = bare(tree)
        if not isinstance(tree, exp.Add) or not -1 < least < 1:
            return
        for one, other in ((tree.left, tree.right), (tree.right, tree.left)):
            sines, cosines = ([bare(part) for part in factors_of(side)] for side in (one, other))
            if [called(part) for part in sines] != ["sin"] * 2 or [called(part) for part in cosines] != ["cos"] * 3:
                continue
            first, second = (bare(part.expressions[0]) for part in sines)
            inside = [render(bare(part.expressions[0])) for part in cosines]
            if not all(render(angle) in inside and self.cosine_is_positive(angle) for angle in (first, second)):
                continue
            yield from self.magnitude(exp.Sub(this=first.copy(), expression=second.copy()), _wider(math.acos(least)))

    def magnitude(self, tree: exp.Expr, most: float) -> Iterator[Near]:
        """Yield what follows if an expression lies between ``-most`` and ``most``."""
        tree = bare(tree)
        if not self.is_over_both(tree) or most < 0 or not math.isfinite(most):
            return
        found = self.difference(tree, most)
        if found is not None:
            yield found
            return
        match tree:
            case exp.Neg():
                yield from self.magnitude(tree.this, most)
            case exp.Cast() if self.is_widening(tree):
                yield from self.magnitude(tree.this, _wider(most))
            case exp.Mul() | exp.Div() if self.kind(tree) == "float":
                sides = ((tree.left, tree.right), (tree.right, tree.left))
                for one, other in sides[: 2 if isinstance(tree, exp.Mul) else 1]:
                    value = constant(other)
                    if value is not None and 1e-30 < abs(value) < 1e30:
                        share = 1 / abs(value) if isinstance(tree, exp.Mul) else abs(value)
                        yield from self.magnitude(one, _wider(most * share) + _TINY * share)
            case exp.Anonymous():
                name, given = called(tree), list(tree.expressions)
                if name in ("radians", "degrees") and len(given) == 1:
                    factor = math.degrees(1) if name == "radians" else math.radians(1)
                    yield from self.magnitude(given[0], _wider(most * factor) + _TINY * factor)
                elif name == "sin" and len(given) == 1 and most < STEEP:
                    angle, ends = _wider(math.asin(most)), self.ends(given[0])
                    if ends is not None and max(map(abs, ends)) < math.pi - angle - MARGIN:
                        yield from self.magnitude(given[0], angle)
                elif self.not_negative(tree):
                    yield from self.upper(tree, most)
            case exp.Add() if self.not_negative(tree):
                yield from self.upper(tree, most)

    def difference(self, tree: exp.Expr, most: float) -> Near | None:
        """Return the band of ``x - y + c`` between ``-most`` and ``most``, each of x and y over one relation."""
        shift = 0.0
        while isinstance(tree, exp.Add | exp.Sub) and (value := constant(tree.right)) is not None:
            shift += value if isinstance(tree, exp.Add) else -value
            tree = bare(tree.left)
        if not isinstance(tree, exp.Sub):
            return None
        left, right = bare(tree.left), bare(tree.right)
        read = [self.scope.relations(side) for side in (left, right)]
        if any(len(one) != 1 for one in read) or read[0] == read[1]:
            return None
        if not all(self.is_safe(side) for side in (left, right)):
            return None
        bounds = self.bounds(left, right, most, shift)
        if bounds is None:
            return None
        order = self.scope.order
        if order.index(read[0][0]) > order.index(read[1][0]):
            return Near(right, left, bounds.negated())
        return Near(left, right, bounds)

    def bounds(self, left: exp.Expr, right: exp.Expr, most: float, shift: float) -> Bounds | None:
        """Return the bounds of a difference in the type that Spark computes it in."""
        names = [self.type_of(side) for side in (left, right)]
        common = common_type(*names)
        if common is None or not common.exact:
            return None
        low, high = -most - shift, most - shift
        if common.type in FRACTIONS:
            room = MARGIN * (most + abs(shift)) if shift else 0.0
            return Bounds(common.type, _outwards(low - room, down=True), _outwards(high + room, down=False), True, True)
        scale, precision = decimal_scale(common.type), decimal_precision(common.type)
        unit = "integer" if scale is None or precision is None else common.type
        if shift:  # exact, so only the text of the constant can have lost digits
            low, high = low - MARGIN * abs(shift), high + MARGIN * abs(shift)
        one = 10 ** (scale or 0)
        return Bounds(unit, math.ceil(Fraction(low) * one), math.floor(Fraction(high) * one), True, True)


def _outwards(value: float, *, down: bool) -> float:
    """Return a number of few digits that is not on the inner side of another one.

    Examples
    --------
    >>> _outwards(2.5000020000001, down=False), _outwards(-2.5000020000001, down=True)
    (2.50001, -2.50001)
    """
    digits = Context(prec=_READABLE, rounding=ROUND_FLOOR if down else ROUND_CEILING)
    found = float(digits.create_decimal(Decimal(value)))
    is_inside = found > value if down else found < value
    return math.nextafter(found, -math.inf if down else math.inf) if is_inside else found
