"""Where conjuncts go: as low as is right, and never below an outer join that fills with NULL."""

from __future__ import annotations

from datetime import timedelta

import pytest
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.conjuncts import Band, Bounds
from trijoin_sql.rewriter.plan.nodes import JoinNode, scans, source_conditions, source_scan
from trijoin_sql.rewriter.predicates.simple_form import simplify
from trijoin_sql.rewriter.sql.expressions import parsed

from .tables import CATALOG, final_sql, node, nodes, rewritten


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("a AND (b AND c)", ["a", "b", "c"]),
        ("NOT (a < b OR c = d)", ["a >= b", "c <> d"]),
        ("NOT (a AND b)", ["NOT (a AND b)"]),
        ("NOT NOT a", ["a"]),
        ("NOT (a <=> b)", ["NOT (a <=> b)"]),
        ("(a AND b) OR (a AND c)", ["a", "(b OR c)"]),
        ("(a AND b) OR a", ["a"]),
        ("a OR TRUE", []),
        ("1 = 1 AND TRUE AND NOT FALSE", []),
        ("NULL", ["FALSE"]),
        ("r.a BETWEEN s.a AND t.a", ["r.a >= s.a", "r.a <= t.a"]),
        ("r.a BETWEEN s.a AND s.b", ["r.a BETWEEN s.a AND s.b"]),
    ],
)
def test_simple_form(condition: str, parts: list[str]) -> None:
    assert [part.sql for part in simplify(parsed(condition))] == parts


def conditions(join: JoinNode) -> list[tuple[str, ...]]:
    return [source_conditions(source) for source in join.sources]


def test_conjuncts_of_one_relation_filter_its_scan() -> None:
    join = node("SELECT 1 AS o FROM r, s WHERE r.a < s.a AND r.x > 5 AND s.n = :name")
    assert conditions(join) == [("r.x > 5",), ("s.n = :name",)]


def test_filters_follow_equalities() -> None:
    join = node("SELECT 1 AS o FROM r JOIN s ON r.id = s.id JOIN t ON s.id = t.id WHERE r.id IN (1, 2)")
    assert conditions(join) == [("r.id IN (1, 2)",), ("s.id IN (1, 2)",), ("t.id IN (1, 2)",)]


def test_a_filter_that_may_raise_is_not_copied() -> None:
    """``1 / r.id > 0`` raises for zero; on s it would raise for rows that the user never divided by."""
    join = node("SELECT 1 AS o FROM r JOIN s ON r.id = s.id WHERE 1 / r.id > 0")
    assert conditions(join) == [("1 / r.id > 0",), ()]


def test_an_or_over_two_relations_filters_each_of_them() -> None:
    join = node(
        "SELECT 1 AS o FROM r, s WHERE r.id = s.id AND ((r.n = 'x' AND s.n = 'y') OR (r.n = 'y' AND s.n = 'x'))"
    )
    assert conditions(join) == [("r.n = 'x' OR r.n = 'y'",), ("s.n = 'y' OR s.n = 'x'",)]
    (edge,) = join.graph.edges
    assert [predicate.kind for predicate in edge.predicates] == ["equi", "either"]
    assert edge.predicates[1].shown == "(r.n = 'x' AND s.n = 'y') OR (r.n = 'y' AND s.n = 'x')"


def test_a_constant_that_is_false_empties_a_relation() -> None:
    assert conditions(node("SELECT 1 AS o FROM r JOIN s ON r.a < s.a AND 1 = 2"))[0] == ("1 = 2",)


def test_where_does_not_sink_below_the_optional_side() -> None:
    """``s.x > 1`` after a LEFT JOIN removes the rows without partner; below it, it would keep them."""
    sql = final_sql("SELECT r.id FROM r LEFT JOIN (s JOIN t ON s.a < t.a) ON r.id = s.id WHERE s.x > 1 AND r.a = 2")
    assert sql.endswith("WHERE __trijoin_1.s__x > 1 AND r.a = 2")
    hint = "/*+ NO_JOIN_TREE */"
    sql = final_sql(
        f"SELECT {hint} r.id FROM (r JOIN t ON r.a < t.a) LEFT JOIN s ON r.id = s.id AND r.a > 1 WHERE r.x > 1"
    )
    assert "ON __trijoin_1.r__id = s.id AND __trijoin_1.r__a > 1" in sql
    assert "WHERE" not in sql


def test_the_condition_of_a_full_join_stays_where_it_is() -> None:
    sql = final_sql("SELECT 1 AS o FROM (r JOIN s ON r.a < s.a) FULL JOIN t ON r.id = t.id AND r.x > 1 WHERE r.a = 1")
    assert "FULL JOIN t AS t ON __trijoin_1.r__id = t.id AND __trijoin_1.r__x > 1" in sql
    assert sql.endswith("WHERE __trijoin_1.r__a = 1")


