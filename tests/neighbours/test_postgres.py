"""The example of `queries/jobs/postgres`: each result once in the table, also after a crash before the checkpoint."""

from __future__ import annotations

import importlib.util
import shutil
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from trijoin_sql.jobs.check import check_statements
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job

from . import jobs, postgres

EXAMPLE = Path(__file__).parents[2] / "queries" / "jobs" / "postgres"

#: Kills the job's process in a batch, after the database has it.
CRASH = """
import os, signal, to_postgres

def write(frame, batch):
    to_postgres.write(frame, batch)
    if os.environ.get("CRASH_IN_BATCH") == str(batch):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    folder = postgres.binaries()
    if folder is None:
        pytest.skip("there is no PostgreSQL server here: apt-get install postgresql")
    with postgres.server(folder) as address:
        yield address


def test_the_example_is_a_job() -> None:
    check_statements(parse_job(Script.read(str(EXAMPLE / "job.sql"))))


class Batch:
    """As much of a DataFrame as the example asks for, without Spark."""

    columns = ("ordered", "paid", "at")

    def __init__(self, query: str, rows: Iterable[tuple[object, ...]]) -> None:
        self.rows = rows
        context = SimpleNamespace(getLocalProperty=lambda key: {"sql.streaming.queryId": query}[key])
        self.sparkSession = SimpleNamespace(sparkContext=context)

    def toLocalIterator(self) -> Iterator[tuple[object, ...]]:  # noqa: N802 (PySpark's name)
        return iter(self.rows)


def test_rows_and_the_number_of_their_batch_are_one_transaction(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails half way leaves neither; what is repeated, or late, writes nothing; each query counts for itself."""
    found = importlib.util.spec_from_file_location("to_postgres", EXAMPLE / "to_postgres.py")
    assert found is not None
    assert found.loader is not None
    example = importlib.util.module_from_spec(found)
    found.loader.exec_module(example)
    monkeypatch.setenv("TRIJOIN_POSTGRES", address)
    noon = datetime(2024, 5, 1, 12)

    def failing() -> Iterator[tuple[object, ...]]:
        yield 3, 4, noon
        raise RuntimeError("a task failed")

    def there() -> list[tuple[int, int]]:
        with psycopg.connect(address) as connection:
            return [(row[0], row[1]) for row in connection.execute("SELECT ordered, paid FROM near ORDER BY 1, 2")]

    example.write(Batch("a", [(1, 2, noon)]), 0)
    with pytest.raises(RuntimeError, match="a task failed"):
        example.write(Batch("a", failing()), 1)
    assert there() == [(1, 2)]
    example.write(Batch("a", [(3, 4, noon), (5, 6, noon)]), 1)
    for batch in (1, 0):
        example.write(Batch("a", [(3, 4, noon)]), batch)
    example.write(Batch("b", [(7, 8, noon)]), 0)
    assert there() == [(1, 2), (3, 4), (5, 6), (7, 8)]
    with psycopg.connect(address) as connection:
        assert {row[0] for row in connection.execute("SELECT at FROM near")} == {noon.astimezone()}
        connection.execute("DROP TABLE near, written")


@pytest.mark.rare
@pytest.mark.slow
def test_a_batch_that_is_repeated_after_a_crash_is_in_the_table_once(address: str, tmp_path: Path) -> None:
    """And the join goes on with the state of that batch, though nobody asked for its rows the second time."""
    jobs.write_json(tmp_path / "in", 0, 40)
    jobs.write_json(tmp_path / "in", 40, 80)
    jobs.write_json(tmp_path / "in", 80, 120)
    shutil.copy(EXAMPLE / "to_postgres.py", tmp_path)
    own = (tmp_path / "to_postgres.py").read_text("utf-8").replace("ordered BIGINT, paid BIGINT", "r INT, s INT, t INT")
    (tmp_path / "to_postgres.py").write_text(own, "utf-8")
    (tmp_path / "crashing.py").write_text(CRASH, "utf-8")
    query = jobs.QUERY.format(r="r", s="s", t="t")
    (tmp_path / "job.sql").write_text(
        f"{jobs.streams_of_json(tmp_path / 'in')}CREATE SINK near USING foreachBatch\n"
        f"  OPTIONS (function 'crashing:write', checkpointLocation 'state');\nINSERT INTO near {query};\n",
        "utf-8",
    )

    def found() -> Counter[tuple[int, int, int]]:
        with psycopg.connect(address) as connection:
            return jobs.bag(connection.execute("SELECT r, s, t FROM near").fetchall())

    environment = {"TRIJOIN_POSTGRES": address, "TZ": "America/New_York"}
    killed = jobs.run(tmp_path, **environment, CRASH_IN_BATCH="1")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert jobs.unfinished(tmp_path / "state") == {1}
    assert found() == jobs.expected(80)

    done = jobs.run(tmp_path, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert found() == jobs.expected(120)
    assert jobs.unfinished(tmp_path / "state") == set()
    with psycopg.connect(address) as connection:
        times = connection.execute("SELECT r, at FROM near").fetchall()
    sent = {number: at for number, _, at in jobs.rows("r", 0, 120)}
    assert all(sent[number] == at for number, at in times)  # in any time zone of the driver
