"""The numbers of a session's queries as Prometheus wants them: totals since the start, in base units, with labels.

A micro-batch counts when Spark reports it. In real time a batch lasts for minutes, so that what its cells have told by
now is added at each scrape.
"""

from __future__ import annotations

import copy
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryListener

from ..operators.spec import RUN
from . import live
from .known_joins import known_join
from .late import LateRows
from .listener import sources_of
from .metrics import OUTPUT, BatchCounters, counters_by_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_STREAM, _UNIT = ("stream",), ("join", "unit")

#: By name: what it is, its labels behind ``query``, and its help. `HISTOGRAMS` has the bounds of the last kind.
METRICS: dict[str, tuple[type, tuple[str, ...], str]] = {
    "batches": (CounterMetricFamily, (), "Batches that have ended."),
    "input_rows": (CounterMetricFamily, _STREAM, "Rows that a stream has brought."),
    "output_rows": (CounterMetricFamily, (), "Rows that went to the sink, where Spark or the job counts them."),
    "late_rows": (CounterMetricFamily, _STREAM, "Rows that came too late, each once."),
    "results": (CounterMetricFamily, _UNIT, "Rows that a unit has found, before residuals and what stands above."),
    "unit_input_rows": (CounterMetricFamily, _UNIT, "Rows that reached a unit."),
    "unit_input_bytes": (CounterMetricFamily, _UNIT, "Bytes that reached a unit."),
    "comparisons": (CounterMetricFamily, _UNIT, "Steps of a unit's searches, and pairs that it looked at."),
    "null_rows": (CounterMetricFamily, _UNIT, "Rows dropped for NULL in a joined column or in their event time."),
    "expired_rows": (CounterMetricFamily, _UNIT, "Rows whose time was over."),
    "state_rows": (GaugeMetricFamily, _UNIT, "Rows that a unit keeps."),
    "state_bytes": (GaugeMetricFamily, _UNIT, "Durable bytes that a unit keeps."),
    "newest_event_timestamp_seconds": (
        GaugeMetricFamily,
        _STREAM,
        "The newest event time that a stream has brought (Unix time).",
    ),
    "watermark_timestamp_seconds": (GaugeMetricFamily, (), "The watermark (Unix time)."),
    "source_offsets_behind": (GaugeMetricFamily, _STREAM, "Offsets of Kafka that have not been read, of a partition."),
    "batch_duration_seconds": (HistogramMetricFamily, (), "How long a batch took."),
    "result_latency_seconds": (
        HistogramMetricFamily,
        (),
        "In real time: from the reading of a result's last row to the result's leaving of the join.",
    ),
}

#: The upper bounds of histograms. Those of latencies are bounds of the cells' finer steps too: no count is split.
HISTOGRAMS = {
    "batch_duration_seconds": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0),
    "result_latency_seconds": tuple(step * 2**power / 1e6 for power in range(8, 26) for step in (1.0, 1.5)),
}

#: The counters and gauges of a slot, under the names of its report (`operators.task.outputs`).
_OF_SLOT = {
    "results": "results",
    "unit_input_rows": "rows_in",
    "unit_input_bytes": "bytes_in",
    "comparisons": "comparisons",
    "null_rows": "nulls",
    "expired_rows": "expired",
    "state_rows": "state_rows",
    "state_bytes": "state_bytes",
}

#: What Spark reports of a source of Kafka.
_BEHIND = "maxOffsetsBehindLatest"


