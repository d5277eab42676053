from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from trijoin_sql import UnavailableError
from trijoin_sql.spark import config
from trijoin_sql.spark.java import either_java
from trijoin_sql.spark.liberties import LIBERTY_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Builder:
    """The part of a session builder that `configure` touches."""

    def __init__(self, **options: str) -> None:
        self._options = {key.replace("__", "."): value for key, value in options.items()}

    def config(self, key: str, value: Any) -> Builder:
        self._options[key] = str(value)
        return self


@pytest.fixture(autouse=True)
def _nothing_outside(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    for name in ("SPARK_CONF_DIR", "SPARK_REMOTE", "MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON", ""))  # restored afterwards
    if "spark" not in request.fixturenames:
        monkeypatch.setattr(config, "_running_settings", lambda options: None)


def configured(**options: str) -> dict[str, str]:
    return config.configure(Builder(**options))._options


@pytest.mark.parametrize(
    ("master", "partitions"),
    [("local", 1), ("local[3]", 3), ("local[3,4]", 3), ("local[ 3 , 4 ]", 3), ("yarn", config.CLUSTER_PARTITIONS)],
)
def test_partitions_follow_the_cores(master: str, partitions: int) -> None:
    assert configured(spark__master=master)["spark.sql.shuffle.partitions"] == str(partitions)


def test_partitions_follow_the_cores_that_a_cluster_grants() -> None:
    wide = {"spark.master": "yarn", "spark.executor.instances": "3", "spark.executor.cores": "4"}
    assert config.settings_for(wide)["spark.sql.shuffle.partitions"] == "12"
    capped = {"spark.master": "spark://host:7077", "spark.cores.max": "6"}
    assert config.settings_for(capped)["spark.sql.shuffle.partitions"] == "6"


def test_a_setting_of_the_builder_wins() -> None:
    options = configured(spark__master="local[2]", spark__sql__shuffle__partitions="40")
    assert options["spark.sql.shuffle.partitions"] == "40"
    assert options["spark.sql.streaming.stateStore.checkpointFormatVersion"] == "2"


def test_settings_from_outside_the_program_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.sql.shuffle.partitions   50\nspark.sql.execution.arrow.maxBytesPerBatch=8m\n\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--master 'local[3]' --conf spark.python.unix.domain.socket.enabled=false pyspark-shell",
    )
    options = configured()
    assert "spark.sql.shuffle.partitions" not in options
    assert "spark.sql.execution.arrow.maxBytesPerBatch" not in options
    assert "spark.python.unix.domain.socket.enabled" not in options
    assert config._FILE_MANAGER in options


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.master", "yarn"),
        ("spark.hadoop.fs.defaultFS", "hdfs://name/"),
        ("spark.sql.streaming.checkpointLocation", "s3a://bucket/checkpoints"),
    ],
)
def test_only_local_checkpoints_leave_sparks_file_manager(key: str, value: str) -> None:
    assert config._FILE_MANAGER in config.settings_for({"spark.master": "local[2]"})
    assert config._FILE_MANAGER not in config.settings_for({"spark.master": "local[2]", key: value})


@pytest.mark.parametrize(
    ("key", "value", "sockets"),
    [
        ("spark.master", "yarn", False),
        ("spark.executor.extraJavaOptions", "-Djava.io.tmpdir=/a/folder", False),
        ("spark.driver.extraJavaOptions", "-Xmn512m", True),
        ("spark.master", "spark://host:7077", True),
    ],
)
def test_sockets_are_not_put_into_deep_folders(key: str, value: str, sockets: bool) -> None:
    """A container of YARN has its temporary files deep down: "AF_UNIX path too long", and no context."""
    user = {"spark.master": "local[2]", key: value}
    assert (config._SOCKETS in config.settings_for(user)) == sockets
    assert config._SOCKETS in config.settings_for({**user, config._SOCKETS_IN: "/tmp"})


def test_tracebacks_in_full_are_the_users_to_have() -> None:
    """Without them Spark sets a variable for some workers; ours sets it for the others, so that they are the same."""
    assert config._TRACEBACK in config.settings_for({"spark.master": "local[2]"})
    assert config._TRACEBACK not in config.settings_for({"spark.master": "local[2]", config._SIMPLIFIED: "false"})


def test_a_connect_server_gets_only_what_a_session_takes() -> None:
    ours = set(configured(spark__remote="sc://host")) - {"spark.remote"}
    assert ours == {*config.STATE_SETTINGS, *config.ARROW_SETTINGS, *LIBERTY_SETTINGS}
    assert config._FILE_MANAGER in configured(spark__remote="local[2]")  # the server starts in this process


