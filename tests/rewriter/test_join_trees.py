"""Which joins of several kinds are one node, what they hang on, and why others stay apart."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.options import Settings
from trijoin_sql.rewriter.plan.display import plan_text
from trijoin_sql.rewriter.plan.grid import key_classes
from trijoin_sql.rewriter.plan.stored import Stored

from .tables import node, nodes, rewritten

CORE = "SELECT r.id FROM r JOIN s ON r.a < s.a AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS"
LEFT = "SELECT r.id FROM r LEFT JOIN s ON r.a = s.a AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS"
NEAR = "t.ts BETWEEN r.ts AND r.ts + INTERVAL 10 SECONDS"


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        (f"{LEFT} LEFT JOIN t ON r.x < t.x AND {NEAR}", {"s": "left", "t": "left"}),
        (f"{CORE} LEFT SEMI JOIN t ON r.id = t.id AND {NEAR}", {"t": "semi"}),
        (f"{CORE} WHERE NOT EXISTS (SELECT 1 FROM t WHERE r.id = t.id AND {NEAR})", {"t": "anti"}),
        (f"{LEFT} LEFT ASOF JOIN t MATCH_CONDITION (r.ts >= t.ts) ON r.id = t.id", {"s": "left", "t": "left_closest"}),
        (f"{LEFT} JOIN t ON r.x < t.x AND {NEAR}", {"s": "left"}),
        (f"{LEFT.replace('FROM r', 'FROM r JOIN c ON r.id = c.id')} LEFT JOIN t ON r.x < t.x AND {NEAR}", None),
    ],
)
def test_joins_that_hang_on_rows_of_a_core_are_one_node(sql: str, kinds: dict[str, str] | None) -> None:
    """The last one has a table beside a stream of the core."""
    found = node(sql)
    assert found.join == "mixed"
    assert all(branch.anchor == "r" for branch in found.branches)
    assert kinds is None or {branch.relation: branch.kind for branch in found.branches} == kinds
    assert all(node.join != "mixed" for node in nodes(sql.replace("SELECT ", "SELECT /*+ NO_JOIN_TREE */ ", 1)))


@pytest.mark.parametrize(
    ("join", "why"),
    [
        ("LEFT JOIN t ON t.x > s.x AND t.ts BETWEEN s.ts AND s.ts + INTERVAL 1 SECOND", "read s, which may be without"),
        (f"LEFT JOIN t ON t.x > r.x AND t.a > s.a AND {NEAR}", "read s, which may be without a row"),
        (f"LEFT JOIN (t JOIN r AS v ON v.a < t.a AND v.ts = t.ts) ON r.x < t.x AND {NEAR}", "right side is a join"),
        (f"LEFT ANTI JOIN t ON CAST(r.n AS INT) < t.a AND {NEAR}", "may raise an error"),
        (f"LEFT JOIN t ON r.n LIKE t.n AND {NEAR}", "only Spark can evaluate r.n LIKE t.n, on pairs of rows"),
    ],
)
def test_other_joins_stay_apart_and_say_why(join: str, why: str) -> None:
    """What they read may be missing, or must not be computed of rows that other joins drop."""
    *_, above = nodes(f"{LEFT.replace('r.a = s.a', 'r.a < s.a')} {join}")
    assert above.join != "mixed"
    assert why in str(above.apart)
    assert f"a node of its own: {above.apart}" in plan_text(above)


def test_columns_that_the_core_equates_are_those_of_one_relation() -> None:
    core = "SELECT r.id FROM r JOIN s ON r.a = s.a AND s.ts = r.ts"
    found = node(f"{core} LEFT JOIN t ON t.a = s.a AND {NEAR}")
    (branch,) = found.branches
    assert (branch.relation, branch.anchor) == ("t", "r")
    edge = found.graph.edge("r", "t")
    assert edge is not None
    assert [one.keys[0].sql for one in edge.predicates if one.kind == "equi"] == ["r.a"]
    *_, apart = nodes(f"{core.replace('r.a = s.a', 'r.x = s.x')} LEFT JOIN t ON t.a < s.a AND t.x > r.x AND {NEAR}")
    assert "depends on all of them" in str(apart.apart)


@pytest.mark.parametrize("condition", ["t.a >= r.a + s.a", "t.x > r.x - s.x", "t.id <= s.a AND t.x > r.x + s.x"])
def test_an_expression_over_two_relations_of_the_core_hangs_on_neither(condition: str) -> None:
    """The side of such a condition counts as the first relation that the join reads."""
    core, above = nodes(f"{CORE} LEFT JOIN t ON t.id <= r.id AND {NEAR} AND {condition}")
    assert (core.join, above.join) == ("inner", "left")
    assert "read r and s: which rows are its partners depends on all of them" in str(above.apart)


LATER = "{0}.ts BETWEEN s.ts AND s.ts + INTERVAL 9 SECONDS"


@pytest.mark.parametrize(
    ("joins", "branches", "above"),
    [
        ("LEFT JOIN t ON t.a > r.a + s.a AND {t} LEFT JOIN r AS v ON v.id = s.id AND {v}", ["v"], ["left"]),
        ("LEFT JOIN t ON t.n LIKE s.n AND {t} LEFT SEMI JOIN r AS v ON v.a < s.a AND {v}", ["v"], ["left"]),
        (
            "LEFT ANTI JOIN t ON t.a > r.a + s.a AND {t} LEFT JOIN s AS w ON w.x * s.x < 9 AND {w} "
            "LEFT JOIN r AS v ON v.id = s.id AND {v}",
            ["v"],
            ["anti", "left"],
        ),
        (
            "LEFT JOIN r AS v ON v.a < s.a AND {v} LEFT JOIN t ON t.a > v.a AND {t} "
            "LEFT JOIN s AS w ON w.a = s.a AND {w}",
            ["v", "w"],
            ["left"],
        ),
    ],
)
def test_what_hangs_on_one_relation_comes_first(joins: str, branches: list[str], above: list[str]) -> None:
    """Else what hangs on several parts it from the core: a stage more, and Spark's own LEFT JOIN above ours."""
    tree, *others = nodes(f"{CORE} {joins.format(**{one: LATER.format(one) for one in 'tvw'})}")
    assert tree.join == "mixed"
    assert [branch.relation for branch in tree.branches] == branches
    assert [one.join for one in others] == above


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_spark_does_not_wait_for_a_time_that_may_be_missing(order: tuple[int, ...]) -> None:
    """It would keep rows without one for ever: they were lost, wherever the join is written."""
    joins = [f"LEFT JOIN {of} ON {on}.id = {to}.id AND {on}.ts BETWEEN {to}.ts AND {to}.ts + INTERVAL 9 SECONDS"
             for of, on, to in (("t AS v", "v", "r"), ("s AS w", "w", "v"), ("t AS z", "z", "r"))]  # fmt: skip
    found = rewritten(f"SELECT r.id, w.id AS o FROM r {' '.join(joins[at] for at in order)}")
    assert not found.converted or "waits for v.ts, and never gives rows that lack a row of v" in str(found.refusals)


