"""Expressions as linear forms: a sum of columns, or of what Spark computes of one relation, plus a constant.

The constant is a number, or lies between two. `Exact` reads only what can be moved across a comparison without
changing which rows fulfil it, `Implied` all that says something of the distance of two times. ``date(r.ts) + 3`` lies
between two and three days behind ``r.ts``; ``timestampdiff(HOUR, r.ts, s.ts)`` is ``s.ts - r.ts`` to within an hour.
Rounding, truncation and the calendar count with their largest effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from ..plan.comparison import decimal_scale
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


def plain(value: Fraction) -> Form:
    """Return a number as a form."""
    return Form((), value, value, "number", None)


def lasting(micros: Fraction) -> Form:
    """Return a length of time as a form."""
    return Form((), micros, micros, "interval")


def added(one: Form, other: Form, *, compared: bool = False) -> Form | None:
    """Return the sum of two forms, None if it has no meaning here; of points in time, one is negated."""
    if isinstance(one.unit, tuple) or isinstance(other.unit, tuple):
        return None  # whole units of the calendar are compared, and not added
    kinds = {one.kind, other.kind}
    kind = one.kind
    if kinds == {"number"}:
        if one.unit is None:
            one, other = other, one
        if other.unit is None and one.unit is not None:
            other = _scaled(other, one.unit)
        elif one.unit != other.unit:
            return None
    elif kinds == {"date", "number"}:
        one, other = (one, other) if other.kind == "number" else (other, one)
        if other.unit is not None or compared:
            return None
        other, kind = _scaled(other, Fraction(DAY)), "date"
    elif "number" in kinds:
        return None
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


def _scaled(number: Form, unit: Size) -> Form:
    assert isinstance(unit, Fraction)
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

    def form(self, expr: Expr) -> Form | None:
        """Return an expression as a form, None if it is none."""
        expr = bare(expr)
        match len(self.scope.relations(expr)):
            case 0:
                return _constant(expr)
            case 1:
                return self._leaf(expr)
        match expr:
            case Call("NEG", (inner,)):
                form = self.form(inner)
                return None if form is None or form.is_point else form.negated()
            case Call("datediff" | "date_diff", (end, start)):
                one, other = self.form(end), self.form(start)
                if one is None or other is None or not one.kind == other.kind == "date":
                    return None
                days = self.difference(one, other)
                return days and replace(days, kind="number", unit=Fraction(DAY))
            case Call("+" | "-" as op, (left, right)):
                one, other = self.form(left), self.form(right)
                if one is None or other is None or (op == "+" and one.is_point):
                    return None
                if one.is_point and unit_of(one) == unit_of(other) == "timestamp":
                    one, other = _on_the_wall_clock(left), _on_the_wall_clock(right)
                return self.difference(one, other if op == "-" else other.negated())
        return None

    def difference(self, one: Form, other: Form) -> Form | None:
        """Return the difference of two forms over other relations, None if it is not exact."""
        read = ({alias for base, _ in form.terms for alias in self.scope.relations(base)} for form in (one, other))
        if one.kind != other.kind or set.intersection(*read) or (one.is_point and unit_of(one) != unit_of(other)):
            return None
        days, number = (one, other) if other.unit is None else (other, one)
        if days.unit != number.unit and number.low.denominator == 1 and abs(number.low) >= _DAYS:
            return None
        return added(one, other.negated(), compared=True)

    def _leaf(self, expr: Expr) -> Form | None:
        """Return what Spark computes of one relation as a base and a constant, if that is exact."""
        match expr:
            case Call("NEG", (inner,), type=kind) if kind in INTEGERS:
                return self._turned(expr, inner, Fraction(0))
            case Call("-", (left, inner), type=kind) if kind in INTEGERS and (number := _untyped(left)) is not None:
                return self._turned(expr, inner, number)
        unit = _unit(expr)
        if unit is None:
            return None
        base, constants = apart(expr, _moved)
        running = [sum(constants[:end], Fraction(0)) for end in range(len(constants) + 1)]
        # a day is not always 24 hours: Spark adds it on the calendar of the session's zone
        if _unit(base) != unit or (unit == "timestamp" and max(map(abs, [*running, *constants])) >= DAY):
            base, running = expr, [Fraction(0)]
        form = Form(((base, 1),), running[-1], running[-1], "timestamp", guards=() if base == expr else (expr,))
        if unit == "integer":
            return replace(form, kind="number", unit=None)
        return replace(form, kind="date") if unit == "date" else form

    def _turned(self, expr: Expr, inner: Expr, number: Fraction) -> Form | None:
        """Return ``number - inner``."""
        form = self._leaf(bare(inner))
        return form and replace(form.negated().wider(-number, number), guards=(expr,))


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


def _constant(expr: Expr) -> Form | None:
    """Return a constant as a form, None if Spark computes it in a type in which it has another value."""
    micros = microseconds(expr)
    if micros is not None:
        return lasting(Fraction(micros)) if abs(micros) < 1 << 60 else None
    value = _whole_or_short(expr)
    if value is None:
        return None
    if is_decimal(expr.type):
        return plain(value) if int(expr.type[8:].split(",")[0]) <= 10 else None
    limits = integer_limits(expr.type)
    return plain(value) if limits and value.denominator == 1 and limits[0] <= value <= limits[1] else None


def _whole_or_short(expr: Expr) -> Fraction | None:
    """Return a constant's value; sums and products of small numbers are folded as Spark does."""
    found: Fraction | None = None
    match bare(expr):
        case Call("CAST", (inner,)):
            found = _whole_or_short(inner)
        case Call("NEG", (inner,)):
            value = _whole_or_short(inner)
            return None if value is None else -value
        case Call("+" | "-" | "*" as op, (left, right)):
            one, other = _whole_or_short(left), _whole_or_short(right)
            if one is not None and other is not None and max(abs(one), abs(other)) < 1 << 15:
                found = one + other if op == "+" else one - other if op == "-" else one * other
        case other:
            return exact_constant(other)
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

    def form(self, expr: Expr) -> Form | None:
        """Return an expression as a form, None if it is none."""
        match bare(expr):
            case Column() as column:
                kind, term = self.column(column.at), ((column, 1),)
                return Form(term, *_ZERO, "timestamp", wall=kind == "timestamp_ntz") if kind else None
            case Constant(value=Fraction() as number):
                return plain(number)
            case Constant(value=tuple() as spans):
                return _total([_length(unit, count) for count, unit in spans])
            case Call("NEG", (inner,)):
                form = self.form(inner)
                return None if form is None else form.negated()
            case Call("+" | "-" as op, (left, right)):
                one, other = self.form(left), self.form(right)
                return None if one is None or other is None else added(one, other.negated() if op == "-" else other)
            case Call("*" | "/" | "DIV" as op, (left, right)):
                return self._product(op, self.form(left), self.form(right))
            case Call("CAST", (inner,), type=kind):
                return self._as_type(kind, self.form(inner))
            case Call(op, args):
                return self._call(op, args)
        return None

    def _product(self, op: str, left: Form | None, right: Form | None) -> Form | None:
        if op == "*" and left is not None and left.unit is None:
            left, right = right, left
        if left is None or right is None or right.unit is not None or right.low != right.high or right.low <= 0:
            return None
        factor = right.low if op == "*" else 1 / right.low
        if left.unit is None or left.kind == "interval":
            found = replace(left, low=left.low * factor, high=left.high * factor)
            return None if op == "DIV" or left.terms else found
        if left.kind != "number" or isinstance(left.unit, tuple):
            return None
        found = replace(left, unit=left.unit / factor)
        return _cut(found) if op == "DIV" else found.wider(_DOUBLE, _DOUBLE)

    def _as_type(self, kind: str, form: Form | None) -> Form | None:
        if form is None or form.kind == "interval" or isinstance(form.unit, tuple):
            return None
        if form.kind == "number":
            return form if kind == "double" else _cut(form) if kind in ("bigint", "int") else None
        if kind in TIMES:
            return replace(form, kind="timestamp", wall=form.wall or kind == "timestamp_ntz")
        if kind == "date":
            return form if form.kind == "date" else replace(form.wider(DAY), kind="date", wall=True)
        if form.kind != "timestamp":
            return None
        if kind == "bigint" or (kind == "int" and self.ansi):
            form = form.wider(1_000_000)
        elif kind == "double":
            form = form.wider(_DOUBLE, _DOUBLE)
        elif (scale := decimal_scale(kind)) is not None:
            cut = Fraction(1_000_000, 10**scale)
            form = form.wider(cut, cut)
        else:
            return None
        return replace(form, kind="number", unit=Fraction(1_000_000))

    def _call(self, name: str, args: tuple[Expr, ...]) -> Form | None:
        match name, args:
            case ("to_date" | "date", (one,)):
                return self._as_type("date", self.form(one))
            case ("timestamp" | "double" | "bigint" | "int", (one,)):
                return self._as_type(name, self.form(one))
            case (_, (one,)) if name in _SINCE_1970 or name in _ROUNDED or name == "unix_date":
                return _number(name, self.form(one))
            case ("date_trunc", (Constant(value=str(unit)), one)):
                return _cut_to(unit, self.form(one), "timestamp")
            case ("trunc", (one, Constant(value=str(unit)))):
                return _cut_to(unit, self._as_type("date", self.form(one)), "date")
            case ("last_day", (one,)):
                date = self._as_type("date", self.form(one))
                return None if date is None else date.wider(0, 31 * DAY)
            case (_, _) if name in _PARTS and len(args) <= len(_PARTS[name]):
                return _total([self._length(unit, count) for unit, count in zip(_PARTS[name], args, strict=False)])
            case ("date_add" | "dateadd" | "date_sub", (one, days)):
                count = self.form(days)
                if count is None or count.unit is not None:
                    return None
                return _sum(self._as_type("date", self.form(one)), count.negated() if name == "date_sub" else count)
            case ("add_months", (one, months)):
                return _sum(self._as_type("date", self.form(one)), self._length("MONTH", months))
            case ("dateadd" | "date_add" | "timestampadd", (Constant(value=str(unit)), count, one)):
                return _sum(self._as_type("timestamp", _point(self.form(one))), self._length(unit, count))
            case ("datediff" | "date_diff", (end, start)):
                return _between("DAY", *(self._as_type("date", self.form(one)) for one in (start, end)))
            case ("datediff" | "date_diff" | "timestampdiff", (Constant(value=str(unit)), start, end)):
                between = _between(unit, self.form(start), self.form(end))
                return between if between is None or isinstance(between.unit, tuple) else _cut(between)
        return None

    def _length(self, unit: str, count: Expr) -> Form | None:
        """Return a number of units as an interval."""
        number = self.form(count)
        if number is None or number.unit is not None or number.low != number.high:
            return None
        return _length(unit, number.low)


