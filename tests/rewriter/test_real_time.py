"""What EXPLAIN says about the trigger ``realTime``, and what it refuses."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.real_time import real_time_refusal, real_time_sentence

from .tables import rewritten

INNER = "SELECT r.id FROM r JOIN s ON ABS(r.a - s.a) < 3 AND r.ts BETWEEN s.ts AND s.ts + INTERVAL 1 HOUR"


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (INNER, "real time: yes, as matrix in 1 cell. "),
        (INNER.replace("SELECT", "SELECT /*+ SCHEME('matrix'), UNITS(4) */"), "in 4 cells. "),
        (f"{INNER} JOIN t ON s.a < t.a", "at least 4 tasks must run at once"),
        (INNER.replace("JOIN", "LEFT JOIN"), "real time: no. LEFT joins wait for the watermark"),
        ("SELECT r.id, COUNT(*) AS n FROM r JOIN s ON ABS(r.a - s.a) < 3 GROUP BY r.id", "NO_UNIT_AGGREGATE"),
        (INNER.replace("SELECT", "SELECT /*+ NO_TRIJOIN */"), "real time: no. Spark would run a join of it"),
        ("SELECT r.id FROM r", "it has no join of ours"),
    ],
)
def test_explain_says_whether_and_how(sql: str, says: str) -> None:
    assert says in real_time_sentence(rewritten(sql))


def test_joins_above_one_another_are_refused() -> None:
    sql = f"WITH j AS (SELECT id, COUNT(*) AS a FROM ({INNER}) GROUP BY id) SELECT j.id FROM j JOIN t ON j.a < t.a"
    refusal = real_time_refusal(rewritten(sql))
    assert refusal is not None
