"""The state of a slot: durable chunks in Spark's state store, and the stores rebuilt from them.

Durable state is one map of Spark's: from chunk number to Arrow IPC bytes, and under the number `MANIFEST` a list of the
chunks of every store with the ids of their rows. Chunks are immutable; when many small ones have gathered (one for
every micro-batch), neighbours are merged into a larger one, tier by tier, so that n micro-batches leave about log n
chunks. The smallest are inside the manifest, which is read and written anyway: each call of the state store costs more
than their bytes.
"""

from __future__ import annotations

import uuid
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, pairwise
from typing import Protocol

import pyarrow as pa
from pyspark.errors import PySparkException

from ...errors import CheckpointDamagedError, CheckpointMismatchError
from ..batches.ipc import CHUNK_BYTES, MERGED_BYTES, from_bytes, to_bytes, uniform
from ..batches.pieces import concat, copied, split
from ..schemes.base import Slot
from ..store.segment import AHEAD, ARCHIVE_PERIODS, Body, Segment, joint_zones, lanes, longest
from ..store.settled import PAGE_BYTES
from ..store.store import Store
from ..worker_memory import release
from .changed_query import difference, is_same
from .layout import History
from .manifest import MANIFEST, Chunk, Manifest
from .warm import WarmCopy
from .worker import WORKER

#: Chunks of one tier that are merged into one of the next.
FAN_IN = 8

#: More chunks than these merge whatever their times are.
CROWDED = 128

#: How many earlier versions a manifest names. A worker with a view of one of them reads only the chunks after it.
LINEAGE = 64

#: Bytes of a chunk that goes into the manifest, and of all that do: the manifest is written every micro-batch.
INSIDE_BYTES, ALL_INSIDE_BYTES = 4 << 10, 128 << 10

#: Bytes of rows in one segment that is brought back from the state store: for a moment they are there twice.
BROUGHT_BYTES = 8 << 20

#: Bytes that segments brought back from the state store for one probe may take of a worker's own memory.
VISITING_BYTES = 2 * BROUGHT_BYTES


class ChunkMap(Protocol):
    """Spark's ``MapState`` (or anything like it) with keys ``(number,)`` and values ``(bytes,)``."""

    def containsKey(self, key: tuple[int]) -> bool: ...  # noqa: N802

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None: ...  # noqa: N802

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None: ...  # noqa: N802

    def removeKey(self, key: tuple[int]) -> None: ...  # noqa: N802