def test_volatile_conjuncts_and_subqueries_stay_in_where() -> None:
    sql = final_sql("SELECT r.id FROM r, s WHERE r.a < s.a AND rand() < 0.5 AND r.id IN (SELECT c.id FROM c)")
    assert sql == (
        "SELECT __trijoin_1.r__id AS id FROM __trijoin_1 WHERE rand() < 0.5 AND "
        "__trijoin_1.r__id IN (SELECT c.id FROM c)"
    )


@pytest.mark.parametrize(
    "call",
    [
        "UNIX_TIMESTAMP() - r.a < s.x",
        "UNIX_TIMESTAMP(NOW()) - r.a < s.x",
        "DATEDIFF(CURRENT_DATE, r.ts) < s.a",
        "DATE_DIFF(current_date(), r.ts) < s.a",
        "DATEDIFF(CURDATE(), r.ts) < s.a",
        "HOUR(CURRENT_TIME()) + r.a < s.a",
        "HOUR(CURRENT_TIME) + r.a < s.a",
        "r.ts < s.ts + (CURRENT_TIMESTAMP - LOCALTIMESTAMP())",
        "r.ts + (localtimestamp() - s.ts) < CURRENT_TIMESTAMP()",
        "DATEDIFF(DATE 'today', r.ts) < s.a",
        "DATEDIFF(CAST(' Yesterday UTC' AS DATE), r.ts) < s.a",
        "DATEDIFF('now', r.ts) < s.a",
        "CONCAT(r.a, CURRENT_USER) < CONCAT(s.a, session_user())",
        "CONCAT(r.a, current_timezone()) < CONCAT(s.a, current_database())",
        "r.a + LENGTH(UUID()) < s.a",
        "r.a + `rand`() < s.a",
        "r.a + builtin.rand() < s.a",
        "CONCAT(r.a, input_file_name()) < CONCAT(s.a, '')",
    ],
)
def test_what_has_another_value_later_is_no_key(call: str) -> None:
    """A key is computed when its row arrives, and kept: the clock of then, or the user, would be compared for ever."""
    join = node(f"SELECT r.id FROM r JOIN s ON r.a < s.a AND {call}")
    assert [one.sql for edge in join.graph.edges for one in edge.predicates] == ["r.a < s.a"]
    assert not join.graph.residuals


@pytest.mark.parametrize("argument", ["r.a - UNIX_TIMESTAMP()", "DATEDIFF(CURRENT_DATE, r.d)", "r.x * rand()"])
def test_what_has_another_value_later_is_not_aggregated_in_units(argument: str) -> None:
    """A stored row would go on with the value that it came with."""
    sql = "SELECT r.id, MAX({}) AS o FROM r JOIN s ON r.a < s.a GROUP BY r.id"
    assert node(sql.format("r.a - 1")).aggregation is not None
    assert node(sql.format(argument)).aggregation is None


def test_a_text_that_reads_like_a_clock_is_a_text() -> None:
    """Where it is compared with texts: there it is a filter as any other."""
    join = node("SELECT r.id FROM r JOIN s ON r.a < s.a AND r.n = 'now'")
    assert [conditions for conditions in map(str, conditions(join)) if "now" in conditions]


def test_a_residual_with_a_parameter_is_left_in_the_query() -> None:
    """Residuals are applied without the query's arguments; the rest of the query has them."""
    join = node("SELECT r.id FROM r, s WHERE r.id = s.id AND r.a + s.a > :low")
    assert join.graph.residuals == ()
    assert ":low" in final_sql("SELECT r.id FROM r, s WHERE r.id = s.id AND r.a + s.a > :low")


def test_arguments_in_conditions_are_planned_as_literals() -> None:
    """Only those that a literal says exactly, and only in WHERE and ON: ORDER BY 1 is a position."""
    sql = (
        "SELECT :n AS o FROM r JOIN s ON ABS(r.a - s.a + :n) <= :most AND r.n <= concat(s.n, :text) AND r.x < s.x + :x"
    )
    sql += " AND r.ts < s.ts + :wait"
    values = {"n": -2, "most": 1, "text": "b", "x": 0.1, "wait": timedelta(0, 90)}
    result = rewrite(sql, CATALOG, arguments=values)
    (join,) = result.groups
    found = [
        (p.left.sql, p.right.sql, p.bounds if isinstance(p, Band) else None)
        for edge in join.graph.edges
        for p in edge.predicates
    ]
    assert found == [
        ("r.a", "s.a", Bounds("integer", 1, 3, True, True, found[0][2].limits, "int")),
        ("r.x", "s.x + 1.00000000000000006E-01", None),
        ("r.ts", "s.ts", Bounds("timestamp", upper=90_000_000)),
    ]
    assert result.plan is not None
    assert "SELECT :n AS o" in result.plan.sql
    assert ":text" in result.plan.sql
    assert result.spark_sql == sql


def test_a_static_table_is_applied_to_its_only_stream() -> None:
    (join,) = nodes("SELECT c.n FROM r JOIN s ON r.a < s.a JOIN c ON r.id = c.id AND c.n = 'x'")
    assert join.graph.relations == ("r", "s")
    relation = source_scan(join.sources[0]).relation
    assert "FROM r AS r CROSS JOIN (SELECT * FROM c AS c WHERE (c.n = 'x')) AS c WHERE r.id = c.id" in relation


