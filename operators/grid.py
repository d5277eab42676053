"""The grid of a `matrix` join as the operators run it: what is packed into the inputs so that rows find their cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import overload

from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ..rewriter.comparison import widest
from ..rewriter.grid import Dimension, KeyClass, common_key
from ..rewriter.grid import lay_out as lay_out_graph
from ..rewriter.plan import JoinNode
from .edges import hashable
from .inputs import Input


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
    The grid of `rewriter.grid.lay_out`, without the classes whose types have no common one to be hashed as. None if
    there is no common key and only one will do.
    """

    def can_hash(members: KeyClass) -> bool:
        return _hash_type(members, inputs) is not None

    if common:
        key = common_key(node.graph, can_hash)
        if key is None:
            return None
        dimensions: tuple[Dimension, ...] = (Dimension(node.graph.relations, key, cells),)
    else:
        dimensions = lay_out_graph(node.graph, cells, can_hash)
    coordinates: dict[str, list[tuple[int, str | None]]] = {alias: [] for alias in node.graph.relations}
    for number, dimension in enumerate(dimensions):
        if dimension.key is None:
            (alias,) = dimension.relations
            coordinates[alias].append((number, None))
            continue
        kind = _hash_type(dimension.key, inputs)
        assert kind is not None
        for alias, text in dimension.key:
            side = inputs[alias]
            hashed = F.xxhash64(hashable(side.cast("key", text, kind), kind))
            coordinates[alias].append((number, side.pack(hashed, f"coordinate {number}")))
    return Grid(
        tuple(dimension.shares for dimension in dimensions),
        {alias: tuple(axes) for alias, axes in coordinates.items()},
    )


def _hash_type(members: KeyClass, inputs: Mapping[str, Input]) -> str | None:
    """Return the type in which equal values of a class have equal hashes, None if there is none."""
    return widest(inputs[alias].type_of("key", text) for alias, text in members)
