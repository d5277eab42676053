"""Products and casts that their writer probably does not mean: said where a query is planned."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.declarations import read_script

COLUMNS = "(id INT, x DOUBLE, name STRING, ts TIMESTAMP)"
CATALOG, _ = read_script(
    "".join(f"CREATE STREAM {name} {COLUMNS} WATERMARK ts DELAY OF INTERVAL 1 SECOND;" for name in "rst")
    + f"CREATE TABLE p {COLUMNS};CREATE TABLE q {COLUMNS}"
)


def cautions(from_: str) -> tuple[str, ...]:
    return rewrite(f"SELECT 1 AS one FROM {from_}", CATALOG).cautions


@pytest.mark.parametrize(
    ("from_", "says"),
    [
        ("r CROSS JOIN s", "CROSS PRODUCT: no condition compares r with s, so every pair of their rows is made; add"),
        ("r, s WITHIN 1 MINUTE", "every pair of their rows WITHIN '1' MINUTE is made"),
        ("r JOIN s ON r.x > 3", "CROSS PRODUCT: no condition compares r with s"),
        ("r JOIN s ON r.x = s.x OR r.name LIKE s.name", "only r.x = s.x OR r.name LIKE s.name compares r with s"),
        ("r JOIN s ON r.x = s.x OR r.name LIKE s.name", "write one SELECT for each side of OR"),
        ("r JOIN s ON r.name LIKE s.name", "and then tested; add an equality"),
        ("r JOIN s ON r.id = s.id, t", "CROSS PRODUCT: no condition compares r and s with t"),
        ("r JOIN s ON r.name < s.x", "r.name is a STRING and s.x is not: Spark casts the text to DOUBLE"),
        ("r JOIN s ON s.id = r.name", "no whole number; write TRY_CAST(r.name AS BIGINT)"),
        ("r JOIN s ON r.name >= s.ts", "write TRY_CAST(r.name AS TIMESTAMP)"),
        ("r JOIN s ON r.id < s.id AND r.name IN (1, 2)", "r.name IN (1, 2) compares it with a number"),
        ("r JOIN s ON r.id < s.id AND s.name > -3", "write TRY_CAST(s.name AS DOUBLE), or the number as a text"),
    ],
)
def test_it_is_said(from_: str, says: str) -> None:
    (said,) = cautions(from_)
    assert says in said
    assert said in rewrite(f"SELECT 1 AS one FROM {from_}", CATALOG).document.advice


@pytest.mark.parametrize(
    "from_",
    [
        "r JOIN s ON r.id = s.id",
        "r JOIN s ON ABS(r.x - s.x) < 5 WITHIN 1 MINUTE",
        "r JOIN s ON r.id = s.id AND (r.x = s.x OR r.name LIKE s.name)",
        "r JOIN s ON r.x = s.x OR r.id = s.id",
        "r JOIN s ON r.ts BETWEEN s.ts AND s.ts + INTERVAL 1 MINUTE",
        "r JOIN s ON r.name = s.name",
        "r JOIN s ON r.id < s.id AND r.name IN ('1', '2') AND r.id > 3",
        "r JOIN s ON TRY_CAST(r.name AS DOUBLE) < s.x",
        "r JOIN s ON CAST(r.name AS DOUBLE) < s.x",
        "p CROSS JOIN q",  # tables end
    ],
)
def test_and_nothing_else_is(from_: str) -> None:
    assert cautions(from_) == ()


@pytest.mark.parametrize(
    ("on", "refused"),
    [
        ("r.id = s.id", True),
        ("r.id = s.id AND r.x < s.x", True),
        ("r.id = s.id AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 MINUTE", False),
        ("r.ts = s.ts", False),
        ("r.id = s.id AND date_trunc('HOUR', r.ts) = date_trunc('HOUR', s.ts)", False),  # Spark knows better
    ],
)
def test_an_outer_join_without_a_bound_in_event_time_is_refused_with_the_condition_that_is_missing(
    on: str, refused: bool
) -> None:
    for kind in ("LEFT", "RIGHT", "FULL", "LEFT SEMI"):
        found = rewrite(f"SELECT 1 AS one FROM r {kind} JOIN s ON {on}", CATALOG).refusals
        assert [f"the {kind} JOIN of streams has no bound" in one.reason for one in found] == [True] * refused
        assert all("AND s.ts BETWEEN r.ts" in one.hint for one in found)


@pytest.mark.parametrize("hint", ["UNITS(4)", "SCHEME('matrix')"])
def test_a_hint_that_is_a_comment_is_said(hint: str) -> None:
    said = rewrite(f"SELECT r.id /*+ {hint} */ FROM r JOIN s ON r.x < s.x", CATALOG).cautions
    assert [one.partition(" stands")[0] for one in said] == [f"the hint {hint.partition('(')[0]}"]
    for right in (
        f"SELECT /*+ {hint} */ r.id",
        f"SELECT /*+ BROADCAST(r) */ /*+ {hint} */ r.id",
        "SELECT '/*+ UNITS */'",
    ):
        assert rewrite(f"{right} FROM r JOIN s ON r.x < s.x", CATALOG).cautions == ()
