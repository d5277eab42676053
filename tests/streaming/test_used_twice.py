"""What a query uses at two places: Spark plans it twice, and each has its own state and its own watermark.

Spark gives no watermark to an operator with state above an exchange that it plans once for both: rows without a partner
and windows of the second use would never come (`plan_exchanges_anew`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import trijoin_sql

from .differential import bag, run_stream
from .test_outer_joins import compared, streams, without_last

pytestmark = pytest.mark.slow

SOON = "{1}.ts BETWEEN {0}.ts AND {0}.ts + INTERVAL 20 SECONDS"


@pytest.mark.parametrize("kind", ["LEFT SEMI", "LEFT"])
def test_rows_that_wait_below_pairs_that_spark_tests(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """The rows of the anti join are read twice: to find pairs, and to settle which have one."""
    other = ", t.id AS o" if kind == "LEFT" else ""
    sql = (
        f"SELECT r.id, r.ts AS at{other} FROM r LEFT ANTI JOIN s ON r.k = s.k AND s.x > 4 AND {SOON} "
        f"{kind} JOIN t ON ABS(r.x - t.x) <= t.k AND {SOON.replace('1', '2')}"
    ).format("r", "s", "t")
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", 800011, 25), tmp_path, sql)
    assert wanted.total() > 5
    assert found == wanted


@pytest.mark.matrix
def test_a_join_united_with_itself(spark: SparkSession, tmp_path: Path) -> None:
    near = f"SELECT r.id, r.ts AS at, s.id AS o FROM r LEFT JOIN s ON r.x < s.x AND {SOON}".format("r", "s")

    def both(found: DataFrame) -> DataFrame:
        return found.where("o IS NULL").unionAll(found.where("id > 3"))

    tables = streams(spark, tmp_path / "tables", 5)
    tables.use(streaming=False)
    wanted = without_last(bag(both(spark.sql(near)).collect()))
    tables.use(streaming=True)
    found = both(trijoin_sql.TriJoinSession.create(spark).sql(near))
    assert without_last(run_stream(found, tmp_path / "checkpoint")) == wanted
    assert sum(count for row, count in wanted.items() if "None" in row) > 5
    assert spark.conf.get("spark.sql.exchange.reuse") == "true"  # the query's own session has another


def test_a_semi_join_of_rows_that_wait(spark: SparkSession, tmp_path: Path) -> None:
    """Where both rows of a pair come when the watermark has passed them, Spark's own does not find it."""
    on = "t.k IS DISTINCT FROM s.k AND t.x <= s.x AND s.ts BETWEEN t.ts - INTERVAL 35 SECONDS AND t.ts"
    waits = f"(SELECT concat(t.id, '_', coalesce(s.id, -2)) AS id, t.ts FROM t LEFT JOIN s ON {on})"
    both = f"{waits} AS one LEFT SEMI JOIN {waits} AS other ON one.id = other.id AND other.ts = one.ts"
    tables = streams(spark, tmp_path / "tables", 26, 18, "rst", untimed=0.0)
    found, wanted = compared(spark, tables, tmp_path, f"SELECT one.id, one.ts FROM {both}")
    assert found == wanted


def test_windows_of_spark_joined_with_each_other(spark: SparkSession, tmp_path: Path) -> None:
    keys, closed = "window(ts, '10 seconds'), x % 3", "{0}.window.end < TIMESTAMP '2024-01-01 00:02:00'"
    windows = f"SELECT window, x % 3 AS k, COUNT(*) AS n FROM r GROUP BY {keys}"
    sql = "SELECT a.window.start AS one, b.window.start AS other, a.n, b.n AS m FROM w a"
    sql += " JOIN (SELECT *, n + 0 AS m FROM w WHERE n > 1) b"
    sql += f" ON a.n < b.m AND a.k <> b.k WHERE {closed.format('a')} AND {closed.format('b')}"
    tables = streams(spark, tmp_path / "tables", 7)
    tables.use(streaming=False)
    spark.sql(windows).createOrReplaceTempView("w")
    wanted = bag(spark.sql(sql).collect())
    assert wanted.total() > 20
    tables.use(streaming=True)
    spark.sql(windows).createOrReplaceTempView("w")
    assert run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), tmp_path / "checkpoint") == wanted
