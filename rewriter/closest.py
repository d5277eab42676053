"""What ASOF JOIN and NEAREST BY call the closest rows.

Example: of ``r ASOF JOIN s MATCH_CONDITION (s.ts <= r.ts)`` the greatest ``s.ts`` is closest, and of ``r JOIN s APPROX
NEAREST 2 BY DISTANCE ABS(r.x - s.x)`` the two ``s.x`` at the least distance from ``r.x``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from .plan.conjuncts import Term
from .plan.joins import Closest, Formula
from .predicates.constants import constant
from .predicates.terms import bare
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
        reader = _FormulaReader(sides, relations, term)
        formula, pairs = reader.read(tree.this), reader.whole()
        if formula is None or not pairs:
            wanted = "-ABS(r.x - s.x)" if words["similarity"] else "ABS(r.x - s.x)"
            reason = f"NEAREST of streams is by arithmetic over numbers of both sides, not by {render(tree.this)}"
            return None, (reason, f"write BY {'SIMILARITY' if words['similarity'] else 'DISTANCE'} {wanted}, say")
        difference = ("abs", ("difference", 0))
        if formula == (("negative", difference) if words["similarity"] else difference):
            formula = None
        first, *more = [(term(one), term(other)) for one, other in pairs]
        return Closest(*first, "distance", term(tree.this), **words, more=tuple(more), formula=formula), None
    compared = tree.unnest()
    if not isinstance(compared, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return None, ("MATCH_CONDITION takes one comparison by >=, >, <= or <", "put other conditions into ON")
    found = by_side(compared.left, compared.right)
    if found is None:
        reason = "MATCH_CONDITION compares an expression of one side with one of the other"
        return None, (reason, "write MATCH_CONDITION (r.ts >= s.ts), say")
    is_before = isinstance(compared, exp.GT | exp.GTE) == (found[0] is compared.left)
    return Closest(term(found[0]), term(found[1]), "greatest" if is_before else "least", term(compared)), None


#: The functions of a formula, by how many arguments they take, and those that take any number from two on.
_FUNCTIONS = {
    **dict.fromkeys(("abs", "sqrt", "exp", "sin", "cos", "tan", "asin", "acos", "atan", "radians", "degrees"), 1),
    **dict.fromkeys(("power", "pow", "atan2", "hypot"), 2),
}
_OF_ANY = ("greatest", "least")

_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}


class _FormulaReader:
    """Reads an expression over two sides as arithmetic over expressions of one side each, which Spark computes.

    Parameters
    ----------
    sides, relations, term
        As for `read_closest`.
    """

    def __init__(
        self,
        sides: Sequence[frozenset[str]],
        relations: Callable[[exp.Expr], tuple[str, ...] | None],
        term: Callable[[exp.Expr], Term],
    ) -> None:
        self.sides, self.relations, self.term = sides, relations, term
        #: What it is made of: of each number an expression of the left side, of the right side, or both.
        self.pairs: list[list[exp.Expr | None]] = []

    def whole(self) -> list[tuple[exp.Expr, exp.Expr]]:
        """Return the pairs; what one lacks is taken from another. Empty if all lack the same side."""
        first = [next((pair[side] for pair in self.pairs if pair[side] is not None), None) for side in (0, 1)]
        if None in first:
            return []
        return [(one or first[0], other or first[1]) for one, other in self.pairs]  # type: ignore[misc]

    def read(self, tree: exp.Expr) -> Formula | None:
        """Return a formula, None if something in it is no arithmetic of doubles."""
        tree = self._as_difference(bare(tree))
        side = self._side(tree)
        if side is not None:
            return self._leaf(side, tree)
        value = constant(tree)
        if value is not None:
            return "number", value
        if isinstance(tree, exp.Sub):
            sides = self._side(tree.left), self._side(tree.right)
            if sides == (0, 1):
                return self._difference(tree.left, tree.right)
            if sides == (1, 0):
                return "negative", self._difference(tree.right, tree.left)
        name, arguments = _OPERATORS.get(type(tree)), [*tree.iter_expressions()]
        if isinstance(tree, exp.Neg):
            name = "negative"
        elif name is None:
            name, count = called(tree), len(arguments)
            if _FUNCTIONS.get(name) != count and not (name in _OF_ANY and count > 1):
                return None
        if name == "/" and not constant(arguments[1]):  # which raises an error where it is 0
            return None
        inside = [self.read(one) for one in arguments]
        if name == "abs" and inside[0] is not None and inside[0][0] == "negative":
            return "abs", inside[0][1]
        return None if None in inside else (name, *inside)

    def _as_difference(self, tree: exp.Expr) -> exp.Expr:
        """Return a number of days between two dates, or times, as the difference of their numbers."""
        dates = tree.expressions if called(tree) in ("datediff", "date_diff") else []
        if len(dates) != 2 or any(self.term(one).type not in ("date", *TIMES) for one in dates):
            return tree
        days = (exp.Cast(this=one.copy(), to=exp.DataType.build("date")) for one in dates)
        end, start = (exp.Anonymous(this="unix_date", expressions=[day]) for day in days)
        return exp.Sub(this=end, expression=start)

    def _side(self, tree: exp.Expr) -> int | None:
        used = self.relations(tree)
        return next((number for number in (0, 1) if used and self.sides[number].issuperset(used)), None)

    def _leaf(self, side: int, tree: exp.Expr) -> Formula:
        for number, pair in enumerate(self.pairs):
            if pair[side] is not None and pair[side] == tree:
                return ("left", "right")[side], number
        self.pairs.append([tree, None] if side == 0 else [None, tree])
        return ("left", "right")[side], len(self.pairs) - 1

    def _difference(self, left: exp.Expr, right: exp.Expr) -> Formula:
        pair: list[exp.Expr | None] = [bare(left), bare(right)]
        if pair not in self.pairs:
            self.pairs.append(pair)
        return "difference", self.pairs.index(pair)
