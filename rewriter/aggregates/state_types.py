"""The types of aggregates' arguments, by Spark's rules: arithmetic on decimals, branches of CASE."""

from __future__ import annotations

from ..plan.comparison import exact_digits, widest
from ..plan.expr import UNKNOWN, Call, Constant, Expr
from ..sql.failing import results_of
from ..sql.spark_types import INTEGERS, is_decimal


def is_average_exact(precision: int, scale: int) -> bool:
    """Tell whether the quotient of a decimal's sum and count has enough digits to be rounded again to AVG's type.

    It needs nine more digits than that type: then the second rounding is harmless for up to 10^9 values a group.
    """
    if precision + 10 > 38:
        return False
    whole, fraction = precision + 10 - scale, max(6, scale + 20)
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
            if any(map(is_decimal, kinds)):
                return _arithmetic(op, _digits(left, kinds[0]), _digits(right, kinds[1]))
        case Call("IF" | "CASE" | "CASE OF" | "coalesce" | "nvl" | "ifnull" | "greatest" | "least"):
            found = {argument_type(one) for one in results_of(expr) or expr.args if one.sql != "NULL"}
            return found.pop() if len(found) == 1 else (found and widest(found)) or UNKNOWN
    return expr.type


def _digits(expr: Expr, kind: str) -> tuple[int, int] | None:
    """Return precision and scale of a number beside a decimal, None of what is not exact."""
    inner = expr.args[0] if expr.op == "NEG" else expr
    if isinstance(inner, Constant) and kind in INTEGERS:
        return len(inner.sql.lstrip("0")) or 1, 0
    return exact_digits(kind)


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
