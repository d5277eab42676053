"""A join group as part of the document that EXPLAIN draws."""

from __future__ import annotations

import dataclasses

from ..event_time.bounds import input_scan
from ..plan.conjuncts import Predicate
from ..plan.cost_model import DEFAULT_UNITS
from ..plan.decision import Decision
from ..plan.display import duration_text
from ..plan.document import (
    Conjunct,
    EventTime,
    Graph,
    GraphEdge,
    Group,
    Hanging,
    Proof,
    ProofStep,
    State,
    StreamState,
    UnitAggregation,
)
from ..plan.grid import lay_out
from ..plan.joins import Branch, join_words
from ..plan.nodes import JoinNode, LeftAlone
from ..plan.parts import JoinGraph, Retention
from ..plan.schemes import RECORDS
from .cost import can_hash


def describe(group: JoinNode | LeftAlone) -> Group:
    """Return what EXPLAIN shows of one join group."""
    sources = group.sources if isinstance(group, JoinNode) else ()
    times = {scan.alias: scan.event_time for scan in map(input_scan, sources)}
    streams = tuple(_kept(kept, times.get(kept.alias), group.graph) for kept in group.retention)
    state = State(all(stream.keep_for is not None for stream in streams), streams)
    found = Group(graph=_graph(group.graph), decision=_decision(group), state=state)
    if not isinstance(group, JoinNode):
        return found
    return dataclasses.replace(
        found,
        name=group.name,
        join=group.join,
        matching=tuple(one.sql for one in group.matching),
        closest=None if group.closest is None else group.closest.sql,
        branches=tuple(map(_hanging, group.branches)),
        aggregation=_aggregation(group),
        event_time=_event_time(group) if group.event_times else None,
    )


def _kept(kept: Retention, time: str | None, graph: JoinGraph) -> StreamState:
    """Return how long a stream's rows are kept, and when one expires, if any does and another input is a stream."""
    length = None if kept.keep_for is None else duration_text(kept.keep_for)
    expires = None if time is None or length is None else f"when the watermark passes {kept.alias}.{time} + {length}"
    return StreamState(kept.alias, length, kept.advice, expires, _proof(graph, kept.alias), kept.latest)


def _hanging(branch: Branch) -> Hanging:
    closest = branch.closest
    words, matching = join_words(branch.kind, closest), tuple(one.sql for one in branch.matching)
    return Hanging(branch.relation, branch.anchor, words, matching, None if closest is None else closest.sql)


def _proof(graph: JoinGraph, alias: str) -> tuple[Proof, ...]:
    """Return by which predicates rows of other inputs are not much later than those of one."""
    found = []
    for other in graph.relations:
        most = graph.most(alias, other)
        if other == alias or most is None:
            continue
        steps = (
            ProofStep(f"{one.later} <= {one.earlier}{_signed(one.most)}", one.sql, one.derived, one.places)
            for one in graph.proof(alias, other)
        )
        found.append(Proof(other, duration_text(most), tuple(steps)))
    return tuple(found)


def _signed(micros: int) -> str:
    return f" {'-' if micros < 0 else '+'} {duration_text(abs(micros))}" if micros else ""


def _graph(graph: JoinGraph) -> Graph:
    """Return a join graph whose edges have the residuals over two relations too."""
    pairs: dict[tuple[str, ...], list[Predicate]] = {(e.left, e.right): list(e.predicates) for e in graph.edges}
    for predicate in graph.residuals:
        if len(predicate.relations) == 2:
            pairs.setdefault(predicate.relations, []).append(predicate)
    whole = [predicate for predicate in graph.residuals if len(predicate.relations) != 2]
    rank = {name: index for index, name in enumerate(graph.relations)}
    edges = sorted(pairs.items(), key=lambda item: tuple(rank[alias] for alias in item[0]))
    return Graph(
        graph.shape,
        graph.hub,
        graph.relations,
        tuple(
            GraphEdge(
                left,
                right,
                all(p.derived for p in predicates),
                tuple(Conjunct(p.sql, p.kind, p.derived, p.places) for p in predicates),
            )
            for (left, right), predicates in edges
        ),
        tuple(p.sql for p in whole),
        tuple(p.places for p in whole),
    )


def _decision(group: JoinNode | LeftAlone) -> Decision:
    """Return a decision with the names of its options, and the grid of a matrix.

    Where units are not known, the grid has those that costs are estimated for.
    """
    decision = group.decision
    if isinstance(group, JoinNode) and group.tests_pairs:
        found = "its pairs are found in all units" if group.spread else "Spark tests the residuals on pairs"
        reason = f"{decision.reason}; {found}, by a node of their own"
        decision = dataclasses.replace(decision, reason=reason)
    if isinstance(group, JoinNode) and group.apart:
        decision = dataclasses.replace(decision, reason=f"{decision.reason}; a node of its own: {group.apart}")
    shown = tuple(decision.options.shown(group.graph.relations).items())
    if not isinstance(group, JoinNode) or group.tests_pairs or not RECORDS[decision.scheme or "matrix"].in_cells:
        return dataclasses.replace(decision, shown=shown)
    units, ranges = decision.units or DEFAULT_UNITS, decision.options.routing == "range"
    subgroups = decision.options.subgroups
    grid = lay_out(group.graph, units, can_hash(group), group.tested, ranges=ranges, subgroups=subgroups)
    return dataclasses.replace(decision, shown=shown, grid=grid)


def _event_time(group: JoinNode) -> EventTime:
    origin = {column.name: f"{column.relation}.{column.column}" for column in group.output}
    columns = (origin.get(name, "the latest of all event times") for name in group.event_times)
    return EventTime(tuple(columns), duration_text(group.held_back) if group.held_back else None)


def _aggregation(group: JoinNode) -> UnitAggregation | None:
    """Return what happens to the aggregation above a group; None if there is none."""
    if group.aggregation is not None:
        found = group.aggregation
        keys = tuple(key.term.sql for key in found.keys)
        return UnitAggregation(True, found.shown, keys, found.from_packs, found.listed)
    return None if group.not_aggregated is None else UnitAggregation(False, reason=group.not_aggregated)
