"""Names resolve by Spark's rules, and the rest of the query comes out over the join nodes unchanged."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.options import Settings
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.nodes import BiJoin, JoinNode, Scan, TriJoin, source_conditions, source_scan, walk
from trijoin_sql.rewriter.sql.declarations import read_script

from .tables import final_sql, node, nodes, reasons, rewritten


def test_names_ignore_case_and_keep_their_spelling() -> None:
    join = node("SELECT R.ID, `größe X` FROM R JOIN C ON r.iD = c.Id JOIN s ON s.A > r.a")
    assert final_sql("SELECT R.ID, S.a AS b FROM R JOIN S ON r.iD = S.Id") == (
        "SELECT __trijoin_1.R__id AS ID, __trijoin_1.S__a AS b FROM __trijoin_1"
    )
    assert "C__Größe X" in {column.column for column in join.output}


def test_case_matters_if_the_session_says_so() -> None:
    assert reasons("SELECT R.id FROM r JOIN s ON r.a < s.a", Settings(case_sensitive=True)) == [
        "the column R.id cannot be resolved with the schemas that are known"
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT r.a AS r__id, r__id + 1 AS next, r.id AS id FROM r JOIN s ON r.a < s.a",
        "SELECT r.a AS `R__ID`, COUNT(*) AS n, MAX(r.id) AS id FROM r JOIN s ON r.a < s.a GROUP BY r__id",
        "SELECT r.id AS id, (SELECT MAX(r__id) FROM q) AS m FROM r JOIN s ON r.a < s.a",
    ],
)
def test_names_of_ours_are_none_that_the_statement_has(sql: str) -> None:
    """Spark would take ``r__id`` for the column of the join's output, and not for the alias that the user gave."""
    assert "r__id" not in {column.name.lower() for column in node(sql).output}
    assert "__trijoin_1.r__id" not in final_sql(sql).lower().replace("__trijoin_1.r__id_2", "")


def test_a_join_is_no_table_that_the_statement_has() -> None:
    sql = "SELECT r.id, one FROM r JOIN s ON r.a < s.a LEFT JOIN __trijoin_1 ON TRUE"
    assert [join.name for join in nodes(f"WITH __trijoin_1 AS (SELECT 1 AS one) {sql}")] == ["__trijoin_2"]


def test_a_join_that_two_places_read_comes_before_both() -> None:
    """Nodes are compiled in the order of `walk`, turned round: a CTE that a subquery reads and another join joins."""
    cte = "WITH j AS (SELECT r.n AS k, SUM(s.a) AS v FROM r JOIN s ON r.a < s.a GROUP BY r.n)"
    above = "SELECT 1 AS one FROM j AS l JOIN t ON l.k < t.n WHERE l.v > (SELECT AVG(v) FROM j AS q WHERE q.k = l.k)"
    plan = rewritten(f"{cte} {above}").plan
    assert plan is not None
    order = list(walk(plan))
    assert sum(isinstance(one, JoinNode) for one in order) == 2
    for place, one in enumerate(order):
        assert all(any(below is later for later in order[place + 1 :]) for below in one.inputs)


@pytest.mark.parametrize(
    "groups", ["ROLLUP (r.id)", "r.id WITH CUBE", "GROUPING SETS ((r.id), ())", "r.n, ROLLUP (r.id)"]
)
def test_what_a_name_in_having_means_below_rollup_is_left_to_spark(groups: str) -> None:
    """Spark takes it for the column or for the output, by the casts beside it; a qualified name it may not find."""
    sql = f"SELECT max(u.val) AS id, count(*) AS k FROM r JOIN u ON r.a < u.val GROUP BY {groups} HAVING id > 1"
    assert reasons(sql) == ["id in HAVING is a column and an output of SELECT, above subtotals"]
    assert reasons(sql.replace("JOIN u ON r.a < u.val", "JOIN s AS u(id, val) ON r.a < u.val")) == reasons(sql)
    assert "HAVING id > 1" in final_sql(sql.replace("max(u.val) AS id", "r.id AS id"))
    assert "HAVING k > 1" in final_sql(sql.replace("HAVING id", "HAVING k"))


