"""Spark's columns without Spark: what the compiler asks of an input, computed by Arrow over data in this process.

The compiler of joins (`operators.compile`) says what to pack in Spark's own columns and SQL. Under `local_columns`
these are columns of Spark Connect, which are plain data and need no JVM. Only what the workloads need is evaluated.
Hashes are Spark's, so that rows go to the units that they go to in Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType
from sqlglot import exp
from trijoin_sql.operators.compile.watermarks import DELAY

#: What makes PySpark's functions return columns of Spark Connect.
_CONNECT = "SPARK_CONNECT_MODE_ENABLED"


@contextmanager
def local_columns() -> Iterator[None]:
    """Let PySpark's functions return columns that `LocalFrame` evaluates."""
    before = os.environ.get(_CONNECT)
    os.environ[_CONNECT] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CONNECT]
        else:
            os.environ[_CONNECT] = before


class LocalFrame:
    """Rows in this process, as much of a DataFrame as the compiler of joins asks of one."""

    isStreaming = True  # noqa: N815 (Spark's name)

    def __init__(self, rows: pa.Table, times: Sequence[str] = ()) -> None:
        self.rows, self.times = rows, times

    @property
    def schema(self) -> StructType:
        """Spark's schema; event times are marked as Spark marks them."""
        fields = from_arrow_schema(self.rows.schema).fields
        marked = ({DELAY: 0} if field.name in self.times else {} for field in fields)
        return StructType([StructField(f.name, f.dataType, True, m) for f, m in zip(fields, marked, strict=True)])

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.rows.column_names)

    def select(self, *columns: Any) -> LocalFrame:
        """Return computed columns."""
        found = [_of_column(column._expr, self.rows) for column in columns]
        return LocalFrame(pa.table(dict(_named(found, self.rows.num_rows))))

    def sql(self, text: str) -> LocalFrame:
        """Return what ``SELECT ... FROM this`` gives, row by row."""
        selected = sqlglot.parse_one(text, read="databricks")
        found: list[tuple[str, Any]] = []
        times = []
        for one in selected.expressions:
            if isinstance(one, exp.Star):
                found += [(name, self.rows.column(name)) for name in self.rows.column_names]
                continue
            found.append((one.alias_or_name, _of_sql(one.unalias(), self.rows)))
            if isinstance(one.unalias(), exp.Column) and one.unalias().name in self.times:
                times.append(one.alias_or_name)
        return LocalFrame(pa.table(dict(_named(found, self.rows.num_rows))), times)


def _named(found: Sequence[tuple[str, Any]], count: int) -> Iterator[tuple[str, pa.Array]]:
    for name, value in found:
        if isinstance(value, pa.Scalar):
            value = pa.repeat(value, count)
        yield name, value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value


def _of_column(column: Any, rows: pa.Table) -> tuple[str, Any]:
    """Return the name and the value of an expression of Spark Connect."""

    def value(one: Any) -> Any:
        return _of_column(one, rows)[1]

    match type(column).__name__:
        case "ColumnAlias":
            return column._alias[0], value(column._child)
        case "ColumnReference":
            name = column._unparsed_identifier.strip("`")  # no name of a workload has one inside
            return name, rows.column(name)
        case "LiteralExpression":
            return "", pa.scalar(column._value)
        case "CastExpression":
            kind = column._data_type
            return "", _cast(value(column._expr), kind if isinstance(kind, str) else kind.simpleString())
        case "CaseWhen":
            found = value(column._else_value)
            for condition, then in reversed(column._branches):
                found = pc.if_else(value(condition), value(then), found)
            return "", found
        case "UnresolvedFunction":
            return "", _called(column._name, [value(one) for one in column._args], rows.num_rows)
    raise NotImplementedError(f"no {type(column).__name__} without Spark: {column}")


