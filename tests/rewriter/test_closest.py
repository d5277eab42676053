"""ASOF JOIN and NEAREST BY: what is read, what runs, how long rows are kept, what is refused and what stays Spark's."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.glance import glance
from trijoin_sql.rewriter.options import Settings
from trijoin_sql.rewriter.plan.document import Document
from trijoin_sql.rewriter.plan.json_codec import as_object
from trijoin_sql.rewriter.plan.nodes import source_conditions
from trijoin_sql.rewriter.sql.dialect import render
from trijoin_sql.rewriter.sql.hints import with_plain_joins
from trijoin_sql.rewriter.sql.statement import parse_statement

from trijoin_sql.errors import NotProvenError, SqlSyntaxError, UnsupportedQueryError

from .tables import BATCH, node, nodes, rewritten

LAST = "MATCH_CONDITION (r.ts >= s.ts)"


@pytest.mark.parametrize(
    ("sql", "printed"),
    [
        (f"SELECT * FROM r asof join s {LAST}", f"SELECT * FROM r ASOF JOIN s {LAST}"),
        (f"SELECT * FROM r INNER ASOF JOIN s {LAST}", f"SELECT * FROM r ASOF JOIN s {LAST}"),
        (
            "SELECT * FROM r LEFT OUTER ASOF JOIN s AS q MATCH_CONDITION (r.ts > q.ts) ON r.a = q.a JOIN t USING (id)",
            "SELECT * FROM r LEFT ASOF JOIN s AS q MATCH_CONDITION (r.ts > q.ts) ON r.a = q.a JOIN t USING (id)",
        ),
        (
            "SELECT * FROM r LEFT JOIN s exact nearest 2 by distance abs(r.a - s.a) WHERE r.a > 1",
            "SELECT * FROM r LEFT JOIN s EXACT NEAREST 2 BY DISTANCE abs(r.a - s.a) WHERE r.a > 1",
        ),
        (
            "SELECT * FROM r JOIN s APPROX NEAREST BY SIMILARITY -abs(r.a - s.a)",
            "SELECT * FROM r JOIN s APPROX NEAREST 1 BY SIMILARITY -abs(r.a - s.a)",
        ),
        (
            f"SELECT r.id FROM r ASOF JOIN (SELECT s.* FROM s JOIN t ON s.a = t.a) AS s {LAST} ON r.n = 'join'",
            f"SELECT r.id FROM r ASOF JOIN (SELECT s.* FROM s JOIN t ON s.a = t.a) AS s {LAST} ON r.n = 'join'",
        ),
        (
            f"SELECT r.id FROM r ASOF JOIN (s JOIN t ON s.a = t.a) {LAST}",
            f"SELECT r.id FROM r ASOF JOIN (s JOIN t ON s.a = t.a) {LAST}",
        ),
        # names that are no words here
        (
            f"SELECT * FROM r ASOF JOIN s {LAST} ON match_condition(r.a) = s.a WHERE match_condition(r.x)",
            f"SELECT * FROM r ASOF JOIN s {LAST} ON match_condition(r.a) = s.a WHERE match_condition(r.x)",
        ),
        (
            "SELECT exact.a FROM r exact JOIN s nearest ON exact.a = nearest.a",
            "SELECT exact.a FROM r AS exact JOIN s AS nearest ON exact.a = nearest.a",
        ),
        ("SELECT match_condition(a) FROM r", "SELECT match_condition(a) FROM r"),
        ("SELECT asof FROM r AS asof", "SELECT asof FROM r AS asof"),
    ],
)
def test_it_is_read_and_printed(sql: str, printed: str) -> None:
    statement = parse_statement(sql)
    assert statement.tree is not None
    assert render(statement.tree) == printed
    again = parse_statement(printed).tree
    assert again is not None
    assert render(again) == printed


def test_without_a_match_condition_it_is_an_alias() -> None:
    assert parse_statement("SELECT asof.a FROM r asof JOIN s ON asof.a = s.a").tree is not None
    with pytest.raises(SqlSyntaxError, match="ASOF JOIN needs MATCH_CONDITION"):
        parse_statement("SELECT r.a FROM r ASOF JOIN s ON r.a = s.a")


@pytest.mark.parametrize(
    ("joined", "says"),
    [
        ("r RIGHT JOIN s APPROX NEAREST", "NEAREST ends a JOIN or a LEFT JOIN"),
        ("r FULL JOIN s APPROX NEAREST", "NEAREST ends a JOIN or a LEFT JOIN"),
        ("r LEFT SEMI JOIN s APPROX NEAREST", "NEAREST ends a JOIN or a LEFT JOIN"),
        ("r LEFT ANTI JOIN s APPROX NEAREST", "NEAREST ends a JOIN or a LEFT JOIN"),
        ("r, s APPROX NEAREST", "NEAREST ends a JOIN or a LEFT JOIN"),
        (f"r ASOF JOIN s {LAST} APPROX NEAREST", "NEAREST ends a JOIN or a LEFT JOIN"),
        ("r JOIN s APPROX NEAREST 0", "NEAREST takes a number of rows, 1 or more"),
        ("r JOIN s APPROX NEAREST 1.5", "NEAREST takes a number of rows, 1 or more"),
    ],
)
def test_nearest_of_another_join_is_no_sql(joined: str, says: str) -> None:
    """It was lost without a word, and all partners were results."""
    with pytest.raises(SqlSyntaxError, match=says):
        parse_statement(f"SELECT r.id FROM {joined} BY DISTANCE ABS(r.x - s.x)")


@pytest.mark.parametrize(
    ("clause", "left", "right", "by"),
    [
        ("MATCH_CONDITION (r.ts >= s.ts)", "r.ts", "s.ts", "greatest"),
        ("MATCH_CONDITION (s.ts < r.ts)", "r.ts", "s.ts", "greatest"),
        ("MATCH_CONDITION (r.ts <= s.ts)", "r.ts", "s.ts", "least"),
        ("MATCH_CONDITION (s.x > (r.a + 1))", "(r.a + 1)", "s.x", "least"),
    ],
)
def test_what_is_closest(clause: str, left: str, right: str, by: str) -> None:
    found = node(f"SELECT r.id, s.id FROM r ASOF JOIN s {clause} ON r.a = s.a WITHIN 1 HOUR")
    assert found.closest is not None
    assert (found.join, found.closest.left.sql, found.closest.right.sql) == ("closest", left, right)
    assert (found.closest.by, found.closest.sql) == (by, clause)


def test_nearest() -> None:
    found = node("SELECT r.id, s.id FROM r LEFT JOIN s APPROX NEAREST 3 BY DISTANCE ABS(s.a - r.x) WITHIN 1 HOUR")
    assert found.closest is not None
    assert found.join == "left_closest"
    assert (found.closest.left.sql, found.closest.right.sql, found.closest.by) == ("r.x", "s.a", "distance")
    assert found.closest.count == 3


def test_on_filters_partners_and_where_does_not() -> None:
    """A condition on the right side chooses partners in ON, and drops results in WHERE."""
    found = node(f"SELECT r.id, s.x FROM r LEFT ASOF JOIN s {LAST} ON s.a > 1 AND r.a > 2 WHERE r.x > 3 AND s.x > 4")
    assert [source_conditions(source) for source in found.sources] == [("r.x > 3",), ("s.a > 1",)]
    assert [one.sql for one in found.matching] == ["r.a > 2"]
    assert "s__x > 4" in rewritten(f"SELECT r.id FROM r LEFT ASOF JOIN s {LAST} WHERE s.x > 4").plan.sql  # type: ignore[union-attr]


KEPT = [
    (f"{LAST} ON r.a = s.a", {"r": (0, None), "s": (0, ("s.a",))}),
    (f"{LAST} ON r.a = s.a AND r.n <=> s.n", {"r": (0, None), "s": (0, ("s.a", "s.n"))}),
    (LAST, {"r": (0, None), "s": (0, ())}),
    (f"{LAST} ON r.a < s.a", {"r": (0, None), "s": (None, None)}),  # an older row may be the only one that fits
    ("MATCH_CONDITION (r.ts >= s.ts + INTERVAL 1 SECOND)", {"r": (0, None), "s": (None, None)}),
    (f"{LAST} ON r.a = s.a WITHIN 1 SECOND", {"r": (0, None), "s": (1_000_000, None)}),
    ("MATCH_CONDITION (r.x >= s.x) WITHIN 1 SECOND", {"r": (1_000_000, None), "s": (2_000_000, None)}),
    ("MATCH_CONDITION (r.ts <= s.ts) WITHIN 1 SECOND", {"r": (1_000_000, None), "s": (1_000_000, None)}),
]


@pytest.mark.parametrize(("clause", "kept"), KEPT)
def test_how_long_rows_are_kept(clause: str, kept: dict[str, tuple[int | None, tuple[str, ...] | None]]) -> None:
    """A row waits for as long as a partner may be later, and a partner for as long as such a row may wait."""
    found = node(f"SELECT r.id, s.id FROM r ASOF JOIN s {clause}")
    assert {one.alias: (one.keep_for, one.latest) for one in found.retention} == kept


@pytest.mark.parametrize(
    ("join", "says"),
    [
        ("ASOF JOIN s MATCH_CONDITION (r.x >= s.x) ON r.a = s.a", "the ASOF JOIN would never know that a row of r has"),
        ("LEFT ASOF JOIN s MATCH_CONDITION (r.ts < s.ts)", "the LEFT ASOF JOIN would never know"),
        ("JOIN s APPROX NEAREST BY DISTANCE ABS(r.a - s.a)", "the NEAREST JOIN would never know"),
        ("ASOF JOIN s MATCH_CONDITION (r.n >= s.n) ON r.a = s.a", "units do not order string to tell what is closest"),
        (f"/*+ x */ ASOF JOIN u AS s {LAST.replace('s.ts', 's.Key')} ON r.a = s.Val", "units do not order"),
    ],
)
def test_what_is_refused(join: str, says: str) -> None:
    found = rewritten(f"SELECT r.id FROM r {join}".replace("/*+ x */ ", "")).refusals
    assert says in found[0].reason


@pytest.mark.parametrize(
    ("join", "says"),
    [
        ("ASOF JOIN s MATCH_CONDITION (r.x = s.x)", "MATCH_CONDITION takes one comparison by >=, >, <= or <"),
        ("ASOF JOIN s MATCH_CONDITION (r.x > s.x AND r.a > 1)", "MATCH_CONDITION takes one comparison"),
        ("ASOF JOIN s MATCH_CONDITION (r.x - s.x > 0)", "an expression of one side with one of the other"),
        (
            "JOIN s APPROX NEAREST BY DISTANCE r.x / s.x",
            "by the difference of one value of each side, not by r.x / s.x",
        ),
        ("JOIN s APPROX NEAREST BY SIMILARITY LN(r.x - s.x)", "by the difference of"),
        ("JOIN s APPROX NEAREST BY DISTANCE ABS(r.x)", "by the difference of"),
        ("JOIN s APPROX NEAREST BY DISTANCE HYPOT(r.x - s.x)", "by the difference of"),
        ("JOIN s APPROX NEAREST BY DISTANCE HYPOT(r.x - s.x, r.a - s.a, r.id - s.id)", "by the difference of"),
        ("JOIN s APPROX NEAREST BY DISTANCE GREATEST(ABS(r.x - s.x))", "by the difference of"),
        ("JOIN s APPROX NEAREST BY DISTANCE CASE WHEN r.x > s.x THEN 1D ELSE 2D END", "by the difference of"),
    ],
)
def test_what_cannot_be_read_is_refused_at_once(join: str, says: str) -> None:
    with pytest.raises(UnsupportedQueryError, match=says.replace("(", r"\(")):
        rewritten(f"SELECT r.id FROM r {join}")


def test_the_hint_that_leaves_it_to_spark_is_named() -> None:
    (refused,) = rewritten(f"SELECT /*+ NO_TRIJOIN */ r.id FROM r ASOF JOIN s {LAST}").refusals
    assert (refused.reason, refused.hint) == ("an ASOF JOIN of streams: the hint NO_TRIJOIN", "leave the hint out")


def test_over_tables_it_is_sparks() -> None:
    """Also with a table on the right of a stream: Spark runs that."""
    sql = f"SELECT r.id FROM r LEFT ASOF JOIN s {LAST} ON r.a = s.a JOIN t ON r.x < t.x"
    found = rewritten(sql, catalog=BATCH)
    assert found.plan is not None
    assert "LEFT ASOF JOIN s AS s MATCH_CONDITION (r.ts >= s.ts) ON r.a = s.a" in str([n.sources for n in found.groups])  # type: ignore[union-attr]
    assert not nodes("SELECT r.id FROM r ASOF JOIN c MATCH_CONDITION (r.a >= c.id)")
    beside = nodes("SELECT r.id FROM r ASOF JOIN c MATCH_CONDITION (r.a >= c.id) JOIN s ON r.x < s.x")
    assert [one.join for one in beside] == ["inner"]


def test_spark_is_asked_for_names_without_the_words_that_it_may_not_know() -> None:
    nearest = "JOIN t APPROX NEAREST BY DISTANCE ABS(r.a - t.a)"
    sql = f"SELECT r.a + ?, s.* FROM r LEFT ASOF JOIN s {LAST} ON r.a = ? {nearest}"
    plain = "SELECT r.a + ?, s.* FROM r LEFT JOIN s ON r.a = ? JOIN t ON TRUE"
    assert with_plain_joins(sql) == plain
    assert glance(sql).joins == "inner"
    natural = with_plain_joins("SELECT * FROM r NATURAL JOIN t APPROX NEAREST BY DISTANCE ABS(r.a - t.a)")
    assert natural == "SELECT * FROM r NATURAL JOIN t", "its columns are fewer than those of both sides"


def test_strict_wants_a_tolerance_where_keys_may_be_many() -> None:
    strict = Settings(strict=True)
    with pytest.raises(NotProvenError, match=r"of s the latest row of each s\.a is kept for ever"):
        rewritten(f"SELECT r.id FROM r ASOF JOIN s {LAST} ON r.a = s.a", strict)
    assert rewritten(f"SELECT r.id FROM r ASOF JOIN s {LAST}", strict).converted, "one row"
    assert rewritten(f"SELECT r.id FROM r ASOF JOIN s {LAST} ON r.a = s.a WITHIN 1 HOUR", strict).converted


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT r.id FROM r ASOF JOIN s {LAST} ON rand() < 0.5",
        f"SELECT r.id FROM r LEFT ASOF JOIN s {LAST} ON rand() < 0.5",
    ],
)
def test_strict_refuses_one_whose_condition_is_not_read(sql: str) -> None:
    assert not rewritten(sql).converted
    with pytest.raises(NotProvenError, match="JOIN with the closest rows"):
        rewritten(sql, Settings(strict=True))


def test_explain_says_what_is_closest() -> None:
    document = rewritten(f"EXPLAIN JSON SELECT r.id FROM r ASOF JOIN s {LAST} ON r.a = s.a").document
    assert isinstance(document, Document)
    (group,) = document.groups
    assert (group.join, group.closest) == ("closest", LAST)
    assert [one.kept for one in group.state.streams] == ["0 seconds", "0 seconds, then the latest row of each s.a"]
    assert as_object(document)["groups"][0]["closest"] == LAST


@pytest.mark.parametrize(
    ("join", "time", "lag"),
    [
        ("JOIN s APPROX NEAREST BY DISTANCE ABS(r.x - s.x)", "r.ts", 3600),
        ("JOIN s APPROX NEAREST BY DISTANCE ABS(r.x - s.x)", "s.ts", 7200),  # an hour before r, which waits an hour
        ("ASOF JOIN s MATCH_CONDITION (r.x >= s.x)", "s.ts", 7200),
        (f"ASOF JOIN s {LAST}", "s.ts", 3600),
        ("ASOF JOIN s MATCH_CONDITION (r.ts <= s.ts)", "s.ts", 0),  # it comes when the watermark has passed it
    ],
)
def test_what_a_window_above_waits_for(join: str, time: str, lag: int) -> None:
    found = node(f"SELECT COUNT(*) FROM r {join} GROUP BY window({time}, '1 minute') WITHIN 1 HOUR")
    assert (found.event_times, found.held_back) == ((time.replace(".", "__"),), lag * 1_000_000)


def test_a_number_of_days_is_a_difference() -> None:
    found = node("SELECT r.id FROM r JOIN s APPROX NEAREST BY DISTANCE ABS(datediff(r.d, s.ts)) WITHIN 1 HOUR").closest
    assert found is not None
    assert (found.left.sql, found.right.sql) == ("unix_date(CAST(r.d AS DATE))", "unix_date(CAST(s.ts AS DATE))")


def test_nearest_is_no_cross_product() -> None:
    """Its distance connects both sides, and it takes no ON: else strict mode could take none at all."""
    sql = "SELECT r.id FROM r JOIN s APPROX NEAREST BY DISTANCE ABS(r.x - s.x) WITHIN 1 HOUR"
    assert not [one for one in rewritten(sql, Settings(strict=True)).advice if "PRODUCT" in one]


def test_what_units_do_not_order_says_so_beside_within() -> None:
    distance = "ABS(CAST(r.x AS DECIMAL(30, 2)) - CAST(s.x AS DECIMAL(30, 2)))"
    with pytest.raises(UnsupportedQueryError, match="units do not order decimal") as refused:
        rewritten(f"SELECT r.id FROM r JOIN s APPROX NEAREST BY DISTANCE {distance} WITHIN 1 HOUR")
    assert refused.value.hint == "compare expressions of one side each, of types that are numbers or times"


def test_what_waits_for_ever_keeps_what_it_finds_for_ever() -> None:
    """``s`` itself is bounded: no row of ``r`` is later. But units keep it for as long as a row of ``r`` waits."""
    join = node("SELECT 1 AS o FROM r ASOF JOIN s MATCH_CONDITION (r.x >= s.x) ON r.ts <= s.ts")
    assert [(one.alias, one.keep_for) for one in join.retention] == [("r", None), ("s", None)]
    assert {one.why for one in join.retention} == {"nothing says how much later s may be"}
