"""Expressions as linear forms: a sum of columns, or of what Spark computes of one relation, plus a constant.

The constant is a number, or lies between two. `Exact` reads only what can be moved across a comparison without
changing which rows fulfil it, `Implied` all that says something of the distance of two times. ``date(r.ts) + 3`` lies
between two and three days behind ``r.ts``; ``timestampdiff(HOUR, r.ts, s.ts)`` is ``s.ts - r.ts`` to within an hour.
Rounding, truncation and the calendar count with their largest effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Literal

from ..plan.comparison import decimal_digits
from ..plan.conjuncts import FLIPPED, ComparisonOp
from ..plan.expr import At, Call, Column, Constant, Expr, bare, cast, parts_of
from ..sql.intervals import MICROSECONDS, unit_name
from ..sql.spark_types import INTEGERS, TIMES, integer_limits, is_decimal
from .constants import exact_constant
from .terms import Scope

DAY = MICROSECONDS["DAY"]

_ZERO = Fraction(0), Fraction(0)

#: The shortest and the longest length of a unit of the calendar.
_CALENDAR = {"MONTH": (28 * DAY, 31 * DAY), "QUARTER": (90 * DAY, 92 * DAY), "YEAR": (365 * DAY, 366 * DAY)}

#: The error of double arithmetic on a number of seconds, up to the year 9999, in microseconds.
_DOUBLE = 64

#: Constants beside a number of days stay far below the overflow of an INT.
_DAYS = 10**9

#: Functions from times to numbers, with their unit. Smaller parts are cut off.
_SINCE_1970 = {
    **dict.fromkeys(("unix_timestamp", "to_unix_timestamp", "unix_seconds"), 1_000_000),
    "unix_millis": 1_000,
    "unix_micros": 1,
}

#: By how much functions move a number down and up at most, in its unit.
_ROUNDED = {"floor": (1, 0), "round": (1, 1), "positive": (0, 0), "ceil": (0, 1), "ceiling": (0, 1)}

#: What functions of parts of a length of time take, in order.
_PARTS = {
    "make_interval": ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
    "make_dt_interval": ("DAY", "HOUR", "MINUTE", "SECOND"),
    "make_ym_interval": ("YEAR", "MONTH"),
}

#: Microseconds of a unit; the fewest and the most of one of the calendar.
Size = Fraction | tuple[int, int]


@dataclass(frozen=True)
class Form:
    """``value * unit`` is the sum of ``sign * base``, plus something from ``low`` to ``high``.

    Parameters
    ----------
    terms
        The bases with their signs.
    low, high
        Ends of the rest: of times in microseconds, of plain numbers their value. Equal if it is exact.
    kind
        What it is.
    unit
        None for a plain number, a pair for a unit of the calendar.
    added, wall
        How often something is added on the calendar; whether the value is on the clock of the session's zone.
    guards
        What Spark computes of one relation in place of a base.
    """

    terms: tuple[tuple[Expr, int], ...]
    low: Fraction
    high: Fraction
    kind: Literal["timestamp", "date", "number", "interval"]
    unit: Size | None = Fraction(1)
    added: int = 0
    wall: bool = False
    guards: tuple[Expr, ...] = ()

    def negated(self) -> Form:
        """Return it with the other sign."""
        terms = tuple((base, -sign) for base, sign in self.terms)
        return replace(self, terms=terms, low=-self.high, high=-self.low)

    def wider(self, low: int | Fraction, high: int | Fraction = 0) -> Form:
        """Return it with more room below and above."""
        return replace(self, low=self.low - low, high=self.high + high)

    @property
    def is_point(self) -> bool:
        """Whether it is a point in time."""
        return self.kind in ("timestamp", "date")


class NoFormError(Exception):
    """An expression is no sum that is read here."""


def plain(value: Fraction) -> Form:
    """Return a number as a form."""
    return Form((), value, value, "number", None)


def lasting(micros: Fraction) -> Form:
    """Return a length of time as a form."""
    return Form((), micros, micros, "interval")


def added(one: Form, other: Form, *, compared: bool = False) -> Form:
    """Return the sum of two forms; of points in time, one is negated.

    Raises
    ------
    NoFormError
        The sum has no meaning here.
    """
    kinds, kind = {one.kind, other.kind}, one.kind
    if kinds == {"number"}:
        if one.unit is None:
            one, other = other, one
        if isinstance(one.unit, tuple):
            raise NoFormError  # whole units of the calendar are compared, and not added
        if other.unit is None and one.unit is not None:
            other = _scaled(other, one.unit)
        elif one.unit != other.unit:
            raise NoFormError
    elif kinds == {"date", "number"}:
        one, other = (one, other) if other.kind == "number" else (other, one)
        if other.unit is not None or compared:
            raise NoFormError
        other, kind = _scaled(other, Fraction(DAY)), "date"
    elif "number" in kinds:
        raise NoFormError
    elif "interval" in kinds:
        one, other = (one, other) if other.kind == "interval" else (other, one)
        kind = one.kind
        if kind == "date":  # a date has no clock: days are days
            other = replace(other, added=0)
    else:
        kind = "interval"
        if not compared:
            one = replace(one, wall=True)  # Spark subtracts them on the clock of the session's zone
    terms: dict[Expr, int] = {}
    for base, sign in (*one.terms, *other.terms):
        terms[base] = terms.get(base, 0) + sign
    return Form(
        tuple((base, sign) for base, sign in terms.items() if sign),
        one.low + other.low,
        one.high + other.high,
        kind,
        one.unit,
        one.added + other.added,
        one.wall or other.wall,
        (*one.guards, *other.guards),
    )


def _scaled(number: Form, unit: Fraction) -> Form:
    return replace(number, low=number.low * unit, high=number.high * unit, unit=unit)


def apart(expr: Expr, value: Callable[[Expr, Expr], Fraction | None]) -> tuple[Expr, list[Fraction]]:
    """Return a sum without its constants, and the constants; ``value`` gives that of one beside something."""
    base, constants = bare(expr), list[Fraction]()
    while base.op in ("+", "-"):
        left, right = map(bare, base.args)
        found, rest = value(right, left), left
        if found is not None and base.op == "-":
            found = -found
        elif found is None and base.op == "+":
            found, rest = value(left, right), right
        if found is None:
            break
        constants.append(found)
        base = rest
    return base, constants


def microseconds(expr: Expr) -> int | None:
    """Return the length of a constant interval of days or less, None for any other expression."""
    match bare(expr):
        case Constant(type="interval", value=tuple() as spans):
            return sum(int(count * MICROSECONDS[unit]) for count, unit in spans)
        case Call("NEG", (inner,)):
            length = microseconds(inner)
            return None if length is None else -length
        case Call("+", (left, right)):
            one, other = microseconds(left), microseconds(right)
            return None if one is None or other is None else one + other
    return None


def absolute(expr: Expr) -> Expr | None:
    """Return ``x`` of ``ABS(x)``, None for anything else."""
    match bare(expr):
        case Call("abs", (inner,)):
            return bare(inner)
    return None


# -------------------------------------------------------------------------------------------------------------- exact


@dataclass(frozen=True)
class Exact:
    """Reads integers, dates and timestamps over two relations, where constants may move across a comparison."""

    scope: Scope

    def form(self, expr: Expr) -> Form:
        """Return an expression as a form."""
        expr = bare(expr)
        match len(self.scope.relations(expr)), expr:
            case 0, _:
                return _constant(expr)
            case 1, _:
                return self._leaf(expr)
            case _, Call("NEG", (inner,)) if not (form := self.form(inner)).is_point:
                return form.negated()
            case _, Call("datediff" | "date_diff", (end, start)):
                one, other = self.form(end), self.form(start)
                if one.kind == other.kind == "date":
                    return replace(self.difference(one, other), kind="number", unit=Fraction(DAY))
            case _, Call("-", (left, right)):
                one, other = self.form(left), self.form(right)
                if one.is_point and unit_of(one) == unit_of(other) == "timestamp":
                    one, other = _on_the_wall_clock(left), _on_the_wall_clock(right)
                return self.difference(one, other)
            case _, Call("+", (left, right)) if not (one := self.form(left)).is_point:
                return self.difference(one, self.form(right).negated())
        raise NoFormError

    def difference(self, one: Form, other: Form) -> Form:
        """Return the difference of two forms over other relations, if that is exact."""
        read = ({alias for base, _ in form.terms for alias in self.scope.relations(base)} for form in (one, other))
        days, number = (one, other) if other.unit is None else (other, one)
        too_long = days.unit != number.unit and number.low.denominator == 1 and abs(number.low) >= _DAYS
        differ = one.kind != other.kind or (one.is_point and unit_of(one) != unit_of(other))
        if differ or too_long or set.intersection(*read):
            raise NoFormError
        return added(one, other.negated(), compared=True)

    def _leaf(self, expr: Expr) -> Form:
        """Return what Spark computes of one relation as a base and a constant, if that is exact."""
        match expr:
            case Call("NEG", (inner,), type=kind) if kind in INTEGERS:
                return self._turned(expr, inner, Fraction(0))
            case Call("-", (left, inner), type=kind) if kind in INTEGERS and (number := _untyped(left)) is not None:
                return self._turned(expr, inner, number)
        unit = _unit(expr)
        if unit is None:
            raise NoFormError
        base, constants = apart(expr, _moved)
        running = [sum(constants[:end], Fraction(0)) for end in range(len(constants) + 1)]
        # a day is not always 24 hours: Spark adds it on the calendar of the session's zone
        if _unit(base) != unit or (unit == "timestamp" and max(map(abs, [*running, *constants])) >= DAY):
            base, running = expr, [Fraction(0)]
        form = Form(((base, 1),), running[-1], running[-1], "timestamp", guards=() if base == expr else (expr,))
        if unit == "integer":
            return replace(form, kind="number", unit=None)
        return replace(form, kind="date") if unit == "date" else form

    def _turned(self, expr: Expr, inner: Expr, number: Fraction) -> Form:
        """Return ``number - inner``."""
        return replace(self._leaf(bare(inner)).negated().wider(-number, number), guards=(expr,))


def unit_of(form: Form) -> str:
    """Return what the difference of a form's bases counts: ``integer``, ``date``, or a type of times."""
    return next((unit for base, _ in form.terms if (unit := _unit(base))), "")