def _point(form: Form | None) -> Form | None:
    return form if form is not None and form.is_point else None


def _sum(one: Form | None, other: Form | None) -> Form | None:
    return None if one is None or other is None else added(one, other)


def _number(name: str, form: Form | None) -> Form | None:
    """Return a number that a function makes of a time, or of a number that it rounds."""
    if form is None or isinstance(form.unit, tuple):
        return None
    if name in _ROUNDED:
        whole = form.unit or Fraction(1)
        down, up = _ROUNDED[name]
        return form.wider(down * whole, up * whole) if form.kind == "number" else None
    if name == "unix_date":
        return replace(form, kind="number", unit=Fraction(DAY)) if form.kind == "date" else None
    unit = _SINCE_1970[name]
    return replace(form.wider(unit if unit > 1 else 0), kind="number", unit=Fraction(unit)) if form.is_point else None


def _between(unit: str, start: Form | None, end: Form | None) -> Form | None:
    """Return the number of units between two points in time, not yet cut off."""
    size = _size(unit)
    if size is None or start is None or end is None or not (start.is_point and end.is_point):
        return None
    found = added(end, start.negated())
    return found and replace(found, kind="number", unit=size)


def _cut_to(unit: str, form: Form | None, kind: Literal["timestamp", "date"]) -> Form | None:
    size = _size(unit)
    if size is None or form is None or not form.is_point:
        return None
    return replace(form.wider(size[1] if isinstance(size, tuple) else size), kind=kind, wall=True)


