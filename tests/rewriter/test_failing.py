"""Which expressions may raise errors, and what is computed for every row in their place."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.plan.expr import Expr
from trijoin_sql.rewriter.sql.expressions import parsed
from trijoin_sql.rewriter.sql.failing import may_fail, tried

TYPES = {"a": "int", "n": "string", "x": "double", "m": "decimal(10,2)", "ts": "timestamp", "d": "date"}
TYPES |= {"arr": "array<int>", "map": "map<string,int>"}


def read(text: str) -> Expr:
    return parsed(text, lambda column: TYPES[column.name])


@pytest.mark.parametrize(
    ("text", "form", "fails"),
    [
        ("CAST(r.n AS INT)", "TRY_CAST(r.n AS INT)", "(NOT (r.n) IS NULL AND TRY_CAST(r.n AS INT) IS NULL)"),
        ("double(r.n)", "TRY_CAST(r.n AS DOUBLE)", "(NOT (r.n) IS NULL AND TRY_CAST(r.n AS DOUBLE) IS NULL)"),
        ("r.x / (r.a - 1)", "r.x / NULLIF((r.a - 1), 0)", "(r.a - 1) = 0"),
        ("1 + r.a % r.a", "1 + r.a % NULLIF(r.a, 0)", "r.a = 0"),
        (
            "array(1)[r.a]",
            "GET(ARRAY(1), r.a)",
            "(NOT (ARRAY(1)) IS NULL AND NOT (r.a) IS NULL AND GET(ARRAY(1), r.a) IS NULL)",
        ),
        ("r.arr[0]", "GET(r.arr, 0)", "(NOT (r.arr) IS NULL AND GET(r.arr, 0) IS NULL)"),
        (
            "CAST(r.n AS INT) / r.a",
            "TRY_CAST(r.n AS INT) / NULLIF(r.a, 0)",
            "r.a = 0 OR (NOT (r.n) IS NULL AND TRY_CAST(r.n AS INT) IS NULL)",
        ),
        (
            "to_date(r.n, 'yyyy')",
            "TRY_TO_DATE(r.n, 'yyyy')",
            "(NOT (r.n) IS NULL AND TRY_TO_DATE(r.n, 'yyyy') IS NULL)",
        ),
    ],
)
def test_what_fails_is_null_instead(text: str, form: str, fails: str) -> None:
    found = tried(read(text))
    assert found is not None
    assert (found[0].sql, set(found[1].sql.split(" OR "))) == (form, set(fails.split(" OR ")))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "r.a + 1",
            "CAST(r.a AS BIGINT)",
            "CAST(r.m AS DOUBLE)",
            "CAST(r.ts AS DATE)",
            "date(r.ts)",
            "CAST('5' AS INT)",
        ),
        *("r.x / 2", "TRY_CAST(r.n AS INT)", "r.map['k']", "element_at(r.map, 'k')", "CAST(r.x AS STRING)"),
        "CASE WHEN r.a > 0 THEN CAST(r.n AS INT) END",
    ],
)
def test_what_does_not_fail_stays(text: str) -> None:
    """Neither does what the user guards."""
    assert tried(read(text)) is None


def test_a_cast_of_every_value_raises_nothing() -> None:
    for text in ("CAST(r.ts AS DATE)", "CAST(r.d AS TIMESTAMP)", "CAST(r.m AS DOUBLE)", "CAST(r.a AS FLOAT)"):
        assert not may_fail(read(text))
    for text in ("CAST(r.x AS INT)", "CAST(r.n AS DATE)", "CAST(r.m AS INT)", "CAST(r.ts AS INT)"):
        assert may_fail(read(text))
