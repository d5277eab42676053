"""What happens when a query of ours starts, and while it runs.

A listener is called before a query's first micro-batch, in the query's own thread. There it compares the query with
the checkpoint, records the layout of the micro-batches from now on, and only then tells it to the tasks, in
a local property that Spark passes to every job of that thread. So a layout is durable before a micro-batch uses it.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import CheckpointDamagedError, CheckpointMismatchError, SinkMismatchError, cause_of
from ..operators.compile.lifetimes import ended
from ..operators.compile.node import Again
from ..operators.compile.packing import LateSource
from ..operators.compile.realtime import ENTRY
from ..operators.spec import JoinSpec, is_key, number_of
from ..operators.state.changed_query import APART
from ..operators.task.micro_batch import LAYOUTS
from ..operators.task.reports import EDGES, forget, known_keys
from ..rewriter.plan.stored import Stored
from ..settings import SCALING_ENABLED, spark_flag
from ..spark.callbacks import close_connection, connection_here
from ..spark.config import choose_partitions, prepare_state_store
from ..spark.flags import settings_of
from ..spark.liberties import LOCAL_FILES, REFUSE_EARLY, TELL_FAILURES, taken
from ..spark.local_disk import set_permissions_without_processes
from ..spark.messages import sentence
from ..spark.rates import ObservedRates, ObservedShares, PlanSource, sources_in
from ..spark.unmeasured import hand_over_unmeasured
from ..spark.versions import metadata_of
from ..spark.whole_batches import compute_whole_batches
from . import live
from .checkpoint import FOLDER, CheckpointFile, SavedJoin, follow, recorded
from .failures import damage, remember, remember_relations, tell_failures
from .metrics import held_by_slot, join_keys, numbers_of, slots_of, times_by_slot
from .real_time import OF_MICRO_BATCHES, OF_REAL_TIME, in_real_time, starting
from .recovery import results_of_another
from .stopping import no_further_batch
from .vanished import Vanished

_log = logging.getLogger("trijoin_sql")

_numbers = itertools.count()
_listeners: dict[int, LayoutListener] = {}

#: The joins that were compiled, by key; and the warnings about rows that are kept for ever, already given.
_joins: dict[str, Registered] = {}
_said: dict[tuple[str, str], None] = {}

#: How many warnings are remembered.
_MOST_SAID = 1000

#: Of how many queries it is known what they have lost.
_REMEMBERED = 100

#: The runs of queries with late rows that can be asked for, by the query's id.
_executions: dict[str, Execution] = {}

#: Units that a query should have from its next start on, by the query's id.
_wanted: dict[str, dict[str, int]] = {}


@dataclass(frozen=True, slots=True)
class Registered:
    """A compiled join, which a query may start with.

    Parameters
    ----------
    spec
        What runs.
    stored
        The group that it runs, as its checkpoint is to record it.
    units_from
        What chose its units, as in a `Decision`.
    said
        Warnings to be given once when a query starts: rows that are kept for ever, products.
    warns
        Whether to warn of rows that cannot join while it runs.
    late
        Where its late rows are, if they can be asked for.
    again
        What it was compiled from: it is compiled anew for the trigger ``realTime``.
    """

    spec: JoinSpec
    stored: tuple[Stored, ...] = ()
    units_from: str = ""
    said: tuple[str, ...] = ()
    warns: bool = False
    late: tuple[LateSource, ...] = ()
    again: Again | None = None

    @property
    def keeps_units(self) -> bool:
        """Whether it runs in the units of its checkpoint unless the user asks for others: where cost chose those, and
        where they cannot change, or with rows that are stored twice for a while.
        """
        return self.units_from == "cost" or not (self.spec.elastic or self.units_from in ("the hint", "the setting"))

    def grid(self, units: int) -> tuple[int, ...]:
        """Return how many cells there are along each dimension in so many units; none if these are no cells."""
        if self.spec.scheme != "matrix" or units == self.spec.units or self.again is None:
            return self.spec.options.grid
        return self.again.grid(units)

    def warn(self) -> None:
        """Log the warnings once, however often the query restarts."""
        for text in self.said:
            if (self.spec.fingerprint, text) not in _said:
                _said[self.spec.fingerprint, text] = None
                while len(_said) > _MOST_SAID:
                    del _said[next(iter(_said))]
                _log.warning("%s", text)


def next_number() -> int:
    """Return a number for a compiled statement that no other statement of this process has."""
    return next(_numbers)


def register(spark: SparkSession, joins: Sequence[Registered]) -> None:
    """Register joins with the listener of a session, and make sure that there is one; forget those that have ended."""
    if not listen(spark):  # at their start
        for join in joins:
            join.warn()
        return
    _joins.update({join.spec.key: join for join in joins})
    gone = ended()
    keys = [key for key in known_keys() if number_of(key) in gone]
    forget(keys)
    for key in keys:
        _joins.pop(key, None)


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
    with in_real_time(writer, lambda key: None if (found := _joins.get(key)) is None else found.again):
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


def known_numbers() -> set[int]:
    """Return the numbers of the statements whose joins are registered."""
    return {number_of(key) for key in tuple(_joins)}


def known_join(key: str) -> JoinSpec | None:
    """Return a registered join."""
    return None if (found := _joins.get(key)) is None else found.spec


def late_sources(key: str) -> tuple[LateSource, ...]:
    """Return where the late rows of a join are; empty if it was not compiled such that they can be had."""
    return () if (found := _joins.get(key)) is None else found.late


@dataclass(frozen=True, slots=True)
class Execution:
    """A run of a query: its id, Spark's execution of it, and its joins by key."""

    run_id: str
    execution: Any
    keys: tuple[str, ...]


