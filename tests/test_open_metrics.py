"""What Prometheus gets: totals from made-up reports, Spark's and those of cells in real time, and who serves them."""

from __future__ import annotations

import json
import re
import sys
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import trijoin_sql
from trijoin_sql.errors import UnavailableError
from trijoin_sql.running import live, open_metrics
from trijoin_sql.running.metrics_server import MetricsServer
from trijoin_sql.running.open_metrics import METRICS, Queries
from trijoin_sql.spark.rates import PlanSource

from .jobs.test_progress import Cells, report
from .prometheus import panel_queries

KEY = "__trijoin_1@4"


def slot(number: int, results: int, kept: int, **more: Any) -> dict[str, Any]:
    counters = {"results": results, "rows_in": 10, "bytes_in": 500, "comparisons": 7, "nulls": 1, "state_rows": kept}
    watermark = 1_704_103_190_000_000
    return {"slot": number, **counters, "state_bytes": 8 * kept, "expired": 2, "watermark": watermark, **more}


def late(rows: int) -> dict[str, Any]:
    """Rows of `r` that both of its aliases dropped."""
    one = {"rows": rows, "of": "R", "filtered": False, "behind": [rows, 0, 0, 0, 0, 0, 0]}
    return {"late_rows": {"a": one, "b": one}, "inputs": {"a": 1_704_103_195_000_000, "b": None}}


