"""Numbers that a text computes of constants alone, such as ``2 * 6371.0088`` or ``POWER(5, 2)``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from sqlglot import exp

from ..sql.dialect import render
from ..sql.functions import called
from .terms import bare


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
