"""Keep the errors of casts, divisions and the like between tables to the pairs of rows for which Spark computes them.

Units need the keys of every row, and Spark would not have computed some of them: of rows that no other condition pairs,
or that meet an empty table. So such a key is NULL where it fails. Those rows meet all others, and Spark's own condition
decides. On streams an error comes with its row.

Example: ``ABS(r.a - CAST(s.t AS INT)) < 5`` becomes a residual, and the same with ``TRY_CAST``, or a text that is no
number.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from ..options import DEFAULTS, Settings
from ..plan.conjuncts import Comparison, Either, NotEqual, Predicate, Residual, Term
from ..plan.expr import chained
from ..plan.nodes import Block, Join, Node, scans
from ..predicates.classify import flag
from ..predicates.terms import Scope
from ..sql.failing import tried
from .rule import NotApplicable, each_block, joins_of_ours

#: Why Spark runs a join of tables.
MAY_FAIL = "it may raise an error, where TRY_CAST, TRY_DIVIDE and the like give NULL"


def raise_on_pairs(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Let Spark decide conditions that may fail, on the pairs that meet; an outer join with one is Spark's."""

    def change(block: Block) -> Block:
        scope = Scope.of(block.input, ansi=settings.ansi)

        def changed(join: Join) -> Join:
            if any(scan.streaming is not False for scan in scans(join)):
                return join
            return dataclasses.replace(join, predicates=_without_errors(join.predicates, scope))

        return joins_of_ours(block, changed)

    return each_block(plan, change, "no key of a table is known to raise errors")


def raising(predicates: Iterable[Predicate], scope: Scope) -> list[Comparison]:
    """Return the predicates with a key that may raise errors other than overflow: no branch of an OR may.

    Spark computes the keys of an equality for every row, too.
    """
    known = (one for one in predicates if not isinstance(one, Residual | Either))
    compared = (one for one in known if one.kind not in ("equi", "null_safe"))
    return [one for one in compared if scope.ansi and any(tried(key.expr) for key in one.keys)]


def lone_orders(predicates: Iterable[Predicate], scope: Scope) -> list[Comparison]:
    """Return those for which Spark decides about a third of all pairs, for nothing of their kind narrows them down.

    An order lets through that many. Two of them are an interval.
    """
    orders = [one for one in raising(predicates, scope) if one.kind == "range"]
    counts = Counter(one.relations for one in orders)
    return [one for one in orders if counts[one.relations] == 1]


def _without_errors(predicates: tuple[Predicate, ...], scope: Scope) -> tuple[Predicate, ...]:
    """Return predicates of which no key raises errors, and as residuals what Spark then decides."""
    failing = raising(predicates, scope)
    kept = [one for one in predicates if one not in failing]
    pairs: dict[tuple[str, str], list[Comparison]] = {}
    for one in failing:
        if not isinstance(one, NotEqual):
            pairs.setdefault(one.relations, []).append(one)
        if not one.derived:
            kept.append(Residual(one.sql, one.condition, places=one.places))
    return (*dict.fromkeys(kept), *(_either(some) for some in pairs.values()))


def _either(some: list[Comparison]) -> Either:
    """Return that two rows may join by conditions that may fail, or that one of these fails for a row."""
    compared = []
    fails: dict[Term, dict[str, None]] = {}
    for one in some:
        found = [(key, tried(key.expr)) for key in one.keys]
        keys = [key if two is None else Term(two[0], key.relations) for key, two in found]
        compared.append(dataclasses.replace(one, left=keys[0], right=keys[1], guards=()))
        for key, two in found:
            if two is not None:
                fails.setdefault(Term(two[1], key.relations), {})[f"{key.sql} fails"] = None
    sql = " AND ".join(one.sql for one in some)
    keys = [key for one in some for key in one.keys]
    condition = Term(chained("AND", *(one.condition.expr for one in some)), some[0].relations)
    there = {one: [at for key in keys if key.relations != one.relations for at in key.columns] for one in fails}
    flags = tuple((flag(Residual(one.sql, one), Residual(sql, condition), there[one]),) for one in fails)
    shown = [" AND ".join(one.shown for one in compared), *(text for texts in fails.values() for text in texts)]
    branches = tuple(compared), *flags
    return Either(" OR ".join(shown).replace("`", ""), condition, branches, derived=True, source=sql, exceptions=True)
