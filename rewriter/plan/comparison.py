"""The types in which Spark compares two keys, and adds values up.

To compare two keys, Spark first casts both to a common type. Where we do not know that cast to be a plain widening of
Spark's own, or where order keys do not decide the order, the comparison stays with Spark. Types are Spark's DDL names.
Standard library only: the operators import it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .joins import Closest

_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

#: Spark's name of a type of a user or a library. Those made of bytes are compared so, such as Apache Sedona's geometry.
OF_LIBRARY = "udt"

#: Digits of whole numbers beside decimals.
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class Comparable:
    """A common type for a comparison.

    Parameters
    ----------
    type
        Spark's DDL name of it.
    exact
        Whether order keys decide comparisons of it.
    """

    type: str
    exact: bool


def common_type(left: str, right: str) -> Comparable | None:
    """Return the type to which Spark (ANSI mode) casts both sides of a comparison, or None if the kernel must not.

    Parameters
    ----------
    left, right
        DDL names.
    """
    if left == right:
        return _comparable(left)
    if left in _INTEGERS and right in _INTEGERS:
        return _comparable(left if _INTEGERS[left] > _INTEGERS[right] else right)
    pair = {left, right}
    if pair == {"float", "double"}:
        return _comparable("double")
    if "double" in pair and pair - {"double"} <= _INTEGERS.keys():
        return _comparable("double")
    if "date" in pair and pair & {"timestamp", "timestamp_ntz"}:
        (other,) = pair - {"date"}
        return _comparable(other)
    return _decimal_type(left, right)


#: The greatest distance between two values, where Spark raises an error beyond it.
LARGEST = {name: 2 ** (bits - 1) - 1 for name, bits in _INTEGERS.items()}


def closest_type(closest: Closest, left: str, right: str) -> str | None:
    """Return the type (DDL names) in which units compare two values to tell what is closest, None if they cannot."""
    common = common_type(left, right)
    if common is None or not common.exact or (closest.by == "distance" and common.type == "boolean"):
        return None
    return common.type


def unordered(closest: Closest, left: str, right: str) -> tuple[str, str]:
    """Return why units cannot tell what is closest, and what to write instead."""
    pair = left if left == right else f"{left} and {right}"
    return f"units do not order {pair} to tell what is closest by {closest.sql}", "compare numbers or times"


def widest(types: Iterable[str]) -> str | None:
    """Return a common type of several types in which equal values are identical, or None if there is none."""
    first, *others = types
    found = common_type(first, first)
    for other in others:
        found = None if found is None else common_type(found.type, other)
    return None if found is None else found.type


def sum_type(kind: str) -> str | None:
    """Return the type of a SUM over a type, None if units do not compute it."""
    if kind in _INTEGERS:
        return "bigint"
    if digits := decimal_digits(kind):
        return f"decimal({min(digits[0] + 10, 38)},{digits[1]})"
    return "double" if kind in ("float", "double") else None


def _decimal_type(left: str, right: str) -> Comparable | None:
    """Return the decimal type that holds all values of both (Spark widens and compares by value)."""
    one, other = exact_digits(left), exact_digits(right)
    if one is None or other is None:
        return None
    whole, scale = max(one[0] - one[1], other[0] - other[1]), max(one[1], other[1])
    return _comparable(f"decimal({whole + scale},{scale})") if whole + scale <= 38 else None


def _comparable(name: str) -> Comparable | None:
    if name in _INTEGERS or name in {"float", "double", "boolean", "date", "timestamp", "timestamp_ntz"}:
        return Comparable(name, True)
    if name in {"string", "binary", OF_LIBRARY}:
        return Comparable(name, False)
    if digits := decimal_digits(name):
        return Comparable(name, digits[0] <= 18)
    if re.fullmatch(r"interval (day|hour|minute|second)( to (hour|minute|second))?", name):
        return Comparable(name, True)
    return None


def decimal_digits(name: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type, None for other types."""
    found = _DECIMAL.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def exact_digits(name: str) -> tuple[int, int] | None:
    """Return precision and scale of a type of whole numbers or decimals, None for other types."""
    return (DIGITS[name], 0) if name in DIGITS else decimal_digits(name)
