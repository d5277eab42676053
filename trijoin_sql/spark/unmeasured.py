"""Rows of fixed-width types go to Python unmeasured.

Spark bounds the bytes of an Arrow batch by measuring all vectors before each row, which takes as long as writing the
row. Rows of a few numbers cannot exceed the bound: the number of rows in a batch is bounded as well. Packed rows could,
and have empty ones behind them (`operators.task.dispatch.FILLER`). The setting is a session's, and each streaming query
has a session of its own, a copy that Spark makes at its start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from ..operators.batches.ipc import UNMEASURED_ROWS
from ..operators.spec import JoinSpec
from .config import ARROW_SETTINGS, MAX_BYTES
from .flags import Setting
from .liberties import UNMEASURED, taken

_log = logging.getLogger("trijoin_sql")

_MAX_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"

#: No bound, as Spark has it by default: then it does not measure.
NO_BOUND = "2147483647"


def hand_over_unmeasured(execution: Any, specs: Iterable[JoinSpec], get: Setting) -> None:
    """Take the bound on bytes from a query's own session, where all that its joins get is rows of fixed-width types.

    The bound stays where it is not the one that `configure` sets, where more rows may be in a batch than packed rows of
    a join are padded for, and where a function gets each micro-batch: its own queries run in the same session.

    Parameters
    ----------
    execution
        Spark's execution of the query, before its first micro-batch.
    specs
        All joins of the query.
    get
        The settings of the user's session.
    """
    if not taken(UNMEASURED, get) or not all(spec.fixed_width for spec in specs):
        return
    from py4j.protocol import Py4JError

    try:
        settings = execution.sparkSessionForStream().conf()
        ours = settings.get(MAX_BYTES) == ARROW_SETTINGS[MAX_BYTES]
        few = 0 < int(settings.get(_MAX_ROWS)) <= UNMEASURED_ROWS
        if ours and few and execution.sink().toString() != "ForeachBatchSink":
            settings.set(MAX_BYTES, NO_BOUND)
    except (Py4JError, TypeError):  # Spark's inside is not as we know it
        _log.debug("rows stay measured", exc_info=True)
