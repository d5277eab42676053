"""The kind of each conjunct: from a condition to kernel predicates, bands and residuals.

Bands are found among conjuncts of the form ``base + constant <op> base + constant`` over integers, dates and
timestamps, where moving the constants to one side is exact. Fractions keep their expressions as keys: ``x >= y - 0.5``
and ``x - y >= -0.5`` differ in the last digit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ...errors import SqlSyntaxError
from ..plan.comparison import common_type
from ..plan.nodes import (
    FLIPPED,
    ComparisonOp,
    GroupKey,
    Node,
    OutputColumn,
    PartialState,
    Predicate,
    PredicateKind,
    scans,
)
from ..sql.catalog import TypesOf
from ..sql.dialect import identifier, parse_expression, render
from ..sql.spark_types import UNKNOWN, text_compared_as, text_type, type_of
from .bands import Difference
from .differences import bare, exact_difference
from .rounded import rounded_difference

_Computed = TypeVar("_Computed", GroupKey, PartialState)

_OPS: dict[type[exp.Expr], ComparisonOp] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

_KINDS: dict[str, PredicateKind] = {"=": "equi", "<=>": "null_safe", "<>": "not_equal"}


@dataclass(frozen=True)
class Scope:
    """The relations of a join tree, in plan order, the types of their columns, and whether overflow is an error."""

    order: tuple[str, ...]
    types: Mapping[tuple[str, str], str]
    ansi: bool = True
    ask: TypesOf | None = None
    left_to_spark: frozenset[str] = frozenset()

    @classmethod
    def of(cls, node: Node, *, ansi: bool = True, ask: TypesOf | None = None) -> Scope:
        """Return the scope of a join tree."""
        below = scans(node)
        types = {(scan.alias, column.name): column.type for scan in below for column in scan.columns}
        return cls(tuple(scan.alias for scan in below), types, ansi, ask)

    def relations(self, tree: exp.Expr) -> tuple[str, ...]:
        """Return the relations that an expression reads, in plan order."""
        found = {column.table for column in tree.find_all(exp.Column)}
        return tuple(alias for alias in self.order if alias in found)

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


def _cast(tree: exp.Expr, kind: str) -> exp.Expr:
    return parse_expression(f"CAST({render(bare(tree))} AS {kind})")


def raw(text: str, scope: Scope, sql: str | None = None, derived: bool = False) -> Predicate:
    """Return a condition as an unclassified predicate."""
    return Predicate(sql or text, "residual", scope.relations(parse_expression(text)), rendered=text, derived=derived)


def columns_of(text: str) -> tuple[tuple[str, str], ...]:
    """Return the columns of a condition as ``(alias, name)`` in the order of the text."""
    found = {(column.table, column.name): None for column in parse_expression(text).find_all(exp.Column)}
    return tuple(found)


def reads_only(text: str, aliases: Iterable[str]) -> bool:
    """Return whether we can read a condition, and it has only columns of some relations."""
    try:
        found = columns_of(text)
    except (SqlglotError, SqlSyntaxError):
        return False
    return {alias for alias, _ in found} <= set(aliases)


def is_equality(text: str) -> bool:
    """Tell whether a condition is an equality between two columns' sides."""
    tree = parse_expression(text)
    if not isinstance(tree, exp.EQ | exp.NullSafeEQ):
        return False
    sides = [{column.table for column in side.find_all(exp.Column)} for side in (tree.this, tree.expression)]
    return all(sides) and not sides[0] & sides[1]


def remap(text: str, column: Callable[[str, str], exp.Expr | None]) -> str:
    """Return a condition with its columns ``(alias, name)`` rewritten; None keeps a column unchanged."""
    tree = parse_expression(text).copy()
    for node in [tree] if isinstance(tree, exp.Column) else list(tree.find_all(exp.Column)):
        other = column(node.table, node.name)
        if other is None:
            continue
        if node is tree:
            tree = other
        else:
            node.replace(other)
    return render(tree)


class MovedColumns(dict[tuple[str, str], tuple[str, str]]):
    """Columns that now come from another relation: by ``(alias, name)``, their alias and name there."""

    def text(self, sql: str) -> str:
        """Return a condition with the columns rewritten."""

        def column(alias: str, name: str) -> exp.Expr | None:
            found = self.get((alias, name))
            return exp.column(identifier(found[1]), identifier(found[0])) if found else None

        return remap(sql, column) if self else sql

    def predicate(self, predicate: Predicate) -> Predicate:
        """Return a kernel predicate with its expressions and guards rewritten; its relations stay."""
        if predicate.left is None or predicate.right is None or not self:
            return predicate
        guards = tuple((self.alias(alias, sql), self.text(sql)) for alias, sql in predicate.guards)
        left, right = self.text(predicate.left), self.text(predicate.right)
        return dataclasses.replace(predicate, left=left, right=right, guards=guards)

    def computed(self, one: _Computed) -> _Computed:
        """Return a key or an argument over one input, rewritten."""
        if one.sql is None or not self:
            return one
        relations = tuple(dict.fromkeys(self.alias(alias, one.sql) for alias in one.relations))
        return dataclasses.replace(one, sql=self.text(one.sql), relations=relations[:1])

    def output(self, column: OutputColumn) -> OutputColumn:
        """Return an output column with its new origin."""
        alias, name = self.get((column.relation, column.column), (column.relation, column.column))
        return dataclasses.replace(column, relation=alias, column=name)

    def alias(self, alias: str, sql: str) -> str:
        """Return the new alias of an expression over one relation."""
        return next((self[pair][0] for pair in columns_of(sql) if pair in self), alias)


