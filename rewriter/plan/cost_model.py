"""The numbers of a join group that costs are made of: rates, kept rows, shares of pairs that match.

Costs follow 002's equation 1: the rows that an operator sends are, over all inputs, the partial results along its probe
order, each times the units that it goes to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

#: Units of a stream's group, and cells of a matrix, where nothing sets them.
DEFAULT_UNITS = 2


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
    """

    relations: tuple[str, ...]
    rates: tuple[float, ...]
    kept: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    units: int
    equal: frozenset[tuple[int, int]] = frozenset()
    implied: Mapping[tuple[int, int], float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many relations there are."""
        return len(self.relations)

    def linked(self, one: int, other: int) -> bool:
        """Tell whether predicates join two relations."""
        return self.shares[one][other] < 1.0 or (min(one, other), max(one, other)) in self.implied

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
        grown = {one: growth(model, done, frozenset((one,))) for one in sorted(rest)}
        nearest = min(grown, key=lambda one: (grown[one], one))
        yield nearest, grown[nearest]
        done |= {nearest}
        rest.remove(nearest)


def probing(model: Model) -> float:
    """Return the comparisons a second of rows that probe stream after stream."""
    total = 0.0
    for start, rate in enumerate(model.rates):
        for nearest, factor in probe_order(model, start):
            total += rate * search(model.kept[nearest])
            rate *= factor
        total += rate
    return total


def search(rows: float) -> float:
    """Return the comparisons of a search among rows."""
    return math.log2(max(rows, 1.0) + 1.0)


def matches(model: Model, one: int, other: int) -> float:
    """Return how many kept rows of another relation a row of one matches."""
    return growth(model, frozenset((one,)), frozenset((other,)))
