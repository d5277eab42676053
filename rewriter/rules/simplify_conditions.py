"""Rewrite conjuncts into the form that later rules read.

Example: ``NOT (r.a < s.a) AND 1 = 1 AND ((r.b = s.b AND r.c = 1) OR (r.b = s.b AND r.c = 2))`` becomes
``r.a >= s.a``, ``r.b = s.b`` and ``(r.c = 1 OR r.c = 2)``. Comparisons of CHAR columns get what Spark would add.

What is exact under three-valued logic, where only TRUE keeps a row, is in `predicates.simple_form`.
"""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from ..options import DEFAULTS, Settings
from ..plan.comparison import common_type
from ..plan.conjuncts import Predicate
from ..plan.nodes import Block, Join, Node, Where, transform
from ..predicates.simple_form import simplify
from ..predicates.terms import Scope, tree_of
from ..sql.functions import called
from ..sql.spark_types import UNKNOWN
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
        tree = tree_of(predicate.condition)
        folded = _known_types(tree, scope) if "typeof" in predicate.condition.sql.lower() else tree
        parts = list(simplify(scope.padded(folded)))
        if parts == [tree]:
            found.append(predicate)
            continue
        for part in parts:
            term = scope.term(part)
            sql = predicate.sql if len(parts) == 1 else term.sql
            found.append(dataclasses.replace(predicate, sql=sql, condition=term))
    return tuple(dict.fromkeys(found))


def _known_types(tree: exp.Expr, scope: Scope) -> exp.Expr:
    """Return a condition with the texts that ``typeof`` gives, as Spark folds it: no column counts as read by it."""
    return tree.transform(lambda node: _typeof(node, scope) or node)


def _typeof(node: exp.Expr, scope: Scope) -> exp.Expr | None:
    kind = scope.type_of(node.expressions[0]) if called(node) == "typeof" and node.expressions else UNKNOWN
    return exp.Literal.string(kind) if kind != UNKNOWN and common_type(kind, kind) is not None else None
