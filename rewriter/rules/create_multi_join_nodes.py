"""Step 2 of the Two-Step Convert: replace every group by one node (004 section 3.2.2, algorithm 3).

The plan is rebuilt bottom up; a node that is reached twice is converted once. A group's node has the inputs of the
group's members that are not members themselves. A later stage decides how the node will run.

Example: ``JoinGroup(Join(Exchange(Join(r, s)), t))`` becomes ``TriJoin(r, s, t)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping
from typing import cast

from ..plan.comparison import closest_type, unordered
from ..plan.conjuncts import Either, Predicate, Residual, Term
from ..plan.decision import UNDECIDED, Decision
from ..plan.expr import At, Call, Column, Expr, bare
from ..plan.join_graph import build_graph
from ..plan.joins import Closest, NodeKind
from ..plan.nodes import (
    Block,
    Exchange,
    Join,
    JoinGroup,
    LeftAlone,
    Node,
    Project,
    Query,
    Scan,
    column_types,
    join_node_class,
    own_tree,
    scans,
    source_scan,
    walk,
)
from ..plan.parts import JoinGraph, OutputColumn, named_columns
from ..predicates.terms import is_equality, over_output, sides_of
from ..sql.spark_types import TIMES, UNKNOWN, is_window
from .create_multi_join_groups import can_be_member
from .join_tree import read_tree, why_apart
from .raise_on_pairs import MAY_FAIL
from .rule import NotApplicable, beyond_spark
from .settle_pairs import spreads, why_unsettled

#: Why a group of streams that windows of event time equate is left alone.
BY_WINDOWS = "it equates windows of event time, by which Spark itself joins streams and forgets their rows"
BY_ENDS_OF_WINDOWS = (
    "it equates ends of windows of event time, by which Spark itself joins streams and keeps their rows for ever: "
    "equate the windows themselves, or window_time of each"
)


def create_multi_join_nodes(plan: Node) -> Node | NotApplicable:
    """Convert the groups that step 1 marked; groups that must stay with Spark become `LeftAlone`."""
    names = _Names(plan.words if isinstance(plan, Query) else frozenset())
    if not any(isinstance(node, JoinGroup) for node in walk(plan)):
        return NotApplicable("step 1 has marked no group")
    return _multi_join_node(plan, names, {}, None)


@dataclasses.dataclass
class _Names:
    """Names of nodes and of their columns. The statement must have none of them: Spark would confuse them."""

    taken: frozenset[str]
    count: int = 0

    def next(self) -> str:
        self.count += 1
        name = f"__trijoin_{self.count}"
        return self.next() if name in self.taken else name


def _multi_join_node(
    node: Node,
    names: _Names,
    done: dict[int, Node],
    block: Block | None,
) -> Node:
    """Algorithm 3's getMultiJoinNode."""
    if id(node) in done:
        return done[id(node)]
    block = node if isinstance(node, Block) else block
    inputs = tuple(_multi_join_node(below, names, done, block) for below in node.inputs)
    result = node.with_inputs(inputs) if inputs else node
    if isinstance(result, JoinGroup):
        result = _node_of_group(result, names, block)
    done[id(node)] = result
    return result


def _node_of_group(group: JoinGroup, names: _Names, block: Block | None) -> Node:
    """Algorithm 3's createMultiJoinNodeByGroup."""
    if group.mixed:
        return _node_of_tree(group, names, block)
    sources: list[Node] = []
    predicates: list[Predicate] = []

    def collect(node: Node) -> None:
        match node:
            case Join() if can_be_member(node):
                collect(node.left)
                collect(node.right)
                predicates.extend(node.predicates)
            case Exchange() | Project() if can_be_member(node):
                collect(node.inputs[0])
            case Exchange():
                collect(node.input)
            case _:
                sources.append(node)

    root, join, matching = group.input, "inner", ()  # type: Node, NodeKind, tuple[Term, ...]
    closest: Closest | None = None
    if isinstance(root, Join) and beyond_spark(root):
        join = cast("NodeKind", root.kind)
        sources += root.inputs
        predicates += root.predicates
        closest = root.closest
    else:
        collect(root)
    relations = [source_scan(source).alias for source in sources]
    below = [scan for source in sources for scan in scans(source)]
    given = scans(sources[0]) if join in ("semi", "anti") else below
    output = output_columns(given, predicates, block, names.taken)
    mapping = {(column.relation, column.column): column.name for column in output}
    owner = {scan.alias: source_scan(source).alias for source in sources for scan in scans(source)}
    own = [_between_inputs(predicate, owner, relations) for predicate in predicates]
    closest = None if closest is None else closest.with_terms(lambda term: _owned(term, owner, relations))
    if join != "inner":
        single = [one.condition for one in own if isinstance(one, Residual) and len(one.relations) < 2]
        own = [one for one in own if one.condition not in single]
        tested = relations[1 if join == "right" else 0]  # a constant decides for all its rows
        matching = tuple(dataclasses.replace(one, relations=one.relations or (tested,)) for one in single)
    if join == "inner":
        own = [over_output(one, mapping) if isinstance(one, Residual) else one for one in own]
    graph = build_graph(relations, own)
    reason = why_left_alone(relations, block)
    if join != "inner":
        reason = reason or _why_not_tested(graph, closest) or why_unsettled(join, sources, graph, closest)
        if reason is None and graph.residuals and isinstance(root, Join) and not beyond_spark(root, alone=True):
            reason = f"Spark itself evaluates {graph.residuals[0].sql}, on pairs of rows that an equality finds"
    elif reason is None and block is not None:
        reason = _by_windows(root, block)
    if reason:
        return LeftAlone(group.input, graph, Decision("none", None, None, reason))
    apart = why_apart(root, block.hints) if isinstance(root, Join) and join != "inner" and block is not None else None
    node = join_node_class(len(sources))
    return node(
        names.next(),
        tuple(sources),
        graph,
        UNDECIDED,
        output,
        join=join,
        matching=matching,
        closest=closest,
        apart=apart,
        spread=block is not None and spreads(join, sources, graph, block.hints.units),
    )


