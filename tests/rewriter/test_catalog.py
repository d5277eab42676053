"""Schemas from DDL: what EXPLAIN knows without Spark."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.job_heads import with_rate, with_view
from trijoin_sql.rewriter.plan.parts import Column
from trijoin_sql.rewriter.sql.catalog import TableInfo
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import SqlSyntaxError


def test_a_stream_has_columns_a_watermark_and_a_rate() -> None:
    catalog, rest = read_script(
        "CREATE STREAM r (id LONG, ts TIMESTAMP, `x y` DECIMAL(10, 2) NOT NULL, z STRUCT<a: INT, b: ARRAY<STRING>>)\n"
        "USING rate OPTIONS (path ')', sep ',', rowsPerSecond '5') WATERMARK ts DELAY OF INTERVAL '1.5' MINUTES;\n"
        "-- the query\nSELECT ';' FROM r;"
    )
    names = ("id", "bigint"), ("ts", "timestamp"), ("x y", "decimal(10,2)"), ("z", "struct<a:int,b:array<string>>")
    columns = tuple(Column(*name) for name in names)
    assert catalog.table(("R",)) == TableInfo(columns, True, 5.0, (("ts", 90_000_000),), "declared")
    assert rest == ("SELECT ';' FROM r",)


def test_a_table_is_static_and_unknown_ones_are_not_there() -> None:
    catalog, _ = read_script("CREATE TABLE IF NOT EXISTS db.t (a INT) USING parquet")
    found = catalog.table(("db", "T"))
    assert found is not None
    assert found.streaming is False
    assert catalog.table(("t",)) is None


@pytest.mark.parametrize(
    ("declaration", "rows"),
    [
        ("USING json OPTIONS (path 'in', trijoin.rowsPerSecond 250)", 250.0),
        ("USING kafka OPTIONS (`trijoin.rowsPerSecond` = '0.5', subscribe 'a,b')", 0.5),
        ("USING json OPTIONS (path 'in', rowsPerSecond 250)", None),
        ("USING rate", None),
        ("USING rate OPTIONS (rowsPerSecond 10)", 10.0),
        ("USING rate OPTIONS (trijoin.rowsPerSecond 7, rowsPerSecond 10)", 7.0),
        ("USING rate-micro-batch OPTIONS (rowsPerBatch 10)", None),
    ],
)
def test_a_stream_declares_its_rate(declaration: str, rows: float | None) -> None:
    """By our option, or as the source `rate` does; a session's setting goes before both."""
    catalog, _ = read_script(f"CREATE STREAM r (a INT) {declaration}")
    found = catalog.table(("r",))
    assert found is not None
    assert found.rows == rows
    changed = with_rate(catalog, "spark.trijoin.rate.R", "3").table(("r",))
    assert changed is not None
    assert (changed.rows, changed.rows_from) == (3.0, "declared")


def test_views_and_derived_tables_of_one_stream_bring_its_rows() -> None:
    stream = "CREATE STREAM r (a INT) USING json OPTIONS (trijoin.rowsPerSecond 9);"
    for query, rows in (("a + 1 AS b FROM r WHERE a > 1", 9), ("a FROM r GROUP BY a", None), ("r.a FROM r, r q", None)):
        catalog, (view,) = read_script(f"{stream} CREATE TEMPORARY VIEW v AS SELECT {query}")
        found = with_view(catalog, view).table(("v",))
        assert found is not None
        assert found.rows == rows


@pytest.mark.parametrize(
    ("delay", "microseconds"),
    [
        ("INTERVAL 10 SECONDS", 10_000_000),
        ("INTERVAL '10' SECONDS", 10_000_000),
        ("INTERVAL '10 seconds'", 10_000_000),
        ("INTERVAL 1 HOUR 30 MINUTES", 5_400_000_000),
        ("INTERVAL '1 hour 30 minutes'", 5_400_000_000),
        ("INTERVAL 0.5 DAYS", 43_200_000_000),
    ],
)
def test_a_delay_is_read_as_a_job_reads_it(delay: str, microseconds: int) -> None:
    """`explain` refused some of these, and read only the first unit of others."""
    catalog, _ = read_script(f"CREATE STREAM r (ts TIMESTAMP) WATERMARK ts DELAY OF {delay} USING rate")
    found = catalog.table(("r",))
    assert found is not None
    assert found.times[0][1] == microseconds


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [
        ("CREATE STREAM r (a INT", 1, 23),
        ("SELECT 1;\nCREATE STREAM r (a INT) WATERMARK ts DELAY OF 10 SECONDS", 2, 47),
        ("CREATE STREAM r (a INT) WATERMARK ts DELAY OF INTERVAL 10 MINUTS", 1, 56),
        ("CREATE TABLE t (a)", 1, 18),
        ("CREATE STREAM r (a INT) USING json OPTIONS (path 'x',\n trijoin.rowsPerSecond 'many')", 2, 24),
        ("CREATE STREAM r (a INT) USING rate OPTIONS (rowsPerSecond 0)", 1, 59),
        ("CREATE STREAM r (a INT) USING rate WATERMARK b DELAY OF INTERVAL 1 SECOND", 1, 46),
    ],
)
def test_a_bad_declaration_says_where_in_the_file(sql: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        read_script(sql)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_what_is_quoted_in_a_declaration_is_no_word_of_it() -> None:
    """A parenthesis in a comment was one of the type, and a path named like a clause was the clause."""
    catalog, _ = read_script("CREATE TABLE t (a INT COMMENT 'x)', b INT) USING csv OPTIONS (path 'watermark')")
    found = catalog.table(("t",))
    assert found is not None
    assert [(column.name, column.type) for column in found.columns] == [("a", "int"), ("b", "int")]
    assert found.times == ()


@pytest.mark.parametrize(
    "behind",
    [
        "USING parquet PARTITIONED BY (a) OPTIONS (x => 'y') LOCATION 'p' TBLPROPERTIES ('k' = 'v')",
        "COMMENT 'c' AS SELECT * FROM u JOIN v USING (a) JOIN w USING (a)",
        "USING csv AS SELECT a, ts FROM u WATERMARK ts DELAY OF INTERVAL 1 SECOND",
    ],
)
def test_other_clauses_of_a_table_are_sparks(behind: str) -> None:
    columns = "a INT GENERATED ALWAYS AS IDENTITY, b STRING DEFAULT 'x', CONSTRAINT p CHECK (a > 0), CONSTRAINT q NULL"
    catalog, rest = read_script(f"CREATE TABLE db.t ({columns}) {behind}; SELECT 1")
    found = catalog.table(("db", "t"))
    assert found is not None
    assert found.columns[1] == Column("b", "string")
    assert (found.times, rest) == ((), ("SELECT 1",))


def test_a_view_may_name_its_columns_and_be_global() -> None:
    ddl = "CREATE STREAM r (a INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 1 SECOND; "
    catalog, (view,) = read_script(ddl + "CREATE GLOBAL TEMPORARY VIEW v (x, at, y) AS SELECT a, ts, a + 1 AS a FROM r")
    found = with_view(catalog, view).table(("global_temp", "v"))
    assert found is not None
    assert [(column.name, column.type) for column in found.columns] == [("x", "int"), ("at", "timestamp"), ("y", "int")]
    assert (found.streaming, found.times) == (True, (("at", 1_000_000),))
    assert with_view(catalog, view.replace("at, y", "at")).table(("global_temp", "v")) is None
