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
- Latitudes beyond the poles: a cosine may be negative then, and a haversine small although the latitudes are far apart.
  Where no condition such as ``r.lat BETWEEN -90 AND 90`` rules them out, the band holds unless a latitude is beyond
  (`Near.unless`). Nothing is near NULL, NaN or infinity, whose cosine is NaN; of these only infinity counts as beyond.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from sqlglot import exp

from ..plan.comparison import common_type, decimal_precision, decimal_scale
from ..plan.conjuncts import FLIPPED, At, Bounds, ComparisonOp
from ..sql.dialect import parse_expression, render
from ..sql.functions import called
from ..sql.spark_types import FRACTIONS, INTEGERS, UNKNOWN, is_decimal
from .constants import constant
from .differences import may_wrap
from .terms import OPERATORS, Scope, bare

#: By how much a bound grows at each step: more than an operation over FLOAT loses, and more than its smallest numbers.
_MARGIN, _TINY = 2e-7, 1e-40

#: Digits to which the bounds of floats are rounded outwards, to be read.
_READABLE = 6

#: The error of a cosine that is computed by the law of cosines, with room.
_COSINE = 1e-12

#: The largest share of a right angle that is inverted: near it, the sine says little.
_STEEP = 0.999

#: Digits of decimals whose squares and sums are exact.
_SQUARED, _SUMMED = 15, 30

#: Functions of one DOUBLE that raise no error; they cast numbers, and only numbers are read here.
_PLAIN = ("radians", "degrees", "sin", "cos", "sqrt")
_DOUBLES = (*_PLAIN, "power", "pow", "hypot", "asin", "acos", "atan2", "pi", "exp")

#: A closed range of numbers.
Range = tuple[float, float]


@dataclass(frozen=True)
class Known:
    """What other conditions of a query say of its columns.

    Parameters
    ----------
    ranges
        The least and the greatest value of a column that is neither NULL nor NaN.
    not_null
        Columns that are not NULL.
    """

    ranges: Mapping[At, Range] = field(default_factory=dict)
    not_null: frozenset[At] = frozenset()


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
    unless: tuple[Beyond, ...] = ()


@dataclass(frozen=True)
class Beyond:
    """A number is outside a range around 0, and is not NaN; as a condition, and to be read."""

    condition: exp.Expr
    text: str


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
    slanted = _Reader(scope, known, _slanted(tree, scope, known))
    if slanted.assumed:
        unless = tuple(_beyond(inner, most, scope) for inner, most in slanted.assumed.items())
        found = {key: replace(one, unless=unless) for key, one in _near(tree, slanted).items()} | found
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


def known_of(conditions: Iterable[exp.Expr], given: frozenset[At] = frozenset()) -> Known:
    """Read the ranges of columns off conditions over one relation; ``given`` are further columns that are not NULL.

    Only a column with both ends has a range: for Spark, NaN is above every number.
    """
    lows: dict[At, float] = {}
    highs: dict[At, float] = {}
    not_null = set(given)
    for tree in conditions:
        for column, op, value in _ends(bare(tree)):
            not_null.add(column)
            if op in (">", ">=", "="):
                lows[column] = max(value, lows.get(column, -math.inf))
            if op in ("<", "<=", "="):
                highs[column] = min(value, highs.get(column, math.inf))
        if isinstance(tree, exp.Not) and isinstance(inner := bare(tree.this), exp.Is):
            column_tree = bare(inner.this)
            if isinstance(column_tree, exp.Column) and isinstance(inner.expression, exp.Null):
                not_null.add((column_tree.table, column_tree.name))
    ranges = {column: (low, highs[column]) for column, low in lows.items() if column in highs}
    return Known(ranges, frozenset(not_null))


# ---------------------------------------------------------------------------------------------------- what is compared


def _compared(tree: exp.Expr) -> Iterator[tuple[exp.Expr, ComparisonOp, float]]:
    """Yield ``expression op constant`` of a comparison or BETWEEN."""
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        low, high = constant(tree.args["low"]), constant(tree.args["high"])
        if low is not None:
            yield bare(tree.this), ">=", low
        if high is not None:
            yield bare(tree.this), "<=", high
        return
    op = OPERATORS.get(type(tree))
    if op is None:
        return
    for one, other, turned in ((tree.this, tree.expression, op), (tree.expression, tree.this, FLIPPED[op])):
        value = constant(other)
        if value is not None:
            yield bare(one), turned, value


