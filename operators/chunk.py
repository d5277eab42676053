"""Packed rows: Arrow IPC bytes, in the shuffle and in the state store."""

from __future__ import annotations

import struct

import pyarrow as pa

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
