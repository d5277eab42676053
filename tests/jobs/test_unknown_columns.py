"""Relations that a file does not describe: nothing is refused that Spark runs, and what is there is read."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql import SparkSession, functions
from trijoin_sql.rewriter.sql.clauses import Option, Options, Word
from trijoin_sql.rewriter.sql.declarations import read_script
from typer.testing import CliRunner

from trijoin_sql import TriJoinSession
from trijoin_sql.cli import app
from trijoin_sql.errors import JobError, SqlSyntaxError
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.columns import unknown_advice
from trijoin_sql.jobs.found_columns import found_columns
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare

STREAMS = """\
CREATE STREAM r (k INT, x DOUBLE, ts TIMESTAMP) USING json OPTIONS (path '.') WATERMARK ts DELAY OF INTERVAL 1 SECOND;
CREATE STREAM s (k INT, x DOUBLE, ts TIMESTAMP) USING json OPTIONS (path '.') WATERMARK ts DELAY OF INTERVAL 1 SECOND;
CREATE SINK o USING noop;
"""
JOIN = "SELECT r.k, s.x FROM r JOIN s ON ABS(r.x - s.x) < 1"
#: What may be before the query, so that ``d`` is a relation with columns ``k`` and ``lo``, known or not.
MAKES_D = {
    "catalog": "",
    "table": "CREATE TABLE d (k INT, lo DOUBLE) USING csv OPTIONS (path '/nowhere');",
    "table of a query": "CREATE TABLE d USING parquet AS SELECT 1 AS k, 2.0D AS lo;",
    "view": "CREATE TEMPORARY VIEW d AS SELECT 1 AS k, 2.0D AS lo;",
    "view of a table": "CREATE TEMPORARY VIEW d AS SELECT * FROM shop.d;",
    "view of files": "CREATE OR REPLACE TEMP VIEW d (k INT, lo DOUBLE) USING csv OPTIONS (path 'd', header = true);",
    "files in FROM": "CREATE TEMPORARY VIEW d AS SELECT CAST(_c0 AS INT) AS k, CAST(_c1 AS DOUBLE) AS lo FROM csv.`d`;",
}
QUERIES = {
    "EXISTS": f"{JOIN} WHERE EXISTS (SELECT 1 FROM d WHERE d.k = r.k) WITHIN 2 MINUTES",
    "NOT EXISTS": f"{JOIN} WHERE NOT EXISTS (SELECT 1 FROM d AS t WHERE t.k = r.k AND lo < s.x) WITHIN 2 MINUTES",
    "IN": f"{JOIN} WHERE r.k IN (SELECT k FROM d WHERE lo < r.x) WITHIN 2 MINUTES",
    "scalar": f"{JOIN.replace('r.k,', '(SELECT MAX(lo) FROM d WHERE d.k = r.k) AS m,')} WITHIN 2 MINUTES",
    "without a join": "SELECT r.k FROM r WHERE EXISTS (SELECT 1 FROM d WHERE d.k = r.k)",
    "joined": f"{JOIN} JOIN d ON r.x BETWEEN d.lo AND d.lo + 2 WITHIN 2 MINUTES",
    "joined first": f"{JOIN.replace('FROM r', 'FROM d JOIN r ON r.x > d.lo')} WITHIN 2 MINUTES",
}


def explained(text: str) -> tuple[int, str]:
    said = CliRunner().invoke(app, ["explain", "-"], input=text)
    return said.exit_code, said.output


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("makes", MAKES_D)
def test_a_query_over_any_table_passes_the_checks(
    makes: str, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outer column of a subquery counted as misnamed, and WITHIN needed the event time of a table."""
    monkeypatch.chdir(tmp_path)
    text = f"{STREAMS}{MAKES_D[makes]}INSERT INTO o {QUERIES[query]};"
    assert [said for said in check_job(parse_job(Script("job.sql", text))) if "stream s is" not in said] == []
    code, output = explained(text)
    assert code == 0, output
    assert ("BiJoin" in output) == (query != "without a join")
    assert ("d is not declared in this file" in output) == (makes == "catalog")
    assert ("columns of d are unknown" in output) == (makes in ("table of a query", "view of a table"))


@pytest.mark.parametrize("makes", ["table", "view", "view of files"])
@pytest.mark.parametrize(("right", "wrong"), [("r.k)", "r.kk)"), ("WHERE d.k", "WHERE d.kk"), ("r.k)", "q.k)")])
def test_a_name_is_wrong_where_all_relations_in_scope_are_known(makes: str, right: str, wrong: str) -> None:
    text = f"{STREAMS}{MAKES_D[makes]}INSERT INTO o {QUERIES['EXISTS'].replace(right, wrong)};"
    with pytest.raises(JobError, match="cannot be resolved"):
        check_job(parse_job(Script("job.sql", text)))
    assert explained(text)[0] == 2


