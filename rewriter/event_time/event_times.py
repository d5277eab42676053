"""Event time through a join: which columns of its results are event time for Spark, and how late they may come.

A result comes with its last row, and that row is above the units' watermark. Its other rows may be older, by as much as
the closed bounds of the join allow: ``r.ts`` of a result lags by the bound of ``t(other) - t(r)``. Operators above it
(a window, a deduplication, a Spark join, another group of ours) silently drop rows behind their watermark. So the
watermarks of the join's inputs are held back by the lag. The units, which decide what is late and what expires, add the
lag to Spark's watermark again. That of rows that an operator of Spark's makes cannot be held back: where a join of ours
lets them wait, those above keep rows for as much longer (`JoinNode.behind`), and a window above is refused.
The latest time of a result's rows does not lag. Where the SELECT above a join says ``GREATEST(r.ts, s.ts, t.ts)`` over
all event times, the join puts it out as a column of its own.

A column with an unbounded lag is not an event time above the join; neither is one that depends on rows that a Spark
operator holds back until the watermark passes them (`plan.nodes.Scan.stateful`), unless these are never later than it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..options import Settings
from ..plan.joins import PADDED, written
from ..plan.nodes import (
    Block,
    Join,
    JoinNode,
    Node,
    Scan,
    in_results,
    once,
    own_tree,
    scans,
    source_scan,
    transform,
    walk,
)
from ..plan.parts import At, Refusal
from .bounds import input_scan, is_of_streams, joins_streams, lag_of, loses_time, time_lag, watermark_clause

#: Output column of a join node with the latest event time of a result's rows.
RESULT_TIME = "__result_time"


def carry_event_times(plan: Node, settings: Settings) -> Node:
    """Give every join node its `event_times`, and by how much its inputs' watermarks are held back."""
    carried: dict[str, tuple[str, ...]] = {}
    lags: dict[str, int] = {}
    for block in _blocks(plan):
        nodes = [one for one in own_tree(block.input) if isinstance(one, JoinNode)]
        joins = [one for one in own_tree(block.input) if isinstance(one, Join) and is_of_streams(one)]
        above = [source for node in nodes for source in node.sources if any(one in nodes for one in own_tree(source))]
        # what a stateful operator reads: windows and groups of the SELECT, Spark's joins and ours
        read = block.times.grouped.union(*map(_read_by, joins), *map(_times, above))
        padded = frozenset[str]().union(*map(_padded, nodes), *map(_padded, joins))
        for node in nodes:
            output = [(column.relation, column.column.lower()) for column in node.output]
            used = [at for at in output if _has(node, at) and (at in read or at in block.times.items)]
            used = [at for at in used if at[0] not in padded or not _waits_for(at, block, joins)]
            by_spark = block.times.grouped.union(*map(_read_by, joins), used if block.times.distinct else ())
            found = {
                at: lag
                for at in used
                if (lag := _lag(node, at, settings)) is not None and not (at in by_spark and _too_late(node, at))
            }
            marked = list(found)
            if joins or block.times.distinct:  # an operator reads all columns: there Spark allows one event time
                marked = [at for at in found if at in read] or sorted(found, key=lambda at: found[at])[:1]
            carried[node.name] = tuple(c.name for c in node.output if (c.relation, c.column.lower()) in marked)
            lags[node.name] = max((found[at] for at in marked), default=0)
        for source in above:  # whose time may be computed of several columns
            first, times = scans(source)[0].alias, input_scan(source).first_of
            inside = [one for one in own_tree(source) if isinstance(one, JoinNode) and first in one.graph.relations]
            for node in inside if times and all(_can_hold_back(one, settings) for one in inside) else ():
                lags[node.name] = max(lags[node.name], time_lag(node, first) or 0)
                names = (c.name for c in node.output if (c.relation, c.column) in times)
                carried[node.name] = tuple(dict.fromkeys((*carried[node.name], *names)))
    held: dict[str, int] = {}
    _hold_back(plan, 0, lags, held, {})
    behind = _behind_in_all(plan, held)

    def visit(node: Node) -> Node:
        if isinstance(node, Scan):
            return dataclasses.replace(node, stateful=True) if not node.stateful and joins_streams(node) else node
        if not isinstance(node, JoinNode):
            return node
        times, by = carried.get(node.name, ()), held.get(node.name, 0)
        return dataclasses.replace(node, event_times=times, held_back=by, behind=behind[node.name])

    return transform(plan, visit)


def _padded(join: JoinNode | Join) -> Iterator[str]:
    """Yield the relations that a join may fill with NULL."""
    if isinstance(join, JoinNode):
        sides = [source for source in join.sources if source_scan(source).alias in join.padded]
    else:
        sides = [join.inputs[at] for at in PADDED.get(join.kind, ())]
    for side in sides:
        yield from (scan.alias for scan in scans(side))


