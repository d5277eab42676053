"""Which index an edge's stored side has, and what an arriving row asks of it.

The most selective predicate is the index. What the search does not decide is evaluated on the candidates
(`kernels.pairs.evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, isfinite
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..checks import AnyOf, Band, Check, Compare, EdgeSpec, lefts
from ..kernels.float_bounds import closed, last_within
from ..kernels.order_keys import HIGHEST, LOWEST, Int64s, order_key, plus, values


@dataclass(frozen=True, slots=True)
class SortOrder:
    """Which stored columns an index sorts by; see `operators.store.index`.

    With a `width`, ``equal`` stands for the column's cells of that width.
    """

    equal: str | None = None
    low: str | None = None
    high: str | None = None
    width: float | None = None

    @property
    def key(self) -> str:
        """Name of the index within its store."""
        cells = "" if self.width is None else f"/{self.width}"
        return f"{self.equal or ''}{cells}|{self.low or ''}|{self.high or ''}"

    @property
    def stabs(self) -> bool:
        """Whether it answers stabbing queries: ranges of two stored columns."""
        return self.equal is None and self.low is not None and self.high is not None and self.low != self.high

    @property
    def single(self) -> str | None:
        """The column whose order alone is the index's, None where it takes more than one (or none)."""
        if self.equal is not None:
            return self.equal if self.low is None and self.high is None and self.width is None else None
        return None if self.stabs else self.low or self.high


@dataclass(frozen=True, slots=True)
class Bound:
    """A probing row's bound on a stored column: the order key of ``column``, moved by ``shift``.

    ``strict`` excludes the bound itself. (A bound moved by one would do the same, but for the least and the greatest
    key.) Where ``floats`` says that differences are rounded, ``shift`` is the outermost one that the band allows.
    """

    column: str
    shift: float | int = 0
    strict: bool = False
    floats: Literal["float32", "float64"] | None = None

    def keys(self, rows: pa.RecordBatch, *, up: bool) -> tuple[Int64s, npt.NDArray[np.bool_] | None]:
        """Return the bound of each probing row, and which rows have no partner (None for no such row).

        Parameters
        ----------
        up
            Whether it is a bound from above.

        Returns
        -------
        Shape (m,) each.
        """
        column = rows.column(self.column)
        if self.floats is not None:
            return last_within(values(column), self.shift, single=self.floats == "float32", below=up)
        keys, shift = order_key(column), int(self.shift)
        if not shift:
            return keys, None
        none = keys < LOWEST - shift if up else keys > HIGHEST - shift
        return plus(keys, shift), none if none.any() else None


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """How rows of one stream (the probe) find their partners among the stored rows of another.

    Parameters
    ----------
    sort_order
        The stored side's index.
    equal
        The probe's column for ``sort_order.equal``.
    upper, lower
        Bounds on ``sort_order.low`` and ``sort_order.high``.
    cells
        Where the index sorts by cells: the bounds on their column, from below and from above.
    limited_cells
        The band that they come from, if its difference can overflow. Where that, or a difference of the ``limited``
        band, may happen between a batch and a segment, all of their pairs are candidates.
    checks
        What remains to be evaluated on candidates, seen from the probe (``left`` is the probe's column).
    narrow_checks
        What remains of that where no difference of the ``limited`` band can overflow: then the index decides the band.
    limited
        A band that the index searches although its difference can overflow, which Spark would notice on pairs that the
        index skips. A probing row whose difference to any row of its range of candidates may overflow gets the whole
        range, so that the band is evaluated on it, after the checks before it, as Spark does.
    wide
        Whether the index searches for a wide band of event times and nothing else, because there is nothing better.
    others
        The searches for the further branches of an OR; none finds a pair that one before it has found.
    """

    sort_order: SortOrder
    equal: str | None
    upper: Bound | None
    lower: Bound | None
    checks: tuple[Check, ...]
    narrow_checks: tuple[Check, ...]
    limited: Band | None = None
    wide: bool = False
    others: tuple[ProbePlan, ...] = ()
    cells: tuple[Bound, Bound] | None = None
    limited_cells: Band | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The probe's columns that a probe looks at."""
        bounds = [bound.column for bound in (self.upper, self.lower, *(self.cells or ())) if bound is not None]
        limited = [band.left for band in (self.limited, self.limited_cells) if band is not None]
        further = (column for other in self.others for column in other.columns)
        found = [self.equal, *bounds, *lefts(self.checks), *limited, *further]
        return tuple(dict.fromkeys(column for column in found if column is not None))

    @property
    def sort_orders(self) -> tuple[SortOrder, ...]:
        """The indexes that it searches."""
        return (self.sort_order, *(other.sort_order for other in self.others))

    @property
    def breadth(self) -> int:
        """A rank of how many candidates its index leaves; lower is better."""
        return max(self._breadth(), *(other.breadth for other in self.others), 0)

    def _breadth(self) -> int:
        order = self.sort_order
        if order.equal is not None:
            return 0 if self.cells is None and (order.low or order.high) else 1
        if order.low is not None and order.high is not None:
            return 3 if self.wide else 2
        return 3 if order.low or order.high else 4 if self.checks else 5


