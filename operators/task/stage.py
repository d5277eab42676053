"""One stage of a join at work in a slot (the papers' JoinBolt): what is done with a micro-batch.

A call gets the packed rows of one slot and one micro-batch, loads the slot, lets the scheme work rank by rank, gives
results out as they come and makes the changes durable at the end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from ..batches.ipc import from_bytes
from ..kernels.order_keys import values
from ..kernels.sorting import forget
from ..results.bundle import Bundle
from ..results.local_views import Reducer
from ..results.outcomes import Outcome, Result, listed
from ..schemes import SCHEMES
from ..schemes.base import Slot, Work
from ..spec import JoinSpec
from ..state.clock import Clock
from ..state.layout import is_done, is_left, others_until
from ..state.slot_state import SlotState
from ..worker_memory import release
from .dispatch import BLOCK, BUNDLE, COUNTED, FILLER, PACK, PARTIAL, RESULT, slot_keys
from .late_rows import how_late
from .micro_batch import batch_id, for_this_batch, query_id
from .outputs import COUNTER_NAMES, LATE_ROWS, Output, PackedRow, framed, in_arrow
from .reports import EDGES, Reports
from .wire import block_from_bytes, bundle_from_bytes, pack_from_bytes


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a join.

    Parameters
    ----------
    spec
        The join.
    number
        Number of the stage.
    warm_bytes
        Bytes that the warm copies of a machine may take, None for any number.
    freezes
        Whether a worker may keep what it has imported out of garbage collection.
    streaming
        Whether state outlives the call. Then the slot also reports what it did: to the task's `reports`, or in a row
        behind its results where there are none.
    packed
        Whether results come out packed, for a further stage or for types that pandas does not carry unchanged.
    """

    spec: JoinSpec
    number: int
    warm_bytes: int | None = None
    freezes: bool = False
    streaming: bool = True
    packed: bool = False


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The watermark of a micro-batch, and what it means to a join.

    Parameters
    ----------
    spark
        As Spark has it, in milliseconds; 0 if there is none yet.
    event_time
        Up to where all event times have come, in microseconds: Spark's may be held back for results that lag.
    expiry
        By which rows expire, in microseconds: rows of a stateful operator of Spark's come behind that.
    """

    spark: int
    event_time: int
    expiry: int

    @classmethod
    def of(cls, spec: JoinSpec, spark: int) -> Watermarks:
        """Return what a watermark of Spark's means to a join."""
        if not spark:
            return cls(0, 0, 0)
        return cls(spark, spark * 1000 + spec.held_back_at(spark), spec.expiry_at(spark))


@dataclass(slots=True)
class Received:
    """What packed rows hold: work, and of an earlier stage its results (listed, or as bundles) and counters."""

    work: Work = field(default_factory=Work)
    listed: list[pa.RecordBatch] = field(default_factory=list)
    bundles: list[Bundle] = field(default_factory=list)
    counters: list[Mapping[str, Any]] = field(default_factory=list)
    size: int = 0

    @classmethod
    def of(cls, packed: Iterable[tuple[int, Any]]) -> Received:
        """Decode packed rows."""
        found = cls()
        for kind, data in packed:
            if kind == FILLER:
                continue
            found.size += len(data)
            if kind == PACK:
                found.work.packs.append(pack_from_bytes(data))
            elif kind == BLOCK:
                found.work.blocks.append(block_from_bytes(data))
            elif kind == PARTIAL:
                found.work.partials.append(from_bytes(data))
            elif kind == RESULT:
                found.listed.append(from_bytes(data))
            elif kind == BUNDLE:
                found.bundles.append(bundle_from_bytes(data))
            elif kind == COUNTED:
                found.counters.append(json.loads(bytes(data)))
            else:
                found.work.rows.setdefault(int(kind), []).append(from_bytes(data))
        return found


