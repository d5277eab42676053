"""The join as Spark sees it: a stateful processor keyed by slot, one stage of a scheme.

When a query starts, Spark runs a new Python process for each stage, one after the other, only to ask which state
variables there are. So this module imports nothing of ours (pandas, Arrow and the operators take a second), and what
the stage is travels as bytes until a task needs it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from ..state.manifest import STATE

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.accumulators import Accumulator

    from .reports import Reports
    from .stage import Stage, StageTask

#: Types of the state variable; there is one, for each costs a task 4 ms. As text they would go to the JVM to be parsed.
_NUMBER = StructType([StructField("number", LongType())])
_DATA = StructType([StructField("data", BinaryType())])


class JoinProcessor(StatefulProcessor):
    """One stage of a join.

    Parameters
    ----------
    stage
        The stage.
    reports
        Where its slots report to; None if they do not, or by a row behind their results. PySpark makes a new one for
        every task, so it is not part of the stage, which is cached.
    """

    def __init__(
        self,
        stage: Stage,
        reports: Accumulator[Reports] | None = None,
    ) -> None:
        self.pickled, self.reports = pickle.dumps(stage), reports

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state variable, and in a task take the layout of its micro-batch.

        Raises
        ------
        CheckpointMismatchError, CheckpointVersionError, CheckpointDamagedError
            The driver refuses the checkpoint.
        """
        chunks = handle.getMapState(STATE, _NUMBER, _DATA)
        self.task: StageTask | None = None
        if TaskContext.get() is not None:
            from .stage import StageTask

            self.task = StageTask(_stage(self.pickled), handle, chunks, self.reports)

    def close(self) -> None:
        """Leave the worker fit for its next task: warm slots stay with it."""
        if self.task is not None:
            from ..worker_memory import settle

            if self.task.stage.freezes:
                settle()

    def handleInputRows(  # noqa: N802 (PySpark's name)
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Join one micro-batch of one slot."""
        assert self.task is not None
        return self.task.join(key, rows, timerValues)

    def handleExpiredTimer(  # noqa: N802 (PySpark's name)
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Let rows of a slot expire that no rows came for."""
        assert self.task is not None
        return self.task.join(key, iter(()), timerValues, int(expiredTimerInfo.getExpiryTimeInMs()))


@lru_cache(maxsize=64)
def _stage(pickled: bytes) -> Stage:
    stage: Stage = pickle.loads(pickled)
    return stage
