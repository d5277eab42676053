"""Counters of a running query for each slot of each join node in each micro-batch."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ..operators.compile.logical_plans import plan_of, walk
from ..operators.compile.node import OBSERVED
from ..operators.spec import PREFIX, RUN, is_key, number_of
from ..operators.task.outputs import COUNTER_NAMES, UNTIL
from ..operators.task.reports import EDGES, reported
from ..rewriter.plan.trees import root_of
from . import live
from .late import LateRows
from .vanished import IDLE, Vanished

#: The metric of a job's query that counts the rows for its sink.
OUTPUT = "trijoin_job_output"


def compiled_number(query: StreamingQuery) -> int | None:
    """Return the number of the statement that a query was compiled from, None if it has not reported one."""
    for progress in reversed(query.recentProgress):
        for name in progress.observedMetrics or {}:
            if is_key(name):
                return number_of(name)
    return next((number_of(key) for key, _ in live.reports(str(query.runId))), None)


def topmost_number(frame: DataFrame) -> int | None:
    """Return the number of the statement that the topmost join of ours in a DataFrame was compiled from, if any."""
    return max(numbers_of(frame), default=None)


def numbers_of(frame: DataFrame) -> list[int]:
    """Return the numbers of the statements that the joins of ours in a DataFrame were compiled from, each once."""
    shown: Any = frame
    text = plan_of(frame).toString() if hasattr(frame, "_jdf") else shown._explain_string(extended=True)
    found = re.findall(rf"CollectMetrics ({PREFIX}_\d+{RUN}\d+)", text)
    return sorted({number_of(key) for key in found})


def join_keys(plan: Any) -> list[str]:
    """Return the names of our metrics in a logical plan, each once: they are the keys of its joins."""
    names = (str(step.node.name()) for step in walk(plan) if step.name == "CollectMetrics")
    return list(dict.fromkeys(name for name in names if is_key(name)))


def slots_of(key: str, query: str, batch: int, observed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the counters of a join's slots in a micro-batch; slots without rows report nothing.

    Parameters
    ----------
    key
        The join's key.
    query, batch
        The query's id, and the number of the micro-batch.
    observed
        What Spark observed under the key, as a mapping: on Spark Connect the counters themselves.
    """
    texts = observed[OBSERVED] if OBSERVED in observed else reported(key, query, batch)
    return [json.loads(text) for text in texts or []]


def held_by_slot(progress: Mapping[str, Any]) -> dict[str, dict[int, bool]]:
    """Return for each join, by its key, the slots that hold rows; from a progress report as JSON.

    A slot that got no rows in the micro-batch is left out.
    """
    found: dict[str, dict[int, bool]] = {}
    for key, row in progress.get("observedMetrics", {}).items():
        if key.startswith(PREFIX):
            slots = slots_of(key, progress["id"], progress["batchId"], row)
            found[key] = {slot["slot"]: _holds(slot) for slot in slots}
    return found


def _holds(slot: Mapping[str, Any]) -> bool:
    """Return whether a slot holds rows, or, of cells of an earlier layout, may get some of the pivot."""
    *_, left = slot.get(UNTIL, (True,))
    return bool(slot["state_rows"] or slot["state_chunks"] or not left)


