"""Our SQL is read, and Spark's comes out with the same meaning."""

from __future__ import annotations

import pytest
from sqlglot import exp
from trijoin_sql.rewriter.sql.dialect import parse_expression, quote, render
from trijoin_sql.rewriter.sql.hints import for_spark
from trijoin_sql.rewriter.sql.intervals import interval_microseconds
from trijoin_sql.rewriter.sql.statement import View, parse_statement, without_online

from trijoin_sql.errors import SqlSyntaxError


def spark(sql: str) -> str:
    tree = parse_statement(sql).tree
    assert tree is not None
    return render(tree)


def test_stream_and_watermark_stand_before_the_alias() -> None:
    """sqlglot's own spark dialect reads ``STREAM t`` as a table named STREAM with the alias t."""
    sql = "SELECT * FROM STREAM r WATERMARK ts DELAY OF INTERVAL '10' SECONDS AS q"
    assert spark(sql) == sql


def test_a_delay_of_several_units_is_written_as_spark_reads_it() -> None:
    """sqlglot makes a sum of it, for which Spark has no place behind DELAY OF."""
    sql = "SELECT * FROM r WATERMARK ts DELAY OF INTERVAL '1' DAY '2' HOURS '3' MINUTES AS q"
    assert spark(sql.replace("'", "")) == sql
    assert spark(sql) == sql


def test_within_ends_the_where_clause_and_is_not_for_spark() -> None:
    for clause in (
        "WITHIN 10 MINUTES",
        "WITHIN INTERVAL 10 MINUTES",
        "within interval '10' minute",
        "WITHIN INTERVAL 9 MINUTES 60 SECONDS",
    ):
        statement = parse_statement(f"SELECT a FROM r, s WHERE r.a < s.a {clause} GROUP BY a")
        assert statement.tree is not None
        assert interval_microseconds(statement.tree.args["within"]) == 600_000_000
        assert render(statement.tree) == "SELECT a FROM r CROSS JOIN s WHERE r.a < s.a GROUP BY a"


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("SELECT  a,b FROM r JOIN s ON r.a<s.a WITHIN 1 DAY;", "SELECT  a,b FROM r JOIN s ON r.a<s.a             ;"),
        ("SELECT /*+ UNITS(2) */ a FROM r , s\nWITHIN 1\nDAY", "SELECT                 a FROM r , s\n        \n   "),
        # where a hint of Spark's stands beside ours, the text is written anew
        ("SELECT /*+ UNITS(2), BROADCAST(r) */ a FROM r, s", "SELECT /*+ BROADCAST(r) */ a FROM r CROSS JOIN s"),
    ],
)
def test_spark_reads_the_users_own_text(sql: str, left: str) -> None:
    """What sqlglot reads more generously than Spark is Spark's to refuse, at its place in the text."""
    assert for_spark(parse_statement(sql)) == left


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT text, json, number, uuid(), bit, date, blob.x FROM text, json",
        "SELECT CAST(a AS STRUCT<x: INT, y: ARRAY<MAP<STRING, VARCHAR(3)>>>), b::BIGINT, arr[0], m['[k]'] FROM t",
        "SELECT DATE '2024-02-29', TIMESTAMP '2024-02', DATE 'today', TIMESTAMP '2024-02-29T24:00:00' FROM t",
        "SELECT '‘', \"’\", `“` FROM t",
    ],
)
def test_what_spark_reads_too_is_read(sql: str) -> None:
    assert parse_statement(sql).tree is not None


