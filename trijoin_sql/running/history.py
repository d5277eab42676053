"""``HISTORY``: the rows of a table, in order of event time, as the beginning of a stream.

Spark refuses the union of a table and a stream. So the table is written once, below the query's checkpoint, in slices
by event time, and a source of files reads one slice a micro-batch. A restart finds them there, and does not look at the
table. Their watermark is their own: Spark's is the least of all, so the stream's newer rows make none of them late.

When the last slice is read, their watermark has to step aside. A *beat* does that: a row later than any other passes
their watermark, and a filter above that drops it. Spark forgets at a restart what each watermark was, so every run of
the query needs one: its listener calls `beat`, and the file lies behind all slices.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)
from pyspark.sql.types import StructField, StructType

from ..errors import CheckpointMismatchError, UnavailableError, UnsupportedQueryError
from ..operators.compile.compiling import sql_over
from ..operators.compile.logical_plans import walk
from ..operators.compile.travel_types import quoted
from ..operators.compile.watermarks import DELAY
from ..rewriter.sql.catalog import history_name
from ..rewriter.sql.clauses import HistoryClause
from ..settings import HISTORY_ROWS, value
from ..spark.flags import settings_of
from ..spark.frames import view_names
from ..spark.messages import sentence
from .versioned_file import VersionedFile

#: The folder inside the checkpoint's, and what the name of a metric begins with that ends with such a folder.
FOLDER = "trijoin_history"
METRIC = "history in "

#: What the names of files begin with: slices as Spark names them, and beats.
PART, BEAT = "part-", "beat-"

#: The event time of a beat, in the year 192103: behind it, a time zone or a delay more overflows nothing.
_BEAT_TIME = "timestamp_micros(6000000000000000000)"

_log = logging.getLogger("trijoin_sql")


def with_histories(spark: SparkSession, text: str, histories: Sequence[HistoryClause], places: Sequence[str]) -> str:
    """Return a statement with views in the place of the streams that begin with a table.

    Parameters
    ----------
    spark
        The session, which has the views from now on.
    text, histories
        The statement, and its clauses.
    places
        The checkpoints that it may be for.

    Raises
    ------
    UnsupportedQueryError
        It is not known for which checkpoint it is, a stream has no event time, or a table does not suit its stream.
    UnavailableError
        Neither Spark Connect nor a file system without times of files can do it.
    CheckpointMismatchError
        The stream of this checkpoint began with something else.
    """
    if not hasattr(spark, "_jsparkSession"):
        raise UnavailableError("HISTORY", "the rows lie in a checkpoint, which Spark Connect does not reach")
    if len(set(places)) != 1:
        hint = 'write with tj.resuming("checkpoints/near"): tj.sql(...); in a job, HISTORY stands in an INSERT'
        raise UnsupportedQueryError("HISTORY belongs to a query with one checkpoint, and this one is not known", hint)
    if str(spark.conf.get("spark.sql.streaming.multipleWatermarkPolicy")).lower() != "min":
        hint = "SET spark.sql.streaming.multipleWatermarkPolicy = min"
        raise UnsupportedQueryError("under the watermark policy max, a stream makes the rows of its HISTORY late", hint)
    once = {(one.stream.text, str(one)): one for one in histories}
    names = view_names([one.last_name.strip("`") for one in once.values()])
    view_of = {key: history_name(view, f"{key} {places[0]}") for key, view in zip(once, names, strict=True)}
    for key, one in once.items():
        _begun(spark, one, places[0]).createOrReplaceTempView(view_of[key])
    for one in reversed(histories):
        view = view_of[one.stream.text, str(one)] + ("" if one.aliased else f" AS {one.last_name}")
        text = text[: one.stream.start] + view.ljust(one.end - one.stream.start) + text[one.end :]
    return text


def _begun(spark: SparkSession, clause: HistoryClause, place: str) -> DataFrame:
    """Return a stream that begins with a table."""
    live = sql_over(spark, f"SELECT * FROM {clause.stream}", None, {})
    times = [field for field in live.schema.fields if DELAY in (field.metadata or {})]
    if not live.isStreaming or len(times) != 1 or not times[0].dataType.simpleString().startswith("timestamp"):
        reason = "is no stream" if not live.isStreaming else "has no event time, or several"
        hint = "HISTORY takes a stream with one: WATERMARK column DELAY OF INTERVAL 10 SECONDS"
        raise UnsupportedQueryError(f"{clause.name} {reason}", hint)
    (time,) = times
    column = F.col(quoted(time.name))
    # Names alone may be alike: old.a and old_a, or one table up to two times.
    name = history_name(re.sub(r"\W+", "_", f"{clause.name} {clause.table}"), f"{clause.name} {clause}")
    folder = f"{place.rstrip('/')}/{FOLDER}/{name}"
    schema, until = _written(spark, clause, live, time, place, folder)
    # By names alone: in a checkpoint that was moved, Spark may fail of the paths in its log, but reads no file twice.
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).option("fileNameOnly", True)
    past = source.parquet(folder)
    past = past.withWatermark(quoted(time.name), f"{time.metadata[DELAY]} milliseconds")
    # Else filters would move below the watermarks, and drop the beat or whole streams: none moves below metrics.
    rows = F.count(F.lit(1)).alias("rows")
    past, live = past.observe(METRIC + folder, rows), live.observe(f"stream behind {folder}", rows)
    past = past.where(column.isNull() | (column < F.expr(_BEAT_TIME)))
    if until is not None:
        live = live.where(column >= F.timestamp_micros(F.lit(until)))
    return _united(clause, live, past)


def _united(clause: HistoryClause, live: DataFrame, past: DataFrame) -> DataFrame:
    try:
        return live.unionByName(past)
    except AnalysisException as error:
        raise _unlike(clause, sentence(error)) from None


def _unlike(clause: HistoryClause, why: str) -> UnsupportedQueryError:
    hint = f"write a view of {clause.table} with the columns of {clause.name}"
    return UnsupportedQueryError(f"{clause.table} cannot be the history of {clause.name}: {why}", hint)


def _written(
    spark: SparkSession, clause: HistoryClause, live: DataFrame, time: StructField, place: str, folder: str
) -> tuple[StructType, int | None]:
    """Write the table's rows in slices by event time, unless a query has begun with them.

    Returns their columns and the time up to which they are, in microseconds: a restart may be in another time zone.
    """
    done = VersionedFile(spark, f"{folder}/_done", "{}")
    system, path = _system(spark, folder), _path(spark, folder)
    known = done.read()
    if known is not None and _files(system, path, BEAT):
        before = json.loads(known[1])
        return StructType.fromJson(before["columns"]), before["until"]
    if known is None and (others := _begun_with(spark, system, path.getParent())):
        was = next((one["history"] for one in others if one["stream"] == clause.name), "absent")
        raise CheckpointMismatchError(place, f"the history of {clause.name} was {was}, and is {clause}")
    rows, until = _rows(spark, clause, live, time), None
    if clause.until:
        (until,) = sql_over(spark, f"SELECT unix_micros({clause.until})", None, {}).collect()[0]
        rows = rows.where(F.col(quoted(time.name)) < F.timestamp_micros(F.lit(until)))
    _united(clause, live, rows)
    system.delete(path, True)  # the table as it was when a process was killed, or made a query that did not start
    count = rows.count()
    if not count:
        _log.warning("HISTORY %s has no rows: %s begins with its own", clause, clause.name)
    slices = max(1, -(-count // int(value(settings_of(spark), HISTORY_ROWS))))
    # Rows of one time are in one slice: those of a later slice are behind no watermark, however short its delay is.
    sliced = rows.repartitionByRange(slices, F.col(quoted(time.name)))
    sliced.write.option("maxRecordsPerFile", 0).parquet(folder)
    values = {time.name: F.expr(_BEAT_TIME)}
    row = [values.get(one.name, F.lit(None)).cast(one.dataType).alias(one.name) for one in rows.schema.fields]
    spark.range(1, numPartitions=1).select(*row).write.parquet(f"{folder}/_beat")
    # Spark's source of files goes by the times of files.
    parts = _files(system, path, PART)
    millis = [1000 * number for number in range(1, len(parts) + 1)]
    for one, time_of_file in zip(parts, millis, strict=True):
        system.setTimes(one.getPath(), time_of_file, -1)
    if [one.getModificationTime() for one in _files(system, path, PART)] != millis:
        hint = "put the checkpoint on a local disk or on HDFS"
        raise UnavailableError(f"HISTORY in {folder}", "files there do not take the times that put them in order", hint)
    told = {"stream": clause.name, "history": str(clause), "columns": rows.schema.jsonValue(), "until": until}
    done.write(json.dumps(told).encode())
    return rows.schema, until


def _begun_with(spark: SparkSession, system: Any, root: Any) -> list[dict[str, Any]]:
    """Return what is known of the histories with which a query of this checkpoint has begun."""
    folders = [one.getPath() for one in system.listStatus(root)] if system.exists(root) else []
    begun = [VersionedFile(spark, f"{one}/_done", "{}").read() for one in folders if _files(system, one, BEAT)]
    return [json.loads(found[1]) for found in begun if found is not None]


def _rows(spark: SparkSession, clause: HistoryClause, live: DataFrame, time: StructField) -> DataFrame:
    """Return the rows of the table, with the columns of the stream."""
    table = sql_over(spark, f"SELECT * FROM {clause.table}", None, {})
    if table.isStreaming:
        raise _unlike(clause, "it is a stream")
    there = {name.lower() for name in table.columns}
    if missing := [name for name in live.columns if name.lower() not in there]:
        raise _unlike(clause, f"it has no column {', '.join(missing)}")
    typed = {time.name: F.col(quoted(time.name)).cast(time.dataType)}
    return table.select([typed.get(name, F.col(quoted(name))).alias(name) for name in live.columns])


def beat(spark: Any, plan: Any) -> None:
    """Put a beat behind the slices of the histories that a query reads, as it starts.

    Parameters
    ----------
    spark
        A classic session.
    plan
        The query's analysed plan.

    Raises
    ------
    UnavailableError
        The folder is gone, or full.
    """
    metrics = {str(step.node.name()) for step in walk(plan) if step.name == "CollectMetrics"}
    for folder in (name.removeprefix(METRIC) for name in metrics if name.startswith(METRIC)):
        system, name = _system(spark, folder), f"{BEAT}{uuid.uuid4()}.parquet"
        hidden = _path(spark, folder, f"_{name}")  # until it is whole: the query may be killed
        try:
            (one,) = _files(system, _path(spark, folder, "_beat"), PART)
            spark._jvm.org.apache.hadoop.fs.FileUtil.copy(
                system, one.getPath(), system, hidden, False, system.getConf()
            )
            system.rename(hidden, _path(spark, folder, name))
        except Py4JError as error:
            raise UnavailableError(f"HISTORY in {folder}", sentence(error)) from None


def _path(spark: Any, *parts: str) -> Any:
    return spark._jvm.org.apache.hadoop.fs.Path(*parts)


def _system(spark: Any, folder: str) -> Any:
    return _path(spark, folder).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())


def _files(system: Any, path: Any, begin: str) -> list[Any]:
    """Return the files in a folder whose names begin so, in their order: of parts, that of Spark's tasks."""
    found = [one for one in system.listStatus(path) if one.getPath().getName().startswith(begin)]
    return sorted(found, key=lambda one: str(one.getPath().getName()))
