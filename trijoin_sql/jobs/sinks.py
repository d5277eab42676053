"""A query's rows on their way out: writers for every sink format."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..running.recovery import recover_file_sink, recover_foreach_batch
from ..running.stopping import StopRequest
from .check import load_function, load_source
from .formats import CHECKPOINT, OTHER, PYTHON, SINKS, SOURCES, TABLES, find_format
from .job_text import Script
from .statements import CreateSink, CreateStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start(
    frame: DataFrame, sink: CreateSink, script: Script, request: StopRequest, *, once: bool, lines: bool
) -> StreamingQuery:
    """Start a query, after its sink and its checkpoint agree (see `running.recovery`).

    With ``once`` it reads the available rows and ends, whatever the sink's trigger is. With ``lines`` a console sink
    writes a JSON object for each row, instead of tables. Functions of batches ask `request` whether to go on.
    """
    spark = frame.sparkSession
    name = find_format(SINKS, sink.format.text) or sink.format.text
    target = frame.writeStream.queryName(sink.name.text).outputMode(sink.output_mode)
    for key, value in _options(sink, name):
        target = target.option(key, value)
    trigger: Any = {"availableNow": True} if once else sink.trigger
    target = target.trigger(**trigger) if trigger else target
    path, checkpoint = sink.options.text("path"), checkpoint_of(spark, sink)

    def batches(function: Callable[[DataFrame, int], None]) -> StreamingQuery:
        safe = function if checkpoint is None else recover_foreach_batch(spark, checkpoint, function)
        return target.foreachBatch(request.guard(safe)).start()

    function = sink.options.find("function")
    if name == "foreachBatch" and function is not None:
        return batches(load_function(script, function))
    if name == "console":
        return batches(_print_lines(sink) if lines else _print_tables(sink))
    if name == "delta":
        return batches(_into_delta(sink))
    table = sink.options.text("table")
    if name in TABLES and table is not None:
        return target.toTable(table, format=name)
    if name not in (*TABLES, PYTHON) and path is not None and checkpoint is not None:  # files, maybe a package's
        recover_file_sink(spark, checkpoint, path)
    return target.format(spark_format(spark, sink, script)).start()


def spark_format(spark: SparkSession, one: CreateStream | CreateSink, script: Script) -> str:
    """Return Spark's name of the format of a stream or sink; a data source in Python is registered first."""
    formats = SINKS if isinstance(one, CreateSink) else SOURCES
    name = find_format(formats, one.format.text) or one.format.text
    word = one.options.find("class")
    if name != PYTHON or word is None:
        return name
    from pyspark import cloudpickle

    source = load_source(script, word)
    by_value: Any = cloudpickle.register_pickle_by_value
    by_value(sys.modules[source.__module__])  # workers do not look for modules beside the job file
    spark.dataSource.register(source)
    return str(source.name())


def _into_delta(sink: CreateSink) -> Callable[[DataFrame, int], None]:
    """Write micro-batches as Delta's own sink does, by the query's number and theirs: a repeated one is skipped.

    Its own sink would not compute the rows of one that it skips, and the state of a join is lost without (see
    `recover_foreach_batch`). A checkpoint can go on with either sink.
    """
    table = sink.options.text("table")

    def write(frame: DataFrame, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        target = frame.write.format("delta").mode("append" if sink.output_mode == "append" else "overwrite")
        target = target.option("txnAppId", query).option("txnVersion", batch)
        for key, value in _options(sink, "delta"):
            if key != CHECKPOINT:
                target = target.option(key, value)
        if table is None:
            target.save()
        else:
            target.saveAsTable(table)

    return write


def _options(sink: CreateSink, name: str) -> list[tuple[str, str]]:
    """Return the options that are Spark's, as it spells them."""
    ours = ("function", "class") if name in ("foreachBatch", PYTHON) else ("table",) if name in TABLES else ()
    known = SINKS.get(name, OTHER).options
    return [
        (next((one for one in known if one.lower() == option.key.text.lower()), option.key.text), option.value.text)
        for option in sink.options
        if option.key.text.lower() not in ours
    ]


def checkpoint_of(spark: SparkSession, sink: CreateSink) -> str | None:
    """Return the place of a sink's checkpoint, None if it is deleted with the run."""
    folder = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
    # Below that folder as Spark makes it from a query's name.
    return sink.options.text(CHECKPOINT) or (f"{folder}/{sink.name.text}" if folder else None)


def memory_rows(spark: Any, sink: CreateSink) -> list[str]:
    """Return the first rows of a memory sink's table as JSON objects; the option ``numRows`` sets how many (20)."""
    return [row[0] for row in as_json(spark.table(f"`{sink.name.text}`")).take(_rows(sink) or 20)]


def as_json(frame: DataFrame) -> DataFrame:
    """Return each row as the text of a JSON object."""
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    return frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))


def _rows(sink: CreateSink) -> int | None:
    text = sink.options.text("numRows")
    return None if text is None else int(text)


def _print_tables(sink: CreateSink) -> Callable[[DataFrame, int], None]:
    """Print micro-batches as Spark's console sink does, but for those without rows.

    Spark runs such a one whenever the watermark has moved, so it would end a bounded run with an empty table.
    """
    limit = 20 if (rows := _rows(sink)) is None else rows
    truncate = (sink.options.text("truncate") or "true").lower() == "true"

    def show(frame: DataFrame, batch: int) -> None:
        rows = frame.localCheckpoint()  # computed once and to its end, or the state of a task would not be stored
        if rows.isEmpty():
            return
        line = "-" * 43
        sys.stdout.write(f"{line}\nBatch: {batch}\n{line}\n")
        rows.show(limit, truncate)
        sys.stdout.flush()

    return show


def _print_lines(sink: CreateSink) -> Callable[[DataFrame, int], None]:
    limit = _rows(sink)

    def show(frame: DataFrame, _batch: int) -> None:
        rows = frame if limit is None else frame.localCheckpoint().limit(limit)  # see `_print_tables`
        for row in as_json(rows).toLocalIterator():
            sys.stdout.write(f"{row[0]}\n")
        sys.stdout.flush()

    return show
