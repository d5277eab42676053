"""Bands: a difference of two columns between bounds, and how two of them meet."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

from ..plan.conjuncts import Band, Bounds, Compare, CompareOp, ComparisonOp, Residual, Term
from ..plan.expr import chained


@dataclass(frozen=True)
class Difference:
    """``left - right`` between bounds, before it becomes a `Band`; it may come from several conjuncts."""

    left: Term
    right: Term
    bounds: Bounds
    guards: tuple[Term, ...]
    predicates: tuple[Residual, ...]
    derived: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for two bands that bound the same difference, which overflows for the same rows.

        Spark does not compute the difference of ``x < y + 5 AND x - y > 1`` where the first conjunct is false; as one
        band it would raise there, as two it does not.
        """
        return self.left, self.right, self.bounds.unit, self.bounds.limits, self.derived

    def within(self, other: Difference) -> Difference:
        """Return the band within both bands."""
        return dataclasses.replace(
            self,
            bounds=self.bounds.within(other.bounds),
            guards=tuple(dict.fromkeys((*self.guards, *other.guards))),
            predicates=tuple(dict.fromkeys((*self.predicates, *other.predicates))),
        )

    def predicate(self) -> Band | Compare:
        """Return the band as a predicate; a comparison with 0 becomes one of its sides."""
        sql = " AND ".join(dict.fromkeys(one.sql for one in self.predicates))
        terms = dict.fromkeys(one.condition for one in self.predicates)
        relations = (*self.left.relations, *self.right.relations)
        condition = Term(chained("AND", *(term.expr for term in terms)), relations)
        places = tuple(dict.fromkeys(place for one in self.predicates for place in one.places if not self.derived))
        sides, bounds = (self.left, self.right), self.bounds
        one_sided = bounds.lower is None or bounds.upper is None
        if bounds.rounded or not one_sided or (bounds.lower or bounds.upper) or bounds.limits is not None:
            return Band(sql, condition, *sides, bounds, guards=self.guards, derived=self.derived, places=places)
        inclusive = bounds.lower_inclusive or bounds.upper_inclusive
        op: CompareOp = (">=" if inclusive else ">") if bounds.upper is None else "<=" if inclusive else "<"
        return Compare(sql, condition, *sides, op, guards=self.guards, derived=self.derived, places=places)


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
