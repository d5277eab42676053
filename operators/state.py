"""The state of a slot: durable chunks in Spark's state store, and the stores rebuilt from them.

Durable state is a map from chunk number to Arrow IPC bytes and one manifest (JSON) that lists the chunks of every store
with the ids of their rows. Chunks are immutable; when many small ones have gathered (one for every micro-batch),
neighbours are merged into a larger one, tier by tier, so that n micro-batches leave about log n chunks.
"""

from __future__ import annotations

import json
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from ..errors import CheckpointMismatchError
from .chunk import CHUNK_BYTES, from_bytes, split, to_bytes
from .layout import History
from .schemes.base import Slot
from .store import Store
from .warm import WarmCopy

FORMAT = 1

#: Chunks of one tier that are merged into one of the next.
FAN_IN = 8


class ChunkMap(Protocol):
    """Spark's ``MapState`` (or anything like it) with keys ``(number,)`` and values ``(bytes,)``."""

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None: ...  # noqa: N802

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None: ...  # noqa: N802

    def removeKey(self, key: tuple[int]) -> None: ...  # noqa: N802


@dataclass(slots=True)
class Chunk:
    """One durable chunk: rows with ids ``start`` to ``start + rows`` of a store."""

    number: int
    start: int
    rows: int
    size: int
    tier: int = 0
    oldest: int | None = None
    newest: int | None = None


