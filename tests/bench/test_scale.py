"""The cost model predicts what slots do: rows sent, rows kept, comparisons and results, each within a fifth."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from trijoin_sql.rewriter.options import CostDefaults
from typer.testing import CliRunner

from trijoin_sql.spark.rates import WEIGHTS

from .__main__ import app
from .calibrate import Ran, between, settings, weights
from .simulate import COUNTED, Data, count, measured_costs, measured_shares, plan, totals
from .workloads import WORKLOADS

_TREE = "operator_tree((r, s), t)"

#: By workload: schemes, and the units they run in.
COMBINATIONS = {
    "chain_band": (
        ("semi_symmetric", "semi_symmetric/pair", "matrix", "matrix@range", "tree", _TREE, f"{_TREE}@range"),
        (1, 4, 16),
    ),
    "chain_dense": (("semi_symmetric", "matrix", "tree"), (2, 8)),
    "cyclic_loose": (("symmetric", "symmetric/pair", "matrix", "matrix@range", "tree", f"{_TREE}@range"), (1, 6)),
    "chain_equal": (("semi_symmetric", "matrix", "tree", _TREE), (3, 16)),
    "common_key": (("symmetric", "symmetric@contrand:2", "matrix", _TREE), (2, 8)),
    "zipf_key": (("biclique", "biclique@contrand:2", "matrix"), (2, 8)),
    "pair_band": (("biclique", "biclique@range", "matrix", "matrix@range"), (1, 8, 64)),
    "pair_window": (("biclique", "matrix"), (2, 4)),
    "chain_window": (("semi_symmetric", "matrix", "tree", f"{_TREE}@range"), (1,)),
}


@cache
def _data(name: str) -> tuple[Data, CostDefaults, str]:
    data = Data.of(WORKLOADS[name], 1000)
    return data, measured_costs(data), measured_shares(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "engine", "units"),
    [
        (name, engine, units)
        for name, (engines, counts) in COMBINATIONS.items()
        for engine in engines
        for units in counts
    ],
)
def test_predictions_are_within_a_fifth(name: str, engine: str, units: int) -> None:
    data, costs, shares = _data(name)
    planned = plan(data, engine, units, costs, shares)
    predicted, counted = planned.predicted(data), totals(count(planned, data))
    for what in COUNTED:
        assert predicted[what] == pytest.approx(counted[what], rel=0.2), what


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "factor"), [("matrix", 1.2), ("tree", 2), ("operator_tree((c, o), l, s)", 1.2)])
@pytest.mark.parametrize("units", [1, 4])
def test_q5_of_002_is_predicted_within_a_factor_of_two(engine: str, factor: float, units: int) -> None:
    """PAPERS F10: with one number for its four bands, 254 times as many results were predicted as came."""
    data = Data.of(WORKLOADS["tpch_q5"], 20_000)
    planned = plan(data, engine, units, measured_costs(data), measured_shares(data))
    predicted, counted = planned.predicted(data), totals(count(planned, data))
    for what in COUNTED:
        assert counted[what] / factor < predicted[what] < counted[what] * factor, what


def test_the_command_prints_writes_and_draws(tmp_path: Path) -> None:
    """Beyond 64 units routing alone counts, so comparisons are predicted only."""
    files = ["--json", str(tmp_path / "scale.json"), "--plot", str(tmp_path / "scale.svg")]
    found = CliRunner().invoke(app, ["scale", "pair_band", "--rows", "200", "--most", "128", *files, "-q"])
    assert found.exit_code == 0, found.output
    assert "keeps the fewest rows: biclique" in found.output
    (document,) = json.loads((tmp_path / "scale.json").read_text())
    last = document["points"][-1]
    assert (last["units"], "comparisons" in last["counted"], "comparisons" in last["predicted"]) == (128, False, True)
    assert {one["engine"] for one in document["points"]} == {"biclique", "matrix", "biclique@range"}
    assert 1000 < (tmp_path / "scale.svg").stat().st_size < 60_000


@pytest.mark.parametrize("arguments", [["nothing"], ["pair_band", "--scheme", "symmetric"]])
def test_what_cannot_be_simulated_is_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["scale", *arguments, "-q"]).exit_code == 2


def test_weights_are_fitted_to_what_runs_count() -> None:
    """Made-up runs of known weights: none is mistaken for another, and what each query takes is in none."""
    true, rng = {"taken": 12.0, "sent": 0.4, "compared": 0.02, "listed": 0.0}, np.random.default_rng(1)
    runs = []
    for _ in range(8):
        rows, sent, compared, results = (int(rng.integers(1_000, 1_000_000)) for _ in range(4))
        cpu = 1.5 + 1e-6 * (12.0 * rows + 0.4 * sent + 0.02 * compared)
        runs.append(Ran(cpu, (), {"rows_in": sent, "comparisons": compared, "results": results}, rows))
    found = weights(runs)
    assert {name: one.value for name, one in found.items()} == pytest.approx(true, rel=1e-3, abs=1e-6)
    assert all(one.least == pytest.approx(one.most, rel=1e-2, abs=1e-6) for one in found.values())


def test_a_weight_that_noise_hides_is_not_set() -> None:
    quiet, noisy = [100.0, 101.0, 102.0, 103.0], [60.0, 90.0, 120.0, 150.0]
    told, hidden = between(quiet, [one + 50 for one in quiet], 2), between(quiet, noisy)
    assert told.value == 25
    assert told.told
    assert not hidden.told
    found = dict.fromkeys(WEIGHTS, hidden) | {"unit": told}
    assert settings(found) == ["SET spark.trijoin.cost.unit = 25;"]


def test_what_is_aggregated_in_units_is_compared_too() -> None:
    """PAPERS A3: no comparison was counted of results that leave a unit as sums."""
    data = Data.of(WORKLOADS["pair_band"], 500)
    listed = totals(count(plan(data, "matrix", 2), data))
    sql = "SELECT {hint} COUNT(*) AS n FROM r JOIN s ON ABS(r.i - s.i) < 2"
    summed = replace(data, workload=replace(data.workload, sql=sql))
    planned = plan(summed, "matrix", 2)
    assert planned.root.spec.aggregate is not None
    found = totals(count(planned, summed))
    assert listed["comparisons"] > listed["results"] == found["results"] > 100
    assert found["comparisons"] == pytest.approx(listed["comparisons"], rel=0.01)  # steps of searches are rounded
