"""What a comparison of times implies about their distance.

An expression is read as a *form*: a sum of columns that hold instants, plus something between two lengths. ``date(r.ts)
+ 3`` lies between two and three days behind ``r.ts``; ``timestampdiff(HOUR, r.ts, s.ts)`` is ``s.ts - r.ts`` to within
an hour. A comparison of forms bounds the difference of two columns. A bound is never too small: rounding, truncation
and the calendar count with their largest effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from ..sql.dialect import render
from ..sql.functions import called
from ..sql.intervals import MICROSECONDS
from ..sql.spark_types import type_name

DAY = MICROSECONDS["DAY"]

#: The shortest and the longest length of a unit of the calendar.
_CALENDAR = {"MONTH": (28 * DAY, 31 * DAY), "QUARTER": (90 * DAY, 92 * DAY), "YEAR": (365 * DAY, 366 * DAY)}

#: Other names of units, and units as ``date_trunc`` and ``trunc`` know them.
_UNITS = {"DAYOFYEAR": "DAY", "DD": "DAY", "YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH"}

#: The error of double arithmetic on a number of seconds, up to the year 9999, in microseconds.
_DOUBLE = 64

#: Functions from times to numbers, with their unit. Smaller parts are cut off.
_SINCE_1970 = {
    **dict.fromkeys(("unix_timestamp", "to_unix_timestamp", "unix_seconds"), 1_000_000),
    "unix_millis": 1_000,
    "unix_micros": 1,
}

At = tuple[str, str]
#: The type of a column that may stand for a time, None for one that may not.
TimeColumn = Callable[[At], "str | None"]


@dataclass(frozen=True)
class Bound:
    """``t(later) - t(earlier) <= most``, in microseconds, of two columns as ``(alias, name)``."""

    earlier: At
    later: At
    most: int


@dataclass(frozen=True)
class _Form:
    """``value * unit`` is the sum of ``sign * column``, plus something from ``low`` to ``high`` (microseconds).

    ``unit`` is None for a plain number, whose value ``low`` and ``high`` are, and a pair for a unit of the calendar.
    ``added`` counts additions on the calendar; ``wall`` tells that the value is on the clock of the session's zone.
    """

    terms: tuple[tuple[At, int], ...]
    low: Fraction
    high: Fraction
    kind: Literal["timestamp", "date", "number", "interval"]
    unit: Fraction | tuple[int, int] | None = Fraction(1)
    added: int = 0
    wall: bool = False

    def negated(self) -> _Form:
        terms = tuple((at, -sign) for at, sign in self.terms)
        return replace(self, terms=terms, low=-self.high, high=-self.low)

    def wider(self, low: int | Fraction, high: int | Fraction = 0) -> _Form:
        return replace(self, low=self.low - low, high=self.high + high)


def implied_bounds(tree: exp.Expr, column: TimeColumn, zone_shift: int, *, ansi: bool = True) -> Iterator[Bound]:
    """Yield the bounds that a true condition implies.

    Parameters
    ----------
    tree
        A comparison or BETWEEN; anything else implies nothing.
    column
        Tells which columns are times.
    zone_shift
        How far a difference on the wall clock can be from elapsed time, in microseconds.
    ansi
        Whether a time beyond an INT is an error, instead of wrapping around.
    """
    reader = _Reader(column, ansi)
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        for op, end in ((">=", "low"), ("<=", "high")):
            yield from _compared(op, tree.this, tree.args[end], reader, zone_shift)
    elif type(tree) in _OPS:
        yield from _compared(_OPS[type(tree)], tree.this, tree.expression, reader, zone_shift)


def bounds_between(
    left: exp.Expr,
    right: exp.Expr,
    ends: tuple[Fraction | None, Fraction | None],
    timed: bool,
    column: TimeColumn,
    zone_shift: int,
    *,
    ansi: bool = True,
) -> Iterator[Bound]:
    """Yield what follows if ``left - right`` lies between two ends, in microseconds if ``timed``, computed exactly."""
    reader = _Reader(column, ansi)
    form, bound = reader.form(left), reader.form(right)
    if form is None or bound is None:
        return
    for op, end in zip((">=", "<="), ends, strict=True):
        if end is not None:
            shift = _Form((), end, end, "interval") if timed else _Form((), end, end, "number", None)
            moved = _sum(bound, shift) if end else bound
            if moved is not None:
                yield from _ends(form, moved, op, zone_shift)


_OPS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<=", exp.LTE: "<=", exp.GT: ">=", exp.GTE: ">="}


def _compared(op: str, left: exp.Expr, right: exp.Expr, reader: _Reader, zone_shift: int) -> Iterator[Bound]:
    ends = {"=": ("<=", ">=")}.get(op, (op,))
    for one, other, ways in ((left, right, ends), (right, left, tuple(_TURNED[end] for end in ends))):
        inner = one.expressions[0] if called(one) == "abs" and len(one.expressions) == 1 else None
        form, bound = reader.form(inner if inner is not None else one), reader.form(other)
        if form is None or bound is None or (inner is not None and "<=" not in ways):
            continue
        for end in ("<=",) if inner is not None else ways:
            yield from _ends(form, bound, end, zone_shift)
            if inner is not None:
                yield from _ends(form.negated(), bound, end, zone_shift)
        return


_TURNED = {"<=": ">=", ">=": "<="}


def _ends(form: _Form, bound: _Form, op: str, zone_shift: int) -> Iterator[Bound]:
    """Yield the bound that ``form <= bound`` or ``form >= bound`` implies."""
    if op == ">=":
        form, bound = form.negated(), bound.negated()
    if isinstance(form.unit, tuple):  # whole months, or years, between two times
        if bound.unit is not None:
            return
        units = [Fraction(length) * (bound.high + 1) for length in form.unit]
        difference: _Form | None = replace(form, unit=Fraction(1), low=form.low - max(units))
    else:
        difference = _sum(form, bound.negated(), compared=True)
    if difference is None or sorted(sign for _, sign in difference.terms) != [-1, 1]:
        return
    (later, earlier) = sorted(difference.terms, key=lambda term: -term[1])
    if later[0][0] != earlier[0][0]:
        slack = zone_shift * (difference.added + difference.wall)
        yield Bound(earlier[0], later[0], int(-(difference.low // 1)) + slack)


def _sum(one: _Form, other: _Form, *, compared: bool = False) -> _Form | None:
    """Return the sum of two forms, None if it has no meaning here."""
    units = (one.unit, other.unit)
    if any(isinstance(unit, tuple) for unit in units):
        return None
    if one.kind == other.kind == "number":
        if one.unit is None:
            one, other = other, one
        if other.unit is None and one.unit is not None:
            other = _scaled(other, one.unit)
        elif one.unit != other.unit:
            return None
        kind = one.kind
    elif "date" in (one.kind, other.kind) and "number" in (one.kind, other.kind):
        number = one if one.kind == "number" else other
        if number.unit is not None or compared:
            return None
        one, other = (_scaled(x, Fraction(DAY)) if x is number else x for x in (one, other))
        kind = "date"
    elif "number" in (one.kind, other.kind):
        return None
    elif "interval" in (one.kind, other.kind):
        point = one if other.kind == "interval" else other
        kind = point.kind
        if point.kind == "date":  # a date has no clock: days are days
            one, other = (replace(x, added=0) if x is not point else x for x in (one, other))
    else:  # two points in time, one of which is negated
        kind = "interval"
        if not compared:
            one = replace(one, wall=True)  # Spark subtracts them on the clock of the session's zone
    terms: dict[At, int] = {}
    for at, sign in (*one.terms, *other.terms):
        terms[at] = terms.get(at, 0) + sign
    return _Form(
        tuple((at, sign) for at, sign in terms.items() if sign),
        one.low + other.low,
        one.high + other.high,
        kind,
        one.unit,
        one.added + other.added,
        one.wall or other.wall,
    )


def _scaled(number: _Form, unit: Fraction | tuple[int, int]) -> _Form:
    assert isinstance(unit, Fraction)
    return replace(number, low=number.low * unit, high=number.high * unit, unit=unit)


class _Reader:
    """Reads expressions as forms."""

    def __init__(self, column: TimeColumn, ansi: bool) -> None:
        self.column, self.ansi = column, ansi

    def form(self, tree: exp.Expr) -> _Form | None:
        """Return an expression as a form, None if it is none."""
        match tree:
            case exp.Paren():
                return self.form(tree.this)
            case exp.Column():
                kind = self.column((tree.table, tree.name))
                term = (((tree.table, tree.name), 1),)
                return None if kind is None else _Form(term, *_ZERO, "timestamp", wall=kind == "timestamp_ntz")
            case exp.Literal():
                return None if tree.is_string else _number(tree.name)
            case exp.Neg():
                inner = self.form(tree.this)
                return None if inner is None else inner.negated()
            case exp.Add() | exp.Sub():
                left, right = self.form(tree.left), self.form(tree.right)
                if left is None or right is None:
                    return None
                return _sum(left, right.negated() if isinstance(tree, exp.Sub) else right)
            case exp.Mul() | exp.Div() | exp.IntDiv():
                return self.product(tree)
            case exp.Interval():
                return _interval(tree)
            case exp.Cast():
                return self.cast(tree) if type(tree) is exp.Cast else None
            case exp.Anonymous():
                return self.call(called(tree), list(tree.expressions))
        return None

    def product(self, tree: exp.Binary) -> _Form | None:
        left, right = self.form(tree.left), self.form(tree.right)
        if isinstance(tree, exp.Mul) and left is not None and left.unit is None:
            left, right = right, left
        if left is None or right is None or right.unit is not None or right.low != right.high or right.low <= 0:
            return None
        factor = right.low if isinstance(tree, exp.Mul) else 1 / right.low
        if left.unit is None or left.kind == "interval":
            found = replace(left, low=left.low * factor, high=left.high * factor)
            return None if isinstance(tree, exp.IntDiv) or left.terms else found
        if left.kind != "number" or isinstance(left.unit, tuple):
            return None
        found = replace(left, unit=left.unit / factor)
        if isinstance(tree, exp.IntDiv):
            return _cut(found)
        return found.wider(_DOUBLE, _DOUBLE)

    def cast(self, tree: exp.Cast) -> _Form | None:
        return self.as_type(type_name(render(tree.args["to"])), self.form(tree.this))

    def as_type(self, kind: str, form: _Form | None) -> _Form | None:
        if form is None or form.kind == "interval" or isinstance(form.unit, tuple):
            return None
        if form.kind == "number":
            if kind in ("double", "bigint", "int"):
                return form if kind == "double" else _cut(form)
            return None
        match kind:
            case "timestamp" | "timestamp_ntz":
                return replace(form, kind="timestamp", wall=form.wall or kind == "timestamp_ntz")
            case "date":
                return form if form.kind == "date" else replace(form.wider(DAY), kind="date", wall=True)
            case "bigint" | "int" if form.kind == "timestamp" and (self.ansi or kind == "bigint"):
                return replace(form.wider(1_000_000), kind="number", unit=Fraction(1_000_000))
            case "double" if form.kind == "timestamp":
                return replace(form.wider(_DOUBLE, _DOUBLE), kind="number", unit=Fraction(1_000_000))
        decimal = re.fullmatch(r"decimal\(\d+,(\d+)\)", kind)
        if decimal is not None and form.kind == "timestamp":
            cut = Fraction(1_000_000, 10 ** int(decimal[1]))
            return replace(form.wider(cut, cut), kind="number", unit=Fraction(1_000_000))
        return None

    def call(self, name: str, arguments: list[exp.Expr]) -> _Form | None:
        match name, arguments:
            case ("to_date" | "date", [one]):
                return self.as_type("date", self.form(one))
            case ("timestamp" | "double" | "bigint" | "int", [one]):
                return self.as_type(name, self.form(one))
            case (_, [one]) if name in _SINCE_1970:
                form, unit = self.form(one), _SINCE_1970[name]
                if form is None or form.kind not in ("timestamp", "date"):
                    return None
                return replace(form.wider(unit if unit > 1 else 0), kind="number", unit=Fraction(unit))
            case ("unix_date", [one]):
                form = self.form(one)
                return replace(form, kind="number", unit=Fraction(DAY)) if form and form.kind == "date" else None
            case ("floor" | "ceil" | "ceiling" | "round" | "positive", [one]):
                form = self.form(one)
                if form is None or form.kind != "number" or isinstance(form.unit, tuple):
                    return None
                whole = form.unit or Fraction(1)
                down, up = {"floor": (1, 0), "round": (1, 1), "positive": (0, 0)}.get(name, (0, 1))
                return form.wider(down * whole, up * whole)
            case ("date_trunc", [exp.Literal() as unit, one]):
                return self.cut_to(unit.name, self.form(one), "timestamp")
            case ("trunc", [one, exp.Literal() as unit]):
                return self.cut_to(unit.name, self.as_type("date", self.form(one)), "date")
            case ("last_day", [one]):
                date = self.as_type("date", self.form(one))
                return None if date is None else date.wider(0, 31 * DAY)
            case ("make_dt_interval" | "make_interval" | "make_ym_interval", _):
                return self.made(name, arguments)
            case ("date_add" | "dateadd" | "date_sub", [one, days]):
                count = self.form(days)
                if count is None or count.unit is not None:
                    return None
                date = self.as_type("date", self.form(one))
                return None if date is None else _sum(date, count.negated() if name == "date_sub" else count)
            case ("add_months", [one, months]):
                date, length = self.as_type("date", self.form(one)), self.length("MONTH", months)
                return None if date is None or length is None else _sum(date, length)
            case ("dateadd" | "date_add" | "timestampadd", [unit, count, one]):
                time, length = self.form(one), self.length(unit.name, count)
                if time is None or length is None or time.kind not in ("timestamp", "date"):
                    return None
                return _sum(self.as_type("timestamp", time) or time, length)
            case ("datediff" | "date_diff", [end, start]):
                dates = [self.as_type("date", self.form(one)) for one in (start, end)]
                return self.between(Fraction(DAY), *dates)
            case ("datediff" | "date_diff" | "timestampdiff", [unit, start, end]):
                size = _unit(unit.name)
                between = None if size is None else self.between(size, self.form(start), self.form(end))
                return _cut(between) if between is not None and isinstance(size, Fraction) else between
        return None

    def between(self, unit: Fraction | tuple[int, int], start: _Form | None, end: _Form | None) -> _Form | None:
        """Return the number of units between two points in time, not yet cut off."""
        if start is None or end is None or {start.kind, end.kind} - {"timestamp", "date"}:
            return None
        found = _sum(end, start.negated())
        return None if found is None else replace(found, kind="number", unit=unit)

    def cut_to(self, unit: str, form: _Form | None, kind: Literal["timestamp", "date"]) -> _Form | None:
        size = _unit(unit)
        if size is None or form is None or form.kind not in ("timestamp", "date"):
            return None
        return replace(form.wider(size[1] if isinstance(size, tuple) else size), kind=kind, wall=True)

    def length(self, unit: str, count: exp.Expr) -> _Form | None:
        """Return a number of units as an interval."""
        number, size = self.form(count), _unit(unit)
        if number is None or size is None or number.unit is not None or number.low != number.high:
            return None
        return _length(size, number.low)

    def made(self, name: str, arguments: list[exp.Expr]) -> _Form | None:
        units = ["YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"]
        units = {"make_dt_interval": units[3:], "make_ym_interval": units[:2]}.get(name, units)
        parts = [self.length(unit, count) for unit, count in zip(units, arguments, strict=False)]
        return None if len(arguments) > len(units) else _total(parts)


_ZERO = (Fraction(0), Fraction(0))


def _number(text: str) -> _Form | None:
    found = re.fullmatch(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?", text)
    value = Fraction(text) if found and len(text) < 40 else None
    return None if value is None else _Form((), value, value, "number", None)


def _cut(form: _Form) -> _Form | None:
    """Return a number rounded to a whole one, in any direction."""
    if form.unit is None:
        return form if form.low.denominator == 1 == form.high.denominator else form.wider(1, 1)
    return None if isinstance(form.unit, tuple) else form.wider(form.unit, form.unit)


def _unit(name: str) -> Fraction | tuple[int, int] | None:
    name = name.upper()
    name = _UNITS.get(name, name.removesuffix("S"))
    if name in _CALENDAR:
        return _CALENDAR[name]
    return Fraction(MICROSECONDS[name]) if name in MICROSECONDS else None


def _length(size: Fraction | tuple[int, int], count: Fraction) -> _Form:
    """Return a number of units. Units of a day and more are on the calendar."""
    ends = sorted(Fraction(one) * count for one in (size if isinstance(size, tuple) else (size, size)))
    return _Form((), ends[0], ends[1], "interval", added=int(bool(count) and (isinstance(size, tuple) or size >= DAY)))


def _interval(tree: exp.Interval) -> _Form | None:
    """Return a constant interval, however it is written."""
    value, unit = tree.this, tree.args.get("unit")
    while isinstance(value, exp.Paren):
        value = value.this
    if isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal):
        inner = _interval(exp.Interval(this=value.this.copy(), unit=unit and unit.copy()))
        return None if inner is None else inner.negated()
    if not isinstance(value, exp.Literal):
        return None
    text = value.name.strip()
    if isinstance(unit, exp.IntervalSpan):
        return _span(text, unit.this.name.upper(), unit.expression.name.upper())
    if isinstance(unit, exp.Var):
        size = _unit(unit.name)
        if size is None or not re.fullmatch(r"[+-]?\s*\d+(\.\d*)?", text):
            return None
        return _length(size, Fraction(text.replace(" ", "")))
    text = re.sub(r"(?i)^interval\s", "", text)
    piece = r"([+-]?\s*\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*"
    if unit is not None or not re.fullmatch(f"(?:{piece})+", text):
        return None
    pieces = [(Fraction(number.replace(" ", "")), _unit(name)) for number, name in re.findall(piece, text)]
    return _total([None if size is None else _length(size, number) for number, size in pieces])


def _span(text: str, first: str, last: str) -> _Form | None:
    """Return an interval such as ``'1 02:03:04.5' DAY TO SECOND``."""
    sign = Fraction(-1 if text.startswith("-") else 1)
    units = ["YEAR", "MONTH"] if first == "YEAR" else ["DAY", "HOUR", "MINUTE", "SECOND"]
    names = units[units.index(first) : units.index(last) + 1] if {first, last} <= set(units) else []
    numbers = re.split(r"[-: ]+", text.lstrip("+-").strip())
    if not names or len(numbers) != len(names) or not all(re.fullmatch(r"\d+(\.\d*)?", one) for one in numbers):
        return None
    sizes = map(_unit, names)
    return _total([_length(size, sign * Fraction(one)) for size, one in zip(sizes, numbers, strict=True) if size])


def _total(parts: list[_Form | None]) -> _Form | None:
    found: _Form | None = _Form((), *_ZERO, "interval")
    for part in parts:
        found = None if found is None or part is None else _sum(found, part)
    return found if parts else None
