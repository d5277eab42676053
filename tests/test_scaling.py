"""Scaling by load: the policy, and its stop. What else a scaled query does, layouts of its checkpoint show."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from trijoin_sql.errors import InvalidSettingError
from trijoin_sql.running.layouts import Running
from trijoin_sql.running.listener import LayoutListener
from trijoin_sql.running.scaled_query import ScaledQuery
from trijoin_sql.running.scaling import Decision, Scaler, ScalingPolicy
from trijoin_sql.running.stopping import end_after_batch

POLICY = ScalingPolicy(capacity=100, decisions=3, most=12)


def told(scaler: Scaler, units: int, loads: list[int]) -> list[tuple[int, int, bool]]:
    """Give loads (in all) to a scaler, one a micro-batch; return what it wanted, how often so, and if it acts."""
    found = [scaler.decide(batch, units, [load]) for batch, load in enumerate(loads)]
    return [(one.wanted, one.streak, one.confirmed) for one in found]


def test_it_acts_after_three_decisions_in_a_row() -> None:
    """Equation 7 of the paper: at 0.9 of four units' capacity, and 0.6 as the target, there should be six."""
    assert told(Scaler(POLICY), 4, [360] * 4) == [(6, 1, False), (6, 2, False), (6, 3, True), (6, 1, False)]
    assert told(Scaler(POLICY), 4, [80] * 3) == [(2, 1, False), (2, 2, False), (2, 3, True)]


def test_a_short_peak_changes_nothing() -> None:
    """The paper's false positive: up, back to normal, up, down."""
    assert not any(acts for _, _, acts in told(Scaler(POLICY), 4, [360, 360, 240, 360, 360, 80, 80, 360, 240]))


def test_between_the_thresholds_nothing_is_wanted() -> None:
    assert told(Scaler(POLICY), 4, [121, 240, 320]) == [(4, 0, False)] * 3


def test_the_sum_counts_and_not_the_fullest_unit() -> None:
    decision = Scaler(POLICY).decide(0, 4, [300, 10, 10, 10, 30])  # the fifth is retired
    assert (decision.load, decision.wanted) == (0.9, 6)


@pytest.mark.parametrize(
    ("units", "load", "wanted"),
    [(12, 5000, 12), (10, 5000, 12), (1, 0, 1), (1, 5, 1), (20, 5000, 20), (3, 10, 1), (3, 0, 1)],
)
def test_limits(units: int, load: int, wanted: int) -> None:
    """Never above `most` nor below one, and never down because of too much."""
    assert Scaler(POLICY).decide(0, units, [load]).wanted == wanted


def test_what_is_kept_for_ever_does_not_shrink() -> None:
    assert told(Scaler(POLICY, shrinks=False), 4, [10] * 3) == [(4, 0, False)] * 3
    assert told(Scaler(POLICY, shrinks=False), 4, [360] * 3)[-1] == (6, 3, True)


def test_a_subgroup_leaves_room_for_the_others() -> None:
    """003 section 5 decides on each by itself; the most units are those of all."""
    assert Scaler(POLICY, 1).decide(0, 2, [500], others=3).wanted == 9
    assert Scaler(POLICY, 1).decide(0, 2, [500], others=8) == Decision(0, 2, 2.5, 4, 1, False, subgroup=1)


def test_cells_double_and_halve() -> None:
    """Five cells would divide one dimension of a grid, and the copies of rows along the others grow."""
    cells = {
        load: Scaler(POLICY, doubles=True).decide(0, 4, [load]).wanted for load in (330, 900, 5000, 100, 10, 0, 240)
    }
    assert cells == {330: 8, 900: 8, 5000: 8, 100: 2, 10: 1, 0: 1, 240: 4}


def test_settings() -> None:
    assert ScalingPolicy.from_settings({}.get) is None
    assert ScalingPolicy.from_settings({"spark.trijoin.scaling.enabled": "true"}.get) == ScalingPolicy()
    names = {"unitBytes": "64m", "upper": "0.9", "lower": ".1", "target": "0.5", "decisions": "2", "maxUnits": "8"}
    given = {f"spark.trijoin.scaling.{name}": text for name, text in {"enabled": "TRUE", **names}.items()}
    assert ScalingPolicy.from_settings(given.get) == ScalingPolicy(64 << 20, 0.9, 0.1, 0.5, 2, 8)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("unitBytes", "much", "512m"),
        ("unitBytes", "0", "at least 1"),
        ("upper", "high", "share"),
        ("upper", "0.5", "above"),
        ("decisions", "1.5", "whole number"),
        ("maxUnits", "0", "at least 1"),
    ],
)
def test_wrong_settings_are_refused(name: str, text: str, words: str) -> None:
    given = {"spark.trijoin.scaling.enabled": "true", f"spark.trijoin.scaling.{name}": text}
    with pytest.raises(InvalidSettingError, match=words) as caught:
        ScalingPolicy.from_settings(given.get)
    assert "spark.trijoin.scaling" in str(caught.value)


def test_the_end_of_a_run_is_not_that_of_the_next() -> None:
    """Spark tells it late, by a queue; a query that ran again with retired slots was forgotten then."""
    listener = LayoutListener(None)  # type: ignore[arg-type]
    listener.running["query"] = Running("second", None, {}, {}, None)  # type: ignore[arg-type]
    for run, left in (("first", 1), ("second", 0), ("second", 0)):
        java = {"id": "query", "runId": run}
        told = {key: lambda value=value: SimpleNamespace(toString=lambda: value) for key, value in java.items()}
        listener.onQueryTerminated(SimpleNamespace(**told))
        assert len(listener.running) == left


@pytest.mark.spark
@pytest.mark.parametrize("how", ["while it starts", "before it starts", "its query"])
def test_stop_in_the_middle_of_a_restart(spark: SparkSession, how: str) -> None:
    """From a signal handler or another thread: nothing runs afterwards."""
    started: list[StreamingQuery] = []

    def start() -> StreamingQuery:
        query = spark.readStream.format("rate").load().writeStream.format("noop").start()
        started.append(query)
        if len(started) == 2:
            scaled.stop()
        return query

    scaled = ScaledQuery(spark, start)
    scaled._ending = end_after_batch(spark, scaled.query)  # as its policy decides
    if how != "while it starts":
        (scaled.query if how == "its query" else scaled).stop()
    assert scaled.awaitTermination(60)
    assert len(started) == (2 if how == "while it starts" else 1)
    assert not any(query.isActive for query in started)