def test_within_stays_a_name_elsewhere() -> None:
    assert spark("SELECT within FROM t WHERE within > 3") == "SELECT within FROM t WHERE within > 3"
    group = "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM t"
    assert spark(group) == group


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT Date_Add(ts, 3), to_date(n, 'yyyy'), LOG(x), nvl(a, b) FROM t",
        "SELECT timestampadd(HOUR, 3, ts) FROM t",
        "SELECT window(ts, '5 minutes').start FROM t",
        "SELECT transform(arr, x -> x + 1)[0], m['k'], exists(arr, x -> x > 1) FROM t",
        "SELECT first(x) IGNORE NULLS, count(DISTINCT a, b), sum(x) FILTER(WHERE y > 1) FROM t",
        "SELECT a DIV b, a % b, a <=> b, n RLIKE 'x' IS NULL, array_contains(a, 1) FROM t",
        "SELECT * EXCEPT (x), t.* FROM t",
        "SELECT a FROM t LATERAL VIEW OUTER explode(x) tt AS u WHERE d = :name",
        "SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), ()) HAVING count(*) > 1",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
    ],
)
def test_what_we_do_not_interpret_comes_out_as_it_was_written(sql: str) -> None:
    """sqlglot would rename functions (nvl, to_date, log) and swap arguments; Spark has to see the user's."""
    expected = sql.replace("n RLIKE 'x' IS NULL", "REGEXP_LIKE(n, 'x') IS NULL").replace("timestampadd", "TIMESTAMPADD")
    expected = expected.replace("Date_Add", "DATE_ADD")
    assert spark(sql) == expected


def test_the_alias_after_values_is_that_of_the_table() -> None:
    """sqlglot takes it for a name of the last value, if that has no parentheses."""
    assert spark("SELECT * FROM VALUES 1, 2 AS v(x)") == "SELECT * FROM VALUES (1), (2) AS v(x)"
    assert spark("SELECT * FROM VALUES 1, 2 + 1 v") == "SELECT * FROM VALUES (1), (2 + 1) AS v"


def test_a_doubled_quote_is_one_quote() -> None:
    """Since Spark 4.0 ``'it''s'`` is ``it's``, before it was ``its``."""
    assert parse_expression("'it''s'").name == "it's"


def test_a_right_join_after_a_comma_knows_only_its_own_side() -> None:
    statement = parse_statement("SELECT 1 FROM a, b RIGHT JOIN c ON b.x = c.x")
    assert statement.tree is not None
    assert [join.meta.get("comma", False) for join in statement.tree.args["joins"]] == [True, False]


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [
        ("SELECT a FROM t WHERE (x = ", 1, 26),
        ("SELECT a\nFROM t WHER x = 1", 2, 13),
        ("SELECT 'abc", 1, 8),
        ("SELECT. 1.5BD FROM t", 1, 9),  # sqlglot reads the number 0.1.5
        ("SELECT a,\n  `b FROM t", 2, 3),
        ("SELECT a /* no end", 1, 10),
        ("SELECT 1; SELECT 2", 1, 9),
        # sqlglot takes them for r JOIN (s JOIN t); Spark refuses them
        ("SELECT 1 FROM r JOIN s JOIN t ON s.a < t.a ON r.a < s.a", 1, 55),
        ("SELECT 1 FROM r JOIN STREAM s JOIN t ON s.a < t.a ON r.a < s.a", 1, 62),
        ("", 1, 1),
        ("CREATE TEMPORARY VIEW v AS", 1, 27),
        ("CREATE TEMPORARY VIEW v\nAS ;", 2, 3),
        ("EXPLAIN JSON ;", 1, 13),
    ],
)
def test_a_syntax_error_says_where(sql: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(sql)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert "class '" not in str(caught.value)
    assert "Token" not in str(caught.value)


@pytest.mark.parametrize("length", ["-5 MINUTES", "5 MINUTS", "", "INTERVAL -5 MINUTES", "x MINUTES", "10"])
@pytest.mark.parametrize("join", ["r JOIN s ON r.a < s.a", "r, s"])
def test_what_is_no_length_of_time_for_within_is_said(join: str, length: str) -> None:
    if join == "r, s" and not length:
        return  # an alias
    with pytest.raises(SqlSyntaxError, match="WITHIN takes a length of time such as 10 MINUTES") as caught:
        parse_statement(f"SELECT 1 FROM {join} WITHIN {length}")
    assert caught.value.column - len(f"SELECT 1 FROM {join} ") in range(1, 20)


@pytest.mark.parametrize(
    ("interval", "says"),
    [("5", "INTERVAL has no unit"), ("'5'", "INTERVAL has no unit"), ("5 MINUTS", "INTERVAL has no unit MINUTS")],
)
def test_an_interval_without_a_unit_is_said(interval: str, says: str) -> None:
    with pytest.raises(SqlSyntaxError, match=says) as caught:
        parse_statement(f"SELECT r.a FROM r JOIN s ON r.ts < s.ts + INTERVAL {interval}")
    assert caught.value.column in range(53, 62)
    for fine in ("'5' MINUTE", "5 MINUTES", "'1 day 2 hours'", "'1 02' DAY TO HOUR", "-5 DAYS", "'-5' YEAR"):
        parse_statement(f"SELECT r.a FROM r JOIN s ON r.ts < s.ts + INTERVAL {fine}")


def test_a_view_without_a_query_is_not_two_statements() -> None:
    with pytest.raises(SqlSyntaxError, match="a query is missing"):
        parse_statement("CREATE TEMPORARY VIEW v AS ;")


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1", "select"),
        ("WITH q AS (SELECT 1) SELECT * FROM q;", "select"),
        ("(SELECT 1) UNION ALL (SELECT 2)", "select"),
        ("EXPLAIN MERMAID SELECT 1", "explain"),
        ("explain select 1", "explain"),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT 1", "create_view"),
        ("CREATE GLOBAL TEMPORARY VIEW v (a, `b c`) AS SELECT 1, 2", "create_view"),
        ("CREATE TEMPORARY VIEW v (a COMMENT 'first') AS SELECT 1", "other"),
        ("EXPLAIN EXTENDED SELECT 1", "other"),
        ("CREATE TABLE t AS SELECT 1", "other"),
        ("INSERT INTO t SELECT 1", "other"),
        ("SET x = 1", "other"),
        ("SHOW TABLES", "other"),
    ],
)
def test_statements_that_are_not_ours_are_not_looked_into(sql: str, kind: str) -> None:
    assert parse_statement(sql).kind == kind


