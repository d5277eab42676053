"""Types: how a column travels through Spark, Arrow and pandas.

`rewriter.plan.comparison` says how two of them are compared.
"""

from __future__ import annotations

import re
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType, UserDefinedType

from ...rewriter.plan.comparison import OF_LIBRARY
from ..batches.ipc import uniform_type
from .logical_plans import sequence

#: What Spark knows a CHAR or VARCHAR column by, in its metadata.
CHAR = "__CHAR_VARCHAR_TYPE_STRING"

_YEAR_MONTH = re.compile(r"interval (year|month)( to month)?")


def to_wire(column: Column, type_name: str) -> Column:
    """Return a column in the form in which it is packed: time stamps, dates and numbers of months as plain integers.

    An integer passes between Spark, Arrow and pandas without a look at time zones or calendars; PySpark has no Arrow
    type for intervals of months. Bytes of a library's type are packed as such.
    """
    if type_name == OF_LIBRARY:
        return F.unwrap_udt(column)
    if type_name == "timestamp":
        return F.unix_micros(column)
    if type_name == "date":
        return F.unix_date(column)
    if _YEAR_MONTH.fullmatch(type_name):
        months = column.cast("interval year to month")  # an interval of years has no months to extract, and vice versa
        return F.extract(F.lit("YEAR"), months) * 12 + F.extract(F.lit("MONTH"), months)
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


def of_library(column: Column, data_type: DataType, spark: Any) -> Column:
    """Return bytes as the library's type that they are of, such as Apache Sedona's geometry: Spark has no such cast."""
    jvm = spark._jvm
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    arguments = sequence(spark, [expressions.expression(column._jc)])
    clones, same = jvm.java.lang.Class.forName("org.apache.commons.lang3.ArrayUtils"), sequence(spark, [])
    kind, none = jvm.org.apache.spark.sql.types.DataType.fromJson(data_type.json()), jvm.scala.Option.empty()
    call = jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
    made = expressions.column(call(clones, kind, "clone", arguments, same, True, True, True, none))
    return type(column)(made)


#: Before PySpark 4.2 timestamps are in UTC unless told otherwise.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}


def wire_type(type_name: str) -> str:
    """Return the DDL name of a packed column."""
    if _YEAR_MONTH.fullmatch(type_name):
        return "int"
    return {"timestamp": "bigint", "date": "int", OF_LIBRARY: "binary"}.get(type_name, type_name)


def travels(data_type: DataType) -> bool:
    """Return whether a column of this type passes unchanged through Arrow and Python, by `to_wire` and back."""
    if _YEAR_MONTH.fullmatch(data_type.simpleString()):
        return True  # as a number of months; inside of arrays, structs and maps PySpark has nothing for it
    if type_name(data_type) == OF_LIBRARY:
        return True
    try:
        to_arrow_type(data_type, error_on_duplicated_field_names_in_struct=True, **_IN_UTC)
    except PySparkException:
        return False
    return not _stays_away(data_type)


def _stays_away(data_type: DataType) -> bool:
    """Return whether there is a type inside that Spark sends and does not take back.

    These are GEOMETRY and GEOGRAPHY of 4.3, and types of the user or of a library, such as Apache Sedona's geometry.
    """
    match data_type:
        case UserDefinedType():
            return True
        case ArrayType():
            return _stays_away(data_type.elementType)
        case MapType():
            return _stays_away(data_type.keyType) or _stays_away(data_type.valueType)
        case StructType():
            return any(_stays_away(field.dataType) for field in data_type.fields)
    return data_type.typeName() in ("geometry", "geography")


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a packed column in the units."""
    return uniform_type(to_arrow_type(data_type, **_IN_UTC))


def is_plain(type_name: str) -> bool:
    """Return whether pandas carries a column of this type (Arrow-backed) without looking at its values."""
    return is_fixed_width(type_name) or type_name in ("string", "binary")


def is_fixed_width(type_name: str) -> bool:
    """Return whether every value of a packed column takes the same few bytes."""
    return bool(re.fullmatch(r"(tinyint|smallint|int|bigint|float|double|boolean|decimal.*)", type_name))


def type_names(frame: DataFrame) -> list[str]:
    """Return the DDL names of the types of a frame's columns."""
    return [type_name(field.dataType) for field in frame.schema.fields]


#: Names of fields that stand in DDL as they are.
_WORD = re.compile(r"(?!\d+(?:e\d+)?(?:[lsyfd]|bd)?$)\w+", re.ASCII | re.IGNORECASE)


def type_name(data_type: DataType) -> str:
    """Return the DDL name of a type: Spark's own ``simpleString``, which Spark cannot read where a field has a space.

    Examples
    --------
    >>> from pyspark.sql.types import IntegerType
    >>> type_name(ArrayType(StructType().add("a", IntegerType()).add("b c", IntegerType())))
    'array<struct<a:int,`b c`:int>>'
    """
    match data_type:
        case UserDefinedType():
            return OF_LIBRARY if isinstance(data_type.sqlType(), BinaryType) else data_type.typeName()
        case ArrayType():
            return f"array<{type_name(data_type.elementType)}>"
        case MapType():
            return f"map<{type_name(data_type.keyType)},{type_name(data_type.valueType)}>"
        case StructType():
            names = [one.name if _WORD.fullmatch(one.name) else quoted(one.name) for one in data_type.fields]
            types = [type_name(one.dataType) for one in data_type.fields]
            return f"struct<{','.join(f'{name}:{of}' for name, of in zip(names, types, strict=True))}>"
    return data_type.simpleString()


def quoted(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"
