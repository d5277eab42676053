"""How long rows are kept: too short loses results, for ever fills the memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trijoin_sql.rewriter.event_time.bounds import Constraint, close
from trijoin_sql.rewriter.options import Settings
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.conjuncts import Band, Bounds
from trijoin_sql.rewriter.plan.nodes import JoinNode, source_scan
from trijoin_sql.rewriter.sql.declarations import read_with_places

from trijoin_sql.errors import SqlSyntaxError, UnsupportedQueryError

from .tables import node, rewritten

MINUTE = 60_000_000


def kept(sql: str) -> dict[str, int | None]:
    return {r.alias: None if r.keep_for is None else r.keep_for // MINUTE for r in node(sql).retention}


def test_bounds_are_closed_over_the_graph() -> None:
    """r and t are bounded through s; r waits for s (5 minutes) and then for t (1 minute more)."""
    sql = (
        "SELECT 1 AS o FROM r JOIN s ON s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 MINUTES "
        "JOIN t ON t.ts BETWEEN s.ts - INTERVAL 1 MINUTE AND s.ts + INTERVAL 1 MINUTE"
    )
    assert kept(sql) == {"r": 6, "s": 1, "t": 1}
    bounds = {(b.left, b.right): (b.lower, b.upper) for b in node(sql).graph.time_bounds}
    assert bounds["r", "t"] == (-MINUTE, 6 * MINUTE)


@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_no_bound_leads_past_an_input_whose_time_may_be_null(kind: str) -> None:
    """s bounds t, and r bounds s; but rows of the join below, which is Spark's, come by r.ts, which it pads."""
    near = "{}.ts BETWEEN {}.ts AND {}.ts + INTERVAL 1 MINUTE"
    below = f"FROM r {kind} JOIN s ON r.a = s.a AND {near.format('s', 'r', 'r')}"
    for above in ("JOIN", "LEFT SEMI JOIN", "LEFT JOIN"):
        result = rewritten(f"SELECT 1 AS o {below} {above} t ON s.x < t.x AND {near.format('t', 's', 's')}")
        last = result.groups[-1]
        assert isinstance(last, JoinNode)
        assert [one.keep_for for one in last.retention] == [None, None]
        assert all("r.ts may be NULL in rows of the join below" in (one.advice or "") for one in last.retention)
        never = [refusal.reason for refusal in result.refusals if "never know" in refusal.reason]
        assert len(never) == (above == "LEFT JOIN")


@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
@pytest.mark.parametrize("above", ["JOIN", "LEFT SEMI JOIN", "LEFT JOIN", "FULL JOIN"])
def test_the_time_of_an_input_is_the_first_that_is_there(kind: str, above: str) -> None:
    """Of results of ours: r.ts, or s.ts where r is padded; which of them a bound is over does not matter."""
    below = f"FROM r {kind} JOIN s ON r.a < s.a AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 MINUTE"
    for time, most in (("s.ts", 2), ("coalesce(r.ts, s.ts)", 1), ("r.ts", 1)):
        on = f"r.x < t.x AND t.ts BETWEEN {time} AND {time} + INTERVAL 1 MINUTE"
        result = rewritten(f"SELECT 1 AS o {below} {above} t ON {on}")
        last = result.groups[-1]
        assert isinstance(last, JoinNode)
        assert [one.keep_for for one in last.retention] == [most * MINUTE, 0], time
        assert not result.refusals


def test_a_one_sided_condition_keeps_one_side_for_ever_and_says_what_to_do() -> None:
    result = rewritten("SELECT 1 AS o FROM r JOIN s ON s.ts >= r.ts AND r.a < s.a")
    assert kept("SELECT 1 AS o FROM r JOIN s ON s.ts >= r.ts AND r.a < s.a") == {"r": None, "s": 0}
    (advice,) = result.advice
    assert "UNBOUNDED" in advice
    assert "s.ts <= r.ts + INTERVAL" in advice


def test_without_event_time_the_advice_is_a_watermark() -> None:
    result = rewritten("SELECT 1 AS o FROM r JOIN u ON r.id < u.key")
    assert any("u WATERMARK" in sentence for sentence in result.advice)


