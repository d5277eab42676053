"""``trijoin-sql state``: what it says of a checkpoint, and that it changes nothing."""

from __future__ import annotations

import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from trijoin_sql import TriJoinSession
from trijoin_sql.errors import CheckpointDamagedError, UnavailableError
from trijoin_sql.running.state_report import read_state, report

#: What is cut to two bytes, and what the message names.
DAMAGES = {
    "commits/0": "commits/0 is not readable",
    "state/0/_metadata/*/*": "MismatchedInputException|Malformed",
    "state/0/*/1_*": "1_|checksum|EOF|header|zip|version",
}


def snapshot(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file()}


def test_report_lists_what_each_unit_stores(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("r", "s"):
        frame = spark.createDataFrame([(i, i % 5) for i in range(30)], "id bigint, a int")
        frame.coalesce(1).write.parquet(str(tmp_path / name))
        spark.readStream.schema("id bigint, a int").parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    sql = "SELECT /*+ UNITS(3) */ r.id, s.id FROM r JOIN s ON ABS(r.a - s.a) < 2"
    checkpoint = tmp_path / "checkpoint"
    tj = TriJoinSession.create(spark)
    writer = tj.sql(sql).writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    live = tj.explain(query).to_dict()["groups"][0]["live"]  # type: ignore[index,call-overload]
    assert live["counters"]["stored"] == 60  # type: ignore[index,call-overload]
    assert sum(unit["rows"] for unit in live["units"]) == 60  # type: ignore[index,call-overload,union-attr]
    # The commit says how far the query is, not what the units wrote down: a micro-batch may store nothing.
    commit = checkpoint / "commits" / "0"
    commit.with_name(".0.crc").unlink(missing_ok=True)
    commit.write_text(commit.read_text().replace('"nextBatchWatermarkMs":0', '"nextBatchWatermarkMs":1704067489000'))
    before = snapshot(checkpoint)
    found = read_state(spark, checkpoint)
    assert (found.batch, found.watermark) == (0, "2024-01-01T00:04:49+00:00")
    assert {store.slot for store in found.stores} == {0, 1, 2}
    assert {name: sum(s.rows for s in found.stores if s.store == name) for name in ("r", "s")} == {"r": 30, "s": 30}
    assert all(store.size > 0 for store in found.stores if store.chunks)
    assert any("ABS(r.a - s.a) < 2" in line for line in found.fingerprints[0])
    assert found.layouts == {0: ((0, 3),)}
    assert [store.slot for store in found.stores] == [0, 0, 1, 1, 2, 2]
    assert snapshot(checkpoint) == before

    for number, (damage, words) in enumerate(DAMAGES.items()):
        copy = tmp_path / f"damaged-{number}"
        shutil.copytree(checkpoint, copy)
        for path in sorted(copy.rglob("*"), reverse=True):
            if fnmatch(str(path.relative_to(copy)), damage) and path.is_file():
                path.write_bytes(path.read_bytes()[:2])
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        with pytest.raises(CheckpointDamagedError, match=words) as caught:
            read_state(spark, copy)
        assert "\n" not in caught.value.getMessageParameters()["detail"], damage
    shutil.rmtree(checkpoint / "state" / "0" / "_metadata")
    with pytest.raises(CheckpointDamagedError, match="state/0/_metadata is missing"):
        read_state(spark, checkpoint)
    shutil.rmtree(checkpoint / "commits")
    with pytest.raises(UnavailableError, match="has committed no micro-batch"):
        read_state(spark, checkpoint)


def test_a_query_of_several_joins_is_told_join_by_join(spark: SparkSession, tmp_path: Path) -> None:
    """Of two joins only the one was told that had worked last."""
    for name in ("r", "s"):
        spark.range(30).coalesce(1).write.parquet(str(tmp_path / name))
        spark.readStream.schema("id bigint").parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    sql = "SELECT r.id FROM r JOIN s ON r.id < s.id UNION ALL SELECT r.id FROM r JOIN s ON r.id = s.id + 3"
    checkpoint = tmp_path / "checkpoint"
    writer = TriJoinSession.create(spark).sql(sql).writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    found = read_state(spark, checkpoint)
    assert len(set(found.fingerprints.values())) == 2
    with (console := Console(width=140)).capture() as capture:
        report(found, console)
    said = capture.get()
    assert said.index("operator 0:") < said.index("r.id < s.id") < said.index("operator 1:") < said.index("s.id + 3")


def test_a_folder_that_is_no_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no state of a streaming query"):
        read_state(spark, tmp_path)
