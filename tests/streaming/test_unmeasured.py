"""Rows of fixed-width types go to Python unmeasured, in queries where nothing else could become a batch of 2 GiB."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from trijoin_sql.operators.batches.ipc import UNMEASURED_ROWS
from trijoin_sql.operators.spec import JoinSpec

import trijoin_sql
from trijoin_sql.spark.config import ARROW_SETTINGS, MAX_BYTES
from trijoin_sql.spark.unmeasured import NO_BOUND, hand_over_unmeasured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
OURS = ARROW_SETTINGS[MAX_BYTES]


class Conf(dict[str, str]):
    """The settings of a query's own session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


def bound_after(
    *fixed: bool, bound: str = OURS, rows: int = UNMEASURED_ROWS, sink: str = "noop", switch: str = "true"
) -> str:
    """Return the bound of a query that has started."""
    conf = Conf({MAX_BYTES: bound, ROWS: str(rows)})
    execution = SimpleNamespace(
        sparkSessionForStream=lambda: SimpleNamespace(conf=lambda: conf),
        sink=lambda: SimpleNamespace(toString=lambda: sink),
    )
    specs = [JoinSpec("j", (), (), "matrix", 1, fixed_width=one) for one in fixed]
    hand_over_unmeasured(execution, specs, {"spark.trijoin.liberties.unmeasured": switch}.get)
    return conf[MAX_BYTES]


def test_only_where_batches_stay_small() -> None:
    assert bound_after(True, True) == NO_BOUND
    assert bound_after(True, rows=1000) == NO_BOUND
    assert bound_after(True, False) == OURS, "another join has texts"
    assert bound_after(True, bound="32m") == "32m", "the user's own bound"
    assert bound_after(True, rows=UNMEASURED_ROWS + 1) == OURS, "packed rows of a batch would be too large"
    assert bound_after(True, rows=0) == OURS, "Spark takes 0 for any number"
    assert bound_after(True, sink="ForeachBatchSink") == OURS, "queries of its function run in the same session"
    assert bound_after(True, switch="false") == OURS


def test_a_spark_that_we_do_not_know_keeps_its_bound(caplog: pytest.LogCaptureFixture) -> None:
    """A query must not fail for a setting that it can do without; who asks for details is told."""
    execution: Any = SimpleNamespace(sparkSessionForStream=None)
    with caplog.at_level("DEBUG", "trijoin_sql"):
        hand_over_unmeasured(execution, [], {"spark.trijoin.liberties.unmeasured": "true"}.get)
    assert [record.message for record in caplog.records] == ["rows stay measured"]


SCHEMA = "x INT, at TIMESTAMP, day DATE, price DECIMAL(20, 3), ratio DOUBLE, name STRING, many ARRAY<INT>"


@pytest.mark.parametrize(
    ("taken", "streams", "function", "bound"),
    [
        (("x", "at", "day", "price", "ratio"), 2, False, NO_BOUND),
        (("x",), 2, True, OURS),
        (("x", "at", "day", "price", "ratio"), 3, False, OURS),
        (("x", "name"), 2, False, OURS),
        (("x", "many"), 2, False, OURS),
    ],
    ids=["fixed width", "foreachBatch", "two stages", "text", "array"],
)
def test_in_a_query(
    spark: SparkSession, tmp_path: Path, taken: tuple[str, ...], streams: int, function: bool, bound: str
) -> None:
    """The query's own session is told, the user's is not; and only what the query takes counts."""
    (tmp_path / "in").mkdir()
    frame = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    hint, third = (
        ("/*+ SCHEME('semi_symmetric') */", "JOIN {f} AS t ON ABS(t.x - s.x) < 2") if streams == 3 else ("", "")
    )
    columns = ", ".join(f"r.{name}" for name in taken)
    query = f"SELECT {hint} {columns} FROM {{f}} AS s JOIN {{f}} AS r ON ABS(r.x - s.x) < 2 {third}"
    joined = trijoin_sql.TriJoinSession.create(spark).sql(query, f=frame)
    writer = joined.writeStream.foreachBatch(lambda rows, _: None) if function else joined.writeStream.format("noop")
    run = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        java: Any = run._jsq.streamingQuery()
        assert java.sparkSessionForStream().conf().get(MAX_BYTES) == bound
        assert spark.conf.get(MAX_BYTES) == OURS
    finally:
        run.stop()
