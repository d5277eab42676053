"""Terms: expressions among the relations that they read; and what a join tree knows of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ...errors import SqlSyntaxError
from ..plan.comparison import common_type
from ..plan.conjuncts import FLIPPED, Residual, Term
from ..plan.expr import UNKNOWN, At, Call, Column, Constant, Expr, bare, cast, function, rebuilt
from ..plan.nodes import Node, column_types, scans
from ..plan.parts import OutputColumn
from ..sql.catalog import TypesOf
from ..sql.dialect import parse_expression, quote, render
from ..sql.expressions import expression
from ..sql.spark_types import char_length, text_compared_as, text_type


@lru_cache(maxsize=4096)
def column(at: At, kind: str = UNKNOWN) -> Column:
    """Return a column; that of a join node's results has no alias."""
    return Column(at, ".".join(quote(name) for name in at if name), kind)


def column_term(at: At, kind: str = UNKNOWN) -> Term:
    """Return a column as a term."""
    return Term(column(at, kind), (at[0],))


@dataclass(frozen=True)
class Scope:
    """The relations of a join tree, in plan order, the types of their columns, and whether overflow is an error.

    Relations that a join reads together, as the results of another join, count as the one that `inputs` names.
    """

    order: tuple[str, ...]
    types: Mapping[At, str]
    ansi: bool = True
    ask: TypesOf | None = None
    left_to_spark: frozenset[str] = frozenset()
    chars_padded: bool = True
    inputs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, node: Node, *, ansi: bool = True, ask: TypesOf | None = None) -> Scope:
        """Return the scope of a join tree."""
        below = scans(node)
        return cls(tuple(scan.alias for scan in below), column_types(below), ansi, ask)

    def read(self, tree: exp.Expr) -> Term:
        """Return a syntax tree as a term."""
        return self.term(expression(tree, lambda one: self.types.get((one.table, one.name), UNKNOWN)))

    def term(self, expr: Expr) -> Term:
        """Return an expression as a term."""
        return Term(expr, self.relations(expr))

    def column(self, at: At) -> Column:
        """Return a column with its type."""
        return column(at, self.types.get(at, UNKNOWN))

    def relations(self, expr: Expr) -> tuple[str, ...]:
        """Return the relations that an expression reads, in plan order."""
        found = {self.input_of(alias) for alias, _ in expr.columns}
        return tuple(alias for alias in self.order if alias in found)

    def input_of(self, alias: str) -> str:
        """Return the relation that stands for the input of a join that has a relation."""
        return self.inputs.get(alias, alias)

    def as_compared(self, left: Expr, right: Expr) -> tuple[Expr, Expr] | None:
        """Return two keys as Spark compares them, None if the kernel would compare such values differently.

        In ANSI mode Spark casts a text to the type that it is compared with. Spark is asked for types that are not
        modelled here. An unknown type, as in an EXPLAIN without Spark, is assumed to be comparable.
        """
        kinds = [text_type(side.type) for side in (left, right)]
        if UNKNOWN in kinds and self.ask is not None:
            types = {at: self.types.get(at, UNKNOWN) for at in (*left.columns, *right.columns)}
            if UNKNOWN not in types.values():
                asked = self.ask([bare(side).sql for side in (left, right)], types)
                kinds = [text_type(kind) for kind in asked] or kinds
        if "string" in kinds and len(set(kinds)) > 1 and UNKNOWN not in kinds:
            wanted = self.ansi and text_compared_as(kinds[kinds[0] == "string"])
            return (cast(bare(left), wanted), cast(bare(right), wanted)) if wanted else None
        known = [kind for kind in kinds if kind != UNKNOWN]
        return (left, right) if not known or common_type(known[0], known[-1]) is not None else None

    def padded(self, expr: Expr) -> Expr:
        """Return a condition whose comparisons of CHAR columns of several lengths pad the shorter ones, as Spark does.

        Spark knows them by the columns' metadata, and pads where both sides are columns (`ApplyCharTypePadding`), but
        for BETWEEN. A side alone does not tell. Where values do not come padded, columns of one length are padded too.
        """

        def change(one: Expr) -> Expr:
            if not isinstance(one, Call) or one.op not in (*FLIPPED, "IN"):
                return one
            lengths = [char_length(arg.type) if arg.op == "COLUMN" else None for arg in map(bare, one.args)]
            if None in lengths or (self.chars_padded and len(set(lengths)) < 2):
                return one
            longest = max(filter(None, lengths))
            padded = (
                arg if length == longest and self.chars_padded else _within(arg, longest)
                for arg, length in zip(one.args, lengths, strict=True)
            )
            return Call(one.op, tuple(padded), one.pieces, one.type)

        return rebuilt(expr, change)