def times_by_slot(key: str, progress: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    """Return of a join's cells of earlier layouts by when rows expire, and have (`History.passed`)."""
    slots = slots_of(key, progress["id"], progress["batchId"], progress["observedMetrics"][key])
    return {slot["slot"]: (slot[UNTIL][0], slot[UNTIL][1]) for slot in slots if UNTIL in slot}


@dataclass(frozen=True, slots=True)
class BatchCounters:
    """Counters of one join node in one micro-batch.

    Parameters
    ----------
    node
        The node's name in the plan.
    batch
        The micro-batch.
    slots
        For each slot its counters (see ``operators.task.outputs.COUNTER_NAMES``), the newest event time of each input
        that brought rows (``inputs``: microseconds, null for none) and the ``watermark``. Where rows had NULL in a
        joined column or in their event time, one slot has ``null_rows``: by input, the rows that a task looked at
        (``rows``), those that it dropped (``dropped``) and the NULLs of each column (``columns``). Where rows came too
        late, ``late_rows`` has by input how many (``rows``), and the stream (``of``).
    """

    node: str
    batch: int
    slots: tuple[dict[str, Any], ...]

    def total(self) -> dict[str, int]:
        """Return the counters summed over slots; of ``late`` each row of a stream once."""
        summed = {name: sum(slot.get(name, 0) for slot in self.slots) for name in COUNTER_NAMES}
        return {**summed, "late": late_rows([self]).total}


@dataclass(frozen=True, slots=True)
class InputState:
    """What an input of a join node has recently brought.

    Parameters
    ----------
    alias
        Its alias.
    quiet_for
        Micro-batches since its last row, as far as Spark remembers.
    newest
        Its newest event time in ISO format, None if it has none.
    holds_watermark
        Whether it is idle and the watermark, and so the expiry of state, waits for it.
    """

    alias: str
    quiet_for: int
    newest: str | None
    holds_watermark: bool

    @property
    def idle(self) -> bool:
        """Whether it counts as idle."""
        return self.quiet_for >= IDLE

    def __str__(self) -> str:
        text = f"{self.alias}: no rows for {self.quiet_for} micro-batches"
        text += f", the newest of {self.newest}" if self.newest else ""
        return text + ("; it holds the watermark back, so no state expires" if self.holds_watermark else "")


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counters of a query, oldest micro-batch first.

    Parameters
    ----------
    batches
        One entry for each node and micro-batch.
    input_rows
        Rows from the query's sources.
    seconds
        From the start of the first micro-batch to the end of the last.
    """

    batches: tuple[BatchCounters, ...]
    input_rows: int = 0
    seconds: float = 0.0

    def total(self) -> dict[str, int]:
        """Return the counters summed over nodes, slots and micro-batches; of gauges (``state_*``) the last.

        ``results`` are rows that joins found: what stands above a join may make fewer or more rows of them. What inner
        nodes of an operator tree find is no result, but what its root stores. ``late`` counts each row of a stream
        once (see `late`).
        """
        summed = dict.fromkeys(COUNTER_NAMES, 0)
        last = {batch.node: batch for batch in self.batches if batch.slots}
        for name in COUNTER_NAMES:
            counted: Iterable[BatchCounters] = last.values() if name.startswith("state_") else self.batches
            if name == "results":
                counted = [batch for batch in self.batches if root_of(batch.node) == batch.node]
            summed[name] = sum(batch.total()[name] for batch in counted)
        return {**summed, "late": self.late().total}

    def late(self) -> LateRows:
        """Return the rows that came too late, by stream and by alias.

        Returns
        -------
        LateRows
            ``streams`` counts each row of a stream once, ``inputs`` once for each alias that dropped it.
        """
        return late_rows(self.batches)

    def latency(self) -> dict[str, float]:
        """Return how late results were with the trigger ``realTime``; nothing with another one.

        Returns
        -------
        dict of float
            ``p50``, ``p95``, ``p99`` and ``max``, in milliseconds: from the reading of a result's last row by Spark to
            the result's leaving of the join. Upper bounds, an eighth above at most. Over all batches that are known.
        """
        return live.percentiles(live.latencies(slot for batch in self.batches for slot in batch.slots))

    def inputs(self, node: str) -> list[InputState]:
        """Return what the inputs of a node have recently brought.

        Parameters
        ----------
        node
            The name of the join node, as EXPLAIN shows it (``__trijoin_1``).

        Returns
        -------
        list of InputState
            One for each input that has been seen.
        """
        self._check_node(node)
        batches = [batch for batch in self.batches if batch.node == node and batch.slots]
        newest: dict[str, int] = {}
        quiet: dict[str, int] = {}
        for batch in batches:
            brought: dict[str, int] = {}
            for slot in batch.slots:
                for alias, time in slot.get("inputs", {}).items():
                    quiet.setdefault(alias, 0)
                    if time is not None:
                        brought[alias] = max(time, brought.get(alias, 0))
            if brought:  # otherwise only the watermark has moved
                quiet = {alias: 0 if alias in brought else count + 1 for alias, count in quiet.items()}
            newest.update({alias: max(time, newest.get(alias, 0)) for alias, time in brought.items()})
        watermark = max((slot.get("watermark", 0) for batch in batches for slot in batch.slots), default=0)
        timed = any(newest.values())
        return [
            InputState(
                alias,
                count,
                _time(newest[alias]) if newest.get(alias) else None,
                timed and count >= IDLE and watermark <= newest.get(alias, 0) < max(newest.values()),
            )
            for alias, count in quiet.items()
        ]

    def vanished(self, node: str | None = None) -> Vanished:
        """Return the rows that could not join because of NULLs, and the inputs that have brought none.

        Parameters
        ----------
        node
            The name of a join node; all of them if None.

        Returns
        -------
        Vanished
            Prints as sentences; ``rows`` has counts, ``said`` what is suspicious about them.
        """
        if node is not None:
            self._check_node(node)
        found = Vanished()
        for batch in self.batches:
            if node in (None, batch.node):
                found.add(batch.slots)
        return found

    def _check_node(self, node: str) -> None:
        known = dict.fromkeys(batch.node for batch in self.batches)
        if known and node not in known:
            raise ValueError(f"this query has no join node {node!r}; it has {', '.join(known)}, as EXPLAIN shows")

    def to_dict(self) -> dict[str, Any]:
        """Return the counters as plain data."""
        return {
            "batches": [
                {"node": batch.node, "batch": batch.batch, "slots": list(batch.slots)} for batch in self.batches
            ]
        }


def late_rows(counters: Iterable[BatchCounters]) -> LateRows:
    """Return the rows that came too late in micro-batches of one query."""
    batches: dict[int, list[tuple[dict[str, Any], ...]]] = {}
    for one in counters:
        batches.setdefault(one.batch, []).append(one.slots)
    found = LateRows()
    for nodes in batches.values():
        found.add(nodes)
    return found


def live_groups(
    document: dict[str, Any],
    metrics: Metrics,
    decisions: Mapping[str, list[dict[str, Any]]],
    policy: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return a document's groups with the counters of their nodes so far.

    That is ``live``: counters, the load of the units, how many store new rows and how many slots rows reach, what was
    expected (``estimates``) and what came (``actual``), by node what scaling decided, and the settings it follows. Of
    an operator tree counters are those of all its nodes, and ``nodes`` has each of them.
    """
    groups = []
    for group in document["groups"]:
        mine = Metrics(tuple(batch for batch in metrics.batches if root_of(batch.node) == group.get("name")))
        names = sorted({batch.node for batch in mine.batches if batch.slots})
        if names:
            last = _last_with_slots(mine, names[0])  # the root comes first
            relations = group["graph"]["relations"]  # and not what inner nodes store
            inputs = [one for name in names for one in mine.inputs(name) if one.alias in relations]
            expected, matched = _matched(mine, group["decision"].get("selectivities", ()))
            live: dict[str, Any] = {
                "batch": mine.batches[-1].batch,
                "counters": {**mine.total(), **{f"latency_{name}": ms for name, ms in mine.latency().items()}},
                "units": _loads(last),
                "layout": {name: last.slots[0][name] for name in ("units", "slots")},
                "estimates": {**group["decision"].get("expected", {}), **expected},
                "actual": {**_actual(mine.total(), metrics), **matched},
                "inputs": [asdict(one) for one in inputs],
                "idle": [str(one) for one in inputs if one.idle],
                "vanished": mine.vanished().said,
            }
            if len(names) > 1:
                live["nodes"] = [_node(mine, name) for name in names]
            if said := decisions.get(str(group.get("name"))):  # scaling decides nothing on units that cannot change
                live |= {"policy": dict(policy or {}), "scaling": said}
            group = {**group, "live": live}
        groups.append(group)
    return groups


def _node(metrics: Metrics, name: str) -> dict[str, Any]:
    """Return the counters of one node of an operator tree, whose results are what it found, and what its slots hold."""
    alone = Metrics(tuple(replace(batch, node=root_of(name)) for batch in metrics.batches if batch.node == name))
    return {"node": name, "counters": alone.total(), "units": _loads(_last_with_slots(metrics, name))}


def _last_with_slots(metrics: Metrics, node: str) -> BatchCounters:
    return next(batch for batch in reversed(metrics.batches) if batch.slots and batch.node == node)


def _loads(batch: BatchCounters) -> list[dict[str, Any]]:
    """Return what each slot of a node holds."""
    return [
        {"unit": f"slot {slot['slot']}", "rows": slot["state_rows"], "bytes": slot["state_bytes"]}
        for slot in batch.slots
    ]


def _actual(counters: dict[str, int], metrics: Metrics) -> dict[str, float]:
    """Return the actual numbers of a node, under the names of the estimates of `rewriter.choose.cost`."""
    kept: dict[str, float] = {"rows kept": counters["state_rows"]}
    if metrics.seconds <= 0:
        return kept
    sums = {
        "input rows a second": metrics.input_rows,
        "comparisons a second": counters["comparisons"],
        "results a second": counters["results"],
    }
    return {name: float(f"{number / metrics.seconds:.4g}") for name, number in sums.items()} | kept


def _matched(metrics: Metrics, planned: Iterable[Mapping[str, Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the share of pairs of rows that was expected to match, and that did, of relations that are counted."""
    edges = Counter[str]()
    for slot in (slot for batch in metrics.batches for slot in batch.slots):
        edges.update(slot.get(EDGES, {}))
    expected, matched = {}, {}
    for one in planned:
        pairs, found = (edges[f"{one['left']} {one['right']} {name}"] for name in ("pairs", "found"))
        if pairs:
            name = f"share of pairs of {one['left']} and {one['right']} that match"
            expected[name], matched[name] = one["share"], float(f"{found / pairs:.4g}")
    return expected, matched


def _time(micros: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_metrics(query: StreamingQuery) -> Metrics:
    """Read the counters of a query from its recent progress."""
    recent = query.recentProgress
    found = tuple(counters for progress in recent for counters in batch_counters(progress))
    if running := running_batch(query):
        begins, at = min(one["begun"] for one in running.slots), max(one["at"] for one in running.slots)
        seconds = (at - min([begins, *(_begun(progress) * 1000 for progress in recent)])) / 1000
        read = sum(progress.numInputRows or 0 for progress in recent) + live.rows_in(running.slots).total()
        return Metrics((*found, running), read, seconds)
    begun = list(map(_begun, recent))
    took = max((recent[-1].batchDuration or 0) / 1000, 0.0) if recent else 0.0
    seconds = max(begun) - min(begun) + took if begun else 0.0
    return Metrics(found, sum(progress.numInputRows or 0 for progress in recent), seconds)


def _begun(progress: Any) -> float:
    return datetime.fromisoformat(progress.timestamp).timestamp()


def running_batch(query: StreamingQuery) -> BatchCounters | None:
    """Return what a join in real time has counted so far in the batch that runs, None of other queries.

    A batch that has just ended may still be it.
    """
    run = str(query.runId)
    if not live.is_live(run):
        return None
    last: Any = query.lastProgress
    for (key, batch), slots in reversed(live.reports(run, 0 if last is None else last.batchId + 1).items()):
        return BatchCounters(key.partition(RUN)[0], batch, tuple(slots))
    return None


def batch_counters(progress: Any) -> list[BatchCounters]:
    """Read the counters in one progress report of Spark's."""
    return [counters for _, counters in counters_by_key(progress)]


def counters_by_key(progress: Any) -> list[tuple[str, BatchCounters]]:
    """Read the counters in one progress report of Spark's, each with the key of its join."""
    observed = progress.observedMetrics or {}
    run, batch = str(progress.runId), int(progress.batchId)
    reports = live.reports(run, batch)
    found = []
    for node, row in sorted(observed.items()):
        if node.startswith(PREFIX):
            told = reports.get((node, batch), [])
            slots = told if live.is_live(run) else slots_of(node, str(progress.id), batch, _fields(row))
            slots.sort(key=lambda slot: int(slot["slot"]))
            found.append((node, BatchCounters(node.partition(RUN)[0], batch, tuple(slots))))
    return found


def _fields(row: Any) -> dict[str, Any]:
    """Return an observed row's fields; on Spark Connect a row comes as its values and its schema."""
    fields: dict[str, Any] = row.asDict()
    if fields.keys() != {"values", "schema"}:
        return fields
    names = [field["name"] for field in fields["schema"]["fields"]]
    return dict(zip(names, fields["values"], strict=True))
