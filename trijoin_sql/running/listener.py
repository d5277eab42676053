"""What happens when a query of ours starts, and while it runs.

A listener is called before a query's first micro-batch, in the query's own thread. There the query is compared with its
checkpoint, and the tasks are told their layouts (`layouts`).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import CheckpointDamagedError, CheckpointMismatchError, UnavailableError, cause_of
from ..operators.compile.logical_plans import joins_streams, walk
from ..operators.compile.realtime import ENTRY
from ..operators.compile.watermarks import WITH_STATE
from ..operators.recent import Recent
from ..operators.spec import is_key
from ..operators.task.micro_batch import LAYOUTS
from ..operators.task.reports import EDGES
from ..spark.callbacks import close_connection, connection_here
from ..spark.config import choose_partitions, plan_exchanges_anew, prepare_state_store
from ..spark.flags import settings_of
from ..spark.liberties import LOCAL_FILES, REFUSE_EARLY, TELL_FAILURES, taken
from ..spark.local_disk import set_permissions_without_processes
from ..spark.messages import sentence
from ..spark.rates import ObservedRates, ObservedShares, PlanSource, sources_in
from ..spark.unmeasured import hand_over_unmeasured
from ..spark.whole_batches import compute_whole_batches
from . import live
from .checkpoint import CheckpointFile
from .failures import remember, remember_relations, tell_failures
from .history import beat
from .known_joins import Registered, again, keep, late_sources, registered
from .layouts import Running, begin
from .metrics import join_keys, numbers_of, slots_of
from .real_time import in_real_time, starting
from .stopping import no_further_batch
from .vanished import Vanished

_log = logging.getLogger("trijoin_sql")

_listeners: dict[int, LayoutListener] = {}

#: The runs of queries with late rows that can be asked for, by the query's id.
_executions: dict[str, Execution] = {}


def register(spark: SparkSession, joins: Sequence[Registered]) -> None:
    """Register joins with the listener of a session, and make sure that there is one; forget those that have ended."""
    if not listen(spark):  # at their start
        plan_exchanges_anew(spark.conf)
        for join in joins:
            join.warn()
        return
    keep(joins)


def tell_of_tables(spark: SparkSession, relations: Iterable[str]) -> None:
    """Let what fails of a query over tables be told in the words of the query."""
    if hasattr(spark, "_jsparkSession") and taken(TELL_FAILURES, settings_of(spark)):
        tell_failures(_starts)
        remember_relations(relations)


def listen(spark: SparkSession) -> bool:
    """Make sure that a session has a listener, for the queries that start from now on; Spark Connect has none."""
    java: Any = getattr(spark, "_jsparkSession", None)
    if java is None or java.hashCode() in _listeners:
        return java is not None
    from pyspark.java_gateway import ensure_callback_server_started

    if taken(TELL_FAILURES, settings_of(spark)):
        tell_failures(_starts)
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    listener = _listeners[java.hashCode()] = LayoutListener(spark)
    jvm: Any = spark._jvm
    java.streams().addListener(jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(listener))
    return True


@contextmanager
def _starts(writer: Any) -> Iterator[None]:
    """Prepare what starts: a session that is none of ours, where it reads a global temporary view, and real time."""
    _prepare_session_of(writer._df)
    with in_real_time(writer, again):
        yield


def _prepare_session_of(frame: DataFrame) -> None:
    """Prepare a session that runs a join of ours, but is none of ours: it reads a global temporary view."""
    spark = frame.sparkSession
    if spark._jsparkSession.hashCode() not in _listeners and numbers_of(frame):
        prepare_state_store(spark)
        listen(spark)


def observed_rates(spark: SparkSession) -> dict[str, float]:
    """Return the observed rows a second of a session's queries, by relation. None on Spark Connect."""
    listener = _listener_of(spark)
    return {} if listener is None else listener.observed.rates()


def observed_shares(spark: SparkSession) -> dict[tuple[str, ...], float]:
    """Return the shares of pairs of rows that matched in a session's queries. None on Spark Connect."""
    listener = _listener_of(spark)
    return {} if listener is None else listener.shares.shares()


