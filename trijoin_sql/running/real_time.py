"""Queries with the trigger ``realTime``: their joins run in the JVM, row by row, where micro-batches run Python.

A frame of ours is compiled for micro-batches, for nobody knows its trigger yet. When a query starts with this one, the
operator of its join gives place to that of `operators.compile.realtime`, which has the same columns; all that is above
stays. Spark's own plan is rewritten for that, and the writer gets another frame: both are no stable interface, so the
minor version of Spark is checked.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointMismatchError, UnavailableError, UnsupportedQueryError
from ..operators.compile.logical_plans import Step, plan_of, walk
from ..operators.compile.node import Again
from ..operators.compile.realtime import ENTRY, RealTime, compile_real_time
from ..operators.state.changed_query import difference, is_same
from ..rewriter.plan.parts import Refusal
from ..rewriter.real_time import cells_in_real_time, why_not_in_real_time
from ..spark.config import BUFFER_WAIT, tasks_at_once
from ..spark.flags import PARTITIONS
from ..spark.operator_jar import jar
from ..spark.rates import sources_in
from ..spark.versions import minor
from .metrics import join_keys
from .recovery import Files
from .versioned_file import VersionedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The version of Spark whose inside our classes are written for.
SPARK = (4, 3)

#: The folder of a checkpoint with our file, and the file.
FOLDER, FILE = "trijoin", "realtime-{}.json"

#: What Spark writes to row by row.
SINKS = ("kafka", "console", "foreach")

#: Spark's settings for the start of such a query.
SETTINGS = {
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",  # Spark asks for it
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",  # else each put is a get too
}

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
    cells = cells_in_real_time(join.node)
    _check(writer, spark, plan, cells)
    load(spark)
    made = compile_real_time(join, cells)
    _check_checkpoint(spark, writer, made)
    entry, mode = getattr(spark._jvm, ENTRY), _field(writer, "outputMode")
    entry.rewire(writer._jwrite, entry.replaced(frame._jdf, _operator(plan, keys[0]), made.frame._jdf))
    if str(mode.toString()) == "Append":  # the rows are the same: none is ever changed
        writer._jwrite.outputMode("update")
    try:
        with _set(spark, {**SETTINGS, PARTITIONS: str(made.spec.units)}):
            yield
    finally:  # it may start another query, with another trigger
        entry.rewire(writer._jwrite, frame._jdf)
        writer._jwrite.outputMode(mode)


def is_real_time(writer: Any) -> bool:
    """Return whether a writer has the trigger ``realTime``."""
    trigger = _field(writer, "trigger")
    return trigger is not None and str(trigger.getClass().getSimpleName()).startswith("RealTimeTrigger")


def _field(writer: Any, name: str) -> Any:
    """Return what a writer was told; None where Spark's inside is not as we know it."""
    from py4j.protocol import Py4JError

    try:
        field = writer._jwrite.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field.get(writer._jwrite)
    except (Py4JError, AttributeError, TypeError):
        return None


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
    sink = str(_field(writer, "source") or "")
    if sink and sink not in SINKS and "." not in sink:
        raise _refused(f"Spark does not write into {sink} row by row", f"write into {', '.join(SINKS[:-1])} or foreach")
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
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def _check_checkpoint(spark: SparkSession, writer: Any, made: RealTime) -> None:
    """Compare the query with its checkpoint, or note it in a new one."""
    place = _location(spark, writer)
    if place is None:
        return  # Spark says that it needs one
    root, begun = f"{place}/{FOLDER}", bool(Files(spark).numbers(f"{place}/offsets"))
    if begun and VersionedFile(spark, root, "joins-{}.json").read() is not None:
        raise CheckpointMismatchError(place, "it was written by micro-batches, and the trigger is realTime")
    file = VersionedFile(spark, root, FILE)
    found = file.read()
    if found is None or not begun:  # a start that failed may have left one
        file.write(json.dumps({"fingerprint": made.spec.fingerprint, "cells": made.spec.units}).encode())
        return
    saved = json.loads(found[1])
    if saved["cells"] != made.spec.units:
        change = f"units was {saved['cells']} and is now {made.spec.units}; they cannot change in real time"
        raise CheckpointMismatchError(place, change)
    if not is_same(saved["fingerprint"], made.spec.fingerprint):
        raise CheckpointMismatchError(place, difference(saved["fingerprint"], made.spec.fingerprint))


def is_of_real_time(spark: SparkSession, checkpoint: str) -> bool:
    """Return whether a checkpoint was written with the trigger ``realTime``."""
    return VersionedFile(spark, f"{checkpoint}/{FOLDER}", FILE).read() is not None


def _location(spark: SparkSession, writer: Any) -> str | None:
    options = _field(writer, "extraOptions")
    for key, below in (("checkpointLocation", None), ("queryName", "")):
        value = None if options is None else options.get(key)
        if value is None or not value.isDefined():
            continue
        if below is None:
            return str(value.get())
        folder = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        return None if folder is None else f"{folder}/{value.get()}"
    return None


def load(spark: SparkSession) -> None:
    """Make the classes of the operator known to a session's driver and executors, once.

    Raises
    ------
    UnavailableError
        There is no jar of them, and no JDK that makes one.
    """
    jvm: Any = spark._jvm
    entry = getattr(jvm, ENTRY)
    if type(entry).__name__ != "JavaClass":
        path = jar(spark.version, str(jvm.java.lang.System.getProperty("java.class.path")))
        jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(jvm.java.io.File(str(path)).toURI().toURL())
        spark.sparkContext._jsc.addJar(str(path))
    if spark.sparkContext.getConf().get(BUFFER_WAIT) is None:
        _log.warning(
            "results wait for up to 50 ms in a shuffle: make the session with %s=1, as configure does", BUFFER_WAIT
        )
