"""Event time through a join: which columns of its results are event time for Spark, and how late they may come.

A result comes with its last row, and that row is above the units' watermark. Its other rows may be older, by as much as
the closed bounds of the join allow: ``r.ts`` of a result lags by the bound of ``t(other) - t(r)``. Operators above it
(a window, a deduplication, a Spark join, another group of ours) silently drop rows behind their watermark. So the
watermarks of the join's inputs are held back by the lag. The units, which decide what is late and what expires, add the
lag to Spark's watermark again.
The latest time of a result's rows does not lag. Where the SELECT above a join says ``GREATEST(r.ts, s.ts, t.ts)`` over
all event times, the join puts it out as a column of its own.

A column with an unbounded lag is not an event time above the join; neither is one that depends on rows that a Spark
operator holds back until the watermark passes them (`plan.nodes.Scan.stateful`), unless these are never later than it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from sqlglot import exp

from ..names.lookup import star_fields
from ..names.scopes import WINDOWS, Field, field_of, origin_of, own_nodes
from ..options import Settings
from ..parse import Binding, Parsed
from ..plan.nodes import Block, Join, JoinNode, Node, Scan, own_tree, scans, source_scan, transform, walk
from ..plan.parts import Refusal
from ..sql.functions import called
from .bounds import input_scan, is_of_streams, joins_streams, lag_of, loses_time

#: Output column of a join node with the latest event time of a result's rows.
RESULT_TIME = "__result_time"

#: A column of a relation, as ``(alias, name)``.
At = tuple[str, str]


def carry_event_times(plan: Node, parsed: Parsed, settings: Settings) -> Node:
    """Give every join node its `event_times`, and by how much its inputs' watermarks are held back."""
    carried: dict[str, tuple[str, ...]] = {}
    lags: dict[str, int] = {}
    for block, binding in _bound_blocks(plan, parsed):
        used = _Used.of(block, binding, settings.case_sensitive)
        for node in used.nodes:
            found = {at: lag for at in used.wanted(node) if (lag := _lag(node, at, settings)) is not None}
            marked = used.chosen(found)
            carried[node.name] = tuple(c.name for c in node.output if (c.relation, c.column.lower()) in marked)
            lags[node.name] = max((found[at] for at in marked), default=0)
    held: dict[str, int] = {}
    _hold_back(plan, 0, lags, held)

    def visit(node: Node) -> Node:
        if isinstance(node, Scan):
            return dataclasses.replace(node, stateful=True) if not node.stateful and joins_streams(node) else node
        if not isinstance(node, JoinNode):
            return node
        return dataclasses.replace(node, event_times=carried.get(node.name, ()), held_back=held.get(node.name, 0))

    return transform(plan, visit)


