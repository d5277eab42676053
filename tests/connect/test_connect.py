"""Spark Connect: joins, views, streams and counters, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.rare
def test_a_client_of_spark_connect_can_do_it_all(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pip install 'trijoin-sql[connect]'")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("work.py")), str(tmp_path)],
        capture_output=True,
        text=True,
        # With SPARK_TESTING the server takes a free port instead of 15002.
        env={**os.environ, "SPARK_TESTING": "1", "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    rows = found.pop("rows")
    assert rows > 100
    assert found.pop("session").startswith("pyspark.sql.connect")
    assert found.pop("refused").startswith("[TRIJOIN_UNSUPPORTED_QUERY]")
    assert (found.pop("results"), found.pop("nodes")) == (rows, ["TriJoin"])
    assert found == dict.fromkeys(found, True)
    assert {"plain", "arguments", "view", "stream", "live", "event time", "text live", "join live"} <= set(found)
    assert "pairs that Spark tests" in found
