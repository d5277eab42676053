"""What Spark refuses on streams: one sentence of ours with Spark's condition, no plan in it, before anything starts."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

import trijoin_sql
from trijoin_sql.errors import SqlSyntaxError, UnavailableError, UnsupportedQueryError

JOIN = "r JOIN s ON r.x < s.x AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS"
NEAR = "t.k = r.k AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS"

#: Refused by ``sql()``, for no mode runs it: the statement, and what is said.
IN_NO_MODE = {
    f"SELECT r.id FROM {JOIN} WHERE r.k > 1 OR EXISTS (SELECT 1 FROM t WHERE t.x > r.x)": "a subquery in an expression",
    f"SELECT r.id FROM {JOIN} WHERE r.id NOT IN (SELECT id FROM t)": "NOT IN over a stream",
    f"SELECT (SELECT max(x) FROM t) AS m FROM {JOIN}": "a subquery in an expression",
    f"SELECT r.id FROM {JOIN} LEFT JOIN t ON t.x > r.x": "the LEFT JOIN with t would never know that a row of r has no",
    f"SELECT r.id FROM {JOIN} FULL JOIN t ON t.k = r.k": "no bound in event time",
    f"SELECT r.id FROM {JOIN} LEFT ANTI JOIN t ON t.x > r.x": "the LEFT ANTI JOIN with t would never know",
    "SELECT r.id FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE r.id - s.id < r.x + s.x AND array(r.k) > array(s.k))": (
        "the LEFT ANTI JOIN would never know"
    ),
    "SELECT r.id FROM r JOIN s EXACT NEAREST BY DISTANCE levenshtein(r.id, s.id) WITHIN 1 MINUTE": (
        "NEAREST of streams is by the difference of one value of each side, not by levenshtein"
    ),
    "SELECT r.id FROM r JOIN s EXACT NEAREST BY DISTANCE ABS(r.x - s.x) + r.k WITHIN 1 MINUTE": "not by ABS",
    f"SELECT * FROM (SELECT r.k, s.x FROM {JOIN}) PIVOT (count(*) FOR x IN (1, 2))": "PIVOT of a stream",
    "FROM r |> JOIN s ON coalesce(1, r.k) = coalesce(1, s.k) AND r.x < s.x": "without an equality is left to Spark",
    f"SELECT r.id FROM {JOIN} RIGHT JOIN c ON c.id = r.id": "keeps all rows of a table",
    f"SELECT r.id FROM {JOIN} ORDER BY r.id": "ORDER BY .*, line 1, column",
    f"SELECT r.id FROM {JOIN} LIMIT 3 OFFSET 1": "OFFSET",
    "SELECT r.id FROM r TABLESAMPLE (50 PERCENT) JOIN s ON r.x < s.x": "TABLESAMPLE",
    f"SELECT r.id FROM {JOIN} INTERSECT SELECT id FROM t": "INTERSECT",
    f"SELECT r.id FROM {JOIN} EXCEPT SELECT id FROM t": "EXCEPT",
    f"SELECT row_number() OVER (PARTITION BY r.k ORDER BY r.id) AS n FROM {JOIN}": "a window function",
    f"SELECT r.id FROM {JOIN} QUALIFY rank() OVER (PARTITION BY r.id ORDER BY s.ts) = 1": "QUALIFY .*, line 1, column",
    "SELECT id FROM r QUALIFY rank() OVER (PARTITION BY k ORDER BY ts) = 1": "QUALIFY .*, line 1, column 18",
    "FROM r |> JOIN s ON r.x < s.x |> ORDER BY r.id": "ORDER BY",
}

#: By statement: the modes that run it.
MODES = {
    f"SELECT r.id FROM {JOIN}": ("append", "update"),
    f"SELECT r.id FROM {JOIN} LIMIT 3": ("append",),
    f"SELECT r.k, count(*) AS n FROM {JOIN} GROUP BY r.k": ("update", "complete"),
    f"SELECT window(r.ts, '2 seconds') AS w, count(*) AS n FROM {JOIN} GROUP BY 1": ("append", "update", "complete"),
    "SELECT window(r.ts, '2 seconds') AS w, count(*) FROM r JOIN s ON r.x < s.x GROUP BY 1": ("update", "complete"),
    f"SELECT r.id, t.id AS tid FROM {JOIN} LEFT JOIN t ON {NEAR}": ("append", "update"),  # of one node
    f"SELECT /*+ NO_JOIN_TREE */ r.id, t.id AS tid FROM {JOIN} LEFT JOIN t ON {NEAR}": ("append",),
    "SELECT DISTINCT r.id, r.ts FROM r RIGHT JOIN s ON r.x < s.x AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS": (
        "update",
        "complete",
    ),
    f"SELECT r.k, count(*) AS n FROM {JOIN} GROUP BY r.k ORDER BY n": ("complete",),
    f"SELECT DISTINCT r.ts, s.ts AS b FROM {JOIN}": ("append", "update", "complete"),
    f"SELECT r.id, (SELECT max(x) FROM c) AS m FROM {JOIN}": ("append", "update"),
}


@pytest.fixture
def tj(spark: SparkSession) -> trijoin_sql.TriJoinSession:
    for name in "rst":
        frame = spark.readStream.format("rate").load()
        names = ("value AS id", "value AS x", "value % 5 AS k", "timestamp AS ts")
        frame.selectExpr(*names).withWatermark("ts", "1 second").createOrReplaceTempView(name)
    spark.range(3).selectExpr("id", "id AS x").createOrReplaceTempView("c")
    return trijoin_sql.TriJoinSession.create(spark)


@pytest.mark.parametrize(("sql", "reason"), IN_NO_MODE.items())
def test_refused_at_once(tj: trijoin_sql.TriJoinSession, sql: str, reason: str) -> None:
    with pytest.raises(UnsupportedQueryError, match=reason) as refused:
        tj.sql(sql)
    said = str(refused.value)
    assert len(said.splitlines()) == 2, "a sentence and a hint"
    assert "+- " not in said
    assert "Hint: " in said


@pytest.mark.parametrize("sql", MODES)
def test_a_mode_that_does_not_run_it_is_refused_when_it_is_written(tj: trijoin_sql.TriJoinSession, sql: str) -> None:
    """And no other: that would be worse than any message."""
    frame = tj.sql(sql)
    for mode in ("append", "update", "complete"):
        writer = frame.writeStream.outputMode(mode).format("noop")
        if mode in MODES[sql]:
            query = writer.start()
            query.stop()
            continue
        with pytest.raises(UnsupportedQueryError, match="Spark's condition") as refused:
            writer.start()
        assert len(str(refused.value).splitlines()) == 2


@pytest.mark.rare
@pytest.mark.parametrize("door", ["sql", "explain", "enabled"])
@pytest.mark.parametrize(
    "before",
    ["SELECT * FROM r", f"SELECT * FROM (SELECT r.k, r.ts FROM {JOIN})", "SELECT * FROM c", "FROM r |> WHERE k > 1"],
)
def test_match_recognize_is_refused_by_name(tj: trijoin_sql.TriJoinSession, door: str, before: str) -> None:
    """Over streams and over tables, in texts that we read and in those that only Spark does."""
    sql = f"{before} MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts PATTERN (a b) DEFINE b AS b.x > a.x)"
    run = {"sql": tj.sql, "explain": tj.explain}.get(door) or trijoin_sql.enable(tj.spark).spark.sql
    try:
        with pytest.raises(SqlSyntaxError, match=r"write a join for each step, .* and NOT EXISTS") as refused:
            run(sql)
    finally:
        trijoin_sql.disable(tj.spark)
    assert (refused.value.line, refused.value.column) == (1, len(before) + 2)


@pytest.mark.rare
def test_qualify_over_tables_is_sparks(tj: trijoin_sql.TriJoinSession) -> None:
    """Alone, above a join of ours, and in a query over a table that a stream joins."""
    ranked = "QUALIFY row_number() OVER (PARTITION BY c.id % 2 ORDER BY c.id) = 1"
    for sql, ids in (
        (f"SELECT c.id FROM c {ranked}", [0, 1]),
        (f"SELECT c.id FROM c JOIN c AS d ON c.x < d.x {ranked}", [0, 1]),
    ):
        assert sorted(row.id for row in tj.sql(sql).collect()) == ids
    tj.sql(f"SELECT r.id FROM r JOIN (SELECT c.id FROM c {ranked}) AS z ON z.id = r.id").writeStream.format(
        "noop"
    ).start().stop()


def test_the_mode_may_be_an_argument_of_start_and_of_to_table(tj: trijoin_sql.TriJoinSession) -> None:
    rows, groups = tj.sql(f"SELECT r.id FROM {JOIN} LIMIT 3"), tj.sql(f"SELECT r.k, count(*) FROM {JOIN} GROUP BY r.k")
    for refused in (
        lambda: rows.writeStream.start(None, "noop", "complete"),
        lambda: rows.writeStream.start(format="noop", outputMode="complete"),
        lambda: rows.writeStream.toTable("nowhere", "parquet", "complete"),
        lambda: rows.writeStream.toTable("nowhere", outputMode="complete"),
    ):
        with pytest.raises(UnsupportedQueryError, match="Spark's condition"):
            refused()
    with pytest.raises(AnalysisException, match="complete") as of_spark:  # parquet's refusal, not one of append mode
        groups.writeStream.toTable("nowhere", outputMode="complete")
    assert not isinstance(of_spark.value, UnsupportedQueryError)
    groups.writeStream.start(format="noop", outputMode="complete").stop()


def test_what_stands_above_a_join_of_ours_is_refused_in_our_words(tj: trijoin_sql.TriJoinSession) -> None:
    above = tj.sql(f"SELECT r.id, r.k FROM {JOIN}").groupBy("k").count()
    with pytest.raises(UnsupportedQueryError, match="groups without a window of event time never close"):
        above.writeStream.start(format="noop")


def test_a_frame_of_another_session_is_not_rewritten(tj: trijoin_sql.TriJoinSession) -> None:
    other = tj.spark.newSession().readStream.format("rate").load()
    with pytest.raises(UnavailableError, match="of another session"):
        tj.rewrite(other.alias("a").join(other.alias("b"), F.expr("a.value < b.value")))


@pytest.mark.parametrize("bounded", [True, False])
def test_event_time_through_a_join_in_sparks_plan(tj: trijoin_sql.TriJoinSession, bounded: bool) -> None:
    """Spark has analysed what stands above with the inputs' watermarks: where the join has none, rows would be lost."""
    bound = "s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS" if bounded else "r.ts <= s.ts"
    join = f"FROM r |> JOIN s ON r.x < s.x AND {bound}"
    sql = f"{join} |> AGGREGATE count(*) AS n GROUP BY window(r.ts, '2 seconds') AS w"
    if bounded:
        tj.sql(sql).writeStream.format("noop").start().stop()
        return
    windows = tj.sql(sql).writeStream.format("noop")
    with pytest.raises(UnsupportedQueryError, match=r"may go by r\.ts"):
        windows.start()
    windows.outputMode("complete").start().stop()
    tj.sql(f"{join} |> SELECT r.ts, s.id AS sid").writeStream.format("noop").start().stop()
    tj.sql(f"{join} |> LEFT JOIN t ON {NEAR} |> SELECT r.id").writeStream.format("noop").start().stop()  # of one node
    with pytest.raises(UnsupportedQueryError, match=r"may go by r\.ts"):
        tj.sql(f"{join} |> LEFT JOIN t ON {NEAR} AND t.x = r.x + s.x |> SELECT r.id")
    assert [one["join"] for one in tj.explain(f"{join} |> LEFT JOIN t ON {NEAR}").to_dict()["groups"]] == ["mixed"]
    table = f"{join} |> LEFT JOIN c ON c.x = second(r.ts) |> SELECT r.id, c.id AS cid"  # which keeps no state
    tj.sql(table).writeStream.format("noop").start().stop()
