"""Packed rows: Arrow IPC bytes, in the shuffle and in the state store."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from .bundle import Bundle, Part
from .index import list_parts
from .schemes.base import Pack

#: Bytes of rows that dispatch packs into one binary value.
PACKED_BYTES = 4 << 20

#: Bytes of rows in one chunk of durable state (uncompressed).
CHUNK_BYTES = 1 << 20

#: Bytes of rows (uncompressed) of chunks that are merged into one. Values of more than 8 MiB fail on small heaps; and
#: merging is for the many chunks of small micro-batches: what large ones leave would be written twice for nothing.
MERGED_BYTES = 4 << 20

_LENGTH = struct.Struct("<II Q")
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
_PLAIN = pa.ipc.IpcWriteOptions()


def to_bytes(batch: pa.RecordBatch, *, compress: bool = False) -> bytes:
    """Return a batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED if compress else _PLAIN) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def from_bytes(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """Return the batch in an Arrow IPC stream; columns point into ``data`` where it is not compressed."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def pack_to_bytes(pack: Pack) -> bytes:
    """Return a pack as bytes: ranks, length of the hubs, hubs, members."""
    hubs, members = to_bytes(pack.hubs), to_bytes(pack.members)
    return _LENGTH.pack(pack.rank, pack.member_rank, len(hubs)) + hubs + members


def pack_from_bytes(data: bytes) -> Pack:
    """Return the pack in bytes."""
    rank, member_rank, length = _LENGTH.unpack_from(data)
    body = pa.py_buffer(data).slice(_LENGTH.size)
    return Pack(rank, from_bytes(body.slice(0, length)), member_rank, from_bytes(body.slice(length)))


def bundle_to_bytes(bundle: Bundle) -> bytes:
    """Return a bundle that holds nothing but what it needs (`Bundle.sendable`) as bytes."""
    assert bundle.lists is not None
    assert isinstance(bundle.members, pa.RecordBatch)
    offsets, of = bundle.lists
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(bundle.positions.astype(np.int64)))
    batches = {bundle.rank: bundle.members}
    for rank, part in bundle.parts.items():
        assert isinstance(part.source, pa.RecordBatch)
        batches[rank] = part.source
    bodies = [to_bytes(batch) for batch in (*batches.values(), _column(lists), _column(pa.array(of.astype(np.int32))))]
    head = _LENGTH.pack(len(batches), 0, 0)
    heads = [_LENGTH.pack(rank, 0, len(body)) for rank, body in zip((*batches, 0, 0), bodies, strict=True)]
    return b"".join([head, *heads, *bodies])


def bundle_from_bytes(data: bytes) -> Bundle:
    """Return the bundle in bytes."""
    body = pa.py_buffer(data)
    count, _, _ = _LENGTH.unpack_from(data)
    ranks, batches, at = [], [], _LENGTH.size * (count + 3)
    for number in range(count + 2):
        rank, _, length = _LENGTH.unpack_from(data, _LENGTH.size * (number + 1))
        ranks.append(rank)
        batches.append(from_bytes(body.slice(at, length)))
        at += length
    offsets, positions = list_parts(batches[-2].column(0))
    parts = {rank: Part(batch) for rank, batch in zip(ranks[1:count], batches[1:count], strict=True)}
    return Bundle.of_packs(parts, ranks[0], batches[0], positions, offsets, batches[-1].column(0).to_numpy())


def _column(values: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([values], names=["values"])
