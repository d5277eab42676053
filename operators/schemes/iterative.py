"""Iterative probing (UMJoin, 004 section 3.1.1): n streams in one unit, no stored intermediates.

An arriving tuple probes the stored rows of one other stream after the other and stops as soon as nothing is left. With
rows handled rank by rank the results of a batch are ``sum over i of S1* .. S(i-1)* dSi S(i+1) .. Sn`` (004 equation 3;
a star is a stream with this batch's rows), which is every result exactly once.

The units of `biclique` and the cells of `matrix` work this way too; only who stores which row differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..checks import Check
from ..kernels.order_keys import Int64s
from ..kernels.pairs import expand, fulfilling
from ..kernels.sorting import sort_keys
from ..results.bundle import Bundle, Part
from ..results.outcomes import Outcome, joined
from ..spec import JoinSpec
from ..store.index import Probe
from ..store.probe_plan import ProbePlan, plan_probe
from ..store.segment import Lifetime, Segment
from ..store.store import Store, taking
from .base import Scheme, Work, gathered, kept, owned
from .routing import TO_GROUPS, shape_of

_T = TypeVar("_T")

#: Rows of a batch that were chosen this many times in the mean are searched for once each.
_APART = 1.5

#: Rows probe in another order than planned if that leads to less than this share of the rows next; and from how many
#: counted pairs on.
_FEWER, _TOLD = 0.5, 1000

#: Pairs that these are listed as at a time: what is in the processor's cache is checked, and put out, faster.
_LISTED = 1 << 16


class Chosen(NamedTuple):
    """Some rows of a batch: their numbers, shape (k,), None for all of them; and the id of its first row, if stored."""

    rows: pa.RecordBatch
    at: npt.NDArray[np.integer[Any]] | None = None
    start: int = 0

    @property
    def ids(self) -> Int64s:
        """The ids of stored rows, shape (k,)."""
        assert self.at is not None
        return self.at.astype(np.int64) + self.start

    @property
    def part(self) -> Part:
        """They as a part of results."""
        return Part(self.rows, self.at)

    def of(self, some: Int64s) -> Chosen:
        """Return some of them."""
        return Chosen(self.rows, some if self.at is None else self.at[some], self.start)

    def take(self, columns: Sequence[str]) -> pa.RecordBatch:
        """Return some columns of them."""
        needed = self.rows.select(list(columns))
        return needed if self.at is None else needed.take(pa.array(self.at))


@dataclass(frozen=True, slots=True)
class Step:
    """One probe of the iteration: from the joined stream ``source`` into the stored stream ``target``.

    ``others`` are the checks of the further edges between joined streams and the target, as ``(source, check)``.
    """

    source: int
    target: int
    plan: ProbePlan
    others: tuple[tuple[int, Check], ...]

    @property
    def is_decided(self) -> bool:
        """Whether the index alone says which rows of the target match, where no difference can overflow."""
        return not (self.others or self.plan.narrow_checks or self.plan.others)


def probe_steps(spec: JoinSpec, arriving: int, among: Sequence[int] = ()) -> tuple[Step, ...]:
    """Return how an arriving tuple probes the other streams, or those among some, in the order that the rewriter chose.

    Of the edges with streams that it has joined before, the one that the rewriter chose finds the candidates, else that
    with the most selective index; of several such edges that of the stream which was joined first, as fewer of its rows
    are different.
    """
    others = tuple(rank for rank in range(len(spec.streams)) if rank != arriving)
    order = spec.options.probes[arriving] if spec.options.probes else others
    sources = dict(zip(order, spec.options.sources[arriving], strict=True)) if spec.options.sources else {}
    joined, steps = [arriving], []
    for target in order:
        if among and target not in among:
            continue
        source = sources.get(target, -1)
        if source not in joined:
            source = min(joined, key=lambda one: plan_probe(spec.edge(one, target)).breadth)
        steps.append(_step(spec, joined, source, target))
        joined.append(target)
    return tuple(steps)


def _fewest(choices: Sequence[_T], of: Callable[[_T], float | None]) -> _T:
    """Return the first of some choices, unless another one is known to lead to far less than that."""
    known = [(number, one) for one in choices if (number := of(one)) is not None]
    first, (least, best) = of(choices[0]), min(known, key=lambda one: one[0], default=(0.0, choices[0]))
    return best if first is not None and least < _FEWER * first else choices[0]


def _step(spec: JoinSpec, joined: Sequence[int], source: int, target: int) -> Step:
    checks = tuple((one, check) for one in joined if one != source for check in spec.edge(one, target).checks)
    return Step(source, target, plan_probe(spec.edge(source, target)), checks)


def parts(spec: JoinSpec, one: int, other: int) -> int:
    """Return in how many parts of the slots rows of two streams lie, of which only those in the same part meet."""
    if spec.scheme != "matrix":
        return spec.subgroups or spec.units
    shape, axes = shape_of(spec), (dict(spec.streams[rank].dimensions) for rank in (one, other))
    shared = [shape[axis] for axis in next(axes).keys() & next(axes).keys()]
    return prod(shared + [ranges.shares for ranges in spec.options.ranges if {one, other} <= ranges.ranks])


class IterativeUnit:
    """Stored rows of all streams of a join, probed one after the other.

    Parameters
    ----------
    spec
        The join.
    whole
        Whether results have all columns of their rows, not just those of the output.
    only
        The stream whose rows are stored here, None if all are.
    orders
        By rank: the steps by which rows probe the others, those of `probe_steps` unless given.
    """

    def __init__(
        self,
        spec: JoinSpec,
        *,
        whole: bool = False,
        only: int | None = None,
        orders: Mapping[int, tuple[Step, ...]] | None = None,
    ) -> None:
        self.spec = spec
        self.listed = [stream.columns if whole else stream.listed for stream in spec.streams]
        self.orders = orders or {rank: probe_steps(spec, rank) for rank in range(len(spec.streams))}
        self.stored: dict[int, Store] = {}
        for rank, stream in enumerate(spec.streams):
            if only not in (None, rank):
                continue
            plans = [step.plan for order in self.orders.values() for step in order if step.target == rank]
            life = Lifetime(stream.time, spec.keep_for(rank))
            self.stored[rank] = Store(stream.alias, [order for plan in plans for order in plan.sort_orders], life)
        self.counters: Counter[str] = Counter()

    def arrive(self, rank: int, rows: pa.RecordBatch) -> Iterator[Outcome]:
        """Join arriving rows with everything stored."""
        yield from self.probe(self.steps(rank), {rank: Chosen(rows)})

    def steps(self, rank: int) -> tuple[Step, ...]:
        """Return how rows probe now: as planned, unless counts say that another step leads to far fewer rows.

        Each step searches an index that there is anyway. What was declared is kept.
        """
        planned, joined, steps = list(self.orders[rank]), [rank], list[Step]()
        if len(planned) < 2 or self.spec.options.sources:
            return self.orders[rank]
        while planned:
            ready = [step for step in planned if step.source in joined]
            step = _fewest(ready, lambda one: self._partners(joined, one.target))
            planned.remove(step)
            others = [one for one in joined if self._has_index(one, step.target)]
            source = _fewest([step.source, *others], partial(self._share, step.target))
            steps.append(_step(self.spec, joined, source, step.target))
            joined.append(step.target)
        return tuple(steps)

    def _has_index(self, source: int, target: int) -> bool:
        orders = plan_probe(self.spec.edge(source, target)).sort_orders
        return {order.key for order in orders} <= self.stored[target].sort_orders.keys()

    def _partners(self, joined: Sequence[int], target: int) -> float | None:
        """Return how many rows of a stream a partial result finds, None if none of its edges has been counted."""
        shares = [share for one in joined if (share := self._share(one, target)) is not None]
        return prod(shares) * len(self.stored[target]) if shares else None

    def _share(self, one: int, other: int) -> float | None:
        """Return which share of the pairs of two streams was found to match, None if too few pairs were there."""
        edge = self._edge(one, other)
        pairs = self.counters[f"{edge} pairs"]
        return self.counters[f"{edge} found"] / pairs if pairs >= _TOLD else None

    def keep(self, rank: int, rows: pa.RecordBatch) -> Int64s:
        """Store rows of one stream, and return their ids."""
        self.counters["stored"] += rows.num_rows
        return self.stored[rank].append(rows)

    def probe(self, steps: tuple[Step, ...], chosen: dict[int, Chosen]) -> Iterator[Outcome]:
        """Go on from partial results (some rows of each joined stream), depth first, a block at a time."""
        if not steps:
            yield from joined({rank: some.part for rank, some in chosen.items()}, self.listed)
            return
        step, rest = steps[0], steps[1:]
        if self.spec.aggregate is not None and not rest and step.is_decided:
            probe = Probe(step.plan, chosen[step.source].take(self.columns_of(step)))
            self._looked(step, probe.rows.num_rows)
            for mine, segment, order, begin, end in self.stored[step.target].ranges(probe):
                self._found(step, int((end - begin).sum()))
                parts = {other: some.of(mine).part for other, some in chosen.items()}
                yield Bundle(parts, step.target, segment.rows, order, begin, end)
            return
        for further in self.further(step, chosen):
            yield from self.probe(rest, further)

    def further(self, step: Step, chosen: dict[int, Chosen]) -> Iterator[dict[int, Chosen]]:
        """Join partial results with the rows of one more stream."""
        for mine, segment, theirs in self.matches(step, chosen[step.source]):
            for source, check in step.others:
                if not len(mine):
                    break
                self.counters["comparisons"] += len(mine)
                few = chosen[source].of(mine)
                keep = fulfilling(check, taking(few.rows, few.at), taking(segment.rows, theirs), len(mine))
                mine, theirs = mine[keep], theirs[keep]
            if len(mine):
                further = {other: some.of(mine) for other, some in chosen.items()}
                further[step.target] = Chosen(segment.rows, theirs, segment.start)
                yield further

    def columns_of(self, step: Step) -> Sequence[str]:
        """Return the columns with which a step searches.

        A row that probes must not vanish with its columns: an edge without predicates looks at none.
        """
        return step.plan.columns or self.spec.streams[step.source].columns[:1]

    def matches(self, step: Step, source: Chosen) -> Iterator[tuple[Int64s, Segment, npt.NDArray[np.int32]]]:
        """Yield which partial results match which rows of the target, as `Store.probe` does.

        Where several partial results have the same row of the source it is searched for once, and the rows that it
        finds are listed for each of them.
        """
        store, columns = self.stored[step.target], self.columns_of(step)
        groups = _groups(source)
        if groups is None:
            rows = source.take(columns)
            self._looked(step, rows.num_rows)
            for found in store.probe(Probe(step.plan, rows)):
                self._found(step, len(found[0]))
                yield found
            return
        used, order, begin, end = groups
        self._looked(step, len(used))
        for mine, segment, theirs in store.probe(Probe(step.plan, Chosen(source.rows, used).take(columns))):
            self._found(step, len(mine))
            for match, position in expand(begin[mine], end[mine], _LISTED):
                yield position if order is None else order[position], segment, theirs[match]

    def _looked(self, step: Step, rows: int) -> None:
        """Count the pairs that different rows of the source make with all stored rows of the target, met or not."""
        apart = parts(self.spec, step.source, step.target)
        self.counters[f"{self._edge(step.source, step.target)} pairs"] += rows * len(self.stored[step.target]) * apart

    def _found(self, step: Step, matches: int) -> None:
        """Count those of them that match."""
        self.counters[f"{self._edge(step.source, step.target)} found"] += matches

    def _edge(self, one: int, other: int) -> str:
        return " ".join(self.spec.streams[rank].alias for rank in sorted((one, other)))


def _groups(chosen: Chosen) -> tuple[Int64s, Int64s | None, Int64s, Int64s] | None:
    """Put rows that were chosen several times together, None if that are too few.

    Returns
    -------
    The different rows, shape (n,); an order of all, None for as they are; where in it each row begins and ends.
    """
    rows, numbers = chosen.rows, chosen.at
    if numbers is None or _APART * rows.num_rows > len(numbers):
        return None
    at = numbers.astype(np.int64, copy=False)
    counts = np.bincount(at, minlength=rows.num_rows)
    used = np.flatnonzero(counts)
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    if len(starts) == len(used):  # they are together already
        return at[starts], None, starts, np.append(starts[1:], len(at))
    order, _ = sort_keys(at)
    end = np.cumsum(counts[used])
    return used, order, end - counts[used], end


class IterativeSlot:
    """One unit of every group, or one cell.

    Parameters
    ----------
    stores_all
        True where dispatch sends a row only to the slots that store it (``matrix``); False where rows are broadcast, to
        all units or to those of a subgroup, and each slot keeps its own.
    """

    forwards: frozenset[int] = frozenset()

    def __init__(self, spec: JoinSpec, slot: int, *, stores_all: bool) -> None:
        self.spec, self.slot, self.stores_all = spec, slot, stores_all
        self.unit = IterativeUnit(spec)
        self.counters = self.unit.counters
        self.stores = {store.name: store for store in self.unit.stored.values()}

    def process(self, work: Work) -> Iterator[Outcome]:
        """Handle one micro-batch."""
        for rank in range(len(self.spec.streams)):
            for rows in gathered(work.rows.pop(rank, ())):
                yield from self.unit.arrive(rank, rows)
                mine = kept(self.spec, rank, rows) if self.stores_all else owned(self.spec, rank, rows, self.slot)
                self.unit.keep(rank, mine)
                del rows, mine  # the next rows are not in memory beside these


#: The cells of a grid run it too: see `matrix`.
SCHEMES = {"biclique": Scheme(TO_GROUPS, lambda _: (partial(IterativeSlot, stores_all=False),))}