def _of_sql(tree: Any, rows: pa.Table) -> Any:
    """Return the value of an SQL expression."""
    match tree:
        case exp.Column():
            return rows.column(tree.name)
        case exp.Paren():
            return _of_sql(tree.this, rows)
        case exp.Literal():
            return pa.scalar(tree.this if tree.is_string else float(tree.this) if "." in tree.this else int(tree.this))
        case exp.Cast():
            return _cast(_of_sql(tree.this, rows), tree.to.sql("databricks").lower())
        case exp.If():
            otherwise = pa.scalar(None) if tree.args.get("false") is None else _of_sql(tree.args["false"], rows)
            return pc.if_else(_of_sql(tree.this, rows), _of_sql(tree.args["true"], rows), otherwise)
        case exp.Not():
            return pc.invert(_of_sql(tree.this, rows))
        case exp.Is():
            return pc.is_null(_of_sql(tree.this, rows))
        case exp.Null():
            return pa.scalar(None)
        case exp.Anonymous():
            return _called(tree.name.lower(), [_of_sql(one, rows) for one in tree.expressions], rows.num_rows)
        case exp.Binary():
            return _called(_SIGNS[type(tree)], [_of_sql(one, rows) for one in (tree.left, tree.right)], rows.num_rows)
        case exp.Func():
            found = [_of_sql(one, rows) for one in tree.args.values() if isinstance(one, exp.Expression)]
            return _called(tree.sql_name().lower(), found, rows.num_rows)
    raise NotImplementedError(f"no {tree.sql('databricks')} without Spark")


_SIGNS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.And: "and",
}


def _called(name: str, arguments: list[Any], count: int) -> Any:
    if name == "xxhash64":
        return xxhash64([one if isinstance(one, pa.ChunkedArray) else _array(one, count) for one in arguments])
    if name not in _FUNCTIONS:
        raise NotImplementedError(f"no {name} without Spark")
    return _FUNCTIONS[name](*arguments)


def _array(value: Any, count: int) -> Any:
    return pa.repeat(value, count) if isinstance(value, pa.Scalar) else value


def _division(one: Any, other: Any) -> Any:
    return pc.divide(pc.cast(one, pa.float64()), pc.cast(other, pa.float64()))


def _remainder(one: Any, other: Any) -> Any:
    return pc.subtract(one, pc.multiply(pc.divide(one, other), other))  # of integers Arrow cuts off, as Spark does


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": _division,
    "%": _remainder,
    "and": pc.and_kleene,
    "abs": pc.abs,
    "floor": lambda one: pc.cast(pc.floor(one), pa.int64()),
    "isnan": pc.is_nan,
    "isnull": pc.is_null,
    "isnotnull": pc.is_valid,
    "unix_micros": lambda one: pc.cast(one, pa.int64()),
    "timestamp_micros": lambda one: pc.cast(pc.cast(one, pa.int64()), pa.timestamp("us", "UTC")),
}

#: By Spark's name, the types that the workloads cast to.
_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def _cast(value: Any, kind: str) -> Any:
    if kind not in _TYPES:
        raise NotImplementedError(f"no cast to {kind} without Spark")
    return pc.cast(value, _TYPES[kind], safe=False)


_P1, _P2, _P3, _P4, _P5 = map(
    np.uint64, (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)


def xxhash64(columns: Sequence[Any]) -> pa.Array:
    """Return Spark's ``xxhash64`` of columns of numbers and times, shape (n,).

    Examples
    --------
    >>> xxhash64([pa.array([1, None])]).to_pylist()
    [-7001672635703045582, 42]
    """
    seed: Any = np.uint64(42)
    with np.errstate(over="ignore"):
        for column in columns:
            array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            mixed = _mixed_in(array, seed)
            seed = np.where(np.asarray(array.is_valid()), mixed, seed) if array.null_count else mixed
    return pa.array(seed.view(np.int64))


def _mixed_in(array: pa.Array, seed: Any) -> Any:
    kind = array.type
    if pa.types.is_timestamp(kind):
        array, kind = array.cast(pa.int64()), pa.int64()
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise NotImplementedError(f"no hash of {kind} without Spark")
    numbers = np.asarray(array.fill_null(0))
    if pa.types.is_floating(kind):
        numbers = np.where(numbers == 0, 0, numbers).astype(numbers.dtype)  # -0.0 is 0.0
        numbers = numbers.view(np.int32 if numbers.itemsize == 4 else np.int64)
    if numbers.itemsize == 8:
        mixed = _rotated(numbers.view(np.uint64) * _P2, 31) * _P1
        return _final(_rotated((seed + _P5 + np.uint64(8)) ^ mixed, 27) * _P1 + _P4)
    words = numbers.astype(np.int64).view(np.uint64) & np.uint64(0xFFFFFFFF)
    return _final(_rotated((seed + _P5 + np.uint64(4)) ^ (words * _P1), 23) * _P2 + _P3)


def _rotated(words: Any, left: int) -> Any:
    return (words << np.uint64(left)) | (words >> np.uint64(64 - left))


def _final(words: Any) -> Any:
    words = (words ^ (words >> np.uint64(33))) * _P2
    words = (words ^ (words >> np.uint64(29))) * _P3
    return words ^ (words >> np.uint64(32))