class StageTask:
    """A task's work on a stage: the slots of one partition in one micro-batch.

    Parameters
    ----------
    stage
        The stage.
    handle
        Spark's handle, for timers; None over tables.
    chunks
        The state variable: a map of chunks by number; None over tables.
    reports
        Where slots report to, None if in a row behind their results.

    Raises
    ------
    CheckpointMismatchError, CheckpointVersionError, CheckpointDamagedError
        The driver refuses the checkpoint.
    """

    def __init__(
        self,
        stage: Stage,
        handle: StatefulProcessorHandle | None = None,
        chunks: Any = None,
        reports: Accumulator[Reports] | None = None,
    ) -> None:
        self.stage, self.handle, self.chunks, self.reports = stage, handle, chunks, reports
        told = for_this_batch(stage.spec)
        self.spec, self.history, self.told = told.spec, told.history, told.before(batch_id())
        self.keeps_time = stage.streaming and stage.number == 0 and handle is not None and self.spec.drops_late
        self.time = next((stream.time for stream in stage.spec.streams if stream.time), None)
        self.state: SlotState | None = None  # of the slot that is at work

    def join(
        self, key: Any, rows: Iterator[Any], timer_values: Any, fired: int | None = None
    ) -> Iterator[pd.DataFrame]:
        """Join one micro-batch of one slot; ``fired`` is the timer (milliseconds) that calls it without rows."""
        if fired is not None and self.keeps_time:
            clock, now = Clock.read(self.chunks), self._watermark(timer_values)
            if clock is not None and not (clock.due is not None and clock.due <= now):
                self._set_clock(clock, replace(clock, watermark=now, timer=now + 1), fired)
                return iter(())
        packed = chain.from_iterable(zip(frame["kind"], frame["data"], strict=True) for frame in rows)
        return map(framed, in_arrow(self._trusting(self._batch(int(key[0]), packed, timer_values, fired))))

    def join_tables(self, key: int, packed: Iterable[tuple[int, bytes | pa.Buffer]]) -> Iterator[pa.RecordBatch]:
        """Join all rows of one slot: their ranks, or what else they are, with their bytes."""
        return in_arrow(self._batch(key, packed, None, None))

    def _trusting(self, found: Iterator[pa.RecordBatch | PackedRow]) -> Iterator[pa.RecordBatch | PackedRow]:
        """Put out what a slot finds; after an error have the next attempt do without its warm copy."""
        self.state = None
        try:
            yield from found
        except Exception as error:
            if self.state is not None:
                self.state.distrust(error)
            raise

    def _batch(
        self, key: int, packed: Iterable[tuple[int, Any]], timer_values: Any, fired: int | None
    ) -> Iterator[pa.RecordBatch | PackedRow]:
        """Do a micro-batch's work, in this order: nothing is durable before all results are out."""
        number = slot_keys(self.spec.slots).index(key)
        now = Watermarks.of(self.spec, self._watermark(timer_values))
        # 1. What has come, and the slot as it was.
        received = Received.of(packed)
        work, size = received.work, received.size
        inputs, rows = self._inputs(work), work.count
        slot, state = self._load(number)
        before, compared = Counter(slot.counters), _compared(slot)
        # 2. Late rows go, before anything is joined with them.
        clock = self._clock(state)
        late = {} if clock is None else self._drop_late(work, clock, number)
        tally = Counter({"late": sum(one["rows"] for one in late.values())})
        # 3. Results go out as they are found.
        forward = {rank: list(batches) for rank, batches in work.rows.items() if rank in slot.forwards}
        work.watermark = now.expiry if self.stage.streaming else None
        if state is not None and now.spark:  # an older version may have let rows expire earlier
            work.watermark = max(now.expiry, state.manifest.watermark)
        passed, received.listed = received.listed, []
        results: Iterator[Outcome] = chain(self._listed(received.bundles), self._counted(slot.process(work), tally))
        if self.spec.aggregate is not None:
            results, passed = Reducer(self.spec.aggregate).run(results, passed), []
        in_row = self.stage.streaming and self.reports is None
        output = Output(self.spec, key, packed=self.stage.packed, counted=in_row)
        yield from output.rows(results, passed, forward)
        release(size, self.stage.warm_bytes)  # before what saving takes
        # 4. What changed becomes durable, and the slot has itself called again.
        if state is not None:
            if now.spark > 0:  # after these rows, which were above the watermark before
                tally["expired"] = state.expire(now.expiry)
            if is_done(self.spec, number, slot.stores):
                state.clear()
            self._save(state, clock, now, number, fired)
        forget()
        release(size, self.stage.warm_bytes)
        # 5. The slot reports. What some slots alone say, called by timers, would look like a report of all.
        if self.stage.streaming and fired is None:
            after = slot.counters
            tally.update({name: after[name] - before[name] for name in COUNTER_NAMES})
            tally["comparisons"] += _compared(slot) - compared
            tally["rows_in"], tally["bytes_in"] = rows, size
            if state is not None:
                tally.update(state.size())
            edges = {name: after[name] - before[name] for name in after if name not in COUNTER_NAMES}
            said = [*received.counters, {**tally, "inputs": inputs, LATE_ROWS: late, EDGES: edges}]
            until = others_until(self.spec, number, slot.stores)
            told = None if until is None else (until, now.expiry, is_left(self.spec, number))
            report = output.report(number, said, now.event_time, told)
            if self.reports is None:
                yield output.in_row(report)
            else:
                self.reports.add({(query_id(), batch_id()): {number: report}})

    def _load(self, number: int) -> tuple[Slot, SlotState | None]:
        """Return a slot, with its state where that outlives the call."""

        def make() -> Slot:
            return SCHEMES[self.spec.scheme].stages(self.spec)[self.stage.number](self.spec, number)

        if not self.stage.streaming:
            return make(), None
        layouts = self.history.until(batch_id())
        self.state = SlotState(
            make, self.chunks, self.spec.fingerprint, layouts, self.stage.warm_bytes, made_for=self.spec
        )
        return self.state.slot, self.state

    def _clock(self, state: SlotState | None) -> Clock | None:
        """Return what the slot knows of the micro-batch before, None if it drops no late rows."""
        if state is None or not self.keeps_time:
            return None
        # State from before there were clocks knows by which watermark rows expired in the slot's last micro-batch.
        return Clock.read(self.chunks) or Clock(max(state.manifest.watermark // 1000 - self._lead, 0))

    def _save(self, state: SlotState, clock: Clock | None, now: Watermarks, number: int, fired: int | None) -> None:
        was_due = self._timer(state.manifest.timer)
        state.save(batch_id())
        due = self._timer(state.manifest.timer)
        if clock is None:
            self._set_timer(was_due, due, fired)
        else:
            needed = not is_left(self.spec, number) or any(map(len, state.slot.stores.values()))
            self._set_clock(clock, Clock(now.spark, due, now.spark + 1 if needed else None), fired)

    @property
    def _lead(self) -> int:
        """How much the time by which rows expire is ahead of Spark's watermark, in milliseconds."""
        return (self.spec.held_back if self.spec.behind is None else -self.spec.behind) // 1000

    def _timer(self, due: int | None) -> int | None:
        """Return as a time of Spark's (milliseconds) when rows are due to expire."""
        return None if due is None else max(due - self._lead, 1)

    def _set_clock(self, old: Clock, new: Clock, fired: int | None) -> None:
        """Have the slot called with the next watermark: Spark calls it when that has reached the timer."""
        if new != old:
            new.write(self.chunks)
            self._set_timer(old.timer, new.timer, fired)

    def _set_timer(self, old: int | None, new: int | None, fired: int | None) -> None:
        """Have the slot called later. Spark takes back a timer that has fired."""
        if self.time is None or self.handle is None or (old == new and fired is None):
            return
        if old is not None and old != fired:
            self.handle.deleteTimer(old)
        if new is not None:
            self.handle.registerTimer(new)

    def _inputs(self, work: Work) -> dict[str, int]:
        """Return for each stream that brought rows its newest event time (microseconds), 0 if it has none."""
        found = {}
        for rank, batches in work.rows.items():
            stream = self.spec.streams[rank]
            if any(batch.num_rows for batch in batches):
                newest = [pc.max(batch.column(stream.time)).as_py() for batch in batches] if stream.time else []
                found[stream.alias] = max((time for time in newest if time is not None), default=0)
        return found

    def _watermark(self, timer_values: Any) -> int:
        """Return the micro-batch's watermark as Spark has it in milliseconds, 0 if there is none (yet)."""
        if timer_values is None or not any(stream.time for stream in self.spec.streams):
            return 0
        return max(int(timer_values.getCurrentWatermarkInMs()), 0)

    def _drop_late(self, work: Work, clock: Clock, slot: int) -> dict[str, dict[str, Any]]:
        """Drop late rows; return by alias how many (see `LATE_ROWS`), each counted in one slot.

        As in Spark those are late that are at or before the watermark of the micro-batch before.
        """
        dropped: dict[str, dict[str, Any]] = {}
        watermark = Watermarks.of(self.spec, max(clock.watermark, self.told)).event_time
        if not watermark:
            return dropped
        for rank, batches in work.rows.items():
            stream = self.spec.streams[rank]
            time = stream.time
            if time is None or stream.stateful:
                continue
            for number, batch in enumerate(batches):
                late = pc.less_equal(batch.column(time), watermark)
                late = pc.fill_null(late, False)
                if pc.any(late).as_py():
                    self._count_late(dropped, rank, batch.filter(late), watermark, slot)
                    batches[number] = batch.filter(pc.invert(late))
        return dropped

    def _count_late(
        self, dropped: dict[str, dict[str, Any]], rank: int, rows: pa.RecordBatch, watermark: int, slot: int
    ) -> None:
        """Add those of some late rows that this slot counts."""
        stream = self.spec.streams[rank]
        mine = SCHEMES[self.spec.scheme].routing.counted(self.spec, rank, rows, slot)
        if not len(mine):
            return
        behind = how_late(values(rows.column(str(stream.time)).take(pa.array(mine))), watermark)
        about = {"of": stream.reads, "filtered": stream.filtered, "watermark": watermark}
        of = dropped.setdefault(stream.alias, {**about, "rows": 0, "behind": [0] * len(behind)})
        of["rows"] += len(mine)
        of["behind"] = [sum(some) for some in zip(of["behind"], behind, strict=True)]

    def _listed(self, bundles: list[Bundle]) -> Iterator[Result]:
        """Yield the results that an earlier stage has found and counted, and not listed."""
        while bundles:
            yield from listed(bundles.pop(), [stream.listed for stream in self.spec.streams])

    def _counted(self, results: Iterator[Outcome], tally: Counter[str]) -> Iterator[Outcome]:
        for result in results:
            if isinstance(result, Result | Bundle):
                tally["results"] += len(result)
            yield result


def _compared(slot: Slot) -> int:
    """Return how many comparisons a slot's stores have made."""
    return sum(store.compared for store in slot.stores.values())
