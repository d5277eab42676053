"""Aggregations are taken apart where, and only where, the two steps give what one gives."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.options import Settings
from trijoin_sql.rewriter.pipeline import Rewrite, rewrite
from trijoin_sql.rewriter.plan.nodes import JoinNode, walk
from trijoin_sql.rewriter.sql.declarations import read_script

DDL = """
CREATE STREAM r (id BIGINT, x INT, f FLOAT, d DOUBLE, m DECIMAL(15,2), w DECIMAL(38,10), k STRING, ts TIMESTAMP,
                 p STRUCT<a: INT>) WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM s (id BIGINT, x INT, y INT, k STRING, dt DATE);
CREATE STREAM t (id BIGINT, y INT, d DOUBLE, k STRING);
CREATE TABLE names (id BIGINT, name STRING);
"""
CHAIN = "FROM r JOIN s ON r.x BETWEEN s.x - 1 AND s.x + 1 JOIN t ON s.y = t.y"
BY_KEY = "FROM r JOIN s ON r.k = s.k JOIN t ON s.k = t.k"


def rewritten(sql: str, settings: Settings | None = None) -> Rewrite:
    catalog, (statement,) = read_script(DDL + sql)
    return rewrite(statement, catalog, settings or Settings())


def node(sql: str, settings: Settings | None = None) -> JoinNode:
    plan = rewritten(sql, settings).plan
    assert plan is not None
    (found,) = (one for one in walk(plan) if isinstance(one, JoinNode))
    return found


def merged(sql: str) -> str:
    plan = rewritten(sql).plan
    assert plan is not None
    return plan.sql.replace("__trijoin_1", "n").replace("FROM n", "..")


def test_the_text_above_merges_states() -> None:
    assert merged(f"SELECT COUNT(*), SUM(r.x), MIN(t.d) {CHAIN}") == (
        "SELECT COALESCE(SUM(__count_1), 0), SUM(__sum_2), MIN(__min_3) .."
    )
    assert merged(f"SELECT UPPER(r.k) AS k, AVG(s.x) a {CHAIN} GROUP BY upper(r.k) ORDER BY k, AVG(s.x) + 1") == (
        "SELECT n.__key_1 AS k, (SUM(__sum_2) / NULLIF(SUM(__count_1), 0)) AS a .. GROUP BY n.__key_1 "
        "ORDER BY k, (SUM(__sum_2) / NULLIF(SUM(__count_1), 0)) + 1"
    )


def test_one_state_serves_several_aggregates() -> None:
    found = node(f"SELECT SUM(t.d), AVG(t.d), COUNT(t.d), count(t.d) + 1, COUNT(*), COUNT(1) {CHAIN}").aggregation
    assert found is not None
    assert [(state.function, state.term and state.term.sql) for state in found.states] == [
        ("sum", "t.d"),
        ("count", "t.d"),
        ("count", None),
    ]


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        ("r.x", "bigint"),
        ("r.f", "double"),
        ("r.m", "decimal(25,2)"),
        ("r.m * (1 - r.m)", "decimal(38,4)"),
        ("r.m + r.id", "decimal(33,2)"),
        ("CASE WHEN r.x > 1 THEN r.m ELSE 0 END", "decimal(25,2)"),
        ("-r.x % 7", "bigint"),
        ("r.w * r.w", "decimal(38,6)"),
        ("coalesce(r.d, r.f)", "double"),
    ],
)
def test_types_of_sums(argument: str, kind: str) -> None:
    """Spark's own; tests/streaming/test_aggregation.py asks it."""
    found = node(f"SELECT SUM({argument}) {CHAIN}").aggregation
    assert found is not None
    assert found.states[0].type == kind


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (f"SELECT COUNT(DISTINCT r.x) {CHAIN}", "needs all values"),
        (f"SELECT stddev(r.x) {CHAIN}", "STDDEV is not among"),
        (f"SELECT r.k, my_aggregate(r.k) {CHAIN} GROUP BY r.k", "my_aggregate may be an aggregate"),
        (f"SELECT r.k, any(r.x > 1) {CHAIN} GROUP BY r.k", "stays with Spark"),
        (f"SELECT SUM(r.x * t.y) {CHAIN}", "several inputs"),
        (f"SELECT COUNT(*) {CHAIN} GROUP BY r.x + t.y", "several inputs"),
        (f"SELECT window(r.ts, '1 minute'), COUNT(*) {CHAIN} GROUP BY 1", "window of time"),
        (f"SELECT r.ts, COUNT(*) {CHAIN} GROUP BY r.ts", "event time"),
        (f"SELECT COUNT(*) {CHAIN} WHERE r.k LIKE t.k", "filter by"),
        (f"SELECT COUNT(*) {CHAIN} WHERE r.x > (SELECT MAX(id) FROM names)", "filter by"),
        (f"SELECT r.k, (SELECT MAX(id) FROM names) {CHAIN} GROUP BY r.k", "stays with Spark"),
        (f"SELECT rank() OVER (ORDER BY COUNT(*)) {CHAIN} GROUP BY r.k", "stays with Spark"),
        (f"SELECT COUNT(*) {CHAIN} GROUP BY CUBE (r.k, s.k)", "CUBE"),
        (f"SELECT SUM(CAST(r.k AS INT)) {CHAIN}", "could raise an error"),
        (f"SELECT year(r.k), COUNT(*) {CHAIN} GROUP BY year(r.k)", "could raise an error"),
        (f"SELECT AVG(100 / r.x) {CHAIN}", "could raise an error"),
        (f"SELECT COUNT(CASE WHEN r.k = 1 THEN 1 END) {CHAIN}", "could raise an error"),
        (f"SELECT COUNT(*) FILTER (WHERE r.k IN (1, 2)) {CHAIN}", "could raise an error"),
        (f"SELECT COUNT(CASE r.k WHEN 1 THEN 1 END) {CHAIN}", "could raise an error"),
        (f"SELECT MAX(CASE WHEN r.x > 1 THEN r.k ELSE 5 END) {CHAIN}", "could raise an error"),
        (f"SELECT MAX(r.k BETWEEN 1 AND 2) {CHAIN}", "could raise an error"),
        (f"SELECT MAX(coalesce(r.k, 1)) {CHAIN}", "could raise an error"),
        (f"SELECT SUM(r.k) {CHAIN}", "for the type string"),
        (f"SELECT AVG(r.w) {CHAIN}", "for the type decimal(38,10)"),
        (f"SELECT r.k, COUNT(*) {CHAIN} WHERE r.k LIKE t.k GROUP BY r.k", "filter by"),
        (f"SELECT r.x, t.y, COUNT(*) {CHAIN} WHERE r.x + rand() > t.y GROUP BY r.x, t.y", "filter by"),
        (f"SELECT r.d, t.d, COUNT(*) {CHAIN} WHERE r.d * t.d IS NULL GROUP BY r.d, t.d", "filter by"),
        (f"SELECT upper(r.k), t.k, COUNT(*) {CHAIN} WHERE r.k LIKE t.k GROUP BY upper(r.k), t.k", "filter by"),
        (f"SELECT COUNT(*) {CHAIN} LEFT JOIN names ON names.id = r.id", "joined once more"),
        (f"SELECT /*+ NO_UNIT_AGGREGATE */ COUNT(*) {CHAIN}", "the hint"),
    ],
)
def test_what_is_left_to_spark(sql: str, reason: str) -> None:
    found = node(sql)
    assert found.aggregation is None
    assert found.not_aggregated is not None
    assert reason in found.not_aggregated


