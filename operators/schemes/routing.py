"""Routing: which slots a row goes to. A pure function of the row, so that a retried task routes alike."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from math import gcd, prod

import numpy as np
import pyarrow as pa

from ...errors import PlanError
from ..kernels.order_keys import HIGHEST, LOWEST, Int64s, cells, order_key, values
from ..kernels.pairs import expand
from ..spec import JoinSpec, Ranges
from ..store.probe_plan import bounds_of
from .base import mine

#: 2**64 divided by the golden ratio.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

#: ``(rank, rows) -> (slots, row numbers)``: rows that go to the same slots come together, for they are packed once.
#: None for the row numbers means all rows.
Router = Callable[[int, pa.RecordBatch], Iterator[tuple[Sequence[int], Int64s | None]]]


@dataclass(frozen=True, slots=True)
class Routing:
    """How rows find the slots of a scheme's first stage.

    Parameters
    ----------
    router
        Makes what says which slots a row goes to.
    counted
        Which of some rows of a stream that reached a slot (their numbers) are counted there, so that each is counted
        in one slot.
    spreads
        Whether rows of a stream that are alike may go to different slots: by their route, not by a key.
    looks
        Whether a stream's rows need a route at all.
    """

    router: Callable[[JoinSpec], Router]
    counted: Callable[[JoinSpec, int, pa.RecordBatch, int], Int64s]
    spreads: Callable[[JoinSpec, int], bool]
    looks: Callable[[JoinSpec, int], bool]


def broadcast(spec: JoinSpec) -> Router:
    """Send every row to every slot of its subgroup; each unit keeps its own (001 section 3.2, 003 section 3.2.2).

    It has a subgroup in every layout that may still hold rows.
    """
    counts = dict.fromkeys(spec.subgroups or block.units for block in spec.blocks)
    slots = {count: [_slots_of(spec, count, one) for one in range(count)] for count in counts}

    def route(rank: int, rows: pa.RecordBatch) -> Iterator[tuple[Sequence[int], Int64s | None]]:
        for count in slots:
            for subgroup, some in _by_subgroup(spec, rank, rows, count):
                yield slots[count][subgroup], some

    return route


def partner_slots(spec: JoinSpec, slot: int) -> Sequence[int]:
    """Return the slots whose units of the next stage may have partners of what a slot finds.

    With hash partitioning, two layouts of m and n units have a key in the units i and j only if i and j are equal
    modulo the greatest common divisor of m and n.
    """
    home = next(block for block in spec.blocks if slot in block.slots)
    unit = slot - home.base
    if spec.subgroups:
        return _slots_of(spec, spec.subgroups, spec.subgroup_of(slot)[0])
    found = (
        range(block.base + unit % gcd(home.units, block.units), block.slots.stop, gcd(home.units, block.units))
        for block in spec.blocks
    )
    return sorted(chain.from_iterable(found))


def _slots_of(spec: JoinSpec, count: int, subgroup: int) -> Sequence[int]:
    """Return the slots of a subgroup in all layouts that have this many."""
    sizes = {block: spec.sizes(block) for block in spec.blocks if count == (spec.subgroups or block.units)}
    first = {block: block.base + sum(some[:subgroup]) for block, some in sizes.items()}
    return sorted({first[block] + unit for block, some in sizes.items() for unit in range(some[subgroup])})


def _by_subgroup(spec: JoinSpec, rank: int, rows: pa.RecordBatch, count: int) -> Iterator[tuple[int, Int64s | None]]:
    if count == 1:
        yield 0, None
        return
    if spec.options.ranges:
        (ranges,) = spec.options.ranges
        at, shares = reached(replace(ranges, shares=count), rank, rows)
        for subgroup, some in _apart(shares):
            yield subgroup, at if some is None else at[some]
        return
    column = spec.streams[rank].group
    if column is None:
        raise PlanError(f"{spec.name}: subgroups without a key that all streams share")
    yield from _apart(np.mod(values(rows.column(column)), count))


def _apart(places: Int64s) -> Iterator[tuple[int, Int64s | None]]:
    """Yield each place, in order, with the numbers of the rows that are there; None if all are."""
    counts = np.bincount(places)
    found = np.flatnonzero(counts)
    if len(found) == 1:
        yield int(found[0]), None
        return
    # NumPy counts 16-bit numbers instead of comparing them.
    order = np.argsort(places.astype(np.uint16) if len(counts) <= 1 << 16 else places, kind="stable")
    ends = np.cumsum(counts)
    for place in found:
        yield int(place), order[ends[place] - counts[place] : ends[place]]


def grid(spec: JoinSpec) -> Router:
    """Send a row to the cells with its coordinates; along dimensions that its stream lacks, to all of them (Shares).

    A dimension belongs to a class of equal columns and is hashed, to a single stream and spread, or to a column whose
    values are cut into ranges. Along each of them a result has one place: that of the stream itself, of the key, or of
    the value in the middle of the bands, whose row lies in one range. So it is made in exactly one cell of a layout.
    """
    layouts = {block: _cells_of(spec.in_layout(block)) for block in spec.blocks}

    def route(rank: int, rows: pa.RecordBatch) -> Iterator[tuple[Sequence[int], Int64s | None]]:
        for block in spec.homes(rank):
            yield from layouts[block](rank, rows)

    return route


def _cells_of(spec: JoinSpec) -> Router:
    """Send a row to the cells of the only layout."""
    shape = shape_of(spec)
    strides = strides_of(shape)

    def route(rank: int, rows: pa.RecordBatch) -> Iterator[tuple[Sequence[int], Int64s | None]]:
        known: dict[int, str | None] = dict(spec.streams[rank].dimensions)
        base = np.zeros(rows.num_rows, np.int64)
        for axis, column in known.items():
            if shape[axis] == 1:  # then a stream's own dimension has no route
                continue
            base += np.mod(values(rows.column(str(column))), shape[axis]) * strides[axis]
        at: Int64s | None = None
        for ranges in spec.options.ranges:
            if rank not in ranges.ranks:
                continue
            known[ranges.axis] = None
            if ranges.shares > 1:
                rows_at, shares = reached(ranges, rank, rows)
                at, base = _crossed(at, base, rows_at, shares * strides[ranges.axis])
        shifts = shifts_of(shape, known)
        for cell, some in _apart(base):
            slots = [spec.base + cell + shift for shift in shifts]
            yield slots, some if at is None else at if some is None else at[some]

    return route


def shape_of(spec: JoinSpec) -> tuple[int, ...]:
    """Return how many cells there are along each dimension."""
    return spec.options.grid or (spec.units,)


def strides_of(shape: Sequence[int]) -> list[int]:
    """Return by dimension how far apart the numbers of neighbouring cells are."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def shifts_of(shape: Sequence[int], known: Container[int]) -> list[int]:
    """Return how far the cells of a row are from the first of them: a row goes to all along the dimensions it lacks."""
    strides = strides_of(shape)
    free = [range(shape[axis]) if axis not in known else (0,) for axis in range(len(shape))]
    return [sum(step * stride for step, stride in zip(steps, strides, strict=True)) for steps in product(*free)]


