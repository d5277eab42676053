"""What a join is, once the types are known: the plain data that dispatch, units and kernels work from.

Everything here pickles, holds no Spark object and is the same for every batch of a query. `operators.compile` derives
it from a `rewriter.plan.nodes.JoinNode` and the schemas that Spark reports for the inputs.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

from .checks import Band, EdgeSpec

if TYPE_CHECKING:
    import pyarrow as pa

#: The key of a join: ``<node><RUN><number of the compiled statement>``.
PREFIX, RUN = "__trijoin", "@"

#: How Spark's plan names the dispatch of a stream: this and its alias.
DISPATCH = "dispatch_"


def is_key(name: str) -> bool:
    """Return whether a name of a metric is the key of a join."""
    return name.startswith(PREFIX) and name.partition(RUN)[2].isdigit()


def number_of(key: str) -> int:
    """Return the number of the statement that the join of a key was compiled from."""
    return int(key.partition(RUN)[2])


Kind = Literal["inner", "left", "right", "full", "semi", "anti", "closest", "left_closest", "mixed"]

#: By kind of join: the ranks of its tested streams.
TESTED: dict[Kind, tuple[int, ...]] = {
    "inner": (),
    "left": (0,),
    "right": (1,),
    "full": (0, 1),
    "semi": (0,),
    "anti": (0,),
    "closest": (0,),
    "left_closest": (0,),
    "mixed": (),
}


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """One input stream.

    Parameters
    ----------
    alias
        Its alias in the query.
    payload
        Its columns in the output, as ``(packed column, output name)``.
    columns
        All packed columns that are kept with a stored row (payload and keys), in order.
    route
        The packed int64 column that decides where a row is stored. It is not kept.
    dimensions
        Under ``matrix``, or with a key that all streams share: the dimensions of the grid in which it has a coordinate,
        as ``(dimension, packed column)``.
    group
        The packed column with the hash of the key that all streams share, where rows are routed by it.
    time
        The packed column with its event time (int64, microseconds), None if it has no watermark.
    timed
        Whether results need it.
    alike
        Whether rows with one route are alike: it is a hash of all that is packed.
    stateful
        Whether an operator of Spark's with state makes its rows: they come when Spark's watermark passes them, and none
        of them is late.
    required
        The packed columns in which a row that joins has no NULL, with the text of each in the query: the dispatcher
        drops other rows, unless the join gives those without a partner. None of a table, where Spark does.
    types
        By packed column, the Arrow types of those that a join pads with NULLs.
    reads
        What it is an alias of: several aliases of one stream bring the same rows. Empty if it has no name.
    filtered
        Whether conditions on this alias alone have dropped rows before.
    read_above
        Whether another join, which reads the results of this one, reads it too: that one tells which rows are late.
    """

    alias: str
    payload: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    route: str
    dimensions: tuple[tuple[int, str], ...] = ()
    group: str | None = None
    time: str | None = None
    timed: bool = False
    stateful: bool = False
    alike: bool = True
    required: tuple[tuple[str, str], ...] = ()
    types: tuple[tuple[str, pa.DataType], ...] = ()
    reads: str = ""
    filtered: bool = False
    read_above: bool = False

    @property
    def listed(self) -> tuple[str, ...]:
        """The packed columns that a result needs: the payload, its event time, or one column to count rows by."""
        time = [self.time] if self.timed and self.time is not None else []
        return tuple(dict.fromkeys([*(column for column, _ in self.payload), *time])) or self.columns[:1]


@dataclass(frozen=True, slots=True)
class KeySpec:
    """A GROUP BY key: a packed column of one stream, and its name in the output."""

    rank: int
    column: str
    name: str


@dataclass(frozen=True, slots=True)
class StateSpec:
    """A state of an aggregate: ``count``, ``sum``, ``min`` or ``max`` of a packed column of one stream.

    Parameters
    ----------
    function
        ``count`` without a column counts results.
    name
        Its name in the output.
    rank, column
        The argument.
    scale, precision
        Of a sum of decimals.
    sql
        The argument as the user wrote it, for messages.
    """

    function: Literal["count", "sum", "min", "max"]
    name: str
    rank: int | None = None
    column: str | None = None
    precision: int | None = None
    scale: int = 0
    sql: str = ""


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """What units reduce their results to: a row for each group of keys, with its states."""

    keys: tuple[KeySpec, ...]
    states: tuple[StateSpec, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the output's columns."""
        return tuple(key.name for key in self.keys) + tuple(state.name for state in self.states)


