"""Which of two a bare name in HAVING means, if both a column and an output of SELECT have that name.

Spark looks in the relations first, but keeps such a column only if it is grouped (or inside an aggregate, which
`resolve` knows). Otherwise the name means the output: ``SELECT SUM(r.a) AS b ... GROUP BY r.b HAVING b > 10`` filters
by ``r.b``, and with ``GROUP BY r.c`` by the sum.

Below ROLLUP, CUBE and GROUPING SETS, Spark does not find a grouped column if it has to cast something beside it
(``b > 2`` over a BIGINT). Then the bare name means the output, and a qualified name, which we write, is an error. Such
a SELECT is not rewritten (`has_subtotals`, `unsure`): the session lets Spark parse it, and replaces the joins in its
plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from sqlglot import exp

from ..sql.functions import AGGREGATES, called
from .scopes import Field, Frame, field_of, own_nodes

#: Finds the column that a bare name means, None if there is not exactly one.
Lookup = Callable[[exp.Column], Field | None]


def grouped_columns(having: exp.Expr, select: exp.Select, lookup: Lookup) -> Iterator[exp.Column]:
    """Yield the bare columns of HAVING that are, or are part of, an expression of GROUP BY."""
    groups = {_signature(tree, lookup) for tree in _groups(select)}
    for column in own_nodes(having):
        if isinstance(column, exp.Column) and not column.table and lookup(column) is not None:
            node: exp.Expr | None = column
            while node is not None and not isinstance(node, exp.Having | exp.Query):
                if _signature(node, lookup) in groups:
                    yield column
                    break
                node = node.parent


def has_subtotals(select: exp.Select) -> bool:
    """Return whether the SELECT groups by ROLLUP, CUBE or GROUPING SETS."""
    group = select.args.get("group")
    return group is not None and any(
        isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) for node in own_nodes(group)
    )


def bare_names(having: exp.Expr, key: Callable[[str], str]) -> set[str]:
    """Return the names in HAVING that stand without a relation."""
    return {key(one.name) for one in own_nodes(having) if isinstance(one, exp.Column) and not one.table}


def unsure(names: set[str], select: exp.Select, frame: Frame, key: Callable[[str], str]) -> str:
    """Return the first of these names that is an output and also another column of a relation; "" if there is none."""
    columns = {key(field.name) for source in frame.sources for field in source.fields or source.guessed.values()}
    for item in select.expressions:
        same = isinstance(item.this, exp.Column) and key(item.this.name) == key(item.alias)
        if isinstance(item, exp.Alias) and key(item.alias) in names & columns and not same:
            return item.alias
    return ""


def _groups(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the expressions of GROUP BY; places and aliases as what they stand for."""
    group = select.args.get("group")
    if group is None:
        return
    items = [item.this if isinstance(item, exp.Alias) else item for item in select.expressions]
    if group.args.get("all"):
        yield from (item for item in items if not any(called(node) in AGGREGATES for node in own_nodes(item)))
    named = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    pending = [tree for value in group.args.values() if isinstance(value, list) for tree in value]
    while pending:
        tree = pending.pop()
        if isinstance(tree, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            pending += tree.expressions
        if isinstance(tree, exp.Paren):
            pending.append(tree.this)
        elif isinstance(tree, exp.Literal) and tree.is_int and 0 < int(tree.name) <= len(items):
            yield items[int(tree.name) - 1]
        elif isinstance(tree, exp.Column) and field_of(tree) is None and tree.name.lower() in named:
            yield named[tree.name.lower()]
        else:
            yield tree


def _signature(tree: exp.Expr, lookup: Lookup) -> Hashable:
    """Return what is equal for expressions that Spark takes for the same."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Column):
        return field_of(tree) or lookup(tree) or tree.sql().lower()
    children = tuple(_signature(child, lookup) for child in tree.iter_expressions())
    if isinstance(tree, exp.Literal):
        return type(tree), tree.name, tree.is_string
    return type(tree), tree.name.lower() if isinstance(tree.this, str) else "", children