def execution_of(query_id: str) -> Execution | None:
    """Return the run of a query with late rows that can be asked for, None if there is none."""
    return _executions.get(query_id)


def want_units(query: StreamingQuery, units: Mapping[str, int]) -> None:
    """Set the units that the joins of a query (by name) have from its next start on; none takes that back."""
    if units:
        _wanted[query.id] = dict(units)
    else:
        _wanted.pop(query.id, None)


@dataclass(slots=True)
class Running:
    """A run of a query: its id, the file of the checkpoint, joins by key, known watermarks, the data for tasks, and
    Spark's execution.
    """

    run_id: str
    file: CheckpointFile
    joins: dict[str, SavedJoin]
    watermarks: dict[int, int]
    properties: Any
    execution: Any = None

    def tell(self) -> None:
        """Tell the tasks of all jobs from now on."""
        watermarks = sorted(self.watermarks.items())
        told = {key: {**join.told(), "watermarks": watermarks} for key, join in self.joins.items()}
        self.properties.setProperty(LAYOUTS, json.dumps(told))


def held_back_in_all(specs: Sequence[JoinSpec]) -> list[JoinSpec]:
    """Return the joins of a query, each held back also for joins above it from other statements."""
    return [
        replace(spec, held_back=spec.held_back + sum(one.held_back for one in specs if spec.key in one.above))
        for spec in specs
    ]


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


def _next_batch(execution: Any, checkpoint: str) -> int:
    """Return the first micro-batch that a checkpoint has not planned.

    Raises
    ------
    CheckpointDamagedError
        It lacks the plan of a micro-batch that has finished, or the end of one that had to finish before the next.
    """
    from py4j.protocol import Py4JJavaError

    try:
        planned, finished = execution.offsetLog().getLatest(), execution.commitLog().getLatest()
    except Py4JJavaError as error:
        why = damage(str(error), checkpoint, "") or sentence(error)
        raise CheckpointDamagedError(checkpoint, why) from None
    last, done = (int(found.get()._1()) if found.isDefined() else -1 for found in (planned, finished))
    if done > last:
        raise CheckpointDamagedError(checkpoint, f"its folder offsets lacks micro-batch {done}, which its commits have")
    if done < last - 1:
        raise CheckpointDamagedError(checkpoint, f"its folder commits lacks micro-batch {last - 1}")
    return last + 1


def _watermarks(execution: Any, version: str) -> dict[int, int]:
    """Return by micro-batch the watermarks that a checkpoint has (milliseconds): of the last one and around it."""
    log, finished = execution.offsetLog(), execution.commitLog().getLatest()
    found: dict[int, int] = {}
    planned = log.getLatestBatchId()
    for batch in range(max(int(planned.get()) - 1, 0), int(planned.get()) + 1) if planned.isDefined() else ():
        offsets = log.get(batch)
        metadata = metadata_of(offsets.get(), version) if offsets.isDefined() else offsets
        if metadata.isDefined():
            found[batch] = int(metadata.get().batchWatermarkMs())
    if finished.isDefined():
        following = int(finished.get()._1()) + 1
        found[following] = max(int(finished.get()._2().nextBatchWatermarkMs()), found.get(following, 0))
    return found