def _unit(expr: Expr) -> str | None:
    return "integer" if expr.type in INTEGERS else expr.type if expr.type in (*TIMES, "date") else None


def _on_the_wall_clock(side: Expr) -> Form:
    """Return a timestamp as Spark subtracts it: on the wall clock of the session's zone."""
    return Form(((cast(bare(side), "timestamp_ntz"), 1),), *_ZERO, "timestamp")


def _moved(expr: Expr, beside: Expr) -> Fraction | None:
    """Return a constant that may leave its place beside a value of some type."""
    number = _untyped(expr)
    if number is not None and beside.type in (*INTEGERS, "date"):
        return number * (DAY if beside.type == "date" else 1)
    micros = microseconds(expr)
    if micros is None or not (beside.type in TIMES or (beside.type == "date" and micros % DAY == 0)):
        return None
    return Fraction(micros)


def _untyped(expr: Expr) -> Fraction | None:
    """Return a whole number without a type: one with a type stays in the keys that checkpoints have stored."""
    found = None if any(node.op == "CAST" for node in parts_of(expr)) else exact_constant(expr)
    return found if found is not None and found.denominator == 1 else None


def _constant(expr: Expr) -> Form:
    """Return a constant as a form, if Spark computes it in a type in which it has that value."""
    micros, value = microseconds(expr), _whole_or_short(expr)
    if micros is not None and abs(micros) < 1 << 60:
        return lasting(Fraction(micros))
    if value is None or not (is_decimal(expr.type) or value.denominator == 1):
        raise NoFormError
    low, high = integer_limits(expr.type) or (value, value)
    fits = int(expr.type[8:].split(",")[0]) <= 10 if is_decimal(expr.type) else expr.type in INTEGERS
    if not fits or not low <= value <= high:
        raise NoFormError
    return plain(value)


