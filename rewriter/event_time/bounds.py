"""Event-time bounds: how long must the rows of each stream be kept?

Predicates between event times are difference constraints ``t(right) - t(left) <= d``. Closed over the join graph by
shortest paths they bound every pair, also pairs that no predicate connects. A row of stream ``i`` can meet a later row
of ``j`` only while ``t(j) <= t(i) + d(i, j)``; so it is kept until the watermark passes the largest of these.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType

from ..plan.conjuncts import Band, Bounds, Compare, Comparison, Either, KernelPredicate, Limit
from ..plan.expr import UNKNOWN, At, Column, Expr, operands, rebuilt
from ..plan.joins import PADDED, Closest
from ..plan.nodes import Join, JoinNode, Node, Scan, in_results, kind_of, once, own_tree, scans, walk
from ..plan.parts import Retention, TimeStep
from ..predicates.forms import Bound, Form, Implied, bounds_between, implied_bounds, lasting, plain
from ..predicates.terms import column, column_term
from ..sql.spark_types import TIMES, is_window

_NAME = re.compile(r"[\w.`]+")

#: More than any path between the relations of a query has, unless it runs in circles.
_MOST_STEPS = 100

#: By pair of relations the least that one's time is bounded by the other's.
_Steps = dict[tuple[str, str], TimeStep]


@dataclasses.dataclass(frozen=True)
class Constraint:
    """``t(later) - t(earlier) <= most``, in microseconds, and the steps by which it follows from predicates."""

    earlier: str
    later: str
    most: int
    by: tuple[TimeStep, ...] = dataclasses.field(default=(), compare=False)


@once
def input_scan(source: Node) -> Scan:
    """Return the scan that stands for an input of a join node.

    Rows from a join of streams by Spark (`Scan.stateful`) may be at or before the watermark, such as the rows
    of an outer join without a match. A column that may be NULL there is not an event time, but the first of several
    that is not NULL may be (`Scan.first_of`); neither is one that lags without bound in the results of a join of ours.
    """
    first, *others = scans(source)
    alone = all(scan.streaming is False for scan in others)
    stateful = first.stateful or joins_streams(source)
    times = event_times_of(source)
    event_time = first.event_time if times and not loses_time(source) else None
    streaming = first.streaming if alone else any(scan.streaming for scan in (first, *others)) or None
    first_of = times if len(times) > 1 and event_time is not None else first.first_of
    found = dataclasses.replace(first, event_time=event_time, streaming=streaming, stateful=stateful, first_of=first_of)
    return first if found == first else found


def event_times_of(source: Node) -> tuple[At, ...]:
    """Return the columns of which the first that is not NULL is the event time of an input; none if it has none.

    That is the time of its first relation, unless a join of ours may pad that. Results of Spark's joins have one column
    with a watermark, and no expression over several has.
    """
    times: list[At] = []
    for scan, padded in in_results(source):
        if scan.first_of:
            return scan.first_of
        if scan.event_time is None or any(_pads_first(one) for below in scan.below for one in walk(below)):
            return ()
        times.append((scan.alias, scan.event_time))
        if not padded:
            break
    by_spark = (one for one in own_tree(source) if isinstance(one, Join) and is_of_streams(one))
    return tuple(times) if len(times) == 1 or not any(by_spark) else ()


def joins_streams(node: Node) -> bool:
    """Return whether a tree, or a derived table in it, has a join whose results may come behind the watermark.

    These are joins of streams that stay with Spark, and those of ours that give rows without a partner.
    """
    return any(_comes_late(one) for one in walk(node))


def _comes_late(node: Node) -> bool:
    if isinstance(node, JoinNode):
        return node.pads
    return isinstance(node, Join) and is_of_streams(node)


def _pads_first(node: Node) -> bool:
    """Return whether a join may fill its first relation with NULL."""
    return 0 in PADDED.get(kind_of(node), ())


def is_of_streams(join: Join) -> bool:
    """Return whether both sides of a join may have a stream."""
    return all(any(scan.streaming is not False for scan in scans(side)) for side in join.inputs)


def loses_time(source: Node) -> bool:
    """Return whether the event time of an input comes from a join of ours in whose results its lag is unbounded."""
    first = scans(source)[0]
    alias = first.alias if first.time_of is None else first.time_of[0]
    below = walk(source) if first.time_of is None else (one for node in first.below for one in walk(node))
    nodes = (one for one in below if isinstance(one, JoinNode) and alias in one.graph.relations)
    return any(time_lag(one, alias) is None for one in nodes)


def time_lag(node: JoinNode, alias: str) -> int | None:
    """Return `lag_of` the time that stands for a relation: where that is padded, it is another one's.

    A row alone comes when the watermark says that it has no partner.
    """
    first, *others = node.graph.relations
    alone = [node.graph.most(other, first) for other in others if alias == first and _pads_first(node)]
    lags = [lag_of(node, alias), *alone]
    return None if None in lags else max(0, *(lag for lag in lags if lag is not None))


def lag_of(node: JoinNode, alias: str) -> int | None:
    """Return by how much the event time of an input may lag behind the watermark in a node's results, in microseconds.

    A result comes with its last row, so the lag is how much later the rows of another input may be. None if
    that is unbounded, or if the other rows themselves come behind the watermark (`Scan.stateful`).

    One of the closest rows also waits for as long as a closer one may come: its own lag grows by that.
    """
    lag, inputs = 0, [input_scan(source) for source in node.sources]
    for other in inputs:
        if other.alias == alias or other.streaming is False:
            continue
        most = node.graph.most(alias, other.alias)
        if most is None or (other.stateful and most > 0):
            return None
        lag = max(lag, most)
    by_alias = {scan.alias: scan for scan in inputs}
    for (looking, looked_for), closest in looks_for_closest(node):
        if alias == looked_for and not _is_next(closest, by_alias[looked_for]):
            waits = node.graph.most(looking, looked_for)
            return None if waits is None else lag + max(0, waits)
    return lag


def looks_for_closest(node: JoinNode) -> Iterator[tuple[tuple[str, str], Closest]]:
    """Yield which inputs look for the closest rows of which others."""
    if node.closest is not None:
        looking, other = node.graph.relations
        yield (looking, other), node.closest
    for branch in node.branches:
        if branch.closest is not None:
            yield (branch.anchor, branch.relation), branch.closest


def _is_next(closest: Closest, right: Scan) -> bool:
    """Return whether the first of later rows is closest: a row waits until the watermark has passed it, no longer."""
    if closest.by != "least" or right.event_time is None or {closest.left.type, closest.right.type} != {"timestamp"}:
        return False
    return closest.right.sql == column_term((right.alias, right.event_time)).sql


def constraints(
    predicates: Iterable[KernelPredicate], below: Iterable[Scan], zone_shift: int, *, ansi: bool = True
) -> list[Constraint]:
    """Read the difference constraints off the kernel predicates that compare event times."""
    below = tuple(below)
    firsts = {_names(scan.first_of): (scan.alias, scan.event_time) for scan in below if scan.first_of}
    times = {
        (scan.alias, time): next((c.type for c in scan.columns if c.name.lower() == time), UNKNOWN)
        for scan in below
        if scan.event_time is not None
        for time in [scan.event_time.lower()]
    }

    def event_time(at: tuple[str, str]) -> str | None:
        kind = times.get((at[0], at[1].lower()))
        return kind if kind in (*TIMES, UNKNOWN) else None

    reader = Implied(event_time, ansi)

    def stands_for(expr: Expr) -> Expr:
        """Return the event time of an input for the expression that it is computed by."""
        if expr.op != "coalesce" or not all(isinstance(one, Column) for one in expr.args):
            return expr
        at = firsts.get(_names(expr.columns))
        return expr if at is None else column((at[0], str(at[1])))

    def implied(predicate: Comparison) -> Iterator[Bound]:
        if isinstance(predicate, Band) and predicate.bounds.rounded:  # times as numbers of seconds: the text says it
            for one in operands(predicate.condition.expr, "AND"):
                yield from implied_bounds(rebuilt(one, stands_for), reader, zone_shift)
            return
        left, right = (rebuilt(side.expr, stands_for) for side in predicate.keys)
        yield from bounds_between(left, right, _ends(predicate), reader, zone_shift)

    def of_comparison(predicate: Comparison, whole: KernelPredicate) -> _Steps:
        found: _Steps = {}
        if all(any(map(event_time, side.columns)) for side in predicate.keys):
            for bound in implied(predicate):
                earlier, later = (".".join(at) for at in (bound.earlier, bound.later))
                step = TimeStep(earlier, later, bound.most, whole.sql, whole.derived, whole.places)
                _keep_least(found, (bound.earlier[0], bound.later[0]), step)
        return found

    def of(predicate: KernelPredicate) -> _Steps:
        if not isinstance(predicate, Either):
            return of_comparison(predicate, predicate)
        branches: list[_Steps] = []
        for branch in predicate.branches:
            branches.append({})
            for one in branch:
                for pair, step in of_comparison(one, predicate).items():
                    _keep_least(branches[-1], pair, step)
        shared = set.intersection(*map(set, branches))  # what each branch bounds
        return {pair: max((one[pair] for one in branches), key=lambda step: step.most) for pair in sorted(shared)}

    return [Constraint(*pair, step.most, (step,)) for predicate in predicates for pair, step in of(predicate).items()]


def _names(columns: Iterable[At]) -> tuple[At, ...]:
    return tuple((alias, name.lower()) for alias, name in columns)


def _keep_least(found: _Steps, pair: tuple[str, str], step: TimeStep) -> None:
    if pair not in found or step.most < found[pair].most:
        found[pair] = step


def _ends(predicate: Comparison) -> tuple[Form | None, Form | None]:
    """Return between which ends the difference of a predicate's sides lies."""
    if isinstance(predicate, Band):
        return _end(predicate.bounds, predicate.bounds.lower), _end(predicate.bounds, predicate.bounds.upper)
    op, zero = predicate.op if isinstance(predicate, Compare) else "", plain(Fraction(0))
    return zero if op in ("=", ">", ">=") else None, zero if op in ("=", "<", "<=") else None


