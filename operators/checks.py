"""What the kernels evaluate on pairs of rows: comparisons, bands and ORs of packed columns, and the edges made of them.

Plain data, as `spec` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Op = Literal["=", "<", "<=", ">", ">=", "<>", "<=>"]

#: Mirror image of a comparison: ``a op b`` is ``b MIRROR[op] a``.
MIRROR: dict[Op, Op] = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right`` on two columns of one type, in Spark's order (NaN is the largest number and equals itself).

    Parameters
    ----------
    op
        The comparison.
    left, right
        Columns of one type.
    exact
        Whether order keys decide the comparison (see `operators.kernels.order_keys`), or only narrow it down.
    """

    op: Op
    left: str
    right: str
    exact: bool = True

    def mirrored(self) -> Compare:
        """Return the same condition seen from the other side."""
        return Compare(MIRROR[self.op], self.right, self.left, self.exact)


@dataclass(frozen=True, slots=True)
class Band:
    """``lower <= left - right <= upper``; None is an open side.

    Parameters
    ----------
    left, right
        Columns of one type.
    lower, upper
        For ``"int"`` closed integer bounds in the column's own unit (microseconds, days, unscaled decimals). For the
        float kinds the constants as doubles.
    lower_strict, upper_strict
        For the float kinds: whether the bound itself is excluded.
    arithmetic
        How the difference is computed: exactly, or as Spark computes it for ``float`` and ``double``.
    limits
        The range of the difference's type where leaving it is an error in ANSI mode, else None.
    sql, type_name
        For the error message.
    nan
        For the float kinds: whether NaN is within. To Spark it is above every number.
    wide
        Whether most rows that are stored lie within it (event times, by which rows expire): not what an index is for.
    """

    left: str
    right: str
    lower: float | int | None
    upper: float | int | None
    lower_strict: bool = False
    upper_strict: bool = False
    arithmetic: Literal["int", "float32", "float64"] = "int"
    limits: tuple[int, int] | None = None
    sql: str = ""
    type_name: str = ""
    wide: bool = False
    nan: bool = False

    def mirrored(self) -> Band:
        """Return the same condition seen from the other side (``right - left``)."""
        return replace(
            self,
            left=self.right,
            right=self.left,
            lower=None if self.upper is None else -self.upper,
            upper=None if self.lower is None else -self.lower,
            lower_strict=self.upper_strict,
            upper_strict=self.lower_strict,
            limits=None if self.limits is None else (-self.limits[1], -self.limits[0]),
        )


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch of an `AnyOf`: the conjunction of its checks, and its hashed equality as in an `EdgeSpec`."""

    checks: tuple[Check, ...]
    hash_left: str | None = None
    hash_right: str | None = None

    def mirrored(self) -> Branch:
        """Return the same condition seen from the other side."""
        return Branch(tuple(check.mirrored() for check in self.checks), self.hash_right, self.hash_left)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """An OR of conjunctions.

    Parameters
    ----------
    branches
        The conjunctions.
    negated
        It is true where none of them is (a branch that is NULL is not).
    exceptions
        All branches but the first are conditions over one row, which few rows fulfil.
    """

    branches: tuple[Branch, ...]
    negated: bool = False
    exceptions: bool = False

    def mirrored(self) -> AnyOf:
        """Return the same condition seen from the other side."""
        return replace(self, branches=tuple(branch.mirrored() for branch in self.branches))


Check = Compare | Band | AnyOf


def lefts(checks: Iterable[Check]) -> tuple[str, ...]:
    """Return the columns of the left side that checks compare, each once."""
    return tuple(dict.fromkeys(one.left for one in _compared(checks)))


def rights(checks: Iterable[Check]) -> tuple[str, ...]:
    """Return the columns of the right side that checks compare, each once."""
    return tuple(dict.fromkeys(one.right for one in _compared(checks)))


def _compared(checks: Iterable[Check]) -> Iterator[Compare | Band]:
    for check in checks:
        if isinstance(check, AnyOf):
            yield from (one for branch in check.branches for one in _compared(branch.checks))
        else:
            yield check


def renamed(check: Check, rename: Callable[[str], str]) -> Check:
    """Return a check with other names of the left columns."""
    if not isinstance(check, AnyOf):
        return replace(check, left=rename(check.left))
    branches = (
        Branch(
            tuple(renamed(one, rename) for one in branch.checks),
            None if branch.hash_left is None else rename(branch.hash_left),
            branch.hash_right,
        )
        for branch in check.branches
    )
    return replace(check, branches=tuple(branches))


@dataclass(frozen=True, slots=True)
class EdgeSpec:
    """All kernel predicates between two streams.

    Parameters
    ----------
    left, right
        Ranks of the two streams, ``left < right``.
    checks
        Their conjunction is the edge's condition; none means that every pair joins.
    hash_left, hash_right
        Columns with a 64-bit hash of all equality columns (computed in Spark), where equality cannot be decided on one
        integer column.
    """

    left: int
    right: int
    checks: tuple[Check, ...] = ()
    hash_left: str | None = None
    hash_right: str | None = None

    def seen_from(self, rank: int) -> EdgeSpec:
        """Return the edge with the stream `rank` as ``left``, whatever the order of ranks."""
        if rank == self.left:
            return self
        return EdgeSpec(
            self.right, self.left, tuple(c.mirrored() for c in self.checks), self.hash_right, self.hash_left
        )
