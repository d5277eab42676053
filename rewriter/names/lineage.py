"""Column lineage: which columns of relations each output column comes from, and which ones decide what rows there are.

It is read off a resolved statement: each column knows the relation that it belongs to, through derived tables, common
table expressions and set operations. The words are OpenLineage's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ..sql.functions import AGGREGATES, called
from .scopes import Field, JoinTree, Output, Resolution, ResolvedSelect, Source, Tree, field_of, own_nodes, windows_of

#: ``DIRECT`` or ``INDIRECT``, and what kind of it.
Transformation = tuple[str, str]

IDENTITY, CHANGED, AGGREGATED = (("DIRECT", kind) for kind in ("IDENTITY", "TRANSFORMATION", "AGGREGATION"))
JOINED, FILTERED, GROUPED, SORTED, WINDOWED, CONDITIONAL = (
    ("INDIRECT", kind) for kind in ("JOIN", "FILTER", "GROUP_BY", "SORT", "WINDOW", "CONDITIONAL")
)

#: A column of a relation: the relation's name, and its own.
Origin = tuple[str, str]

#: How columns of relations take part in something.
Inputs = dict[Origin, set[Transformation]]

#: Clauses of a SELECT by what their columns do to its rows.
_CLAUSES = {
    **dict.fromkeys(("where", "having", "qualify"), FILTERED),
    **dict.fromkeys(("order", "sort", "cluster", "distribute"), SORTED),
    "group": GROUPED,
}


@dataclass(slots=True)
class Lineage:
    """The lineage of a query.

    Parameters
    ----------
    columns
        The columns that each output column depends on alone; None if the outputs are not known.
    rows
        The columns that decide which rows there are: in joins, filters, groups.
    """

    columns: dict[str, Inputs] | None
    rows: Inputs = field(default_factory=dict)


def lineage(resolution: Resolution, views: Mapping[str, Lineage]) -> Lineage:
    """Return the lineage of a resolved statement, before derived tables are opened.

    Parameters
    ----------
    resolution
        The statement.
    views
        The lineage of views by name, in small letters: columns that come through one are followed.
    """
    tracer = _Tracer(views)
    rows: Inputs = {}
    for block in resolution.blocks:
        _add(rows, tracer.of_rows(block))
        for source in block.sources:
            if (view := tracer.view(source)) is not None:
                _add(rows, view.rows)
    found = None
    if resolution.output.columns is not None:
        outputs = range(len(resolution.output.columns))
        found = {resolution.output.columns[at].name: tracer.of_output(resolution.output, at) for at in outputs}
    return Lineage(found, rows)


class _Tracer:
    def __init__(self, views: Mapping[str, Lineage]) -> None:
        self.views = views
        self.inside: set[int] = set()  # the outputs that are being followed: two may name each other

    def view(self, source: Source) -> Lineage | None:
        return self.views.get(".".join(source.parts).lower()) if source.query is None else None

    def of_output(self, output: Output, at: int) -> Inputs:
        """Return what a column of a query comes from: in a set operation, in all its branches."""
        found: Inputs = {}
        for branch in output.branches:
            if branch.columns is not None and at < len(branch.columns):
                _add(found, self.of_output(branch, at))
        if not output.branches and output.columns is not None:
            _add(found, self.of_field(output.columns[at]))
        return found

    def of_field(self, column: Field) -> Inputs:
        if column.tree is not None:
            return self.of_tree(column.tree)
        source = column.source
        if source is None:
            return {}
        at = next((at for at, one in enumerate(source.fields or ()) if one is column), None)
        if source.query is not None:
            return {} if at is None else self.of_output(source.query, at)
        if isinstance(source.item, exp.Lateral):
            inner = source.item.this.unnest()
            named = (
                [item for item in inner.selects if item.alias_or_name.lower() == column.name.lower()]
                if isinstance(inner, exp.Query)
                else []
            )
            return self.of_all(named or [inner], IDENTITY if named else CHANGED)
        if (view := self.view(source)) is not None:
            return {origin: set(kinds) for origin, kinds in _by_name(view.columns or {}, column.name).items()}
        known = source.info.columns if source.info is not None else ()
        name = known[at].name if at is not None and at < len(known) else column.name
        return {(".".join(source.parts), name): {IDENTITY}} if source.parts else {}

    def of_tree(self, tree: exp.Expr, kind: Transformation = IDENTITY) -> Inputs:
        """Return what an expression comes from; ``kind`` is what is done with it."""
        inner = tree.unalias().unnest()
        if isinstance(inner, exp.Query):
            return self.of_all(inner.selects, _then(CHANGED, kind))
        found: Inputs = {}
        for node in own_nodes(inner):
            if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                used = _use(node, inner)
                inputs = self.of_field(column) if (column := field_of(node)) is not None else self.of_name(node)
                _add(
                    found,
                    {origin: {_then(_then(one, used), kind) for one in kinds} for origin, kinds in inputs.items()},
                )
            elif isinstance(node, exp.Query):
                _add(found, self.of_all(node.selects, _then(CHANGED, kind)))
        return found

    def of_all(self, trees: Iterable[exp.Expr], kind: Transformation) -> Inputs:
        found: Inputs = {}
        for tree in trees:
            _add(found, self.of_tree(tree, kind))
        return found

    def of_name(self, column: exp.Column) -> Inputs:
        """Return what a name comes from that is no column of a relation: another output of the SELECT, or a window."""
        select = column.find_ancestor(exp.Select)
        if select is None:
            return {}
        made: dict[str, exp.Expr] = {item.alias.lower(): item for item in select.expressions if item.alias}
        made |= windows_of(select)
        found = made.get(column.parts[0].name.lower())  # of a struct such as a window, the struct
        if found is None or id(found) in self.inside:
            return {}
        self.inside.add(id(found))
        inputs = self.of_tree(found, CHANGED if column.table else IDENTITY)
        self.inside.discard(id(found))
        return inputs

    def of_rows(self, block: ResolvedSelect) -> Inputs:
        """Return which columns decide what rows a SELECT has."""
        found: Inputs = {}
        for tree in _joined(block.tree):
            _add(found, self.of_tree(tree, JOINED))
        select = block.select
        if select.args.get("within"):
            for source in block.sources:
                times = {time.lower() for time, _ in source.info.times} if source.info else set()
                for column in (*(source.fields or ()), *source.guessed.values()):
                    if column.name.lower() in times:
                        _add(found, {origin: {JOINED} for origin in self.of_field(column)})
        for clause, kind in _CLAUSES.items():
            for tree in _expressions(select, clause):
                related = {one.source for node in own_nodes(tree) if (one := field_of(node)) and one.source}
                _add(found, self.of_tree(tree, JOINED if clause == "where" and len(related) > 1 else kind))
        return found


def _joined(tree: Tree) -> Iterator[exp.Expr]:
    """Yield the conditions of joins, and the columns that USING and NATURAL make equal."""
    if isinstance(tree, JoinTree):
        yield from _joined(tree.left)
        yield from _joined(tree.right)
        yield from (one for one in (tree.on, tree.closest) if one is not None)
        for pair in tree.equal:
            for one in pair:
                column = exp.column(one.name)
                column.meta["field"] = one
                yield column


def _expressions(select: exp.Select, clause: str) -> Iterator[exp.Expr]:
    """Yield the expressions of a clause: each conjunct, and what ``GROUP BY 1`` means."""
    value = select.args.get(clause)
    for tree in () if value is None else value if isinstance(value, list) else [value]:
        parts = tree.this.flatten() if isinstance(tree.this, exp.And) else [tree]
        for part in parts:
            yield part
            for number in part.expressions:
                bare = number.this if isinstance(number, exp.Ordered) else number
                if isinstance(bare, exp.Literal) and bare.is_int and 0 < int(bare.name) <= len(select.expressions):
                    yield select.expressions[int(bare.name) - 1]


def _use(column: exp.Expr, top: exp.Expr) -> Transformation:
    """Return what an expression does with a column inside it."""
    if column is top:
        return IDENTITY
    found = CHANGED
    node = column
    while node is not top and node.parent is not None:
        above = node.parent
        if isinstance(above, exp.Window) and node is not above.this:
            return WINDOWED
        if isinstance(above, exp.If) and node is above.args.get("this"):
            return CONDITIONAL
        if isinstance(above, exp.Case) and node is above.args.get("this"):
            return CONDITIONAL
        if called(above) in AGGREGATES:
            found = AGGREGATED
        node = above
    return found


def _then(one: Transformation, other: Transformation) -> Transformation:
    """Return what two steps amount to: what once has no part in the values has none later; else the greater change."""
    if "INDIRECT" in (one[0], other[0]):
        return one if one[0] == "INDIRECT" else other
    return max(one, other, key=(IDENTITY, CHANGED, AGGREGATED).index)


def _by_name(columns: Mapping[str, Inputs], name: str) -> Inputs:
    return next((inputs for known, inputs in columns.items() if known.lower() == name.lower()), {})


def _add(found: Inputs, more: Mapping[Origin, Iterable[Transformation]]) -> None:
    for origin, kinds in more.items():
        found.setdefault(origin, set()).update(kinds)
