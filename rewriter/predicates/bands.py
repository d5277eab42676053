"""Bands: a difference of two columns between bounds, and how two of them meet."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

from ..plan.nodes import ComparisonOp, Predicate

#: A day in microseconds.
DAY = 86_400_000_000


@dataclass(frozen=True)
class Difference:
    """``lower <(=) left - right <(=) upper`` in whole units (numbers, days or microseconds).

    ``limits`` and ``computed_as`` are those of `Predicate`.
    """

    relations: tuple[str, str]
    left: str
    right: str
    unit: str
    lower: int | None
    upper: int | None
    lower_inclusive: bool
    upper_inclusive: bool
    guards: tuple[tuple[str, str], ...]
    sql: tuple[str, ...]
    rendered: tuple[str, ...]
    limits: tuple[int, int] | None = None
    computed_as: str | None = None
    derived: bool = False


def same_difference(one: Difference, other: Difference) -> bool:
    """Return whether two bands bound the same difference, and it overflows for the same rows.

    Spark does not compute the difference of ``x < y + 5 AND x - y > 1`` where the first conjunct is false; as one band
    it would raise there, as two it does not.
    """
    key = (one.relations, one.left, one.right, one.unit, one.derived, one.limits)
    return key == (other.relations, other.left, other.right, other.unit, other.derived, other.limits)


def intersect(one: Difference, other: Difference) -> Difference:
    """Return the band within both bands."""
    lower = (
        max((d.lower, not d.lower_inclusive) for d in (one, other) if d.lower is not None)
        if (one.lower is not None or other.lower is not None)
        else (None, True)
    )
    upper = (
        min((d.upper, d.upper_inclusive) for d in (one, other) if d.upper is not None)
        if (one.upper is not None or other.upper is not None)
        else (None, False)
    )
    return dataclasses.replace(
        one,
        lower=lower[0],
        lower_inclusive=not lower[1],
        upper=upper[0],
        upper_inclusive=upper[1],
        guards=tuple(dict.fromkeys((*one.guards, *other.guards))),
        sql=tuple(dict.fromkeys((*one.sql, *other.sql))),
        rendered=tuple(dict.fromkeys((*one.rendered, *other.rendered))),
    )


def bound_difference(
    predicate: Predicate,
    relations: tuple[str, str],
    left: str,
    right: str,
    unit: str,
    op: ComparisonOp,
    bound: Fraction,
    guards: tuple[tuple[str, str], ...],
    limits: tuple[int, int] | None = None,
    computed_as: str | None = None,
) -> Difference:
    """Return ``left - right <op> bound`` in whole units."""
    inclusive = op in ("<=", ">=")
    if bound.denominator != 1:
        whole, inclusive = (math.floor(bound) if op in ("<", "<=") else math.ceil(bound)), True
    else:
        whole = int(bound)
    is_upper = op in ("<", "<=")
    return Difference(
        relations,
        left,
        right,
        unit,
        None if is_upper else whole,
        whole if is_upper else None,
        inclusive and not is_upper,
        inclusive and is_upper,
        guards,
        (predicate.sql,),
        (predicate.rendered or predicate.sql,),
        None if predicate.derived else limits,
        computed_as,
        predicate.derived,
    )


def constant_sql(value: int | None, unit: str) -> str | None:
    """Return a bound of a band as a Spark SQL constant."""
    if value is None or unit in ("integer", "date"):
        return None if value is None else str(value)
    for name, size in (("DAY", DAY), ("HOUR", DAY // 24), ("MINUTE", 60_000_000), ("SECOND", 1_000_000)):
        if value % size == 0:
            return f"INTERVAL '{value // size}' {name}"
    sign, rest = "-" if value < 0 else "", abs(value)
    return f"INTERVAL '{sign}{rest // 1_000_000}.{rest % 1_000_000:06d}' SECOND"