def test_using_merges_columns_and_the_qualified_ones_are_still_there() -> None:
    """Spark: the merged column comes first, and t.* has it as well."""
    dropped = ", ".join(f"{relation}.{name}" for name in ("ts", "x", "n", "d", "m") for relation in "rs")
    sql = final_sql(f"SELECT * EXCEPT ({dropped}), s.id AS sid FROM r JOIN s USING (id) JOIN u ON u.key = id")
    items = sql.removeprefix("SELECT ").split(" FROM ")[0].replace("__trijoin_1.", "").split(", ")
    assert items == [
        "r__id AS id",
        "r__a AS a",
        "s__a AS a",
        "u__Key AS Key",
        "u__Val AS Val",
        "s__id AS sid",
    ]


def test_a_relations_star_begins_with_the_columns_of_using() -> None:
    """Spark: first what USING hides, then the rest in the order of ``*``; ``s.*`` had the order of the schema of s."""
    sql = final_sql("SELECT s.* EXCEPT (ts, x, m), r.* EXCEPT (ts, x, m) FROM r JOIN s USING (n, a) WHERE r.id < s.id")
    items = sql.removeprefix("SELECT ").split(" FROM ")[0].replace("__trijoin_1.", "").split(", ")
    wanted = [f"{one}__{name}" for one in "sr" for name in ("n", "a", "id", "d")]
    assert [item.split(" ")[0] for item in items] == wanted


def test_the_merged_column_of_an_outer_join_is_that_of_the_preserved_side() -> None:
    sql = final_sql("SELECT id FROM (r JOIN u ON r.a < u.val) RIGHT JOIN s USING (id)")
    assert sql.startswith("SELECT s.id AS id FROM")
    sql = final_sql("SELECT id FROM (r JOIN u ON r.a < u.val) LEFT JOIN s USING (id)")
    assert sql.startswith("SELECT __trijoin_1.r__id AS id FROM")
    sql = final_sql("SELECT id FROM (r JOIN u ON r.a < u.val) FULL JOIN s USING (id)")
    assert sql.startswith("SELECT coalesce(__trijoin_1.r__id, s.id) AS id FROM")


def test_duplicate_output_names_stay() -> None:
    sql = final_sql("SELECT r.id, s.id, r.id FROM r JOIN s ON r.a < s.a")
    assert sql == "SELECT __trijoin_1.r__id AS id, __trijoin_1.s__id AS id, __trijoin_1.r__id AS id FROM __trijoin_1"


def test_a_relation_used_twice_is_two_inputs() -> None:
    join = node("SELECT a.id FROM r a JOIN r b ON a.id < b.id JOIN r c ON b.id < c.id")
    assert type(join) is TriJoin
    assert [source_scan(s).relation for s in join.sources] == ["r", "r", "r"]


def test_only_what_is_read_is_put_out() -> None:
    join = node("SELECT r.n FROM r JOIN s ON r.a < s.a AND r.x + s.x > 3 ORDER BY s.d")
    assert sorted(column.name for column in join.output) == ["r__n", "r__x", "s__d", "s__x"]
    assert len(node("SELECT 1 FROM r JOIN s ON r.a < s.a").output) == 1


def test_order_by_reaches_outputs_where_columns_are_gone() -> None:
    """Below DISTINCT or GROUP BY, Spark cannot see the join's columns any more."""
    assert final_sql("SELECT DISTINCT r.id FROM r JOIN s ON r.a < s.a ORDER BY r.id").endswith("ORDER BY id")
    assert final_sql("SELECT r.n AS g, sum(s.a) AS t FROM r JOIN s ON r.a < s.a GROUP BY g ORDER BY sum(s.a)") == (
        "SELECT __trijoin_1.__key_1 AS g, SUM(__sum_1) AS t FROM __trijoin_1 GROUP BY g ORDER BY t"
    )
    assert final_sql("SELECT r.id FROM r JOIN s ON r.a < s.a ORDER BY s.x").endswith("ORDER BY __trijoin_1.s__x")


def test_an_alias_of_the_select_list_wins_in_order_by_and_helps_in_group_by() -> None:
    assert final_sql("SELECT r.a + 1 AS x FROM r JOIN u ON r.id = u.key ORDER BY x").endswith("ORDER BY x")
    sql = final_sql("SELECT r.a + 1 AS x, count(*) FROM r JOIN u ON r.id = u.key GROUP BY x")
    assert sql.endswith("GROUP BY __trijoin_1.r__x")  # Spark: a column of FROM wins over the alias