def test_a_residual_over_keys_filters_groups() -> None:
    """003's Q7 filters pairs of nations, by which it groups: no result has to leave the units for that."""
    found = node(
        f"SELECT t.k, SUM(t.d) {CHAIN} WHERE r.k LIKE t.k AND length(t.k) > r.x % t.y GROUP BY r.k, t.k, r.x, t.y"
    )
    assert found.aggregation is not None
    assert [one.condition.sql for one in found.graph.residuals] == [
        "__key_1 LIKE __key_2",
        "length(__key_2) > __key_3 % __key_4",
    ]


def test_the_root_of_an_operator_tree_aggregates() -> None:
    """It does not store its results; its inner node puts out what keys, arguments and conditions above it read."""
    sql = f"SELECT /*+ SCHEME('operator_tree((r, s), t)') */ r.k, SUM(t.d), MAX(upper(s.k)) {CHAIN} GROUP BY r.k, t.k"
    plan = rewritten(sql).plan
    assert plan is not None
    root, inner = (one for one in walk(plan) if isinstance(one, JoinNode))
    assert root.aggregation is not None
    assert [term.sql for term in root.aggregation.terms] == ["r_s.r__k", "t.k", "t.d", "upper(r_s.s__k)"]
    assert inner.aggregation is None
    assert {one.name for one in inner.output} >= {"r__k", "s__k", "s__y"}


