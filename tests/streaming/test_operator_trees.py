"""Operator trees (002): join nodes over join nodes on streams, with the rows of Spark batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import trijoin_sql

from .differential import Tables, bag, cut, random_rows, run_stream


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Four streams of three micro-batches each."""
    made = Tables(spark, tmp_path_factory.mktemp("trees"))
    for number, name in enumerate("rstu"):
        made.create(name, cut(random_rows(20 + number, 24), (6 + 3 * number, 5)))
    return made


@pytest.mark.rare
def test_streams_through_three_stages(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """One inner node over another: a result that is lost, doubled or stored too late shows at the root."""
    sql = (
        "SELECT /*+ SCHEME('operator_tree(((r, s), t), u)'), UNITS(3) */ r.id, s.id, t.id, u.id FROM r "
        "JOIN s ON r.n = s.n JOIN t ON s.b <=> t.b AND ABS(r.si - t.si) < 3 AND r.si > -9 AND t.si > -9 "
        "JOIN u ON u.dt = r.dt AND u.id > t.id"
    )
    tj = trijoin_sql.TriJoinSession.create(spark)
    tables.use(streaming=False)
    expected = bag(spark.sql(sql).collect())
    assert expected
    tables.use(streaming=True)
    plan = tj.explain(sql).to_dict()
    assert plan["groups"][0]["decision"]["scheme"] == "operator_tree"
    assert run_stream(tj.sql(sql), tmp_path / "checkpoint") == expected


@pytest.mark.rare
def test_a_root_that_stores_nothing_but_its_inputs(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """002's mixed plan: what an inner node stores is one of three streams that rows of the others probe in turn."""
    sql = (
        "SELECT /*+ SCHEME('operator_tree((r, s), t, u)'), UNITS(2) */ r.id, s.id, t.id, u.id FROM r "
        "JOIN s ON r.n = s.n JOIN t ON s.b <=> t.b AND ABS(r.si - t.si) < 3 AND r.si > -9 AND t.si > -9 "
        "JOIN u ON u.dt = r.dt AND u.i < s.i"
    )
    tj = trijoin_sql.TriJoinSession.create(spark)
    tables.use(streaming=False)
    expected = bag(spark.sql(sql).collect())
    assert expected
    tables.use(streaming=True)
    assert "non_materializing, 2 units; chain with hub r_s of r_s, t, u" in str(tj.explain(sql))
    assert run_stream(tj.sql(sql), tmp_path / "checkpoint") == expected


@pytest.mark.rare
def test_a_root_that_aggregates(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """Keys and arguments over what the inner node stores, and a condition of Spark's over keys."""
    sql = (
        "SELECT {} r.s, u.s, COUNT(*), SUM(t.i % 100), MIN(upper(s.s)) FROM r JOIN s ON r.n = s.n "
        "JOIN t ON s.b <=> t.b JOIN u ON u.dt = r.dt AND u.dt < s.dt WHERE concat(r.s, u.s) <> 'aa' GROUP BY r.s, u.s"
    )
    tj = trijoin_sql.TriJoinSession.create(spark)
    tables.use(streaming=False)
    expected = bag(spark.sql(sql.format("")).collect())
    assert expected
    tables.use(streaming=True)
    hinted = sql.format("/*+ SCHEME('operator_tree((r, s), t, u)'), UNITS(2) */")
    assert tj.explain(hinted).to_dict()["groups"][0]["aggregation"]["in_units"]
    assert run_stream(tj.sql(hinted), tmp_path / "checkpoint", "complete") == expected


def test_an_inner_node_of_which_nothing_is_read_but_how_many_rows_it_has(spark: SparkSession, tables: Tables) -> None:
    """Rows without columns are none: those of the inner node were lost."""
    sql = "SELECT /*+ SCHEME('operator_tree((r, s), t)') */ t.id FROM r JOIN s ON r.ti = s.ti CROSS JOIN t"
    tables.use(streaming=False)
    found = bag(trijoin_sql.TriJoinSession.create(spark).sql(sql).collect())
    assert found == bag(spark.sql(sql).collect())
    assert found


@pytest.mark.rare
def test_trees_forget_what_event_time_lets_them_forget(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Two inner nodes side by side: a stored result has its latest member's time, or the root takes it for late."""
    home = tmp_path_factory.mktemp("timed")
    made = Tables(spark, home)

    def minutes(frame: DataFrame) -> DataFrame:
        timed = frame.selectExpr("*", "TIMESTAMP '2024-01-01' + make_dt_interval(0, 0, cast(id AS INT)) AS at")
        return timed.withWatermark("at", "2 minutes") if frame.isStreaming else timed

    for number, name in enumerate("rstu"):
        made.create(name, cut(random_rows(40 + number, 30, nulls=0.0), (10, 10)), view=minutes)
    sql = (
        "SELECT /*+ SCHEME('operator_tree((r, s), (t, u))') */ r.id, s.id, t.id, u.id FROM r JOIN s ON r.bo = s.bo "
        "JOIN t ON s.at <= t.at JOIN u ON t.bo = u.bo AND r.at < u.at {}"
    )
    close = " AND ".join(f"{a}.at BETWEEN {b}.at - INTERVAL 2 MINUTES AND {b}.at + INTERVAL 2 MINUTES"
                         for a, b in ("rs", "rt", "ru", "st", "su", "tu"))  # fmt: skip
    made.use(streaming=False)
    expected = bag(spark.sql(sql.format(f"WHERE {close}")).collect())
    assert expected
    made.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    streamed = sql.format("WITHIN 2 MINUTES")
    assert all(one["keep_for"] for one in tj.explain(streamed).to_dict()["groups"][0]["state"]["streams"])
    assert run_stream(tj.sql(streamed), tmp_path / "checkpoint") == expected
