"""Three streams of rows, a chain join over them, and jobs that run in processes of their own."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

from trijoin_sql import TriJoinSession
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare
from trijoin_sql.jobs.run import run_queries
from trijoin_sql.running.stopping import StopRequest

NAMES = ("r", "s", "t")
QUERY = """\
SELECT r.id AS r, s.id AS s, t.id AS t, r.ts AS at
FROM {r} AS r JOIN {s} AS s ON ABS(r.x - s.x) < 3 AND s.ts >= r.ts
JOIN {t} AS t ON t.x BETWEEN s.x - 2 AND s.x + 1 AND t.ts >= s.ts AND t.ts < r.ts + INTERVAL 1 MINUTE
"""
#: Later than all rows, so that none is late.
WATERMARK = "WATERMARK ts DELAY OF INTERVAL 1 HOUR"
_BEGIN = datetime(2024, 5, 1, 10, tzinfo=UTC)


def rows(name: str, first: int, last: int) -> list[tuple[int, float, datetime]]:
    """Return the rows of a stream whose numbers are in a range."""
    dice = random.Random(name)
    drawn = [(dice.randrange(0, 50) / 2, _BEGIN + timedelta(seconds=dice.randrange(0, 600))) for _ in range(last)]
    return [(number, *drawn[number]) for number in range(first, last)]


def expected(numbers: int) -> Counter[tuple[int, int, int]]:
    """Return the results over the first rows of each stream, by the words of the query."""
    r, s, t = (rows(name, 0, numbers) for name in NAMES)
    minute = timedelta(minutes=1)
    return Counter(
        (a, b, c)
        for a, x, ts in r
        for b, y, us in s
        if abs(x - y) < 3 and us >= ts
        for c, z, vs in t
        if y - 2 <= z <= y + 1 and us <= vs < ts + minute
    )


def write_json(folder: Path, first: int, last: int) -> None:
    """Add a file to the folder of each stream."""
    for name in NAMES:
        (folder / name).mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"id": i, "x": x, "ts": ts.isoformat()}) for i, x, ts in rows(name, first, last)]
        file = folder / name / f"{first:05}.json"
        file.write_text("\n".join(lines), "utf-8")
        os.utime(file, (1_700_000_000 + first, 1_700_000_000 + first))  # Spark reads them in the order of their times


def streams_of_json(folder: Path) -> str:
    """Return the declarations of streams over `write_json`'s files, one file a micro-batch."""
    return "".join(
        f"CREATE STREAM {name} (id BIGINT, x DOUBLE, ts TIMESTAMP) USING json\n"
        f"  OPTIONS (path '{folder / name}', maxFilesPerTrigger 1) {WATERMARK};\n"
        for name in NAMES
    )


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``job.sql`` in a folder over what there is."""
    command = [sys.executable, "-m", "trijoin_sql", "run", "job.sql", "--once", "--format", "json", "--quiet"]
    command += ["--master", "local[2,4]", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    return subprocess.run(
        [*command, "--conf", "spark.sql.shuffle.partitions=2", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "TZ": "UTC", **environment},
        check=False,
    )


def bag(found: Iterable[Any]) -> Counter[tuple[int, int, int]]:
    """Return results as `expected` does."""
    return Counter((row[0], row[1], row[2]) for row in found)


def unfinished(checkpoint: Path) -> set[int]:
    """Return the batches that a checkpoint has begun and not committed: they are repeated."""
    begun, done = (
        {int(file.name) for file in (checkpoint / log).iterdir() if file.name.isdigit()}
        for log in ("offsets", "commits")
    )
    return begun - done


def run_here(spark: SparkSession, script: Script) -> None:
    """Run a job over what there is, as `trijoin-sql run --once` does, in an existing session."""
    job = parse_job(script)
    check_job(job)
    own = spark.newSession()
    sessions = own._jvm.org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(own._jsparkSession)  # as in a process of its own
    own.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        prepared = prepare(job, TriJoinSession.create(own))
        outcome = run_queries(job, prepared, Console(quiet=True), StopRequest(), once=True)
    finally:
        sessions.setActiveSession(spark._jsparkSession)
    assert outcome.ended == "done"
