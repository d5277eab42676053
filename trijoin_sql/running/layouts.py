"""The layouts of a query's joins: in which units the rows of a micro-batch are stored, and which slots they reach.

As a query starts, its checkpoint says which it has had; what follows is recorded there before a micro-batch uses it,
and only then told to the tasks, in a local property that Spark passes to every job of the query's thread. While it
runs, slots that have become empty retire.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import CheckpointDamagedError, CheckpointMismatchError, SinkMismatchError
from ..operators.spec import JoinSpec
from ..operators.state.changed_query import APART
from ..operators.task.micro_batch import LAYOUTS
from ..settings import SCALING_ENABLED, spark_flag
from ..spark.flags import settings_of
from ..spark.messages import sentence
from ..spark.versions import metadata_of
from .checkpoint import FOLDER, CheckpointFile, SavedJoin, follow, recorded
from .failures import damage
from .known_joins import Registered
from .metrics import held_by_slot, times_by_slot
from .real_time import OF_MICRO_BATCHES, OF_REAL_TIME
from .recovery import results_of_another

#: Units that a query should have from its next start on, by the query's id.
_wanted: dict[str, dict[str, tuple[int, ...]]] = {}


def want_units(query: StreamingQuery, units: Mapping[str, tuple[int, ...]]) -> None:
    """Set the units of each subgroup that the joins of a query (by name) have from its next start on.

    Without subgroups that is one number. None at all takes that back.
    """
    if units:
        _wanted[query.id] = dict(units)
    else:
        _wanted.pop(query.id, None)


@dataclass(slots=True)
class Running:
    """A run of a query: its id, the file of the checkpoint, joins by key, known watermarks, the data for tasks, Spark's
    execution, and the first micro-batch.
    """

    run_id: str
    file: CheckpointFile
    joins: dict[str, SavedJoin]
    watermarks: dict[int, int]
    properties: Any
    execution: Any = None
    first: int = 0

    @property
    def has_retired(self) -> bool:
        """Whether some slots only wait until they are empty."""
        return any(len(join.history.at(self.first)) > 1 for join in self.joins.values())

    def tell(self) -> None:
        """Tell the tasks of all jobs from now on."""
        watermarks = sorted(self.watermarks.items())
        told = {key: {**join.told(), "watermarks": watermarks} for key, join in self.joins.items()}
        self.properties.setProperty(LAYOUTS, json.dumps(told))

    def retire(self, progress: Mapping[str, Any]) -> None:
        """Drop the retired slots that are empty by a report of Spark's."""
        batch = int(progress["batchId"])
        planned = self.execution.offsetLog().getLatestBatchId()
        # The tasks of the next micro-batch may have been told already.
        following = max(batch, int(planned.get()) if planned.isDefined() else batch) + 2
        joins = dict(self.joins)
        for key, held in held_by_slot(progress).items():
            if key not in joins:
                continue
            history = joins[key].history
            if joins[key].grid:
                history = history.passed(batch, times_by_slot(key, progress), following)
            joins[key] = replace(joins[key], history=history.retire(batch, held, following))
        if joins != self.joins:
            self.file.write(list(joins.values()))  # before a task is told
            self.joins = joins
            self.tell()


def held_back_in_all(specs: Sequence[JoinSpec]) -> list[JoinSpec]:
    """Return the joins of a query, each held back also for joins above it from other statements."""
    return [
        replace(spec, held_back=spec.held_back + sum(one.held_back for one in specs if spec.key in one.above))
        for spec in specs
    ]


def begin(
    spark: SparkSession,
    query: StreamingQuery,
    file: CheckpointFile,
    joins: Mapping[str, Registered],
    real_time: Sequence[JoinSpec],
) -> Running:
    """Compare a query that starts with its checkpoint, and record its layouts there.

    Parameters
    ----------
    spark
        Its session.
    query
        The query, before its first micro-batch.
    file
        Of its checkpoint.
    joins
        Its joins, by key.
    real_time
        The same as they run with the trigger ``realTime``, if that is its trigger.

    Raises
    ------
    CheckpointMismatchError
        The checkpoint, or what the sink has, is of another query.
    CheckpointDamagedError
        The checkpoint lacks something.
    """
    execution: Any = query._jsq.streamingQuery()
    registered = list(joins.values())
    specs = real_time or held_back_in_all([one.spec for one in registered])
    saved = file.read()  # first: it says of which Spark the other files are
    batch = _next_batch(execution, file.root)
    if not batch and (why := results_of_another(spark, execution.sink().toString())) is not None:
        raise SinkMismatchError(file.root, why)
    if batch and saved and file.in_real_time != bool(real_time):
        raise CheckpointMismatchError(file.root, OF_REAL_TIME if file.in_real_time else OF_MICRO_BATCHES)
    if batch and not saved:
        lacks = f"it has micro-batches and no folder {FOLDER}, as of queries without our joins, or on Connect"
        lacks += f". {APART}" if any(spec.join == "mixed" for spec in specs) else ""
        raise CheckpointMismatchError(file.root, lacks)
    sizes = [(spec.units,) for spec in specs] if real_time else _units(spark, query.id, registered, saved)
    units = list(map(sum, sizes))
    shapes = [one.grid(sum(own)) or (own if len(own) > 1 else ()) for one, own in zip(registered, sizes, strict=True)]
    watermarks = _watermarks(execution, spark.version)
    watermark = max(watermarks.values(), default=0)
    found = follow(saved, specs, units, batch, watermark, shapes=shapes, real_time=bool(real_time))
    found = [recorded(join, one.stored) for join, one in zip(found, registered, strict=True)]
    if found != saved or not file.of_this_spark or file.in_real_time != bool(real_time):
        file.in_real_time = bool(real_time)
        file.write(found)
    properties: Any = spark._jsparkSession.sparkContext().getLocalProperties()
    return Running(query.runId, file, dict(zip(joins, found, strict=True)), watermarks, properties, execution, batch)


def _units(
    spark: SparkSession, query_id: str, joins: Sequence[Registered], saved: Sequence[SavedJoin]
) -> list[tuple[int, ...]]:
    """Return the units that joins should have: the requested ones, by subgroup, else those that the query has."""
    wanted = _wanted.pop(query_id, {})
    sizes: list[tuple[int, ...]] = [(one.spec.units,) for one in joins]
    if len(saved) == len(joins):  # the choice of cost gives way, and so does any other where scaling is on
        scaled = spark_flag(settings_of(spark), SCALING_ENABLED)
        for number, (old, one) in enumerate(zip(saved, joins, strict=True)):
            if scaled or one.keeps_units:
                _, units, *more = old.history.entries[-1]
                sizes[number] = (one.spec.subgroups > 1 and tuple(more[1:])) or (units,)
    return [wanted.get(one.spec.name, own) for one, own in zip(joins, sizes, strict=True)]


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