def test_a_builder_that_hides_its_options_is_configured_all_the_same() -> None:
    given: dict[str, str] = {}
    config.configure(SimpleNamespace(config=given.__setitem__))
    assert set(config.STATE_SETTINGS) <= set(given)


@pytest.mark.parametrize(("master", "python"), [("local[2]", sys.executable), ("yarn", None)])
def test_workers_of_a_local_master_run_on_this_python(
    master: str, python: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    configured(spark__master=master)
    assert os.environ.get("PYSPARK_PYTHON") == python
    monkeypatch.setenv("PYSPARK_PYTHON", "mine")
    configured(spark__master=master)
    assert os.environ["PYSPARK_PYTHON"] == "mine"


def test_a_session_has_every_setting(spark: SparkSession) -> None:
    for part in (
        config.STATE_SETTINGS,
        config.ARROW_SETTINGS,
        config.CONTEXT_SETTINGS,
        config.LOCAL_CHECKPOINT_SETTINGS,
        LIBERTY_SETTINGS,
    ):
        assert {key: spark.conf.get(key) for key in part} == dict(part)
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_running_session_keeps_its_own(spark: SparkSession) -> None:
    key = "spark.sql.execution.arrow.maxBytesPerBatch"
    before = spark.conf.get(key)
    spark.conf.set(key, "8m")
    try:
        assert config.configure(type(spark).builder).getOrCreate() is spark
        assert spark.conf.get(key) == "8m"
    finally:
        spark.conf.set(key, before)


def context(master: str, python: str, **settings: str) -> Any:
    """A running context that somebody else made."""
    conf = SimpleNamespace(getAll=lambda: [(key.replace("__", "."), value) for key, value in settings.items()])
    return SimpleNamespace(master=master, pythonExec=python, getConf=lambda: conf)


def test_workers_of_a_session_that_nobody_configured_run_on_our_interpreter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark's python3 is another interpreter wherever a virtual environment is used without being activated."""
    monkeypatch.delenv("PYSPARK_PYTHON")
    elsewhere = tmp_path / "python3"
    elsewhere.write_text("#!/bin/sh\n")
    elsewhere.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for made in (context("local[2]", "python3"), context("local", "no_such_python")):
        config.prepare_workers(made)
        assert made.pythonExec == sys.executable
    for left in (
        context("spark://host:7077", "python3"),
        context("local[2]", "python3", spark__pyspark__python="python3"),
        context("local[2]", sys.executable),
    ):
        before = left.pythonExec
        config.prepare_workers(left)
        assert left.pythonExec == before
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    made = context("local[2]", "python3")
    config.prepare_workers(made)
    assert made.pythonExec == "python3"


def test_what_comes_too_late_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "trijoin_sql"):
        config.prepare_workers(context("local[2]", sys.executable))
        config.prepare_workers(context("local[2]", sys.executable, **config.CONTEXT_SETTINGS))
    (record,) = caplog.records
    assert "spark.python.unix.domain.socket.enabled" in record.message
    assert "make the session with trijoin_sql.configure" in record.message


def test_no_java_is_said_before_pyspark_ends_in_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    with pytest.raises(
        UnavailableError, match=rf"has no bin/java; Java {either_java()} is needed: .*\n.*trijoin-sql doctor"
    ):
        configured(spark__master="local[2]")
    configured(spark__remote="sc://host")  # the server has its own


def test_what_is_imported_early_is_what_a_session_needs_and_nothing_of_pyspark() -> None:
    """The program may import PySpark at that time, and two threads in its circles of imports see half a module."""
    program = """\
import sys, threading
from trijoin_sql.spark import config
config._import_early()
[thread] = [one for one in threading.enumerate() if one.name == "trijoin-import"]
thread.join()
print([name for name in sys.modules if name.partition(".")[0] == "pyspark"])
before = {*sys.modules}
import trijoin_sql.session
found = {name.partition(".")[0] for name in {*sys.modules} - before}
print(found & {"sqlglot", "networkx", "numpy", "pandas", "pyarrow"})
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n") == ["[]", "set()", ""]


def test_the_jvm_gets_flags_with_a_local_master_that_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster, and where a JVM runs already, they would be another JVM's, or nobody's."""
    monkeypatch.setattr(config, "java_options", lambda user: "-XX:+Ours")
    for master, running, flags in (("local[2]", False, "-XX:+Ours"), ("yarn", False, None), ("local[2]", True, None)):
        monkeypatch.setattr(config, "_has_jvm", lambda running=running: running)
        assert configured(spark__master=master).get(config.OPTIONS) == flags, master
