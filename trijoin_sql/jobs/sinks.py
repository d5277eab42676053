"""A query's rows on their way out: writers for every sink format."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..running.file_sink import recover_file_sink
from ..running.stopping import StopRequest
from .check import load_function
from .formats import CHECKPOINT, FILES, SINKS, find_format
from .job_text import Script
from .statements import CreateSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def writer(
    frame: DataFrame, sink: CreateSink, script: Script, request: StopRequest, *, once: bool, lines: bool
) -> DataStreamWriter:
    """Return the writer of a query, ready to start.

    With ``once`` it reads the available rows and ends, whatever the sink's trigger is. With ``lines`` a console sink
    writes a JSON object for each row, instead of Spark's tables. Functions of batches ask `request` whether to go on.
    """
    name = find_format(SINKS, sink.format.text) or sink.format.text
    target = frame.writeStream.queryName(sink.name.text).outputMode(sink.output_mode)
    for option in sink.options:
        if option.key.text.lower() != "function":
            target = target.option(_spelled(name, option.key.text), option.value.text)
    trigger: Any = {"availableNow": True} if once else sink.trigger
    target = target.trigger(**trigger) if trigger else target
    function = sink.options.find("function")
    if name == "foreachBatch" and function is not None:
        return target.foreachBatch(request.guard(load_function(script, function)))
    if name == "console" and lines:
        return target.foreachBatch(request.guard(_print_lines(sink)))
    return target.format(name)


def recover(spark: SparkSession, sink: CreateSink) -> None:
    """Make a file sink continue where its checkpoint does, if the last run ended between the two."""
    path, checkpoint = sink.options.text("path"), checkpoint_of(spark, sink)
    if find_format(SINKS, sink.format.text) in FILES and path is not None and checkpoint is not None:
        recover_file_sink(spark, checkpoint, path)


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


def _print_lines(sink: CreateSink) -> Callable[[DataFrame, int], None]:
    limit = _rows(sink)

    def show(frame: DataFrame, _batch: int) -> None:
        rows = frame if limit is None else frame.limit(limit)
        for row in as_json(rows).toLocalIterator():
            sys.stdout.write(f"{row[0]}\n")
        sys.stdout.flush()

    return show


def _spelled(name: str, key: str) -> str:
    return next((known for known in SINKS[name].options if known.lower() == key.lower()), key)
