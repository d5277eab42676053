"""Strict mode in sessions: whoever writes a join, and in which form, it is refused unless its state is proven."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import trijoin_sql
from trijoin_sql.errors import NotProvenError, UnsupportedQueryError
from trijoin_sql.settings import STRICT

from .differential import bag, run_stream
from .test_frames import ARROW, row, tables  # noqa: F401 (a fixture)

TIMES = "s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 MINUTES"


@pytest.fixture
def tj(spark: SparkSession) -> Iterator[trijoin_sql.TriJoinSession]:
    extended = trijoin_sql.enable(spark)
    spark.conf.set(STRICT, "true")
    yield extended
    spark.conf.unset(STRICT)
    trijoin_sql.disable(spark)


def joined(spark: SparkSession, on: str, how: str = "inner") -> Any:
    return spark.table("r").alias("r").join(spark.table("s").alias("s"), F.expr(on), how)


#: By name: makes a query over the streams ``r``, ``s`` and the table ``fixed``, and what the refusal says.
REFUSED: dict[str, tuple[Callable[[Any, SparkSession], Any], str]] = {
    "sql": (lambda tj, _: tj.sql("SELECT r.id FROM r JOIN s ON r.x < s.x"), "line 1, column 18"),
    "an extended session": (lambda _, spark: spark.sql("SELECT r.id FROM r JOIN s ON r.x < s.x"), "rows of r are kept"),
    "a semi join": (lambda tj, _: tj.sql("SELECT id FROM r WHERE x IN (SELECT x FROM s)"), "kept for ever"),
    "a view": (
        lambda tj, _: tj.sql("CREATE TEMP VIEW v AS SELECT r.id FROM r, s WHERE r.x < s.x"),
        "rows of r are kept",
    ),
    "only Spark can parse it": (lambda tj, _: tj.sql("FROM r |> JOIN s ON r.x < s.x |> SELECT r.id"), "rows of r are"),
    "Spark would run it": (lambda tj, _: tj.sql("FROM r |> JOIN s ON r.x = s.x |> SELECT r.id"), "does not prove"),
    "a hint": (
        lambda tj, _: tj.sql(f"SELECT /*+ NO_TRIJOIN */ r.id FROM r JOIN s ON r.x = s.x AND {TIMES}"),
        "does not",
    ),
    "an outer join": (lambda tj, _: tj.sql(f"SELECT r.id FROM r LEFT JOIN s ON r.x = s.x AND {TIMES}"), "LEFT JOIN"),
    "join": (lambda tj, spark: tj.join({"r": spark.table("r"), "s": spark.table("s")}, "r.x < s.x"), "kept for ever"),
    "DataFrames": (lambda _, spark: joined(spark, "r.x < s.x").writeStream, "kept for ever"),
    "DataFrames that Spark joins": (lambda _, spark: joined(spark, f"r.x = s.x AND {TIMES}").writeStream, "INNER"),
    "a product": (lambda tj, _: tj.sql("SELECT r.id FROM r JOIN s ON r.x % s.x = 1 WITHIN 1 MINUTE"), "CROSS PRODUCT"),
    "EXPLAIN": (lambda tj, _: tj.explain("SELECT r.id FROM r JOIN s ON r.x < s.x"), "kept for ever"),
}


@pytest.mark.usefixtures("tables")
def test_it_is_refused_whoever_writes_it(spark: SparkSession, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("tables").use(streaming=True)
    spark.catalog.dropTempView("late")
    unbounded = trijoin_sql.TriJoinSession.create(spark)
    unbounded.sql("CREATE OR REPLACE TEMP VIEW late AS SELECT r.id, r.x FROM r JOIN s ON r.x < s.x")
    tj = request.getfixturevalue("tj")
    for name, (make, says) in REFUSED.items():
        with pytest.raises(NotProvenError) as refused:
            make(tj, spark)
        assert says in str(refused.value), name
        assert "__trijoin" not in str(refused.value), name
        assert "Hint: " in str(refused.value), name
    unbounded.statements.strict = True  # it made the view before
    with pytest.raises(NotProvenError, match="rows of r are kept for ever"):
        unbounded.sql("SELECT id FROM late")
    spark.catalog.dropTempView("late")
    assert not spark.streams.active
    spark.sql("SELECT id FROM r")  # without a join
    spark.sql("SELECT r.id FROM r JOIN fixed ON r.x < fixed.x")  # with a table
    assert spark.table("r").join(spark.table("fixed"), "id").writeStream is not None
    with pytest.raises(UnsupportedQueryError, match="would never know"):
        tj.sql("SELECT r.id FROM r LEFT ANTI JOIN s ON r.x < s.x")


def test_what_is_proven_runs(
    spark: SparkSession, tj: trijoin_sql.TriJoinSession, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    made = request.getfixturevalue("tables")
    sql = f"SELECT r.id, s.id AS sid FROM r JOIN s ON r.x < s.x AND {TIMES} JOIN fixed ON fixed.id <= r.id"
    made.use(streaming=False)
    wanted = bag(spark.sql(sql).collect())  # tables need no bound
    assert bag(spark.sql("SELECT r.id, s.id AS sid FROM r JOIN s ON r.x < s.x").collect())
    made.use(streaming=True)
    assert run_stream(spark.sql(sql), tmp_path / "checkpoint") == wanted
    assert wanted
    (group,) = tj.explain(sql).to_dict()["groups"]
    assert [stream["expires"] for stream in group["state"]["streams"]] == [
        "when the watermark passes r.ts + 5 minutes",
        "when the watermark passes s.ts + 0 seconds",
    ]
