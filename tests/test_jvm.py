"""Flags of the JVM come where nobody has chosen any, and where it is known to start with them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trijoin_sql import UnavailableError
from trijoin_sql.class_archive import make_archive
from trijoin_sql.spark import jvm

LOCAL = {"spark.master": "local[2]", "spark.trijoin.liberties.jvmFlags": "true"}
ARCHIVE = {"spark.master": "local[2]", "spark.trijoin.liberties.classArchive": "true"}


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that says it is a HotSpot 17, and nothing set outside; return what it says it in."""
    for name in (*jvm._VARIABLES, "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_DRIVER_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    release = program.parent.parent / "release"
    release.write_text('IMPLEMENTOR="X"\nJAVA_VERSION="17.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(release.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    return release


def test_nothing_is_added_to_what_somebody_has_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two collectors, and the JVM does not start."""
    assert jvm.COLLECTOR in str(jvm.java_options(LOCAL))
    for key in ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"):
        assert jvm.java_options({**LOCAL, key: "-XX:+UseG1GC"}) is None
    outside = {
        **dict.fromkeys(jvm._VARIABLES, "-XX:+UseG1GC"),
        "PYSPARK_SUBMIT_ARGS": "--driver-java-options -XX:+UseG1GC pyspark-shell",
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
    }
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-env.sh").write_text("SPARK_SUBMIT_OPTS=-XX:+UseG1GC")
    for name, value in outside.items():
        with monkeypatch.context() as here:
            here.setenv(name, value)
            assert jvm.java_options(LOCAL) is None, name


@pytest.mark.parametrize(
    "release", ['JAVA_VERSION="11.0.2"', 'JAVA_VERSION="24"', 'JAVA_VERSION="17.0.1"\nJVM_VARIANT="Openj9"', ""]
)
def test_another_java_gets_no_flags(java: Path, release: str) -> None:
    """Which it may not know: an unknown flag ends it at once."""
    java.write_text(release)
    assert jvm.java_options(LOCAL) is None
    with pytest.raises(UnavailableError, match="takes Java 17"):
        make_archive()


@pytest.mark.parametrize(
    ("heap", "chosen"), [("1g", True), ("4096m", True), ("4g", True), ("5g", False), ("1t", False), ("much", False)]
)
def test_a_large_heap_keeps_the_collector_with_short_pauses(heap: str, chosen: bool) -> None:
    options = str(jvm.java_options({**LOCAL, "spark.driver.memory": heap}))
    assert (jvm.COLLECTOR in options) == chosen
    assert jvm.FLAGS[0] in options


def test_an_archive_is_used_only_if_it_was_made_for_this_java_and_these_jars(
    tmp_path: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(jars.parent))
    (jars / "a.jar").write_text("a")
    assert jvm.java_options(ARCHIVE) is None, "nobody has made one"
    jvm.home().mkdir(parents=True)
    archive = jvm.home() / f"{jvm.archive_name()}-4.jsa"
    archive.write_text("half")
    assert f"'-XX:SharedArchiveFile={archive}'" in str(jvm.java_options(ARCHIVE)), "quoted: there is a space in it"
    (jars / "b.jar").write_text("b")
    assert jvm.java_options(ARCHIVE) is None
    (jars / "b.jar").unlink()
    assert jvm.java_options(ARCHIVE)
    times = ((jars / "a.jar").stat().st_atime_ns, (jars / "a.jar").stat().st_mtime_ns)
    os.utime(jars / "a.jar", (1, 1))
    assert jvm.java_options(ARCHIVE) is None
    os.utime(jars / "a.jar", ns=times)
    assert jvm.find_archive() == archive
    archive.write_text("hal")
    assert jvm.java_options(ARCHIVE) is None, "a JVM does not start with an archive that has lost its end"
    archive.write_text("half")
    java.write_text('JAVA_VERSION="17.0.2"\n')
    assert jvm.java_options(ARCHIVE) is None
