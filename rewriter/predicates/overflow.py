"""Where Spark would overflow while it computes integers: an error in ANSI mode, else another number."""

from __future__ import annotations

from collections.abc import Iterable

from ..plan.expr import Call, Constant, Expr, bare, parts_of
from ..sql.spark_types import INTEGERS, integer_limits
from .forms import Exact


def limits_of(sides: Iterable[Expr], absolute: Expr | None, reader: Exact) -> tuple[tuple[int, int] | None, str | None]:
    """Return the range of a difference in which Spark computes it, and the type that overflows first.

    Parameters
    ----------
    sides
        The sides of a comparison.
    absolute
        What ABS is computed of.
    """
    found: list[tuple[int, int, str]] = []
    for node in (one for side in sides for one in parts_of(side) if one.op in ("+", "-", "NEG")):
        limits, read = integer_limits(node.type), reader.scope.relations(node)
        if limits is None or len(read) != 2:
            continue
        form = reader.form(node)
        low, high = (limit - int(form.low) for limit in limits)
        low += node == absolute
        is_first = next(sign for base, sign in form.terms if reader.scope.relations(base)[0] == read[0]) > 0
        found.append((low, high, node.type) if is_first else (-high, -low, node.type))
    if not found:
        return None, None
    kinds = (kind for _, _, kind in found)
    return (max(one[0] for one in found), min(one[1] for one in found)), min(kinds, key=INTEGERS.index)


def may_wrap(expr: Expr) -> bool:
    """Return whether integers may wrap around in an expression, because ``spark.sql.ansi.enabled`` is off.

    Then nothing moves across a comparison: each side stays what Spark computes.
    """
    return expr.type in INTEGERS and _range(expr) is None


def _range(expr: Expr) -> tuple[int, int] | None:
    """Return the range of an integer expression, None if it may wrap around."""
    limits = integer_limits(expr.type)
    if limits is None:
        return None
    match bare(expr):
        case Constant(sql=text):
            low, high = int(text), int(text)
        case Call("CAST", (inner,)):
            inside = _range(bare(inner))
            return inside if inside is not None and limits[0] <= inside[0] and inside[1] <= limits[1] else limits
        case Call("NEG" | "+" | "-" | "abs" as op, args):
            ranges = [_range(one) for one in args]
            if None in ranges:
                return None
            (low, high), *more = (one for one in ranges if one is not None)
            if op == "abs":
                low, high = 0, max(abs(low), abs(high))
            elif op == "NEG":
                low, high = -high, -low
            else:
                (least, most) = more[0] if op == "+" else (-more[0][1], -more[0][0])
                low, high = low + least, high + most
        case _:
            return limits  # a column or a call is what Spark computes
    return (low, high) if limits[0] <= low and high <= limits[1] else None
