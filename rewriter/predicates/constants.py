"""Numbers that a text computes of constants alone, such as ``2 * 6371.0088`` or ``POWER(5, 2)``."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

from ..plan.comparison import LARGEST, decimal_digits
from ..plan.expr import Call, Constant, Expr, bare, parts_of
from ..sql.expressions import number
from ..sql.spark_types import FRACTIONS, INTEGERS, is_decimal, is_number


def exact_constant(expr: Expr) -> Fraction | None:
    """Return the value of a number, with a sign and a type or without; None of anything else.

    Examples
    --------
    >>> from ..sql.expressions import parsed
    >>> exact_constant(parsed("-CAST(2.5 AS DECIMAL(3, 1))"))
    Fraction(-5, 2)
    """
    match bare(expr):
        case Constant(value=Fraction() as value):
            return value
        case Call("NEG", (inner,)):
            value_of = exact_constant(inner)
            return None if value_of is None else -value_of
        case Call("positive", (inner,)):
            return exact_constant(inner)
        case Call("CAST", (inner,), type=kind):  # 5D, 5L, 0.5BD; from Spark's plans CAST(5 AS DOUBLE)
            return _cast(bare(inner), kind)
    return None


def _cast(inside: Expr, kind: str) -> Fraction | None:
    """Return a constant of a type, None if it has another value there."""
    is_text = isinstance(inside, Constant) and inside.type == "string"
    value = number(str(inside.value)) if isinstance(inside, Constant) and is_text else exact_constant(inside)
    if value is None or kind == "double":
        return value
    if kind == "float":
        return value if Fraction(struct.unpack("f", struct.pack("f", float(value)))[0]) == value else None
    if kind in INTEGERS:  # a text with a point is an error in ANSI mode
        is_whole = value.denominator == 1 and not (is_text and not inside.sql.strip("'").isdecimal())
        return value if is_whole and abs(value) <= LARGEST[kind] else None
    digits = decimal_digits(kind)
    if digits is None:
        return None
    whole = value * 10 ** digits[1]
    return value if whole.denominator == 1 and abs(whole) < 10 ** digits[0] else None


def constant(expr: Expr) -> float | None:
    """Return the value of an expression without columns as Spark computes it, to within its digits; None if unknown.

    Examples
    --------
    >>> from ..sql.expressions import parsed
    >>> constant(parsed("2 * 6371.0088 * 1E3"))
    12742017.6
    """
    try:
        value = _value(expr)
    except (ArithmeticError, ValueError):
        return None
    return value if value is not None and math.isfinite(value) and abs(value) < 1e100 else None


def _value(expr: Expr) -> float | None:
    match bare(expr):
        case Constant(sql=text, type=kind) if is_number(kind):
            return float(text)
        case Call("CAST", (inner,), type="double" | "float"):
            return _value(inner)
        case Call("+" | "-" | "*" | "/" as op, (left, right)) as node:
            one, other = _value(left), _value(right)
            return None if one is None or other is None else _computed(node, op, one, other)
        case Call(op, args):
            given = [_value(one) for one in args]
            function = _FUNCTIONS.get((op, len(given)))
            return None if function is None or None in given else function(*given)
    return None


def _computed(node: Call, op: str, one: float, other: float) -> float | None:
    """Return a sum, a product or a quotient, None if few of its digits are right, or Spark's may overflow."""
    inside = list(parts_of(node))
    is_decimal_only = any(is_decimal(part.type) for part in inside if part.op == "CONSTANT")
    is_double = any(part.type in FRACTIONS if part.op == "CONSTANT" else part.op not in _ARITHMETIC for part in inside)
    if op == "/":  # a quotient of decimals has few digits
        return None if is_decimal_only and not is_double else one / other
    found = one * other if op == "*" else one + other if op == "+" else one - other
    if op != "*" and abs(found) < 1e-3 * max(abs(one), abs(other)):
        return None
    return None if abs(found) >= 1 << 31 and not (is_decimal_only or is_double) else found


_ARITHMETIC = ("+", "-", "*", "/", "NEG", "()")

_FUNCTIONS: dict[tuple[str, int], Callable[..., float]] = {
    ("NEG", 1): lambda value: -value,
    ("pi", 0): lambda: math.pi,
    ("radians", 1): math.radians,
    ("sqrt", 1): math.sqrt,
    ("power", 2): math.pow,
    ("pow", 2): math.pow,
}
