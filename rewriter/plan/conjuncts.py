"""The conjuncts of join conditions: what sort of predicate each is, and the bounds of bands.

It imports only the standard library, as `nodes` does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from ...errors import PlanError

PredicateKind = Literal["equi", "null_safe", "band", "range", "not_equal", "residual"]
ComparisonOp = Literal["=", "<=>", "<", "<=", ">", ">=", "<>", "band"]

#: The comparison with its operands exchanged: ``a < b`` is ``b > a``.
FLIPPED: dict[str, ComparisonOp] = {
    "band": "band",
    "=": "=",
    "<=>": "<=>",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}

#: Units of time in which the bounds of bands are written, in microseconds.
_LENGTHS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000))

#: A bound of a band: in whole units, except for floats.
Limit = int | float


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a difference of two keys: ``lower <(=) left - right <(=) upper``.

    Parameters
    ----------
    unit
        What a bound counts, by the type of its sides: ``"integer"``, ``"date"`` (days), ``"timestamp"`` and
        ``"timestamp_ntz"`` (microseconds), a decimal type (its last digit: 15 is 1.5 over ``"decimal(5,1)"``),
        ``"float"`` and ``"double"`` (numbers, and the difference is rounded as Spark rounds it).
    lower, upper
        Numbers, None where that side is open.
    lower_inclusive, upper_inclusive
        Whether the difference may equal the bound.
    limits, computed_as
        If the text of the conjunct computes a difference of integers: the range of ``left - right`` within which it
        does not overflow, and the type that it is computed in. Outside that range Spark raises in ANSI mode.
    nan
        Whether a NaN difference is within the bounds: for Spark, NaN is above every number.
    wide
        True if rows expire by the compared event times about as soon as the band allows, so that most kept rows
        are within it and an index on it would narrow down little.
    """

    unit: str
    lower: Limit | None = None
    upper: Limit | None = None
    lower_inclusive: bool = False
    upper_inclusive: bool = False
    limits: tuple[int, int] | None = None
    computed_as: str | None = None
    nan: bool = False
    wide: bool = False

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            raise PlanError("a band has at least one bound")

    @property
    def rounded(self) -> bool:
        """Whether the difference is one of floats."""
        return self.unit in ("float", "double")

    @property
    def timed(self) -> bool:
        """Whether it is one of points in time, in microseconds."""
        return self.unit.startswith("timestamp")

    def negated(self) -> Bounds:
        """Return the bounds of ``right - left``."""
        return replace(
            self,
            lower=None if self.upper is None else -self.upper,
            upper=None if self.lower is None else -self.lower,
            lower_inclusive=self.upper_inclusive,
            upper_inclusive=self.lower_inclusive,
            limits=None if self.limits is None else (-self.limits[1], -self.limits[0]),
        )

    def within(self, other: Bounds) -> Bounds:
        """Return the intersection of two bounds of one difference in one unit."""
        lowest = [(b.lower, not b.lower_inclusive) for b in (self, other) if b.lower is not None]
        highest = [(b.upper, b.upper_inclusive) for b in (self, other) if b.upper is not None]
        lower, above = max(lowest, default=(None, True))
        upper, at_most = min(highest, default=(None, False))
        return replace(
            self,
            lower=lower,
            upper=upper,
            lower_inclusive=not above,
            upper_inclusive=at_most,
            nan=self.nan and other.nan,
        )

    def around(self, difference: str) -> str:
        """Return the condition on a difference as text."""
        low = "" if self.lower is None else f"{self.text_of(self.lower)} {'<=' if self.lower_inclusive else '<'} "
        high = "" if self.upper is None else f" {'<=' if self.upper_inclusive else '<'} {self.text_of(self.upper)}"
        return f"{low}{difference}{high}"

    def text_of(self, value: Limit) -> str:
        """Return a bound as a constant of Spark SQL."""
        if self.timed:
            return interval_text(int(value))
        if self.unit.startswith("decimal"):
            scale = int(self.unit[:-1].split(",")[1])
            digits = f"{abs(int(value)):0{scale + 1}d}"
            whole = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
            return f"-{whole}" if value < 0 else whole
        return str(int(value)) if float(value).is_integer() and abs(value) < 1e16 else str(value)


def interval_text(micros: int) -> str:
    """Return a length of time as Spark writes it.

    Examples
    --------
    >>> interval_text(-300_000_000)
    "INTERVAL '-5' MINUTE"
    """
    for name, size in _LENGTHS:
        if micros % size == 0:
            return f"INTERVAL '{micros // size}' {name}"
    sign, rest = "-" if micros < 0 else "", abs(micros)
    return f"INTERVAL '{sign}{rest // 1_000_000}.{rest % 1_000_000:06d}' SECOND"


@dataclass(frozen=True, slots=True)
class Predicate:
    """One conjunct of a join condition.

    Parameters
    ----------
    sql
        The conjunct as the user wrote it (for people to read).
    kind
        The kind of conjunct; only ``"residual"`` stays with Spark, the kernel evaluates all others.
    relations
        The aliases it mentions, in plan order. Kernel predicates mention exactly two: `left` is over the first and
        `right` over the second.
    op
        The comparison ``left op right``; ``"band"`` if `bounds` limit their difference.
    left, right
        Spark SQL expressions over one relation each, with columns qualified by its alias.
    bounds
        For ``"band"``, else None.
    guards
        Spark SQL expressions over one relation each, as ``(alias, sql)``, that Spark must evaluate although the kernel
        does not need their value, so that an ANSI error that the original text would raise is still raised.
    rendered
        For residuals of a join node: the same conjunct over the node's output names, ready for Spark. Otherwise the
        conjunct with columns qualified by their aliases.
    derived
        True if it follows from others (transitive equality, WITHIN) and was not written by the user.
    places
        Where it stands in the user's text, as ``(start, end)`` in characters; a band may come from several conjuncts.
        Empty for what follows from others.
    """

    sql: str
    kind: PredicateKind
    relations: tuple[str, ...]
    op: ComparisonOp | None = None
    left: str | None = None
    right: str | None = None
    bounds: Bounds | None = None
    guards: tuple[tuple[str, str], ...] = ()
    rendered: str | None = None
    derived: bool = False
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.kind == "residual":
            if self.op is not None:
                raise PlanError(f"a residual has no kernel comparison: {self.sql}")
            return
        if len(self.relations) != 2 or self.op is None or self.left is None or self.right is None:
            raise PlanError(f"a kernel predicate compares two relations: {self.sql}")
        if (self.op == "band") != (self.bounds is not None):
            raise PlanError(f"a band, and nothing else, has bounds: {self.sql}")