@dataclass(frozen=True, slots=True)
class Ranges:
    """A dimension along which rows go by ranges of the values of one column, which bands compare with others.

    Parameters
    ----------
    axis, shares
        Its number in the grid, and the cells along it.
    home, column
        The rank of the stream with that column: its rows go to the range of their own value.
    width
        Of a range, in the numbers that the column's order keys stand for.
    floats
        Whether these are floats.
    bands
        By rank: the band of each other stream, seen from it (``right`` is the column). Its rows go to all ranges in
        which the band may hold.
    """

    axis: int
    shares: int
    home: int
    column: str
    width: float
    floats: bool
    bands: tuple[tuple[int, Band], ...]

    @property
    def ranks(self) -> frozenset[int]:
        """The streams whose rows have a place along it."""
        return frozenset((self.home, *(rank for rank, _ in self.bands)))


@dataclass(frozen=True, slots=True)
class Options:
    """What a scheme is told besides its units.

    Parameters
    ----------
    pairs
        Whether hubs are stored once a match instead of with a pack (for comparison).
    grid
        For ``matrix``: the shares along each dimension; empty for one dimension of all units. With subgroups: the units
        of each, if they are not as many in all.
    ranges
        The dimensions of a grid, or the one of subgroups, along which rows go by ranges of values.
    order
        For ``tree`` and ``non_materializing``: the ranks in the order of their stages; empty for their own.
    probes
        For ``matrix``: for each rank, the others in the order in which its rows probe them; empty for their own.
    sources
        For each rank, by which of the ranks joined before each of these is searched; empty for the best by kind.
    """

    pairs: bool = False
    grid: tuple[int, ...] = ()
    ranges: tuple[Ranges, ...] = ()
    order: tuple[int, ...] = ()
    probes: tuple[tuple[int, ...], ...] = ()
    sources: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Closest:
    """Which partners of a row of the first stream are results.

    Parameters
    ----------
    left, right
        The columns that are compared, of one type.
    by
        The ``greatest`` or the ``least`` value of the second stream is closest, or the one at the least ``distance``.
    count
        How many partners at most. Of equally close ones those that came last are results.
    sql, type_name
        For the error message where a difference leaves the type.
    most
        The greatest difference that the type has, None where it has them all.
    wraps
        Whether a difference of integers that leaves its type wraps around.
    similarity
        Whether it is said as a similarity, the distance below zero.
    latest
        The columns of the key of which only the latest row can be closest, once the watermark has passed it; None if
        others can be, too.
    """

    left: str
    right: str
    by: Literal["greatest", "least", "distance"]
    count: int = 1
    sql: str = ""
    type_name: str = ""
    most: int | None = None
    wraps: bool = False
    similarity: bool = False
    latest: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """A stream of a ``mixed`` join whose rows hang on those of a stream of its core, by a join that is not inner.

    Parameters
    ----------
    rank, anchor
        The two streams.
    kind
        Of join, with the core on its left.
    required
        The packed columns of the anchor in which a row that has a partner has no NULL.
    closest
        Which partners of a row of the anchor are results, None if all are.
    """

    rank: int
    anchor: int
    kind: Literal["left", "semi", "anti", "closest", "left_closest"]
    required: tuple[str, ...] = ()
    closest: Closest | None = None

    @property
    def pads(self) -> bool:
        """Whether a row of the core without a partner is in results, with NULLs."""
        return self.kind in ("left", "left_closest")


