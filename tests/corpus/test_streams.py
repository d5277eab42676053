"""A query of TPC-H over four streams; `make corpus-test` runs all of `streams.STREAMED`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import trijoin_sql

from .compare import QUERIES, difference, register
from .streams import STREAMED, register_streams, run, shuffle, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: TRIJOIN_STREAMED_QUERIES=all takes some minutes.
QUERIES_RUN = STREAMED if os.environ.get("TRIJOIN_STREAMED_QUERIES") == "all" else ("q10",)


@pytest.fixture(scope="module")
def streams(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """TPC-H's tables in random order over ten micro-batches."""
    data = sorted((QUERIES / "tpch" / "data").glob("*.parquet"))
    if not data:
        pytest.skip("queries/tpch is not there: `make corpus` installs DuckDB's extensions and generates it")
    home = tmp_path_factory.mktemp("streams")
    shuffle(home, 10, seed=7)
    yield home
    for path in data:
        spark.catalog.dropTempView(path.stem)


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES_RUN)
def test_streams_end_with_the_rows_of_batch(spark: SparkSession, streams: Path, tmp_path: Path, name: str) -> None:
    """A row lost, doubled or kept from a micro-batch that it belongs to changes the sums at the end."""
    sql = text_of(name)
    register(spark, "tpch")
    expected = [tuple(row) for row in spark.sql(sql).collect()]
    register_streams(spark, streams)
    ended = run(trijoin_sql.TriJoinSession.create(spark).sql(sql), tmp_path / "checkpoint")
    assert ended.batches >= 10
    assert difference(ended.rows, expected) is None