def _whole_or_short(expr: Expr) -> Fraction | None:
    """Return a constant's value; sums and products of small numbers are folded as Spark does."""
    match bare(expr):
        case Call("NEG", (inner,)):
            value = _whole_or_short(inner)
            return None if value is None else -value
        case Call("CAST", (inner,)):
            found = _whole_or_short(inner)
        case Call("+" | "-" | "*" as op, (left, right)):
            one, other = _whole_or_short(left), _whole_or_short(right)
            if one is None or other is None or max(abs(one), abs(other)) >= 1 << 15:
                return None
            found = one + other if op == "+" else one - other if op == "-" else one * other
        case constant:
            return exact_constant(constant)
    return found if found is not None and found.denominator == 1 else None


# ------------------------------------------------------------------------------------------------------------- implied


@dataclass(frozen=True)
class Implied:
    """Reads what an expression says of the columns that are times.

    Parameters
    ----------
    column
        Gives the type of a column that may stand for a time, None for one that may not.
    ansi
        Whether a time beyond an INT is an error, instead of wrapping around.
    """

    column: Callable[[At], str | None]
    ansi: bool = True

    def form(self, expr: Expr) -> Form:
        """Return an expression as a form."""
        match bare(expr):
            case Column() as column if kind := self.column(column.at):
                return Form(((column, 1),), *_ZERO, "timestamp", wall=kind == "timestamp_ntz")
            case Constant(value=Fraction() as number):
                return plain(number)
            case Constant(value=tuple() as spans):
                return _total(_length(unit, count) for count, unit in spans)
            case Call("NEG", (inner,)):
                return self.form(inner).negated()
            case Call("+", (left, right)):
                return added(self.form(left), self.form(right))
            case Call("-", (left, right)):
                return added(self.form(left), self.form(right).negated())
            case Call("*" | "/" | "DIV" as op, (left, right)):
                return _product(op, self.form(left), self.form(right))
            case Call("CAST", (inner,), type=kind):
                return self._as_type(kind, inner)
            case Call(op, args):
                return self._call(op, args)
        raise NoFormError

    def _as_type(self, kind: str, expr: Expr) -> Form:
        form = self.form(expr)
        match form.kind, kind:
            case "number", "double" if not isinstance(form.unit, tuple):
                return form
            case "number", "bigint" | "int":
                return _cut(form)
            case "date" | "timestamp", "timestamp" | "timestamp_ntz":
                return replace(form, kind="timestamp", wall=form.wall or kind == "timestamp_ntz")
            case "date", "date":
                return form
            case "timestamp", "date":
                return replace(form.wider(DAY), kind="date", wall=True)
            case "timestamp", "bigint":
                return _seconds(form.wider(1_000_000))
            case "timestamp", "int" if self.ansi:
                return _seconds(form.wider(1_000_000))
            case "timestamp", "double":
                return _seconds(form.wider(_DOUBLE, _DOUBLE))
            case "timestamp", _ if (digits := decimal_digits(kind)) is not None:
                cut = Fraction(1_000_000, 10 ** digits[1])
                return _seconds(form.wider(cut, cut))
        raise NoFormError

    def _call(self, name: str, args: tuple[Expr, ...]) -> Form:
        match name, args:
            case "to_date" | "date", (one,):
                return self._as_type("date", one)
            case "timestamp" | "double" | "bigint" | "int", (one,):
                return self._as_type(name, one)
            case _, (one,) if name in _SINCE_1970 or name in _ROUNDED or name == "unix_date":
                return _number(name, self.form(one))
            case "date_trunc", (Constant(value=str(unit)), one):
                return replace(_cut_to(unit, self.form(one)), kind="timestamp")
            case "trunc", (one, Constant(value=str(unit))):
                return _cut_to(unit, self._as_type("date", one))
            case "last_day", (one,):
                return self._as_type("date", one).wider(0, 31 * DAY)
            case _, _ if name in _PARTS and len(args) <= len(_PARTS[name]):
                return _total(self._length(unit, count) for unit, count in zip(_PARTS[name], args, strict=False))
            case "date_add" | "dateadd" | "date_sub", (one, days) if (count := self.form(days)).unit is None:
                return added(self._as_type("date", one), count.negated() if name == "date_sub" else count)
            case "add_months", (one, months):
                return added(self._as_type("date", one), self._length("MONTH", months))
            case "dateadd" | "date_add" | "timestampadd", (Constant(value=str(unit)), count_of, one):
                if self.form(one).is_point:
                    return added(self._as_type("timestamp", one), self._length(unit, count_of))
            case "datediff" | "date_diff", (end, start):
                return _between("DAY", self._as_type("date", start), self._as_type("date", end))
            case "datediff" | "date_diff" | "timestampdiff", (Constant(value=str(unit)), start, end):
                between = _between(unit, self.form(start), self.form(end))
                return between if isinstance(between.unit, tuple) else _cut(between)
        raise NoFormError

    def _length(self, unit: str, count: Expr) -> Form:
        """Return a number of units as an interval."""
        number = self.form(count)
        if number.unit is not None or number.low != number.high:
            raise NoFormError
        return _length(unit, number.low)


