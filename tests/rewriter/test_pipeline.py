"""The rewriter as a whole: its contract, its errors, its speed."""

from __future__ import annotations

import ast
import dataclasses
import json
import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from trijoin_sql.rewriter.pipeline import STAGES, check_schema, rewrite
from trijoin_sql.rewriter.plan.decision import SchemeOptions
from trijoin_sql.rewriter.plan.display import folded
from trijoin_sql.rewriter.plan.document import Document
from trijoin_sql.rewriter.plan.json_codec import decode
from trijoin_sql.rewriter.plan.nodes import Block, Query, Scan, source_conditions
from trijoin_sql.rewriter.sql.catalog import DdlCatalog
from trijoin_sql.rewriter.sql.declarations import read_script
from trijoin_sql.rewriter.sql.statement import View

from trijoin_sql.errors import PlanError, SqlSyntaxError

from .goldens import PLANS, ROOT, generated, golden, golden_path, queries
from .mutate import mutated, outcome
from .tables import CATALOG, final_sql, nodes, rewritten

CHAIN = "SELECT r.id FROM r JOIN s ON r.a < s.a JOIN t ON s.a = t.a AND r.x + s.x > t.x WITHIN 5 MINUTES"


def test_the_json_object_is_the_contract() -> None:
    """Other tools read these keys."""
    found = rewritten(CHAIN).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert {"version", "sql", "stages", "groups", "advice"} <= found.keys()
    (group,) = found["groups"]
    assert group["graph"].keys() == {"shape", "hub", "relations", "edges", "residuals", "residual_places"}
    assert (group["graph"]["shape"], group["graph"]["hub"]) == ("chain", "s")
    at, within = CHAIN.index("r.a < s.a"), CHAIN.index("WITHIN")
    assert group["graph"]["edges"][0] == {
        "left": "r",
        "right": "s",
        "derived": False,
        "predicates": [
            {"sql": "r.a < s.a", "kind": "range", "places": [[at, at + 9]]},
            {"sql": "WITHIN '5' MINUTE", "kind": "band", "derived": True, "places": [[within, len(CHAIN)]]},
        ],
    }
    assert group["graph"]["residuals"] == ["r.x + s.x > t.x"]
    ours = {"options", "expected", "units_reason", "rates", "selectivities", "advice"}
    ours |= {"from_checkpoint", "probes", "grid"}
    assert group["decision"].keys() == {"node", "scheme", "units", "reason", "alternatives"} | ours
    assert group["decision"]["alternatives"][0].keys() == {"scheme", "cost", "chosen", "total", "untaken"}
    assert group["decision"]["alternatives"][0]["cost"].keys() == {"network", "memory", "cpu", "stages"}
    assert group["state"]["bounded"]
    for alias, stream in zip("rst", group["state"]["streams"], strict=True):
        proof, expires = stream.pop("proof"), f"when the watermark passes {alias}.ts + 5 minutes"
        assert stream == {"alias": alias, "keep_for": "5 minutes", "expires": expires}
        said = {"sql": "WITHIN '5' MINUTE", "derived": True, "places": [[within, len(CHAIN)]]}
        assert proof == [
            {"other": one, "most": "5 minutes", "steps": [{"bound": f"{one}.ts <= {alias}.ts + 5 minutes", **said}]}
            for one in "rst"
            if one != alias
        ]


def test_a_residual_over_two_relations_is_shown_on_their_edge() -> None:
    found = rewritten("SELECT 1 AS o FROM r JOIN s ON r.n LIKE s.n").to_dict()["groups"][0]["graph"]
    assert found["edges"][0]["predicates"] == [{"sql": "r.n LIKE s.n", "kind": "residual", "places": [[31, 43]]}]
    assert found["residuals"] == []


