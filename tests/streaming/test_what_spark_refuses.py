"""What is refused of a query is what Spark does not run, and nothing else, whoever does its joins."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from trijoin_sql.rewriter.on_streams import MODES

from trijoin_sql import TriJoinSession
from trijoin_sql.errors import UnsupportedQueryError
from trijoin_sql.spark.refusals import StreamCheck, check_all_modes

JOIN = "FROM r JOIN s ON r.k = s.k AND r.ts = s.ts"
NEAR = "s.k = r.k AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 MINUTE"
RANGE = "s.ts BETWEEN r.ts AND r.ts + INTERVAL 1 MINUTE"

#: It runs once a column is left out, which the DataFrame's user may do: it is refused when it is started.
PRUNED = f"SELECT q.k, q.b, q.ts FROM (SELECT r.k, r.ts, s.ts AS b {JOIN}) q JOIN s AS t ON q.k = t.k"

#: Each is run by plain Spark in each mode: where it runs nothing may be said, where it fails there must be an answer.
STATEMENTS = (
    f"SELECT r.k {JOIN} LIMIT 3",
    f"SELECT r.k {JOIN} ORDER BY r.k",
    f"SELECT r.k, count(*) AS n {JOIN} GROUP BY r.k ORDER BY n",
    f"SELECT count(DISTINCT r.k) {JOIN}",
    f"SELECT session_window(r.ts, '9 seconds') AS w, r.k, count(*) {JOIN} GROUP BY 1, 2",
    f"SELECT session_window(r.ts, '9 seconds') AS w, count(*) {JOIN} GROUP BY 1",
    f"SELECT DISTINCT r.ts {JOIN}",
    "SELECT r.ts, s.ts AS b, count(*) FROM r JOIN s ON r.k = s.k GROUP BY r.ts, s.ts",
    f"SELECT q.k FROM (SELECT r.k, r.ts, s.ts AS b {JOIN}) q JOIN s AS t ON q.k = t.k",
    PRUNED,
    f"SELECT w, sum(n) FROM (SELECT window(r.ts, '1 day') AS w, r.k, count(*) AS n {JOIN} GROUP BY 1, 2) GROUP BY w",
    "SELECT r.k FROM r CROSS JOIN s",
    "SELECT r.k FROM r, s WHERE r.k = s.k",
    f"SELECT r.k FROM r LEFT JOIN s ON {NEAR}",
    f"SELECT r.k FROM r LEFT JOIN s ON {RANGE}",
    f"SELECT r.k FROM r LEFT SEMI JOIN s ON {NEAR}",
    f"SELECT r.k FROM r LEFT ANTI JOIN s ON {NEAR}",
    "SELECT r.k FROM r RIGHT JOIN c ON c.k = r.k",
    "SELECT r.k FROM r JOIN c ON c.k < r.k WHERE EXISTS (SELECT 1 FROM c WHERE c.k = r.k)",
    "SELECT k FROM r EXCEPT SELECT k FROM c",
    "SELECT k FROM r INTERSECT SELECT k FROM c",
    "SELECT r.k FROM r JOIN c ON c.k = r.k UNION ALL SELECT k FROM c",
)

NOT_IN = r"NOT IN over a stream: .*, line 1, column 29(.|\n)*NOT EXISTS \(SELECT 1 FROM s WHERE s.k = r.k\)"

#: Refused by ``sql()``: what is left to Spark, read through a view, or written as only Spark reads it.
REFUSED = {
    "SELECT r.k FROM r LEFT JOIN s ON s.k = r.k": "the LEFT JOIN of streams has no bound in event time, .*column 19",
    "SELECT r.k FROM r LEFT SEMI JOIN s ON s.k = r.k": "the LEFT SEMI JOIN of streams has no bound",
    f"SELECT /*+ NO_TRIJOIN */ r.k FROM r LEFT ANTI JOIN s ON {NEAR}": "an anti join, with a stream on its right, line",
    f"SELECT /*+ NO_TRIJOIN */ r.k FROM r LEFT JOIN s ON {RANGE}": "a LEFT JOIN of streams without an equality .*line",
    "SELECT r.k FROM r LEFT JOIN s ON s.k > r.k": "the LEFT JOIN would never know .* of r has no partner, .*column 19",
    "SELECT r.k FROM c FULL OUTER JOIN r ON c.k = r.k": "a FULL JOIN that keeps all rows of a table.*column 19",
    "FROM r |> LEFT JOIN s ON s.k > r.k": "the LEFT JOIN would never know .* of r has no partner",
    "SELECT k FROM r INTERSECT SELECT k FROM s": "INTERSECT of streams, line 1, column 17",
    "SELECT k FROM r EXCEPT SELECT k FROM s": "EXCEPT with a stream on its right",
    "SELECT r.k FROM r WHERE r.k NOT IN (SELECT k FROM s)": NOT_IN,
    "SELECT k FROM near ORDER BY k": "ORDER BY would have to wait",
    "SELECT count(DISTINCT k) FROM near": "a DISTINCT aggregate",
    "SELECT session_window(ts, '9 seconds') AS w, count(*) FROM near GROUP BY 1": "a session window alone",
}


@pytest.fixture(scope="module")
def streams(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("streams")
    spark.range(4).selectExpr("id AS k", "timestamp_seconds(1000 + 20 * id) AS ts").write.parquet(f"{folder}/in")
    for name in "rs":
        frame = spark.readStream.schema("k BIGINT, ts TIMESTAMP").parquet(f"{folder}/in")
        frame.withWatermark("ts", "1 second").createOrReplaceTempView(name)
    spark.range(3).selectExpr("id AS k").createOrReplaceTempView("c")
    near = f"CREATE OR REPLACE TEMP VIEW near AS SELECT r.k, r.ts FROM r JOIN s ON r.k < s.k AND {RANGE}"
    TriJoinSession.create(spark).sql(near)


@pytest.mark.usefixtures("streams")
@pytest.mark.parametrize("sql", STATEMENTS)
def test_an_answer_is_sparks_own(spark: SparkSession, sql: str, tmp_path: Path) -> None:
    frame = spark.sql(sql)
    answers = {mode: StreamCheck(frame).answer(mode) for mode in MODES}
    for mode, answer in answers.items():
        writer = frame.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
        try:
            writer.option("checkpointLocation", str(tmp_path / mode)).start().awaitTermination()
        except (AnalysisException, StreamingQueryException):
            assert answer is not None, mode
        else:
            assert answer is None, (mode, answer)
    if all(answers.values()) and sql != PRUNED:
        with pytest.raises(UnsupportedQueryError):
            check_all_modes(frame, sql, {})
    else:
        assert check_all_modes(frame, sql, {}).columns == frame.columns


@pytest.mark.usefixtures("streams")
@pytest.mark.parametrize(("sql", "says"), REFUSED.items())
def test_refused_at_once_whoever_joins(spark: SparkSession, sql: str, says: str) -> None:
    with pytest.raises(UnsupportedQueryError, match=says) as refused:
        TriJoinSession.create(spark).sql(sql)
    assert len(str(refused.value).splitlines()) == 2


@pytest.mark.usefixtures("streams")
def test_the_wrong_mode_is_refused_above_a_view_of_ours(spark: SparkSession) -> None:
    frame = TriJoinSession.create(spark).sql("SELECT k, count(*) AS n FROM near GROUP BY k")
    with pytest.raises(UnsupportedQueryError, match=r"groups without a window .*, line 1, column 35") as refused:
        frame.writeStream.format("noop").start()
    assert refused.value.getMessageParameters()["condition"] == "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"
    frame.writeStream.format("noop").outputMode("update").start().stop()


@pytest.mark.usefixtures("streams")
@pytest.mark.parametrize("sql", ["SELECT k FROM r ORDER BY k", "SELECT k, count(*) FROM r GROUP BY k"])
def test_streams_without_a_join_are_sparks_alone(spark: SparkSession, sql: str) -> None:
    """Its own class, its own message, at its own time."""
    frame = TriJoinSession.create(spark).sql(sql)
    assert type(frame) is type(spark.sql(sql))
    with pytest.raises(AnalysisException):
        frame.writeStream.format("noop").start()


@pytest.mark.usefixtures("streams")
def test_what_is_written_is_what_the_user_makes_of_it(spark: SparkSession) -> None:
    """A DataFrame is not the whole query: in complete mode Spark sorts groups. The frame's own refusals stay out."""
    frame = TriJoinSession.create(spark).sql("SELECT r.k FROM r JOIN s ON r.k < s.k")
    counted = frame.groupBy("k").count().orderBy("k")
    writer = counted.writeStream.format("memory").queryName("counted").outputMode("complete")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [tuple(row) for row in spark.table("counted").collect()] == [(0, 3), (1, 2), (2, 1)]
    with pytest.raises(UnsupportedQueryError, match="complete mode gives the groups"):
        frame.writeStream.format("noop").outputMode("complete").start()