class Block(NamedTuple):
    """The units of one layout, the first of their slots, and how they are laid out.

    The shape is, of cells, how many there are along each dimension; of subgroups with units of their own number, how
    many each has.
    """

    units: int
    base: int = 0
    shape: tuple[int, ...] = ()

    @property
    def slots(self) -> range:
        """The slots of its units."""
        return range(self.base, self.base + self.units)


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A whole join: its streams in rank order, its edges, its scheme.

    Parameters
    ----------
    name
        The node's name, for state and messages.
    hub
        Rank of the middle stream of a chain, where the scheme needs it.
    options
        What else the scheme is told.
    units
        Units in each stream's group (cells for ``matrix``) that new rows are stored in. Unit i of every group lives in
        slot ``base + i``.
    fingerprint
        A text that changes when the query does, line by line ``what: value``.
    output
        The names of the output columns, in order.
    bounds
        The closed event-time bounds as ``(i, j, most)``: a row of stream j joins a row of stream i only if its event
        time is at most ``most`` microseconds later.
    subgroups
        ContRand (003 section 3.2.2): units are divided into this many subgroups; a row goes to the subgroup of its key,
        and inside it the scheme's own rule holds. 1 is content-insensitive; 0 is hash partitioning: each unit is a
        subgroup, however many there are.
    base, earlier
        The first slot, and the units of earlier layouts that may still hold rows (see `state.layout`): their slots see
        rows like their own units', and store none.
    elastic
        Whether rows of one layout meet those of another, so that units can change with nothing stored twice.
    lead
        The layout to which the rows of the `pivot` go; None for the newest.
    key
        Names the join within the process; under it the driver tells the layout of a checkpoint.
    result_time
        The output column with the latest event time of a result's rows, None if there is none.
    aggregate
        If units put out groups and states instead of results.
    held_back
        By how much, in microseconds, Spark's watermark is behind the one by which units tell what is late.
    behind
        As in a `JoinNode`; in microseconds.
    turn
        Up to which of Spark's watermarks (milliseconds) an earlier run held back by another length, and by which.
    above
        The keys of the joins of earlier statements that make inputs of this one, such as those in a view. Their units
        go by a watermark that is held back for this join too, which the driver tells them (`task`).
    join
        ``inner`` or ``mixed``; else it has two streams, and ``semi`` and ``anti`` put out rows of the first alone.
    branches
        Of a ``mixed`` join, the streams that are not of its core.
    closest
        Which partners of a row of the first stream are results, None if all are.
    settles
        Whether the second stream are pairs of rows of the first with partners of theirs. They are kept only to look for
        the closest. Those of a ``left`` join are results as they are: both streams then have the first one's columns of
        the output.
    fixed_width
        Whether all that Spark hands to its workers is rows of fixed-width types of streams, and packed rows of them.
    """

    name: str
    streams: tuple[StreamSpec, ...]
    edges: tuple[EdgeSpec, ...]
    scheme: str
    units: int
    hub: int | None = None
    options: Options = Options()
    fingerprint: str = ""
    output: tuple[str, ...] = ()
    bounds: tuple[tuple[int, int, int], ...] = ()
    subgroups: int = 1
    base: int = 0
    earlier: tuple[Block, ...] = ()
    elastic: bool = False
    lead: Block | None = None
    key: str = ""
    result_time: str | None = None
    aggregate: AggregateSpec | None = None
    held_back: int = 0
    behind: int | None = None
    turn: tuple[int, int] | None = None
    above: tuple[str, ...] = ()
    join: Kind = "inner"
    closest: Closest | None = None
    settles: bool = False
    fixed_width: bool = False
    branches: tuple[Branch, ...] = ()

    @property
    def core(self) -> tuple[int, ...]:
        """The ranks of the streams of which each result has a row."""
        optional = {branch.rank for branch in self.branches}
        return tuple(rank for rank in range(len(self.streams)) if rank not in optional)

    @property
    def tested(self) -> tuple[int, ...]:
        """The ranks of the streams for whose rows it has to be known whether a partner exists."""
        return TESTED[self.join]

    @property
    def pairs(self) -> bool:
        """Whether pairs of rows are results."""
        return self.join not in ("semi", "anti")

    @property
    def emits_unmatched(self) -> bool:
        """Whether rows without a partner are results."""
        if self.join == "mixed":
            return any(branch.pads for branch in self.branches)
        return self.join not in ("inner", "semi", "closest")

    def is_alone(self, rank: int) -> bool:
        """Whether a stream is the whole core of a ``mixed`` join: each row of it may be a result without any other."""
        return bool(self.branches) and self.core == (rank,)

    def edge(self, left: int, right: int) -> EdgeSpec:
        """Return the edge between two ranks with ``left`` as its left side; an edge without checks if there is none."""
        for edge in self.edges:
            if {edge.left, edge.right} == {left, right}:
                return edge.seen_from(left)
        return EdgeSpec(left, right)

    def most(self, one: int, other: int) -> int | None:
        """Return how much later than a row of ``one`` a partner in ``other`` may be, None if that is not bounded."""
        return next((most for i, j, most in self.bounds if (i, j) == (one, other)), None)

    @property
    def slots(self) -> int:
        """The number from which on no slot is reached."""
        return max(block.slots.stop for block in self.blocks)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The units that new rows are stored in, and those of earlier layouts."""
        return Block(self.units, self.base, self.options.grid), *self.earlier

    @property
    def pivot(self) -> int | None:
        """The stream each of whose rows is in one layout of cells, with all that it joins (see `state.layout`).

        Each result has a row of it. None where units cannot change so: no rows of cells, a FULL JOIN, or rows that are
        kept for ever.
        """
        if self.scheme != "matrix" or self.join == "full" or not self.bounded:
            return None
        looks = [(0, 1, self.closest), *((one.anchor, one.rank, one.closest) for one in self.branches)]
        if any(closest is not None and self.most(other, one) is None for one, other, closest in looks):
            return None  # the latest row of each key stays
        return self.tested[0] if self.tested else self.core[0]

    @property
    def may_change(self) -> bool:
        """Whether the number of units is part of the state, not of the query."""
        return self.elastic or self.pivot is not None

    @property
    def has_own_slots(self) -> bool:
        """Whether each layout of its units has slots of its own, some of which may get no rows (see `state.layout`)."""
        return self.subgroups != 1 or self.pivot is not None

    def homes(self, rank: int) -> tuple[Block, ...]:
        """Return the layouts that a stream's rows reach, first the one in which each of them is counted."""
        return (self.lead,) if self.lead is not None and rank == self.pivot else self.blocks

    @property
    def receiving(self) -> tuple[Block, ...]:
        """The layouts that rows come to for their own sake: the newest, and of cells those up to that of the pivot."""
        return self.blocks[: 1 if self.lead is None else self.blocks.index(self.lead) + 1]

    def in_layout(self, block: Block) -> JoinSpec:
        """Return the join as if this layout were the only one."""
        ranges = self.options.ranges
        if block.shape and self.subgroups == 1:
            ranges = tuple(replace(one, shares=block.shape[one.axis]) for one in ranges)
        options = replace(self.options, grid=block.shape, ranges=ranges)
        return replace(self, units=block.units, base=block.base, earlier=(), lead=None, options=options)

    def sizes(self, block: Block) -> tuple[int, ...]:
        """Return how many units each subgroup of a layout has."""
        count = self.subgroups or block.units
        return block.shape if self.subgroups > 1 and block.shape else (block.units // count,) * count

    def subgroup_of(self, slot: int) -> tuple[int, range]:
        """Return the number of a slot's subgroup, and the slots that it has in its layout."""
        block = next(block for block in self.blocks if slot in block.slots)
        ends = list(accumulate(self.sizes(block), initial=block.base))
        number = bisect_right(ends, slot) - 1
        return number, range(ends[number], ends[number + 1])

    def keep_for(self, rank: int) -> int | None:
        """Return how long a stored row of a stream is kept (microseconds of event time), None for ever."""
        reach = self._reach(rank)
        known = [most for most in reach if most is not None]
        waits = 0  # how long a row that looks for the closest ones waits for them, and for what else it is joined with
        looks = next(((one.anchor, one.closest) for one in self.branches if one.rank == rank), (0, self.closest))
        anchor, closest = looks
        if closest is not None and rank != anchor:
            others = self._reach(anchor)
            if None in others:
                return None
            waits = max(0, *(most for most in others if most is not None))
            if closest.latest is not None and not known:
                return waits
        return max(0, *known) + waits if known and len(known) == len(reach) else None

    def _reach(self, rank: int) -> list[int | None]:
        """Return how much later partners in each other stream may be."""
        return [self.most(rank, other) for other in range(len(self.streams)) if other != rank]

    def held_back_at(self, watermark: int) -> int:
        """Return by how much Spark's watermark (milliseconds) is behind the units' one, in microseconds."""
        return self.held_back if self.turn is None or watermark > self.turn[0] else self.turn[1]

    def expiry_at(self, watermark: int) -> int:
        """Return by which event time rows expire at one of Spark's watermarks (milliseconds), in microseconds."""
        return watermark * 1000 + (self.held_back_at(watermark) if self.behind is None else -self.behind)

    @property
    def drops_late(self) -> bool:
        """Whether units drop rows that are late: those of a stateful operator are not."""
        return any(stream.time is not None and not stream.stateful for stream in self.streams)

    @property
    def has_stateful_input(self) -> bool:
        """Whether a stateful operator, ours or Spark's, makes rows of an input."""
        return any(stream.stateful for stream in self.streams)

    @property
    def bounded(self) -> bool:
        """Whether no stream's rows are kept for ever."""
        return all(self.keep_for(rank) is not None for rank in range(len(self.streams)))
