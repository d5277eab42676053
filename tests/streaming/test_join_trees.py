"""A tree of inner, outer, semi, anti and closest joins as one node: the rows of Spark batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

import trijoin_sql

from .differential import bag, run_stream
from .join_trees import NAMES, random_tree, with_changes
from .test_outer_joins import compared, streams, without_last

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def asof(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    yield
    spark.conf.unset("spark.sql.join.asofJoin.enabled")


@pytest.mark.parametrize("seed", [0, *(pytest.param(one, marks=pytest.mark.rare) for one in range(1, 8))])
def test_random_trees(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    sql = random_tree(Random(seed))
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", seed, 25, NAMES), tmp_path, sql)
    assert found == wanted, sql


def test_a_join_keeps_rows_for_those_that_have_waited_twice(spark: SparkSession, tmp_path: Path) -> None:
    """Three nodes one above the other. What is held back for the third one counts for the second one as well."""
    later = "{0}.ts BETWEEN r.ts + INTERVAL {1} SECONDS AND r.ts + INTERVAL 20 SECONDS"
    sql = (
        "SELECT r.id, r.ts AS at, t.ts AS t FROM r ASOF JOIN t MATCH_CONDITION (r.ts <= t.ts) ON r.k = t.k "
        "AND t.ts <= r.ts + INTERVAL 8 SECONDS "
        f"LEFT ANTI JOIN s ON ABS(r.n - s.n) <= 0.2 * r.n AND {later.format('s', 0)} "
        "WHERE EXISTS (SELECT 1 FROM u WHERE "
        f"CASE WHEN r.k = 1 THEN u.x > 2 ELSE r.x < u.x END AND {later.format('u', 5)})"
    )
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", 1000443, 25, NAMES), tmp_path, sql)
    assert found == wanted
    assert wanted.total() == 1


@pytest.mark.parametrize("seed", [0, *(pytest.param(one, marks=pytest.mark.rare) for one in range(1, 6))])
def test_random_trees_whose_units_change(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Each is killed at the end of some micro-batches, and starts again in other units."""
    sql = re.sub(r"/\*.*?\*/ ", "", random_tree(Random(seed)))
    tables = streams(spark, tmp_path / "tables", seed, 25, NAMES)
    found, wanted, _ = with_changes(spark, tables, tmp_path, sql, Random(seed))
    assert found == wanted, sql


def test_a_chain_of_dataframes_and_a_pipe_are_one_node(spark: SparkSession, tmp_path: Path) -> None:
    """They come by Spark's plan, join by join, and give the rows of batch."""
    near = "s.ts BETWEEN r.ts AND r.ts + INTERVAL 20 SECONDS AND ABS(r.x - s.x) < 2"
    nearly = "r.k = t.k AND t.ts BETWEEN r.ts - INTERVAL 10 SECONDS AND r.ts"

    def chained() -> DataFrame:
        r, s, t = (spark.table(one).alias(one) for one in "rst")
        found = r.join(s, F.expr(near), "left").join(t, F.expr(nearly), "left_semi")
        return found.select("r.id", F.col("s.id").alias("other"), "r.ts")

    piped = f"FROM r |> LEFT JOIN s ON {near} |> LEFT SEMI JOIN t ON {nearly} |> SELECT r.id, s.id AS other, r.ts"
    tables = streams(spark, tmp_path / "tables", 3, 25)
    tables.use(streaming=False)
    wanted = without_last(bag(chained().collect()))
    assert wanted.total() > 5
    tables.use(streaming=True)
    trijoin_sql.enable(spark)
    try:
        for number, frame in enumerate((chained(), spark.sql(piped))):
            looked: list[int] = []

            def look(query: StreamingQuery, seen: list[int] = looked) -> None:
                operators = query.lastProgress.stateOperators
                seen.append(len(operators))

            found = run_stream(frame, tmp_path / str(number), look=look)
            assert without_last(found) == wanted
            assert looked == [1], "one stateful operator"
    finally:
        trijoin_sql.disable(spark)


def test_asof_in_a_tree_needs_no_setting(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.unset("spark.sql.join.asofJoin.enabled")
    streams(spark, tmp_path / "tables", 3, 10).use(streaming=True)
    near = "s.ts BETWEEN r.ts AND r.ts + INTERVAL 20 SECONDS AND ABS(r.x - s.x) < 2"
    asof = "LEFT ASOF JOIN t MATCH_CONDITION (r.ts >= t.ts) ON r.k = t.k"
    frame = trijoin_sql.TriJoinSession.create(spark).sql(f"SELECT r.id, t.x FROM r LEFT JOIN s ON {near} {asof}")
    assert run_stream(frame, tmp_path / "checkpoint").total() > 0
