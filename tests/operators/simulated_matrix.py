"""`iterative` and `matrix` in the manner of `simulation`: probing stream after stream, in the cells of a grid."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from .simulation import (
    Context,
    Delta,
    Output,
    Part,
    Query,
    Scheme,
    Unit,
    UnitName,
    Values,
    join,
)


class IterativeUnit(Unit):
    """Store all inputs; a row is probed through them one after the other, until nothing is left."""

    def __init__(self, scheme: Scheme) -> None:
        super().__init__("", scheme)
        self.inputs: dict[str, list[Part]] = {name: [] for name in scheme.ranks}

    def take(self, name: str, part: Part) -> Iterator[Part]:
        found = [part]
        for other, stored in self.inputs.items():
            if other != name:
                found = [join(p, q) for p in found for q in stored if self.context.match(p, q)]
            if not found:
                break
        self.inputs[name].append(part)
        self.stored.append(part)
        yield from found


class Dimension(NamedTuple):
    """A side of the grid: for a class of equal columns their numbers by stream, or one stream in no class."""

    size: int
    columns: Mapping[str, int] | None = None
    stream: str | None = None

    def along(self, name: str, part: Part) -> Iterable[int]:
        """Return the coordinates that a row goes to: one where it has a say, all of them where it has none."""
        if self.columns and name in self.columns:
            return [hash(part[0].values[self.columns[name]]) % self.size]
        if self.stream == name:
            return [sum(row.place for row in part) % self.size]
        return range(self.size)


class Matrix(Scheme):
    """A Shares grid with `iterative` in each cell; without dimensions it is `iterative` alone."""

    def __init__(
        self,
        ranks: Sequence[str],
        context: Context,
        dimensions: Sequence[Dimension] = (),
        unit: Callable[[Scheme], Unit] = IterativeUnit,
    ) -> None:
        super().__init__(ranks, context)
        self.dimensions = dimensions
        self.cells = {cell: unit(self) for cell in product(*(range(d.size) for d in dimensions))}

    def batch(self, delta: Delta) -> list[Output]:
        inboxes: dict[Values, dict[str, list[Part]]] = {cell: {} for cell in self.cells}
        for name, parts in self.mine(delta):
            for part in parts:
                for cell in product(*(d.along(name, part) for d in self.dimensions)):
                    inboxes[cell].setdefault(name, []).append(part)
                    self.context.counts["stored"] += 1
                    self.context.counts["shuffled"] += 1
        return [
            Output(part, ("cell", *cell))
            for cell, unit in self.cells.items()
            for part in unit.work(inboxes[cell], self.ranks)
        ]

    def homes(self) -> dict[Part, list[UnitName]]:
        homes: dict[Part, list[UnitName]] = {}
        for cell, unit in self.cells.items():
            for part in unit.stored:
                homes.setdefault(part, []).append(("cell", *cell))
        return homes


def iterative_delta(
    ranks: Sequence[str],
    query: Query,
    before: Delta,
    delta: Delta,
    with_batch: Callable[[int, int], bool] = lambda j, i: j < i,
) -> list[Part]:
    """Return dR = the sum over i of S1* .. S(i-1)* dSi S(i+1) .. Sn, where * means: with this batch."""
    results = []
    for i, name in enumerate(ranks):
        found: list[Part] = [()]
        for j, other in enumerate(ranks):
            if other == name:
                side = list(delta.get(name, ()))
            else:
                side = [*before.get(other, ()), *(delta.get(other, ()) if with_batch(j, i) else ())]
            found = [join(p, q) for p in found for q in side if query.match(p, q)]
        results += found
    return results
