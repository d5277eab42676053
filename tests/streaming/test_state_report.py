"""``trijoin-sql state``: what it says of a checkpoint, and that it changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from trijoin_sql import TriJoinSession
from trijoin_sql.errors import InvalidSettingError
from trijoin_sql.state import read_state


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
    before = snapshot(checkpoint)
    found = read_state(spark, checkpoint)
    assert {store.slot for store in found.stores} == {0, 1, 2}
    assert {name: sum(s.rows for s in found.stores if s.store == name) for name in ("r", "s")} == {"r": 30, "s": 30}
    assert all(store.size > 0 for store in found.stores if store.chunks)
    assert any("ABS(r.a - s.a) < 2" in line for line in found.fingerprint)
    assert found.layouts == {0: ((0, 3),)}
    assert snapshot(checkpoint) == before


def test_a_folder_that_is_no_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="no state of a streaming query"):
        read_state(spark, tmp_path)
