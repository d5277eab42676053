"""The grid of a `matrix` join as the operators run it: what is packed into the inputs so that rows find their cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ...errors import PlanError
from ...rewriter.plan.comparison import widest
from ...rewriter.plan.conjuncts import Band
from ...rewriter.plan.decision import Dimension
from ...rewriter.plan.grid import BREADTH, KeyClass, common_key, common_range, dimension, is_range
from ...rewriter.plan.grid import lay_out as lay_out_graph
from ...rewriter.plan.nodes import JoinNode
from ..checks import Band as Check
from ..kernels.order_keys import HIGHEST
from ..spec import Ranges
from .edges import compile_band, hashable
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
    ranges
        The dimensions along which rows go by ranges of values.
    """

    shares: tuple[int, ...]
    coordinates: Mapping[str, tuple[tuple[int, str | None], ...]]
    ranges: tuple[Ranges, ...] = ()

    @property
    def cells(self) -> int:
        """Number of cells."""
        return prod(self.shares)


def lay_out(node: JoinNode, inputs: Mapping[str, Input], cells: int) -> Grid:
    """Lay out the grid of `rewriter.plan.grid.lay_out` for a node; what places rows in cells is packed into the inputs.

    Parameters
    ----------
    node, inputs
        The node and its inputs. Classes whose types have no common one to be hashed as are no dimension.
    cells
        How many cells there may be.
    """
    options, can_hash = node.decision.options, _can_hash(inputs)
    ranges, subgroups = options.routing == "range", options.subgroups
    found = lay_out_graph(node.graph, cells, can_hash, node.tested, ranges=ranges, subgroups=subgroups)
    return _packed(node, inputs, found)


def lay_out_by_key(node: JoinNode, inputs: Mapping[str, Input], units: int) -> Grid | None:
    """Lay out the units along the key that all streams share, and pack its hash; None if they share none."""
    key = common_key(node.graph, _can_hash(inputs))
    return None if key is None else _packed(node, inputs, (dimension(key, units),))


def lay_out_by_range(node: JoinNode, inputs: Mapping[str, Input], subgroups: int) -> Grid:
    """Lay out subgroups of units along the one column that bands compare with all other streams."""
    common = common_range(node.graph)
    if common is None:
        raise PlanError(f"{node.name}: no column is in a band with all other relations")
    home, members = common
    return _packed(node, inputs, (dimension(members, subgroups, home),))


def _packed(node: JoinNode, inputs: Mapping[str, Input], dimensions: tuple[Dimension, ...]) -> Grid:
    coordinates: dict[str, list[tuple[int, str | None]]] = {alias: [] for alias in node.graph.relations}
    ranges = tuple(
        _ranges(node, inputs, axis, number) for number, axis in enumerate(dimensions) if axis.home is not None
    )
    for number, axis in enumerate(dimensions):
        if axis.home is not None:
            continue
        if axis.key is None:
            (alias,) = axis.relations
            if set(node.tested) <= {alias}:  # else no grid divides it
                coordinates[alias].append((number, None))
            continue
        members = tuple(zip(axis.relations, axis.key, strict=True))
        kind = _hash_type(members, inputs)
        assert kind is not None
        for alias, text in members:
            side = inputs[alias]
            hashed = F.xxhash64(hashable(side.cast("key", text, kind), kind))
            value = f"hash of {side.read['key', text]} as {kind}"
            coordinates[alias].append((number, side.pack(hashed, f"coordinate {number}", value)))
    return Grid(
        tuple(axis.shares for axis in dimensions),
        {alias: tuple(axes) for alias, axes in coordinates.items()},
        ranges,
    )


def _ranges(node: JoinNode, inputs: Mapping[str, Input], axis: Dimension, number: int) -> Ranges:
    """Return a dimension of ranges: the columns that its bands compare, which are packed anyway, and how wide it is."""
    names, texts = node.graph.relations, dict(zip(axis.relations, axis.key or (), strict=True))
    home = str(axis.home)
    found: dict[int, Check] = {}
    for edge in node.graph.edges:
        for band in edge.predicates:
            if not isinstance(band, Band) or home not in band.relations or not is_range(band):
                continue
            seen = band.mirrored() if band.left.relations[0] == home else band
            (other,) = seen.left.relations
            if texts.get(other) == seen.left.sql and texts[home] == seen.right.sql:
                found.setdefault(names.index(other), compile_band(seen, inputs[other], inputs[home]))
    columns = {band.right for band in found.values()}
    if len(found) != len(texts) - 1 or len(columns) != 1:
        raise PlanError(f"{node.name}: the bands around {texts[home]} do not compare one column")
    floats = {band.arithmetic != "int" for band in found.values()} == {True}
    spans = [(band.upper or 0) - (band.lower or 0) for band in found.values()]
    # Nothing is in a band whose ends are exchanged, and its ranges may have any width.
    width = BREADTH * max(spans) if floats else min(BREADTH * max(int(max(spans)) + 1, 1), HIGHEST)
    bands = tuple(sorted(found.items()))
    return Ranges(number, axis.shares, names.index(home), columns.pop(), width, floats, bands)


def _can_hash(inputs: Mapping[str, Input]) -> Callable[[KeyClass], bool]:
    return lambda members: _hash_type(members, inputs) is not None


def _hash_type(members: KeyClass, inputs: Mapping[str, Input]) -> str | None:
    """Return the type in which equal values of a class have equal hashes, None if there is none."""
    return widest(inputs[alias].type_of("key", text) for alias, text in members)
