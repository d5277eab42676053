"""Makes a sink and the checkpoint of its query agree again after a crash between the two, by hand.

At the end of a micro-batch Spark's file sink notes the batch in its log (``_spark_metadata``), and a moment later Spark
notes it in the checkpoint (``commits``). A query that ends between the two runs the batch again, the sink skips it, and
its state would not be saved. Every query computes such a batch by itself (`spark.whole_batches`). What stands here is
for sessions where that is switched off: the sink's log entry is removed, and the batch is written again, with the same
rows; or a function of batches is wrapped, and the rows that it skips are computed all the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from ..errors import InvalidSettingError, UnavailableError
from ..spark.versions import check_is_session
from .checkpoint import check_locations
from .versioned_file import reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = "_spark_metadata"
_ENTRY = re.compile(r"(\d+)(\.compact)?")
_FILE_SINK = re.compile(r"FileSink\[(.*)\]")


def recover_file_sink(spark: SparkSession, checkpoint: str, path: str) -> int | None:
    """Make a file sink forget a batch that its query's checkpoint has not committed.

    A query goes on without it, unless the session switches ``spark.trijoin.liberties.wholeBatches`` off. Call it there
    before you restart a query with a file sink. It does nothing if nothing has to be done. The query must not be
    running.

    Parameters
    ----------
    spark
        A classic session.
    checkpoint, path
        The query's ``checkpointLocation`` and the sink's folder, on any file system that Spark knows.

    Returns
    -------
    int or None
        The batch that the query will write again.

    Raises
    ------
    InvalidSettingError
        Sink and checkpoint do not belong together: Spark would silently leave out batches.
    """
    check_is_session(spark)
    check_locations("recover_file_sink", (checkpoint, path))
    files = Files(spark)
    log = files.logged(path)
    committed = max(files.numbers(f"{checkpoint}/commits"), default=-1)
    written = max(log, default=-1)
    if written <= committed:
        return None
    if is_of_another(written, committed, files.numbers(f"{checkpoint}/offsets")):
        reason = (
            f"the files in {path} are those of batches up to {written}, and this checkpoint is at batch {committed}"
        )
        raise InvalidSettingError("checkpointLocation", checkpoint, f"{reason}, so they are not of one query")
    if not files.names(f"{checkpoint}/state"):
        return None  # a query without state continues anyway
    entries = files.entries(f"{path}/{_LOG}/{log[written]}")
    if log[written].endswith(".compact"):  # it has the earlier batches too, whose own files are still there
        for number in range(written):
            if number in log:
                entries -= files.entries(f"{path}/{_LOG}/{log[number]}")
    files.delete(f"{path}/{_LOG}/{log[written]}")
    for file in sorted(entries):
        files.delete(file, encoded=True)
    return written


def is_of_another(written: int, committed: int, begun: Collection[int]) -> bool:
    """Tell whether a file sink's log is not that of a checkpoint's query: Spark would silently leave out batches.

    Parameters
    ----------
    written, committed
        The last batch in the sink's log, and in the checkpoint; -1 if there is none.
    begun
        The batches that the checkpoint has begun.
    """
    return written > committed and (written > committed + 1 or written not in begun)


def results_of_another(spark: SparkSession, sink: str) -> str | None:
    """Return why a query with a new checkpoint cannot write into its file sink, None if it can.

    Parameters
    ----------
    spark
        A classic session.
    sink
        What Spark calls it. None is returned for sinks of other kinds.
    """
    found = _FILE_SINK.fullmatch(sink)
    written = -1 if found is None else max(Files(spark).logged(found[1]), default=-1)
    if found is None or written < 0:
        return None
    return f"{found[1]} holds results of another checkpoint, of batches up to {written}, which Spark would leave out"


def recover_foreach_batch(
    spark: SparkSession, checkpoint: str, function: Callable[[DataFrame, int], None]
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch`` that may skip the batch which is repeated after a crash.

    A function that gets each result once compares the batch's number with what it has written, and skips a batch that
    it has. Its rows are computed all the same, unless the session switches ``spark.trijoin.liberties.wholeBatches``
    off: there no state is saved, and the query fails at every start. The returned function computes them.

    Parameters
    ----------
    spark
        A classic session.
    checkpoint
        The query's ``checkpointLocation``. The query must not be running.
    function
        Takes a micro-batch and its number.

    Examples
    --------
    >>> writer = found.writeStream.option("checkpointLocation", checkpoint)  # doctest: +SKIP
    >>> writer.foreachBatch(recover_foreach_batch(spark, checkpoint, write)).start()  # doctest: +SKIP
    """
    check_is_session(spark)
    check_locations("recover_foreach_batch", (checkpoint,))
    if not callable(function):
        takes = "a function of a micro-batch and its number"
        raise TypeError(f"recover_foreach_batch() takes {takes}, not {type(function).__name__}")
    files = Files(spark)
    begun = files.numbers(f"{checkpoint}/offsets") - files.numbers(f"{checkpoint}/commits")

    def recovered(frame: DataFrame, batch: int) -> None:
        if batch not in begun:
            return function(frame, batch)
        frame.persist()  # the rows are computed once, by whoever asks first
        try:
            function(frame, batch)
            if frame.storageLevel.useDisk:  # else the function has had them and let them go
                frame.write.format("noop").mode("overwrite").save()
        finally:
            frame.unpersist()
        return None

    return recovered


class Files:
    """The few operations that we need from Hadoop's file systems."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = getattr(spark, "_jvm", None)
        if self.jvm is None:
            raise UnavailableError(
                "the recovery of a sink", "files cannot be reached through Spark Connect", "use a classic session"
            )
        self.conf = spark._jsparkSession.sessionState().newHadoopConf()

    def _at(self, path: str, *, encoded: bool = False) -> tuple[Any, Any]:
        place = self.jvm.org.apache.hadoop.fs.Path(self.jvm.java.net.URI(path) if encoded else path)
        return reached(path, lambda: place.getFileSystem(self.conf)), place

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, none if it is not there."""
        system, place = self._at(folder)
        return [status.getPath().getName() for status in system.listStatus(place)] if system.exists(place) else []

    def numbers(self, folder: str) -> set[int]:
        """Return the batches in a log of Spark."""
        return {int(name) for name in self.names(folder) if name.isdigit()}

    def logged(self, path: str) -> dict[int, str]:
        """Return the names of the files in the log of a file sink, by batch."""
        return {int(entry[1]): name for name in self.names(f"{path}/{_LOG}") if (entry := _ENTRY.fullmatch(name))}

    def entries(self, file: str) -> set[str]:
        """Return the data files that a file of the sink's log names."""
        system, place = self._at(file)
        stream = system.open(place)
        try:
            lines = str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")).splitlines()
        finally:
            stream.close()
        return {json.loads(line)["path"] for line in lines[1:] if line}

    def delete(self, file: str, *, encoded: bool = False) -> None:
        """Delete a file; the sink's log has URI-encoded names."""
        system, place = self._at(file, encoded=encoded)
        system.delete(place, False)
