"""Comparisons of linear expressions over two relations, as bands of their difference.

``ABS(r.a - s.a - 5) <= 1`` is ``4 <= r.a - s.a <= 6``. Only where that is exact: over integers, dates and timestamps
constants move to the other side, and intermediate results of Spark are kept as guards (of one relation) and limits (of
the difference). `rounded` handles fractions.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from ..plan.conjuncts import FLIPPED, ComparisonOp, Residual, Term
from ..sql.dialect import render
from ..sql.functions import called
from ..sql.intervals import interval_microseconds
from ..sql.spark_types import INTEGERS, TIMES, integer_limits, is_decimal
from .bands import DAY, Difference, bounds_of
from .constants import exact_constant
from .terms import Scope, bare

_DATE_DIFFERENCES = ("datediff", "date_diff")

#: Constants beside a number of days stay far below the overflow of an INT.
_DAYS = 10**9


@dataclass(frozen=True)
class _Part:
    """A part over one relation: ``sign * base``; ``guard`` is what Spark computes there, if that is not the base."""

    sign: int
    base: Term
    guard: Term | None = None

    @property
    def relation(self) -> str:
        """The relation that it reads."""
        return self.base.relations[0]


@dataclass(frozen=True)
class _Step:
    """An integer that Spark computes from both relations: ``sign * (first - second) + constant``, in some type."""

    sign: int
    constant: Fraction
    kind: str
    absolute: bool = False


@dataclass(frozen=True)
class _Form:
    """A linear expression: terms and a constant, in the unit of the terms (whole numbers, days or microseconds).

    A number, a point in time, or a duration. ``kind`` is a number's type, with ``decimal`` for every decimal.
    """

    terms: tuple[_Part, ...]
    constant: Fraction
    measure: Literal["number", "point", "duration"]
    unit: str | None = None
    kind: str = ""
    steps: tuple[_Step, ...] = ()

    def negated(self) -> _Form:
        terms = tuple(dataclasses.replace(term, sign=-term.sign) for term in self.terms)
        return dataclasses.replace(self, terms=terms, constant=-self.constant)


def exact_difference(
    predicate: Residual, op: ComparisonOp, left: exp.Expr, right: exp.Expr, scope: Scope
) -> Difference | None:
    """Return a comparison as a band, None if it is not one."""
    if op not in ("<", "<=", ">", ">=", "="):
        return None
    ones, others = len(scope.relations(left)), len(scope.relations(right))
    if op == "=" and ones < 2 and others < 2:
        return None  # keys are equal
    if not ones:
        left, right, op = right, left, FLIPPED[op]
    if not scope.ansi and any(may_wrap(side, scope) for side in (left, right) if scope.relations(side)):
        return None
    inner = absolute(left)
    if inner is not None:
        form, bound = _form(inner, scope), _form(right, scope)
        if form is None or bound is None or bound.terms or op not in ("<", "<="):
            return None
        if form.steps:
            form = dataclasses.replace(
                form, steps=(*form.steps, dataclasses.replace(form.steps[-1], absolute=True, kind=form.kind))
            )
        ends = [_sum(form, bound.negated()), _sum(form, bound)]
        found = [_band(predicate, one, end, scope) for one, end in zip((op, FLIPPED[op]), ends, strict=True)]
        return found[0].within(found[1]) if found[0] is not None and found[1] is not None else None
    one, other = _form(left, scope), _form(right, scope)
    if one is None or other is None:
        return None
    total = _sum(one, other.negated())
    if op != "=":
        return _band(predicate, op, total, scope)
    ends_of = [_band(predicate, end, total, scope) for end in ("<=", ">=")]
    low, high = ends_of
    return low.within(high) if low is not None and high is not None and _is_whole(total) else None


def may_wrap(tree: exp.Expr, scope: Scope) -> bool:
    """Return whether integers may wrap around in an expression, because ``spark.sql.ansi.enabled`` is off.

    Then nothing moves across a comparison: each side stays what Spark computes.
    """
    return scope.type_of(tree) in INTEGERS and _range(tree, scope) is None


def _range(tree: exp.Expr, scope: Scope) -> tuple[int, int] | None:
    """Return the range of an integer expression, None if it may wrap around."""
    tree = bare(tree)
    limits = integer_limits(scope.type_of(tree))
    if limits is None:
        return None
    if isinstance(tree, exp.Literal):
        return int(tree.name), int(tree.name)
    if isinstance(tree, exp.Cast):
        inside = _range(tree.this, scope)
        return inside if inside is not None and limits[0] <= inside[0] and inside[1] <= limits[1] else limits
    parts: list[exp.Expr] = list(tree.expressions) if called(tree) == "abs" else []
    if isinstance(tree, exp.Neg):
        parts = [tree.this]
    elif isinstance(tree, exp.Add | exp.Sub):
        parts = [tree.left, tree.right]
    if not parts:
        return limits  # a column or a call is what Spark computes
    ranges = [_range(part, scope) for part in parts]
    if None in ranges:
        return None
    (low, high), *more = [one for one in ranges if one is not None]
    if more:
        (other_low, other_high) = more[0] if isinstance(tree, exp.Add) else (-more[0][1], -more[0][0])
        low, high = low + other_low, high + other_high
    elif isinstance(tree, exp.Neg):
        low, high = -high, -low
    else:
        low, high = 0, max(abs(low), abs(high))
    return (low, high) if limits[0] <= low and high <= limits[1] else None


def _is_whole(form: _Form | None) -> bool:
    return form is not None and form.constant.denominator == 1


def absolute(tree: exp.Expr) -> exp.Expr | None:
    """Return ``x`` of ``ABS(x)``, None for anything else."""
    tree = bare(tree)
    if called(tree) == "abs" and len(tree.expressions) == 1:
        return bare(tree.expressions[0])
    return None


def _band(predicate: Residual, op: ComparisonOp, form: _Form | None, scope: Scope) -> Difference | None:
    """Return ``form <op> 0`` as a band of the two terms' difference."""
    if form is None or len(form.terms) != 2:
        return None
    first, second = sorted(form.terms, key=lambda term: scope.order.index(term.relation))
    if first.sign < 0:
        form, op = form.negated(), FLIPPED[op]
    base = second.base
    if first.sign == second.sign:  # a sum: the difference from the negated second term, which a wider type always holds
        if form.unit != "integer" or "bigint" in (base.type, first.base.type):
            return None
        base = dataclasses.replace(base, sql=f"-CAST({base.sql} AS BIGINT)", type="bigint")
    guards = tuple(term.guard for term in (first, second) if term.guard is not None)
    limits, computed_as = _limits(form.steps)
    assert form.unit is not None
    bounds = dataclasses.replace(
        bounds_of(op, -form.constant, form.unit), limits=None if predicate.derived else limits, computed_as=computed_as
    )
    return Difference(first.base, base, bounds, guards, (predicate,), predicate.derived)


