"""What a user does with tables of Delta Lake or Iceberg, in a session of its own: they need jars.

``python -m tests.neighbours.lake_work FORMAT JARS FOLDER`` prints what came out, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import trijoin_sql
from trijoin_sql.jobs.jars import NEEDED
from trijoin_sql.jobs.job_text import Script

from ..sessions import compiled_pyspark, local_session
from . import jobs


def lake_session(name: str, jars: Path, home: Path) -> SparkSession:
    settings = {
        **NEEDED[name].settings,
        "spark.jars": ",".join(map(str, jars.glob("*.jar"))),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(home / "warehouse"),
        "spark.sql.catalog.lake.cache-enabled": "false",  # of tables, by session: a job here has one of its own
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    with compiled_pyspark(home / "home"):
        spark = local_session(home, name, settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark


class Lake:
    """Tables ``r``, ``s`` and ``t`` of a format, and queries over them."""

    def __init__(self, name: str, spark: SparkSession, home: Path) -> None:
        self.name, self.spark, self.home = name, spark, home
        # Iceberg wants a catalog of its own; Delta replaces Spark's.
        self.prefix = "lake.db." if name == "iceberg" else ""
        self.folder = home / "warehouse" / ("db" if name == "iceberg" else "")

    def create(self, table: str, columns: str) -> None:
        self.spark.sql(f"CREATE TABLE {self.prefix}{table} ({columns}) USING {self.name}")

    def append(self, first: int, last: int) -> None:
        for name in jobs.NAMES:
            frame = self.spark.createDataFrame(jobs.rows(name, first, last), "id BIGINT, x DOUBLE, ts TIMESTAMP")
            frame.writeTo(f"{self.prefix}{name}").append()

    def found(self, table: str) -> Counter[tuple[int, int, int]]:
        return jobs.bag(self.spark.table(f"{self.prefix}{table}").select("r", "s", "t").collect())

    def job(self) -> str:
        """Return a job: a stream by path, one by name, one of Spark's SQL; a sink by name."""
        return (
            f"CREATE STREAM r USING {self.name} OPTIONS (path '{self.folder / 'r'}') {jobs.WATERMARK};\n"
            f"CREATE STREAM s USING {self.name} OPTIONS (table '{self.prefix}s') {jobs.WATERMARK};\n"
            f"CREATE SINK found USING {self.name}\n"
            f"  OPTIONS (table '{self.prefix}by_job', checkpointLocation '{self.home}/by_job');\nINSERT INTO found "
            + jobs.QUERY.format(r="r", s="s", t=f"STREAM {self.prefix}t {jobs.WATERMARK}")
            + ";\n"
        )

    def in_python(self, sql: Callable[..., object], text: str, table: str) -> None:
        frame: object = sql(text)
        writer = frame.writeStream.option("checkpointLocation", f"{self.home}/{table}")  # type: ignore[attr-defined]
        query = writer.trigger(availableNow=True).toTable(f"{self.prefix}{table}", format=self.name)
        query.awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """Leave a checkpoint as a crash leaves it, after the sink has the last batch and before the checkpoint has it."""
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def work(lake: Lake) -> dict[str, object]:
    report: dict[str, object] = {}
    spark = lake.spark
    for name in jobs.NAMES:
        lake.create(name, "id BIGINT, x DOUBLE, ts TIMESTAMP")
    lake.create("by_job", "r BIGINT, s BIGINT, t BIGINT, at TIMESTAMP")
    script = Script(str(lake.home / "job.sql"), lake.job())

    def job_gives(last: int) -> bool:
        jobs.run_here(spark, script)
        return lake.found("by_job") == jobs.expected(last)

    lake.append(0, 40)
    report["job"] = job_gives(40)
    lake.append(40, 80)
    report["restart"] = job_gives(80)
    forget_last_commit(lake.home / "by_job")
    report["begun"] = len(jobs.unfinished(lake.home / "by_job")) == 1
    report["repeated batch"] = job_gives(80)
    lake.append(80, 120)
    report["after the repeated batch"] = job_gives(120)

    # Streams of Python, a static table, `spark.sql` itself.
    for name in jobs.NAMES:
        stream = spark.readStream.table(f"{lake.prefix}{name}").withWatermark("ts", "1 hour")
        stream.createOrReplaceTempView(f"stream_of_{name}")
    tj = trijoin_sql.TriJoinSession.create(spark)
    text = jobs.QUERY.format(r="stream_of_r", s="stream_of_s", t=f"{lake.prefix}t")
    report["explain"] = "BiJoin" in str(tj.explain(text)) or "TriJoin" in str(tj.explain(text))
    lake.in_python(tj.sql, text, "by_session")
    report["session, a static table"] = lake.found("by_session") == jobs.expected(120)
    trijoin_sql.enable(spark)
    lake.in_python(spark.sql, jobs.QUERY.format(r="stream_of_r", s="stream_of_s", t="stream_of_t"), "by_enable")
    report["enable"] = lake.found("by_enable") == jobs.expected(120)
    return report


if __name__ == "__main__":
    name, jars, home = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    print(json.dumps(work(Lake(name, lake_session(name, jars, home), home))))
