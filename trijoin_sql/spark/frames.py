"""DataFrames in a statement's text, as ``SparkSession.sql`` takes them: ``sql("... {r} AS r JOIN ...", r=frame)``."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from string import Formatter
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..errors import SqlSyntaxError, line_and_column
from ..rewriter.sql.dialect import tokenize

#: Views stand for the frames while a statement is compiled. PySpark's own have random names; a checkpoint knows the
#: inputs of its query by name.
_VIEW = "__trijoin_arg_{}"

#: Two statements may have frames of the same name, and a session more than one thread.
_one_at_a_time = threading.RLock()

_QUERY = re.compile(r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*(SELECT|WITH|FROM|EXPLAIN)\b", re.IGNORECASE | re.DOTALL)


def takes_frames(spark: SparkSession, text: str) -> bool:
    """Return whether a statement with frames may be ours: a query, in a classic session.

    Objects that a statement creates may outlive the names of its frames, so such statements use Spark's own names.
    """
    return getattr(spark, "_sc", None) is not None and _QUERY.match(text) is not None


@contextmanager
def named_frames(spark: SparkSession, text: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Give DataFrames names for the time of a ``with`` block, and format a statement with them as PySpark does.

    ``values`` are DataFrames, columns, strings (which become literals) and anything else, for each ``{name}`` in it.
    """
    from pyspark.sql.sql_formatter import SQLStringFormatter

    formatter = SQLStringFormatter(spark)
    views = {_VIEW.format(name): value for name, value in values.items() if isinstance(value, DataFrame)}
    formatter._temp_views += [(frame, name) for name, frame in views.items()]
    with temporary_views(views):
        try:
            yield formatter.format(text, **values)
        finally:
            formatter.clear()  # of frames inside of other values too


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
