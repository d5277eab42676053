"""A session that `configure` did not make, and a virtual environment that nobody activated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """\
from pyspark.sql import SparkSession
import trijoin_sql

spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate())
for name in "rs":
    spark.range(4).createOrReplaceTempView(name)
tj = trijoin_sql.TriJoinSession.create(spark)
spark.conf.set("spark.sql.shuffle.partitions", "2")
print(sorted(tuple(row) for row in tj.sql("SELECT r.id, s.id FROM r JOIN s ON r.id < s.id - 1").collect()))
for name in "rs":
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    stream.withWatermark("timestamp", "1 second").createOrReplaceTempView(name)
found = tj.sql("SELECT r.value, s.value FROM r JOIN s ON ABS(r.value - s.value) < 2 WITHIN 10 SECONDS").toDF("a", "b")
found.writeStream.format("memory").queryName("found").trigger(availableNow=True).start().awaitTermination()
print(spark.table("found").count(), "pairs")
"""


def test_tables_and_streams_are_joined_on_the_drivers_python(tmp_path: Path) -> None:
    """Workers take `python3` from the PATH unless told otherwise: another Python, without our packages. And Spark's
    default store keeps no state of ours, so a session gets the other one: in every session that is not ours.
    """
    shadow = tmp_path / "bin" / "python3"
    shadow.parent.mkdir()
    shadow.write_text("#!/bin/sh\nexit 3\n")
    shadow.chmod(0o755)
    kept = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "TMPDIR") if name in os.environ}
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**kept, "PATH": f"{shadow.parent}{os.pathsep}{os.environ['PATH']}"},
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout == "[(0, 2), (0, 3), (1, 3)]\n58 pairs\n"
