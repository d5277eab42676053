"""Late rows to have: a DataFrame of them, in the micro-batch that they came in.

Slots say how many rows they dropped, and the watermark that these missed, when the results have been computed. What is
late is a matter of the row and of that watermark alone, so a micro-batch that dropped rows reads its input once more,
and Spark carries them from there to their sink. No process holds them all. Only a function of micro-batches
(``foreachBatch``) stands between the results of one and its commit, so that is the only place where late rows can be
written with it. A batch that is repeated after a crash brings the same rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from ..errors import PlanError, UnavailableError
from ..operators.compile.logical_plans import items
from ..operators.compile.packing import LateSource, LateStream
from ..operators.spec import JoinSpec, StreamSpec
from ..operators.task.outputs import LATE_ROWS
from ..operators.task.reports import forget_attempt, reported
from ..rewriter.sql.catalog import FRAME, own_name
from ..spark.whole_batches import is_whole
from .known_joins import known_join, late_sources
from .listener import Execution, execution_of
from .metrics import slots_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    #: Takes the results of a micro-batch, what returns its late rows, and its number.
    Write = Callable[[DataFrame, Callable[[], DataFrame], int], None]

#: Columns of late rows, as DDL.
COLUMNS = "stream STRING, event_time TIMESTAMP, watermark TIMESTAMP, row STRING"


def with_late_rows(write: Write) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that also gets the rows which came too late.

    The query must come from ``tj.sql(..., late_rows=True)``. Each late row is in one micro-batch, the one that it came
    in. A micro-batch that is repeated after a crash has the same late rows as before.

    Parameters
    ----------
    write
        Takes the results of a micro-batch, a function that returns its late rows, and its number. It should write the
        results first: late rows are known when these have been computed, and the results are computed once more
        otherwise.

    Returns
    -------
    callable
        For ``DataStreamWriter.foreachBatch``.

    Notes
    -----
    Late rows have the columns ``stream STRING`` (its name in the query), ``event_time TIMESTAMP``, ``watermark
    TIMESTAMP`` (the one that the row missed) and ``row STRING``: a JSON object with all columns of the stream. A stream
    with several aliases in a query gives a row once. Rows that Spark's own operators drop are not among them. Where a
    micro-batch has late rows, its input is read again for them, and Spark's progress report counts it twice.

    The function that it returns raises an `UnavailableError` if the query was not made for late rows, or on Spark
    Connect.

    Examples
    --------
    >>> def write(near, late_rows, batch):
    ...     near.write.mode("append").parquet("near")
    ...     late_rows().write.mode("append").parquet("late")
    >>> near = tj.sql("SELECT ...", late_rows=True)  # doctest: +SKIP
    >>> near.writeStream.foreachBatch(trijoin_sql.with_late_rows(write)).start()  # doctest: +SKIP
    """
    takes = "a function of the results, of late rows and of the number of the micro-batch"
    if not callable(write):
        raise TypeError(f"with_late_rows() takes {takes}, not {type(write).__name__}")
    with suppress(ValueError):  # of some callables nothing says what they take
        try:
            inspect.signature(write).bind(None, None, 0)
        except TypeError as error:
            raise TypeError(f"with_late_rows() takes {takes}: {error}") from None

    def written(frame: DataFrame, late: Callable[[], DataFrame | None], of: MicroBatch) -> None:
        def late_or_none() -> DataFrame:
            found = late()
            return frame.sparkSession.createDataFrame([], COLUMNS) if found is None else found

        write(frame, late_or_none, of.number)

    return with_late(written)