def test_a_group_left_alone_is_listed_with_its_reason() -> None:
    (group,) = rewritten("SELECT /*+ NO_TRIJOIN */ 1 AS o FROM r JOIN s ON r.a < s.a").to_dict()["groups"]
    assert group["decision"]["node"] == "none"
    assert "NO_TRIJOIN" in group["decision"]["reason"]
    assert group["graph"]["edges"][0]["predicates"] == [{"sql": "r.a < s.a", "kind": "range", "places": [[49, 58]]}]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT * FROM r JOIN s ON r.a < s.a PIVOT (max(s.id) FOR n IN ('x', 'y'))", "PIVOT or UNPIVOT in FROM"),
        ("SELECT * FROM r JOIN s USING (id) UNPIVOT (v FOR k IN (a))", "PIVOT or UNPIVOT in FROM"),
        ("SELECT r.id FROM r, s PIVOT (max(id) FOR n IN ('x'))", "PIVOT or UNPIVOT in FROM"),
        ("SELECT s.id FROM r PIVOT (max(id) AS m FOR n IN ('x' AS px)) JOIN s ON s.a < px", "PIVOT or UNPIVOT in FROM"),
        (
            "SELECT r.id, l.* FROM r JOIN s ON r.a < s.a, LATERAL explode(array(r.id)) AS l",
            "a LATERAL relation depends",
        ),
        (
            "SELECT r.id FROM r JOIN s ON r.a < s.a JOIN LATERAL (SELECT t.a FROM t WHERE t.id = s.id)",
            "a LATERAL relation",
        ),
    ],
)
def test_what_changes_the_relations_of_a_from_is_left_to_spark(sql: str, reason: str) -> None:
    """Spark pivots all that is joined before; a LATERAL subquery is no relation of its own."""
    result = rewritten(sql)
    assert not result.converted
    (group,) = result.to_dict()["groups"]
    assert group["decision"]["reason"].startswith(reason)


def test_views_and_explain_carry_the_query_inside() -> None:
    view = rewritten("CREATE OR REPLACE TEMP VIEW `my view` AS SELECT r.id FROM r JOIN s ON r.a < s.a")
    assert (view.kind, view.view, view.converted) == ("create_view", View("`my view`", replace=True), True)
    explain = rewritten("EXPLAIN MERMAID SELECT r.id FROM r")
    assert (explain.kind, explain.explain_format, explain.spark_sql) == ("explain", "MERMAID", "SELECT r.id FROM r")


def test_question_marks_become_named_parameters_in_the_order_of_the_text() -> None:
    """The rewritten text has another order than the user's; positions would change their meaning."""
    sql = "SELECT r.id + ? AS q FROM r JOIN s ON r.a < s.a AND r.id > ? WHERE s.id = ?"
    result = rewritten(sql)
    assert result.parameters == ("__p1", "__p2", "__p3")
    assert final_sql(sql) == "SELECT __trijoin_1.r__id + :__p1 AS q FROM __trijoin_1"
    (join,) = nodes(sql)
    assert [source_conditions(source) for source in join.sources] == [("r.id > :__p2",), ("s.id = :__p3",)]


def test_question_marks_stay_in_what_spark_gets() -> None:
    sql = "SELECT /*+ UNITS(3) */ r.id + ? FROM r WHERE r.a > ? LIMIT 3"
    assert rewritten(sql).spark_sql == "SELECT                 r.id + ? FROM r WHERE r.a > ? LIMIT 3"


def test_spark_gets_the_users_own_text_if_nothing_is_ours() -> None:
    sql = "select  r.id -- mine\nfrom r where `a`>3"
    assert rewritten(sql).spark_sql == sql
    assert (
        rewritten("SELECT /*+ UNITS(3), COALESCE(2) */ r.id FROM r").spark_sql
        == "SELECT /*+ COALESCE(2) */ r.id FROM r"
    )