def _end(bounds: Bounds, end: Limit | None) -> Form | None:
    if end is None:
        return None
    return lasting(Fraction(end)) if bounds.timed else plain(Fraction(bounds.text_of(end)))


def close(relations: Iterable[str], given: Iterable[Constraint]) -> dict[tuple[str, str], int]:
    """Close difference constraints: the shortest path from each relation to each other (Floyd and Warshall).

    Examples
    --------
    >>> close(["r", "s", "t"], [Constraint("r", "s", 5), Constraint("s", "t", 3)])[("r", "t")]
    8
    """
    return {pair: found.most for pair, found in closed_with_steps(relations, given).items()}


def closed_with_steps(relations: Iterable[str], given: Iterable[Constraint]) -> dict[tuple[str, str], Constraint]:
    """Close difference constraints as `close` does, and keep the steps of each path.

    Conditions that contradict each other make paths that run in circles; such a path has no steps.
    """
    names = tuple(relations)
    best: dict[tuple[str, str], Constraint] = {}

    def take(found: Constraint) -> None:
        pair = (found.earlier, found.later)
        if pair not in best or found.most < best[pair].most:
            best[pair] = found

    for constraint in given:
        take(constraint)
    for middle in names:
        for one in names:
            first = best.get((one, middle))
            if first is None:
                continue
            for other in names:
                second = best.get((middle, other))
                if second is not None and other != one:
                    steps = (*first.by, *second.by) if first.by and second.by else ()
                    steps = steps if len(steps) <= _MOST_STEPS else ()
                    take(Constraint(one, other, first.most + second.most, steps))
    return best


