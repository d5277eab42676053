"""Event time through a join: which columns of its results carry it, what is held back for that, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from trijoin_sql.rewriter.options import DEFAULTS
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.nodes import JoinNode, Query, source_scan, walk
from trijoin_sql.rewriter.render.delays import without_delays
from trijoin_sql.rewriter.rules.create_multi_join_nodes import BY_ENDS_OF_WINDOWS, BY_WINDOWS

from trijoin_sql.errors import UnsupportedQueryError

from .tables import CATALOG, rewritten

JOIN = "FROM r JOIN s ON ABS(r.x - s.x) < 5 JOIN t ON s.x < t.x"
WITHIN = "WITHIN 1 MINUTE"
PAIR = "FROM r JOIN s ON r.x < s.x AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 9 SECONDS"
MINUTE = 60_000_000


def nodes(sql: str) -> list[JoinNode]:
    """Return the join nodes that are executed."""
    plan = rewritten(sql).plan
    assert isinstance(plan, Query)
    return list({node.name: node for node in walk(plan) if isinstance(node, JoinNode)}.values())


@pytest.mark.parametrize(
    "select",
    [
        f"SELECT window(greatest(r.ts, s.ts, t.ts), '1 minute'), count(*) {JOIN} {WITHIN} GROUP BY 1",
        f"SELECT window(GREATEST(t.ts, R.TS, s.ts), '1 minute'), count(*) {JOIN} GROUP BY 1",
        f"SELECT count(*) {JOIN} {WITHIN} GROUP BY window(greatest(r.ts, s.ts, t.ts), '1 minute')",
        f"SELECT session_window(greatest(r.ts, s.ts, t.ts), '1 minute'), count(*) {JOIN} GROUP BY ALL",
        f"SELECT greatest(r.ts, s.ts, t.ts) AS at, r.id {JOIN} {WITHIN}",
        f"SELECT greatest(r.ts, s.ts, t.ts) AS at {JOIN}",
        f"SELECT window(at, '1 minute'), count(*) FROM (SELECT greatest(r.ts, s.ts, t.ts) AS at {JOIN} {WITHIN}) "
        "GROUP BY 1",
        f"WITH j AS (SELECT greatest(r.ts, s.ts, t.ts) AS at {JOIN} {WITHIN}) SELECT window(at, '1 minute'), count(*) "
        "FROM j GROUP BY 1",
    ],
)
def test_the_latest_of_all_times_does_not_lag(select: str) -> None:
    """Wherever it is written: the column of the node carries the watermark, an expression over its columns does not."""
    (node,) = nodes(select)
    assert (node.result_time, node.event_times, node.held_back) == ("__result_time", ("__result_time",), 0)
    assert not rewritten(select).append_refusals
    assert "greatest" not in rewritten(select).plan.sql.lower()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "select",
    [
        f"SELECT greatest(r.ts, s.ts) AS at {JOIN} {WITHIN}",
        f"SELECT greatest(r.ts, s.ts, t.ts + INTERVAL 1 SECOND) AS at {JOIN} {WITHIN}",
        f"SELECT least(r.ts, s.ts, t.ts) AS at {JOIN} {WITHIN}",
        "SELECT greatest(r.ts, s.ts) AS at FROM r JOIN s ON r.id = s.id JOIN u ON s.id <= u.key",
    ],
)
def test_other_expressions_are_no_event_time(select: str) -> None:
    (node,) = nodes(select)
    assert (node.result_time, node.event_times) == (None, ())


def test_the_latest_of_times_of_which_one_lags_without_bound_is_none() -> None:
    """What r looks for comes behind the watermark, and may be later than r."""
    late = "(SELECT t.* FROM t LEFT ANTI JOIN s ON t.x < s.x AND s.ts = t.ts)"
    lags = f"(SELECT r.* FROM r LEFT ANTI JOIN {late} z ON r.x < z.x AND z.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR)"
    found = nodes(f"SELECT greatest(r.ts, s.ts) AS at {PAIR.replace('FROM r', f'FROM {lags} AS r')}")
    assert [node.result_time for node in found] == [None] * 3


@pytest.mark.parametrize(
    ("select", "carried", "held_back"),
    [
        # a result comes when s does: its r may be nine seconds older, its s not at all
        (f"SELECT r.ts {PAIR}", ("r__ts",), 9_000_000),
        (f"SELECT s.ts {PAIR}", ("s__ts",), 0),
        (f"SELECT r.ts AS a, s.ts AS b {PAIR}", ("r__ts", "s__ts"), 9_000_000),
        (f"SELECT * {PAIR}", ("r__ts", "s__ts"), 9_000_000),
        (f"SELECT r.id {PAIR}", (), 0),
        (f"SELECT date_trunc('hour', r.ts) {PAIR}", (), 0),
        (f"SELECT r.ts {JOIN} {WITHIN}", ("r__ts",), MINUTE),
        # what an aggregate reads is no event time, what groups are made by is
        (f"SELECT max(r.ts), count(*) {PAIR}", (), 0),
        (f"SELECT r.ts, count(*) {PAIR} GROUP BY r.ts", ("r__ts",), 9_000_000),
        (f"SELECT window(r.ts, '1 minute'), max(s.ts) {PAIR} GROUP BY 1", ("r__ts",), 9_000_000),
        # Spark allows one event time where it looks at all columns: the one that lags least
        (f"SELECT DISTINCT r.ts, s.ts AS b {PAIR}", ("s__ts",), 0),
        # nothing bounds it
        ("SELECT r.ts FROM r JOIN s ON r.x < s.x", (), 0),
        ("SELECT r.ts FROM r JOIN s ON r.x < s.x AND r.ts <= s.ts", (), 0),
        ("SELECT s.ts FROM r JOIN s ON r.x < s.x AND r.ts <= s.ts", ("s__ts",), 0),
    ],
)
def test_event_time_passes_as_far_as_its_lag_is_bounded(select: str, carried: tuple[str, ...], held_back: int) -> None:
    (node,) = nodes(select)
    assert (node.event_times, node.held_back) == (carried, held_back)


def test_lags_add_up_on_the_way_down() -> None:
    """The inner group's results must not be late for the outer one, nor the outer one's for the window."""
    sql = (
        f"SELECT window(a.ts, '1 minute'), count(*) FROM (SELECT r.ts, r.x {PAIR} UNION ALL SELECT ts, x FROM t) a "
        "JOIN t ON a.x < t.x AND t.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS GROUP BY 1"
    )
    assert sorted(node.held_back for node in nodes(sql)) == [5_000_000, 14_000_000]


def test_rows_that_spark_holds_back_bound_what_passes() -> None:
    """Rows of a stateful operator come behind the watermark: no other input's time may wait for them."""
    windows = "SELECT window(ts, '5 seconds') AS window, id FROM r GROUP BY 1, 2"
    grouped = f"(SELECT window_time(window) AS at, id FROM ({windows}))"
    sql = f"SELECT a.at, s.ts FROM {grouped} a JOIN s ON a.id < s.id AND s.ts BETWEEN "
    five = "INTERVAL 5 SECONDS"
    for condition, carried in (
        (f"a.at - {five} AND a.at", ("a__at",)),  # s is older, and a comes last
        (f"a.at AND a.at + {five}", ("a__at", "s__ts")),
    ):
        (node,) = nodes(sql + condition)
        assert source_scan(node.sources[0]).stateful
        assert node.event_times == carried