def over_output(predicate: Predicate, names: Mapping[tuple[str, str], str]) -> Predicate:
    """Return a residual over a join node's output names; other predicates stay unchanged."""
    if predicate.kind != "residual" or predicate.rendered is None:
        return predicate
    rendered = remap(predicate.rendered, lambda alias, name: exp.Column(this=identifier(names[alias, name])))
    return dataclasses.replace(predicate, rendered=rendered)


def classify(predicates: Iterable[Predicate], scope: Scope) -> tuple[Predicate, ...]:
    """Classify raw predicates, and merge the two sides of a band into one predicate."""
    done: list[Predicate | Difference] = []
    for predicate in predicates:
        if predicate.kind != "residual":
            done.append(predicate)
            continue
        for found in _classify(predicate, parse_expression(predicate.rendered or predicate.sql), scope):
            _add(done, found)
    result: list[Predicate] = []
    for item in done:
        result += [item] if isinstance(item, Predicate) else [item.predicate()]
    return tuple(dict.fromkeys(result))


def _add(done: list[Predicate | Difference], found: Predicate | Difference) -> None:
    if isinstance(found, Difference):
        for index, known in enumerate(done):
            if isinstance(known, Difference) and known.key == found.key:
                done[index] = known.within(found)
                return
    done.append(found)


# -------------------------------------------------------------------------------------------------------- one conjunct


def _classify(predicate: Predicate, tree: exp.Expr, scope: Scope) -> list[Predicate | Difference]:
    tree = bare(tree)
    relations = scope.relations(tree)
    if len(relations) != 2 or predicate.sql in scope.left_to_spark:
        return [predicate]
    if tree.find(exp.Collate):  # as a separate key, a text would lose its explicit collation
        return [predicate]
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
        high = exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
        parts: list[Predicate | Difference] = []
        for part in (low, high):
            inner = dataclasses.replace(predicate, relations=scope.relations(part))
            parts += _classify(inner, part, scope)
        if all(isinstance(part, Predicate) and part.kind == "residual" for part in parts):
            return [predicate]
        return parts
    op = _OPS.get(type(tree))
    if op is None:
        return [predicate]
    return _comparison(predicate, op, tree.this, tree.expression, scope) or [predicate]


def _comparison(
    predicate: Predicate, op: ComparisonOp, left: exp.Expr, right: exp.Expr, scope: Scope
) -> list[Predicate | Difference] | None:
    difference = exact_difference(predicate, op, left, right, scope)
    if difference is not None:
        return [difference]
    ones, others = scope.relations(left), scope.relations(right)
    if not ones or not others:
        found = rounded_difference(predicate, op, left, right, scope)
        if isinstance(found, Difference):
            return [found, predicate] if found.derived and not predicate.derived else [found]
        if found is None:
            return None
        return [part for end in found for part in _comparison(predicate, *end, scope) or [predicate]]
    if len(ones) != 1 or len(others) != 1:
        return None
    if scope.order.index(ones[0]) > scope.order.index(others[0]):
        left, right, op = right, left, FLIPPED[op]
    sides = scope.as_compared(left, right)
    return None if sides is None else [_plain(predicate, op, *sides)]


def _plain(predicate: Predicate, op: ComparisonOp, left: exp.Expr, right: exp.Expr) -> Predicate:
    return Predicate(
        predicate.sql,
        _KINDS.get(op, "range"),
        predicate.relations,
        op,
        render(bare(left)),
        render(bare(right)),
        rendered=predicate.rendered,
        derived=predicate.derived,
        places=predicate.places,
    )


def flipped(predicate: Predicate) -> Predicate:
    """Return a kernel predicate with its sides exchanged.

    Examples
    --------
    >>> flipped(Predicate("r.a < s.a", "range", ("r", "s"), "<", "r.a", "s.a")).op
    '>'
    """
    assert predicate.op is not None
    relations = predicate.relations[::-1]
    op, bounds = FLIPPED[predicate.op], predicate.bounds and predicate.bounds.negated()
    return dataclasses.replace(
        predicate, relations=relations, op=op, left=predicate.right, right=predicate.left, bounds=bounds
    )
