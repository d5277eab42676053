"""Routing: which slots a row goes to. A pure function of the row, so that a retried task routes alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

from ...errors import PlanError
from ..kernels.order_keys import Int64s, values
from ..spec import JoinSpec
from .base import mine

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
    """Send every row to every slot of its subgroup; each unit keeps its own (001 section 3.2, 003 section 3.2.2)."""

    def route(rank: int, rows: pa.RecordBatch) -> Iterator[tuple[Sequence[int], Int64s | None]]:
        for subgroup, some in _by_subgroup(spec, rank, rows):
            yield subgroup_slots(spec, subgroup * spec.group_units), some

    return route


def subgroup_slots(spec: JoinSpec, slot: int) -> range:
    """Return the slots of the subgroup that a slot is in; if there is one subgroup only, retired ones too."""
    if spec.subgroups == 1:
        return range(spec.slots)
    first = slot - slot % spec.group_units
    return range(first, first + spec.group_units)


def _by_subgroup(spec: JoinSpec, rank: int, rows: pa.RecordBatch) -> Iterator[tuple[int, Int64s | None]]:
    if spec.subgroups == 1:
        yield 0, None
        return
    column = spec.streams[rank].group
    if column is None:
        raise PlanError(f"{spec.name}: subgroups without a key that all streams share")
    yield from _apart(np.mod(values(rows.column(column)), spec.subgroups))


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

    A dimension belongs to a class of equal columns and is hashed, or to a single stream and spread. A result's rows
    agree on every coordinate, so it is made in exactly one cell.
    """
    shape = spec.options.grid or (spec.units,)
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]

    def route(rank: int, rows: pa.RecordBatch) -> Iterator[tuple[Sequence[int], Int64s | None]]:
        known = dict(spec.streams[rank].dimensions)
        base = np.zeros(rows.num_rows, np.int64)
        for axis, column in known.items():
            if shape[axis] == 1:  # then a stream's own dimension has no route
                continue
            base += np.mod(values(rows.column(column)), shape[axis]) * strides[axis]
        free = [range(shape[axis]) if axis not in known else (0,) for axis in range(len(shape))]
        shifts = [sum(step * stride for step, stride in zip(steps, strides, strict=True)) for steps in product(*free)]
        for cell, some in _apart(base):
            yield [cell + shift for shift in shifts], some

    return route


def _first_of_its_cells(spec: JoinSpec, rank: int, rows: pa.RecordBatch, slot: int) -> Int64s:
    known = dict(spec.streams[rank].dimensions)
    at = np.unravel_index(slot, (spec.options.grid or (spec.units,)))
    return np.arange(rows.num_rows if all(at[axis] == 0 for axis in range(len(at)) if axis not in known) else 0)


def _spread_in_grid(spec: JoinSpec, rank: int) -> bool:
    return spec.streams[rank].alike and _dealt_out(spec, rank)


def _dealt_out(spec: JoinSpec, rank: int) -> bool:
    """Return whether rows of a stream go to different cells by their route."""
    stream, shape = spec.streams[rank], spec.options.grid or (spec.units,)
    return any(column == stream.route and shape[axis] > 1 for axis, column in stream.dimensions)


#: Each stream has its own units, which rows of the others reach.
TO_GROUPS = Routing(
    broadcast,
    mine,
    lambda spec, rank: spec.streams[rank].alike and spec.group_units > 1,
    lambda spec, rank: True,
)

#: Units are cells of a grid.
TO_CELLS = Routing(grid, _first_of_its_cells, _spread_in_grid, _dealt_out)