@pytest.mark.parametrize(
    "clauses",
    [
        "ON p.x < q.x WITHIN 1 MINUTE",
        "ON p.x < q.x AND q.ts BETWEEN p.ts - INTERVAL 1 MINUTE AND p.ts + INTERVAL 1 MINUTE",
    ],
)
def test_where_a_bound_is_written_the_advice_is_a_watermark_alone(clauses: str) -> None:
    """Another bound would change nothing; and the clause stands behind the table, not its alias."""
    ddl = "CREATE STREAM pay (x INT, ts TIMESTAMP); CREATE STREAM r (x INT, ts TIMESTAMP)"
    ddl += " WATERMARK ts DELAY OF INTERVAL 1 DAY;"
    catalog, _ = read_with_places(ddl)
    window = "SELECT window(p.ts, '1 minute'), COUNT(*)"
    for select, end in (("SELECT 1 AS o", ""), (window, " GROUP BY 1")):
        first, *others = rewrite(f"{select} FROM r AS p JOIN pay AS q {clauses}{end}", catalog).advice
        said = "q has no watermark, so the bound in time that the query has does not count"
        assert f"{said}; declare it with pay WATERMARK ts DELAY OF INTERVAL 10 SECONDS AS q" in first
        assert [one for one in (first, *others) if "bound the join" in one and "WITHIN" in clauses] == []
    (first, second) = rewrite(f"SELECT 1 AS o FROM pay AS p JOIN pay AS q {clauses}", catalog).advice
    assert "p and q have no watermark" in first
    assert first.partition(": ")[2] == second.partition(": ")[2]


@pytest.mark.parametrize(
    ("time", "bound", "says"),
    [
        (
            "greatest(r.ts, s.ts)",
            "AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 9 SECONDS",
            "as it is: GREATEST",
        ),
        ("r.ts", "", "the time of q lags without bound; bound the joins in it on both sides"),
    ],
)
def test_no_watermark_is_advised_above_a_join(time: str, bound: str, says: str) -> None:
    """Spark takes none there."""
    below = f"(SELECT r.id, r.x, {time} AS ts FROM r JOIN s ON r.x < s.x {bound})"
    sql = f"SELECT q.id FROM {below} AS q LEFT JOIN t ON q.x < t.x AND t.ts BETWEEN q.ts AND q.ts + INTERVAL 9 SECONDS"
    (refusal,) = rewritten(sql).refusals
    assert says in refusal.hint
    assert "WATERMARK" not in refusal.hint


@pytest.mark.parametrize(
    "clauses", ["WITHIN 2 MINUTES WHERE r.a > 3", "WHERE r.a > 3 WITHIN 2 MINUTES", "GROUP BY r.a WITHIN 2 MINUTES"]
)
def test_within_bounds_the_join_wherever_it_stands(clauses: str) -> None:
    assert kept(f"SELECT COUNT(*) AS n FROM r JOIN s ON r.x < s.x {clauses}") == {"r": 2, "s": 2}
    with pytest.raises(SqlSyntaxError, match="multiple 'WITHIN'"):
        kept(f"SELECT COUNT(*) AS n FROM r JOIN s ON r.x < s.x {clauses} WITHIN 1 MINUTE")


def test_equal_times_and_strict_comparisons_bound_too() -> None:
    assert kept("SELECT 1 AS o FROM r JOIN s ON r.ts = s.ts") == {"r": 0, "s": 0}
    assert kept("SELECT 1 AS o FROM r JOIN s ON s.ts > r.ts AND s.ts < r.ts + INTERVAL 2 MINUTES") == {"r": 2, "s": 0}


def test_a_shift_by_days_bounds_with_room_for_summer_time() -> None:
    """The calendar may add an hour to a day; a bound without slack would drop rows an hour too early."""
    sql = "SELECT 1 AS o FROM r JOIN s ON s.ts <= r.ts + INTERVAL 2 DAYS AND s.ts >= r.ts"
    assert kept(sql)["r"] == 3 * 24 * 60


