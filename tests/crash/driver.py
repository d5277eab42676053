"""The program that is killed: runs one streaming query to its end, then compares its sink with Spark batch.

``python -m tests.crash.driver CONFIG`` starts or goes on from the checkpoint, like any driver that is started again.
It ends with exit code 0 once all rows are through, and prints a JSON object: rows wanted, rows lost, rows too many. It
ends with exit code 3 and the error on stderr if the query fails. Only `foreachBatch` kills the program from within;
every other fault comes from outside (``harness.py``).
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import trijoin_sql
from trijoin_sql.jobs import sinks
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare
from trijoin_sql.running.stopping import StopRequest

from ..sessions import local_session
from .workload import ABOVE, CASES, DELAY, HISTORIES, LATE_IDS, OUTER, SCHEMA, STREAMS, Case, make_views, with_units

FAILED = 3


def session(home: Path, config: dict[str, Any]) -> SparkSession:
    """Return a session like those of other tests, with the settings of a scenario."""
    java = "-XX:TieredStopAtLevel=1"
    ours = {
        "spark.master": config["master"],
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
    }
    return local_session(home, "crash tests", {**ours, **config["conf"]})


def die(spark: SparkSession) -> None:
    """End this driver at once: the JVM first, then the interpreter."""
    os.kill(spark._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)  # type: ignore[union-attr]
    os.kill(os.getpid(), signal.SIGKILL)


class KeyedSink:
    """A `foreachBatch` sink that goes by the batch's number: writing a batch again replaces it.

    Beside the sink it keeps what each attempt brought, to show that replays bring the same rows.
    """

    def __init__(self, spark: SparkSession, home: Path, death: dict[str, Any] | None) -> None:
        self.spark, self.death = spark, death
        self.out, self.attempts = home / "out", home / "attempts"
        self.out.mkdir(exist_ok=True)
        self.attempts.mkdir(exist_ok=True)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        table = frame.toArrow()
        number = sum(1 for _ in self.attempts.glob(f"{batch}-*"))
        self._write(table, self.attempts / f"{batch}-{number}.parquet")
        self._perhaps_die("before_sink", batch)
        self._write(table, self.out / f"{batch}.parquet")
        self._perhaps_die("after_sink", batch)

    def _write(self, table: pa.Table, path: Path) -> None:
        hidden = path.with_name("." + path.name)
        pq.write_table(table, hidden)
        hidden.rename(path)

    def _perhaps_die(self, point: str, batch: int) -> None:
        if self.death is not None and self.death["point"] == point and batch >= self.death["batch"]:
            die(self.spark)

    def bag(self) -> Counter[tuple[Any, ...]]:
        """Return all rows written; check that all attempts of a batch brought the same."""
        for path in self.attempts.glob("*-0.parquet"):
            batch = path.name.partition("-")[0]
            brought = {name.name: bag(pq.read_table(name)) for name in self.attempts.glob(f"{batch}-*.parquet")}
            if any(rows != brought[path.name] for rows in brought.values()):
                raise AssertionError(f"attempts of batch {batch} brought different rows")
        return sum((bag(pq.read_table(path)) for path in self.out.glob("[0-9]*.parquet")), Counter())


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Return rows as a bag."""
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def job(home: Path, sql: str) -> str:
    """Return a job with late rows, from files to files."""
    options = "path '{0}', checkpointLocation '{1}'"
    streams = [
        f"CREATE STREAM {name} ({SCHEMA}) USING parquet OPTIONS (path '{home / 'in' / name}', maxFilesPerTrigger 1) "
        f"WATERMARK ts DELAY OF INTERVAL {DELAY};"
        for name in STREAMS
    ]
    near, late = options.format(home / "out", home / "checkpoint"), options.format(home / "late", home / "late-log")
    return "\n".join(
        [
            *streams,
            f"CREATE SINK near USING parquet OPTIONS ({near});",
            f"CREATE SINK late USING parquet OPTIONS ({late});",
            f"INSERT INTO near {sql} LATE ROWS INTO late;",
        ]
    )


