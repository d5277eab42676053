"""What crosses from one stage's units to another's, as bytes: packs, blocks of results and of partial results."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..batches.ipc import from_bytes, to_bytes
from ..batches.pieces import list_parts
from ..results.bundle import Bundle, Part
from ..results.outcomes import Pack, PartialBlock

_HEAD = struct.Struct("<qq")  # lengths are multiples of eight, and so is this: columns stay aligned

#: Stands for a rank with the lists of a bundle, or the numbers of a block's rows, which are of no stream.
_LISTS = -1


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


def block_to_bytes(block: PartialBlock) -> bytes:
    """Return a block of partial results as bytes."""
    parts = sorted(block.parts.items(), key=lambda one: one[0] != block.start)  # that stream comes first
    numbers = [pa.array(part.ids, pa.int32()) for _, part in parts]
    named = pa.RecordBatch.from_arrays(numbers, names=[str(rank) for rank, _ in parts])
    return _to_bytes([*((rank, part.source) for rank, part in parts), (_LISTS, named)])


def block_from_bytes(data: bytes) -> PartialBlock:
    """Return the block in bytes."""
    *parts, (_, named) = _from_bytes(data)
    return PartialBlock(parts[0][0], {rank: Part(rows, named.column(str(rank)).to_numpy()) for rank, rows in parts})


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