def test_a_static_table_of_two_streams_is_joined_above() -> None:
    sql = final_sql("SELECT c.n FROM r JOIN s ON r.a < s.a JOIN c ON r.id = c.id AND s.n = c.n")
    assert sql.endswith("FROM __trijoin_1 JOIN c AS c ON __trijoin_1.r__id = c.id AND __trijoin_1.s__n = c.n")


def test_a_between_with_one_end_over_one_relation_reads_both() -> None:
    """It was taken for a condition on ``r`` alone, and put where a table joins ``r``: ``s`` is not there."""
    join = node("SELECT r.id FROM r JOIN s ON r.a BETWEEN 1 AND s.a JOIN c ON c.id = r.id JOIN t ON s.a = t.a")
    assert [(one.condition.sql, one.relations) for one in join.graph.residuals] == [
        ("r__a BETWEEN 1 AND s__a", ("r", "s"))
    ]
    assert "s.a" not in source_scan(join.sources[0]).relation


def test_typeof_is_a_constant() -> None:
    """Spark folds it, so it equates no columns: what is left decides who runs the join."""
    found = node("SELECT r.id FROM r LEFT JOIN s ON typeof(r.a) = typeof(s.id) AND r.x < s.x WITHIN 1 HOUR")
    assert [one.sql for edge in found.graph.edges for one in edge.predicates] == ["r.x < s.x", "WITHIN '1' HOUR"]
    bound = "s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR"
    for equal in (
        "typeof(r.a) = typeof(s.id)",
        "typeof(r.a) = typeof(s.x)",
        "length(typeof(r.a)) = length(typeof(s.m))",
    ):
        assert node(f"SELECT r.id FROM r LEFT JOIN s ON {equal} AND r.x < s.x AND {bound}").join == "left"


def test_rows_are_compared_under_their_names_for_fields() -> None:
    """Fields are named before columns are renamed (`names.struct_names`); the condition is one all the same."""
    (found,) = rewritten("SELECT r.id FROM r JOIN s ON struct(r.x, r.n) < struct(s.x, s.n)").groups
    (edge,) = found.graph.edges
    assert [one.sql for one in edge.predicates] == ["struct(r.x AS x, r.n AS n) < struct(s.x AS x, s.n AS n)"]


def test_what_an_inner_join_with_a_table_leaves_to_spark() -> None:
    """Itself, not the joins of streams below an outer join that it reads."""
    below, above = rewritten(
        "SELECT r.x FROM r JOIN s ON r.x < s.x LEFT JOIN c ON c.id = r.id JOIN c AS e ON e.id < s.x"
    ).groups
    assert isinstance(below, JoinNode)
    assert above.decision.reason.startswith("it joins one stream with static relations")


@pytest.mark.parametrize(
    ("bucket", "ours"),
    [
        ("date_trunc('MINUTE', r.ts) = date_trunc('MINUTE', s.ts)", True),
        ("CAST(r.ts AS DATE) = CAST(s.ts AS DATE)", True),
        ("to_date(r.ts) <=> to_date(s.ts)", False),  # no bound where both are NULL
        ("r.ts = s.ts", False),  # by which Spark clears its state
        ("r.ts + INTERVAL 1 MINUTE = s.ts", False),
        ("date_trunc('MINUTE', r.ts) = date_trunc('MINUTE', s.ts) AND r.ts <= s.ts", False),
    ],
)
@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "LEFT SEMI"])
def test_a_bucket_of_time_bounds_an_outer_join(bucket: str, ours: bool, kind: str) -> None:
    """Spark refuses it: it takes for a bound only what compares event times themselves."""
    found = rewritten(f"SELECT 1 AS o FROM r {kind} JOIN s ON r.a = s.a AND {bucket}")
    assert found.converted is ours
    if ours:
        (group,) = found.groups
        assert isinstance(group, JoinNode)
        assert all(one.keep_for is not None for one in group.retention)
        assert found.refusals == ()


def test_sparks_join_hints_go_with_the_table_that_a_stream_is_joined_to() -> None:
    """Spark looks for the name of a hint in the SELECT that has it; a checkpoint does not depend on hints."""
    join = "JOIN c AS d ON r.id = d.id JOIN s ON ABS(r.a - s.a) < 3"
    (plain,) = (one for one in scans(node(f"SELECT r.id, d.n FROM r {join}")) if one.alias == "r")
    text = f"SELECT /*+ BROADCAST(D, s), REPARTITION(3), MERGE(s) */ r.id, d.n FROM r {join}"
    (hinted,) = (one for one in scans(node(text)) if one.alias == "r")
    assert "SELECT /*+ BROADCAST(D) */" in hinted.relation
    assert hinted.relation.replace("/*+ BROADCAST(D) */ ", "") == plain.relation
    assert hinted.lasting == plain.lasting