def likely_time(scan: Scan) -> str | None:
    """Return the column with a relation's event time: the column of the watermark, or else its only timestamp."""
    if scan.event_time is not None:
        return scan.event_time
    times = [column.name for column in scan.columns if column.type in TIMES]
    return times[0] if len(times) == 1 else None


def watermark_clause(scan: Scan) -> str:
    """Return the clause that gives a relation its event time, as it stands in FROM."""
    ours = scan.relation.startswith("__trijoin")  # a view that stands for an input of a join in Spark's plan
    name = scan.relation if _NAME.fullmatch(scan.relation) and not ours else scan.alias
    alias = "" if name.lower() == scan.alias.lower() else f" AS {scan.alias}"
    return f"{name} WATERMARK {likely_time(scan) or 'column'} DELAY OF INTERVAL 10 SECONDS{alias}"


def keep_for(
    one: str,
    inputs: Collection[str],
    most: Callable[[str, str], int | None],
    looking: str | None = None,
    *,
    latest: bool = False,
) -> int | None:
    """Return how long rows of an input are kept, in microseconds of event time; None means for ever.

    Units reckon so too, by ranks (`JoinSpec.keep_for`).

    Parameters
    ----------
    one, inputs
        The input, and all inputs of the join.
    most
        Returns how much later than a row of one input its partner in another one may be, None if nothing bounds that.
    looking
        The input whose rows look for the closest ones in this one; what they find is kept for as long as they wait, for
        these and for what else they are joined with.
    latest
        Whether of rows that others do not bound nothing but the latest ones is of use.
    """
    reach = [most(one, other) for other in inputs if other != one]
    known = [length for length in reach if length is not None]
    waits = 0 if looking in (None, one) else keep_for(str(looking), inputs, most)
    if waits is None or (len(known) < len(reach) and not latest):
        return None
    return (max([0, *known]) if len(known) == len(reach) else 0) + waits