def test_correlated_subqueries_see_the_join_through_its_output() -> None:
    sql = final_sql(
        "SELECT r.id FROM r JOIN s ON r.a < s.a WHERE r.a > 5 OR EXISTS (SELECT 1 FROM t WHERE t.id = s.id AND x > r.x)"
    )
    assert sql.endswith("EXISTS(SELECT 1 FROM t WHERE t.id = __trijoin_1.s__id AND x > __trijoin_1.r__x)")


def test_a_subquery_in_the_select_list_is_one_group() -> None:
    """It is itself an item of SELECT; walked twice it would be two groups, one of them without its conditions."""
    join = node("SELECT u.key, (SELECT max(r.a) FROM r JOIN s ON r.id < s.id WHERE s.a = u.key) FROM u")
    assert len(join.graph.edges) == 1


def test_fields_of_structs() -> None:
    catalog, _ = read_script("CREATE STREAM p (at STRUCT<x: INT, y: INT>); CREATE STREAM q (at STRUCT<x: INT, y: INT>)")
    sql = "SELECT p.at.y, q.at.x AS z FROM p JOIN q ON p.at.x < q.at.x WHERE p.at.y + q.at.y > 3 AND p.at.x > 1"
    result = rewrite(sql, catalog)
    assert result.plan is not None
    assert result.plan.sql == "SELECT __trijoin_1.p__at.y AS y, __trijoin_1.q__at.x AS z FROM __trijoin_1"
    (join,) = result.groups
    assert isinstance(join, JoinNode)
    assert [column.name for column in join.output] == ["p__at", "q__at"]
    assert [p.left.sql for edge in join.graph.edges for p in edge.predicates] == ["p.at.x"]
    assert [p.condition.sql for p in join.graph.residuals] == ["p__at.y + q__at.y > 3"]
    assert source_conditions(join.sources[0]) == ("p.at.x > 1",)


def test_a_derived_equality_with_an_applied_table_keeps_its_order() -> None:
    """c is applied to r; the derived s.id = c.id is then a predicate between s and r, in the order r, s."""
    join = node("SELECT r.id FROM r JOIN s ON r.id = s.id JOIN c ON c.id = r.id")
    assert [(edge.left, edge.right) for edge in join.graph.edges] == [("r", "s")]


def test_a_group_inside_a_correlated_subquery_keeps_the_correlation_above_it() -> None:
    sql = final_sql(
        "SELECT u.key FROM u WHERE u.val = (SELECT max(r.a) FROM r JOIN s ON r.id < s.id WHERE s.a = u.key)"
    )
    assert sql.endswith("(SELECT max(__trijoin_1.r__a) FROM __trijoin_1 WHERE __trijoin_1.s__a = u.key)")


def test_groups_in_every_place() -> None:
    sql = (
        "WITH q AS (SELECT r.id, max(s.a) AS m FROM r JOIN s ON r.id = s.id GROUP BY r.id) "
        "SELECT q.m FROM q JOIN t ON q.m < t.a WHERE t.id IN (SELECT r.id FROM r JOIN u ON r.id = u.key) "
        "UNION ALL SELECT v.a FROM (SELECT DISTINCT s.a FROM s JOIN t ON s.id < t.id) v"
    )
    found = nodes(sql)
    assert [type(join) for join in found] == [BiJoin] * 4
    assert [join.name for join in found] == ["__trijoin_1", "__trijoin_2", "__trijoin_3", "__trijoin_4"]
    (q, _) = found[1].sources
    assert isinstance(q, Scan)
    assert q.ctes == (
        ("q", "SELECT __trijoin_1.__key_1 AS id, MAX(__max_1) AS m FROM __trijoin_1 GROUP BY __trijoin_1.__key_1"),
    )
    assert [below for below in q.below if isinstance(below, JoinNode)] == [found[0]]
    plan = rewritten(sql).plan
    assert plan is not None
    assert "WITH" not in plan.sql
    assert [below.name for below in plan.below if isinstance(below, JoinNode)] == [
        "__trijoin_2",
        "__trijoin_3",
        "__trijoin_4",
    ]


