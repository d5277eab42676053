"""Long runs: is anything that should be flat growing, and is memory bounded where state is not? (``make soak``)

``window``
    A windowed cyclic query over a million small rows in thousands of small micro-batches. After the first window (and
    the first tenth, in which the JVM still compiles) its state, its chunks, its memory and its cost for a row have to
    stay what they are: the last third of the micro-batches is compared with the first. Cost is processor time, of the
    JVM, the Python workers and the driver together, so that it means something beside other work on the machine.
``memory``
    A join that keeps 5 GiB of rows, with a warm copy of a tenth of that and 512 MiB for all Python processes. Each row
    finds its only partner at the mirrored place of the other stream, which by then is long gone from the warm copy.

Memory is what the Python workers hold of their own: anonymous pages of all processes below the JVM (workers and their
daemon), added up four times a second, shared ones divided by their owners (``Pss_Anon`` of ``/proc/PID/smaps_rollup``).
Pages of the warm copy's mapped files are the machine's page cache, which it takes back when it wants; they are given
beside it. The JVM and the driver's own interpreter do not count.

Exit code 1 if a bound is broken. Figures are a JSON object a run on stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import trijoin_sql
from trijoin_sql.running.metrics import batch_counters

from ..bench.processes import memory, python_workers, seconds
from ..sessions import local_session

MIB = 1 << 20

#: The memory that all Python processes may take together, and what one of them may grow by over a soak.
PYTHON_LIMIT = 512 * MIB
COST_RATIO, STATE_RATIO, MEMORY_RATIO = 1.3, 1.1, 1.2


class MemorySampler:
    """Samples the memory of the Python workers below a JVM, and the processor time of all, until it is stopped."""

    def __init__(self, jvm: int) -> None:
        self.jvm = jvm
        self.samples: list[tuple[float, int, int]] = []
        self.seconds: list[float] = []
        self.at_peak: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.25):
            workers = python_workers(self.jvm)
            each = {pid: memory(pid) for pid in workers}
            # One that has just ended is missing in this sample, and in its parent's time from the next one on.
            self.seconds.append(max(seconds([self.jvm, os.getpid(), *workers]), *self.seconds[-1:], 0.0))
            anonymous = {pid: found.get("Pss_Anon", 0) for pid, found in each.items()}
            mapped = sum(found.get("Pss_File", 0) for found in each.values())
            if sum(anonymous.values()) > self.peak:
                self.at_peak = anonymous
            self.samples.append((time.monotonic(), sum(anonymous.values()), mapped))

    def cost(self, first: float, last: float) -> float:
        """Return the processor time (seconds) between two moments."""
        times = [at for at, _, _ in self.samples]
        return self.seconds[bisect_right(times, last) - 1] - self.seconds[bisect_right(times, first) - 1]

    @property
    def peak(self) -> int:
        """The most anonymous memory of all workers together."""
        return max((anonymous for _, anonymous, _ in self.samples), default=0)

    @property
    def peak_mapped(self) -> int:
        """The most memory-mapped file pages of all workers together."""
        return max((mapped for _, _, mapped in self.samples), default=0)


@dataclass(slots=True)
class Batch:
    """One micro-batch: its rows, what it took, what was kept after it."""

    number: int
    rows: int
    seconds: float
    state_rows: int
    chunks: int
    size: int
    at: float = field(default_factory=time.monotonic)


def session(home: Path, settings: dict[str, str]) -> SparkSession:
    """Return a session with files in a folder of its own."""
    ours = {"spark.driver.memory": "3g", "spark.sql.streaming.numRecentProgressUpdates": "30"}
    spark = local_session(home, "soak", {**ours, **settings})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def source(spark: SparkSession, rows: int, advance: int) -> DataFrame:
    """Return a stream of the same rows in every run, so many in each micro-batch."""
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 1)
    return reader.option("startTimestamp", 1_700_000_000_000).option("advanceMillisPerBatch", advance).load()


def follow(query: Any, batches: int, until: float, sampler: MemorySampler) -> list[Batch]:
    """Follow a query for some micro-batches or until a moment, and stop it."""
    found: dict[int, Batch] = {}
    told = time.monotonic()
    while query.isActive and time.monotonic() < until and max(found, default=-1) < batches - 1:
        time.sleep(1)
        for progress in query.recentProgress:
            if progress.batchId in found or "addBatch" not in (progress.durationMs or {}):
                continue
            totals = [counters.total() for counters in batch_counters(progress)]
            state = {name: sum(one[f"state_{name}"] for one in totals) for name in ("rows", "chunks", "bytes")}
            took = progress.durationMs["triggerExecution"] / 1000
            found[progress.batchId] = Batch(
                progress.batchId, progress.numInputRows, took, state["rows"], state["chunks"], state["bytes"]
            )
        if time.monotonic() - told > 15 and found:
            told, last = time.monotonic(), found[max(found)]
            print(
                f"batch {last.number}: {last.seconds:.2f} s, {last.state_rows:,} rows and {last.chunks} chunks kept, "
                f"Python {sampler.samples[-1][1] / MIB:.0f} MiB",
                file=sys.stderr,
            )
    if query.exception() is not None:
        raise query.exception()
    query.stop()
    return [found[number] for number in sorted(found)]


def soak_window(home: Path, arguments: argparse.Namespace) -> bool:
    """Run the windowed cyclic query; return whether everything stayed flat."""
    spark = session(home, {})
    each = max(arguments.rows // (3 * arguments.batches), 1)
    for number, name in enumerate("rst"):
        stream = source(spark, each, 1000).withWatermark("timestamp", "2 seconds")
        keys = [
            f"CAST(pmod(hash(value, {number}, {axis}), 2000) AS INT) AS {column}" for axis, column in enumerate("xyz")
        ]
        stream.selectExpr("timestamp AS ts", *keys).createOrReplaceTempView(name)
    frame = trijoin_sql.TriJoinSession.create(spark).sql(
        "SELECT window(greatest(r.ts, s.ts, t.ts), '1 minute') AS w, count(*) AS n FROM r "
        "JOIN s ON ABS(r.x - s.x) < 2 JOIN t ON ABS(s.y - t.y) < 2 AND ABS(r.z - t.z) < 8 WITHIN 30 SECONDS GROUP BY 1"
    )
    windows: dict[Any, int] = {}

    def keep(batch: DataFrame, _: int) -> None:
        for row in batch.collect():
            assert row.w.start not in windows, "a window came out twice"
            windows[row.w.start] = row.n

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(home / "checkpoint"))
    with MemorySampler(spark.sparkContext._gateway.proc.pid) as sampler:
        query = writer.start()
        batches = follow(query, arguments.batches, time.monotonic() + arguments.seconds, sampler)
    spark.stop()
    warm = max(60, len(batches) // 10)  # 60: a window and the watermark's delay
    settled = [batch for batch in batches if batch.rows and batch.number > warm]
    third = len(settled) // 3
    early, late = settled[:third], settled[-third:]

    def middle(some: list[Batch], what: str) -> float:
        return statistics.median(getattr(batch, what) for batch in some)

    def memory(some: list[Batch]) -> float:
        first, last = some[0].at, some[-1].at
        return statistics.median(one for at, one, _ in sampler.samples if first <= at <= last)

    def cost(some: list[Batch]) -> float:
        return sampler.cost(some[0].at, some[-1].at) / sum(batch.rows for batch in some[1:])

    ratios = {
        "processor time a row": cost(late) / cost(early),
        "state rows": middle(late, "state_rows") / middle(early, "state_rows"),
        "state chunks": middle(late, "chunks") / middle(early, "chunks"),
        "Python memory": memory(late) / memory(early),
    }
    bounds = [COST_RATIO, STATE_RATIO, COST_RATIO, MEMORY_RATIO]
    flat = all(ratio <= bound for ratio, bound in zip(ratios.values(), bounds, strict=True))
    figures = {
        "soak": "window",
        "flat": flat,
        "micro-batches": len(batches),
        "rows": sum(batch.rows for batch in batches),
        "seconds": round(sum(batch.seconds for batch in batches), 1),
        "windows": len(windows),
        "results": sum(windows.values()),
        "microseconds of processor time a row": [round(1e6 * cost(some), 1) for some in (early, late)],
        "ms a batch": [round(1000 * middle(some, "seconds"), 1) for some in (early, late)],
        "state rows": [middle(some, "state_rows") for some in (early, late)],
        "state chunks": [middle(some, "chunks") for some in (early, late)],
        "Python MiB": [round(memory(some) / MIB, 1) for some in (early, late)],
        "peak Python MiB": round(sampler.peak / MIB, 1),
        "last third over first": {name: round(ratio, 3) for name, ratio in ratios.items()},
    }
    print(json.dumps(figures), flush=True)
    return flat and len(windows) > 1


def soak_memory(home: Path, arguments: argparse.Namespace) -> bool:
    """Run the join that keeps more than the limits allow in memory; return whether it is complete and within them."""
    warm = arguments.state_bytes // 10
    os.environ["TRIJOIN_LOCAL_DIR"] = str(home / "warm")
    (home / "warm").mkdir()
    spark = session(home, {"spark.trijoin.warm.maxBytes": str(warm)})
    payload = 1024
    each = 10_000
    count = arguments.state_bytes // (2 * (payload + 16)) // each * each
    for name, key in (("r", "value"), ("s", f"{count - 1} - value")):
        stream = source(spark, each, 1000).where(f"value < {count}")
        parts = ", ".join(f"sha2(CAST(value * 4 + {part} AS STRING), 256)" for part in range(4))
        stream.selectExpr(f"{key} AS k", f"repeat(concat({parts}), 4) AS p").createOrReplaceTempView(name)
    frame = trijoin_sql.TriJoinSession.create(spark).sql(
        "SELECT /*+ SCHEME('biclique'), UNITS(2) */ r.k, length(r.p) + length(s.p) AS size FROM r "
        "JOIN s ON ABS(r.k - s.k) < 1"
    )
    found = {"results": 0, "keys": 0, "bytes": 0}

    def keep(batch: DataFrame, _: int) -> None:
        row = batch.selectExpr("count(*) AS results", "sum(k) AS keys", "sum(size) AS bytes").first()
        for name in found:
            found[name] += row[name] or 0

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(home / "checkpoint"))
    most = 0
    with MemorySampler(spark.sparkContext._gateway.proc.pid) as sampler:
        query = writer.start()
        batches = follow(query, count // each, time.monotonic() + arguments.seconds, sampler)
        most = sum(path.stat().st_size for path in (home / "warm").glob("*/*/*.seg"))
    spark.stop()
    wanted = {"results": count, "keys": count * (count - 1) // 2, "bytes": count * 2 * payload}
    complete = found == wanted
    fullest = max(batches, key=lambda batch: batch.state_rows)  # micro-batches after the last row have no slots to ask
    figures = {
        "soak": "memory",
        "complete": complete,
        "results": found["results"],
        "wanted": wanted["results"],
        "micro-batches": len(batches),
        "state rows": fullest.state_rows,
        "state GiB": round(fullest.state_rows * (payload + 16) / (1 << 30), 2),
        "durable chunks": fullest.chunks,
        "durable GiB": round(fullest.size / (1 << 30), 2),
        "warm limit MiB": warm // MIB,
        "warm copy MiB": most // MIB,
        "peak Python MiB": round(sampler.peak / MIB, 1),
        "of which by process": [round(size / MIB) for size in sampler.at_peak.values()],
        "peak mapped MiB": round(sampler.peak_mapped / MIB, 1),
        "seconds": round(sum(batch.seconds for batch in batches), 1),
        "seconds a batch": [round(batch.seconds, 2) for batch in batches[:: max(len(batches) // 8, 1)]],
    }
    print(json.dumps(figures), flush=True)
    return complete and sampler.peak <= PYTHON_LIMIT and most <= warm * 1.1


def main() -> int:
    """Run the soaks that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("soaks", nargs="*", choices=["window", "memory", []], help="both by default")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the window soak (%(default)s)")
    parser.add_argument("--batches", type=int, default=3000, help="of the window soak (%(default)s)")
    parser.add_argument("--state-bytes", type=int, default=5 << 30, help="of the memory soak (%(default)s)")
    parser.add_argument("--seconds", type=float, default=3600, help="at most for each (%(default)s)")
    arguments = parser.parse_args()
    fine = True
    for name in arguments.soaks or ["window", "memory"]:
        home = Path(tempfile.mkdtemp(prefix="trijoin-soak-"))
        try:
            fine &= {"window": soak_window, "memory": soak_memory}[name](home, arguments)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
