"""Lengths of time: INTERVALs of days and less, in microseconds; months have no fixed length."""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from ..plan.expr import Span

MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}


#: Units of the calendar, which have no fixed length.
CALENDAR = ("MONTH", "QUARTER", "YEAR")

#: Other names of units, and units as ``date_trunc`` and ``trunc`` know them.
_UNITS = {"DAYOFYEAR": "DAY", "DD": "DAY", "YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH"}


def unit_name(text: str) -> str | None:
    """Return a unit of time by its one name, None if there is no such unit.

    Examples
    --------
    >>> unit_name("minutes"), unit_name("YY")
    ('MINUTE', 'YEAR')
    """
    name = text.upper()
    name = _UNITS.get(name, name.removesuffix("S"))
    return name if name in MICROSECONDS or name in CALENDAR else None


def spans_of(tree: exp.Interval) -> tuple[Span, ...] | None:
    """Return what a constant interval adds up, however it is written; None if that is not known."""
    value, unit = tree.this, tree.args.get("unit")
    while isinstance(value, exp.Paren):
        value = value.this
    sign = 1
    if isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal):
        value, sign = value.this, -1
    if not isinstance(value, exp.Literal):
        return None
    text = value.name.strip()
    if isinstance(unit, exp.IntervalSpan):
        found = _from_to(text, unit.this.name.upper(), unit.expression.name.upper())
    elif isinstance(unit, exp.Var):
        found = [(text, unit.name)] if re.fullmatch(r"[+-]?\s*\d+(\.\d*)?", text) else []
    else:
        piece = r"([+-]?\s*\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*"
        text = re.sub(r"(?i)^interval\s", "", text)
        found = re.findall(piece, text) if re.fullmatch(f"(?:{piece})+", text) else []
    named = [(sign * Fraction(count.replace(" ", "")), unit_name(name)) for count, name in found]
    spans = tuple((count, name) for count, name in named if name is not None)
    return spans if spans and len(spans) == len(named) else None


def _from_to(text: str, first: str, last: str) -> list[tuple[str, str]]:
    """Return the parts of an interval such as ``'1 02:03:04.5' DAY TO SECOND``."""
    units = ["YEAR", "MONTH"] if first == "YEAR" else ["DAY", "HOUR", "MINUTE", "SECOND"]
    names = units[units.index(first) : units.index(last) + 1] if {first, last} <= set(units) else []
    numbers = re.split(r"[-: ]+", text.lstrip("+-").strip())
    if len(numbers) != len(names) or not all(re.fullmatch(r"\d+(\.\d*)?", one) for one in numbers):
        return []
    return [(("-" if text.startswith("-") else "") + one, name) for one, name in zip(numbers, names, strict=True)]


def interval_microseconds(length: object) -> int | None:
    """Return the length of a constant interval of days or less in microseconds, None for any other expression."""
    if isinstance(length, exp.Neg):
        inner = interval_microseconds(length.this)
        return None if inner is None else -inner
    if isinstance(length, exp.Paren):
        return interval_microseconds(length.this)
    if isinstance(length, exp.Add):  # sqlglot's reading of `INTERVAL 1 HOUR 30 MINUTES` too
        parts = [interval_microseconds(part) for part in (length.left, length.right)]
        return None if None in parts else sum(part for part in parts if part is not None)
    if not isinstance(length, exp.Interval) or not isinstance(length.this, exp.Literal):
        return None
    unit = length.args.get("unit")
    if not isinstance(unit, exp.Var):
        return None
    scale = MICROSECONDS.get(unit.name.upper().removesuffix("S"))
    text = length.this.name.strip()
    if scale is None or not re.fullmatch(r"[+-]?\d+(\.\d{1,6})?", text):
        return None
    whole, _, fraction = text.partition(".")
    sign = -1 if whole.startswith("-") else 1
    micros = abs(int(whole)) * scale
    if fraction:
        micros += int(fraction) * scale // 10 ** len(fraction)
    return sign * micros if micros < 1 << 63 else None  # Spark has no longer intervals


def lengths(text: str) -> list[tuple[str, str]] | None:
    """Return the numbers and units of a text such as ``1 hour 30 minutes``, None if it is not a length of time."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.lower())
    rest = re.sub(r"\d+(?:\.\d+)?\s*[a-z]+", "", text.lower())
    units = [unit.upper().removesuffix("S") for _, unit in parts]
    if not parts or rest.strip() or not set(units) <= set(MICROSECONDS):
        return None
    return [(number, unit) for (number, _), unit in zip(parts, units, strict=True)]


def length_microseconds(text: str) -> int | None:
    """Return the length of a text such as ``1 hour 30 minutes`` in microseconds, None if it is no length of time."""
    parts = lengths(text)
    return None if parts is None else round(sum(float(number) * MICROSECONDS[unit] for number, unit in parts))
