"""Joins of DataFrames: in a statement's text, as ``SparkSession.sql`` takes them, and written as ``DataFrame.join``."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_
from string import Formatter
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ..errors import SqlSyntaxError, UnavailableError, line_and_column
from ..operators.compile.travel_types import quoted
from ..rewriter.plan.joins import JOIN_WORDS
from ..rewriter.sql.catalog import FRAME
from ..rewriter.sql.dialect import tokenize

#: Two statements may have frames of the same name, and a session more than one thread.
_one_at_a_time = threading.RLock()

#: DataFrames by name.
Named = Mapping[str, DataFrame]

_QUERY = re.compile(r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH|FROM|EXPLAIN)\b", re.IGNORECASE | re.DOTALL)


def takes_frames(text: str) -> bool:
    """Return whether a statement with frames may be ours: a query.

    Objects that a statement creates may outlive the names of its frames, so such statements use Spark's own names.
    """
    return _QUERY.match(text) is not None


@contextmanager
def named_frames(spark: SparkSession, text: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Named]]:
    """Format a statement with DataFrames as PySpark does, and give them names for the time of a ``with`` block.

    ``values`` are DataFrames, columns, strings (which become literals) and anything else, for each ``{name}`` in it. In
    a classic session the names are views. On Spark Connect, which looks views up when a query runs, they are given to
    Spark with each text.
    """
    classic = hasattr(spark, "_jsparkSession")
    if classic:
        from pyspark.sql.sql_formatter import SQLStringFormatter
    else:
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter  # type: ignore[assignment]

    formatter = SQLStringFormatter(spark)
    given = {name: value for name, value in values.items() if isinstance(value, DataFrame)}
    for name, value in values.items():
        if name not in given and type(value).__name__ == "DataFrame":
            raise TypeError(f"{name} is {_type_of(value)}, not one of Spark: createDataFrame makes one of it")
    named = dict(zip(view_names(list(given)), given.values(), strict=True))
    formatter._temp_views += [(frame, name) for name, frame in named.items()]
    with temporary_views(named if classic else {}):
        try:
            formatted = formatter.format(text, **values)
            yield formatted, {} if classic else {name: frame for frame, name in formatter._temp_views}
        finally:
            formatter.clear()  # of frames inside of other values too


def view_names(aliases: Sequence[str]) -> list[str]:
    """Return the names of the views that stand for frames with these names: with them in it, unless they are strange.

    Examples
    --------
    >>> view_names(["r", "a b", "S", "s"])
    ['__trijoin_arg_r', '__trijoin_arg1', '__trijoin_arg2', '__trijoin_arg3']
    """
    lower = [alias.lower() for alias in aliases]
    plain = [re.fullmatch(r"\w+", one, re.ASCII) is not None and lower.count(one) == 1 for one in lower]
    return [f"{FRAME}_{alias}" if plain[n] else f"{FRAME}{n}" for n, alias in enumerate(aliases)]


@contextmanager
def temporary_views(frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Give DataFrames names for the time of a ``with`` block. The names are ours; two threads may want them at once."""
    with _one_at_a_time:
        try:
            for name, frame in frames.items():
                frame.createOrReplaceTempView(name)
            yield
        finally:
            for name, frame in frames.items():
                frame.sparkSession.catalog.dropTempView(name)


#: A condition or an expression, as SQL text or as a column; or several.
Expressions = str | Column | Sequence[str | Column]


#: How two DataFrames may be joined, as `DataFrame.join` takes it.
# fmt: off
How = Literal[
    "inner", "left", "right", "full", "semi", "anti", "outer",
    "left_outer", "right_outer", "full_outer", "left_semi", "left_anti",
    "leftouter", "rightouter", "fullouter", "leftsemi", "leftanti",
]
# fmt: on

#: Without ``_``, and in SQL.
HOW = {"inner": "CROSS JOIN", **{kind: JOIN_WORDS[kind] for kind in ("left", "right", "full", "semi", "anti")}}
HOW |= {"leftouter": HOW["left"], "rightouter": HOW["right"], "outer": HOW["full"], "fullouter": HOW["full"]}
HOW |= {"leftsemi": HOW["semi"], "leftanti": HOW["anti"]}


def _type_of(value: object) -> str:
    """Return the name of a value's type, with that of its package: pandas has a DataFrame, too."""
    package = type(value).__module__.partition(".")[0]
    return type(value).__name__ if package == "builtins" else f"a {type(value).__name__} of {package}"


