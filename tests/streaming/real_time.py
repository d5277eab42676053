"""Random joins with the trigger ``realTime`` against Spark batch: ``python -m tests.streaming.real_time --count 20``.

Its tasks have to run side by side, so this is a program with a session of its own. Rows come from Spark's memory source
for that mode, in three parts with an end of a batch somewhere between; every second query is stopped and started again.
A row has a number of its own, so a result that comes again after a restart is told from one that is there twice.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)
from pyspark.sql.streaming.query import StreamingQuery

import trijoin_sql
from tests.sessions import local_session

from .differential import ARROW, COLUMNS, SCHEMA, random_rows

NAMES = ("r", "s", "t", "q", "v", "w", "z")
#: Seconds that a batch lasts, and that results may take.
BATCH, PATIENCE = 2, 60
#: By the number of relations: how many rows each has.
ROWS = {2: 60, 3: 24, 4: 24, 7: 9}
#: How many bytes of rows may be in memory: all, some, and none.
MEMORY = ("1g", "1g", "20k", "1")
#: Said of a query that raises an overflow: in batch, or on a pair that batch may not have looked at.
OVERFLOW = "an overflow is raised"
#: Columns whose differences a band can bound.
NUMBERS = ("ti", "si", "i", "f", "d", "n", "m")
#: Conditions of two relations; the first ones are what an index searches by.
CONDITIONS = (
    "{a}.{c} = {b}.{c}",
    "{a}.{c} <=> {b}.{c}",
    "{a}.{c} < {b}.{c}",
    "{a}.{c} >= {b}.{c}",
    "ABS({a}.{n} - {b}.{n}) < 2",
    "{a}.{n} - {b}.{n} BETWEEN -1.5 AND 2",
    "{a}.{n} > {b}.{n} - 1",
    "ABS({a}.ts - {b}.ts) <= INTERVAL 1 HOUR",
    "DATEDIFF({a}.dt, {b}.dt) BETWEEN -1 AND 1",
    "{a}.{c} <> {b}.{c}",
    "({a}.{n} < {b}.{n} - 1 OR {a}.{c} = {b}.{c})",
    "NOT ({a}.i BETWEEN {b}.i - 1 AND {b}.i + 1)",
    "CONCAT({a}.s, {a}.x) LIKE CONCAT({b}.s, '%')",
    "{a}.i % 3 = {b}.si % 3",
    "{a}.bo AND {b}.i < {a}.b",
)


def random_query(dice: Random) -> tuple[str, Sequence[str]]:
    """Return a join of two to seven relations, and their names."""
    names = NAMES[: dice.choice([2, 2, 2, 3, 3, 3, 4, 4, 7])]
    joins = [names[0]]
    for number, name in enumerate(names[1:], 1):
        others = [dice.choice(names[:number]), *(dice.sample(names[:number], 1) if dice.random() < 0.4 else [])]
        conditions = [
            dice.choice(CONDITIONS).format(a=other, b=name, c=dice.choice([*COLUMNS]), n=dice.choice(NUMBERS))
            for other in others
            for _ in range(dice.choice([1, 1, 2]))
        ]
        joins.append(f"{name} ON {' AND '.join(conditions)}")
    where = dice.choice(["", "", f" WHERE {names[0]}.i IS NOT NULL", f" WHERE {names[-1]}.ti < 100"])
    if dice.random() < 0.5:  # rows expire at the ends of batches
        near = [
            f"{one}.at BETWEEN {other}.at - INTERVAL 9 SECONDS AND {other}.at + INTERVAL 7 SECONDS"
            for one, other in itertools.combinations(names, 2)
        ]
        where = f"{where or ' WHERE true'} AND {' AND '.join(near)}"
    columns = ", ".join(
        [f"{name}.u AS {name}_u" for name in names] + [f"{names[-1]}.{dice.choice([*COLUMNS])} AS payload"]
    )
    hint = f"/*+ SCHEME('matrix'), UNITS({dice.choice([1, 1, 2, 4])}) */"
    return f"SELECT {hint} {columns} FROM {' JOIN '.join(joins)}{where}", names


class Stream:
    """A stream of JSON lines in the driver's memory, and the same lines as a table.

    Parameters
    ----------
    spark
        The session.
    lines
        All that will come.
    schema
        What is in a line.
    """

    def __init__(self, spark: SparkSession, lines: Sequence[str], schema: str) -> None:
        self.spark, self.lines, self.schema = spark, lines, schema
        jvm: Any = spark._jvm
        kind = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
        self.source = kind.apply(spark._jsparkSession, 1, jvm.org.apache.spark.sql.Encoders.STRING())

    def add(self, lines: Sequence[str]) -> None:
        """Let lines come."""
        jvm: Any = self.spark._jvm
        self.source.addData(jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(lines)))

    def frame(self, *, streaming: bool) -> DataFrame:
        """Return its rows."""
        text = (
            DataFrame(self.source.toDF(), self.spark)
            if streaming
            else self.spark.createDataFrame([(line,) for line in self.lines], "value string").coalesce(1)
        )
        read = F.from_json("value", self.schema, {"timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"})
        frame = text.select(read.alias("row")).selectExpr("row.*", "TIMESTAMP_SECONDS(row.u) AS at")
        return frame.withWatermark("at", "0 seconds") if streaming else frame


def lines_of(spark: SparkSession, seed: int, count: int) -> list[str]:
    """Return random rows as JSON, each with a number of its own."""
    rows = [{**row, "u": number} for number, row in enumerate(random_rows(seed, count))]
    table = pa.Table.from_pylist(rows, ARROW.append(pa.field("u", pa.int64())))
    frame = spark.createDataFrame(table)  # type: ignore[arg-type]
    options = {"timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
    return [row[0] for row in frame.select(F.to_json(F.struct("*"), options)).collect()]


def run(spark: SparkSession, sql: str, streams: dict[str, Stream], dice: Random, home: Path, *, again: bool) -> str:
    """Run a query; return what is wrong with its results, nothing if they are those of Spark batch."""
    for name, stream in streams.items():
        stream.frame(streaming=False).createOrReplaceTempView(name)
    try:
        wanted = Counter(map(_text, spark.sql(sql.replace("/*+", "/*")).collect()))
    except ArithmeticException:  # which pairs Spark looks at first is its own affair
        return OVERFLOW
    for name, stream in streams.items():
        stream.frame(streaming=True).createOrReplaceTempView(name)
    tj = trijoin_sql.TriJoinSession.create(spark)
    out = str(home / "found")
    Path(out).touch()

    def write(row: Row) -> None:
        with Path(out).open("a", encoding="utf-8") as file:
            file.write(json.dumps(_text(row)) + "\n")

    def start() -> StreamingQuery:
        frame = tj.sql(sql)
        writer = frame.writeStream.foreach(write).option("checkpointLocation", str(home / "checkpoint"))
        return writer.trigger(realTime=f"{BATCH} seconds").start()

    def found() -> Counter[str]:
        with Path(out).open(encoding="utf-8") as file:
            return Counter(json.loads(line) for line in file)

    query = start()
    try:
        for part in range(3):
            for stream in streams.values():
                third = len(stream.lines) // 3 + 1
                stream.add(stream.lines[part * third : (part + 1) * third])
            time.sleep(dice.choice([0.2, BATCH + 1]))
            if again and part < 2:
                query.stop()
                query = start()
        late = time.monotonic() + PATIENCE
        while set(found()) != set(wanted) and time.monotonic() < late and query.isActive:
            time.sleep(0.3)
        time.sleep(1.5)  # for what should not be there, and for what cells report
        if (failed := query.exception()) is not None:
            return OVERFLOW if "TRIJOIN_OVERFLOW" in str(failed) else str(failed)[:500]
        if not again and (why := miscounted(tj, query, wanted.total())):
            return why
    finally:
        query.stop()
    extra, missing = set(found()) - set(wanted), set(wanted) - set(found())
    twice = {} if again else found() - wanted
    if extra or missing or twice:
        return f"of {wanted.total()}: {len(missing)} missing, {len(extra)} wrong, {len(twice)} more than once"
    return ""


def miscounted(tj: trijoin_sql.TriJoinSession, query: StreamingQuery, results: int) -> str:
    """Return what is wrong with what cells report, within a batch too; conditions above a join may drop results."""
    found = tj.metrics(query)
    total, latency = found.total(), found.latency()
    if total["results"] < results or bool(latency) != bool(total["results"]):
        return f"{results} results, and cells report {total} and {latency}"
    told = str(tj.explain(query)) if found.batches else "latency p50"
    return "" if "latency p50" in told or not results else f"EXPLAIN does not tell how late results were: {told}"


def _text(row: Row) -> str:
    return repr(tuple(row))


def outcomes(count: int, seed: int, home: Path) -> Iterator[tuple[int, str, str]]:
    """Run some random queries; yield the seed, the SQL and what is wrong with it."""
    settings = {
        "spark.master": "local[16]",
        "spark.sql.streaming.realTimeMode.minBatchDuration": "1s",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    }
    spark = local_session(home, "real time", settings)
    spark.sparkContext.setLogLevel("OFF")
    try:
        for number in range(seed, seed + count):
            dice = Random(number)
            sql, names = random_query(dice)
            spark.conf.set("spark.trijoin.realTime.maxBytes", dice.choice(MEMORY))
            schema = f"{SCHEMA}, u bigint"
            streams = {
                name: Stream(spark, lines_of(spark, 100 * number + at, ROWS[len(names)]), schema)
                for at, name in enumerate(names)
            }
            place = home / str(number)
            place.mkdir()
            yield number, sql, run(spark, sql, streams, dice, place, again=number % 2 == 1)
    finally:
        spark.stop()


def main() -> int:
    """Run; the exit code says whether all agreed."""
    parser = argparse.ArgumentParser(prog="python -m tests.streaming.real_time", description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="real-time-", ignore_cleanup_errors=True) as home:
        for seed, sql, why in outcomes(asked.count, asked.seed, Path(home)):
            wrong += why not in ("", OVERFLOW)
            print(f"{seed}: {why or 'equal'}" + (f"\n  {sql}" if why else ""), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