def test_rows_that_wait_come_behind_where_nothing_is_held_back() -> None:
    """Then the upper join keeps what they join for as much longer; above a join of Spark's, too."""
    upper = "LEFT JOIN t ON COALESCE(s.x, r.x) < t.x AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 7 SECONDS"
    sql = f"SELECT r.id, r.ts {PAIR} {upper}".replace("FROM r JOIN", "FROM r LEFT JOIN")
    for watermarks, behind in (("plan", {None}), ("text", {None, 9_000_000}), ("none", {None, 9_000_000})):
        plan = rewrite(sql, CATALOG, replace(DEFAULTS, watermarks=watermarks)).plan
        assert {one.behind for one in walk(plan) if isinstance(one, JoinNode)} == behind  # type: ignore[arg-type]
    bounds = "s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 DAY"
    of_spark = f"(SELECT /*+ NO_TRIJOIN */ r.* FROM r LEFT JOIN s ON r.a = s.a AND {bounds}) r"
    sql = sql.replace("FROM r ", f"FROM {of_spark} ")
    assert {one.behind for one in nodes(sql)} == {0, 9_000_000}
    pair = "b JOIN t AS u ON b.x < u.x AND u.ts BETWEEN b.ts - INTERVAL 7 SECONDS AND b.ts"
    latest = f"SELECT window(greatest(b.ts, u.ts), '1 minute'), count(*) FROM ({{}}) {pair} GROUP BY 1"
    (refused,) = rewritten(latest.format(sql.replace("r.id,", "r.x,"))).append_refusals
    assert "for an operator of Spark's below" in refused.reason
    of_ours = f"SELECT r.x, r.ts {PAIR} {upper}".replace("FROM r JOIN", "FROM r LEFT JOIN")
    assert not rewritten(latest.format(of_ours)).append_refusals


