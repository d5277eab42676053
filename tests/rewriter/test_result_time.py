"""The event time of a join's results: which expressions are it, and what is said of windows over others."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.plan import JoinNode, Query, walk

from .tables import rewritten

JOIN = "FROM r JOIN s ON ABS(r.x - s.x) < 5 JOIN t ON s.x < t.x"
WITHIN = "WITHIN 1 MINUTE"


def times(sql: str) -> list[str | None]:
    """Return the event-time column of each join node that is executed."""
    plan = rewritten(sql).plan
    assert isinstance(plan, Query)
    return [node.result_time for node in walk(plan) if isinstance(node, JoinNode)]


@pytest.mark.parametrize(
    "select",
    [
        f"SELECT window(greatest(r.ts, s.ts, t.ts), '1 minute'), count(*) {JOIN} {WITHIN} GROUP BY 1",
        f"SELECT window(GREATEST(t.ts, R.TS, s.ts), '1 minute'), count(*) {JOIN} GROUP BY 1",
        f"SELECT count(*) {JOIN} {WITHIN} GROUP BY window(greatest(r.ts, s.ts, t.ts), '1 minute')",
        f"SELECT session_window(greatest(r.ts, s.ts, t.ts), '1 minute'), count(*) {JOIN} GROUP BY ALL",
        f"SELECT greatest(r.ts, s.ts, t.ts) AS at, r.id {JOIN} {WITHIN}",
        f"SELECT window(at, '1 minute'), count(*) FROM (SELECT greatest(r.ts, s.ts, t.ts) AS at {JOIN} {WITHIN}) "
        "GROUP BY 1",
        f"WITH j AS (SELECT greatest(r.ts, s.ts, t.ts) AS at {JOIN} {WITHIN}) SELECT window(at, '1 minute'), count(*) "
        "FROM j GROUP BY 1",
    ],
)
def test_the_latest_of_all_times_is_the_results_time(select: str) -> None:
    """Wherever it is written: the column of the node carries the watermark, an expression over its columns does not."""
    assert times(select) == ["__result_time"]
    assert not rewritten(select).append_refusals
    assert "greatest" not in rewritten(select).plan.sql.lower()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "select",
    [
        f"SELECT greatest(r.ts, s.ts) AS at {JOIN} {WITHIN}",
        f"SELECT greatest(r.ts, s.ts, t.ts + INTERVAL 1 SECOND) AS at {JOIN} {WITHIN}",
        f"SELECT least(r.ts, s.ts, t.ts) AS at {JOIN} {WITHIN}",
        f"SELECT greatest(r.ts, s.ts, t.ts) AS at {JOIN}",  # a NULL time: such rows are results, with nothing behind
        "SELECT greatest(r.ts, s.ts) AS at FROM r JOIN s ON r.id = s.id JOIN u ON s.id <= u.key",
    ],
)
def test_anything_else_is_not(select: str) -> None:
    """An expression that can be older than the watermark would kill the query."""
    assert set(times(select)) == {None}


@pytest.mark.parametrize(
    ("select", "reason", "hint"),
    [
        (f"SELECT window(s.ts, '1 minute'), count(*) {JOIN} {WITHIN} GROUP BY 1", "s.ts", "greatest(r.ts, s.ts, t.ts)"),
        (
            f"SELECT count(*) {JOIN} {WITHIN} GROUP BY window(greatest(r.ts, s.ts), '1 minute')",
            "r.ts, s.ts",
            "greatest(r.ts, s.ts, t.ts)",
        ),
        (
            "SELECT window(r.ts, '1 minute'), count(*) FROM r JOIN s ON r.x < s.x JOIN u ON s.id <= u.key GROUP BY 1",
            "r.ts",
            "give u a watermark",
        ),
    ],
)
def test_windows_over_other_columns_are_refused_in_append_mode(select: str, reason: str, hint: str) -> None:
    """Complete and update mode take them, so they are converted; append mode needs the sentence."""
    (refusal,) = rewritten(select).append_refusals
    assert f"a window over {reason} in append mode" in refusal.reason
    assert hint in refusal.hint
    assert any(hint in sentence for sentence in rewritten(select).advice)


def test_windows_over_a_stream_itself_are_left_alone() -> None:
    """Spark's own aggregation below the join, and one without a join, are not ours to refuse."""
    assert not rewritten("SELECT window(r.ts, '1 minute'), count(*) FROM r GROUP BY 1").append_refusals
