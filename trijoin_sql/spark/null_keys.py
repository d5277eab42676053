"""Keeps NULL keys apart in a FULL JOIN of streams that Spark runs.

Spark's state is looked up by the bytes of the keys, so NULL finds NULL. Of the side that a join does not preserve the
optimiser drops rows with NULL first, but a FULL JOIN preserves both. Batch never pairs them, so its condition says so.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from ..operators.compile.logical_plans import conjuncts, frame_of, items, joins_streams, over, plan_of


def with_nulls_apart(frame: DataFrame) -> DataFrame:
    """Return a DataFrame whose FULL JOINs pair no NULLs; the same one if it has none, or on Spark Connect."""
    if not frame.isStreaming or not hasattr(frame, "_jdf"):
        return frame
    analyzed = plan_of(frame)
    if "FullOuter" not in analyzed.toString():  # one call instead of one for each node
        return frame
    changed = _apart(frame.sparkSession, analyzed)
    return frame if changed is analyzed else frame_of(frame.sparkSession, changed)


def _apart(spark: Any, plan: Any) -> Any:
    plan = over(spark, plan, [_apart(spark, child) for child in items(plan.children())])
    if not joins_streams(plan) or plan.joinType().sql() != "FULL OUTER" or plan.condition().isEmpty():
        return plan
    catalyst = spark._jvm.org.apache.spark.sql.catalyst
    condition = plan.condition().get()
    compared = conjuncts(condition)
    known = [one.child() for one in compared if one.nodeName() == "IsNotNull"]
    keys = [one.left() for one in compared if one.nodeName() == "EqualTo" and one.left().nullable()]
    missing = [key for key in keys if not any(key.semanticEquals(one) for one in known)]
    for key in missing:
        condition = catalyst.expressions.And(condition, catalyst.expressions.IsNotNull(key))
    if not missing:
        return plan
    found = spark._jvm.scala.Option.apply(condition)
    return catalyst.plans.logical.Join(plan.left(), plan.right(), plan.joinType(), found, plan.hint())