def with_late(
    write: Callable[[DataFrame, Callable[[], DataFrame | None], MicroBatch], None],
) -> Callable[[DataFrame, int], None]:
    """Do what `with_late_rows` does, with the query's id, and with None where no row is late."""

    def written(frame: DataFrame, batch: int) -> None:
        context: Any = getattr(frame.sparkSession, "_sc", None)
        query = "" if context is None else context.getLocalProperty("sql.streaming.queryId") or ""
        execution = execution_of(query)
        keys = () if execution is None else tuple(filter(late_sources, execution.keys))
        if execution is None or not keys:
            raise UnavailableError(
                "the way to late rows",
                "no join of this query was made for them",
                "make it in a classic session with tj.sql(..., late_rows=True), over streams with a watermark",
            )
        of = MicroBatch(keys, query, batch)
        for key in keys:
            forget_attempt(key, query, batch)

        def late() -> DataFrame | None:
            if not of.computed or not is_whole(execution.execution):  # a sink has skipped the results, or read a part
                frame.write.format("noop").mode("overwrite").save()
            return of.late(frame.sparkSession, execution)

        write(frame, late, of)

    return written


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch of a query: the keys of its joins, the query's id, and the number of the micro-batch."""

    keys: tuple[str, ...]
    query: str
    number: int

    @property
    def computed(self) -> bool:
        """Whether slots have reported; in a micro-batch without rows none does, and no row is late."""
        return any(reported(key, self.query, self.number) for key in self.keys)

    def late(self, spark: SparkSession, execution: Execution) -> DataFrame | None:
        """Return the late rows, with the columns of `COLUMNS`: each row of a stream once; None if there are none.

        Parameters
        ----------
        spark
            The session of the micro-batch.
        execution
            The run of the query.

        Raises
        ------
        PlanError
            Slots of a join dropped rows by several watermarks, or the plan has not what they came from: a bug.
        """
        found: list[DataFrame] = []
        streams: list[str] = []
        for number, key in enumerate(self.keys):
            spec = known_join(key)
            assert spec is not None  # it was compiled here
            missed = self._missed(key)
            if not missed:
                continue
            plan = execution.execution.lastExecution().executedPlan()
            inputs = {name: node for node in _inputs(plan, key) for name in node.schema().fieldNames()}
            for source in late_sources(key):
                if late := _late_streams(source, spec, missed):
                    if source.whole not in inputs:
                        raise PlanError(f"the plan of micro-batch {self.number} does not show where its late rows are")
                    rows = _frame_of(spark, inputs[source.whole])
                    found.append(_late_of(rows, source.whole, late, number))
                    streams.append(late[0].name.lower())
        if not found:
            return None
        rows = reduce(lambda one, other: one.unionAll(other), found)
        return (each_once(rows) if len(set(streams)) < len(streams) else rows).select(
            "stream", "event_time", "watermark", "row"
        )

    def _missed(self, key: str) -> dict[str, int]:
        """Return by alias the watermark that late rows of a join have missed (microseconds)."""
        missed: dict[str, int] = {}
        for slot in slots_of(key, self.query, self.number, {}):
            for alias, one in slot.get(LATE_ROWS, {}).items():
                if missed.setdefault(alias, one["watermark"]) != one["watermark"]:
                    raise PlanError(f"slots of micro-batch {self.number} know several watermarks")
        return missed


def _inputs(plan: Any, key: str) -> Iterator[Any]:
    """Yield the nodes whose rows the dispatchers of a join get, from the physical plan of a micro-batch."""
    waiting = [(plan, False)]
    while waiting:
        node, inside = waiting.pop()
        name = node.getClass().getSimpleName()
        if inside and name == "MapInArrowExec":
            yield node.child()
            continue
        inside = inside or (name == "CollectMetricsExec" and node.name() == key)
        waiting += [(one, inside) for one in items(node.children())]


def _frame_of(spark: SparkSession, node: Any) -> DataFrame:
    """Return what a node of a physical plan computes."""
    from pyspark.sql import DataFrame

    session: Any = spark
    return DataFrame(session._jsparkSession.internalCreateDataFrame(node.execute(), node.schema(), False), spark)


@dataclass(frozen=True, slots=True)
class _Late:
    """A stream with late rows: its name, how they are found, and the watermark that they missed (microseconds)."""

    name: str
    found: LateStream
    watermark: int

    @property
    def condition(self) -> Column:
        """Which rows are late."""
        from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

        conditions = [F.col(self.found.time) <= F.lit(self.watermark)]
        conditions += [] if self.found.keep is None else [F.col(self.found.keep)]
        return reduce(and_, [*conditions, *(F.col(name).isNotNull() for name in self.found.required)])


def _late_streams(source: LateSource, spec: JoinSpec, missed: Mapping[str, int]) -> list[_Late]:
    """Return the streams of a source that have late rows."""
    streams = [(spec.streams[one.rank], one) for one in source.streams]
    return [_Late(_name(stream), one, missed[stream.alias]) for stream, one in streams if stream.alias in missed]


def _late_of(rows: DataFrame, whole: str, late: list[_Late], node: int) -> DataFrame:
    """Return the late rows of a source, each once, with a number for this input of the query."""
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    first = late[0]
    when = [(one.condition, F.col(one.found.time), F.lit(one.watermark)) for one in late]
    return rows.where(reduce(or_, (condition for condition, _, _ in when))).select(
        F.lit(f"{node} {first.found.rank}").alias("input"),
        F.lit(first.name).alias("stream"),
        F.lit(first.name.lower()).alias("key"),
        F.timestamp_micros(F.coalesce(*[F.when(condition, time) for condition, time, _ in when])).alias("event_time"),
        F.timestamp_micros(F.coalesce(*[F.when(condition, mark) for condition, _, mark in when])).alias("watermark"),
        F.col(whole).alias("row"),
    )


def _name(stream: StreamSpec) -> str:
    """Return the name of a stream in a query; a DataFrame is a view of ours, with its name in it if that is plain."""
    if not stream.reads.startswith(FRAME):
        return stream.reads or stream.alias
    name = own_name(stream.reads)
    return stream.alias if name.startswith(FRAME) else name


def each_once(rows: DataFrame) -> DataFrame:
    """Return late rows of several inputs of a query, each once.

    Inputs that read one stream drop the same row, unless conditions of their own have dropped it before. So of rows
    that are alike, as many are returned as the input with the most of them has.
    """
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    same = ("key", "event_time", "row")
    about = F.min("stream").alias("stream"), F.max("watermark").alias("watermark")
    alike = rows.groupBy("input", *same).agg(*about, F.count("*").cast("int").alias("rows"))
    most = alike.groupBy(*same).agg(*about, F.max("rows").alias("rows"))
    return most.withColumn("rows", F.explode(F.array_repeat(F.lit(1), "rows")))
