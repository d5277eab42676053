"""HISTORY: a table as the beginning of a stream gives the rows of Spark batch over both, also through restarts."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import trijoin_sql
from trijoin_sql.errors import CheckpointMismatchError, UnsupportedQueryError
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare
from trijoin_sql.jobs.run import run_queries
from trijoin_sql.running.history import FOLDER
from trijoin_sql.running.stopping import StopRequest

from .differential import Bag, Tables, bag, run_stream

SCHEMA = "id bigint, x int, g string, ts timestamp"
ARROW = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("g", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
DELAY = "2 seconds"

#: Live rows begin here. The table has rows up to it, the one of this very time too.
BORDER = 600


def at(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def rows(seed: int, begin: int, end: int, step: int = 5) -> list[dict[str, Any]]:
    """Rows by time: every seventh one twice."""
    random, made = Random(seed), list[dict[str, Any]]()
    for second in range(begin, end, step):
        made.append({"id": second, "x": random.randrange(60), "g": random.choice("abc"), "ts": at(second)})
        made += [dict(made[-1])] * (second % 7 == 0)
    return made


class Told:
    """Three streams, r and s of which have a table for their beginning; t begins as late as they go on."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home
        self.tables = Tables(spark, home / "live")
        self.tables_at = home / "tables"
        self.tables_at.mkdir()
        for seed, name in enumerate("rst"):
            self.keep(name, rows(seed, 0, BORDER))
            live = rows(seed + 10, BORDER, 2 * BORDER)
            view = lambda frame: frame.withWatermark("ts", DELAY) if frame.isStreaming else frame  # noqa: E731
            self.tables.create(name, [live[:40], live[40:90], live[90:]], SCHEMA, ARROW, view)

    def keep(self, name: str, kept: Sequence[Mapping[str, Any]], schema: pa.Schema = ARROW, seed: int = 5) -> None:
        """Replace a table, ``old_r`` say: its rows lie in no order."""
        mixed = list(kept)
        Random(seed).shuffle(mixed)
        pq.write_table(pa.Table.from_pylist(mixed, schema), self.tables_at / f"{name}.parquet")
        self.spark.read.parquet(str(self.tables_at / f"{name}.parquet")).createOrReplaceTempView(f"old_{name}")

    def go_on(self, borders: int = 2) -> None:
        """Add live rows."""
        for seed, name in enumerate("rst"):
            self.tables.add(name, rows(seed + 20, borders * BORDER, (borders + 1) * BORDER), ARROW)

    def stream(self, sql: str, checkpoint: str = "checkpoint", **asked: Any) -> Bag:
        """Run what is there with a session object and a plan of its own, as a new driver would."""
        self.tables.use(streaming=True)
        tj = trijoin_sql.TriJoinSession.create(self.spark)
        with tj.resuming(str(self.home / checkpoint)):
            frame = tj.sql(sql)
        return run_stream(frame, self.home / checkpoint, **asked)

    def batch(self, sql: str, until: str = "") -> Bag:
        """Run it over tables with all rows: ``sql`` without its clauses."""
        self.tables.use(streaming=False)
        for name in "rst":
            if f"{name} HISTORY" in sql:
                old, new = self.spark.table(f"old_{name}"), self.spark.table(name)
                if until:
                    old, new = old.where(f"ts < {until}"), new.where(f"ts >= {until}")
                columns = new.columns
                new.unionByName(old.select(columns)).createOrReplaceTempView(name)
            sql = sql.replace(f"HISTORY old_{name}", "").replace(f"UNTIL {until}", "")
        return bag(self.spark.sql(sql).collect())


@pytest.fixture
def told(spark: SparkSession, tmp_path: Path) -> Iterator[Told]:
    before = spark.conf.get("spark.sql.join.asofJoin.enabled", None)
    spark.conf.set("spark.trijoin.history.rows", "30")
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    yield Told(spark, tmp_path)
    spark.conf.unset("spark.trijoin.history.rows")
    if before is None:
        spark.conf.unset("spark.sql.join.asofJoin.enabled")