def test_where_watermarks_cannot_be_held_back() -> None:
    """The furthest watermark counts, or Spark Connect hides the plan: only what does not lag passes."""
    sql = f"SELECT r.ts AS a, s.ts AS b {PAIR}"
    for watermarks in ("none", "text"):
        plan = rewrite(sql, CATALOG, replace(DEFAULTS, watermarks=watermarks)).plan
        (node,) = [one for one in walk(plan) if isinstance(one, JoinNode)]  # type: ignore[arg-type]
        assert (node.event_times, node.held_back) == (("s__ts",), 0)


def test_the_text_of_an_input_holds_its_watermark_back() -> None:
    """On Spark Connect; the delay is not what a checkpoint knows an input by."""
    watermark = "WATERMARK ts DELAY OF INTERVAL 10 SECONDS"
    sql = f"SELECT r.ts FROM STREAM r {watermark} AS r JOIN STREAM s {watermark} AS s ON {PAIR.partition(' ON ')[2]}"
    plan = rewrite(sql, CATALOG, replace(DEFAULTS, watermarks="text")).plan
    (node,) = [one for one in walk(plan) if isinstance(one, JoinNode)]  # type: ignore[arg-type]
    assert node.held_back == 9_000_000
    for source in node.sources:
        scan = source_scan(source)
        assert "INTERVAL '19000000' MICROSECONDS" in scan.relation or "19000000" in scan.relation
        assert without_delays(f"SELECT * FROM {scan.relation}").endswith(scan.lasting)


@pytest.mark.parametrize(
    ("select", "reason", "hint"),
    [
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
        (
            "SELECT window(r.ts, '1 minute'), count(*) FROM r JOIN s ON r.x < s.x AND r.ts <= s.ts GROUP BY 1",
            "r.ts",
            "add s.ts <= r.ts + INTERVAL 10 MINUTES",
        ),
    ],
)
def test_windows_over_what_lags_without_bound_are_refused_in_append_mode(select: str, reason: str, hint: str) -> None:
    """Complete and update mode take them, so they are converted; append mode needs the sentence."""
    (refusal,) = rewritten(select).append_refusals
    assert f"a window over {reason} in append mode" in refusal.reason
    assert hint in refusal.hint
    assert any(hint in sentence for sentence in rewritten(select).advice)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        (
            "SELECT /*+ NO_JOIN_TREE */ r.id FROM r JOIN s ON r.x < s.x AND r.ts <= s.ts "
            "LEFT JOIN t ON t.id = r.id AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS",
            "r.ts",
        ),
        (
            "SELECT t.id FROM t LEFT JOIN (SELECT r.id, r.ts FROM r JOIN s ON r.x < s.x AND r.ts <= s.ts) a "
            "ON t.id = a.id AND a.ts BETWEEN t.ts AND t.ts + INTERVAL 5 SECONDS",
            "a.ts",
        ),
    ],
)
def test_an_outer_join_by_what_lags_without_bound_is_refused(sql: str, name: str) -> None:
    """It would wait for ever, and say nothing."""
    (refusal,) = rewritten(sql).refusals
    assert refusal.reason.startswith(f"the LEFT JOIN by {name} above a join of streams")
    assert "s.ts <= r.ts + INTERVAL 10 MINUTES" in refusal.hint
    assert not rewritten(sql.replace("r.ts <= s.ts", "s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 SECOND")).refusals