def test_a_join_that_would_be_alone_stays_where_it_is() -> None:
    """One relation and one branch are no tree: nothing is gained by another order."""
    below, above = nodes(f"{LEFT.replace('r.a = s.a', 'r.a * s.a < 9')} LEFT JOIN t ON r.x < t.x AND {NEAR}")
    assert [one.graph.relations for one in (below, above)] == [("r", "s"), ("r", "t")]


def test_a_branch_makes_no_two_classes_of_keys_one() -> None:
    """A result may be without its row, and then nothing makes the core's keys equal."""
    sql = "SELECT r.id FROM r JOIN s ON r.id = s.id AND s.ts = r.ts LEFT JOIN t ON t.a = r.a AND t.a = r.id AND "
    classes = key_classes(node(sql + NEAR).graph)
    assert sorted(tuple(alias for alias, _ in one) for one in classes) == [("r", "s"), ("r", "s", "t"), ("r", "t")]


def test_bounds_of_a_branch_bound_no_other_rows() -> None:
    """Conditions that contradict each other leave it without partners, and the core as it is."""
    never = "t.ts > r.ts + INTERVAL 5 SECONDS AND t.ts < r.ts - INTERVAL 5 SECONDS AND r.a < t.a"
    found = node(f"{CORE} LEFT JOIN t ON {never}")
    assert found.graph.most("r", "s") == 5_000_000
    assert found.graph.most("s", "r") == 0


