"""The trigger ``realTime``: joins in the JVM against Spark batch, and what is refused before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import trijoin_sql
from trijoin_sql.errors import CheckpointMismatchError, UnavailableError, UnsupportedQueryError
from trijoin_sql.running.checkpoint import CheckpointFile
from trijoin_sql.spark import operator_jar
from trijoin_sql.spark.operator_jar import jar, jdk

ROOT = Path(__file__).parents[2]
NEAR = "FROM r JOIN s ON ABS(r.x - s.x) < 5 WITHIN 10 SECONDS"


@pytest.mark.slow
@pytest.mark.parametrize(("count", "seed"), [(1, 0), (8, 100)])
def test_random_joins_give_the_rows_of_spark_batch(count: int, seed: int) -> None:
    """Types, conditions, cells, cuts and restarts drawn at random; in a process whose tasks can run side by side."""
    command = [sys.executable, "-m", "tests.streaming.real_time", "--count", str(count), "--seed", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.count(": equal") >= count / 2, done.stdout  # others raise an overflow


@pytest.fixture
def tj(spark: SparkSession) -> trijoin_sql.TriJoinSession:
    for name in "rst":
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
        stream = stream.selectExpr("value AS x", "timestamp AS ts").withWatermark("ts", "1 second")
        stream.createOrReplaceTempView(name)
    return trijoin_sql.TriJoinSession.create(spark)


def start(frame: DataFrame, folder: Path, format_: str = "console", trigger: str = "realTime") -> Any:
    writer = frame.writeStream.format(format_).queryName("real_time").option("checkpointLocation", str(folder))
    return writer.trigger(**{trigger: "5 seconds"}).start()


@pytest.mark.parametrize(
    ("sql", "format_", "says"),
    [
        (f"SELECT r.x {NEAR}", "console", "Spark does not read rate-micro-batch row by row"),
        (f"SELECT r.x {NEAR}", "memory", "Spark does not write into memory row by row"),
        (f"SELECT r.x {NEAR.replace('JOIN', 'LEFT JOIN')}", "console", "LEFT joins wait for the watermark"),
        ("SELECT r.x FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.x < r.x) ", "console", "SEMI joins wait"),
        (f"SELECT window(r.ts, '1 minute') AS w, COUNT(*) AS n {NEAR} GROUP BY 1", "console", "reads its event time"),
    ],
)
def test_what_cannot_run_so_is_refused_before_anything_starts(
    tj: trijoin_sql.TriJoinSession, tmp_path: Path, sql: str, format_: str, says: str
) -> None:
    before = len(tj.spark.streams.active)
    with pytest.raises(UnsupportedQueryError, match=says):
        start(tj.sql(sql), tmp_path / "checkpoint", format_)
    assert len(tj.spark.streams.active) == before
    assert not (tmp_path / "checkpoint").exists()


def test_complete_mode_is_refused(tj: trijoin_sql.TriJoinSession, tmp_path: Path) -> None:
    frame = tj.sql(f"SELECT /*+ NO_UNIT_AGGREGATE() */ r.x, COUNT(*) AS n {NEAR} GROUP BY r.x")
    writer = frame.writeStream.format("console").outputMode("complete")
    with pytest.raises(UnsupportedQueryError, match="its output mode is complete"):
        writer.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 seconds").start()


def test_too_few_slots_are_counted(
    tj: trijoin_sql.TriJoinSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trijoin_sql.running import real_time

    monkeypatch.setattr(real_time, "_source", lambda _step: "kafka")
    with pytest.raises(UnavailableError, match="2 streams and 1 cells are 3 tasks at once, at least, and Spark runs"):
        start(tj.sql(f"SELECT r.x {NEAR}"), tmp_path / "checkpoint")


def test_queries_without_a_join_of_ours_are_sparks(tj: trijoin_sql.TriJoinSession, tmp_path: Path) -> None:
    """Spark's own refusal, and no word of ours."""
    with pytest.raises(AnalysisException, match="STREAMING_REAL_TIME_MODE"):
        start(tj.spark.table("r"), tmp_path / "checkpoint")


def test_a_checkpoint_of_real_time_is_not_one_of_micro_batches(tj: trijoin_sql.TriJoinSession, tmp_path: Path) -> None:
    """The file that names the joins names the trigger too."""
    folder = tmp_path / "checkpoint"
    frame = tj.sql(f"SELECT r.x {NEAR}")
    query = start(frame, folder, "noop", "processingTime")
    query.awaitTermination(5)
    query.stop()
    file = CheckpointFile(tj.spark, str(folder))
    joins = file.read()
    assert not file.in_real_time
    file.in_real_time = True
    file.write(joins)
    query = start(frame, folder, "noop", "processingTime")
    with pytest.raises(Exception, match="it was written with the trigger realTime"):
        query.awaitTermination(60)


def test_a_query_of_micro_batches_does_not_go_on_in_real_time(
    tj: trijoin_sql.TriJoinSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trijoin_sql.running import real_time

    frame = tj.sql(f"SELECT r.x {NEAR}")
    query = start(frame, tmp_path / "checkpoint", "noop", "processingTime")
    query.awaitTermination(5)
    query.stop()
    monkeypatch.setattr(real_time, "_source", lambda _step: "kafka")
    monkeypatch.setattr(real_time, "tasks_at_once", lambda _spark: 16)
    with pytest.raises(CheckpointMismatchError, match="written by micro-batches"):
        start(frame, tmp_path / "checkpoint")


def test_the_jar_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    assert jdk() is not None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(operator_jar, "jar_of_wheel", lambda: None)
    class_path = str(spark._jvm.java.lang.System.getProperty("java.class.path"))  # type: ignore[union-attr]
    made = jar(spark.version, class_path)
    assert made.stat().st_size < 200 << 10
    before = made.stat().st_mtime_ns
    assert jar(spark.version, class_path).stat().st_mtime_ns == before
    monkeypatch.setattr("shutil.which", lambda _name, **_options: None)
    assert jar(spark.version, class_path) == made
    with pytest.raises(UnavailableError, match="there is no JDK"):
        jar("another version", class_path)