@lru_cache(maxsize=1024)  # slots of a join have the same edges, and each asks several times
def plan_probe(edge: EdgeSpec) -> ProbePlan:
    """Choose the index for an edge, seen from the probing stream (``edge.left``).

    The most selective predicate is the index: equality first, then a two-sided range on one column, a stabbing pair, a
    one-sided range. Of several the one that is written first, wide bands of event times last. Without any of them every
    pair is a candidate. Where the branches of an OR all narrow the candidates down more, each of them is searched.
    If all but the first are exceptions, the first is searched where it would be without them.
    """
    plan = _plan_conjuncts(edge)
    for number, check in enumerate(edge.checks):
        if isinstance(check, AnyOf) and not check.negated:
            first, *others = _plan_branches(edge, number, check)
            split = replace(first, others=tuple(others))
            usual = first.breadth <= plan.breadth and first.sort_order != plan.sort_order
            if usual if check.exceptions else split.breadth < plan.breadth:
                plan = split
    return plan


def _plan_branches(edge: EdgeSpec, number: int, check: AnyOf) -> Iterator[ProbePlan]:
    """Choose the index for each branch of an OR, which finds the pairs that no branch before it takes.

    A row may have NULL in what a branch compares, and a place among the sorted keys nevertheless: the search only
    narrows down candidates, and all checks of the branch are evaluated on them. What stands behind a difference that
    may overflow does not narrow them down: Spark computes the difference before it looks at that. Exceptions are
    searched by that alone: usually there are none.
    """
    for at, branch in enumerate(check.branches):
        earlier = (AnyOf(check.branches[:at], negated=True),) if at else ()
        before, after = (*edge.checks[:number], *earlier), edge.checks[number + 1 :]
        checks = (*before, *branch.checks, *after)
        overflows = (at for at, one in enumerate(branch.checks, 1) if isinstance(one, Band) and one.limits is not None)
        searched = branch.checks[: next(overflows, None)]
        equal = any(isinstance(one, Compare) and one.op in ("=", "<=>") for one in branch.checks[len(searched) :])
        hashes = (None, None) if equal else (branch.hash_left, branch.hash_right)
        hashes = (edge.hash_left, edge.hash_right) if edge.hash_left else hashes
        if at and check.exceptions:
            plan = _plan_conjuncts(EdgeSpec(edge.left, edge.right, (*searched, *before, *after)))
        else:
            plan = _plan_conjuncts(EdgeSpec(edge.left, edge.right, (*before, *searched, *after), *hashes))
        open_, narrow = (
            tuple(one for one in checks if one in undecided or one in branch.checks)
            for undecided in (plan.checks, plan.narrow_checks)
        )
        yield replace(plan, checks=open_, narrow_checks=narrow)


