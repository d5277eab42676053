"""Outer, semi and anti joins of streams: at the end all that Spark batch gives, and at any time a part of it."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import trijoin_sql

from .differential import UTC, Bag, Tables, bag, cut, run_stream

pytestmark = pytest.mark.slow

START = datetime.datetime(2024, 1, 1, tzinfo=UTC)
DELAY = 30
SCHEMA = "id int, k int, x int, d double, n decimal(10,2), w string, ts timestamp"
ARROW = pa.schema(
    [
        ("id", pa.int32()),
        ("k", pa.int32()),
        ("x", pa.int32()),
        ("d", pa.float64()),
        ("n", pa.decimal128(10, 2)),
        ("w", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
NAMES = "rstu"


def stream_rows(seed: int, count: int, untimed: float = 0.05) -> list[dict[str, Any]]:
    """Rows out of order by less than the delay, with NULLs, some of them twice; the last one closes all before it.

    A share of them, ``untimed``, has no event time.
    """
    random = Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        if number % 5 == 4:
            rows.append(dict(rows[-1]))
            continue
        value = random.choice([None, *range(8)])
        second = number * 4 + random.randrange(DELAY)
        rows.append(
            {
                "id": number,
                "k": random.choice([None, 0, 1, 2]),
                "x": value,
                "d": None if value is None else random.choice([value / 4, float("nan"), -0.0]),
                "n": None if value is None else f"{value}.{random.randrange(100):02}",
                "w": random.choice([None, "a", "b", ""]),
                "ts": None if random.random() < untimed else START + datetime.timedelta(seconds=second),
            }
        )
    return [{**row, "n": None if row["n"] is None else Decimal(row["n"])} for row in rows]


def last_row(rank: int) -> dict[str, Any]:
    """Return a row that passes all filters: Spark filters below a watermark."""
    late = START + datetime.timedelta(days=1 + rank)
    return {"id": -1, "k": 1, "x": 9, "d": 9.0, "n": Decimal(9), "w": "a", "ts": late}


def streams(
    spark: SparkSession, home: Path, seed: int, count: int = 40, names: str = NAMES, untimed: float = 0.05
) -> Tables:
    tables, random = Tables(spark, home), Random(seed)
    for rank, name in enumerate(names):
        sizes = [random.randrange(12) for _ in range(random.randrange(1, 4))]
        pieces = [*cut(stream_rows(10 * seed + rank, count, untimed), sizes), [last_row(rank)]]
        tables.create(name, pieces, SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", f"{DELAY} seconds"))
    return tables


def without_last(found: Bag) -> Bag:
    return Bag({row: count for row, count in found.items() if "-1" not in row})


def compared(spark: SparkSession, tables: Tables, home: Path, batch: str, stream: str | None = None) -> tuple[Bag, Bag]:
    tables.use(streaming=False)
    wanted = without_last(bag(spark.sql(batch).collect()))
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    frame = tj.sql(stream or batch)
    return without_last(run_stream(frame, home / "checkpoint")), wanted


CONDITIONS = (
    "r.x < s.x",
    "ABS(r.x - s.x) <= 1",
    "r.x BETWEEN s.x AND s.x + 2",
    "ABS(r.d - s.d) < 0.5",
    "r.n >= s.n - 1.5 AND r.x <> s.x",
    "r.x < s.x AND r.k > 0",
    "r.x < s.x AND s.k > 0 AND r.w = 'a'",
    "r.x + s.x > 9",
    "(r.x = s.x OR r.d < s.d)",
    "(ABS(r.x - s.x) <= 1 AND r.k > 0 OR r.w = s.w OR s.k = 2)",
)
#: Spark runs no anti join of streams; the others are its own with an equality.
EQUALITIES = ("r.k = s.k", "r.x <= s.x AND r.k = s.k", "r.k <=> s.k AND r.x > s.x", "r.k = s.k AND r.d <> s.d")
BOUNDS = (
    "s.ts BETWEEN r.ts AND r.ts + INTERVAL 20 SECONDS",
    "s.ts BETWEEN r.ts - INTERVAL 40 SECONDS AND r.ts - INTERVAL 5 SECONDS",
    "ABS(unix_micros(r.ts) - unix_micros(s.ts)) <= 15000000",
)
KINDS = ("LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")


def outer_query(kind: str, condition: str, units: int | None) -> str:
    hint = "" if units is None else f"/*+ UNITS({units}) */ "
    one = "r.id AS a, r.w AS b, r.n AS c, r.ts AS t"
    both = one if kind in ("LEFT SEMI", "LEFT ANTI") else f"{one}, s.id AS e, s.w AS f, s.n AS g, s.ts AS u"
    return f"SELECT {hint}{both} FROM r {kind} JOIN s ON {condition}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_two_streams(spark: SparkSession, tmp_path: Path, kind: str, seed: int) -> None:
    random = Random(f"{kind}{seed}")
    conditions = (*CONDITIONS, *EQUALITIES, *EQUALITIES) if kind == "LEFT ANTI" else CONDITIONS
    condition = f"{random.choice(conditions)} AND {random.choice(BOUNDS)}"
    sql = outer_query(kind, condition, random.choice([None, 1, 3]))
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", seed), tmp_path, sql)
    assert found == wanted, sql


def between(one: str, other: str, seconds: int) -> str:
    return f"{other}.ts BETWEEN {one}.ts - INTERVAL {seconds} SECONDS AND {one}.ts + INTERVAL {seconds} SECONDS"


def over(condition: str, left: str, right: str) -> str:
    """Return one of the conditions between r and s over other relations."""
    return condition.replace("r.", "<left>.").replace("s.", f"{right}.").replace("<left>", left)


def random_query(random: Random) -> str:
    """Return a query with an outer, semi or anti join above, below or beside other joins."""
    kind, other = random.choice(KINDS), random.choice(("LEFT", "LEFT ANTI", "LEFT SEMI"))
    one, two = (random.choice(CONDITIONS) for _ in range(2))
    near = {pair: between(*pair, random.choice((5, 15, 25))) for pair in ("rs", "st", "rt", "as", "at")}
    padded = kind not in ("LEFT SEMI", "LEFT ANTI")
    keeps = "LEFT" if kind in ("RIGHT", "FULL") else kind  # no group of NULL is ever over
    s = ", s.id AS b, s.w AS c" if padded else ""
    t = ", t.id AS d, t.n AS e" if padded else ""
    group = f"r JOIN s ON {one} AND {near['rs']}"
    return random.choice(
        (
            f"SELECT r.id AS a, s.id AS b{t} FROM {group} {kind} JOIN t ON {over(two, 's', 't')} AND {near['st']}",
            f"SELECT r.id AS a, r.ts{t} FROM {group} {kind} JOIN t ON {over(two, 'r', 't')} AND {near['rt']}",
            f"SELECT r.id AS a, t.id AS d{s} FROM r {kind} JOIN s ON {one} AND {near['rs']} "
            f"JOIN t ON {over(two, 'r', 't')} AND {near['rt']}",
            f"SELECT r.id AS a{s} FROM r {kind} JOIN s ON {one} AND {near['rs']} "
            f"{other} JOIN t ON {over(two, 'r', 't')} AND {near['rt']}",
            f"SELECT a.id AS a{s.replace('s.', 'q.')} FROM (SELECT r.* FROM r WHERE r.k > 0) AS a {kind} JOIN "
            f"(SELECT s.*, s.x + 1 AS z FROM s) AS q ON a.x < q.z AND {near['as'].replace('s.', 'q.')}",
            f"SELECT DISTINCT a.id, a.ts{s} FROM (SELECT * FROM r WHERE ts IS NOT NULL) AS a {keeps} JOIN s "
            f"ON {over(one, 'a', 's')} AND {near['as']}",
            f"WITH q AS (SELECT r.id, r.k, r.x, r.d, r.n, r.w, r.ts FROM r LEFT SEMI JOIN s ON {one} AND {near['rs']}) "
            f"SELECT q.id AS a{t} FROM q {kind} JOIN t ON {over(two, 'q', 't')} AND {near['rt'].replace('r.', 'q.')}",
            f"SELECT r.id AS a{s} FROM r {kind} JOIN s ON {one} AND {near['rs']} WHERE r.k >= 1 OR r.id IS NULL",
        )
    )


@pytest.mark.parametrize("seed", range(8))
def test_among_other_joins(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    sql = random_query(Random(seed))
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", seed, 25), tmp_path, sql)
    assert found == wanted, sql


@pytest.mark.parametrize("start", ["window(r.ts, '20 seconds').start", "window.start"])
def test_a_window_above(spark: SparkSession, tmp_path: Path, start: str) -> None:
    """Rows without a partner come behind the watermark, which is held back for the window by as much."""
    window = "window(r.ts, '20 seconds')"
    sql = (
        f"SELECT {start} AS a, count(*) AS n, count(s.id) AS b FROM r LEFT JOIN s ON r.x < s.x AND "
        f"{between('r', 's', 15)} GROUP BY {window}"
    )
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", 5), tmp_path, sql)
    assert found == Bag({row: count for row, count in wanted.items() if "2024, 1, 2" not in row}), "all but the last"
    assert len(wanted) > 3


#: A left join of ours whose rows wait up to 20 seconds, and one above it whose rows wait up to 30 more: by nodes of
#: their own, for one reads both sides of the other, and for Spark tests its pairs.
WAITS = [
    "LEFT JOIN s ON r.x < s.x AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 20 SECONDS "
    f"LEFT JOIN t ON {on} AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 30 SECONDS"
    for on in ("COALESCE(s.x, r.x) < t.x", "r.x * t.x < 6")
]


@pytest.mark.parametrize("joins", WAITS)
@pytest.mark.parametrize("seed", [3, pytest.param(1, marks=pytest.mark.rare), pytest.param(2, marks=pytest.mark.rare)])
def test_a_window_above_rows_that_wait_twice(spark: SparkSession, tmp_path: Path, joins: str, seed: int) -> None:
    """What is held back for the upper join counts for it as well, or its rows would be late for the window."""
    window = "window(r.ts, '20 seconds')"
    sql = f"SELECT {window}.start AS a, count(*) AS n, count(t.id) AS b FROM r {joins} GROUP BY {window}"
    tables = streams(spark, tmp_path / "tables", seed, 40, untimed=0.0)
    found, wanted = compared(spark, tables, tmp_path, sql)
    assert found == Bag({row: count for row, count in wanted.items() if "2024, 1, 2" not in row}), "all but the last"
    assert len(wanted) > 3


@pytest.mark.parametrize("written", ["a view", pytest.param("in the text", marks=pytest.mark.rare)])
def test_a_join_above_rows_that_wait_for_spark_and_for_us(spark: SparkSession, tmp_path: Path, written: str) -> None:
    """They come behind the watermark, and the other input's rows are kept for as much longer."""
    of_spark = f"SELECT /*+ NO_TRIJOIN */ r.* FROM r LEFT JOIN u ON r.k = u.k AND {earlier('u', 'r', 35)}"
    below = (
        f"SELECT q.id, q.x, q.ts, t.id AS other FROM ({of_spark}) q "
        "LEFT JOIN t ON q.x < t.x AND t.ts BETWEEN q.ts AND q.ts + INTERVAL 30 SECONDS"
    )
    sql = (
        "SELECT v.id, v.ts AS at, v.other, s.id AS b FROM {} v JOIN s ON v.x * s.x < 22 "
        "AND s.ts BETWEEN v.ts - INTERVAL 1 SECOND AND v.ts + INTERVAL 3 SECONDS"
    )
    tables = streams(spark, tmp_path / "tables", 5, 40, "rstu", untimed=0.0)
    tables.use(streaming=False)
    wanted = without_last(bag(spark.sql(sql.format(f"({below})")).collect()))
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    if written == "a view":
        tj.sql(below).createOrReplaceTempView("below")
    found = tj.sql(sql.format("below" if written == "a view" else f"({below})"))
    assert without_last(run_stream(found, tmp_path / "checkpoint")) == wanted
    assert wanted.total() > 100


