"""EXPLAIN of every query of the corpus says what the operators were given."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from trijoin_sql.operators.checks import AnyOf, Band, Check
from trijoin_sql.operators.compile.node import Compiled, compile_join
from trijoin_sql.operators.schemes.iterative import probe_steps
from trijoin_sql.operators.spec import JoinSpec
from trijoin_sql.rewriter.job_heads import query_start
from trijoin_sql.rewriter.sql.catalog import DdlCatalog
from trijoin_sql.rewriter.sql.declarations import read_script

import trijoin_sql
from trijoin_sql.errors import UnsupportedQueryError

QUERIES = Path(__file__).parents[2] / "queries"
CORPUS = sorted(
    path for room in ("chain", "cyclic", "nexmark", "nway", "pair", "papers") for path in (QUERIES / room).glob("*.sql")
)

#: By kind of predicate the comparisons of the kernel that run it.
KINDS = {
    "equi": ("=",),
    "null_safe": ("<=>",),
    "not_equal": ("<>",),
    "range": ("<", "<=", ">", ">="),
    "band": ("band",),
    "either": ("either",),
}

Specs = list[JoinSpec]


@pytest.fixture
def specs(monkeypatch: pytest.MonkeyPatch) -> Specs:
    """What the operators were given."""
    given: Specs = []

    def noted(*args: Any, **options: Any) -> Compiled:
        given.append((compiled := compile_join(*args, **options)).spec)
        return compiled

    monkeypatch.setattr("trijoin_sql.compile_statement.compile_join", noted)
    return given


def declare(spark: SparkSession, catalog: DdlCatalog, empty: Path) -> None:
    """Make views of the relations that a file declares, without rows."""
    for name, info in catalog.tables:
        schema = ", ".join(f"`{column.name}` {column.type}" for column in info.columns)
        if not info.streaming:
            spark.createDataFrame([], schema).createOrReplaceTempView(f"`{name}`")
            continue
        frame = spark.readStream.schema(schema).parquet(str(empty))
        for column, delay in info.times:
            frame = frame.withWatermark(column, f"{(delay or 0) // 1000} milliseconds")
        frame.createOrReplaceTempView(f"`{name}`")


def op(check: Check) -> str:
    return "band" if isinstance(check, Band) else "either" if isinstance(check, AnyOf) else check.op


def assert_agree(group: dict[str, Any], spec: JoinSpec) -> None:
    decision, graph = group["decision"], group["graph"]
    assert group["name"] == spec.name
    assert spec.scheme == {"iterative": "matrix"}.get(decision["scheme"], decision["scheme"])
    assert tuple(graph["relations"]) == tuple(stream.alias for stream in spec.streams)
    assert decision["units"] in (None, spec.units) or spec.scheme == "matrix"
    assert decision["options"].get("intermediates") == ("pair" if spec.options.pairs else None)
    if "grid" in decision:
        assert tuple(dimension["shares"] for dimension in decision["grid"]) == spec.options.grid
    if "probes" in decision:
        for rank, order in enumerate(decision["probes"].values()):
            assert [spec.streams[step.target].alias for step in probe_steps(spec, rank)] == order
    assert ("probes" in decision) == (spec.scheme == "matrix")
    ends = {alias: rank for rank, alias in enumerate(graph["relations"])}
    shown: dict[tuple[int, int], Counter[str]] = {}
    for edge in graph["edges"]:
        kinds = [predicate["kind"] for predicate in edge["predicates"] if predicate["kind"] != "residual"]
        if kinds:
            shown[ends[edge["left"]], ends[edge["right"]]] = Counter(kinds)
    given = {
        (edge.left, edge.right): Counter(kind for c in edge.checks for kind, ops in KINDS.items() if op(c) in ops)
        for edge in spec.edges
    }
    for pair, kinds in shown.items():  # under `semi_symmetric` what follows from the hub's edges is not evaluated
        assert given[pair] == kinds or (spec.scheme == "semi_symmetric" and given[pair] <= kinds), pair
    assert set(given) == set(shown)
    bounded = {stream["alias"]: stream["keep_for"] is not None for stream in group["state"]["streams"]}
    for rank, stream in enumerate(spec.streams):
        assert bounded.get(stream.alias, False) == (spec.keep_for(rank) is not None)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_explain_says_what_runs(spark: SparkSession, specs: Specs, path: Path, tmp_path: Path) -> None:
    """Relations, scheme, units, options, grid, kinds of predicates by edge, retention."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    catalog, statements = read_script(path.read_text(encoding="utf-8"))
    query = statements[-1][query_start(statements[-1]) :]
    declare(spark, catalog, tmp_path)
    try:
        document = tj.explain(query).to_dict()
        groups = [one for one in document["groups"] if one["decision"]["node"] != "none"]
        with contextlib.suppress(UnsupportedQueryError):  # some are for another output mode
            tj.sql(query)
    finally:
        for name, _ in catalog.tables:
            spark.catalog.dropTempView(name)
    if document["refusals"]:  # what surrounds the joins cannot run, and neither do they
        return
    for group in groups:
        if group["decision"]["scheme"] != "operator_tree":
            found = [spec for spec in specs if spec.name == group["name"]]
            assert found
            for spec in found:
                assert_agree(group, spec)


#: For each kind of check that the kernel has, SQL that makes it: over a whole number, floats, a decimal, and times.
CHECKS = {
    "r.i = s.i": ("=", True, None),
    "r.s = s.s": ("=", False, None),
    "r.s = s.i": ("=", True, None),
    "r.i <=> s.i": ("<=>", True, None),
    "r.i <> s.i": ("<>", True, None),
    "r.d < s.d": ("<", True, None),
    "r.s >= s.s": (">=", False, None),
    "ABS(r.i - s.i) < 5": ("band", None, "int"),
    "ABS(r.n - s.n) < 5": ("band", None, "int"),
    "ABS(r.d - s.d) < 5": ("band", None, "float64"),
    "ABS(r.f - s.f) < 5": ("band", None, "float32"),
    "r.d - s.d > 5": ("band", None, "float64"),
    "r.ts > s.ts - INTERVAL 5 MINUTES": ("band", None, "int"),
}


@pytest.mark.parametrize("condition", CHECKS)
def test_every_kind_of_check_is_made_by_some_sql(
    spark: SparkSession, specs: Specs, condition: str, tmp_path: Path
) -> None:
    kind, exact, arithmetic = CHECKS[condition]
    columns = "i INT, s STRING, d DOUBLE, f FLOAT, n DECIMAL(10,2), ts TIMESTAMP"
    catalog, _ = read_script("".join(f"CREATE STREAM {name} ({columns}) USING rate;" for name in "rs"))
    declare(spark, catalog, tmp_path)
    try:
        trijoin_sql.TriJoinSession.create(spark).sql(f"SELECT r.i AS a, s.i AS b FROM r JOIN s ON {condition}")
    finally:
        for name in "rs":
            spark.catalog.dropTempView(name)
    (spec,) = specs
    (edge,) = spec.edges
    (check,) = edge.checks
    assert op(check) == kind
    if isinstance(check, Band):
        assert check.arithmetic == arithmetic
    else:
        assert check.exact is exact
