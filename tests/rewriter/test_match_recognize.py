"""MATCH_RECOGNIZE is refused by name, and the joins that the message names run and forget their rows."""

from __future__ import annotations

import re

import pytest
from trijoin_sql.rewriter.sql.match_recognize import match_recognize
from trijoin_sql.rewriter.sql.statement import parse_statement

from trijoin_sql.errors import SqlSyntaxError

from .tables import node

STEPS = "FROM r AS a JOIN r AS b ON b.n = a.n AND b.ts > a.ts WITHIN 10 MINUTES"


@pytest.mark.parametrize(
    ("relation", "clause", "joins"),
    [
        ("r", "PARTITION BY n ORDER BY ts MEASURES a.x AS x PATTERN (a b+) DEFINE b AS b.x > a.x", STEPS),
        ("r", "PARTITION BY n ORDER BY ts PATTERN (up+) DEFINE up AS up.x > PREV(up.x)", STEPS),  # one name: no steps
        ("(SELECT * FROM s)", "PARTITION BY n ORDER BY ts PATTERN ((a | b)* )", STEPS),  # without a name
        (
            "s",
            "PARTITION BY id, a ORDER BY ts PATTERN (p q{2} p u v) SUBSET w = (p, q) DEFINE q AS q.x > 1",
            "FROM s AS p JOIN s AS q ON q.id = p.id AND q.a = p.a AND q.ts > p.ts "
            "JOIN s AS u ON u.id = q.id AND u.a = q.a AND u.ts > q.ts WITHIN 10 MINUTES",
        ),
        ("s JOIN r", "ORDER BY ts PATTERN (a b)", "FROM r AS a JOIN r AS b ON b.ts > a.ts WITHIN 10 MINUTES"),
    ],
)
def test_the_joins_that_it_names_run(relation: str, clause: str, joins: str) -> None:
    """A message whose advice is refused in turn would be worse than none."""
    sql = f"SELECT m.x\nFROM {relation} MATCH_RECOGNIZE ({clause}) AS m"
    with pytest.raises(SqlSyntaxError, match="Spark has no MATCH_RECOGNIZE") as refused:
        parse_statement(sql)
    assert (refused.value.line, refused.value.column) == (2, len(f"FROM {relation} ") + 1)
    assert f"for each step, {joins}, and NOT EXISTS" in refused.value.detail
    assert "docs/sequences.md" in refused.value.detail
    alias = re.findall(r" AS (\w+)", joins)[0]
    found = node(f"SELECT {alias}.id {joins}")
    assert all(kept.keep_for is not None for kept in found.retention)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'MATCH_RECOGNIZE (ORDER BY ts)' AS x FROM r /* MATCH_RECOGNIZE (PATTERN (a)) */",
        "SELECT * FROM r AS `match_recognize` (ORDER BY ts)",
        "SELECT match_recognize(r.x) FROM r",
    ],
)
def test_words_that_are_no_clause_are_left_alone(sql: str) -> None:
    assert match_recognize(sql) is None
