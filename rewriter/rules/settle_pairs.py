"""Outer, semi, anti and closest joins of streams with conditions that only Spark can evaluate, on pairs of rows.

Such a join becomes two nodes. The inner one finds *candidates*: the pairs for which all other conditions hold. Spark
tests them. The outer one *settles* the rows that are tested for partners: it joins them with the pairs that are left,
by all columns of theirs that conditions read, and by a hash of these, which rows are sent by. Rows that agree in them
have the same partners, so it does not matter which of several equal rows a pair is of. Of an outer join the pairs are
results as they are; those of a FULL JOIN pass two such nodes, one for each side.

Example: ``r LEFT ANTI JOIN s ON f(r.x, s.x) AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 MINUTE`` is ``r LEFT ANTI JOIN
p ON xxhash64(r.ts, r.x) = xxhash64(p.ts, p.x) AND r.ts <=> p.ts AND r.x <=> p.x``, with the results ``p`` of ``r JOIN
s`` for which ``f(r.x, s.x)`` is true.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from ..choose.decide import decide
from ..choose.operator_trees import hints_of
from ..event_time.bounds import keep_for
from ..event_time.event_times import RESULT_TIME, event_times
from ..options import Settings
from ..plan.comparison import common_type
from ..plan.conjuncts import Compare, CompareOp, Term
from ..plan.decision import UNDECIDED, Decision
from ..plan.expr import At, Constant, cast, function, infix, negation
from ..plan.grid import key_classes
from ..plan.join_graph import build_graph
from ..plan.joins import Closest, NodeKind
from ..plan.nodes import (
    Filter,
    Hints,
    JoinNode,
    Node,
    Scan,
    column_types,
    join_node_class,
    scans,
    source_scan,
    transform,
)
from ..plan.parts import JoinGraph, OutputColumn, Retention, TimeBound, named_columns, unused
from ..plan.trees import INNER
from ..predicates.terms import MovedColumns, column_term
from ..sql.dialect import parse_expression, quote
from ..sql.functions import read_anew
from ..sql.spark_types import UNKNOWN
from .grow_operator_trees import scan_of
from .rule import NotApplicable

#: Types of which two values may be equal that an expression can tell apart, such as 0.0 and -0.0: their texts differ.
_BY_TEXT = re.compile(r"float|double|string ?collate.*", re.IGNORECASE)


def why_unsettled(join: NodeKind, sources: Sequence[Node], graph: JoinGraph, closest: Closest | None) -> str | None:
    """Return why a join with a condition that only Spark can evaluate cannot be two nodes, None if it can."""
    if not graph.residuals:
        return None
    only = f"only Spark can evaluate {graph.residuals[0].sql}, on pairs of rows"
    return _why_not(join, sources, graph, closest, only)


def spreads(join: NodeKind, sources: Sequence[Node], graph: JoinGraph, units: int | None) -> bool:
    """Return whether a FULL JOIN becomes several nodes although Spark tests nothing, to run in the units of a hint.

    Alone it runs in one cell where no equality says in which of several partners meet.
    """
    return (
        join == "full"
        and (units or 1) > 1
        and not (graph.residuals or key_classes(graph))
        and _why_not(join, sources, graph, None, "") is None
    )


def _why_not(
    join: NodeKind, sources: Sequence[Node], graph: JoinGraph, closest: Closest | None, only: str
) -> str | None:
    if any(read_anew(part) for one in graph.residuals for part in parse_expression(one.condition.sql).walk()):
        return f"{only}, and it has another value each time, or later"
    if closest is not None and closest.count > 1:
        return f"{only}, and a row looks for more than one other"
    node = join_node_class(2)("", tuple(sources), graph, UNDECIDED, (), closest=closest)
    if not event_times(node):
        return f"{only}, and one side has no event time, or one that may be NULL"
    types = _types(node)
    for at in (at for tested in dataclasses.replace(node, join=join).tested for at in _decisive(node, tested)):
        kind = types.get(at, UNKNOWN)
        if kind != UNKNOWN and common_type(kind, kind) is None and not _BY_TEXT.fullmatch(kind):
            return f"{only}, and units do not compare {'.'.join(at)}, of type {kind}"
    return None


def settle_pairs(plan: Node) -> Node | NotApplicable:
    """Make several nodes of each join that is not inner and has a condition which only Spark can evaluate.

    And of a FULL JOIN that is to run in several units (`spreads`).
    """

    def visit(node: Node) -> Node:
        return _settled(node) if isinstance(node, JoinNode) and node.tests_pairs else node

    changed = transform(plan, visit)
    return NotApplicable("Spark tests no pairs of an outer, semi, anti or closest join") if changed is plan else changed


def _settled(node: JoinNode) -> JoinNode:
    """Return the nodes: one finds candidates, and one settles the rows of each side that is tested."""
    found = pairs = _candidates(node)
    names = MovedColumns({(one.relation, one.column): ("", one.name) for one in pairs.output})
    tests = " AND ".join(f"({names.term(one.condition).sql})" for one in node.graph.residuals)
    columns = {(one.relation, one.column): one for one in pairs.output}
    *others, last = node.tested
    for tested in others:  # of a FULL JOIN: its results are pairs for the other side
        of_one = dataclasses.replace(
            node, name=f"{node.name}{INNER}2", output=pairs.output, join="left", event_times=()
        )
        found = _settling(of_one, tested, _scan_of(found, tests), columns)
        tests = ""
    kind = "left" if node.join in ("right", "full") else node.join
    return _settling(dataclasses.replace(node, join=kind), last, _scan_of(found, tests), columns)


def _settling(node: JoinNode, tested: str, pairs: Scan, columns: Mapping[At, OutputColumn]) -> JoinNode:
    """Return the node that settles the rows of one side.

    Parameters
    ----------
    node
        What it puts out, over the inputs of the whole join.
    pairs
        The pairs that are partners, and ``columns`` their names of the columns of these inputs.
    """
    (other,) = (one for one in node.graph.relations if one != tested)
    pairs = dataclasses.replace(pairs, alias=unused(pairs.alias, {tested.lower()}))
    moved = MovedColumns({at: (pairs.alias, one.name) for at, one in columns.items()})
    types, decisive = _types(node), _decisive(node, tested)
    mine = [column_term(at, types.get(at, UNKNOWN)) for at in decisive]
    theirs = [column_term(moved[at], types.get(at, UNKNOWN)) for at in decisive]
    equal = [_compared("=", _hashed(mine), _hashed(theirs))]
    equal += [_compared("<=>", *map(_told_apart, keys)) for keys in zip(mine, theirs, strict=True)]
    most = node.graph.most(tested, other)
    reach = None if most is None else max(0, most)
    bounds = (TimeBound(tested, pairs.alias, 0, reach),)
    given = [one for one in node.output if one.relation == tested] if node.join == "left" else []
    matching = [one for one in node.matching if one.relations == (tested,)]
    settled = join_node_class(2)(
        node.name,
        (node.sources[node.graph.relations.index(tested)], pairs),
        dataclasses.replace(build_graph((tested, pairs.alias), equal), time_bounds=bounds),
        node.decision,
        tuple(one if one.relation == tested else moved.output(one) for one in node.output),
        (Retention(tested, reach), Retention(pairs.alias, 0 if node.closest is None else reach)),
        result_time=node.result_time,
        event_times=node.event_times,
        held_back=node.held_back,
        behind=node.behind,
        join=node.join,
        matching=(*matching, *_there(node, tested)),
        closest=_look(node.closest, moved, tested),
        apart=node.apart,
        settles=tuple(moved.output(one) for one in given),
    )
    return dataclasses.replace(settled, decision=_decided(settled, node))


def _candidates(node: JoinNode) -> JoinNode:
    """Return the node that finds the pairs for Spark to test, with all columns that it and results need."""
    wanted = [
        *(at for one in node.tested for at in _decisive(node, one)),
        *(at for one in node.graph.residuals for at in one.condition.columns),
    ]
    if node.join not in ("semi", "anti"):
        wanted += [(one.relation, one.column) for one in node.output]
    if node.closest is not None:
        wanted += [at for one in node.closest.compared for at in one.columns]
    output = named_columns(wanted, _types(node), (), {(one.relation, one.column): one.name for one in node.output})
    sources = []
    for alias, source in zip(node.graph.relations, node.sources, strict=True):
        conditions = tuple(one for one in node.matching if one.relations == (alias,))
        sources.append(Filter(source, conditions) if conditions else source)
    graph = dataclasses.replace(node.graph, residuals=())
    kept = tuple(Retention(one, keep_for(one, graph.relations, graph.most)) for one in graph.relations)
    found = join_node_class(2)(
        f"{node.name}{INNER}",
        tuple(sources),
        graph,
        node.decision,
        output,
        kept,
        result_time=RESULT_TIME,
        event_times=(RESULT_TIME,),
        held_back=node.held_back,
        behind=node.behind,
        candidates_of=node.tested,
    )
    return dataclasses.replace(found, decision=_decided(found, node))


def _scan_of(found: JoinNode, tests: str) -> Scan:
    """Return the pairs that Spark lets through, as an input."""
    scan = scan_of(found, found, "pairs")
    return dataclasses.replace(scan, relation=f"(SELECT * FROM {quote(found.name)} WHERE {tests})") if tests else scan


def _decisive(node: JoinNode, tested: str) -> tuple[At, ...]:
    """Return the columns of a tested row by which it has the partners that it has."""
    own = {scan.alias for source in node.sources if source_scan(source).alias == tested for scan in scans(source)}
    terms = [term for edge in node.graph.edges for one in edge.predicates for term in one.terms]
    terms += [one.condition for one in node.graph.residuals]
    terms += node.closest.compared if node.closest is not None else ()
    return tuple(sorted({at for term in terms for at in term.columns if at[0] in own}))


def _compared(op: CompareOp, one: Term, other: Term) -> Compare:
    condition = Term(infix(op, one.expr, other.expr), (*one.relations, *other.relations))
    return Compare(condition.sql, condition, one, other, op)


def _hashed(keys: Sequence[Term]) -> Term:
    return Term(function("XXHASH64", *(one.expr for one in keys), type_="bigint"), keys[0].relations)


def _told_apart(key: Term) -> Term:
    """Return a key of which two values are equal only if no expression can tell them apart."""
    return Term(cast(key.expr, "string"), key.relations) if _BY_TEXT.fullmatch(key.type) else key


def _there(node: JoinNode, tested: str) -> Iterator[Term]:
    """Yield that a tested row has what the other conditions compare: one without has no partner, now or later."""
    keys = (
        key
        for edge in node.graph.edges
        for one in edge.predicates
        if one.rejects_null
        for key in one.keys
        if key.relations == (tested,)
    )
    for key in dict.fromkeys(keys):
        yield Term(negation(infix("IS", key.expr, Constant("NULL", None))), (tested,))


def _look(closest: Closest | None, moved: MovedColumns, tested: str) -> Closest | None:
    """Return what is closest among pairs: the row of the other input in each."""
    if closest is None:
        return None
    right, left = moved.term(closest.right), closest.left
    condition = dataclasses.replace(closest.condition, relations=(tested, *right.relations))
    return dataclasses.replace(closest, left=left, right=right, condition=condition, latest=False)


def _types(node: JoinNode) -> dict[At, str]:
    return column_types(scan for source in node.sources for scan in scans(source))


def _decided(made: JoinNode, node: JoinNode) -> Decision:
    """Return how one of the two nodes runs: in as many units as the whole was to run in."""
    hints = hints_of(made, node.decision.units, None) if made.join == "inner" else Hints(units=node.decision.units)
    found = decide(made, hints, Settings())
    return dataclasses.replace(found, units_reason=node.decision.units_reason, units_from=node.decision.units_from)
