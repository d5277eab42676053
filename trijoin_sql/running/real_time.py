"""Queries with the trigger ``realTime``: their joins run in the JVM, row by row, where micro-batches run Python.

A frame of ours is compiled for micro-batches, for nobody knows its trigger yet. When a query starts with this one, the
operator of its join gives place to that of `operators.compile.realtime`, which has the same columns; all that is above
stays. Spark's own plan is rewritten for that, and the writer gets another frame: both are no stable interface, so the
minor version of Spark is checked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointMismatchError, UnavailableError, UnsupportedQueryError
from ..operators.compile.logical_plans import Step, plan_of, walk
from ..operators.compile.node import Again
from ..operators.compile.realtime import ENTRY, compile_real_time
from ..operators.spec import JoinSpec
from ..rewriter.plan.parts import Refusal
from ..rewriter.real_time import cells_in_real_time, why_not_in_real_time
from ..settings import REAL_TIME_MEMORY, value
from ..spark.config import BUFFER_WAIT, tasks_at_once
from ..spark.flags import PARTITIONS, settings_of
from ..spark.operator_jar import jar
from ..spark.rates import sources_in
from ..spark.versions import minor
from .checkpoint import CheckpointFile, SavedJoin, follow
from .metrics import join_keys
from .recovery import Files
from .writers import location, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The version of Spark whose inside our classes are written for.
SPARK = (4, 3)

#: What is said of a checkpoint of another trigger.
OF_MICRO_BATCHES = "it was written by micro-batches, and the trigger is realTime"
OF_REAL_TIME = "it was written with the trigger realTime, and this is another"

#: What Spark writes to row by row.
SINKS = ("kafka", "console", "foreach")

#: Spark's settings for the start of such a query.
SETTINGS = {
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",  # Spark asks for it
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",  # else each put is a get too
}

#: By key: the joins of the query that starts now.
_starting: dict[str, JoinSpec] = {}

_log = logging.getLogger("trijoin_sql")


@contextmanager
def in_real_time(writer: Any, again: Callable[[str], Again | None]) -> Iterator[None]:
    """For a block that starts a writer's query, let its join run in real time if its trigger says so.

    Parameters
    ----------
    writer
        A `DataStreamWriter` of a classic session.
    again
        Returns what the join of a key was compiled from.

    Raises
    ------
    UnsupportedQueryError
        The join, its inputs or its sink cannot run so.
    UnavailableError
        This Spark, or what is installed beside it, cannot.
    CheckpointMismatchError
        The checkpoint is of micro-batches, or of another query.
    """
    if not is_real_time(writer):
        yield
        return
    frame: DataFrame = writer._df
    plan = plan_of(frame)
    keys = join_keys(plan)
    if not keys:
        yield
        return
    spark = frame.sparkSession
    join = again(keys[0])
    if join is None:
        raise _refused("it was compiled by another process or session", "make its DataFrame anew")
    why = why_not_in_real_time(join.node)
    if why is None and len(keys) > 1:
        why = Refusal(
            "it has joins above one another, and the trigger realTime takes one", "write one join of all streams"
        )
    if why is not None:
        raise UnsupportedQueryError(why.reason, why.hint)
    saved = _saved(spark, writer)
    cells = cells_in_real_time(join.node) or (saved.units if saved is not None else 1)
    _check(writer, spark, plan, cells)
    load(spark)
    made = compile_real_time(join, cells, int(value(settings_of(spark), REAL_TIME_MEMORY) or 0))
    if saved is not None:
        saved.check(made.spec)
    entry, mode = getattr(spark._jvm, ENTRY), written(writer, "outputMode")
    entry.rewire(writer._jwrite, entry.replaced(frame._jdf, _operator(plan, keys[0]), made.frame._jdf))
    if str(mode.toString()) == "Append":  # the rows are the same: none is ever changed
        writer._jwrite.outputMode("update")
    _starting[made.spec.key] = made.spec
    try:
        with _set(spark, {**SETTINGS, PARTITIONS: str(made.spec.units)}):
            yield
    finally:  # it may start another query, with another trigger
        del _starting[made.spec.key]
        entry.rewire(writer._jwrite, frame._jdf)
        writer._jwrite.outputMode(mode)


def starting(key: str) -> JoinSpec | None:
    """Return a join that starts now with the trigger ``realTime``; None if its query has another one."""
    return _starting.get(key)


def is_real_time(writer: Any) -> bool:
    """Return whether a writer has the trigger ``realTime``."""
    trigger = written(writer, "trigger")
    return trigger is not None and str(trigger.getClass().getSimpleName()).startswith("RealTimeTrigger")


def _refused(reason: str, hint: str) -> UnsupportedQueryError:
    return UnsupportedQueryError(f"{reason}, and its trigger is realTime", hint)


def _check(writer: Any, spark: SparkSession, plan: Any, cells: int) -> None:
    """Raise for what Spark would refuse later, in its own words."""
    if minor(spark.version) != SPARK:
        version = "{}.{}".format(*SPARK)
        raise UnavailableError(
            "the trigger realTime",
            f"joins need Spark {version} for it, and this is {spark.version}",
            "use another trigger",
        )
    sink = str(written(writer, "source") or "")
    if sink and sink not in SINKS and "." not in sink:
        raise _refused(f"Spark does not write into {sink} row by row", f"write into {', '.join(SINKS[:-1])} or foreach")
    if str(written(writer, "outputMode").toString()) == "Complete":
        raise _refused("its output mode is complete", "write with outputMode('update')")
    read = [step for step in walk(plan) if step.name.startswith("Streaming") and "Relation" in step.name]
    for step in read:
        name = _source(step)
        if name not in ("kafka", "memory"):
            raise _refused(f"Spark does not read {name} row by row", "read its streams from Kafka")
    sources = sources_in(plan)
    if any(one.reads > 1 for one in sources):
        raise _refused(
            "it reads a stream twice",
            "declare a second stream of its topic, which differs in an option such as kafka.client.id",
        )
    needed, slots = len(sources) + cells, tasks_at_once(spark)
    if needed > slots:
        raise UnavailableError(
            "the trigger realTime",
            f"{len(sources)} streams and {cells} cells are {needed} tasks at once, at least, and Spark runs {slots}",
            f"start it with more slots, as with master local[{2 * needed}]",
        )


def _source(step: Step) -> str:
    """Return the name of the source that a node of a plan reads."""
    from py4j.protocol import Py4JError

    try:
        return str(step.node.sourceName())
    except (Py4JError, TypeError):
        return (
            "memory"
            if "LowLatencyMemoryStream" in str(step.node.toString())
            else str(step.node.toString()).split("[")[0]
        )


def _operator(plan: Any, key: str) -> Any:
    """Return the node of a plan with the results of a join, as they come from workers."""
    for step in walk(plan):
        if step.name == "CollectMetrics" and str(step.node.name()) == key:
            stages = [one for one in step.above if one.name.startswith("TransformWithState")]
            first = stages[0]
            above = first.above[-1] if first.above else first
            return above.node if above.name == "MapInArrow" else first.node
    raise AssertionError(key)


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings for a block: a query takes a copy when it starts."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, own in settings.items():
        spark.conf.set(key, own)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


@dataclass(frozen=True, slots=True)
class _Saved:
    """What the checkpoint of a query that goes on has."""

    place: str
    joins: list[SavedJoin]

    @property
    def units(self) -> int:
        """The cells of its join."""
        return self.joins[0].history.entries[-1][1]

    def check(self, spec: JoinSpec) -> None:
        """Raise where the query is another one; the listener will do so too, when there is a query that failed."""
        try:
            follow(self.joins, [spec], [spec.units], 1, real_time=True)
        except CheckpointMismatchError as error:
            raise CheckpointMismatchError(self.place, error.getMessageParameters()["difference"]) from None


def _saved(spark: SparkSession, writer: Any) -> _Saved | None:
    place = location(writer)
    if place is None or not Files(spark).numbers(f"{place}/offsets"):
        return None
    file = CheckpointFile(spark, place)
    joins = file.read()
    if joins and not file.in_real_time:
        raise CheckpointMismatchError(place, OF_MICRO_BATCHES)
    return _Saved(place, joins) if joins else None


def load(spark: SparkSession) -> None:
    """Make the classes of the operator known to a session's driver and executors, once.

    Raises
    ------
    UnavailableError
        There is no jar of them, and no JDK that makes one.
    """
    jvm: Any = spark._jvm
    if type(getattr(jvm, ENTRY)).__name__ != "JavaClass":
        path = jar(spark.version, str(jvm.java.lang.System.getProperty("java.class.path")))
        jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(jvm.java.io.File(str(path)).toURI().toURL())
        spark.sparkContext._jsc.addJar(str(path))
    getattr(jvm, ENTRY).listen()
    if spark.sparkContext.getConf().get(BUFFER_WAIT) is None:
        _log.warning(
            "results wait for up to 50 ms in a shuffle: make the session with %s=1, as configure does", BUFFER_WAIT
        )