@dataclass(slots=True)
class Manifest:
    """What a slot's durable state consists of.

    Parameters
    ----------
    uid
        Identity of the state, given once.
    nonce
        Identity of this version, new for every attempt of every batch.
    layouts
        The layouts of the units up to the batch.
    """

    uid: str
    nonce: str
    batch: int
    fingerprint: str
    next_number: int = 0
    watermark: int = 0
    next_ids: dict[str, int] = field(default_factory=dict)
    chunks: dict[str, list[Chunk]] = field(default_factory=dict)
    layouts: History = field(default_factory=lambda: History(()))

    def to_json(self) -> str:
        """Return the manifest as text."""
        body = {
            "format": FORMAT,
            "uid": self.uid,
            "nonce": self.nonce,
            "batch": self.batch,
            "fingerprint": self.fingerprint,
            "next_number": self.next_number,
            "watermark": self.watermark,
            "next_ids": self.next_ids,
            "layouts": self.layouts.to_dict()["layouts"],
            "chunks": {
                name: [[c.number, c.start, c.rows, c.size, c.tier, c.oldest, c.newest] for c in chunks]
                for name, chunks in self.chunks.items()
            },
        }
        return json.dumps(body, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Return the manifest in a text."""
        body: dict[str, Any] = json.loads(text)
        return cls(
            body["uid"],
            body["nonce"],
            body["batch"],
            body["fingerprint"],
            body["next_number"],
            body["watermark"],
            body["next_ids"],
            {name: [Chunk(*entry) for entry in entries] for name, entries in body["chunks"].items()},
            History.from_dict({"layouts": body["layouts"]}),
        )


#: Slots that this worker process had in its last batches, by uid: the version, the slot, its warm copy.
_recent: OrderedDict[str, tuple[str, Slot, WarmCopy]] = OrderedDict()
_RECENT = 16


class SlotState:
    """A slot with its state, for one micro-batch: `load`, work on `slot`, `save`.

    Parameters
    ----------
    make
        Makes the empty slot.
    chunks
        The durable chunks.
    manifest
        The durable manifest's text, None at the beginning.
    fingerprint
        Of the query that runs now.
    layouts
        The layouts of the units up to this micro-batch.

    Raises
    ------
    CheckpointMismatchError
        If the manifest was written by another query, or with units that this one does not know of.
    """

    def __init__(
        self, make: Callable[[], Slot], chunks: ChunkMap, manifest: str | None, fingerprint: str, layouts: History
    ) -> None:
        self.chunks = chunks
        if manifest is None:
            self.manifest = Manifest(uuid.uuid4().hex, uuid.uuid4().hex, -1, fingerprint, layouts=layouts)
            self.slot, self.warm = make(), WarmCopy(self.manifest.uid)
            return
        self.manifest = Manifest.from_json(manifest)
        if self.manifest.fingerprint != fingerprint:
            raise CheckpointMismatchError("of this query", difference(self.manifest.fingerprint, fingerprint))
        before, self.manifest.layouts = self.manifest.layouts, layouts
        if layouts.until(self.manifest.batch).entries != before.entries:
            raise CheckpointMismatchError("of this query", _other_units(before, layouts))
        recent = _recent.pop(self.manifest.uid, None)
        same_units = before.entries[-1] == layouts.entries[-1]  # a slot knows how many units there are
        if recent is not None and recent[0] == self.manifest.nonce and same_units:
            _, self.slot, self.warm = recent
            return
        self.slot, self.warm = make(), WarmCopy(self.manifest.uid)
        if not self.warm.load(self.manifest.nonce, self.slot.stores):
            self._rebuild()
        for name, store in self.slot.stores.items():
            store.next_id = self.manifest.next_ids.get(name, 0)

    def _rebuild(self) -> None:
        """Read every chunk back from the state store."""
        for name, store in self.slot.stores.items():
            for chunk in self.manifest.chunks.get(name, []):
                store.next_id = chunk.start
                store.append(from_bytes(self._read(chunk)))
                store.compact()
            store.fresh.clear()

    def _read(self, chunk: Chunk) -> bytes:
        value = self.chunks.getValue((chunk.number,))
        if value is None:
            raise CheckpointMismatchError("of this query", f"chunk {chunk.number} is missing from the state store")
        return bytes(value[0])

    def expire(self, watermark: int) -> int:
        """Forget what no row above the watermark (microseconds) can join; return how many rows went."""
        self.manifest.watermark = max(self.manifest.watermark, watermark)
        return sum(store.expire(watermark) for store in self.slot.stores.values())

    def save(self, batch: int) -> str:
        """Make this micro-batch's changes durable and warm; return the manifest's new text."""
        self.manifest.nonce, self.manifest.batch = uuid.uuid4().hex, batch
        for name, store in self.slot.stores.items():
            listed = self.manifest.chunks.setdefault(name, [])
            for rows in store.fresh:
                start = store.next_id - sum(int(other.num_rows) for other in store.fresh)
                for piece in split(rows, CHUNK_BYTES):
                    listed.append(self._write(store, start, 0, piece))
                    start += piece.num_rows
                store.fresh = store.fresh[1:]
            self._drop(store, listed)
            self._merge(store, listed)
            store.compact()
            self.manifest.next_ids[name] = store.next_id
        self.warm.save(self.manifest.nonce, self.slot.stores)
        _recent[self.manifest.uid] = (self.manifest.nonce, self.slot, self.warm)
        while len(_recent) > _RECENT:
            _recent.popitem(last=False)
        return self.manifest.to_json()

    def size(self) -> dict[str, int]:
        """Return rows in memory-mapped stores, and the bytes and number of durable chunks."""
        chunks = [chunk for listed in self.manifest.chunks.values() for chunk in listed]
        return {
            "state_rows": sum(len(store) for store in self.slot.stores.values()),
            "state_bytes": sum(chunk.size for chunk in chunks),
            "state_chunks": len(chunks),
        }

    def _drop(self, store: Store, listed: list[Chunk]) -> None:
        """Remove chunks of which no row is needed any more."""
        for chunk in [chunk for chunk in listed if store.life.is_over(chunk.newest, self.manifest.watermark)]:
            self.chunks.removeKey((chunk.number,))
            listed.remove(chunk)

    def _write(self, store: Store, start: int, tier: int, rows: pa.RecordBatch) -> Chunk:
        data = to_bytes(rows, compress=True)
        chunk = Chunk(self.manifest.next_number, start, rows.num_rows, len(data), tier, *store.life.span(rows))
        self.manifest.next_number += 1
        self.chunks.updateValue((chunk.number,), (data,))
        return chunk

    def _merge(self, store: Store, listed: list[Chunk]) -> None:
        """Merge the youngest chunks while `FAN_IN` of them are of one tier and small."""
        while len(listed) >= FAN_IN:
            youngest = listed[-FAN_IN:]
            tier = youngest[-1].tier
            together = sum(chunk.size for chunk in youngest)
            if any(chunk.tier != tier for chunk in youngest) or together > CHUNK_BYTES:
                return
            if not all(store.life.may_merge(youngest[0], chunk) for chunk in youngest[1:]):
                return
            rows = store.slice(youngest[0].start, youngest[-1].start + youngest[-1].rows)
            if rows.num_rows != sum(chunk.rows for chunk in youngest):
                return  # some of it has expired: ids must stay what they are
            merged = self._write(store, youngest[0].start, tier + 1, rows)
            for chunk in youngest:
                self.chunks.removeKey((chunk.number,))
            listed[-FAN_IN:] = [merged]


def _other_units(before: History, now: History) -> str:
    old, new = before.entries[-1][1], now.entries[-1][1]
    return (
        f"it has {old} units and the query {new}, and this task was not told its layouts; they may change on classic "
        f"sessions alone, and in a foreachBatch function only its own thread and pyspark.InheritableThread know them"
    )


def difference(old: str, new: str) -> str:
    """Say in one sentence what differs between two fingerprints (lines of ``what: value``)."""
    before = dict(line.split(": ", 1) for line in old.splitlines() if ": " in line)
    after = dict(line.split(": ", 1) for line in new.splitlines() if ": " in line)
    changes = [
        f"{what} was {before.get(what, 'absent')} and is now {after.get(what, 'absent')}"
        for what in (*before, *(name for name in after if name not in before))
        if before.get(what) != after.get(what)
    ]
    if before.get("scheme") == after.get("scheme") and before.get("units") != after.get("units"):
        kind = "cells of a grid" if after.get("scheme") == "matrix" else "units by a key that all streams share"
        changes.append(f"rows go to {kind}, so another number of units would have to move what is stored")
    return "; ".join(changes) or "it was written by another version"
