"""Numbers that a text computes of constants alone, such as ``2 * 6371.0088`` or ``POWER(5, 2)``."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from ..plan.comparison import LARGEST, decimal_precision, decimal_scale
from ..sql.dialect import render
from ..sql.functions import called
from ..sql.spark_types import INTEGERS, type_name
from .terms import bare


def exact_constant(tree: exp.Expr) -> Fraction | None:
    """Return the value of a number, with a sign and a type or without; None of anything else.

    Examples
    --------
    >>> from ..sql.dialect import parse_expression
    >>> exact_constant(parse_expression("-CAST(2.5 AS DECIMAL(3, 1))"))
    Fraction(-5, 2)
    """
    tree = bare(tree)
    if isinstance(tree, exp.Neg):
        inner = exact_constant(tree.this)
        return None if inner is None else -inner
    if called(tree) == "positive" and len(tree.expressions) == 1:
        return exact_constant(tree.expressions[0])
    if type(tree) is exp.Cast:  # 5D, 5L, 0.5BD; from Spark's plans CAST(5 AS DOUBLE)
        return _cast(tree)
    return _literal(tree) if isinstance(tree, exp.Literal) and not tree.is_string else None


def _literal(tree: exp.Expr) -> Fraction | None:
    found = re.fullmatch(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", tree.name)
    return Fraction(tree.name) if found and len(tree.name) < 40 else None


def _cast(tree: exp.Cast) -> Fraction | None:
    """Return a constant of a type, None if it has another value there."""
    inside, kind = bare(tree.this), type_name(render(tree.args["to"]))
    value = _literal(inside) if isinstance(inside, exp.Literal) else exact_constant(inside)
    if value is None or kind == "double":
        return value
    if kind == "float":
        return value if Fraction(struct.unpack("f", struct.pack("f", float(value)))[0]) == value else None
    if kind in INTEGERS:
        if isinstance(inside, exp.Literal) and inside.is_string and not inside.name.isdecimal():
            return None  # in ANSI mode an error
        return value if value.denominator == 1 and abs(value) <= LARGEST[kind] else None
    scale, precision = decimal_scale(kind), decimal_precision(kind)
    if scale is None or precision is None:
        return None
    whole = value * 10**scale
    return value if whole.denominator == 1 and abs(whole) < 10**precision else None


def constant(tree: exp.Expr) -> float | None:
    """Return the value of an expression without columns as Spark computes it, to within its digits; None if unknown.

    Examples
    --------
    >>> from ..sql.dialect import parse_expression
    >>> constant(parse_expression("2 * 6371.0088 * 1E3"))
    12742017.6
    """
    try:
        value = _value(tree)
    except (ArithmeticError, ValueError):
        return None
    return value if value is not None and math.isfinite(value) and abs(value) < 1e100 else None


def _value(tree: exp.Expr) -> float | None:
    tree = bare(tree)
    match tree:
        case exp.Literal():
            is_number = not tree.is_string and re.fullmatch(r"[\d.]+([eE][+-]?\d+)?", tree.name)
            return float(tree.name) if is_number else None
        case exp.Neg():
            inner = _value(tree.this)
            return None if inner is None else -inner
        case exp.Cast() if type(tree) is exp.Cast and render(tree.args["to"]).upper() in ("DOUBLE", "FLOAT"):
            return _value(tree.this)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            one, other = _value(tree.left), _value(tree.right)
            if one is None or other is None:
                return None
            if isinstance(tree, exp.Div):  # a quotient of decimals has few digits
                return None if _is_decimal(tree) and not _is_double(tree) else one / other
            if isinstance(tree, exp.Mul):
                found = one * other
            else:
                found = one + other if isinstance(tree, exp.Add) else one - other
                if abs(found) < 1e-3 * max(abs(one), abs(other)):
                    return None  # few of the digits are left
            return None if abs(found) >= 1 << 31 and not (_is_decimal(tree) or _is_double(tree)) else found
        case exp.Anonymous():
            inside = [_value(one) for one in tree.expressions]
            given = [one for one in inside if one is not None]
            function = _FUNCTIONS.get((called(tree), len(given)))
            return function(*given) if function is not None and len(given) == len(inside) else None
    return None


_FUNCTIONS: dict[tuple[str, int], Callable[..., float]] = {
    ("pi", 0): lambda: math.pi,
    ("radians", 1): math.radians,
    ("sqrt", 1): math.sqrt,
    ("power", 2): math.pow,
    ("pow", 2): math.pow,
}


def _is_decimal(tree: exp.Expr) -> bool:
    return any(not one.is_string and re.fullmatch(r"[\d]*\.\d*", one.name) for one in tree.find_all(exp.Literal))


def _is_double(tree: exp.Expr) -> bool:
    exponent = any("e" in one.name.lower() for one in tree.find_all(exp.Literal) if not one.is_string)
    return exponent or any(True for _ in tree.find_all(exp.Anonymous, exp.Cast))
