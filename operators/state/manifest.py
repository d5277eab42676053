"""The manifest of a slot's durable state: what its chunks are, and the smallest of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from ...errors import CheckpointDamagedError, CheckpointVersionError
from .layout import History

#: The name of the state variable, a map of chunks by number, and the numbers of the manifest and of the clock in it.
STATE, MANIFEST, CLOCK = "trijoin", -1, -2

#: The version of a checkpoint: of its manifests, of where they are, and of our own folder in it.
FORMAT = 4

_LENGTH = struct.Struct("<q")


@dataclass(slots=True)
class Chunk:
    """One durable chunk: rows with ids ``start`` to ``start + rows`` of a store.

    Parameters
    ----------
    number
        Its key in the map of chunks, None if it is in the manifest.
    start, rows
        The ids of its rows.
    size, raw
        Its bytes, and those of its rows in memory.
    tier
        How many merges it has been through.
    oldest, newest
        Extremes of the event times (microseconds), None where time does not bound the store.
    check
        The CRC-32 of its bytes; None in manifests from before there was one.
    data
        The bytes of one that is in the manifest.
    """

    number: int | None
    start: int
    rows: int
    size: int
    tier: int = 0
    oldest: int | None = None
    newest: int | None = None
    raw: int = 0
    check: int | None = None
    data: bytes = b""


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
    lineage
        The versions before it, the youngest last.
    timer
        The event time (milliseconds) at which the slot is called although no rows come, so that its rows expire.
    settled
        By store: the numbers under which the pages of its settled rows are in the map of chunks, by page.
    """

    uid: str
    nonce: str
    batch: int
    fingerprint: str
    next_number: int = 0
    watermark: int = 0
    next_ids: dict[str, list[int]] = field(default_factory=dict)
    chunks: dict[str, list[Chunk]] = field(default_factory=dict)
    layouts: History = field(default_factory=lambda: History(()))
    lineage: list[str] = field(default_factory=list)
    timer: int | None = None
    settled: dict[str, dict[int, int]] = field(default_factory=dict)

    def all(self) -> Iterator[Chunk]:
        """Yield the chunks of all stores."""
        for chunks in self.chunks.values():
            yield from chunks

    def inside(self) -> int:
        """Return the bytes of the chunks that are in the manifest."""
        return sum(chunk.size for chunk in self.all() if chunk.number is None)

    def to_bytes(self) -> bytes:
        """Return the manifest as bytes: the length of a JSON object, the object, the chunks inside in its order."""
        body = {
            "format": FORMAT,
            **{one.name: getattr(self, one.name) for one in fields(self)},
            "layouts": self.layouts.to_dict()["layouts"],
            "chunks": {
                name: [[c.number, c.start, c.rows, c.size, c.tier, c.oldest, c.newest, c.raw, c.check] for c in chunks]
                for name, chunks in self.chunks.items()
            },
        }
        head = json.dumps(body, separators=(",", ":")).encode()
        return b"".join([_LENGTH.pack(len(head)), head, *(chunk.data for chunk in self.all())])

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Return the manifest in bytes.

        Raises
        ------
        CheckpointVersionError
            Another version wrote it, in a format that this one does not know.
        CheckpointDamagedError
            It is not whole.
        """
        body, at = _head(data)
        if int(body["format"]) != FORMAT:
            told = f"its state has format {body['format']}, and this version reads format {FORMAT}"
            raise CheckpointVersionError("of this query", told)
        try:
            manifest = cls._of(body)
        except KeyError as error:
            raise CheckpointDamagedError("of this query", f"its manifest has no {error.args[0]}") from None
        for chunk in manifest.all():
            if chunk.number is None:
                chunk.data = data[at : at + chunk.size]
                at += chunk.size
        if at != len(data):
            raise CheckpointDamagedError("of this query", f"its manifest has {len(data)} bytes instead of {at}")
        return manifest

    @classmethod
    def _of(cls, body: dict[str, Any]) -> Manifest:
        chunks = {name: [Chunk(*entry) for entry in entries] for name, entries in body["chunks"].items()}
        found = {**body, "chunks": chunks, "layouts": History.from_dict({"layouts": body["layouts"]})}
        # not in manifests of before there were outer joins; JSON has texts for keys
        pages = body.get("settled", {})
        found["settled"] = {name: {int(page): at for page, at in some.items()} for name, some in pages.items()}
        return cls(**{one.name: found[one.name] for one in fields(cls)})


def _head(data: bytes) -> tuple[dict[str, Any], int]:
    """Return the JSON object that a manifest begins with, and where it ends."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + length
        return json.loads(data[_LENGTH.size : end]), end
    except (struct.error, ValueError) as error:
        raise CheckpointDamagedError("of this query", f"its manifest cannot be read: {error}") from None