def _crossed(at: Int64s | None, base: Int64s, rows_at: Int64s, steps: Int64s) -> tuple[Int64s, Int64s]:
    """Return the places of rows along some dimensions and one more: row numbers, and the sum of their steps.

    Parameters
    ----------
    at, base
        Shape (k,): row numbers, in order, and steps; all rows, each once, if there are no numbers.
    rows_at, steps
        Shape (m,): the same of the dimension that is added.
    """
    if at is None:
        return rows_at, base[rows_at] + steps
    first, last = np.searchsorted(rows_at, at, "left"), np.searchsorted(rows_at, at, "right")
    pair, position = map(np.concatenate, zip(*expand(first, last), strict=True)) if len(at) else (at, at)
    return at[pair], base[pair] + steps[position]


def reached(ranges: Ranges, rank: int, rows: pa.RecordBatch) -> tuple[Int64s, Int64s]:
    """Return the shares that rows of a stream go to: row numbers, in order, and shares, shape (k,) each.

    A row comes once for each share. Which ranges a band may hold in is what an index search for it would say.
    """
    first, last = _ranges_of(ranges, rank, rows)
    least = _share(first, ranges.shares)
    if first is last:
        return np.arange(len(first)), least
    with np.errstate(over="ignore"):
        more = last - first  # below zero: so many that the difference is no int64
    several = np.flatnonzero(more)
    if not len(several):
        return np.arange(len(first)), least
    counts = np.where((more < 0) | (more >= ranges.shares), ranges.shares, more + 1)[several]
    at = np.repeat(several, counts)
    step = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    every = np.repeat(counts == ranges.shares, counts)  # so many ranges may lie in all shares
    shares = np.where(every, step, _share(first[at] + step, ranges.shares))
    alone = np.flatnonzero(more == 0)
    places = np.unique(np.append(at, alone) * ranges.shares + np.append(shares, least[alone]))
    return places // ranges.shares, places % ranges.shares