def start_job(spark: SparkSession, home: Path, sql: str, death: dict[str, Any] | None) -> StreamingQuery:
    """Start the query of `job` as ``trijoin-sql run`` does; it may end this driver before or after late rows."""
    made = sinks.late_writer

    def dying(*arguments: Any) -> Any:
        write = made(*arguments)

        def written(query: str, frame: DataFrame, batch: int) -> None:
            reached = death is not None and batch >= death["batch"]
            if death is not None and reached and death["point"] == "before_late":
                die(spark)
            write(query, frame, batch)
            if death is not None and reached and death["point"] == "after_late":
                die(spark)

        return written

    sinks.late_writer = dying
    parsed = parse_job(Script("job.sql", job(home, sql)))
    check_job(parsed)
    (one,) = prepare(parsed, trijoin_sql.TriJoinSession.create(spark))
    return sinks.start(one.frame, one.sink, parsed.script, StopRequest(), once=True, lines=False, late=one.late)


def compare_late(spark: SparkSession, home: Path, case: Case) -> tuple[Counter[Any], Counter[Any]]:
    """Return the late rows that came, and those that the sink has; leave the views without them."""
    wanted: Counter[Any] = Counter()
    for name in (name for name in STREAMS if f" {name}." in case.sql):
        frame = spark.table(name)
        rows = frame.where(f"id >= {LATE_IDS}").selectExpr("id", "ts").collect()
        wanted.update((name, row.id, row.ts) for row in rows)
        frame.where(f"id < {LATE_IDS}").createOrReplaceTempView(name)
    found = spark.read.parquet(str(home / "late")).selectExpr(
        "stream", "CAST(get_json_object(row, '$.id') AS BIGINT) AS id", "event_time AS ts"
    )
    return wanted, Counter((row.stream, row.id, row.ts) for row in found.collect())


def main() -> int:
    """Run the query that a configuration file describes."""
    config = json.loads(Path(sys.argv[1]).read_text())
    home, case = Path(config["home"]), {**CASES, **ABOVE, **OUTER, **HISTORIES}[config["case"]]
    spark = session(home, config)
    if config["sink"] == "late":
        query = start_job(spark, home, with_units(case.sql, config["units"]), config["death"])
        return finish(spark, home, case, query, Path(config["started"]))
    make_views(spark, home / "in", case, streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    with tj.resuming(str(home / "checkpoint")) if case.histories else nullcontext():
        writer = tj.sql(with_units(case.sql, config["units"])).writeStream
    writer = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True)
    keyed = KeyedSink(spark, home, config["death"]) if config["sink"] == "foreach" else None
    if keyed is not None:
        query = writer.foreachBatch(keyed).start()
    else:
        query = writer.format("parquet").option("path", str(home / "out")).start()
    return finish(spark, home, case, query, Path(config["started"]), keyed)


def finish(
    spark: SparkSession, home: Path, case: Case, query: StreamingQuery, started: Path, keyed: KeyedSink | None = None
) -> int:
    """Wait for the query's end, compare its sink with Spark batch, and print the outcome."""
    started.touch()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(error, file=sys.stderr)
        return FAILED
    make_views(spark, home / "in", case, streaming=False)
    came, kept = compare_late(spark, home, case) if (home / "late").exists() else (Counter(), Counter())
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    wanted = bag(spark.sql(re.sub(r" HISTORY \w+", "", case.sql)).toArrow())
    # Read as a user does: Spark leaves out files of attempts that were never committed.
    found = keyed.bag() if keyed is not None else bag(spark.read.parquet(str(home / "out")).toArrow())
    outcome = {
        "wanted": wanted.total(),
        "lost": (wanted - found).total() + (came - kept).total(),
        "twice": (found - wanted).total() + (kept - came).total(),
        "late": came.total(),
        "batches": 1 + max(int(path.name) for path in (home / "checkpoint" / "commits").glob("[0-9]*")),
    }
    print(json.dumps(outcome))
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # stopping the session in order would take longer than the query
