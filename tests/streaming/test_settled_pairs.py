"""Outer, semi, anti and closest joins of streams with conditions that only Spark evaluates: the rows of Spark batch."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import trijoin_sql
from trijoin_sql.errors import UnsupportedQueryError

from .test_outer_joins import BOUNDS, between, compared, outer_query, streams
from .test_outer_joins import CONDITIONS as UNITS_DECIDE

pytestmark = pytest.mark.slow

#: None of which units evaluate.
CONDITIONS = (
    "r.x * s.x < 10",
    "ABS(r.x - s.x) <= s.k",
    "ABS(r.d - s.d) <= 0.1 * r.d",
    "SQRT(POWER(r.x - s.x, 2) + POWER(r.k - s.k, 2)) <= 1.5",
    "levenshtein(r.w, s.w) = 1",
    "concat(r.w, s.w) LIKE '%a'",
    "startswith(r.w, s.w)",
    "r.x IS DISTINCT FROM s.x",
    "CASE WHEN r.k = 1 THEN r.x < s.x ELSE r.x > s.x END",
    "timestampdiff(SECOND, r.ts, s.ts) % 2 = 0",
    "coalesce(r.x, s.x) > 3",
    "(r.x < s.x OR r.k + s.k > 2)",
    "r.x < s.x AND r.x + s.k > 4 AND r.w = 'a'",
    "STRUCT(r.k, r.x) < STRUCT(s.k, s.x)",
    "r.w COLLATE UTF8_LCASE = s.w",
    "(r.x + s.x) * r.k < 9 AND s.k > 0",
)
CLOSEST = (
    "ASOF JOIN s MATCH_CONDITION (r.ts >= s.ts) ON {} AND s.ts >= r.ts - INTERVAL 40 SECONDS",
    "LEFT ASOF JOIN s MATCH_CONDITION (r.ts <= s.ts) ON {} AND s.ts <= r.ts + INTERVAL 30 SECONDS",
)


def settled_query(random: Random) -> str:
    """Return a join of r and s, perhaps of r with t below it."""
    condition = random.choice(CONDITIONS)
    hint = random.choice(("", "/*+ UNITS(1) */ ", "/*+ UNITS(3) */ "))
    one = "r.id AS a, r.w AS b, r.d AS d, r.ts AS t"
    below = random.choice(("r", "r", "r JOIN t ON r.x < t.x AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 9 SECONDS"))
    one += ", t.id AS o" if "t.x" in below else ""
    bounded = f"{condition} AND {random.choice(BOUNDS)}"
    kind = random.choice(
        ("LEFT", "LEFT", "RIGHT", "FULL", "FULL", "LEFT SEMI", "LEFT ANTI", "EXISTS", "NOT EXISTS", "ASOF")
    )
    if kind in ("LEFT SEMI", "EXISTS") and random.random() < 0.3:
        bounded = f"{condition} AND r.x <> s.x"  # such a join gives a row at once, and keeps it for ever
    if kind.endswith("EXISTS"):
        return f"SELECT {hint}{one} FROM {below} WHERE {kind} (SELECT 1 FROM s WHERE {bounded})"
    if kind == "ASOF":
        return f"SELECT {hint}{one}, s.ts AS u FROM {below} {random.choice(CLOSEST).format(condition)}"
    both = one if kind in ("LEFT SEMI", "LEFT ANTI") else f"{one}, s.id AS e, s.w AS f, s.n AS g, s.ts AS u"
    return f"SELECT {hint}{both} FROM {below} {kind} JOIN s ON {bounded}"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rare) for seed in range(1, 12))])
def test_random_queries(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    sql = settled_query(Random(seed))
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", seed), tmp_path, sql)
    assert found == wanted, sql


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rare) for seed in range(1, 6))])
def test_a_full_join_in_several_units(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """No equality says where partners meet: pairs are found in all units, and rows of both sides settled in others."""
    random = Random(seed)
    sql = outer_query("FULL", f"{random.choice(UNITS_DECIDE)} AND {random.choice(BOUNDS)}", 3)
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", seed), tmp_path, sql)
    assert found == wanted, sql


@pytest.mark.parametrize(
    ("of_r", "condition", "says"),
    [
        ("r", "s.ts < now() - make_interval(0, 0, 0, 0, 0, 0, r.x * s.x)", "only Spark can evaluate"),
        ("(SELECT *, rand() AS z FROM r)", "r.z * s.x < 10", "reads r twice, .* another value each time"),
        ("(SELECT * FROM r WHERE rand() < 0.5)", "r.x * s.x < 10", "reads r twice"),
    ],
)
def test_what_is_random_is_refused(spark: SparkSession, tmp_path: Path, of_r: str, condition: str, says: str) -> None:
    """The rows that are tested are read twice, and have to be the same rows."""
    streams(spark, tmp_path / "tables", 0, 1).use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    with pytest.raises(UnsupportedQueryError, match=says):
        tj.sql(f"SELECT r.id FROM {of_r} AS r LEFT JOIN s ON {condition} AND {BOUNDS[0]}")


@pytest.mark.parametrize("lags", ["(SELECT r.* FROM {0}) AS r", "{0}"])
def test_a_time_that_lags_without_bound_is_refused(spark: SparkSession, tmp_path: Path, lags: str) -> None:
    """What r looks for comes behind the watermark, and may be later than r: so no watermark passes the time of r."""
    streams(spark, tmp_path / "tables", 0, 1).use(streaming=True)
    late = f"(SELECT t.* FROM t LEFT ANTI JOIN s ON t.x < s.x AND {between('t', 's', 9)}) AS z"
    below = lags.format(f"r LEFT ANTI JOIN {late} ON r.x < z.x AND {between('r', 'z', 9)}")
    with pytest.raises(UnsupportedQueryError, match="time of r lags without bound"):
        trijoin_sql.TriJoinSession.create(spark).sql(
            f"SELECT r.id FROM {below} LEFT SEMI JOIN s ON r.x * s.x < 10 AND {BOUNDS[0]}"
        )


def test_functions_of_the_user_test_pairs(spark: SparkSession, tmp_path: Path) -> None:
    spark.udf.register("alike", lambda one, other: one == other, "boolean")
    batch = f"SELECT r.id AS a, s.id AS b FROM r LEFT JOIN s ON r.w = s.w AND {BOUNDS[0]}"
    sql = batch.replace("r.w = s.w", "alike(r.w, s.w)")  # Spark has no outer join by a function in Python
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", 3, 15), tmp_path, batch, sql)
    assert found == wanted