def _ranges_of(ranges: Ranges, rank: int, rows: pa.RecordBatch) -> tuple[Int64s, Int64s]:
    """Return the first and the last range that rows of a stream go to, shape (n,) each."""
    if rank == ranges.home:
        column = rows.column(ranges.column)
        keys = order_key(column)
        if column.null_count:  # such rows are sent where the join gives rows without a partner
            keys = np.where(values(column.is_valid().cast(pa.int8())) == 1, keys, 0)
        found = cells(keys, ranges.width, floats=ranges.floats)
        return found, found
    ends = {"lower": LOWEST, "upper": HIGHEST}
    bounds = {side: bound.keys(rows, up=side == "upper")[0] for bound, side in bounds_of(dict(ranges.bands)[rank])}
    first, last = (
        cells(bounds.get(side, np.full(rows.num_rows, end)), ranges.width, floats=ranges.floats)
        for side, end in ends.items()
    )
    return first, np.maximum(first, last)  # no range at all: no partner


def _share(ranges: Int64s, shares: int) -> Int64s:
    """Return the shares of ranges: neighbours lie apart, and evenly (a multiple of the golden ratio, its fraction)."""
    mixed = (ranges.astype(np.uint64) * _GOLDEN) >> np.uint64(32)
    return ((mixed * np.uint64(shares)) >> np.uint64(32)).astype(np.int64)


def _first_of_its_cells(spec: JoinSpec, rank: int, rows: pa.RecordBatch, slot: int) -> Int64s:
    home = spec.homes(rank)[0]
    if slot not in home.slots:
        return np.zeros(0, np.int64)
    spec = spec.in_layout(home)
    known = {axis for axis, _ in spec.streams[rank].dimensions}
    ranges = [one for one in spec.options.ranges if rank in one.ranks]
    at = np.unravel_index(slot - home.base, shape_of(spec))
    free = [axis for axis in range(len(at)) if axis not in known.union(one.axis for one in ranges)]
    if any(at[axis] for axis in free):
        return np.zeros(0, np.int64)
    return _where_first(ranges, rank, rows, {one.axis: int(at[one.axis]) for one in ranges})


def _where_first(ranges: Sequence[Ranges], rank: int, rows: pa.RecordBatch, at: Mapping[int, int]) -> Int64s:
    """Return the numbers of rows whose first range lies in these shares, by dimension."""
    found = np.ones(rows.num_rows, np.bool_)
    for one in ranges:
        if rank != one.home:
            found &= _share(_ranges_of(one, rank, rows)[0], one.shares) == at[one.axis]
    return np.flatnonzero(found)


def _first_of_its_units(spec: JoinSpec, rank: int, rows: pa.RecordBatch, slot: int) -> Int64s:
    stored = mine(spec, rank, rows, slot)
    if not spec.options.ranges:
        return stored
    (ranges,) = spec.options.ranges
    ranges = replace(ranges, shares=spec.subgroups or spec.units)
    first = _where_first([ranges], rank, rows, {ranges.axis: spec.subgroup_of(slot)[0]})
    return np.intersect1d(stored, first, assume_unique=True)


def _spread_in_grid(spec: JoinSpec, rank: int) -> bool:
    """Return whether rows of a stream go to different cells by their route."""
    stream, shapes = spec.streams[rank], [shape_of(spec.in_layout(block)) for block in spec.blocks]
    dealt_out = any(
        column == stream.route and shape[axis] > 1 for axis, column in stream.dimensions for shape in shapes
    )
    return stream.alike and dealt_out


#: Each stream has its own units, which rows of the others reach.
TO_GROUPS = Routing(
    broadcast,
    _first_of_its_units,
    lambda spec, rank: spec.streams[rank].alike and max(spec.sizes(spec.blocks[0])) > 1,
    lambda spec, rank: True,
)


def _may_be_dealt_out(spec: JoinSpec, rank: int) -> bool:
    """Return whether they may in some grid: the one of a checkpoint is not known when a query is planned."""
    stream = spec.streams[rank]
    return any(column == stream.route for _, column in stream.dimensions)


#: Units are cells of a grid.
TO_CELLS = Routing(grid, _first_of_its_cells, _spread_in_grid, _may_be_dealt_out)
