"""The program that is killed: runs one streaming query to its end, then compares its sink with Spark batch.

``python -m tests.crash.driver CONFIG`` starts or goes on from the checkpoint, like any driver that is started again.
It ends with exit code 0 once all rows are through, and prints a JSON object: rows wanted, rows lost, rows too many. It
ends with exit code 3 and the error on stderr if the query fails. Only `foreachBatch` kills the program from within;
every other fault comes from outside (``harness.py``).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import trijoin_sql

from ..sessions import local_session
from .workload import ABOVE, CASES, OUTER, make_views, with_units

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


def main() -> int:
    """Run the query that a configuration file describes."""
    config = json.loads(Path(sys.argv[1]).read_text())
    home, case = Path(config["home"]), {**CASES, **ABOVE, **OUTER}[config["case"]]
    spark = session(home, config)
    make_views(spark, home / "in", case, streaming=True)
    writer = trijoin_sql.TriJoinSession.create(spark).sql(with_units(case.sql, config["units"])).writeStream
    writer = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True)
    keyed = KeyedSink(spark, home, config["death"]) if config["sink"] == "foreach" else None
    if keyed is not None:
        query = writer.foreachBatch(keyed).start()
    else:
        trijoin_sql.recover_file_sink(spark, str(home / "checkpoint"), str(home / "out"))
        query = writer.format("parquet").option("path", str(home / "out")).start()
    Path(config["started"]).touch()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(error, file=sys.stderr)
        return FAILED
    make_views(spark, home / "in", case, streaming=False)
    wanted = bag(spark.sql(case.sql).toArrow())
    # Read as a user does: Spark leaves out files of attempts that were never committed.
    found = keyed.bag() if keyed is not None else bag(spark.read.parquet(str(home / "out")).toArrow())
    outcome = {
        "wanted": wanted.total(),
        "lost": (wanted - found).total(),
        "twice": (found - wanted).total(),
        "batches": 1 + max(int(path.name) for path in (home / "checkpoint" / "commits").glob("[0-9]*")),
    }
    print(json.dumps(outcome))
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # stopping the session in order would take longer than the query