@pytest.mark.parametrize(
    ("sql", "wide"),
    [
        ("r, s WHERE ABS(r.a - s.a) < 2 WITHIN 2 MINUTES", {"ts": True, "a": False}),
        (
            "r JOIN s ON s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 MINUTES AND ABS(r.a - s.a) < 2",
            {"ts": True, "a": False},
        ),
        ("r JOIN s ON ABS(unix_timestamp(r.ts) - unix_timestamp(s.ts)) < 60", {"ts": True}),
        # nothing expires
        ("r JOIN s ON s.ts >= r.ts - INTERVAL 1 MINUTE AND ABS(r.a - s.a) < 2", {"ts": False, "a": False}),
        # s waits for t, a hundred times longer
        (
            "r JOIN s ON ABS(r.ts - s.ts) < INTERVAL 1 MINUTE "
            "JOIN t ON t.ts BETWEEN s.ts - INTERVAL 2 HOURS AND s.ts + INTERVAL 2 HOURS AND s.a < t.a",
            {"rs": False, "st": True},
        ),
    ],
)
def test_a_band_that_most_kept_rows_lie_in_is_wide(sql: str, wide: dict[str, bool]) -> None:
    """An index on it finds nearly all that is stored: it is searched only where there is nothing else."""
    found = {}
    for edge in node("SELECT 1 AS o FROM " + sql).graph.edges:
        for predicate in edge.predicates:
            if isinstance(predicate, Band) and not (edge.derived and "t" in (edge.left, edge.right)):
                names = (edge.left + edge.right, "ts" if "ts" in predicate.left.sql else "a")
                found.update((name, predicate.bounds.wide) for name in names if name in wide)
    assert found == wide


def test_within_bounds_every_pair_and_is_evaluated() -> None:
    sql = "SELECT 1 AS o FROM r, s, t WHERE r.a < s.a AND s.a < t.a WITHIN 2 MINUTES"
    assert kept(sql) == {"r": 2, "s": 2, "t": 2}
    graph = node(sql).graph
    within = [p for e in graph.edges for p in e.predicates if isinstance(p, Band) and p.derived]
    assert [p.relations for p in within] == [("r", "s"), ("r", "t"), ("s", "t")]
    minutes = 120_000_000
    assert {p.bounds for p in within} == {Bounds("timestamp", -minutes, minutes, True, True, wide=True)}
    assert graph.shape == "chain"


def test_within_takes_the_watermark_of_the_query() -> None:
    sql = (
        "SELECT 1 AS o FROM STREAM u WATERMARK seen DELAY OF INTERVAL 1 MINUTE AS q JOIN r ON q.key < r.id "
        "WITHIN 1 MINUTES"
    )
    (edge,) = node(sql).graph.edges
    assert edge.predicates[1].left.sql == "q.seen"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS o FROM r JOIN u ON r.id < u.key WITHIN 1 MINUTES",
        "SELECT /*+ NO_TRIJOIN */ 1 AS o FROM r JOIN s ON r.id = s.id WITHIN 1 MINUTES",
        "SELECT 1 AS o FROM r WHERE r.a > 3 WITHIN 1 MINUTES",
    ],
)
def test_within_is_never_ignored(sql: str) -> None:
    """Spark does not know the clause: dropping it silently would give other rows."""
    with pytest.raises(UnsupportedQueryError, match="WITHIN"):
        rewritten(sql)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.integers(0, 50)), max_size=8))
def test_closing_gives_shortest_paths(edges: list[tuple[str, str, int]]) -> None:
    """No pair of closed constraints may imply a tighter third one, and none is looser than what was given."""
    given_ = [Constraint(a, b, w) for a, b, w in edges if a != b]
    closed = close("abcd", given_)
    for constraint in given_:
        assert closed[constraint.earlier, constraint.later] <= constraint.most
    for (a, b), first in closed.items():
        for (c, d), second in closed.items():
            if b == c and a != d:
                assert closed[a, d] <= first + second


