"""The papers' experiments: every record can run, findings are compared as they say, and one runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.declarations import read_script
from typer.testing import CliRunner

from . import paper
from .__main__ import app
from .bounded import Asked, run_bounded
from .paper import engine_of, measure
from .paper_experiments import EXPERIMENTS, Contender, Experiment, Finding
from .paper_report import FIGURES, Point, ratio, wrong
from .workloads import WORKLOADS, declarations, query, write_files


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_contender_runs_under_its_scheme(name: str) -> None:
    """A scheme that does not fit, or a finding about who does not run, would only show after minutes."""
    paper.check(name)
    experiment = EXPERIMENTS[name]
    assert set(experiment.figures) <= set(FIGURES)
    assert bool(experiment.values) == (experiment.swept not in ("", "batch"))
    assert experiment.here.endswith(".")
    assert experiment.why.endswith(".")
    for contender in experiment.contenders.values():
        if experiment.kind in ("stream", "live", "scaling"):
            workload, engine = WORKLOADS[contender.workload], engine_of(contender, experiment.units)
            (group,) = rewrite(query(workload, engine), read_script(declarations(workload))[0]).groups
            assert group.decision.scheme == contender.scheme.split("(")[0].split("@")[0].split("/")[0].split("+")[0]
            assert group.decision.units == max(round(contender.units * experiment.units), 1)
            assert workload.timed or experiment.kind != "live"


def test_the_page_on_the_papers_has_every_experiment_with_the_papers_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "papers.md").read_text("utf-8")
    for name, experiment in EXPERIMENTS.items():
        assert f"`{name}`" in page
        for finding in experiment.findings:
            assert f"| {finding.said} |" in page, name


def test_the_page_says_of_each_finding_whether_it_agrees_and_why_not() -> None:
    """By what stands there as found here; an experiment with a no has a reason below the table."""
    page = (Path(__file__).parents[2] / "docs" / "papers.md").read_text("utf-8")
    table, _, reasons = page.partition("Where figures differ, and why.")
    reasons = reasons.partition("## What is here of the papers")[0]
    rows = {
        row[1]: row for line in table.splitlines() if len(row := [one.strip() for one in line.split("|")[1:-1]]) == 5
    }
    for name, experiment in EXPERIMENTS.items():
        for finding in experiment.findings:
            _, _, paper_found, found, agrees = rows[finding.said]
            here = float(found.strip("*"))
            assert agrees.strip("*") == ("yes" if finding.agrees(here) else "no"), (name, finding.said)
            assert bool(paper_found) == (finding.ratio is not None)
            if "no" in agrees:
                assert f"`{name}`" in reasons or f"`{name[4:]}`" in reasons, name


@pytest.mark.parametrize(
    ("finding", "agreeing", "other"),
    [
        (Finding("", "a", "b", 0.5), [0.1, 0.96], [0.97, 1.0, 1.5]),
        (Finding("", "a", "b", 2.0), [1.04, 9.0], [1.0, 0.5]),
        (Finding("", "a", "b", 1.0), [0.8, 1.2], [0.79, 1.21]),
        (Finding("", "a", "", 11), [11, 10], [5]),
        (Finding("", "a", "b", less=True), [0.9], [1.0, 1.1]),
        (Finding("", "a", "b", less=False), [1.1], [1.0, 0.9]),
    ],
)
def test_a_finding_agrees_where_the_same_side_is_ahead(
    finding: Finding, agreeing: list[float], other: list[float]
) -> None:
    assert all(map(finding.agrees, agreeing))
    assert not any(map(finding.agrees, other))
    with pytest.raises(ValueError, match="which side is less"):
        Finding("neither a number nor a side", "a", "b")


def test_a_finding_compares_means_or_single_values() -> None:
    experiment = Experiment("t", "stream", {}, ("latency",), (), "", "", "units", (1, 2))
    figures = {("a", 1): 10.0, ("a", 2): 30.0, ("b", 1): 20.0, ("b", 2): 20.0}
    points = [Point(label, value, {"latency": figure}) for (label, value), figure in figures.items()]
    assert ratio(Finding("", "a", "b", 1), experiment, points) == 1.0
    assert ratio(Finding("", "a", "b", 1, at=2), experiment, points) == 1.5
    assert ratio(Finding("", "a", "a", 1, at=2, base=1), experiment, points) == 3.0
    assert ratio(Finding("", "a", "b", 1, figure="p99"), experiment, points) is None
    failed = [*points[:3], Point("b", 2, {}, "out of memory")]
    assert ratio(Finding("", "a", "b", 1), experiment, failed) is None


def test_contenders_that_disagree_or_fail_are_named() -> None:
    """One that stopped for want of memory has found less, and may."""
    contenders = {name: Contender("star_four", f"matrix/{name}") for name in ("disk", "memory", "tree")}
    experiment = Experiment("t", "bounded", contenders, ("complete",), (), "", "")
    points = [
        Point("disk", 2, {"results": 7.0, "complete": 1.0}),
        Point("memory", 2, {"results": 3.0, "complete": 0.5}),
        Point("tree", 2, {"results": 7.0, "complete": 1.0}),
    ]
    assert list(wrong(experiment, points)) == []
    points[2] = Point("tree", 2, {"results": 8.0, "complete": 1.0})
    assert list(wrong(experiment, [*points, Point("memory", 3, {}, "no")])) == [
        "memory failed: no",
        "star_four: they found different numbers of results: disk 7, tree 8",
    ]


def test_a_timed_run_comes_after_one_that_does_not_count_and_the_median_counts() -> None:
    contenders = {name: Contender("pair_band", "biclique") for name in "ab"}
    figures = iter([99.0, 99.0, 5.0, 1.0, 2.0, 4.0, 3.0, 3.0])
    ran: list[str] = []

    def run(label: str, value: float | None) -> list[Point]:
        ran.append(label)
        return [Point(label, value, {"latency": next(figures)})]

    experiment = Experiment("t", "live", contenders, ("latency",), (), "", "", runs=3)
    found = measure(experiment, run, lambda _: None)
    assert ran == ["a", "b", "a", "b", "b", "a", "a", "b"]
    assert {point.label: point.figures["latency"] for point in found} == {"a": 4.0, "b": 2.0}


def test_experiments_are_listed_and_unknown_ones_refused() -> None:
    listed = CliRunner().invoke(app, ["paper", "--format", "json"])
    assert list(json.loads(listed.stdout)) == list(EXPERIMENTS)
    refused = CliRunner().invoke(app, ["paper", "001-fig99"])
    assert refused.exit_code == 2
    assert "001-fig10" in refused.output


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="it is Linux that tells")
def test_a_slot_on_disk_goes_on_where_one_in_memory_has_to_stop(tmp_path: Path) -> None:
    """With the same results; and a tree of joins, which stores more, has them too."""
    write_files(WORKLOADS["star_four"], tmp_path / "data", 40_000, 8, seed=1)
    folder = str(tmp_path / "data")
    whole = run_bounded(Asked(folder, "matrix", "memory"))
    limit = whole.most // 2
    stopped, disk = (run_bounded(Asked(folder, "matrix", kept, limit=limit)) for kept in ("memory", "disk"))
    assert not stopped.complete
    assert stopped.last.rows < whole.last.rows
    assert disk.last.results == whole.last.results > 0
    assert disk.state_bytes > 0
    tree = run_bounded(Asked(folder, "tree", "disk", order=(1, 2, 3, 0), warm=1 << 20))
    assert tree.last.results == whole.last.results
    assert tree.stored > whole.stored


@pytest.mark.rare
@pytest.mark.slow
def test_an_experiment_runs(tmp_path: Path) -> None:
    """In its smallest form, in a session of its own; what is stored and sent is as exact as in a large one."""
    words = ["paper", "003-fig11", "--rows", "800", "--json", str(tmp_path / "found.json"), "-q"]
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-m", "tests.bench", *words], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (bandwidth,) = json.loads((tmp_path / "found.json").read_text())
    received = {one["contender"]: one["figures"]["sent"] for one in bandwidth["points"]}
    assert received["Q5 JB8-CR4"] < received["Q5 JB8-CR2"] < received["Q5 JB8"]
    assert "the paper found" in done.stdout
