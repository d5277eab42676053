from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from trijoin_sql import doctor
from trijoin_sql.spark.java import either_java

PYSPARK = tuple(map(int, metadata.version("pyspark").split(".")[:2]))

OLD_OPTION = "Unrecognized option: --add-modules=jdk.incubator.vector"
NO_MODULE = "java.lang.module.FindException: Module jdk.incubator.vector not found"


def install(folder: Path, version: str, complaint: str | None = None) -> Path:
    """Write a ``java`` that says what the real one of that version says; `complaint` answers --add-modules."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    refuse = f'case "$1" in --add-modules*) echo "{complaint}" >&2; exit 1;; esac\n' if complaint else ""
    java.write_text(f"#!/bin/sh\n{refuse}echo 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("version", "complaint", "level"),
    [
        ("17.0.15", None, "ok"),
        ("21", None, "ok"),
        ("24.0.1", None, "warning"),
        ("25", None, "warning"),
        ("25.0.2", None, "warning"),
        ("25.0.3", None, "ok" if PYSPARK >= (4, 2) else "warning"),
        ("25.1", None, "ok" if PYSPARK >= (4, 2) else "warning"),
        ("11.0.22", None, "problem"),
        ("1.8.0_402", OLD_OPTION, "problem"),
        ("17.0.15", NO_MODULE, "problem"),
    ],
)
def test_java_versions(home: Path, version: str, complaint: str | None, level: str) -> None:
    install(home, version, complaint)
    finding = doctor.check_java()
    assert finding.level == level
    assert f"Java {version} ({home}/bin/java)" in finding.text
    assert "\n" not in finding.text
    if level == "problem":
        assert "apt-get install openjdk-" in finding.text
        assert "brew install openjdk@17" in finding.text
        assert "conda install -c conda-forge openjdk=17" in finding.text


def test_java_home_comes_before_the_path_as_in_spark(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path_factory.mktemp("other")
    install(other, "21.0.1")
    monkeypatch.setenv("PATH", str(other / "bin"), prepend=":")
    assert doctor.check_java().text.startswith(f"JAVA_HOME={home} has no bin/java; Java {either_java()} is needed: ")
    monkeypatch.delenv("JAVA_HOME")
    assert doctor.check_java().text == f"Java 21.0.1 ({other}/bin/java)"


def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.check_java().text.startswith(f"Java is not installed; Java {either_java()} is needed: ")


@pytest.mark.parametrize("script", ["exit 1", "echo nothing of use"])
def test_a_java_that_does_not_answer(home: Path, script: str) -> None:
    install(home, "17").write_text(f"#!/bin/sh\n{script}\n")
    assert doctor.check_java().level == "problem"


def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    (fine,) = doctor.check_packages()
    assert fine.level == "ok"
    real = metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "3.5.9" if name == "pyspark" else real(name))
    (wrong,) = doctor.check_packages()
    assert (wrong.level, wrong.subject) == ("problem", "pyspark")
    assert "pyspark 3.5.9" in wrong.text
    assert "pip install 'pyspark<4.4,>=4.0'" in wrong.text
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "3.1.1" if name == "pandas" else real(name))
    assert doctor.check_packages()[0].level == "ok"

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", missing)
    assert {finding.level for finding in doctor.check_packages()} == {"problem"}


@pytest.mark.parametrize(
    ("master", "level"),
    [
        ("local", "warning"),
        ("local[2]", "warning"),
        ("local[*]", "warning"),
        ("local[2,1]", "warning"),
        ("local[2,4]", "ok"),
        ("yarn", "ok"),
    ],
)
def test_a_local_master_without_a_failure_budget(monkeypatch: pytest.MonkeyPatch, master: str, level: str) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--master {master} pyspark-shell")
    finding = doctor.check_master()
    assert finding.level == level
    assert (level == "ok") == ("Use local[" not in finding.text)


def test_little_memory_and_little_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MEMORY_GIB", 1 << 20)
    monkeypatch.setattr(doctor, "DISK_GIB", 1 << 20)
    assert (doctor.check_memory().level, doctor.check_disk().level) == ("warning", "warning")


def test_a_disk_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "absent"))
    assert doctor.check_disk().level == "problem"


@pytest.mark.parametrize(
    ("mounts", "level"),
    [
        ("/dev/vda / ext4 rw 0 0\n", "ok"),
        ("/dev/vda / ext4 rw 0 0\ntmpfs {folder} tmpfs rw,nosuid 0 0\n", "warning"),
        ("tmpfs {folder} tmpfs rw 0 0\n/dev/vdb {folder} xfs rw 0 0\n", "ok"),
        ("", "ok"),
    ],
)
def test_a_copy_of_the_state_in_memory_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mounts: str, level: str
) -> None:
    """Debian 13 has /tmp in memory: the copy's pages would not be the machine's to take back."""
    listed = tmp_path / "mounts"
    listed.write_text(mounts.format(folder=tmp_path.resolve()))
    monkeypatch.setenv("TRIJOIN_LOCAL_DIR", str(tmp_path / "copies"))
    finding = doctor.check_copy(listed)
    assert finding.level == level
    assert (level == "ok") == ("TRIJOIN_LOCAL_DIR" not in finding.text)


def test_pyspark_is_not_imported() -> None:
    code = "import sys; from trijoin_sql.doctor import examine; examine(); assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_python_that_pyspark_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark installs on any newer Python and may fail there in its workers."""
    assert doctor.check_python().level == "ok"
    monkeypatch.setattr(doctor.sys, "version_info", (3, 99, 0))
    finding = doctor.check_python()
    assert finding.level == "warning"
    assert f"newer than PySpark {metadata.version('pyspark')} is made for (up to 3.1" in finding.text
