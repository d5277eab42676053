"""Spark in a thread of its own, so that Ctrl-C never cuts a call to the JVM in two, and typing need not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ..jobs.start_spark import job_session
from ..jobs.statements import Job
from ..running.stopping import StopRequest, signals
from ..session import TriJoinSession

T = TypeVar("T")


class StoppedError(Exception):
    """Ctrl-C ended what was running."""


class Engine:
    """Starts Spark at once, and runs one thing after the other.

    Parameters
    ----------
    job, settings, show
        As `job_session` takes them.
    """

    def __init__(self, job: Job, settings: Mapping[str, str], show: Callable[[str], None] | None) -> None:
        self._open = ExitStack()
        self._thread = ThreadPoolExecutor(1, "spark")
        self._session: Future[TriJoinSession] = self._thread.submit(
            lambda: self._open.enter_context(job_session(job, settings, show))
        )

    @property
    def starting(self) -> bool:
        """Whether Spark is not there yet."""
        return not self._session.done()

    def failure(self) -> BaseException | None:
        """Return why Spark did not start."""
        return self._session.exception() if self._session.done() else None

    def run(self, work: Callable[[TriJoinSession], T], request: StopRequest | None = None) -> T:
        """Run something and return its result.

        Ctrl-C is left to what runs, if it has a ``request``; else it cancels Spark's jobs.

        Raises
        ------
        StoppedError
            Ctrl-C ended it.
        """
        asked, stops = request or StopRequest(), False
        with signals(asked):
            future = self._thread.submit(lambda: work(self._session.result()))
            while not future.done():  # `wait` does not count what was cancelled
                wait([future], timeout=0.05 if not stops else 0.5)
                stops = asked.count > 0 and request is None
                # Again and again: at the time of Ctrl-C, Spark may not have begun the job, or one may follow another.
                if stops and not future.cancel() and not self.starting:
                    self._session.result().spark.sparkContext.cancelAllJobs()
            try:
                return future.result()
            except CancelledError:
                raise StoppedError from None
            except (PySparkException, Py4JError):
                if stops:
                    raise StoppedError from None
                raise

    def later(self, work: Callable[[TriJoinSession], None]) -> None:
        """Run something when there is time."""
        self._thread.submit(lambda: work(self._session.result()))

    def close(self) -> None:
        """Stop Spark."""
        self._thread.submit(self._open.close).result()
        self._thread.shutdown()
