"""Spark's logical plans of classic sessions, as Python sees them by py4j."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def plan_of(frame: DataFrame) -> Any:
    """Return the analysed plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """Return the DataFrame of a plan."""
    session: Any = spark
    classic = session._jvm.org.apache.spark.sql.classic
    return DataFrame(classic.Dataset.ofRows(session._jsparkSession, plan), spark)


def items(seq: Any) -> list[Any]:
    """Return what is in a sequence of Scala's."""
    return [seq.apply(number) for number in range(seq.size())]


def sequence(spark: SparkSession, listed: list[Any]) -> Any:
    """Return a list as a sequence of Scala's."""
    session: Any = spark
    return session._jvm.org.apache.spark.api.python.PythonUtils.toSeq(listed)


def walk(plan: Any) -> Iterator[Any]:
    """Yield a node and all nodes below it, parents first."""
    yield plan
    for below in items(plan.children()):
        yield from walk(below)


def over(spark: SparkSession, node: Any, children: list[Any]) -> Any:
    """Return a node, of a plan or an expression, over other children: itself where these are its own."""
    if all(new is old or new.fastEquals(old) for new, old in zip(children, items(node.children()), strict=True)):
        return node
    return node.withNewChildren(sequence(spark, children))


def joins_streams(plan: Any) -> bool:
    """Return whether a node is a join of two streams."""
    return bool(plan.nodeName() == "Join" and all(side.isStreaming() for side in items(plan.children())))
