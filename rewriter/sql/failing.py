"""Whether an expression may raise an error on some row: such a one is not computed for more rows than Spark would."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from .dialect import render
from .functions import ALIKE, PARTS_OF_DATES, PURE, TIME_ARITHMETIC, called
from .spark_types import INTEGERS, TIMES, UNKNOWN

TypeOf = Callable[[exp.Expr], str]

#: Nodes of expressions that raise no error, whatever their operands (except for the overflow of whole numbers).
_HARMLESS = (
    exp.Column | exp.Dot | exp.Identifier | exp.Literal | exp.Boolean | exp.Null | exp.Paren | exp.Neg | exp.Var
    | exp.Add | exp.Sub | exp.Mul | exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.NullSafeEQ
    | exp.And | exp.Or | exp.Not | exp.Is | exp.Between | exp.In | exp.Like | exp.Case | exp.If | exp.DPipe | exp.Trim
    | exp.Substring | exp.Interval | exp.Alias
)  # fmt: skip


def may_fail(tree: exp.Expr, type_of: TypeOf) -> bool:
    """Return whether an expression may raise an error other than the overflow of whole numbers.

    Parameters
    ----------
    type_of
        Gives the type of an expression, ``"unknown"`` where that is not known.
    """
    for node in tree.walk():
        if not (isinstance(node, _HARMLESS) or called(node) in PURE or _harmless_special(node, type_of)):
            return True
        for operands in (_alike(node), _results(node)):
            kinds = {type_of(operand) for operand in operands}
            if "string" in kinds and len(kinds - {UNKNOWN}) > 1:
                return True
    return False


def _harmless_special(node: exp.Expr, type_of: TypeOf) -> bool:
    """Tell whether a cast, a division or a part of a date raises no error."""
    match node:
        case exp.TryCast() | exp.DataType() | exp.DataTypeParam():
            return True
        case exp.Cast():
            inner, to = type_of(node.this), render(node.args["to"]).lower()
            wider = inner in INTEGERS and to in (*INTEGERS[INTEGERS.index(inner) :], "float", "double")
            return wider or to == "string" or isinstance(node.this, exp.Literal) or (inner, to) == ("float", "double")
        case exp.Div() | exp.Mod() | exp.IntDiv():
            divisor = node.right
            return isinstance(divisor, exp.Literal) and not divisor.is_string and float(divisor.name) != 0
        case exp.Extract():
            return type_of(node.expression) in (*TIMES, "date")
        case exp.Anonymous() if called(node) in PARTS_OF_DATES:
            return all(type_of(part) in (*TIMES, "date") for part in node.expressions if not _is_text(part))
        case exp.Anonymous() if called(node) in TIME_ARITHMETIC:
            operands = (part for part in node.expressions if not isinstance(part, exp.Var))  # but for the unit
            return all(type_of(part) in (*TIMES, *INTEGERS, "date") for part in operands)
    return False


def _alike(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the operands that Spark casts to one type; the cast of a text may raise an error."""
    match node:
        case exp.DPipe() | exp.And() | exp.Or() | exp.Dot():
            return
        case exp.Binary():
            yield from (node.left, node.right)
        case exp.In():
            yield from (node.this, *node.expressions)
        case exp.Between():
            yield from (node.this, node.args["low"], node.args["high"])
        case exp.Case():
            branches = node.args["ifs"]
            if node.this is not None:
                yield from (node.this, *(branch.this for branch in branches))
        case exp.Anonymous() if called(node) in ALIKE:
            yield from node.expressions


def _results(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the results of a CASE or an IF."""
    match node:
        case exp.Case():
            yield from (branch.args["true"] for branch in node.args["ifs"])
            if node.args.get("default") is not None:
                yield node.args["default"]
        case exp.If():
            yield from (tree for tree in (node.args.get("true"), node.args.get("false")) if tree is not None)


def _is_text(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Literal) and tree.is_string
