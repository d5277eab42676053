"""The warm copy: segments of a slot as files on the executor's local disk, mapped into memory by every worker.

Spark's state store is the truth; this copy only saves reading it back. One micro-batch in two a slot lands on another
Python worker, so the copy is one a machine, not one a worker. Files are written once and never changed. A *view* names
the segments of a slot's state at one version (the nonce that the durable manifest holds, new for every attempt), so
a view can be used exactly if its nonce is the manifest's; a copy written by a failed attempt is never seen.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .chunk import from_bytes, to_bytes
from .index import SortedIndex
from .store import Segment, Store

_ALIGN = 64
_KEPT_VIEWS = 3
_STALE_SECONDS = 24 * 3600


def root() -> Path:
    """Return the directory of all warm copies on this machine (``TRIJOIN_LOCAL_DIR``, else the temporary directory).

    It is another one after the machine has started anew: files that a loss of power damaged are never looked at.
    """
    base = os.environ.get("TRIJOIN_LOCAL_DIR") or tempfile.gettempdir()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:  # not Linux
        boot = "any"
    return Path(base) / f"trijoin-warm-{os.getuid()}-{boot}"


class WarmCopy:
    """The warm copy of one slot.

    Parameters
    ----------
    uid
        Identity of the slot's state, from its manifest.
    """

    def __init__(self, uid: str) -> None:
        self.directory = root() / uid

    def load(self, nonce: str, stores: Mapping[str, Store]) -> bool:
        """Fill empty stores from the view of a version; return whether there is one that can be read."""
        try:
            view = json.loads((self.directory / f"{nonce}.view").read_text())
            for name, store in stores.items():
                store.segments = [_read(self.directory / file, store) for file in view[name]["segments"]]
        except (OSError, ValueError, KeyError, TypeError, StopIteration, pa.ArrowException):
            for store in stores.values():
                store.segments = []
            return False
        return True

    def save(self, nonce: str, stores: Mapping[str, Store]) -> None:
        """Write the segments that have no file yet, then the view. A full disk costs the warm copy, not the query."""
        try:
            if not self.directory.exists():
                sweep()
            self._save(nonce, stores)
        except (OSError, ValueError, KeyError, TypeError):
            self.drop()
            for store in stores.values():
                store.segments = [replace(segment, file=None) for segment in store.segments]

    def _save(self, nonce: str, stores: Mapping[str, Store]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        view: dict[str, Any] = {}
        number = 0
        for name, store in stores.items():
            for position, segment in enumerate(store.segments):
                if segment.file is None:
                    file = f"{nonce}-{number}.seg"
                    number += 1
                    _write(self.directory / file, segment)
                    store.segments[position] = _read(self.directory / file, store)
            view[name] = {"segments": [segment.file for segment in store.segments]}
        temporary = self.directory / f"{nonce}.tmp"
        temporary.write_text(json.dumps(view))
        temporary.replace(self.directory / f"{nonce}.view")
        self._clean()

    def _clean(self) -> None:
        """Delete old views, and the segments that only they name."""
        views = sorted(self.directory.glob("*.view"), key=lambda path: path.stat().st_mtime_ns)
        named: set[str] = set()
        for path in views[-_KEPT_VIEWS:]:
            try:
                view = json.loads(path.read_text())
            except ValueError:  # damaged; its version is rebuilt from the state store if it is ever needed
                path.unlink(missing_ok=True)
                continue
            for saved in view.values():
                named.update(saved["segments"])
        for path in views[:-_KEPT_VIEWS]:
            path.unlink(missing_ok=True)
        for path in self.directory.glob("*.seg"):
            if path.name not in named:
                path.unlink(missing_ok=True)

    def drop(self) -> None:
        """Delete the copy."""
        shutil.rmtree(self.directory, ignore_errors=True)


def sweep() -> None:
    """Delete copies that no worker has touched for a day (their queries are gone)."""
    limit = time.time() - _STALE_SECONDS
    for directory in root().glob("*"):
        try:
            if directory.stat().st_mtime < limit:
                shutil.rmtree(directory, ignore_errors=True)
        except OSError:
            continue


def _write(path: Path, segment: Segment) -> None:
    """Write a segment: a JSON header, then the rows and the index arrays, aligned."""
    blobs: list[bytes] = [to_bytes(segment.rows)]
    indexes: dict[str, dict[str, list[int]]] = {}
    for key, index in segment.indexes.items():
        arrays = {"equal": index.equal, "low": index.low, "reach": index.reach, "rows": index.rows}
        indexes[key] = {}
        for name, array in arrays.items():
            if array is not None:
                indexes[key][name] = [len(blobs), len(array)]
                blobs.append(np.ascontiguousarray(array).tobytes())
    places, at = [], 0
    for blob in blobs:
        places.append([at, len(blob)])
        at += -(-len(blob) // _ALIGN) * _ALIGN
    span = [segment.oldest, segment.newest]
    header = json.dumps({"start": segment.start, "span": span, "places": places, "indexes": indexes}).encode()
    header += b" " * (-(len(header) + 8) % _ALIGN)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for blob, (start, length) in zip(blobs, places, strict=True):
            file.write(blob)
            file.write(b"\0" * (-(start + length) % _ALIGN))


def _read(path: Path, store: Store) -> Segment:
    """Map a segment into memory."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    buffer = pa.py_buffer(mapped)
    length = int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8 : 8 + length])
    base = 8 + length
    (start, size) = header["places"][0]
    rows = from_bytes(buffer.slice(base + start, size))
    indexes = {}
    for key, arrays in header["indexes"].items():
        found: dict[str, Any] = {"equal": None, "low": None, "reach": None}
        for name, (number, count) in arrays.items():
            dtype = np.int32 if name == "rows" else np.int64
            found[name] = np.frombuffer(buffer, dtype, count, base + header["places"][number][0])
        indexes[key] = SortedIndex(store.layouts[key], **found)
    oldest, newest = header["span"]
    return Segment(header["start"], rows, indexes, oldest, newest, path.name)