def test_within_bounds_joins_of_any_kind() -> None:
    """Spark could not tell from the clause's condition how long a row has to wait for a partner."""
    joined = node("SELECT 1 AS o FROM r LEFT JOIN s ON r.id = s.id WITHIN 1 MINUTES")
    assert joined.join == "left"
    assert [kept.keep_for for kept in joined.retention] == [60_000_000, 60_000_000]
    sql = "SELECT 1 AS o FROM r JOIN s ON r.a < s.a LEFT JOIN t ON s.a < t.a WITHIN 1 MINUTES"
    *_, joined = (one for one in rewritten(sql).groups)
    assert isinstance(joined, JoinNode)
    (edge,) = joined.graph.edges
    assert sorted(p.left.sql for p in edge.predicates if p.derived) == ["r.s__ts", "r.ts"], "each pair of joined rows"


@pytest.mark.parametrize("kind", ["LEFT JOIN", "LEFT ANTI JOIN", "RIGHT JOIN"])
def test_the_event_time_of_a_join_of_streams_comes_behind_the_watermark(kind: str) -> None:
    """Spark, or a join of ours, gives the rows without a partner when the watermark has passed them: none is late."""
    bound = "BETWEEN r.ts AND r.ts + INTERVAL 1 MINUTE"
    sql = f"SELECT /*+ NO_JOIN_TREE */ r.id FROM r {kind} s ON r.id = s.id AND s.ts {bound} JOIN t ON t.ts {bound}"
    *_, joined = (one for one in rewritten(sql).groups if isinstance(one, JoinNode))
    optional = "RIGHT" in kind
    below = [source_scan(source) for source in joined.sources]
    assert [scan.event_time for scan in below] == [None if optional else "ts", "ts"]
    assert [scan.stateful for scan in below] == [True, False]
    assert [kept.keep_for for kept in joined.retention] == [None, None] if optional else [60_000_000, 0]
    table = node(sql.replace(f" s ON r.id = s.id AND s.ts {bound}", " c AS s ON r.id = s.id"))
    assert [source_scan(source).event_time for source in table.sources] == [None if optional else "ts", "ts"]
    assert not any(source_scan(source).stateful for source in table.sources)


@pytest.mark.parametrize(
    ("condition", "seconds"),
    [
        # a date is a midnight: rows of one day are up to a day apart, not at one instant
        ("CAST(r.ts AS DATE) = CAST(s.ts AS DATE)", {"r": 86_400, "s": 86_400}),
        ("CAST(r.ts AS DATE) = s.ts", {"r": 0, "s": 86_400}),
        ("s.ts BETWEEN CAST(r.ts AS DATE) AND r.ts", {"r": 0, "s": 86_400}),
        ("datediff(CAST(s.ts AS DATE), CAST(r.ts AS DATE)) BETWEEN 0 AND 2", {"r": 3 * 86_400, "s": 86_400}),
        # seconds are cut off
        ("CAST(r.ts AS BIGINT) = CAST(s.ts AS BIGINT)", {"r": 1, "s": 1}),
        ("unix_timestamp(s.ts) - unix_timestamp(r.ts) BETWEEN 0 AND 10", {"r": 11, "s": 1}),
        ("unix_timestamp(s.ts) <= unix_timestamp(r.ts) + 10 AND s.ts >= r.ts", {"r": 11, "s": 0}),
        ("unix_millis(s.ts) - unix_millis(r.ts) BETWEEN -2000 AND 5000", {"r": 5.001, "s": 2.001}),
        # nothing is known of these
        ("CAST(r.ts AS STRING) <= CAST(s.ts AS STRING)", {"r": None, "s": None}),
        ("unix_seconds(r.ts) = unix_millis(s.ts)", {"r": None, "s": None}),
    ],
)
def test_times_that_were_cut_off_bound_by_what_they_lost_too(condition: str, seconds: dict[str, float | None]) -> None:
    """As if they were exact, rows of one day or second that join would have been dropped before they meet."""
    join = node(f"SELECT 1 AS o FROM r JOIN s ON {condition}", Settings(zone_shift=0))
    assert {r.alias: None if r.keep_for is None else r.keep_for / 1e6 for r in join.retention} == seconds