def test_rows_are_kept_until_the_last_branch_is_over() -> None:
    asof = "LEFT ASOF JOIN t MATCH_CONDITION (r.ts >= t.ts) ON r.id = t.id"
    kept = {one.alias: (one.keep_for, one.latest) for one in node(f"{LEFT} {asof}").retention}
    assert kept["r"] == (5_000_000, None)
    assert kept["t"] == (5_000_000, ("t.id",)), "what it finds is looked for again when s comes"


def test_a_branch_that_is_never_over_is_refused() -> None:
    (refusal,) = rewritten(f"{LEFT} LEFT JOIN t ON r.x < t.x AND t.ts > r.ts").refusals
    assert refusal.reason == "the LEFT JOIN with t would never know that a row of r has no partner"
    assert "t.ts <= r.ts + INTERVAL 10 MINUTES" in refusal.hint


def test_a_checkpoint_with_a_stage_for_each_join_keeps_them() -> None:
    sql = f"{LEFT.replace('r.a = s.a', 'r.a < s.a')} LEFT JOIN t ON r.x < t.x AND {NEAR}"
    apart = Settings(stored=(Stored(("r", "s"), "matrix", 2), Stored(("r", "t"), "matrix", 2)))
    assert [one.join for one in nodes(sql, apart)] == ["left", "left"]
    together = Settings(stored=(Stored(("r", "s", "t"), "matrix", 2),))
    assert [one.join for one in nodes(sql, together)] == ["mixed"]


def test_windows_that_are_equated_stay_with_spark() -> None:
    """It forgets them when the watermark has passed."""
    of = "(SELECT window(ts, '20 seconds') AS w, a FROM {0} GROUP BY window(ts, '20 seconds'), a) AS {0}"
    r, s, t = (of.format(one) for one in "rst")
    sql = f"SELECT {{}} r.a FROM {r} JOIN {s} ON r.w = s.w AND r.a = s.a LEFT SEMI JOIN {t} ON t.w = r.w AND t.a = r.a"
    assert nodes(sql.format("")) == nodes(sql.format("/*+ NO_JOIN_TREE */")) == []


@pytest.mark.parametrize(
    ("below", "joins"),
    [
        ("(SELECT r.* FROM r JOIN s ON r.a < s.a AND s.ts = r.ts)", ["inner", "semi"]),
        ("(SELECT r.* FROM r LEFT JOIN s ON r.a = s.a AND s.ts = r.ts)", ["semi"]),
        ("(SELECT r.* FROM r JOIN c ON r.id = c.id)", []),
        ("r", []),
    ],
)
def test_a_semi_join_of_rows_that_come_late_is_ours(below: str, joins: list[str]) -> None:
    """Spark's own loses pairs there; it does not where a stream is only joined with a table."""
    found = nodes(f"SELECT r.id FROM {below} AS r LEFT SEMI JOIN t ON r.a = t.a AND {NEAR}")
    assert [one.join for one in found] == joins


def test_a_checkpoint_of_spark_alone_keeps_its_joins() -> None:
    spark_alone = Settings(stored=(Stored((), "", together=True),))
    assert nodes(f"{LEFT} LEFT JOIN t ON r.x = t.x AND {NEAR}", spark_alone) == []
