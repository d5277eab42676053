"""DataFrames in a statement's text, as ``SparkSession.sql`` takes them: ``sql("... {r} AS r JOIN ...", r=frame)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

#: Views stand for the frames while a statement is compiled. PySpark's own have random names; a checkpoint knows the
#: inputs of its query by name.
_VIEW = "__trijoin_arg_{}"


@contextmanager
def named_frames(spark: SparkSession, text: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Give DataFrames names for the time of a ``with`` block, and format a statement with them as PySpark does.

    Parameters
    ----------
    spark
        A classic session.
    text
        The statement, with ``{name}`` in it.
    values
        DataFrames, columns, strings (which become literals) and anything else by name.

    Returns
    -------
    context manager
        Of the statement as plain SQL.
    """
    from pyspark.sql.sql_formatter import SQLStringFormatter

    formatter = SQLStringFormatter(spark)
    try:
        for name, value in values.items():
            if isinstance(value, DataFrame):
                value.createOrReplaceTempView(_VIEW.format(name))
                formatter._temp_views.append((value, _VIEW.format(name)))
        yield formatter.format(text, **values)
    finally:
        formatter.clear()
