"""The grid of a `matrix` join: its dimensions, and how many shares each has (Shares, n-dimensional join-matrix)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import overload

import networkx as nx
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ..rewriter.plan import JoinNode
from .edges import hashable
from .inputs import Input
from .types import Comparable, common_type


@dataclass(frozen=True, slots=True)
class Grid:
    """A grid of cells.

    Parameters
    ----------
    shares
        Cells along each dimension.
    coordinates
        By alias: ``(dimension, packed column)`` for the dimensions in which the stream has a coordinate. The column is
        None for a stream's own spread dimension, whose coordinate is the route.
    """

    shares: tuple[int, ...]
    coordinates: Mapping[str, tuple[tuple[int, str | None], ...]]

    @property
    def cells(self) -> int:
        """Number of cells."""
        return prod(self.shares)


@overload
def lay_out(node: JoinNode, inputs: Mapping[str, Input], cells: int) -> Grid: ...


@overload
def lay_out(node: JoinNode, inputs: Mapping[str, Input], cells: int, *, common: bool) -> Grid | None: ...


def lay_out(node: JoinNode, inputs: Mapping[str, Input], cells: int, *, common: bool = False) -> Grid | None:
    """Lay out a grid for a node; what its cells are hashed by is packed into the inputs.

    Parameters
    ----------
    node, inputs
        The node and its inputs.
    cells
        How many cells there may be.
    common
        Whether only a key that all streams share will do; then the grid has that one dimension.

    Returns
    -------
    One hashed dimension for every class of equal columns, one spread dimension for every stream in no class. Among the
    grids that store the fewest copies it is one whose cells find the fewest pairs twice: a chain is cut at its hub.
    None if there is no common key and only one will do.
    """
    classes = _classes(node, inputs)
    if common:
        classes = [members for members in classes if len(members) == len(node.graph.relations)][:1]
        if not classes:
            return None
    coordinates: dict[str, list[tuple[int, str | None]]] = {alias: [] for alias in node.graph.relations}
    dimension = 0
    for members in classes:
        for alias, text, kind in members:
            side = inputs[alias]
            key = hashable(side.cast("key", text, kind.type), kind.type)
            coordinates[alias].append((dimension, side.pack(F.xxhash64(key), f"coordinate {dimension}")))
        dimension += 1
    for alias in node.graph.relations:
        if not coordinates[alias]:
            coordinates[alias].append((dimension, None))
            dimension += 1
    have = [{axis for axis, _ in axes} for axes in coordinates.values()]
    rank = {alias: number for number, alias in enumerate(node.graph.relations)}
    probed = [have[rank[edge.left]] | have[rank[edge.right]] for edge in node.graph.edges]
    shares = min(
        _factorings(cells, dimension), key=lambda shares: (_copies(shares, have), _copies(shares, probed), shares)
    )
    return Grid(shares, {alias: tuple(axes) for alias, axes in coordinates.items()})


def _classes(node: JoinNode, inputs: Mapping[str, Input]) -> list[list[tuple[str, str, Comparable]]]:
    """Return the classes of equal key expressions, one member a stream, with the class's common type."""
    graph: nx.Graph[tuple[str, str]] = nx.Graph()
    for edge in node.graph.edges:
        for predicate in edge.predicates:
            if predicate.op == "=" and predicate.left is not None and predicate.right is not None:
                graph.add_edge((edge.left, predicate.left), (edge.right, predicate.right))
    found = []
    for component in sorted(sorted(part) for part in nx.connected_components(graph)):
        one_each = dict(reversed(component))
        members = sorted(one_each.items(), key=lambda member: node.graph.relations.index(member[0]))
        types = [Comparable(inputs[alias].type_of("key", text), True) for alias, text in members]
        widest = reduce(_common, types[1:], common_type(types[0].type, types[0].type))
        if widest is not None:
            found.append([(alias, text, widest) for alias, text in members])
    return found


def _common(one: Comparable | None, other: Comparable) -> Comparable | None:
    return None if one is None else common_type(one.type, other.type)


def _factorings(cells: int, dimensions: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write ``cells`` as a product of ``dimensions`` factors."""
    if dimensions == 1:
        yield (cells,)
        return
    for share in range(1, cells + 1):
        if cells % share == 0:
            for rest in _factorings(cells // share, dimensions - 1):
                yield (share, *rest)


def _copies(shares: tuple[int, ...], have: list[set[int]]) -> int:
    """Return in how many cells something is, in total, that has a coordinate in some dimensions: a tuple, or a pair."""
    return sum(prod(share for axis, share in enumerate(shares) if axis not in mine) for mine in have)
