"""A client of Spark Connect that does what a user would: batch joins, a view, a stream, counters. Prints JSON.

A program of its own, for Connect and classic sessions cannot live in one process: ``python work.py FOLDER``.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import trijoin_sql
from trijoin_sql import TriJoinError

CHAIN = (
    "SELECT r.id AS r, s.id AS s, t.id AS t FROM {0}r r JOIN {0}s s ON ABS(r.a - s.a) < 2 "
    "JOIN {0}t t ON s.b = t.b AND s.a < t.a"
)
#: The window goes by the time that lags: the watermarks, which the text alone has, must be held back.
LAGGING = (
    "SELECT window(r.ts, '4 seconds').start AS w, COUNT(*) AS n FROM {0} JOIN {1} ON ABS(r.a - s.a) < 4 AND "
    "s.ts BETWEEN r.ts AND r.ts + INTERVAL 15 SECONDS GROUP BY window(r.ts, '4 seconds')"
)
#: Spark tests the pairs, and rows without one come when the watermark has passed them.
TESTED = (
    "SELECT r.id AS r, s.id AS s FROM {0} LEFT JOIN {1} ON r.a * s.a % 3 = 1 AND "
    "s.ts BETWEEN r.ts AND r.ts + INTERVAL 15 SECONDS"
)
#: Rows without a partner, of which each is used at two places.
UNMATCHED = (
    "SELECT r.id AS r FROM {0} LEFT ANTI JOIN {1} ON r.a < s.a AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 3 SECONDS"
)
PLAIN = "SELECT a, COUNT(*) AS n FROM r GROUP BY a"


def bag(frame: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in frame.collect())


def streams(spark: SparkSession, folder: Path) -> None:
    """Make a streaming view of each table, two files each."""
    for name in "rst":
        table = spark.table(name)
        for part in range(2):
            table.where(f"id % 2 = {part}").coalesce(1).write.mode("append").parquet(str(folder / name))
        stream = spark.readStream.schema(table.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        stream.createOrReplaceTempView(f"stream_{name}")


def timed_streams(spark: SparkSession, folder: Path) -> None:
    """Make two streams with a time, of ten micro-batches, and one row far ahead that closes all windows."""
    for name in "rs":
        for part in range(11):
            of_part = f"SELECT id, id * 7 % 11 AS a, timestamp_seconds(id) AS ts FROM range({part * 5}, {part * 5 + 5})"
            end = f"SELECT {ord(name)}L AS id, {ord(name) * 1000}L AS a, timestamp_seconds(100000) AS ts"
            spark.sql(of_part if part < 10 else end).coalesce(1).write.mode("append").parquet(str(folder / f"t{name}"))
        table = spark.read.parquet(str(folder / f"t{name}"))
        table.where("id < 50").createOrReplaceTempView(f"timed_{name}")
        stream = spark.readStream.schema(table.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / f"t{name}"))
        stream.createOrReplaceTempView(f"timed_stream_{name}")


def run_stream(frame: DataFrame, spark: SparkSession, folder: Path) -> tuple[Any, Counter[str]]:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "out")).trigger(availableNow=True).start()
    query.awaitTermination()
    if query.exception() is not None:
        raise query.exception()
    return query, bag(spark.read.parquet(str(folder / "out")))


def said(action: Callable[[], object]) -> str:
    try:
        action()
    except TriJoinError as error:
        return str(error)
    return "nothing was refused"


def settings_asked(spark: Any, action: Callable[[], object]) -> int:
    """Return how often an action asks the server for settings."""
    asked: list[Any] = []
    client, real = spark.client, spark.client.config
    client.config = lambda operation: asked.append(operation) or real(operation)
    try:
        action()
    finally:
        client.config = real
    return len(asked)


def main(folder: Path) -> dict[str, Any]:
    builder = SparkSession.builder.remote("local[2,4]").config("spark.sql.shuffle.partitions", "2")
    spark = trijoin_sql.configure(builder.config("spark.sql.session.timeZone", "UTC")).getOrCreate()
    for number, name in enumerate("rst"):
        rows = [(i, i * (number + 3) % 7, i * (number + 2) % 5) for i in range(20)]
        spark.createDataFrame(rows, "id bigint, a int, b int").createOrReplaceTempView(name)
    expected = bag(spark.sql(CHAIN.format("")))
    found: dict[str, Any] = {"session": type(spark).__module__, "rows": expected.total()}

    tj = trijoin_sql.TriJoinSession.create(spark)
    found["nodes"] = [group["decision"]["node"] for group in tj.explain(CHAIN.format("")).to_dict()["groups"]]
    found["plain"] = bag(tj.sql(PLAIN)) == bag(spark.sql(PLAIN))
    filtered = CHAIN.format("") + " WHERE t.a < :most"
    found["arguments"] = bag(tj.sql(filtered, args={"most": 4})) == bag(spark.sql(filtered, args={"most": 4}))

    found["settings at once"] = settings_asked(spark, lambda: tj.sql(CHAIN.format(""))) <= 3

    trijoin_sql.enable(spark)
    try:
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW joined AS {CHAIN.format('')}")
        found["view"] = bag(spark.sql("SELECT * FROM joined")) == expected
    finally:
        trijoin_sql.disable(spark)

    streams(spark, folder)
    query, rows = run_stream(tj.sql(CHAIN.format("stream_")), spark, folder)
    found["stream"] = rows == expected
    found["results"] = tj.metrics(query).total()["results"]
    found["live"] = "live" in tj.explain(query).to_dict()["groups"][0]
    theta = "SELECT * FROM stream_r r LEFT JOIN stream_s s ON r.a < s.a"
    found["refused"] = said(lambda: tj.sql(theta))
    spark.conf.set("spark.trijoin.strict", "true")
    equal = "FROM stream_r r JOIN {} ON r.a = s.a"
    found["strict"] = "rows of r are kept for ever" in said(lambda: tj.sql(CHAIN.format("stream_")))
    of_spark = said(lambda: tj.sql(f"SELECT /*+ NO_TRIJOIN */ r.id {equal.format('stream_s s')}"))
    found["strict on Spark's"] = "Spark would run" in of_spark
    piped = said(lambda: tj.sql(f"{equal.format('stream_s s')} |> SELECT r.id"))
    found["strict on what Spark alone parses"] = "Spark would run a join (INNER) of streams" in piped
    alone = [lambda: tj.sql(f"SELECT r.id {equal.format('s')}"), lambda: tj.sql(f"{equal.format('s')} |> SELECT r.id")]
    found["strict on tables"] = [said(one) for one in alone] == ["nothing was refused"] * 2
    spark.conf.unset("spark.trijoin.strict")
    timed_streams(spark, folder)
    marked = [f"timed_stream_{name} WATERMARK ts DELAY OF INTERVAL 0 SECONDS AS {name}" for name in "rs"]
    _, rows = run_stream(tj.sql(LAGGING.format(*marked)), spark, folder / "lagging")
    found["event time"] = rows == bag(spark.sql(LAGGING.format("timed_r AS r", "timed_s AS s")))

    _, rows = run_stream(tj.sql(TESTED.format(*marked)), spark, folder / "tested")
    found["pairs that Spark tests"] = rows == bag(spark.sql(TESTED.format("timed_r AS r", "timed_s AS s")))

    both = [tj.sql(UNMATCHED.format(*names)) for names in (("timed_r AS r", "timed_s AS s"), marked)]
    wanted, twice = (one.where("r % 2 = 0").unionAll(one.where("r < 30")) for one in both)
    _, rows = run_stream(twice, spark, folder / "twice")
    found["used twice"] = rows == bag(wanted) and rows.total() > 10

    spark.conf.set("spark.trijoin.units", "2")
    batch = [spark.table(name) for name in "rst"]
    live = [spark.table(f"stream_{name}") for name in "rst"]
    for place, (r, s, t) in (("batch", batch), ("live", live)):
        text = tj.sql(
            CHAIN.format("").replace("r r JOIN s s", "{a} r JOIN {b} s").replace("JOIN t t", "JOIN {c} t"),
            a=r,
            b=s,
            c=t,
        )
        near = F.abs(F.col("r.a") - F.col("s.a")) < 2
        select = [r["id"].alias("r"), "s.id AS s", F.col("t.id").alias("t")]
        on = [near, s["b"] == t["b"], "s.a < t.a"]
        joined = tj.join({"r": r, "s": s, "t": t}, on, select=select, units=3 if place == "live" else None)
        for name, frame in (("text", text), ("join", joined)):
            rows = run_stream(frame, spark, folder / name)[1] if place == "live" else bag(frame)
            found[f"{name} {place}"] = rows == expected
    found["explained"] = tj.explain(joined).to_dict()["groups"][0]["graph"]["relations"] == ["r", "s", "t"]
    found["ambiguous"] = "id is in r and in s" in said(lambda: tj.join({"r": r, "s": s}, near))
    found["rewritten"] = "use join()" in said(lambda: tj.rewrite(r))
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
