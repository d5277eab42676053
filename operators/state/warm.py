"""The warm copy: segments of a slot as files on the executor's local disk, mapped into memory by every worker.

Spark's state store is the truth; this copy only saves reading it back. One micro-batch in two a slot lands on another
Python worker, so the copy is one a machine, not one a worker. Files are written once and never changed. A *view* names
the segments of a slot's state at one version (the nonce that the durable manifest holds, new for every attempt). It can
be used if its nonce is the manifest's or that of a version that the manifest's came from: a store only grows at its
end, so then the rows behind it are all that is missing. A copy written by a failed attempt is never seen.

A file is checked when a worker first looks into it, and again if it was changed since; a damaged one is deleted.

Segments below `SMALL_BYTES`, of which a small micro-batch leaves one in every store, have no files: they stay in
memory, and each view holds what is in them, so that such a micro-batch writes one file and not one a store.

A limit bounds the files of all slots on the machine. Files that were not used for longest are deleted; their segments
are brought back from the state store when they are probed (`SlotState`). There may be tens of thousands of files, which
take a good part of a second to look at, so a slot sums them up twice a micro-batch at most, opens only those folders
that have changed since its worker last did, and looks at single files when some must go.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..store.index import Zone
from ..store.segment import AHEAD, Segment
from ..store.store import Store
from .warm_file import ALIGN, checked, file_name, mapped, read_body, read_view, write_body, write_view
from .worker import WORKER

_log = logging.getLogger("trijoin_sql")

#: A segment with less bytes of rows gets no file.
SMALL_BYTES = 16 << 10

_KEPT_VIEWS = 3
_STALE_SECONDS = 24 * 3600
_SWEPT_SECONDS = 3600
#: A folder's time may stay the same over changes that are closer together than this.
_SETTLED_NS = 1_000_000_000
_TOUCH_SECONDS = 60

#: An eviction frees this share of the limit (one over the number) at once, as it has to look at every file.
_FREED = 16


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


def _is_ours(folder: Path) -> bool:
    """Make the directory of all warm copies, for this user alone, and return whether it is.

    Its name can be guessed, and rows of streams are in it: another user must neither read nor write it.
    """
    with suppress(OSError):
        with suppress(FileExistsError):
            folder.mkdir(0o700, parents=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
            if stat.S_IMODE(status.st_mode) & 0o077:
                folder.chmod(0o700)
            return True
    if not WORKER.warned:
        _log.warning("%s cannot be made, or is not ours: state is read from Spark's state store instead", folder)
    WORKER.warned = True
    return False


class WarmCopy:
    """The warm copy of one slot.

    Parameters
    ----------
    uid
        Identity of the slot's state, from its manifest.
    limit
        Bytes that all warm copies of this machine may take together, None for any number.
    """

    def __init__(self, uid: str, limit: int | None = None) -> None:
        self.directory = root() / uid
        self.limit = limit
        self._used: int | None = None
        self._touched = time.monotonic()

    def load(self, nonces: Sequence[str], stores: Mapping[str, Store]) -> None:
        """Fill empty stores with the segments of the first version that there is a view of."""
        if not _is_ours(self.directory.parent):
            return
        for nonce in nonces:
            try:
                view, data = read_view(self.directory / f"{nonce}.view")
                for name, store in stores.items():
                    store.segments = [_described(entry, data, store) for entry in view[name]["segments"]]
                    store.next_ids = view[name]["next_ids"]
            except (OSError, ValueError, KeyError, TypeError, StopIteration, pa.ArrowException):
                for store in stores.values():
                    store.segments, store.next_ids = [], [0, AHEAD]
                continue
            self._look(stores, touch=True)
            return

    def _map(self, segment: Segment, *, store: Store) -> None:
        """Map a segment's file into memory; where that fails it has no file any more."""
        assert segment.file is not None
        path = self.directory / segment.file
        try:
            segment.stamp = path.stat().st_mtime_ns
            segment.body = read_body(checked(path), segment.count, store)
        except (OSError, ValueError, KeyError, TypeError, StopIteration, pa.ArrowException) as error:
            segment.file = segment.body = None
            if not isinstance(error, FileNotFoundError):
                _log.warning("%s is damaged: its rows are read from Spark's state store instead", path)
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def revise(self, stores: Mapping[str, Store]) -> None:
        """Let go of the segments whose files another worker has evicted, and say that the others are in use."""
        touch = time.monotonic() - self._touched > _TOUCH_SECONDS
        if touch:
            self._touched = time.monotonic()
        self._look(stores, touch=touch)

    def _look(self, stores: Mapping[str, Store], *, touch: bool) -> None:
        """Look which files are there. One that was changed after it had been mapped will be checked again."""
        for store in stores.values():
            for segment in store.segments:
                if segment.file is None:
                    continue
                segment.map = partial(self._map, store=store)
                try:
                    changed = (self.directory / segment.file).stat().st_mtime_ns
                    if touch:
                        os.utime(self.directory / segment.file, ns=(time.time_ns(), changed))
                    if changed != segment.stamp:
                        segment.body = None
                except OSError:
                    segment.file = segment.body = None

    def keep(self, store: Store) -> None:
        """Write the segments of a store that need a file and have none yet, and map those instead."""
        with suppress(OSError):
            self._keep(store)

    def _make(self) -> None:
        if not _is_ours(self.directory.parent):
            raise PermissionError(str(self.directory.parent))
        self.directory.mkdir(exist_ok=True)

    def _keep(self, store: Store) -> None:
        if not self.directory.exists():
            self._make()
            sweep()
        for segment in store.segments:
            if segment.file is None and segment.body is not None and self.takes(segment.size):
                self.write(segment, store)

    def save(self, nonce: str, stores: Mapping[str, Store]) -> None:
        """Write what has no file yet, then the view.

        A full disk costs the warm copy, not the query, and not the memory that the copy saves either: what has no file
        then comes back from the state store.
        """
        self._used = None
        ours = _is_ours(self.directory.parent)
        try:
            if ours:
                self._save(nonce, stores)
                return
        except (OSError, ValueError, KeyError, TypeError):
            self.drop()
        for store in stores.values():
            for segment in store.segments:
                segment.file = segment.body = segment.small = None

    def _save(self, nonce: str, stores: Mapping[str, Store]) -> None:
        for store in stores.values():
            self._keep(store)
        self._evict(stores)
        temporary = self.directory / f"{nonce}.tmp"
        small = pa.BufferOutputStream()
        view = {
            name: {
                "next_ids": store.next_ids,
                "segments": [_description(segment, small) for segment in store.segments],
            }
            for name, store in stores.items()
        }
        with pa.OSFile(str(temporary), "wb") as file:
            write_view(file, small.getvalue(), view)
        temporary.replace(self.directory / f"{nonce}.view")
        self._clean()

    def write(self, segment: Segment, store: Store) -> None:
        """Write a segment's body to a file, and map that instead."""
        assert segment.body is not None
        self._make()
        temporary = self.directory / f"{uuid.uuid4().hex}.seg.tmp"
        with pa.OSFile(str(temporary), "wb") as sink:
            size = write_body(sink, *segment.body)
        data = mapped(temporary)
        file = file_name(data)
        WORKER.unseen = WORKER.unseen + size if WORKER.looked else math.inf
        if self._used is not None:
            self._used += size
        path = temporary.replace(self.directory / file)
        segment.file, segment.map, segment.stamp = file, partial(self._map, store=store), path.stat().st_mtime_ns
        segment.body = read_body(data, segment.count, store)

    def takes(self, size: int) -> bool:
        """Return whether a segment with that many bytes of rows gets a file; others are in the views."""
        return size >= SMALL_BYTES

    def has_room(self, size: int) -> bool:
        """Return whether that many bytes may be added without evicting anything.

        What other slots write in this micro-batch after it was first asked does not count: eviction sees it.
        """
        if self.limit is None:
            return True
        if self._used is None:
            self._used = _bytes()
        return self._used + size <= self.limit

    def _evict(self, stores: Mapping[str, Store]) -> None:
        """Delete the files that were not used for longest, of whichever slot, until the rest leaves some room."""
        if self.limit is None or WORKER.unseen < max(self.limit // 64, 1):
            return
        WORKER.unseen, WORKER.looked = 0, True
        if _bytes() <= self.limit:
            return
        files = _files()
        over = sum(size for _, size, _ in files) - (self.limit - self.limit // _FREED)
        gone: set[str] = set()
        for _, size, name in sorted(files):
            if over <= 0:
                break
            path = Path(name)
            path.unlink(missing_ok=True)
            over -= size
            if path.parent == self.directory:
                gone.add(path.name)
        for store in stores.values():
            for segment in store.segments:
                if segment.file in gone:
                    segment.file = segment.body = None

    def _clean(self) -> None:
        """Delete old views, and the segments that only they name, once some have gathered."""
        if sum(entry.name.endswith(".view") for entry in _entries(self.directory)) < 2 * _KEPT_VIEWS:
            return
        views = sorted(self.directory.glob("*.view"), key=_changed)
        named: set[str] = set()
        for path in views[-_KEPT_VIEWS:]:
            try:
                view, _ = read_view(path)
            except FileNotFoundError:  # another attempt of this slot cleans up, too
                continue
            except ValueError:  # damaged; its version is rebuilt from the state store if it is ever needed
                path.unlink(missing_ok=True)
                continue
            for saved in view.values():
                named.update(entry["file"] for entry in saved["segments"] if entry["file"] is not None)
        for path in views[:-_KEPT_VIEWS]:
            path.unlink(missing_ok=True)
        for path in self.directory.iterdir():
            abandoned = path.suffix == ".tmp" and 0 < _changed(path) < time.time_ns() - _TOUCH_SECONDS * 10**9
            if abandoned or (path.suffix == ".seg" and path.name not in named):
                path.unlink(missing_ok=True)

    def drop(self) -> None:
        """Delete the copy."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _described(entry: Mapping[str, Any], data: pa.Buffer, store: Store) -> Segment:
    """Return a segment of a view."""
    zones: dict[str, Zone] = {key: tuple(zone) for key, zone in entry["zones"].items()}
    start, count = entry["start"], entry["count"]
    segment = Segment(start, count, entry["oldest"], entry["newest"], entry["size"], zones, entry["file"])
    segment.longest = entry["longest"]
    if entry["small"] is not None:
        segment.small = data.slice(*entry["small"])
        segment.body = read_body(segment.small, count, store)
    return segment


def _changed(path: Path) -> int:
    """Return when a file was changed (nanoseconds), 0 if it has gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _description(segment: Segment, file: pa.NativeFile) -> dict[str, Any]:
    """Return what a view says of a segment, with the place where it holds what is in a small one."""
    if segment.file is None and segment.body is not None and segment.small is None:
        sink = pa.BufferOutputStream()
        write_body(sink, *segment.body)
        segment.small = sink.getvalue()
    place = None
    if segment.small is not None:
        file.write(b"\0" * (-file.tell() % ALIGN))
        place = file.tell(), segment.small.size
        file.write(segment.small)
    names = ("start", "count", "oldest", "newest", "size", "zones", "file", "longest")
    return {**{name: getattr(segment, name) for name in names}, "small": place}


def _bytes() -> int:
    """Return how many bytes all segments on this machine take."""
    found: dict[str, tuple[int, int]] = {}
    total = 0
    for directory in _copies():
        with suppress(OSError):  # gone this moment
            changed = directory.stat().st_mtime_ns
            known = WORKER.sums.get(directory.path)
            if known is None or known[0] != changed:
                settled = time.time_ns() - changed > _SETTLED_NS
                known = (changed if settled else -1, _segment_bytes(directory.path))
            found[directory.path] = known
            total += known[1]
    WORKER.sums = found
    return total


def _segment_bytes(directory: str) -> int:
    """Return how many bytes the segments in a folder take."""
    return sum(status.st_size for _, status in _segments(directory))


def _files() -> list[tuple[float, int, str]]:
    """Return time of last use, size and path of all segments on this machine."""
    return [
        (status.st_atime, status.st_size, path) for directory in _copies() for path, status in _segments(directory.path)
    ]


def _segments(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and status of the segments in a folder."""
    for entry in _entries(directory):
        if entry.name.endswith(".seg"):
            with suppress(OSError):  # evicted this moment
                yield entry.path, entry.stat()


def sweep() -> None:
    """Delete copies that no worker has touched for a day (their queries are gone), once an hour at most.

    Those that hold next to nothing, and are read back from the state store in no time, go after an hour.
    """
    if time.monotonic() - WORKER.swept < _SWEPT_SECONDS:
        return
    WORKER.swept = time.monotonic()
    now = time.time()
    for directory in _copies():
        with suppress(OSError):
            age = now - directory.stat().st_mtime
            if age > _STALE_SECONDS or (age > _SWEPT_SECONDS and _is_tiny(Path(directory.path))):
                shutil.rmtree(directory.path, ignore_errors=True)


def _is_tiny(directory: Path) -> bool:
    """Return whether a copy consists of small segments alone, as those of short or idle queries do."""
    views = list(directory.glob("*.view"))
    for path in views:
        try:
            view, _ = read_view(path)
            if any(entry["small"] is None for saved in view.values() for entry in saved["segments"]):
                return False
        except (ValueError, KeyError, TypeError):  # damaged: nobody can use it
            continue
    return not any(directory.glob("*.seg*"))


def _copies() -> Iterator[os.DirEntry[str]]:
    """Yield the folders of all slots; none where the directory is not ours."""
    if _is_ours(root()):
        yield from _entries(root())


def _entries(path: str | Path) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a directory, nothing if it has gone."""
    with suppress(OSError), os.scandir(path) as entries:
        yield from entries
