"""Latencies are what they are called: from the arrival of a result's last tuple to the end of its micro-batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Observation, SparkSession

from .engines import Here
from .idle import run_idle
from .live import ARRIVALS, Arrivals, Live, _observed, _prepare, _timed, middle, run_live
from .report import idle_table, latency_table
from .runners import trijoin_runner
from .workloads import WORKLOADS, table


def test_arrivals_keep_the_rate() -> None:
    arrivals = Arrivals.at(30_000, 3, 2.0, 1000)
    assert (arrivals.ticks, arrivals.rows, arrivals.stored) == (20, 1000, 1000)
    assert arrivals.rate(3) == pytest.approx(30_000)
    assert Arrivals.at(1, 3, 0.01, 5).rows == 1


def test_a_tuple_finds_the_stated_partners_whatever_arrives() -> None:
    """Keys drawn for the stored rows alone gave up to forty partners for seven: another query, so to speak."""
    dense = WORKLOADS["chain_dense"]
    for rate in (3_000, 30_000):
        arrivals = Arrivals.at(rate, 3, 12.0, 20_000)
        domain = dense.domain(arrivals.drawn_for)
        found = []
        for tick in (0, arrivals.ticks // 2, arrivals.ticks):
            rng = np.random.default_rng(tick)
            stored = table(dense, 0, rng, 0, arrivals.stored + tick * arrivals.rows, domain)
            coming = table(dense, 1, rng, 0, 2_000, domain)
            apart = np.abs(stored["i"].to_numpy()[None, :] - coming["i"].to_numpy()[:200, None])
            found.append((apart < 2).sum(axis=1).mean())
        assert found[1] == pytest.approx(7, rel=0.1)
        assert found[0] < 7 < found[2]


def test_files_say_when_their_rows_arrive(tmp_path: Path) -> None:
    """Rows are counted on from the stored ones, so that a row's number tells its file."""
    _prepare(WORKLOADS["pair_band"], tmp_path, Arrivals(10, 3, 0.1, 4), 10, seed=1)
    for stream in "rs":
        assert pq.read_table(tmp_path / stream).column("l").to_pylist() == list(range(10))
        for tick in range(3):
            found = pq.read_table(tmp_path / "later" / stream / f"{tick:05}.parquet").column("l").to_pylist()
            assert [(number - 10) // 4 for number in found] == [tick] * 4


def report(began: float, took: int, ticks: dict[int, int]) -> SimpleNamespace:
    stamp = f"1970-01-01T00:00:{began:06.3f}Z"
    bins = [{"x": float(tick), "y": float(count)} for tick, count in ticks.items()]
    durations = {"triggerExecution": took, "addBatch": took - 20}
    return SimpleNamespace(timestamp=stamp, durationMs=durations, observedMetrics={ARRIVALS: {"ticks": bins or None}})


def test_a_result_is_as_late_as_the_end_of_its_micro_batch() -> None:
    """By hand: the stored rows' micro-batch and the first second do not count."""
    arrived = {tick: 10.0 + tick / 10 for tick in range(30)}
    reports = [
        report(2.0, 900, {-1: 70}),
        report(10.5, 300, {3: 5}),
        report(11.6, 200, {10: 3, 15: 1, 9: 8}),
        report(12.0, 400, {}),
    ]
    found = _timed("tree", reports, arrived)
    assert [took for took, _ in sorted(found.latencies)] == pytest.approx([0.3, 0.8])
    assert [rows for _, rows in sorted(found.latencies)] == [1, 3]
    assert found.results == 4
    assert found.mean == pytest.approx((0.3 + 3 * 0.8) / 4)
    assert found.durations == {"triggerExecution": 300, "addBatch": 280}
    assert found.triggers == 2


def test_quantiles_count_results_not_micro_batches() -> None:
    live = Live("tree", ((0.1, 98), (0.5, 1), (0.9, 1)))
    assert [live.latency(quantile) for quantile in (0.5, 0.95, 0.99)] == [0.1, 0.1, 0.9]
    assert Live("tree").latency(0.5) is None
    assert Live("tree").mean is None


def test_tables_compare_with_the_baseline_and_name_what_failed() -> None:
    from rich.console import Console

    durations = {"triggerExecution": 120.0, "addBatch": 90.0}
    live = {
        "symmetric": Live("symmetric", ((0.1, 4),), durations, 9),
        "tree": Live("tree", ((0.4, 4),), durations, 9),
        "spark": Live("spark", problem="no equality"),
    }
    console = Console(width=140)
    with console.capture() as text:
        console.print(latency_table("t", live))
        console.print(idle_table("t", live))
    assert "-75 %" in text.get()
    assert text.get().count("no equality") == 2


def test_the_run_in_the_middle_is_shown_and_a_failure_is_never_hidden() -> None:
    runs = [Live("tree", ((seconds, 1),)) for seconds in (0.3, 0.1, 0.2)]
    assert middle(runs, lambda run: run.mean) is runs[2]
    assert middle([*runs, Live("tree", problem="disk")], lambda run: run.mean).problem == "disk"


class Running:
    """A query that reports a micro-batch at every other look, and ends some time."""

    recentProgress = property(lambda self: pytest.fail("all reports were fetched: a call each"))  # noqa: N815

    def __init__(self, batches: int, error: Exception | None = None) -> None:
        self.looks, self.batches, self.error = 0, batches, error

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.looks < 2 * self.batches

    @property
    def lastProgress(self) -> SimpleNamespace | None:  # noqa: N802
        self.looks += 1
        return SimpleNamespace(batchId=self.looks // 2 - 1, timestamp="now") if self.looks > 1 else None

    def exception(self) -> Exception | None:
        return self.error


def test_waiting_for_a_query_hardly_disturbs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetching all reports at every look took a tenth of what was measured. The last one is seen too."""
    monkeypatch.setattr(trijoin_runner, "LOOK", 0.0)
    asked: list[int] = []

    def there(last: Any) -> bool:
        asked.append(last.batchId)
        return bool(last.batchId == 3)

    assert trijoin_runner.wait(Running(9), there, 60.0)
    assert asked == [0, 1, 2, 3]
    assert trijoin_runner.wait(Running(4), there, 60.0)
    assert not trijoin_runner.wait(Running(3), there, 60.0)
    assert not trijoin_runner.wait(Running(9), there, -1.0)
    with pytest.raises(OSError, match="disk"):
        trijoin_runner.wait(Running(2, OSError("disk")), there, 60.0)


@pytest.mark.rare
def test_idle_triggers_have_rows_of_every_stream_and_list_no_files(spark: SparkSession) -> None:
    """What is measured is the join's pipeline: a folder of files would be listed, the longer the more there are."""
    found = run_idle(Here(spark), WORKLOADS["pair_band"], "biclique", 100, 13, 0.0)
    assert found.problem is None
    assert found.triggers >= 3
    assert found.trigger == found.durations["triggerExecution"] > found.durations["latestOffset"]


@pytest.mark.slow
@pytest.mark.rare
def test_a_sample_of_the_results_is_timed_where_they_are_many(spark: SparkSession) -> None:
    """Those of one tuple in so many, whichever micro-batch they come in; with a sample of one, all."""
    arrivals = Arrivals(10, 4, 0.1, 10)
    rows = [(number, other) for number in range(50) for other in (3, 17, 49)]
    frame = spark.createDataFrame(rows, "r_l BIGINT, s_l BIGINT")
    for sample in (1, 5):
        seen = Observation(ARRIVALS)
        _observed(frame, WORKLOADS["pair_band"], replace(arrivals, sample=sample), seen).collect()
        found = {round(one["x"]): round(one["y"]) for one in seen.get["ticks"]}
        expected = Counter((max(pair) - 10) // 10 for pair in rows if pair[0] % sample == 0)
        assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine"), [("pair_band", "biclique"), ("cyclic_window", "symmetric")])
def test_a_live_run(spark: SparkSession, name: str, engine: str) -> None:
    """Every result of the last tuples is timed, once, and none before its tuples were there."""
    arrivals = Arrivals(1100, 15, 0.1, 80)
    kept = spark.conf.get("spark.trijoin.units", None)
    spark.conf.set("spark.trijoin.units", "2")
    try:
        found = run_live(spark, WORKLOADS[name], engine, arrivals, seed=1)
    finally:
        spark.conf.unset("spark.trijoin.units")
        if kept is not None:
            spark.conf.set("spark.trijoin.units", kept)
    assert found.problem is None
    assert found.triggers > 0
    assert found.results > 0
    assert min(late for late, _ in found.latencies) > 0
    assert {"triggerExecution", "addBatch"} <= found.durations.keys()
