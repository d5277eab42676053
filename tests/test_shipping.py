"""A cluster whose machines have PySpark and not our package: it is sent to them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from trijoin_sql.spark.shipping import write_zip

PROGRAM = """
import sys
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
import trijoin_sql

def loaded(rows):
    import trijoin_sql.operators.task.processor as module
    yield module.__file__

home = sys.argv[1]
builder = SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", "false")
for key, value in {"spark.local.dir": home, "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
                   "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": home + "/warehouse"}.items():
    builder = builder.config(key, value)
spark = trijoin_sql.configure(builder).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
try:
    spark.sparkContext.parallelize([0], 1).mapPartitions(loaded).collect()
except Exception as error:
    print("without:", "No module named 'trijoin_sql'" in str(error))
tj = trijoin_sql.TriJoinSession.create(spark)
trijoin_sql.TriJoinSession.create(spark)
print("sent:", sum("trijoin_sql" in name for name in spark.sparkContext._python_includes))
(file,) = spark.sparkContext.parallelize([0], 1).mapPartitions(loaded).collect()
print("from:", file.rsplit("/", 5)[1:])
for name in "rs":
    spark.range(100).coalesce(1).write.parquet(f"{home}/{name}")
    spark.readStream.schema("id LONG").parquet(f"{home}/{name}").createOrReplaceTempView(name)
frame = tj.sql("SELECT r.id, s.id AS other FROM r JOIN s ON ABS(r.id - s.id) < 2")
writer = frame.writeStream.format("memory").queryName("found").option("checkpointLocation", home + "/checkpoint")
query = writer.trigger(availableNow=True).start()
query.awaitTermination()
print("rows:", spark.table("found").count())
spark.stop()
"""


@pytest.mark.rare
@pytest.mark.spark
@pytest.mark.slow
def test_executors_need_nothing_of_ours(tmp_path: Path, bare_python: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "home")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": str(bare_python), "PYSPARK_DRIVER_PYTHON": sys.executable},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert told["without"] == "True", "this test's Python has the package: it shows nothing"
    assert told["sent"] == "1"
    assert "trijoin_sql-" in told["from"]
    assert ".zip" in told["from"]
    assert told["rows"] == "298"


def test_the_zip_file_has_all_that_workers_load(tmp_path: Path) -> None:
    """Its modules load without a parser, from their bytecode, and under another Python from their text."""
    path = tmp_path / "ours.zip"
    write_zip(path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert {name for name in names if name.endswith(".py")} == {
            name.removesuffix("c") for name in names if name.endswith(".pyc")
        }
        with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
            for name in names:
                data = archive.read(name)
                other.writestr(name, b"\0" * 4 + data[4:] if name.endswith(".pyc") else data)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from trijoin_sql.operators.task import dispatch, processor, stage\n"
        "print(processor.__file__); print('sqlglot' in sys.modules, 'networkx' in sys.modules)"
    )
    packages = sysconfig.get_paths()["purelib"]
    for one, suffix in (("ours.zip", ".pyc"), ("other.zip", ".py")):
        done = subprocess.run(
            [sys.executable, "-S", "-c", program, str(tmp_path / one)],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": packages},
            check=True,
        )
        file, loaded = done.stdout.splitlines()
        assert file == str(tmp_path / one / f"trijoin_sql/operators/task/processor{suffix}")
        assert loaded == "False False"
