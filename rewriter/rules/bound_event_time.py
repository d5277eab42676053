"""The stage that bounds how long rows are kept, by the closed constraints of `event_time.bounds`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations

from ..event_time.bounds import (
    Constraint,
    closed_with_steps,
    constraints,
    event_times_of,
    input_scan,
    likely_time,
    looks_for_closest,
    retentions,
)
from ..options import DEFAULTS, Settings
from ..plan.conjuncts import Band, Compare
from ..plan.joins import PADDED, Closest
from ..plan.nodes import JoinNode, Node, Scan, own_tree, scans, transform
from ..plan.parts import Edge, Retention, TimeBound, TimeStep
from ..predicates.terms import column_term
from .rule import NotApplicable

#: A band of event times is wide unless rows are kept for more than this many times its width.
NARROW = 32


def bound_event_time(plan: Node, settings: Settings = DEFAULTS) -> Node | NotApplicable:
    """Give every join node its closed time bounds and its streams' retention.

    Days on the calendar and differences on the wall clock differ from elapsed time by the change of the offset of the
    session's time zone; the bounds allow for that (`Settings.zone_shift`).
    """

    def visit(node: Node) -> Node:
        return _bounded(node, settings) if isinstance(node, JoinNode) else node

    changed = transform(plan, visit)
    return NotApplicable("no join node has a bound in event time") if changed is plan else changed


def _bounded(node: JoinNode, settings: Settings) -> JoinNode:
    below = [input_scan(source) for source in node.sources]
    predicates = [p for edge in node.graph.edges for p in edge.predicates]
    inside = [scan for source in node.sources for scan in scans(source)[1:]]
    # an input may be a join, and be compared by the time of any relation in it
    inner = [
        one
        for source in node.sources
        for below_it in own_tree(source)
        if isinstance(below_it, JoinNode)
        for one in _between(below_it)
    ]

    def closed_for(timed: Iterable[Scan]) -> dict[tuple[str, str], Constraint]:
        found = constraints(predicates, (*timed, *inside), settings.zone_shift, ansi=settings.ansi)
        return _closed(node, (*node.graph.core, *(scan.alias for scan in inside)), [*found, *inner])

    by_path = closed_for(below)
    # a path may lead past an input whose own time may be NULL or lags without bound: the watermark tells nothing of it
    timeless = {scan.alias for scan in below if scan.event_time is None}
    closed = {pair: most for pair, most in _most(by_path).items() if timeless.isdisjoint(pair)}
    written = {one.sql: one.places for one in node.graph.residuals}

    def steps(one: str, other: str) -> tuple[TimeStep, ...]:
        path = by_path.get((one, other))
        return () if path is None else tuple(_placed(step, written) for step in path.by)

    bounds = []
    for index, left in enumerate(node.graph.relations):
        for right in node.graph.relations[index + 1 :]:
            upper, reverse = closed.get((left, right)), closed.get((right, left))
            lower = None if reverse is None else -reverse
            if upper is not None or lower is not None:
                bounds.append(TimeBound(left, right, lower, upper, steps(right, left), steps(left, right)))
    wished = [
        dataclasses.replace(scan, event_time=likely_time(scan)) if scans(source)[0].event_time is None else scan
        for scan, source in zip(below, node.sources, strict=True)
    ]
    looks = {pair[1]: (pair[0], _only_latest(node, closest, pair, below)) for pair, closest in looks_for_closest(node)}
    kept = retentions(below, closed, closed if wished == below else _most(closed_for(wished)), looks)
    padded = next((why for source in node.sources if (why := _padded(source)) is not None), None)
    if padded is not None:
        kept = tuple(
            one if one.keep_for is not None else dataclasses.replace(one, why=padded[0], hint=padded[1]) for one in kept
        )
    latest = {one.alias for one in kept if one.latest is not None}

    def looked(closest: Closest | None, other: str) -> Closest | None:
        wraps = not settings.ansi
        return None if closest is None else dataclasses.replace(closest, latest=other in latest, wraps=wraps)

    edges = tuple(_with_wide_bands(edge, below, kept) for edge in node.graph.edges)
    graph = dataclasses.replace(node.graph, edges=edges, time_bounds=tuple(bounds))
    branches = tuple(dataclasses.replace(one, closest=looked(one.closest, one.relation)) for one in node.branches)
    closest = looked(node.closest, node.graph.relations[-1])
    return dataclasses.replace(node, graph=graph, retention=kept, closest=closest, branches=branches)


def _closed(node: JoinNode, core: tuple[str, ...], found: Iterable[Constraint]) -> dict[tuple[str, str], Constraint]:
    """Close the constraints of a node. What a branch says holds for results with a row of it, and bounds no others."""
    optional, found = set(node.graph.optional), list(found)
    closed = closed_with_steps(core, [one for one in found if optional.isdisjoint((one.earlier, one.later))])
    whole = dict(closed)
    for branch in node.branches:
        own = [one for one in found if branch.relation in (one.earlier, one.later)]
        path = closed_with_steps((*core, branch.relation), [*closed.values(), *own])
        whole |= {pair: one for pair, one in path.items() if branch.relation in pair}
    for one, other in permutations(node.branches, 2):
        first, second = whole.get((one.relation, other.anchor)), whole.get((other.anchor, other.relation))
        if first is not None and second is not None:
            pair, steps = (one.relation, other.relation), (*first.by, *second.by)
            whole[pair] = Constraint(*pair, first.most + second.most, steps if first.by and second.by else ())
    return whole


def _only_latest(
    node: JoinNode, closest: Closest, pair: tuple[str, str], below: Iterable[Scan]
) -> tuple[str, ...] | None:
    """Return the key of which only the latest row can be closest to later ones, None if others can be, too.

    That is so where the latest of earlier rows is closest, and nothing but equalities decides which rows join: then a
    row is of no use any more once the watermark has passed a later one.
    """
    if closest.by != "greatest" or node.graph.residuals:
        return None
    inputs = {scan.alias: scan for scan in below}
    for alias, term in zip(pair, (closest.left, closest.right), strict=True):
        scan = inputs[alias]
        if scan.event_time is None or term.type != "timestamp":
            return None
        if term.sql != column_term((scan.alias, scan.event_time)).sql:
            return None
    keys = []
    edge = node.graph.edge(*pair)
    for predicate in edge.predicates if edge is not None else ():
        if isinstance(predicate, Compare) and predicate.op in ("=", "<=>"):
            keys.append(predicate.right.sql)
        elif predicate.condition != closest.condition:
            return None
    return tuple(keys)


def _padded(source: Node) -> tuple[str, str] | None:
    """Return of an input whose event time may be NULL, for a join below pads it, that it is so and what to do."""
    first = scans(source)[0]
    if first.event_time is None or event_times_of(source):
        return None
    time = f"{first.alias}.{first.event_time}"
    do = "bound that join with WITHIN, or let the relation whose rows it keeps come first, in a LEFT JOIN"
    return f"{time} may be NULL in rows of the join below", do


def _most(closed: Mapping[tuple[str, str], Constraint]) -> dict[tuple[str, str], int]:
    return {pair: constraint.most for pair, constraint in closed.items()}


def _placed(step: TimeStep, written: Mapping[str, tuple[tuple[int, int], ...]]) -> TimeStep:
    """Return a step with the places of the residual that its predicate follows from."""
    return step if step.places else dataclasses.replace(step, places=written.get(step.sql, ()))


def _between(node: JoinNode) -> Iterator[Constraint]:
    """Yield the bounds between the rows of a node's results.

    Where the first relation is padded, the time of the other one stands for it: then they do not differ.
    """
    least = 0 if 0 in PADDED.get(node.join, ()) else None
    for bound in node.graph.time_bounds:
        for one, other in ((bound.left, bound.right), (bound.right, bound.left)):
            most = node.graph.most(one, other)
            if most is not None:
                yield Constraint(one, other, most if least is None else max(least, most), node.graph.proof(one, other))


def _with_wide_bands(edge: Edge, below: Iterable[Scan], kept: Iterable[Retention]) -> Edge:
    """Mark the bands of an edge that most kept rows are within."""
    lengths = [one.keep_for for one in kept if one.alias in (edge.left, edge.right)]

    def is_wide(predicate: Band) -> bool:
        found = constraints((predicate,), below, 0)
        known = [length for length in lengths if length is not None]
        if not found or len(known) < 2:  # rows that are kept for ever are spread over all times
            return False
        return len(found) < 2 or sum(constraint.most for constraint in found) * NARROW >= max(known)

    predicates = (
        dataclasses.replace(one, bounds=dataclasses.replace(one.bounds, wide=True))
        if isinstance(one, Band) and is_wide(one)
        else one
        for one in edge.predicates
    )
    return dataclasses.replace(edge, predicates=tuple(predicates))
