"""Tells the rewriter what Spark knows about a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField

from ..operators.compile.logical_plans import plan_of
from ..operators.compile.travel_types import CHAR, quoted, type_name
from ..operators.compile.watermarks import DELAY, keeps_state, keys_in
from ..rewriter.plan.parts import Column, RowsFrom
from ..rewriter.sql.catalog import FRAME, TableInfo, own_name
from .flags import flag, settings_of
from .rates import declared_rate, rate_of, sources_in

#: By this setting Spark compares texts of CHAR columns as they are. Others pad more than the shorter of two columns.
_AS_STRING = "spark.sql.legacy.charVarcharAsString"


class SparkCatalog:
    """Looks up tables in a Spark session; each name once for each statement.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    observed
        Observed rows a second of its queries, by relation.
    frames
        DataFrames that a statement knows by name.
    behind
        Tells by how much results of a join of ours, by its key, come behind Spark's watermark (microseconds).
    """

    def __init__(
        self,
        spark: SparkSession,
        observed: Mapping[str, float] | None = None,
        frames: Mapping[str, DataFrame] | None = None,
        behind: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.spark = spark
        self.frames = frames or {}
        self.observed = observed or {}
        self._behind = behind
        self._setting = settings_of(spark)
        self._known: dict[tuple[str, ...], TableInfo | None] = {}

    def table(self, name: tuple[str, ...]) -> TableInfo | None:
        """Return what Spark knows about a table or a view, None if there is no such table."""
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def types_of(self, texts: Sequence[str], columns: Mapping[tuple[str, str], str]) -> Sequence[str]:
        """Return Spark's types of expressions over some relations' columns; nothing if a column's type is not known."""
        read: dict[str, list[str]] = {}
        for (alias, name), kind in columns.items():
            read.setdefault(alias, []).append(f"CAST(NULL AS {kind}) AS {quoted(name)}")
        inputs = [f"(SELECT {', '.join(each)}) AS {quoted(alias)}" for alias, each in read.items()]
        try:
            frame = self.spark.sql(
                f"SELECT {', '.join(f'({text})' for text in texts)} FROM {' CROSS JOIN '.join(inputs)}"
            )
            return [type_name(field.dataType) for field in frame.schema.fields]
        except (AnalysisException, ParseException):
            return ()

    def _look_up(self, name: tuple[str, ...]) -> TableInfo | None:
        try:
            frame = self.frames.get(".".join(name)) or self.spark.table(".".join(map(quoted, name)))
            fields = frame.schema.fields
        except (AnalysisException, ParseException):
            return None
        times = [field for field in fields if DELAY in (field.metadata or {})]
        times.sort(key=lambda field: field.dataType.simpleString() != "timestamp")  # before windows of time
        columns = tuple(Column(field.name, self._type(field)) for field in fields)
        rows, rows_from = self._rate(name, frame) if frame.isStreaming else _rows(frame)
        stateful = bool(times) and frame.isStreaming and keeps_state(frame)
        delays = tuple((field.name, int(field.metadata[DELAY]) * 1000) for field in times)
        behind = sum(map(self._behind, keys_in(frame))) if stateful else 0
        return TableInfo(columns, frame.isStreaming, rows, delays, rows_from, stateful, behind)

    def _type(self, field: StructField) -> str:
        """Return the type of a column, ``char(n)`` for a text that Spark pads where it compares it."""
        kind = str((field.metadata or {}).get(CHAR, ""))
        if not kind.startswith("char(") or flag(self._setting, _AS_STRING, default=False):
            return type_name(field.dataType)
        return kind

    def _rate(self, name: tuple[str, ...], frame: DataFrame) -> tuple[float | None, RowsFrom]:
        """Return the rows a second of a stream and their origin: a view over one stream has the stream's rate."""
        names = [name]
        sources = sources_in(plan_of(frame)) if hasattr(frame, "_jdf") else []
        if len(sources) == 1 and rate_of(dict.fromkeys(sources[0].names, 1.0), name) is not None:
            names += [tuple(one.split(".")) for one in sources[0].names]
        for one in (*names, (own_name(name[-1]),) if name[-1].startswith(FRAME) else name):
            declared = declared_rate(self._setting, one)
            if declared is not None:
                return declared, "declared"
        seen = next((rows for one in names if (rows := rate_of(self.observed, one)) is not None), None)
        return seen, "assumed" if seen is None else "observed"


def _rows(frame: DataFrame) -> tuple[float | None, RowsFrom]:
    """Return Spark's estimate of a batch table's rows, if the session has one (classic) and the source knows it."""
    plan: Any = getattr(frame, "_jdf", None)
    if plan is None:
        return None, "assumed"
    count = plan.queryExecution().optimizedPlan().stats().rowCount()
    return (float(str(count.get())), "statistics") if count.isDefined() else (None, "assumed")
