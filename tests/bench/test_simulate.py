"""The simulator counts what the operators do: its rows go where Spark's go, and all schemes find the same results."""

from __future__ import annotations

import pyarrow as pa
import pytest

from .local_columns import xxhash64
from .simulate import MEASURED, Data, balance, count, measured_costs, measured_shares, plan, totals
from .workloads import WORKLOADS


def test_rows_are_hashed_as_spark_hashes_them() -> None:
    """Figures of Spark 4.1: another hash would send rows to other units than a real run."""
    assert xxhash64([pa.array([1, None])]).to_pylist() == [-7001672635703045582, 42]
    assert xxhash64([pa.array([1], pa.int32())]).to_pylist() == [-6698625589789238999]
    assert xxhash64([pa.array([-0.0])]) == xxhash64([pa.array([0.0])])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["chain_band", "chain_float", "chain_window", "cyclic_band", "common_key", "zipf_chain", "pair_window"]
)
def test_all_schemes_find_the_same_results_in_any_number_of_units(name: str) -> None:
    """A simulation whose rows missed one another would still count something."""
    data = Data.of(WORKLOADS[name], 300)
    schemes = [one for one in WORKLOADS[name].schemes if "/" not in one]
    if len(data.tables) == 3:
        schemes += ["operator_tree((r, s), t)", "operator_tree(r, (s, t))@range"]
    runs = [totals(count(plan(data, scheme, units), data)) for scheme in schemes for units in (1, 6)]
    assert len({run["results"] for run in runs}) == 1
    assert runs[0]["results"] > 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "units"), [("chain_band", 1), ("chain_band", 16), ("cyclic_band", 4), ("cyclic_loose", 1)]
)
def test_what_stores_of_their_own_send_and_keep_is_what_the_cost_model_says(name: str, units: int) -> None:
    """002's equation 1, with one copy of what a slot hands on to itself; memory is that of the inputs (section 5)."""
    data = Data.of(WORKLOADS[name], 400)
    planned = plan(data, "non_materializing", units, measured_costs(data), measured_shares(data))
    counted, predicted = totals(count(planned, data)), planned.predicted(data)
    assert counted["rows_in"] == pytest.approx(predicted["rows_in"], rel=0.15)
    assert counted["state_rows"] == pytest.approx(predicted["state_rows"], rel=0.01)
    assert counted["comparisons"] / 2 < predicted["comparisons"] < counted["comparisons"] * 2


def test_selectivities_are_those_of_the_data() -> None:
    """|r.i - s.i| < 2 over uniform integers: three of so many values match, less at the ends."""
    data = Data.of(WORKLOADS["chain_band"], 2000)
    planned = plan(data, "matrix", 1, shares=measured_shares(data))
    assert [one.share for one in planned.group.decision.selectivities] == pytest.approx([3 / 2000] * 2, rel=0.05)


@pytest.mark.parametrize(
    ("name", "engine", "units"),
    [
        ("chain_band", "matrix", 1),
        ("chain_band", "matrix", 6),
        ("chain_band", "matrix@range", 4),
        ("chain_band", "non_materializing", 4),
        ("cyclic_loose", "matrix", 4),
        ("common_key", "matrix", 4),
        ("pair_band", "biclique", 4),
        ("pair_band", "biclique@range", 4),
        ("chain_equal", "matrix", 6),
    ],
)
def test_slots_count_the_selectivities_of_the_data(name: str, engine: str, units: int) -> None:
    """Pairs whose rows lie in different cells are pairs too; copies of a pair are counted alike."""
    data = Data.of(WORKLOADS[name], 1000)
    counted = totals(count(plan(data, engine, units), data))
    for one in plan(data, engine, units, shares=measured_shares(data)).group.decision.selectivities:
        pairs, found = (counted[f"whole_{one.left} {one.right} {what}"] for what in ("pairs", "found"))
        assert found / pairs == pytest.approx(one.share, rel=0.12), one


def test_many_units_are_routed_as_few_are() -> None:
    """Beyond the units whose slots run, routing alone counts: what it sends is what each row's copies are."""
    data = Data.of(WORKLOADS["pair_band"], 2000)
    rows, kept = 2 * data.more, 2 * data.kept
    slots = count(plan(data, "matrix", 100), data)
    assert totals(slots)["rows_in"] == rows * 10
    assert balance(slots, "whole_rows_in") < 1.5
    slots = count(plan(data, "biclique", 100), data)
    assert (totals(slots)["rows_in"], totals(slots)["state_rows"]) == (rows * 100, kept)
    slots = count(plan(data, "biclique@range", 100), data)
    assert totals(slots)["state_rows"] == pytest.approx(kept, rel=0.1)


def test_what_an_inner_join_finds_is_sent_to_the_one_above() -> None:
    """By range each row and each result of the lower join goes to about one unit, in few units and in many."""
    data = Data.of(WORKLOADS["chain_band"], 1000)
    few, many = (count(plan(data, "operator_tree((r, s), t)@range", units), data) for units in (8, 100))
    sent, kept = totals(few)["rows_in"], totals(few)["state_rows"]
    inner = plan(data, "operator_tree((r, s), t)@range", 8).joins[1]
    first, last = inner.cuts[0][-MEASURED][0], inner.cuts[0][-1][1]
    assert 1 < sent / (3 * data.more + last - first) < 1.1
    assert totals(many)["rows_in"] == pytest.approx(sent, rel=0.01)
    assert totals(many)["state_rows"] == pytest.approx(kept, rel=0.05)
