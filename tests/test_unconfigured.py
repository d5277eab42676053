"""Sessions that `configure` did not make: each runs joins of streams, an aggregate above, a restart.

What a session has of `configure`'s settings, one that is made from the tests' own can lack. What a JVM has of them
takes another JVM, and a virtual environment that nobody activated.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import trijoin_sql
from trijoin_sql import UnavailableError
from trijoin_sql.spark import config
from trijoin_sql.spark.flags import settings_of
from trijoin_sql.spark.liberties import LIBERTY_SETTINGS

from . import foreign_session
from .foreign_session import CHAIN, PAIRS, work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.matrix

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SETTINGS = (*config.STATE_SETTINGS, *config.ARROW_SETTINGS, *config.LOCAL_CHECKPOINT_SETTINGS)
QUICK = "-XX:TieredStopAtLevel=1"
REMOTE = {"SPARK_REMOTE": "local[2]", "SPARK_TESTING": "1"}  # a free port instead of 15002


def without(spark: SparkSession, *keys: str) -> SparkSession:
    """Return a session in which nobody has set these."""
    theirs = spark.newSession()
    for key in keys:
        theirs.conf.unset(key)
    return theirs


def test_a_session_without_anything_of_ours(spark: SparkSession, tmp_path: Path) -> None:
    theirs = without(spark, *SETTINGS, *LIBERTY_SETTINGS)
    assert work(theirs, tmp_path, CHAIN) == ""
    # Nor may the store be lost again: it is said before anything starts, and tables need none.
    tj = trijoin_sql.TriJoinSession.create(theirs)
    foreign_session.views(theirs, tmp_path, streaming=True)
    theirs.conf.unset(PROVIDER)
    with pytest.raises(UnavailableError, match=r"(?s)HDFSBackedStateStoreProvider.*spark\.conf\.set\('spark\.sql\.str"):
        tj.sql(PAIRS)
    tj.explain(PAIRS)
    foreign_session.views(theirs, tmp_path, streaming=False)
    assert not tj.sql(PAIRS).isStreaming


@pytest.mark.rare  # a session without any of them is tried each time
@pytest.mark.parametrize("key", SETTINGS)
def test_a_session_without_one_of_them(spark: SparkSession, tmp_path: Path, key: str) -> None:
    assert work(without(spark, key), tmp_path) == ""


def test_a_global_view_of_ours_in_a_session_that_knows_nothing_of_us(spark: SparkSession, tmp_path: Path) -> None:
    """Its state store and its listener come when the query starts, also at a restart."""
    ours = spark.newSession()
    foreign_session.write(tmp_path, 0, range(14))
    foreign_session.views(ours, tmp_path, streaming=True)
    trijoin_sql.TriJoinSession.create(ours).sql(PAIRS).createGlobalTempView("near_pairs")
    try:
        for part in (1, 2):
            theirs = without(spark, *SETTINGS)
            foreign_session.run(theirs.table("global_temp.near_pairs"), tmp_path)
            foreign_session.write(tmp_path, part, range(14 * part, 14 * part + 14))
        foreign_session.run(without(spark, *SETTINGS).table("global_temp.near_pairs"), tmp_path)
    finally:
        spark.catalog.dropGlobalTempView("near_pairs")
    foreign_session.views(ours, tmp_path, streaming=False)
    found = ours.read.parquet(str(tmp_path / "found")).collect()
    assert Counter(found) == Counter(trijoin_sql.TriJoinSession.create(ours).sql(PAIRS).collect())
    assert len(found) > 50


def test_what_nobody_set_has_sparks_default(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a default given, ``conf.get`` answers that one; and a plan must be that of the session that runs it."""
    unset = ("spark.sql.ansi.enabled", "spark.sql.caseSensitive", "spark.sql.streaming.multipleWatermarkPolicy")
    theirs = without(spark, *unset, "spark.sql.shuffle.partitions", "spark.sql.session.timeZone")
    get = settings_of(theirs)
    assert [get(key) for key in unset] == [spark.conf.get(key) for key in unset] == ["true", "false", "min"]
    assert get("spark.sql.session.timeZone") == theirs.conf.get("spark.sql.session.timeZone") is not None
    assert (get("spark.sql.no such"), get("spark.trijoin.units"), get("spark.sql.shuffle.partitions")) == (None,) * 3
    # Spark's 200 partitions are nobody's choice: there are as many units as tasks run at once.
    for name in "rst":
        theirs.range(1).selectExpr("id AS x", "now() AS ts").createOrReplaceTempView(name)
    told = trijoin_sql.TriJoinSession.create(theirs).explain("SELECT r.x FROM r JOIN s ON r.x < s.x").to_dict()
    assert told["groups"][0]["decision"]["units"] == 2


def ended(command: list[str], **options: str) -> str:
    """Return the last line that a program in another JVM writes, whose settings are Spark's own."""
    kept = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "TMPDIR") if name in os.environ}
    environment = {**kept, "PATH": os.environ["PATH"], "JDK_JAVA_OPTIONS": QUICK, **options}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.mark.rare
@pytest.mark.slow
def test_a_builder_and_an_environment_that_nobody_activated(tmp_path: Path) -> None:
    """Workers take `python3` from the PATH unless told otherwise: another Python, without our packages."""
    shadow = tmp_path / "bin" / "python3"
    shadow.parent.mkdir()
    shadow.write_text("#!/bin/sh\nexit 3\n")
    shadow.chmod(0o755)
    command = [sys.executable, foreign_session.__file__, str(tmp_path), "spark.sql.shuffle.partitions=2"]
    path = f"{shadow.parent}{os.pathsep}{os.environ['PATH']}"
    assert ended(command, PATH=path, MASTER="local[2]") == "as batch"


@pytest.mark.rare
@pytest.mark.slow
def test_a_spark_connect_server_that_nobody_configured(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pip install 'trijoin-sql[connect]'")
    command = [sys.executable, foreign_session.__file__, str(tmp_path)]
    assert ended(command, PYSPARK_PYTHON=sys.executable, **REMOTE) == "as batch"


@pytest.mark.rare
@pytest.mark.slow
def test_a_spark_connect_server_whose_python_lacks_us(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pip install 'trijoin-sql[connect]'")
    command = [sys.executable, foreign_session.__file__, str(tmp_path)]
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(AssertionError, match="this Spark Connect server is not available: its Python cannot import"):
        ended(command, PYSPARK_PYTHON=str(bare), **REMOTE)


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("shell", [True, False])
def test_the_pyspark_shell_and_spark_submit_with_sparks_two_hundred_partitions(tmp_path: Path, shell: bool) -> None:
    spark_home = Path(pyspark.__file__).parent
    command = [str(spark_home / "bin" / "spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if not shell:
        assert ended([*command, foreign_session.__file__, str(tmp_path)], **python) == "as batch"
        return
    startup = tmp_path / "startup.py"
    startup.write_text(
        "import pathlib, sys\nfrom pyspark.shell import spark\n"
        f"sys.path.insert(0, {str(Path(foreign_session.__file__).parent)!r})\n"
        f"import foreign_session as theirs\nsaid = theirs.work(spark, pathlib.Path({str(tmp_path)!r}), theirs.LEFT)\n"
        "print(said or 'as batch')\n"
    )
    python["PYSPARK_SUBMIT_ARGS"] = "--master local[2] --conf spark.sql.shuffle.partitions=3 pyspark-shell"
    assert ended([sys.executable, str(startup)], **python) == "as batch"
