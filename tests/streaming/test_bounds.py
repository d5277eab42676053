"""Rows are kept as long as anything they join may come, while the watermark moves on."""

from __future__ import annotations

from pathlib import Path
from random import Random

from pyspark.sql.streaming import StreamingQuery

import trijoin_sql

from .differential import Tables, run_stream
from .test_layouts import ARROW, START, feed, in_batch, tables

__all__ = ["tables"]


def test_rows_without_a_time_are_not_kept(tables: Tables, tmp_path: Path) -> None:
    """Nothing would ever let them go, and they meet nobody."""
    rows = [{"id": number, "x": number % 3, "ts": None if number % 2 else START} for number in range(40)]
    for name in "rst":
        tables.add(name, rows, ARROW)
    day = "CAST(r.ts AS DATE) BETWEEN s.ts - INTERVAL 2 DAYS AND s.ts + INTERVAL 1 DAY"
    sql = f"SELECT r.id, s.id FROM r JOIN s ON r.x = s.x AND {day}"
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(tables.spark)
    assert "UNBOUNDED" not in str(tj.explain(sql))
    kept: list[int] = []

    def look(query: StreamingQuery) -> None:
        kept.append(tj.metrics(query).batches[0].total()["state_rows"])

    found = run_stream(tj.sql(sql), tmp_path / "checkpoint", look=look)
    assert found == in_batch(tables, sql)
    assert sum(found.values()) > 100
    assert kept == [40]


def test_rows_of_one_day_meet(tables: Tables, tmp_path: Path) -> None:
    """The dates are equal, the times are not: batches are 20 seconds apart, and the watermark is 10 behind."""
    feed(tables, Random(1), range(4))
    sql = (
        "SELECT r.id, s.id, t.id FROM r JOIN s ON CAST(r.ts AS DATE) = CAST(s.ts AS DATE) AND r.x = s.x "
        "JOIN t ON unix_timestamp(t.ts) - unix_timestamp(s.ts) BETWEEN -25 AND 15 AND s.x = t.x"
    )
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(tables.spark)
    assert "UNBOUNDED" not in str(tj.explain(sql))
    found = run_stream(tj.sql(sql), tmp_path / "checkpoint")
    assert found
    assert found == in_batch(tables, sql)
