"""Expressions of sqlglot's trees (`plan.expr`): read once, with their types and with the text that sqlglot writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from sqlglot import exp

from ..plan.expr import UNKNOWN, Call, Column, Constant, Expr, between, chained, negation, negative, parenthesized
from .dialect import DIALECT, TriJoinSql, parse_expression, render
from .functions import called
from .intervals import interval_microseconds, spans_of
from .spark_types import INTERVAL, UNIT, literal_type, type_name, type_of_call

#: Gives the type of a column.
ColumnType = Callable[[exp.Column], str]

#: By node: an operator between two operands.
_INFIX: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "DIV",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.DPipe: "||",
}


#: By node: its word, where that is not sqlglot's own.
_WORDS: dict[type[exp.Expr], str] = {exp.Paren: "()", exp.Dot: ".", exp.Bracket: "[]", exp.TryCast: "TRY_CAST"}

#: What stands around the number of an operand while a node is written; no text has it.
_HOLE = "\ue000"


class _Pieces(TriJoinSql.Generator):
    """Writes one node, with holes for what it is over."""

    def __init__(self) -> None:
        super().__init__(dialect=DIALECT, normalize_functions=False, comments=False)

    def of(self, node: exp.Expr) -> tuple[tuple[str, ...], list[exp.Expr]]:
        """Return the text around a node's operands, and these."""
        self.top, self.inside = node, list[exp.Expr]()
        pieces = self.sql(node).split(_HOLE)
        return tuple(pieces[::2]), [self.inside[int(at)] for at in pieces[1::2]]

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        if isinstance(expression, exp.DataType) and not key:
            return render(expression)
        if (
            key
            or expression is self.top
            or not isinstance(expression, exp.Condition | exp.Interval | exp.Query | exp.Tuple | exp.Var)
        ):
            return str(super().sql(expression, key, comment))
        self.inside.append(expression)
        return f"{_HOLE}{len(self.inside) - 1}{_HOLE}"


def expression(tree: exp.Expr, column_type: ColumnType = lambda _: UNKNOWN) -> Expr:
    """Return an expression of a syntax tree, which stays as it is."""
    if isinstance(tree, exp.Connector) and type(tree) in (exp.And, exp.Or):
        return _connected(tree, column_type)
    if type(tree) in _INFIX:
        return _infix(tree, column_type)
    match tree:
        case exp.Column():
            return Column((tree.table, tree.name), render(tree), column_type(tree))
        case exp.Literal():
            value = tree.name if tree.is_string else number(tree.name)
            return Constant(render(tree), value, literal_type(tree.name, tree.is_string))
        case exp.Boolean():
            return Constant(render(tree), bool(tree.this), "boolean")
        case exp.Null():
            return Constant("NULL", None)
        case exp.Interval() if not tree.find(exp.Column):
            kind = INTERVAL if interval_microseconds(tree) is not None else UNKNOWN
            return Constant(render(tree), spans_of(tree), kind)
        case exp.Neg():
            return negative(expression(tree.this, column_type))
        case exp.Dot(this=exp.Literal()):
            raise ValueError("a literal has no fields")
        case exp.Var():
            return Constant(render(tree), tree.name, UNIT)
        case exp.Between() if tree.args.get("symmetric"):
            this, low, high = (expression(tree.args[key], column_type) for key in ("this", "low", "high"))
            return parenthesized(chained("OR", between(this, low, high), between(this, high, low)))
        case exp.NullSafeNEQ():
            equal = exp.NullSafeEQ(this=tree.this.copy(), expression=tree.expression.copy())
            return negation(parenthesized(expression(equal, column_type)))
        case exp.Query():
            return Call("QUERY", (), (render(tree),))
    return _call(tree, column_type)


def _call(tree: exp.Expr, column_type: ColumnType) -> Call:
    pieces, inside = _Pieces().of(tree)
    args = tuple(expression(one, column_type) for one in inside)
    if not args and isinstance(tree, exp.Cast):  # written as a whole, such as DATE 'today'
        args = (expression(tree.this, column_type),)
    op = called(tree) or _WORDS.get(type(tree), tree.key.upper())
    if isinstance(tree, exp.Case) and tree.this is not None:
        op = "CASE OF"
    kind = type_name(render(tree.args["to"])) if isinstance(tree, exp.Cast) else type_of_call(op, args)
    return Call(op, args, pieces, kind)


def _connected(tree: exp.Connector, column_type: ColumnType) -> Call:
    """Return a chain of one operator as one call."""
    op, parts, waiting = tree.key.upper(), list[exp.Expr](), list[exp.Expr]([tree])
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.Connector) and type(one) is type(tree):
            waiting += (one.right, one.left)
        else:
            parts.append(one)
    args = tuple(expression(one, column_type) for one in parts)
    return Call(op, args, ("", *[f" {op} "] * (len(args) - 1), ""), "boolean")


def _infix(tree: exp.Expr, column_type: ColumnType) -> Expr:
    """Return an operator over two expressions; a long sum takes no deep stack."""
    above: list[exp.Expr] = []
    while type(tree) in _INFIX:
        above.append(tree)
        tree = tree.this
    found = expression(tree, column_type)
    for node in reversed(above):
        op, args = _INFIX[type(node)], (found, expression(node.args["expression"], column_type))
        found = Call(op, args, ("", f" {op} ", ""), type_of_call(op, args))
    return found


def parsed(sql: str, column_type: ColumnType = lambda _: UNKNOWN) -> Expr:
    """Return the expression that a text is."""
    return expression(parse_expression(sql), column_type)


def number(text: str) -> Fraction | None:
    """Return the value of a number as it is written, None if it has too many digits."""
    found = re.fullmatch(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", text)
    return Fraction(text) if found and len(text) < 40 else None
