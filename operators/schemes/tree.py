"""A chain of bicliques with stored intermediate results: BiStream and a tree, the baseline of 001.

Stage k joins the intermediate results of stage k - 1 with one stream more, stores both, and sends what it finds on as
another stream of tuple pairs. Within a batch an intermediate takes its turn before the stream that it meets; any fixed
order is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from ..checks import Check, EdgeSpec, renamed
from ..kernels.order_keys import HIGHEST, Int64s, order_key
from ..results.outcomes import Outcome, Partial, Result
from ..spec import JoinSpec, StreamSpec
from .base import Scheme, SlotMaker, Work, gathered, kept, owned
from .iterative import IterativeUnit
from .routing import TO_GROUPS

#: The route of an intermediate result.
_ROUTE = "__route"


def join_order(spec: JoinSpec) -> tuple[int, ...]:
    """Return the ranks in the order in which the tree joins them."""
    return spec.options.order or tuple(range(len(spec.streams)))


def partial_name(rank: int, column: str) -> str:
    """Return what a stream's column is called in an intermediate result."""
    return f"{rank}.{column}"


class TreeSlot:
    """One unit of both groups of a stage.

    Parameters
    ----------
    spec, slot
        The whole join, and the slot.
    stage
        Number of the stage; it adds the stream ``join_order(spec)[stage + 1]``.
    """

    def __init__(self, spec: JoinSpec, slot: int, stage: int) -> None:
        order = join_order(spec)
        self.spec, self.slot, self.stage = spec, slot, stage
        self.joined, self.added = order[: stage + 1], order[stage + 1]
        self.last = stage == len(order) - 2
        self.forwards = frozenset(order[stage + 2 :])
        self.pair = _pair(spec, self.joined, self.added)
        self.unit = IterativeUnit(self.pair, whole=True)
        self.stores = {store.name: store for store in self.unit.stored.values()}
        self._pairs = 0

    @property
    def counters(self) -> Counter[str]:
        """Counters of the unit; what a stage but the last finds are stored pairs."""
        return self.unit.counters + Counter({"pairs": self._pairs, "packs": self._pairs})

    def process(self, work: Work) -> Iterator[Outcome]:
        """Handle one micro-batch."""
        for rank, batches in enumerate((self._left(work), work.rows.get(self.added, []))):
            for rows in gathered(batches):
                for result in self.unit.arrive(rank, rows):
                    assert isinstance(result, Result)  # a pair's results are listed: they may be stored
                    yield self._outcome(result)
                self.unit.keep(rank, owned(self.pair, rank, rows, self.slot))

    def _left(self, work: Work) -> list[pa.RecordBatch]:
        if self.stage:
            return work.partials
        (rank,) = self.joined
        route = self.spec.streams[rank].route
        return [
            _prefixed(rank, kept(self.spec, rank, batch)).append_column(_ROUTE, batch.column(route))
            for batch in work.rows.get(rank, [])
        ]

    def _outcome(self, result: Result) -> Outcome:
        left, right = result.parts[0], result.parts[1]
        if not self.last:
            rows = _beside(left, _prefixed(self.added, right))
            self._pairs += rows.num_rows
            return Partial(rows.append_column(_ROUTE, pa.array(row_hash(rows))))
        parts = {self.added: right}
        for rank in self.joined:
            columns = self.spec.streams[rank].columns
            arrays = [left.column(partial_name(rank, column)) for column in columns]
            parts[rank] = _batch(arrays, list(columns), left.num_rows)
        return Result(parts)


def _pair(spec: JoinSpec, joined: tuple[int, ...], added: int) -> JoinSpec:
    """Return the two-stream join of a stage: the intermediate results and the added stream."""
    columns = tuple(partial_name(rank, column) for rank in joined for column in spec.streams[rank].columns)
    checks: list[Check] = []
    hashes: tuple[str | None, str | None] = (None, None)
    for rank in joined:
        edge = spec.edge(rank, added)
        checks += [renamed(check, partial(partial_name, rank)) for check in edge.checks]
        if edge.hash_left is not None and hashes[0] is None:
            hashes = partial_name(rank, edge.hash_left), edge.hash_right
    reach = [(most, rank) for rank in joined if (most := spec.most(rank, added)) is not None]
    back = [most for rank in joined if (most := spec.most(added, rank)) is not None]
    time, bounds = None, []
    if reach:  # an intermediate result is over as soon as one of its rows is
        most, rank = min(reach)
        own = spec.streams[rank].time
        time = None if own is None else partial_name(rank, own)
        bounds.append((0, 1, most))
    if back and len(back) == len(joined):
        bounds.append((1, 0, max(back)))
    name = "+".join(spec.streams[rank].alias for rank in joined)
    left = StreamSpec(name, (), columns, _ROUTE, time=time)
    edges = (EdgeSpec(0, 1, tuple(checks), *hashes),)
    return replace(
        spec, streams=(left, spec.streams[added]), edges=edges, bounds=tuple(bounds), hub=None, aggregate=None
    )


def _prefixed(rank: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.rename_columns([partial_name(rank, name) for name in rows.schema.names])


def _beside(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    names = [*left.schema.names, *right.schema.names]
    return _batch([*left.columns, *right.columns], names, left.num_rows)


def _batch(columns: list[pa.Array], names: list[str], count: int) -> pa.RecordBatch:
    """Return columns as a batch. Arrow takes its length from them, and a stream of which nothing is read has none."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, names=names)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def row_hash(rows: pa.RecordBatch) -> Int64s:
    """Return a number from 0 up for each row that depends on its values alone (on those that have an order key)."""
    mixed = np.zeros(rows.num_rows, np.uint64)
    for column in rows.columns:
        try:
            keys = order_key(column)
        except TypeError:
            continue
        if column.null_count:  # what stands in the place of a NULL is arbitrary
            keys = np.where(np.asarray(column.is_valid()), keys, 0)
        with np.errstate(over="ignore"):
            mixed = (mixed ^ keys.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
    return (mixed & np.uint64(HIGHEST)).view(np.int64)


def _stages(spec: JoinSpec) -> tuple[SlotMaker, ...]:
    return tuple(partial(TreeSlot, stage=stage) for stage in range(len(spec.streams) - 1))


SCHEMES = {"tree": Scheme(TO_GROUPS, _stages)}
