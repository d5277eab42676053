"""The numbers of a join group that costs are made of: rates, kept rows, shares of pairs that match.

Costs follow 002's equation 1, but count what the slots do: a row crosses the shuffle once for each slot, not once for
each group of units; a store is searched, and the candidates that its index finds are compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Protocol

#: Units of a stream's group, and cells of a matrix, where nothing sets them.
DEFAULT_UNITS = 2

#: Rows that have expired go an archive period at a time, of which a window has eight: half a period too late.
OVERDUE = 1 / 16

#: Results of an inner join, some of whose rows are nearly as old as the window, lie in pieces as wide as it is, and are
#: there for longer by this share of it.
WIDE = 0.45

#: Into how many cells as wide as itself a band reaches, on average: of integers |a - b| < 2 into 5/3, of wider ones
#: into nearly two.
CELLS = 1.7

#: Partial results that share a row are searched for together, if a segment has as many of them a row as the first of
#: these. Segments of a window, and of a history: of the latter most rows lie in the largest one.
TOGETHER, IN_WINDOW, IN_HISTORY = 1.5, 10.0, 2.0

#: Edges whose shares differ by no more than this factor are about equally selective.
ALIKE = 2.0


@dataclass(frozen=True, eq=False)  # sizes are cached by model: hashing its numbers costs more
class Model:
    """The numbers of one group.

    Parameters
    ----------
    relations, rates, kept
        Per relation: its name, its rows a second, the rows that are kept.
    shares
        Per pair: the share of pairs that the user's own predicates let match.
    units
        Units of a stream's group, or cells.
    equal, implied
        Pairs with an equality that the user wrote; shares of pairs that match by an equality derived from others.
        The latter count where the others do not: with ``r.k = s.k`` and ``s.k = t.k``, in the join of ``r`` and ``t``.
    bounded
        Whether all rows expire. Else the kept rows are a history that grows.
    checked
        Pairs between which units evaluate predicates, derived ones too.
    bands
        Pairs with a band that narrows a search. Two bands are searched together, by cells of one of them.
    searched
        Of pairs of joined rows, which several edges join: what a search finds (`found`).
    """

    relations: tuple[str, ...]
    rates: tuple[float, ...]
    kept: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    units: int
    equal: frozenset[tuple[int, int]] = frozenset()
    implied: Mapping[tuple[int, int], float] = field(default_factory=dict)
    bounded: bool = False
    checked: frozenset[tuple[int, int]] = frozenset()
    bands: frozenset[tuple[int, int]] = frozenset()
    searched: Mapping[tuple[int, int], tuple[float, float]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many relations there are."""
        return len(self.relations)

    def linked(self, one: int, other: int) -> bool:
        """Tell whether predicates join two relations."""
        return self.shares[one][other] < 1.0 or (min(one, other), max(one, other)) in self.implied

    def checks(self, one: int, other: int) -> bool:
        """Tell whether units evaluate predicates on rows of two relations."""
        return self.linked(one, other) or (min(one, other), max(one, other)) in self.checked

    def share(self, one: int, other: int) -> float:
        """Return the share of pairs of two relations that match."""
        return self.shares[one][other] * self.implied.get((min(one, other), max(one, other)), 1.0)

    def found(self, some: Collection[int], others: Collection[int]) -> tuple[float, float]:
        """Return what a search for joined rows of some among those of others finds, and in how many places it looks.

        The first is the share of these rows that the index finds: of the most selective edge, or of two bands, one of
        which is searched by cells as wide as it is.
        """
        pairs = [(one, other) for one in some for other in others]
        shares = sorted(self.share(*pair) for pair in pairs)
        banded = sorted(self.share(*pair) for pair in pairs if (min(pair), max(pair)) in self.bands)
        if len(banded) < 2 or CELLS * banded[0] * banded[1] > shares[0]:
            return shares[0], 1.0
        return CELLS * banded[0] * banded[1], CELLS

    def stored(self, one: int) -> float:
        """Return how many rows of a relation are stored."""
        return self.kept[one] * (1 + OVERDUE * self.bounded)

    def size(self, members: frozenset[int]) -> float:
        """Return how many rows the join of all kept rows of some relations has."""
        return _size(self, members)

    def rate(self, members: frozenset[int]) -> float:
        """Return how many rows a second the join of some relations gets."""
        return sum(self.rates[one] * self.size(members) / max(self.kept[one], 1.0) for one in sorted(members))