class SlotState:
    """A slot with its state, for one micro-batch.

    It is made from what is durable. Then come the work on `slot`, `expire` and `save`.

    Parameters
    ----------
    make
        Makes the empty slot.
    chunks
        The durable chunks and their manifest; empty at the beginning.
    fingerprint
        Of the query that runs now.
    layouts
        The layouts of the units up to this micro-batch.
    warm_bytes
        Bytes that the warm copies of a machine may take, None for any number.
    made_for
        The spec that the slot is made of. It may differ between two runs of a query with one fingerprint (how long rows
        are kept follows the session's time zone), so a slot that this worker has from an earlier run may not fit.

    Raises
    ------
    CheckpointMismatchError
        If the manifest was written by another query, or with units that this one does not know of.
    CheckpointDamagedError
        If a chunk is not what the manifest says.
    CheckpointVersionError
        If another version wrote the manifest, in a format that this one does not know.
    """

    def __init__(
        self,
        make: Callable[[], Slot],
        chunks: ChunkMap,
        fingerprint: str,
        layouts: History,
        warm_bytes: int | None = None,
        made_for: object = None,
    ) -> None:
        self.chunks, self.made_for = chunks, made_for
        self.fetched = self._inside = 0
        # Spark logs a warning for each value that is asked for and not there.
        saved = chunks.getValue((MANIFEST,)) if chunks.containsKey((MANIFEST,)) else None
        if saved is None:
            self.manifest = Manifest(uuid.uuid4().hex, uuid.uuid4().hex, -1, fingerprint, layouts=layouts)
            self.slot, self.warm = make(), WarmCopy(self.manifest.uid, warm_bytes)
            return
        self.manifest = Manifest.from_bytes(bytes(saved[0]))
        if not is_same(self.manifest.fingerprint, fingerprint):
            raise CheckpointMismatchError("of this query", difference(self.manifest.fingerprint, fingerprint))
        before, self.manifest.layouts = self.manifest.layouts, layouts
        if layouts.until(self.manifest.batch).entries != before.entries:
            raise CheckpointMismatchError("of this query", _other_units(before, layouts))
        self.warm = WarmCopy(self.manifest.uid, warm_bytes)
        try:
            self._load(make, layouts, before, warm_bytes)
        except Exception as error:
            self.distrust(error)
            raise

    def _load(self, make: Callable[[], Slot], layouts: History, before: History, warm_bytes: int | None) -> None:
        """Take the slot that this worker has, or what the warm copy has of it; the rest comes from the state store."""
        recent = WORKER.recent.pop(self.manifest.uid, None)
        same_units = before.entries[-1] == layouts.entries[-1]  # a slot knows how many units there are
        if recent is not None and recent[:2] == (self.manifest.nonce, self.made_for) and same_units:
            _, _, self.slot, self.warm = recent
            self.warm.limit = warm_bytes
            self.warm.revise(self.slot.stores)
        else:
            self.slot = make()
            self.warm.load([self.manifest.nonce, *reversed(self.manifest.lineage)], self.slot.stores)
        for name, store in self.slot.stores.items():
            self._catch_up(name, store)
            if store.settled is not None:
                store.settled.read = partial(self._page, name)
                store.settle_emitted(self.manifest.watermark)

    def _catch_up(self, name: str, store: Store) -> None:
        """Complete a store's list of segments: what the warm copy lacks will come from the state store."""
        chunks = self.manifest.chunks.get(name, [])
        known: list[Segment] = []
        lost: list[Segment] = []
        for segment in store.segments:
            # One that lost chunks to time cannot come back whole: whether its file is damaged is seen before its use.
            here = segment.is_here if _is_whole(segment, chunks) else segment.body is not None
            (known if here else lost).append(segment)
        begins = {chunk.start for chunk in chunks}
        for absent in _joined(lost, begins):
            for piece in self._absent(store, chunks, absent[0].start, absent[-1].stop):
                parts = [one for one in absent if one.start < piece.stop and piece.start < one.stop]
                piece.zones, piece.longest = joint_zones(parts), max(one.longest for one in parts)
                known.append(piece)
        next_ids = self.manifest.next_ids.get(name, [0, AHEAD])
        for seen, stop in zip(store.next_ids, next_ids, strict=True):
            known += self._absent(store, chunks, seen, stop)
        store.segments, store.next_ids = sorted(known, key=lambda segment: segment.start), list(next_ids)
        for segment in known:
            segment.fetch = partial(self._bring_back, store, chunks)

    def _absent(self, store: Store, chunks: list[Chunk], start: int, stop: int) -> Iterator[Segment]:
        """Yield segments without a body for the rows of some ids, as far as there still are chunks of them."""
        waiting: list[Chunk] = []

        def made() -> Segment:
            first = max(waiting[0].start, start)
            oldest = min((chunk.oldest for chunk in waiting if chunk.oldest is not None), default=None)
            newest = max((chunk.newest for chunk in waiting if chunk.newest is not None), default=None)
            last = min(waiting[-1].start + waiting[-1].rows, stop)
            segment = Segment(first, last - first, oldest, newest, sum(chunk.raw for chunk in waiting))
            segment.longest = max(chunk.raw for chunk in waiting)  # nobody has seen its texts: a row has no more
            return segment

        for chunk in chunks:
            if chunk.start >= stop or chunk.start + chunk.rows <= start:
                continue
            if waiting and (
                waiting[-1].start + waiting[-1].rows != chunk.start
                or sum(one.raw for one in waiting) + chunk.raw > BROUGHT_BYTES
                or not store.life.may_merge(waiting[0], chunk)
            ):
                yield made()
                waiting = []
            waiting.append(chunk)
        if waiting:
            yield made()

    def _bring_back(self, store: Store, chunks: list[Chunk], segment: Segment) -> Body:
        """Read a segment from the state store; it stays in the warm copy if there is room, else for a while only."""
        pieces = []
        for chunk in chunks:
            first, last = max(chunk.start, segment.start), min(chunk.start + chunk.rows, segment.stop)
            if first < last:
                pieces.append(self._rows(chunk).slice(first - chunk.start, last - first))
        rows = concat(pieces)
        if rows.num_rows != segment.count:
            told = f"of the rows {segment.start} to {segment.stop - 1} of {store.name} it holds {rows.num_rows}"
            raise CheckpointDamagedError("of this query", told)
        body = segment.body = rows, store.indexed(rows)
        segment.zones = {key: index.zone() for key, index in body[1].items()}
        segment.longest = longest(rows)
        size = segment.size = max(int(rows.nbytes), 1)
        del pieces
        release(size, self.warm.limit)  # what decoding took
        if not self.warm.takes(size):
            return body
        if self.warm.has_room(2 * size):
            with suppress(OSError):
                self.warm.write(segment, store)
            if segment.file is not None and segment.body is not None:
                return segment.body
            segment.body = body  # no file could be written
        WORKER.visiting[segment] = size
        while len(WORKER.visiting) > 1 and sum(WORKER.visiting.values()) > VISITING_BYTES:
            leaving, _ = WORKER.visiting.popitem(last=False)
            if leaving.file is None:
                leaving.body = None
        return body

    def _held(self, store: Store, chunk: Chunk) -> pa.RecordBatch | None:
        """Return a chunk's rows as the slot holds them, None if they have to be read back.

        Spark gives a value's bytes out one by one (80 MB a second). But what the warm copy holds may be damaged, and
        what is merged from it is durable: the rows count if they make the bytes of the chunk that they were.
        """
        if chunk.check is None or chunk.number is None:
            return None
        held = store.held(chunk.start, chunk.start + chunk.rows)
        if held is None:
            return None
        # With another, empty piece they are copied: bytes of a slice go on with those of the rows behind it.
        rows = copied([*held, held[0].slice(0, 0)])
        return rows if zlib.crc32(to_bytes(rows, compress=True)) == chunk.check else None

    def _rows(self, chunk: Chunk) -> pa.RecordBatch:
        return uniform(from_bytes(self._read(chunk)))  # as it came under the settings of then

    def _read(self, chunk: Chunk) -> bytes:
        if chunk.number is None:
            return chunk.data
        value = self.chunks.getValue((chunk.number,))
        if value is None:
            raise CheckpointDamagedError("of this query", f"chunk {chunk.number} is missing from the state store")
        if len(value[0]) != chunk.size:
            raise CheckpointDamagedError(
                "of this query", f"chunk {chunk.number} has {len(value[0])} bytes instead of {chunk.size}"
            )
        self.fetched += len(value[0])
        data = bytes(value[0])
        if chunk.check is not None and zlib.crc32(data) != chunk.check:
            raise CheckpointDamagedError("of this query", f"chunk {chunk.number} has other bytes than were written")
        return data

    def _page(self, name: str, page: int) -> bytes | None:
        number = self.manifest.settled.get(name, {}).get(page)
        if number is None:
            return None
        value = self.chunks.getValue((number,))
        if value is None:
            raise CheckpointDamagedError("of this query", f"page {page} of {name} is missing from the state store")
        try:
            return zlib.decompress(bytes(value[0]))
        except zlib.error as error:
            raise CheckpointDamagedError("of this query", f"page {page} of {name} cannot be read: {error}") from None

    def _save_settled(self, name: str, store: Store) -> None:
        """Make the changed pages of settled rows durable, and forget those of rows that have gone."""
        if store.settled is None:
            return
        numbers = self.manifest.settled.setdefault(name, {})
        live = {page for one in store.segments for page in store.settled.pages_of(one.start, one.stop)}
        store.settled.keep(live)
        for page in [page for page in numbers if page not in live]:
            self.chunks.removeKey((numbers.pop(page),))
        for page, data in store.settled.changes():
            if page not in numbers:
                numbers[page] = self.manifest.next_number
                self.manifest.next_number += 1
            self.chunks.updateValue((numbers[page],), (zlib.compress(data, 1),))

    def distrust(self, error: Exception) -> None:
        """Delete the slot's warm copy after an error that damage in it may have caused, so that none is tried twice.

        The state store's own errors, and those of a task that is being stopped, are none.
        """
        if not isinstance(error, OSError | EOFError | PySparkException):
            self.warm.drop()

    def expire(self, watermark: int) -> int:
        """Forget what no row above the watermark (microseconds) can join; return how many rows went."""
        self.manifest.watermark = max(self.manifest.watermark, watermark)
        return sum(store.expire(watermark) for store in self.slot.stores.values())

    def clear(self) -> None:
        """Forget all rows."""
        for store in self.slot.stores.values():
            store.clear()

    def save(self, batch: int) -> None:
        """Make this micro-batch's changes durable and warm."""
        self._end_visits()
        self._inside = self.manifest.inside()  # followed from here on: a sum over all chunks for each new one adds up
        self.manifest.lineage = [*self.manifest.lineage, self.manifest.nonce][-LINEAGE:]
        self.manifest.nonce, self.manifest.batch = uuid.uuid4().hex, batch
        for name, store in self.slot.stores.items():
            near, ahead = lanes(self.manifest.chunks.get(name, []))
            for start, rows in store.fresh:
                for piece in split(rows, CHUNK_BYTES):
                    (near if start < AHEAD else ahead).append(self._write(store, start, 0, piece))
                    start += piece.num_rows
                store.fresh = store.fresh[1:]
            for listed in (near, ahead):
                self._drop(store, listed)
                self._seal(store, listed)
                self._merge(store, listed)
            self.manifest.chunks[name] = near + ahead
            self._save_settled(name, store)
            store.compact()
            self.warm.keep(store)  # before the next store merges: one merge at a time is in memory
            self.manifest.next_ids[name] = list(store.next_ids)
        self.manifest.timer = self._due()
        self.warm.save(self.manifest.nonce, self.slot.stores)
        WORKER.recent[self.manifest.uid] = (self.manifest.nonce, self.made_for, self.slot, self.warm)
        self.chunks.updateValue((MANIFEST,), (self.manifest.to_bytes(),))

    def _due(self) -> int | None:
        """Return when the next chunks expire (milliseconds), those of about one archive period at once.

        That is later than the watermark. Spark calls a slot as soon as the watermark has reached its timer, in the same
        micro-batch too, and then deletes the timer: one set anew for the same time would be gone with it.
        """
        found = []
        for name, store in self.slot.stores.items():
            kept = store.life.keep_for
            chunks, watermark = self.manifest.chunks.get(name, []), self.manifest.watermark
            newest = [one.newest for one in chunks if one.newest is not None]
            newest = [time for time in newest if not store.life.is_over(time, watermark)]  # others wait for these
            if kept is not None and newest:
                period = max(kept // ARCHIVE_PERIODS, 1000)
                found.append(-(-(min(newest) + kept) // period) * period // 1000 + 1)
            due = store.next_due(self.manifest.watermark)
            if due is not None:
                found.append(-(-due // 1000))
        return max(min(found), 1) if found else None  # rows from before 1970 go when there is a watermark at all

    def size(self) -> dict[str, int]:
        """Return the rows that are kept, and the bytes and number of durable chunks."""
        chunks = list(self.manifest.all())
        pages = sum(map(len, self.manifest.settled.values()))
        return {
            "state_rows": sum(len(store) for store in self.slot.stores.values()),
            "state_bytes": sum(chunk.size for chunk in chunks) + pages * PAGE_BYTES,
            "state_chunks": len(chunks) + pages,
        }

    def _drop(self, store: Store, listed: list[Chunk]) -> None:
        """Remove chunks of which no row is needed any more."""
        for chunk in list(listed):
            stop = chunk.start + chunk.rows
            if store.may_forget(chunk.start, stop, chunk.newest, self.manifest.watermark):
                self._remove(chunk)
                listed.remove(chunk)

    def _remove(self, chunk: Chunk) -> None:
        if chunk.number is None:
            self._inside -= chunk.size
        else:
            self.chunks.removeKey((chunk.number,))

    def _write(self, store: Store, start: int, tier: int, rows: pa.RecordBatch) -> Chunk:
        data = to_bytes(rows, compress=True)
        oldest, newest = store.life.span(rows)
        chunk = Chunk(None, start, rows.num_rows, len(data), tier, oldest, newest, rows.nbytes, zlib.crc32(data))
        if chunk.size <= INSIDE_BYTES and self._inside + chunk.size <= ALL_INSIDE_BYTES:
            chunk.data = data
            self._inside += chunk.size
            return chunk
        chunk.number = self.manifest.next_number
        self.manifest.next_number += 1
        self.chunks.updateValue((chunk.number,), (data,))
        return chunk

    def _seal(self, store: Store, listed: list[Chunk]) -> None:
        """Merge what tiers have left of an archive period once a chunk of the next one has come."""
        if store.life.keep_for is None or len(listed) < 2:
            return
        length = max(store.life.keep_for // ARCHIVE_PERIODS, 1)
        newest = accumulate((-1 if chunk.newest is None else chunk.newest // length for chunk in listed), max)
        periods = list(newest)
        last = bisect_left(periods, periods[-1])
        first, together = last, 0
        while first > 0 and periods[first - 1] == periods[last - 1]:
            together += listed[first - 1].raw
            if together > MERGED_BYTES:
                break
            first -= 1
        if last - first > 1:
            self._replace(store, listed, first, last)

    def _merge(self, store: Store, listed: list[Chunk]) -> None:
        """Merge the youngest chunks while `FAN_IN` of them are of one tier and small."""
        while len(listed) >= FAN_IN:
            youngest = listed[-FAN_IN:]
            tier = youngest[-1].tier
            together = sum(chunk.raw for chunk in youngest)
            if any(chunk.tier != tier for chunk in youngest) or together > MERGED_BYTES:
                return
            apart = not all(store.life.may_merge(youngest[0], chunk) for chunk in youngest[1:])
            if apart and len(listed) <= CROWDED:
                return
            if not self._replace(store, listed, len(listed) - FAN_IN, len(listed)):
                return

    def _replace(self, store: Store, listed: list[Chunk], first: int, last: int) -> bool:
        """Put one chunk in the place of neighbours; return False if rows between them have gone."""
        some = listed[first:last]
        if any(one.start + one.rows != other.start for one, other in pairwise(some)):
            return False  # ids must stay what they are
        rows = concat([self._held(store, chunk) or self._rows(chunk) for chunk in some])
        merged = self._write(store, some[0].start, max(chunk.tier for chunk in some) + 1, rows)
        for chunk in some:
            self._remove(chunk)
        listed[first:last] = [merged]
        return True

    def _end_visits(self) -> None:
        """Let go of the segments that this slot brought back for a visit."""
        for store in self.slot.stores.values():
            for segment in store.segments:
                if WORKER.visiting.pop(segment, None) is not None and segment.file is None:
                    segment.body = None


def _joined(segments: Iterable[Segment], begins: Collection[int]) -> Iterator[list[Segment]]:
    """Yield segments in groups whose neighbours share a chunk (chunks have merged since): it is read once for all."""
    group: list[Segment] = []
    for segment in segments:
        if group and (group[-1].stop != segment.start or segment.start in begins):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _is_whole(segment: Segment, chunks: Sequence[Chunk]) -> bool:
    """Return whether there still are chunks of all rows of a segment."""
    first = max(bisect_right(chunks, segment.start, key=lambda chunk: chunk.start) - 1, 0)
    last = bisect_left(chunks, segment.stop, key=lambda chunk: chunk.start)
    rows = (min(one.start + one.rows, segment.stop) - max(one.start, segment.start) for one in chunks[first:last])
    return sum(max(count, 0) for count in rows) == segment.count


def _other_units(before: History, now: History) -> str:
    old, new = before.entries[-1][1], now.entries[-1][1]
    if old == new:
        return (
            "its units changed earlier, and this task was not told when. Only a classic session can go on with it, not "
            "Spark Connect, and only with the file trijoin/joins-N.json of the checkpoint. In a foreachBatch function "
            "let its own thread or a pyspark.InheritableThread run what uses the results"
        )
    return (
        f"it has {old} units and the query {new}, and this task was not told that they changed. On Spark Connect units "
        f"cannot change: give the query UNITS({old}) again, or go on with it in a classic session. In a foreachBatch "
        f"function let its own thread or a pyspark.InheritableThread run what uses the results"
    )