def _product(op: str, left: Form, right: Form) -> Form:
    """Return a product with a number, or a quotient by one."""
    if op == "*" and left.unit is None:
        left, right = right, left
    if right.unit is not None or right.low != right.high or right.low <= 0 or isinstance(left.unit, tuple):
        raise NoFormError
    factor = right.low if op == "*" else 1 / right.low
    if left.unit is None or left.kind == "interval":
        if op == "DIV" or left.terms:
            raise NoFormError
        return replace(left, low=left.low * factor, high=left.high * factor)
    if left.kind != "number":
        raise NoFormError
    found = replace(left, unit=left.unit / factor)
    return _cut(found) if op == "DIV" else found.wider(_DOUBLE, _DOUBLE)


def _seconds(form: Form) -> Form:
    return replace(form, kind="number", unit=Fraction(1_000_000))


def _number(name: str, form: Form) -> Form:
    """Return a number that a function makes of a time, or of a number that it rounds."""
    if name in _ROUNDED and form.kind == "number" and not isinstance(form.unit, tuple):
        whole = form.unit or Fraction(1)
        down, up = _ROUNDED[name]
        return form.wider(down * whole, up * whole)
    if name == "unix_date" and form.kind == "date":
        return replace(form, kind="number", unit=Fraction(DAY))
    if name in _SINCE_1970 and form.is_point:
        unit = _SINCE_1970[name]
        return replace(form.wider(unit if unit > 1 else 0), kind="number", unit=Fraction(unit))
    raise NoFormError