class LayoutListener:
    """Spark's listener; it runs in the JVM's thread that calls it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.running: dict[str, Running] = {}
        self.vanished: dict[str, tuple[str, Vanished]] = {}  # by query: its run, and what it has lost
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
            self._retire(progress["id"], progress)
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
            if is_key(key) and (known := _joins.get(key)) is not None and known.again is not None:
                edges = Counter[str]()
                for slot in slots_of(key, progress["id"], progress["batchId"], row):
                    edges.update(slot.get(EDGES, {}))
                self.shares.counted(progress["runId"], known.again.node.decision.selectivities, edges)

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
        keys = join_keys(plan)
        if not keys:
            return
        self.observed.started(query_id, sources_in(plan))
        real_time = list(filter(None, map(starting, keys)))
        if real_time:
            live.follow(str(found.runId), getattr(self.spark._jvm, ENTRY))
        if any(map(late_sources, keys)) and not real_time:
            _executions[query_id] = Execution(str(found.runId), execution, tuple(keys))
        registered = [_joins[key] for key in keys]
        for one in registered:
            one.warn()
        if any(one.warns for one in registered) and not real_time:
            _, known = self.vanished.pop(query_id, ("", Vanished()))  # what was said before a restart is not said again
            self.vanished[query_id] = (found.runId, known)
            while len(self.vanished) > _REMEMBERED:
                del self.vanished[next(iter(self.vanished))]
        specs = real_time or held_back_in_all([one.spec for one in registered])
        file = CheckpointFile(self.spark, str(execution.resolvedCheckpointRoot()))
        remember(query_id, file.root, (stream.alias for spec in specs for stream in spec.streams))
        properties: Any = self.spark._jsparkSession.sparkContext().getLocalProperties()
        try:
            saved = file.read()  # first: it says of which Spark the other files are
            batch = _next_batch(execution, file.root)
            if not batch and (why := results_of_another(self.spark, execution.sink().toString())) is not None:
                raise SinkMismatchError(file.root, why)
            if batch and saved and file.in_real_time != bool(real_time):
                raise CheckpointMismatchError(file.root, OF_REAL_TIME if file.in_real_time else OF_MICRO_BATCHES)
            if batch and not saved:
                lacks = f"it has micro-batches and no folder {FOLDER}, as of queries without our joins, or on Connect"
                lacks += f". {APART}" if any(spec.join == "mixed" for spec in specs) else ""
                raise CheckpointMismatchError(file.root, lacks)
            units = [spec.units for spec in specs] if real_time else self._units(query_id, registered, saved)
            grids = [one.grid(count) for one, count in zip(registered, units, strict=True)]
            watermarks = _watermarks(execution, self.spark.version)
            watermark = max(watermarks.values(), default=0)
            joins = follow(saved, specs, units, batch, watermark, grids=grids, real_time=bool(real_time))
            joins = [recorded(join, one.stored) for join, one in zip(joins, registered, strict=True)]
        except (CheckpointMismatchError, CheckpointDamagedError) as error:
            said = error.getMessageParameters()
            why = said.get("difference") or said["detail"]
            told = {"checkpoint": file.root, "refused": why, "error": type(error).__name__}
            properties.setProperty(LAYOUTS, json.dumps(dict.fromkeys(keys, told)))
            self._refuse(found, str(type(error)(file.root, why)))
            return
        if joins != saved or not file.of_this_spark or file.in_real_time != bool(real_time):
            file.in_real_time = bool(real_time)
            file.write(joins)
        running = Running(found.runId, file, dict(zip(keys, joins, strict=True)), watermarks, properties, execution)
        running.tell()
        if not batch:
            choose_partitions(self.spark, execution)
        hand_over_unmeasured(execution, specs, settings_of(self.spark))
        if any(len(join.history.at(batch)) > 1 for join in joins):
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

    def _units(self, query_id: str, joins: Sequence[Registered], saved: Sequence[SavedJoin]) -> list[int]:
        """Return the units that joins should have: the requested ones, else those of the query when it begins."""
        wanted = _wanted.pop(query_id, {})
        units = [one.spec.units for one in joins]
        if len(saved) == len(joins):  # the choice of cost gives way, and so does any other where scaling is on
            scaled = spark_flag(settings_of(self.spark), SCALING_ENABLED)
            units = [
                old.history.entries[-1][1] if scaled or one.keeps_units else one.spec.units
                for old, one in zip(saved, joins, strict=True)
            ]
        return [wanted.get(one.spec.name, own) for one, own in zip(joins, units, strict=True)]

    def _retire(self, query_id: str, progress: Mapping[str, Any]) -> None:
        running = self.running.get(query_id)
        if running is None or running.run_id != progress["runId"]:
            return
        batch = int(progress["batchId"])
        planned = running.execution.offsetLog().getLatestBatchId()
        # The tasks of the next micro-batch may have been told already.
        following = max(batch, int(planned.get()) if planned.isDefined() else batch) + 2
        joins = dict(running.joins)
        for key, held in held_by_slot(progress).items():
            if key not in joins:
                continue
            history = joins[key].history
            if joins[key].grid:
                history = history.passed(batch, times_by_slot(key, progress), following)
            joins[key] = replace(joins[key], history=history.retire(batch, held, following))
        if joins != running.joins:
            running.file.write(list(joins.values()))  # before a task is told
            running.joins = joins
            running.tell()

    class Java:
        """What py4j looks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
