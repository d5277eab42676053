"""Joins with the closest rows of streams (ASOF JOIN, NEAREST BY): at the end what batch gives, at any time a part of it.

Of equally close rows batch gives any. So the reference is what is compared of a row's closest partners, and which rows
these may be.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import trijoin_sql

from .differential import Bag, bag, run_stream
from .test_outer_joins import DELAY, streams, without_last

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
    "NEAREST BY DISTANCE ABS(r.ts - s.ts)": ("ABS(unix_micros(r.ts) - unix_micros(s.ts))", "true"),
}
#: What ON says besides, if there is one (NEAREST has none).
ONS = ("r.k = s.k", "r.w = s.w AND r.k <= s.k", "r.x <> s.x AND s.k > 0", "r.k = s.k AND r.w = 'a'", "true", None)
WITHIN = 30


def queries(match: str, on: str | None, side: str, units: int | None) -> tuple[str, str, str]:
    """Return the query, and its reference: the closest values of each row, and all pairs of rows that may be results."""
    key, condition = MATCHES[match]
    hint = "" if units is None else f"/*+ UNITS({units}) */ "
    clause = match.replace("NEAREST", "APPROX NEAREST")
    join = f"{side} JOIN s {clause}" if match.startswith("NEAREST") else f"{side} ASOF JOIN s {clause}"
    join += "" if on is None else f" ON {on}"
    sql = f"SELECT {hint}s.id AS e, r.id AS a, r.ts AS t, {key} AS f FROM r {join} WITHIN {WITHIN} SECONDS"
    distance = "ABS(unix_micros(r.ts) - unix_micros(s.ts))"
    whole = f"{condition} AND {on or 'true'} AND {distance} <= {WITHIN}000000"
    rows = "(SELECT *, monotonically_increasing_id() AS number FROM r)"
    pairs = (
        f"SELECT number, r.id AS a, r.ts AS t, s.id AS e, {key} AS f, "
        f"RANK() OVER (PARTITION BY number ORDER BY {key}) AS place FROM {rows} AS r {side} JOIN s ON {whole}"
    )
    closest = f"SELECT a, t, f FROM ({pairs}) WHERE place = 1 GROUP BY number, a, t, f"
    return sql, closest, f"SELECT DISTINCT e, a, t, f FROM ({pairs}) WHERE place = 1"


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
@pytest.mark.parametrize("side", ["", "LEFT"])
def test_two_streams(spark: SparkSession, tmp_path: Path, match: str, side: str) -> None:
    random = Random(f"{match}{side}")
    on = None if match.startswith("NEAREST") else random.choice(ONS)
    check(spark, tmp_path, random.randrange(5), match, on, side, random.choice([None, 1, 3]))