def sources_of(spark: SparkSession, query_id: str) -> list[PlanSource]:
    """Return the sources of a query of ours, in the order of Spark's reports. None on Spark Connect."""
    listener = _listener_of(spark)
    return [] if listener is None else listener.observed.sources(query_id)


def _listener_of(spark: SparkSession) -> LayoutListener | None:
    java: Any = getattr(spark, "_jsparkSession", None)
    return None if java is None else _listeners.get(java.hashCode())


@dataclass(frozen=True, slots=True)
class Execution:
    """A run of a query: its id, Spark's execution of it, and its joins by key."""

    run_id: str
    execution: Any
    keys: tuple[str, ...]


def execution_of(query_id: str) -> Execution | None:
    """Return the run of a query with late rows that can be asked for, None if there is none."""
    return _executions.get(query_id)


def _warn(sentences: Sequence[str]) -> None:
    for one in sentences:
        _log.warning("%s", one)


_tells_failures = True


@contextmanager
def failures_told() -> Iterator[None]:
    """For a block, do not log why queries fail: who runs them says it."""
    global _tells_failures
    before, _tells_failures = _tells_failures, False
    try:
        yield
    finally:
        _tells_failures = before


def _look_at_failure(event: Any) -> None:
    """Log why a query failed where Spark's own message names no cause."""
    if not _tells_failures:
        return
    failed = getattr(event, "exception", None)
    text = str(failed().get()) if failed is not None and failed().isDefined() else ""
    if (why := cause_of(text)) is not None:
        _log.warning("a query failed: %s", why)


