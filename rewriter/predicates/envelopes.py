"""What a condition on two geometries implies about their envelopes, the boxes around them.

``ST_Intersects(r.g, s.g)`` implies that the boxes overlap in both dimensions: ``ST_XMin(r.g) <= ST_XMax(s.g)``, and so
on. A distance does so for boxes that are wider by it. The functions are those of Apache Sedona and of the engines that
have the same; Spark computes the ends of the boxes for each row, and the condition itself for the pairs that are left.

- An empty geometry has no box, yet its distance to any other one is 0. Where a coordinate is NaN, an intersection may
  be true and the end of a box is NaN. Such rows, and those with coordinates beyond `_USUAL`, meet all rows (`_end`).
- A distance on a globe bounds the latitudes alone: the circle around a point may reach beyond a meridian or a pole.
  It is measured between centroids, which lie in the boxes. A latitude beyond the poles meets all rows.
- Spark or its library may raise an error for a geometry that is none. What reads geometries of texts or bytes is
  therefore not computed for more rows than Spark would; such a reader belongs in a subquery below the join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..plan.expr import Call, Column, Expr, bare
from ..sql.expressions import parsed
from .constants import constant
from .known import compared, is_safe, kind_of
from .terms import Scope

#: True only where the boxes overlap.
_OVERLAPPING = (
    *("st_intersects", "st_contains", "st_within", "st_covers", "st_coveredby", "st_touches", "st_crosses"),
    *("st_overlaps", "st_equals"),
)
#: Distances on a globe, in metres.
_ON_GLOBE = ("st_distancesphere", "st_distancespheroid")
#: Fewer metres than lie between two parallels of latitude one degree apart, on the sphere and on the spheroid.
_METRES = 110_000

#: What makes a geometry of numbers or of another geometry, and raises no error.
_MAKERS = ("st_point", "st_makepoint", "st_pointz", "st_polygonfromenvelope")
_CHANGERS = ("st_envelope", "st_centroid", "st_setsrid", "st_flipcoordinates")

#: What a distance is multiplied with, for rounding.
_MORE = 1.0000001

#: Coordinates up to here are compared, and latitudes up to a pole.
_USUAL, _POLE = "1E300", "90"
#: The end of a box that overlaps all others.
_ALL = "1.7976931348623157E308"
#: What a computed distance may be smaller by than the exact one, as a share of the coordinates: more than JTS loses.
_SHARE = "1E-12"


@dataclass(frozen=True)
class Overlap:
    """``left op right`` of the ends of two boxes; each side reads one relation, `left` the first in plan order.

    Parameters
    ----------
    text
        It, to be read.
    """

    left: Expr
    op: Literal["<=", ">="]
    right: Expr
    text: str


@dataclass(frozen=True)
class _Near:
    """Two geometries, each over one relation, and how far they may be apart.

    Parameters
    ----------
    reach
        The text of a distance, None where they intersect. It reads at most one of the two relations: `wider`.
    wider
        Which of the two boxes becomes wider by it.
    """

    geometries: tuple[Expr, Expr]
    reach: str | None = None
    wider: int = 0
    on_globe: bool = False


def overlaps(condition: Expr, scope: Scope) -> Iterator[Overlap]:
    """Yield what a condition over two relations implies about the ends of boxes.

    Parameters
    ----------
    condition
        A predicate on two geometries such as ``ST_Intersects``, ``ST_DWithin``, or a comparison of their distance with
        a constant; from others nothing follows.
    scope
        The relations and types.
    """
    for near in _near(bare(condition), scope):
        first = scope.order.index(scope.relations(near.geometries[0])[0])
        swapped = first > scope.order.index(scope.relations(near.geometries[1])[0])
        for axis in "Y" if near.on_globe else "XY":
            ends: tuple[tuple[str, Literal["<=", ">="]], ...] = (("Min", "<="), ("Max", ">="))
            for end, op in ends:
                sides = (swapped, end), (not swapped, "Max" if end == "Min" else "Min")
                names = [f"ST_{axis}{name}({near.geometries[number].sql})".replace("`", "") for number, name in sides]
                left, right = (parsed(_end(near, number, axis, name)) for number, name in sides)
                yield Overlap(left, op, right, f" {op} ".join(names))


def _near(condition: Expr, scope: Scope) -> Iterator[_Near]:
    """Yield the geometries that must be near each other, where Spark may compute their boxes for every row."""
    found: list[tuple[Sequence[Expr], Expr | float | None, bool]] = []
    match condition:
        case Call(op, (_, _) as pair) if op in _OVERLAPPING:
            found.append((pair, None, False))
        case Call("st_dwithin", (*pair, most)) if len(pair) == 2:
            found.append((pair, most, False))
        case Call("st_dwithin", (*pair, most, flag)) if len(pair) == 2 and bare(flag).sql in ("TRUE", "FALSE"):
            found.append((pair, most, bare(flag).sql == "TRUE"))
    for part, sign, limit in compared(condition):
        if part.op in ("st_distance", *_ON_GLOBE) and len(part.args) == 2 and sign in ("<", "<=", "="):
            found.append((part.args, limit, part.op in _ON_GLOBE))
    for (left, right), far, on_globe in found:
        read = [scope.relations(one) for one in (left, right)]
        if {len(one) for one in read} != {1} or read[0] == read[1] or not (_is_safe(left) and _is_safe(right)):
            continue
        share = _MORE / _METRES if on_globe else _MORE
        value = constant(far) if isinstance(far, Expr) else far
        wider: tuple[str, ...] = ()
        reach = None if value is None else repr(value * share)
        if value is None and isinstance(far, Expr):
            wider, reach = scope.relations(far), f"CAST({far.sql} AS DOUBLE) * {share:.9E}"
            if wider not in read or not (kind_of(far) and is_safe(far)):
                continue
        yield _Near((left, right), reach, int(wider == read[1]), on_globe)


def _is_safe(geometry: Expr) -> bool:
    """Return whether Spark may compute a geometry, and its box, for every row."""
    match bare(geometry):
        case Column(type=kind):
            return not kind.startswith("geography")
        case Call(op, args) if op in _MAKERS:
            return all(kind_of(one) and is_safe(one) for one in args)
        case Call(op, (inner, *rest)) if op in _CHANGERS:
            return _is_safe(inner) and all(constant(one) is not None for one in rest)
    return False


def _end(near: _Near, number: int, axis: str, name: str) -> str:
    """Return the text of one end of a box, wider by the distance; or what overlaps every box, for a row without one."""
    geometry, sign = near.geometries[number].sql, "-" if name == "Min" else "+"
    end = f"ST_{axis}{name}({geometry})"
    moved = end
    if near.reach is not None:
        other = f"ST_{axis}{'Max' if name == 'Min' else 'Min'}({geometry})"
        moved += f" {sign} {_SHARE} * (ABS({end}) + ABS({other}))"
        if number == near.wider:
            moved += f" {sign} {near.reach}"
    usual = f"ABS({end}) <= {_POLE if near.on_globe else _USUAL}"
    return f"CASE WHEN {usual} THEN {moved} WHEN {end} IS NOT NULL THEN {sign.strip('+')}{_ALL} END"