def test_a_name_may_be_a_field_of_a_relation_that_is_not_known() -> None:
    query = f"{JOIN} WHERE EXISTS (SELECT 1 FROM shop.d WHERE r.field = 1) WITHIN 2 MINUTES"
    assert check_job(parse_job(Script("job.sql", f"{STREAMS}INSERT INTO o {query};"))) == []


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE TEMPORARY VIEW r AS SELECT *, 1 AS new FROM shop.d;",
        "CREATE OR REPLACE TEMPORARY VIEW r USING json OPTIONS (path 'x');",
        "CREATE OR REPLACE TEMPORARY VIEW r AS FROM shop.d |> SELECT 1 AS new;",
        "DROP VIEW r;",
        "CREATE TABLE s (x DOUBLE, new INT) USING csv;DROP VIEW r;",
    ],
)
def test_a_view_in_the_place_of_a_stream_has_columns_of_its_own(statement: str) -> None:
    text = f"{STREAMS}{statement}INSERT INTO o SELECT r.new FROM s JOIN r ON r.new > s.x;"
    assert check_job(parse_job(Script("job.sql", text))) == []
    assert explained(text)[0] == 0


def test_what_is_not_declared_may_be_a_slip_and_one_stream_with_a_table_is_sparks() -> None:
    code, output = explained(f"{STREAMS}INSERT INTO o SELECT r.k FROM r JOIN orders AS ss ON r.x < ss.x;")
    assert code == 0
    assert "all left to Spark" in output
    slip = QUERIES["joined"].replace("JOIN d", "JOIN order2 AS d")
    code, output = explained(f"{STREAMS}CREATE TABLE orders2 (x INT);INSERT INTO o {slip}")
    assert code == 0
    assert "Did you mean orders2?" in " ".join(output.replace("│", " ").split())


@pytest.mark.parametrize(("path", "said"), [("ports", True), ("/srv/ports", False), ("file:ports", False)])
def test_a_relative_path_of_a_table_is_said_to_begin_in_the_warehouse(path: str, said: bool) -> None:
    """Spark finds nothing there, and gives no rows and no error."""
    table = f"CREATE TABLE d (k INT, lo DOUBLE) USING csv OPTIONS (path '{path}');"
    code, output = explained(f"{STREAMS}{table}INSERT INTO o {QUERIES['joined']};")
    assert code == 0
    assert ("begins in Spark's warehouse" in " ".join(output.replace("│", " ").split())) is said


def test_a_table_is_not_named_where_a_stream_lacks_its_time() -> None:
    untimed = STREAMS.replace(" WATERMARK ts DELAY OF INTERVAL 1 SECOND", "").replace(", ts TIMESTAMP", "")
    code, output = explained(f"{untimed}INSERT INTO o {QUERIES['joined'].replace('JOIN d', 'JOIN shop.ports AS d')};")
    assert code == 2
    assert "WITHIN needs the event time of r" in output


def test_what_needs_columns_says_that_they_are_unknown() -> None:
    unknown = STREAMS.replace("r (k INT, x DOUBLE, ts TIMESTAMP) USING json", "r USING delta").replace("'.'", "'no'", 1)
    code, output = explained(f"{unknown}INSERT INTO o {JOIN} WITHIN 1 MINUTE;")
    assert code == 0
    assert "The columns of r are unknown without Spark" in output
    view = "CREATE TEMPORARY VIEW v AS SELECT * FROM r;"
    query = JOIN.replace("FROM r", "FROM v AS r")
    code, output = explained(f"{unknown}{view}INSERT INTO o {query} WITHIN 1 MINUTE;")
    assert code == 2
    assert "the columns of v are unknown without Spark" in output


def columns(name: str, path: Path, **options: str) -> dict[str, str]:
    given = [Option(Word(key, 0), Word(value, 0)) for key, value in {"path": str(path), **options}.items()]
    return dict(found_columns(name, Options(given)))


def test_columns_of_files_that_spark_did_not_write(tmp_path: Path) -> None:
    """Parquet's own types, partitions in folders, files that differ, and what is not as Spark would read it."""
    table = pa.table({"a": pa.array([1], pa.uint16()), "at": pa.array([0], pa.timestamp("us", "UTC"))})
    table = table.append_column("local", pa.array([0], pa.timestamp("us")))
    folder = tmp_path / "p" / "day=1"
    folder.mkdir(parents=True)
    (tmp_path / "p" / "_temporary").mkdir()
    parquet.write_table(table, folder / "1.parquet")
    types = {"a": "int", "at": "timestamp", "local": "timestamp_ntz"}
    assert columns("parquet", folder) == types
    assert columns("parquet", tmp_path / "p") == {**types, "day": "unknown"}
    assert columns("parquet", tmp_path / "p", mergeSchema="true") == {}
    (folder / ".2.parquet").write_text("hidden")
    assert columns("parquet", folder) == types
    parquet.write_table(table, folder / "2.parquet", use_deprecated_int96_timestamps=True)
    assert columns("parquet", folder) == {}  # local is an instant there
    (folder / "1.parquet").unlink()
    assert columns("parquet", folder)["local"] == "timestamp"
    (folder / "2.parquet").write_text("broken")
    assert columns("parquet", folder) == columns("orc", folder) == columns("delta", folder) == {}
    assert columns("parquet", tmp_path / "nothing") == columns("parquet", tmp_path / "p*") == {}
    orc.write_table(table.select(["at", "local"]), folder / "2.parquet")
    assert columns("orc", folder) == {"at": "timestamp", "local": "timestamp"}


