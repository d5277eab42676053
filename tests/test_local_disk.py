"""Hadoop creates files on a local disk as it always did, but for the process that it starts for each."""

from __future__ import annotations

import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import trijoin_sql
from trijoin_sql.spark.local_disk import set_permissions_without_processes

pytestmark = pytest.mark.spark


@pytest.fixture
def hadoop(spark: SparkSession) -> Any:
    """Hadoop's package in the session's JVM, after a streaming query of ours had a micro-batch."""
    for name in "rs":
        spark.readStream.format("rate").load().createOrReplaceTempView(f"disk_{name}")
    found = trijoin_sql.TriJoinSession.create(spark).sql(
        "SELECT r.value FROM disk_r AS r JOIN disk_s AS s ON r.value < s.value AND r.timestamp = s.timestamp"
    )
    found.writeStream.format("noop").trigger(once=True).start().awaitTermination()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return spark.sparkContext._jvm.org.apache.hadoop


def local(spark: SparkSession, hadoop: Any) -> Any:
    return hadoop.fs.FileSystem.getLocal(spark.sparkContext._jsc.hadoopConfiguration())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_streaming_query_has_files_created_without_a_process_for_each(spark: SparkSession, hadoop: Any) -> None:
    """Twelve of them in a micro-batch were a seventh of its time."""
    raw = local(spark, hadoop).getRawFileSystem()
    assert raw.getClass().getName() == "TriJoinLocalFileSystem"
    assert set_permissions_without_processes(spark.sparkContext)
    assert local(spark, hadoop).getRawFileSystem().equals(raw), "a second query takes what is there"


def test_permissions_are_those_that_were_asked_for(spark: SparkSession, hadoop: Any, tmp_path: Path) -> None:
    """Files and folders as Hadoop makes them: its umask, not the process's; the sticky bit, which Java cannot set."""
    files, permission = local(spark, hadoop), hadoop.fs.permission.FsPermission
    files.create(hadoop.fs.Path(str(tmp_path / "made")), True).close()
    files.mkdirs(hadoop.fs.Path(str(tmp_path / "folder")))
    assert (mode(tmp_path / "made"), mode(tmp_path / "folder")) == (0o644, 0o755)
    assert (tmp_path / ".made.crc").is_file(), "Hadoop's own checksums stay"
    for asked in ("000", "600", "640", "444", "777", "1777"):
        files.setPermission(hadoop.fs.Path(str(tmp_path / "folder")), permission(asked))
        assert mode(tmp_path / "folder") == int(asked, 8)
    files.setPermission(hadoop.fs.Path(str(tmp_path / "folder")), permission("755"))


def test_a_file_that_is_not_there_is_an_error_as_before(spark: SparkSession, hadoop: Any, tmp_path: Path) -> None:
    missing = hadoop.fs.Path(str(tmp_path / "missing"))
    with pytest.raises(Py4JJavaError, match="missing"):
        local(spark, hadoop).setPermission(missing, hadoop.fs.permission.FsPermission("644"))


def test_without_the_classes_that_it_takes_hadoop_stays_as_it_is(spark: SparkSession) -> None:
    """A Spark of one's own making may lack Janino; py4j then has a package where the class should be."""
    missing = spark.sparkContext._jvm.org.apache.hadoop.nowhere
    apache = SimpleNamespace(hadoop=SimpleNamespace(fs=SimpleNamespace(FileSystem=missing)))
    context = SimpleNamespace(
        master="local[2]",
        _jvm=SimpleNamespace(org=SimpleNamespace(apache=apache)),
        _jsc=spark.sparkContext._jsc,
    )
    assert not set_permissions_without_processes(context)


def test_on_a_cluster_nothing_is_touched() -> None:
    """Its files are written by other machines."""
    assert not set_permissions_without_processes(SimpleNamespace(master="spark://host:7077"))
