"""What a query's other conditions say of its columns, and what that says of an expression over them.

`Facts` answers for one expression: how Spark computes it, between which numbers it lies, whether it can be NULL, or
raise an error. "Not known" is always a possible answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..plan.comparison import decimal_digits
from ..plan.conjuncts import FLIPPED, ComparisonOp
from ..plan.expr import UNKNOWN, At, Call, Column, Constant, Expr, bare, parts_of
from ..sql.failing import may_fail
from ..sql.spark_types import FRACTIONS, INTEGERS, is_decimal
from .constants import constant
from .terms import Scope

#: A share of a bound: more than an operation over FLOAT loses.
MARGIN = 2e-7

#: The largest share of a right angle that is inverted: near it, the sine says little.
STEEP = 0.999

#: Functions of one DOUBLE that raise no error; they cast numbers, and only numbers are read here.
_PLAIN = ("radians", "degrees", "sin", "cos", "sqrt")
_DOUBLES = (*_PLAIN, "power", "pow", "hypot", "asin", "acos", "atan2", "pi", "exp")

_SUMS = ("+", "-", "*", "/")

#: A closed range of numbers.
Range = tuple[float, float]

_ANY: Range = (-math.inf, math.inf)
_NOT_NEGATIVE: Range = (0.0, math.inf)


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


def known_of(conditions: Iterable[Expr], given: frozenset[At] = frozenset()) -> Known:
    """Read the ranges of columns off conditions over one relation; ``given`` are further columns that are not NULL.

    Only a column with both ends has a range: for Spark, NaN is above every number.
    """
    lows: dict[At, float] = {}
    highs: dict[At, float] = {}
    not_null = set(given)
    for condition in conditions:
        for column, op, value in _ends(bare(condition)):
            not_null.add(column)
            if op in (">", ">=", "="):
                lows[column] = max(value, lows.get(column, -math.inf))
            if op in ("<", "<=", "="):
                highs[column] = min(value, highs.get(column, math.inf))
        match condition:
            case Call("NOT", (Call("IS", (Column(at=at), Constant(sql="NULL"))),)):
                not_null.add(at)
    ranges = {column: (low, highs[column]) for column, low in lows.items() if column in highs}
    return Known(ranges, frozenset(not_null))


def compared(expr: Expr) -> Iterator[tuple[Expr, ComparisonOp, float]]:
    """Yield ``expression op constant`` of a comparison or BETWEEN."""
    match bare(expr):
        case Call("BETWEEN", (value, low, high)):
            found: list[tuple[Expr, ComparisonOp, Expr]] = [(value, ">=", low), (value, "<=", high)]
        case Call(op, (left, right)) if op in FLIPPED:
            found = [(left, op, right), (right, FLIPPED[op], left)]
        case _:
            found = []
    for one, turned, other in found:
        value_of = constant(other)
        if value_of is not None:
            yield bare(one), turned, value_of


def _ends(condition: Expr) -> Iterator[tuple[At, str, float]]:
    """Yield the ends that a condition sets to a column: also by ``ABS(r.lat) <= 90``."""
    for part, op, value in compared(condition):
        match part:
            case Column(at=at):
                yield at, op, value
            case Call("abs", (inner,)) if op in ("<", "<=") and isinstance(column := bare(inner), Column):
                yield column.at, op, value
                yield column.at, ">=", -value


def kind_of(expr: Expr) -> str:
    """Return how Spark computes an expression: ``integer``, ``decimal``, ``float``; empty if that is not known."""
    match bare(expr):
        case Call("NEG", (inner,)):
            return kind_of(inner)
        case Call("+" | "-" | "*" | "/" | "abs" | "greatest" | "least" as op, args):
            kinds = {kind_of(one) for one in args}
            found = next((kind for kind in ("", "float", "decimal", "integer") if kind in kinds), "")
            if op not in _SUMS:
                return "" if found == "float" and "decimal" in kinds else found
            return "float" if op == "/" and found == "integer" else found
        case Call(op) if op.islower():
            return "float" if op in _DOUBLES else ""
        case other if other.type in INTEGERS:
            return "integer"
        case other:
            return "float" if other.type in FRACTIONS else "decimal" if is_decimal(other.type) else ""


def alike(one: Expr, other: Expr) -> bool:
    """Return whether two expressions have one text."""
    return bare(one).sql == bare(other).sql


def factors_of(expr: Expr) -> Iterator[Expr]:
    """Yield the factors of a product; of anything else, the expression itself."""
    expr = bare(expr)
    if expr.op == "*":
        for one in expr.args:
            yield from factors_of(one)
    else:
        yield expr


def is_widening(expr: Call) -> bool:
    """Return whether a cast keeps a number but for rounding."""
    return expr.type in FRACTIONS and bool(kind_of(expr.args[0]))


def is_exact(expr: Expr, digits: int) -> bool:
    """Return whether no digits are cut off when a number is squared or added: decimals may be too long."""
    kind = kind_of(expr)
    if kind != "decimal":
        return bool(kind)
    nodes = list(parts_of(expr))
    types = [node.type for node in nodes if isinstance(node, Column)]
    sizes = [(decimal_digits(one) or (20 if one == "bigint" else 10,))[0] for one in types]
    parts = sum(node.op in ("+", "-", "*") for node in nodes)
    return all(size + parts <= digits for size in sizes) and all(one.op != "/" for one in nodes)


def is_safe(expr: Expr) -> bool:
    """Return whether Spark may compute a key for every row: it raises no error."""
    match bare(expr):
        case Column():
            return True
        case Constant(type=kind):
            return kind != "string"
        case Call("CAST", (inner,)) as node:
            return is_widening(node) and is_safe(inner)
        case Call("/", (left, divisor)) as node:
            return kind_of(node) == "float" and constant(divisor) not in (None, 0) and is_safe(left)
        case Call("NEG" | "+" | "-" | "*", args) as node:
            return kind_of(node) == "float" and all(map(is_safe, args))
        case Call(op, args) if op in (*_PLAIN, "pi"):
            return all(kind_of(one) and is_safe(one) for one in args)
        case Call("length", (inner,)):
            return not may_fail(inner)
    return False


def _is_single(expr: Expr) -> bool:
    """Return whether an expression may be rounded to the few digits of FLOAT."""
    match bare(expr):
        case Column(type=kind) | Call("CAST", type=kind):
            return kind in ("float", UNKNOWN)
        case Call("NEG" | "+" | "-" | "*" | "/", args):
            return any(map(_is_single, args))
    return False


@dataclass(frozen=True)
class Facts:
    """What is known of expressions.

    Parameters
    ----------
    scope
        The relations and types.
    known
        What other conditions say.
    assumed
        Expressions whose magnitude is taken to be at most a number.
    """

    scope: Scope
    known: Known
    assumed: Mapping[Expr, float] = field(default_factory=dict)

    def is_given(self, expr: Expr) -> bool:
        """Return whether an expression is not NULL."""
        nodes = list(parts_of(expr))
        strict = all(not isinstance(node, Call) or node.op in ("()", "NEG", "+", "-", "abs") for node in nodes)
        columns = (node.at for node in nodes if isinstance(node, Column))
        return strict and self.scope.ansi and all(column in self.known.not_null for column in columns)

    def not_negative(self, expr: Expr) -> bool:
        """Return whether an expression is not negative, unless it is NULL or NaN."""
        return self.range(expr)[0] >= 0

    def cosine_is_positive(self, angle: Expr) -> bool:
        """Return whether the cosine of an angle cannot be negative."""
        return max(map(abs, self.range(angle))) <= math.pi / 2

    def range(self, expr: Expr) -> Range:
        """Return between which numbers an expression lies, unless it is NULL or NaN; they may be infinite."""
        expr = bare(expr)
        value = constant(expr)
        if value is not None:
            return value, value
        if expr in self.assumed:
            return -self.assumed[expr], self.assumed[expr]
        match expr:
            case Column(at=at):
                return self.known.ranges.get(at, _ANY)
            case Call("NEG", (inner,)):
                low, high = self.range(inner)
                return -high, -low
            case Call("CAST", (inner,)) if is_widening(expr):
                return self.range(inner)
            case Call("+" | "-" | "*" | "/" as op, (left, right)) if kind_of(expr):
                if op == "*" and self._is_square(expr):
                    return _NOT_NEGATIVE
                low, high = _arithmetic(op, self.range(left), self.range(right))
                if _is_single(expr):  # rounding keeps the sign
                    return (0.0 if low >= 0 else -math.inf), (0.0 if high <= 0 else math.inf)
                return low, high
            case Call(op, args):
                return self._of_call(op, args)
        return _ANY

    def _is_square(self, expr: Expr) -> bool:
        """Return whether a product has one factor twice, and no other that may be negative."""
        odd = [one for one in factors_of(expr) if not self.not_negative(one)]
        return len(odd) == 2 and alike(*odd)

    def _of_call(self, op: str, args: tuple[Expr, ...]) -> Range:
        match op, args:
            case "sqrt" | "hypot" | "abs" | "acos", _:
                return _NOT_NEGATIVE
            case "power" | "pow", (base, exponent):
                value = constant(exponent)
                even = value is not None and value % 2 == 0
                return _NOT_NEGATIVE if value is not None and (even or self.not_negative(base)) else _ANY
            case "radians" | "degrees", (inner,):
                low, high = self.range(inner)
                turned = math.radians if op == "radians" else math.degrees
                return turned(low), turned(high)
            case "greatest" | "least" | "asin", _ if all(map(self.not_negative, args)):
                return _NOT_NEGATIVE
            case "cos", (angle,) if self.cosine_is_positive(angle):
                ends = self.range(angle)
                if max(map(abs, ends)) < math.pi / 2 * STEEP:
                    return min(map(math.cos, ends)) * (1 - MARGIN), 1.0
                return 0.0, 1.0
        return _ANY


def _arithmetic(op: str, one: Range, other: Range) -> Range:
    """Return between which numbers a sum, a product or a quotient lies."""
    if op == "+":
        return one[0] + other[0], one[1] + other[1]
    if op == "-":
        return one[0] - other[1], one[1] - other[0]
    if op == "/" and (other[0] != other[1] or other[0] <= 0):
        return _ANY
    products = [0.0 if 0 in (a, b) else a * b if op == "*" else a / b for a in one for b in other]
    return min(products), max(products)
