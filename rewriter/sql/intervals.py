"""Lengths of time: INTERVALs of days and less, in microseconds; months have no fixed length."""

from __future__ import annotations

import re

from sqlglot import exp

MICROSECONDS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}


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