def _limits(steps: tuple[_Step, ...]) -> tuple[tuple[int, int] | None, str | None]:
    """Return the range of the difference in which no step overflows, and the type that overflows first."""
    found: list[tuple[int, int, str]] = []
    for step in steps:
        limits = integer_limits(step.kind)
        if limits is None:
            continue
        constant = int(step.constant)
        least, most = limits[0] + step.absolute - constant, limits[1] - constant
        found.append((least, most, step.kind) if step.sign > 0 else (-most, -least, step.kind))
    if not found:
        return None, None
    least, most = max(one[0] for one in found), min(one[1] for one in found)
    return (least, most), min((kind for _, _, kind in found), key=INTEGERS.index)


# ------------------------------------------------------------------------------------------------------- linear forms


def _form(tree: exp.Expr, scope: Scope) -> _Form | None:
    """Return an expression as a linear form, None if it is not one."""
    tree = bare(tree)
    match len(scope.relations(tree)):
        case 0:
            return _constant_form(tree, scope)
        case 1:
            return _leaf(tree, scope)
    if isinstance(tree, exp.Neg):
        inner = _form(tree.this, scope)
        return None if inner is None or inner.measure == "point" else _stepped(inner.negated(), scope)
    if called(tree) in _DATE_DIFFERENCES and len(tree.expressions) == 2:
        sides = [_form(side, scope) for side in tree.expressions]
        if any(side is None or side.unit != "date" or side.measure != "point" for side in sides):
            return None
        days = _sum(sides[0], sides[1].negated() if sides[1] else None, "number")
        return days and dataclasses.replace(days, kind="days")
    if not isinstance(tree, exp.Add | exp.Sub):
        return None
    left, right = _form(tree.left, scope), _form(tree.right, scope)
    if left is None or right is None:
        return None
    if left.measure == right.measure == "point":
        if isinstance(tree, exp.Add) or left.unit != right.unit:
            return None
        left, right = _on_the_wall_clock(left, tree.left), _on_the_wall_clock(right, tree.right)
        return _sum(left, right.negated(), "duration")
    return _stepped(_sum(left, right.negated() if isinstance(tree, exp.Sub) else right), scope)


