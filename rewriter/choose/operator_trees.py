"""Operator trees (002 section 4): how their nodes run, what a tree costs, and which one costs least."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations, permutations
from math import prod
from typing import TypeAlias

from ..options import CostDefaults, Settings
from ..plan.cost_model import Model
from ..plan.decision import Cost
from ..plan.grid import range_classes
from ..plan.join_graph import build_graph, joined_with_all
from ..plan.nodes import Hints, JoinNode, Scan, source_scan
from ..plan.parts import JoinGraph
from ..plan.schemes import EXHAUSTIVE, RECORDS, results
from ..plan.trees import TreeOf, leaves
from .cost import model_of, searched, store_order, stores, total
from .routing import fit_of, has_common_key, reached

#: What gives the cost of a tree over the numbers of a group's relations.
CostOfTree: TypeAlias = "Callable[[TreeOf[int]], Cost]"


def hints_of(node: JoinNode, units: int | None, routing: str | None) -> Hints:
    """Return how a node of an operator tree runs, in so many units: by range as far as a hint asks for it.

    Of three inputs or more nothing but their rows is stored, each input's in a stage of its own. With a key that all
    inputs share, or ranges, a `matrix` does so in one stage; two inputs are a `biclique`, which does, too.
    """
    by_range = routing == "range" and bool(range_classes(node.graph))
    scheme = "biclique" if len(node.sources) == 2 else "matrix"
    streams = any(source_scan(source).streaming is not False for source in node.sources)
    if scheme == "matrix" and streams and not by_range and joined_with_all(node.graph) and not has_common_key(node):
        scheme = "non_materializing"
    return Hints(scheme=scheme, units=units, routing="range" if by_range else None)


def costs_of_trees(node: JoinNode, model: Model, routing: str | None) -> CostOfTree:
    """Return what gives the cost of a group's trees: of each node by the scheme that runs it, routed as it will be."""

    @cache
    def cost(tree: TreeOf[int]) -> Cost:
        parts = sorted([frozenset(leaves((part,))) for part in tree], key=min)
        below = [cost(part) for part in tree if not isinstance(part, int)]
        own = _cost_of_node(_node_of_parts(node, parts), _model_of_parts(model, parts), routing)
        return Cost(
            own.network + sum(one.network for one in below),
            own.memory + sum(one.memory for one in below),
            own.cpu + sum(one.cpu for one in below),
            own.stages + sum(one.stages for one in below),
        )

    return cost


def _cost_of_node(node: JoinNode, model: Model, routing: str | None) -> Cost:
    hints = hints_of(node, model.units, routing)
    some = reached(node, hints, model)
    if hints.scheme == "non_materializing":
        alone = model_of(searched(node), Settings(), None, observed=False)  # what decides it when it is a node
        return stores(model, store_order(alone, joined_with_all(node.graph)), some)
    found = RECORDS[str(hints.scheme)].cost(model, fit_of(node, model, some, hints))
    assert found is not None
    return found


def _node_of_parts(node: JoinNode, parts: Sequence[frozenset[int]]) -> JoinNode:
    """Return a node that joins the results of others, as far as a decision reads one.

    A part has the name of its first relation.
    """
    names = node.graph.relations
    part_of = {names[one]: names[min(part)] for part in parts for one in part}
    predicates = [
        predicate.with_terms(
            lambda term: dataclasses.replace(term, relations=tuple(part_of[one] for one in term.relations))
        )
        for edge in node.graph.edges
        if edge.left in part_of and edge.right in part_of and part_of[edge.left] != part_of[edge.right]
        for predicate in edge.predicates
    ]
    relations = [names[min(part)] for part in parts]
    ordered = (
        one if relations.index(one.relations[0]) < relations.index(one.relations[1]) else one.mirrored()
        for one in predicates
    )
    residuals = node.graph.residuals if len(part_of) == len(names) else ()
    sources = (
        node.sources[min(part)] if len(part) == 1 else Scan(names[min(part)], names[min(part)])  # a stream, for all
        for part in parts
    )
    graph: JoinGraph = build_graph(relations, [*ordered, *residuals])
    return dataclasses.replace(node, sources=tuple(sources), graph=graph)


def _model_of_parts(model: Model, parts: Sequence[frozenset[int]]) -> Model:
    """Return the numbers of a node that joins the results of others."""
    shares = tuple(
        tuple(prod(model.shares[a][b] for a in one for b in other) if one != other else 1.0 for other in parts)
        for one in parts
    )
    pairs = list(permutations(range(len(parts)), 2))
    follows = {
        (a, b): min(model.implied.get((min(i, j), max(i, j)), 1.0) for i in parts[a] for j in parts[b])
        for a, b in pairs
        if a < b
    }
    return Model(
        tuple("+".join(model.relations[one] for one in sorted(part)) for part in parts),
        tuple(model.rate(part) if len(part) > 1 else model.rates[min(part)] for part in parts),
        tuple(model.kept[min(part)] if len(part) == 1 else results(model, part) for part in parts),
        shares,
        model.units,
        implied={pair: share for pair, share in follows.items() if share < 1},
        bounded=model.bounded,
        searched={(a, b): model.found(parts[a], parts[b]) for a, b in pairs},
    )


def cheapest_tree(model: Model, cost: CostOfTree, defaults: CostDefaults) -> tuple[Cost, TreeOf[int]] | None:
    """Return the best tree of inner nodes that store their results.

    One inner node joins a connected subset of two or more relations first and stores the result. Further ones are added
    one at a time while that makes the tree cheaper: beside it, above it or inside it.
    """
    if model.count > EXHAUSTIVE:
        return None
    found = [(cost(tree), tree) for tree in _grouped(model, tuple(range(model.count)))]
    if not found:
        return None
    least, best = min(found, key=lambda one: (one[0].network + one[0].memory, leaves(one[1])))
    while True:
        more = [(cost(one), one) for one in _grouped(model, best)]
        further = min(more, key=lambda one: (total(one[0], defaults), str(one[1])), default=None)
        if further is None or total(further[0], defaults) >= total(least, defaults):
            return least, best
        least, best = further


def _linked(model: Model, some: Iterable[int], others: Sequence[int]) -> bool:
    return any(model.linked(one, other) for one in some for other in others)


def _grouped(model: Model, tree: TreeOf[int]) -> Iterator[TreeOf[int]]:
    """Yield the trees with one more inner node, which joins some connected parts of one node first."""
    for size in range(2, len(tree)):
        for parts in combinations(tree, size):
            if _connected(model, [frozenset(leaves((part,))) for part in parts]):
                at = tree.index(parts[0])
                rest = [part for part in tree if part not in parts]
                yield (*rest[:at], parts, *rest[at:])
    for at, part in enumerate(tree):
        if not isinstance(part, int):
            for inside in _grouped(model, part):
                yield (*tree[:at], inside, *tree[at + 1 :])


def _connected(model: Model, parts: list[frozenset[int]]) -> bool:
    done, rest = set(parts[0]), parts[1:]
    while rest:
        near = [part for part in rest if _linked(model, part, [*done])]
        if not near:
            return False
        done |= frozenset().union(*near)
        rest = [part for part in rest if part not in near]
    return True