def test_a_view_is_what_it_declares() -> None:
    statement = parse_statement("CREATE OR REPLACE GLOBAL TEMP VIEW `my view` (a, `b c`) AS SELECT 1, 2")
    assert statement.view == View("`my view`", replace=True, everywhere=True, columns=("a", "b c"))
    assert parse_statement("CREATE TEMP VIEW v AS SELECT 1").view == View("v")


def test_names_are_quoted_where_they_must_be() -> None:
    assert [quote(n) for n in ("a", "A_1", "1a", "Größe", "select", "x y", "a`b")] == [
        "a",
        "A_1",
        "`1a`",
        "`Größe`",
        "`select`",
        "`x y`",
        "`a``b`",
    ]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("INTERVAL 90 SECONDS", 90_000_000),
        ("INTERVAL '1.5' SECOND", 1_500_000),
        ("-INTERVAL '2' HOUR", -7_200_000_000),
        ("INTERVAL '-5' MINUTE", -300_000_000),
        ("INTERVAL '1' MONTH", None),
        ("INTERVAL '1 02' DAY TO HOUR", None),
        ("r.a", None),
    ],
)
def test_intervals_that_have_one_length(text: str, micros: int | None) -> None:
    assert interval_microseconds(parse_expression(text)) == micros


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a = b < c", "(a = b) < c"),
        ("NOT a = b < c", "NOT (a = b) < c"),
        ("a < b IS NULL", "(a < b) IS NULL"),
        ("a = b IN (TRUE)", "(a = b) IN (TRUE)"),
        ("1 | a << 2 & 3 ^ 4", "1 | SHIFTLEFT(a, 2) & 3 ^ 4"),
        ("a >>> 1 > 3", "shiftrightunsigned(a, 1) > 3"),
        ("-128Y + -32768S - -9223372036854775808L", "-128Y + -32768S - -9223372036854775808L"),
        ("a > DATE 'today'", "a > DATE 'today'"),
        ("a * 2L - 3S + 1.5F", "a * 2L - 3S + 1.5F"),
        ("-1::string", "CAST((-1) AS STRING)"),
        ("- 1L", "-1L"),
        ("+a - +2", "positive(a) - positive(2)"),
        ("a - INTERVAL 1 DAY 2 HOURS", "a - (INTERVAL '1' DAY + INTERVAL '2' HOURS)"),
        ("a + INTERVAL 1 DAY + 1", "a + INTERVAL '1' DAY + 1"),
        ("a + INTERVAL 1 DAY + 2 * INTERVAL 1 HOUR", "a + INTERVAL '1' DAY + 2 * INTERVAL '1' HOUR"),
        ("CAST(a AS TIME) > b", "CAST(a AS TIME) > b"),
    ],
)
def test_operators_bind_as_tightly_as_in_spark(text: str, same: str) -> None:
    """Comparisons do so alike, shifts between sums and ``&``; what is read otherwise elsewhere has parentheses."""
    tree = parse_expression(text)
    assert render(tree) == same
    assert render(parse_expression(same)) == same


