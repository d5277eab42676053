"""A glance sees every join that parsing sees, and costs nothing where there is none."""

from __future__ import annotations

import random

import pytest
from sqlglot import exp
from trijoin_sql.rewriter import glance as module
from trijoin_sql.rewriter.glance import glance, tries_pairs
from trijoin_sql.rewriter.sql.declarations import read_script
from trijoin_sql.rewriter.sql.statement import parse_statement

from trijoin_sql.errors import SqlSyntaxError

from .goldens import queries
from .random_queries import random_query


def has_inner_join(sql: str) -> bool:
    tree = parse_statement(sql).tree
    return tree is not None and any(not j.side and j.kind not in ("SEMI", "ANTI") for j in tree.find_all(exp.Join))


@pytest.mark.parametrize(
    ("sql", "joins"),
    [
        ("SELECT 1", "none"),
        ("SELECT a, b FROM r WHERE (a, b) IN (SELECT x, y FROM s) ORDER BY a, b", "inner"),
        ("WITH v AS (SELECT a FROM r), w AS (SELECT a FROM s) SELECT a, 1 FROM v UNION SELECT a, 2 FROM w", "none"),
        ("SELECT 'FROM r, s JOIN t' AS x, `a JOIN b` -- FROM r, s JOIN t\nFROM r /* r JOIN s */ WHERE a = 1", "none"),
        ("SELECT EXTRACT(DAY FROM ts), 1 FROM r", "none"),
        ("SELECT * FROM r LEFT JOIN s ON r.a = s.a", "outer"),
        ("SELECT a FROM r LEFT SEMI JOIN s ON r.a = s.a", "outer"),
        ("SELECT /*+ NO_TRIJOIN */ r.a FROM r JOIN s ON r.a < s.a", "outer"),
        ("SELECT /*+ NO_TRIJOIN, COALESCE(2) */ r.a FROM (r JOIN s ON r.a < s.a)", "outer"),
        ("SELECT r.a FROM r, s", "inner"),
        ("SELECT r.a FROM r AS x (a, b), s", "inner"),
        ("SELECT a FROM (SELECT 1 AS a) AS x, s", "inner"),
        ("SELECT a FROM r WHERE a IN (SELECT 1 FROM s, t)", "inner"),
        ("select r.a from r\njoin s on true", "inner"),
        ("SELECT '\\\\', a FROM r, s WHERE a = 'x'", "inner"),
        ("SELECT /*+ NO_TRIJOIN */ a FROM r JOIN (SELECT s.b FROM s JOIN t ON s.b < t.b) ON a < b", "inner"),
        ("SELECT /*+ NO_TRIJOIN, UNITS(2) */ r.a FROM r JOIN s ON r.a < s.a", "inner"),
        ("SELECT /*+ NO_TRIJOIN */ r.a FROM r JOIN s ON r.a < s.a WITHIN 3 MINUTES", "inner"),
        ("CREATE TEMPORARY VIEW v AS SELECT /*+ NO_TRIJOIN */ r.a FROM r JOIN s ON r.a < s.a", "inner"),
        ("EXPLAIN SELECT 1", "inner"),
        ("SHOW TABLES", "none"),
    ],
)
def test_what_a_glance_sees(sql: str, joins: str) -> None:
    assert glance(sql).joins == joins


def test_spark_gets_the_text_without_our_hint() -> None:
    assert glance("SELECT  a FROM r -- mine").spark_sql == "SELECT  a FROM r -- mine"
    hinted = "SELECT /*+ NO_TRIJOIN, COALESCE(2) */ r.a FROM r JOIN s ON r.a < s.a WHERE r.b = ?"
    assert glance(hinted).spark_sql == "SELECT /*+ COALESCE(2) */ r.a FROM r JOIN s ON r.a < s.a WHERE r.b = ?"


def test_text_without_joins_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing takes milliseconds a kilobyte, which a query that is not ours should not pay."""
    monkeypatch.setattr(module, "parse_statement", lambda _: pytest.fail("it was parsed"))
    cases = ", ".join(f"CASE WHEN a > {i} THEN 'class {i}, FROM' END AS c{i}" for i in range(40))
    assert glance(f"SELECT {cases} FROM r GROUP BY a, b").joins == "none"
    assert glance("SELECT FROM WHERE").joins == "none", "Spark says what is wrong with it"


def test_no_join_is_missed() -> None:
    """In the corpus, and in random queries, their pieces cut out as well: what is passed over has none."""
    dice = random.Random(5)
    texts = [sql for query in queries() for sql in read_script(query.read_text("utf-8"))[1]]
    texts += [random_query(dice) for _ in range(200)]
    assert sum(map(has_inner_join, texts)) > 100
    for text in texts:
        cut = text[dice.randrange(len(text)) :]
        for sql in (text, cut[cut.find("SELECT") :] if "SELECT" in cut else text):
            try:
                wanted = has_inner_join(sql)
            except SqlSyntaxError:
                continue
            assert not wanted or glance(sql).joins == "inner" or "NO_TRIJOIN" in sql, sql


@pytest.mark.parametrize(
    ("on", "may"),
    [
        ("r.a < s.a", True),
        ("r.a < s.a AND r.b = 1", True),
        ("r.a < s.a AND (s.b = s.c)", True),
        ("r.a = s.a OR r.b = s.b", True),
        ("a = b", True),  # both may be columns of s
        ("r.a = s.a AND r.b < s.b", False),
        ("(r.a < s.a AND S.b <=> r.b + 1)", False),
    ],
)
def test_a_join_that_equates_nothing_tries_pairs(on: str, may: bool) -> None:
    """Otherwise EXPLAIN, which always plans, would name another join than the one that runs."""
    assert tries_pairs(parse_statement(f"SELECT * FROM r LEFT JOIN s ON {on}")) == may
