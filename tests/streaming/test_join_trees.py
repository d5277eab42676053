"""A tree of inner, outer, semi, anti and closest joins as one node: the rows of Spark batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from .join_trees import random_tree
from .test_outer_joins import compared, streams

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def asof(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    yield
    spark.conf.unset("spark.sql.join.asofJoin.enabled")


@pytest.mark.parametrize("seed", range(4))
def test_random_trees(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    sql = random_tree(Random(seed))
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", seed, 25, "rstuv"), tmp_path, sql)
    assert found == wanted, sql
