"""The types of expressions, as far as bands and transitive equalities need them; all other types are ``unknown``."""

from __future__ import annotations

import re

from ..plan.expr import UNKNOWN as UNKNOWN
from ..plan.expr import Constant, Expr
from .type_names import TYPES

#: Those whose name is one word always; of others Spark may know longer forms, such as DOUBLE PRECISION.
ONE_WORD = set(TYPES) - {
    *("double", "character", "time", "timestamp", "timestamp_ntz", "timestamp_ltz", "interval"),
    *("void", "geometry", "geography"),
}

#: What Spark calls those that have another name.
_NAMES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal(10,0)",
    "decimal": "decimal(10,0)",
    "numeric": "decimal(10,0)",
    "timestamp_ltz": "timestamp",
}

INTEGERS = ("tinyint", "smallint", "int", "bigint")
TIMES = ("timestamp", "timestamp_ntz")
FRACTIONS = ("float", "double")


def may_be_event_time(type_: str) -> bool:
    """Return whether a column of this type may be an event time or a window of it; plain values never are."""
    return type_.startswith(("timestamp", "struct", UNKNOWN))


#: The type of what the functions `window` and `session_window` make.
WINDOW = "struct<start:timestamp,end:timestamp>"


def is_window(type_: str) -> bool:
    """Return whether a type is that of windows."""
    return type_ == WINDOW


#: The type of a word that stands for a unit of time: the HOUR of ``timestampdiff(HOUR, r.ts, s.ts)``.
UNIT = "unit"

#: The type of a constant interval of days or less.
INTERVAL = "interval"

_FUNCTIONS = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "length", "char_length", "size", "unix_date"), "int"),
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekofyear"), "int"),
    **dict.fromkeys(("hour", "minute", "second"), "int"),
    **dict.fromkeys(("window", "session_window"), WINDOW),
    **dict.fromkeys(("=", "<=>", "<>", "<", "<=", ">", ">=", "AND", "OR"), "boolean"),
    **dict.fromkeys(("NOT", "BETWEEN", "IN", "IS", "LIKE", "EXISTS"), "boolean"),
    **dict.fromkeys(("count", "unix_timestamp", "unix_seconds", "unix_millis", "unix_micros"), "bigint"),
}


def integer_limits(name: str) -> tuple[int, int] | None:
    """Return the range of an integer type, None for other types."""
    if name not in INTEGERS:
        return None
    bits = 8 << INTEGERS.index(name)
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def type_name(written: str) -> str:
    """Return a type by the name that Spark has for it.

    Examples
    --------
    >>> type_name("INTEGER"), type_name("DECIMAL(10, 2)")
    ('int', 'decimal(10,2)')
    """
    name = "".join(written.split()).lower()
    short = re.fullmatch(r"(?:decimal|dec|numeric)\((\d+(?:,\d+)?)\)", name)
    if short:
        return f"decimal({short[1]})" if "," in name else f"decimal({short[1]},0)"
    return _NAMES.get(name, name)


def is_number(name: str) -> bool:
    """Tell whether a type is one of numbers."""
    return name in (*INTEGERS, *FRACTIONS) or is_decimal(name)


def is_decimal(name: str) -> bool:
    """Tell whether a type is ``decimal(p,s)``."""
    return name.startswith("decimal")


def text_type(name: str) -> str:
    """Return a type, but ``string`` for texts of limited length: Spark compares them as texts.

    Examples
    --------
    >>> text_type("varchar(10)"), text_type("int")
    ('string', 'int')
    """
    return "string" if re.fullmatch(r"(var)?char\(\d+\)", name) else name


def char_length(name: str) -> int | None:
    """Return the length of ``char(n)``, to which Spark pads its values; None for other types."""
    found = re.fullmatch(r"char\((\d+)\)", name)
    return int(found[1]) if found else None


def text_compared_as(other: str) -> str | None:
    """Return the type to which Spark (ANSI mode) casts a text and the value it is compared with."""
    if other in INTEGERS:
        return "bigint"
    if other in FRACTIONS or is_decimal(other):
        return "double"
    return other if other in (*TIMES, "date", "boolean") else None


def literal_type(text: str, is_string: bool) -> str:
    """Return the type of a text or a number as it is written."""
    if is_string:
        return "string"
    if re.fullmatch(r"\d+", text):
        return "int" if int(text) < 2**31 else "bigint" if int(text) < 2**63 else UNKNOWN
    found = re.fullmatch(r"(\d*)\.(\d*)", text)
    if found:
        scale = len(found[2])
        return f"decimal({max(len(found[1].lstrip('0')) + scale, scale, 1)},{scale})"
    return "double" if re.fullmatch(r"[\d.]+[eE][+-]?\d+", text) else UNKNOWN


def type_of_call(op: str, args: tuple[Expr, ...]) -> str:
    """Return the type of an operator or a function over expressions, ``unknown`` where bands and keys need none."""
    match op, args:
        case "()" | "NEG", (one,):
            return one.type
        case "+" | "-", (left, right):
            return _sum(op, left, right)
        case "*" | "%", (left, right):
            return _widest({left.type, right.type})
        case "abs" | "positive", (one,):
            return "double" if one.type == "string" else one.type
    return _FUNCTIONS.get(op, UNKNOWN)


def _sum(op: str, left: Expr, right: Expr) -> str:
    if left.type in TIMES and right.type == INTERVAL:
        return left.type
    if op == "+" and left.type == INTERVAL and right.type in TIMES:
        return right.type
    if left.type == "date" and right.type in INTEGERS[:3]:
        return "date"
    if left.type == "date" and right.type == INTERVAL:
        return "date" if _whole_days(right) else UNKNOWN
    return _widest({left.type, right.type})


def _whole_days(length: Expr) -> bool:
    match length:
        case Constant(value=((count, "DAY"),)):
            return count.denominator == 1
    return False


def _widest(kinds: set[str]) -> str:
    if kinds <= set(INTEGERS):
        return max(kinds, key=INTEGERS.index)
    if "double" in kinds and kinds <= {*INTEGERS, *FRACTIONS}:
        return "double"
    return "float" if kinds == {"float"} else UNKNOWN
