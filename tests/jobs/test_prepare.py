"""Mistakes that only Spark can see: found before anything runs, at their place in the job file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from trijoin_sql.rewriter.pipeline import Rewrite, rewrite
from trijoin_sql.rewriter.sql.statement import Statement

from trijoin_sql import TriJoinSession
from trijoin_sql.errors import JobError
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import PreparedQuery, prepare

STREAMS = """\
CREATE STREAM r USING rate WATERMARK timestamp DELAY OF INTERVAL 1 SECOND;
CREATE STREAM s (a BIGINT, b STRING, c ARRAY<INT>, ts TIMESTAMP) USING json OPTIONS (path '{data}');
"""
NOOP = "CREATE SINK o USING noop;\n"
FILES = "CREATE SINK o USING {format} OPTIONS (path '{data}/out', checkpointLocation '{data}/checkpoint');\n"

#: By name: the job after STREAMS with ``^`` before the place, and a part of the message.
MISTAKES = {
    "unknown column": (NOOP + "INSERT INTO o\nSELECT a\nFROM s WHERE ^nope > 1", "`nope` cannot be resolved"),
    "unknown column after an emoji": (NOOP + "INSERT INTO o SELECT '🚀🚀', ^nope FROM s", "`nope` cannot be resolved"),
    "unknown column in a join": (
        NOOP + "INSERT INTO o SELECT r.value FROM r JOIN s ON r.value < ^s.nope",
        "`nope` cannot be resolved",
    ),
    "unknown column beside our clause": (
        NOOP + "INSERT INTO o SELECT ^nope FROM r JOIN r AS q ON r.value < q.value WITHIN 5 SECONDS",
        "`nope` cannot be resolved",
    ),
    "unknown table beside our clause": (
        NOOP + "INSERT INTO o SELECT r.value FROM r JOIN ^ss ON r.value < ss.a WITHIN 5 SECONDS",
        "there is no stream or table named ss",
    ),
    "wrong type in a condition of ours": (
        NOOP + "INSERT INTO o SELECT r.value FROM r JOIN s ON ^r.value < s.c WITHIN 5 SECONDS",
        '"(value < c)"',
    ),
    "view that outlives the job": (
        "^CREATE VIEW v AS SELECT a FROM s;\n" + NOOP + "INSERT INTO o SELECT a FROM v",
        "write CREATE TEMPORARY VIEW",
    ),
    "a file that is no Parquet": (
        f"CREATE STREAM ^t USING parquet OPTIONS (path '{{data}}/bad');\n{NOOP}INSERT INTO o SELECT a FROM t",
        "is not a Parquet file",
    ),
    "unknown table": (NOOP + "INSERT INTO o SELECT a FROM ^nowhere", "there is no stream or table named nowhere"),
    "cyclic views": (
        "CREATE TEMPORARY VIEW a AS SELECT * FROM ^ss;\nCREATE TEMPORARY VIEW ss AS SELECT * FROM a;\n"
        + NOOP
        + "INSERT INTO o SELECT a FROM s",
        "did you mean s?",
    ),
    "a table of no known format": (
        "^CREATE TABLE t (a INT) USING foo;\n" + NOOP + "INSERT INTO o SELECT a FROM s",
        "Spark cannot run this statement: ",
    ),
    "unknown function": (NOOP + "INSERT INTO o SELECT ^nofun(a) FROM s", "routine `nofun`"),
    "wrong type": (NOOP + "INSERT INTO o SELECT a FROM s WHERE ^a > c", "DATATYPE_MISMATCH"),
    "condition that is none": (NOOP + "INSERT INTO o SELECT a FROM s WHERE ^a", "WHERE needs a condition"),
    "grouping missing": (NOOP + "INSERT INTO o SELECT ^a, COUNT(*) FROM s", "neither in GROUP BY"),
    "ambiguous column": (NOOP + "INSERT INTO o SELECT ^a FROM s JOIN s AS t ON s.a < t.a", "the column a is ambiguous"),
    "misspelt statement": (
        "^CRATE SINK p USING noop;\n" + NOOP + "INSERT INTO o SELECT a FROM s",
        "did you mean CREATE",
    ),
    "unknown statement": ("^FROBNICATE p USING noop;\n" + NOOP + "INSERT INTO o SELECT a FROM s", "PARSE_SYNTAX_ERROR"),
    "setting that cannot change": (
        "^SET spark.executor.memory = 3g;\n" + NOOP + "INSERT INTO o SELECT a FROM s",
        "give it with --conf KEY=VALUE",
    ),
    "rows kept for ever in strict mode": (
        f"SET spark.trijoin.strict = true;\n{NOOP}INSERT INTO o SELECT s.a FROM ^r JOIN s ON r.value < s.a",
        "Strict mode refuses this query: rows of r are kept for ever (UNBOUNDED)",
    ),
    "a product in a view in strict mode": (
        f"SET spark.trijoin.strict = true;\n{NOOP}CREATE TEMP VIEW v AS SELECT q.value FROM r JOIN r AS q"
        " ON ^r.value % q.value = 1 WITHIN 1 MINUTE;\nINSERT INTO o SELECT value FROM v",
        "CROSS PRODUCT",
    ),
    "bad units": (
        NOOP + "SET ^spark.trijoin.units = many;\nINSERT INTO o SELECT s.a FROM r JOIN s ON r.value < s.a",
        "spark.trijoin.units",
    ),
    "bad hint": (
        NOOP + "INSERT INTO o SELECT /*+ ^SCHEME('nope') */ s.a FROM r JOIN s ON r.value < s.a",
        "SCHEME('nope')",
    ),
    "outer theta join": (
        NOOP + "INSERT INTO o SELECT s.a FROM r ^LEFT JOIN s ON r.value < s.a",
        "the LEFT JOIN would never know that a row of r has no partner",
    ),
    "no stream": (NOOP + "INSERT INTO o ^SELECT id FROM RANGE(3)", "the query reads no stream"),
    "view in a view": (
        NOOP + "CREATE TEMPORARY VIEW v AS SELECT ^nope FROM s;\nINSERT INTO o SELECT a FROM v",
        "`nope` cannot be resolved",
    ),
    "append of an aggregate": (NOOP + "INSERT INTO o SELECT b, COUNT(*) FROM s ^GROUP BY b", "append"),
    "window of one input's time in append": (
        NOOP
        + "INSERT INTO o SELECT ^window(r.timestamp, '1 minute'), COUNT(*) "
        + "FROM r JOIN r AS q ON r.value < q.value GROUP BY 1",
        "group by window(greatest(r.timestamp, q.timestamp), ...)",
    ),
    "complete without an aggregate": (
        "CREATE SINK o USING noop MODE ^complete;\nINSERT INTO o SELECT a FROM s",
        "complete",
    ),
    "order in append": (NOOP + "INSERT INTO o SELECT a FROM s ^ORDER BY a", "wait for the end of a stream"),
    "text of two columns": (
        FILES.replace("{format}", "text") + "INSERT INTO o ^SELECT a, b FROM s",
        "a text file holds one STRING column, not a BIGINT, b STRING",
    ),
    "array in CSV": (FILES.replace("{format}", "csv") + "INSERT INTO o ^SELECT c FROM s", "cannot hold c ARRAY<INT>"),
    "column name twice": (
        FILES.replace("{format}", "parquet") + "INSERT INTO o ^SELECT a, b AS A FROM s",
        "two columns are named A",
    ),
    "no value for Kafka": (
        "CREATE SINK o USING kafka OPTIONS (kafka.bootstrap.servers 'h:1', topic 't', checkpointLocation '{data}/c');\n"
        "INSERT INTO o ^SELECT a FROM s",
        "column named value; there is none",
    ),
    "no topic for Kafka": (
        "CREATE SINK o USING ^kafka OPTIONS (kafka.bootstrap.servers 'h:1', checkpointLocation '{data}/c');\n"
        "INSERT INTO o SELECT b AS value FROM s",
        "which topic?",
    ),
    "no connector for a stream": (
        "CREATE STREAM k USING ^kafka OPTIONS (kafka.bootstrap.servers 'h:1', subscribe 't');\n"
        + NOOP
        + "INSERT INTO o SELECT value FROM k",
        "Spark's Kafka connector is missing",
    ),
    "no connector for a sink": (
        "CREATE SINK o USING ^kafka\n"
        "  OPTIONS (kafka.bootstrap.servers 'h:1', topic 't', checkpointLocation '{data}/c');\n"
        "INSERT INTO o SELECT b AS value FROM s",
        "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0",
    ),
    "bad nested type": (
        f"CREATE STREAM t (a ^ARRAY<NOPE>) USING json OPTIONS (path '{{data}}');\n{NOOP}INSERT INTO o SELECT a FROM t",
        "ARRAY<NOPE> is no type",
    ),
    "no files to tell the columns": (
        f"CREATE STREAM ^t USING parquet OPTIONS (path '{{data}}');\n{NOOP}INSERT INTO o SELECT a FROM t",
        "the columns of t cannot be read",
    ),
}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[TriJoinSession]:
    own = spark.newSession()
    yield TriJoinSession.create(own)
    assert not own.streams.active


def prepared(text: str, session: TriJoinSession) -> tuple[PreparedQuery, ...]:
    job = parse_job(Script("job.sql", text))
    check_job(job)
    return prepare(job, session)


@pytest.mark.parametrize("name", MISTAKES)
def test_what_spark_refuses_is_found_at_its_place(name: str, session: TriJoinSession, tmp_path: Path) -> None:
    body, says = MISTAKES[name]
    before, _, after = (STREAMS + body).replace("{data}", str(tmp_path)).partition("^")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.parquet").write_text("this is text\n")
    with pytest.raises(JobError) as caught:
        prepared(before + after, session)
    error = caught.value
    assert (error.line, error.column) == (before.count("\n") + 1, len(before) - before.rfind("\n")), error.located
    assert says in error.located
    assert "\n" not in error.detail
    assert "JVM" not in str(error)


def test_columns_of_parquet_come_from_the_files(session: TriJoinSession, tmp_path: Path) -> None:
    session.spark.range(3).write.parquet(str(tmp_path / "in"))
    (query,) = prepared(
        f"CREATE STREAM r USING parquet OPTIONS (path '{tmp_path}/in');\n{NOOP}INSERT INTO o SELECT id + 1 AS n FROM r",
        session,
    )
    assert query.frame.columns == ["n"]
    assert query.frame.isStreaming


def test_joins_that_keep_rows_for_ever_are_known(session: TriJoinSession, tmp_path: Path) -> None:
    """`run` warns of them; Spark's own aggregation and a join with bounds are none."""
    join = "INSERT INTO o SELECT a.value FROM r a JOIN r b ON a.value < b.value"
    (query,) = prepared(STREAMS.replace("{data}", str(tmp_path)) + NOOP + join, session)
    assert query.endless == ("a", "b")
    (query,) = prepared(STREAMS.replace("{data}", str(tmp_path)) + NOOP + f"{join} WITHIN 1 MINUTE", session)
    assert query.endless == ()


