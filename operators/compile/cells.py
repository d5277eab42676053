"""The grid of a `matrix` join as the operators run it: what is packed into the inputs so that rows find their cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ...rewriter.plan.comparison import widest
from ...rewriter.plan.grid import KeyClass, common_key, dimension
from ...rewriter.plan.grid import lay_out as lay_out_graph
from ...rewriter.plan.nodes import JoinNode
from ...rewriter.plan.parts import Dimension
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


def lay_out(node: JoinNode, inputs: Mapping[str, Input], cells: int) -> Grid:
    """Lay out the grid of `rewriter.grid.lay_out` for a node; what its cells are hashed by is packed into the inputs.

    Parameters
    ----------
    node, inputs
        The node and its inputs. Classes whose types have no common one to be hashed as are no dimension.
    cells
        How many cells there may be.
    """
    return _packed(node, inputs, lay_out_graph(node.graph, cells, _can_hash(inputs), node.tested))


def lay_out_by_key(node: JoinNode, inputs: Mapping[str, Input], units: int) -> Grid | None:
    """Lay out the units along the key that all streams share, and pack its hash; None if they share none."""
    key = common_key(node.graph, _can_hash(inputs))
    return None if key is None else _packed(node, inputs, (dimension(node.graph.relations, key, units),))


def _packed(node: JoinNode, inputs: Mapping[str, Input], dimensions: tuple[Dimension, ...]) -> Grid:
    coordinates: dict[str, list[tuple[int, str | None]]] = {alias: [] for alias in node.graph.relations}
    for number, axis in enumerate(dimensions):
        if axis.key is None:
            (alias,) = axis.relations
            coordinates[alias].append((number, None))
            continue
        members = tuple(zip(axis.relations, axis.key, strict=True))
        kind = _hash_type(members, inputs)
        assert kind is not None
        for alias, text in members:
            side = inputs[alias]
            hashed = F.xxhash64(hashable(side.cast("key", text, kind), kind))
            coordinates[alias].append((number, side.pack(hashed, f"coordinate {number}")))
    return Grid(
        tuple(axis.shares for axis in dimensions),
        {alias: tuple(axes) for alias, axes in coordinates.items()},
    )


def _can_hash(inputs: Mapping[str, Input]) -> Callable[[KeyClass], bool]:
    return lambda members: _hash_type(members, inputs) is not None


def _hash_type(members: KeyClass, inputs: Mapping[str, Input]) -> str | None:
    """Return the type in which equal values of a class have equal hashes, None if there is none."""
    return widest(inputs[alias].type_of("key", text) for alias, text in members)
