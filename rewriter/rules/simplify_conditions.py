"""Rewrite conjuncts into the form that later rules read.

Example: ``NOT (r.a < s.a) AND 1 = 1 AND ((r.b = s.b AND r.c = 1) OR (r.b = s.b AND r.c = 2))`` becomes
``r.a >= s.a``, ``r.b = s.b`` and ``(r.c = 1 OR r.c = 2)``.

All of this is exact under three-valued logic where only TRUE keeps a row: NOT moves over a comparison and over OR, AND
and OR distribute, and constantly true conditions are dropped.
"""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from ..plan.conjuncts import Predicate
from ..plan.nodes import Block, Join, Node, Where, transform
from ..predicates.terms import Scope, tree_of
from .rule import NotApplicable, each_block

_OPPOSITE: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}


def simplify_conditions(plan: Node) -> Node | NotApplicable:
    """Split, push NOT down, factor OR and drop constantly true conditions."""

    def change(block: Block) -> Block:
        scope = Scope.of(block.input)

        def visit(node: Node) -> Node:
            match node:
                case Where():
                    kept = _simplified(node.predicates, scope)
                    return dataclasses.replace(node, predicates=kept) if kept else node.input
                case Join(predicates=predicates) if predicates:
                    return dataclasses.replace(node, predicates=_simplified(predicates, scope))
            return node

        return dataclasses.replace(block, input=transform(block.input, visit, own=True))

    return each_block(plan, change, "every condition is a plain conjunct already")


def _simplified(predicates: tuple[Predicate, ...], scope: Scope) -> tuple[Predicate, ...]:
    found = []
    for predicate in predicates:
        tree = tree_of(predicate.condition)
        parts = list(simplify(tree))
        if parts == [tree]:
            found.append(predicate)
            continue
        for part in parts:
            term = scope.term(part)
            sql = predicate.sql if len(parts) == 1 else term.sql
            found.append(dataclasses.replace(predicate, sql=sql, condition=term))
    return tuple(dict.fromkeys(found))


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
    inner = tree.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
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
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Or):
        return [*disjuncts(tree.left), *disjuncts(tree.right)]
    return [tree]
