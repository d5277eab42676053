"""EXISTS, NOT EXISTS and IN over a stream are semi and anti joins; what is not one stays as it is."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.plan.nodes import JoinNode, source_conditions

from .tables import rewritten

BOUND = "s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR"


def joined(sql: str) -> JoinNode:
    (node,) = (one for one in rewritten(sql).groups if isinstance(one, JoinNode))
    return node


def conditions(node: JoinNode) -> list[str]:
    return [predicate.sql for edge in node.graph.edges for predicate in edge.predicates]


@pytest.mark.parametrize(("word", "kind"), [("EXISTS", "semi"), ("NOT EXISTS", "anti")])
def test_a_subquery_is_a_join(word: str, kind: str) -> None:
    sql = f"SELECT id FROM r WHERE a > 3 AND {word} (SELECT 1 FROM s WHERE s.x >= r.x AND {BOUND} AND s.a = 1)"
    node = joined(sql)
    assert node.join == kind
    assert [source_conditions(source) for source in node.sources] == [("r.a > 3",), ("s.a = 1",)]
    assert [column.relation for column in node.output] == ["r"]


def test_names_are_those_of_the_subquery_first() -> None:
    """`x` and `a` are columns of both; the alias r is hidden inside."""
    node = joined("SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE x > r.x AND s.a = 1)")
    assert conditions(node) == ["s.x > r.x"]
    node = joined("SELECT id FROM s WHERE EXISTS (SELECT 1 FROM r AS q WHERE q.x > s.x AND a = 1)")
    assert source_conditions(node.sources[1]) == ("q.a = 1",)
    node = joined("SELECT id FROM r WHERE EXISTS (SELECT 1 FROM r WHERE a > 3)")
    assert source_conditions(node.sources[1]) == ("r_2.a > 3",)
    assert node.graph.relations == ("r", "r_2")


def test_a_function_of_a_row_may_be_selected() -> None:
    assert (
        joined("SELECT id FROM r WHERE EXISTS (SELECT UPPER(s.n), s.a + ABS(s.x) FROM s WHERE s.x > r.x)").join
        == "semi"
    )


def test_in_is_an_equality() -> None:
    node = joined("SELECT id FROM r WHERE a IN (SELECT a FROM s WHERE s.x > r.x)")
    assert (node.join, conditions(node)) == ("semi", ["r.a = s.a", "s.x > r.x"])


@pytest.mark.parametrize(
    ("condition", "kind", "tested"),
    [
        ("NOT (NOT EXISTS (SELECT 1 FROM s WHERE s.x > r.x))", "semi", ["s.x > r.x"]),
        ("NOT (NOT (NOT EXISTS (SELECT 1 FROM s WHERE s.x > r.x)))", "anti", ["s.x > r.x"]),
        ("NOT (NOT (a IN (SELECT a FROM s)))", "semi", ["r.a = s.a"]),
        ("EXISTS (SELECT 1 FROM s WHERE s.x > r.x ORDER BY s.id LIMIT 1)", "semi", ["s.x > r.x"]),
        ("NOT EXISTS (SELECT DISTINCT id FROM s WHERE s.x > r.x)", "anti", ["s.x > r.x"]),
        ("EXISTS (SELECT a FROM s WHERE s.x > r.x GROUP BY a, s.n)", "semi", ["s.x > r.x"]),
        ("a IN (SELECT DISTINCT a FROM s ORDER BY a)", "semi", ["r.a = s.a"]),
        ("a IN (SELECT a FROM s GROUP BY a)", "semi", ["r.a = s.a"]),
        ("(a, r.n) IN (SELECT a, n FROM s WHERE s.x > r.x)", "semi", ["r.a = s.a", "r.n = s.n", "s.x > r.x"]),
        ("a IN (SELECT k FROM wide)", "semi", ["r.a = wide.k"]),  # Spark compares numbers in the wider type, as by =
        ("x IN (SELECT id FROM s)", "semi", ["r.x = s.id"]),
        ("d IN (SELECT ts FROM s)", "semi", ["r.d = s.ts"]),
    ],
)
def test_what_does_not_change_the_answer(condition: str, kind: str, tested: list[str]) -> None:
    node = joined(f"SELECT id FROM r WHERE {condition}")
    assert (node.join, conditions(node)) == (kind, tested)


def test_beside_an_equality_spark_evaluates_the_rest() -> None:
    """As it does in the semi join that people write. It runs no anti join of streams."""
    sql = f"SELECT r.id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.n LIKE r.n AND {BOUND})"
    found = rewritten(sql)
    assert (found.converted, found.refusals) == (False, ())
    assert "FROM r LEFT SEMI JOIN s AS s ON s.a = r.a AND s.n LIKE r.n AND s.ts BETWEEN" in found.spark_sql
    (anti,) = rewritten(sql.replace("EXISTS", "NOT EXISTS")).groups
    assert isinstance(anti, JoinNode)
    assert [one.sql for one in anti.graph.residuals] == ["s.n LIKE r.n"]


@pytest.mark.parametrize(
    "condition",
    [
        "a IN (SELECT a FROM s LIMIT 1)",
        "EXISTS (SELECT 1 FROM s WHERE s.x > r.x LIMIT 5 OFFSET 3)",
        "EXISTS (SELECT a FROM s GROUP BY ROLLUP (a))",
        "EXISTS (SELECT 1 FROM s GROUP BY ())",
        "(a, r.n) IN (SELECT a, x FROM s)",
        "(a, r.n) IN (SELECT a FROM s)",
        "NOT (NOT (a NOT IN (SELECT a FROM s)))",
        "EXISTS (SELECT count(*) FROM s WHERE s.x > r.x)",  # always true
        "EXISTS (SELECT hll_sketch_agg(s.a) FROM s WHERE s.x > r.x)",  # so is this: an aggregate that no list has
        "NOT EXISTS (SELECT 1 + my_own(s.a) FROM s WHERE s.x > r.x)",  # and this may be one
        "EXISTS (SELECT `count`(s.a) FROM s WHERE s.x > r.x)",
        "EXISTS (SELECT 1 FROM s WHERE s.x > r.x LIMIT 0)",
        "EXISTS (SELECT 1 FROM s WHERE s.x > r.x GROUP BY s.a HAVING s.a > 1)",
        "a NOT IN (SELECT a FROM s)",  # unknown where there is a NULL
        "id IN (SELECT n FROM s)",  # a number and a text: Spark compares them otherwise than by =
        "EXISTS (SELECT 1 FROM s WHERE s.x > r.x) OR a > 3",
        "EXISTS (SELECT 1 FROM c WHERE c.id > r.a)",  # a table
        "EXISTS (SELECT 1 FROM s WHERE s.x > (SELECT max(c.id) FROM c))",
    ],
)
def test_what_is_no_join(condition: str) -> None:
    assert not rewritten(f"SELECT id FROM r WHERE {condition}").converted


def test_beside_other_joins() -> None:
    exists = "EXISTS (SELECT 1 FROM t WHERE t.x > s.x AND t.a = r.a)"
    sql = f"SELECT r.id FROM r JOIN s ON r.x < s.x WHERE {exists} WITHIN 1 HOUR"
    below, above = (one for one in rewritten(sql).groups if isinstance(one, JoinNode))
    assert (below.join, above.join) == ("inner", "semi")
    assert [kept.keep_for for kept in above.retention] == [3_600_000_000] * 2
