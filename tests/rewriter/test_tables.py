"""Which joins of tables are ours: those for which Spark would try all pairs of rows."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.options import Settings, Tables
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.conjuncts import Either
from trijoin_sql.rewriter.plan.display import plan_text
from trijoin_sql.rewriter.plan.nodes import JoinNode, source_conditions
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import InvalidSettingError
from trijoin_sql.settings import TABLES, value

NAMES = ("r", "s", "t", "u")
CATALOG, _ = read_script(
    "".join(f"CREATE TABLE {name} (id INT, a INT, x DOUBLE, ts TIMESTAMP, n STRING);" for name in NAMES)
    + "CREATE STREAM q (id INT, a INT, x DOUBLE, ts TIMESTAMP, n STRING);"
)


def joined(sql: str, tables: Tables = "theta") -> list[tuple[str, ...]]:
    """Return the relations of each join of ours."""
    groups = rewrite(sql, CATALOG, Settings(tables=tables)).groups
    return [group.graph.relations for group in groups if group.decision.scheme is not None]


@pytest.mark.parametrize(
    "condition",
    [
        "r.id = s.id",
        "r.id = s.id AND r.a + 1 = s.a",
        "r.id <=> s.id",
        "r.id <> s.id",
        "r.id = s.id AND r.a <> s.a",
        "r.id = s.id AND r.x LIKE s.x",
        "(r.a = 1 AND s.a = 2 OR r.a = 2 AND s.a = 1) AND r.id = s.id",
        "TRUE",
    ],
)
def test_what_spark_hashes_or_lists_anyway_stays_with_it(condition: str) -> None:
    sql = f"SELECT r.id FROM r JOIN s ON {condition}"
    (group,) = rewrite(sql, CATALOG).groups
    assert "by equalities alone" in group.decision.reason
    assert not joined(sql)
    assert joined(sql, "all") == [("r", "s")]


@pytest.mark.parametrize(
    "condition",
    [
        "r.a < s.a",
        "ABS(r.x - s.x) < 5",
        "r.id = s.id AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 MINUTE",
        "r.id = s.id OR r.a = s.a",
        "ABS(TRY_CAST(r.n AS INT) - s.a) < 5",
        "SQRT(POWER(r.x - s.x, 2) + POWER(r.a - s.a, 2)) < 5",
        "12742 * ASIN(SQRT(POWER(SIN((RADIANS(s.x) - RADIANS(r.x)) / 2), 2) + COS(RADIANS(r.x)) * COS(RADIANS(s.x)) "
        "* POWER(SIN(RADIANS(s.a - r.a) / 2), 2))) < 100",
    ],
)
def test_what_spark_tries_pairs_for_is_ours(condition: str) -> None:
    sql = f"SELECT r.id FROM r JOIN s ON {condition}"
    assert joined(sql) == [("r", "s")]
    assert not joined(sql, "none")


def test_tables_that_are_looked_up_are_joined_by_spark() -> None:
    """A dimension belongs to one side; one between both sides comes after the group."""
    sql = "SELECT t.a FROM r JOIN s ON ABS(r.x - s.x) < 5 JOIN t ON s.id = t.id JOIN u ON u.id = r.id AND u.a = s.a"
    assert joined(sql) == [("r", "s")]
    plan = rewrite(sql, CATALOG).plan
    assert plan is not None
    text = plan_text(plan)
    assert "FROM s AS s CROSS JOIN t AS t WHERE s.id = t.id" in text
    assert "JOIN u AS u ON u.id = __trijoin_1.r__id" in text
    assert joined(sql, "all") == [NAMES]


def test_what_asks_for_us_gets_us() -> None:
    assert joined("SELECT /*+ SCHEME('matrix') */ r.id FROM r JOIN s ON r.id = s.id") == [("r", "s")]
    assert joined("SELECT /*+ TRIJOIN(r, s) */ r.id FROM r JOIN s ON r.id = s.id", "none") == [("r", "s")]
    assert not joined("SELECT /*+ NO_TRIJOIN */ r.id FROM r JOIN s ON r.a < s.a", "all")


def test_a_stream_is_joined_whatever_the_setting() -> None:
    assert joined("SELECT q.id FROM q JOIN q AS p ON q.id = p.id AND q.a < p.a", "none") == [("q", "p")]


def test_three_tables_take_one_stage() -> None:
    (group,) = rewrite("SELECT r.id FROM r JOIN s ON ABS(r.a - s.a) < 3 JOIN t ON s.a < t.a", CATALOG).groups
    assert group.decision.scheme == "matrix"


def test_the_setting_has_three_values() -> None:
    assert value({TABLES: "ALL"}.get, TABLES) == "all"
    with pytest.raises(InvalidSettingError, match="theta, all, none"):
        value({TABLES: "some"}.get, TABLES)


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"])
def test_outer_joins_that_equate_nothing_are_ours(kind: str) -> None:
    sql = f"SELECT * FROM r {kind} JOIN s ON r.a BETWEEN s.a AND s.id"
    assert joined(sql) == [("r", "s")]
    assert not joined(sql, "none")
    for alone in ("r.id = s.id AND r.a < s.a", "TRUE", "r.a <> s.a", "CAST(r.a AS STRING) LIKE CAST(s.a AS STRING)"):
        assert not joined(f"SELECT * FROM r {kind} JOIN s ON {alone}"), alone


@pytest.mark.parametrize(
    "condition",
    [
        "ABS(r.a - CAST(s.n AS INT)) < 5",
        "s.x BETWEEN CAST(r.n AS DOUBLE) AND CAST(r.n AS DOUBLE) + r.a",
        "ABS(r.a - s.a) < 5 AND r.n > s.id",
        "r.a + 1 > s.a AND s.x / s.a BETWEEN r.x AND r.x + 1",
        "r.ts BETWEEN to_timestamp(s.n) AND to_timestamp(s.n, 'yyyy')",
    ],
)
def test_what_may_fail_is_decided_by_spark_on_the_pairs_that_meet(condition: str) -> None:
    """Keys of every row are NULL where they fail; such a row meets all others."""
    sql = f"SELECT r.id FROM r JOIN s ON {condition}"
    (group,) = rewrite(sql, CATALOG).groups
    assert group.decision.scheme is not None
    (either,) = [one for edge in group.graph.edges for one in edge.predicates if isinstance(one, Either)]
    assert either.exceptions
    assert " fails" in either.sql
    assert "CAST(s" not in either.keys[0].sql.replace("TRY_CAST", "")
    assert group.graph.residuals
    q = rewrite(f"SELECT q.id FROM q JOIN q AS p ON {condition.replace('r.', 'q.').replace('s.', 'p.')}", CATALOG)
    assert not q.groups[0].graph.residuals, "on streams an error comes with its row"
    assert (
        not rewrite(f"SELECT r.id FROM r JOIN s ON {condition}", CATALOG, Settings(ansi=False))
        .groups[0]
        .graph.residuals
    )


def test_keys_of_equalities_are_computed_for_every_row_as_spark_does() -> None:
    """Routing by them, and aggregation in units, would be lost."""
    (group,) = rewrite("SELECT r.id FROM r JOIN s ON r.ts < s.ts AND r.x / r.a = s.x", CATALOG).groups
    assert {one.kind for edge in group.graph.edges for one in edge.predicates} == {"equi", "range"}
    assert not group.graph.residuals


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "LEFT ANTI JOIN"])
def test_an_order_that_may_fail_is_sparks(kind: str) -> None:
    """A third of all pairs would come to Spark. An outer join has to know which of them join."""
    sql = f"SELECT r.id FROM r {kind} s ON r.a < CAST(s.n AS INT)"
    (group,) = rewrite(sql, CATALOG).groups
    assert group.decision.scheme is None
    assert "only Spark can evaluate r.a < CAST(s.n AS INT), on pairs of rows" in group.decision.reason
    assert "TRY_CAST" in group.decision.reason
    assert joined(sql.replace("CAST", "TRY_CAST")) == [("r", "s")]
    assert joined(sql.replace("CAST(s.n AS INT)", "CASE WHEN s.x > 0 THEN CAST(s.n AS INT) END")) == [("r", "s")]


def test_an_order_that_may_fail_keeps_its_table_out_of_a_group() -> None:
    sql = "SELECT r.id FROM r JOIN s ON ABS(r.x - s.x) < 5 JOIN t ON t.a < CAST(s.n AS INT)"
    assert joined(sql) == [("r", "s")]
    assert joined("SELECT /*+ TRIJOIN(r, s) */ r.id FROM r JOIN s ON r.a < CAST(s.n AS INT)") == [("r", "s")]


@pytest.mark.parametrize(
    ("sql", "filters"),
    [
        ("SELECT q.a, q.x FROM ({}) q WHERE q.a > 3 AND q.x < 4", ["r.a > 3", "s.x < 4"]),
        ("WITH q AS ({}) SELECT b, COUNT(*) FROM q WHERE b > 3 GROUP BY b", ["(r.a + 1) > 3"]),
        ("SELECT p.a FROM (SELECT q.a FROM ({}) q WHERE q.a > 3) p WHERE p.a < 9 ORDER BY p.a", ["r.a > 3", "r.a < 9"]),
        ("SELECT * FROM ({}) q WHERE q.a > 3 AND rand() < 1", ["r.a > 3"]),
        # not where something stands between, where a row may be padded, or for what is not read column by column
        ("SELECT * FROM ({} LIMIT 3) q WHERE q.a > 3", []),
        ("SELECT * FROM (SELECT r.a, s.x FROM r LEFT JOIN s ON ABS(r.x - s.x) < 5) q WHERE q.a > 3", []),
        ("SELECT STRUCT(q.*) FROM ({}) q WHERE q.a > 3", []),
    ],
)
def test_a_filter_above_a_join_of_tables_moves_to_the_scans(sql: str, filters: list[str]) -> None:
    """As in Spark, which cannot see into our join."""
    inner = "SELECT r.a, s.x, r.a + 1 AS b FROM r JOIN s ON ABS(r.x - s.x) < 5"
    found = rewrite(sql.format(inner), CATALOG)
    (group,) = [one for one in found.groups if isinstance(one, JoinNode)]
    assert [one for source in group.sources for one in source_conditions(source)] == filters
    assert found.plan is not None
    assert ("WHERE" in found.plan.sql) == (not filters or "rand" in sql)


def test_a_filter_above_a_join_of_streams_stays_above() -> None:
    """Below the join it would be another query to a checkpoint."""
    found = rewrite("SELECT a FROM (SELECT p.a FROM q AS p JOIN q ON ABS(p.x - q.x) < 5) WHERE a > 3", CATALOG)
    (group,) = [one for one in found.groups if isinstance(one, JoinNode)]
    assert not any(map(source_conditions, group.sources))
