"""What every scheme gives: which slots a stream's rows go to, and what a slot does with them.

A *slot* is a key of Spark's grouping and holds unit i of every stream's group. Rows that a scheme broadcasts to whole
groups therefore cross the shuffle once for each slot, not once for each unit, and each unit picks out the rows that it
stores by itself. The papers' units stay what they are: each has stores of its own and sees nothing of its neighbours'.

A slot handles a micro-batch stream by stream, in an order that all slots and stages of the scheme share (by rank, where
nothing is said). Since (batch, turn) is the total order of tuples, and rows of one stream never meet, whatever a unit
holds when a stream's turn comes is exactly what is earlier than its rows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..batches.pieces import concat
from ..checks import Check
from ..kernels.order_keys import Int64s, values
from ..kernels.pairs import Take, fulfilling
from ..kernels.sorting import sort_keys
from ..results.bundle import Part
from ..results.outcomes import Outcome, Pack, PartialBlock
from ..spec import JoinSpec, StreamSpec
from ..store.index import Probe
from ..store.probe_plan import ProbePlan
from ..store.store import Store

if TYPE_CHECKING:
    from .routing import Routing

#: Bytes of arriving rows that are handled at a time.
ARRIVING_BYTES = 32 << 20

#: Members that one row of a hub has at most: half a megabyte of ids.
MOST_MEMBERS = 1 << 16

#: The column of a hub or a list that holds the ids of the rows packed with it.
MEMBERS = "__members"


@dataclass(slots=True)
class Work:
    """What a slot was given in one micro-batch.

    Parameters
    ----------
    rows
        By rank: the rows of that stream that reached this slot, with the route column.
    packs, partials, blocks
        What units of an earlier stage sent.
    watermark
        No row at or before it comes any more: microseconds, 0 if there is none yet, None if no rows come at all.
    """

    rows: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    packs: list[Pack] = field(default_factory=list)
    partials: list[pa.RecordBatch] = field(default_factory=list)
    blocks: list[PartialBlock] = field(default_factory=list)
    watermark: int | None = 0

    @property
    def count(self) -> int:
        """How many rows have been sent here: of streams, partial results, blocks, hubs and members of packs."""
        batches = [*(batch for batches in self.rows.values() for batch in batches), *self.partials]
        batches += [some for pack in self.packs for some in (pack.hubs, pack.members)]
        return sum(int(batch.num_rows) for batch in batches) + sum(map(len, self.blocks))


class Slot(Protocol):
    """The units of one slot in one stage of a scheme."""

    stores: dict[str, Store]

    #: Ranks whose rows the next stage needs.
    forwards: frozenset[int]

    @property
    def counters(self) -> Counter[str]:
        """What was stored, packed, compared in this micro-batch."""
        ...

    def process(self, work: Work) -> Iterator[Outcome]:
        """Handle one micro-batch; results and packs come out as soon as they are known."""
        ...


SlotMaker = Callable[[JoinSpec, int], Slot]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a scheme runs.

    Parameters
    ----------
    routing
        How rows find the slots of the first stage.
    stages
        For each stage what makes the slot with a number.
    """

    routing: Routing
    stages: Callable[[JoinSpec], tuple[SlotMaker, ...]]


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put a stream's rows of a micro-batch together, at most about `ARRIVING_BYTES` at a time.

    Rows of one stream never meet, so it does not matter what of a rank is handled first. A batch query has one
    micro-batch: all rows of a large table would be more than Arrow puts into one array, and in memory twice.
    """
    left = deque(batches)
    batches = ()  # a batch goes when it has been handled
    waiting: list[pa.RecordBatch] = []
    size = 0
    while left:
        waiting.append(left.popleft())
        size += waiting[-1].nbytes
        if not left or size + left[0].nbytes > ARRIVING_BYTES:
            rows, waiting, size = concat(waiting), [], 0
            yield rows
            del rows


def owned(spec: JoinSpec, rank: int, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
    """Return the rows that unit ``slot`` of the stream's group stores (001 section 3.2: each tuple in one unit)."""
    return kept(spec, rank, routed(spec, rank, rows, slot))


