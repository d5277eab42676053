"""Expressions: what conditions and keys are made of. They are values: frozen, hashable and typed.

`sql.expressions` makes them of sqlglot's trees. Their text is what sqlglot writes, to the byte: restarts compare it.
The module imports only the standard library, as `nodes` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, zip_longest

#: A column of a relation, as ``(alias, name)``.
At = tuple[str, str]

#: The type of what the schemas do not tell.
UNKNOWN = "unknown"

#: A part of a length of time: how many, and of what unit, such as ``(5, "MINUTE")``.
Span = tuple[Fraction, str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation, and how it is written."""

    at: At
    sql: str
    type: str = field(default=UNKNOWN, compare=False)

    op = "COLUMN"
    args: tuple[Expr, ...] = field(default=(), init=False, repr=False, compare=False)

    @property
    def columns(self) -> tuple[At, ...]:
        """The columns that it reads: itself."""
        return (self.at,)


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, TRUE, FALSE, NULL or a length of time.

    Parameters
    ----------
    sql
        How it is written.
    value
        None also of a number with too many digits.
    type
        Spark's DDL name of its type.
    """

    sql: str
    value: Fraction | str | bool | tuple[Span, ...] | None
    type: str = UNKNOWN

    op = "CONSTANT"
    args: tuple[Expr, ...] = field(default=(), init=False, repr=False, compare=False)
    columns: tuple[At, ...] = field(default=(), init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function over other expressions.

    Parameters
    ----------
    op
        The function's name in small letters; an operator such as ``+``, ``<=`` or ``AND``, or another word of syntax,
        in capitals: ``NEG``, ``()``, ``CAST``, ``BETWEEN``, ``IN``, ``CASE``, ``.``.
    args
        What it is over, in the order of the text. AND and OR have any number of operands.
    pieces
        The text around them; one piece alone is the whole text.
    type
        Spark's DDL name of its type.
    form
        The pieces in small letters: ``ABS(x)`` equals ``abs(x)``.
    columns
        The columns that it reads, in the order of the text.
    """

    op: str
    args: tuple[Expr, ...]
    pieces: tuple[str, ...] = field(repr=False, compare=False)
    type: str = field(default=UNKNOWN, compare=False)
    form: tuple[str, ...] = field(init=False, repr=False)
    columns: tuple[At, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", tuple(map(str.lower, self.pieces)))
        object.__setattr__(self, "columns", tuple(dict.fromkeys(chain(*(one.columns for one in self.args)))))

    @property
    def sql(self) -> str:
        """How it is written."""
        if len(self.pieces) == 1:
            return self.pieces[0]
        return "".join(chain(*zip_longest(self.pieces, (one.sql for one in self.args), fillvalue="")))


Expr = Column | Constant | Call


def bare(expr: Expr) -> Expr:
    """Return an expression without the parentheses around it."""
    while expr.op == "()":
        expr = expr.args[0]
    return expr


def parts_of(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and all that it is made of, what is outside first."""
    waiting = [expr]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(one.args)


def rebuilt(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return an expression with a change made to all that it is made of, what is inside first."""
    args = tuple(rebuilt(one, change) for one in expr.args)
    if isinstance(expr, Call) and any(one is not other for one, other in zip(args, expr.args, strict=True)):
        expr = Call(expr.op, args, expr.pieces, expr.type)
    return change(expr)


def infix(op: str, left: Expr, right: Expr, type_: str = "boolean") -> Call:
    """Return an operator between two expressions."""
    return Call(op, (left, right), ("", f" {op} ", ""), type_)


def is_infix(expr: Expr) -> bool:
    """Return whether an expression is an operator between two others."""
    return isinstance(expr, Call) and len(expr.args) == 2 and expr.pieces[0] == expr.pieces[-1] == ""


def function(name: str, *args: Expr, type_: str = UNKNOWN) -> Call:
    """Return a function of expressions."""
    pieces = (f"{name}(", *[", "] * (len(args) - 1), ")") if args else (f"{name}()",)
    return Call(name.lower(), args, pieces, type_)


def cast(expr: Expr, type_: str) -> Call:
    """Return an expression cast to a type."""
    return Call("CAST", (expr,), ("CAST(", f" AS {type_.upper()})"), type_)


def parenthesized(expr: Expr) -> Call:
    """Return an expression in parentheses."""
    return Call("()", (expr,), ("(", ")"), expr.type)


def between(value: Expr, low: Expr, high: Expr) -> Call:
    """Return that a value is between two others."""
    return Call("BETWEEN", (value, low, high), ("", " BETWEEN ", " AND ", ""), "boolean")


def negation(expr: Expr) -> Call:
    """Return NOT of a condition."""
    return Call("NOT", (parenthesized(expr) if expr.op in ("AND", "OR") else expr,), ("NOT ", ""), "boolean")


def negative(expr: Expr) -> Call:
    """Return an expression with a minus."""
    return Call("NEG", (expr,), ("- " if expr.sql.startswith("-") else "-", ""), expr.type)


def joined(op: str, *parts: Expr) -> Expr:
    """Return expressions joined by ``AND`` or ``OR``; other such chains among them get parentheses."""
    if len(parts) == 1:
        return parts[0]
    return chained(op, *(parenthesized(one) if one.op in ("AND", "OR") else one for one in parts))


def chained(op: str, *parts: Expr) -> Expr:
    """Return expressions as a chain of ``AND`` or ``OR``; its binding is the caller's concern."""
    args = tuple(found for one in parts for found in (one.args if one.op == op else (one,)))
    return args[0] if len(args) == 1 else Call(op, args, ("", *[f" {op} "] * (len(args) - 1), ""), "boolean")


def operands(expr: Expr, op: str) -> list[Expr]:
    """Return the operands of a chain of ``AND`` or ``OR``, whatever parentheses are around them and in it."""
    expr = bare(expr)
    return [one for arg in expr.args for one in operands(arg, op)] if expr.op == op else [expr]
