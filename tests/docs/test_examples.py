"""Every page's Python runs as it stands, block after block, and so do the jobs that a page saves and runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from rich.console import Console

from trijoin_sql import TriJoinSession
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare
from trijoin_sql.jobs.run import run_queries
from trijoin_sql.running.stopping import StopRequest

from .pages import PAGES, PENDING, ROOT, blocks, of_language

#: README's query is run by tests/test_readme.py.
WITH_PYTHON = [page for page in PAGES if page.parent != ROOT and of_language(page, "python")]


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that is the current one, of this process and of the JVM's file system."""
    monkeypatch.chdir(tmp_path)
    hadoop = spark._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.getLocal(spark._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory()
    files.setWorkingDirectory(hadoop.Path(str(tmp_path)))
    yield tmp_path
    files.setWorkingDirectory(before)


def run_job(text: str, spark: SparkSession) -> None:
    """Run a job as `trijoin-sql run --once` does."""
    job = parse_job(Script("job.sql", text))
    assert check_job(job) == []
    session = TriJoinSession.create(spark.newSession())
    outcome = run_queries(job, prepare(job, session), Console(quiet=True), StopRequest(), once=True)
    assert outcome.ended == "done"


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
@pytest.mark.usefixtures("folder")
def test_the_code_of_a_page_runs(page: Path, spark: SparkSession) -> None:
    names: dict[str, object] = {"spark": spark, "tj": TriJoinSession.create(spark)}
    saved = {}
    try:
        for block in blocks(page):
            if block.exempt is not None or PENDING & set(re.findall(r"\btj\.(\w+)\(", block.code)):
                continue
            if block.saved_as is not None:
                saved[block.saved_as] = block.code
            if block.language == "python":
                exec(compile(block.code, f"{page.name}:{block.line}", "exec"), names)
            for job in re.findall(r"^trijoin-sql run (\S+) --once$", block.code, re.MULTILINE):
                if job in saved:
                    run_job(saved[job], spark)
        queries = [value for value in names.values() if isinstance(value, StreamingQuery)]
        assert [query.exception() for query in queries] == [None] * len(queries), "a query fails in the background"
    finally:
        vars(spark).pop("sql", None)  # `enable`, if a block failed before its `disable`
        for query in spark.streams.active:
            query.stop()
        for view in spark.catalog.listTables():
            if view.isTemporary:
                spark.catalog.dropTempView(view.name)
