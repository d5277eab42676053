"""What Spark's plan of a stream tells about its watermark, and how that is held back.

Spark takes the delay of a watermark only where none is set yet, and refuses a second ``withWatermark`` above a stateful
operator. So the node of the plan that declares a watermark gets a longer delay.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame

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
_OURS = "TransformWithState"


def keeps_state(frame: DataFrame) -> bool:
    """Return whether an operator with state makes the rows of a stream: an aggregation, a join of streams, ...

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
    if plan.nodeName() in WITH_STATE or (plan.nodeName() == "Join" and all(side.isStreaming() for side in below)):
        return True
    return any(map(_keeps_state, below))


def _says_state(explained: str) -> bool:
    """Read it off the plan's text, all that Spark Connect gives: streaming nodes have a ``~``.

    A stream that is joined with a table counts too, which costs it nothing but its own check for late rows.
    """
    analyzed = explained.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    return any(name in WITH_STATE or name == "Join" for name in re.findall(r"~(\w+)", analyzed))


def held_back(frame: DataFrame, micros: int) -> DataFrame | None:
    """Return a stream whose watermark is held back by some microseconds; None if there is none that can be.

    Parameters
    ----------
    frame
        A streaming DataFrame of a classic session.
    micros
        How much longer its delay is. What comes from a join of ours is held back already.
    """
    spark: Any = frame.sparkSession
    plan = _held_back(frame._jdf.queryExecution().analyzed(), micros, spark._jvm)
    if plan is None:
        return None
    java = spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(java, spark)


def _held_back(plan: Any, micros: int, jvm: Any) -> Any | None:
    """Return a plan with longer delays, None where there are none in it."""
    from py4j.java_gateway import get_field

    if not plan.isStreaming() or plan.nodeName().startswith(_OURS):
        return None
    below = _children(plan)
    if plan.nodeName() == "EventTimeWatermark":
        delay = plan.delay()
        months, days, rest = (get_field(delay, name) for name in ("months", "days", "microseconds"))
        longer = jvm.org.apache.spark.unsafe.types.CalendarInterval(months, days, rest + micros)
        return plan.copy(plan.nodeId(), plan.eventTime(), longer, plan.child())
    changed = [_held_back(child, micros, jvm) for child in below]
    if all(child is None for child in changed):
        return None
    new = [old if child is None else child for old, child in zip(below, changed, strict=True)]
    return plan.withNewChildren(jvm.org.apache.spark.api.python.PythonUtils.toSeq(new))


def _children(plan: Any) -> list[Any]:
    children = plan.children()
    return [children.apply(number) for number in range(children.size())]