def _between(unit: str, start: Form, end: Form) -> Form:
    """Return the number of units between two points in time, not yet cut off."""
    if not (start.is_point and end.is_point):
        raise NoFormError
    return replace(added(end, start.negated()), kind="number", unit=_size(unit))


def _cut_to(unit: str, form: Form) -> Form:
    """Return the beginning of the unit that a point in time is in."""
    if not form.is_point:
        raise NoFormError
    size = _size(unit)
    return replace(form.wider(size[1] if isinstance(size, tuple) else size), wall=True)


def _cut(form: Form) -> Form:
    """Return a number rounded to a whole one, in any direction."""
    if isinstance(form.unit, tuple):
        raise NoFormError
    if form.unit is None and form.low.denominator == 1 == form.high.denominator:
        return form
    return form.wider(form.unit or 1, form.unit or 1)


def _size(unit: str) -> Size:
    name = unit_name(unit)
    if name is None:
        raise NoFormError
    return _CALENDAR[name] if name in _CALENDAR else Fraction(MICROSECONDS[name])


def _length(unit: str, count: Fraction) -> Form:
    """Return a number of units. Units of a day and more are on the calendar."""
    size = _size(unit)
    low, high = sorted(one * count for one in (size if isinstance(size, tuple) else (size, size)))
    days = isinstance(size, tuple) or size >= DAY
    return Form((), Fraction(low), Fraction(high), "interval", added=int(bool(count) and days))