def test_strict_mode_of_the_command_line_counts_more_than_a_setting(session: TriJoinSession, tmp_path: Path) -> None:
    streams = STREAMS.replace("{data}", str(tmp_path)) + NOOP + "SET spark.trijoin.strict = false;\n"
    join = "INSERT INTO o SELECT a.value FROM r a JOIN r b ON a.value < b.value"
    session.statements.strict = True
    (query,) = prepared(f"{streams}{join} WITHIN 1 MINUTE", session)
    assert query.endless == ()
    with pytest.raises(JobError, match="rows of a are kept for ever"):
        prepared(streams + join, session)


def test_each_insert_is_rewritten_once(
    session: TriJoinSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is checked and what `run` says of a query comes from the plan that runs."""
    rewritten: list[str] = []

    def counted(statement: Statement, *rest: Any) -> Rewrite:
        rewritten.append(statement.sql)
        return rewrite(statement, *rest)

    monkeypatch.setattr("trijoin_sql.compile_statement.rewrite", counted)
    view = "CREATE TEMPORARY VIEW v AS SELECT a.value FROM r a JOIN r b ON a.value < b.value WITHIN 1 MINUTE"
    query = "SELECT v.value FROM v JOIN s ON v.value < s.a"
    prepared(f"{STREAMS}{view};\n{NOOP}INSERT INTO o {query}".replace("{data}", str(tmp_path)), session)
    assert rewritten == [view, query]
