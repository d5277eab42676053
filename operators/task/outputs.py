"""What leaves a slot: results as typed frames for Spark, or packed for a further stage; and the slot's counters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..batches.ipc import PACKED_BYTES, from_bytes, to_bytes
from ..batches.pieces import combined, concat, split
from ..results.bundle import Bundle
from ..results.outcomes import Forwarded, Outcome, Pack, Partial, PartialBlock, Reduced, Result, listed
from ..schemes.routing import partner_slots
from ..spec import JoinSpec
from .dispatch import BLOCK, BUNDLE, COUNTED, NULL_ROWS, PACK, PARTIAL, RESULT, packed_rows, slot_keys
from .reports import EDGES
from .wire import block_to_bytes, bundle_to_bytes, pack_to_bytes

#: What a slot counts in each micro-batch; keys of the JSON objects in the ``COUNTERS`` column.
COUNTER_NAMES = (
    "stored",
    "hubs",
    "packs",
    "pairs",
    "comparisons",
    "results",
    "padded",
    "rows_in",
    "bytes_in",
    "nulls",
    "late",
    "expired",
    "state_rows",
    "state_bytes",
    "state_chunks",
)

#: In a report, for each alias with late rows: how many (``rows``), of which stream (``of``), whether conditions on
#: this alias have dropped other rows of it before (``filtered``), and how far they were behind the watermark
#: (``behind``: a number for each limit of `late_rows.LIMITS`, and for the rest).
LATE_ROWS = "late_rows"

#: In a report of cells of an earlier layout: when the rows expire there that are not the pivot's, up to when rows have
#: (`state.layout.History.passed`), and whether no rows of the pivot come there any more.
UNTIL = "until"

#: The output column that carries counters; null in rows of results.
COUNTERS = "__trijoin"

#: Rows of results that are put into one frame, and bytes: a frame is in memory up to three times on its way to Spark.
FRAME_ROWS, FRAME_BYTES = 1 << 16, PACKED_BYTES

#: A packed row: the slot's key, what is inside, and the bytes (`dispatch.PACKED_SCHEMA`).
PackedRow = tuple[int, int, bytes]


class Output:
    """The way out of a slot in one micro-batch.

    Parameters
    ----------
    spec
        The join.
    key
        The slot's key.
    packed
        Whether results come out packed, for a further stage or for types that pandas does not carry unchanged.
    counted
        Whether a row behind the results has the slot's report: then typed results have a column for it.
    """

    def __init__(self, spec: JoinSpec, key: int, *, packed: bool, counted: bool = True) -> None:
        self.spec, self.key, self.packed, self.counted = spec, key, packed, counted

    def rows(
        self,
        results: Iterator[Outcome],
        passed: list[pa.RecordBatch],
        forward: Mapping[int, list[pa.RecordBatch]],
    ) -> Iterator[pa.RecordBatch | PackedRow]:
        """Yield what a slot has found, as it is found.

        Parameters
        ----------
        results
            Of this stage.
        passed
            Results of earlier stages, with the output's columns.
        forward
            By rank: rows that this slot needs in the next stage.
        """
        return self._packed(results, passed, forward) if self.packed else self._typed(results, passed)

    def report(
        self, slot: int, tallies: list[Mapping[str, Any]], watermark: int, until: tuple[int, int, bool] | None = None
    ) -> str:
        """Return the slot's counters, summed over the stages so far, and what it knows of its inputs, as JSON.

        Cells of an earlier layout add `UNTIL`.
        """
        total = {name: sum(int(tally.get(name, 0)) for tally in tallies) for name in COUNTER_NAMES}
        inputs: dict[str, int | None] = {stream.alias: None for stream in self.spec.streams}
        inputs.update((alias, time) for tally in reversed(tallies) for alias, time in tally["inputs"].items())
        if self.spec.settles:  # its pairs are no input of the query
            inputs.pop(self.spec.streams[1].alias)
        reached = len({slot for block in self.spec.blocks for slot in block.slots})
        units: dict[str, Any] = {"units": self.spec.units, "slots": reached}
        if self.spec.subgroups > 1:
            units["subgroup"] = self.spec.subgroup_of(slot)[0]
            units["subgroups"] = self.spec.sizes(self.spec.blocks[0])
        report = {"slot": slot, **units, **total, "inputs": inputs, "watermark": watermark}
        if edges := sum((Counter(tally.get(EDGES, {})) for tally in tallies), Counter()):
            report[EDGES] = edges
        if nulls := [tally[NULL_ROWS] for tally in tallies if NULL_ROWS in tally]:
            report[NULL_ROWS] = add_null_rows(nulls)
        told = {stream.alias for stream in self.spec.streams if not stream.read_above}
        late = {alias: rows for tally in tallies for alias, rows in tally.get(LATE_ROWS, {}).items() if alias in told}
        if late:
            report[LATE_ROWS] = late
        if until is not None:
            report[UNTIL] = until
        return json.dumps(report)

    def in_row(self, report: str) -> pa.RecordBatch | PackedRow:
        """Return the slot's report as a row behind its results."""
        if self.packed:
            return self.key, COUNTED, report.encode()
        columns = [pa.nulls(1, pa.null()) for _ in self.spec.output]
        return pa.RecordBatch.from_arrays([*columns, pa.array([report])], names=[*self.spec.output, COUNTERS])

    def _typed(self, results: Iterator[Outcome], passed: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield results with the output's columns."""
        found = (named(self.spec, result) for result in results if isinstance(result, Result | Reduced))
        pieces = (piece for batch in chain(passed, found) for piece in split(batch, FRAME_BYTES))
        for rows in combined(pieces, FRAME_BYTES, FRAME_ROWS):
            if self.counted:
                columns = [*rows.columns, pa.nulls(rows.num_rows, pa.string())]
                yield pa.RecordBatch.from_arrays(columns, names=[*rows.schema.names, COUNTERS])
            else:
                yield rows

    def _packed(
        self,
        results: Iterator[Outcome],
        passed: list[pa.RecordBatch],
        forward: Mapping[int, list[pa.RecordBatch]],
    ) -> Iterator[PackedRow]:
        """Yield packs for the slots of the next stage, results for this slot there, and the rows that it needs."""
        units: list[int] | None = None
        for batch in passed:
            yield self.key, RESULT, to_bytes(batch)
        for rank, batches in forward.items():
            for batch in batches:
                yield self.key, rank, to_bytes(batch)
        waiting: list[pa.RecordBatch] = []
        size = 0
        for result in self._sent(results):
            if isinstance(result, Bundle):
                yield self.key, BUNDLE, bundle_to_bytes(result)
                continue
            if isinstance(result, Forwarded):
                yield self.key, result.rank, to_bytes(result.rows)
                continue
            if isinstance(result, Pack | Partial | PartialBlock):
                kind, data = _to_units(result)
                stays = isinstance(result, PartialBlock) and result.stays
                if units is None:
                    units = self._units()
                for to in [self.key] if stays else units:
                    yield to, kind, data
                continue
            assert isinstance(result, Result | Reduced)
            for piece in split(named(self.spec, result), PACKED_BYTES):  # groups come as many as there are
                waiting.append(piece)
                size += piece.nbytes
                if size >= PACKED_BYTES:
                    yield self.key, RESULT, to_bytes(concat(waiting))
                    waiting, size = [], 0
        if waiting:
            yield self.key, RESULT, to_bytes(concat(waiting))

    def _units(self) -> list[int]:
        """Return the keys of the slots whose units of the next stage may have partners of what is found here."""
        keys = slot_keys(self.spec.slots)
        return [keys[slot] for slot in partner_slots(self.spec, keys.index(self.key))]

    def _sent(self, results: Iterator[Outcome]) -> Iterator[Outcome]:
        """Copy what bundles need, or list them where that is less."""
        columns = [stream.listed for stream in self.spec.streams]
        for result in results:
            if not isinstance(result, Bundle):
                yield result
                continue
            for piece, small in result.sendable(columns, PACKED_BYTES):
                if small:
                    yield piece
                else:
                    yield from listed(piece, columns)


def named(spec: JoinSpec, result: Result | Reduced) -> pa.RecordBatch:
    """Return results with the output's names, in the output's order."""
    if isinstance(result, Reduced):
        return result.rows
    columns = {
        name: result.parts[rank].column(packed)
        for rank in sorted(result.parts, reverse=True)  # where two streams have a column, that of the first is it
        for packed, name in spec.streams[rank].payload
    }
    if spec.result_time is not None:
        times = [result.parts[rank].column(stream.time) for rank, stream in enumerate(spec.streams)]
        columns[spec.result_time] = pc.max_element_wise(*times)
    return pa.RecordBatch.from_arrays([columns[name] for name in spec.output], names=list(spec.output))


def _to_units(sent: Pack | Partial | PartialBlock) -> tuple[int, bytes]:
    """Return what goes to all units of the next stage: of which kind it is, and its bytes."""
    if isinstance(sent, Pack):
        return PACK, pack_to_bytes(sent)
    return (PARTIAL, to_bytes(sent.rows)) if isinstance(sent, Partial) else (BLOCK, block_to_bytes(sent))


def add_null_rows(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of what reports say about rows with NULL where a condition needs a value, by input."""
    total: dict[str, Any] = {}
    for report in reports:
        for alias, one in report.items():
            sums = total.setdefault(alias, {"rows": 0, "dropped": 0, "time": one["time"], "columns": {}})
            sums["rows"] += one["rows"]
            sums["dropped"] += one["dropped"]
            sums["columns"] = dict(Counter(sums["columns"]) + Counter(one["columns"]))
    return total


def in_arrow(outcomes: Iterator[pa.RecordBatch | PackedRow]) -> Iterator[pa.RecordBatch]:
    """Yield what leaves a slot as Arrow batches, packed rows up to `PACKED_BYTES` in one: each costs a millisecond."""
    waiting: list[PackedRow] = []
    size = 0
    for outcome in outcomes:
        if isinstance(outcome, pa.RecordBatch):
            yield outcome
            continue
        waiting.append(outcome)
        size += len(outcome[2])
        if size >= PACKED_BYTES:
            yield packed_rows(*zip(*waiting, strict=True))
            waiting, size = [], 0
    if waiting:
        yield packed_rows(*zip(*waiting, strict=True))


def framed(batch: pa.RecordBatch) -> pd.DataFrame:
    """Return a batch as a frame of Arrow-backed columns, for ``transformWithStateInPandas``."""
    # A third of what `to_pandas` takes for a few rows. (The class is public, and pandas-stubs do not know it.)
    columns = map(pd.arrays.ArrowExtensionArray, batch.columns)  # type: ignore[attr-defined]
    return pd.DataFrame(dict(zip(batch.schema.names, columns, strict=True)), copy=False)


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn packed results into rows, for ``mapInArrow``: any Arrow type, without a look at the values."""
    for batch in batches:
        for data in batch.column("data"):
            yield from_bytes(data.as_buffer())
