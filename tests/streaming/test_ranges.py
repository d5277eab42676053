"""Joins whose rows go by ranges of values: what Spark batch says, over every type that bands have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import trijoin_sql
from trijoin_sql import InvalidHintError

from .differential import Tables, bag, run_stream
from .test_sql_differential import assert_same_in_batch, assert_same_on_streams, in_spark, tj

__all__ = ["tj"]

#: With the scheme that runs it.
QUERIES = [
    ("biclique", "ROUTING('range'), UNITS(3)", "r.id, s.id FROM r JOIN s ON ABS(r.d - s.d) < 1.5"),
    ("biclique", "ROUTING('range', 2), UNITS(4)", "r.id, s.id FROM r JOIN s ON r.n BETWEEN s.n - 1.5 AND s.n + 1.505"),
    (
        "biclique",
        "ROUTING('range'), UNITS(5)",
        "r.id, s.id FROM r JOIN s ON r.f - s.f BETWEEN -1 AND 1.5 AND r.s < s.s",
    ),
    ("biclique", "ROUTING('range'), UNITS(2)", "r.id, s.id FROM r JOIN s ON datediff(r.dt, s.dt) BETWEEN -1 AND 1"),
    (
        "matrix",
        "ROUTING('range'), UNITS(6)",
        "r.id, s.id, t.id FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.d - t.d) <= 1",
    ),
    (
        "matrix",
        "ROUTING('range'), UNITS(4)",
        "r.id, s.id, t.id FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.i - t.ti) <= 1",
    ),
    (
        "matrix",
        "ROUTING('range'), UNITS(4)",
        "r.id, s.id, t.id FROM r JOIN s ON r.i = s.i JOIN t ON s.n BETWEEN t.n - 1 AND t.n + 1 AND s.bo = t.bo",
    ),
    (
        "matrix",
        "ROUTING('range', 2), UNITS(8)",
        "r.id, s.id, t.id FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.i - t.ti) <= 1",
    ),
    (
        "semi_symmetric",
        "SCHEME('semi_symmetric'), ROUTING('range', 2), UNITS(4)",
        "r.id, s.id, t.id FROM r JOIN s ON ABS(r.d - s.d) < 2 JOIN t ON s.d - t.d BETWEEN 0 AND 1",
    ),
    (
        "symmetric",
        "SCHEME('symmetric'), ROUTING('range'), UNITS(3)",
        "r.id, s.id, t.id FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.i - t.i) < 2 AND r.d <= t.d",
    ),
    (
        "operator_tree",
        "SCHEME('operator_tree((r, s), t)'), ROUTING('range'), UNITS(3)",
        "r.id, s.id, t.id FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.d - t.d) <= 1",
    ),
    (
        "matrix",
        "ROUTING('range'), UNITS(4)",
        "r.s, COUNT(*), SUM(t.i) FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.d - t.d) <= 1 GROUP BY r.s",
    ),
]


@pytest.mark.parametrize(("scheme", "hints", "rest"), QUERIES)
def test_streams(
    tables: Tables, tj: trijoin_sql.TriJoinSession, tmp_path: Path, scheme: str, hints: str, rest: str
) -> None:
    """NaN, infinities and NULL among the values; several micro-batches."""
    sql = f"SELECT /*+ {hints} */ {rest}"
    assert assert_same_on_streams(tables, tj, sql, tmp_path, "complete" if "GROUP BY" in sql else "append")
    (group,) = tj.explain(sql).to_dict()["groups"][:1]
    assert (group["decision"]["scheme"], group["decision"]["options"]["routing"]) == (scheme, "range")


@pytest.mark.parametrize("kind", ["LEFT", "LEFT ANTI"])
def test_rows_without_a_partner(tables: Tables, tj: trijoin_sql.TriJoinSession, kind: str) -> None:
    """A row that ON tests is in one range, and all its partners come there."""
    rest = "" if "ANTI" in kind else ", s.id"
    sql = f"SELECT /*+ ROUTING('range'), UNITS(4) */ r.id{rest} FROM r {kind} JOIN s ON ABS(r.d - s.d) < 1.5"
    assert assert_same_in_batch(tables, tj, sql)
    (group,) = tj.explain(sql).to_dict()["groups"]
    assert [(one["home"], one["shares"]) for one in group["decision"]["grid"] if "home" in one] == [("r", 4)]


def test_a_band_that_nothing_fulfils(tables: Tables, tj: trijoin_sql.TriJoinSession) -> None:
    """Its ends are exchanged, so it has no width to cut values by; a LEFT JOIN keeps all rows."""
    band = "r.n - s.n BETWEEN 40000000000000000 AND -40000000000000000"
    sql = f"SELECT /*+ ROUTING('range'), UNITS(4) */ r.id, s.id FROM r LEFT JOIN s ON {band}"
    assert assert_same_in_batch(tables, tj, sql)


def test_a_query_restarts_on_its_ranges(tables: Tables, tj: trijoin_sql.TriJoinSession, tmp_path: Path) -> None:
    """A wider band has wider ranges: stored rows would lie in others, so its query is refused."""
    sql = "SELECT /*+ ROUTING('range'), UNITS(4) */ r.id, s.id FROM r JOIN s ON ABS(r.d - s.d) < 1.5"
    wanted = in_spark(tables, sql)
    tables.use(streaming=True)
    first = run_stream(tj.sql(sql), tmp_path / "checkpoint")
    assert first == wanted
    assert run_stream(tj.sql(sql), tmp_path / "checkpoint") == bag([])
    with pytest.raises(Exception, match="ranges 0"):
        run_stream(tj.sql(sql.replace("1.5", "2.5")), tmp_path / "checkpoint")


REFUSED = {
    "SELECT /*+ ROUTING('range') */ r.id FROM r JOIN s ON r.i < s.i": "is a band with two ends",
    "SELECT /*+ ROUTING('range') */ r.id FROM r JOIN s ON ABS(r.w - s.w) < 1": "is a band with two ends",
    "SELECT /*+ ROUTING('range') */ r.id, s.id FROM r FULL JOIN s ON ABS(r.i - s.i) < 2": "rows of r and s are tested",
    "SELECT /*+ ROUTING('range', 4), UNITS(2) */ r.id FROM r JOIN s ON ABS(r.i - s.i) < 2": "divided evenly",
    "SELECT /*+ ROUTING('range', 1000) */ r.id FROM r JOIN s ON ABS(r.i - s.i) < 2": "divided evenly",
    "SELECT /*+ ROUTING('range', 2), UNITS(4), SCHEME('operator_tree((r, s), t)') */ r.id "
    "FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.d - t.d) < 2": "has no subgroups",
    "SELECT /*+ ROUTING('range'), SCHEME('symmetric') */ r.id FROM r JOIN s ON ABS(r.i - s.i) < 2 "
    "JOIN t ON ABS(s.d - t.d) < 2": "matrix takes several",
    "SELECT /*+ ROUTING('range'), SCHEME('matrix') */ r.id FROM r JOIN s ON r.i < s.i": "is a band with two ends",
    "SELECT /*+ ROUTING('range'), SCHEME('tree') */ r.id FROM r JOIN s ON ABS(r.i - s.i) < 2 "
    "JOIN t ON ABS(s.d - t.d) < 2": "a routing of its own",
    "SELECT /*+ ROUTING('range', 3), UNITS(4) */ r.id FROM r JOIN s ON ABS(r.i - s.i) < 2": "divided evenly",
}


@pytest.mark.parametrize(("sql", "reason"), REFUSED.items())
def test_what_has_no_ranges_is_refused(tables: Tables, tj: trijoin_sql.TriJoinSession, sql: str, reason: str) -> None:
    tables.use(streaming=True)
    with pytest.raises(InvalidHintError, match=re.escape(reason)):
        tj.explain(sql)
