"""One stage of a join at work in a slot (the papers' JoinBolt): what is done with a micro-batch.

A call gets the packed rows of one slot and one micro-batch, loads the slot, lets the scheme work rank by rank, gives
results out as they come and makes the changes durable at the end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from ..spec import KEEP_FREED, JoinSpec
from ..state.clock import Clock
from ..state.slot_state import SlotState
from ..worker_memory import hold, release
from .dispatch import BLOCK, BUNDLE, COUNTED, FILLER, PACK, PARTIAL, RESULT, slot_keys
from .late_rows import how_late
from .micro_batch import batch_id, for_this_batch, query_id
from .outputs import COUNTER_NAMES, LATE_ROWS, Output, PackedRow, framed, in_arrow
from .reports import Reports
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
    liberties
        What a worker may do about its memory, by name.
    streaming
        Whether state outlives the call. Then the slot also reports what it did: to the task's `reports`, or in a row
        behind its results where there are none.
    packed
        Whether results come out packed, for a further stage or for types that pandas does not carry unchanged.
    """

    spec: JoinSpec
    number: int
    warm_bytes: int | None = None
    liberties: frozenset[str] = frozenset()
    streaming: bool = True
    packed: bool = False


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
        if KEEP_FREED in stage.liberties:
            hold(stage.warm_bytes)
        self.time = next((stream.time for stream in stage.spec.streams if stream.time), None)
        self.state: SlotState | None = None  # of the slot that is at work

    def join(
        self, key: Any, rows: Iterator[Any], timer_values: Any, fired: int | None = None
    ) -> Iterator[pd.DataFrame]:
        """Join one micro-batch of one slot; ``fired`` is the timer (milliseconds) that calls it without rows."""
        if fired is not None and self.keeps_time:
            clock, sparks = Clock.read(self.chunks), self._watermark(timer_values)
            if clock is not None and not (clock.due is not None and clock.due <= sparks):
                self._set_clock(clock, replace(clock, watermark=sparks, timer=sparks + 1), fired)
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
        slot_number = slot_keys(self.spec.slots).index(key)

        def make() -> Slot:
            return SCHEMES[self.spec.scheme].stages(self.spec)[self.stage.number](self.spec, slot_number)

        work, passed, bundles, earlier, received = self._unpack(packed)
        state: SlotState | None = None
        if self.stage.streaming:
            layouts = self.history.until(batch_id())
            state = self.state = SlotState(
                make, self.chunks, self.spec.fingerprint, layouts, self.stage.warm_bytes, made_for=self.spec
            )
        slot = make() if state is None else state.slot
        sparks = self._watermark(timer_values)
        watermark = sparks * 1000 + self.spec.held_back_at(sparks) if sparks else 0
        expiry = sparks * 1000 if self.spec.has_stateful_input else watermark
        inputs, rows = self._inputs(work), work.count
        before, compared = Counter(slot.counters), _compared(slot)
        late: dict[str, dict[str, Any]] = {}
        tally: Counter[str] = Counter()
        clock = None
        if state is not None and self.keeps_time:
            # State from before there were clocks knows by which watermark rows expired in the slot's last micro-batch.
            clock = Clock.read(self.chunks) or Clock(max(state.manifest.watermark // 1000 - self._lead, 0))
            if last := max(clock.watermark, self.told):
                late = self._drop_late(work, last * 1000 + self.spec.held_back_at(last), slot_number)
            tally["late"] = sum(one["rows"] for one in late.values())
        forward = {rank: list(batches) for rank, batches in work.rows.items() if rank in slot.forwards}
        work.watermark = expiry if self.stage.streaming else None
        results: Iterator[Outcome] = chain(self._listed(bundles), self._counted(slot.process(work), tally))
        if self.spec.aggregate is not None:
            results, passed = Reducer(self.spec.aggregate).run(results, passed), []
        in_row = self.stage.streaming and self.reports is None
        output = Output(self.spec, key, packed=self.stage.packed, counted=in_row)
        yield from output.rows(results, passed, forward)
        release(received, self.stage.warm_bytes)  # before what saving takes
        if state is not None:
            if sparks > 0:  # after these rows, which were above the watermark before
                tally["expired"] = state.expire(expiry)
            was_due = self._sparks(state.manifest.timer)
            state.save(batch_id())
            due = self._sparks(state.manifest.timer)
            if clock is None:
                self._set_timer(was_due, due, fired)
            else:
                needed = slot_number in self.spec.blocks[0].slots or any(map(len, slot.stores.values()))
                self._set_clock(clock, Clock(sparks, due, sparks + 1 if needed else None), fired)
        forget()
        release(received, self.stage.warm_bytes)
        if self.stage.streaming and fired is None:  # a report of some slots alone would look like one of all
            after = slot.counters
            tally.update({name: after[name] - before[name] for name in COUNTER_NAMES})
            tally["comparisons"] += _compared(slot) - compared
            tally["rows_in"], tally["bytes_in"] = rows, received
            if state is not None:
                tally.update(state.size())
            report = output.report(slot_number, [*earlier, {**tally, "inputs": inputs, LATE_ROWS: late}], watermark)
            if self.reports is None:
                yield output.in_row(report)
            else:
                self.reports.add({(query_id(), batch_id()): {slot_number: report}})

    @property
    def _lead(self) -> int:
        """How much the time by which rows expire is ahead of Spark's watermark, in milliseconds."""
        return 0 if self.spec.has_stateful_input else self.spec.held_back // 1000

    def _sparks(self, due: int | None) -> int | None:
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

    def _drop_late(self, work: Work, watermark: int, slot: int) -> dict[str, dict[str, Any]]:
        """Drop rows at or before a watermark; return by alias how many (see `LATE_ROWS`), each counted in one slot.

        As in Spark it is that of the micro-batch before.
        """
        dropped: dict[str, dict[str, Any]] = {}
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

    def _unpack(
        self, packed: Iterable[tuple[int, Any]]
    ) -> tuple[Work, list[pa.RecordBatch], list[Bundle], list[Mapping[str, Any]], int]:
        """Decode packed rows; results (listed, or as bundles) and counters of an earlier stage come back apart."""
        work, received = Work(), 0
        passed: list[pa.RecordBatch] = []
        bundles: list[Bundle] = []
        earlier: list[Mapping[str, Any]] = []
        for kind, data in packed:
            if kind == FILLER:
                continue
            received += len(data)
            if kind == PACK:
                work.packs.append(pack_from_bytes(data))
            elif kind == BLOCK:
                work.blocks.append(block_from_bytes(data))
            elif kind == PARTIAL:
                work.partials.append(from_bytes(data))
            elif kind == RESULT:
                passed.append(from_bytes(data))
            elif kind == BUNDLE:
                bundles.append(bundle_from_bytes(data))
            elif kind == COUNTED:
                earlier.append(json.loads(bytes(data)))
            else:
                work.rows.setdefault(int(kind), []).append(from_bytes(data))
        return work, passed, bundles, earlier, received

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
