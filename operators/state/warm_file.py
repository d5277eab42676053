"""Files of the warm copy: rows and index arrays that are mapped as they are, and a tail by which a cut one is known.

A segment's file has the check sum of all of its bytes in its name, and a view has one of what is before its text.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
import uuid
import weakref
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..batches.ipc import from_bytes
from ..store.index import SortedIndex
from ..store.segment import Body
from ..store.store import Store

#: Bytes to a multiple of which index arrays are put.
ALIGN = 64

#: The version of these files. Indexes and zones hold order keys, which another version of the library may make in
#: another way: to each the files of the other are damaged, and the rows come from the state store, which has no keys.
VERSION = 4

_TAIL = struct.Struct("<QQQQ")  # version, length of the text before it, of the whole file, check sum of the text


def write_body(file: pa.NativeFile, rows: pa.RecordBatch, indexes: Mapping[str, SortedIndex]) -> int:
    """Write a segment without a copy of it: the rows, the index arrays, and where they are.

    Returns
    -------
    How many bytes it takes.
    """
    places: dict[str, dict[str, list[int]]] = {}
    with pa.ipc.new_stream(file, rows.schema) as writer:
        writer.write_batch(rows)
    length = file.tell()
    for key, index in indexes.items():
        places[key] = {}
        for name in ("equal", "low", "reach", "rows"):
            array = getattr(index, name)
            if array is not None:
                file.write(b"\0" * (-file.tell() % ALIGN))
                places[key][name] = [file.tell(), len(array)]
                file.write(pa.py_buffer(np.ascontiguousarray(array)))
    return write_end(file, {"rows": rows.num_rows, "length": length, "indexes": places})


def read_body(data: pa.Buffer, count: int, store: Store) -> Body:
    """Return a segment that `write_body` wrote, pointing into ``data``.

    Raises
    ------
    ValueError
        It is not whole, or of another version: its end is not there, or it holds another number of rows.
    """
    header = read_end(data)
    if header["rows"] != count:
        raise ValueError(f"{header['rows']} rows instead of {count}")
    rows = from_bytes(data.slice(0, header["length"]))
    indexes = {}
    for key, arrays in header["indexes"].items():
        found: dict[str, Any] = {"equal": None, "low": None, "reach": None}
        for name, (start, size) in arrays.items():
            found[name] = np.frombuffer(data, np.int32 if name == "rows" else np.int64, size, start)
        indexes[key] = SortedIndex(store.sort_orders[key], **found)
    if indexes.keys() != store.sort_orders.keys():
        raise ValueError("other indexes than those of this query")
    return rows, indexes


def write_end(file: pa.NativeFile, header: Mapping[str, Any]) -> int:
    """Write what says where everything is, and a tail by which a cut file is known; return the length of all."""
    text = json.dumps(header).encode()
    whole: int = file.tell() + len(text) + _TAIL.size
    file.write(text + _TAIL.pack(VERSION, len(text), whole, zlib.crc32(text)))
    return whole


def read_end(data: pa.Buffer) -> Any:
    """Return what `write_end` wrote.

    Raises
    ------
    ValueError
        The end is not there, or another version wrote it.
    """
    view = memoryview(data)
    if len(view) < _TAIL.size:
        raise ValueError("cut short")
    version, length, whole, check = _TAIL.unpack_from(view, len(view) - _TAIL.size)
    if version != VERSION:
        raise ValueError("damaged, or of another version")
    text = view[max(len(view) - _TAIL.size - length, 0) : -_TAIL.size]
    if len(view) != whole or zlib.crc32(text) != check:
        raise ValueError("damaged")
    return json.loads(bytes(text))


class _Mapping:
    """Pages of a file, which stay in the address space as long as this object, or a buffer on it, lives."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            # Python's own maps hold a descriptor each; a state of 16 GiB has more segments than a process may have.
            found = _libc().mmap(None, self.size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        if found in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "a file cannot be mapped", str(path))
        self.address = int(found)
        # Not at the end of the process: buffers may outlive this module then.
        weakref.finalize(self, _libc().munmap, self.address, self.size).atexit = False


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


def mapped(path: Path) -> pa.Buffer:
    """Map a file into memory. ``TRIJOIN_MAP_FILES=false`` has Python do it, with a descriptor for each file."""
    if os.environ.get("TRIJOIN_MAP_FILES", "true").lower() == "false":
        with path.open("rb") as file:
            return pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    mapping = _Mapping(path)
    return pa.foreign_buffer(mapping.address, mapping.size, mapping)


def file_name(data: pa.Buffer) -> str:
    """Return a new name for a segment's file, with the check sum of its bytes."""
    return f"{uuid.uuid4().hex}-{zlib.crc32(data):08x}.seg"


def checked(path: Path) -> pa.Buffer:
    """Map a segment's file into memory.

    Raises
    ------
    ValueError
        It has other bytes than were written.
    """
    data = mapped(path)
    if zlib.crc32(data) != int(path.stem.rpartition("-")[2], 16):
        raise ValueError("damaged")
    return data


def write_view(file: pa.NativeFile, small: pa.Buffer, stores: Mapping[str, Any]) -> None:
    """Write a view: what is in its small segments, and what it says of all."""
    file.write(small)
    write_end(file, {"check": zlib.crc32(small), "small": small.size, "stores": stores})


def read_view(path: Path) -> tuple[Any, pa.Buffer]:
    """Return what a view says of its stores, and the bytes that its small segments are in.

    Raises
    ------
    ValueError
        It has other bytes than were written, or another version wrote it.
    """
    data = pa.py_buffer(path.read_bytes())
    header = read_end(data)
    small = data.slice(0, header["small"])
    if zlib.crc32(small) != header["check"]:
        raise ValueError("damaged")
    return header["stores"], small
