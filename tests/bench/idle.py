"""Idle triggers: what a micro-batch costs when it has next to no rows.

Rows come from Spark's ``rate-micro-batch`` source, ten of each stream a trigger: it has no files to list and no log of
its own to write, so only the join's pipeline is measured. (The same query over a folder of files takes longer because
Spark lists them, the more files the longer.) The first triggers of a query, and of a JVM, are several times slower than
later ones, because the JVM compiles what runs often. So `WARM_UP` triggers, and every query's first ten, do not count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .engines import Session, request
from .live import PATIENCE, Live, in_scratch, medians
from .workloads import Workload, columns

#: Rows of each stream in a trigger.
ROWS = 10

#: Triggers of each engine, without a pause, before anything is measured.
WARM_UP = 200

#: Triggers of a measured run, and the seconds between their starts.
TRIGGERS, EVERY = 50, 0.5

#: Seconds that a trigger without a pause may take, such as the JVM's first ones on a slow machine.
SLOW = 2.0

#: Triggers at the beginning of a run that do not count.
_FIRST = 10

#: The millisecond at which the source's clock begins; it moves by a second a trigger.
_START = 1_700_000_000_000


def run_idle(session: Session, workload: Workload, engine: str, rows: int, triggers: int, every: float) -> Live:
    """Run some triggers with next to no rows.

    Parameters
    ----------
    engine
        A scheme of ours, or ``spark``.
    rows
        Rows of a stream; the few rows have its range of keys, and its window.
    triggers
        The number of triggers; more than ten.
    every
        Seconds from the start of one to the start of the next, 0 for no pause.

    Returns
    -------
    Live
        Without latencies; its durations are medians over the triggers after the first ten.
    """

    def run(home: Path) -> Live:
        domain = workload.domain(rows)
        sources = {stream: _source(workload, rows, number, domain) for number, stream in enumerate(workload.streams)}
        asked = request(workload, engine, rows, home / "checkpoint", sources)
        limit = {"batches": triggers, "seconds": PATIENCE + (2 * every + SLOW) * triggers}
        before = session.cpu()
        answer = session.ask({**asked, **limit, "trigger": {"processingTime": f"{every} seconds"}})
        after = session.cpu()
        if answer["batches"] < triggers:
            return Live(engine, problem=f"had {answer['batches']} of {triggers} triggers in time")
        counted = [report["took"] for report in answer["reports"]][_FIRST:]
        cpu = (after - before) / answer["batches"] if before and after else None
        return Live(engine, durations=medians(counted), triggers=len(counted), cpu=cpu)

    return in_scratch(engine, run)


def _source(workload: Workload, rows: int, number: int, domain: int) -> dict[str, Any]:
    """Return a stream of the workloads' schema with `ROWS` rows a trigger, for `request`."""
    keys = {"i": f"HASH(value, {number})", "im": f"HASH(value, {number}, 1)"}
    fields = {
        "s": "CONCAT('s', value % 1000)",
        "d": "value * 0.5D",
        "l": "value",
        **{key: f"CAST(PMOD({text}, {domain}) AS INT)" for key, text in keys.items()},
        "str": "CONCAT('payload-', value)",
    }
    read = columns(workload, rows)[1:]
    changed = {text.rpartition(" AS ")[2] for text in read}
    return {
        "format": "rate-micro-batch",
        "options": {"rowsPerBatch": ROWS, "numPartitions": 1, "startTimestamp": _START},
        "schema": None,
        "columns": [f"{text} AS {field}" for field, text in fields.items() if field not in changed] + read,
    }