def test_bits_are_grouped_as_in_spark() -> None:
    assert isinstance(parse_expression("1 | a << 2"), exp.BitwiseOr)
    assert isinstance(parse_expression("a & 3 | b & c << 1 ^ d"), exp.BitwiseOr)
    tree = parse_expression("a || b + c")
    assert isinstance(tree, exp.Add)
    assert isinstance(tree.this, exp.DPipe)


def test_a_timestamp_without_time_zone_has_none() -> None:
    """sqlglot takes it for a TIMESTAMP, which has the session's."""
    same = "SELECT CAST(a AS TIMESTAMP_NTZ) FROM r"
    assert spark("SELECT CAST(a AS TIMESTAMP WITHOUT TIME ZONE) FROM r") == same
    assert spark("SELECT a::timestamp without time zone FROM r") == same


@pytest.mark.parametrize(
    ("sql", "bare"),
    [
        ("SELECT ONLINE R.a2, sum(S.b2) FROM R, S", "SELECT        R.a2, sum(S.b2) FROM R, S"),
        ("select online * from r", "select        * from r"),
        ("SELECT online FROM r", "SELECT online FROM r"),
        ("SELECT online , x FROM r", "SELECT online , x FROM r"),
        ("SELECT 'SELECT ONLINE x' FROM r", "SELECT 'SELECT ONLINE x' FROM r"),
    ],
)
def test_select_online_is_bistreams_word(sql: str, bare: str) -> None:
    assert without_online(sql) == bare


@pytest.mark.parametrize(
    "words",
    ["RIGHT ANTI", "RIGHT SEMI", "FULL SEMI", "LEFT INNER", "NATURAL RIGHT ANTI", "ASOF LEFT SEMI", "STRAIGHT_JOIN"],
)
def test_joins_of_other_engines_are_no_joins(words: str) -> None:
    """sqlglot reads RIGHT ANTI, which would have run as LEFT ANTI."""
    on = "" if "NATURAL" in words else " ON r.a = s.a"
    with pytest.raises(SqlSyntaxError, match=f"Spark has no {words} join") as caught:
        parse_statement(f"SELECT *\nFROM r {words} {'' if words == 'STRAIGHT_JOIN' else 'JOIN '}s{on}")
    assert (caught.value.line, caught.value.column) == (2, 8)


@pytest.mark.parametrize(
    "side", ["", "INNER", "LEFT", "LEFT OUTER", "RIGHT OUTER", "FULL", "SEMI", "LEFT SEMI", "ANTI"]
)
def test_joins_of_spark_are_joins(side: str) -> None:
    assert spark(f"SELECT * FROM r {side} JOIN s ON r.a = s.a".replace("  ", " ")).startswith("SELECT * FROM r ")
