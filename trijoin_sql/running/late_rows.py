"""Late rows to have: from the slots that dropped them to a DataFrame, in the micro-batch that they came in.

Slots put them into an accumulator (`operators.task.reports`), so they are on the driver when the results have been
computed, and not before. Only a function of micro-batches (``foreachBatch``) stands between the results of one and its
commit, so that is the only place where they can be written with it. A batch that is repeated after a crash brings the
same rows: what is late is a function of the state and of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..errors import PlanError, UnavailableError
from ..operators.spec import StreamSpec
from ..operators.task.late_rows import unpacked
from ..operators.task.micro_batch import LATE_UNTIL
from ..operators.task.outputs import LATE_ROWS
from ..operators.task.reports import forget_attempt, forget_late, keeps_late_rows, late_packed, reported
from ..rewriter.sql.catalog import FRAME
from ..spark.whole_batches import is_whole
from .listener import execution_of, known_join
from .metrics import slots_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    #: Takes the results of a micro-batch, what returns its late rows, and its number.
    Write = Callable[[DataFrame, Callable[[], DataFrame], int], None]

#: Columns of late rows, as DDL.
COLUMNS = "stream STRING, event_time TIMESTAMP, watermark TIMESTAMP, row STRING"
_SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("watermark", pa.timestamp("us", "UTC")),
        ("row", pa.string()),
    ]
)


def with_late_rows(write: Write) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that also gets the rows which came too late.

    The query must come from ``tj.sql(..., late_rows=True)``. Each late row is in one micro-batch, the one that it came
    in. A micro-batch that is repeated after a crash has the same late rows as before.

    Parameters
    ----------
    write
        Takes the results of a micro-batch, a function that returns its late rows, and its number. It should write the
        results first: late rows are known when these have been computed, and are computed once more otherwise.

    Returns
    -------
    callable
        For ``DataStreamWriter.foreachBatch``.

    Notes
    -----
    Late rows have the columns ``stream STRING`` (its name in the query), ``event_time TIMESTAMP``, ``watermark
    TIMESTAMP`` (the one that the row missed) and ``row STRING``: a JSON object with all columns of the stream. A stream
    with several aliases in a query gives a row once. Rows that Spark's own operators drop are not among them.

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

    def written(frame: DataFrame, late: Callable[[], pa.Table], of: MicroBatch) -> None:
        write(frame, lambda: frame_of_late(frame.sparkSession, late()), of.number)

    return with_late_table(written)


def frame_of_late(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return late rows as a DataFrame with the columns of `COLUMNS`."""
    found: Any = table  # the stubs of some versions know no Arrow tables
    return spark.createDataFrame(found, COLUMNS)


def with_late_table(
    write: Callable[[DataFrame, Callable[[], pa.Table], MicroBatch], None],
) -> Callable[[DataFrame, int], None]:
    """Do what `with_late_rows` does, with late rows as an Arrow table, and with the query's id."""

    def written(frame: DataFrame, batch: int) -> None:
        context: Any = getattr(frame.sparkSession, "_sc", None)
        query = "" if context is None else context.getLocalProperty("sql.streaming.queryId") or ""
        execution = execution_of(query)
        keys = () if execution is None else tuple(key for key in execution.keys if keeps_late_rows(key))
        if execution is None or not keys:
            raise UnavailableError(
                "late rows",
                "no join of this query was made for them",
                "make it in a classic session with tj.sql(..., late_rows=True), over streams with a watermark",
            )
        of = MicroBatch(keys, query, batch)
        for key in keys:
            forget_attempt(key, query, batch)

        def late() -> pa.Table:
            if not of.computed or not is_whole(execution.execution):  # a sink has skipped the results, or read a part
                frame.write.format("noop").mode("overwrite").save()
            return of.late()

        context.setLocalProperty(LATE_UNTIL, str(execution.watermark()))
        try:
            write(frame, late, of)
        finally:
            context.setLocalProperty(LATE_UNTIL, None)
        for key in keys:
            forget_late(key, query, batch)

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

    def late(self) -> pa.Table:
        """Return the late rows so far, with the columns of `COLUMNS`: each row of a stream once.

        Raises
        ------
        PlanError
            They are not those that slots have counted: a bug, or Spark has lost an accumulator's update.
        """
        batches = []
        for number, key in enumerate(self.keys):
            spec = known_join(key)
            assert spec is not None  # it was compiled here
            found = [unpacked(data) for data in late_packed(key, self.query, self.number)]
            slots = slots_of(key, self.query, self.number, {})
            counted = sum(one["rows"] for slot in slots for one in slot.get(LATE_ROWS, {}).values())
            if counted != sum(batch.num_rows for batch in found):
                raise PlanError(f"{counted} rows of micro-batch {self.number} were late, and others are here")
            names = [_name(stream) for stream in spec.streams]
            batches += [_named(batch, number, names) for batch in found]
        return each_once(batches)


def _name(stream: StreamSpec) -> str:
    """Return the name of a stream in a query; a DataFrame is a view of ours, with its name in it if that is plain."""
    if not stream.reads.startswith(FRAME):
        return stream.reads or stream.alias
    name = stream.reads.removeprefix(f"{FRAME}_")
    return stream.alias if name == stream.reads else name


def _named(batch: pa.RecordBatch, node: int, names: Sequence[str]) -> pa.RecordBatch:
    """Return what a slot said with the names of streams, and one number for each input of the query."""
    ranks = batch.column("rank").to_numpy()
    columns = {
        "input": pa.array(node * 1000 + ranks.astype(np.int64)),
        "stream": pa.array(names, pa.string()).take(batch.column("rank")),
        "key": pa.array([name.lower() for name in names], pa.string()).take(batch.column("rank")),
        "event_time": batch.column("time"),
        "watermark": batch.column("watermark"),
        "row": batch.column("row"),
    }
    return pa.RecordBatch.from_pydict(columns)


def each_once(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return late rows with the columns of `COLUMNS`.

    Several inputs of a query that read one stream drop the same row, unless conditions of their own have dropped it
    before. So of rows that are alike, as many are returned as the input with the most of them has.
    """
    found = list(batches)
    if not found:
        return _SCHEMA.empty_table()
    table = pa.Table.from_batches(found)
    same = ["key", "event_time", "row"]
    alike = table.group_by(["input", *same], use_threads=False).aggregate(
        [("stream", "min"), ("watermark", "max"), ("row", "count")]
    )
    most = alike.group_by(same, use_threads=False).aggregate(
        [("stream_min", "min"), ("watermark_max", "max"), ("row_count", "max")]
    )
    rows = most.take(pa.array(np.repeat(np.arange(most.num_rows), most.column("row_count_max").to_numpy())))
    columns = [rows.column(name) for name in ("stream_min_min", "event_time", "watermark_max_max", "row")]
    return pa.Table.from_arrays(
        [
            column.cast(pa.timestamp("us")).cast(kind) if pa.types.is_timestamp(kind) else column
            for column, kind in zip(columns, _SCHEMA.types, strict=True)
        ],
        schema=_SCHEMA,
    )
