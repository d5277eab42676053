"""What a session's settings declare of rates, and what progress reports tell of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from trijoin_sql.operators.state.layout import History
from trijoin_sql.rewriter.options import CostDefaults
from trijoin_sql.rewriter.plan.decision import Selectivity
from trijoin_sql.rewriter.plan.stored import Stored

from trijoin_sql import InvalidSettingError
from trijoin_sql.running.checkpoint import SavedJoin, groups_of
from trijoin_sql.settings import NAMES
from trijoin_sql.spark.rates import ObservedRates, ObservedShares, PlanSource, cost_defaults, declared_rate

SOURCES = [PlanSource(("r",), 2), PlanSource(("spark_catalog.default.s",))]


def progress(second: int, *rows: int) -> dict[str, object]:
    sources = [{"numInputRows": count} for count in rows]
    return {"id": "q", "timestamp": f"2026-01-01T00:00:{second:02}.000Z", "sources": sources}


def test_rows_a_second_are_those_after_the_first_batch() -> None:
    """The first takes what had piled up; a source that is read twice is counted twice by Spark."""
    observed = ObservedRates()
    observed.started("q", SOURCES)
    assert observed.rates() == {}
    observed.progressed(progress(0, 100_000, 0))
    assert observed.rates() == {}
    observed.progressed(progress(2, 40, 3))
    observed.progressed(progress(10, 160, 17))
    assert observed.rates() == {"r": 10.0, "spark_catalog.default.s": 2.0}
    observed.progressed(progress(20, 1))
    assert observed.rates()["r"] == 10.0, "a report that does not fit is left out"


def test_observed_shares_are_those_of_the_last_run_that_counted() -> None:
    """Of all micro-batches; few pairs tell nothing, and none that match are one in so many at most."""
    observed, key, rare = ObservedShares(), ("r AS r", "s AS s", "r.x < s.x"), ("s AS s", "t AS t", "s.x = t.x")
    known = [Selectivity("r", "s", 0.33, "assumed", key), Selectivity("s", "t", 0.001, "assumed", rare)]
    observed.counted("one", known, {"r s pairs": 600, "r s found": 3})
    assert observed.shares() == {}
    observed.counted("one", known, {"r s pairs": 1800, "r s found": 54, "s t pairs": 8000})
    assert observed.shares() == {key: 0.0238, rare: 0.000125}
    observed.counted("two", known, {})
    assert observed.shares()[key] == 0.0238
    observed.counted("two", known, {"r s pairs": 2000, "r s found": 1})
    assert observed.shares() == {key: 0.0005, rare: 0.000125}


def test_settings_are_read_by_name_and_checked() -> None:
    settings = {"spark.trijoin.rate.Orders": "7", "spark.trijoin.rate.db.t": "0.5", "spark.trijoin.rate.bad": "-1"}
    assert declared_rate(settings.get, ("Orders",)) == 7
    assert declared_rate(settings.get, ("DB", "T")) == 0.5
    assert declared_rate(settings.get, ("t",)) is None
    with pytest.raises(InvalidSettingError, match="above 0"):
        declared_rate(settings.get, ("bad",))


def test_selectivities_are_settings() -> None:
    """What is declared holds for any history; what is assumed does not say that a row finds a million partners."""
    assert cost_defaults({}.get) == CostDefaults()
    declared = cost_defaults({"spark.trijoin.selectivity.band": "0.2"}.get)
    assert dict(declared.selectivity)["band"] == 0.2
    assert declared.partners == float("inf")
    with pytest.raises(InvalidSettingError, match="share of pairs"):
        cost_defaults({"spark.trijoin.selectivity.equi": "2"}.get)


def test_weights_are_settings() -> None:
    """What `bench calibrate` prints; one says nothing of the others, nor of selectivities."""
    found = cost_defaults({"spark.trijoin.cost.sent": "0.25", "spark.trijoin.cost.stage": "9e4"}.get)
    assert found == replace(CostDefaults(), sent=0.25, stage=90_000.0)
    for wrong in ("0", "-1", "much"):
        with pytest.raises(InvalidSettingError, match="microseconds"):
            cost_defaults({"spark.trijoin.cost.unit": wrong}.get)
    assert "spark.trijoin.cost.listed" in NAMES


def test_a_checkpoint_without_records_tells_each_join_by_itself() -> None:
    fingerprint = "scheme: matrix\nunits: 5\norder of streams: a, b c, d\ncondition between a and d: a.x < d.x"
    old = SavedJoin.from_dict({"fingerprint": fingerprint, "layouts": [[0, 4]]})
    assert groups_of([old]) == (Stored(("a", "b c", "d"), "matrix", 5, (), ("a.x < d.x",)),)


def test_a_record_is_read_as_it_was_written() -> None:
    stored = Stored(("r", "s", "t", "u v"), "operator_tree", None, (("r", "s"), ("t", "u v")), ("r.x < s.x",))
    written = SavedJoin("scheme: biclique", History(((0, 9), (4, 2))), stored=(stored,))
    read = SavedJoin.from_dict(json.loads(json.dumps(written.to_dict())))
    assert read == written
    assert [one.units for one in groups_of([read])] == [2]
    assert stored.hint == "SCHEME('operator_tree((r, s), (t, `u v`))')"
