"""Conditions as a conjunction, and as an OR of conjunctions.

All of this is exact under three-valued logic where only TRUE keeps a row: NOT moves over a comparison and over OR, AND
and OR distribute, and constantly true conditions are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from sqlglot import exp

from ..sql.failing import TypeOf
from ..sql.spark_types import INTEGERS
from .terms import bare, operands

#: An OR of more branches stays as it is: each is one more search.
MOST_BRANCHES = 8

_OPPOSITE: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}


def simplify(tree: exp.Expr) -> list[exp.Expr]:
    """Return the conjuncts of a condition in simple form; no conjunct if it is constantly true."""
    match tree:
        case exp.Paren():
            return simplify(tree.this)
        case exp.And():
            return [*simplify(tree.left), *simplify(tree.right)]
        case exp.Not():
            return _negated(tree)
        case exp.Or():
            return _factored(tree)
        case exp.Boolean(this=True):
            return []
        case exp.Null():
            return [exp.false()]
        case exp.Between() if len({column.table for column in tree.find_all(exp.Column)}) > 2:
            low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
            return [low, exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())]
        case exp.EQ(this=exp.Literal() as left, expression=exp.Literal() as right) if left == right:
            return []
    return [tree]


def _negated(tree: exp.Not) -> list[exp.Expr]:
    inner = bare(tree.this)
    match inner:
        case exp.Not():
            return simplify(inner.this)
        case exp.Or():
            return [part for side in (inner.left, inner.right) for part in simplify(exp.not_(side))]
        case exp.Boolean():
            return [] if not inner.this else [exp.false()]
    opposite = _OPPOSITE.get(type(inner))
    if opposite is None:
        return [tree]
    return [opposite(this=inner.this.copy(), expression=inner.expression.copy())]


def _factored(tree: exp.Or) -> list[exp.Expr]:
    """``(a AND b) OR (a AND c)`` is ``a AND (b OR c)``."""
    branches = [simplify(branch) for branch in disjuncts(tree)]
    if any(not branch for branch in branches):
        return []
    common = [part for part in branches[0] if all(part in branch for branch in branches[1:])]
    if not common:
        return [tree]
    rests = [[part for part in branch if part not in common] for branch in branches]
    if any(not rest for rest in rests):
        return common
    return [*common, exp.paren(exp.or_(*(exp.and_(*rest) for rest in rests)), copy=False)]


def disjuncts(tree: exp.Expr) -> list[exp.Expr]:
    """Return the branches of an OR."""
    return operands(tree, exp.Or)


def branches_of(
    tree: exp.Expr, type_of: TypeOf, relations: Callable[[exp.Expr], tuple[str, ...]]
) -> list[list[exp.Expr]] | None:
    """Return a condition as branches of an OR, each the conjuncts of one; None if it is none, or has too many.

    What reads one relation alone stays whole.

    ``x IN (a, b)`` is ``x = a OR x = b`` where Spark compares all of them in one type anyway, and ``x NOT BETWEEN a AND
    b`` is ``x < a OR x > b``.

    Examples
    --------
    ``a AND (b OR c) OR d`` has the branches ``a AND b``, ``a AND c`` and ``d``.
    """
    found: list[list[exp.Expr]] = []
    match bare(tree):
        case exp.In(this=value, expressions=[_, _, *_] as values):
            kinds = {type_of(one) for one in (value, *values)}
            if len(kinds) == 1 or kinds <= {*INTEGERS}:
                found = [[exp.EQ(this=value.copy(), expression=one.copy())] for one in values]
        case exp.Not(this=inner):
            between = bare(inner)
            if isinstance(between, exp.Between) and not between.args.get("symmetric"):
                value, low, high = (between.args[key].copy() for key in ("this", "low", "high"))
                found = [[exp.LT(this=value, expression=low)], [exp.GT(this=value.copy(), expression=high)]]
        case exp.Or() as either:
            single: dict[tuple[str, ...], list[exp.Expr]] = {}
            for one in disjuncts(either):
                if len(read := relations(one)) == 1:
                    single.setdefault(read, []).append(one)
                    continue
                parts = [branches_of(part, type_of, relations) or [[part]] for part in simplify(one)]
                found += [[part for branch in chosen for part in branch] for chosen in product(*parts)]
            found += [[exp.or_(*some)] for some in single.values()]
    wanted = len(relations(tree)) > 1 and 1 < len(found) <= MOST_BRANCHES
    return found if wanted else None
