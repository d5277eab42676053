"""Starts the driver program, waits for a moment of its life, and kills, freezes or damages something.

Product code knows nothing of all this: the moments are files that appear in the checkpoint and the sink.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

PROGRAM = f"{__package__}.driver"
_ROOT = Path(__file__).parents[2]
_MARK = "TRIJOIN_CRASH"
_POLL = 0.002

#: Moments in a micro-batch's life, in their order. `before_sink` and `after_sink` are inside a `foreachBatch` sink;
#: `before_late` and `after_late`, of the sink ``late`` alone, between results and late rows and behind both.
POINTS = ("offset", "state", "before_sink", "sink_file", "after_sink", "sink_log", "commit")
INSIDE = ("before_sink", "after_sink", "before_late", "after_late")


@dataclass(frozen=True, slots=True)
class Moment:
    """When a fault strikes: at a point of a micro-batch, or so many seconds after the query's start."""

    point: str
    batch: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s" if self.point == "time" else f"{self.point} of batch {self.batch}"


class Program:
    """The driver program in a folder of its own, started as often as it takes.

    Parameters
    ----------
    home
        The folder: ``in``, ``checkpoint``, ``out``, ``warm``, ``local``, a log for each start.
    case, sink
        A key of `workload.CASES`; ``"files"``, ``"foreach"``, or ``"late"`` (a job with LATE ROWS).
    master, conf
        Spark's.
    """

    def __init__(
        self, home: Path, case: str, sink: str, master: str = "local[2,4]", conf: Mapping[str, str] | None = None
    ) -> None:
        self.home, self.starts = home, 0
        self.config = {"home": str(home), "case": case, "sink": sink, "master": master, "conf": dict(conf or {})}
        self.checkpoint, self.out = home / "checkpoint", home / "out"
        self.mark = uuid.uuid4().hex
        self._mounted: list[Path] = []
        self.process: subprocess.Popen[bytes] | None = None
        for folder in ("warm", "local", "tmp"):
            (home / folder).mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def launch(self, death: Moment | None = None, units: int | None = None) -> None:
        """Start the program; with a moment inside the sink at which it ends itself, with another number of units."""
        self.starts += 1
        started = self.home / f"started-{self.starts}"
        dies = None if death is None else {"point": death.point, "batch": death.batch}
        file = self.home / f"config-{self.starts}.json"
        file.write_text(json.dumps({**self.config, "death": dies, "started": str(started), "units": units}))
        environment = {
            **os.environ,
            _MARK: self.mark,
            "TRIJOIN_LOCAL_DIR": str(self.home / "warm"),
            "TMPDIR": str(self.home / "tmp"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with (self.home / f"out-{self.starts}.log").open("wb") as out, self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, str(file)],
                cwd=_ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )

    @property
    def log(self) -> Path:
        """What the last start wrote to stderr."""
        return self.home / f"err-{self.starts}.log"

    @property
    def running(self) -> bool:
        """Whether the program has not ended."""
        return self.process is not None and self.process.poll() is None

    def wait_for(self, moment: Moment, timeout: float = 240) -> bool:
        """Wait for a moment; return False if the program ends before it."""
        deadline = time.monotonic() + timeout
        if moment.point == "sink_file" and not self.wait_for(Moment("offset", moment.batch), timeout):
            return False
        before = self._signs(moment) if moment.point != "offset" else set()
        while self.running:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{moment} did not come within {timeout:.0f} s; see {self.log}")
            if moment.point == "time":
                started = self.home / f"started-{self.starts}"
                if started.exists() and time.time() > started.stat().st_mtime + moment.seconds:
                    return True
            elif self._signs(moment) - before:
                return True
            time.sleep(_POLL)
        return False

    def _signs(self, moment: Moment) -> set[Path]:
        """Return the files that show that a moment is there."""
        number = moment.batch
        match moment.point:
            case "offset" | "commit":
                path = self.checkpoint / f"{moment.point}s" / str(number)
                return {path} if path.exists() else set()
            case "history":  # a table is being written, or its slices are there
                return set(self.checkpoint.glob("trijoin_history/*/*"))
            case "state":  # of one partition of one stage: the others may or may not have got there
                return set(self.checkpoint.glob(f"state/*/*/{number + 1}_*.changelog"))
            case "sink_file":
                return set(self.out.glob("part-*"))
            case "sink_log":
                return set(self.out.glob(f"_spark_metadata/{number}")) | set(
                    self.out.glob(f"_spark_metadata/{number}.compact")
                )
        return set()

    def processes(self, kind: str) -> list[int]:
        """Return our processes: ``"driver"``, ``"executor"``, ``"worker"``, ``"daemon"`` or ``"any"``."""
        daemons: set[int] = set()
        found: list[tuple[int, int, str]] = []
        for pid, parent, words in self._ours():
            if "CoarseGrainedExecutorBackend" in words:
                found.append((pid, parent, "executor"))
            elif "SparkSubmit" in words or PROGRAM in words:  # its settings name the daemon's module
                found.append((pid, parent, "driver"))
            elif any(name in words for name in ("pyspark.daemon", "pyspark/daemon", "operators.preload")):
                daemons.add(pid)
                found.append((pid, parent, "daemon"))
            else:
                found.append((pid, parent, "other"))
        named = [(pid, "worker" if what == "daemon" and parent in daemons else what) for pid, parent, what in found]
        return [pid for pid, what in named if kind in (what, "any")]

    def _ours(self) -> Iterator[tuple[int, int, str]]:
        mark = f"{_MARK}={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if mark not in (entry / "environ").read_bytes():
                    continue
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):  # it has just ended
                continue
            if words:
                yield int(entry.name), parent, words

    def layouts(self) -> list[list[int]]:
        """Return the layouts of the first join's units as the checkpoint has them: first micro-batch, units."""
        files = (self.checkpoint / "trijoin").glob("joins-*.json")
        file = max(files, key=lambda path: int(path.stem.removeprefix("joins-")))
        found: list[list[int]] = json.loads(file.read_text())["joins"][0]["layouts"]
        return found

    def kill(self, kind: str, random: Random, how: signal.Signals = signal.SIGKILL) -> int | None:
        """Send a signal to one process of a kind, or to all of the driver; return its id, None if there is none."""
        found = self.processes(kind)
        if not found:
            return None
        if kind != "driver":
            found = [random.choice(found)]
        for pid in found:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                return None
        if kind == "driver" and self.process is not None:
            self.process.wait(60)
        return found[0]

    def finish(self, timeout: float = 400) -> dict[str, Any] | None:
        """Wait for the end; return the comparison with Spark batch, None if the query failed or was killed."""
        assert self.process is not None
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.close()
            raise TimeoutError(f"the query did not end within {timeout:.0f} s; see {self.log}") from None
        text = (self.home / f"out-{self.starts}.log").read_text().strip()
        if self.process.returncode != 0 or not text:
            return None
        outcome: dict[str, Any] = json.loads(text.splitlines()[-1])
        return outcome

    def error(self) -> str:
        """Return what the last start said when its query failed."""
        return self.log.read_text(errors="replace")

    def small_disk(self, place: str, size: str) -> bool:
        """Put a folder of the program on a small file system; return whether this machine lets us."""
        folder = self.home / place
        folder.mkdir(exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "trijoin-crash", str(folder)]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            return False
        self._mounted.append(folder)
        return True

    def grow_disk(self) -> None:
        """Give the small file system room."""
        for folder in self._mounted:
            subprocess.run(["mount", "-o", "remount,size=1g", str(folder)], check=True)

    def close(self) -> None:
        """End every process that we started, and take small file systems away."""
        for _ in range(50):
            left = self.processes("any")
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if self.process is not None:
                self.process.poll()
            if not left:
                break
            time.sleep(0.1)
        for folder in self._mounted:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True)
        self._mounted.clear()