def joined_by_spark(frames: Mapping[str, DataFrame], on: Expressions, select: Expressions, how: str) -> DataFrame:
    """Return the join of DataFrames as Spark writes it, which on streams it may not run.

    Parameters
    ----------
    frames
        Two or more, by alias.
    on
        Conditions, which all hold.
    select
        What is read of the result, nothing for all columns.
    how
        The kind of join of two; one of more is an inner join.

    Raises
    ------
    TypeError
        There are fewer than two frames, or something is not what it should be.
    """
    if len(frames) < 2:
        raise TypeError('join() takes two DataFrames or more by alias: join({"r": r, "s": s}, on=...)')
    for alias, frame in frames.items():
        if not (isinstance(alias, str) and alias):
            raise TypeError(f"join() takes DataFrames by alias, a text, and {alias!r} is none")
        if not isinstance(frame, DataFrame):
            raise TypeError(f"join() takes DataFrames by alias, and {alias!r} is {_type_of(frame)}")
    if len({alias.lower() for alias in frames}) < len(frames):
        raise TypeError(f"join() takes DataFrames by alias, and two of {', '.join(frames)} differ in case alone")
    *first, last = (frame.alias(alias) for alias, frame in frames.items())
    left, conditions, selected = reduce(DataFrame.crossJoin, first), _columns("on", on), _columns("select", select)
    result = left.join(last, reduce(and_, conditions), how) if conditions else left.crossJoin(last)
    return result.select(*selected) if selected else result


def joined_in_text(
    frames: Mapping[str, DataFrame], on: Expressions, select: Expressions, hints: str, how: str
) -> tuple[str, Named]:
    """Return the same join as a SELECT, for Spark Connect, and the frames by the names that it has for them.

    Raises
    ------
    UnavailableError
        Nothing is selected, and two frames have a column of the same name; or a column cannot be written as SQL.
    """
    from .connect_columns import sql_text

    if not (selected := [sql_text(one, frames) for one in _listed(select)]):
        owners: dict[str, str] = {}
        for alias, frame in [*frames.items()][: 1 if HOW[how] in (HOW["semi"], HOW["anti"]) else None]:
            for name in frame.columns:
                if (other := owners.setdefault(name.lower(), alias)) != alias:
                    reason = f"{name} is in {other} and in {alias}, and Spark Connect keeps no aliases of columns"
                    hint = f"select them by other names: select=['{other}.{name} AS {other}_{name}', ...]"
                    raise UnavailableError("all columns of a join", reason, hint)
    names = dict(zip(view_names(list(frames)), frames, strict=True))
    sources = f" {HOW[how]} ".join(f"{name} AS {quoted(alias)}" for name, alias in names.items())
    where = " AND ".join(f"({sql_text(one, frames)}\n)" for one in _listed(on))  # a text may end with a comment
    word = "WHERE" if HOW[how] == HOW["inner"] else "ON"
    text = f"SELECT {hints}{', '.join(selected) or '*'} FROM {sources}" + (f" {word} {where}" if where else "")
    return text, {name: frames[alias] for name, alias in names.items()}


def _listed(expressions: Expressions) -> Sequence[str | Column]:
    return expressions if isinstance(expressions, list | tuple) else [expressions]  # type: ignore[list-item]


def _columns(name: str, expressions: Expressions) -> list[Column]:
    """Return expressions as columns."""
    listed = _listed(expressions)
    for one in listed:
        if not isinstance(one, str | Column):
            raise TypeError(f"join() takes SQL text and columns for {name}, not {type(one).__name__}")
    return [F.expr(one) if isinstance(one, str) else one for one in listed]


def refuse_missing(text: str, values: Mapping[str, Any]) -> None:
    """Raise for a ``{name}`` without a value; PySpark would raise with only the name, or report the brace."""
    for name in _names(text, formatted=bool(values)):
        if name not in values:
            place = line_and_column(text, text.index("{" + name))
            given = f"; there is {', '.join(f'{{{one}}}' for one in values)}" if values else ""
            detail = f"{{{name}}} has no value: give sql(..., {name}=...), a DataFrame, say{given}"
            raise SqlSyntaxError(detail, text, *place)


def _names(text: str, *, formatted: bool) -> list[str]:
    """Return the names in braces; in a text that is not going to be formatted, only those outside of strings."""
    if not formatted:
        try:
            words = [token.text for token in tokenize(text)] if re.search(r"\{\w+\}", text) else []
        except SqlSyntaxError:  # it is reported as such
            return []
        return [name for one, name, other in zip(words, words[1:], words[2:], strict=False) if one + other == "{}"]
    try:
        return [re.split(r"[.\[]", name)[0] for _, name, _, _ in Formatter().parse(text) if name]
    except ValueError:  # PySpark reports what is wrong with the braces
        return []
