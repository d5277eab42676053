"""Types: how Spark compares two of them, and how a column travels through Arrow.

Spark evaluates every key expression. To compare two keys it first casts both to a common type; where that cast is not a
plain widening that we know to be Spark's own (or the order is not one of order keys), the predicate is left to Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_YEAR_MONTH = re.compile(r"interval (year|month)( to month)?")


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


def _decimal_type(left: str, right: str) -> Comparable | None:
    """Return the decimal type that holds all values of both (Spark widens and compares by value)."""
    sizes = []
    for name in (left, right):
        found = _DECIMAL.fullmatch(name)
        if found:
            sizes.append((int(found[1]) - int(found[2]), int(found[2])))
        elif name in _DIGITS:
            sizes.append((_DIGITS[name], 0))
        else:
            return None
    whole, scale = max(size[0] for size in sizes), max(size[1] for size in sizes)
    if whole + scale > 38:
        return None
    return _comparable(f"decimal({whole + scale},{scale})")


def _comparable(name: str) -> Comparable | None:
    if name in _INTEGERS or name in {"float", "double", "boolean", "date", "timestamp", "timestamp_ntz"}:
        return Comparable(name, True)
    if name in {"string", "binary"}:
        return Comparable(name, False)
    found = _DECIMAL.fullmatch(name)
    if found:
        return Comparable(name, int(found[1]) <= 18)
    if re.fullmatch(r"interval (day|hour|minute|second)( to (hour|minute|second))?", name):
        return Comparable(name, True)
    return None


def decimal_scale(name: str) -> int | None:
    """Return the scale of a decimal type, None for other types."""
    found = _DECIMAL.fullmatch(name)
    return int(found[2]) if found else None


def decimal_precision(name: str) -> int | None:
    """Return the precision of a decimal type, None for other types."""
    found = _DECIMAL.fullmatch(name)
    return int(found[1]) if found else None


def to_wire(column: Column, type_name: str) -> Column:
    """Return a column in the form in which it is packed: time stamps, dates and numbers of months as plain integers.

    An integer passes between Spark, Arrow and pandas without a look at time zones or calendars; PySpark has no Arrow
    type for intervals of months.
    """
    if type_name == "timestamp":
        return F.unix_micros(column)
    if type_name == "date":
        return F.unix_date(column)
    if _YEAR_MONTH.fullmatch(type_name):
        return F.extract(F.lit("YEAR"), column) * 12 + F.extract(F.lit("MONTH"), column)
    return column


def from_wire(column: Column, type_name: str) -> Column:
    """Undo `to_wire`."""
    if type_name == "timestamp":
        return F.timestamp_micros(column)
    if type_name == "date":
        return F.date_from_unix_date(column)
    if _YEAR_MONTH.fullmatch(type_name):
        return F.make_ym_interval(F.lit(0), column).cast(type_name)
    return column


def wire_type(type_name: str) -> str:
    """Return the DDL name of a packed column."""
    if _YEAR_MONTH.fullmatch(type_name):
        return "int"
    return {"timestamp": "bigint", "date": "int"}.get(type_name, type_name)


def travels(data_type: DataType) -> bool:
    """Return whether a column of this type passes unchanged through Arrow and Python."""
    if _YEAR_MONTH.fullmatch(data_type.simpleString()):
        return True  # as a number of months; inside of arrays, structs and maps PySpark has nothing for it
    try:
        to_arrow_type(data_type, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
    except PySparkException:
        return False
    return not _has_places(data_type)


def _has_places(data_type: DataType) -> bool:
    """Return whether there is a GEOMETRY or GEOGRAPHY inside: Spark 4.3 sends them, and does not take them back."""
    match data_type:
        case ArrayType():
            return _has_places(data_type.elementType)
        case MapType():
            return _has_places(data_type.keyType) or _has_places(data_type.valueType)
        case StructType():
            return any(_has_places(field.dataType) for field in data_type.fields)
    return data_type.typeName() in ("geometry", "geography")


def is_plain(type_name: str) -> bool:
    """Return whether pandas carries a column of this type (Arrow-backed) without looking at its values."""
    return bool(re.fullmatch(r"(tinyint|smallint|int|bigint|float|double|boolean|string|binary|decimal.*)", type_name))


def type_names(frame: DataFrame) -> list[str]:
    """Return the DDL names of a frame's columns."""
    return [field.dataType.simpleString() for field in frame.schema.fields]