def _on_the_wall_clock(form: _Form, side: exp.Expr) -> _Form:
    """Return a point in time as Spark subtracts it: a timestamp on the wall clock of the session's zone."""
    if form.unit != "timestamp":
        return form
    (term,) = form.terms
    text = f"CAST({render(bare(side))} AS TIMESTAMP_NTZ)"
    term = dataclasses.replace(term, base=dataclasses.replace(term.base, sql=text, type="timestamp_ntz"), guard=None)
    return dataclasses.replace(form, terms=(term,), constant=Fraction(0), unit="timestamp_ntz")


def _sum(one: _Form | None, other: _Form | None, measure: Literal["number", "duration"] | None = None) -> _Form | None:
    """Return the sum of two forms; of points in time it is a difference, because one of them is negated."""
    if one is None or other is None or one.measure != other.measure:
        return None
    if one.unit is None:
        one, other = other, one
    if other.unit is None:
        other = _in_unit(other, one)
    elif one.unit != other.unit or {term.relation for term in one.terms} & {term.relation for term in other.terms}:
        return None
    kinds = {one.kind, other.kind}
    if "days" in kinds:
        kind = "days" if kinds <= {"days", *INTEGERS} and abs(other.constant) < _DAYS else None
    elif kinds <= set(INTEGERS):
        kind = max(kinds, key=INTEGERS.index)
    else:
        kind = "decimal" if kinds <= {"decimal", *INTEGERS} else ("" if kinds == {""} else None)
    if kind is None and "decimal" in kinds and kinds <= {"days", "decimal"}:
        kind = "days"
    if kind is None:
        return None
    steps = (*one.steps, *other.steps)
    return _Form(
        (*one.terms, *other.terms), one.constant + other.constant, measure or one.measure, one.unit, kind, steps
    )


def _in_unit(constant: _Form, form: _Form) -> _Form:
    """Return a constant duration in the unit of the value that it is added to or compared with."""
    if constant.measure == "duration" and form.unit == "date":
        return dataclasses.replace(constant, constant=constant.constant / DAY)
    return constant


def _stepped(form: _Form | None, scope: Scope) -> _Form | None:
    """Return a form of both relations with the note that Spark computes it."""
    if form is None or form.kind not in INTEGERS or len(form.terms) != 2:
        return form
    first = min(form.terms, key=lambda term: scope.order.index(term.relation))
    return dataclasses.replace(form, steps=(*form.steps, _Step(first.sign, form.constant, form.kind)))


def _constant_form(tree: exp.Expr, scope: Scope) -> _Form | None:
    micros = interval_microseconds(tree)
    if micros is not None:
        return _Form((), Fraction(micros), "duration") if abs(micros) < 1 << 60 else None
    value = _value(tree)
    if value is None:
        return None
    kind = scope.type_of(tree)
    if is_decimal(kind):
        return _Form((), value, "number", kind="decimal") if int(kind[8:].split(",")[0]) <= 10 else None
    limits = integer_limits(kind)
    if limits is None or value.denominator != 1 or not limits[0] <= value <= limits[1]:
        return None
    return _Form((), value, "number", kind=kind)