def test_columns_of_a_delta_table_are_those_of_its_newest_schema(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()

    def schema(name: str) -> dict[str, object]:
        kind = {"type": "array", "elementType": "long", "containsNull": True}
        return {"schemaString": json.dumps({"type": "struct", "fields": [{"name": name, "type": kind}]})}

    assert columns("delta", tmp_path) == {}
    old = pa.table({"metaData": pa.array([None, schema("a")])})
    parquet.write_table(old, log / "00000000000000000010.checkpoint.parquet")
    (log / "00000000000000000011.json").write_text('{"add": {}}\n')
    assert columns("delta", tmp_path) == {"a": "array<bigint>"}
    (log / "00000000000000000012.json").write_text('{"add": {}}\n' + json.dumps({"metaData": schema("b")}) + "\n")
    assert columns("delta", tmp_path) == {"b": "array<bigint>"}


@pytest.mark.spark
def test_columns_are_those_that_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    query = "SELECT 1 AS i, 2L AS `l l`, 1.5BD AS d, 'a' AS s, true AS b, DATE '2024-01-01' AS day, "
    query += "TIMESTAMP '2024-01-01' AS ts, MAP('a', ARRAY(NAMED_STRUCT('x', 1S, 'y', 1Y))) AS m"
    frame = spark.sql(query)
    ntz = spark.sql("SELECT TIMESTAMP_NTZ '2024-01-01' AS at, 1.0F AS f, BINARY('a') AS bytes")
    for name, written in {"parquet": frame.crossJoin(ntz), "orc": frame.drop("m")}.items():
        path = tmp_path / name
        written.write.format(name).save(str(path))
        found = spark.read.format(name).load(str(path)).schema
        assert columns(name, path) == {field.name: field.dataType.simpleString() for field in found}
    for header in ("true", "false"):
        path = tmp_path / f"csv{header}"
        frame.drop("m").write.option("header", header).csv(str(path))
        found = spark.read.option("header", header).csv(str(path)).schema
        assert columns("csv", path, header=header) == {field.name: field.dataType.simpleString() for field in found}


@pytest.mark.spark
def test_a_table_without_files_is_said(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had no rows, with exit code 0; the notice blamed a stream."""
    for name in ("in", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "ports.csv").write_text("1\n")
    text = STREAMS.replace("'.'", f"'{tmp_path}/in'")
    text += f"""
CREATE TABLE static_a (k INT) USING csv OPTIONS (path 'ports.csv');
CREATE TABLE static_b (k INT) USING csv LOCATION '{tmp_path}/ports.csv';
CREATE TEMPORARY VIEW static_c (k INT) USING csv OPTIONS (path '{tmp_path}/empty');
INSERT INTO o SELECT r.k FROM r JOIN static_a AS a ON a.k = r.k JOIN static_b AS b ON b.k = r.k
WHERE EXISTS (SELECT 1 FROM static_c AS c WHERE c.k = r.k);"""
    job = parse_job(Script("job.sql", text))
    try:
        first, second = prepare(job, TriJoinSession.create(spark.newSession()))[0].cautions
    finally:
        spark.sql("DROP TABLE IF EXISTS static_a")
        spark.sql("DROP TABLE IF EXISTS static_b")
    said = "\n".join(sorted((first, second)))
    assert f"nothing is read from file:{tmp_path}/empty" in said
    assert "the table static_a has no rows" in said
    assert "CREATE TEMPORARY VIEW static_a" in said


def test_a_misspelt_function_is_advised_and_sparks_own_are_not() -> None:
    """It is no mistake for certain: somebody may have made a function of that name."""
    code, said = explained(f"{STREAMS}{JOIN.replace('ABS', 'ABSS')} WITHIN 2 MINUTES")
    assert (code, "Spark itself has no function ABSS. Did you mean abs?" in " ".join(said.split())) == (0, True)
    # What PySpark offers for columns, and SQL does not have.
    apart = {"column", "lit", "expr", "negate", "years", "months", "days", "hours"}
    for name in set(functions.__all__) - apart:
        with contextlib.suppress(SqlSyntaxError):  # LIKE and other operators
            assert unknown_advice(f"SELECT {name}(r.x) FROM r", read_script(STREAMS)[0]) == []
