"""What a query's other conditions say of its columns, and what that says of an expression over them.

`Facts` answers for one expression: how Spark computes it, between which numbers it lies, whether it can be negative or
NULL, or raise an error. "Not known" is always a possible answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ..plan.comparison import decimal_precision
from ..plan.conjuncts import FLIPPED, At, ComparisonOp
from ..sql.dialect import render
from ..sql.functions import called
from ..sql.spark_types import FRACTIONS, INTEGERS, UNKNOWN, is_decimal
from .constants import constant
from .terms import OPERATORS, Scope, bare

#: A share of a bound: more than an operation over FLOAT loses.
MARGIN = 2e-7

#: The largest share of a right angle that is inverted: near it, the sine says little.
STEEP = 0.999

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


def compared(tree: exp.Expr) -> Iterator[tuple[exp.Expr, ComparisonOp, float]]:
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


def _ends(tree: exp.Expr) -> Iterator[tuple[At, str, float]]:
    """Yield the ends that a condition sets to a column: also by ``ABS(r.lat) <= 90``."""
    for part, op, value in compared(tree):
        if isinstance(part, exp.Column):
            yield (part.table, part.name), op, value
        elif called(part) == "abs" and isinstance(inner := bare(part.expressions[0]), exp.Column) and op in ("<", "<="):
            yield (inner.table, inner.name), op, value
            yield (inner.table, inner.name), ">=", -value


def kind_of(tree: exp.Expr, scope: Scope) -> str:
    """Return how Spark computes an expression: ``integer``, ``decimal``, ``float``; empty if that is not known."""
    tree = bare(tree)
    match tree:
        case exp.Neg():
            return kind_of(tree.this, scope)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            kinds = {kind_of(tree.left, scope), kind_of(tree.right, scope)}
            if "" in kinds or "float" in kinds:
                return "" if "" in kinds else "float"
            if isinstance(tree, exp.Div) and kinds == {"integer"}:
                return "float"
            return "decimal" if "decimal" in kinds else "integer"
        case exp.Anonymous():
            if called(tree) in ("abs", "greatest", "least"):
                kinds = {kind_of(one, scope) for one in tree.expressions}
                first = next((kind for kind in ("", "float", "decimal", "integer") if kind in kinds), "")
                return "" if first == "float" and "decimal" in kinds else first
            return "float" if called(tree) in _DOUBLES else ""
    name = scope.type_of(tree)
    if name in INTEGERS:
        return "integer"
    return "float" if name in FRACTIONS else "decimal" if is_decimal(name) else ""


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

    def __init__(self, scope: Scope, known: Known, assumed: Mapping[exp.Expr, float] | None = None) -> None:
        self.scope, self.known, self.assumed = scope, known, assumed or {}

    def kind(self, tree: exp.Expr) -> str:
        """Return how Spark computes an expression."""
        return kind_of(tree, self.scope)

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
                factors = [bare(one) for one in factors_of(tree)]
                odd = [one for one in factors if not self.not_negative(one)]
                pair = len(odd) == 2 and alike(*odd)
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
                return name == "cos" and len(given) == 1 and self.cosine_is_positive(given[0])
        return False

    def cosine_is_positive(self, angle: exp.Expr) -> bool:
        """Return whether the cosine of an angle cannot be negative."""
        ends = self.ends(angle)
        return ends is not None and max(map(abs, ends)) <= math.pi / 2

    def least(self, tree: exp.Expr) -> float | None:
        """Return the least value of a cosine, None for other expressions and where it may be near 0."""
        tree = bare(tree)
        if called(tree) != "cos" or len(tree.expressions) != 1:
            return None
        ends = self.ends(tree.expressions[0])
        if ends is None or max(map(abs, ends)) >= math.pi / 2 * STEEP:
            return None
        return min(map(math.cos, ends)) * (1 - MARGIN)

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


def alike(one: exp.Expr, other: exp.Expr) -> bool:
    """Return whether two expressions have one text."""
    return render(bare(one)) == render(bare(other))


def factors_of(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the factors of a product; of anything else, the expression itself."""
    tree = bare(tree)
    if isinstance(tree, exp.Mul):
        yield from factors_of(tree.left)
        yield from factors_of(tree.right)
    else:
        yield tree
