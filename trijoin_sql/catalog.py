"""What Spark knows of a table, told to the rewriter."""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from .rewriter.catalog import TableInfo
from .rewriter.plan import Column

#: The key under which Spark marks a column that has a watermark, in milliseconds.
_DELAY = "spark.watermarkDelayMs"


class SparkCatalog:
    """Looks tables up in a Spark session; each name once for each statement.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._known: dict[tuple[str, ...], TableInfo | None] = {}

    def table(self, name: tuple[str, ...]) -> TableInfo | None:
        """Return what Spark knows of a table or a view, None if there is no such table."""
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def _look_up(self, name: tuple[str, ...]) -> TableInfo | None:
        try:
            frame = self.spark.table(".".join("`" + part.replace("`", "``") + "`" for part in name))
            fields = frame.schema.fields
        except (AnalysisException, ParseException):
            return None
        event_time, delay = None, None
        for field in fields:
            if _DELAY in (field.metadata or {}):
                event_time, delay = field.name, int(field.metadata[_DELAY]) * 1000
        columns = tuple(Column(field.name, field.dataType.simpleString()) for field in fields)
        return TableInfo(columns, frame.isStreaming, _rows(frame), event_time, delay)


def _rows(frame: DataFrame) -> float | None:
    """Return Spark's estimate of a batch table's rows, where the session can tell (classic) and the source knows."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None or frame.isStreaming:
        return None
    count = plan.queryExecution().optimizedPlan().stats().rowCount()
    return float(str(count.get())) if count.isDefined() else None