def test_plain_derived_tables_join_the_group_around_them() -> None:
    join = node("SELECT q.z, t.n FROM (SELECT r.id, s.a + 1 AS z FROM r JOIN s ON r.id = s.id) q JOIN t ON q.z = t.a")
    assert join.graph.relations == ("r", "s", "t")
    assert join.graph.edge("s", "t") is not None


@pytest.mark.parametrize("inner", ["DISTINCT r.id, s.a", "r.id, max(s.a) AS a", "r.id, rand() AS a"])
def test_derived_tables_that_do_more_than_project_stay_apart(inner: str) -> None:
    group = " GROUP BY r.id" if "max" in inner else ""
    sql = f"SELECT q.id FROM (SELECT {inner} FROM r JOIN s ON r.id = s.id{group}) q JOIN t ON q.id = t.a"
    assert [len(join.sources) for join in nodes(sql)] == [2, 2]


def test_an_outer_join_below_a_group_is_one_input_of_it() -> None:
    """(r LEFT JOIN s) JOIN t is no inner join of three: rows of r without partner in s take part."""
    join = node("SELECT r.id, s.a, t.n FROM r LEFT JOIN s ON r.id = s.id JOIN t ON t.a < r.a AND t.x > s.x")
    assert join.graph.relations == ("r", "t")
    first = source_scan(join.sources[0]).relation
    assert first.startswith("(SELECT ")
    assert first.endswith("FROM r AS r LEFT JOIN s AS s ON r.id = s.id)")
    kernel = [p.left.sql for edge in join.graph.edges for p in edge.predicates]
    assert kernel == ["r.a", "r.s__x"]
    assert {column.relation for column in join.output} == {"r", "t"}


def test_a_scan_keeps_stream_watermark_and_sample() -> None:
    join = node(
        "SELECT q.id FROM STREAM r WATERMARK ts DELAY OF INTERVAL 1 MINUTE AS q "
        "JOIN s TABLESAMPLE (50 PERCENT) ON q.a < s.a"
    )
    assert [source_scan(s).relation for s in join.sources] == [
        "STREAM r WATERMARK ts DELAY OF INTERVAL '1' MINUTE",
        "s TABLESAMPLE (50 PERCENT)",
    ]
    assert source_scan(join.sources[0]).delay == 60_000_000


def test_lateral_views_are_applied_to_the_join() -> None:
    sql = final_sql(
        "SELECT r.id, e FROM r JOIN s ON r.a < s.a LATERAL VIEW explode(array(r.a, s.a)) l AS e WHERE e > 3"
    )
    assert sql.endswith("LATERAL VIEW explode(ARRAY(__trijoin_1.r__a, __trijoin_1.s__a)) l AS e WHERE e > 3")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT nope FROM r JOIN s ON r.a < s.a", "cannot be resolved"),
        ("SELECT id FROM r JOIN s ON r.a < s.a", "ambiguous"),
        ("SELECT * FROM r JOIN elsewhere e ON r.a < e.a", "cannot be expanded"),
        ("SELECT r.id FROM r JOIN LATERAL (SELECT 1) l", "LATERAL"),
        ("SELECT /*+ NO_TRIJOIN */ r.id FROM r JOIN s ON r.a < s.a", "NO_TRIJOIN"),
        ("SELECT r.id FROM r JOIN c ON r.id = c.id", "one stream"),
        ("SELECT struct(*) FROM r JOIN s ON r.a < s.a", "star"),
        ("SELECT r.id FROM r JOIN s ON r.a < s.a WHERE EXISTS (SELECT nope FROM t)", "cannot be resolved"),
        (
            "WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n FROM q) SELECT q.n FROM q JOIN r ON q.n = r.a",
            "recurs",
        ),
    ],
)
def test_what_is_left_alone_says_why(sql: str, reason: str) -> None:
    (only,) = reasons(sql)
    assert reason in only
    result = rewritten(sql)
    assert not result.converted
    hint = "/*+ NO_TRIJOIN */"
    assert result.spark_sql == sql.replace(hint, " " * len(hint))


def test_plans_mention_every_node_that_their_sql_reads() -> None:
    """The compiler registers what stands below; a name without a node would be an unknown table."""
    plan = rewritten(
        "SELECT r.id FROM r JOIN s ON r.a < s.a WHERE r.id > (SELECT avg(t.a) FROM t JOIN u ON t.id < u.key)"
    ).plan
    assert plan is not None
    for found in walk(plan):
        if isinstance(found, JoinNode):
            assert found.name in plan.sql


