"""What Spark's grammar has and ours has not is joined all the same: in Spark's plan, with the rows of batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import trijoin_sql
from trijoin_sql.errors import UnsupportedQueryError

from .differential import Tables, bag, run_stream

SCHEMA = "id int, x int, st struct<a: int, b: string>, l array<int>"
ARROW = pa.schema(
    [
        ("id", pa.int32()),
        ("x", pa.int32()),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("l", pa.list_(pa.int32())),
    ]
)
THETA = "r JOIN s ON r.x < s.x"
PIPED = "r |> JOIN s ON r.x < s.x"
BIG = "(SELECT CAST(id AS BIGINT) AS y, x FROM r)"
LATERAL = "LATERAL (SELECT r.x + 1 AS y)"
LEFT = "LEFT JOIN fixed f ON f.id = r.id"
RECURSIVE = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3)"

#: SQL, and where it has parameters their values.
STATEMENTS: tuple[tuple[str, dict[str, object]], ...] = (
    ("FROM r |> JOIN s ON r.x < s.x |> SELECT r.id, s.x AS sx", {}),
    ("FROM r |> AS a |> JOIN s AS b ON a.x < b.x |> WHERE a.id > 1 |> EXTEND a.x + b.x AS y |> SELECT a.id, y", {}),
    ("FROM r |> JOIN s ON r.x < s.x |> SELECT r.id AS a, s.id AS b |> SET a = a + 1 |> DROP b", {}),
    (f"FROM {THETA} SELECT r.id, s.id AS sid", {}),
    ("SELECT r.id FROM r JOIN IDENTIFIER('s') AS s ON r.x < s.x", {}),
    ("SELECT r.id FROM r JOIN IDENTIFIER(:name) AS s ON r.x < s.x", {"name": "s"}),
    ("SELECT IDENTIFIER('r.id') FROM r JOIN s ON IDENTIFIER('r.' || 'x') < s.x", {}),
    ("SELECT r.id, s.id AS sid FROM r JOIN s ON r.x < s.x + v", {}),
    (f"SELECT r.id, v AS v3 FROM {THETA} WHERE s.id < v", {}),
    (f"SELECT r.st.*, s.x AS sx FROM {THETA}", {}),
    (f"SELECT to_json(struct(s.*)) AS j FROM {THETA}", {}),
    (f"SELECT struct(r.*) AS j, s.id FROM {THETA}", {}),
    (f"SELECT r.* EXCEPT (st.a), s.id AS sid FROM {THETA}", {}),
    (f"SELECT r.id, q.z FROM {THETA}, LATERAL (SELECT r.x + s.x AS z) q", {}),
    (f"SELECT r.id, e.col AS y FROM {THETA}, LATERAL explode(r.l) AS e", {}),
    (f"SELECT r.id, y FROM {THETA} LATERAL VIEW explode(s.l) e AS y", {}),
    (f"{RECURSIVE} SELECT r.id, c.n FROM {THETA} JOIN c ON c.n = s.x", {}),
    (f"SELECT id, name, y FROM (SELECT r.id, r.x AS a, s.x AS b FROM {THETA}) UNPIVOT (y FOR name IN (a, b))", {}),
    (f"EXECUTE IMMEDIATE 'SELECT r.id, s.id AS sid FROM {THETA} WHERE s.id > ?' USING 1", {}),
    ("SELECT r.id, s.id AS sid FROM r, s WHERE r.x < s.x AND r.id <=> s.id OR r.x + 1 = s.x", {}),
    ("SELECT viewed.id, t.id AS tid FROM viewed JOIN t ON t.x = viewed.x", {}),
    ("SELECT count(*) AS n FROM viewed", {}),
    # common table expressions of a view beside those of the statement
    ("WITH b AS (SELECT id, x FROM s) FROM v_with AS v1 |> JOIN b ON v1.x < b.x |> SELECT v1.id, b.id AS bid", {}),
    ("WITH b AS (SELECT id, x FROM s) FROM b |> JOIN v_with AS v1 ON v1.x < b.x |> SELECT v1.id, b.id AS bid", {}),
    ("FROM r |> JOIN s ON r.x < s.x |> SELECT r.id, 'NO_TRIJOIN' AS word", {}),  # a text, no hint
    # a group above a group, with something of Spark's between them
    (f"FROM {PIPED} |> LEFT JOIN fixed ON fixed.id = r.id |> JOIN t ON t.x < s.x |> SELECT r.id, t.id AS tid", {}),
    (f"FROM {PIPED} |> EXTEND r.x + s.x AS y |> JOIN t ON t.x > y |> SELECT r.id, t.id AS tid", {}),
    (f"WITH a AS (SELECT r.id, r.x FROM {THETA}) FROM a |> JOIN t ON a.x < t.x |> SELECT a.id, t.id AS tid", {}),
    (f"SELECT r.id, d.id AS d FROM {THETA} {LEFT} LEFT JOIN fixed d ON d.id = f.x JOIN fixed e ON e.id = s.id", {}),
    (f"SELECT r.id, t.id AS tid FROM {THETA} JOIN fixed c ON c.id = r.id {LEFT} JOIN t ON t.x <= f.x", {}),
    # Spark takes the name for the output, since it casts the 6: what we would write, it does not find
    (f"SELECT q.y AS z, count(*) AS y FROM {BIG} q JOIN s ON q.x < s.x GROUP BY ROLLUP (q.y) HAVING y > 6", {}),
    # an equality, which Spark runs by itself: a LATERAL subquery of one row must stay one
    (f"WITH b AS (SELECT * FROM r JOIN {LATERAL}) SELECT b.id, t.id AS tid FROM b JOIN t ON b.y = t.x", {}),
)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Iterator[Tables]:
    made = Tables(spark, tmp_path)
    for shift, name in enumerate("rst"):
        rows = [
            {"id": n, "x": None if n == 5 else (7 * n + 3 * shift) % 5, "st": {"a": n, "b": f"{name}{n}"}, "l": [n, -n]}
            for n in range(8)
        ]
        made.create(name, [rows[:3], rows[3:]], SCHEMA, ARROW)
    spark.sql("DECLARE OR REPLACE VARIABLE v INT DEFAULT 3")
    spark.range(4).selectExpr("CAST(id AS INT) AS id", "CAST(id % 3 AS INT) AS x").createOrReplaceTempView("fixed")
    yield made
    spark.sql("DROP TEMPORARY VARIABLE v")
    spark.catalog.dropTempView("viewed")
    spark.catalog.dropTempView("v_with")
    spark.catalog.dropTempView("fixed")


@pytest.mark.rare
def test_all_of_sparks_sql_is_joined(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    tj = trijoin_sql.TriJoinSession.create(spark)
    view = f"CREATE OR REPLACE TEMP VIEW viewed AS SELECT r.id, r.x, s.id AS sid FROM {THETA}"
    with_view = "CREATE OR REPLACE TEMP VIEW v_with AS WITH a AS (SELECT id, x FROM r WHERE id < 6) SELECT id, x FROM a"
    for number, (sql, arguments) in enumerate(STATEMENTS):
        tables.use(streaming=False)
        spark.sql(view)
        spark.sql(with_view)
        wanted = bag(spark.sql(sql, args=arguments or None).collect())
        tables.use(streaming=True)
        spark.sql(view)  # by Spark alone: what somebody made without us
        spark.sql(with_view)
        mode = "complete" if "count" in sql else "append"
        frame = tj.sql(sql, args=arguments or None)
        assert run_stream(frame, tmp_path / f"checkpoint{number}", mode) == wanted, sql
        assert wanted, sql


#: What Spark's own text of it does not say: no SQL at all, fewer arguments, or (in Berlin, when clocks go back) another
#: instant. On one input, and on both.
AT = "timestamp_seconds(1729987200 + 900 * {})"
OTHERWISE = (
    "r.x < s.x",
    "exists(r.l, e -> e > 1)",
    "array_sort(s.l)[1] > r.x",
    """from_json(concat('{"a": ', r.id, '}'), 'a INT').a <= s.id + 3""",
    "extract(MINUTE FROM timestamp_seconds(60 * r.id)) <> extract(MINUTE FROM timestamp_seconds(60 * s.id))",
    "variant_get(parse_json(CAST(r.id AS STRING)), '$', 'int') <> s.id - 1",
    f"greatest({AT.format('r.id')}, {AT.format('s.id')}) < TIMESTAMP'2024-10-27 01:15:00Z'",
    f"{AT.format('s.id')} >= TIMESTAMP'2024-10-27 00:30:00Z'",
    "exists(s.l, e -> e > r.id - 3)",
)


@pytest.mark.rare
def test_an_expression_goes_over_as_an_expression(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """Conditions of a view that Spark alone made; and a text that a setting makes only Spark read rightly."""
    zone, escaped = "spark.sql.session.timeZone", "spark.sql.parser.escapedStringLiterals"
    before = spark.conf.get(zone)
    view = f"CREATE OR REPLACE TEMP VIEW viewed AS SELECT r.id, s.id AS sid FROM r JOIN s ON {' AND '.join(OTHERWISE)}"
    raw = (
        r"SELECT r.id, s.id AS sid FROM r JOIN s ON r.x < s.x AND r.st.b RLIKE '^r\d$' AND concat(r.x, s.x) RLIKE '\d'"
    )
    spark.conf.set(zone, "Europe/Berlin")
    spark.conf.set(escaped, "true")
    try:
        for number, sql in enumerate(("SELECT * FROM viewed", raw)):
            tables.use(streaming=False)
            spark.sql(view)
            wanted = bag(spark.sql(sql).collect())
            tables.use(streaming=True)
            spark.sql(view)
            found = run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), tmp_path / f"checkpoint{number}")
            assert found == wanted
            assert wanted
    finally:
        spark.conf.set(zone, before)
        spark.conf.unset(escaped)


def test_it_goes_on_from_its_checkpoint(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """Names that we make up are the same at each start."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    sql, checkpoint = "FROM r |> JOIN s ON r.x < s.x |> SELECT r.id, s.id AS sid", tmp_path / "checkpoint"
    tables.use(streaming=True)
    first = run_stream(tj.sql(sql), checkpoint)
    tables.add("r", [{"id": 100, "x": 0, "st": None, "l": None}], ARROW)
    tables.use(streaming=True)
    second = run_stream(tj.sql(sql), checkpoint)
    tables.use(streaming=False)
    assert first + second == bag(spark.sql(sql).collect())
    assert second


def test_what_is_left_to_spark_on_purpose_stays(spark: SparkSession, tables: Tables) -> None:
    """A hint with an equality, which Spark runs; what it does not run is refused."""
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    plan = tj.sql("SELECT /*+ NO_TRIJOIN */ * FROM r JOIN s ON r.x = s.x")._jdf.queryExecution().analyzed()
    assert "TransformWithState" not in plan.toString()
    with pytest.raises(UnsupportedQueryError, match="LEFT SEMI JOIN of streams has no bound in event time"):
        tj.sql("SELECT * FROM r LEFT SEMI JOIN s ON r.x = s.x")
    with pytest.raises(UnsupportedQueryError, match="without an equality"):
        tj.sql(f"SELECT /*+ NO_TRIJOIN */ r.id FROM {THETA} JOIN t ON r.x < t.x")