def _cut(form: Form) -> Form | None:
    """Return a number rounded to a whole one, in any direction."""
    if form.unit is None:
        return form if form.low.denominator == 1 == form.high.denominator else form.wider(1, 1)
    return None if isinstance(form.unit, tuple) else form.wider(form.unit, form.unit)


def _size(unit: str) -> Size | None:
    name = unit_name(unit) or ""
    return _CALENDAR[name] if name in _CALENDAR else Fraction(MICROSECONDS[name]) if name else None


def _length(unit: str, count: Fraction) -> Form | None:
    """Return a number of units. Units of a day and more are on the calendar."""
    size = _size(unit)
    if size is None:
        return None
    low, high = sorted(one * count for one in (size if isinstance(size, tuple) else (size, size)))
    days = isinstance(size, tuple) or size >= DAY
    return Form((), Fraction(low), Fraction(high), "interval", added=int(bool(count) and days))


def _total(parts: list[Form | None]) -> Form | None:
    found: Form | None = lasting(Fraction(0))
    for part in parts:
        found = _sum(found, part)
    return found if parts else None


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
    form, bound = reader.form(left), reader.form(right)
    for op, end in zip((">=", "<="), ends, strict=True):
        moved = _sum(bound, end) if end is not None and end.low else bound
        if form is not None and moved is not None and end is not None:
            yield from _ends(form, moved, op, zone_shift)


