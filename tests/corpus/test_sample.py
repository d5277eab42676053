"""A sample of TPC-H with our operators; `make corpus-test` runs all of TPC-H and TPC-DS."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from trijoin_sql.rewriter.sql.declarations import read_script

import trijoin_sql

from .compare import QUERIES, collect, difference, register, without_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[None]:
    data = sorted((QUERIES / "tpch" / "data").glob("*.parquet"))
    if not data:
        pytest.skip("queries/tpch is not there: `make corpus` installs DuckDB's extensions and generates it")
    register(spark, "tpch")
    yield
    for path in data:
        spark.catalog.dropTempView(path.stem)


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 5, 10, 15, 18])
def test_tpc_h_has_sparks_rows(spark: SparkSession, tables: None, number: int) -> None:
    _, (sql,) = read_script((QUERIES / "tpch" / f"q{number:02}.sql").read_text(encoding="utf-8"))
    sql = without_limit(sql) or sql  # rows that tie at a LIMIT may differ
    tj = trijoin_sql.TriJoinSession.create(spark)
    assert tj.explain(sql).to_dict()["converted"]
    assert difference(collect(spark, tj.sql(sql), math.inf), collect(spark, spark.sql(sql), math.inf)) is None


def test_what_counts_as_the_same_rows() -> None:
    one, near, far = (1, 0.1 + 0.2), (1, 0.3), (1, 0.31)
    assert difference([one, (2, None)], [(2, None), near]) is None
    assert difference([(1, math.nan)], [(1, math.nan)]) is None
    assert difference([one], [far]) is not None
    assert difference([one], [near, near]) is not None
    assert difference([(1,)], [(1.0,)]) is not None
    assert without_limit("SELECT a FROM r ORDER BY a LIMIT 3") == "SELECT a FROM r ORDER BY a"
    assert without_limit("SELECT a FROM (SELECT a FROM r LIMIT 3)") is None


def test_a_query_without_rows_loses_as_few_filters_as_possible() -> None:
    """And never the equality that joins, without which it would be another query."""
    duckdb = pytest.importorskip("duckdb", reason="`make corpus` installs DuckDB")
    from .loosen import loosened

    with duckdb.connect() as db:
        db.execute("CREATE TABLE r AS SELECT range AS a, range % 3 AS b FROM range(9)")
        joined = "SELECT one.a FROM r AS one, r AS other WHERE one.a = other.a"
        found = loosened(db, f"{joined} AND one.b = 7 AND other.b IN (0, 1) AND one.a + other.a > 3 LIMIT 5")
        assert found is not None
        assert found[1] == ["one.b = 7"]
        assert len(db.execute(found[0]).fetchall()) == 4
        assert loosened(db, joined) is None
