"""Fixtures that all tests share. Most important: one Spark session for all tests of a process."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from py4j.protocol import Py4JError

from .fallbacks import fallbacks
from .sessions import quick_session
from .shared_trees import intact, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: When no further test begins, in seconds since 1970; without it, all run.
UNTIL = os.environ.get("TRIJOIN_TESTS_UNTIL")

# A slow machine is no failure (in a fresh clone the first test with text also waits for a table of all characters to
# be made, which counts as slow generation), and what fails once fails every time.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def local_dir(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A place of this process' own for warm copies: another one's tests lose theirs on purpose."""
    os.environ["TRIJOIN_LOCAL_DIR"] = str(tmp_path_factory.mktemp("local"))


@pytest.fixture(scope="module", autouse=True)
def shared_trees() -> Iterator[None]:
    """What the rewriter keeps for all queries, no query changes, whatever a file tests."""
    with watched() as made:
        yield
    assert [sql for sql in made if not intact(sql)] == []


@pytest.fixture(autouse=True)
def ours_runs(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test compares Spark with itself: what is given back to Spark fails it, if it does not read the log itself."""
    with fallbacks() as said:
        yield
    assert said == [] or "caplog" in request.fixturenames


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A classic session as `configure` makes it, with its files in a temporary folder.

    Tests that use it are marked ``spark`` by themselves.
    """
    session = quick_session(tmp_path_factory.mktemp("spark"), "tests")
    yield session
    with contextlib.suppress(Py4JError, OSError):  # a JVM that is gone has failed the tests that needed it
        for query in session.streams.active:
            query.stop()
        session.stop()


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python with this one's packages, but for those that are installed by reference to a folder: ours."""
    path = tmp_path / "python"
    packages = sysconfig.get_paths()["purelib"]
    # Nor from the working directory, which may be a clone.
    lines = (
        "#!/bin/sh",
        f'export PYTHONPATH="$PYTHONPATH:{packages}" PYTHONSAFEPATH=1',
        f'exec "{sys.executable}" -S "$@"',
    )
    path.write_text("\n".join((*lines, "")))
    path.chmod(0o755)
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whatever uses the session, and all but the first case of a long test: marks need no list kept by hand.

    Files that run long go first, in any of the processes; the many short ones then fill the last minute of both. Where
    the time is limited (CI), each run has another order of them, the same in all processes.
    """
    begun = set()
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if isinstance(item, pytest.Function) and (item.get_closest_marker("spark") or item.get_closest_marker("slow")):
            test = item.path, item.originalname
            if test in begun and not item.get_closest_marker("matrix"):
                item.add_marker("rare")
            begun.add(test)
    long = {item.path for item in items if item.get_closest_marker("spark") or item.get_closest_marker("slow")}
    turns = {path: hashlib.sha256(f"{UNTIL}{path}".encode()).digest() if UNTIL else b"" for path in long}
    items.sort(key=lambda item: (item.path not in long, turns.get(item.path, b"")))


def pytest_runtest_setup() -> None:
    """Skip what there is no time for any more."""
    if UNTIL and time.time() > float(UNTIL):
        pytest.skip("the time for these tests is over")