def _compared(op: ComparisonOp, left: Expr, right: Expr, reader: Implied, zone_shift: int) -> Iterator[Bound]:
    for one, other, ways in ((left, right, _ENDS[op]), (right, left, _ENDS[FLIPPED[op]])):
        inner = absolute(one)
        form, bound = reader.form(one if inner is None else inner), reader.form(other)
        if form is None or bound is None or (inner is not None and "<=" not in ways):
            continue
        for end in ways if inner is None else ("<=",):
            yield from _ends(form, bound, end, zone_shift)
        if inner is not None:
            yield from _ends(form.negated(), bound, "<=", zone_shift)
        return


def _ends(form: Form, bound: Form, op: str, zone_shift: int) -> Iterator[Bound]:
    """Yield the bound that ``form <= bound`` or ``form >= bound`` implies."""
    if op == ">=":
        form, bound = form.negated(), bound.negated()
    difference: Form | None
    if isinstance(form.unit, tuple):  # whole months, or years, between two times
        if bound.unit is not None:
            return
        longest = max(length * (bound.high + 1) for length in form.unit)
        difference = replace(form, unit=Fraction(1), low=form.low - longest)
    else:
        difference = added(form, bound.negated(), compared=True)
    if difference is None or sorted(sign for _, sign in difference.terms) != [-1, 1]:
        return
    (later, _), (earlier, _) = sorted(difference.terms, key=lambda term: -term[1])
    if later.columns[0][0] != earlier.columns[0][0]:
        slack = zone_shift * (difference.added + difference.wall)
        yield Bound(earlier.columns[0], later.columns[0], int(-(difference.low // 1)) + slack)
