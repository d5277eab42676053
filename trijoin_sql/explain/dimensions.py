"""The grid of the matrix scheme: its dimensions, and which streams have them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from .document import Group
from .sql_text import equality_sides, mentions

_ALL_FACTORINGS = 256


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of the grid; rows of the ``streams`` have a place along it, all others are copied along it."""

    name: str
    size: int
    streams: tuple[str, ...]
    hashed: bool


def dimensions(group: Group) -> tuple[Dimension, ...]:
    """Return the dimensions of a group's grid as the join graph suggests them.

    One for each class of equal columns or expressions, one for each stream that is in no class; of the sizes whose
    product is the number of cells, those that copy the fewest rows at equal rates. (The operators know the columns'
    types besides: a class whose values they cannot hash has no dimension there.)
    """
    derived = _derived(group)
    have = [{i for i, (_, streams, _) in enumerate(derived) if alias in streams} for alias in group.relations]
    sizes = _sizes(group.units or 4, have, len(derived))
    placed = zip(derived, sizes, strict=True)
    return tuple(Dimension(name, size, streams, hashed) for (name, streams, hashed), size in placed)


def _derived(group: Group) -> list[tuple[str, tuple[str, ...], bool]]:
    classes: list[set[tuple[str, str]]] = []
    for edge in group.edges:
        for predicate in edge.predicates:
            sides = equality_sides(predicate.sql) if predicate.kind == "equi" else None
            if sides is None:
                continue
            left, right = sides if mentions(sides[0], edge.left) else (sides[1], sides[0])
            pair = {(edge.left, left), (edge.right, right)}
            touched = [members for members in classes if members & pair]
            classes = [members for members in classes if not members & pair]
            classes.append(pair.union(*touched))
    rank = {alias: i for i, alias in enumerate(group.relations)}
    found: list[tuple[str, tuple[str, ...], bool]] = []
    for members in sorted(classes, key=sorted):
        streams = sorted({alias for alias, _ in members} & set(rank), key=rank.__getitem__)
        names = sorted({_bare(text, alias) for alias, text in members})
        found.append((" = ".join(names), tuple(streams), True))
    placed = {alias for _, streams, _ in found for alias in streams}
    return found + [(alias, (alias,), False) for alias in group.relations if alias not in placed]


def _bare(text: str, alias: str) -> str:
    """Return an expression without the alias in front of its columns."""
    return text.replace("`", "").replace(f"{alias.lower()}.", "")


def _sizes(cells: int, have: list[set[int]], count: int) -> tuple[int, ...]:
    if cells <= _ALL_FACTORINGS and count <= 5:
        return min(_factorings(cells, count), key=lambda sizes: (_copies(sizes, have), sizes))
    sizes = (1,) * count  # too many ways to try them all: factor by factor, each where it copies least
    rest, factor = cells, 2
    while rest > 1:
        while rest % factor:
            factor += 1
        rest //= factor
        options = [tuple(size * (factor if i == at else 1) for i, size in enumerate(sizes)) for at in range(count)]
        sizes = min(options, key=lambda option: (_copies(option, have), option))
    return sizes


def _factorings(cells: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number of cells as a product of ``count`` factors."""
    if count == 1:
        yield (cells,)
        return
    for size in range(1, cells + 1):
        if cells % size == 0:
            for rest in _factorings(cells // size, count - 1):
                yield (size, *rest)


def _copies(sizes: tuple[int, ...], have: list[set[int]]) -> int:
    """Return how often the streams' rows are stored, in total, at equal rates."""
    return sum(math.prod(size for i, size in enumerate(sizes) if i not in mine) for mine in have)
