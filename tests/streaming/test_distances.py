"""Distances in two dimensions and on a globe, on streams: the rows of Spark batch, found by the bands that follow."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import trijoin_sql

from .differential import bag, random_tables, run_stream

HAVERSINE = (
    "12742 * ASIN(SQRT(POWER(SIN((RADIANS(s.f) - RADIANS(r.d)) / 2), 2)"
    " + COS(RADIANS(r.d)) * COS(RADIANS(s.f)) * POWER(SIN(RADIANS(s.i - r.i) / 2), 2)))"
)
STATEMENTS = (
    "SELECT r.id, s.id AS sid FROM r JOIN s ON POWER(r.d - s.d, 2) + POWER(r.i - s.i, 2) <= 6.25",
    "SELECT /*+ SCHEME('matrix') */ r.id, s.id AS sid FROM r JOIN s ON hypot(r.d - s.f, r.i - s.i) < 2",
    "SELECT r.id, s.id AS sid, t.id AS tid FROM r JOIN s ON SQRT(POWER(r.d - s.d, 2) + POWER(r.f - s.f, 2)) <= 1.5 "
    "JOIN t ON (s.f - t.f) * (s.f - t.f) + ABS(s.n - t.n) < 2",
    "SELECT r.id, s.id AS sid FROM r JOIN s ON GREATEST(ABS(r.d - s.d), ABS(r.n - s.n)) <= 1.5 "
    "AND r.d IS NOT NULL AND s.d < 100",
    f"SELECT r.id, s.id AS sid FROM r JOIN s ON {HAVERSINE} < 200 AND ABS(r.d) <= 90 AND s.f BETWEEN -90 AND 90",
)


@pytest.mark.parametrize("number", range(len(STATEMENTS)))
def test_the_rows_are_those_of_batch(spark: SparkSession, tmp_path: Path, number: int) -> None:
    tj, sql = trijoin_sql.TriJoinSession.create(spark), STATEMENTS[number]
    tables = random_tables(spark, tmp_path)
    tables.use(streaming=False)
    wanted = bag(spark.sql(sql).collect())
    tables.use(streaming=True)
    assert wanted
    edges = [edge for group in tj.explain(sql).to_dict()["groups"] for edge in group["graph"]["edges"]]
    kinds = [[(one["kind"], one.get("derived", False)) for one in edge["predicates"]] for edge in edges]
    assert all(("band", True) in of_edge and ("residual", False) in of_edge for of_edge in kinds)
    assert run_stream(tj.sql(sql), tmp_path / "checkpoint") == wanted
