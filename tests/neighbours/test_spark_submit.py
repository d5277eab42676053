"""A script under ``spark-submit``, which starts Java itself and Python below it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest


@pytest.mark.rare
@pytest.mark.slow
def test_a_script_runs_under_spark_submit(tmp_path: Path) -> None:
    """With the settings of the command line beside those of `configure`."""
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2,4]"]
    command += ["--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.ui.enabled=false"]
    done = subprocess.run(
        [*command, str(Path(__file__).with_name("submitted.py")), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    values = range(20)
    triples = sum(abs(r - s) <= 1 and s < t < r + 3 for r in values for s in values for t in values)
    assert done.stdout.splitlines()[-1] == f"found {triples} on local[2,4]"
