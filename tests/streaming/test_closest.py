"""Joins with the closest rows of streams (ASOF JOIN, NEAREST BY): at the end all that Spark batch gives.

Of equally close rows batch gives any. So the reference is what is compared of a row's closest partners, and which rows
these may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import trijoin_sql

from .differential import Bag, bag, run_stream
from .test_outer_joins import between, streams, without_last

pytestmark = pytest.mark.slow

#: What is compared, the least of which is closest, and the condition that batch needs for it.
MATCHES = {
    "MATCH_CONDITION (r.ts >= s.ts)": ("-unix_micros(s.ts)", "r.ts >= s.ts"),
    "MATCH_CONDITION (s.ts < r.ts)": ("-unix_micros(s.ts)", "r.ts > s.ts"),
    "MATCH_CONDITION (r.ts <= s.ts)": ("unix_micros(s.ts)", "r.ts <= s.ts"),
    "MATCH_CONDITION (r.x > s.x)": ("-s.x", "r.x > s.x"),
    "MATCH_CONDITION (r.d <= s.d)": ("s.d + 0.0D", "r.d <= s.d"),
    "MATCH_CONDITION (r.x + 1 <= s.n)": ("s.n", "r.x + 1 <= s.n"),
    "NEAREST BY DISTANCE ABS(r.x - s.x)": ("ABS(r.x - s.x)", "r.x IS NOT NULL AND s.x IS NOT NULL"),
    "NEAREST BY SIMILARITY -ABS(s.n - r.x)": ("ABS(s.n - r.x)", "r.x IS NOT NULL AND s.n IS NOT NULL"),
    "NEAREST BY DISTANCE ABS(r.d - s.d)": ("ABS(r.d - s.d)", "r.d IS NOT NULL AND s.d IS NOT NULL"),
    "NEAREST 3 BY DISTANCE ABS(r.x - s.x)": ("ABS(r.x - s.x)", "r.x IS NOT NULL AND s.x IS NOT NULL"),
    "NEAREST BY DISTANCE ABS(r.ts - s.ts)": ("ABS(unix_micros(r.ts) - unix_micros(s.ts))", "true"),
}
#: What ON says besides, if there is one (NEAREST has none).
ONS = ("r.k = s.k", "r.w = s.w AND r.k <= s.k", "r.x <> s.x AND s.k > 0", "r.k = s.k AND r.w = 'a'", "true", None)
WITHIN = 30


def queries(match: str, on: str | None, side: str, units: int | None) -> tuple[str, str, str]:
    """Return the query, and its reference: the closest values of each row, and all pairs that may be results."""
    key, condition = MATCHES[match]
    hint = "" if units is None else f"/*+ UNITS({units}) */ "
    clause = match.replace("NEAREST", "APPROX NEAREST")
    join = f"{side} JOIN s {clause}" if match.startswith("NEAREST") else f"{side} ASOF JOIN s {clause}"
    join += "" if on is None else f" ON {on}"
    sql = f"SELECT {hint}s.id AS e, r.id AS a, r.ts AS t, {key} AS f FROM r {join} WITHIN {WITHIN} SECONDS"
    distance = "ABS(unix_micros(r.ts) - unix_micros(s.ts))"
    whole = f"{condition} AND {on or 'true'} AND {distance} <= {WITHIN}000000"
    rows = "(SELECT *, monotonically_increasing_id() AS row FROM r)"
    pairs = (
        f"SELECT r.id AS a, r.ts AS t, s.id AS e, {key} AS f, RANK() OVER w AS place, ROW_NUMBER() OVER w AS number "
        f"FROM {rows} AS r {side} JOIN s ON {whole} WINDOW w AS (PARTITION BY row ORDER BY {key})"
    )
    count = 3 if "NEAREST 3" in match else 1
    closest = f"SELECT a, t, f FROM ({pairs}) WHERE number <= {count}"
    return sql, closest, f"SELECT e, a, t, f FROM ({pairs}) WHERE place <= {count}"


def check(spark: SparkSession, home: Path, seed: int, match: str, on: str | None, side: str, units: int | None) -> None:
    sql, closest, may_be = queries(match, on, side, units)
    tables = streams(spark, home / "tables", seed)
    tables.use(streaming=False)
    wanted = bag(spark.sql(closest).collect())
    allowed = set(bag(spark.sql(may_be).collect()))
    tables.use(streaming=True)
    found = without_last(run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), home / "checkpoint"))
    assert set(found) <= allowed, sql
    values: Bag = Counter()
    for row, count in found.items():
        values["[" + row.partition(", ")[2]] += count  # without the row's partner
    assert values == without_last(wanted), sql


@pytest.mark.parametrize("match", MATCHES)
def test_two_streams(spark: SparkSession, tmp_path: Path, match: str) -> None:
    random = Random(match)
    on = None if match.startswith("NEAREST") else random.choice(ONS)
    side = random.choice(["", "LEFT", "LEFT"])
    check(spark, tmp_path, random.randrange(5), match, on, side, random.choice([None, 1, 3]))


@pytest.fixture
def asof(spark: SparkSession) -> Iterator[SparkSession]:
    """Let Spark run ASOF JOIN over tables, for the reference; units do not need the setting."""
    spark.conf.set(ASOF, "true")
    yield spark
    spark.conf.unset(ASOF)


ASOF = "spark.sql.join.asofJoin.enabled"
LAST = "MATCH_CONDITION (r.ts >= s.ts) ON r.k = s.k"
#: What the closest rows have in common is in the results, and which of them it is is not.
QUERIES = {
    "no tolerance": f"SELECT r.id, s.ts FROM r ASOF JOIN s {LAST}",
    "no key": "SELECT r.id, s.ts FROM r LEFT ASOF JOIN s MATCH_CONDITION (s.ts < r.ts)",
    "one side": f"SELECT r.id, s.ts FROM r LEFT ASOF JOIN s {LAST} AND r.w <> 'a' AND s.x > 2 WHERE r.x > 1",
    "a text": "SELECT r.id, s.ts FROM r LEFT ASOF JOIN s MATCH_CONDITION (r.ts >= s.ts) ON r.w = s.w AND r.k <=> s.k",
    "USING": "SELECT k, r.id, s.ts FROM r LEFT ASOF JOIN s MATCH_CONDITION (s.ts <= r.ts) USING (k)",
    "above a join": (
        f"SELECT r.id, t.id, s.ts FROM r JOIN t ON r.x < t.x AND {between('r', 't', 15)} LEFT ASOF JOIN s {LAST} "
        f"AND s.ts >= r.ts - INTERVAL 20 SECONDS"
    ),
    "below one": f"SELECT r.id, t.id, s.ts FROM r ASOF JOIN s {LAST} JOIN t ON r.x < t.x AND {between('r', 't', 15)}",
    "twice": f"SELECT r.id, s.ts, t.ts FROM r LEFT ASOF JOIN s {LAST} LEFT ASOF JOIN t MATCH_CONDITION (r.ts > t.ts)",
    "below an anti join": (
        f"SELECT r.id, s.ts FROM r ASOF JOIN s {LAST} WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.x < r.x AND "
        f"{between('r', 't', 15)})"
    ),
    "with itself": (
        "SELECT a.id, b.ts FROM r AS a LEFT ASOF JOIN r AS b MATCH_CONDITION (a.ts > b.ts) ON a.k = b.k AND a.x <> b.x "
        "AND b.ts > a.ts - INTERVAL 60 SECONDS"
    ),
    "in a CTE": f"WITH q AS (SELECT r.id AS a, s.ts AS b FROM r ASOF JOIN s {LAST}) SELECT a + 1, b FROM q WHERE a > 3",
    "the next": (
        "SELECT r.id, s.x FROM r LEFT ASOF JOIN s MATCH_CONDITION (r.x <= s.x) ON s.ts BETWEEN r.ts AND "
        "r.ts + INTERVAL 30 SECONDS"
    ),
}


@pytest.mark.rare
def test_a_window_above(asof: SparkSession, tmp_path: Path) -> None:
    """Results come behind the watermark, which is held back for the window by as much."""
    window = "window(r.ts, '20 seconds')"
    sql = f"SELECT {window} AS w, count(*) AS n, max(s.ts) AS t FROM r LEFT ASOF JOIN s {LAST} GROUP BY {window}"
    tables = streams(asof, tmp_path / "tables", 5)
    tables.use(streaming=False)
    wanted = bag(asof.sql(sql).collect())
    tables.use(streaming=True)
    found = run_stream(trijoin_sql.TriJoinSession.create(asof).sql(sql), tmp_path / "checkpoint")
    assert found == Bag({row: count for row, count in wanted.items() if "2024, 1, 2" not in row}), "all but the last"
    assert len(wanted) > 3


def test_a_job_goes_on_after_a_stop(asof: SparkSession, tmp_path: Path) -> None:
    """Waiting rows and the latest of each key are in the checkpoint, whichever units were asked for first."""
    sql = f"SELECT r.id, s.ts FROM r LEFT ASOF JOIN s {LAST}"
    tables = streams(asof, tmp_path / "tables", 3)
    held = {name: sorted((tmp_path / "tables" / name).iterdir()) for name in "rs"}
    away = tmp_path / "away"
    away.mkdir()
    for name, files in held.items():
        for file in files[len(files) // 2 :]:
            file.rename(away / f"{name}-{file.name}")
    tj = trijoin_sql.TriJoinSession.create(asof)
    tables.use(streaming=True)
    found = run_stream(tj.sql(sql), tmp_path / "checkpoint")
    for file in away.iterdir():
        name, _, rest = file.name.partition("-")
        file.rename(tmp_path / "tables" / name / rest)
    tables.use(streaming=True)
    found += run_stream(tj.sql(sql), tmp_path / "checkpoint")
    tables.use(streaming=False)
    assert without_last(found) == without_last(bag(asof.sql(sql).collect()))


@pytest.mark.parametrize("name", QUERIES)
def test_as_spark_in_batch(asof: SparkSession, tmp_path: Path, name: str) -> None:
    sql = QUERIES[name]
    tables = streams(asof, tmp_path / "tables", sum(map(ord, name)) % 7, 30)
    tables.use(streaming=False)
    wanted = without_last(bag(asof.sql(sql).collect()))
    tables.use(streaming=True)
    asof.conf.set(ASOF, "false")
    tj = trijoin_sql.TriJoinSession.create(asof)
    found = without_last(run_stream(tj.sql(sql), tmp_path / "checkpoint"))
    assert found == wanted
    assert len(wanted) > 5