def test_windows_over_a_stream_itself_are_left_alone() -> None:
    """Spark's own aggregation below the join, and one without a join, are not ours to refuse."""
    assert not rewritten("SELECT window(r.ts, '1 minute'), count(*) FROM r GROUP BY 1").append_refusals


def test_a_window_is_no_time_by_which_rows_expire() -> None:
    """It is event time to Spark, but no instant: windows that are equal are no rows of one moment."""
    sides = [f"(SELECT id, window(ts, '5 minutes') AS w FROM {name}) {name}" for name in "rs"]
    (node,) = nodes(f"SELECT /*+ UNITS(2) */ r.id FROM {sides[0]} JOIN {sides[1]} ON r.w = s.w")
    assert [kept.keep_for for kept in node.retention] == [None, None]


OUTER = "r.x < s.x AND s.ts BETWEEN r.ts - INTERVAL 4 SECONDS AND r.ts + INTERVAL 4 SECONDS"
BY_S = "s.id = t.id AND t.ts BETWEEN s.ts AND s.ts + INTERVAL 4 SECONDS"


@pytest.mark.parametrize(
    ("sql", "carried"),
    [
        (f"SELECT DISTINCT r.id, r.ts, s.ts FROM r LEFT JOIN s ON {OUTER}", ("r__ts",)),
        (f"SELECT DISTINCT r.id, r.ts FROM r RIGHT JOIN s ON {OUTER}", ()),
        (f"SELECT DISTINCT r.id, r.ts, s.ts FROM r FULL JOIN s ON {OUTER}", ()),
        (f"SELECT s.ts, count(*) AS n FROM r LEFT JOIN s ON {OUTER} GROUP BY s.ts", ()),
        (f"SELECT count(*) AS n FROM r LEFT JOIN s ON {OUTER} GROUP BY window(s.ts, '5 seconds')", ("s__ts",)),
        (f"SELECT r.id FROM r LEFT JOIN s ON {OUTER} LEFT JOIN t ON {BY_S}", ()),
        (f"SELECT r.id FROM t LEFT JOIN (r LEFT JOIN s ON {OUTER}) ON {BY_S}", ("s__ts",)),
        (f"SELECT r.id, s.ts AS at FROM r LEFT JOIN s ON {OUTER}", ("s__ts",)),
    ],
)
def test_what_waits_for_the_time_of_a_padded_side(sql: str, carried: tuple[str, ...]) -> None:
    """The watermark never passes a NULL: groups, DISTINCT and rows that Spark's outer join keeps would never come."""
    assert nodes(sql)[0].event_times == carried


WINDOWED = "SELECT {}, count(*) AS n FROM r GROUP BY a, window(ts, '5 seconds')"
WINDOW = "window(ts, '5 seconds')"


@pytest.mark.parametrize(
    "below",
    [
        f"SELECT window_time(window) AS at, n FROM ({WINDOWED.format('window')})",
        f"SELECT window_time(window) AS at, n FROM ({WINDOWED.format('WINDOW AS window')})",
        f"SELECT window_time(window) AS at, n FROM ({WINDOWED.format(WINDOW)})",
        WINDOWED.format("window_time(window) AS at"),
        f"SELECT window_time(q.w) AS at, n FROM ({WINDOWED.format('window AS w')}) AS q",
    ],
)
def test_the_window_of_group_by_is_event_time_by_its_name(below: str) -> None:
    """Spark calls it `window`; so does a SELECT that names it nowhere else."""
    sql = (
        f"SELECT q.n FROM ({below}) AS q LEFT JOIN s ON q.n <= s.a AND s.ts BETWEEN q.at - INTERVAL 5 SECONDS AND q.at"
    )
    (node,) = nodes(sql)
    assert [one.keep_for for one in node.retention] == [0, 5_000_000]
    assert not rewritten(sql).refusals


