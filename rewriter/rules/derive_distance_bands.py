"""Add the bands that follow from conditions on a distance, which stay with Spark.

Example: ``POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) <= 25`` is a residual. It implies that ``r.x - s.x`` and
``r.y - s.y`` lie between -5 and 5. A search by one of these leaves few pairs for Spark to check.

A distance on a globe bounds the difference of two latitudes, unless one is beyond a pole. The band is then a branch of
an OR. Its other branches hold the rows with such a latitude, which meet all rows; Spark's own condition decides.

A condition on two geometries bounds the ends of the boxes around them: ``ST_XMin(r.g) <= ST_XMax(s.g)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ..options import DEFAULTS, Settings
from ..plan.conjuncts import Band, Compare, Comparison, Either, NotEqual, Predicate, Residual
from ..plan.expr import At, Expr, bare, joined
from ..plan.nodes import Block, Join, Node
from ..predicates.classify import flag
from ..predicates.distances import OutOfRange, near
from ..predicates.envelopes import overlaps
from ..predicates.known import Known, known_of
from ..predicates.terms import Scope
from .derive_conditions import filters_of
from .rule import NotApplicable, each_block, inner_joins


def derive_distance_bands(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Add derived bands to inner joins; a band contains all pairs that its residual lets through."""

    def change(block: Block) -> Block:
        scope = Scope.of(block.input, ansi=settings.ansi)

        def derive(join: Join) -> Join:
            if not any(isinstance(one, Residual) and len(one.relations) == 2 for one in join.predicates):
                return join
            known = _known(join)
            found = [new for one in join.predicates for new in _bands(one, scope, known, settings)]
            new = (one for one in found if not any(_says(other, one) for other in join.predicates))
            return dataclasses.replace(join, predicates=(*join.predicates, *new))

        return inner_joins(block, derive)

    return each_block(plan, change, "no condition that stays with Spark bounds a distance")


def _bands(predicate: Predicate, scope: Scope, known: Known, settings: Settings) -> Iterator[Band | Either | Compare]:
    """Yield the bands that a residual implies, one for each difference, and those of geometries' boxes."""
    if not isinstance(predicate, Residual) or len(predicate.relations) != 2:
        return
    if not settings.left_to_spark & {predicate.sql}:
        for box in overlaps(predicate.condition.expr, scope):
            sides = scope.term(box.left), scope.term(box.right)
            yield Compare(box.text, predicate.condition, *sides, box.op, derived=True, source=predicate.sql)
    for one in near(predicate.condition.expr, scope, known):
        sides = scope.term(one.left), scope.term(one.right)
        sql = one.bounds.around(f"{sides[0].sql} - {sides[1].sql}".replace("`", ""))
        if {sql, predicate.sql} & settings.left_to_spark:
            continue
        band = Band(sql, predicate.condition, *sides, one.bounds, derived=True, source=predicate.sql)
        yield _unless(band, one.unless, predicate, scope) if one.unless else band


def _unless(band: Band, out_of_range: Iterable[OutOfRange], whole: Residual, scope: Scope) -> Either:
    """Return that a band holds or something is beyond a range, with one branch for all that is of one relation."""
    by_relation: dict[tuple[str, ...], list[Expr]] = {}
    for one in out_of_range:
        by_relation.setdefault(scope.relations(one.condition), []).append(one.condition)
    flags = [scope.term(joined("OR", *some)) for some in by_relation.values()]
    branches: list[tuple[Comparison, ...]] = [(band,)]
    for term in flags:
        there = (at for at in whole.condition.columns if at[0] not in term.relations)
        branches.append((flag(Residual(term.sql, term), whole, there),))
    text = " OR ".join((band.sql, *(one.text for one in out_of_range)))
    return Either(text, whole.condition, tuple(branches), derived=True, source=whole.sql, exceptions=True)


def _says(predicate: Predicate, new: Predicate) -> bool:
    """Return whether a band of the same difference follows from the same conjunct already (`rounded`)."""
    if not isinstance(predicate, Band) or not isinstance(new, Band):
        return False
    same = (predicate.left, predicate.right) == (new.left, new.right)
    return same and predicate.derived and new.condition.sql in predicate.condition.sql


def _known(join: Join) -> Known:
    """Return what the conditions at and below a join say of its columns."""
    alone = (one.condition.expr for one in join.predicates if isinstance(one, Residual) and len(one.relations) == 1)
    given = {at for one in join.predicates for at in _rejecting(one)}
    return known_of((*(one.expr for one in filters_of(join)), *alone), frozenset(given))


def _rejecting(predicate: Predicate) -> Iterator[At]:
    """Yield the columns whose NULL makes a comparison that the kernel evaluates unknown."""
    if isinstance(predicate, Band | NotEqual) or (isinstance(predicate, Compare) and predicate.op != "<=>"):
        for side in (predicate.left, predicate.right):
            if bare(side.expr).op == "COLUMN":
                yield from side.columns
