"""Late rows to have: with the results they are all of the input, each once, whatever the scheme and the checkpoint."""

from __future__ import annotations

import ast
import datetime
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import trijoin_sql
from trijoin_sql.running.late_rows import each_once
from trijoin_sql.running.metrics import Metrics

from .differential import UTC, Bag, Tables, bag, run_stream

pytestmark = pytest.mark.slow

START = datetime.datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "id int, k int, x double, `w w` string, ts timestamp"
ARROW = pa.schema(
    [
        ("id", pa.int32()),
        ("k", pa.int32()),
        ("x", pa.float64()),
        ("w w", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
FILES, ROWS = 6, 30


def rows_of(seed: int, number: int) -> list[dict[str, Any]]:
    """Rows of one file: in order but for a few seconds, some twice, and some that come hours, minutes or days late."""
    random = Random(f"{seed} {number}")
    rows: list[dict[str, Any]] = []
    for at in range(ROWS):
        if at % 6 == 5:
            rows.append(dict(rows[-1]))
            continue
        behind = random.choice([0, 0, 0, 0, 300, 5000, 200_000]) if at % 3 == 0 else random.random() * 5
        ts = START + datetime.timedelta(seconds=number * 60 + 2 * at - behind, microseconds=random.randrange(10**6))
        rows.append(
            {
                "id": number * ROWS + at,
                "k": random.choice([None, 0, 1, 2]),
                "x": random.choice([None, *range(8)]),
                "w w": random.choice([None, '"', "é\n", "plain"]),
                "ts": None if at == 7 else ts,
            }
        )
    return rows


def make(spark: SparkSession, home: Path, names: str = "rst", files: int = FILES) -> Tables:
    tables = Tables(spark, home)
    for seed, name in enumerate(names):
        pieces = [rows_of(seed, number) for number in range(files)]
        tables.create(name, pieces, SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", "10 seconds"))
    return tables


class Kept:
    """Runs queries whose late rows are kept beside their results."""

    def __init__(self) -> None:
        self.results: Bag = Counter()
        self.late: list[Any] = []

    def run(self, frame: DataFrame, checkpoint: Path, *, late: bool = True) -> Metrics:
        def write(found: DataFrame, late_rows: Callable[[], DataFrame], _: int) -> None:
            self.results.update(bag(found.collect()))
            self.late += late_rows().collect()

        def results(found: DataFrame, _: int) -> None:
            self.results.update(bag(found.collect()))

        writer = frame.writeStream.foreachBatch(trijoin_sql.with_late_rows(write) if late else results)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return trijoin_sql.TriJoinSession.create(frame.sparkSession).metrics(query)

    def ids(self) -> Counter[tuple[str, int]]:
        return Counter((row.stream, json.loads(row.row)["id"]) for row in self.late)


NEAR = "ABS(r.x - s.x) <= 1 AND r.ts BETWEEN s.ts - INTERVAL 40 SECONDS AND s.ts"
QUERIES = {
    "biclique": f"SELECT /*+ UNITS(2) */ r.id AS r, s.id AS s FROM r JOIN s ON {NEAR}",
    "one unit, aggregated": (
        "SELECT /*+ UNITS(1) */ r.k, COUNT(*) AS n FROM r JOIN s ON r.x < s.x GROUP BY r.k WITHIN 20 SECONDS"
    ).replace(" GROUP BY r.k WITHIN 20 SECONDS", " WITHIN 20 SECONDS GROUP BY r.k"),
    "matrix": "SELECT /*+ SCHEME('matrix'), UNITS(4) */ r.id AS r, s.id AS s, t.id AS t FROM r JOIN s ON r.x < s.x "
    "JOIN t ON ABS(s.x - t.x) < 1 WITHIN 15 SECONDS",
    "symmetric": "SELECT /*+ SCHEME('symmetric'), UNITS(3) */ r.id AS r, s.id AS s, t.id AS t FROM r "
    "JOIN s ON ABS(r.x - s.x) < 2 JOIN t ON ABS(s.x - t.x) < 1 AND ABS(t.x - r.x) < 1 WITHIN 15 SECONDS",
    "semi_symmetric": "SELECT /*+ SCHEME('semi_symmetric'), UNITS(2) */ r.id AS r, s.id AS s, t.id AS t FROM r "
    "JOIN s ON ABS(r.x - s.x) < 1 JOIN t ON ABS(s.x - t.x) < 1 WITHIN 15 SECONDS",
    "semi join that Spark tests": f"SELECT r.id AS r FROM r LEFT SEMI JOIN s ON {NEAR} AND r.x * s.x < 20 AND r.k > 0",
    "self join": "SELECT a.id AS a, b.id AS b FROM r AS a JOIN R AS b ON a.x < b.x AND a.k = b.k WITHIN 15 SECONDS",
}


@pytest.mark.rare
@pytest.mark.parametrize("name", QUERIES)
def test_batch_without_the_late_rows_gives_the_results(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """So what is late is dropped everywhere, and told once; its JSON has all columns, as they were."""
    sql, spark = QUERIES[name], spark.newSession()
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu" if name == "biclique" else "UTC")
    tables = make(spark, tmp_path)
    tables.use(streaming=True)
    kept, tj = Kept(), trijoin_sql.TriJoinSession.create(spark)
    mode = "complete" if "GROUP BY" in sql else "append"
    frame = tj.sql(sql, late_rows=True)
    if mode == "complete":
        metrics = run_complete(kept, frame, tmp_path / "checkpoint")
    else:
        metrics = kept.run(frame, tmp_path / "checkpoint")

    tables.use(streaming=False)
    joined = {one for one in "rst" if f"{one} " in sql.partition("FROM")[2]} if name != "self join" else {"r"}
    ids = Counter({(stream.lower(), number): rows for (stream, number), rows in kept.ids().items()})
    assert {stream for stream, _ in ids} == joined
    assert name == "self join" or metrics.late().inputs == metrics.late().streams
    assert sum(ids.values()) == metrics.total()["late"] == sum(map(sum, metrics.late().behind.values())) > 5
    for stream in joined:
        numbers = [number for one, number in ids if one == stream]
        rows = spark.table(stream).where(f"id IN ({', '.join(map(str, numbers))})")
        wanted = Counter(map(json.dumps, (plain(row) for row in rows.collect())))
        assert wanted == Counter(json.dumps(read(row.row)) for row in kept.late if row.stream.lower() == stream)
        spark.table(stream).where(f"id NOT IN ({', '.join(map(str, numbers))})").createOrReplaceTempView(stream)
    assert kept.results == bag(tj.sql(sql).collect())
    for row in kept.late:
        assert row.event_time <= row.watermark
        assert row.event_time.isoformat() == read(row.row)["ts"]


#: By name: the hint, with its units at the start and after a restart.
MANY_UNITS = {
    "hash": ("ROUTING('hash'), UNITS({})", 6, 5),
    "random": ("ROUTING('random'), UNITS({})", 2, 3),
    "matrix": ("SCHEME('matrix'), UNITS({})", 4, 4),
    "semi_symmetric": ("SCHEME('semi_symmetric'), UNITS({})", 2, 3),
}
THREE = ("matrix", "semi_symmetric")


def sparse(number: int, first: int) -> list[dict[str, Any]]:
    """Rows of a file: one key's is the latest, others come for any key, at the limits of what is late and beyond."""
    random, limit = Random(f"{number} {first}"), 100 * (number - 2) - 10  # the watermark of the micro-batch before
    late = [limit, limit + 0.001, limit + 100, limit + 101, random.uniform(limit - 200, limit + 100)]
    rows = [(100.0 * number, 0), *((0.0, key) for key in range(8) if not number)]
    rows += [(second, random.randrange(8)) for second in late if number > 2]
    return [
        {"id": first + n, "k": key, "x": 0.0, "w w": "", "ts": START + datetime.timedelta(seconds=second)}
        for n, (second, key) in enumerate(rows)
    ]


@pytest.mark.rare
def test_what_is_late_does_not_depend_on_units(spark: SparkSession, tmp_path: Path) -> None:
    """Units without rows for long drop what Spark's own join drops, in the same micro-batches, and it is counted.

    One query has all of them beside Spark's join: over a restart with other units, behind a micro-batch without rows.
    """
    tables, tj = Tables(spark, tmp_path), trijoin_sql.TriJoinSession.create(spark)
    for stream, name in enumerate("rst"):
        pieces = [sparse(number, 1000 * stream + 100 * number) for number in range(4)]
        tables.create(name, pieces, SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", "10 seconds"))

    def select(name: str, hint: str) -> str:
        r, s, t = (f"{stream}_{name}" for stream in "rst")
        near = "{0}.k = {1}.k AND {1}.ts BETWEEN {0}.ts - INTERVAL 1 HOUR AND {0}.ts + INTERVAL 1 HOUR"
        third = f"JOIN t AS {t} ON {near.format(s, t)}" if name in THREE else ""
        columns = f"'{name}' AS how, {r}.id AS r, {s}.id AS s, {f'{t}.id' if third else '0'} AS t"
        return f"SELECT /*+ {hint} */ {columns} FROM r AS {r} JOIN s AS {s} ON {near.format(r, s)} {third}"

    found: dict[str, Bag] = defaultdict(Counter)
    late: dict[str, Bag] = defaultdict(Counter)

    def look(query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            for operator in progress["stateOperators"]:
                if operator["operatorName"] == "symmetricHashJoin":
                    late["spark"][progress["batchId"]] += operator["numRowsDroppedByWatermark"]
        for batch in tj.metrics(query).batches:
            for slot in batch.slots:
                for alias, told in slot.get("late_rows", {}).items():
                    late[alias][batch.batch] += told["rows"]

    for start in (1, 2):
        tables.use(streaming=True)
        ours = [select(name, of[0].format(of[start])) for name, of in MANY_UNITS.items()]
        frame = tj.sql(" UNION ALL ".join([select("spark", "NO_TRIJOIN"), *ours]))
        for row, count in run_stream(frame, tmp_path / "checkpoint", look=look).items():
            how, *ids = ast.literal_eval(row)
            found[how][str(ids)] += count
        if start == 1:
            for stream, name in enumerate("rst"):
                for number in range(4, 7):
                    tables.add(name, sparse(number, 1000 * stream + 100 * number), ARROW)
    by_spark = +late["spark"]
    assert len(by_spark) >= 3
    for name in MANY_UNITS:
        assert late[f"r_{name}"] + late[f"s_{name}"] == by_spark, name
        assert found[name] == found["matrix" if name in THREE else "spark"], name
    assert late["t_matrix"] == late["t_semi_symmetric"]
    assert found["spark"]
    assert found["matrix"]


def run_complete(kept: Kept, frame: DataFrame, checkpoint: Path) -> Metrics:
    """Run a query whose groups go on changing: its last ones count."""

    def write(found: DataFrame, late_rows: Callable[[], DataFrame], _: int) -> None:
        kept.results = bag(found.collect())
        kept.late += late_rows().collect()

    writer = frame.writeStream.outputMode("complete").foreachBatch(trijoin_sql.with_late_rows(write))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return trijoin_sql.TriJoinSession.create(frame.sparkSession).metrics(query)


def plain(row: Any) -> dict[str, Any]:
    return {**row.asDict(), "ts": row.ts.replace(tzinfo=None).isoformat()}


def read(text: str) -> dict[str, Any]:
    row = json.loads(text)
    at = datetime.datetime.fromisoformat(row["ts"])
    return {**row, "ts": at.astimezone().replace(tzinfo=None).isoformat()}


@pytest.mark.rare
def test_a_checkpoint_goes_on_with_late_rows_and_without(spark: SparkSession, tmp_path: Path) -> None:
    """Asking for them is no other query, and changes neither state nor results."""
    tables = make(spark, tmp_path, "rs", 2)
    whole = make(spark, tmp_path / "whole", "rs", FILES)
    tj, sql = trijoin_sql.TriJoinSession.create(spark), QUERIES["biclique"]
    asked, never = Kept(), Kept()
    late = 0
    for number in range(2, FILES + 1):
        tables.use(streaming=True)
        asks = number in (3, 5)
        metrics = asked.run(tj.sql(sql, late_rows=asks), tmp_path / "checkpoint", late=asks)
        late += metrics.total()["late"] if asks else 0
        if number < FILES:
            for seed, name in enumerate("rs"):
                tables.add(name, rows_of(seed, number), ARROW)
    whole.use(streaming=True)
    never.run(tj.sql(sql), tmp_path / "other", late=False)
    assert asked.results == never.results
    assert len(asked.late) == late > 0


@pytest.mark.rare
def test_all_joins_of_a_query_tell_their_late_rows_once(spark: SparkSession, tmp_path: Path) -> None:
    """A join in a view, an outer join above it, and one stream in both: another node drops the same row again."""
    make(spark, tmp_path).use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    with tj.late_rows():
        tj.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW near AS SELECT r.id AS r, s.id AS s, s.x, s.ts FROM r JOIN s ON {NEAR}"
        )
        frame = tj.sql(
            "SELECT near.r, near.s, t.id AS t, o.id AS o FROM near JOIN t ON ABS(near.x - t.x) < 1 "
            "JOIN r AS o ON o.x < t.x WITHIN 20 SECONDS"
        )
    kept = Kept()
    metrics = kept.run(frame, tmp_path / "checkpoint")
    ids = kept.ids()
    assert {stream for stream, _ in ids} == {"r", "s", "t"}
    assert ids.total() == metrics.total()["late"] > 0
    assert max(ids.values()) <= 2  # a row that comes twice


@pytest.mark.rare
def test_a_repeated_micro_batch_that_the_results_skip_has_its_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Its results are in their sink, and the crash came before its late rows: nobody asks for the results again."""
    make(spark, tmp_path, "rs").use(streaming=True)
    checkpoint, brought = tmp_path / "checkpoint", dict[int, Bag]()
    frame = trijoin_sql.TriJoinSession.create(spark).sql(QUERIES["biclique"], late_rows=True)

    def write(found: DataFrame, late_rows: Callable[[], DataFrame], batch: int) -> None:
        if batch not in brought:
            found.collect()
        brought[batch] = bag(late_rows().collect())

    def run() -> None:
        writer = frame.writeStream.foreachBatch(trijoin_sql.with_late_rows(write))
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    run()
    last = max(batch for batch, rows in brought.items() if rows)
    for number in range(last, max(brought) + 1):
        for name in (str(number), f".{number}.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)
            if number > last:
                (checkpoint / "offsets" / name).unlink(missing_ok=True)
    first = dict(brought)
    brought = {batch: rows for batch, rows in first.items() if batch <= last}
    brought[last] = Counter()
    run()
    assert brought == first


@pytest.mark.rare
def test_all_late_rows_are_there_whatever_is_read_of_the_results(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing yet, or a part: the slots that hold the rest have not said theirs."""
    make(spark, tmp_path, "rs", 4).use(streaming=True)
    frame = trijoin_sql.TriJoinSession.create(spark).sql(QUERIES["biclique"], late_rows=True)
    brought: list[tuple[int, Bag]] = []

    def write(found: DataFrame, late_rows: Callable[[], DataFrame], batch: int) -> None:
        if batch % 2:
            found.head(1)
        early = bag(late_rows().collect())
        found.collect()
        assert bag(late_rows().collect()) == early
        brought.append((batch, early))

    query = frame.writeStream.foreachBatch(trijoin_sql.with_late_rows(write)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert {batch % 2 for batch, rows in brought if rows} == {0, 1}


def test_a_stream_of_several_inputs_gives_each_row_once_and_twins_twice(spark: SparkSession) -> None:
    """Inputs drop the same rows; a condition may have dropped some before one of them."""
    rows = [
        ("0 0", "r", "r", 1, 9, "a"),
        ("0 0", "r", "r", 1, 9, "a"),
        ("0 0", "r", "r", 2, 9, "b"),
        *(("1 0", "R", "r", time, 8, row) for time, row in ((1, "a"), (2, "b"), (3, "c"))),
        ("0 1", "s", "s", 1, 9, "a"),
    ]
    names = "input string, stream string, key string, event_time int, watermark int, row string"
    found = [
        (one.stream.lower(), one.row, one.watermark) for one in each_once(spark.createDataFrame(rows, names)).collect()
    ]
    assert sorted(found) == [("r", "a", 9), ("r", "a", 9), ("r", "b", 9), ("r", "c", 8), ("s", "a", 9)]


def test_a_query_that_was_not_made_for_late_rows_says_so(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path, "rs", 2).use(streaming=True)
    frame = trijoin_sql.TriJoinSession.create(spark).sql(QUERIES["biclique"])
    with pytest.raises(StreamingQueryException, match="late_rows=True"):
        Kept().run(frame, tmp_path / "checkpoint")
