"""Joins that are not inner, with conditions that only Spark evaluates: candidates, and nodes that settle rows."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.plan.nodes import JoinNode, source_conditions, source_scan, walk
from trijoin_sql.rewriter.sql.declarations import read_script

from .tables import nodes, rewritten

BOUND = "s.ts BETWEEN r.ts - INTERVAL 3 SECONDS AND r.ts + INTERVAL 5 SECONDS"
LIKE = f"r.n LIKE s.n AND r.x < s.x AND {BOUND}"


def grown(sql: str) -> list[JoinNode]:
    """Return the nodes that run, those above before those below."""
    plan = rewritten(sql).plan
    assert plan is not None
    return [node for node in walk(plan) if isinstance(node, JoinNode)]


def test_candidates_are_found_first_and_rows_settled_by_what_conditions_read() -> None:
    (node,) = nodes(f"SELECT r.id, s.id AS b FROM r LEFT JOIN s ON {LIKE} AND r.a > 1")
    assert (node.join, [one.sql for one in node.graph.residuals]) == ("left", ["r.n LIKE s.n"])
    settling, pairs = grown(f"SELECT r.id, s.id AS b FROM r LEFT JOIN s ON {LIKE} AND r.a > 1")
    assert (pairs.join, pairs.graph.residuals, pairs.decision.scheme) == ("inner", (), "biclique")
    assert [source_conditions(one) for one in pairs.sources] == [("r.a > 1",), ()]
    assert "WHERE (r__n LIKE s__n)" in source_scan(settling.sources[1]).relation
    (edge,) = settling.graph.edges
    assert [one.keys[0].sql for one in edge.predicates] == [
        "XXHASH64(r.n, r.ts, r.x)",
        "r.n",
        "r.ts",
        "CAST(r.x AS STRING)",  # which tells 0.0 and -0.0 apart
    ]
    assert settling.graph.most("r", "pairs") == 5_000_000
    assert [one.sql for one in settling.matching] == ["r.a > 1", "NOT r.x IS NULL", "NOT r.ts IS NULL"]
    assert settling.settles is not None
    assert [one.name for one in settling.settles] == ["r__id"], "a pair is a result as it is"


@pytest.mark.parametrize("kind", ["RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"])
def test_each_side_that_is_tested_is_settled(kind: str) -> None:
    settling, *_, pairs = found = grown(f"SELECT {'r' if 'LEFT' in kind else 's'}.id FROM r {kind} JOIN s ON {LIKE}")
    assert len(found) == (3 if kind == "FULL" else 2)
    assert pairs.join == "inner"
    assert settling.graph.relations == (("s" if kind in ("RIGHT", "FULL") else "r"), "pairs")
    units = {one.decision.units for one in grown(f"SELECT /*+ UNITS(3) */ 1 AS o FROM r {kind} JOIN s ON {LIKE}")}
    assert units == {3}, "a FULL JOIN, too"
    assert settling.join == {"LEFT SEMI": "semi", "LEFT ANTI": "anti"}.get(kind, "left")


def test_a_full_join_without_an_equality_runs_in_the_units_of_a_hint() -> None:
    """Alone it has one cell, and so it stays where nobody asks for more: a checkpoint may have it so."""
    sql = f"SELECT {{}} r.id, s.id AS b FROM r FULL JOIN s ON r.x < s.x AND {BOUND}"
    settling, second, pairs = grown(sql.format("/*+ UNITS(4) */"))
    assert {one.decision.units for one in (settling, second, pairs)} == {4}
    assert [one.join for one in (settling, second, pairs)] == ["left", "left", "inner"]
    (alone,) = grown(sql.format(""))
    assert (alone.join, alone.decision.units) == ("full", 1)
    assert "with the hint UNITS(n)" in str(alone.decision.units_reason)
    (one,) = grown(sql.format("/*+ UNITS(1) */"))
    assert one.join == "full"
    (keyed,) = grown(sql.format("/*+ UNITS(4) */").replace("r.x < s.x AND", "r.a = s.a AND") + " WITHIN 5 SECONDS")
    assert (keyed.join, keyed.decision.units) == ("full", 4)


def test_the_watermark_is_held_back_alike_in_all_of_them() -> None:
    """They read the same rows, and must agree which are late."""
    window = f"SELECT window(r.ts, '1 minute') AS w, count(*) AS n FROM r FULL JOIN s ON {LIKE} GROUP BY 1"
    held = {one.held_back for one in grown(window.replace("FULL", "LEFT"))}
    assert held == {5_000_000}
    assert len({one.held_back for one in grown(window)}) == 1


def test_the_latest_row_of_a_key_is_not_enough_where_spark_tests_it() -> None:
    asof = "SELECT r.id FROM r ASOF JOIN s MATCH_CONDITION (r.ts >= s.ts) ON r.a = s.a"
    (node,) = nodes(asof)
    assert [one.latest for one in node.retention] == [None, ("s.a",)]
    (node,) = nodes(f"{asof} AND r.n LIKE s.n")
    assert [one.latest for one in node.retention] == [None, None]


def test_spark_keeps_the_joins_that_it_can_run() -> None:
    """With an equality it evaluates anything, but for an anti join, and texts that it compares by a collation."""
    for kind in ("LEFT", "FULL", "LEFT SEMI"):
        assert nodes(f"SELECT r.id FROM r {kind} JOIN s ON r.a = s.a AND r.n LIKE s.n AND {BOUND}") == []
        assert len(nodes(f"SELECT r.id FROM r {kind} JOIN s ON r.n COLLATE UTF8_LCASE = s.n AND {BOUND}")) == 1
    assert len(nodes(f"SELECT r.id FROM r LEFT ANTI JOIN s ON r.a = s.a AND r.n LIKE s.n AND {BOUND}")) == 1


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (
            f"SELECT r.id FROM r LEFT JOIN s ON array_contains(r.z, s.a) AND {BOUND}",
            "units do not compare r.z",
        ),
        ("SELECT u.id FROM u LEFT JOIN s ON u.n LIKE s.n", "one side has no event time"),
    ],
)
def test_what_is_refused(sql: str, why: str) -> None:
    columns = "id INT, a INT, n STRING, z ARRAY<INT>, ts TIMESTAMP"
    streams = "".join(f"CREATE STREAM {name} ({columns}) WATERMARK ts DELAY OF INTERVAL 1 SECOND;" for name in "rs")
    found = rewritten(sql, catalog=read_script(f"{streams} CREATE STREAM u (id INT, n STRING)")[0]).refusals
    assert why in found[0].reason
