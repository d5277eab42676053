"""What name resolution finds: fields, relations, join trees, SELECTs. `resolve` fills these in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import exp

from ..plan.expr import Expr
from ..plan.joins import JoinKind
from ..plan.parts import RowsFrom
from ..sql.catalog import TableInfo, Time
from ..sql.dialect import closest_of
from ..sql.expressions import expression
from ..sql.functions import AGGREGATES, called
from ..sql.intervals import interval_microseconds
from ..sql.spark_types import UNKNOWN

#: Functions that make windows of event time.
WINDOWS = ("window", "session_window")


class Unresolvable(Exception):  # noqa: N818 (a reason, not an error: the group is left alone)
    """A name cannot be resolved with what is known; the message is the reason."""


class Field:
    """A column that a relation offers. Fields are compared by identity.

    Parameters
    ----------
    source
        The relation; None if the field is computed.
    name, type
        As in its schema.
    tree
        For computed fields (columns merged by USING, columns of merged derived tables): the expression over others.
    """

    __slots__ = ("name", "source", "tree", "type")

    def __init__(self, source: Source | None, name: str, type: str = UNKNOWN, tree: exp.Expr | None = None) -> None:
        self.source, self.name, self.type, self.tree = source, name, type, tree

    def __deepcopy__(self, memo: object) -> Field:
        return self


@dataclass(eq=False)
class Source:
    """One relation in FROM."""

    alias: str
    item: exp.Expr
    fields: list[Field] | None
    parts: tuple[str, ...] = ()
    info: TableInfo | None = None
    definition: Cte | None = None
    query: Output | None = None
    problem: str | None = None
    plan_alias: str = ""
    guessed: dict[str, Field] = field(default_factory=dict)

    def __deepcopy__(self, memo: object) -> Source:
        return self


@dataclass(eq=False)
class JoinTree:
    """A join in FROM.

    ``equal`` holds the pairs of fields that USING or NATURAL makes equal; one with `in_where` was a subquery there.
    `closest` is what MATCH_CONDITION holds, or the clause NEAREST.
    """

    kind: JoinKind
    left: Tree
    right: Tree
    on: exp.Expr | None = None
    equal: list[tuple[Field, Field]] = field(default_factory=list)
    in_where: bool = False
    closest: exp.Expr | None = None


Tree = Source | JoinTree


@dataclass(eq=False)
class Frame:
    """What a FROM offers to the clauses that see it.

    Parameters
    ----------
    visible
        The columns of ``*``.
    sources
        Its relations.
    complete
        Whether all of their schemas are known.
    hidden
        The columns that USING and NATURAL leave out of ``*``, in Spark's order: ``r.*`` begins with them.
    problem
        Why a name inside may be one of its columns.
    """

    visible: list[Field]
    sources: list[Source]
    complete: bool = True
    hidden: list[Field] = field(default_factory=list)
    problem: str | None = None


@dataclass(eq=False)
class ResolvedSelect:
    """One SELECT that has a FROM."""

    number: int
    select: exp.Select
    tree: Tree
    frame: Frame
    ctes: Mapping[str, Cte]
    problem: str | None = None
    merged: bool = False

    @property
    def sources(self) -> list[Source]:
        """The relations of its FROM, left to right."""
        return list(leaves(self.tree))


@dataclass(eq=False)
class Output:
    """What a query puts out: its columns (None if unknown), and the block if it is a plain SELECT.

    Of a set operation `branches` has what its two sides put out.
    """

    columns: list[Field] | None
    block: ResolvedSelect | None = None
    streaming: bool | None = None
    times: tuple[Time, ...] = ()
    rows: float | None = None
    rows_from: RowsFrom = "assumed"
    stateful: bool = False
    behind: int = 0
    branches: tuple[Output, ...] = ()

    @property
    def info(self) -> TableInfo:
        """What is known about it as a relation."""
        return TableInfo((), self.streaming, self.rows, self.times, self.rows_from, self.stateful, self.behind)


@dataclass(eq=False)
class Cte:
    """A common table expression in scope."""

    name: str
    node: exp.CTE
    output: Output
    uses: int = 0
    recursive: bool = False

    def __deepcopy__(self, memo: object) -> Cte:
        return self


@dataclass
class Misnamed:
    """A column that Spark will certainly not resolve.

    Parameters
    ----------
    column
        As it stands in the statement.
    sources
        Where it was looked for: the relation of its qualifier, else all that are in scope.
    ambiguous
        Whether several of them have it; else none has.
    """

    column: exp.Column
    sources: list[Source]
    ambiguous: bool = False


@dataclass
class Resolution:
    """What the names of a statement mean.

    Parameters
    ----------
    tree
        The statement.
    blocks
        In plan order: a block comes after those in its FROM.
    output
        What it puts out.
    misnamed
        The columns that certainly do not exist, or are ambiguous.
    """

    tree: exp.Expr
    blocks: list[ResolvedSelect]
    output: Output
    misnamed: list[Misnamed] = field(default_factory=list)


def either(*facts: bool | None) -> bool | None:
    """Return whether one of several holds, None if that is not known."""
    return True if any(facts) else None if None in facts else False


def leaves(tree: Tree) -> Iterator[Source]:
    """Yield the relations of a join tree from left to right."""
    if isinstance(tree, JoinTree):
        yield from leaves(tree.left)
        yield from leaves(tree.right)
    else:
        yield tree


def field_of(column: exp.Expr) -> Field | None:
    """Return the field that a column was resolved to."""
    found = column.meta.get("field")
    return found if isinstance(found, Field) else None


def cte_of(node: exp.Expr) -> Cte | None:
    """Return the common table expression that a table reads or a node defines; copies of the node keep it."""
    found = node.meta.get("cte")
    return found if isinstance(found, Cte) else None


def own_nodes(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield a tree's nodes, depth first, without entering queries inside it (they are yielded themselves)."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, exp.Query) or node is tree:
            stack.extend(reversed(list(node.iter_expressions())))


def typed(tree: exp.Expr) -> Expr:
    """Return an expression over resolved columns."""
    return expression(tree, lambda column: found.type if (found := field_of(column)) else UNKNOWN)


def expression_type(tree: exp.Expr) -> str:
    """Return the type of an expression over resolved columns."""
    return typed(tree).type


def join_kind(join: exp.Join) -> JoinKind:
    """Return how two relations are joined."""
    side, kind = (join.side or "").upper(), (join.kind or "").upper()
    if kind in ("SEMI", "ANTI"):
        return "semi" if kind == "SEMI" else "anti"
    if closest_of(join) is not None and side in ("", "LEFT"):
        return "left_closest" if side else "closest"
    if side in ("LEFT", "RIGHT", "FULL"):
        return cast(JoinKind, side.lower())
    if (join.method or "").upper() not in ("", "NATURAL"):
        raise Unresolvable(f"{join.method.upper()} JOIN")
    return "inner"


def marked(info: TableInfo, item: exp.Expr) -> TableInfo:
    """Return what is known about a relation, with the watermark that follows it in the text."""
    alias = item.args.get("alias")
    clause = alias.args.get("watermark") if isinstance(alias, exp.Expr) else None
    if clause is None:
        return info
    name = clause.args["alias"].name if clause.args.get("alias") else clause.this.name
    return replace(info, times=((name, interval_microseconds(clause.args["delay"])),))


def in_aggregate(column: exp.Column) -> bool:
    """Return whether a column stands inside an aggregate function."""
    node = column.parent
    while node is not None and not isinstance(node, exp.Query):
        if called(node) in AGGREGATES:
            return True
        node = node.parent
    return False


def origin_of(column: Field) -> Field:
    """Return the column of a relation that a column only renames, else the column itself."""
    while isinstance(column.tree, exp.Column | exp.Alias | exp.Paren):
        tree = column.tree.unnest() if isinstance(column.tree, exp.Paren) else column.tree
        tree = tree.this if isinstance(tree, exp.Alias) else tree
        found = field_of(tree) if isinstance(tree, exp.Column) else None
        if found is None:
            break
        column = found
    return column


def times_of(select: exp.Select, columns: list[Field] | None) -> tuple[Time, ...]:
    """Return which columns of a SELECT are still event times of streams, and their delays: times before windows."""
    if columns is None or any(select.args.get(key) for key in ("limit", "laterals")):
        return ()
    times: list[Time] = []
    windows: list[Time] = []
    made = windows_of(select)
    for column in columns:
        window = _window(column.tree, made)
        time = _time_of(column if window is None else Field(None, "", UNKNOWN, window))
        if time is not None and called(window or origin_of(column).tree) in WINDOWS:
            column.type = expression_type(window) if window is not None else column.type
            windows.append((column.name, time[1]))
        elif time is not None:
            column.type = "timestamp" if column.type == UNKNOWN else column.type
            times.append((column.name, time[1]))
    return (*times, *windows)


def windows_of(select: exp.Select) -> dict[str, exp.Expr]:
    """Return the windows of GROUP BY by the names that Spark gives them, by which a SELECT may read them."""
    group = select.args.get("group")
    return {} if group is None else {called(node): node for node in own_nodes(group) if called(node) in WINDOWS}


def _window(tree: exp.Expr | None, made: Mapping[str, exp.Expr]) -> exp.Expr | None:
    """Return the window of GROUP BY that an output reads by its name, or ``window_time`` of it; None if it does not."""
    tree = tree.unalias() if tree is not None else None
    if called(tree) == "window_time" and isinstance(tree, exp.Anonymous) and tree.expressions:
        inner = _window(tree.expressions[0], made)
        return None if inner is None else exp.Anonymous(this="window_time", expressions=[inner.copy()])
    if not isinstance(tree, exp.Column) or tree.table or field_of(tree) is not None:
        return None
    return made.get(tree.name.lower())


def _time_of(column: Field) -> Time | None:
    """Return the event time that a column holds: the time itself, a window of it, or the end of a window."""
    origin = origin_of(column)
    if called(origin.tree) in (*WINDOWS, "window_time") and isinstance(origin.tree, exp.Anonymous):
        inner = field_of(origin.tree.expressions[0]) if origin.tree.expressions else None
        if inner is None and origin.tree.expressions and called(origin.tree.expressions[0]) in WINDOWS:
            inner = Field(None, "", UNKNOWN, origin.tree.expressions[0])
        return None if inner is None else _time_of(inner)
    info = origin.source.info if origin.source is not None and origin.tree is None else None
    return next((time for time in info.times if time[0].lower() == origin.name.lower()), None) if info else None


def keeps_state(select: exp.Select, sources: list[Source]) -> bool:
    """Return whether Spark needs state for the rows of a SELECT over streams, apart from its joins."""
    inside = any(source.info is not None and source.info.stateful for source in sources)
    return inside or any(select.args.get(key) for key in ("group", "distinct", "limit", "having"))
