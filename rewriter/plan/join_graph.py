"""The join graph of a group: relations are nodes, kernel predicates label the edges (001 section 3.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import networkx as nx

from .conjuncts import KINDS, KernelPredicate, Predicate, Residual
from .parts import Edge, JoinGraph, Shape


def build_graph(relations: Sequence[str], predicates: Iterable[Predicate]) -> JoinGraph:
    """Build the graph of a group from its classified predicates and name its shape."""
    edges: dict[tuple[str, str], list[KernelPredicate]] = {}
    residuals = []
    for predicate in predicates:
        if isinstance(predicate, Residual):
            residuals.append(predicate)
        else:
            edges.setdefault(predicate.relations, []).append(predicate)
    rank = {name: index for index, name in enumerate(relations)}
    ordered = sorted(edges, key=lambda pair: (rank[pair[0]], rank[pair[1]]))
    made = tuple(Edge(*pair, tuple(edges[pair])) for pair in ordered)
    graph = JoinGraph(tuple(relations), made, tuple(residuals))
    shape, hub = shape_of(relations, [(edge.left, edge.right) for edge in made if graph.is_own(edge)])
    return dataclasses.replace(graph, shape=shape, hub=hub)


def shape_of(relations: Sequence[str], pairs: Iterable[tuple[str, str]]) -> tuple[Shape, str | None]:
    """Return the shape that edges form, and the hub of a chain of three or the centre of a star.

    Examples
    --------
    >>> shape_of(["r", "s", "t"], [("r", "s"), ("s", "t")])
    ('chain', 's')
    >>> shape_of(["r", "s", "t"], [("r", "s"), ("s", "t"), ("r", "t")])
    ('cyclic', None)
    """
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(relations)
    graph.add_edges_from(pairs)
    count = len(relations)
    if not nx.is_connected(graph):
        return "disconnected", None
    if count == 2:
        return "pair", None
    degrees = {name: graph.degree[name] for name in relations}
    middle = next((name for name in relations if degrees[name] == count - 1), None)
    if graph.number_of_edges() == count - 1:
        if max(degrees.values()) == 2:
            return "chain", middle if count == 3 else None
        return ("star", middle) if middle else ("general", None)
    if graph.number_of_edges() == count * (count - 1) // 2:
        return ("cyclic" if count == 3 else "clique"), None
    if graph.number_of_edges() == count and max(degrees.values()) == 2:
        return "cyclic", None
    return "general", None


def joined_with_all(graph: JoinGraph) -> tuple[int, ...]:
    """Return the numbers of the relations that predicates join with each of the others.

    What follows from conditions of the user counts if it is an equality. A distance in event time that follows lets
    nearly all pairs of kept rows through.
    """
    pairs = [
        {edge.left, edge.right}
        for edge in graph.edges
        if graph.is_own(edge) or any(KINDS[predicate.kind].equal for predicate in edge.predicates)
    ]
    names = graph.relations
    return tuple(at for at, one in enumerate(names) if all({one, other} in pairs for other in names if other != one))


def is_connected(graph: JoinGraph) -> bool:
    """Tell whether kernel predicates, including derived ones, connect all relations."""
    whole: nx.Graph[str] = nx.Graph()
    whole.add_nodes_from(graph.relations)
    whole.add_edges_from((edge.left, edge.right) for edge in graph.edges)
    return bool(nx.is_connected(whole))