@pytest.mark.usefixtures("streams")
def test_sparks_message_about_a_join_shows_no_plan(spark: SparkSession) -> None:
    tj = TriJoinSession.create(spark)
    joins = ("SELECT r.nope FROM r JOIN s ON r.k < s.k", "FROM r |> JOIN s ON r.k < s.nope |> SELECT r.k")
    for sql in (*joins, f"EXECUTE IMMEDIATE '{joins[0]}'", f"INSERT INTO c {joins[0]}"):
        with pytest.raises(AnalysisException) as refused:
            tj.sql(sql)
        assert refused.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        assert len(str(refused.value).splitlines()) == 1
    with pytest.raises(AnalysisException, match="Project"):
        tj.sql("SELECT nope FROM r")


@pytest.mark.usefixtures("streams")
def test_where_sparks_check_is_switched_off_it_is_not_asked(spark: SparkSession) -> None:
    switch = "spark.sql.streaming.unsupportedOperationCheck"
    spark.conf.set(switch, "false")
    try:
        assert TriJoinSession.create(spark).sql("SELECT r.k FROM r JOIN s ON r.k < s.k ORDER BY r.k").isStreaming
    finally:
        spark.conf.unset(switch)


@pytest.mark.rare
@pytest.mark.usefixtures("streams")
def test_unbounded_is_said_once_when_a_query_starts(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """However often it is made and started; of a bounded one nothing is said."""
    tj = TriJoinSession.create(spark)
    for condition in ("r.k + 1 < s.k", "r.k + 1 < s.k", f"r.k + 2 < s.k AND {RANGE}"):
        frame = tj.sql(f"SELECT r.k FROM r JOIN s ON {condition}")
        for _ in range(2):
            frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
    (said,) = (message for message in caplog.messages if "UNBOUNDED" in message)
    assert said.startswith("UNBOUNDED: rows of r, s are kept for ever; ")
