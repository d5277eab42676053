"""Schemas from DDL: what EXPLAIN knows without Spark."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.catalog import TableInfo, read_script
from trijoin_sql.rewriter.plan import Column

from trijoin_sql.errors import SqlSyntaxError


def test_a_stream_has_columns_a_watermark_and_its_options_are_passed_over() -> None:
    catalog, rest = read_script(
        "CREATE STREAM r (id LONG, `x y` DECIMAL(10, 2) NOT NULL, z STRUCT<a: INT, b: ARRAY<STRING>>)\n"
        "USING rate OPTIONS (rowsPerSecond '5', path ')') WATERMARK ts DELAY OF INTERVAL '1.5' MINUTES;\n"
        "-- the query\nSELECT ';' FROM r;"
    )
    columns = (Column("id", "bigint"), Column("x y", "decimal(10,2)"), Column("z", "struct<a:int,b:array<string>>"))
    assert catalog.table(("R",)) == TableInfo(columns, True, None, "ts", 90_000_000)
    assert rest == ("SELECT ';' FROM r",)


def test_a_table_is_static_and_unknown_ones_are_not_there() -> None:
    catalog, _ = read_script("CREATE TABLE IF NOT EXISTS db.t (a INT) USING parquet")
    found = catalog.table(("db", "T"))
    assert found is not None
    assert found.streaming is False
    assert catalog.table(("t",)) is None


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [
        ("CREATE STREAM r (a INT", 1, 20),
        ("SELECT 1;\nCREATE STREAM r (a INT) WATERMARK ts DELAY OF 10 SECONDS", 2, 47),
        ("CREATE TABLE t (a)", 1, 18),
    ],
)
def test_a_bad_declaration_says_where_in_the_file(sql: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        read_script(sql)
    assert (caught.value.line, caught.value.column) == (line, column)
