"""Memory and processor time of processes while an engine runs, from ``/proc`` on Linux.

Anonymous memory counts (``Pss_Anon`` of ``/proc/PID/smaps_rollup``; pages that processes share are divided by
their owners): what a process holds itself. Mapped files are page cache, which the machine can reclaim.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

#: Seconds between two samples.
EVERY = 0.25


def below(pid: int) -> set[int]:
    """Return all descendants of a process."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(") ")[2].split()[1])
        except (OSError, IndexError):  # it has ended
            continue
    found, more = {pid}, True
    while more:
        new = {child for child, parent in parents.items() if parent in found} - found
        found, more = found | new, bool(new)
    return found - {pid}


def python_workers(jvm: int) -> list[int]:
    """Return Spark's Python workers below a JVM, with their daemon."""
    return sorted(pid for pid in below(jvm) if _is_python(pid))


def _is_python(pid: int) -> bool:
    """Whether it is one of Spark's Python processes: a JVM that starts a program is briefly a copy of itself."""
    try:
        return b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0-cp\0")[0]
    except OSError:  # it has ended
        return False


def memory(pid: int) -> dict[str, int]:
    """Return the bytes of each kind that a process has, by the kernel's names; nothing if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return {}
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}


def seconds(pids: Iterable[int], *, own: bool = True, ended: bool = True) -> float:
    """Return the processor time of processes: their own, and that of their children that have ended."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            times = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:15]
            ticks += sum(map(int, times[0 if own else 2 : 4 if ended else 2]))
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cpu:
    """Processor time in seconds, user and system.

    Parameters
    ----------
    jvm
        Of the JVM.
    workers
        Of all that it has started: Spark's Python workers.
    driver
        Of the Python process that has started the JVM.
    """

    jvm: float
    workers: float
    driver: float

    @property
    def total(self) -> float:
        """The time of all."""
        return self.jvm + self.workers + self.driver

    def __sub__(self, before: Cpu) -> Cpu:
        return Cpu(self.jvm - before.jvm, self.workers - before.workers, self.driver - before.driver)

    def __truediv__(self, parts: int) -> Cpu:
        return Cpu(self.jvm / parts, self.workers / parts, self.driver / parts)


def cpu_of(driver: int, jvm: int) -> Cpu | None:
    """Return the processor time of a Spark session so far; None on systems without ``/proc``."""
    if not Path(f"/proc/{jvm}/stat").exists():
        return None
    workers = seconds(below(jvm)) + seconds([jvm], own=False)
    return Cpu(seconds([jvm], ended=False), workers, seconds([driver], ended=False))


class Peak:
    """The peak of the anonymous memory of some processes together, inside a ``with`` block.

    Parameters
    ----------
    processes
        Returns their ids; called for each sample.

    Attributes
    ----------
    most
        Bytes; None where nothing could be read, as on systems without ``/proc``.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self.processes = processes
        self.most: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        over = False
        while not over:
            anonymous = sum(memory(pid).get("Pss_Anon", 0) for pid in self.processes())
            if anonymous:
                self.most = max(self.most or 0, anonymous)
            over = self._stop.wait(EVERY)
