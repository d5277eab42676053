"""What ASOF JOIN and NEAREST BY call the closest rows.

Example: of ``r ASOF JOIN s MATCH_CONDITION (s.ts <= r.ts)`` the greatest ``s.ts`` is closest, and of ``r JOIN s APPROX
NEAREST 2 BY DISTANCE ABS(r.x - s.x)`` the two ``s.x`` at the least distance from ``r.x``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from .plan.conjuncts import Term
from .plan.joins import Closest
from .sql.dialect import Nearest, render
from .sql.functions import called
from .sql.spark_types import TIMES


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
        far = tree.this.unnest()
        if words["similarity"]:
            far = far.this if isinstance(far, exp.Neg) else exp.Null()
        difference = _difference(far, lambda one: term(one).type)
        found = None if difference is None else by_side(*difference)
        if found is None:
            wanted = "-ABS(r.x - s.x)" if words["similarity"] else "ABS(r.x - s.x)"
            reason = f"NEAREST of streams is by the difference of one value of each side, not by {render(tree.this)}"
            return None, (reason, f"write BY {'SIMILARITY' if words['similarity'] else 'DISTANCE'} {wanted}, say")
        return Closest(term(found[0]), term(found[1]), "distance", term(tree.this), **words), None
    compared = tree.unnest()
    if not isinstance(compared, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return None, ("MATCH_CONDITION takes one comparison by >=, >, <= or <", "put other conditions into ON")
    found = by_side(compared.left, compared.right)
    if found is None:
        reason = "MATCH_CONDITION compares an expression of one side with one of the other"
        return None, (reason, "write MATCH_CONDITION (r.ts >= s.ts), say")
    is_before = isinstance(compared, exp.GT | exp.GTE) == (found[0] is compared.left)
    return Closest(term(found[0]), term(found[1]), "greatest" if is_before else "least", term(compared)), None


def _difference(tree: exp.Expr, type_of: Callable[[exp.Expr], str]) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the two expressions whose absolute difference an expression is, None if it is no such difference."""
    tree = tree.unnest()
    if called(tree) != "abs" or len(tree.expressions) != 1:
        return None
    inside = tree.expressions[0].unnest()
    if isinstance(inside, exp.Sub):
        return inside.left.unnest(), inside.right.unnest()
    dates = inside.expressions if called(inside) in ("datediff", "date_diff") else []
    if len(dates) != 2 or any(type_of(one) not in ("date", *TIMES) for one in dates):
        return None
    days = (exp.Cast(this=one.copy(), to=exp.DataType.build("date")) for one in dates)
    end, start = (exp.Anonymous(this="unix_date", expressions=[day]) for day in days)
    return end, start
