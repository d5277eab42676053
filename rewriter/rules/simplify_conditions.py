"""Rewrite conjuncts into the form that later rules read.

Example: ``NOT (r.a < s.a) AND 1 = 1 AND ((r.b = s.b AND r.c = 1) OR (r.b = s.b AND r.c = 2))`` becomes
``r.a >= s.a``, ``r.b = s.b`` and ``(r.c = 1 OR r.c = 2)``. Comparisons of CHAR columns get what Spark would add.

What is exact under three-valued logic, where only TRUE keeps a row, is in `predicates.simple_form`.
"""

from __future__ import annotations

import dataclasses

from ..options import DEFAULTS, Settings
from ..plan.comparison import common_type
from ..plan.conjuncts import Predicate
from ..plan.expr import UNKNOWN, Constant, Expr, rebuilt
from ..plan.nodes import Block, Join, Node, Where, transform
from ..predicates.simple_form import simplify
from ..predicates.terms import Scope
from .rule import NotApplicable, each_block


def simplify_conditions(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Split, push NOT down, factor OR and drop constantly true conditions."""

    def change(block: Block) -> Block:
        scope = dataclasses.replace(Scope.of(block.input), chars_padded=settings.chars_padded)

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
        condition = predicate.condition.expr
        parts = simplify(scope.padded(rebuilt(condition, _typeof)))
        if parts == [condition]:
            found.append(predicate)
            continue
        for part in parts:
            term = scope.term(part)
            sql = predicate.sql if len(parts) == 1 else term.sql
            found.append(dataclasses.replace(predicate, sql=sql, condition=term))
    return tuple(dict.fromkeys(found))


def _typeof(expr: Expr) -> Expr:
    """Return the text that ``typeof`` gives, as Spark folds it: no column counts as read by it."""
    kind = expr.args[0].type if expr.op == "typeof" and expr.args else UNKNOWN
    if kind == UNKNOWN or common_type(kind, kind) is None:
        return expr
    return Constant(f"'{kind}'", kind, "string")
