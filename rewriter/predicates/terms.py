"""Terms: from syntax trees to the expressions that a plan holds, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ...errors import SqlSyntaxError
from ..plan.comparison import common_type
from ..plan.conjuncts import At, ComparisonOp, Residual, Term
from ..plan.nodes import Node, scans
from ..plan.parts import OutputColumn
from ..sql.catalog import TypesOf
from ..sql.dialect import identifier, parse_expression, quote, render
from ..sql.spark_types import UNKNOWN, char_length, text_compared_as, text_type, type_of

#: By node: the operator of a comparison.
OPERATORS: dict[type[exp.Expr], ComparisonOp] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def bare(tree: exp.Expr) -> exp.Expr:
    """Return an expression without the parentheses around it."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def operands(tree: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    """Return the operands of a chain of AND, or of OR, whatever parentheses are around them and in it."""
    tree = bare(tree)
    return [*operands(tree.left, kind), *operands(tree.right, kind)] if isinstance(tree, kind) else [tree]


def tree_of(term: Term) -> exp.Expr:
    """Return a term's syntax tree. It is shared: copy it before you change it."""
    return parse_expression(term.sql)


@lru_cache(maxsize=4096)
def column_term(at: At, kind: str = UNKNOWN) -> Term:
    """Return a column as a term."""
    return Term(f"{quote(at[0])}.{quote(at[1])}", (at,), (at[0],), kind)


