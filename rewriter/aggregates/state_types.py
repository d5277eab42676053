"""The types of aggregates and of their arguments, by Spark's rules: arithmetic on decimals, branches of CASE."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..plan.expr import UNKNOWN, Call, Constant, Expr
from ..sql.failing import results_of
from ..sql.spark_types import INTEGERS


def decimal_size(kind: str) -> tuple[int, int]:
    """Return precision and scale of a decimal type."""
    found = re.fullmatch(r"decimal\((\d+)(?:,(\d+))?\)", kind)
    return (int(found[1]), int(found[2] or 0)) if found else (10, 0)


def sum_type(kind: str) -> str | None:
    """Return the type of a SUM over a type, None if units do not compute it."""
    if kind in INTEGERS:
        return "bigint"
    if kind in ("float", "double"):
        return "double"
    if kind.startswith("decimal"):
        precision, scale = decimal_size(kind)
        return f"decimal({min(precision + 10, 38)},{scale})"
    return None


def is_average_exact(kind: str) -> bool:
    """Tell whether the quotient of a decimal's sum and count has enough digits to be rounded again to AVG's type.

    It needs nine more digits than that type: then the second rounding is harmless for up to 10^9 values a group.
    """
    if not kind.startswith("decimal"):
        return False
    precision, scale = decimal_size(kind)
    whole, fraction = precision + 10 - scale, max(6, scale + 20)
    if precision + 10 > 38:
        return False
    if whole + fraction > 38:
        fraction = max(38 - whole, min(fraction, 6))
    return fraction >= scale + 4 + 9


def argument_type(expr: Expr) -> str:
    """Return Spark's type of an expression, that of arithmetic on decimals too, or ``unknown``."""
    match expr:
        case Call("()" | "NEG" | "abs" | "positive", (inner,)):
            return argument_type(inner)
        case Call("+" | "-" | "*" as op, (left, right)):
            kinds = argument_type(left), argument_type(right)
            if any(kind.startswith("decimal") for kind in kinds):
                return _arithmetic(op, _as_decimal(left, kinds[0]), _as_decimal(right, kinds[1]))
        case Call("IF" | "CASE" | "CASE OF" | "coalesce" | "nvl" | "ifnull" | "greatest" | "least"):
            return _widest(results_of(expr) or expr.args)
    return expr.type


def _as_decimal(expr: Expr, kind: str) -> tuple[int, int] | None:
    if kind.startswith("decimal"):
        return decimal_size(kind)
    inner = expr.args[0] if expr.op == "NEG" else expr
    if isinstance(inner, Constant) and kind in INTEGERS:
        return len(inner.sql.lstrip("0")) or 1, 0
    return _DIGITS.get(kind)


#: Digits and scale of whole numbers beside decimals.
_DIGITS = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0)}


def _arithmetic(op: str, left: tuple[int, int] | None, right: tuple[int, int] | None) -> str:
    """Return the type of ``+``, ``-`` and ``*`` on decimals, by Spark's rules."""
    if left is None or right is None:
        return UNKNOWN
    if op == "*":
        precision, scale = left[0] + right[0] + 1, left[1] + right[1]
    else:
        scale = max(left[1], right[1])
        precision = max(left[0] - left[1], right[0] - right[1]) + scale + 1
    if precision > 38:
        precision, scale = 38, max(38 - (precision - scale), min(scale, 6))
    return f"decimal({precision},{scale})"


def _widest(branches: Iterable[Expr]) -> str:
    """Return the type that holds the values of all branches of a CASE."""
    kinds = {argument_type(one) for one in branches if one.sql != "NULL"}
    if len(kinds) == 1:
        return kinds.pop()
    if any(kind.startswith("decimal") for kind in kinds):
        sizes = [decimal_size(kind) if kind.startswith("decimal") else _DIGITS.get(kind) for kind in kinds]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return UNKNOWN
        whole, scale = max(size[0] - size[1] for size in known), max(size[1] for size in known)
        return f"decimal({whole + scale},{scale})" if whole + scale <= 38 else UNKNOWN
    if kinds <= set(INTEGERS):
        return max(kinds, key=INTEGERS.index) if kinds else UNKNOWN
    return "double" if kinds == {"float", "double"} else UNKNOWN