def routed(spec: JoinSpec, rank: int, rows: pa.RecordBatch, slot: int) -> pa.RecordBatch:
    """Return the rows that a unit stores, with their route."""
    if slot in spec.blocks[0].slots and len(spec.subgroup_of(slot)[1]) == 1:
        return rows
    return rows.take(pa.array(mine(spec, rank, rows, slot)))


def mine(spec: JoinSpec, rank: int, rows: pa.RecordBatch, slot: int) -> Int64s:
    """Return the numbers of the rows that unit ``slot`` stores."""
    if slot not in spec.blocks[0].slots:  # of an earlier layout: it sees rows, for what it stores, but stores no more
        return np.zeros(0, np.int64)
    _, subgroup = spec.subgroup_of(slot)
    if len(subgroup) == 1:
        return np.arange(rows.num_rows)
    route = values(rows.column(spec.streams[rank].route))
    return np.flatnonzero(np.mod(route, len(subgroup)) == subgroup.index(slot))


def kept(spec: JoinSpec, rank: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without the route column."""
    return rows.select(list(spec.streams[rank].columns))


def any_null(rows: pa.RecordBatch, columns: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Return which rows have NULL in one of some columns, shape (n,)."""
    found = np.zeros(rows.num_rows, np.bool_)
    for name in columns:
        if rows.column(name).null_count:
            found |= rows.column(name).is_null().to_numpy(zero_copy_only=False)
    return found


def padding(stream: StreamSpec, count: int) -> pa.RecordBatch:
    """Return what results without a row of a stream have of it: NULLs."""
    kinds = dict(stream.types)
    columns = [pa.nulls(count, kinds[name]) for name in stream.listed]
    return pa.RecordBatch.from_arrays(columns, names=list(stream.listed))


def pack(rows: pa.RecordBatch, at: Int64s, members: Int64s, *, pairs: bool = False) -> pa.RecordBatch:
    """Make hubs: one row for each different ``at``, with the list of its members (001 section 3.3, TuplePacking).

    A list of more than `MOST_MEMBERS` goes on in another row of the same hub: what is stored and sent is cut by rows.

    Parameters
    ----------
    rows
        The arriving rows.
    at, members
        Shape (k,): row number and packed id of each match.
    pairs
        One hub for each match instead, as the tuple pair structure of figure 6 does (for comparison).
    """
    order, at = sort_keys(at)
    members = members[order]
    starts = np.arange(len(at)) if pairs else _starts(at)
    hubs, offsets = at[starts], np.append(starts, len(at))
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(members))
    taken = rows.take(pa.array(hubs))
    return pa.RecordBatch.from_arrays([*taken.columns, lists], names=[*taken.schema.names, MEMBERS])


def _starts(at: Int64s) -> Int64s:
    """Return where a hub's list begins, or goes on in another row, in sorted row numbers."""
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    lengths = np.diff(starts, append=len(at))
    rows = -(-lengths // MOST_MEMBERS)
    if len(rows) == 0 or rows.max() == 1:
        return starts
    first = np.repeat(np.cumsum(rows) - rows, rows)
    return np.asarray(np.repeat(starts, rows) + (np.arange(len(first)) - first) * MOST_MEMBERS)


def matches(store: Store, plan: ProbePlan, rows: pa.RecordBatch) -> tuple[Int64s, Int64s]:
    """Return all ``(row number, stored id)`` that match, shape (k,) each."""
    at: list[Int64s] = []
    ids: list[Int64s] = []
    for mine, segment, theirs in store.probe(Probe(plan, rows)):
        at.append(mine)
        ids.append(theirs.astype(np.int64) + segment.start)
    if not at:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(at), np.concatenate(ids)


def _of(part: Part, few: Int64s | None) -> Take:
    """Return what gives columns of some rows of a part."""
    return lambda column, some: part.column(column, few if some is None else some if few is None else few[some])


def passing(checks: Sequence[Check], left: Part, right: Part) -> Int64s | None:
    """Return which pairs of rows fulfil predicates, in order, None if there are none.

    A predicate is evaluated on the pairs that fulfil those before it, and takes their columns for these alone.

    Parameters
    ----------
    left, right
        The rows of each side, k of them.
    """
    few: Int64s | None = None
    for check in checks:
        count = len(left) if few is None else len(few)
        found = np.flatnonzero(fulfilling(check, _of(left, few), _of(right, few), count))
        few = found if few is None else few[found]
        if not len(few):
            break
    return few