def _node_of_tree(group: JoinGroup, names: _Names, block: Block | None) -> Node:
    """Return the node of a tree of joins of several kinds."""
    tree = read_tree(group.input)
    assert tree is not None
    relations = [source_scan(source).alias for source in tree.sources]
    owner = {scan.alias: source_scan(source).alias for source in tree.sources for scan in scans(source)}
    hidden = {one.relation for one in tree.branches if not one.is_listed}
    given = (scan for source in tree.sources for scan in scans(source) if source_scan(source).alias not in hidden)
    output = output_columns(given, list(tree.predicates), block, names.taken)
    mapping = {(column.relation, column.column): column.name for column in output}
    own = (_between_inputs(predicate, owner, relations) for predicate in tree.predicates)
    graph = build_graph(relations, (over_output(one, mapping) if isinstance(one, Residual) else one for one in own))
    graph = dataclasses.replace(graph, optional=tuple(one.relation for one in tree.branches))
    branches = tuple(one.with_terms(lambda term: _owned(term, owner, relations)) for one in tree.branches)
    node = join_node_class(len(relations))
    return node(names.next(), tree.sources, graph, UNDECIDED, output, join="mixed", branches=branches)


def _between_inputs(predicate: Predicate, owner: dict[str, str], order: list[str]) -> Predicate:
    """Return a predicate over the node's inputs; a predicate within one input (an outer join) is a residual."""

    def owned(term: Term) -> Term:
        return _owned(term, owner, order)

    if not isinstance(predicate, Residual):
        moved = predicate.with_terms(owned)
        one, other = map(order.index, moved.relations)
        if one != other:
            return moved if one < other else moved.mirrored()
    condition = owned(predicate.condition)
    return Residual(predicate.sql, condition, derived=predicate.derived, places=predicate.places)


def _owned(term: Term, owner: dict[str, str], order: list[str]) -> Term:
    """Return a term whose relations are a node's inputs."""
    owners = {owner[alias] for alias in term.relations}
    return dataclasses.replace(term, relations=tuple(sorted(owners, key=order.index)))


def _why_not_tested(graph: JoinGraph, closest: Closest | None) -> str | None:
    """Return why a join cannot tell which rows have no partner, or which are closest."""
    if closest is not None:
        types = closest.left.type, closest.right.type
        if UNKNOWN not in types and closest_type(closest, *types) is None:
            return unordered(closest, *types)[0]
    failing = (one for edge in graph.edges for one in edge.predicates if isinstance(one, Either) and one.exceptions)
    if graph.residuals and any(failing):
        return f"only Spark can evaluate {graph.residuals[0].sql}, on pairs of rows: {MAY_FAIL}"
    return None


def _by_windows(root: Node, block: Block) -> str | None:
    """Return why a group stays Spark's whose joins all equate windows that are event times of streams, or ends of them.

    Spark hashes by them, and forgets a window that is equated when the watermark has passed it. It refuses a stream
    with a second event time, though, that something above reads.
    """
    joins = [node for node in own_tree(root) if isinstance(node, Join)]
    streams = {(scan.alias, scan.event_time): scan for scan in scans(root)}
    types = column_types(streams.values())

    def equated(join: Join) -> set[str]:
        """Return what is equated of windows: the ``window`` itself, its ``start`` or its ``end``."""
        equal = [sides_of(one.condition) for one in join.predicates if is_equality(one.condition)]
        parts = [{_part_of_window(side, streams, types) for side in sides} for sides in equal]
        return {part for some in parts if len(some) == 1 for part in some if part is not None}

    read = {*block.required, *(at for join in joins for one in join.predicates for at in one.condition.columns)}
    if (
        block.within is not None
        or dataclasses.replace(block.hints, trees=True).steers
        or not all(scan.streaming for scan in streams.values())
        or any(types.get(at) in TIMES for at in read)
        or not all(join.kind == "inner" and equated(join) for join in joins)
    ):
        return None
    return BY_WINDOWS if all("window" in equated(join) for join in joins) else BY_ENDS_OF_WINDOWS


def _part_of_window(side: Expr, streams: Container[object], types: Mapping[At, str]) -> str | None:
    """Return which part of a window that is an event time an expression is, None if it is none."""
    at = side.columns[0] if side.columns else None
    if at is None or at not in streams or not is_window(types.get(at, "")):
        return None
    match bare(side):
        case Column():
            return "window"
        case Call(".", (Column(),), (_, field)):
            return field.strip(".`").lower()
    return None


def why_left_alone(relations: list[str], block: Block | None) -> str | None:
    """Return why a group stays with Spark, None if it is converted."""
    if block is not None and block.problem:
        return block.problem
    if block is not None and not block.hints.convert:
        return "the hint NO_TRIJOIN"
    named = {name.lower() for name in block.hints.relations} if block is not None else set()
    if named and not {name.lower() for name in relations} <= named:
        return "the hint TRIJOIN names other relations"
    return None


def output_columns(
    below: Iterable[Scan], predicates: list[Predicate], block: Block | None, words: frozenset[str]
) -> tuple[OutputColumn, ...]:
    """Name all columns of a node's inputs, those that no schema tells too."""
    below = tuple(below)
    types, aliases = column_types(below), {scan.alias for scan in below}
    needed = [*(block.required if block else ()), *(at for one in predicates for at in one.condition.columns)]
    return named_columns([*types, *(at for at in needed if at[0] in aliases)], types, words)