def _waits_for(at: At, block: Block, joins: Iterable[Join]) -> bool:
    """Return whether an operator of Spark's gives rows when the watermark passes a column: never, if it is NULL.

    So do groups, DISTINCT, and outer joins with the rows that they keep. Windows drop rows without a time, as in batch.
    """
    if block.times.distinct or (
        at in block.times.grouped and not any(at in one.columns for one in block.times.windows)
    ):
        return True
    keeps = {"left": (0,), "right": (1,), "full": (0, 1)}
    sides = (
        side
        for join in joins
        if at in _read_by(join)
        for side in map(join.inputs.__getitem__, keeps.get(join.kind, ()))
    )
    return any(scan.alias == at[0] for side in sides for scan in scans(side))


def _hold_back(node: Node, above: int, lags: dict[str, int], held: dict[str, int], seen: dict[int, int]) -> None:
    """Add up the lags of the join nodes on the longest way down to each."""
    if seen.get(id(node), -1) >= above:
        return
    seen[id(node)] = above
    if isinstance(node, JoinNode):
        above += -(-lags.get(node.name, 0) // 1000) * 1000  # Spark's watermarks are in milliseconds
        held[node.name] = max(above, held.get(node.name, 0))
    for below in node.inputs:
        _hold_back(below, above, lags, held, seen)


def _behind_in_all(plan: Node, held: Mapping[str, int]) -> dict[str, int | None]:
    """Return by node by how much rows of its inputs may come behind Spark's watermark; see `JoinNode.behind`.

    Rows of a stateful operator of Spark's do not come behind the watermark that Spark tells the operators above it.
    What a join of ours makes of them lags, and no input's watermark can be held back for that.

    Parameters
    ----------
    plan
        The plan.
    held
        By node by how much the watermarks of its inputs are held back.
    """
    found: dict[str, int | None] = {}

    def of(below: JoinNode) -> int:
        own = found[below.name]
        return -held.get(below.name, 0) if own is None else own

    for node in reversed(list(walk(plan))):  # each after those that it reads
        if isinstance(node, JoinNode):
            known = (one for source in node.sources for one in _behind(source, source, of))
            found[node.name] = max((one for one in known if -one < held.get(node.name, 0)), default=None)
    return found


@once
def _behind_spark(node: Node) -> int | None:
    """Return the same for a join node, None without an operator of Spark's below, where all else can be held back."""
    known = [one for source in node.inputs for one in _behind(source, source, _behind_spark)]
    return max(known, default=None)


def _behind(source: Node, below: Node, of: Callable[[JoinNode], int | None]) -> Iterator[int]:
    """Yield by how much rows of what is below an input's own operators may come behind the watermark."""
    if isinstance(below, JoinNode):
        own = of(below)
        if own is not None:
            first = scans(source)[0]
            alias = first.alias if first.time_of is None else first.time_of[0]
            aliases = {alias}.intersection(below.graph.relations) or below.graph.relations
            yield own + -(-max(time_lag(below, one) or 0 for one in aliases) // 1000) * 1000
    elif isinstance(below, Scan) and below.stateful:
        yield below.behind
    elif isinstance(below, Join) and is_of_streams(below):
        yield 0
    else:
        for one in below.inputs:
            yield from _behind(source, one, of)


def _too_late(node: JoinNode, at: At) -> bool:
    """Return whether a column of a node's results may come behind the watermark of Spark's operators above it."""
    behind = _behind_spark(node)
    return behind is not None and (behind > 0 or (node.pads and bool(lag_of(node, at[0]))))


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


def _times(source: Node) -> Iterator[At]:
    """Yield the event times of one input of a node: a Spark join may have several."""
    first = input_scan(source)
    if first.event_time is not None and not first.first_of and _type(first) == "timestamp":
        yield first.alias, first.event_time.lower()


def _type(scan: Scan) -> str | None:
    time = (scan.event_time or "").lower()
    return next((column.type for column in scan.columns if column.name.lower() == time), None)


def _blocks(plan: Node) -> Iterator[Block]:
    return (block for block in walk(plan) if isinstance(block, Block) and block.problem is None)


# ------------------------------------------------------------------------------------------- the latest of all times


def event_times(node: JoinNode) -> frozenset[At]:
    """Return the event-time columns of a node's inputs as ``(alias, name)``; none unless each is a stream with one."""
    found = set()
    for source in node.sources:
        scan = source_scan(source)
        if node.join != "inner" or not scan.streaming or scan.event_time is None or _type(scan) != "timestamp":
            return frozenset()
        if in_results(source)[0][1] or scan.first_of:  # it may be NULL
            return frozenset()
        found.add((scan.alias, scan.event_time.lower()))
    return frozenset(found)


# ---------------------------------------------------------------------------------------------------------- refusals


def append_refusals(plan: Node, settings: Settings) -> tuple[Refusal, ...]:
    """Return which windows above joins of streams cannot run in append mode, and what to write instead."""
    found = []
    for block in _blocks(plan):
        nodes = [node for node in own_tree(block.input) if isinstance(node, JoinNode) and _is_streaming(node)]
        latest = [times for node in nodes if (times := event_times(node)) and (_behind_spark(node) or 0) <= 0]
        for window in block.times.windows:
            columns, alone = window.columns, window.alone
            node = next((one for one in nodes for alias, _ in columns if alias in one.graph.relations), None)
            if node is None or window.latest in latest:
                continue
            if window.latest:  # of all times, where even the last row of a result may come behind the watermark
                alone = alone or next((at for at in sorted(columns) if _has(node, at) and _too_late(node, at)), None)
            if alone is None or not _passes(node, alone, settings):
                found.append(Refusal(_reason(node, columns, alone), _hint(node, alone), "WINDOW (|SESSION_WINDOW ("))
        for node in nodes if block.times.distinct else ():
            for at in (one for one in block.times.items if _has(node, one) and _too_late(node, one)):
                found.append(Refusal(f"DISTINCT in append mode: {_why(node, at)}", _hint(node, at), "DISTINCT"))
    return tuple(dict.fromkeys(found))


def join_refusals(plan: Node, settings: Settings) -> tuple[Refusal, ...]:
    """Return which outer joins of Spark's above ours would wait for ever: they use a time whose lag is unbounded."""
    found: list[Refusal] = []
    for block in _blocks(plan):
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
                reason = f"the {join.kind.upper()} JOIN by {'.'.join(at)} above a join of streams: {_why(node, inner)}"
                found.append(Refusal(reason, _bounding_hint(node, inner), written(join.kind, None)))
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
    return _has(node, at) and _lag(node, at, settings) is not None and not _too_late(node, at)


def _why(node: JoinNode, at: At) -> str:
    if lag_of(node, at[0]) is not None and _too_late(node, at):
        return (
            f"rows of {at[0]} that wait for a partner come behind the watermark, for an operator of Spark's below the "
            "join has waited for it already"
        )
    return f"nothing says how far {'.'.join(at)} lags behind when a joined row comes with the last of its rows"


def _reason(node: JoinNode, columns: Iterable[At], alone: At | None) -> str:
    names = ", ".join(f"{alias}.{name}" for alias, name in sorted(columns))
    reason = f"a window over {names} in append mode"
    if alone is not None and _has(node, alone):
        return f"{reason}: {_why(node, alone)}"
    return f"{reason}: it is not the event time of an input, by which Spark closes windows"


def _hint(node: JoinNode, alone: At | None) -> str:
    below = [input_scan(source) for source in node.sources]
    without = next((scan for scan in below if scan.event_time is None and scan.streaming is not False), None)
    if without is not None:
        return f"give {without.alias} a watermark ({watermark_clause(without)}){_bound(node)}, or use MODE update"
    if alone is not None and _has(node, alone) and _too_late(node, alone):
        instead = f"take no later partners of {alone[0]}"
        return f"write what is below the join to a table or a topic, and join that, or {instead}"
    if any(scan.first_of for scan in below):
        return "use MODE update"  # greatest(...) of its columns would not be its time
    if node.join != "inner":  # of a row without a partner there is one time at most that surely is there
        kept = {"left": below[0], "left_closest": below[0], "right": below[-1], "mixed": below[0]}.get(node.join)
        if kept is None or (alone is not None and alone[0] == kept.alias):
            return f"{_bounding_hint(node, alone)}, or use MODE update" if kept and alone else "use MODE update"
        return f"group by window({kept.alias}.{kept.event_time}, ...), the time that each row has, or use MODE update"
    times = ", ".join(f"{scan.alias}.{scan.event_time}" for scan in below)
    latest = f"group by window(greatest({times}), ...), the time of a joined row, or use MODE update"
    if alone is not None and _has(node, alone):
        return f"{_bounding_hint(node, alone)}, or {latest}"
    return latest


def _bound(node: JoinNode) -> str:
    """Return what has to be added beside a watermark: nothing if WITHIN is there."""
    predicates = (one for edge in node.graph.edges for one in edge.predicates)
    return (
        "" if any(one.sql.startswith("WITHIN ") for one in predicates) else " and bound the join with WITHIN 10 MINUTES"
    )


def _bounding_hint(node: JoinNode, at: At) -> str:
    """Return the condition to add so that an event time lags by a known length."""
    below = {scan.alias: scan for scan in map(input_scan, node.sources)}
    others = [scan for scan in below.values() if scan.alias != at[0] and scan.streaming is not False]
    loose = next((scan for scan in others if (m := node.graph.most(at[0], scan.alias)) is None or m > 0), None)
    if loose is None or loose.event_time is None:
        return f"give {loose.alias if loose else at[0]} a watermark{_bound(node)}"
    if node.graph.most(at[0], loose.alias) is not None:  # bounded, but the watermark cannot be held back that far
        return f"go by {loose.alias}.{loose.event_time}"
    bound = f"{loose.alias}.{loose.event_time} <= {'.'.join(at)} + INTERVAL 10 MINUTES"
    return f"add {bound}, or WITHIN 10 MINUTES after WHERE"
