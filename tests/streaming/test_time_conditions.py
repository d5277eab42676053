"""Conditions in time that people write: each bounds the state, and no bound is smaller than what Spark lets through."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from trijoin_sql.rewriter.predicates.forms import Implied, implied_bounds
from trijoin_sql.rewriter.sql.expressions import parsed

import trijoin_sql
from trijoin_sql.spark.zones import largest_shift

from .differential import Tables, bag, run_stream

#: Bounded from both sides.
BOTH = (
    "s.ts BETWEEN r.ts - INTERVAL '1 00:00:00' DAY TO SECOND AND r.ts + INTERVAL '02:30' HOUR TO MINUTE",
    "s.ts BETWEEN r.ts AND r.ts + INTERVAL '1 day 2 hours'",
    "s.ts BETWEEN r.ts - INTERVAL 1 MONTH AND r.ts + INTERVAL '1-1' YEAR TO MONTH",
    "s.ts BETWEEN r.ts - INTERVAL 1 YEAR AND r.ts + INTERVAL 2 MONTHS",
    "s.ts BETWEEN r.ts AND r.ts + make_dt_interval(1, 2, 3, 4.5)",
    "s.ts BETWEEN r.ts AND r.ts + make_interval(0, 1, 1, 2, 3, 4, 5.5)",
    "s.ts BETWEEN dateadd(HOUR, -3, r.ts) AND timestampadd(DAY, 2, r.ts)",
    "s.ts BETWEEN r.ts AND date_add(MONTH, 1, r.ts)",
    "s.ts BETWEEN date_add(r.ts, -1) AND date_add(to_date(r.ts), 2)",
    "CAST(s.ts AS DATE) BETWEEN date_sub(r.ts, 1) AND add_months(r.ts, 1)",
    "abs(timestampdiff(MINUTE, r.ts, s.ts)) < 90",
    "timestampdiff(HOUR, r.ts, s.ts) BETWEEN -2 AND 30",
    "timestampdiff(MONTH, r.ts, s.ts) BETWEEN -1 AND 1",
    "datediff(YEAR, r.ts, s.ts) = 0",
    "date_diff(DAY, r.ts, s.ts) = 1",
    "datediff(s.ts, r.ts) BETWEEN 0 AND 1",
    "abs(CAST(r.ts AS DOUBLE) - CAST(s.ts AS DOUBLE)) <= 5400",
    "CAST(s.ts AS DOUBLE) - CAST(r.ts AS DOUBLE) BETWEEN 0 AND 100000.5",
    "CAST(s.ts AS BIGINT) - CAST(r.ts AS BIGINT) BETWEEN -3600 AND 3600",
    "date_trunc('HOUR', r.ts) = date_trunc('HOUR', s.ts)",
    "date_trunc('MONTH', r.ts) = date_trunc('MONTH', s.ts)",
    "date_trunc('week', r.ts) = date_trunc('week', s.ts)",
    "trunc(r.ts, 'YEAR') = trunc(s.ts, 'YEAR')",
    "to_date(r.ts) = to_date(s.ts)",
    "date(r.ts) = date(s.ts) + INTERVAL 1 DAY",
    "floor(unix_timestamp(r.ts) / 3600) = floor(unix_timestamp(s.ts) / 3600)",
    "unix_timestamp(r.ts) DIV 5400 = unix_timestamp(s.ts) DIV 5400",
    "ceil(unix_millis(r.ts) / 60000) = ceil(unix_millis(s.ts) / 60000)",
    "unix_seconds(r.ts) BETWEEN unix_seconds(s.ts) - 60 AND unix_seconds(s.ts) + 3600",
    "unix_date(to_date(s.ts)) = unix_date(to_date(r.ts)) + 1",
    "s.ts - r.ts BETWEEN INTERVAL '0' SECOND AND INTERVAL '3' HOUR",
    "abs(s.ts - r.ts) < INTERVAL '1 12' DAY TO HOUR",
    "s.ts BETWEEN r.ts AND r.ts + INTERVAL '30' MINUTE * 3",
    "s.ts BETWEEN r.ts AND r.ts + make_ym_interval(1, 2)",
    "s.ts BETWEEN date(r.ts) AND last_day(r.ts)",
    "CAST(s.ts AS DECIMAL(20, 2)) - CAST(r.ts AS DECIMAL(18, 3)) BETWEEN -0.5 AND 3600.25",
)
ONE = ("timestampdiff(SECOND, r.ts, s.ts) < 4000", "s.ts < dateadd(WEEK, 1, r.ts)", "s.ts - r.ts < INTERVAL '10' HOUR")
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia")
SCHEMA, ARROW = "id int, ts timestamp", pa.schema([("id", pa.int32()), ("ts", pa.timestamp("us", "UTC"))])


def instants(zone: str) -> Iterator[datetime.datetime]:
    """Moments where clocks change, months and years end, and days have 29ths of February; and some at random."""
    random = Random(zone)
    info = ZoneInfo(zone)
    days = ((2024, 3, 10), (2024, 3, 31), (2024, 10, 27), (2024, 11, 3), (2024, 2, 28), (2023, 2, 28), (2011, 12, 30))
    for year, month, day in (*days, (2023, 12, 31), (2024, 1, 31)):
        for hour in (0, 1, 2, 23):
            second = random.choice([0, 59, random.randrange(3600)])
            at = datetime.datetime(year, month, day, hour, second // 60, second % 60, random.choice([0, 999_999]), info)
            yield at.astimezone(datetime.UTC) + datetime.timedelta(seconds=random.choice([0, 86_400, 3_599]))


@pytest.fixture
def zone(spark: SparkSession) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    yield str(before)
    spark.conf.set("spark.sql.session.timeZone", before)


def bounds(condition: str, shift: int) -> tuple[int | None, int | None]:
    """Return between what microseconds ``s.ts - r.ts`` lies if a condition is true."""
    reader = Implied(lambda at: "timestamp" if at[1] == "ts" else None)
    found = list(implied_bounds(parsed(condition), reader, shift))
    most = [bound.most for bound in found if bound.later[0] == "s"]
    least = [-bound.most for bound in found if bound.later[0] == "r"]
    return max(least, default=None), min(most, default=None)


def test_no_bound_is_smaller_than_what_spark_lets_through(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    """A bound that is too small loses rows in silence."""
    conditions = (*BOTH, *ONE)
    for place in ZONES:
        spark.conf.set("spark.sql.session.timeZone", place)
        made = Tables(spark, tmp_path / place)
        for name in "rs":
            made.create(name, [[{"id": n, "ts": at} for n, at in enumerate(instants(place))]], SCHEMA, ARROW)
        made.use(streaming=False)
        apart = "unix_micros(s.ts) - unix_micros(r.ts)"
        ends = [f"{end}(CASE WHEN {one} THEN {apart} END)" for one, end in product(conditions, ("min", "max"))]
        (found,) = spark.sql(f"SELECT {', '.join(ends)} FROM r CROSS JOIN s").collect()
        for number, condition in enumerate(conditions):
            least, most = found[2 * number : 2 * number + 2]
            low, high = bounds(condition, largest_shift(place))
            assert high is not None, condition
            assert low is not None or condition in ONE, condition
            assert least is not None, f"{condition} is never true: the test says nothing"
            assert most <= high, (place, condition)
            assert low is None or low <= least, (place, condition)


def test_state_is_bounded(spark: SparkSession) -> None:
    """In the session's own zone, without a condition of another kind, and by a predicate that the kernel evaluates."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    for name in "rs":
        frame = spark.readStream.format("rate").load().selectExpr("value AS id", "timestamp AS ts")
        frame.withWatermark("ts", "1 second").createOrReplaceTempView(name)
    for condition in BOTH:
        (group,) = tj.explain(f"SELECT r.id FROM r JOIN s ON {condition}").to_dict()["groups"]
        assert group["state"]["bounded"], condition
        kinds = {one["kind"] for edge in group["graph"]["edges"] for one in edge["predicates"]}
        assert kinds - {"residual"}, condition


