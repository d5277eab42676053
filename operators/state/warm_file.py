"""Files of the warm copy: rows and index arrays that are mapped as they are, and a tail by which a cut one is known."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
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
VERSION = 3

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


def read_view(path: Path) -> tuple[Any, pa.Buffer]:
    """Return a view and the bytes that its small segments are in."""
    data = pa.py_buffer(path.read_bytes())
    return read_end(data), data