def test_refusals_name_joins_that_spark_cannot_run_either() -> None:
    (refusal,) = rewritten("SELECT 1 AS o FROM r LEFT JOIN s ON r.a < s.a").refusals
    assert refusal.reason == "the LEFT JOIN would never know that a row of r has no partner"
    assert "s.ts <= r.ts + INTERVAL 10 MINUTES" in refusal.hint
    (refusal,) = rewritten("SELECT 1 AS o FROM u LEFT JOIN s ON u.Key < s.a AND u.Key LIKE s.n").refusals
    assert refusal.reason.endswith("on pairs of rows, and one side has no event time, or one that may be NULL")
    assert not rewritten("SELECT 1 AS o FROM r LEFT SEMI JOIN s ON r.a < s.a").refusals, "it gives a row at once"
    like = "SELECT 1 AS o FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE {} AND r.n LIKE s.n)"
    for one in ("r.a < s.a", "r.a = s.a"):
        (refusal,) = rewritten(like.format(one)).refusals
        assert refusal.reason == "the LEFT ANTI JOIN would never know that a row of r has no partner"
    (refusal,) = rewritten(like.format("r.a = s.a").replace("NOT ", "")).refusals
    assert refusal.reason.startswith("the EXISTS or IN of streams has no bound in event time")
    assert "in its WHERE" in (refusal.hint or "")
    (refusal,) = rewritten("SELECT 1 AS o FROM r LEFT JOIN s ON r.a = s.a").refusals
    assert refusal.reason.startswith("the LEFT JOIN of streams has no bound in event time")
    assert rewritten("SELECT 1 AS o FROM r LEFT JOIN c ON r.a < c.id").refusals == ()


def test_every_stage_is_named_once_and_shown() -> None:
    names = [stage.name for stage in rewritten(CHAIN).stages]
    assert names == ["parse", *(name for name, _ in STAGES), "render"]
    assert all(len(line) <= 100 for stage in rewritten(CHAIN).stages for line in folded(stage.plan).splitlines())


def test_a_stage_that_loses_a_column_is_caught() -> None:
    before = Query("", (Block(Scan("r", "r", CATALOG.tables[0][1].columns), 0, (("r", "id"),)),))
    after = Query("", (Block(Scan("r", "r"), 0, (("r", "id"),)),))
    with pytest.raises(PlanError, match=r"lost r\.id"):
        check_schema("some_rule", before, after)


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, relative ones with their dots."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or "").split(".")[0])
    return found


def test_the_rewriter_imports_no_pyspark_and_its_nodes_import_nothing() -> None:
    """EXPLAIN works without Spark, and the operators import the nodes without sqlglot."""
    files = sorted((ROOT / "rewriter").glob("**/*.py"))
    assert len(files) > 20
    assert [path.name for path in files if "pyspark" in imported(path)] == []
    for name in ("expr", "joins", "parts", "decision", "nodes", "conjuncts", "document", "json_codec"):
        beside = {".expr", ".conjuncts", ".joins", ".parts", ".decision", ".trees", ".json_codec"}
        assert imported(ROOT / "rewriter" / "plan" / f"{name}.py") <= {*sys.stdlib_module_names, "...errors", *beside}


def calls(relations: int) -> int:
    """Count the calls of Python functions that rewriting a chain takes, which no busy machine changes."""
    names = [f"t{number}" for number in range(relations)]
    catalog, _ = read_script(
        ";".join(
            f"CREATE STREAM {n} (id INT, a INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 1 SECOND" for n in names
        )
    )
    conditions = [
        f"{a}.id = {b}.id AND {a}.a < {b}.a + 3 AND {a}.ts BETWEEN {b}.ts - INTERVAL 5 MINUTES AND {b}.ts"
        for a, b in pairwise(names)
    ]
    sql = f"SELECT {', '.join(f'{n}.id' for n in names)} FROM {', '.join(names)} WHERE {' AND '.join(conditions)}"
    return calls_of(sql, catalog)