def _plan_conjuncts(edge: EdgeSpec) -> ProbePlan:
    """Choose the one index for the conjuncts of an edge."""
    equal_probe: str | None = None
    equal_stored: str | None = None
    decided: set[int] = set()
    if edge.hash_left is not None:
        equal_probe, equal_stored = edge.hash_left, edge.hash_right
    else:
        for number, check in enumerate(edge.checks):
            if isinstance(check, Compare) and check.op == "=" and check.exact:
                equal_probe, equal_stored = check.left, check.right
                decided.add(number)
                break
    equalities = frozenset(decided)
    uppers: dict[str, tuple[Bound, int]] = {}
    lowers: dict[str, tuple[Bound, int]] = {}
    single = [(number, check) for number, check in enumerate(edge.checks) if not isinstance(check, AnyOf)]
    for number, check in sorted(single, key=lambda one: _is_wide(one[1])):
        for bound, side in bounds_of(check):
            (uppers if side == "upper" else lowers).setdefault(check.right, (bound, number))
    both = [column for column in uppers if column in lowers]
    low = high = None
    if both:
        low = high = both[0]
    elif uppers and lowers and equal_stored is None:
        low, high = next(iter(uppers)), next(iter(lowers))
    elif uppers:
        low = next(iter(uppers))
    elif lowers:
        high = next(iter(lowers))
    upper, lower = uppers[low] if low else None, lowers[high] if high else None
    flat = equal_stored is None and low is not None and low == high
    across = _across(edge.checks, low or "", uppers, lowers) if flat else None
    column, width, limited_cells = across or (None, None, None)
    used = [edge.checks[bound[1]] for bound in (upper, lower) if bound is not None and low in (None, high)]
    if upper is not None and high is None:
        used = [edge.checks[upper[1]]]
    limited = next((check for check in used if isinstance(check, Band) and check.limits is not None), None)
    exact = upper, lower if low in (None, high) else None  # a stabbing search meets the other bound in part
    for _, number in (bound for bound in exact if bound is not None):
        check = edge.checks[number]
        watched = check == limited or not isinstance(check, Band) or check.limits is None
        if watched and _is_decided(number, check, *exact):
            decided.add(number)
    # Where a difference may overflow, the widened range holds rows that the predicates before the band rule out.
    checked = decided if limited is None and limited_cells is None else decided & equalities
    return ProbePlan(
        SortOrder(equal_stored if column is None else column, low, high, width),
        equal_probe,
        upper[0] if upper else None,
        lower[0] if lower else None,
        tuple(check for number, check in enumerate(edge.checks) if number not in checked),
        tuple(check for number, check in enumerate(edge.checks) if number not in decided),
        limited,
        equal_stored is None and bool(used) and all(_is_wide(check) for check in used),
        cells=None if column is None else (lowers[column][0], uppers[column][0]),
        limited_cells=limited_cells,
    )


_Bounds = dict[str, tuple["Bound", int]]


def _across(
    checks: Sequence[Check], low: str, uppers: _Bounds, lowers: _Bounds
) -> tuple[str, float, Band | None] | None:
    """Return a second column that a band with two ends bounds, and the width of its cells; None if there is none.

    A row whose band is as wide as a cell finds its partners in two cells, in each of them by the first band: about two
    candidates a result. Behind the width comes the band, if its difference can overflow.
    """
    for column, (_, at) in uppers.items():
        band = checks[at]
        if column == low or column not in lowers or lowers[column][1] != at or not isinstance(band, Band):
            continue
        if band.lower is None or band.upper is None or _is_wide(band):
            continue
        width = band.upper - band.lower + (1 if band.arithmetic == "int" else 0)
        if band.limits is not None and 16 * width > band.limits[1] - band.limits[0]:
            continue  # too few cells to tell what may overflow
        if 0 < width < inf and (band.arithmetic != "int" or width < HIGHEST):
            return column, width, None if band.limits is None else band
    return None


def _is_wide(check: Check) -> bool:
    """Return whether a band is better searched last. One whose difference may overflow is not: Spark evaluates it."""
    return isinstance(check, Band) and check.wide and (check.limits is None or check.limits[1] >= 1 << 62)


def bounds_of(check: Compare | Band) -> Iterator[tuple[Bound, str]]:
    """Yield the bounds that a predicate puts on its stored (right) column, and which side of a range each is."""
    if isinstance(check, Compare) and check.op in ("<", "<=", ">", ">="):
        strict = check.exact and check.op in ("<", ">")
        yield Bound(check.left, strict=strict), "upper" if check.op in (">", ">=") else "lower"
    if not isinstance(check, Band) or check.nan:
        return  # any difference of NaN is within: no range of keys says so
    for limit, strict, side in (
        (check.lower, check.lower_strict, "upper"),
        (check.upper, check.upper_strict, "lower"),
    ):
        if limit is None:
            continue
        if check.arithmetic == "int":
            yield Bound(check.left, -limit), side
            continue
        outermost = closed(limit, strict=strict, single=check.arithmetic == "float32", below=side == "upper")
        if isfinite(outermost):
            yield Bound(check.left, outermost, floats=check.arithmetic), side


def _is_decided(number: int, check: Check, upper: tuple[Bound, int] | None, lower: tuple[Bound, int] | None) -> bool:
    """Return whether the index search alone decides a predicate, where no difference of it overflows.

    Parameters
    ----------
    number
        The predicate's among those of the edge.
    upper, lower
        The bounds that the search meets exactly, and the numbers of the predicates that they come from.
    """
    if isinstance(check, Compare):
        return check.exact
    above, below = (bound is not None and bound[1] == number for bound in (upper, lower))
    if isinstance(check, Band) and check.arithmetic == "int":
        return (check.lower is None or above) and (check.upper is None or below)
    return above and below  # a bound alone lets NaN in, which is above every number


def same_order(lower: Bound | None, upper: Bound | None) -> bool:
    """Return whether rows in the order of one bound are in that of the other: both are shifts of one column."""
    return lower is not None and upper is not None and lower.column == upper.column
