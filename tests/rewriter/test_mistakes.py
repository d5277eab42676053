"""What `mistakes` and `on_streams` say of queries that Spark runs: nothing over tables."""

from __future__ import annotations

import random

import pytest
from trijoin_sql.rewriter.mistakes import mistakes
from trijoin_sql.rewriter.names.resolve import resolve
from trijoin_sql.rewriter.on_streams import MODES, read_operations, why_refused
from trijoin_sql.rewriter.sql.statement import parse_statement

from .random_queries import random_query
from .tables import BATCH


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_queries_that_spark_runs_over_tables_have_no_mistakes(first: int) -> None:
    """The same queries have the rows that Spark gives them: `test_same_rows_as_spark`."""
    for seed in range(first, first + 50):
        sql = random_query(random.Random(seed))
        tree = parse_statement(sql).tree
        assert tree is not None
        resolution = resolve(tree, BATCH)
        assert not list(mistakes(resolution, sql, ansi=True)), seed
        assert why_refused(read_operations(resolution, {}), MODES) is None, seed
