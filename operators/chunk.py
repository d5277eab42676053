"""Packed rows: Arrow IPC bytes, in the shuffle and in the state store."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from .bundle import Bundle, Part
from .index import list_parts
from .schemes.base import Pack

#: Bytes of rows that go into one binary value on their way to a unit, about.
PACKED_BYTES = 4 << 20

#: Bytes of rows in one chunk of durable state (uncompressed).
CHUNK_BYTES = 1 << 20

#: Bytes of rows (uncompressed) of chunks that are merged into one. Values of more than 8 MiB fail on small heaps; and
#: merging is for the many chunks of small micro-batches: what large ones leave would be written twice for nothing.
MERGED_BYTES = 4 << 20

_HEAD = struct.Struct("<qq")  # lengths are multiples of eight, and so is this: columns stay aligned

#: Stands for a rank with the lists of a bundle, which are of no stream.
_LISTS = -1

# A task has one core. Arrow would hand each column to another thread, which takes a chunk of some rows four times as
# long as the work itself, and is no gain for a large one.
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


def to_bytes(batch: pa.RecordBatch, *, compress: bool = False) -> bytes:
    """Return a batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED if compress else _PLAIN) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def from_bytes(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """Return the batch in an Arrow IPC stream; columns point into ``data`` where it is not compressed."""
    with pa.ipc.open_stream(data, options=_READ) as reader:
        return reader.read_next_batch()


def pack_to_bytes(pack: Pack) -> bytes:
    """Return a pack as bytes."""
    return _to_bytes([(pack.rank, pack.hubs), (pack.member_rank, pack.members)])


def pack_from_bytes(data: bytes) -> Pack:
    """Return the pack in bytes."""
    (rank, hubs), (member_rank, members) = _from_bytes(data)
    return Pack(rank, hubs, member_rank, members)


def bundle_to_bytes(bundle: Bundle) -> bytes:
    """Return a bundle that holds nothing but what it needs (`Bundle.sendable`) as bytes."""
    assert bundle.lists is not None
    offsets, of = bundle.lists
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(bundle.positions.astype(np.int32)))
    batches = [(bundle.rank, bundle.members), *((rank, part.source) for rank, part in bundle.parts.items())]
    return _to_bytes([*batches, (_LISTS, _column(lists)), (_LISTS, _column(pa.array(of.astype(np.int32))))])


def bundle_from_bytes(data: bytes) -> Bundle:
    """Return the bundle in bytes."""
    (rank, members), *parts, (_, lists), (_, of) = _from_bytes(data)
    offsets, positions = list_parts(lists.column(0))
    rows = {number: Part(batch) for number, batch in parts}
    return Bundle.of_packs(rows, rank, members, positions, offsets, of.column(0).to_numpy())


def _to_bytes(batches: Sequence[tuple[int, Any]]) -> bytes:
    """Return batches of different schemas, each with a rank, as bytes: how many, ranks and lengths, the batches."""
    bodies = [to_bytes(batch) for _, batch in batches]
    heads = [_HEAD.pack(rank, len(body)) for (rank, _), body in zip(batches, bodies, strict=True)]
    return b"".join([_HEAD.pack(len(batches), 0), *heads, *bodies])


def _from_bytes(data: bytes) -> list[tuple[int, pa.RecordBatch]]:
    """Return the batches in bytes, with their ranks; columns point into ``data``."""
    count, _ = _HEAD.unpack_from(data)
    body, at, found = pa.py_buffer(data), _HEAD.size * (count + 1), []
    for number in range(count):
        rank, length = _HEAD.unpack_from(data, _HEAD.size * (number + 1))
        found.append((rank, from_bytes(body.slice(at, length))))
        at += length
    return found


def _column(values: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([values], names=["values"])


def uniform(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in the one schema that its columns' Spark types have: Arrow puts only rows of one together.

    Spark tells what can be NULL micro-batch by micro-batch (without rows from one side of a union, less can): here all
    can. Time stamps inside arrays, structs and maps carry the session's time zone, and texts are large ones where
    ``spark.sql.execution.arrow.useLargeVarTypes`` says so; a query may go on with other settings.
    """
    kinds = [_uniform(kind) for kind in batch.schema.types]
    columns = [
        column.cast(kind) if kind != column.type or pa.types.is_nested(kind) else column
        for column, kind in zip(batch.columns, kinds, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _uniform(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_uniform_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_uniform_field(one) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(_uniform(kind.key_type), _uniform_field(kind.item_field))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _uniform_field(field: pa.Field) -> pa.Field:
    return field.with_type(_uniform(field.type)).with_nullable(True)  # with its metadata: it says what is a VARIANT
