"""The cookbook: every job runs as it stands, finds something, and finds what Spark batch finds."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)
from rich.console import Console
from typer.testing import CliRunner

from trijoin_sql import TriJoinSession, cli
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare
from trijoin_sql.jobs.run import run_queries
from trijoin_sql.jobs.statements import Job, SparkStatement
from trijoin_sql.running.stopping import StopRequest

COOKBOOK = Path(__file__).parents[2] / "queries" / "cookbook"
PAPERS = COOKBOOK.parent / "papers"
QUESTIONS = sorted(path.stem for path in COOKBOOK.glob("*.sql"))
#: One event after another (docs/sequences.md), and how long EXPLAIN says that rows are kept.
SEQUENCES = {
    "login_places": {"0 seconds", "30 minutes"},
    "card_testing": {"0 seconds", "10 minutes"},
    "door_and_motion": {"0 seconds", "10 minutes"},
    "sensor_rising": {"3 minutes", "6 minutes", "9 minutes"},
    "session_gap": {"0 seconds", "10 minutes", "1 hour"},
}
_SECONDS = {"SECONDS": 1, "MINUTES": 60}


def written(source: Path, folder: Path, files: int = 1) -> Path:
    """Write the streams' files as a user writes them."""
    found = importlib.util.spec_from_file_location("made_up_data", source / "data.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    module.write(folder / "data", *([files] if files > 1 else []))
    return folder / "data"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(COOKBOOK, tmp_path_factory.mktemp("cookbook"))


@pytest.fixture(scope="module")
def papers_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(PAPERS, tmp_path_factory.mktemp("papers"))


def job_of(question: str, data: Path, folder: Path = COOKBOOK, options: str = "") -> Job:
    """Return the job, with its rows kept in memory instead of printed, and more options of its streams."""
    text = (folder / f"{question}.sql").read_text("utf-8")
    text, consoles = re.subn(r"USING console OPTIONS \(truncate false\)", "USING memory OPTIONS (numRows 100000)", text)
    assert consoles == len(re.findall("CREATE SINK", text))
    text = re.sub(r"'data/([\w.]+)'", rf"'{data}/\1'{options}", text)
    job = parse_job(Script(question, text))
    assert check_job(job) == []
    return job


def for_spark(query: str) -> str:
    """Return a query with its WITHIN spelled out."""
    found = re.search(r"\bWITHIN (\d+) (SECONDS|MINUTES)", query)
    if found is None:
        return query
    micros = int(found[1]) * _SECONDS[found[2]] * 1_000_000
    aliases = re.findall(r"(?:FROM|JOIN) \w+ AS (\w+)", query)
    pairs = [f"AND ABS(UNIX_MICROS({a}.ts) - UNIX_MICROS({b}.ts)) <= {micros}" for a, b in combinations(aliases, 2)]
    return query[: found.start()] + " ".join(pairs) + query[found.end() :]


def in_batch(spark: SparkSession, job: Job, late: list[Any]) -> Counter[str]:
    """Return what Spark finds in the same files, without the rows that came too late."""
    spark.conf.set("spark.sql.join.asofJoin.enabled", "true")
    for stream in job.streams:
        schema = ", ".join(f"{column.name} {column.type}" for column in stream.columns)
        frame = spark.read.schema(schema).json(stream.options.text("path"))
        ids = [json.loads(row["row"])["id"] for row in late if row["stream"] == stream.name.text]
        (frame.where(~F.col("id").isin(ids)) if ids else frame).createOrReplaceTempView(stream.name.text)
    for statement in job.statements:
        if isinstance(statement, SparkStatement):
            spark.sql(for_spark(statement.sql.text))
    rows = spark.sql(for_spark(job.inserts[0].query.text))
    return Counter(row[0] for row in rows.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).collect())


def test_there_are_twenty_one_questions_and_each_has_its_page() -> None:
    page = (COOKBOOK.parent / "README.md").read_text("utf-8")
    assert len(QUESTIONS) == 21
    assert [name for name in QUESTIONS if f"(cookbook/{name}.sql)" not in page] == []


def check(job: Job, spark: SparkSession) -> Counter[str]:
    """Run a job, compare its rows with Spark batch's, and return them."""
    session = TriJoinSession.create(spark.newSession())
    outcome = run_queries(job, prepare(job, session), Console(quiet=True), StopRequest(), once=True)
    late = [json.loads(row) for row in outcome.rows.get("too_late", ())]
    assert len(late) == outcome.tallies[0].late_rows
    expected = in_batch(spark.newSession(), job, late)
    assert Counter(outcome.rows["found"]) == expected
    return expected


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_gets_sparks_answer(question: str, data: Path, spark: SparkSession) -> None:
    found = check(job_of(question, data), spark)
    assert 3 <= found.total() <= 1000  # it finds something, and leaves out the rest


@pytest.mark.parametrize("question", SEQUENCES)
def test_a_sequence_forgets_its_rows(question: str) -> None:
    """Strict mode lets it start, whatever must not come between; each stage keeps rows as long as its bounds say."""
    arguments = ["explain", str(COOKBOOK / f"{question}.sql"), "--strict", "--format", "json"]
    said = CliRunner().invoke(cli.app, arguments)
    assert said.exit_code == 0, said.output
    kept = [stream["keep_for"] for group in json.loads(said.stdout)["groups"] for stream in group["state"]["streams"]]
    assert set(kept) == SEQUENCES[question]


@pytest.mark.parametrize("question", SEQUENCES)
def test_a_sequence_is_found_across_micro_batches(question: str, tmp_path: Path, spark: SparkSession) -> None:
    """Its events, and those that must not come between, are in different files; one is read at a time."""
    data = written(COOKBOOK, tmp_path, files=12)
    assert check(job_of(question, data, options=", maxFilesPerTrigger 1"), spark)


@pytest.mark.rare
def test_readings_that_came_too_late_are_in_a_sink_of_their_own(data: Path, spark: SparkSession) -> None:
    job = job_of("late_rows", data)
    session = TriJoinSession.create(spark.newSession())
    outcome = run_queries(job, prepare(job, session), Console(quiet=True), StopRequest(), once=True)
    late = [json.loads(row) for row in outcome.rows["too_late"]]
    assert len(late) > 3
    assert {row["stream"] for row in late} == {"readings"}
    assert sum(outcome.tallies[0].how_late["readings"].values()) == len(late)


@pytest.mark.parametrize("query", sorted(path.stem for path in PAPERS.glob("*.sql")))
def test_a_papers_query_runs_as_a_job(query: str, papers_data: Path, spark: SparkSession) -> None:
    assert check(job_of(query, papers_data, PAPERS), spark)
