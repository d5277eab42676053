"""HISTORY in a statement's text: what is a clause and what a name; the parser sees the stream alone, at its place."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.declarations import read_script
from trijoin_sql.rewriter.sql.statement import parse_statement, read_histories

from trijoin_sql.errors import SqlSyntaxError


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT * FROM r HISTORY old.r", [("r", "old.r", False)]),
        ("SELECT * FROM r HISTORY a.r AS a, s HISTORY csv.`x y` b", [("r", "a.r", True), ("s", "csv.`x y`", True)]),
        ("SELECT * FROM r HISTORY a JOIN s HISTORY `b c` WITHIN 1 MINUTE", [("r", "a", False), ("s", "`b c`", False)]),
        (
            "SELECT * FROM r WATERMARK ts DELAY OF INTERVAL 10 SECONDS HISTORY old UNTIL '2026-01-01' first",
            [("r WATERMARK ts DELAY OF INTERVAL 10 SECONDS", "old UNTIL TIMESTAMP '2026-01-01'", True)],
        ),
        ("SELECT * FROM STREAM a.b HISTORY old LEFT JOIN s ON true", [("STREAM a.b", "old", False)]),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM r HISTORY old UNTIL TIMESTAMP '2026-01-01'",
         [("r", "old UNTIL TIMESTAMP '2026-01-01'", False)]),
        ("SELECT history, a history FROM history h JOIN a.history JOIN x AS history ON true", []),
        ("SELECT * FROM r history WHERE history.x > 3", []),
        ("SELECT * FROM r history WITHIN 1 MINUTE", []),
        ("SELECT * FROM r history JOIN s ON true", []),
        ("SELECT 'FROM r HISTORY s' FROM r `history`", []),
        ("DESCRIBE HISTORY r", []),
        ("SELECT history FROM r WHERE history IS NOT NULL ORDER BY x, history DESC", []),
        ("SELECT x FROM r JOIN s ON history IS NULL GROUP BY history", []),
        ("SELECT x, INTERVAL history DAY FROM r ORDER BY history ASC", []),
        ("SELECT x, CASE history WHEN 1 THEN 2 END, f(x, NOT history IS NULL) FROM r", []),
        ("SELECT * FROM (SELECT a, b FROM q WHERE a IN (1, 2)) x, r HISTORY old, s", [("r", "old", False)]),
        ("SELECT * FROM q JOIN p ON q.a = f(p.a, 1), r HISTORY old AS b", [("r", "old", True)]),
    ],
)  # fmt: skip
def test_what_is_a_clause(sql: str, found: list[tuple[str, str, bool]]) -> None:
    assert [(one.stream.text, str(one), one.aliased) for one in read_histories(sql)] == found


def test_the_parser_sees_the_stream_alone_at_its_place() -> None:
    statement = parse_statement("SELECT t.a FROM r HISTORY\nold AS t WHERE t.a > 3")
    assert statement.sql == "SELECT t.a FROM r        \n    AS t WHERE t.a > 3"
    assert statement.written == "SELECT t.a FROM r HISTORY\nold AS t WHERE t.a > 3"


@pytest.mark.parametrize(
    ("sql", "said", "column"),
    [
        ("SELECT * FROM r AS a HISTORY old", "right behind the name of a stream and its WATERMARK", 22),
        ("SELECT * FROM (SELECT * FROM r) HISTORY old", "was not expected here", 41),
        ("SELECT * FROM r HISTORY old UNTIL 5", "UNTIL takes a time", 35),
        ("SELECT * FROM r HISTORY old UNTIL TIMESTAMP", "UNTIL takes a time", 44),
    ],
)
def test_mistakes_have_their_place(sql: str, said: str, column: int) -> None:
    with pytest.raises(SqlSyntaxError, match=said) as caught:
        parse_statement(sql)
    assert caught.value.column == column


def test_explain_names_the_table() -> None:
    catalog, (sql,) = read_script(
        "CREATE STREAM r (x INT, ts TIMESTAMP) USING json OPTIONS (path 'r') WATERMARK ts DELAY OF INTERVAL 9 SECONDS;"
        "CREATE STREAM s (x INT, ts TIMESTAMP) USING json OPTIONS (path 's') WATERMARK ts DELAY OF INTERVAL 9 SECONDS;"
        "SELECT r.x FROM r HISTORY old.r JOIN s ON r.x < s.x WITHIN 1 MINUTE"
    )
    made = rewrite(sql, catalog)
    assert made.converted
    assert made.sql == sql
    assert "r begins with the rows of old.r" in made.advice
