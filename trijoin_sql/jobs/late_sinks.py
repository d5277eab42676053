"""The two sinks of a query with LATE ROWS INTO: its results and its late rows, written micro-batch by micro-batch.

Late rows are known when the results of a micro-batch have been computed, and have to be written before it is committed.
So a function of ours (``foreachBatch``) writes both. Results go the way that they go without it: into files by Spark's
own sink, with the same log, so a folder can go on with LATE ROWS and without.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..operators.compile.logical_plans import frame_of
from ..rewriter.sql.dialect import quote
from ..running.versioned_file import VersionedFile
from ..spark.versions import streaming_class
from .formats import CHECKPOINT, SINKS, find_format
from .statements import CreateSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Write = Callable[[DataFrame, int], None]

#: Late rows have these columns, with their types as Spark writes them.
COLUMNS = (("stream", "string"), ("event_time", "timestamp"), ("watermark", "timestamp"), ("row", "string"))

#: Spark's classes of file formats, by name, each with its package; its file sink takes an object of one.
_FORMATS = {
    "parquet": ("parquet", "ParquetFileFormat"),
    "orc": ("orc", "OrcFileFormat"),
    "json": ("json", "JsonFileFormat"),
    "csv": ("csv", "CSVFileFormat"),
    "text": ("text", "TextFileFormat"),
}


def late_columns(sink: CreateSink) -> list[tuple[str, str]]:
    """Return the columns that a sink of late rows gets: text files hold one column, and Kafka wants its own two."""
    match find_format(SINKS, sink.format.text):
        case "text":
            return [("value", "string")]
        case "kafka":
            return [("key", "string"), ("value", "string")]
    return list(COLUMNS)


def fitted(frame: DataFrame, sink: CreateSink) -> DataFrame:
    """Return late rows with the columns that a sink gets (see `late_columns`)."""
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    columns = [name for name, _ in late_columns(sink)]
    if "value" not in columns:
        return frame
    times = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    value = F.to_json(F.struct("*"), times).alias("value")
    return frame.select(*[F.col("stream").alias("key")] if "key" in columns else [], value)


def into_files(spark: SparkSession, sink: CreateSink, options: dict[str, str]) -> Write:
    """Write micro-batches by Spark's own file sink: it notes each in its log, and skips one that is there."""
    files = _file_sink(spark, sink, options)

    def write(frame: DataFrame, batch: int) -> None:
        files.addBatch(batch, frame._jdf)

    return write


def _qualified(spark: SparkSession, location: str) -> Any:
    """Return a location as an absolute path of Hadoop's: this is deeper in Spark than where relative ones are known."""
    jvm: Any = spark._jvm
    place = jvm.org.apache.hadoop.fs.Path(location)
    return place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).makeQualified(place)


def _file_sink(spark: SparkSession, sink: CreateSink, options: dict[str, str]) -> Any:
    jvm: Any = spark._jvm
    room, kind = _FORMATS[find_format(SINKS, sink.format.text) or ""]
    given = jvm.PythonUtils.toScalaMap(options)
    return getattr(jvm, streaming_class("sinks.FileStreamSink", spark.version))(
        spark._jsparkSession,
        _qualified(spark, options["path"]).toString(),
        getattr(getattr(jvm.org.apache.spark.sql.execution.datasources, room), kind)(),
        jvm.PythonUtils.toSeq([]),
        jvm.org.apache.spark.sql.catalyst.util.CaseInsensitiveMap(given),
    )


def into_memory(spark: SparkSession, sink: CreateSink, ddl: str) -> Write:
    """Keep micro-batches as the table of the sink's name, as Spark's memory sink does; ``ddl`` are its columns."""
    jvm: Any = spark._jvm
    sources = jvm.org.apache.spark.sql.execution.streaming.sources
    table = sources.MemorySink()
    schema = jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl)
    attributes = jvm.org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(schema)
    frame_of(spark, sources.MemoryPlan(table, attributes)).createOrReplaceTempView(quote(sink.name.text))

    def write(frame: DataFrame, batch: int) -> None:
        table.write(batch, sink.output_mode == "complete", frame._jdf.collect())

    return write


class LateLog:
    """What of a query's late rows is in their sink: one small file in the sink's own checkpoint, replaced as a whole.

    Micro-batches without late rows write nothing. But the log of Spark's file sink must have no gaps, for it compacts
    every ten entries into one. So late rows have numbers of their own there, and this file says which number those of
    a micro-batch have, before they are written. A repeated micro-batch has the number that it had, and if the file
    sink knows that number, it skips it.

    Parameters
    ----------
    spark
        A classic session.
    checkpoint
        The sink's ``checkpointLocation``.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._file = VersionedFile(spark, str(_qualified(spark, f"{checkpoint}/late").toString()), "{}")
        found = self._file.read()
        self.entry: dict[str, Any] = {} if found is None else json.loads(found[1])

    def note(self, **entry: Any) -> None:
        """Replace the entry."""
        self._file.write(json.dumps(entry).encode())
        self.entry = entry

    def knows(self, query: str, batch: int) -> bool:
        """Tell whether the entry is that of a query's micro-batch."""
        return bool(self.entry) and (self.entry["query"], self.entry["batch"]) == (query, batch)


@dataclass(slots=True)
class IntoLateFiles:
    """Writes late rows into files, each micro-batch once.

    Parameters
    ----------
    files
        Spark's file sink.
    log
        Which number a micro-batch has in its log.
    latest
        Returns the last number in the file sink's log, -1 if there is none.
    """

    files: Any
    log: LateLog
    latest: Callable[[], int]

    def __call__(self, query: str, frame: DataFrame, batch: int) -> None:
        latest = self.latest()
        number = int(self.log.entry["number"]) if self.log.knows(query, batch) else latest + 1
        if not self.log.knows(query, batch) or number > latest + 1:  # somebody has emptied the folder
            number = latest + 1
            self.log.note(query=query, batch=batch, number=number)
        self.files.addBatch(number, frame._jdf)


def into_late_files(spark: SparkSession, sink: CreateSink, options: dict[str, str]) -> IntoLateFiles:
    """Return what writes late rows into files."""
    jvm: Any = spark._jvm
    sinks, logs = (
        getattr(jvm, streaming_class(f"sinks.{name}", spark.version))
        for name in ("FileStreamSink", "FileStreamSinkLog")
    )
    session = spark._jsparkSession
    conf = session.sessionState().conf()
    folder = _qualified(spark, options["path"])
    system = folder.getFileSystem(session.sessionState().newHadoopConf())
    place = str(sinks.getMetadataLogPath(system, folder, conf).toString())
    kept = logs(logs.VERSION(), session, place, jvm.scala.Option.empty())

    def latest() -> int:
        found = kept.getLatestBatchId()
        return int(found.get()) if found.isDefined() else -1

    return IntoLateFiles(_file_sink(spark, sink, options), LateLog(spark, options[CHECKPOINT]), latest)