@lru_cache(maxsize=4096)
def _size(model: Model, members: frozenset[int]) -> float:
    size = math.prod(model.kept[one] for one in sorted(members))
    size *= math.prod([model.shares[one][other] for one, other in combinations(sorted(members), 2)])
    joined = list(range(model.count))  # by equalities, which follow from one another inside a part
    for one, other in (*model.equal, *model.implied) if model.implied else ():
        if one in members and other in members and joined[one] != joined[other]:
            size *= model.implied.get((one, other), 1.0)
            joined = [joined[one] if part == joined[other] else part for part in joined]
    return size


def growth(model: Model, done: frozenset[int], part: frozenset[int]) -> float:
    """Return by what factor partial results over some relations grow when further ones are joined."""
    return model.size(done | part) / max(model.size(done), 1e-9)


def probe_order(model: Model, start: int) -> Iterator[tuple[int, float]]:
    """Yield the other relations in the order in which a row of one probes them (002 section 4.1, local join order).

    Each time it is the one that makes the fewest partial results, and by what factor their number grows.
    """
    done, rest = frozenset((start,)), set(range(model.count)) - {start}
    while rest:
        factor, nearest = min([(growth(model, done, frozenset((one,))), one) for one in rest])
        yield nearest, factor
        done |= {nearest}
        rest.remove(nearest)


def source_of(model: Model, joined: Sequence[int], target: int) -> int:
    """Return by which of some joined relations, in their order, partial results search another one.

    Of about equally selective edges it is that of the relation which was joined first: fewer of its rows are different.
    """
    shares = [model.share(one, target) for one in joined]
    most = ALIKE * min(shares)
    return joined[next(at for at, share in enumerate(shares) if share <= most)]


class SharedCells(Protocol):
    """In how many cells of a grid rows meet, on average; in one, where there is one cell."""

    def __call__(self, members: frozenset[int], other: int | None = None, by: int | None = None, /) -> float:
        """Return that of matching rows of some relations, and a row of another that matches the one of ``by`` alone."""
        ...


def probing(model: Model, shared_cells: SharedCells = lambda *_: 1.0, cells: int = 1) -> float:
    """Return the comparisons a second of rows that probe stream after stream, in all cells of a grid.

    Of the edges with what has been joined one finds the candidates (`source_of`), on which the others are evaluated.
    """
    total = 0.0
    for start, rate in enumerate(model.rates):
        done = frozenset((start,))
        arriving = partial = rate * shared_cells(done)
        joined = [start]
        for target, factor in probe_order(model, start):
            source = source_of(model, joined, target)
            more = done | {target}
            spread = shared_cells(more) / shared_cells(done)
            searched = searches(model, arriving, partial) if source == start else partial
            near = shared_cells(done, target, source) / shared_cells(done)
            found = model.stored(target) * model.share(source, target) * near
            inside = model.stored(target) * shared_cells(frozenset((target,))) / cells
            total += searched * (search(inside) + found)
            expanded = partial * found
            for one in joined:
                if one != source and model.checks(one, target):
                    total += expanded
                    expanded *= model.share(one, target)
            partial *= factor * spread
            joined.append(target)
            done = more
    return total


def searches(model: Model, arriving: float, partial: float) -> float:
    """Return for how many rows is searched, if partial results are joined by the rows that they began with."""
    if partial < TOGETHER * (IN_WINDOW if model.bounded else IN_HISTORY) * arriving:
        return partial
    return arriving * -math.expm1(-partial / max(arriving, 1e-9))


def search(rows: float) -> float:
    """Return the comparisons of a search among rows."""
    return math.log2(max(rows, 1.0) + 1.0)


def matches(model: Model, one: int, other: int) -> float:
    """Return how many kept rows of another relation a row of one matches."""
    return growth(model, frozenset((one,)), frozenset((other,)))
