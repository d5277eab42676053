"""``spark.sql`` of one session, extended with our SQL, and the joins of its DataFrames."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from .session import TriJoinSession
from .spark.flags import settings_of
from .spark.liberties import JOIN_IN_PLAN, taken
from .spark.versions import check_is_session


def enable(spark: SparkSession) -> TriJoinSession:
    """Extend ``spark.sql`` of this session, and of no other, with our SQL.

    In a classic session, ``DataFrame.writeStream`` also looks for joins that Spark refuses, and writes what
    `TriJoinSession.rewrite` returns.

    Parameters
    ----------
    spark
        A classic or Spark Connect session.

    Returns
    -------
    TriJoinSession
        The session that now answers ``spark.sql``; a second call makes another one and reads the settings again.

    Raises
    ------
    TypeError
        It is no Spark session.
    """
    session = TriJoinSession.create(spark)
    vars(spark)["sql"] = session.sql
    if hasattr(spark, "_jsparkSession"):
        _extend_frames()
    return session


def disable(spark: SparkSession) -> None:
    """Undo `enable`; a session that is not extended stays unchanged.

    Parameters
    ----------
    spark
        The session.

    Raises
    ------
    TypeError
        It is no Spark session.
    """
    check_is_session(spark)
    vars(spark).pop("sql", None)


def _extend_frames() -> None:
    """Let ``writeStream`` of all DataFrames look whether their session is extended; once in a process."""
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    of_spark = Classic.__dict__["writeStream"]
    if of_spark.fget.__module__ == __name__:
        return

    def write_stream(frame: Any) -> DataStreamWriter:
        rewritten = _rewritten(frame)
        return of_spark.fget(frame) if rewritten is frame else rewritten.writeStream

    Classic.writeStream = property(write_stream, doc=of_spark.__doc__)  # type: ignore[assignment,method-assign]


def _rewritten(frame: DataFrame) -> DataFrame:
    spark = frame.sparkSession
    extended = getattr(vars(spark).get("sql"), "__self__", None)
    if not isinstance(extended, TriJoinSession):
        return frame
    if not taken(JOIN_IN_PLAN, settings_of(spark)):
        extended.statements.prove(frame)
        return frame
    return extended.rewrite(frame)
