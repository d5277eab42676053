"""Packed rows: Arrow IPC bytes, in the shuffle and in the state store."""

from __future__ import annotations

import pyarrow as pa

#: Bytes of rows that go into one binary value on their way to a unit, about.
PACKED_BYTES = 4 << 20

#: Where Spark does not measure what it hands to Python (`spec.JoinSpec.fixed_width`), so many packed rows may come in
#: one batch, of these bytes about: each is followed by `dispatch.FILLER` rows, which have none.
UNMEASURED_ROWS, UNMEASURED_BYTES = 10_000, 16 << 20

#: Bytes of rows in one chunk of durable state (uncompressed).
CHUNK_BYTES = 1 << 20

#: Bytes of rows (uncompressed) of chunks that are merged into one. Values of more than 8 MiB fail on small heaps; and
#: merging is for the many chunks of small micro-batches: what large ones leave would be written twice for nothing.
MERGED_BYTES = 4 << 20


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


def uniform(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch in the one schema that its columns' Spark types have: Arrow puts only rows of one together.

    Spark tells what can be NULL micro-batch by micro-batch (without rows from one side of a union, less can): here all
    can. Time stamps inside arrays, structs and maps carry the session's time zone, and texts are large ones where
    ``spark.sql.execution.arrow.useLargeVarTypes`` says so; a query may go on with other settings.
    """
    kinds = [uniform_type(kind) for kind in batch.schema.types]
    columns = [
        column.cast(kind) if kind != column.type or pa.types.is_nested(kind) else column
        for column, kind in zip(batch.columns, kinds, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def uniform_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that `uniform` gives a column."""
    if pa.types.is_list(kind):
        return pa.list_(_uniform_field(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_uniform_field(one) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(uniform_type(kind.key_type), _uniform_field(kind.item_field))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _uniform_field(field: pa.Field) -> pa.Field:
    return field.with_type(uniform_type(field.type)).with_nullable(True)  # with its metadata: it says what is a VARIANT
