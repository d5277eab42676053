"""Cliffs: the hard workloads and their twins give Spark's results, and a result that costs more is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from .cliffs import CLIFFS, PLAIN, SCHEME, cost, sentences
from .engines import Here, run_stream
from .outcome import Outcome
from .processes import Cpu
from .workloads import SCHEMA, columns, query, write_files


@pytest.mark.rare
@pytest.mark.slow
def test_cliffs_and_twins_have_the_results_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """As many as Spark's own join finds, and enough of them to share a cost."""
    rows, sizes = 120, {}
    for name, workload in {**PLAIN, **{name: cliff.workload for name, cliff in CLIFFS.items()}}.items():
        write_files(workload, tmp_path / name, rows, 2, seed=1)
        found = run_stream(Here(spark), workload, tmp_path / name, SCHEME, rows)
        assert found.problem is None, name
        for stream in workload.streams:
            frame = spark.read.schema(SCHEMA).parquet(str(tmp_path / name / stream))
            frame.selectExpr(*columns(workload, rows)).createOrReplaceTempView(stream)
        assert found.results == type(spark).sql(spark, query(workload)).count() > 0, name
        sizes[name] = found.results
    for name, cliff in CLIFFS.items():
        assert 0.3 < sizes[name] / sizes[cliff.twin] < 3, name


def test_a_result_that_costs_more_is_told() -> None:
    """By its share of the processor's time, or of the clock's: a unit that has all rows only shows there."""

    def runs(results: int, cpu: float, seconds: float) -> list[Outcome]:
        return [Outcome("matrix", seconds, 200, results, cpu=Cpu(cpu, 0.0, 0.0))]

    twin = runs(100, 1.0, 1.0)
    found = {
        name: cost(CLIFFS["one_key"], 100, runs(*figures), twin)
        for name, figures in {"one_key": (100, 1.4, 1.4), "zipf": (50, 1.0, 0.5), "wide_rows": (100, 1.0, 3.0)}.items()
    }
    assert all(found.values())
    assert list(sentences(found)) == [  # type: ignore[arg-type]
        f"zipf: 2.0 times per result (1.0 by the clock): {CLIFFS['zipf'].why}",
        f"wide_rows: 1.0 times per result (3.0 by the clock): {CLIFFS['wide_rows'].why}",
    ]
    assert cost(CLIFFS["one_key"], 100, [Outcome("matrix", problem="no")], twin) is None
