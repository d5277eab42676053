"""Joins of joins, in derived tables, views and CTEs, used twice, united and grouped: the rows of Spark batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from .compositions import Composition, composed
from .test_outer_joins import streams

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [9, *(pytest.param(one, marks=pytest.mark.rare) for one in range(1, 6))])
def test_random_compositions(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """With a stop in between; nine is a join with itself below a window."""
    query = Composition.of(seed)
    tables = streams(spark, tmp_path / "tables", seed, 18, "rst", untimed=0.0)
    found, wanted = composed(spark, tables, tmp_path, query)
    assert found == wanted, f"{query.views}; {query.sql}"