#: What is not closed when all rows have come is left out, for a stream never says that it ended.
CLOSED = f"ts < TIMESTAMP '{at(2 * BORDER - 120):%Y-%m-%d %H:%M:%S}'"
PAIR = (
    "SELECT a.id, a.x, b.id AS other FROM r HISTORY old_r AS a JOIN s HISTORY old_s AS b ON ABS(a.x - b.x) < 5 "
    "AND b.ts BETWEEN a.ts - INTERVAL 20 SECONDS AND a.ts + INTERVAL 20 SECONDS"
)
ALONE = PAIR.replace("JOIN s", "LEFT ANTI JOIN s").replace(", b.id AS other", ", a.ts")
QUERIES = {
    "two": PAIR,
    "one of them has a history": PAIR.replace("HISTORY old_s", "").replace("20 SECONDS", "900 SECONDS"),
    "three": f"{PAIR.replace('b.id AS', 't.id AS third, b.id AS')} JOIN t HISTORY old_t ON ABS(b.x - t.x) < 5 "
    "AND t.ts BETWEEN b.ts AND b.ts + INTERVAL 20 SECONDS",
    # The filter would drop beats, if Spark moved it below the watermark.
    "left": f"{PAIR.replace('JOIN s', 'LEFT JOIN s').replace('< 5', '< 1')} WHERE a.{CLOSED} AND a.x > 3",
    # Both are read twice, by two joins: to find the pairs, and to settle which rows have none.
    "pairs that Spark tests": f"SELECT q.id, t.id AS o FROM ({ALONE}) AS q LEFT JOIN t HISTORY old_t "
    f"ON q.x * t.x % 7 = 1 AND t.ts BETWEEN q.ts AND q.ts + INTERVAL 20 SECONDS WHERE q.{CLOSED}",
    "closest": "SELECT a.id, b.ts FROM r HISTORY old_r AS a LEFT ASOF JOIN s HISTORY old_s AS b "
    f"MATCH_CONDITION (a.ts > b.ts) ON a.g = b.g WHERE a.{CLOSED}",
    "itself": f"{PAIR.replace('s HISTORY old_s', 'r HISTORY old_r')} AND a.id < b.id",
    "a window above": f"SELECT window(a.ts, '60 seconds').start AS at, COUNT(*) AS n {PAIR[PAIR.index('FROM') :]} "
    f"WHERE a.{CLOSED} GROUP BY window(a.ts, '60 seconds')",
    "no join": f"SELECT window(ts, '60 seconds').start AS at, COUNT(*) AS n FROM r HISTORY old_r WHERE {CLOSED} "
    "GROUP BY window(ts, '60 seconds')",
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", QUERIES)
def test_the_rows_of_batch_over_both(told: Told, name: str) -> None:
    wanted = told.batch(QUERIES[name])
    assert wanted.total() > 10
    assert told.stream(QUERIES[name]) == wanted


def test_rows_of_the_stream_that_a_filter_drops_move_its_watermark(told: Told) -> None:
    """As they do without a HISTORY; else what the table's rows wait for would never come."""
    shutil.rmtree(told.tables.home / "r")
    (told.tables.home / "r").mkdir()
    told.tables.add("r", [{**row, "x": -1} for row in rows(9, BORDER, 2 * BORDER)], ARROW)
    wanted = told.batch(QUERIES["left"])
    assert any("None" in row for row in wanted)
    assert told.stream(QUERIES["left"]) == wanted


def make(told: Told, sql: str) -> DataFrame:
    """Make a query as a new driver would."""
    told.tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(told.spark)
    with tj.resuming(str(told.home / "checkpoint")):
        return tj.sql(sql)


def run(told: Told, sql: str, found: dict[int, Bag], stop: int | None = None, frame: DataFrame | None = None) -> None:
    """Run what is there into a sink that goes by the number of the micro-batch; fail behind it in that of ``stop``."""

    def keep(batch: DataFrame, number: int) -> None:
        found[number] = bag(batch.collect())
        if number == stop:
            raise RuntimeError("stopped by the test")

    frame = frame or make(told, sql)
    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(told.home / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    if stop is None:
        query.awaitTermination()
    else:
        with pytest.raises(StreamingQueryException):
            query.awaitTermination()


@pytest.mark.parametrize("name", ["left", "no join"])
def test_stopped_in_the_history_at_its_end_and_behind_it(told: Told, name: str) -> None:
    """The tables change meanwhile and then are gone: they were read once, when the query first was made."""
    sql = QUERIES[name].replace(CLOSED, f"ts < TIMESTAMP '{at(4 * BORDER - 120):%Y-%m-%d %H:%M:%S}'")
    found: dict[int, Bag] = {}
    for old in "rs":
        told.keep(old, rows(4, 0, BORDER))
    make(told, sql)  # it does not start, so the table may still change
    for seed, old in enumerate("rs"):
        told.keep(old, rows(seed, 0, BORDER))
    run(told, sql, found, stop=1)
    for old in "rs":
        told.keep(old, rows(3, 0, 2 * BORDER))
    run(told, sql, found, stop=3)
    slices = len(list((told.home / "checkpoint" / FOLDER).glob("r_old_r__*/part-*")))
    assert slices > 4
    told.spark.catalog.dropTempView("old_r")
    run(told, sql, found, stop=slices)  # a beat
    run(told, sql, found)
    told.go_on()
    frame = make(told, sql)
    run(told, sql, found, stop=max(found) + 1, frame=frame)
    run(told, sql, found, frame=frame)
    told.go_on(3)
    run(told, sql, found)
    for seed, old in enumerate("rst"):
        told.keep(old, rows(seed, 0, BORDER))
    assert sum(found.values(), Bag()) == told.batch(sql)


@pytest.mark.parametrize("second", [BORDER, BORDER - 100])
def test_until_is_where_the_table_ends_and_the_stream_begins(told: Told, second: int) -> None:
    """Both have rows before, at and behind it; those without a time are in neither."""
    without_time = {"id": 1, "x": 1, "g": "a", "ts": None}
    told.keep("r", [*rows(7, 0, BORDER + 60), without_time])
    shutil.rmtree(told.tables.home / "r")
    (told.tables.home / "r").mkdir()
    for piece in ([*rows(8, BORDER - 150, BORDER + 100), without_time], rows(9, BORDER + 100, 2 * BORDER)):
        told.tables.add("r", piece, ARROW)
    until = f"TIMESTAMP '{at(second):%Y-%m-%d %H:%M:%S}'"
    sql = PAIR.replace("HISTORY old_r", f"HISTORY old_r UNTIL {until}").replace("HISTORY old_s", "")
    sql = sql.replace("20 SECONDS", "900 SECONDS").replace(" AS other", " AS other, a.ts")
    found = told.stream(sql)
    wanted = told.batch(sql, until)
    assert any(row.startswith(f"[{second}, ") for row in wanted)
    assert found == wanted


def test_one_table_up_to_two_times(told: Told) -> None:
    early, late = (f"TIMESTAMP '{at(second):%Y-%m-%d %H:%M:%S}'" for second in (BORDER - 300, BORDER))
    sql = "SELECT a.id, b.x FROM {} JOIN {} ON a.id = b.id AND a.ts = b.ts"
    found = told.stream(sql.format(f"r HISTORY old_r UNTIL {early} a", f"r HISTORY old_r UNTIL {late} b"))
    told.tables.use(streaming=False)
    whole = "(SELECT * FROM old_r WHERE ts < {0} UNION ALL SELECT * FROM r WHERE ts >= {0}) {1}"
    batch = told.spark.sql(sql.format(whole.format(early, "a"), whole.format(late, "b")))
    assert found == bag(batch.collect())


def test_until_stays_where_it_was_in_another_zone(told: Told) -> None:
    sql = PAIR.replace("old_r", f"old_r UNTIL TIMESTAMP '{at(BORDER):%Y-%m-%d %H:%M:%S}'").replace("HISTORY old_s", "")
    first = told.stream(sql)
    told.go_on()
    told.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        second = told.stream(sql)
    finally:
        told.spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert second
    assert first + second == told.batch(sql, f"TIMESTAMP '{at(BORDER):%Y-%m-%d %H:%M:%S}'")


def test_columns_in_another_order_of_wider_types_and_more(told: Told) -> None:
    """The rows are those of UNION ALL BY NAME, which widens."""
    kept = [
        {"g": row["g"], "more": True, **row, "x": row["x"] + 2**33 * (row["id"] % 3 == 0)} for row in rows(5, 0, 600)
    ]
    schema = pa.schema([("g", pa.string()), ("more", pa.bool_()), ("ts", ARROW.field("ts").type), ("x", pa.int64())])
    told.keep("r", kept, schema.append(ARROW.field("id")))
    assert told.stream(PAIR) == told.batch(PAIR)


def test_names_that_need_quotes(told: Told) -> None:
    told.tables.use(streaming=True)
    for name, view in (("r", "q r"), ("old_r", "old q.r")):
        renamed = told.spark.table(name).selectExpr("id", "x AS `x.y`", "ts AS `t s`", "g AS `größe`")
        renamed.createOrReplaceTempView(f"`{view}`")
    sql = (
        PAIR.replace("r HISTORY old_r", "`q r` HISTORY `old q.r`").replace("a.x", "a.`x.y`").replace("a.ts", "a.`t s`")
    )
    assert told.stream(sql) == told.batch(PAIR)


def test_dates_become_the_times_of_the_stream(told: Told) -> None:
    told.spark.sql("SELECT id, x, g, CAST(ts AS DATE) AS ts FROM old_r").createOrReplaceTempView("old_r")
    assert told.stream(PAIR) == told.batch(PAIR)


def test_a_table_without_rows(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    told.keep("r", [])
    told.keep("s", [])
    assert told.stream(PAIR) == told.batch(PAIR)
    assert "HISTORY old_r has no rows: r begins with its own" in caplog.text


def test_rows_without_a_time_come_first(told: Told) -> None:
    """They join where no condition reads a time."""
    told.keep("r", [*rows(0, 0, BORDER), *({"id": -n, "x": n, "g": "a", "ts": None} for n in range(5))])
    sql = "SELECT a.id, b.id AS other FROM r HISTORY old_r AS a JOIN s HISTORY old_s AS b ON a.x = b.x AND a.g < b.g"
    assert any(row.startswith("[-4, ") for row in told.batch(sql))
    assert told.stream(sql) == told.batch(sql)


def test_views_and_frames(told: Told) -> None:
    """A view of a stream with its own WATERMARK; one that has a history; and a DataFrame in braces."""
    sql = PAIR.replace("HISTORY old_s", "").replace("20 SECONDS", "900 SECONDS")
    wanted = told.batch(sql)
    told.tables.use(streaming=True)
    bare = told.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(told.tables.home / "r"))
    bare.createOrReplaceTempView("bare")
    tj = trijoin_sql.TriJoinSession.create(told.spark)
    with tj.resuming(str(told.home / "one")):
        one = tj.sql(sql.replace("r HISTORY", "bare WATERMARK ts DELAY OF INTERVAL 2 SECONDS HISTORY"))
    with tj.resuming(str(told.home / "two")):
        tj.sql("CREATE OR REPLACE TEMPORARY VIEW whole AS SELECT * FROM r HISTORY old_r")
        two = tj.sql(sql.replace("r HISTORY old_r", "whole"))
    with tj.resuming(str(told.home / "three")):
        three = tj.sql(sql.replace("r HISTORY", "{r} HISTORY"), r=told.spark.table("r"))
    for number, frame in zip(("one", "two", "three"), (one, two, three), strict=True):
        assert run_stream(frame, told.home / number) == wanted


def test_views_of_one_stream_with_several_histories(told: Told) -> None:
    """A view is read anew where it is used: what another one begins with does not come into it."""
    told.keep("other", rows(9, BORDER - 200, BORDER))
    told.tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(told.spark)
    sql = "SELECT a.id, b.id AS other FROM {} JOIN {} ON a.x = b.x AND a.ts = b.ts"
    with tj.resuming(str(told.home / "one")):
        tj.sql("CREATE OR REPLACE TEMPORARY VIEW whole AS SELECT * FROM r HISTORY old_r")
        frame = tj.sql(sql.format("whole a", "r HISTORY old_other b"))
    found = run_stream(frame, told.home / "one")
    told.tables.use(streaming=False)
    whole = "(SELECT id, x, ts FROM r UNION ALL SELECT id, x, ts FROM old_{}) {}"
    assert found == bag(told.spark.sql(sql.format(whole.format("r", "a"), whole.format("other", "b"))).collect())


def test_a_job_whose_sink_has_no_checkpoint_reads_the_history_in_each_run(told: Told) -> None:
    """Through a view, and with late rows, of which there are none."""
    sql = PAIR.replace("HISTORY old_s", "")
    streams = [
        f"CREATE STREAM {name} ({SCHEMA}) USING parquet WATERMARK ts DELAY OF INTERVAL {DELAY} "
        f"OPTIONS (path '{told.tables.home / name}', maxFilesPerTrigger 1);"
        for name in "rs"
    ]
    text = "\n".join(
        [
            *streams,
            f"CREATE TEMPORARY VIEW old USING parquet OPTIONS (path '{told.tables_at / 'r.parquet'}');",
            "CREATE TEMPORARY VIEW whole AS SELECT * FROM r HISTORY old;",
            "CREATE SINK near USING memory;",
            "CREATE SINK late USING memory;",
            f"INSERT INTO near {sql.replace('r HISTORY old_r', 'whole')} LATE ROWS INTO late;",
        ]
    )
    wanted = told.batch(sql)
    for _ in range(2):
        job = parse_job(Script("job.sql", text))
        assert check_job(job) == []
        session = trijoin_sql.TriJoinSession.create(told.spark.newSession())
        run_queries(job, prepare(job, session), Console(quiet=True), StopRequest(), once=True)
        assert bag(session.spark.table("near").collect()) == wanted
        assert session.spark.table("late").count() == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("HISTORY old_r UNTIL TIMESTAMP '2026-01-01'", "the history of r was old_r, and is old_r UNTIL TIMESTAMP"),
        ("", "input a was"),
    ],
)
def test_another_history_on_a_checkpoint_is_refused(told: Told, changed: str, said: str) -> None:
    sql = PAIR.replace("HISTORY old_s", "")
    told.stream(sql)
    with pytest.raises((CheckpointMismatchError, StreamingQueryException), match=said):
        told.stream(sql.replace("HISTORY old_r", changed))


