"""Benchmarks measure what they say: the data's shape, the partners a tuple finds, the choice of the median run."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.declarations import read_script
from typer.testing import CliRunner

from . import paper, paper_report
from .__main__ import app
from .bench_command import HELP
from .live import Latency, Live
from .measure import Measured, turns
from .outcome import Outcome, median
from .report import as_document
from .workloads import WORKLOADS, check, declarations, query, table, write_files


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_converts_under_each_of_its_schemes(name: str) -> None:
    workload = WORKLOADS[name]
    catalog, _ = read_script(declarations(workload))
    for scheme in workload.schemes:
        name, _, intermediates = scheme.partition("+")[0].partition("@")[0].partition("/")
        assert name in SCHEMES
        groups = rewrite(query(workload, scheme), catalog).groups
        assert len(groups) == (len(workload.streams) - 1 if "+NO_JOIN_TREE" in scheme else 1)
        assert {group.decision.scheme for group in groups} == {name}
        assert {group.decision.options.pairs for group in groups} == {intermediates == "pair"}


def test_tuples_have_six_fields_and_about_eighty_bytes() -> None:
    found = table(WORKLOADS["chain_band"], 0, np.random.default_rng(1), 0, 1000, 1000)
    assert found.num_columns == 6
    assert 60 <= found.nbytes / 1000 <= 100


def test_a_tuple_finds_three_partners_in_a_chain_and_seven_in_a_cycle() -> None:
    """At the end of a run, with all rows stored: a band of three values over the stated domain."""
    rows = 20_000
    for name, expected in (("chain_band", 3.0), ("cyclic_band", 7.0), ("chain_dense", 14.0), ("cyclic_dense", 14.0)):
        workload = WORKLOADS[name]
        r, s = (
            table(workload, stream, np.random.default_rng(stream), 0, rows, workload.domain(rows)) for stream in (0, 1)
        )
        stored, probing = np.sort(r["i"].to_numpy()), s["i"].to_numpy()
        found = np.searchsorted(stored, probing + 1, "right") - np.searchsorted(stored, probing - 1, "left")
        assert found.mean() == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("name", ["chain_window", "cyclic_window"])
def test_a_tuple_finds_seven_partners_in_a_window_all_the_time(name: str) -> None:
    """What arrives finds those of the last half of the rows, early in a run as late."""
    workload, rows = WORKLOADS[name], 20_000
    domain = workload.domain(rows)
    r, s = (table(workload, stream, np.random.default_rng(stream), 0, 3 * rows, domain) for stream in (0, 1))
    for arriving in range(rows // 2, 3 * rows, rows // 2):
        stored = np.sort(r["i"].to_numpy()[arriving - rows // 2 : arriving])
        probing = s["i"].to_numpy()[arriving - 500 : arriving]
        found = np.searchsorted(stored, probing + 1, "right") - np.searchsorted(stored, probing - 1, "left")
        assert found.mean() == pytest.approx(7.0, rel=0.15)


def test_every_event_of_a_cyclic_workload_is_a_result() -> None:
    """Without that a cyclic join of small bands gives almost nothing to time."""
    workload, rows = WORKLOADS["cyclic_band"], 2048
    r, s, t = (table(workload, stream, np.random.default_rng(stream), 0, rows, 10**9) for stream in range(3))
    shared = ((r["i"], s["i"]), (s["im"], t["im"]), (r["im"], t["i"]))
    assert all(sorted(one.to_pylist()) == sorted(other.to_pylist()) for one, other in shared)
    by_x = dict(zip(s["i"].to_pylist(), s["im"].to_pylist(), strict=True))
    by_z = dict(zip(t["i"].to_pylist(), t["im"].to_pylist(), strict=True))
    assert all(by_x[x] == by_z[z] for x, z in zip(r["i"].to_pylist(), r["im"].to_pylist(), strict=True))


def test_files_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_files(WORKLOADS["pair_band"], tmp_path / folder, 100, 3, seed=7)
    one, two = (pq.read_table(tmp_path / folder / "r") for folder in ("one", "two"))
    assert one.equals(two)
    assert one.num_rows == 100


def test_the_median_run_is_one_that_happened() -> None:
    runs = [Outcome("a", seconds, 100) for seconds in (1.0, 4.0, 2.0)]
    assert median([*runs, Outcome("a", problem="no")]).seconds == 2.0
    assert median([Outcome("a", problem="no")]).problem == "no"


def test_unknown_names_are_refused_with_what_there_is() -> None:
    for words in (["nothing"], ["chain_band", "--scheme", "nothing"], ["chain_band", "--against", "nothing"]):
        result = CliRunner().invoke(app, [*words])
        assert result.exit_code == 2
        assert "there are" in result.output


#: In a clone, and in an sdist.
CLONE = (Path(__file__).parents[2] / ".git").exists()
NO_COMMIT = "the commits of this clone; it has none of that name" if CLONE else "a commit takes git, and a clone"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pair_band", "--scheme", "symmetric"], "pair_band: "),
        (["chain_band", "pair_band", "--scheme", "tree/pair"], "chain_band: "),
        (["common_key", "--scheme", "biclique@contrand:x"], "common_key: "),
        (["pair_band", "--scheme", "biclique@anyhow"], "pair_band: "),
        (["common_key", "--scheme", "symmetric@contrand:3"], "2 units cannot be divided evenly into 3 subgroups"),
        (["pair_zipf", "--scheme", "biclique@contrand:3*8"], "8 units cannot be divided evenly into 3 subgroups"),
        (["pair_zipf", "--scheme", "biclique*8@random"], "write SCHEME, and behind it /pair"),
        (["tpch_q5", "--scheme", "operator_tree((c, o), l)"], "tpch_q5: "),
        (["tpch_q5", "--latency", "3"], "its results do not say when they were due"),
        (["q5_revenue", "--against", "duckdb"], "it aggregates"),
        (["q7_pair", "--against", "pathway"], "only equalities and bands"),
        (["chain_band", "--json", "nowhere/out.json"], "the folder nowhere cannot be written"),
        (["chain_band", "--plot", "."], "it is a folder"),
        (["chain_window", "--against", "flink"], "chain_window: its window (WITHIN) is a clause of ours alone"),
        (["chain_window", "--against", "0000000"], NO_COMMIT),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_measured(words: list[str], said: str) -> None:
    """A run may take an hour, and what is wrong at its end loses it."""
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_the_examples_of_the_help_can_run() -> None:
    """One of them was refused: no workload of two streams took the routing that it showed."""
    lines = [line.partition("#")[0] for line in HELP.splitlines() if line.startswith("python -m tests.bench ")]
    assert len(lines) > 4
    for words in (shlex.split(line)[3:] for line in lines):
        options = [*pairwise(words)]
        units = next((int(value) for name, value in options if name == "--units"), 2)
        if words and words[0] != paper_report.NAME:
            for scheme in (value for name, value in options if name == "--scheme"):
                check(WORKLOADS[words[0]], words[0], scheme, units)
        for name in words[1:] if words and words[0] == paper_report.NAME else ():
            paper.check(name)


def test_the_help_shows_how_schemes_are_written() -> None:
    """Rich reads square brackets in help as markup."""
    assert "SCHEME@ROUTING:SUBGROUPS" in CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output


def test_routing_and_intermediates_are_part_of_what_is_compared() -> None:
    workload = WORKLOADS["common_key"]
    catalog, _ = read_script(declarations(workload))
    (group,) = rewrite(query(workload, "symmetric/pair@contrand:2"), catalog).groups
    assert group.decision.scheme == "symmetric"
    assert (group.decision.options.pairs, group.decision.options.routing) == (True, "contrand")


def test_units_orders_and_windows_are_part_of_what_is_compared() -> None:
    """Each of them could not be said, so that no bench compared trees, or units apart from cores."""
    catalog, _ = read_script(declarations(WORKLOADS["tpch_q5"]))
    (tree,) = rewrite(query(WORKLOADS["tpch_q5"], "operator_tree((c, o), l, s)*5"), catalog).groups
    assert (tree.decision.scheme, tree.decision.units) == ("operator_tree", 5)
    windowed = replace(WORKLOADS["pair_window"], window=7)
    (pair,) = rewrite(query(windowed, "biclique*3"), read_script(declarations(windowed))[0]).groups
    assert [kept.keep_for for kept in pair.retention] == [7_000_000, 7_000_000]
    assert "/*+ SCHEME('biclique'), NO_UNIT_AGGREGATE */" in query(
        WORKLOADS["q5_revenue"], "biclique+NO_UNIT_AGGREGATE"
    )


def test_streams_have_their_shares_of_rows_and_their_keys_meet() -> None:
    """TPC-H's foreign keys: each line has its order, each order its customer."""
    workload = WORKLOADS["tpch_q3"]
    sizes = workload.sizes(4_000)
    assert sizes == (100, 1000, 4000)
    customers, orders, lines = (
        table(workload, n, np.random.default_rng(n), 0, rows, 4_000) for n, rows in enumerate(sizes)
    )
    assert np.isin(orders["im"].to_numpy(), customers["i"].to_numpy()).all()
    assert np.isin(lines["i"].to_numpy(), orders["i"].to_numpy()).all()


