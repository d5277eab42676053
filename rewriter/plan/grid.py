"""The grid of a `matrix` join: its dimensions, and how many shares each has (Shares, n-dimensional join-matrix).

One derivation for three readers: the cost model estimates this grid, the operators run it, EXPLAIN shows it. Whether a
class of equal expressions can be hashed depends on types that not all of them know, so it is a parameter. Rates are
not a parameter: a checkpoint stores rows by the grid, and rates may be declared later.

Standard library only, as `plan`: the operators import it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import comb, inf, prod

from .comparison import common_type
from .conjuncts import Band, Compare, Predicate
from .decision import Dimension
from .parts import Edge, JoinGraph
from .schemes import RECORDS

#: All ways to share out the cells are tried up to this number, which takes a third of a second.
_TRIED = 50_000

#: A class of equal expressions: ``(alias, expression)`` for each relation with such an expression, in plan order.
KeyClass = tuple[tuple[str, str], ...]


#: A range of a dimension is this many times as wide as its widest band. So one row in so many goes to two ranges.
BREADTH = 8


def lay_out(
    graph: JoinGraph,
    cells: int,
    can_hash: Callable[[KeyClass], bool],
    tested: Iterable[str] = (),
    *,
    ranges: bool = False,
    subgroups: int | None = None,
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
    ranges
        Whether bands are dimensions, too (`range_classes`).
    subgroups
        Cells along the dimensions of ranges, all together. Then rows are also spread, as ContRand does (003 section
        3.2.2): those of a heavy range lie in several cells. None for as many as keep copies few.

    Returns
    -------
    The dimensions, whose shares multiply to ``cells``, or to 1 where no dimension may be divided. Among the grids with
    the fewest stored copies, it is one whose cells find the fewest pairs twice: a chain is cut at its hub.
    """
    classes = [members for members in key_classes(graph) if can_hash(members)]
    axes = [dimension(members, 1) for members in classes]
    axes += [dimension(members, 1, home) for home, members in range_classes(graph, tested)] if ranges else []
    # Partners of a branch come to each cell that a row of the core is in: they have no place of their own.
    placed = set() if subgroups else {alias for axis in axes for alias in axis.relations}
    axes += [Dimension((alias,), None, 1) for alias in graph.core if alias not in placed]
    places = {
        alias: frozenset(number for number, axis in enumerate(axes) if alias in axis.relations)
        for alias in graph.relations
    }
    pairs = [places[edge.left] | places[edge.right] for edge in graph.edges]
    alone = [{axis.home} if axis.home else set(axis.relations) for axis in axes]
    divided = [number for number, relations in enumerate(alone) if set(tested) <= relations]
    shares = [1] * len(axes)
    parts = [(cells, divided)]
    if subgroups:
        by_range = [number for number in divided if axes[number].home]
        rest = [number for number in divided if not axes[number].home]
        parts = [(subgroups, by_range), (max(cells // subgroups, 1), rest)]
    for count, some in parts:
        if not some:
            continue
        at = {axis: number for number, axis in enumerate(some)}
        among = tuple(frozenset(at[axis] for axis in one if axis in at) for one in (*places.values(), *pairs))
        found = _shares(count, len(some), among[: len(places)], among[len(places) :])
        for axis, share in zip(some, found, strict=True):
            shares[axis] = share
    return tuple(replace(axis, shares=share) for axis, share in zip(axes, shares, strict=True))


def dimension(members: KeyClass, shares: int, home: str | None = None) -> Dimension:
    """Return the dimension of a class of expressions: equal ones, or those in bands around one of ``home``."""
    return Dimension(tuple(dict(members)), tuple(text for _, text in members), shares, home)


def is_range(predicate: Predicate) -> bool:
    """Tell whether a predicate is a band with two ends, by which rows can be routed.

    Of event times nearly all that is kept lies in one range. A band of one number of floats is an equality.
    """
    if not isinstance(predicate, Band) or (predicate.derived and not predicate.source):
        return False
    bounds = predicate.bounds
    if bounds.lower is None or bounds.upper is None or bounds.wide or bounds.nan:
        return False
    return not bounds.rounded or 0 < bounds.upper - bounds.lower < inf


def range_classes(graph: JoinGraph, tested: Iterable[str] = ()) -> list[tuple[str, KeyClass]]:
    """Return classes of expressions that are in bands around one expression, as ``(relation of that one, class)``.

    Each edge is in one class at most, and classes have as many relations as possible: with ``|r.x -
    s.x| < 5`` and ``|s.x - t.x| < 5`` there is one, around ``s.x``.

    Parameters
    ----------
    graph
        The join graph.
    tested
        Relations each of whose rows must be in one cell: then no other may be the one in the middle.
    """
    stars: dict[tuple[str, str, object], dict[str, str]] = {}
    for edge in graph.edges:
        for band in edge.predicates:
            if isinstance(band, Band) and is_range(band) and not graph.optional:
                for middle, other in (band.keys, reversed(band.keys)):
                    home = middle.relations[0]
                    if set(tested) <= {home}:
                        found = stars.setdefault((home, middle.sql, common_type(middle.type, other.type)), {})
                        found.setdefault(other.relations[0], other.sql)
    ends = [alias for edge in graph.edges for alias in (edge.left, edge.right)]
    classes: list[tuple[str, KeyClass]] = []
    while stars:
        star = max(stars, key=lambda one: (len(stars[one]), ends.count(one[0])))
        home, others = star[0], stars[star]
        members = {home: star[1], **others}
        classes.append((home, tuple((alias, members[alias]) for alias in graph.relations if alias in members)))
        for one, left in list(stars.items()):
            stars[one] = {
                alias: text
                for alias, text in left.items()
                if not (one[0] == home and alias in others) and not (alias == home and one[0] in others)
            }
        stars = {one: left for one, left in stars.items() if left}
    return classes


def common_range(graph: JoinGraph) -> tuple[str, KeyClass] | None:
    """Return the class of bands that has an expression of every relation, None if there is none."""
    return next((one for one in range_classes(graph) if len(one[1]) == len(graph.relations)), None)


def key_classes(graph: JoinGraph) -> list[KeyClass]:
    """Return the classes of expressions that equalities make equal, one expression a relation."""
    classes: list[set[tuple[str, str]]] = []
    hanging = [edge for edge in graph.edges if not {edge.left, edge.right}.isdisjoint(graph.optional)]
    for edge in graph.edges:
        for predicate in edge.predicates:
            if isinstance(predicate, Compare) and predicate.kind == "equi" and edge not in hanging:
                equal = {(edge.left, predicate.left.sql), (edge.right, predicate.right.sql)}
                touching = [known for known in classes if known & equal]
                classes = [known for known in classes if not known & equal] + [equal.union(*touching)]
    for edge in hanging:
        _hang(classes, edge, graph.optional)
    found = []
    for members in sorted(map(sorted, classes)):
        first = dict(reversed(members))
        found.append(tuple((alias, first[alias]) for alias in graph.relations if alias in first))
    return found


def _hang(classes: list[set[tuple[str, str]]], edge: Edge, optional: Container[str]) -> None:
    """Add the expressions of a branch to the classes of what they equal in the core.

    They make no two of these one: a result may be without a row of the branch.
    """
    for predicate in edge.predicates:
        if isinstance(predicate, Compare) and predicate.kind == "equi":
            sides = [(edge.left, predicate.left.sql), (edge.right, predicate.right.sql)]
            own, anchor = sides if edge.left in optional else reversed(sides)
            known = next((one for one in classes if anchor in one), None)
            if known is None:
                classes.append({anchor, own})
            elif not any(alias == own[0] for alias, _ in known):
                known.add(own)


def common_key(graph: JoinGraph, can_hash: Callable[[KeyClass], bool]) -> KeyClass | None:
    """Return the first class that has an expression of every relation, None if there is none."""
    keys = (members for members in key_classes(graph) if len(members) == len(graph.relations) and can_hash(members))
    return next(keys, None)


def goes_by_key(scheme: str, routing: str | None) -> bool:
    """Tell whether a scheme sends a row only to the units that a key selects, if all relations share that key."""
    return RECORDS[scheme].routed and routing not in ("random", "range")


def is_elastic(scheme: str, routing: str | None, subgroups: int | None) -> bool:
    """Tell whether rows of one layout of a scheme's units meet those of another (see `operators.state.layout`).

    A row of a band has a copy in each range that it touches. Where stages send on what two such rows have found, other
    units would cut the ranges otherwise; the subgroups of a hint stay as they are.
    """
    record = RECORDS[scheme]
    return record.elastic and not (record.sends_on and routing == "range" and not subgroups)


@lru_cache(maxsize=256)  # the nodes of operator trees that are costed are often alike
def _shares(
    cells: int, count: int, rows: tuple[frozenset[int], ...], pairs: tuple[frozenset[int], ...]
) -> tuple[int, ...]:
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
    candidates: Iterable[tuple[int, ...]], rows: Sequence[frozenset[int]], pairs: Sequence[frozenset[int]]
) -> tuple[int, ...]:
    """Return the shares with the fewest copies of rows, and among these with the fewest copies of pairs."""
    return min(_fewest(_fewest(candidates, rows), pairs))


def _fewest(candidates: Iterable[tuple[int, ...]], placed: Sequence[frozenset[int]]) -> list[tuple[int, ...]]:
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
