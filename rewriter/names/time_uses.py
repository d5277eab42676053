"""What a SELECT does with columns that may be event times, read from its resolved tree for `event_time`."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from ..plan.parts import At, TimeUses, WindowUse
from ..sql.functions import called
from .lookup import star_fields
from .scopes import WINDOWS, Field, field_of, origin_of, own_nodes


def time_uses(select: exp.Select) -> TimeUses:
    """Return which columns a SELECT puts out, groups by and makes windows of."""
    items: list[At] = []
    for item in select.expressions:
        stars = star_fields(item)
        fields = [_column(item)] if stars is None else [origin_of(field) for field in stars]
        items += [at for field in fields for at in _at(field)]
    times = [tree.expressions[0] for tree in own_nodes(select) if called(tree) in WINDOWS and tree.expressions]
    group = select.args.get("group")
    grouped = {at for tree in (*(group.expressions if group else ()), *times) for at in _at(_column(tree))}
    return TimeUses(tuple(items), frozenset(grouped), tuple(map(_window, times)), bool(select.args.get("distinct")))


def latest_of(tree: exp.Expr) -> frozenset[At]:
    """Return the columns of ``GREATEST(column, ...)``; none for any other expression."""
    field = field_of(tree)
    if field is not None and field.tree is not None:  # a column of a derived table
        return latest_of(field.tree)
    if called(tree) != "greatest":
        return frozenset()
    found: set[At] = set()
    for argument in tree.expressions:
        field = field_of(argument) if isinstance(argument, exp.Column) else None
        if field is None or field.source is None:
            return frozenset()
        found.update(_at(field))
    return frozenset(found)


def _window(time: exp.Expr) -> WindowUse:
    columns = frozenset(at for tree in time.find_all(exp.Column) for at in _at(_column(tree)))
    return WindowUse(columns, next(_at(_column(time)), None), latest_of(time))


def _column(tree: exp.Expr) -> Field | None:
    """Return the column of a relation if an expression is just that, else None."""
    while isinstance(tree, exp.Alias | exp.Paren):
        tree = tree.this
    field = field_of(tree) if isinstance(tree, exp.Column) else None
    return None if field is None else origin_of(field)


def _at(field: Field | None) -> Iterator[At]:
    if field is not None and field.source is not None:
        yield field.source.plan_alias or field.source.alias, field.name.lower()