def _limits(tree: exp.Expr) -> Iterator[tuple[exp.Expr, float]]:
    """Yield what a condition limits from above, and the limit."""
    for part, op, value in _compared(tree):
        if op in ("<", "<=", "="):
            yield part, _wider(value) if value >= 0 else value * (1 - _MARGIN)


def _ends(tree: exp.Expr) -> Iterator[tuple[At, str, float]]:
    """Yield the ends that a condition sets to a column: also by ``ABS(r.lat) <= 90``."""
    for part, op, value in _compared(tree):
        if isinstance(part, exp.Column):
            yield (part.table, part.name), op, value
        elif called(part) == "abs" and isinstance(inner := bare(part.expressions[0]), exp.Column) and op in ("<", "<="):
            yield (inner.table, inner.name), op, value
            yield (inner.table, inner.name), ">=", -value


def _wraps(node: exp.Expr, scope: Scope) -> bool:
    """Return whether a node computes integers that may wrap around."""
    if isinstance(node, exp.Mul):
        return _kind(node, scope) == "integer"
    return isinstance(node, exp.Add | exp.Sub | exp.Neg) and _kind(node, scope) == "integer" and may_wrap(node, scope)


def _wider(value: float) -> float:
    """Return a bound from above, not negative, with room for a step's rounding."""
    return value * (1 + _MARGIN) + _TINY


# ---------------------------------------------------------------------------------------------------- beyond the poles


def _slanted(tree: exp.Expr, scope: Scope, known: Known) -> dict[exp.Expr, float]:
    """Return the numbers whose cosine may be negative for all that is known, and up to which magnitude it is not.

    Only numbers that Spark may compute for every row.
    """
    reader, found = _Reader(scope, known), dict[exp.Expr, float]()
    for node in tree.find_all(exp.Anonymous):
        if called(node) != "cos" or len(node.expressions) != 1 or reader.is_upright(node.expressions[0]):
            continue
        inner, most = bare(node.expressions[0]), math.pi / 2
        if called(inner) == "radians" and len(inner.expressions) == 1:
            inner, most = bare(inner.expressions[0]), 90
        if len(scope.relations(inner)) == 1 and reader.kind(inner) and reader.is_safe(inner):
            found[inner] = most
    return found


def _beyond(inner: exp.Expr, most: float, scope: Scope) -> Beyond:
    """Return the condition that a number is outside a range; not by ABS, which fails at the least whole number."""
    text = render(inner)
    condition = f"({text} < -{most} OR {text} > {most})"
    if _kind(inner, scope) == "float":
        condition += f" AND NOT ISNAN({text})"
    return Beyond(parse_expression(condition), f"{text.replace('`', '')} NOT BETWEEN -{most} AND {most}")


# -------------------------------------------------------------------------------------------------------------- kinds


def _kind(tree: exp.Expr, scope: Scope) -> str:
    """Return how Spark computes an expression: ``integer``, ``decimal``, ``float``; empty if that is not known."""
    tree = bare(tree)
    match tree:
        case exp.Neg():
            return _kind(tree.this, scope)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            kinds = {_kind(tree.left, scope), _kind(tree.right, scope)}
            if "" in kinds or "float" in kinds:
                return "" if "" in kinds else "float"
            if isinstance(tree, exp.Div) and kinds == {"integer"}:
                return "float"
            return "decimal" if "decimal" in kinds else "integer"
        case exp.Anonymous():
            if called(tree) in ("abs", "greatest", "least"):
                kinds = {_kind(one, scope) for one in tree.expressions}
                first = next((kind for kind in ("", "float", "decimal", "integer") if kind in kinds), "")
                return "" if first == "float" and "decimal" in kinds else first
            return "float" if called(tree) in _DOUBLES else ""
    name = scope.type_of(tree)
    if name in INTEGERS:
        return "integer"
    return "float" if name in FRACTIONS else "decimal" if is_decimal(name) else ""