def _total(parts: Iterable[Form]) -> Form:
    found = list(parts)
    if not found:
        raise NoFormError
    return reduce(added, found)


# -------------------------------------------------------------------------------------------------- distances of times


@dataclass(frozen=True)
class Bound:
    """``t(later) - t(earlier) <= most``, in microseconds, of two columns as ``(alias, name)``."""

    earlier: At
    later: At
    most: int


_ENDS: dict[ComparisonOp, tuple[str, ...]] = {
    "=": ("<=", ">="),
    "<": ("<=",),
    "<=": ("<=",),
    ">": (">=",),
    ">=": (">=",),
}


def implied_bounds(expr: Expr, reader: Implied, zone_shift: int) -> Iterator[Bound]:
    """Yield the bounds that a true condition implies.

    Parameters
    ----------
    expr
        A comparison or BETWEEN; anything else implies nothing.
    reader
        Reads its sides.
    zone_shift
        How far a difference on the wall clock can be from elapsed time, in microseconds.
    """
    match bare(expr):
        case Call("BETWEEN", (value, low, high)):
            yield from _compared(">=", value, low, reader, zone_shift)
            yield from _compared("<=", value, high, reader, zone_shift)
        case Call(op, (left, right)) if op in _ENDS:
            yield from _compared(op, left, right, reader, zone_shift)


def bounds_between(
    left: Expr, right: Expr, ends: tuple[Form | None, Form | None], reader: Implied, zone_shift: int
) -> Iterator[Bound]:
    """Yield what follows if ``left - right``, computed exactly, lies between two ends."""
    with suppress(NoFormError):
        form, bound = reader.form(left), reader.form(right)
        for op, end in zip((">=", "<="), ends, strict=True):
            if end is not None:
                with suppress(NoFormError):
                    yield from _ends(form, added(bound, end) if end.low else bound, op, zone_shift)


def _compared(op: ComparisonOp, left: Expr, right: Expr, reader: Implied, zone_shift: int) -> Iterator[Bound]:
    inner, other_inner = absolute(left), absolute(right)
    with suppress(NoFormError):
        if inner is None and other_inner is None:
            form, bound = reader.form(left), reader.form(right)
            for end in _ENDS[op]:
                with suppress(NoFormError):
                    yield from _ends(form, bound, end, zone_shift)
            return
    for one, other, way in ((inner, right, op), (other_inner, left, FLIPPED[op])):
        with suppress(NoFormError):
            if one is not None and "<=" in _ENDS[way]:
                form, bound = reader.form(one), reader.form(other)
                for turned in (form, form.negated()):
                    with suppress(NoFormError):
                        yield from _ends(turned, bound, "<=", zone_shift)


def _ends(form: Form, bound: Form, op: str, zone_shift: int) -> Iterator[Bound]:
    """Yield the bound that ``form <= bound`` or ``form >= bound`` implies."""
    if op == ">=":
        form, bound = form.negated(), bound.negated()
    if not isinstance(form.unit, tuple):
        difference = added(form, bound.negated(), compared=True)
    elif bound.unit is None:  # whole months, or years, between two times
        longest = max(length * (bound.high + 1) for length in form.unit)
        difference = replace(form, unit=Fraction(1), low=form.low - longest)
    else:
        return
    if sorted(sign for _, sign in difference.terms) != [-1, 1]:
        return
    (later, _), (earlier, _) = sorted(difference.terms, key=lambda term: -term[1])
    if later.columns[0][0] != earlier.columns[0][0]:
        slack = zone_shift * (difference.added + difference.wall)
        yield Bound(earlier.columns[0], later.columns[0], int(-(difference.low // 1)) + slack)
