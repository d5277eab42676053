"""A query's rows on their way out: writers for every sink format."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..running.late_rows import COLUMNS, MicroBatch, with_late
from ..running.stopping import StopRequest
from .formats import CHECKPOINT, FILES, OTHER, PYTHON, SINKS, SOURCES, TABLES, find_format
from .job_text import Script
from .late_sinks import LateLog, fitted, into_files, into_late_files, into_memory
from .statements import CreateSink, CreateStream
from .user_code import load_function, load_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    Write = Callable[[DataFrame, int], None]
    LateWrite = Callable[[str, DataFrame, int], None]


def start(
    frame: DataFrame,
    sink: CreateSink,
    script: Script,
    request: StopRequest,
    *,
    once: bool,
    lines: bool,
    late: CreateSink | None = None,
) -> StreamingQuery:
    """Start a query.

    With ``once`` it reads the available rows and ends, whatever the sink's trigger is. With ``lines`` a console sink
    writes a JSON object for each row, instead of tables. Functions of batches ask `request` whether to go on.
    ``late`` is the sink of its late rows.
    """
    spark = frame.sparkSession
    name = find_format(SINKS, sink.format.text) or sink.format.text
    target = frame.writeStream.queryName(sink.name.text).outputMode(sink.output_mode)
    for key, value in _options(sink, name):
        target = target.option(key, value)
    trigger: Any = {"availableNow": True} if once else sink.trigger
    target = target.trigger(**trigger) if trigger else target
    if late is not None:
        results = _by_function(sink, script, lines) or _beside_late_rows(frame, sink)
        written = _with_late_rows(results, late_writer(spark, late, script, lines))
        return target.foreachBatch(request.guard(written)).start()
    if (function := _by_function(sink, script, lines)) is not None and (once or not sink.in_real_time):
        return target.foreachBatch(request.guard(function)).start()
    table = sink.options.text("table")
    if name in TABLES and table is not None:
        return target.toTable(table, format=name)
    return target.format(spark_format(spark, sink, script)).start()


def _by_function(sink: CreateSink, script: Script, lines: bool) -> Write | None:
    """Return what writes micro-batches into a sink that Spark does not write, or not as we need it."""
    function, name = sink.options.find("function"), find_format(SINKS, sink.format.text)
    if name == "foreachBatch" and function is not None:
        return load_function(script, function)
    if name == "console":
        return _print_lines(sink) if lines else _print_tables(sink)
    return _into_delta(sink) if name == "delta" else None


def _beside_late_rows(frame: DataFrame, sink: CreateSink) -> Write:
    """Return what writes micro-batches as Spark's own sink does, where late rows are written with them."""
    name = find_format(SINKS, sink.format.text)
    if name in FILES:
        return into_files(frame.sparkSession, sink, dict(_options(sink, name)))
    if name == "memory":
        return into_memory(frame.sparkSession, sink, frame._jdf.schema().toDDL())
    return _saved(sink)


def _saved(sink: CreateSink) -> Write:
    """Write micro-batches of Kafka's sink, or of none: neither knows which it has."""
    name = find_format(SINKS, sink.format.text) or sink.format.text
    options = {key: value for key, value in _options(sink, name) if key != CHECKPOINT}

    def write(frame: DataFrame, _batch: int) -> None:
        frame.write.format(name).mode("overwrite" if name == "noop" else "append").options(**options).save()

    return write


def _with_late_rows(results: Write, into: LateWrite) -> Write:
    """Write the results of each micro-batch, then its late rows, if there are any."""

    def write(frame: DataFrame, late: Callable[[], DataFrame | None], of: MicroBatch) -> None:
        results(frame, of.number)
        rows = late()
        if rows is not None:
            into(of.query, rows, of.number)

    return with_late(write)


def late_writer(spark: SparkSession, sink: CreateSink, script: Script, lines: bool) -> LateWrite:
    """Return what writes late rows: the id of their query, the rows, and the number of their micro-batch.

    A micro-batch that is repeated after a crash is not written again into files and Delta tables, and into other sinks
    with a checkpoint not if they had all of it.
    """
    name, checkpoint = find_format(SINKS, sink.format.text), sink.options.text(CHECKPOINT)
    if name in FILES:
        return _fitting(into_late_files(spark, sink, dict(_options(sink, name))), sink)
    if name == "delta":
        return lambda query, frame, batch: _into_delta(sink, f"{query} late rows")(frame, batch)
    if name == "memory":
        memory = into_memory(spark, sink, COLUMNS)
        return lambda _query, frame, batch: memory(frame, batch)
    write = _by_function(sink, script, lines) or _saved(sink)
    if checkpoint is None:
        return lambda _query, frame, batch: write(frame, batch)
    log = LateLog(spark, checkpoint)

    def once(query: str, frame: DataFrame, batch: int) -> None:
        if not log.knows(query, batch):
            write(frame, batch)
            log.note(query=query, batch=batch)

    return _fitting(once, sink)


def _fitting(write: LateWrite, sink: CreateSink) -> LateWrite:
    return lambda query, frame, batch: write(query, fitted(frame, sink), batch)


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


def _into_delta(sink: CreateSink, application: str | None = None) -> Write:
    """Write micro-batches as Delta's own sink does, by the query's number and theirs: a repeated one is skipped.

    Its own sink would not compute the rows of one that it skips, and the state of a join is lost without (see
    `recover_foreach_batch`). A checkpoint can go on with either sink. ``application`` is the name under which the table
    remembers numbers, if not the query's id.
    """
    table = sink.options.text("table")

    def write(frame: DataFrame, batch: int) -> None:
        query = application or frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
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
