"""A real Prometheus scrapes a running job, and every panel of the board has something to show."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlparse
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

import trijoin_sql
from trijoin_sql.running import live
from trijoin_sql.running.open_metrics import Queries

from .jobs.test_progress import Cells, report
from .maven_jars import NotObtainableError
from .prometheus import binary, panel_queries, scraping

ROWS = 'trijoin_input_rows_total{query="near"}'
KEPT = 'sum by (query, join) (trijoin_state_rows{query="near"})'
#: The panels to which a query of micro-batches adds: not those of Kafka and of real time.
OF_NEAR = [text for text in panel_queries() if "offsets" not in text and "latency" not in text]
NEAR = "SELECT a.x, s.x AS other FROM r AS a JOIN s ON ABS(a.x - s.x) < 5 WITHIN 10 SECONDS"


@pytest.fixture(scope="module")
def promtool() -> Path:
    try:
        return binary("promtool")
    except NotObtainableError as error:
        pytest.skip(f"Prometheus cannot be had here: {error}")


def in_real_time(queries: Queries, cells: Cells, ends: threading.Event) -> None:
    """A query in real time from Kafka that no broker is needed for: its cells find results, more and more."""
    queries.onQueryStarted(SimpleNamespace(id="q", runId="run", name="fast"))
    source = SimpleNamespace(
        description="KafkaV2[Subscribe[r]]", numInputRows=1, metrics={"maxOffsetsBehindLatest": "3"}
    )
    ended = report(0, (1, 1), name="fast", sink=SimpleNamespace(numOutputRows=-1))
    ended.sources = [source]
    queries.onQueryProgress(SimpleNamespace(progress=ended))
    for turn in range(1, 600):
        cells.tell(1, turn, turn, {4096: turn, 16_384: turn})
        if ends.wait(0.5):
            return


def test_every_panel_shows_a_running_job(
    spark: SparkSession, promtool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Micro-batches by Spark, real time made up; promtool finds no fault with the names and the text."""
    cells, ends = Cells(), threading.Event()
    monkeypatch.setattr(live, "_entries", {"run": cells})
    for name in "rs":
        rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
        rows = rows.selectExpr("value % 50 AS x", "timestamp AS ts").withWatermark("ts", "1 second")
        rows.createOrReplaceTempView(name)
    with trijoin_sql.metrics_server(spark) as server:
        (queries,) = server.registry._collector_to_names
        assert isinstance(queries, Queries)
        fast = threading.Thread(target=in_real_time, args=(queries, cells, ends))
        fast.start()
        found = trijoin_sql.TriJoinSession.create(spark).sql(NEAR)
        query = found.writeStream.format("memory").queryName("near").start()
        try:
            with scraping(urlparse(server.url).netloc, tmp_path) as prometheus:
                # Of Spark's query by itself too: the one that is made up has values at once.
                wanted = {*panel_queries(), ROWS, KEPT, *(one.replace(".*", "near") for one in OF_NEAR)}
                waiting, until = wanted, time.monotonic() + 120
                while waiting and time.monotonic() < until:
                    time.sleep(1)
                    waiting = {text for text in waiting if not prometheus.query(text)}
                assert waiting == set()
                rows = prometheus.query(ROWS)
                assert {one["metric"]["stream"] for one in rows} == {"r", "s"}
                kept = prometheus.query(KEPT)
                assert [float(one["value"][1]) > 0 for one in kept] == [True]
                (p99,) = prometheus.query(
                    next(text for text in panel_queries() if "0.99" in text and "latency" in text)
                )
                assert float(p99["value"][1]) == pytest.approx(0.0164, rel=0.4)
            with urlopen(server.url) as answer:
                checked = subprocess.run([promtool, "check", "metrics"], input=answer.read(), capture_output=True)
            assert (checked.returncode, checked.stderr.decode()) == (0, "")
        finally:
            query.stop()
            ends.set()
            fast.join()
