"""Conditions as a conjunction, and as an OR of conjunctions.

All of this is exact under three-valued logic where only TRUE keeps a row: NOT moves over a comparison and over OR, AND
and OR distribute, and constantly true conditions are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from ..plan.expr import UNKNOWN, Call, Constant, Expr, bare, infix, joined, negation, operands, parenthesized
from ..sql.spark_types import INTEGERS

#: An OR of more branches stays as it is: each is one more search.
MOST_BRANCHES = 8

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}

_FALSE = Constant("FALSE", False, "boolean")


def simplify(expr: Expr) -> list[Expr]:
    """Return the conjuncts of a condition in simple form; no conjunct if it is constantly true."""
    match expr:
        case Call("()", (inner,)):
            return simplify(inner)
        case Call("AND", parts):
            return [found for part in parts for found in simplify(part)]
        case Call("NOT", (inner,)):
            return _negated(expr, bare(inner))
        case Call("OR"):
            return _factored(expr)
        case Constant(value=True):
            return []
        case Constant(value=None, sql="NULL"):
            return [_FALSE]
        case Call("BETWEEN") if len({alias for alias, _ in expr.columns}) > 2:
            return list(ends_of(expr))
        case Call("=", (Constant(type=kind) as left, right)) if left == right and kind not in ("boolean", UNKNOWN):
            return []
    return [expr]


def ends_of(between: Call) -> tuple[Call, Call]:
    """Return the two comparisons that a BETWEEN is."""
    value, low, high = between.args
    return infix(">=", value, low), infix("<=", value, high)


def _negated(expr: Expr, inner: Expr) -> list[Expr]:
    match inner:
        case Call("NOT", (twice,)):
            return simplify(twice)
        case Call("OR", parts):
            return [found for part in parts for found in _negated(negation(part), bare(part))]
        case Constant(value=bool(value)):
            return [_FALSE] if value else []
        case Call(op, (left, right)) if op in _OPPOSITE:
            return [infix(_OPPOSITE[op], left, right)]
    return [expr]


def _factored(expr: Expr) -> list[Expr]:
    """``(a AND b) OR (a AND c)`` is ``a AND (b OR c)``."""
    branches = [simplify(branch) for branch in operands(expr, "OR")]
    if any(not branch for branch in branches):
        return []
    common = [part for part in branches[0] if all(part in branch for branch in branches[1:])]
    if not common:
        return [expr]
    rests = [[part for part in branch if part not in common] for branch in branches]
    if any(not rest for rest in rests):
        return common
    return [*common, parenthesized(joined("OR", *(joined("AND", *rest) for rest in rests)))]


def branches_of(expr: Expr, relations: Callable[[Expr], tuple[str, ...]]) -> list[list[Expr]] | None:
    """Return a condition as branches of an OR, each the conjuncts of one; None if it is none, or has too many.

    What reads one relation alone stays whole.

    ``x IN (a, b)`` is ``x = a OR x = b`` where Spark compares all of them in one type anyway, and ``x NOT BETWEEN a AND
    b`` is ``x < a OR x > b``.

    Examples
    --------
    ``a AND (b OR c) OR d`` has the branches ``a AND b``, ``a AND c`` and ``d``.
    """
    found: list[list[Expr]] = []
    match bare(expr):
        case Call("IN", (value, *values)) if len(values) > 1:
            kinds = {one.type for one in (value, *values)}
            if len(kinds) == 1 or kinds <= {*INTEGERS}:
                found = [[infix("=", value, one)] for one in values]
        case Call("NOT", (inner,)):
            match bare(inner):
                case Call("BETWEEN", (value, low, high)):
                    found = [[infix("<", value, low)], [infix(">", value, high)]]
        case Call("OR") as either:
            single: dict[tuple[str, ...], list[Expr]] = {}
            for one in operands(either, "OR"):
                if len(read := relations(one)) == 1:
                    single.setdefault(read, []).append(one)
                    continue
                parts = [branches_of(part, relations) or [[part]] for part in simplify(one)]
                found += [[part for branch in chosen for part in branch] for chosen in product(*parts)]
            found += [[joined("OR", *some)] for some in single.values()]
    wanted = len(relations(expr)) > 1 and 1 < len(found) <= MOST_BRANCHES
    return found if wanted else None
