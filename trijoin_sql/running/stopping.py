"""Stops queries that do not end by themselves: after the running batch, or at once after a second request."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..spark.flags import settings_of
from ..spark.liberties import END_AFTER_BATCH, taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: Seconds between two checks of the last batch.
CLOSE_LOOK = 0.02

_MARK = "trijoin-sql: not begun, since the job is to stop"


@dataclass(slots=True)
class StopRequest:
    """A request to stop: once to stop after the running batch, twice to stop at once."""

    count: int = 0
    by: str = ""

    def ask(self, by: str) -> None:
        """Request a stop."""
        self.count += 1
        self.by = self.by or by

    def guard(self, function: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """Return a function of a batch that refuses batches after the request: Spark would not commit them.

        A batch that is refused here is the first one after a restart.
        """

        def guarded(frame: DataFrame, batch: int) -> None:
            if self.count:
                raise InterruptedError(_MARK)
            try:
                function(frame, batch)
            except BrokenPipeError:  # the reader of our stdout has seen enough
                self.ask("closed stdout")
                raise InterruptedError(_MARK) from None

        return guarded


def failure(query: StreamingQuery) -> Exception | None:
    """Return why a query failed, None if it did not fail, or only refused a batch because of a stop."""
    error = query.exception()
    return None if error is None or _MARK in str(error) else error


@contextlib.contextmanager
def signals(request: StopRequest) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into stop requests during a block in the main thread."""

    def ask(number: int, _frame: FrameType | None) -> None:
        request.ask(signal.Signals(number).name)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop(spark: SparkSession, running: list[StreamingQuery], request: StopRequest) -> None:
    """Stop queries: each after its running batch if there is a request, at once if there are two or one failed."""
    graceful = request.count == 1 and all(failure(query) is None for query in running)
    waiting = [(query, end_after_batch(spark, query) if graceful else None) for query in running if query.isActive]
    while waiting:
        for query, thread in list(waiting):
            if thread is None or request.count > 1 or not query.status["isTriggerActive"]:
                query.stop()
            elif thread.isAlive():
                continue
            waiting.remove((query, thread))
        if waiting:
            time.sleep(CLOSE_LOOK)


def end_after_batch(spark: SparkSession, query: StreamingQuery) -> Any:
    """Do as `no_further_batch`, where the session allows it; return None where it does not."""
    allowed = taken(END_AFTER_BATCH, settings_of(spark))
    return no_further_batch(spark, query) if allowed else None


def no_further_batch(spark: SparkSession, query: StreamingQuery) -> Any:
    """Make a query end after its running batch; return its thread, None if Spark's internals are not as we know them.

    ``StreamingQuery.stop`` cancels the running batch, whose rows a sink may have taken already. Spark has no other way,
    but its loop asks before every batch whether the query is still active, so that is what we unset.
    """
    from py4j.protocol import Py4JError

    inside: Any = (spark, query)
    try:
        execution = inside[1]._jsq.streamingQuery()
        package = inside[0]._jvm
        for name in execution.getClass().getPackageName().split("."):
            package = getattr(package, name)
        thread = execution.queryExecutionThread()
        execution.state().set(getattr(getattr(package, "TERMINATED$"), "MODULE$"))
    except (Py4JError, AttributeError, TypeError):
        return None
    return thread