SIDES = "(SELECT a, window(ts, '9 seconds') AS w, ts FROM {}) AS {}"
L, R = SIDES.format("r", "l"), SIDES.format("s", "q")


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
@pytest.mark.parametrize("on", ["l.w.start <= q.w.start AND l.w.start >= q.w.start", "l.w = q.w", "l.w.end = q.w.end"])
def test_a_condition_may_read_a_window_beside_within(kind: str, on: str) -> None:
    """WITHIN compares the times, not the windows of them; and the units compare windows."""
    (node,) = nodes(f"SELECT l.a FROM {L} {kind} {R} ON l.a <= q.a AND {on} WITHIN 10 SECONDS")
    assert [one.keep_for for one in node.retention] == [10_000_000, 10_000_000]
    assert node.graph.residuals == ()
    assert {at for p in node.graph.edges[0].predicates if p.derived for at in p.condition.columns} == {
        ("l", "ts"),
        ("q", "ts"),
    }


def test_within_of_windows_alone_says_what_to_select() -> None:
    only = "(SELECT a, window(ts, '9 seconds') AS w FROM {}) AS {}"
    with pytest.raises(UnsupportedQueryError, match=r"and l\.w is a window of it\.\nHint: select the time beside it"):
        rewritten(f"SELECT 1 FROM {only.format('r', 'l')} JOIN {only.format('s', 'q')} ON l.w = q.w WITHIN 10 SECONDS")


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        (f"SELECT l.a FROM {L} JOIN {R} ON l.a = q.a AND l.w = q.w AND l.a < q.a", BY_WINDOWS),
        (f"SELECT l.a, w FROM {L} JOIN {R} USING (a, w)", BY_WINDOWS),
        (f"SELECT l.a FROM {L} JOIN {R} ON l.w.start = q.w.start AND l.a < q.a", BY_ENDS_OF_WINDOWS),
        (f"SELECT l.a FROM {L} JOIN {R} ON q.w.end = l.w.`END`", BY_ENDS_OF_WINDOWS),
        (f"SELECT l.a FROM {L} JOIN {R} ON l.w.start = q.w.end", None),
        (f"SELECT l.a FROM {L} JOIN {R} ON l.w = q.w JOIN {SIDES.format('t', 'v')} ON v.w = q.w", BY_WINDOWS),
        # Spark refuses two event times in a stream; of the third stream it would keep all; the user says whose it is
        (f"SELECT l.a, l.ts FROM {L} JOIN {R} ON l.w = q.w", None),
        (f"SELECT l.a FROM {L} JOIN {R} ON l.w = q.w JOIN t ON t.a < l.a", None),
        (f"SELECT l.a FROM {L} JOIN {R} ON l.w = q.w WITHIN 1 MINUTE", None),
        (f"SELECT /*+ UNITS(2) */ l.a FROM {L} JOIN {R} ON l.w = q.w", None),
    ],
)
def test_joins_of_windows_stay_with_spark_which_forgets_them(select: str, reason: str | None) -> None:
    """Here their rows would be kept for ever."""
    (group,) = rewritten(select).groups
    assert (None if isinstance(group, JoinNode) else group.decision.reason) == reason
    if isinstance(group, JoinNode):
        assert all(one.kind == "equi" for one in group.graph.edges[0].predicates if "w = " in one.sql)
    elif reason == BY_WINDOWS:
        rewritten(select, replace(DEFAULTS, strict=True))


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("LEFT", "group by window(r.ts, ...), the time that each row has, or use MODE update"),
        ("RIGHT", "group by window(s.ts, ...), the time that each row has, or use MODE update"),
        ("FULL", "use MODE update"),
    ],
)
def test_the_latest_time_above_an_outer_join(kind: str, hint: str) -> None:
    """The way out is not what stands there: of a row without a partner, only its own time is there."""
    on = "r.x < s.x AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR"
    sql = f"SELECT window(greatest(r.ts, s.ts), '1 minute'), count(*) FROM r {kind} JOIN s ON {on} GROUP BY 1"
    (refused,) = rewritten(sql).append_refusals
    assert refused.hint == hint