def test_settings() -> None:
    """Off altogether, and without ANSI mode: there a sum of integers wraps, and one of decimals is NULL."""
    sql = f"SELECT SUM(r.x) {CHAIN}"
    assert node(sql).aggregation is not None
    assert "switched off" in str(node(sql, Settings(aggregate_in_units=False)).not_aggregated)
    assert "ansi" in str(node(sql, Settings(ansi=False)).not_aggregated)
    assert node(f"SELECT COUNT(*), SUM(t.d) {CHAIN}", Settings(ansi=False)).aggregation is not None


def test_a_select_that_does_not_aggregate_says_nothing() -> None:
    for sql in (f"SELECT r.k {CHAIN}", f"SELECT DISTINCT r.k {CHAIN}", f"SELECT SUM(r.x) OVER () {CHAIN}"):
        found = node(sql)
        assert found.aggregation is None
        assert found.not_aggregated is None


@pytest.mark.parametrize(
    "tail", ["LIMIT s.y", "LIMIT 3 OFFSET s.y", "DISTRIBUTE BY s.y", "CLUSTER BY s.y", "LIMIT COUNT(*)"]
)
def test_other_clauses_that_read_columns_leave_it_to_spark(tail: str) -> None:
    """A column that only they name would be gone; Spark says whether they are allowed (found by `mutate.py`)."""
    found = node(f"SELECT r.k, COUNT(*) {CHAIN} GROUP BY r.k {tail}")
    assert found.aggregation is None
    assert found.not_aggregated is not None
    assert tail.split()[-1] in found.not_aggregated
    assert node(f"SELECT r.k AS key, COUNT(*) {CHAIN} GROUP BY r.k DISTRIBUTE BY key LIMIT 3").aggregation is not None


@pytest.mark.parametrize(
    ("sql", "packs", "listed"),
    [
        (f"SELECT COUNT(*), SUM(r.x) {CHAIN} GROUP BY s.k", True, []),
        (f"SELECT COUNT(*) {CHAIN} GROUP BY r.k", True, ["r"]),
        (f"SELECT COUNT(*) {CHAIN} GROUP BY r.k, t.k", False, []),
        ("SELECT COUNT(*) FROM r JOIN s ON r.x < s.x JOIN t ON s.y < t.y AND r.id < t.id", False, []),
        (f"SELECT COUNT(*) {BY_KEY}", True, []),
        (f"SELECT /*+ SCHEME('semi_symmetric') */ t.k, SUM(r.x) {BY_KEY} AND r.id = s.id GROUP BY t.k", True, ["t"]),
        (f"SELECT COUNT(*) {BY_KEY} AND r.id = t.id", False, []),
        (f"SELECT COUNT(*) {BY_KEY} AND t.k = r.k", False, []),
    ],
)
def test_explain_says_whether_results_are_listed(sql: str, packs: bool, listed: list[str]) -> None:
    (group,) = rewritten(sql).to_dict()["groups"]
    found = group["aggregation"]
    assert (found["in_units"], found["from_packs"], found["listed"]) == (True, packs, listed)


def test_a_key_over_a_static_table_that_joins_one_stream() -> None:
    """The table belongs to the stream's input, so its columns are there before the join."""
    found = node(f"SELECT names.name, COUNT(*) {CHAIN} JOIN names ON names.id = r.id GROUP BY names.name")
    assert found.aggregation is not None
    (key,) = found.aggregation.keys
    assert key.term.relations == ("r",)
    assert key.term.sql == "r.names__name"
