"""Keep static relations, and relations that a TRIJOIN hint leaves out, away from a group of streams.

A static relation joined to one stream is joined to that stream before the group (`StaticJoin`), otherwise after it (a
join that stays with Spark). Spark joins a stream with a table itself, without keeping the stream's rows.

Where there are no streams at all, a group is of the tables that an order, a band or an OR joins: Spark would try all
pairs of their rows. By equalities alone it joins tables itself, faster than our units.

Example: over streams ``r``, ``s`` and a table ``c``, ``r.a < s.a AND r.k = c.k`` joins ``c`` to ``r`` first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import pairwise

import networkx as nx

from ...errors import InvalidHintError
from ..options import Settings, Tables
from ..plan.conjuncts import KINDS, Either, NotEqual, Predicate, Residual
from ..plan.decision import Decision
from ..plan.join_graph import build_graph
from ..plan.nodes import (
    Block,
    Exchange,
    Filter,
    Join,
    LeftAlone,
    Node,
    Project,
    Scan,
    StaticJoin,
    scans,
    transform,
)
from ..predicates.terms import Scope
from .raise_on_pairs import MAY_FAIL, lone_orders
from .rule import NotApplicable, beyond_spark, each_block, regions

#: Why a group of one stream and tables is left alone.
ONE_STREAM = "it joins one stream with static relations, which Spark does itself"

#: Why a group of tables is.
ONLY_EQUAL = "it joins tables by equalities alone, which Spark does itself"
NO_TABLES = "the setting spark.trijoin.tables leaves joins of tables to Spark"


def separate_static_relations(plan: Node, settings: Settings) -> Node | NotApplicable:
    """Rebuild the join trees with relations that do not belong to a group.

    Raises
    ------
    InvalidHintError
        TRIJOIN names a relation that the SELECT does not have.
    """

    def change(block: Block) -> Block:
        known = {scan.alias.lower() for scan in scans(block.input)}
        for name in block.hints.relations:
            if name.lower() not in known:
                raise InvalidHintError(f"TRIJOIN({', '.join(block.hints.relations)})", f"there is no relation {name}")
        named = frozenset(name.lower() for name in block.hints.relations)
        tables = "all" if block.hints.steers else settings.tables
        tested = transform(block.input, lambda node: _tested(node, tables), own=True)
        scope = Scope.of(block.input, ansi=settings.ansi)
        return dataclasses.replace(
            block, input=regions(tested, lambda region: _separated(region, named, tables, scope))
        )

    return each_block(plan, change, "all relations belong into their group")


def _flattened(node: Node) -> tuple[list[Node], list[Predicate]]:
    """Return the inputs and the conjuncts of a tree of inner joins."""
    match node:
        case Join(kind="inner" | "cross", by_spark=False):
            left, right = _flattened(node.left), _flattened(node.right)
            return left[0] + right[0], [*left[1], *right[1], *node.predicates]
        case Project() | Exchange() if not isinstance(node.input, Scan | Filter):
            return _flattened(node.input)
    return [node], []


def _separated(region: Node, named: frozenset[str], tables: Tables, scope: Scope) -> Node:
    inputs, predicates = _flattened(region)
    kinds = [_is_static(node) for node in inputs]
    streams = [node for node, static in zip(inputs, kinds, strict=True) if not static]
    statics = [node for node, static in zip(inputs, kinds, strict=True) if static]
    after: list[Node] = []
    if named and any(_name(node) in named for node in inputs):
        after = [node for node in streams if _name(node) not in named]
        streams = [node for node in streams if _name(node) in named]
    if not any(scan.streaming for node in inputs for scan in scans(node)):
        statics, streams = [], [node for node in inputs if node not in after]
    alone = ONE_STREAM if statics and not after else "fewer than two of its relations may be joined"
    if tables != "all" and all(map(_is_static, inputs)):
        lone = lone_orders(predicates, scope) if tables == "theta" else []
        tried = _tried(one for one in predicates if one not in lone) if tables == "theta" else frozenset()
        alone = ONLY_EQUAL if tables == "theta" else NO_TABLES
        alone = f"only Spark can evaluate {lone[0].sql}, on pairs of rows: {MAY_FAIL}" if lone else alone
        statics = [node for node in inputs if tried.isdisjoint(scan.alias for scan in scans(node))]
        streams = [node for node in inputs if node not in statics]
    if not statics and not after:
        return region
    if len(streams) < 2:
        graph = build_graph(
            [scan.alias for scan in scans(region)], [p for p in predicates if not isinstance(p, Residual)]
        )
        return LeftAlone(_by_spark(region), graph, Decision("none", None, None, alone))
    return _rebuilt(streams, statics, after, predicates)


def _by_spark(node: Node) -> Node:
    """Leave a tree of inner joins to Spark, and not what is below an outer join in it: that is a tree of its own."""
    match node:
        case Join(kind="inner" | "cross"):
            left, right = _by_spark(node.left), _by_spark(node.right)
            return dataclasses.replace(node, left=left, right=right, by_spark=True)
        case Project() | Exchange():
            return dataclasses.replace(node, input=_by_spark(node.input))
    return node


def _rebuilt(streams: list[Node], statics: list[Node], after: list[Node], predicates: list[Predicate]) -> Node:
    owner = {scan.alias: node for node in (*streams, *statics, *after) for scan in scans(node)}
    links: nx.Graph[int] = nx.Graph()
    links.add_nodes_from(id(node) for node in statics)
    touching: dict[int, set[int]] = {id(node): set() for node in statics}
    static_ids = set(touching)
    for predicate in predicates:
        if predicate.derived:
            continue  # r.a = c.a and s.a = r.a do not join c to s
        ids = {id(owner[alias]) for alias in predicate.relations}
        own = sorted(ids & static_ids)
        links.add_edges_from(pairwise(own))
        for one in own:
            touching[one] |= ids - static_ids
    applied: dict[int, list[Node]] = {}
    late = list(after)
    order = {id(node): index for index, node in enumerate(statics)}
    for component in sorted(
        (sorted(c, key=order.__getitem__) for c in nx.connected_components(links)), key=lambda c: order[c[0]]
    ):
        reached = {one for member in component for one in touching[member]}
        members = [node for node in statics if id(node) in set(component)]
        (target,) = reached if len(reached) == 1 else (None,)
        if target is not None and any(id(node) == target for node in streams):
            applied.setdefault(target, []).extend(members)
        else:
            late += members
    used: set[Predicate] = set()
    sources = [_applied(node, applied.get(id(node), []), predicates, used) for node in streams]
    rest = [predicate for predicate in predicates if predicate not in used]
    tree, rest = _joined(sources, rest, by_spark=False)
    tree, rest = _joined([tree, *late], rest, by_spark=True)
    return tree


def _applied(stream: Node, statics: list[Node], predicates: Iterable[Predicate], used: set[Predicate]) -> Node:
    if not statics:
        return stream
    aliases = {scan.alias for node in (stream, *statics) for scan in scans(node)}
    mine = tuple(p for p in predicates if set(p.relations) <= aliases)
    used.update(mine)
    return StaticJoin(stream, tuple(statics), mine)


def _joined(inputs: list[Node], predicates: list[Predicate], by_spark: bool) -> tuple[Node, list[Predicate]]:
    """Join inputs from left to right, each conjunct at the first join that sees its columns."""
    tree = inputs[0]
    for node in inputs[1:]:
        seen = {scan.alias for scan in (*scans(tree), *scans(node))}
        mine = tuple(p for p in predicates if set(p.relations) <= seen)
        predicates = [p for p in predicates if p not in mine]
        tree = Join("inner" if mine else "cross", tree, node, mine, by_spark)
    return tree, predicates


def _tested(node: Node, tables: Tables) -> Node:
    """Leave an outer, semi or anti join of tables to Spark, where it has to list all pairs or is told to run it."""
    if not isinstance(node, Join) or not beyond_spark(node) or not _is_static(node):
        return node
    return node if tables != "none" and _tried(node.predicates) else dataclasses.replace(node, by_spark=True)


def _tried(predicates: Iterable[Predicate]) -> frozenset[str]:
    """Return the relations with a condition for which Spark would try all pairs of rows, at least those of one key.

    ``<>`` is one, too, and nearly all pairs are its results.
    """
    theta = (one for one in predicates if not isinstance(one, Residual | NotEqual) and not KINDS[one.kind].equal)
    return frozenset(alias for one in theta if not isinstance(one, Either) or one.connects for alias in one.relations)


def _name(node: Node) -> str:
    return scans(node)[0].alias.lower()


def _is_static(node: Node) -> bool:
    return all(scan.streaming is False for scan in scans(node))