# ---------------------------------------------------------------------------------------------- from the whole to parts


class _Reader:
    """Reads what bounds imply; of the numbers in `assumed`, that they are up to a magnitude."""

    def __init__(self, scope: Scope, known: Known, assumed: Mapping[exp.Expr, float] | None = None) -> None:
        self.scope, self.known, self.assumed = scope, known, assumed or {}

    def kind(self, tree: exp.Expr) -> str:
        """Return how Spark computes an expression (`_kind`)."""
        return _kind(tree, self.scope)

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
                yield from self.upper(one, moved + _MARGIN * (abs(most) + abs(value)) + _TINY)
            elif most >= 0 and isinstance(tree, exp.Add) and self.is_exact(tree, _SUMMED) and self.not_negative(other):
                yield from self.upper(one, _wider(most))

    def of_product(self, tree: exp.Mul, most: float) -> Iterator[Near]:
        """Yield what follows from a square, or from a product whose other factors are not near 0."""
        factors = list(_factors(tree))
        least, varying = 1.0, []
        for factor in factors:
            value = constant(factor)
            low = value if value is not None else self.least(factor)
            if low is not None and low > 0:
                least *= low * (1 - _MARGIN)
            else:
                varying.append(factor)
        if not 1e-30 < least < 1e30 or not self.kind(tree):
            return
        if len(varying) < len(factors) and self.kind(tree) == "decimal":  # digits may be cut off
            return
        most = _wider(most / least) + _TINY / least
        if len(varying) == 1:
            yield from self.upper(varying[0], most)
        elif len(varying) == 2 and _alike(*varying) and self.is_exact(varying[0], _SQUARED):
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
            case "asin", [inner] if most < math.pi / 2 * _STEEP:
                yield from self.upper(inner, _wider(math.sin(most)))
            case "atan2", [one, other] if most < math.pi / 2 * _STEEP:
                yield from self.of_half_angle(one, other, most)
            case "acos", [inner] if most < math.pi:
                yield from self.of_cosines(inner, math.cos(_wider(most)) - _COSINE)

    def of_half_angle(self, one: exp.Expr, other: exp.Expr, most: float) -> Iterator[Near]:
        """Yield what follows from ``ATAN2(SQRT(a), SQRT(1 - a))``, which is ``ASIN(SQRT(a))``."""
        roots = [bare(side.expressions[0]) if called(side) == "sqrt" else None for side in (bare(one), bare(other))]
        a, rest = roots
        if a is None or not isinstance(rest, exp.Sub) or constant(rest.left) != 1:
            return
        if _alike(rest.right, a) and self.kind(a) == "float":
            yield from self.upper(a, _wider(math.sin(_wider(most)) ** 2))

    def of_cosines(self, tree: exp.Expr, least: float) -> Iterator[Near]:
        """Yield what follows if ``SIN(a) * SIN(b) + COS(a) * COS(b) * COS(...)`` is at least ``least``.

        That is at most ``COS(a - b)``, where no cosine of ``a`` and ``b`` is negative.
        """
        tree = bare(tree)
        if not isinstance(tree, exp.Add) or not -1 < least < 1:
            return
        for one, other in ((tree.left, tree.right), (tree.right, tree.left)):
            sines, cosines = ([bare(part) for part in _factors(side)] for side in (one, other))
            if [called(part) for part in sines] != ["sin"] * 2 or [called(part) for part in cosines] != ["cos"] * 3:
                continue
            first, second = (bare(part.expressions[0]) for part in sines)
            inside = [render(bare(part.expressions[0])) for part in cosines]
            if not all(render(angle) in inside and self.is_upright(angle) for angle in (first, second)):
                continue
            yield from self.magnitude(exp.Sub(this=first, expression=second), _wider(math.acos(least)))

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
                elif name == "sin" and len(given) == 1 and most < _STEEP:
                    angle, ends = _wider(math.asin(most)), self.ends(given[0])
                    if ends is not None and max(map(abs, ends)) < math.pi - angle - _MARGIN:
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
            room = _MARGIN * (most + abs(shift)) if shift else 0.0
            return Bounds(common.type, _outwards(low - room, down=True), _outwards(high + room, down=False), True, True)
        scale, precision = decimal_scale(common.type), decimal_precision(common.type)
        unit = "integer" if scale is None or precision is None else common.type
        if shift:  # exact, so only the text of the constant can have lost digits
            low, high = low - _MARGIN * abs(shift), high + _MARGIN * abs(shift)
        one = 10 ** (scale or 0)
        return Bounds(unit, math.ceil(Fraction(low) * one), math.floor(Fraction(high) * one), True, True)

    # ------------------------------------------------------------------------------------------ what is known of parts

    def is_over_both(self, tree: exp.Expr) -> bool:
        """Return whether an expression reads two relations."""
        return len(self.scope.relations(tree)) == 2

    def type_of(self, tree: exp.Expr) -> str:
        """Return Spark's type of a key, with that of the functions read here."""
        name = self.scope.type_of(tree)
        return "double" if name == UNKNOWN and self.kind(tree) == "float" else name

    def is_widening(self, tree: exp.Cast) -> bool:
        """Return whether a cast keeps a number but for rounding."""
        to = render(tree.args["to"]).upper()
        return type(tree) is exp.Cast and to in ("DOUBLE", "FLOAT") and bool(self.kind(tree.this))

    def is_exact(self, tree: exp.Expr, digits: int) -> bool:
        """Return whether no digits are cut off when a number is squared or added: decimals may be too long."""
        kind = self.kind(tree)
        if kind != "decimal":
            return bool(kind)
        types = [self.scope.types.get((one.table, one.name), UNKNOWN) for one in tree.find_all(exp.Column)]
        sizes = [decimal_precision(one) if is_decimal(one) else 20 if one == "bigint" else 10 for one in types]
        parts = sum(1 for _ in tree.find_all(exp.Add, exp.Sub, exp.Mul))
        return all(size is not None and size + parts <= digits for size in sizes) and not tree.find(exp.Div)

    def is_safe(self, tree: exp.Expr) -> bool:
        """Return whether Spark may compute a key for every row: it raises no error."""
        tree = bare(tree)
        match tree:
            case exp.Column():
                return True
            case exp.Literal():
                return not tree.is_string
            case exp.Neg():
                return self.kind(tree) == "float" and self.is_safe(tree.this)
            case exp.Cast():
                return self.is_widening(tree) and self.is_safe(tree.this)
            case exp.Add() | exp.Sub() | exp.Mul():
                return self.kind(tree) == "float" and self.is_safe(tree.left) and self.is_safe(tree.right)
            case exp.Div():
                value = constant(tree.right)
                return self.kind(tree) == "float" and value not in (None, 0) and self.is_safe(tree.left)
            case exp.Anonymous():
                numbers = all(self.kind(one) and self.is_safe(one) for one in tree.expressions)
                return called(tree) in (*_PLAIN, "pi") and numbers
        return False

    def is_single(self, tree: exp.Expr) -> bool:
        """Return whether an expression may be rounded to the few digits of FLOAT."""
        tree = bare(tree)
        match tree:
            case exp.Column() | exp.Cast():
                return self.scope.type_of(tree) in ("float", UNKNOWN)
            case exp.Neg():
                return self.is_single(tree.this)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
                return self.is_single(tree.left) or self.is_single(tree.right)
        return False

    def is_given(self, tree: exp.Expr) -> bool:
        """Return whether an expression is not NULL."""
        columns = [(one.table, one.name) for one in tree.find_all(exp.Column)]
        strict = (exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Anonymous)
        plain = all(isinstance(node, strict) for node in tree.walk())
        calls = (called(one) == "abs" for one in tree.find_all(exp.Anonymous))
        return plain and all(calls) and self.scope.ansi and all(column in self.known.not_null for column in columns)

    def not_negative(self, tree: exp.Expr) -> bool:
        """Return whether an expression is not negative, unless it is NULL or NaN."""
        tree = bare(tree)
        value = constant(tree)
        if value is not None:
            return value >= 0
        match tree:
            case exp.Mul():
                factors = [bare(one) for one in _factors(tree)]
                odd = [one for one in factors if not self.not_negative(one)]
                pair = len(odd) == 2 and _alike(*odd)
                return bool(self.kind(tree)) and (not odd or pair)
            case exp.Add():
                return bool(self.kind(tree)) and self.not_negative(tree.left) and self.not_negative(tree.right)
            case exp.Div():
                return bool(self.kind(tree)) and self.not_negative(tree.left) and (constant(tree.right) or 0) > 0
            case exp.Cast():
                return self.is_widening(tree) and self.not_negative(tree.this)
            case exp.Anonymous():
                name, given = called(tree), tree.expressions
                if name in ("sqrt", "hypot", "abs", "acos"):
                    return True
                if name in ("power", "pow") and len(given) == 2:
                    exponent = constant(given[1])
                    return exponent is not None and (exponent % 2 == 0 or self.not_negative(given[0]))
                if name in ("greatest", "least", "asin", "radians", "degrees"):
                    return all(self.not_negative(one) for one in given)
                return name == "cos" and len(given) == 1 and self.is_upright(given[0])
        return False

    def is_upright(self, angle: exp.Expr) -> bool:
        """Return whether the cosine of an angle cannot be negative."""
        ends = self.ends(angle)
        return ends is not None and max(map(abs, ends)) <= math.pi / 2

    def least(self, tree: exp.Expr) -> float | None:
        """Return the least value of a cosine, None for other expressions and where it may be near 0."""
        tree = bare(tree)
        if called(tree) != "cos" or len(tree.expressions) != 1:
            return None
        ends = self.ends(tree.expressions[0])
        if ends is None or max(map(abs, ends)) >= math.pi / 2 * _STEEP:
            return None
        return min(map(math.cos, ends)) * (1 - _MARGIN)

    def ends(self, tree: exp.Expr) -> Range | None:
        """Return between which numbers an expression lies, None if that is not known."""
        tree = bare(tree)
        value = constant(tree)
        if value is not None:
            return value, value
        if tree in self.assumed:
            return -self.assumed[tree], self.assumed[tree]
        match tree:
            case exp.Column():
                return self.known.ranges.get((tree.table, tree.name))
            case exp.Neg():
                inner = self.ends(tree.this)
                return None if inner is None else (-inner[1], -inner[0])
            case exp.Cast() if self.is_widening(tree):
                return self.ends(tree.this)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() if self.kind(tree) and not self.is_single(tree):
                one, other = self.ends(tree.left), self.ends(tree.right)
                if one is None or other is None:
                    return None
                if isinstance(tree, exp.Add):
                    return one[0] + other[0], one[1] + other[1]
                if isinstance(tree, exp.Sub):
                    return one[0] - other[1], one[1] - other[0]
                if isinstance(tree, exp.Div) and (other[0] != other[1] or other[0] <= 0):
                    return None
                products = [a * b if isinstance(tree, exp.Mul) else a / b for a in one for b in other]
                return min(products), max(products)
            case exp.Anonymous() if called(tree) == "radians" and len(tree.expressions) == 1:
                inner = self.ends(tree.expressions[0])
                return None if inner is None else (math.radians(inner[0]), math.radians(inner[1]))
        return None


def _outwards(value: float, *, down: bool) -> float:
    """Return a number of few digits that is not on the inner side of another one.

    Examples
    --------
    >>> _outwards(2.5000020000001, down=False), _outwards(-2.5000020000001, down=True)
    (2.50001, -2.50001)
    """
    digits = Context(prec=_READABLE, rounding=ROUND_FLOOR if down else ROUND_CEILING)
    found = float(digits.create_decimal(Decimal(value)))
    return (
        math.nextafter(found, -math.inf if down else math.inf) if (found > value if down else found < value) else found
    )


def _alike(one: exp.Expr, other: exp.Expr) -> bool:
    return render(bare(one)) == render(bare(other))


def _factors(tree: exp.Expr) -> Iterator[exp.Expr]:
    tree = bare(tree)
    if isinstance(tree, exp.Mul):
        yield from _factors(tree.left)
        yield from _factors(tree.right)
    else:
        yield tree
