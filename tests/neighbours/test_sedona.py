"""Joins on geometries of Apache Sedona: what they imply about boxes, the rows that come, and columns that pass."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from .. import maven_jars

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_geometries_of_streams(tmp_path: Path) -> None:
    try:
        jars = maven_jars.sedona()
    except maven_jars.NotObtainableError as error:
        pytest.skip(f"Apache Sedona cannot be had here: {error}")
    if importlib.util.find_spec("sedona") is None:
        pytest.skip("Apache Sedona cannot be had here: apache-sedona is not installed")
    command = [sys.executable, "-m", "tests.neighbours.sedona_work", str(jars), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report == dict.fromkeys(report, "as in batch")
