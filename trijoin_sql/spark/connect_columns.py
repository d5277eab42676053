"""Columns of Spark Connect as SQL text. A classic session resolves columns itself; Connect keeps them as a tree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame

from ..errors import UnavailableError
from ..operators.compile.travel_types import quoted, type_name

#: Operators among the functions that a tree names, and how SQL writes them.
_INFIX = {name: name for name in ("<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "&", "|", "^")}
_INFIX |= {"==": "=", "and": "AND", "or": "OR", "like": "LIKE", "rlike": "RLIKE", "ilike": "ILIKE"}

_SUFFIX = {"bigint": "L", "double": "D", "int": "", "boolean": ""}


def sql_text(expression: str | Column, frames: Mapping[str, DataFrame]) -> str:
    """Return SQL of a column; text is returned as it is.

    Parameters
    ----------
    expression
        SQL text or a column.
    frames
        The DataFrames by alias: ``r["x"]`` is a column of one of them.

    Raises
    ------
    UnavailableError
        It has something that has no SQL, or that we do not know.
    """
    return expression if isinstance(expression, str) else _sql(expression._expr, frames)


def _sql(node: Any, frames: Mapping[str, DataFrame]) -> str:
    match type(node).__name__:
        case "SQLExpression":
            return f"({node._expr})"
        case "LiteralExpression":
            return _literal(node._value, node._dataType)
        case "ColumnReference":
            return ".".join((*_owner(node, frames), *map(quoted, _parts(node._unparsed_identifier))))
        case "UnresolvedStar":
            return ".".join((*map(quoted, _parts((node._unparsed_target or "").removesuffix("*"))), "*"))
        case "ColumnAlias" if len(node._alias) == 1:
            return f"{_sql(node._child, frames)} AS {quoted(node._alias[0])}"
        case "CastExpression":
            kind = node._data_type if isinstance(node._data_type, str) else type_name(node._data_type)
            return f"{'TRY_CAST' if node._eval_mode == 'try' else 'CAST'}({_sql(node._expr, frames)} AS {kind})"
        case "UnresolvedExtractValue":
            inner, key = _sql(node._child, frames), node._extraction
            named = type(key).__name__ == "LiteralExpression" and isinstance(key._value, str)
            return f"{inner}.{quoted(key._value)}" if named else f"{inner}[{_sql(key, frames)}]"
        case "UnresolvedFunction" if not node._is_distinct:
            return _call(node._name, [_sql(one, frames) for one in node._args])
    reason = "it cannot be written as SQL on Spark Connect"
    raise UnavailableError(f"the column {node}", reason, "write the condition as text")


def _call(name: str, arguments: list[str]) -> str:
    match name.lower(), arguments:
        case _, [left, right] if name in _INFIX:
            return f"({left} {_INFIX[name]} {right})"
        case "not", [one]:
            return f"(NOT {one})"
        case "in", [one, *others]:
            return f"({one} IN ({', '.join(others)}))"
    return f"{name}({', '.join(arguments)})"


def _literal(value: Any, kind: Any) -> str:
    from pyspark.sql.utils import get_lit_sql_str

    name = kind.simpleString()
    if value is None:
        return f"CAST(NULL AS {name})" if name != "void" else "NULL"
    if name in _SUFFIX and value == value and abs(value) != float("inf"):
        return f"{value!r}{_SUFFIX[name]}"
    match kind.typeName():
        case "string":
            return str(get_lit_sql_str(value))
        case "decimal":  # its type is that of its digits, not what the tree says
            return f"{value:f}BD"
        case "timestamp":
            return f"timestamp_micros({value})"
        case "daytimeinterval" | "day-time interval":
            return f"INTERVAL '{value / 1_000_000:.6f}' SECOND"
        case "array" | "binary" | "time":
            raise UnavailableError(f"a literal {name}", "it cannot be written as SQL on Spark Connect")
    return f"CAST('{kind.fromInternal(value)}' AS {name})"


def _owner(node: Any, frames: Mapping[str, DataFrame]) -> list[str]:
    """Return the alias of the frame whose column a reference is, as ``r["x"]``; nothing for a name."""
    if node._plan_id is None:
        return []
    owners = [alias for alias, frame in frames.items() if frame._plan._plan_id == node._plan_id]
    if len(owners) != 1:
        reason = "it is a column of none of the joined DataFrames" if not owners else f"{' and '.join(owners)} have it"
        raise UnavailableError(f"the column {node}", reason, f'name it with its alias: F.col("r.{node}")')
    return [quoted(owners[0])]


def _parts(name: str) -> list[str]:
    """Return the parts of a name such as ``r.`my col`.a``, as Spark reads them."""
    found = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", name)
    return [marked.replace("``", "`") if marked else plain for marked, plain in found]