def test_common_table_expressions_of_one_name_stay_apart() -> None:
    """sqlglot's generator for Hive lifts them to the top of the query, where the first one would hide the second."""
    inner = "(WITH w AS (SELECT {0} AS k FROM {1}) SELECT w.k FROM w)"
    sql = "SELECT /*+ NO_JOIN_TREE */ r.id FROM r JOIN u ON r.id = u.key "
    sql += f"LEFT JOIN {inner.format('a', 's')} AS p ON r.id = p.k LEFT JOIN "
    text = final_sql(sql + f"{inner.format('id', 't')} AS q ON r.id = q.k")
    assert "(WITH w AS (SELECT a AS k FROM s)" in text
    assert "(WITH w AS (SELECT id AS k FROM t)" in text


def test_a_parenthesised_join_may_begin_with_a_derived_table() -> None:
    (join,) = nodes("SELECT w.id FROM r JOIN ((SELECT id FROM t) AS v JOIN s AS w ON v.id = w.a) ON r.id = w.id")
    assert join.graph.relations == ("r", "v", "w")


def test_a_comma_joins_from_left_to_right_like_join() -> None:
    """Other databases let JOIN go first; Spark does with ``spark.sql.ansi.relationPrecedence`` only."""
    sql = "SELECT r.id FROM r, s JOIN t ON r.a = t.a AND s.id = t.id"
    assert node(sql).graph.relations == ("r", "s", "t")
    (reason,) = reasons(sql, Settings(join_before_comma=True))
    assert "r.a" in reason
    using = "SELECT r.id FROM r, s JOIN t USING (id)"
    assert [(edge.left, edge.right) for edge in node(using).graph.edges] == [("r", "t")]
    assert [(e.left, e.right) for e in node(using, Settings(join_before_comma=True)).graph.edges] == [("s", "t")]


def test_a_relation_brings_the_ctes_that_it_reads_and_no_others() -> None:
    # Spark's optimizer fails on some that nothing reads: INTERNAL_ERROR, no CTERelationDef found.
    body = "WITH q AS (SELECT a AS y FROM u) SELECT v.y FROM r JOIN "
    (join, *_) = nodes(body + "(t JOIN q v ON t.a < v.y) ON r.id = t.id")
    found = {source_scan(source).alias: [name for name, _ in source_scan(source).ctes] for source in join.sources}
    assert found == {"r": [], "t": [], "v": ["q"]}
    sql = body + "q w ON r.a < w.y LEFT SEMI JOIN c ON c.id = w.y JOIN q v ON v.y <=> r.id"
    found = {
        source_scan(source).alias: [name for name, _ in source_scan(source).ctes]
        for join in nodes(sql)
        for source in join.sources
    }
    assert found == {"r": [], "w": ["q"], "v": ["q"]}, "r stands for the join below it, whose w has its own"
    unread = (
        "WITH q AS (SELECT a AS y FROM u) SELECT d.k FROM r JOIN (WITH w AS (SELECT y FROM q) SELECT id AS k FROM t) d"
    )
    (join,) = nodes(unread + " ON r.id < d.k")
    assert [source_scan(source).ctes for source in join.sources] == [(), ()]
    assert "WITH" not in source_scan(join.sources[1]).relation


def test_identifier_is_no_table_function() -> None:
    """It was taken for a relation that is no stream."""
    (reason,) = reasons("SELECT r.id FROM IDENTIFIER('r') AS r JOIN s ON r.a < s.a")
    assert "only Spark looks up" in reason


def test_a_name_too_few_is_no_bug_of_ours() -> None:
    """Spark refuses the list of columns; opening the derived table failed before."""
    sql = "SELECT * FROM (SELECT r.a, s.id FROM r JOIN s ON r.a < s.a) AS q(k) JOIN t ON q.k < t.a"
    assert [len(join.sources) for join in nodes(sql)] == [2, 2]


def test_a_volatile_condition_stays_in_its_derived_table() -> None:
    """Above the join it would be asked for every triple, not for every pair."""
    inner = "SELECT r.id FROM r JOIN s ON r.a < s.a WHERE rand() < 0.5"
    sql = final_sql(f"SELECT q.id FROM ({inner}) q JOIN t ON q.id < t.a")
    assert "rand" not in sql
