"""What Spark refuses of a query over streams, as far as its names and types tell: no plan of Spark's is needed.

A query is read from the bottom up, as Spark's check of operations reads its plan. Whatever is not certain (a relation
that nothing declares, a function that may aggregate) refuses nothing: Spark looks again. `OPERATIONS` are the words for
what Spark's own check finds too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sqlglot import exp

from .cautions import NEVER_CLOSE, NO_GROUPS, UNMATCHED
from .names.scopes import (
    WINDOWS,
    Cte,
    JoinTree,
    Resolution,
    ResolvedSelect,
    Source,
    Tree,
    either,
    expression_type,
    field_of,
    own_nodes,
)
from .plan.joins import join_words
from .sql.functions import AGGREGATES, called, of_a_row
from .sql.spark_types import may_be_event_time

MODES = ("append", "update", "complete")

#: NOT IN over a query, with its parts where these are plain names.
NOT_IN = re.compile(
    r"(?:(?P<tested>(?:\w+\.)?\w+)\s+)?(?P<not>NOT)\s+IN\s*\(\s*SELECT\b(?:\s+(?:\w+\.)?(?P<column>\w+)\s+FROM\s+"
    r"(?P<stream>\w+)(?=\s*\)|\s+WHERE\b))?",
    re.IGNORECASE,
)


def not_exists(found: re.Match[str]) -> tuple[str, str]:
    """Return why a NOT IN over a stream is refused, and the NOT EXISTS to write."""
    names = found.groupdict()
    example = "NOT EXISTS (SELECT 1 FROM s WHERE s.x = r.x)"
    if all(names.values()):
        where = f"{names['stream']}.{names['column']} = {names['tested']}"
        example = f"NOT EXISTS (SELECT 1 FROM {names['stream']} WHERE {where})"
    hint = f"write {example}, and bound the times in it; or say with IS NOT NULL what is to become of NULLs"
    return "NOT IN over a stream: one NULL among its rows would make it true of no row at all", hint


#: Functions of an event time whose result is one.
_KEEP_TIMES = ("window", "session_window", "window_time")

#: Clauses that may aggregate.
GROUPED = ("expressions", "having", "qualify")

#: What to write for functions that look at the rows around one.
_NEIGHBOURS = (
    "for the row before or after write ASOF JOIN s MATCH_CONDITION (s.ts > r.ts) ON s.k = r.k, for rows with none "
    "after them NOT EXISTS: see docs/sequences.md"
)


class Operation(NamedTuple):
    """What Spark does not run on streams.

    Parameters
    ----------
    reason, hint
        What it is, and the way out.
    words
        Words at its place in a statement, as ``A B|C``: the first phrase that occurs.
    """

    reason: str
    hint: str
    words: str = ""


SUBQUERY = Operation(
    "a subquery in an expression (EXISTS, IN, a scalar subquery) or behind LATERAL reads a stream",
    "join the stream in FROM (LEFT SEMI JOIN, LEFT ANTI JOIN) or by EXISTS in WHERE, or let it read a table",
    "EXISTS ( SELECT|EXISTS ( WITH|IN ( SELECT|IN ( WITH|LATERAL (|( SELECT|( WITH",
)
SORT = Operation(
    "ORDER BY would have to wait for the end of a stream",
    "sort what the sink holds, or aggregate in MODE complete",
    "ORDER BY|SORT BY|CLUSTER BY",
)
OFFSET = Operation("OFFSET over a stream", "leave it out", "OFFSET")
LIMIT = Operation("LIMIT over a stream runs in append mode alone", "use MODE append", "LIMIT")
SAMPLE = Operation(
    "TABLESAMPLE of a stream", "filter by a hash of a key, such as pmod(hash(id), 10) = 0", "TABLESAMPLE"
)
INTERSECT = Operation("INTERSECT of streams", "write it as a LEFT SEMI JOIN with bounds on event time", "INTERSECT")
EXCEPT = Operation("EXCEPT with a stream on its right", "subtract a table instead", "EXCEPT|MINUS")
UNION = Operation("UNION of a stream and a table", "read both as streams, or write each by a query of its own", "UNION")
DISTINCT_AGGREGATE = Operation(
    "a DISTINCT aggregate over a stream", "use approx_count_distinct, or SELECT DISTINCT below it", "( DISTINCT"
)
OVER = Operation(
    "a window function other than window(...) over event time",
    f"aggregate by window(...) and join, or compute it over what the sink holds; {_NEIGHBOURS}",
    "OVER",
)
QUALIFY = Operation(
    "QUALIFY keeps rows by a function over a window of rows, and Spark computes none of these over a stream",
    f"{_NEIGHBOURS}; or use QUALIFY on what the sink holds",
    "QUALIFY",
)
DISTINCT = Operation(
    "DISTINCT without an event time among its columns never forgets a row, so append mode would give none",
    "select an event time too, or use MODE complete or update",
    "SELECT DISTINCT",
)
NOTHING_TO_COMPLETE = Operation(NO_GROUPS.reason, NO_GROUPS.hint)
UNION_ONCE = Operation(
    "UNION gives each row once: without an event time among its columns it forgets none, and append mode gives none",
    "write UNION ALL, or use MODE update",
    "UNION",
)
GROUPS = Operation(NEVER_CLOSE.reason, NEVER_CLOSE.hint, "GROUP BY|SELECT DISTINCT|UNION|EXCEPT|MINUS")
AGGREGATED_TWICE = Operation(
    "an aggregation, a join or a deduplication above another one runs in append mode alone",
    "use MODE append, with a window of event time in each",
    "GROUP BY",
)
SESSIONS_UPDATED = Operation("session windows do not run in update mode", "use MODE append", "SESSION_WINDOW")
SESSIONS_ALONE = Operation(
    "a session window alone, without a key to group by", "add a key to GROUP BY", "SESSION_WINDOW"
)
TABLE_KEPT = Operation(
    "a {0} that keeps all rows of a table beside a stream",
    "keep the rows of the stream alone, or use an inner join",
    "{0}",
)
SEMI = Operation(
    "a {0} with a stream where Spark takes a table alone", "use an inner join, or let that side be a table", "{0}"
)
ANTI = Operation("a {0}, an anti join, with a stream on its right", UNMATCHED, "{0}|NOT")
INCREASING = Operation("monotonically_increasing_id() over a stream", "leave it out, or use uuid() for an id")


@dataclass(frozen=True)
class Refused:
    """An operation that Spark refuses in some output modes."""

    what: Operation
    modes: tuple[str, ...] = MODES


@dataclass
class Read:
    """What is known of the rows of a query.

    Parameters
    ----------
    streaming
        Whether they are a stream's, None if that is not known.
    aggregated
        Whether an aggregation of a stream is below, None if one may be.
    timed
        Whether one of its columns may be an event time.
    found
        What Spark refuses.
    """

    streaming: bool | None = False
    aggregated: bool | None = False
    timed: bool = False
    found: list[Refused] = field(default_factory=list)

    def copy(self) -> Read:
        """Return the same for another place that reads the rows."""
        return replace(self, found=list(self.found))


def read_operations(resolution: Resolution, views: Mapping[str, Read]) -> Read:
    """Read a query, and what Spark certainly refuses of it.

    Parameters
    ----------
    resolution
        The query.
    views
        What is known of the views that it may read, by their names in small letters.
    """
    return _Reader(resolution, views).query(resolution.tree)


def why_refused(read: Read, modes: tuple[str, ...]) -> Refused | None:
    """Return why a query runs in none of some output modes, None if one of them may run it."""
    first = (GROUPS, NOTHING_TO_COMPLETE)  # which Spark looks for first
    found = sorted(read.found, key=lambda one: one.what not in first)
    if read.streaming and read.aggregated is False:
        found.insert(0, Refused(NOTHING_TO_COMPLETE, ("complete",)))
    by_mode = {mode: [one for one in found if mode in one.modes] for mode in modes}
    if not all(by_mode.values()):
        return None
    whatever = [one for one in by_mode[modes[0]] if set(modes) <= set(one.modes)]
    return (whatever or by_mode[modes[0] if len(modes) == 1 else "update"])[0]  # append's hint names the others


class _Reader:
    """Reads one statement; `views` are those that it may read."""

    def __init__(self, resolution: Resolution, views: Mapping[str, Read]) -> None:
        self.blocks = {id(block.select): block for block in resolution.blocks}
        self.views = views
        self.ctes: dict[int, Read] = {}

    def query(self, tree: exp.Expr) -> Read:
        match tree:
            case exp.Select():
                read = self.select(tree, self.blocks.get(id(tree)))
            case exp.SetOperation():
                read = self.set_operation(tree)
            case exp.Subquery() if not tree.args.get("pivots"):
                read = self.query(tree.this)
            case _:
                return Read(None, None, timed=True)
        if read.streaming:
            read.found += _of_the_end(tree, read)
        return read

    def set_operation(self, tree: exp.SetOperation) -> Read:
        left, right = self.query(tree.left), self.query(tree.right)
        both = (left.streaming, right.streaming)
        read = _together([left, right])
        match tree:
            case exp.Intersect() if any(both):
                read.found.append(Refused(INTERSECT))
            case exp.Except() if right.streaming:
                read.found.append(Refused(EXCEPT))
            case exp.Union() if set(both) == {True, False}:
                read.found.append(Refused(UNION))
        if tree.args.get("distinct"):
            timed = read.timed and (
                not isinstance(tree.left, exp.Select) or any(map(_may_be_time, tree.left.expressions))
            )
            if isinstance(tree, exp.Union) and read.streaming and not timed:
                read.found.append(Refused(UNION_ONCE, ("append",)))
            read.aggregated = read.aggregated or None
        return read

    def relation(self, source: Source) -> Read:
        """Return what is known of one relation in FROM."""
        item = source.item
        if item.args.get("pivots"):
            return Read(None, None, timed=True)
        view = self.views.get(".".join(source.parts).lower())
        if source.definition is not None:
            read = self.cte(source.definition).copy()
        elif isinstance(item, exp.Subquery):
            read = self.query(item.this)
        elif view is not None:
            read = view.copy()
        else:
            info = source.info
            if isinstance(item, exp.Table) and isinstance(item.this, exp.Func) and called(item.this) != "range":
                info = None  # a function may read a stream
            read = Read(info.streaming if info else None, timed=not info or not info.columns or bool(info.times))
        read.timed = read.timed or (source.info is not None and bool(source.info.times))
        if read.streaming and item.args.get("sample"):
            read.found = [*read.found, Refused(SAMPLE)]
        return read

    def cte(self, definition: Cte) -> Read:
        """Return what is known of a common table expression."""
        if definition.recursive:
            return Read(None, None, timed=True)
        if id(definition) not in self.ctes:
            self.ctes[id(definition)] = self.query(definition.node.this)
        return self.ctes[id(definition)]

    def joined(self, tree: Tree) -> Read:
        """Return what is known of a FROM."""
        if not isinstance(tree, JoinTree):
            return self.relation(tree)
        left, right = self.joined(tree.left), self.joined(tree.right)
        read = _together([left, right])
        beside = {"left": (right, left), "right": (left, right), "full": (left, right)}.get(tree.kind)
        pairs = [] if beside is None else [beside, beside[::-1]] if tree.kind == "full" else [beside]
        words = join_words(tree.kind, None) if pairs or tree.kind in ("semi", "anti") else ""
        if any(stream.streaming and table.streaming is False for stream, table in pairs):
            read.found.append(_of_join(TABLE_KEPT, words))
        if tree.kind in ("semi", "anti") and right.streaming and left.streaming is False:
            read.found.append(_of_join(ANTI if tree.kind == "anti" else SEMI, words))
        return read

    def select(self, select: exp.Select, block: ResolvedSelect | None) -> Read:
        if block is None:
            return Read(False if not select.args.get("from_") else None)
        read = self.joined(block.tree)
        if select.args.get("laterals") or any(isinstance(one.item, exp.Lateral) for one in block.sources):
            read.timed = True
        computed = list(made(select))
        groups, aggregates = select.args.get("group"), any(map(is_aggregate, made(select, GROUPED)))
        aggregated = bool(groups or aggregates or select.args.get("having"))
        if not aggregated and any(isinstance(one, exp.Anonymous) and not _of_a_row(one) for one in computed):
            read.aggregated = read.aggregated or None
        scalars = [one for one in computed if isinstance(one, exp.Subquery) and not isinstance(one.parent, exp.In)]
        if any(self.query(one).streaming for one in scalars):
            read.found.append(Refused(SUBQUERY))
        if not read.streaming:
            if aggregated and read.streaming is None:
                read.aggregated = read.aggregated or None
            return read
        read.found += _of_rows(computed, QUALIFY if select.args.get("qualify") else OVER)
        keys = _keys(select) if aggregated else []
        session = next((one for key in keys or () for one in own_nodes(key) if called(one) == "session_window"), None)
        if aggregated and not (read.timed and (keys is None or any(map(_may_be_time, keys)))):
            read.found.append(Refused(GROUPS, ("append",)))
        if session is not None:
            read.found.append(Refused(SESSIONS_UPDATED, ("update",)))
            if keys is not None and len(keys) == 1:
                read.found.append(Refused(SESSIONS_ALONE))
        if aggregated and read.aggregated:
            read.found.append(Refused(AGGREGATED_TWICE, ("update", "complete")))
        if aggregated:
            read.aggregated = True
        if select.args.get("distinct"):
            if not read.timed or not any(map(_may_be_time, select.expressions)):
                read.found.append(Refused(DISTINCT, ("append",)))
            read.aggregated = read.aggregated or None
        return read


def _together(reads: list[Read]) -> Read:
    return Read(
        either(*(one.streaming for one in reads)),
        either(*(one.aggregated for one in reads)),
        any(one.timed for one in reads),
        [one for read in reads for one in read.found],
    )


def _of_the_end(tree: exp.Expr, read: Read) -> Iterator[Refused]:
    """Yield what Spark refuses of the clauses that end a query over a stream."""
    if any(tree.args.get(key) for key in ("order", "sort", "cluster")):
        yield Refused(SORT, MODES if read.aggregated is False else ("append", "update"))
    if tree.args.get("offset"):
        yield Refused(OFFSET)
    limit = tree.args.get("limit")
    if isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Literal):
        yield Refused(LIMIT, ("update",))


def _of_rows(computed: list[exp.Expr], over: Operation) -> Iterator[Refused]:
    """Yield what Spark refuses of the expressions of a SELECT over a stream; ``over`` is what a window of rows is."""
    if any(isinstance(one, exp.Window) for one in computed):
        yield Refused(over)
    calls = [one for one in computed if isinstance(one, exp.Anonymous)]
    if any(isinstance(argument, exp.Distinct) for one in calls for argument in one.expressions):
        yield Refused(DISTINCT_AGGREGATE)
    if any(called(one) == "monotonically_increasing_id" for one in computed):
        yield Refused(INCREASING)


def made(select: exp.Select, clauses: tuple[str, ...] = ("where", "group", *GROUPED)) -> Iterator[exp.Expr]:
    """Yield the nodes of what a SELECT computes in some of its clauses."""
    for key in clauses:
        value = select.args.get(key)
        for tree in value if isinstance(value, list) else [value]:
            if isinstance(tree, exp.Expr) and not isinstance(tree, exp.Query):
                yield from own_nodes(tree)


def is_aggregate(node: exp.Expr) -> bool:
    """Tell whether a node is a call of an aggregate function over a group, not over a window of rows."""
    if called(node) not in AGGREGATES:
        return False
    above: exp.Expr | None = node
    while isinstance(above, exp.Anonymous | exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        below, above = above, above.parent
        if isinstance(above, exp.Anonymous):
            break
    return not (isinstance(above, exp.Window) and above.this is below)


def _of_a_row(node: exp.Anonymous) -> bool:
    name = called(node)
    return of_a_row(name) or name in (*WINDOWS, "window_time", "rand", "uuid", "now")


def _keys(select: exp.Select) -> list[exp.Expr] | None:
    """Return what a SELECT groups by, None if that is not certain."""
    group = select.args.get("group")
    if group is None:
        return []
    if any(value for name, value in group.args.items() if name not in ("expressions", "all")):
        return None
    items = [one.unalias() for one in select.expressions]
    if group.args.get("all"):
        return [one for one in items if not any(map(is_aggregate, own_nodes(one)))]
    named = {one.alias.lower(): one.this for one in select.expressions if isinstance(one, exp.Alias)}
    keys: list[exp.Expr] = []
    for key in group.expressions:
        if isinstance(key, exp.Literal) and not key.is_string:
            place = int(key.name) if key.name.isdigit() else 0
            if not 0 < place <= len(items) or any(isinstance(one, exp.Star) for one in items[:place]):
                return None
            key = items[place - 1]
        elif isinstance(key, exp.Column) and field_of(key) is None and key.name.lower() in named:
            key = named[key.name.lower()]
        keys.append(key)
    return keys


def _may_be_time(tree: exp.Expr) -> bool:
    """Tell whether an expression may be an event time, or a window of one: only columns hold any."""
    columns = [one for one in own_nodes(tree) if isinstance(one, exp.Column | exp.Star)]
    fields = [field_of(one) for one in columns]
    inner = tree.unalias()
    computed = isinstance(inner, exp.Func | exp.Binary) and not isinstance(inner, exp.Dot)
    if computed and called(inner) not in _KEEP_TIMES:  # Spark's mark of an event time is on the column alone
        return False
    return may_be_event_time(expression_type(inner)) and any(
        field is None or may_be_event_time(field.type) for field in fields
    )


def _of_join(what: Operation, words: str) -> Refused:
    places = f"{words}|{words.replace(' JOIN', ' OUTER JOIN')}"
    return Refused(Operation(what.reason.format(words), what.hint, what.words.format(places)))
