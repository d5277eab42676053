"""Routing: which slots a row goes to. A pure function of the row, so that a retried task routes alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

from ..kernels.order_keys import values
from ..spec import JoinSpec

#: ``(rank, rows) -> (slot, row numbers)``; None for the row numbers means all rows.
Router = Callable[[int, pa.RecordBatch], Iterator[tuple[int, np.ndarray | None]]]


def broadcast(spec: JoinSpec) -> Router:
    """Send every row to every slot; each unit keeps its own (001 section 3.2: round robin and broadcast)."""

    def route(rank: int, rows: pa.RecordBatch) -> Iterator[tuple[int, np.ndarray | None]]:
        for slot in range(spec.units):
            yield slot, None

    return route


def grid_shape(spec: JoinSpec) -> tuple[int, ...]:
    """Return the number of shares along each dimension of the grid, from the option ``grid`` ("2x1x3")."""
    return tuple(int(size) for size in spec.option("grid", str(spec.units)).split("x"))


def grid(spec: JoinSpec) -> Router:
    """Send a row to the cells with its coordinates; along dimensions that its stream lacks, to all of them (Shares).

    A dimension belongs to a class of equal columns and is hashed, or to a single stream and spread. A result's rows
    agree on every coordinate, so it is made in exactly one cell.
    """
    shape = grid_shape(spec)
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]

    def route(rank: int, rows: pa.RecordBatch) -> Iterator[tuple[int, np.ndarray | None]]:
        known = dict(spec.streams[rank].dimensions)
        base = np.zeros(rows.num_rows, np.int64)
        for axis, column in known.items():
            base += np.mod(values(rows.column(column)), shape[axis]) * strides[axis]
        free = [range(shape[axis]) if axis not in known else (0,) for axis in range(len(shape))]
        cells = np.unique(base)
        for steps in product(*free):
            shift = sum(step * stride for step, stride in zip(steps, strides, strict=True))
            for cell in cells:
                yield int(cell) + shift, None if len(cells) == 1 else np.flatnonzero(base == cell)

    return route
