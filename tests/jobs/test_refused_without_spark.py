"""What `explain` and the checks of `run` refuse without Spark is what Spark refuses, in each output mode.

`STATEMENTS` is read twice: once without Spark, once by a session that no check of ours stands before. An ``R`` is a
mode in which both refuse, a dot one in which both run it, and an ``s`` one that Spark alone refuses: what that costs is
one start of Spark. There is no letter for a query that we refuse and Spark runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from trijoin_sql import TriJoinSession, cli
from trijoin_sql.errors import JobError
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare

MODES = ("append", "update", "complete")

#: r and s have a watermark, q has none; t is a table. Views are refused where they are read.
HEAD = """\
CREATE STREAM r (id BIGINT, k STRING, x DOUBLE, ts TIMESTAMP) USING json OPTIONS (path '{data}')
  WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM s (id BIGINT, k STRING, x DOUBLE, ts TIMESTAMP) USING json OPTIONS (path '{data}')
  WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM q (id BIGINT, k STRING, x DOUBLE, ts TIMESTAMP) USING json OPTIONS (path '{data}');
CREATE TEMPORARY VIEW t AS SELECT * FROM VALUES (1L, 'a', 1.0D, TIMESTAMP'2026-01-01 00:00:00') AS v(id, k, x, ts);
CREATE TEMPORARY VIEW windows AS SELECT window(ts, '1 minute') AS w, count(*) AS n FROM r GROUP BY 1;
CREATE TEMPORARY VIEW groups AS SELECT k, count(*) AS n FROM r GROUP BY k;
CREATE TEMPORARY VIEW numbered AS SELECT id, row_number() OVER (PARTITION BY k ORDER BY ts) AS n FROM r;
"""
NEAR = "r JOIN s ON r.x < s.x AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 MINUTE"
MINUTES = "window(ts, '1 minute')"

STATEMENTS = {
    # joins
    "SELECT r.id, s.k FROM r FULL JOIN s ON r.x < s.x": "RRR",
    "SELECT r.id, s.k FROM r LEFT JOIN s ON r.id = s.id": "RRR",
    "SELECT r.id, s.k FROM r LEFT JOIN s ON r.x < s.x AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 MINUTE": "..R",
    "SELECT r.id, q.k FROM r LEFT JOIN q ON r.x < q.x WITHIN 1 MINUTE": "RRR",
    "SELECT r.id FROM r LEFT ANTI JOIN s ON r.x < s.x": "RRR",
    "SELECT r.id, t.k FROM r LEFT JOIN t ON r.x < t.x": "..R",
    "SELECT r.id, t.k FROM t RIGHT JOIN r ON r.x < t.x": "..R",
    "SELECT r.id, t.k FROM t LEFT JOIN r ON r.x < t.x": "RRR",
    "SELECT r.id, t.k FROM r FULL JOIN t ON r.id = t.id": "RRR",
    "SELECT t.id FROM t LEFT SEMI JOIN r ON r.id = t.id": "RRR",
    "SELECT t.id FROM t LEFT ANTI JOIN r ON r.id = t.id": "RRR",
    "SELECT r.id FROM r LEFT ANTI JOIN t ON r.id = t.id": "..R",
    "SELECT r.id FROM r WHERE r.id NOT IN (SELECT s.id FROM s WHERE s.x > r.x)": "RRR",
    f"SELECT r.id FROM {NEAR} WHERE r.id NOT IN (SELECT id FROM s)": "RRR",
    "SELECT r.id FROM r WHERE r.id NOT IN (SELECT id FROM t)": "..R",
    # conditions and names
    "SELECT r.id FROM r JOIN s ON r.x - s.x": "RRR",
    "SELECT r.id FROM r WHERE r.x + 1": "RRR",
    "SELECT r.id FROM r WHERE r.ts": "RRR",
    "SELECT r.id FROM r JOIN r ON r.x < r.x": "RRR",
    f"SELECT FROM {NEAR}": "RRR",
    # order and limits
    f"SELECT r.id FROM {NEAR} ORDER BY r.id": "RRR",
    "SELECT id FROM (SELECT id FROM r SORT BY id) AS z": "RRR",
    "SELECT id FROM r DISTRIBUTE BY id": "..R",
    "SELECT k, count(*) AS n FROM r GROUP BY k ORDER BY n LIMIT 3": "RR.",
    "SELECT DISTINCT k FROM r ORDER BY k": "RRs",
    "SELECT id FROM r UNION ALL SELECT id FROM s ORDER BY id": "RRR",
    "SELECT r.id FROM r JOIN (SELECT id FROM t ORDER BY id LIMIT 1) AS z ON r.id = z.id": "..R",
    "SELECT listagg(k) WITHIN GROUP (ORDER BY k) AS z FROM r": "R..",
    "SELECT id FROM r LIMIT 5": ".RR",
    "SELECT id FROM r LIMIT ALL": "..R",
    "SELECT k, count(*) AS n FROM r GROUP BY k OFFSET 2": "RRR",
    "SELECT id FROM r TABLESAMPLE (10 PERCENT)": "RRR",
    # functions over windows of rows
    "SELECT id, sum(x) OVER (PARTITION BY k) AS n FROM r": "RRR",
    "SELECT id FROM r QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts) = 1": "RRR",
    f"SELECT r.id FROM {NEAR} QUALIFY row_number() OVER (PARTITION BY r.id ORDER BY s.ts) = 1": "RRR",
    "SELECT r.id FROM r JOIN (SELECT id FROM t QUALIFY row_number() OVER (ORDER BY ts) = 1) AS z ON r.id = z.id": "..s",
    "SELECT k, sum(count(*)) OVER (PARTITION BY k) AS n FROM r GROUP BY k": "RRR",
    "SELECT id FROM numbered": "RRR",
    "SELECT id FROM r WINDOW w AS (PARTITION BY k)": "..R",
    "SELECT r.id FROM r JOIN (SELECT id, row_number() OVER (ORDER BY id) AS n FROM t) AS z ON r.id = z.id": "..s",
    # groups
    "SELECT count(*) AS n FROM r": "R..",
    "SELECT upper(k) AS u, count(*) AS n FROM r GROUP BY u": "R..",
    "SELECT k, count(*) AS n FROM r GROUP BY CUBE(k)": "R..",
    "SELECT n FROM groups": "R..",
    "WITH z AS (SELECT k, count(*) AS n FROM r GROUP BY ALL) SELECT n FROM z": "R..",
    f"SELECT {MINUTES} AS w, count(*) AS n FROM q GROUP BY 1": "R..",
    f"SELECT {MINUTES} AS w, count(*) AS n FROM r GROUP BY ALL": "...",
    f"SELECT {MINUTES} AS w, k, count(*) AS n FROM r GROUP BY ROLLUP(w, k)": "...",
    "SELECT t0, count(*) AS n FROM (SELECT ts AS t0 FROM r) AS z GROUP BY t0": "...",
    "SELECT CAST(ts AS DATE) AS d, count(*) AS n FROM r GROUP BY d": "R..",
    "SELECT date_trunc('HOUR', ts) AS u, count(*) AS n FROM r GROUP BY date_trunc('HOUR', ts)": "R..",
    "SELECT window(r.ts, '1 minute') AS w, count(*) AS n FROM r JOIN s ON r.x < s.x GROUP BY 1": "R..",
    "SELECT sum(n) AS m FROM groups": "RRR",
    "SELECT window(w, '5 minutes') AS v, sum(n) AS m FROM windows GROUP BY window(w, '5 minutes')": ".RR",
    "SELECT DISTINCT k FROM r": "R..",
    "SELECT DISTINCT k, ts FROM r": "...",
    f"SELECT {MINUTES} AS w, count(DISTINCT k) AS n FROM r GROUP BY 1": "RRR",
    "SELECT r.id FROM r JOIN (SELECT count(DISTINCT k) AS n FROM t) AS z ON r.id = z.n": "..R",
    "SELECT session_window(ts, '1 minute') AS w, k, count(*) AS n FROM r GROUP BY 1, 2": ".R.",
    "SELECT session_window(ts, '1 minute') AS w, count(*) AS n FROM r GROUP BY 1": "RRR",
    # set operations and subqueries
    "SELECT id FROM t INTERSECT SELECT id FROM r": "RRR",
    "SELECT id FROM r EXCEPT SELECT id FROM s": "RRR",
    "SELECT id FROM r EXCEPT SELECT id FROM t": "s.s",
    "SELECT id FROM r UNION ALL SELECT id FROM t": "RRR",
    "SELECT id FROM r UNION SELECT id FROM s": "R..",
    "SELECT id, ts FROM r UNION SELECT id, ts FROM s": "...",
    "SELECT id FROM r UNION ALL SELECT id, ts FROM s": "RRR",
    "WITH v AS (SELECT id FROM r), v AS (SELECT id FROM s) SELECT id FROM v": "RRR",
    "SELECT r.id FROM r JOIN s ON r.id < s.id * rand()": "RRR",
    "SELECT r.id FROM r JOIN s ON r.id = s.id AND s.ts BETWEEN r.ts AND r.ts + 5": "RRR",
    "SELECT r.id FROM r JOIN s ON r.id = s.id AND ABS(s.ts - r.ts) < 5": "RRR",
    "SELECT r.id FROM r JOIN s ON r.id = s.id AND TIMESTAMPDIFF(MINTUE, r.ts, s.ts) < 5": "RRR",
    "SELECT d.id FROM (SELECT id, ts FROM r) AS d JOIN s ON d.idd = s.id": "RRR",
    "SELECT COUNT(*) AS n FROM r GROUP BY window(ts, '1 minute', '5 minutes')": "RRR",
    "SELECT COUNT(*) AS n FROM r GROUP BY window(ts, '0 seconds')": "RRR",
    "SELECT window(ts, '2 minutes') AS w, COUNT(*) AS n FROM r GROUP BY window(ts, '1 minute')": "RRR",
    "SELECT SUM(COUNT(id)) AS n FROM r GROUP BY window(ts, '1 minute')": "RRR",
    "SELECT id, COUNT(*) AS n FROM r GROUP BY 3": "RRR",
    "SELECT id FROM r WHERE x > (SELECT max(x) FROM s)": "RRR",
    "SELECT id FROM r WHERE x > (SELECT max(x) FROM t)": "..R",
    "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM t WHERE t.id = r.id)": "..R",
    "SELECT monotonically_increasing_id() AS z FROM r": "RRR",
    # what no relation may do
    "SELECT k, count(*) AS n FROM r": "RRR",
    f"SELECT k, count(*) AS n FROM r GROUP BY {MINUTES}": "RRR",
    "SELECT k AS g, k, count(*) AS n FROM r GROUP BY g": "R..",
    "SELECT upper(k) AS u, u AS v, count(*) AS n FROM r GROUP BY k": "R..",
    "SELECT any_value(k) AS k, 1 AS o, count(*) FILTER (WHERE x > 1) AS n FROM r": "R..",
    "SELECT window(ts, '1 minuet') AS w, count(*) AS n FROM r GROUP BY window(ts, '1 minuet')": "RRR",
    "SELECT window(ts, '2 months') AS w, count(*) AS n FROM r GROUP BY window(ts, '2 months')": "RRR",
    "SELECT window(ts, '90') AS w, count(*) AS n FROM r GROUP BY window(ts, '90')": "RRR",
    "SELECT window(ts, '0 months 1.5 SECONDS') AS w, count(*) AS n FROM r GROUP BY 1": "...",
    "SELECT window(ts, 60000000) AS w, count(*) AS n FROM r GROUP BY window(ts, 60000000)": "...",
    "SELECT r.id FROM r JOIN s ON MAX(r.x) < s.x WITHIN 1 MINUTE": "RRR",
    "SELECT r.id FROM r WHERE max(r.x) < 1": "RRR",
    "SELECT r.id FROM r JOIN s ON r.ts < s.id WITHIN 1 MINUTE": "RRR",
    "SELECT id FROM r WHERE ts BETWEEN 5 AND 7": "RRR",
    "SELECT id FROM r WHERE CAST(ts AS DATE) > '2026-01-01' AND k > 5 AND ts > NULL": "..R",
    "SELECT r.id FROM r JOIN s USING (idd)": "RRR",
    "SELECT r.id FROM r JOIN sss ON r.x < sss.x": "ssR",
}

#: What depends on a setting that a cluster may have: `explain` goes by Spark's defaults, `run` leaves it to Spark.
BY_DEFAULT = (
    "SELECT r.id FROM r JOIN s ON ABS(r.k - s.k) < 1 WITHIN 1 MINUTE",
    "SELECT k || 'a' AS a, k + k AS b FROM r",
)


def job(query: str, mode: str, data: Path) -> str:
    return f"{HEAD.format(data=data)}CREATE SINK o USING noop MODE {mode};\nINSERT INTO o {query};\n"


def said(text: str, *arguments: str) -> Any:
    return CliRunner().invoke(cli.app, ["explain", "-", *arguments], input=text)


@pytest.mark.parametrize("query", STATEMENTS)
def test_explain_ends_with_2_where_spark_refuses(query: str, tmp_path: Path) -> None:
    codes = "".join("R" if said(job(query, mode, tmp_path)).exit_code == 2 else "." for mode in MODES)
    assert codes == STATEMENTS[query].replace("s", ".")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.rare
@pytest.mark.parametrize("query", STATEMENTS)
def test_spark_refuses_the_same(query: str, spark: SparkSession, tmp_path: Path) -> None:
    assert refused_by_spark(query, spark, tmp_path) == STATEMENTS[query].upper().replace("S", "R")


def refused_by_spark(query: str, spark: SparkSession, data: Path) -> str:
    found = ""
    for mode in MODES:
        parsed = parse_job(Script("job.sql", job(query, mode, data)))
        try:
            prepare(parsed, TriJoinSession.create(spark.newSession()))  # which `run` checks before
            found += "."
        except (JobError, PySparkException):
            found += "R"
    return found


@pytest.mark.parametrize("query", BY_DEFAULT)
def test_texts_that_are_computed_with_are_refused_unless_ansi_mode_is_off(query: str, tmp_path: Path) -> None:
    text = job(query, "append", tmp_path)
    refused = said(text)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "computes with texts: both sides are STRING" in refused.stderr
    assert said(f"SET spark.sql.ansi.enabled = false;\n{text}").exit_code == 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("query", BY_DEFAULT)
def test_spark_computes_with_no_texts_in_ansi_mode(query: str, spark: SparkSession, tmp_path: Path) -> None:
    assert refused_by_spark(query, spark, tmp_path) == "RRR"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT r.id FROM r FULL JOIN s ON r.x < s.x", 2),
        ("SELECT id FROM r ORDER BY id", 2),
        ("SELECT k, count(*) AS n FROM r GROUP BY k ORDER BY n", 0),
        ("SELECT id FROM r LIMIT 5", 0),
        ("SELECT k, count(*) AS n FROM r GROUP BY k", 0),
        ("SELECT id FROM unknown ORDER BY id", 0),
        ("SELECT * FROM tables_of(TABLE(r)) UNION ALL SELECT * FROM r", 0),
        ("SELECT id FROM numbered2", 0),
    ],
)
def test_a_query_without_a_sink_is_refused_if_no_mode_runs_it(query: str, code: int, tmp_path: Path) -> None:
    """A view may be another one by now, of which only Spark knows."""
    another = "CREATE TEMPORARY VIEW numbered2 AS SELECT id FROM r ORDER BY id;\nDROP VIEW numbered2;\n"
    answer = said(f"{HEAD.format(data=tmp_path)}{another}{query};", "--format", "json")
    assert answer.exit_code == code
    assert (answer.stdout == "") is (code == 2)
    if code == 0:
        json.loads(answer.stdout)


def test_what_no_mode_runs_is_told_by_a_mode_whose_hint_leads_on(tmp_path: Path) -> None:
    answer = said(f"{HEAD.format(data=tmp_path)}SELECT sum(n) AS m FROM groups;")
    assert (answer.exit_code, "use MODE append, with a window of event time in each" in answer.stderr) == (2, True)


def test_a_switch_of_sparks_check_switches_ours_off(tmp_path: Path) -> None:
    text = job("SELECT id FROM r ORDER BY id", "append", tmp_path)
    assert said(text).exit_code == 2
    assert said(f"SET spark.sql.streaming.unsupportedOperationCheck = false;\n{text}").exit_code == 0


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe/Berlim", "Europe/Berlin", "UTC+3", "US/Pacific", "+02:00"])
@pytest.mark.parametrize("statement", ["SET TIME ZONE '{}'", "SET spark.sql.session.timeZone = {}"])
def test_a_time_zone_that_java_does_not_know(zone: str, statement: str, tmp_path: Path) -> None:
    answer = said(f"{statement.format(zone)};\n{job('SELECT id FROM r', 'append', tmp_path)}")
    assert answer.exit_code == (2 if zone in ("Mars/Olympus", "Europe/Berlim") else 0)
    assert (f"there is no time zone {zone}" in answer.stderr) is (answer.exit_code == 2)
