"""Joins of tables: the rows of Spark, without state, and only where Spark would try all pairs of rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import trijoin_sql

from .differential import Tables, bag

ALL = ["id", "ti", "si", "i", "b", "f", "d", "n", "m", "w", "dt", "ts", "tn", "s", "x", "bi", "bo"]
NESTED = (
    "SELECT *, array(named_struct('k', i, 'at', ts), NULL) AS nested, map(coalesce(s, '?'), d) AS looked_up, "
    "make_interval(0, 0, 0, i % 3) AS apart, make_ym_interval(1, 2) AS months FROM"
)
STATEMENTS = (
    # every type comes back, plain or not
    f"SELECT {', '.join(f'r.{name}, s.{name} AS s_{name}' for name in ALL)} FROM r JOIN s ON ABS(r.i - s.i) <= 1",
    f"SELECT r.nested, s.looked_up, r.months > s.months AS longer FROM ({NESTED} r) AS r JOIN ({NESTED} s) AS s "
    "ON r.i < s.i AND r.b = s.b",
    # stages, residuals, tables that are looked up, groups counted in the units and without
    "SELECT r.id, s.id AS sid, t.id AS tid FROM r JOIN s ON r.d <= s.d AND r.i = s.i JOIN t ON ABS(s.n - t.n) < 2",
    "SELECT /*+ SCHEME('semi_symmetric') */ r.id, s.id AS sid, t.id AS tid FROM r JOIN s ON r.dt < s.dt "
    "JOIN t ON ABS(s.n - t.n) < 2 AND (s.s LIKE '%a' || t.x || '%' OR s.i + t.i > 3)",
    "SELECT /*+ SCHEME('symmetric') */ r.id, s.id AS sid, t.id AS tid FROM r JOIN s ON r.dt < s.dt "
    "JOIN t ON ABS(s.n - t.n) < 2 AND r.i = t.i",
    "SELECT /*+ SCHEME('tree') */ r.id, s.id AS sid, t.id AS tid FROM r JOIN s ON r.dt < s.dt JOIN t ON s.b < t.b",
    "SELECT r.s, s.id, t.tn FROM r JOIN s ON ABS(r.d - s.f) < 1 JOIN t ON s.id = t.id",
    "SELECT r.i, COUNT(*) AS n, SUM(t.n) AS total, MAX(s.s) AS most FROM r JOIN s ON r.d < s.d JOIN t ON s.i < t.i "
    "GROUP BY r.i",
    "SELECT COUNT(*) AS n FROM r JOIN s ON r.d < s.d JOIN t ON s.i < t.i",
    # outer, semi and anti joins, alone, above and below others, and with one-sided conditions
    *(
        f"SELECT {columns} FROM r {kind} JOIN s ON r.d - s.d BETWEEN -1 AND 1 AND r.i > s.i AND {side}.ti > 0"
        for kind, columns in (
            ("LEFT", "r.id, r.ts, s.id AS sid, s.n"),
            ("RIGHT", "r.id, r.ts, s.id AS sid, s.n"),
            ("FULL", "r.id, r.ts, s.id AS sid, s.n"),
            ("LEFT SEMI", "*"),
            ("LEFT ANTI", "*"),
        )
        for side in "rs"
    ),
    "SELECT r.id, s.id AS sid, t.id AS tid FROM r JOIN s ON r.d < s.d LEFT JOIN t ON t.n BETWEEN r.n AND s.n "
    "WHERE t.id IS NULL OR t.i > 0",
    "SELECT r.id, s.id AS sid, t.id AS tid FROM r LEFT JOIN s ON r.dt < s.dt JOIN t ON r.tn < t.tn AND r.i = t.i",
    # an equality that does not join the two sides, or that is one of several ways
    "SELECT r.id, s.id AS sid FROM r LEFT JOIN s ON r.d < s.d AND r.i = 3",
    "SELECT r.id, s.id AS sid FROM r FULL JOIN s ON r.i = s.si OR r.dt = s.dt",
    # what the conditions on one side keep out is not computed
    "SELECT r.id, s.id AS sid FROM r LEFT JOIN s ON r.i < 9 AND r.i * 250000000 - 2000000000 < s.i",
    # texts that are no numbers, divisors that are 0 and places that are not in an array, where other conditions hold
    "SELECT r.id, s.id AS sid FROM r JOIN s ON ABS(CAST(r.x AS INT) - s.i) <= 1",
    "SELECT r.id, s.id AS sid FROM r LEFT JOIN s ON ABS(TRY_CAST(coalesce(r.x, r.s) AS INT) - s.i) <= 1",
    "SELECT r.id, s.id AS sid FROM r JOIN s ON r.s = s.x AND ABS(CAST(r.s AS INT) - s.i) <= 1",
    "SELECT r.id, s.id AS sid FROM r JOIN s ON ABS(r.i - s.i) <= 1 AND r.s = s.x AND s.i >= r.s",
    "SELECT r.id, s.id AS sid FROM r JOIN s ON r.d BETWEEN CAST(s.x AS INT) - 1 AND CAST(s.x AS INT) + 1 AND s.i = r.i",
    "SELECT r.id, s.id AS sid, t.id AS tid FROM r JOIN s ON r.i = s.ti AND ABS(6 / s.i - r.si) <= 2 JOIN t "
    "ON r.d < t.d AND t.i > s.i WHERE r.i > 0 AND s.ti = s.i",
    "SELECT r.i, COUNT(*) AS n FROM r JOIN s ON r.dt < s.dt AND r.x = s.i AND s.i <> 0 GROUP BY r.i",
    "SELECT r.id FROM r JOIN nothing ON ABS(CAST(r.s AS INT) - nothing.i) < 3",
    "SELECT r.id FROM r JOIN nothing ON nothing.d BETWEEN array(r.i)[r.i] AND r.d / r.i",
    "SELECT r.id, nothing.id AS nid FROM r LEFT JOIN nothing ON r.d < nothing.d",
    "SELECT r.s, COUNT(t.id) AS n FROM r LEFT JOIN t ON r.ts <= t.ts AND r.d > t.d GROUP BY r.s",
    "SELECT r.id FROM r JOIN nothing ON r.d < nothing.d",
    "SELECT /*+ UNITS(7) */ r.id, s.id AS sid FROM r JOIN s ON r.ts BETWEEN s.ts - INTERVAL 1 DAY AND s.ts",
)


@pytest.fixture
def by_default(spark: SparkSession) -> Iterator[trijoin_sql.TriJoinSession]:
    """Yield a session with the setting that users have."""
    spark.conf.unset("spark.trijoin.tables")
    spark.conf.set("spark.trijoin.tables", "theta")
    yield trijoin_sql.TriJoinSession.create(spark)
    spark.conf.set("spark.trijoin.tables", "all")


def plan_of(frame: DataFrame) -> str:
    """Return how Spark runs a frame."""
    return frame._jdf.queryExecution().toString()


@pytest.mark.parametrize("sql", STATEMENTS)
def test_the_rows_are_those_of_spark(tables: Tables, by_default: trijoin_sql.TriJoinSession, sql: str) -> None:
    tables.use(streaming=False)
    wanted = tables.spark.sql(sql.replace("SCHEME", "OF").replace("UNITS", "OF"))
    found = by_default.sql(sql)
    assert found.schema == wanted.schema or [one.dataType for one in found.schema] == [
        one.dataType for one in wanted.schema
    ]
    assert bag(found.collect()) == bag(wanted.collect())
    plan = plan_of(found)
    assert "MapInArrow join_" in plan
    assert "TransformWithState" not in plan
    assert bag(found.collect()) == bag(wanted.collect()), "a frame can be asked again"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT r.id, nothing.id AS nid FROM r LEFT JOIN nothing ON CAST(r.s AS INT) < nothing.i",
        "SELECT nothing.id FROM nothing JOIN r ON nothing.i < CAST(r.s AS INT)",
        "SELECT s.id FROM s LEFT ANTI JOIN r ON s.i <> 0 AND r.d < 10 / s.i",
    ],
)
def test_what_may_fail_is_left_to_spark(tables: Tables, by_default: trijoin_sql.TriJoinSession, sql: str) -> None:
    """Where it would decide a third of all pairs, or whether a row has a partner."""
    tables.use(streaming=False)
    found = by_default.sql(sql)
    assert bag(found.collect()) == bag(tables.spark.sql(sql).collect())
    assert "MapInArrow" not in plan_of(found)


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("ABS(CAST(r.s AS INT) - s.i) <= 1", "CAST_INVALID_INPUT"),
        ("r.d BETWEEN 6 / s.i AND 6 / s.i + 3", "DIVIDE_BY_ZERO"),
        ("ABS(r.b - s.b) <= 1", "ARITHMETIC_OVERFLOW"),
        ("r.b + 1 < s.b", "ARITHMETIC_OVERFLOW"),
    ],
)
def test_what_fails_on_a_pair_raises(
    tables: Tables, by_default: trijoin_sql.TriJoinSession, condition: str, error: str
) -> None:
    tables.use(streaming=False)
    sql = f"SELECT r.id, s.id AS sid FROM r JOIN s ON {condition}"
    found = by_default.sql(sql)
    assert "MapInArrow join_" in plan_of(found)
    for frame in (tables.spark.sql(sql), found):
        with pytest.raises(Exception, match=error):
            frame.collect()


@pytest.mark.usefixtures("caplog")
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_what_cannot_travel_is_left_to_spark(tables: Tables, by_default: trijoin_sql.TriJoinSession, kind: str) -> None:
    tables.use(streaming=False)
    made = f"({NESTED} r)"
    sql = f"SELECT CAST(r.apart AS STRING) AS apart, s.id FROM {made} AS r {kind} s ON r.d < s.d"
    found = by_default.sql(sql)
    assert "MapInArrow" not in plan_of(found)
    assert bag(found.collect()) == bag(tables.spark.sql(sql).collect())


def test_equalities_are_left_to_spark(tables: Tables, by_default: trijoin_sql.TriJoinSession) -> None:
    tables.use(streaming=False)
    equal = by_default.sql("SELECT r.id FROM r JOIN s ON r.i = s.i JOIN t ON s.b = t.b")
    assert "MapInArrow" not in plan_of(equal)
    tables.spark.conf.set("spark.trijoin.tables", "none")
    left = by_default.sql("SELECT r.id FROM r JOIN s ON r.i < s.i")
    assert "MapInArrow" not in plan_of(left)
