"""The grid of the matrix scheme: its dimensions, and which streams have them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from .document import Group, Json

_QUALIFIED = r"\s*((?:`(?:[^`]|``)*`|\w+)\.(?:`(?:[^`]|``)*`|\w+))\s*"
_EQUALITY = re.compile(rf"{_QUALIFIED}(?:=|<=>){_QUALIFIED}\Z")
_DIMENSION = re.compile(r"\s*(.+?)\s*[:=x×]\s*(\d+)\s*\Z")


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of the grid; rows of the ``streams`` have a place along it, all others are copied along it."""

    name: str
    size: int
    streams: tuple[str, ...]
    hashed: bool


def dimensions(group: Group) -> tuple[tuple[Dimension, ...], bool]:
    """Return the dimensions of a group's grid, and whether their sizes are those of the decision.

    The decision's option ``dimensions`` is read where there is one, as ``"k:4, t:2"`` or as a list of objects with
    ``name``, ``size`` and ``streams``. Otherwise the dimensions follow from the join graph: one for each class of equal
    columns, one for each stream that is in no class; their sizes are then an example with about the right product.
    """
    derived = _derived(group)
    given = _given(group.option("dimensions"))
    if given and all(streams for _, _, streams in given):
        hashed = {name for name, _, is_hashed in derived if is_hashed}
        return tuple(
            Dimension(name, size, streams, name in hashed or len(streams) > 1) for name, size, streams in given
        ), True
    if given and len(given) == len(derived):
        pairs = zip(given, derived, strict=True)
        return tuple(Dimension(name, size, streams, hashed) for (name, size, _), (_, streams, hashed) in pairs), True
    sizes = _factors(group.units or 4, len(derived))
    pairs_of_sizes = zip(derived, sizes, strict=True)
    return tuple(Dimension(name, size, streams, hashed) for (name, streams, hashed), size in pairs_of_sizes), False


def _given(option: Json) -> list[tuple[str, int, tuple[str, ...]]]:
    items: list[Json] = (
        list(option.split(",")) if isinstance(option, str) else option if isinstance(option, list) else []
    )
    found: list[tuple[str, int, tuple[str, ...]]] = []
    for item in items:
        match item:
            case {"name": str(name), "size": int(size), **rest}:
                streams = rest.get("streams")
                found.append((name, size, tuple(str(s) for s in streams) if isinstance(streams, list) else ()))
            case str() if dimension := _DIMENSION.match(item):
                found.append((dimension[1], int(dimension[2]), ()))
            case _:
                return []
    return [(name, max(size, 1), streams) for name, size, streams in found]


def _derived(group: Group) -> list[tuple[str, tuple[str, ...], bool]]:
    classes: list[set[str]] = []
    owner: dict[str, str] = {}
    for edge in group.edges:
        for predicate in edge.predicates:
            equality = _EQUALITY.match(predicate.sql) if predicate.kind in ("equi", "null_safe") else None
            if not equality:
                continue
            pair = {column.replace("`", "") for column in equality.groups()}
            for column in pair:
                owner[column] = column.rpartition(".")[0]
            touched = [members for members in classes if members & pair]
            classes = [members for members in classes if not members & pair]
            classes.append(pair.union(*touched))
    rank = {alias: i for i, alias in enumerate(group.relations)}
    found: list[tuple[str, tuple[str, ...], bool]] = []
    for members in classes:
        streams = {owner[column] for column in members} & set(rank)
        ordered = tuple(sorted(streams, key=rank.__getitem__))
        names = sorted({column.rpartition(".")[2] for column in members})
        found.append((" = ".join(names), ordered, True))
    found.sort(key=lambda item: (min((rank[alias] for alias in item[1]), default=0), item[0]))
    placed = {alias for _, streams, _ in found for alias in streams}
    return found + [(alias, (alias,), False) for alias in group.relations if alias not in placed]


def _factors(product: int, count: int) -> list[int]:
    """Return ``count`` numbers, as equal as they can be, with that product."""
    sizes = []
    for left in range(count, 0, -1):
        ideal = product ** (1 / left)
        size = next(n for n in range(math.ceil(ideal - 1e-9), product + 1) if product % n == 0) if left > 1 else product
        sizes.append(size)
        product //= size
    return sizes