def test_engines_that_disagree_or_fail_are_named() -> None:
    """The numbers of a wrong answer are worth nothing, however fast it was."""
    runs = {
        "tree": [Outcome("tree", 1.0, 10, 7), Outcome("tree", 1.0, 10, 7)],
        "spark": [Outcome("spark", 1.0, 10, 8)],
        "flink": [Outcome("flink", 600.0, 10, 3, exceeded=True)],
        "matrix": [Outcome("matrix", problem="out of memory")] * 2,
    }
    assert list(Measured(runs).wrong()) == [
        "matrix failed: out of memory",
        "the engines found different numbers of results: tree 7, spark 8",
    ]
    assert list(Measured({"tree": runs["tree"]}).wrong()) == []
    (said,) = Measured({"tree": [*runs["tree"], Outcome("tree", 1.0, 10, 8)], "spark": runs["spark"]}).wrong()
    assert said.endswith("tree 7, tree 8, spark 8")
    latencies = [
        Latency(1000.0, 1, {"tree": Live("tree")}),
        Latency(2000.0, 1, {"tree": Live("tree", problem="did not keep up")}),
    ]
    assert list(Measured({}, latencies).wrong()) == ["tree failed: did not keep up"]


def test_every_engine_comes_first_as_often_as_the_others() -> None:
    """With one order in all rounds the second of two equal engines was a fifth faster."""
    rounds = turns(["symmetric", "matrix", "tree"], 6)
    assert all(sorted(order) == ["matrix", "symmetric", "tree"] for order in rounds)
    assert sorted(order[0] for order in rounds) == ["matrix", "matrix", "symmetric", "symmetric", "tree", "tree"]
    assert turns(["tree"], 2) == [["tree"], ["tree"]]
    assert turns([], 1) == [[]]


def test_latencies_at_several_rates_are_told_apart() -> None:
    """One that did not keep up at the highest has figures at the others."""
    slow = Live("tree", ((0.4, 3), (0.8, 1)), {"triggerExecution": 300.0}, 4)
    latencies = [
        Latency(60_000.4, 5, {"tree": slow}),
        Latency(120_000.0, 5, {"tree": Live("tree", problem="did not keep up")}),
    ]
    found = as_document("w", "about", 10, 2, {"tree": [Outcome("tree", 1.0, 10, 7)]}, latencies)["latency"]
    assert [(one["tuples_a_second"], one["sample"]) for one in found] == [(60_000, 5), (120_000, 5)]
    assert [one["engines"]["tree"]["mean"] for one in found] == [pytest.approx(0.5), None]
    assert json.loads(json.dumps(found))[1]["engines"]["tree"]["problem"] == "did not keep up"
