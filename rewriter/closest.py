"""What ASOF JOIN and NEAREST BY call the closest rows.

Example: of ``r ASOF JOIN s MATCH_CONDITION (s.ts <= r.ts)`` the greatest ``s.ts`` is closest, and of ``r JOIN s APPROX
NEAREST 2 BY DISTANCE ABS(r.x - s.x)`` the two ``s.x`` at the least distance from ``r.x``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from sqlglot import exp

from .plan.conjuncts import Term
from .plan.parts import Closest
from .sql.dialect import Nearest, render
from .sql.functions import called


def read_closest(
    tree: exp.Expr,
    sides: Sequence[frozenset[str]],
    relations: Callable[[exp.Expr], tuple[str, ...] | None],
    term: Callable[[exp.Expr], Term],
) -> tuple[Closest | None, tuple[str, str] | None]:
    """Return what a clause calls the closest rows, or why units cannot tell and what to write instead.

    Parameters
    ----------
    tree
        The condition in MATCH_CONDITION, or the clause NEAREST.
    sides
        The aliases of the join's left and right relations.
    relations, term
        Return the aliases that an expression reads, and the expression as a term.
    """

    def by_side(one: exp.Expr, other: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
        """Return two expressions, that over the left side first; None if they are not over one side each."""
        for first, second in ((one, other), (other, one)):
            here, there = relations(first), relations(second)
            if here and there and sides[0].issuperset(here) and sides[1].issuperset(there):
                return first, second
        return None

    if isinstance(tree, Nearest):
        words = {name: tree.args[name] for name in ("count", "approximate", "similarity")}
        norm, differences = _distance(tree.this, similarity=words["similarity"])
        pairs = [pair for one in differences if (pair := by_side(one.left, one.right)) is not None]
        if not pairs or len(pairs) < len(differences):
            wanted = "-ABS(r.x - s.x)" if words["similarity"] else "ABS(r.x - s.x)"
            reason = f"NEAREST of streams is by differences of expressions of one side each, not by {render(tree.this)}"
            return None, (reason, f"write BY {'SIMILARITY' if words['similarity'] else 'DISTANCE'} {wanted}, say")
        first, *more = [(term(one), term(other)) for one, other in pairs]
        return Closest(*first, "distance", term(tree.this), **words, more=tuple(more), norm=norm), None
    compared = tree.unnest()
    if not isinstance(compared, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return None, ("MATCH_CONDITION takes one comparison by >=, >, <= or <", "put other conditions into ON")
    found = by_side(compared.left, compared.right)
    if found is None:
        reason = "MATCH_CONDITION compares an expression of one side with one of the other"
        return None, (reason, "write MATCH_CONDITION (r.ts >= s.ts), say")
    is_before = isinstance(compared, exp.GT | exp.GTE) == (found[0] is compared.left)
    return Closest(term(found[0]), term(found[1]), "greatest" if is_before else "least", term(compared)), None


Norm = Literal["squares", "greatest"]


def _distance(tree: exp.Expr, *, similarity: bool) -> tuple[Norm, list[exp.Sub]]:
    """Return the differences that a distance is made of, none if it is no distance that units compute."""
    tree = tree.unnest()
    if similarity:
        if not isinstance(tree, exp.Neg):
            return "squares", []
        tree = tree.this.unnest()
    match called(tree), _arguments(tree):
        case "abs", [_]:
            return "squares", _differences([tree], _absolute)
        case "greatest", [_, _, *_] as values:
            return "greatest", _differences(values, _absolute)
        case "hypot", [_, _] as values:
            return "squares", _differences(values, _plain)
        case "sqrt", [value]:
            tree = value.unnest()
    return "squares", _differences(tree.flatten() if isinstance(tree, exp.Add) else [tree], _squared)


def _differences(trees: Iterable[exp.Expr], read: Callable[[exp.Expr], exp.Expr | None]) -> list[exp.Sub]:
    """Return the differences in some expressions, none if one of them has none."""
    found = [read(tree.unnest()) for tree in trees]
    differences = [one.unnest() for one in found if one is not None]
    alike = [one for one in differences if isinstance(one, exp.Sub)]
    return alike if len(alike) == len(found) else []


def _absolute(tree: exp.Expr) -> exp.Expr | None:
    return _arguments(tree)[0] if called(tree) == "abs" and len(_arguments(tree)) == 1 else None


def _squared(tree: exp.Expr) -> exp.Expr | None:
    match called(tree), _arguments(tree):
        case "power" | "pow", [value, exp.Literal(this="2")]:
            return value
    return None


def _plain(tree: exp.Expr) -> exp.Expr:
    return tree


def _arguments(tree: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of a function."""
    return list(tree.expressions) or [one for one in (tree.args.get("this"),) if isinstance(one, exp.Expr)]
