"""The bands that follow from a distance: ``POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) <= 25``.

A sum of numbers that are not negative is at most 25 only if each of them is, so ``r.x - s.x`` lies between -5 and 5.
The expression is read from the top, by the inverse of each operator: an upper bound of the whole gives one for its
parts, and a bound of a part's magnitude one for the difference in it. The condition itself stays with Spark. A band is
never too narrow: Spark rounds each step, and each step here widens its bound by more than that (`_wider`).

What else can make a condition true:

- NULL: all operations read here are NULL if an operand is, and so is the condition; except ``GREATEST`` and ``LEAST``,
  which pass over NULL.
- NaN is above all numbers for Spark, so an expression with an upper bound is no NaN, and no difference in it is.
- Integers that wrap around where ``spark.sql.ansi.enabled`` is off: nothing follows from them. In ANSI mode an
  overflow makes no condition true, it is an error; as beside other derived predicates, Spark reports it for the pairs
  that it evaluates, and the band reports none.
- Latitudes beyond the poles, where a cosine is negative and a haversine may be small although the latitudes are far
  apart. Where no condition such as ``r.lat BETWEEN -90 AND 90`` rules them out, a band holds unless a latitude is
  beyond (`Near.unless`). Nothing is near NULL, NaN or infinity, whose cosine is NaN; of these only infinity counts as
  beyond.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from ..plan.comparison import common_type, decimal_digits
from ..plan.conjuncts import Bounds
from ..plan.expr import (
    UNKNOWN,
    Call,
    Constant,
    Expr,
    bare,
    chained,
    function,
    infix,
    negation,
    negative,
    parenthesized,
    parts_of,
)
from ..sql.spark_types import FRACTIONS
from .constants import constant
from .known import MARGIN, STEEP, Facts, Known, alike, compared, factors_of, is_exact, is_safe, is_widening, kind_of
from .overflow import may_wrap
from .terms import Scope

#: What a bound grows by at each step beside `MARGIN`: more than the smallest numbers of FLOAT.
_TINY = 1e-40

#: Digits to which the bounds of floats are rounded outwards, to be read.
_READABLE = 6

#: The error of a cosine that is computed by the law of cosines, with room.
_COSINE = 1e-12

#: Digits of decimals whose squares and sums are exact.
_SQUARED, _SUMMED = 15, 30


@dataclass(frozen=True)
class OutOfRange:
    """A number is outside a range around 0, and is not NaN; as a condition, and to be read."""

    condition: Expr
    text: str


@dataclass(frozen=True)
class Near:
    """``left - right`` is within bounds; each side reads one relation, `left` the first in plan order.

    Parameters
    ----------
    unless
        Conditions over one relation each. If one of them is true, nothing follows.
    """

    left: Expr
    right: Expr
    bounds: Bounds
    unless: tuple[OutOfRange, ...] = ()


def near(condition: Expr, scope: Scope, known: Known) -> list[Near]:
    """Return the bands that follow from a condition over two relations.

    Parameters
    ----------
    condition
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
    reader = _Reader(scope, known)
    found = _near(condition, reader)
    assumed = reader.with_unknown_cosine(condition)
    if assumed:
        unless = tuple(_out_of_range(inner, most) for inner, most in assumed.items())
        others = _near(condition, replace(reader, assumed=assumed))
        found = {key: replace(one, unless=unless) for key, one in others.items()} | found
    return list(found.values())


def _near(condition: Expr, reader: _Reader) -> dict[tuple[str, str], Near]:
    """Return the bands by the texts of their sides."""
    found = dict[tuple[str, str], Near]()
    for part, op, value in compared(condition):
        if op not in ("<", "<=", "=") or (not reader.scope.ansi and any(map(_wraps, parts_of(part)))):
            continue
        for one in reader.narrow(part, _wider(value) if value >= 0 else value * (1 - MARGIN)):
            key = one.left.sql, one.right.sql
            same = key in found and one.bounds.unit == found[key].bounds.unit
            found[key] = replace(one, bounds=found[key].bounds.within(one.bounds)) if same else one
    return found


def _out_of_range(inner: Expr, most: float) -> OutOfRange:
    """Return the condition that a number is outside a range; not by ABS, which fails at the least whole number."""
    end = Constant(str(most), Fraction(str(most)))
    condition: Expr = parenthesized(chained("OR", infix("<", inner, negative(end)), infix(">", inner, end)))
    if kind_of(inner) == "float":
        condition = chained("AND", condition, negation(function("ISNAN", inner)))
    return OutOfRange(condition, f"{inner.sql.replace('`', '')} NOT BETWEEN -{most} AND {most}")


def _wraps(node: Expr) -> bool:
    """Return whether a node computes integers that may wrap around."""
    if node.op not in ("*", "+", "-", "NEG", "abs") or kind_of(node) != "integer":
        return False
    return node.op == "*" or may_wrap(node)


def _wider(value: float) -> float:
    """Return a bound from above, not negative, with room for a step's rounding."""
    return value * (1 + MARGIN) + _TINY


