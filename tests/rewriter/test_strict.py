"""Strict mode: what keeps rows for ever or makes a product is refused, and EXPLAIN proves the bounds of what is not."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest
from trijoin_sql.rewriter.options import DEFAULTS
from trijoin_sql.rewriter.sql.places import place_of_relation

from trijoin_sql.errors import NotProvenError, UnsupportedQueryError

from .tables import BATCH, CATALOG, rewritten

STRICT = dataclasses.replace(DEFAULTS, strict=True)
SOON = "s.ts BETWEEN r.ts AND r.ts + INTERVAL 10 MINUTES"


def select(from_: str) -> str:
    return f"SELECT 1 AS one FROM {from_}"


def windows(stream: str) -> str:
    return f"(SELECT window(ts, '1 minute') AS w, COUNT(*) AS n FROM {stream} GROUP BY 1)"


@pytest.mark.parametrize(
    ("from_", "streams", "reason", "hint"),
    [
        (
            "r JOIN ^s ON r.a < s.a AND s.ts <= r.ts + INTERVAL 10 MINUTES",
            "s",
            "nothing says how much later r may be",
            "r.ts <= s.ts + INTERVAL 10 MINUTES",
        ),
        ("^r JOIN s ON r.a = s.a", "r", "rows of r are kept for ever (UNBOUNDED)", "or WITHIN 10 MINUTES"),
        (
            "r JOIN ^u AS z ON r.a = z.Key",
            "r",
            "z has no event time",
            "u WATERMARK column DELAY OF INTERVAL 10 SECONDS AS z",
        ),
        (f"r JOIN s ON r.a < s.a AND {SOON} JOIN t ON s.a < t.a", "r", "how much later t may be", "t.ts <= r.ts"),
        ("^r LEFT SEMI JOIN s ON r.a < s.a", "r", "how much later s may be", "s.ts <= r.ts"),
        ("^r WHERE EXISTS (SELECT 1 FROM s WHERE s.a > r.a)", "r", "how much later s may be", "WITHIN 10 MINUTES"),
        (
            "r LEFT JOIN ^s ON r.a < s.a AND s.ts <= r.ts + INTERVAL 1 HOUR",  # each row of r is emitted, s is kept
            "s",
            "nothing says how much later r may be",
            "r.ts <= s.ts",
        ),
        (f"{windows('r')} l JOIN {windows('s')} q ON l.w.start = q.w.start", "l, q", "equate the windows", "write it"),
        (f"{windows('r')} l JOIN {windows('s')} q ON l.n < q.n", "l", "later q may", "equate the windows"),
        (f"{windows('r')} AS l JOIN s ON l.n = s.a", "l", "how much later s may be", "window_time(w) beside it"),
        ("r JOIN s ON ^r.n LIKE s.n WITHIN 1 MINUTE", "s", "CROSS PRODUCT: only r.n LIKE s.n", "add an equality"),
        ("r, ^s WITHIN 1 MINUTE", "s", "CROSS PRODUCT: no condition compares r with s", "add an equality"),
        (
            f"r ^LEFT JOIN s ON r.a = s.a AND {SOON}",
            "r, s",
            "a LEFT JOIN which Spark would run",
            "bound it with WITHIN 10 MINUTES",
        ),
    ],
)
def test_it_is_refused(from_: str, streams: str, reason: str, hint: str) -> None:
    sql = select(from_)
    place, sql = sql.find("^"), sql.replace("^", "")
    with pytest.raises(NotProvenError) as refused:
        rewritten(sql, STRICT)
    error = refused.value
    assert (error.getCondition(), error.streams) == ("TRIJOIN_NOT_PROVEN", streams)
    assert reason in error.reason
    assert hint in (error.hint or "")
    if place >= 0 and " AS z" not in from_:
        assert error.offset == place
        assert f"line 1, column {place + 1}" in str(error)
    assert rewritten(sql).sql == sql  # without strict mode it is not


@pytest.mark.parametrize(
    "from_",
    [
        f"r JOIN s ON r.a < s.a AND {SOON}",
        "r JOIN s ON r.a < s.a JOIN t ON s.a < t.a WITHIN 5 MINUTES",
        f"r JOIN s ON r.a < s.a AND {SOON} JOIN c ON c.id = r.id",  # a table needs no bound
        "r JOIN c ON c.id < r.id",
        "r LEFT JOIN s ON r.a = s.a WITHIN 5 MINUTES",
        "r LEFT ANTI JOIN s ON r.a < s.a WITHIN 5 MINUTES",
        "r WHERE EXISTS (SELECT 1 FROM s WHERE s.a > r.a AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR)",
        "r JOIN s ON timestampdiff(SECOND, r.ts, s.ts) BETWEEN 0 AND 5",  # a residual, from which a band follows
        "r",
    ],
)
def test_it_is_proven(from_: str) -> None:
    assert rewritten(select(from_), STRICT).to_dict() == rewritten(select(from_)).to_dict()


@pytest.mark.parametrize("from_", ["r JOIN s ON r.a < s.a", "r, s", "r LEFT SEMI JOIN s ON r.a < s.a"])
def test_tables_need_no_bound(from_: str) -> None:
    assert rewritten(select(from_), STRICT, BATCH).sql == select(from_)


def test_what_cannot_run_at_all_is_refused_as_ever() -> None:
    with pytest.raises(UnsupportedQueryError) as refused:
        rewritten(select("r LEFT ANTI JOIN s ON r.a < s.a"), STRICT)
    assert refused.value.getCondition() == "TRIJOIN_UNSUPPORTED_QUERY"


def test_a_hint_that_leaves_streams_to_spark_is_refused() -> None:
    with pytest.raises(NotProvenError, match=r"Spark would run.*NO_TRIJOIN"):
        rewritten(f"SELECT /*+ NO_TRIJOIN */ 1 AS one FROM r JOIN s ON r.a = s.a AND {SOON}", STRICT)


def test_the_proof_goes_from_predicate_to_predicate() -> None:
    sql = select(f"r JOIN s ON r.a < s.a AND {SOON} JOIN t ON s.a < t.a AND t.ts <= s.ts + INTERVAL 5 MINUTES")
    sql += " AND t.ts >= s.ts"
    (group,) = rewritten(sql).to_dict()["groups"]
    first, _, last = group["state"]["streams"]
    assert first["expires"] == "when the watermark passes r.ts + 15 minutes"
    (to_s, to_t) = first["proof"]
    assert (to_s["other"], to_s["most"], to_t["other"], to_t["most"]) == ("s", "10 minutes", "t", "15 minutes")
    assert [step["bound"] for step in to_t["steps"]] == ["s.ts <= r.ts + 10 minutes", "t.ts <= s.ts + 5 minutes"]
    assert sql[slice(*to_t["steps"][0]["places"][0])] == SOON
    assert sql[slice(*to_t["steps"][1]["places"][0])] == "t.ts <= s.ts + INTERVAL 5 MINUTES"
    (to_r, _) = last["proof"]
    assert [step["bound"] for step in to_r["steps"]] == ["s.ts <= t.ts", "r.ts <= s.ts"]


@pytest.mark.parametrize(
    "from_",
    [
        f"r JOIN s ON r.a < s.a AND {SOON} JOIN t ON s.a < t.a AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 1 DAY",
        "r JOIN s ON r.ts = s.ts JOIN t ON s.ts = t.ts WITHIN 3 MINUTES",
        "r LEFT JOIN s ON r.a < s.a AND date_trunc('HOUR', r.ts) = date_trunc('HOUR', s.ts)",
        "(r LEFT JOIN s ON r.a < s.a) JOIN t ON r.a < t.a WITHIN 1 MINUTE",
    ],
)
def test_the_steps_of_each_proof_add_up_to_its_bound(from_: str) -> None:
    for group in rewritten(select(from_)).groups:
        for bound in group.graph.time_bounds:
            for most, steps, ends in (
                (bound.upper, bound.upper_by, (bound.left, bound.right)),
                (None if bound.lower is None else -bound.lower, bound.lower_by, (bound.right, bound.left)),
            ):
                if most is None:
                    continue
                assert sum(step.most for step in steps) == most
                told = [(step.earlier.partition(".")[0], step.later.partition(".")[0]) for step in steps]
                assert (told[0][0], told[-1][1]) == ends
                assert all(one[1] == other[0] for one, other in pairwise(told))


def test_conditions_that_contradict_each_other_do_not_run_in_circles() -> None:
    names = [f"r{n}" for n in range(12)]
    later = " AND ".join(f"{one}.ts > {other}.ts + INTERVAL 1 HOUR" for one in names for other in names if one != other)
    found = rewritten(select(", ".join(f"r AS {name}" for name in names) + f" WHERE {later}"), STRICT, CATALOG)
    assert found.converted


def test_places_of_relations() -> None:
    assert place_of_relation("SELECT r.x FROM s AS r, q", "r") == 21
    assert place_of_relation("SELECT r FROM t JOIN r ON r.x < t.x", "R") == 21
    assert place_of_relation("SELECT 'FROM r' FROM s", "r") is None
