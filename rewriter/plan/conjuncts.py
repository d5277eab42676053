"""The conjuncts of join conditions: their terms, what sort of predicate each is, and the bounds of bands.

It imports only the standard library, as `nodes` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Literal, Self, cast

from ...errors import PlanError
from .expr import At, Expr

CompareOp = Literal["=", "<=>", "<", "<=", ">", ">="]
ComparisonOp = CompareOp | Literal["<>"]

#: The comparison with its operands exchanged: ``a < b`` is ``b > a``.
FLIPPED: dict[ComparisonOp, ComparisonOp] = {
    "=": "=",
    "<=>": "<=>",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


@dataclass(frozen=True, slots=True)
class KindRecord:
    """What the cost model and EXPLAIN know of a kind of predicate.

    Parameters
    ----------
    sign, meaning
        What stands for it without colour, and what it means.
    light, dark
        Its colours on light and on dark ground.
    selectivity
        The share of pairs that match, where no setting gives it; None if it has none of its own: the kernel does not
        evaluate it, or it is the sum of its branches.
    edge, underline
        How a line in the join graph and the text in the SQL look, as CSS.
    finds_few
        Whether a row finds few partners by it, however long the history is (`CostDefaults.partners`).
    equal
        Whether it equates its sides.
    """

    sign: str
    meaning: str
    light: str
    dark: str
    selectivity: float | None
    edge: str = ""
    underline: str = ""
    finds_few: bool = False
    equal: bool = False


_WAVE = "border-bottom: 0; text-decoration: underline wavy var(--kind) 1.5px; text-underline-offset: 0.3em"

#: By name, usually from the most selective to the least.
KINDS: Mapping[str, KindRecord] = MappingProxyType(
    {
        "equi": KindRecord("=", "equality", "#1d5fb8", "#8ab8ff", 0.001, finds_few=True, equal=True),
        "null_safe": KindRecord("≡", "null-safe equality", "#08677f", "#63cbe6", 0.001, "stroke-width: 3.5",
            "border-bottom-style: double; border-bottom-width: 4px", finds_few=True, equal=True),
        "band": KindRecord("±", "a distance within limits", "#7134bd", "#c9a6ff", 0.001, "stroke-dasharray: 9 4",
            "border-bottom-style: dashed", finds_few=True),
        "range": KindRecord("<", "order", "#8f4b00", "#f2b05e", 0.33,
            "stroke-dasharray: 2.5 4; stroke-linecap: round; stroke-width: 2.5",
            "border-bottom-style: dotted; border-bottom-width: 3px"),
        "not_equal": KindRecord("≠", "difference", "#ad244b", "#ff93ae", 0.9, "stroke-dasharray: 9 4 2 4", _WAVE),
        "either": KindRecord("∨", "one of several", "#33691e", "#a5d67a", None, "stroke-dasharray: 4 4",
            "border-bottom-style: dashed; border-bottom-width: 2px"),
        "residual": KindRecord("ƒ", "left to Spark, on the joined rows", "#535b67", "#b4bcc8", None,
            underline="border-bottom-width: 1px"),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Term:
    """An expression among the relations that it reads. Terms of one text are equal.

    Parameters
    ----------
    expr
        The expression, with columns qualified by the aliases of their relations.
    relations
        The relations that it reads, in plan order; under a join node, those of the node's inputs that have them.
    sql
        How it is written.
    """

    expr: Expr = field(compare=False)
    relations: tuple[str, ...] = field(default=(), compare=False)
    sql: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sql", self.expr.sql)

    @property
    def columns(self) -> tuple[At, ...]:
        """The columns that it reads."""
        return self.expr.columns

    @property
    def type(self) -> str:
        """Spark's DDL name of its type, ``"unknown"`` where the schemas do not tell."""
        return self.expr.type


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
class _Conjunct:
    """What all predicates have.

    Parameters
    ----------
    sql
        The conjunct as the user wrote it (for people to read).
    condition
        The conjunct as Spark runs it where it stays with Spark; for the residuals of a join node, over the node's
        output names.
    derived
        True if it follows from others (transitive equality, WITHIN) and was not written by the user.
    places
        Where it stands in the user's text, as ``(start, end)`` in characters; a band may come from several conjuncts.
        Empty for what follows from others.
    source
        The text of the conjunct between the same relations that it follows from, if it follows from one.
    """

    sql: str
    condition: Term
    derived: bool = field(default=False, kw_only=True)
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False, kw_only=True)
    source: str = field(default="", compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Residual(_Conjunct):
    """A conjunct that stays with Spark, or that is not classified yet."""

    kind: ClassVar[str] = "residual"

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that it reads, in plan order."""
        return self.condition.relations

    @property
    def shown(self) -> str:
        """How it is evaluated."""
        return self.condition.sql


@dataclass(frozen=True, slots=True)
class _Compared(_Conjunct):
    """A conjunct that the kernel evaluates.

    Parameters
    ----------
    left, right
        What it compares: each is over one relation, `left` over the first in plan order.
    guards
        Terms over one relation each that Spark must evaluate although the kernel does not need their value, so that an
        ANSI error that the original text would raise is still raised.
    """

    left: Term
    right: Term
    guards: tuple[Term, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if any(len(term.relations) != 1 for term in self.terms):
            raise PlanError(f"a kernel predicate compares two relations: {self.sql}")

    @property
    def relations(self) -> tuple[str, str]:
        """The two relations that it compares."""
        return self.left.relations[0], self.right.relations[0]

    @property
    def keys(self) -> tuple[Term, ...]:
        """What it compares."""
        return self.left, self.right

    @property
    def rejects_null(self) -> bool:
        """Whether it is never true of a row with NULL in what it compares."""
        return True

    @property
    def terms(self) -> tuple[Term, ...]:
        """All that Spark computes for it."""
        return (*self.keys, *self.guards)

    def with_terms(self, change: Callable[[Term], Term]) -> Self:
        """Return the same predicate over changed terms."""
        return replace(self, left=change(self.left), right=change(self.right), guards=tuple(map(change, self.guards)))

    def mirrored(self) -> Self:
        """Return the same predicate with its sides exchanged."""
        return replace(self, left=self.right, right=self.left)


@dataclass(frozen=True, slots=True)
class Compare(_Compared):
    """``left op right``."""

    op: CompareOp

    @property
    def kind(self) -> str:
        """Its kind, as EXPLAIN names it."""
        return "equi" if self.op == "=" else "null_safe" if self.op == "<=>" else "range"

    @property
    def rejects_null(self) -> bool:
        """Whether it is never true of a row with NULL in what it compares."""
        return self.op != "<=>"

    @property
    def shown(self) -> str:
        """How it is evaluated."""
        return f"{self.left.sql} {self.op} {self.right.sql}"

    def mirrored(self) -> Compare:
        """Return the same predicate with its sides exchanged."""
        return replace(self, left=self.right, right=self.left, op=cast(CompareOp, FLIPPED[self.op]))


@dataclass(frozen=True, slots=True)
class NotEqual(_Compared):
    """``left <> right``."""

    kind: ClassVar[str] = "not_equal"
    op: ClassVar[Literal["<>"]] = "<>"

    @property
    def shown(self) -> str:
        """How it is evaluated."""
        return f"{self.left.sql} <> {self.right.sql}"


@dataclass(frozen=True, slots=True)
class Band(_Compared):
    """``left - right`` between bounds."""

    bounds: Bounds

    kind: ClassVar[str] = "band"

    @property
    def shown(self) -> str:
        """How it is evaluated."""
        return self.bounds.around(f"{self.left.sql} - {self.right.sql}")

    def mirrored(self) -> Band:
        """Return the same predicate with its sides exchanged."""
        return replace(self, left=self.right, right=self.left, bounds=self.bounds.negated())


#: With what a branch of an OR compares a condition over one relation: a constant of the other one.
ALWAYS = "TRUE"

#: A comparison of two relations.
Comparison = Compare | Band | NotEqual


@dataclass(frozen=True, slots=True)
class Either(_Conjunct):
    """An OR of conjunctions of comparisons of the same two relations.

    Parameters
    ----------
    branches
        Each branch's comparisons. A condition over one relation alone is compared with TRUE.
    exceptions
        Whether all branches but the first are conditions over one relation, which few rows fulfil.
    """

    branches: tuple[tuple[Comparison, ...], ...]
    exceptions: bool = field(default=False, kw_only=True)

    kind: ClassVar[str] = "either"
    rejects_null: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if len({frozenset(one.relations) for branch in self.branches for one in branch}) != 1:
            raise PlanError(f"the branches of an OR compare the same two relations: {self.sql}")

    @property
    def relations(self) -> tuple[str, str]:
        """The two relations that it compares."""
        return self.branches[0][0].relations

    @property
    def keys(self) -> tuple[Term, ...]:
        """What its branches compare."""
        return tuple(term for branch in self.branches for one in branch for term in one.keys)

    @property
    def guards(self) -> tuple[Term, ...]:
        """What Spark must evaluate beside, as for one comparison."""
        return tuple(dict.fromkeys(term for branch in self.branches for one in branch for term in one.guards))

    @property
    def connects(self) -> bool:
        """Whether a branch compares its relations, and does not only filter each."""
        return any(ALWAYS not in (one.left.sql, one.right.sql) for branch in self.branches for one in branch)

    @property
    def terms(self) -> tuple[Term, ...]:
        """All that Spark computes for it."""
        return (*self.keys, *self.guards)

    @property
    def shown(self) -> str:
        """How it is evaluated."""
        return " OR ".join(f"({' AND '.join(map(_shown, branch))})" for branch in self.branches)

    def _each(self, change: Callable[[Comparison], Comparison]) -> Self:
        return replace(self, branches=tuple(tuple(map(change, branch)) for branch in self.branches))

    def with_terms(self, change: Callable[[Term], Term]) -> Self:
        """Return the same predicate over changed terms."""
        return self._each(lambda one: one.with_terms(change))

    def mirrored(self) -> Self:
        """Return the same predicate with its sides exchanged."""
        return self._each(lambda one: one.mirrored())


def _shown(comparison: Comparison) -> str:
    """Return how a comparison of a branch is evaluated; of a condition over one relation, that condition."""
    flag = [term.sql for term in comparison.keys if term.sql != ALWAYS]
    return comparison.shown if len(flag) == 2 else flag[0]


#: A conjunct that the kernel evaluates.
KernelPredicate = Comparison | Either
#: One conjunct of a join condition.
Predicate = KernelPredicate | Residual