def progress(batch: int, *slots: dict[str, Any], key: str = KEY, run: str = "run", **more: Any) -> Any:
    """A report on Spark Connect's way, with its slots in it."""
    row = SimpleNamespace(asDict=lambda: {"slots": [json.dumps(one) for one in slots]})
    made = report(batch, (10, 20), name="near", runId=run, sink=SimpleNamespace(numOutputRows=-1), **more)
    made.observedMetrics[key] = row
    for source in made.sources:
        source.metrics = {"maxOffsetsBehindLatest": "12"} if source.numInputRows == 20 else None
    return SimpleNamespace(progress=made)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query reads `r` twice, as a and b, and `s`."""
    streams = [SimpleNamespace(alias=alias, reads=reads) for alias, reads in (("a", "R"), ("b", "r"), ("s", ""))]
    joins: dict[str, Any] = {KEY: SimpleNamespace(spec=SimpleNamespace(streams=streams))}
    monkeypatch.setattr(open_metrics, "known_join", lambda key: joins[key].spec if key in joins else None)
    monkeypatch.setattr(open_metrics, "sources_of", lambda _spark, _query: [PlanSource(("r",), 2), PlanSource(("s",))])


def queries(*heard: Any) -> tuple[Queries, CollectorRegistry]:
    found, registry = Queries(SimpleNamespace()), CollectorRegistry()  # type: ignore[arg-type]
    registry.register(found)
    for one in heard:
        found.onQueryProgress(one)
    return found, registry


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"trijoin_{name}", {"query": "near", **labels})


def test_batches_add_up_by_stream_and_unit() -> None:
    """Counters grow, gauges are the last of each unit, and a report that comes twice counts once."""
    first = progress(0, slot(0, 3, 5, **late(2)), slot(1, 1, 6))
    _, registry = queries(first, first, progress(1, slot(0, 4, 9)))
    in_unit = {"join": "__trijoin_1", "unit": "0"}
    assert value(registry, "batches_total") == 2
    assert value(registry, "input_rows_total", stream="r") == 10  # of a source that is read twice
    assert value(registry, "input_rows_total", stream="s") == 40
    assert value(registry, "output_rows_total") == 120
    assert value(registry, "late_rows_total", stream="r") == 2  # once, though two aliases dropped it
    assert value(registry, "late_rows_total", stream="s") == 0  # and no gap
    assert value(registry, "results_total", **in_unit) == 7
    assert value(registry, "unit_input_bytes_total", **in_unit) == 1000
    assert value(registry, "null_rows_total", **in_unit) == 2
    assert value(registry, "state_rows", **in_unit) == 9
    assert value(registry, "state_bytes", join="__trijoin_1", unit="1") == 48
    assert value(registry, "newest_event_timestamp_seconds", stream="r") == 1_704_103_195
    assert value(registry, "watermark_timestamp_seconds") == 1_704_103_200
    assert value(registry, "source_offsets_behind", stream="s") == 12
    assert value(registry, "batch_duration_seconds_bucket", le="0.1") == 2
    assert value(registry, "batch_duration_seconds_sum") == pytest.approx(0.2)


def test_two_joins_of_one_name_are_two() -> None:
    """Two views may each have a ``__trijoin_1``; their units are not the same."""
    both = progress(0, slot(0, 3, 5))
    both.progress.observedMetrics["__trijoin_1@9"] = SimpleNamespace(
        asDict=lambda: {"slots": [json.dumps(slot(0, 1, 2))]}
    )
    _, registry = queries(both)
    assert value(registry, "state_rows", join="__trijoin_1", unit="0") == 5
    assert value(registry, "state_rows", join="__trijoin_1#2", unit="0") == 2


def test_a_query_that_starts_again_goes_on_and_one_that_ends_goes() -> None:
    """A restart with fewer units: counters go on, also over a batch that comes again; units that are gone are gone."""
    found, registry = queries(progress(0, slot(0, 3, 5), slot(1, 1, 6)), progress(0, slot(0, 3, 5), run="later"))
    assert value(registry, "results_total", join="__trijoin_1", unit="0") == 6
    assert value(registry, "state_rows", join="__trijoin_1", unit="1") is None
    found.onQueryTerminated(SimpleNamespace(id="q", runId="run"))  # Spark may say so after the start
    assert value(registry, "batches_total") == 2
    found.onQueryTerminated(SimpleNamespace(id="q", runId="later"))
    assert value(registry, "batches_total") is None


def test_in_real_time_a_scrape_looks_into_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first batch has ended, and from then on without counting it twice."""
    cells = Cells()
    monkeypatch.setattr(live, "_entries", {"run": cells})
    found, registry = queries()
    found.onQueryStarted(SimpleNamespace(id="q", runId="run", name="near"))
    for one in (0, 1):
        cells.tell(0, 10, 4, {1024: 3, 30_000: 1}, cell=one)
        cells.told[-1]["rows"] = {"a": 10, "b": 9}  # a row that comes between two scrapes may be in one alias only
    assert value(registry, "results_total", join="__trijoin_1", unit="1") == 4
    assert value(registry, "input_rows_total", stream="r") == 20  # both aliases get each row
    assert value(registry, "result_latency_seconds_bucket", le="0.001024") == 6
    assert value(registry, "result_latency_seconds_bucket", le="0.024576") == 6
    assert value(registry, "result_latency_seconds_bucket", le="0.032768") == 8
    found.onQueryProgress(progress(0))
    cells.tell(1, 5, 2, {1024: 2})
    assert value(registry, "results_total", join="__trijoin_1", unit="0") == 6
    assert value(registry, "result_latency_seconds_count") == 10
    assert value(registry, "state_rows", join="__trijoin_1", unit="0") == 5


def test_the_text_is_openmetrics() -> None:
    """By its own parser; every metric has a help text, every series its query."""
    _, registry = queries(progress(0, slot(0, 3, 5, **late(2))))
    server = MetricsServer(registry, 0, "127.0.0.1")
    try:
        asked = Request(server.url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        with urlopen(asked) as answer:
            text = answer.read().decode()
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    finally:
        server.close()
    families = list(text_string_to_metric_families(text))
    assert {family.name for family in families} == {f"trijoin_{name}" for name in METRICS}
    assert all(family.documentation.endswith(".") for family in families)
    assert {sample.labels["query"] for family in families for sample in family.samples} == {"near"}


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UnavailableError, match=r"prometheus-client is not installed[^\n]*\n.*trijoin-sql\[metrics\]"):
        trijoin_sql.metrics_server(type("Session", (), {"readStream": None})())


def test_the_board_asks_for_what_there_is() -> None:
    """Each metric that a panel names is one of ours; of ours it leaves out those that others say better."""
    named = {
        re.sub("_(total|bucket)$", "", name) for expr in panel_queries() for name in re.findall(r"trijoin_(\w+)", expr)
    }
    assert set(METRICS) - named == {"batches", "unit_input_rows", "expired_rows"}
    assert named <= set(METRICS)