@dataclass(slots=True)
class Totals:
    """What a query has done since it was first seen: numbers by metric and labels, and histograms by metric."""

    name: str
    run: str
    batch: int = -1
    values: dict[str, dict[tuple[str, ...], float]] = field(default_factory=lambda: defaultdict(dict))
    histograms: dict[str, Counter[float]] = field(default_factory=lambda: defaultdict(Counter))
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    late: LateRows = field(default_factory=LateRows)

    def add(self, metric: str, labels: tuple[str, ...], value: float) -> None:
        """Add to a counter, or set a gauge."""
        values = self.values[metric]
        gauge = METRICS[metric][0] is GaugeMetricFamily
        values[labels] = value if gauge else values.get(labels, 0) + value

    def raise_to(self, metric: str, labels: tuple[str, ...], value: float) -> None:
        """Set a gauge that never falls."""
        values = self.values[metric]
        values[labels] = max(value, values.get(labels, value))

    def observe(self, metric: str, value: float, times: int = 1) -> None:
        """Add to a histogram."""
        bounds = HISTOGRAMS[metric]
        at = bisect_left(bounds, value)
        self.histograms[metric][bounds[at] if at < len(bounds) else float("inf")] += times
        self.sums[metric] += value * times

    def take(self, nodes: Iterable[tuple[str, BatchCounters]]) -> None:
        """Add what the slots of each join, by its key, have reported of one batch."""
        nodes = list(nodes)
        self.late.add([counters.slots for _, counters in nodes])
        self.values["late_rows"] |= {(stream.lower(),): rows for stream, rows in self.late.streams.items()}
        brought: dict[str, Counter[str]] = defaultdict(Counter)
        names: Counter[str] = Counter()
        for key, counters in nodes:
            streams = _streams(key)
            for stream in streams.values():
                self.add("late_rows", (stream,), 0)  # a counter that is not there yet has no rate
            names[counters.node] += 1  # two views may each have a join of the same name
            join = counters.node if names[counters.node] == 1 else f"{counters.node}#{names[counters.node]}"
            for slot in counters.slots:
                unit = (join, str(slot["slot"]))
                for metric, name in _OF_SLOT.items():
                    self.add(metric, unit, slot.get(name, 0))
                for alias, micros in slot.get("inputs", {}).items():
                    if micros is not None:
                        self.raise_to("newest_event_timestamp_seconds", (streams.get(alias, alias),), micros / 1e6)
                if slot.get("watermark", 0) > 0:
                    self.raise_to("watermark_timestamp_seconds", (), slot["watermark"] / 1e6)
                for alias, rows in slot.get("rows", {}).items():  # in real time: no source is asked within a batch
                    brought[streams.get(alias, alias)][alias] += rows
            for above, count in live.latencies(counters.slots).items():
                self.observe("result_latency_seconds", above / 1e6, count)
        for stream, by_alias in brought.items():  # all aliases of a stream get its rows
            self.add("input_rows", (stream,), max(by_alias.values()))

    def end(self, progress: Any, spark: SparkSession) -> None:
        """Add one of Spark's reports of a batch."""
        durations = progress.durationMs or {}
        if progress.batchId <= self.batch or "addBatch" not in durations:  # Spark repeats itself while nothing comes
            return
        self.batch = progress.batchId
        self.add("batches", (), 1)
        self.observe("batch_duration_seconds", progress.batchDuration / 1000)
        watermark = str((progress.eventTime or {}).get("watermark", "1970"))
        if not watermark.startswith("1970"):  # Spark's word for none
            self.raise_to("watermark_timestamp_seconds", (), datetime.fromisoformat(watermark).timestamp())
        counted = (progress.observedMetrics or {}).get(OUTPUT)
        rows = progress.sink.numOutputRows if counted is None else counted[0]
        if rows >= 0:  # Spark's -1 is for sinks that do not say
            self.add("output_rows", (), rows)
        self._end_sources(progress, spark)
        self.take(counters_by_key(progress))

    def _end_sources(self, progress: Any, spark: SparkSession) -> None:
        known = sources_of(spark, str(progress.id))
        for at, source in enumerate(progress.sources):
            of = known[at] if len(known) == len(progress.sources) else None
            label = (of.names[0] if of is not None and of.names else source.description,)
            if not live.is_live(self.run):
                self.add("input_rows", label, source.numInputRows // (of.reads if of is not None else 1))
            if (behind := (source.metrics or {}).get(_BEHIND)) is not None:
                self.add("source_offsets_behind", label, float(behind))


def _streams(key: str) -> dict[str, str]:
    """Return by alias what a join's streams are called in the session, in small letters, where that is known."""
    spec = known_join(key)
    return {} if spec is None else {one.alias: (one.reads or one.alias).lower() for one in spec.streams}


class Queries(Collector, StreamingQueryListener):
    """The queries of a session: Spark tells it of each batch, Prometheus asks it for totals."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._totals: dict[str, Totals] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's names)
        """Begin with a query; its next run goes on counting."""
        with self._lock:
            self._known(str(event.id), str(event.runId), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Add a batch."""
        progress = event.progress
        with self._lock:
            self._known(str(progress.id), str(progress.runId), progress.name).end(progress, self._spark)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget a query, unless it runs again: Spark may tell that first."""
        with self._lock:
            totals = self._totals.get(str(event.id))
            if totals is not None and totals.run == str(event.runId):
                del self._totals[str(event.id)]

    def _known(self, query: str, run: str, name: str | None) -> Totals:
        totals = self._totals.setdefault(query, Totals(name or query, run))
        if totals.run != run:
            totals.run, totals.batch = run, -1  # its last batch may come again
            for name in ("state_rows", "state_bytes"):  # of units that it may not have any more
                totals.values.pop(name, None)
        return totals

    def describe(self) -> list[Metric]:
        """Return nothing: what there is depends on the queries."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the families of metrics."""
        with self._lock:
            found = [self._now(totals) for totals in self._totals.values()]
        for name, (kind, labels, told) in METRICS.items():
            family = kind(f"trijoin_{name}", told, labels=("query", *labels))
            for totals in found:
                if name in totals.histograms:
                    family.add_metric([totals.name], _buckets(name, totals.histograms[name]), totals.sums[name])
                for values, number in totals.values.get(name, {}).items():
                    family.add_metric([totals.name, *values], number)
            yield family

    def _now(self, totals: Totals) -> Totals:
        """Return a query's numbers, in real time with what its cells have told since the last batch that has ended."""
        now = copy.deepcopy(totals)
        batches: dict[int, list[tuple[str, BatchCounters]]] = defaultdict(list)
        for (key, batch), slots in live.reports(totals.run, totals.batch + 1).items():
            batches[batch].append((key, BatchCounters(key.partition(RUN)[0], batch, tuple(slots))))
        for _, nodes in sorted(batches.items()):
            now.take(nodes)
        return now


def _buckets(name: str, counts: Counter[float]) -> list[tuple[str, float]]:
    bounds = (*HISTOGRAMS[name], float("inf"))
    up_to = accumulate(counts[bound] for bound in bounds)
    return [("+Inf" if bound == float("inf") else repr(bound), some) for bound, some in zip(bounds, up_to, strict=True)]
