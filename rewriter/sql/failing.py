"""Whether an expression may raise an error on some row: such a one is not computed for more rows than Spark would.

`tried` returns what can be computed for every row in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..plan.expr import (
    UNKNOWN,
    Call,
    Constant,
    Expr,
    function,
    infix,
    joined,
    negation,
    parenthesized,
    parts_of,
    rebuilt,
)
from .functions import ALIKE, CASTS, PARTS_OF_DATES, PURE, TIME_ARITHMETIC, TWINS
from .spark_types import FRACTIONS, INTEGERS, TIMES, UNIT, is_decimal, text_type

#: Operators of two operands that Spark casts to one type; the cast of a text may raise an error.
_CASTING = ("+", "-", "*", "/", "%", "DIV", "=", "<>", "<", "<=", ">", ">=", "<=>", "IS", "LIKE")

#: What raises no error, whatever its operands (except for the overflow of whole numbers).
_HARMLESS = {
    *_CASTING,
    *("()", ".", "NEG", "||", "AND", "OR", "NOT", "BETWEEN", "IN"),
    *("CASE", "CASE OF", "IF", "TRIM", "SUBSTRING", "TRY_CAST"),
} - {"/", "%", "DIV"}

_ZERO = Constant("0", None, "int")
_NULL = Constant("NULL", None)


def may_fail(expr: Expr) -> bool:
    """Return whether an expression may raise an error other than the overflow of whole numbers."""
    for node in parts_of(expr):
        if not isinstance(node, Call):
            continue
        if not (node.op in _HARMLESS or node.op in PURE or _harmless_special(node)):
            return True
        for operands in (_alike(node), results_of(node)):
            kinds = {text_type(operand.type) for operand in operands}
            if "string" in kinds and len(kinds - {UNKNOWN}) > 1:
                return True
    return False


def _harmless_special(node: Call) -> bool:
    """Tell whether a cast, a division or a part of a date raises no error."""
    match node:
        case Call("CAST", (inner,), type=to):
            return inner.op == "CONSTANT" or always_casts(inner.type, to)
        case Call("/" | "%" | "DIV", (_, divisor)):
            return isinstance(divisor, Constant) and divisor.type not in ("string", UNKNOWN) and bool(divisor.value)
        case Call("EXTRACT", (*_, inner)):
            return inner.type in (*TIMES, "date")
        case Call(op, args) if op in PARTS_OF_DATES:
            return all(part.type in (*TIMES, "date") for part in args if not _is_text(part))
        case Call(op, args) if op in TIME_ARITHMETIC:
            return all(part.type in (*TIMES, *INTEGERS, "date", UNIT) for part in args)
    return False


def _is_text(expr: Expr) -> bool:
    return isinstance(expr, Constant) and expr.type in ("string", UNIT)


def always_casts(inner: str, to: str) -> bool:
    """Tell whether every value of a type has one of another type."""
    if to == "string":
        return True
    if inner in (*TIMES, "date"):
        return to in (*TIMES, "date")
    if inner in INTEGERS:
        return to in (*INTEGERS[INTEGERS.index(inner) :], *FRACTIONS)
    return to in FRACTIONS and (inner in FRACTIONS or is_decimal(inner))


def tried(expr: Expr) -> tuple[Expr, Expr] | None:
    """Return an expression that is NULL where another one raises an error, and a condition that is true of such rows.

    It may be true of more rows. None if nothing in the expression is known to raise errors, or if a CASE or an IF in it
    says of which rows something is computed.

    Examples
    --------
    ``CAST(r.t AS INT) / r.n`` is ``TRY_CAST(r.t AS INT) / NULLIF(r.n, 0)``; the rows are those for which ``r.t IS NOT
    NULL AND TRY_CAST(r.t AS INT) IS NULL OR r.n = 0``.
    """
    if any(node.op in ("CASE", "CASE OF", "IF") for node in parts_of(expr)):
        return None
    failures: list[Expr] = []

    def change(node: Expr) -> Expr:
        twin, fails = _twin(node) if isinstance(node, Call) else (node, None)
        if fails is not None and fails not in failures:
            failures.append(fails)
        return twin

    form = rebuilt(expr, change)
    return (form, joined("OR", *failures)) if failures else None


def _twin(node: Call) -> tuple[Expr, Expr | None]:
    """Return what gives NULL where a call raises an error, and when that is; the call itself if it raises none."""
    match node:
        case Call("CAST", (inner,), (first, last), type=to) if not _harmless_special(node):
            return _null_where_given(Call("TRY_CAST", (inner,), (f"TRY_{first}", last), to))
        case Call(op, (inner,)) if op in CASTS:
            return _twin(Call("CAST", (inner,), ("CAST(", f" AS {op.upper()})"), op))
        case Call(op, args) if op in TWINS and not args[0].type.startswith("map"):
            return _null_where_given(function(TWINS[op], *args))
        case Call("[]", (array, at)) if array.op == "ARRAY" or array.type.startswith("array"):
            return _null_where_given(function("GET", array, at))
        case Call("/" | "%" | "DIV", (left, right)) if not _harmless_special(node):
            divisor = function("NULLIF", right, _ZERO)
            return infix(node.op, left, divisor, node.type), infix("=", right, _ZERO)
    return node, None


def _null_where_given(twin: Call) -> tuple[Call, Expr]:
    given = [_is_null(parenthesized(one)) for one in twin.args if one.op != "CONSTANT"]
    return twin, parenthesized(joined("AND", *map(negation, given), _is_null(twin)))


def _is_null(expr: Expr) -> Call:
    return infix("IS", expr, _NULL)


def _alike(node: Call) -> Sequence[Expr]:
    """Return the operands that Spark casts to one type; the cast of a text may raise an error."""
    if node.op in (*_CASTING, "IN", "BETWEEN") or node.op in ALIKE:
        return node.args
    return (node.args[0], *node.args[1:-1:2]) if node.op == "CASE OF" else ()


def results_of(node: Call) -> Sequence[Expr]:
    """Return the results of a CASE or an IF."""
    if node.op == "IF":
        return node.args[1:]
    branches = node.args[node.op == "CASE OF" :] if node.op in ("CASE", "CASE OF") else ()
    return (*branches[1::2], *branches[len(branches) - len(branches) % 2 :])
