"""Data sources in Python as streams and sinks of a job, whose class stands beside the job file."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from trijoin_sql.errors import JobError
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job

from . import jobs

SOURCE = "USING python OPTIONS (class 'tail:Lines', path '{path}')"


def job_of(folder: Path, name: str = "tail:Lines") -> str:
    text = "".join(
        f"CREATE STREAM {one} {SOURCE.format(path=folder / one / '00000.json')} {jobs.WATERMARK};\n"
        for one in jobs.NAMES
    )
    sink = SOURCE.format(path=folder / "out").replace("(class", f"(checkpointLocation '{folder / 'state'}', class")
    text += f"CREATE SINK near {sink};\nINSERT INTO near {jobs.QUERY.format(r='r', s='s', t='t')};\n"
    return text.replace("tail:Lines", name)


@pytest.mark.rare
@pytest.mark.slow
def test_streams_and_a_sink_in_python(spark: SparkSession, tmp_path: Path) -> None:
    """And a restart between."""
    shutil.copy(Path(__file__).with_name("tail.py"), tmp_path)
    (tmp_path / "out").mkdir()

    def found() -> Counter[tuple[int, int, int]]:
        return jobs.bag(row for file in (tmp_path / "out").iterdir() for row in json.loads(file.read_text("utf-8")))

    for last in (40, 80):
        jobs.write_json(tmp_path, 0, last)
        jobs.run_here(spark, Script(str(tmp_path / "job.sql"), job_of(tmp_path)))
        assert found() == jobs.expected(last)
    assert len(list((tmp_path / "out").iterdir())) >= 2


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("tail:Line", r"has no class Line.*did you mean Lines"),
        ("tail:json", "tail:json is no data source"),
        ("nowhere:Lines", "there is no module named nowhere"),
    ],
)
def test_a_class_that_is_none_is_found_before_spark_starts(name: str, detail: str, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("tail.py"), tmp_path)
    with pytest.raises(JobError, match=f"(?s)job.sql:1:.*{detail}"):
        check_job(parse_job(Script(str(tmp_path / "job.sql"), job_of(tmp_path, name))))
