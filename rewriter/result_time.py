"""The event time of a join's results, for a windowed aggregation above it in append mode.

A result comes when its last row does, and that row is above the watermark. So the latest of all its rows' times is
above the watermark too, and no other column of the result is sure to be: ``GREATEST(r.ts, s.ts, t.ts)`` over all event
times is the only event time that a result can have. Where the SELECT above a join says it, the join puts it out as a
column that carries the watermark on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from .functions import called
from .parse import Parsed
from .plan import Block, JoinNode, Node, Refusal, Scan, source_scan, walk
from .scopes import field_of, own_nodes

#: Output column of a join node with its results' event time.
RESULT_TIME = "__result_time"

_WINDOWS = ("window", "session_window")


def event_times(node: JoinNode) -> frozenset[tuple[str, str]]:
    """Return the event-time columns of a node's inputs as ``(alias, name)``; none unless each is a stream with one."""
    found = set()
    for source in node.sources:
        scan = source_scan(source)
        types = {column.name.lower(): column.type for column in scan.columns}
        if not scan.streaming or scan.event_time is None or types.get(scan.event_time.lower()) != "timestamp":
            return frozenset()
        found.add((scan.alias, scan.event_time.lower()))
    return frozenset(found)


def latest_of(tree: exp.Expr) -> frozenset[tuple[str, str]]:
    """Return the columns of ``GREATEST(column, ...)`` as ``(alias, name)``; none for any other expression."""
    field = field_of(tree)
    if field is not None and field.tree is not None:  # a column of a derived table
        return latest_of(field.tree)
    if not _is_call(tree, ("greatest",)):
        return frozenset()
    found = set()
    for argument in tree.expressions:
        field = field_of(argument) if isinstance(argument, exp.Column) else None
        if field is None or field.source is None:
            return frozenset()
        found.add((field.source.plan_alias or field.source.alias, field.name.lower()))
    return frozenset(found)


def is_wanted(node: JoinNode, select: exp.Select) -> bool:
    """Return whether results may go without rows that the watermark has passed.

    There are such rows only if a time is NULL, and then a window drops them anyway; without a window they must not
    exist, as is so where time bounds compare every time with another.
    """
    pairs = {frozenset((bound.left, bound.right)) for bound in node.graph.time_bounds}
    relations = node.graph.relations
    bounded = all(frozenset((a, b)) in pairs for a in relations for b in relations if a != b)
    return bounded or any(True for _ in windows(select))


def windows(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the calls of ``window`` and ``session_window`` in a SELECT."""
    yield from (tree for tree in own_nodes(select) if _is_call(tree, _WINDOWS) and tree.expressions)


def append_refusals(plan: Node, parsed: Parsed) -> tuple[Refusal, ...]:
    """Say which windows above joins of streams cannot run in append mode, and what to write instead."""
    found = []
    for block in walk(plan):
        if not isinstance(block, Block) or block.number not in parsed.bindings:
            continue
        nodes = [node for node in _own(block.input) if isinstance(node, JoinNode)]
        streams = [node for node in nodes if any(source_scan(source).streaming for source in node.sources)]
        if not streams:
            continue
        wanted = [times for node in nodes if (times := event_times(node))]
        for window in windows(parsed.bindings[block.number].block.select):
            columns = {pair for tree in window.expressions[0].find_all(exp.Column) for pair in _pair(tree)}
            mine = {alias for node in streams for alias in node.graph.relations}
            if latest_of(window.expressions[0]) in wanted or not any(alias in mine for alias, _ in columns):
                continue
            found.append(Refusal(_reason(columns), _hint(streams[0])))
    return tuple(dict.fromkeys(found))


def _reason(columns: Iterable[tuple[str, str]]) -> str:
    names = ", ".join(f"{alias}.{name}" for alias, name in sorted(columns))
    return (
        f"a window over {names} in append mode: when a joined row comes, with the last of its rows, the watermark may "
        f"have passed its {names} and closed the window"
    )


def _hint(node: JoinNode) -> str:
    scans = [source_scan(source) for source in node.sources]
    for scan in scans:
        if scan.event_time is None:
            return (
                f"give {scan.alias} a watermark ({scan.alias} WATERMARK column DELAY OF INTERVAL 10 SECONDS) and group "
                f"by window(greatest(the event times of all inputs), ...), or use MODE update"
            )
    times = ", ".join(f"{scan.alias}.{scan.event_time}" for scan in scans)
    return f"group by window(greatest({times}), ...), the time of a joined row, or use MODE update"


def _pair(tree: exp.Expr) -> Iterator[tuple[str, str]]:
    field = field_of(tree)
    if field is not None and field.source is not None:
        yield field.source.plan_alias or field.source.alias, field.name


def _is_call(tree: exp.Expr, names: tuple[str, ...]) -> bool:
    return called(tree) in names


def _own(node: Node) -> Iterator[Node]:
    yield node
    if not isinstance(node, Scan | JoinNode):
        for below in node.inputs:
            yield from _own(below)