def _within(side: Expr, length: int) -> Expr:
    """Return a column padded to a length; parentheses around it stay."""
    if side.op == "()":
        return rebuilt(side, lambda one: _within(one, length) if one.op == "COLUMN" else one)
    return function("RPAD", side, Constant(str(length), None, "int"), Constant("' '", " ", "string"))


def reread(text: str, aliases: Iterable[str]) -> str | None:
    """Return a condition as we write what we read of it, None if we cannot read it, or it has other relations."""
    try:
        tree = parse_expression(text)
    except (SqlglotError, SqlSyntaxError):
        return None
    return render(tree) if {column.table for column in tree.find_all(exp.Column)} <= set(aliases) else None


def sides_of(term: Term, *ops: str) -> tuple[Expr, ...]:
    """Return the sides of a comparison by one of some operators, by any equality if none is given; else nothing."""
    return term.expr.args if term.expr.op in (ops or ("=", "<=>")) else ()


def is_equality(term: Term) -> bool:
    """Tell whether a condition is an equality between columns of some relations and columns of others."""
    sides = [{alias for alias, _ in side.columns} for side in sides_of(term)]
    return bool(sides) and all(sides) and sides[0].isdisjoint(sides[1])


def remap(expr: Expr, moved: Mapping[At, Column]) -> Expr:
    """Return an expression with some of its columns replaced."""
    return rebuilt(expr, lambda one: moved.get(one.at, one) if isinstance(one, Column) else one)


class MovedColumns(dict[At, At]):
    """Columns that now come from another relation: by ``(alias, name)``, their alias and name there."""

    def term(self, term: Term) -> Term:
        """Return a term with the columns rewritten."""
        if self.keys().isdisjoint(term.columns):
            return term
        expr = rebuilt(term.expr, lambda one: self._column(one) if isinstance(one, Column) else one)
        return Term(expr, tuple(dict.fromkeys(alias for alias, _ in expr.columns)))

    def _column(self, one: Column) -> Column:
        return column(self[one.at], one.type) if one.at in self else one

    def output(self, column: OutputColumn) -> OutputColumn:
        """Return an output column with its new origin."""
        alias, name = self.get((column.relation, column.column), (column.relation, column.column))
        return dataclasses.replace(column, relation=alias, column=name)


def with_field_names(expr: Expr) -> Expr:
    """Return an expression whose compared structs name their fields, which Spark else names after the columns.

    Where columns are renamed on one side, Spark's own join of two streams would find two types and fail.
    """

    def named(side: Expr) -> Expr:
        if not isinstance(side, Call) or side.op not in ("struct", "TUPLE"):
            return side
        first, *pieces = side.pieces
        for at, (piece, one) in enumerate(zip(pieces, side.args, strict=True)):
            if isinstance(one, Column) and not piece.startswith(" AS "):
                pieces[at] = f" AS {quote(one.at[1])}{piece}"
        return Call("struct", side.args, (first if side.op == "struct" else "STRUCT(", *pieces), side.type)

    def change(one: Expr) -> Expr:
        if not isinstance(one, Call) or one.op not in ("=", "<=>"):
            return one
        return Call(one.op, tuple(map(named, one.args)), one.pieces, one.type)

    return rebuilt(expr, change)


def over_output(residual: Residual, names: Mapping[At, str]) -> Residual:
    """Return a residual over a join node's output names."""
    expr = remap(residual.condition.expr, {at: column(("", names[at])) for at in residual.condition.columns})
    return dataclasses.replace(residual, condition=Term(expr, residual.condition.relations))
