"""Run queries of TPC-H as streams and compare what they end with with Spark batch (a part of `make corpus-test`).

``python -m tests.corpus.streams [q03 ...] [--batches 10] [--seed 1]``: every table becomes a stream of files, its rows
in random order over that many micro-batches; the query runs in complete mode. Results go to
``build/corpus/streams.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from trijoin_sql.rewriter.sql.declarations import read_script

import trijoin_sql

from .compare import QUERIES, RESULTS, difference, register, session, summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Those of paper 004's eleven that are one join under one aggregate: Spark allows no second one in complete mode.
STREAMED = ("q03", "q05", "q07", "q08", "q09", "q10")


def shuffle(home: Path, batches: int, seed: int) -> None:
    """Write every table of TPC-H as files of random rows, of random sizes: one file a micro-batch."""
    dice = Random(seed)
    for path in sorted((QUERIES / "tpch" / "data").glob("*.parquet")):
        table = pq.read_table(path)
        order = list(range(len(table)))
        dice.shuffle(order)
        cuts = [0, *sorted(dice.randint(0, len(order)) for _ in range(batches - 1)), len(order)]
        folder = home / path.stem
        folder.mkdir(parents=True)
        for number, (start, end) in enumerate(pairwise(cuts)):
            file = folder / f"part-{number:03}.parquet"
            pq.write_table(table.take(pa.array(order[start:end], pa.int64())), file)
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark reads older files first


def register_streams(spark: SparkSession, home: Path) -> None:
    """Make the tables' streams the session's temporary views."""
    for folder in sorted(home.iterdir()):
        schema = spark.read.parquet(str(folder)).schema
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
        frame.createOrReplaceTempView(folder.name)


@dataclass
class Ended:
    """What a streaming query ended with: the rows of its last micro-batch, and how many there were."""

    rows: list[tuple[Any, ...]]
    batches: int


def run(frame: DataFrame, checkpoint: Path) -> Ended:
    """Run a streaming query in complete mode over all that is there."""
    ended = Ended([], 0)

    def keep(batch: DataFrame, _: int) -> None:
        ended.rows = [tuple(row) for row in batch.collect()]
        ended.batches += 1

    writer = frame.writeStream.outputMode("complete").foreachBatch(keep)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return ended


def text_of(name: str) -> str:
    """Return a query of TPC-H."""
    _, (sql,) = read_script((QUERIES / "tpch" / f"{name}.sql").read_text(encoding="utf-8"))
    return sql


def compare(spark: SparkSession, name: str, expected: list[tuple[Any, ...]], checkpoint: Path) -> dict[str, Any]:
    """Run one query on the registered streams; return its line of the table."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    sql = text_of(name)
    start = time.monotonic()
    found = {"name": f"tpch/{name}", **summary(tj.explain(sql).to_dict())}
    try:
        ended = run(tj.sql(sql), checkpoint)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return {**found, "rows": None, "batches": 0, "equal": False, "why": f"{type(error).__name__}: {lines[0]}"}
    why = difference(ended.rows, expected)
    took = round(time.monotonic() - start, 1)
    counts = {"rows": len(ended.rows), "batches": ended.batches, "seconds": took}
    return {**found, **counts, "equal": why is None, "why": why or ""}


def main() -> int:
    """Run what is asked for; the exit code says whether all ended with the rows of Spark batch."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("queries", nargs="*", help="such as q05; all if none is named")
    parser.add_argument("--batches", type=int, default=10, help="micro-batches of each stream")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    names = options.queries or STREAMED
    path = RESULTS / "streams.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    with session() as spark, tempfile.TemporaryDirectory(prefix="trijoin-streams-") as text:
        home = Path(text)
        shuffle(home / "tables", options.batches, options.seed)
        register(spark, "tpch")
        expected = {name: [tuple(row) for row in spark.sql(text_of(name)).collect()] for name in names}
        register_streams(spark, home / "tables")
        for name in names:
            one = found[name] = compare(spark, name, expected[name], home / f"checkpoint-{name}")
            RESULTS.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(found, indent=1))
            state = "equal" if one["equal"] else one["why"]
            print(f"{one['name']} as streams: {one['nodes']}, {one['rows']} rows after {one['batches']}", end=" ")
            print(f"micro-batches, {one.get('seconds', '')} s, {state}", flush=True)
    return 0 if all(found[name]["equal"] for name in names) else 1


if __name__ == "__main__":
    sys.exit(main())