class _Reader(Facts):
    """Reads from the top what bounds imply."""

    def with_unknown_cosine(self, condition: Expr) -> dict[Expr, float]:
        """Return the angles whose cosine may be negative, and up to which magnitude (of what is written) it is not.

        Only numbers that Spark may compute for every row.
        """
        found, level, nodes = dict[Expr, float](), [condition], list[Expr]()
        while level:  # in the order in which checkpoints have them
            nodes += level
            level = [arg for node in level for arg in node.args]
        for node in nodes:
            if node.op != "cos" or len(node.args) != 1 or self.cosine_is_positive(node.args[0]):
                continue
            inner, most = bare(node.args[0]), math.pi / 2
            match inner:
                case Call("radians", (degrees,)):
                    inner, most = bare(degrees), 90
            if len(self.scope.relations(inner)) == 1 and kind_of(inner) and is_safe(inner):
                found[inner] = most
        return found

    def narrow(self, expr: Expr, most: float, *, both: bool = False) -> Iterator[Near]:
        """Yield what follows if an expression is at most ``most``, and if ``both`` at least ``-most``.

        The bound has room for the rounding of the last step.
        """
        expr = bare(expr)
        if len(self.scope.relations(expr)) != 2 or not math.isfinite(most) or (both and most < 0):
            return
        found = self.difference(expr, most) if both else None
        if found is not None:
            yield found
        elif expr.op in ("+", "-") and (not both or (expr.op == "+" and self.not_negative(expr))):
            yield from self.of_sum(expr, most)
        elif most >= 0:
            yield from self.of_operator(expr, most, both=both)

    def of_operator(self, expr: Expr, most: float, *, both: bool) -> Iterator[Near]:
        """Yield what follows from a bound, which is not negative, of anything but a sum."""
        match expr:
            case Call("NEG", (inner,)) if both:
                yield from self.narrow(inner, most, both=True)
            case Call("CAST", (inner,)) if is_widening(expr):
                yield from self.narrow(inner, _wider(most), both=both)
            case Call("*", (left, right)) if both and kind_of(expr) == "float":
                for one, other in ((left, right), (right, left)):
                    yield from self.of_share(one, other, most, 1, both=True)
            case Call("*") if not both:
                yield from self.of_product(expr, most)
            case Call("/", (left, right)) if kind_of(expr) == "float":
                yield from self.of_share(left, right, most, -1, both=both)
            case Call("radians" | "degrees" as op, (inner,)) if both:
                factor = math.degrees(1) if op == "radians" else math.radians(1)
                yield from self.narrow(inner, _wider(most * factor) + _TINY * factor, both=True)
            case Call("sin", (inner,)) if both and most < STEEP:
                angle = _wider(math.asin(most))
                if max(map(abs, self.range(inner))) < math.pi - angle - MARGIN:
                    yield from self.narrow(inner, angle, both=True)
            case Call(op, args) if not both or self.not_negative(expr):
                yield from self.of_call(op, args, most)

    def of_share(self, expr: Expr, other: Expr, most: float, power: int, *, both: bool) -> Iterator[Near]:
        """Yield what follows from a bound of ``expr * other``, or of ``expr / other``, if the other is a constant."""
        value = constant(other)
        if value is not None and 1e-30 < abs(value) < 1e30 and (both or value > 0):
            share = 1 / abs(value) if power > 0 else abs(value)
            yield from self.narrow(expr, _wider(most * share) + _TINY * share, both=both)

    def of_sum(self, expr: Expr, most: float) -> Iterator[Near]:
        """Yield what follows from a sum; rounding keeps it at or above each part, if none is negative."""
        (left, right), is_sum = expr.args, expr.op == "+"
        for one, other in ((left, right), (right, left)):
            value = constant(other)
            if value is not None and (is_sum or other is right):
                moved = most - value if is_sum else most + value
                yield from self.narrow(one, moved + MARGIN * (abs(most) + abs(value)) + _TINY)
            elif most >= 0 and is_sum and is_exact(expr, _SUMMED) and self.not_negative(other):
                yield from self.narrow(one, _wider(most))

    def of_product(self, expr: Expr, most: float) -> Iterator[Near]:
        """Yield what follows from a square, or from a product whose other factors are not near 0."""
        factors = list(factors_of(expr))
        least, varying = 1.0, []
        for factor in factors:
            low = self.range(factor)[0]
            if low > 0:
                least *= low * (1 - MARGIN)
            else:
                varying.append(factor)
        cut_off = len(varying) < len(factors) and kind_of(expr) == "decimal"  # digits may be
        if not 1e-30 < least < 1e30 or not kind_of(expr) or cut_off:
            return
        most = _wider(most / least) + _TINY / least
        if len(varying) == 1:
            yield from self.narrow(varying[0], most)
        elif len(varying) == 2 and alike(*varying) and is_exact(varying[0], _SQUARED):
            yield from self.narrow(varying[0], _wider(math.sqrt(most)), both=True)

    def of_call(self, op: str, args: tuple[Expr, ...], most: float) -> Iterator[Near]:
        """Yield what follows from a function of Spark's."""
        match op, args:
            case "power" | "pow", (base, exponent) if most < 1e150:
                value = constant(exponent)
                if value is not None and value >= 0.5 and (value % 2 == 0 or self.not_negative(base)):
                    root = _wider(most ** (1 / value)) + _TINY ** (1 / value)  # it may be 0 for a base that is not
                    yield from self.narrow(base, root, both=value % 2 == 0)
            case "sqrt", (inner,) if most < 1e150:
                yield from self.narrow(inner, _wider(most * most))
            case "abs", (inner,):
                yield from self.narrow(inner, most, both=True)
            case "levenshtein", (text, other_text):  # each character more is an edit
                lengths = [function("LENGTH", bare(side), type_="int") for side in (text, other_text)]
                yield from self.narrow(infix("-", lengths[0], lengths[1], "int"), most, both=True)
            case "hypot", (_, _):
                for side in args:
                    yield from self.narrow(side, _wider(most), both=True)
            case "greatest", _:
                for one in filter(self.is_given, args):
                    yield from self.narrow(one, _wider(most))
            case "least", (one, other):
                for cap, inner in ((one, other), (other, one)):
                    value = constant(cap)
                    if value is not None and value > _wider(most):
                        yield from self.narrow(inner, _wider(most))
            case "asin", (inner,) if most < math.pi / 2 * STEEP:
                yield from self.narrow(inner, _wider(math.sin(most)))
            case "atan2", (one, other) if most < math.pi / 2 * STEEP:
                yield from self.of_half_angle(bare(one), bare(other), most)
            case "acos", (inner,) if most < math.pi:
                yield from self.of_cosines(bare(inner), math.cos(_wider(most)) - _COSINE)

    def of_half_angle(self, one: Expr, other: Expr, most: float) -> Iterator[Near]:
        """Yield what follows from ``ATAN2(SQRT(a), SQRT(1 - a))``, which is ``ASIN(SQRT(a))``."""
        match [bare(side.args[0]) for side in (one, other) if side.op == "sqrt"]:
            case a, Call("-", (whole, rest)) if constant(whole) == 1 and alike(rest, a) and kind_of(a) == "float":
                yield from self.narrow(a, _wider(math.sin(_wider(most)) ** 2))

    def of_cosines(self, expr: Expr, least: float) -> Iterator[Near]:
        """Yield what follows if ``SIN(a) * SIN(b) + COS(a) * COS(b) * COS(...)`` is at least ``least``.

        That is at most ``COS(a - b)``, where no cosine of ``a`` and ``b`` is negative.
        """
        if expr.op != "+" or not -1 < least < 1:
            return
        for sides in (expr.args, expr.args[::-1]):
            sines, cosines = (list(factors_of(side)) for side in sides)
            if [one.op for one in sines] != ["sin"] * 2 or [one.op for one in cosines] != ["cos"] * 3:
                continue
            angles, inside = ([bare(one.args[0]) for one in some] for some in (sines, cosines))
            if all(angle in inside and self.cosine_is_positive(angle) for angle in angles):
                yield from self.narrow(infix("-", angles[0], angles[1], UNKNOWN), _wider(math.acos(least)), both=True)

    def difference(self, expr: Expr, most: float) -> Near | None:
        """Return the band of ``x - y + c`` between ``-most`` and ``most``, each of x and y over one relation."""
        shift = 0.0
        while expr.op in ("+", "-") and (value := constant(expr.args[1])) is not None:
            shift += value if expr.op == "+" else -value
            expr = bare(expr.args[0])
        if expr.op != "-":
            return None
        left, right = map(bare, expr.args)
        read = [self.scope.relations(side) for side in (left, right)]
        if any(len(one) != 1 for one in read) or read[0] == read[1] or not (is_safe(left) and is_safe(right)):
            return None
        bounds = _bounds(left, right, most, shift)
        if bounds is None:
            return None
        order = self.scope.order
        if order.index(read[0][0]) > order.index(read[1][0]):
            return Near(right, left, bounds.negated())
        return Near(left, right, bounds)


def _type_of(expr: Expr) -> str:
    """Return Spark's type of a key, with that of the functions read here."""
    return "double" if expr.type == UNKNOWN and kind_of(expr) == "float" else expr.type


def _bounds(left: Expr, right: Expr, most: float, shift: float) -> Bounds | None:
    """Return the bounds of a difference in the type that Spark computes it in."""
    common = common_type(_type_of(left), _type_of(right))
    if common is None or not common.exact:
        return None
    low, high = -most - shift, most - shift
    if common.type in FRACTIONS:
        room = MARGIN * (most + abs(shift)) if shift else 0.0
        return Bounds(common.type, _outwards(low - room, down=True), _outwards(high + room, down=False), True, True)
    digits = decimal_digits(common.type)
    unit = common.type if digits else "integer"
    if shift:  # exact, so only the text of the constant can have lost digits
        low, high = low - MARGIN * abs(shift), high + MARGIN * abs(shift)
    one = 10 ** (digits[1] if digits else 0)
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