@pytest.mark.parametrize("kind", ["LEFT", "INNER"])
def test_a_window_above_rows_that_wait_for_spark_and_for_us(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """No watermark can be held back for what a join of Spark's has held back: such a window would lose rows."""
    streams(spark, tmp_path, 1, 5).use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    of_spark = f"SELECT /*+ NO_TRIJOIN */ r.* FROM r {kind} JOIN s ON r.k = s.k AND {between('r', 's', 15)}"
    sql = (
        f"SELECT window(q.ts, '20 seconds') AS w, count(*) AS n FROM ({of_spark}) q LEFT JOIN t ON q.x < t.x "
        "AND t.ts BETWEEN q.ts - INTERVAL 30 SECONDS AND {} GROUP BY 1"
    )
    with pytest.raises(trijoin_sql.UnsupportedQueryError, match="come behind the watermark, for an operator of Spark"):
        tj.sql(sql.format("q.ts + INTERVAL 30 SECONDS")).writeStream.format("noop").start()
    assert tj.sql(sql.format("q.ts")).isStreaming
    distinct = sql.replace("window(q.ts, '20 seconds') AS w, count(*) AS n", "DISTINCT q.ts").replace(" GROUP BY 1", "")
    with pytest.raises(trijoin_sql.UnsupportedQueryError, match="DISTINCT in append mode: rows of q"):
        tj.sql(distinct.format("q.ts + INTERVAL 30 SECONDS")).writeStream.format("noop").start()


@pytest.mark.parametrize(
    "condition",
    [
        f"EXISTS (SELECT 1 FROM s WHERE r.x < x AND s.k > 0 AND {between('r', 's', 15)}) AND r.k >= 1",
        f"NOT EXISTS (SELECT 1 FROM r AS s WHERE s.x > r.x AND s.k = r.k AND {between('r', 's', 15)})",
        f"r.x IN (SELECT x FROM s WHERE {between('r', 's', 15)}) AND NOT EXISTS (SELECT * FROM t WHERE t.x < r.x AND "
        f"{between('r', 't', 15)})",
    ],
)
def test_subqueries(spark: SparkSession, tmp_path: Path, condition: str) -> None:
    sql = f"SELECT r.id AS a, r.w AS b, r.ts AS c FROM r WHERE {condition}"
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", 7), tmp_path, sql)
    assert found == wanted
    assert wanted


@pytest.mark.rare
@pytest.mark.parametrize("kind", KINDS)
def test_joins_written_with_dataframes(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """By `join`, by ``DataFrame.join``, with pipes, in a view that Spark made: only Spark's plan is known."""
    tables, tj = streams(spark, tmp_path / "tables", 11, 25), trijoin_sql.TriJoinSession.create(spark)
    on = f"(r.x < s.x OR r.d = s.d) AND {between('r', 's', 15)}"
    columns = ["r.id AS a", "r.w", *(["s.id AS b", "s.n"] if kind not in ("LEFT SEMI", "LEFT ANTI") else [])]
    how = kind.lower().replace(" ", "")
    sql = f"SELECT {', '.join(columns)} FROM r {kind} JOIN s ON {on}"
    view = f"CREATE OR REPLACE TEMP VIEW made AS {sql}"
    tables.use(streaming=False)
    wanted = without_last(bag(spark.sql(sql).collect()))
    tables.use(streaming=True)
    spark.sql(view)
    r, s = (spark.table(name).alias(name) for name in "rs")
    found = {
        "join": tj.join({"r": r, "s": s}, on, how, select=columns),
        "DataFrame.join": tj.rewrite(r.join(s, F.expr(on), how).selectExpr(*columns)),
        "pipes": tj.sql(f"FROM r |> {kind} JOIN s ON {on} |> SELECT {', '.join(columns)}"),
        "view": tj.sql("SELECT * FROM made"),
        "within": tj.join({"r": r, "s": s}, "r.x < s.x OR r.d = s.d", how, within="15 seconds", select=columns),
    }
    for name, frame in found.items():
        assert without_last(run_stream(frame, tmp_path / name)) == wanted, name
    spark.catalog.dropTempView("made")


@pytest.mark.parametrize("kind", KINDS)
def test_within_of_tables_written_with_dataframes(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    tables, tj = streams(spark, tmp_path / "tables", 12, 25), trijoin_sql.TriJoinSession.create(spark)
    tables.use(streaming=False)
    frames = {name: spark.table(name) for name in "rs"}
    select = "s.id" if kind == "RIGHT" else "r.id"
    found = tj.join(frames, "r.x < s.x", kind.lower().replace(" ", ""), within="15 seconds", select=select)
    wanted = spark.sql(f"SELECT {select} FROM r {kind} JOIN s ON r.x < s.x AND {between('r', 's', 15)}")
    assert bag(found.collect()) == bag(wanted.collect())


@pytest.mark.parametrize("names", [True, False])
def test_arguments_of_subqueries(spark: SparkSession, tmp_path: Path, names: bool) -> None:
    """A condition that becomes one of ON stands elsewhere in the text, and its markers with it."""
    marks = (":one", ":two", ":three", ":four") if names else ("?", "?", "?", "?")
    sql = (
        f"SELECT r.id + {marks[0]} AS a FROM r WHERE r.k >= {marks[1]} AND EXISTS (SELECT 1 FROM s WHERE r.x < x + "
        f"{marks[2]} AND {between('r', 's', 15)}) AND r.x < {marks[3]}"
    )
    values = (1000, 1, 3, 6)
    args = dict(zip(("one", "two", "three", "four"), values, strict=True)) if names else list(values)
    tables = streams(spark, tmp_path / "tables", 7)
    tables.use(streaming=False)
    wanted = bag(spark.sql(sql, args=args).collect())
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    assert run_stream(tj.sql(sql, args=args), tmp_path / "checkpoint") == wanted
    assert wanted


def test_within(spark: SparkSession, tmp_path: Path) -> None:
    """Every pair of joined rows: also of the sides of a join above another one, and of one with an equality."""
    group, near = "SELECT r.id AS a, s.id AS b, t.id AS c FROM r JOIN s ON r.x < s.x", between("r", "s", 15)
    batch = f"{group} AND {near} LEFT JOIN t ON s.k = t.k AND {between('s', 't', 15)} AND {between('r', 't', 15)}"
    stream = f"{group} LEFT JOIN t ON s.k = t.k WITHIN 15 SECONDS"
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", 6), tmp_path, batch, stream)
    assert found == wanted
    tables = trijoin_sql.TriJoinSession.create(spark)
    for name in NAMES:
        spark.read.schema(SCHEMA).parquet(str(tmp_path / "tables" / name)).createOrReplaceTempView(name)
    assert without_last(bag(tables.sql(stream).collect())) == wanted, "over tables too"


@pytest.mark.rare
def test_a_join_beside_takes_nothing_back_of_what_is_held_back(spark: SparkSession, tmp_path: Path) -> None:
    """Both have r's watermark from one node of Spark's plan; of nodes with one id Spark knew the last delay alone."""
    tables = streams(spark, tmp_path / "tables", 4, 30)
    tables.use(streaming=True)
    tj, marks = trijoin_sql.TriJoinSession.create(spark), []
    held = (
        f"SELECT r.id, t.id AS tid, s.id AS sid FROM r JOIN t ON r.x < t.x AND {between('r', 't', 15)} "
        f"LEFT JOIN s ON r.x > s.x AND {between('r', 's', 15)}"
    )
    beside = f"SELECT r.id, s.id, t.id FROM r JOIN s ON r.x < s.x AND {between('r', 's', 15)} JOIN t ON r.ts = t.ts"
    for name, sql in (("alone", held), ("beside", f"{held} UNION ALL {beside}")):
        writer = tj.sql(sql).writeStream.format("noop").option("checkpointLocation", str(tmp_path / name))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        marks.append([progress.eventTime["watermark"] for progress in query.recentProgress])
    assert len(set(marks[0])) > 2
    assert marks[0] == marks[1]


def earlier(one: str, other: str, by: int) -> str:
    return f"{one}.ts BETWEEN {other}.ts - INTERVAL {by} SECONDS AND {other}.ts"


def test_a_watermark_that_stops_just_before_rows_are_due(spark: SparkSession, tmp_path: Path) -> None:
    """A join of Spark's ends its watermark in 999 milliseconds. The slot is not called then, and not forgotten."""
    tables = Tables(spark, tmp_path)
    row = last_row(0) | {"k": 1}
    at = [START + datetime.timedelta(seconds=seconds) for seconds in (40, 40 + 35 + DELAY, 86_400)]
    for name, keys in (("r", (1, 2, 3)), ("s", (1, 4, 5)), ("t", (6, 7, 8))):  # one pair of r and s, and no t for it
        pieces = [[row | {"id": number, "k": key, "ts": at[number]}] for number, key in enumerate(keys)]
        tables.create(name, pieces, SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", f"{DELAY} seconds"))
    spark_joins = f"SELECT /*+ NO_TRIJOIN */ r.* FROM r JOIN s ON r.k = s.k AND {earlier('s', 'r', 35)}"
    left = f"LEFT JOIN t ON q.x * t.x < 0 AND {earlier('t', 'q', 9)}"  # Spark tests pairs, another node settles q
    sql = f"SELECT /*+ UNITS(4) */ q.id AS a, t.id AS b FROM ({spark_joins}) q {left}"
    found, wanted = compared(spark, tables, tmp_path, sql)
    assert found == wanted
    assert sum(wanted.values()) == 1


def test_what_comes_while_the_watermark_stands_still_comes_out_with_the_next_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A micro-batch at the watermark of the one before leaves its slots waiting for the next."""
    tables = Tables(spark, tmp_path)
    row = last_row(0) | {"x": 99}
    for rank, name in enumerate("rs"):
        pieces = [
            [row | {"id": number, "ts": START + datetime.timedelta(seconds=second)}]
            for number, second in ((1 + rank, 100), (11 + rank, 95), (-1, 300))
        ]
        tables.create(name, pieces, SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", f"{DELAY} seconds"))
    query = f"SELECT r.id AS a, s.id AS b FROM r LEFT JOIN s ON r.x < s.x AND {between('r', 's', 5)}"
    found, wanted = compared(spark, tables, tmp_path, query)
    assert found == wanted
    assert sum(wanted.values()) == 2


@pytest.mark.parametrize(
    "side",
    [
        "filtered AS s ON ABS(r.x - s.x) < 2",
        pytest.param("s ON ABS(r.x - s.x) < 2 AND s.w = 'never'", marks=pytest.mark.rare),
        pytest.param("(SELECT * FROM s WHERE w = 'never') AS s ON ABS(r.x - s.x) < 2", marks=pytest.mark.rare),
        pytest.param("s ON r.x * s.x < 9 AND s.w = 'never'", marks=pytest.mark.rare),  # Spark tests pairs
    ],
)
def test_a_stream_whose_rows_all_fail_a_filter_holds_nothing_back(
    spark: SparkSession, tmp_path: Path, side: str
) -> None:
    """As written, the filter stands above the watermark, which all rows move. Spark would move it below."""
    tables = streams(spark, tmp_path / "tables", 3, 20)
    tables.use(streaming=True)
    spark.table("s").where("w = 'never'").createOrReplaceTempView("filtered")
    frame = trijoin_sql.TriJoinSession.create(spark).sql(
        f"SELECT r.id, s.id FROM r LEFT JOIN {side} AND {between('r', 's', 15)}"
    )
    found = without_last(run_stream(frame, tmp_path / "checkpoint"))
    tables.use(streaming=False)
    assert found.total() == spark.sql("SELECT * FROM r WHERE id >= 0").count()
