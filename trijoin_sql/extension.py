"""``spark.sql`` of one session, extended with our SQL."""

from __future__ import annotations

from pyspark.sql import SparkSession

from .session import TriJoinSession, check_is_session


def enable(spark: SparkSession) -> TriJoinSession:
    """Extend ``spark.sql`` of this session, and of no other, with our SQL.

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
