"""What Spark's plan of a stream tells about its watermark, and how that is held back.

Spark takes the delay of a watermark only where none is set yet, and refuses a second ``withWatermark`` above a stateful
operator. So the node of the plan that declares a watermark gets a longer delay.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame

from .spec import PREFIX, RUN

_STAGE = "TransformWithStateInPySpark"

#: The key under which Spark marks a column that has a watermark, with its delay in milliseconds.
DELAY = "spark.watermarkDelayMs"

#: Operators that keep rows back, or state of them, by the names of their nodes in Spark's logical plan. A join is one
#: where both its sides are streams.
WITH_STATE = frozenset(
    {
        *("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit", "Intersect", "Except"),
        *("FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState"),
        *("TransformWithState", "TransformWithStateInPySpark", "TransformWithStateInPandas"),
    }
)


def keeps_state(frame: DataFrame) -> bool:
    """Return whether an operator of Spark's with state makes the rows of a stream: an aggregation, a join, ...

    A join of ours is none: it holds nothing back.

    Parameters
    ----------
    frame
        A streaming DataFrame, of a classic session or of Spark Connect.
    """
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return _says_state(frame._explain_string(extended=True))  # type: ignore[operator]
    return _keeps_state(plan.queryExecution().analyzed())


def _keeps_state(plan: Any) -> bool:
    if not plan.isStreaming():
        return False
    below = _children(plan)
    if plan.nodeName() == "Join" and all(side.isStreaming() for side in below):
        return True
    if plan.nodeName() in WITH_STATE and not key_of(plan):
        return True
    return any(map(_keeps_state, below))


def key_of(plan: Any) -> str:
    """Return the key of the join of ours that an operator with state is a stage of, an empty text if it is none."""
    while plan.nodeName() in ("Project", _STAGE):
        plan = _children(plan)[0]
    if plan.nodeName() != "CollectMetrics":
        return ""
    name = str(plan.name())
    return name if name.startswith(PREFIX) and RUN in name else ""


def _says_state(explained: str) -> bool:
    """Read it off the plan's text, all that Spark Connect gives: streaming nodes have a ``~``.

    A stream that is joined with a table counts too, which costs it nothing but its own check for late rows.
    """
    analyzed = explained.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    return any(name in WITH_STATE or name == "Join" for name in re.findall(r"~(\w+)", analyzed))


def held_back(frame: DataFrame, micros: int, statement: str) -> tuple[DataFrame, tuple[str, ...]]:
    """Return a stream whose watermark is held back, and the joins of other statements that make its rows, by key.

    Parameters
    ----------
    frame
        A streaming DataFrame of a classic session.
    micros
        How much longer its delay is.
    statement
        The end of the keys of the joins of this statement: what comes from them is held back already.
    """
    spark: Any = frame.sparkSession
    keys: list[str] = []

    def visit(plan: Any) -> Any:
        if not plan.isStreaming():
            return plan
        if plan.nodeName() == _STAGE and (key := key_of(plan)):
            if key.endswith(statement):
                return plan
            keys.append(key)
        if plan.nodeName() == "EventTimeWatermark":
            return plan.copy(plan.nodeId(), plan.eventTime(), _longer(spark, plan.delay(), micros), plan.child())
        below = _children(plan)
        new = [visit(one) for one in below]
        if all(one is old for one, old in zip(new, below, strict=True)):
            return plan
        return plan.withNewChildren(spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(new))

    analyzed = frame._jdf.queryExecution().analyzed()
    plan = visit(analyzed)
    if plan is analyzed:
        return frame, ()
    java = spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(java, spark), tuple(dict.fromkeys(keys))


def _longer(spark: Any, delay: Any, micros: int) -> Any:
    from py4j.java_gateway import get_field

    months, days, rest = (get_field(delay, name) for name in ("months", "days", "microseconds"))
    return spark._jvm.org.apache.spark.unsafe.types.CalendarInterval(months, days, rest + micros)


def _children(plan: Any) -> list[Any]:
    children = plan.children()
    return [children.apply(number) for number in range(children.size())]
