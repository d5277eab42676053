"""Makes the archive of classes that a JVM of ours starts with (`spark.jvm`): ``trijoin-sql doctor --warm``."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from .errors import UnavailableError
from .session import TriJoinSession
from .spark.config import configure
from .spark.java import either_java
from .spark.jvm import EXTRA, QUIET, archive_name, home, hotspot
from .spark.quiet import quiet_jvm, quiet_python

#: Seconds that a JVM may take to write an archive when it ends.
_WRITING = 300


def make_archive() -> Path:
    """Start Spark, run a small join of streams, and let the JVM write what classes it has loaded. Takes half a minute.

    Raises
    ------
    UnavailableError
        There is a JVM already; Java is missing or no HotSpot that Spark supports; or the JVM wrote no archive.
    """
    what = "an archive of classes"
    if not hotspot():
        raise UnavailableError(what, f"it takes Java {either_java()} with HotSpot")
    if SparkContext._gateway is not None:
        raise UnavailableError(what, "Spark runs already", "trijoin-sql doctor --warm makes it")
    home().mkdir(parents=True, exist_ok=True)
    new = home() / f"{archive_name()}.{os.getpid()}"  # a JVM that starts meanwhile must not find half of it
    options = shlex.join([f"-XX:ArchiveClassesAtExit={new}", *QUIET.split(), "-XX:TieredStopAtLevel=1"])
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.port", "0").config(EXTRA, options)
    try:
        with quiet_python(), quiet_jvm() as lines:
            spark = configure(builder).getOrCreate()
            try:
                _use(spark)
            finally:
                gateway: Any = SparkContext._gateway
                spark.stop()
                gateway.shutdown()
                gateway.proc.stdin.close()  # then it ends
                gateway.proc.wait(_WRITING)
        if not new.is_file():
            raise UnavailableError(what, lines[-1] if lines else "the JVM wrote none")
        for old in home().glob(f"{archive_name()}-*.jsa"):
            old.unlink(missing_ok=True)
        return new.replace(home() / f"{archive_name()}-{new.stat().st_size}.jsa")
    finally:
        new.unlink(missing_ok=True)


def _use(spark: SparkSession) -> None:
    """Run what a first query runs: streams from files, our join, an aggregation over it, a table of the results."""
    with tempfile.TemporaryDirectory(prefix="trijoin-classes-") as scratch:
        names = ("r", "s", "t")
        for name, source in zip(names, ("parquet", "json", "csv"), strict=True):
            frame = spark.range(20).selectExpr("id AS x", "timestamp_seconds(id) AS ts")
            frame.write.format(source).save(f"{scratch}/{name}")
            stream = spark.readStream.format(source).schema(frame.schema).load(f"{scratch}/{name}")
            stream.withWatermark("ts", "1 second").createOrReplaceTempView(name)
        joined = TriJoinSession.create(spark).sql(
            "SELECT r.x, COUNT(*) AS n FROM r JOIN s ON ABS(r.x - s.x) < 2 JOIN t ON ABS(s.x - t.x) < 2 "
            "WITHIN 10 SECONDS GROUP BY r.x"
        )
        writer = joined.writeStream.format("memory").queryName("found").outputMode("complete")
        writer.option("checkpointLocation", f"{scratch}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()
        found = spark.table("found").orderBy("x")
        found.write.parquet(f"{scratch}/found")
        found.limit(5).toPandas()
