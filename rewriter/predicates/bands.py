"""Bands: a difference of two columns between bounds, and how two of them meet."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

from ..plan.conjuncts import Bounds
from ..plan.nodes import ComparisonOp, Predicate

#: A day in microseconds.
DAY = 86_400_000_000


@dataclass(frozen=True)
class Difference:
    """``left - right`` between bounds, before it becomes a `Predicate`; it may come from several conjuncts."""

    relations: tuple[str, str]
    left: str
    right: str
    bounds: Bounds
    guards: tuple[tuple[str, str], ...]
    predicates: tuple[Predicate, ...]
    derived: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for two bands that bound the same difference, which overflows for the same rows.

        Spark does not compute the difference of ``x < y + 5 AND x - y > 1`` where the first conjunct is false; as one
        band it would raise there, as two it does not.
        """
        return self.relations, self.left, self.right, self.bounds.unit, self.bounds.limits, self.derived

    def within(self, other: Difference) -> Difference:
        """Return the band within both bands."""
        return dataclasses.replace(
            self,
            bounds=self.bounds.within(other.bounds),
            guards=tuple(dict.fromkeys((*self.guards, *other.guards))),
            predicates=tuple(dict.fromkeys((*self.predicates, *other.predicates))),
        )

    def predicate(self) -> Predicate:
        """Return the band as a predicate; a comparison with 0 becomes one of its sides."""
        texts = zip(*((one.sql, one.rendered or one.sql) for one in self.predicates), strict=True)
        sql, rendered = (" AND ".join(dict.fromkeys(each)) for each in texts)
        bounds = self.bounds
        places = tuple(dict.fromkeys(place for one in self.predicates for place in one.places if not self.derived))
        sides = self.left, self.right
        made = Predicate(
            sql, "band", self.relations, "band", *sides, bounds, self.guards, rendered, self.derived, places
        )
        one_sided = bounds.lower is None or bounds.upper is None
        if bounds.rounded or not one_sided or (bounds.lower or bounds.upper) or bounds.limits is not None:
            return made
        sign = ">" if bounds.upper is None else "<"
        op: ComparisonOp = f"{sign}=" if bounds.lower_inclusive or bounds.upper_inclusive else sign  # type: ignore[assignment]
        return dataclasses.replace(made, kind="range", op=op, bounds=None)


def bounds_of(op: ComparisonOp, bound: Fraction, unit: str) -> Bounds:
    """Return the bounds of ``difference <op> bound``, in whole units."""
    inclusive = op in ("<=", ">=")
    is_upper = op in ("<", "<=")
    if bound.denominator != 1:
        whole, inclusive = (math.floor(bound) if is_upper else math.ceil(bound)), True
    else:
        whole = int(bound)
    if is_upper:
        return Bounds(unit, upper=whole, upper_inclusive=inclusive)
    return Bounds(unit, lower=whole, lower_inclusive=inclusive)