def test_what_is_refused(told: Told) -> None:
    """Each in a sentence, before anything is written."""
    told.tables.use(streaming=True)
    told.spark.readStream.schema(SCHEMA).parquet(str(told.tables.home / "r")).createOrReplaceTempView("timeless")
    tj = trijoin_sql.TriJoinSession.create(told.spark)
    with pytest.raises(UnsupportedQueryError, match=r"(?s)one checkpoint, and this one is not known.*tj.resuming"):
        tj.sql(PAIR)
    told.spark.sql("SELECT id, g, ts FROM old_r").createOrReplaceTempView("narrow")
    told.spark.sql("SELECT id, ARRAY(x) AS x, g, ts FROM old_r").createOrReplaceTempView("odd")
    for clause, said in {
        "timeless HISTORY old_r": "timeless has no event time, or several",
        "old_s HISTORY old_r": "old_s is no stream",
        "r HISTORY s": "s cannot be the history of r: it is a stream",
        "r HISTORY narrow": "narrow cannot be the history of r: it has no column x",
        "r HISTORY odd": "odd cannot be the history of r: .*compatible column types",
    }.items():
        with tj.resuming(str(told.home / "refused")), pytest.raises(UnsupportedQueryError, match=said):
            tj.sql(f"SELECT * FROM {clause}")
    told.spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    try:
        with tj.resuming(str(told.home / "refused")), pytest.raises(UnsupportedQueryError, match="policy max"):
            tj.sql(PAIR)
    finally:
        told.spark.conf.unset("spark.sql.streaming.multipleWatermarkPolicy")
