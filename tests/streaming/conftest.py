"""What the tests of running streams share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from .differential import Tables, random_tables


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Three streams of random rows of every type, and one without rows."""
    return random_tables(spark, tmp_path_factory.mktemp("tables"))
