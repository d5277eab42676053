"""The grid of a `matrix` join: its dimensions, and how many shares each has (Shares, n-dimensional join-matrix).

One derivation for three readers: the cost model estimates this grid, the operators run it, EXPLAIN shows it. Whether a
class of equal expressions can be hashed depends on types that not all of them know, so it is a parameter. Rates are
not a parameter: a checkpoint stores rows by the grid, and rates may be declared later.

Standard library only, as `plan`: the operators import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import comb, prod

from .conjuncts import Compare
from .parts import Dimension, JoinGraph
from .schemes import RECORDS

#: All ways to share out the cells are tried up to this number, which takes a third of a second.
_TRIED = 50_000

#: A class of equal expressions: ``(alias, expression)`` for each relation with such an expression, in plan order.
KeyClass = tuple[tuple[str, str], ...]


def lay_out(
    graph: JoinGraph, cells: int, can_hash: Callable[[KeyClass], bool], tested: Iterable[str] = ()
) -> tuple[Dimension, ...]:
    """Return a hashed dimension for every class of equal expressions, and a spread one for every other relation.

    Parameters
    ----------
    graph
        The join graph of the group.
    cells
        How many cells there are.
    can_hash
        Whether values of a class that are equal have equal hashes.
    tested
        The relations each of whose rows must be in one cell: no dimension that they lack is divided.

    Returns
    -------
    The dimensions, whose shares multiply to ``cells``, or to 1 where no dimension may be divided. Among the grids with
    the fewest stored copies, it is one whose cells find the fewest pairs twice: a chain is cut at its hub.
    """
    classes = [members for members in key_classes(graph) if can_hash(members)]
    axes: list[tuple[tuple[str, ...], KeyClass | None]] = [(tuple(dict(members)), members) for members in classes]
    hashed = {alias for relations, _ in axes for alias in relations}
    axes += [((alias,), None) for alias in graph.relations if alias not in hashed]
    places = {
        alias: frozenset(axis for axis, (relations, _) in enumerate(axes) if alias in relations)
        for alias in graph.relations
    }
    pairs = [places[edge.left] | places[edge.right] for edge in graph.edges]
    divided = [axis for axis, (relations, _) in enumerate(axes) if set(tested) <= set(relations)]
    shares = [1] * len(axes)
    if divided:
        at = {axis: number for number, axis in enumerate(divided)}
        among = [frozenset(at[axis] for axis in some if axis in at) for some in (*places.values(), *pairs)]
        found = _shares(cells, len(divided), among[: len(places)], among[len(places) :])
        for axis, share in zip(divided, found, strict=True):
            shares[axis] = share
    return tuple(dimension(*axis, share) for axis, share in zip(axes, shares, strict=True))


def dimension(relations: tuple[str, ...], key: KeyClass | None, shares: int) -> Dimension:
    """Return a dimension; the class that rows are hashed by is over its relations, in their order."""
    return Dimension(relations, None if key is None else tuple(text for _, text in key), shares)


def key_classes(graph: JoinGraph) -> list[KeyClass]:
    """Return the classes of expressions that equalities make equal, one expression a relation."""
    classes: list[set[tuple[str, str]]] = []
    for edge in graph.edges:
        for predicate in edge.predicates:
            if isinstance(predicate, Compare) and predicate.kind == "equi":
                equal = {(edge.left, predicate.left.sql), (edge.right, predicate.right.sql)}
                touching = [known for known in classes if known & equal]
                classes = [known for known in classes if not known & equal] + [equal.union(*touching)]
    found = []
    for members in sorted(map(sorted, classes)):
        first = dict(reversed(members))
        found.append(tuple((alias, first[alias]) for alias in graph.relations if alias in first))
    return found


def common_key(graph: JoinGraph, can_hash: Callable[[KeyClass], bool]) -> KeyClass | None:
    """Return the first class that has an expression of every relation, None if there is none."""
    keys = (members for members in key_classes(graph) if len(members) == len(graph.relations) and can_hash(members))
    return next(keys, None)


def goes_by_key(scheme: str, routing: str | None) -> bool:
    """Tell whether a scheme sends a row only to the units that a key selects, if all relations share that key."""
    return RECORDS[scheme].routed and routing != "random"


def is_elastic(scheme: str, *, by_key: bool) -> bool:
    """Tell whether the units of a scheme may change at a restart: each row goes to all units of the other groups."""
    return RECORDS[scheme].elastic and not by_key


def _shares(cells: int, count: int, rows: list[frozenset[int]], pairs: list[frozenset[int]]) -> tuple[int, ...]:
    """Return how many shares each dimension has; ``rows`` and ``pairs`` list the dimensions of each."""
    factors = _prime_factors(cells)
    if prod(comb(factors.count(prime) + count - 1, count - 1) for prime in set(factors)) <= _TRIED:
        return _best(_factorings(cells, count), rows, pairs)
    shares = (1,) * count  # factor by factor, each where it costs least
    for factor in reversed(factors):
        split = [(*shares[:axis], shares[axis] * factor, *shares[axis + 1 :]) for axis in range(count)]
        shares = _best(split, rows, pairs)
    return shares


def _best(
    candidates: Iterable[tuple[int, ...]], rows: list[frozenset[int]], pairs: list[frozenset[int]]
) -> tuple[int, ...]:
    """Return the shares with the fewest copies of rows, and among these with the fewest copies of pairs."""
    return min(_fewest(_fewest(candidates, rows), pairs))


def _fewest(candidates: Iterable[tuple[int, ...]], placed: list[frozenset[int]]) -> list[tuple[int, ...]]:
    """Return the shares under which things with a place along some dimensions are in the fewest cells."""
    found: list[tuple[int, ...]] = []
    fewest = None
    for shares in candidates:
        cells = prod(shares)
        copies = sum(cells // prod(shares[axis] for axis in axes) for axes in placed)
        if fewest is None or copies < fewest:
            fewest, found = copies, []
        if copies == fewest:
            found.append(shares)
    return found


def _prime_factors(number: int) -> list[int]:
    factors, factor = [], 2
    while factor * factor <= number:
        if number % factor:
            factor += 1
            continue
        factors.append(factor)
        number //= factor
    return [*factors, number] if number > 1 else factors


def _factorings(cells: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number of cells as a product of ``count`` factors."""
    if count == 1:
        yield (cells,)
        return
    for share in (share for share in range(1, cells + 1) if cells % share == 0):
        for rest in _factorings(cells // share, count - 1):
            yield (share, *rest)