def _value(tree: exp.Expr) -> Fraction | None:
    """Return a constant's value; sums and products of small numbers are folded as Spark does."""
    tree = bare(tree)
    number = _number(tree)
    if number is not None:
        return number
    if type(tree) is exp.Cast:
        inner = _value(tree.this)
        return inner if inner is not None and inner.denominator == 1 else None
    if isinstance(tree, exp.Neg):
        inner = _value(tree.this)
        return None if inner is None else -inner
    if isinstance(tree, exp.Add | exp.Sub | exp.Mul):
        one, other = _value(tree.left), _value(tree.right)
        if one is None or other is None or max(abs(one), abs(other)) >= 1 << 15:
            return None
        found = {exp.Add: one + other, exp.Sub: one - other}.get(type(tree), one * other)
        return found if found.denominator == 1 else None
    return None


def _leaf(tree: exp.Expr, scope: Scope) -> _Form | None:
    kind = scope.type_of(tree)
    inside, constant = _turned(tree) if kind in INTEGERS else (None, Fraction(0))
    if inside is not None:
        form = _leaf(bare(inside), scope)
        if form is None:
            return None
        (term,) = form.terms
        term = dataclasses.replace(term, sign=-term.sign, guard=scope.term(tree))
        return dataclasses.replace(form, terms=(term,), constant=constant - form.constant, kind=kind)
    found = _offset(tree, scope)
    if found is None:
        unit = _unit(kind)
        if unit is None:
            return None
        found = tree, 0, unit
    base, whole, is_number = scope.term(found[0]), scope.term(tree), found[2] == "integer"
    term = _Part(1, base, None if whole == base else whole)
    _, shift, unit = found
    return _Form((term,), Fraction(shift), "number" if is_number else "point", unit, kind if is_number else "")


def _turned(tree: exp.Expr) -> tuple[exp.Expr | None, Fraction]:
    """Return ``x`` and ``c`` of ``c - x``."""
    if isinstance(tree, exp.Neg):
        return tree.this, Fraction(0)
    if not isinstance(tree, exp.Sub):
        return None, Fraction(0)
    constant = _number(tree.left)
    if constant is None or constant.denominator != 1:
        return None, Fraction(0)
    return tree.right, constant


def _offset(tree: exp.Expr, scope: Scope) -> tuple[exp.Expr, int, str] | None:
    """Split ``base + constant`` into the base, the constant and its unit, if that is exact."""
    shift, base = 0, bare(tree)
    kind = scope.type_of(tree)
    longest = 0
    while isinstance(base, exp.Add | exp.Sub):
        left, right = bare(base.left), bare(base.right)
        sign = 1 if isinstance(base, exp.Add) else -1
        constant = _constant(right, scope.type_of(left))
        rest = left
        if constant is None and sign == 1:
            constant, rest = _constant(left, scope.type_of(right)), right
        if constant is None:
            break
        shift += sign * constant
        longest = max(longest, abs(shift), abs(constant))
        base = rest
    unit = _unit(scope.type_of(base))
    if unit is None or _unit(kind) != unit:
        return None
    if unit == "timestamp" and longest >= DAY:
        return None  # a day is not always 24 hours: Spark adds it on the calendar of the session's zone
    return base, shift, unit


def _unit(kind: str) -> str | None:
    if kind in INTEGERS:
        return "integer"
    return kind if kind in (*TIMES, "date") else None


def _constant(tree: exp.Expr, beside: str) -> int | None:
    """Return a constant beside a value of some type, in the units of that type."""
    number = _number(tree)
    if number is not None and number.denominator == 1 and beside in (*INTEGERS, "date"):
        return int(number)
    micros = interval_microseconds(tree)
    if micros is None:
        return None
    if beside in TIMES:
        return micros
    return micros // DAY if beside == "date" and micros % DAY == 0 else None


def _number(tree: exp.Expr) -> Fraction | None:
    """Return the value of a number without a type: one with a type stays in the keys that checkpoints have stored."""
    return None if tree.find(exp.Cast) else exact_constant(tree)