@pytest.mark.parametrize(
    "condition",
    [
        "timestampdiff(SECOND, r.ts, s.ts) BETWEEN 0 AND 5",
        "to_date(r.ts) = to_date(s.ts) AND abs(CAST(r.ts AS DOUBLE) - CAST(s.ts AS DOUBLE)) < 3",
        "floor(unix_timestamp(r.ts) / 10) = floor(unix_timestamp(s.ts) / 10)",
        "s.ts BETWEEN r.ts AND dateadd(SECOND, 5, r.ts)",
    ],
)
def test_rows_are_those_of_batch(spark: SparkSession, tmp_path: Path, condition: str) -> None:
    """While rows expire."""
    made = Tables(spark, tmp_path)
    for name in "rs":
        random, start = Random(name), datetime.datetime(2024, 3, 31, 0, 59, 0, tzinfo=datetime.UTC)
        seconds = [sorted(random.uniform(20 * batch, 20 * batch + 20) for _ in range(8)) for batch in range(6)]
        pieces = [
            [{"id": n, "ts": start + datetime.timedelta(seconds=second)} for n, second in enumerate(batch)]
            for batch in seconds
        ]
        made.create(name, pieces, SCHEMA, ARROW, lambda f: f.withWatermark("ts", "1 second") if f.isStreaming else f)
    sql = f"SELECT r.id, r.ts, s.id AS sid, s.ts AS sts FROM r JOIN s ON {condition}"
    made.use(streaming=False)
    wanted = bag(spark.sql(sql).collect())
    made.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    assert run_stream(tj.sql(sql), tmp_path / "checkpoint") == wanted
    assert wanted