def _hold_back(node: Node, above: int, lags: dict[str, int], held: dict[str, int]) -> None:
    """Add up the lags of the join nodes on the way down to each."""
    if isinstance(node, JoinNode):
        above += -(-lags.get(node.name, 0) // 1000) * 1000  # Spark's watermarks are in milliseconds
        held[node.name] = max(above, held.get(node.name, 0))
    for below in node.inputs:
        _hold_back(below, above, lags, held)


def _lag(node: JoinNode, at: At, settings: Settings) -> int | None:
    """Return by how much a column lags in results, None if that is unbounded or no watermark can be held back."""
    lag = lag_of(node, at[0])
    return lag if not lag or _can_hold_back(node, settings) else None


def _can_hold_back(node: JoinNode, settings: Settings) -> bool:
    if settings.watermarks == "text":
        streams = [one for one in walk(node) if isinstance(one, Scan) and one.streaming and one.event_time]
        return all(one.stateful or one.below or "WATERMARK" in one.relation.upper() for one in streams)
    return settings.watermarks == "plan"


def _read_by(join: Join) -> set[At]:
    return {(a, name.lower()) for p in join.predicates for a, name in p.condition.columns}


@dataclasses.dataclass(frozen=True)
class _Used:
    """What a SELECT does with the event times of the join nodes in its FROM.

    Parameters
    ----------
    nodes
        The nodes.
    items
        The columns that it puts out unchanged, in order.
    read
        The columns that a stateful operator uses: the SELECT's own windows and groups, Spark's joins and ours.
    deduplicates
        Whether a stateful operator reads all columns: there Spark allows one event time.
    """

    nodes: tuple[JoinNode, ...]
    items: tuple[At, ...]
    read: frozenset[At]
    deduplicates: bool

    @classmethod
    def of(cls, block: Block, binding: Binding, case_sensitive: bool) -> _Used:
        select = binding.block.select
        items: list[At] = []
        for item in select.expressions:
            stars = star_fields(item, binding.block.frame, case_sensitive)
            fields = [_column(item)] if stars is None else [origin_of(field) for field in stars]
            items += [at for field in fields for at in _at(field)]
        group = select.args.get("group")
        grouped = (*(group.expressions if group else ()), *(window.expressions[0] for window in windows(select)))
        read = {at for tree in grouped for at in _at(_column(tree))}
        joins = [one for one in own_tree(block.input) if isinstance(one, Join) and is_of_streams(one)]
        read.update(at for join in joins for at in _read_by(join))
        nodes = tuple(one for one in own_tree(block.input) if isinstance(one, JoinNode))
        above = [source for node in nodes for source in node.sources if any(one in nodes for one in own_tree(source))]
        read.update(at for source in above for at in _times(source))
        return cls(nodes, tuple(items), frozenset(read), bool(joins or select.args.get("distinct")))

    def wanted(self, node: JoinNode) -> list[At]:
        """Return the event-time columns of a node that are read or put out."""
        output = [(column.relation, column.column.lower()) for column in node.output]
        return [at for at in output if _has(node, at) and (at in self.read or at in self.items)]

    def chosen(self, lags: dict[At, int]) -> set[At]:
        """Return the columns to be event time, among those that can be."""
        if not self.deduplicates:
            return set(lags)
        read = {at for at in lags if at in self.read}
        return read or set(sorted(lags, key=lambda at: lags[at])[:1])


def _times(source: Node) -> Iterator[At]:
    """Yield the event times of one input of a node: a Spark join may have several."""
    first = input_scan(source)
    if first.event_time is not None and _type(first) == "timestamp":
        yield first.alias, first.event_time.lower()


def _type(scan: Scan) -> str | None:
    time = (scan.event_time or "").lower()
    return next((column.type for column in scan.columns if column.name.lower() == time), None)


def _column(tree: exp.Expr) -> Field | None:
    """Return the column of a relation if an expression is just that, else None."""
    while isinstance(tree, exp.Alias | exp.Paren):
        tree = tree.this
    field = field_of(tree) if isinstance(tree, exp.Column) else None
    return None if field is None else origin_of(field)


def _at(field: Field | None) -> Iterator[At]:
    if field is not None and field.source is not None:
        yield field.source.plan_alias or field.source.alias, field.name.lower()


def _bound_blocks(plan: Node, parsed: Parsed) -> Iterator[tuple[Block, Binding]]:
    for block in walk(plan):
        if isinstance(block, Block) and block.problem is None and block.number in parsed.bindings:
            yield block, parsed.bindings[block.number]


# ------------------------------------------------------------------------------------------- the latest of all times


def event_times(node: JoinNode) -> frozenset[At]:
    """Return the event-time columns of a node's inputs as ``(alias, name)``; none unless each is a stream with one."""
    found = set()
    for source in node.sources:
        scan = source_scan(source)
        if not scan.streaming or scan.event_time is None or _type(scan) != "timestamp":
            return frozenset()
        found.add((scan.alias, scan.event_time.lower()))
    return frozenset(found)


def latest_of(tree: exp.Expr) -> frozenset[At]:
    """Return the columns of ``GREATEST(column, ...)`` as ``(alias, name)``; none for any other expression."""
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


def windows(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the calls of ``window`` and ``session_window`` in a SELECT."""
    yield from (tree for tree in own_nodes(select) if called(tree) in WINDOWS and tree.expressions)


# ---------------------------------------------------------------------------------------------------------- refusals


def append_refusals(plan: Node, parsed: Parsed, settings: Settings) -> tuple[Refusal, ...]:
    """Return which windows above joins of streams cannot run in append mode, and what to write instead."""
    found = []
    for block, binding in _bound_blocks(plan, parsed):
        nodes = [node for node in own_tree(block.input) if isinstance(node, JoinNode) and _is_streaming(node)]
        latest = [times for node in nodes if (times := event_times(node))]
        for window in windows(binding.block.select):
            time = window.expressions[0]
            columns = {at for tree in time.find_all(exp.Column) for at in _at(_column(tree))}
            node = next((one for one in nodes for alias, _ in columns if alias in one.graph.relations), None)
            if node is None or latest_of(time) in latest:
                continue
            alone = next(_at(_column(time)), None)
            if alone is None or not _passes(node, alone, settings):
                found.append(Refusal(_reason(node, columns, alone), _hint(node, alone)))
    return tuple(dict.fromkeys(found))


def join_refusals(plan: Node, parsed: Parsed, settings: Settings) -> tuple[Refusal, ...]:
    """Return which outer joins of Spark's above ours would wait for ever: they use a time whose lag is unbounded."""
    found: list[Refusal] = []
    for block, _ in _bound_blocks(plan, parsed):
        tree = list(own_tree(block.input))
        nodes = [node for node in tree if isinstance(node, JoinNode) and _is_streaming(node)]
        for join in tree:
            if not isinstance(join, Join) or join.kind in ("inner", "cross") or not is_of_streams(join):
                continue
            inside = [node for node in nodes if any(node is one for one in walk(join))]
            read = _read_by(join)
            mine = [(at, node, at) for node in inside for at in read if _has(node, at)]
            lost = [(at, node, inner) for at, node, inner in mine if not _passes(node, at, settings)]
            lost += [found for scan in scans(join) for found in _lost_inside(scan) if found[0] in read]
            for at, node, inner in lost:
                reason = f"the {join.kind.upper()} JOIN by {'.'.join(at)} above a join of streams: {_why(inner)}"
                found.append(Refusal(reason, _bounding_hint(node, inner)))
    return tuple(dict.fromkeys(sorted(found, key=lambda one: one.reason)))


def _lost_inside(scan: Scan) -> Iterator[tuple[At, JoinNode, At]]:
    """Yield the event time of a derived table if its lag is unbounded, the node inside, and the column there."""
    if scan.event_time is not None and scan.time_of is not None and loses_time(scan):
        for node in (one for below in scan.below for one in walk(below)):
            if isinstance(node, JoinNode) and scan.time_of[0] in node.graph.relations:
                yield (scan.alias, scan.event_time.lower()), node, scan.time_of


def _is_streaming(node: JoinNode) -> bool:
    return any(source_scan(source).streaming for source in node.sources)


def _has(node: JoinNode, at: At) -> bool:
    return any(at == one for source in node.sources for one in _times(source))


def _passes(node: JoinNode, at: At, settings: Settings) -> bool:
    return _has(node, at) and _lag(node, at, settings) is not None


def _why(at: At) -> str:
    return f"nothing says how far {'.'.join(at)} lags behind when a joined row comes with the last of its rows"


def _reason(node: JoinNode, columns: Iterable[At], alone: At | None) -> str:
    names = ", ".join(f"{alias}.{name}" for alias, name in sorted(columns))
    reason = f"a window over {names} in append mode"
    if alone is not None and _has(node, alone):
        return f"{reason}: {_why(alone)}"
    return f"{reason}: it is not the event time of an input, by which Spark closes windows"


def _hint(node: JoinNode, alone: At | None) -> str:
    below = [input_scan(source) for source in node.sources]
    without = next((scan.alias for scan in below if scan.event_time is None and scan.streaming is not False), None)
    if without is not None:
        return (
            f"give {without} a watermark ({without} WATERMARK column DELAY OF INTERVAL 10 SECONDS) and bound the join "
            f"with WITHIN 10 MINUTES, or use MODE update"
        )
    times = ", ".join(f"{scan.alias}.{scan.event_time}" for scan in below)
    latest = f"group by window(greatest({times}), ...), the time of a joined row, or use MODE update"
    if alone is not None and _has(node, alone):
        return f"{_bounding_hint(node, alone)}, or {latest}"
    return latest


def _bounding_hint(node: JoinNode, at: At) -> str:
    """Return the condition to add so that an event time lags by a known length."""
    below = {scan.alias: scan for scan in map(input_scan, node.sources)}
    others = [scan for scan in below.values() if scan.alias != at[0] and scan.streaming is not False]
    loose = next((scan for scan in others if (m := node.graph.most(at[0], scan.alias)) is None or m > 0), None)
    if loose is None or loose.event_time is None:
        return f"give {loose.alias if loose else at[0]} a watermark and bound the join with WITHIN 10 MINUTES"
    if node.graph.most(at[0], loose.alias) is not None:  # bounded, but the watermark cannot be held back that far
        return f"go by {loose.alias}.{loose.event_time}"
    bound = f"{loose.alias}.{loose.event_time} <= {'.'.join(at)} + INTERVAL 10 MINUTES"
    return f"add {bound}, or WITHIN 10 MINUTES after WHERE"
