"""What a user does in a session that somebody else made; as a program, in one that runs already, or in Spark's own.

``python foreign_session.py FOLDER [SETTING=VALUE ...]``, also below ``spark-submit`` and in the ``pyspark`` shell.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import trijoin_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: An inner join below an outer one, each of ours, below an aggregate: the rows of r without a t are counted, too.
CHAIN = """
    SELECT window(r.ts, '10 seconds').start AS w, COUNT(*) AS n, COUNT(t.x) AS matched, SUM(r.x - s.x) AS far
    FROM r JOIN s ON ABS(r.x - s.x) < 3 AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 4 SECONDS
    LEFT JOIN t ON r.x < t.x AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 4 SECONDS
    GROUP BY window(r.ts, '10 seconds')"""
#: The same without the inner join.
LEFT = """
    SELECT window(r.ts, '10 seconds').start AS w, COUNT(*) AS n, COUNT(t.x) AS matched
    FROM r LEFT JOIN t ON r.x < t.x AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 4 SECONDS
    GROUP BY window(r.ts, '10 seconds')"""
#: The inner join alone.
PAIRS = "SELECT r.ts AS w, r.x, s.x AS other FROM r JOIN s ON ABS(r.x - s.x) < 3 WITHIN 4 SECONDS"

#: What has been closed at the end.
EARLY = "w < '2024-01-01 00:00:30'"


def write(folder: Path, part: int, seconds: Iterable[int]) -> None:
    """Write a file of each stream, with a row a second."""
    for number, name in enumerate("rst"):
        rows = [{"x": second * (number + 3) % 7, "ts": f"2024-01-01T00:00:{second:02}Z"} for second in seconds]
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / f"{part}.json").write_text("\n".join(map(json.dumps, rows)))


def views(spark: SparkSession, folder: Path, *, streaming: bool, marked: bool = True) -> None:
    """Make the tables or the streams, with watermarks or without."""
    for name in "rst":
        reader = spark.readStream if streaming else spark.read
        frame = reader.schema("x INT, ts TIMESTAMP").json(str(folder / name))
        (frame.withWatermark("ts", "0 seconds") if streaming and marked else frame).createOrReplaceTempView(name)


def run(frame: DataFrame, folder: Path) -> int:
    """Run a query as far as its files go; return in how many partitions its state is."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "found")).trigger(availableNow=True).start()
    query.awaitTermination()
    return int((query.lastProgress or {})["stateOperators"][0]["numShufflePartitions"])


def work(spark: SparkSession, folder: Path, query: str = LEFT) -> str:
    """Extend the session, run a query and run it again with more files; say what went wrong, if anything."""
    from pyspark.errors import ParseException

    marked = ".connect." not in type(spark).__module__
    if not marked:  # there watermarks are held back for what is above a join only if the text declares them
        query = re.sub(r"(FROM|JOIN) (\w)", r"\1 \2 WATERMARK ts DELAY OF INTERVAL 0 SECONDS AS \2", query)
    trijoin_sql.enable(spark)
    write(folder, 0, range(14))
    views(spark, folder, streaming=True, marked=marked)
    if run(spark.sql(query), folder) == 200:
        return "Spark's 200 partitions, which nobody chose, and as many tasks of Python"
    write(folder, 1, [*range(14, 30), 59])  # the last one closes all windows of the first half minute
    run(spark.sql(query), folder)
    trijoin_sql.disable(spark)
    try:
        spark.sql(PAIRS)
        return "disable() left our clause to the session"
    except ParseException:
        views(spark, folder, streaming=False)
    frames = spark.read.parquet(str(folder / "found")), trijoin_sql.TriJoinSession.create(spark).sql(query)
    found, wanted = (Counter(map(tuple, frame.where(EARLY).collect())) for frame in frames)
    return "" if found == wanted and wanted else f"{found - wanted} too many, {wanted - found} missing"


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    for setting in sys.argv[2:]:
        session.conf.set(*setting.split("="))
    print(work(session, Path(sys.argv[1]), CHAIN) or "as batch")