def _columns_of(tree: exp.Expr) -> tuple[At, ...]:
    return tuple(dict.fromkeys((column.table, column.name) for column in tree.find_all(exp.Column)))


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
        types = {(scan.alias, column.name): column.type for scan in below for column in scan.columns}
        return cls(tuple(scan.alias for scan in below), types, ansi, ask)

    def term(self, tree: exp.Expr) -> Term:
        """Return an expression as a term."""
        columns = _columns_of(tree)
        relations = self._in_order({alias for alias, _ in columns})
        op = OPERATORS[type(tree)] if isinstance(tree, exp.EQ | exp.NullSafeEQ) else None
        sides = (self.term(tree.this), self.term(tree.expression)) if op is not None else ()
        return Term(render(tree), columns, relations, self.type_of(tree), op, sides)

    def relations(self, tree: exp.Expr) -> tuple[str, ...]:
        """Return the relations that an expression reads, in plan order."""
        return self._in_order({column.table for column in tree.find_all(exp.Column)})

    def _in_order(self, aliases: set[str]) -> tuple[str, ...]:
        found = {self.inputs.get(alias, alias) for alias in aliases} if self.inputs else aliases
        return tuple(alias for alias in self.order if alias in found)

    def input_of(self, alias: str) -> str:
        """Return the relation that stands for the input of a join that has a relation."""
        return self.inputs.get(alias, alias)

    def type_of(self, tree: exp.Expr) -> str:
        """Return the type of an expression, ``unknown`` if the schemas do not tell."""
        return type_of(tree, lambda column: self.types.get((column.table, column.name), UNKNOWN))

    def as_compared(self, left: exp.Expr, right: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
        """Return two keys as Spark compares them, None if the kernel would compare such values differently.

        In ANSI mode Spark casts a text to the type that it is compared with. Spark is asked for types that are not
        modelled here. An unknown type, as in an EXPLAIN without Spark, is assumed to be comparable.
        """
        kinds = [text_type(self.type_of(side)) for side in (left, right)]
        if UNKNOWN in kinds and self.ask is not None:
            read = [(column.table, column.name) for side in (left, right) for column in side.find_all(exp.Column)]
            types = {at: self.types.get(at, UNKNOWN) for at in read}
            if UNKNOWN not in types.values():
                asked = self.ask([render(bare(side)) for side in (left, right)], types)
                kinds = [text_type(kind) for kind in asked] or kinds
        if "string" in kinds and len(set(kinds)) > 1 and UNKNOWN not in kinds:
            wanted = self.ansi and text_compared_as(kinds[kinds[0] == "string"])
            return (_cast(left, wanted), _cast(right, wanted)) if wanted else None
        known = [kind for kind in kinds if kind != UNKNOWN]
        return (left, right) if not known or common_type(known[0], known[-1]) is not None else None

    def padded(self, tree: exp.Expr) -> exp.Expr:
        """Return a condition whose comparisons of CHAR columns of several lengths pad the shorter ones, as Spark does.

        Spark knows them by the columns' metadata, and pads where both sides are columns (`ApplyCharTypePadding`), but
        for BETWEEN. A side alone does not tell. Where values do not come padded, columns of one length are padded too.
        """
        found = tree.copy()
        for node in [*found.find_all(*OPERATORS, exp.In)]:
            compared = [bare(one) for one in (node.this, *(node.expressions or [node.args.get("expression")])) if one]
            lengths = [char_length(self.type_of(one)) if isinstance(one, exp.Column) else None for one in compared]
            if None in lengths or (self.chars_padded and len(set(lengths)) < 2):
                continue
            for one, length in zip(compared, lengths, strict=True):
                if length != (longest := max(filter(None, lengths))) or not self.chars_padded:
                    one.replace(parse_expression(f"RPAD({render(one)}, {longest}, ' ')").copy())
        return tree if found == tree else found


def _cast(tree: exp.Expr, kind: str) -> exp.Expr:
    return parse_expression(f"CAST({render(bare(tree))} AS {kind})")


def reread(text: str, aliases: Iterable[str]) -> str | None:
    """Return a condition as we write what we read of it, None if we cannot read it, or it has other relations."""
    try:
        tree = parse_expression(text)
    except (SqlglotError, SqlSyntaxError):
        return None
    return render(tree) if {alias for alias, _ in _columns_of(tree)} <= set(aliases) else None


def is_equality(term: Term) -> bool:
    """Tell whether a condition is an equality between columns of some relations and columns of others."""
    sides = [set(side.relations) for side in term.sides]
    return bool(sides) and all(sides) and sides[0].isdisjoint(sides[1])


def remap(term: Term, column: Callable[[At], exp.Expr | None]) -> exp.Expr:
    """Return a copy of a term's tree with its columns replaced; None keeps a column unchanged."""
    tree = tree_of(term).copy()
    for node in list(tree.find_all(exp.Column)):
        other = column((node.table, node.name))
        if other is not None and node is tree:
            return other
        if other is not None:
            node.replace(other)
    return tree


class MovedColumns(dict[At, At]):
    """Columns that now come from another relation: by ``(alias, name)``, their alias and name there."""

    def tree(self, term: Term) -> exp.Expr:
        """Return a term's tree with the columns rewritten."""

        def column(at: At) -> exp.Expr | None:
            alias, name = self.get(at, (None, None))
            return exp.column(identifier(name), identifier(alias)) if alias is not None and name is not None else None

        return remap(term, column)

    def term(self, term: Term) -> Term:
        """Return a term with the columns rewritten."""
        if self.keys().isdisjoint(term.columns):
            return term
        columns = tuple(self.get(at, at) for at in term.columns)
        relations = tuple(dict.fromkeys(alias for alias, _ in columns))
        return Term(render(self.tree(term)), columns, relations, term.type)

    def output(self, column: OutputColumn) -> OutputColumn:
        """Return an output column with its new origin."""
        alias, name = self.get((column.relation, column.column), (column.relation, column.column))
        return dataclasses.replace(column, relation=alias, column=name)


def over_output(residual: Residual, names: Mapping[At, str]) -> Residual:
    """Return a residual over a join node's output names."""
    tree = remap(residual.condition, lambda at: exp.Column(this=identifier(names[at])))
    columns = tuple(("", names[at]) for at in residual.condition.columns)
    condition = dataclasses.replace(residual.condition, sql=render(tree), columns=columns, op=None, sides=())
    return dataclasses.replace(residual, condition=condition)
