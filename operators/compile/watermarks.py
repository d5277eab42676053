"""What Spark's plan of a stream tells about its watermark, and how that is held back.

Spark takes the delay of a watermark only where none is set yet, and refuses a second ``withWatermark`` above a stateful
operator. So the node of the plan that declares a watermark gets a longer delay.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ..spec import RUN, is_key
from .logical_plans import frame_of, items, joins_streams, over, plan_of, walk

#: A stage of ours in a plan; the second name is that of Spark 4.0.
_STAGE = ("TransformWithStateInPySpark", "TransformWithStateInPandas")

#: The key under which Spark marks a column that has a watermark, with its delay in milliseconds.
DELAY = "spark.watermarkDelayMs"

#: Nodes of a plan that a filter may be between, or move below.
_LINEAR = ("Project", "Filter", "SubqueryAlias", "View")

#: Operators that keep rows back, or state of them, by the names of their nodes in Spark's logical plan. A join is one
#: where both its sides are streams.
WITH_STATE = frozenset(
    {
        *("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit", "Intersect", "Except"),
        *("FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState"),
        *("TransformWithState", *_STAGE),
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
    if not hasattr(frame, "_jdf"):
        return _says_state(frame._explain_string(extended=True))  # type: ignore[operator]
    return _keeps_state(plan_of(frame))


def _keeps_state(plan: Any) -> bool:
    if not plan.isStreaming():
        return False
    if joins_streams(plan) or (plan.nodeName() in WITH_STATE and not key_of(plan)):
        return True
    return any(map(_keeps_state, items(plan.children())))


def key_of(plan: Any) -> str:
    """Return the key of the join of ours that an operator with state is a stage of, an empty text if it is none."""
    while plan.nodeName() in ("Project", *_STAGE):
        plan = items(plan.children())[0]
    if plan.nodeName() != "CollectMetrics":
        return ""
    name = str(plan.name())
    return name if is_key(name) else ""


def keys_in(frame: DataFrame) -> list[str]:
    """Return the keys of the joins of ours that make the rows of a stream; none on Spark Connect."""
    steps = walk(plan_of(frame)) if hasattr(frame, "_jdf") else ()
    found = (key_of(step.node) for step in steps if step.name in _STAGE)
    return list(dict.fromkeys(key for key in found if key))


def _says_state(explained: str) -> bool:
    """Return the same by the plan's text, which is all that Spark Connect gives: streaming nodes have a ``~`` there.

    A stream that is joined with a table counts too; then the units do not look for late rows in it.
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
        The number of this statement, with which the keys of its joins end: what comes from them is held back already.
    """
    spark: Any = frame.sparkSession
    keys: list[str] = []

    def visit(plan: Any) -> Any:
        if not plan.isStreaming():
            return plan
        if plan.nodeName() in _STAGE and (key := key_of(plan)):
            if key.partition(RUN)[2] == statement:
                return plan
            keys.append(key)
        if plan.nodeName() == "EventTimeWatermark":
            node = spark._jvm.java.util.UUID.randomUUID()  # Spark tells nodes apart by it, and this is another one
            return plan.copy(node, plan.eventTime(), _longer(spark, plan.delay(), micros), plan.child())
        return over(spark, plan, [visit(one) for one in items(plan.children())])

    analyzed = plan_of(frame)
    plan = visit(analyzed)
    return (frame, ()) if plan is analyzed else (frame_of(spark, plan), tuple(dict.fromkeys(keys)))


def with_all_rows(frame: DataFrame, name: str) -> DataFrame:
    """Return a stream whose watermark all of its rows move, also those that a filter above it drops.

    Spark's optimiser moves a filter below the watermark, so a stream whose rows all fail it would hold back whatever
    waits for that. It moves none below metrics that are observed.

    Parameters
    ----------
    frame
        A streaming DataFrame of a classic session.
    name
        What the names of these metrics begin with, in the query's progress.
    """
    spark: Any = frame.sparkSession
    found: list[Any] = []

    def visit(plan: Any, *, filtered: bool) -> Any:
        if plan.nodeName() == "EventTimeWatermark" and filtered:
            found.append(plan)
            counted = F.count(F.lit(1)).alias("rows")
            return plan_of(frame_of(spark, plan).observe(f"{name}_{len(found)}", counted))
        if plan.nodeName() not in _LINEAR:
            return plan
        filtered = filtered or plan.nodeName() == "Filter"
        return over(spark, plan, [visit(one, filtered=filtered) for one in items(plan.children())])

    plan = visit(plan_of(frame), filtered=False)
    return frame_of(spark, plan) if found else frame


def _longer(spark: Any, delay: Any, micros: int) -> Any:
    from py4j.java_gateway import get_field

    months, days, rest = (get_field(delay, name) for name in ("months", "days", "microseconds"))
    return spark._jvm.org.apache.spark.unsafe.types.CalendarInterval(months, days, rest + micros)