def calls_of(sql: str, catalog: DdlCatalog) -> int:
    """Count the calls of Python functions that rewriting a query takes."""
    count = 0

    def count_calls(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    rewrite(sql, catalog)  # what is kept from run to run
    sys.setprofile(count_calls)
    try:
        rewrite(sql, catalog)
    finally:
        sys.setprofile(None)
    return count


def test_ten_relations_are_rewritten_in_no_time() -> None:
    """177,000 calls, some 50 ms; and nothing grows exponentially: 2.3 times the work for twice the relations."""
    five, ten = calls(5), calls(10)
    assert ten < 180_000
    assert ten < 3 * five


@pytest.mark.parametrize("times", ["", " WATERMARK ts DELAY OF INTERVAL 1 SECOND"])
def test_each_level_of_expressions_that_join_the_one_before_with_itself_is_planned_once(times: str) -> None:
    """A node was asked once for each path that leads to it: each level took four times the work of the one before."""
    catalog, _ = read_script(f"CREATE STREAM c0 (x INT, ts TIMESTAMP){times}")

    def levels(count: int) -> int:
        joins = (
            f"c{n + 1} AS (SELECT a.x, a.ts FROM c{n} AS a JOIN c{n} AS b ON a.x < b.x AND b.ts BETWEEN a.ts "
            f"AND a.ts + INTERVAL 1 DAY LEFT JOIN c{n} AS d ON a.x > d.x "
            f"AND d.ts BETWEEN a.ts AND a.ts + INTERVAL 1 DAY)"
            for n in range(count)
        )
        return calls_of(f"WITH {', '.join(joins)} SELECT x FROM c{count}", catalog)

    assert levels(8) < 4 * levels(3)


def test_the_same_text_gives_the_same_plan() -> None:
    assert rewritten(CHAIN) == rewritten(CHAIN)


@pytest.mark.parametrize("query", queries(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden_plans(query: Path) -> None:
    """`make plans` writes them anew; read the difference before you commit it."""
    assert golden_path(query).read_text(encoding="utf-8") == golden(query)


def test_golden_plans_of_tpc_h_and_tpc_ds() -> None:
    if not generated():
        pytest.skip("queries/tpch and queries/tpcds are not there: `make corpus` generates them")
    assert {golden_path(query) for query in generated()} == {*PLANS.glob("tpch/*.txt"), *PLANS.glob("tpcds/*.txt")}
    changed = [query.stem for query in generated() if golden_path(query).read_text(encoding="utf-8") != golden(query)]
    assert changed == [], "see what `make plans` changes"


def test_the_eleven_queries_of_paper_004_are_converted() -> None:
    """By their golden plans, which are there without the queries."""
    for number in (2, 3, 5, 7, 8, 9, 10, 11, 15, 18, 21):
        plan = (PLANS / "tpch" / f"q{number:02}.txt").read_text(encoding="utf-8")
        assert plan.startswith("== render\n"), number


@pytest.mark.parametrize("start", range(0, 240, 60))
def test_damaged_queries_bring_nothing_but_our_errors(start: int) -> None:
    """Of the whole corpus; `make fuzz` does so for minutes."""
    for seed in range(start, start + 60):
        catalog, sql = mutated(random.Random(seed))
        try:
            outcome(catalog, sql)
        except Exception as error:
            pytest.fail(f"seed {seed}: {error!r} for {sql}")


@pytest.mark.parametrize(
    "damaged",
    [
        "SELECT r.id FROM r JOIN s ON r.a < s.a JOIN t ON t.ts BETWEEN s.ts AND s.ts + INTERVAL t.a <> s.a",
        "SELECT q.c FROM (SELECT r.id, r.a + s.a AS c FROM r JOIN s USING (id)) q JOIN t ON q.c > 1 .a AND q.id <> t.a",
        "SELECT * FROM r, s WHERE ABS(r.id - s.id) <= 1 . (r.n = 'x' AND s.n = 'y') AND r.a > 48",
    ],
)
def test_what_can_be_read_but_is_no_sql_is_a_syntax_error(damaged: str) -> None:
    with pytest.raises(SqlSyntaxError):
        rewritten(damaged)


@pytest.mark.parametrize(
    "sql",
    [
        CHAIN,
        "SELECT /*+ NO_TRIJOIN */ 1 AS o FROM r JOIN s ON r.a < s.a",
        "SELECT /*+ SCHEME('tree(t, s, r)') */ r.id FROM r JOIN s ON r.a = s.a JOIN t ON s.a = t.a",
        "SELECT /*+ UNITS(6) */ r.a, count(*) FROM r JOIN s ON r.a = s.a JOIN t ON s.a = t.a GROUP BY r.a",
    ],
)
def test_the_document_comes_back_from_json(sql: str) -> None:
    """But for what is only in the plan: typed options, and what chose the units."""
    document = rewritten(sql).document
    plain = [dataclasses.replace(g.decision, options=SchemeOptions(), units_from="") for g in document.groups]
    groups = [dataclasses.replace(g, decision=d) for g, d in zip(document.groups, plain, strict=True)]
    written = json.loads(json.dumps(rewritten(sql).to_dict()))
    assert decode(Document, written) == dataclasses.replace(document, groups=tuple(groups))
