"""What a task knows of the micro-batch that it works for: its number, the layout of the units in it, and watermarks.

The driver says them in local properties, which Spark carries from the thread of a query into all of its tasks.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from pyspark import TaskContext

from ...errors import CheckpointDamagedError, CheckpointMismatchError, CheckpointVersionError, SinkMismatchError
from ..spec import JoinSpec
from ..state.layout import History, laid_out

#: Local property with the layouts of a query's joins: JSON, by the join's key either a history or why it is refused.
LAYOUTS = "trijoin.layouts"

_BATCH = "streaming.sql.batchId"
_QUERY = "sql.streaming.queryId"


def batch_id() -> int:
    """Return the micro-batch's number, -1 outside of a streaming query."""
    text = _property(_BATCH)
    return -1 if text is None else int(text)


def turn() -> int:
    """Return a number that differs from one micro-batch to the next, and between the partitions of one; 0 for tables.

    A task that is tried again has the same.
    """
    context = TaskContext.get()
    return 0 if context is None or batch_id() < 0 else batch_id() + context.partitionId()


def query_id() -> str:
    """Return the id of the streaming query, which stays the same over restarts; empty outside of one."""
    return _property(_QUERY) or ""


class Told(NamedTuple):
    """What the driver tells the tasks of a micro-batch about a join.

    Parameters
    ----------
    spec
        The join with the micro-batch's layout.
    history
        The history that this comes from.
    watermarks
        ``(micro-batch, Spark's watermark in milliseconds)`` in order, as far as they were known when the query started.
    """

    spec: JoinSpec
    history: History
    watermarks: tuple[tuple[int, int], ...] = ()

    def before(self, batch: int) -> int:
        """Return the latest watermark (milliseconds) known of the micro-batches before one, 0 if none is.

        The watermark of a join above stateful operators is another one than the query's, which is not told then.
        """
        known = () if self.spec.has_stateful_input else self.watermarks
        return max((watermark for number, watermark in known if number < batch), default=0)

    def calls_all(self, batch: int) -> bool:
        """Return whether each slot is called in a micro-batch, rows or not, so that it knows the time from then on.

        Where the layout is new, or the state from before there were clocks: at the start. The first micro-batch may
        have no dispatcher, because no rows came; then the next one has.
        """
        return self.spec.drops_late and 0 <= batch <= max((number + 1 for number, _ in self.watermarks), default=0)


def for_this_batch(spec: JoinSpec) -> Told:
    """Return what the driver tells about a join in this micro-batch.

    Where the driver says nothing (a batch query, Spark Connect) there is one layout, the join's own. `SlotState`
    refuses to go on where the manifests of the checkpoint have another one.

    Raises
    ------
    CheckpointMismatchError
        The driver found that the checkpoint belongs to another query.
    CheckpointVersionError, CheckpointDamagedError
        Or that it cannot be read.
    """
    text = _property(LAYOUTS)
    return _told(spec, text, batch_id()) if text is not None else Told(spec, History(((0, spec.units),)))


#: The errors with which a driver refuses a checkpoint, by name.
_REFUSALS = {
    kind.__name__: kind
    for kind in (CheckpointMismatchError, CheckpointVersionError, SinkMismatchError, CheckpointDamagedError)
}


@lru_cache(maxsize=64)
def _told(spec: JoinSpec, text: str, batch: int) -> Told:
    told = json.loads(text).get(spec.key)
    if told is None:
        return Told(spec, History(((0, spec.units),)))
    if "refused" in told:
        raise _REFUSALS[told["error"]](told["checkpoint"], told["refused"])
    history = History.from_dict(told)
    turn = told.get("turn")
    found = laid_out(spec, history, batch, tuple(map(int, told.get("grid", ()))))
    turn = None if turn is None else (int(turn[0]), int(turn[1]))
    watermarks = tuple((int(number), int(watermark)) for number, watermark in told.get("watermarks", ()))
    return Told(replace(found, held_back=int(told.get("held_back", 0)), turn=turn), history, watermarks)


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)
