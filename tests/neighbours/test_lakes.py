"""Tables of Delta Lake and Iceberg as streams, sinks and static tables; results are exact, also after a crash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .. import maven_jars

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_tables_as_streams_and_sinks(name: str, tmp_path: Path) -> None:
    try:
        jars = maven_jars.lake(name)
    except maven_jars.NotObtainableError as error:
        pytest.skip(f"{name} cannot be had here: {error}")
    command = [sys.executable, "-m", "tests.neighbours.lake_work", name, str(jars), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report == dict.fromkeys(report, True)