class LayoutListener:
    """Spark's listener; it runs in the JVM's thread that calls it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.running: dict[str, Running] = {}
        self.vanished = Recent[str, tuple[str, Vanished]](100)  # by query: its run, and what it has lost
        self.connections: dict[str, int] = {}  # by run: over which the JVM calls us in the query's thread
        self.observed = ObservedRates()
        self.shares = ObservedShares()
        self.files_are_ours = False  # whether files on a local disk are created our way, where that can be

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """Compare, record, tell the tasks."""
        port = connection_here(self.spark.sparkContext._gateway)
        if port is not None:
            self.connections[str(event.runId().toString())] = port
        try:
            self._start(str(event.id().toString()))
        except Exception as error:  # a query must not fail for what it may not need; its tasks see what is missing
            if "MALFORMED_LOG_FILE" not in str(error):  # that is what it fails of
                _log.warning("the layouts of a query could not be read or written: %s", sentence(error))
            _log.debug("where that was", exc_info=True)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Record the rows read, and drop empty retired slots."""
        # After the first micro-batch, for compiling a class takes longer than it saves there.
        if not self.files_are_ours and taken(LOCAL_FILES, settings_of(self.spark)):
            self.files_are_ours = True
            set_permissions_without_processes(self.spark.sparkContext)
        try:
            progress = json.loads(event.progress().json())
            self.observed.progressed(progress)
            self._look_at_pairs(progress)
            self._look_for_vanished(progress)
            running = self.running.get(progress["id"])
            if running is not None and running.run_id == progress["runId"]:
                running.retire(progress)
        except Exception:
            _log.warning("a progress report could not be read", exc_info=True)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Forget the run. Spark calls this late, but a new start at once: the query may already run again."""
        query_id, run_id = str(event.id().toString()), str(event.runId().toString())
        _look_at_failure(event)
        port = self.connections.pop(run_id, None)
        if port is not None:
            close_connection(self.spark.sparkContext._gateway, port)
        for runs in (self.running, _executions):
            known: Any = runs.get(query_id)
            if known is not None and known.run_id == run_id:
                del runs[query_id]
        run, vanished = self.vanished.get(query_id, ("", None))
        if vanished is not None and run == run_id:
            _warn(vanished.silent(while_others=True))

    def _look_at_pairs(self, progress: Mapping[str, Any]) -> None:
        """Record which share of pairs of rows matched."""
        for key, row in progress.get("observedMetrics", {}).items():
            if is_key(key) and (known := again(key)) is not None:
                edges = Counter[str]()
                for slot in slots_of(key, progress["id"], progress["batchId"], row):
                    edges.update(slot.get(EDGES, {}))
                self.shares.counted(progress["runId"], known.node.decision.selectivities, edges)

    def _look_for_vanished(self, progress: Mapping[str, Any]) -> None:
        """Warn of rows that cannot join, unless the query belongs to a job, which says so itself."""
        run, vanished = self.vanished.get(progress["id"], ("", None))
        if vanished is None or run != progress["runId"]:
            return
        vanished.read(int(source["numInputRows"]) for source in progress["sources"])
        for key, row in progress.get("observedMetrics", {}).items():
            if is_key(key):
                _warn(vanished.add(slots_of(key, progress["id"], progress["batchId"], row)))

    def _start(self, query_id: str) -> None:
        found = next((query for query in self.spark.streams.active if query.id == query_id), None)
        if found is None:
            return
        execution: Any = found._jsq.streamingQuery()
        compute_whole_batches(self.spark, execution)
        plan = execution.analyzedPlan()
        try:
            beat(self.spark, plan)
        except UnavailableError as error:
            self._refuse(found, str(error))
            return
        keys = join_keys(plan)
        if not keys:
            return
        steps = [step for step in walk(plan) if step.name in (*WITH_STATE, "Join")]
        if sum(step.name != "Join" or joins_streams(step.node) for step in steps) > 1:
            plan_exchanges_anew(execution.sparkSessionForStream().conf())
        self.observed.started(query_id, sources_in(plan))
        real_time = list(filter(None, map(starting, keys)))
        if real_time:
            live.follow(str(found.runId), getattr(self.spark._jvm, ENTRY))
        if any(map(late_sources, keys)) and not real_time:
            _executions[query_id] = Execution(str(found.runId), execution, tuple(keys))
        joins = {key: registered(key) for key in keys}
        for one in joins.values():
            one.warn()
        if any(one.warns for one in joins.values()) and not real_time:
            _, known = self.vanished.get(query_id, ("", Vanished()))  # what was said before a restart is not said again
            self.vanished[query_id] = (found.runId, known)
        file = CheckpointFile(self.spark, str(execution.resolvedCheckpointRoot()))
        remember(query_id, file.root, (stream.alias for one in joins.values() for stream in one.spec.streams))
        try:
            running = begin(self.spark, found, file, joins, real_time)
        except (CheckpointMismatchError, CheckpointDamagedError) as error:
            said = error.getMessageParameters()
            why = said.get("difference") or said["detail"]
            told = {"checkpoint": file.root, "refused": why, "error": type(error).__name__}
            properties: Any = self.spark._jsparkSession.sparkContext().getLocalProperties()
            properties.setProperty(LAYOUTS, json.dumps(dict.fromkeys(keys, told)))
            self._refuse(found, str(type(error)(file.root, why)))
            return
        running.tell()
        if not running.first:
            choose_partitions(self.spark, execution)
        specs = real_time or [one.spec for one in joins.values()]
        hand_over_unmeasured(execution, specs, settings_of(self.spark))
        if running.has_retired:
            self.running[query_id] = running

    def _refuse(self, query: StreamingQuery, why: str) -> None:
        """End a query before its first micro-batch; Spark itself might fail later on its changed sources.

        Spark has no way for a listener to do so. Where its inside is not as we know it, or the session does not
        allow it, the tasks refuse to run.
        """
        if not taken(REFUSE_EARLY, settings_of(self.spark)):
            return
        from py4j.protocol import Py4JError

        jvm: Any = self.spark._jvm
        execution: Any = query._jsq.streamingQuery()
        parameters = {"id": query.id, "runId": query.runId, "message": why}
        try:
            cause = jvm.java.lang.IllegalStateException(why)
            scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(parameters)
            failed = jvm.org.apache.spark.sql.streaming.StreamingQueryException
            getattr(execution, "streamDeathCause_$eq")(failed("", cause, "", "", "STREAM_FAILED", scala))
        except (Py4JError, AttributeError, TypeError):
            return
        no_further_batch(self.spark, query)

    class Java:
        """What py4j looks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
