"""The types of expressions, as far as bands and transitive equalities need them; all other types are ``unknown``."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from .dialect import render
from .functions import called
from .intervals import interval_microseconds
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
UNKNOWN = "unknown"


def may_be_event_time(type_: str) -> bool:
    """Return whether a column of this type may be an event time or a window of it; plain values never are."""
    return type_.startswith(("timestamp", "struct", UNKNOWN))


#: The type of what the functions `window` and `session_window` make.
WINDOW = "struct<start:timestamp,end:timestamp>"


def is_window(type_: str) -> bool:
    """Return whether a type is that of windows."""
    return type_ == WINDOW


#: The type of a constant interval of days or less.
INTERVAL = "interval"

_FUNCTIONS = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "length", "char_length", "size", "unix_date"), "int"),
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekofyear"), "int"),
    **dict.fromkeys(("hour", "minute", "second"), "int"),
    **dict.fromkeys(("window", "session_window"), WINDOW),
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


def type_of(tree: exp.Expr, column_type: Callable[[exp.Column], str]) -> str:
    """Return Spark's type of an expression, or ``unknown``."""
    match tree:
        case exp.Column():
            return column_type(tree)
        case exp.Paren() | exp.Neg():
            return type_of(tree.this, column_type)
        case exp.Literal():
            return _literal(tree)
        case exp.Interval():
            return INTERVAL if interval_microseconds(tree) is not None else UNKNOWN
        case exp.Cast():
            return type_name(render(tree.args["to"]))
        case exp.Add() | exp.Sub():
            return _sum(tree, type_of(tree.left, column_type), type_of(tree.right, column_type))
        case exp.Mul() | exp.Mod():
            kinds = {type_of(tree.left, column_type), type_of(tree.right, column_type)}
            return _widest(kinds)
        case exp.Boolean() | exp.Predicate() | exp.Not():
            return "boolean"
        case exp.Anonymous():
            name = called(tree)
            if name in ("abs", "positive") and len(tree.expressions) == 1:
                kind = type_of(tree.expressions[0], column_type)
                return "double" if kind == "string" else kind
            return _FUNCTIONS.get(name, UNKNOWN)
    return UNKNOWN


def _literal(tree: exp.Literal) -> str:
    if tree.is_string:
        return "string"
    if re.fullmatch(r"\d+", tree.name):
        return "int" if int(tree.name) < 2**31 else "bigint" if int(tree.name) < 2**63 else UNKNOWN
    found = re.fullmatch(r"(\d*)\.(\d*)", tree.name)
    if found:
        scale = len(found[2])
        return f"decimal({max(len(found[1].lstrip('0')) + scale, scale, 1)},{scale})"
    return "double" if re.fullmatch(r"[\d.]+[eE][+-]?\d+", tree.name) else UNKNOWN


def _sum(tree: exp.Binary, left: str, right: str) -> str:
    if left in TIMES and right == INTERVAL:
        return left
    if isinstance(tree, exp.Add) and left == INTERVAL and right in TIMES:
        return right
    if left == "date" and right in INTEGERS[:3]:
        return "date"
    if left == "date" and right == INTERVAL:
        return "date" if _whole_days(tree.right) else UNKNOWN
    return _widest({left, right})


def _whole_days(tree: exp.Expr) -> bool:
    unit = tree.args.get("unit")
    return isinstance(unit, exp.Var) and unit.name.upper().removesuffix("S") == "DAY" and "." not in tree.this.name


def _widest(kinds: set[str]) -> str:
    if kinds <= set(INTEGERS):
        return max(kinds, key=INTEGERS.index)
    if "double" in kinds and kinds <= {*INTEGERS, *FRACTIONS}:
        return "double"
    return "float" if kinds == {"float"} else UNKNOWN