def retentions(
    below: Iterable[Scan],
    closed: dict[tuple[str, str], int],
    wished: dict[tuple[str, str], int],
    looks: Mapping[str, tuple[str, tuple[str, ...] | None]] = MappingProxyType({}),
) -> tuple[Retention, ...]:
    """Return for each stream how long its rows are kept, and what would bound it.

    Parameters
    ----------
    below, closed
        The inputs of a join, and by how much their times may differ.
    wished
        The bounds that there would be if every stream had a watermark.
    looks
        By input among whose rows the closest ones are looked for: the input of the rows that look for them, and the key
        of which only the latest row can be closest to later ones, None if more can be.
    """
    inputs = {scan.alias: scan for scan in below}

    def most(one: str, other: str) -> int | None:
        return closed.get((one, other))

    def kept(scan: Scan) -> Retention:
        one = scan.alias
        looking, latest = looks.get(one, (None, None))
        length = keep_for(one, inputs, most, looking)
        if length is not None:
            return Retention(one, length)
        if latest is not None:
            length = keep_for(one, inputs, most, looking, latest=True)
        if length is not None:
            return Retention(one, length, latest=latest)
        waits = looking is not None and keep_for(one, inputs, most) is not None  # for ever, and what it finds with it
        blamed = inputs[looking] if looking is not None and waits else scan
        return Retention(one, None, *_endless(blamed, tuple(inputs.values()), closed, wished))

    return tuple(kept(scan) for scan in inputs.values() if scan.streaming is not False)


def _endless(
    scan: Scan,
    below: tuple[Scan, ...],
    closed: dict[tuple[str, str], int],
    wished: dict[tuple[str, str], int],
) -> tuple[str, str]:
    """Return why a stream's rows are kept for ever, and what would bound that."""
    without = [other for other in below if other.event_time is None]
    if without and all((scan.alias, other.alias) in wished for other in below if other is not scan):
        names = " and ".join(other.alias for other in without)
        clauses = " and ".join(map(watermark_clause, without))
        have, them = ("have", "them") if len(without) > 1 else ("has", "it")
        why = f"{names} {have} no watermark, so the bound in time that the query has does not count"
        return why, f"declare {them} with {clauses}"
    if without:
        first = scan if scan.event_time is None else without[0]
        if any(isinstance(one, JoinNode) for node in first.below for one in walk(node)):
            return _without_time(first)  # Spark takes no second watermark
        give = f"give it one with {watermark_clause(first)}, and bound the join with WITHIN 10 MINUTES"
        return f"{first.alias} has no event time", give
    missing = next(o for o in below if o is not scan and (scan.alias, o.alias) not in closed)
    why = f"nothing says how much later {missing.alias} may be"
    later, earlier = (f"{one.alias}.{one.event_time}" for one in (missing, scan))
    windows = [one for one in (scan, missing) if has_window(one)]
    if len(windows) == 2:
        return why, f"equate the windows themselves, {earlier} = {later}"
    if windows:
        alias, name = windows[0].alias, windows[0].event_time
        beside = f"select window_time({name}) beside it, and compare that with the other time"
        return why, f"{alias}.{name} is a window; {beside}"
    return why, f"add a condition such as {later} <= {earlier} + INTERVAL 10 MINUTES, or WITHIN 10 MINUTES after WHERE"


def _without_time(scan: Scan) -> tuple[str, str]:
    """Return why the results of joins have no event time, and what would give them one."""
    if scan.time_of is None:
        hint = "select in it the event time of one of its relations, as it is: GREATEST or another expression is none"
        return f"{scan.alias} has no event time", hint
    hint = "bound the joins in it on both sides, and let no row look for later ones that wait themselves"
    return f"the time of {scan.alias} lags without bound", hint


def has_window(scan: Scan) -> bool:
    """Return whether a relation's event time is a window of it, as GROUP BY makes it."""
    return any(one.name == scan.event_time and is_window(one.type) for one in scan.columns)


def unbounded(kept: Iterable[Retention]) -> str | None:
    """Return a sentence about the rows that a join keeps for ever, None if there are none."""
    endless = [one for one in kept if one.keep_for is None]
    told = next((one.told for one in endless if one.told), None)
    if told is None:
        return None
    return f"UNBOUNDED: rows of {', '.join(one.alias for one in endless)} are kept for ever; {told}"
