"""The session: what goes to us, what goes to Spark, and what a user is told."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession, functions
from trijoin_sql.operators.compile.compiling import Compiling
from trijoin_sql.operators.compile.node import Compiled, compile_join
from trijoin_sql.operators.spec import JoinSpec
from trijoin_sql.rewriter.sql.statement import Statement, parse_statement

import trijoin_sql
from trijoin_sql import InvalidHintError, SqlSyntaxError, TriJoinSession, UnavailableError, UnsupportedQueryError
from trijoin_sql.run_statement import StatementRunner
from trijoin_sql.spark.session_catalog import SparkCatalog
from trijoin_sql.spark.zones import largest_shift

pytestmark = pytest.mark.spark

CHAIN = "SELECT r.id, s.id, t.id AS third FROM r JOIN s ON ABS(r.a - s.a) < 2 JOIN t ON s.b = t.b AND s.a < t.a"


@pytest.fixture(scope="module")
def tj(spark: SparkSession) -> TriJoinSession:
    for number, name in enumerate("rst"):
        rows = [(i, i * (number + 3) % 7, i * (number + 2) % 5) for i in range(20)]
        spark.createDataFrame(rows, "id bigint, a int, b int").createOrReplaceTempView(name)
        stream = (
            spark.readStream.format("rate").load().selectExpr("value AS id", "CAST(value AS INT) AS a", "timestamp")
        )
        stream.createOrReplaceTempView(f"stream_{name}")
    return TriJoinSession.create(spark)


def bag(frame: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in frame.collect())


def uses_us(frame: DataFrame) -> bool:
    return "MapInArrow dispatch_" in frame._jdf.queryExecution().toString()


def test_names_and_rows_are_those_of_spark(tj: TriJoinSession, spark: SparkSession) -> None:
    """Duplicate names, aliases and rows: nobody can tell by the result who ran the query."""
    ours, theirs = tj.sql(CHAIN), spark.sql(CHAIN)
    assert uses_us(ours)
    assert ours.columns == theirs.columns == ["id", "id", "third"]
    assert bag(ours) == bag(theirs)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM r WHERE a > 2",
        "SHOW TABLES",
        "SELECT /*+ NO_TRIJOIN */ r.id FROM r JOIN s ON r.a = s.a",
        "SELECT r.id FROM r LEFT JOIN s ON r.a = s.a",
    ],
)
def test_what_is_not_ours_goes_to_spark(tj: TriJoinSession, spark: SparkSession, sql: str) -> None:
    frame = tj.sql(sql)
    assert not uses_us(frame)
    assert bag(frame) == bag(spark.sql(sql.replace("/*+ NO_TRIJOIN */", "")))


def test_explain_shows_the_grid_that_runs(tj: TriJoinSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of equal columns that Spark compares in no common type has no dimension in either."""
    specs: list[JoinSpec] = []

    def noted(*args: Any, **options: Any) -> Compiled:
        specs.append((compiled := compile_join(*args, **options)).spec)
        return compiled

    monkeypatch.setattr("trijoin_sql.compile_statement.compile_join", noted)
    unlike = "CAST(r.b AS DECIMAL(38,0)) = CAST(s.b AS DECIMAL(30,10))"
    for condition in ("r.b = s.b", "r.b = CAST(s.b AS STRING)", unlike):
        sql = f"SELECT /*+ SCHEME('matrix'), UNITS(8) */ r.id FROM r JOIN s ON {condition} JOIN t ON s.id < t.a"
        tj.sql(sql)
        grid = tj.explain(sql).to_dict()["groups"][0]["decision"]["grid"]
        assert tuple(dimension["shares"] for dimension in grid) == specs[-1].options.grid
    assert [spec.options.grid for spec in specs] == [(4, 2), (4, 2), (2, 2, 2)]
    tj.sql("SELECT /*+ SCHEME('iterative') */ r.id FROM r JOIN s ON r.a < s.a JOIN t ON s.id < t.a")
    assert specs[-1].options.grid == (1, 1, 1)


def test_arguments_pass_through_by_name_and_by_position(tj: TriJoinSession, spark: SparkSession) -> None:
    named = "SELECT r.id, :tag AS tag FROM r JOIN s ON r.a + :shift = s.a JOIN t ON s.b = t.b WHERE t.a < :most"
    args = {"tag": "x", "shift": 1, "most": 4}
    assert bag(tj.sql(named, args=args)) == bag(spark.sql(named, args=args))
    placed = "SELECT r.id FROM r JOIN s ON r.a + ? = s.a JOIN t ON s.b = t.b WHERE t.a < ?"
    assert bag(tj.sql(placed, args=[1, 4])) == bag(spark.sql(placed, args=[1, 4]))


def test_frames_in_the_text_are_joined(tj: TriJoinSession, spark: SparkSession) -> None:
    """As ``spark.sql`` takes them, streams among them; nothing of it stays in the session."""
    one, other = spark.table("r").where("id > 3"), spark.table("s")
    sql = "SELECT {r}.id, x.id AS other FROM {r} JOIN {s} AS x ON ABS({r}.a - x.a) < 2 AND x.b < {least} AND x.id > :id"
    values = {"r": one, "s": other, "least": 3}
    before = {table.name for table in spark.catalog.listTables()}
    ours, theirs = tj.sql(sql, {"id": 1}, **values), spark.sql(sql, {"id": 1}, **values)
    assert uses_us(ours)
    assert ours.columns == theirs.columns == ["id", "other"]
    assert bag(ours) == bag(theirs)
    text = "SELECT a.id, b.id AS bid, c.id AS cid FROM {x} a JOIN {X} b ON a.a < b.a JOIN {é} c ON b.a < c.a"
    values = {"x": one, "X": other, "é": spark.table("t")}  # to Spark, two of these names are the same
    assert bag(tj.sql(text, **values)) == bag(spark.sql(text, **values))
    streams = {name: spark.table(f"stream_{name}") for name in "rs"}
    assert tj.sql("SELECT r.id FROM {r} AS r JOIN {s} AS s ON r.a < s.a", **streams).isStreaming
    assert not uses_us(tj.sql("-- one\n SELECT id FROM {r}", r=one))
    assert {table.name for table in spark.catalog.listTables()} == before
    with pytest.raises(SqlSyntaxError, match=r"\{s\} has no value: .* there is \{r\} \(line 1, column 32\)"):
        tj.sql("SELECT r.id FROM {r} AS r JOIN {s} AS s ON r.a < s.a", r=one)


def test_arguments_bound_the_join(tj: TriJoinSession, spark: SparkSession) -> None:
    """As literals would; as a filter above the join, every pair would be compared."""
    sql = "SELECT r.id, s.id, ? AS tag FROM r JOIN s ON ABS(r.a - s.a + ?) <= ? ORDER BY 1"
    (predicate,) = tj.explain(sql, ["x", -1, 1]).to_dict()["groups"][0]["graph"]["edges"][0]["predicates"]
    assert predicate["kind"] == "band"
    assert bag(tj.sql(sql, args=["x", -1, 1])) == bag(spark.sql(sql, args=["x", -1, 1]))


def test_a_view_over_a_join_can_be_queried_further(tj: TriJoinSession, spark: SparkSession) -> None:
    body = CHAIN.replace("r.id, s.id", "r.id AS one, s.id AS two")
    tj.sql(f"CREATE OR REPLACE TEMPORARY VIEW joined AS {body}")
    theirs = spark.sql(f"SELECT two, COUNT(*) FROM ({body}) GROUP BY two")
    assert bag(tj.sql("SELECT two, COUNT(*) FROM joined GROUP BY two")) == bag(theirs)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id AS one FROM r",
        "SELECT r.id AS one FROM r LEFT JOIN s ON r.a = s.a",
        "SELECT /*+ NO_TRIJOIN */ r.id AS one FROM r JOIN s ON r.a = s.a",
    ],
)
def test_a_view_that_is_not_ours_is_made_too(tj: TriJoinSession, spark: SparkSession, query: str) -> None:
    tj.sql(f"CREATE OR REPLACE TEMPORARY VIEW not_ours AS {query}")
    found = spark.table("not_ours")
    assert not uses_us(found)
    assert bag(found) == bag(spark.sql(query.replace("/*+ NO_TRIJOIN */", "")))


def test_a_view_may_be_global_and_name_its_columns(tj: TriJoinSession, spark: SparkSession) -> None:
    """Left to Spark, it would keep the join as it stands, and streams over it would be refused when they start."""
    tj.sql(f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW everywhere (p, `q q`, t) AS {CHAIN}")
    found = spark.table("global_temp.everywhere")
    assert found.columns == ["p", "q q", "t"]
    assert uses_us(found)
    with pytest.raises(UnsupportedQueryError, match="names 1 columns, and its query has 3"):
        tj.sql(f"CREATE TEMPORARY VIEW short (p) AS {CHAIN}")


def test_a_wrong_argument_is_said(tj: TriJoinSession, spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    wrong: Any = tj
    for call, says in [
        (lambda: wrong.sql(5), r"sql\(\) takes the text of a statement, not int"),
        (lambda: wrong.sql(CHAIN, args=5), "args"),
        (lambda: wrong.explain(5), r"explain\(\) takes the text of a query"),
        (lambda: trijoin_sql.enable(wrong), "a SparkSession is needed, not TriJoinSession"),
        (lambda: trijoin_sql.disable(None), "a SparkSession is needed, not NoneType"),  # type: ignore[arg-type]
        (lambda: trijoin_sql.enable(SparkSession), "not the class SparkSession"),  # type: ignore[arg-type]
        (lambda: trijoin_sql.configure(None), r"SparkSession.builder, not NoneType"),  # type: ignore[arg-type]
        (lambda: trijoin_sql.configure(spark), "a session, whose settings are made"),  # type: ignore[arg-type]
        (
            lambda: wrong.resuming(["c"]).__enter__(),
            r"resuming\(\) takes a checkpoint's location as a str, not \['c'\]",
        ),
        (lambda: wrong.start(spark.readStream.format("rate").load().writeStream, None), "as a str, not None"),
        (lambda: wrong.join(spark.range(1), spark.range(2), "r.id < s.id"), "DataFrames or more by alias"),
        (lambda: wrong.join({1: spark.range(1), 2: spark.range(2)}), "a text, and 1 is none"),
        (lambda: trijoin_sql.recover_file_sink(wrong, "c", "o"), "a SparkSession is needed"),
        (lambda: trijoin_sql.recover_file_sink(spark, "c", None), "as a str, not None"),  # type: ignore[arg-type]
        (lambda: trijoin_sql.recover_foreach_batch(spark, "c", None), "takes a function"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(TypeError, match=says):
            call()
    assert "TRIJOIN_INTERNAL" not in caplog.text


def test_a_checkpoint_out_of_reach_is_said(tj: TriJoinSession, spark: SparkSession) -> None:
    """Not that it is damaged, and not in Java's words."""
    for reach in (
        lambda: tj.resuming("nofs://bucket/c").__enter__(),
        lambda: trijoin_sql.recover_file_sink(spark, "nofs://bucket/c", "o"),
        lambda: (
            tj.sql("SELECT r.a FROM stream_r r JOIN stream_s s ON r.a < s.a WITHIN 1 DAY")
            .writeStream.format("noop")
            .option("checkpointLocation", "nofs://bucket/c")
            .start()
        ),
    ):
        with pytest.raises(UnavailableError, match="nofs") as caught:
            reach()
        assert "\tat " not in str(caught.value)


def test_late_rows_need_a_watermark(tj: TriJoinSession, spark: SparkSession) -> None:
    spark.readStream.format("rate").load().createOrReplaceTempView("unmarked")
    with pytest.raises(UnavailableError, match="has a watermark, so no row is ever late"):
        tj.sql("SELECT a.value FROM unmarked a JOIN unmarked b ON a.value < b.value", late_rows=True)


def test_frames_of_another_session_are_said(tj: TriJoinSession, spark: SparkSession) -> None:
    other = TriJoinSession.create(spark.newSession())
    frames = {name: spark.table(f"stream_{name}") for name in "rs"}
    with pytest.raises(UnavailableError, match="a DataFrame of another session"):
        other.join(frames, on="r.a < s.a")


@pytest.mark.parametrize("hint", ["UNITS(-2)", "UNITS(2 + 2)", "ROUTING('range', -4)", "SCHEME(tree(r, q))"])
def test_a_hint_with_another_value_is_refused(tj: TriJoinSession, hint: str) -> None:
    """Its sign, its sum and its tree were left out."""
    with pytest.raises(InvalidHintError):
        tj.explain(f"SELECT /*+ {hint} */ r.id FROM r JOIN s ON r.a < s.a")


def test_a_stopped_session_is_said() -> None:
    stopped: Any = object.__new__(TriJoinSession)
    stopped.spark = SimpleNamespace(_sc=SimpleNamespace(_jsc=None))
    stopped.statements = StatementRunner(stopped.spark)
    for call in (stopped.sql, stopped.explain):
        with pytest.raises(UnavailableError, match="it has been stopped"):
            call(CHAIN)


def test_a_query_that_cannot_be_ours_asks_spark_nothing_more(
    tj: TriJoinSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such queries cost a few milliseconds at most: one parse, no look at a table."""

    looked: list[object] = []
    look_up = SparkCatalog.table

    def look(catalog: SparkCatalog, name: tuple[str, ...]) -> object:
        looked.append(name)
        return look_up(catalog, name)

    monkeypatch.setattr(SparkCatalog, "table", look)
    for sql in ("SELECT id FROM r WHERE a IN (1, 2)", "SELECT r.id FROM r LEFT JOIN s ON r.a = s.a"):
        assert not uses_us(tj.sql(sql))
    assert looked == []
    assert uses_us(tj.sql("SELECT r.id FROM r, s WHERE r.a = s.a"))
    assert set(looked) == {("r",), ("s",)}


def test_explain_statement_gives_one_string_column(tj: TriJoinSession) -> None:
    for form in ("", "FORMATTED", "JSON", "MERMAID", "HTML"):
        frame = tj.sql(f"EXPLAIN {form} {CHAIN}")
        assert frame.columns == ["plan"]
        assert "matrix" in frame.collect()[0][0] or form == "MERMAID"
    assert tj.explain(CHAIN).to_dict()["groups"][0]["graph"]["hub"] == "s"  # type: ignore[index,call-overload]


def test_syntax_error_tells_line_column_and_caret(tj: TriJoinSession) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        tj.sql("SELECT r.id\nFROM r JOIN s ON ABS(r.a - s.a < 2\nJOIN t ON s.b = t.b")
    assert caught.value.line in (2, 3)
    assert "^" in str(caught.value)


def test_spark_reports_what_only_spark_can_know(tj: TriJoinSession) -> None:
    with pytest.raises(AnalysisException, match="no_such_column"):
        tj.sql("SELECT no_such_column FROM r JOIN s ON r.a < s.a JOIN t ON s.a < t.a")
    with pytest.raises(AnalysisException, match="no_such_table"):
        tj.sql("SELECT * FROM no_such_table JOIN r ON no_such_table.a < r.a")


def test_spark_is_asked_about_names_beside_our_clause(tj: TriJoinSession) -> None:
    """Without that, WITHIN would miss the event time of a table that does not exist."""
    for sql, name in [
        ("SELECT r.a FROM stream_r r JOIN no_such_table n ON r.a < n.a WITHIN 5 MINUTES", "no_such_table"),
        ("SELECT r.nope FROM stream_r r JOIN stream_s s ON r.a < s.a WITHIN 5 MINUTES", "nope"),
        ("CREATE TEMPORARY VIEW v AS SELECT r.nope FROM stream_r r JOIN stream_s s ON r.a < s.a WITHIN 1 DAY", "nope"),
    ]:
        for look in (tj.sql, tj.explain):
            with pytest.raises(AnalysisException, match=name) as caught:
                look(sql)
            assert "Project" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("near.sql", "near.sql is the name of a file"),
        ("CREATE STREAM r USING rate", "belongs to a file that trijoin-sql runs"),
        ("INSERT INTO o SELECT r.a FROM stream_r r JOIN stream_s s ON r.a < s.a WITHIN 1 DAY", "not below INSERT"),
        ("SELCT r.a FROM r", "SELCT"),
    ],
)
def test_what_no_session_runs_is_said_by_sql_and_explain(tj: TriJoinSession, text: str, says: str) -> None:
    for look in (tj.sql, tj.explain):
        with pytest.raises((SqlSyntaxError, ParseException), match=says):
            look(text)


def test_names_of_ours_are_in_no_message_of_sparks(tj: TriJoinSession) -> None:
    with pytest.raises(AnalysisException, match='"\\(a < x\\)"') as caught:
        tj.sql("SELECT r.a FROM r JOIN (SELECT array(1) AS x) s ON r.a < s.x")
    assert "__" not in str(caught.value)


def test_no_false_alarm_when_a_query_starts(tj: TriJoinSession, spark: SparkSession) -> None:
    """For every query of ours that starts, Spark would log an error of a hundred lines: a socket it never opened."""
    jvm: Any = spark
    name = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkPythonPreInitRunner"
    spark.sparkContext.setLogLevel("ERROR")
    try:
        assert jvm._jvm.org.apache.logging.log4j.LogManager.getLogger(name).getLevel().toString() == "OFF"
    finally:
        spark.sparkContext.setLogLevel("OFF")


def test_theta_outer_join_of_streams_is_refused_with_a_way_out(tj: TriJoinSession) -> None:
    """Spark would accept it here and fail when the query starts."""
    sql = "SELECT * FROM stream_r r LEFT JOIN stream_s s ON r.a < s.a"
    with pytest.raises(UnsupportedQueryError, match="Hint:"):
        tj.sql(sql)


def test_a_window_that_append_mode_cannot_have_is_said_with_a_way_out(tj: TriJoinSession, spark: SparkSession) -> None:
    """Spark's own error in append mode says nothing of what to write instead; in update mode the query runs."""
    for name in ("r", "s"):
        frame = spark.table(f"stream_{name}").withWatermark("timestamp", "1 second")
        frame.createOrReplaceTempView(f"timed_{name}")
    near = "FROM timed_r r JOIN timed_s s ON r.a < s.a AND r.timestamp <= s.timestamp"
    query = f"SELECT window({{}}, '1 minute'), count(*) {near} GROUP BY 1"
    found = tj.sql(query.format("r.timestamp"))
    assert uses_us(found)
    with pytest.raises(UnsupportedQueryError, match=r"a window over r\.timestamp in append mode") as refused:
        found.writeStream.format("noop").start()
    assert "add s.timestamp <= r.timestamp + INTERVAL 10 MINUTES" in str(refused.value)
    assert "group by window(greatest(r.timestamp, s.timestamp), ...)" in str(refused.value)
    found.writeStream.format("noop").outputMode("update").start().stop()
    for time in ("greatest(r.timestamp, s.timestamp)", "s.timestamp"):
        tj.sql(query.format(time)).writeStream.format("noop").start().stop()


def test_enable_extends_this_session_alone(tj: TriJoinSession, spark: SparkSession) -> None:
    other = spark.newSession()
    trijoin_sql.enable(spark)
    try:
        assert uses_us(spark.sql(CHAIN))
        assert "sql" not in vars(other)
        with pytest.raises(SqlSyntaxError):
            spark.sql("SELECT r.id FROM r JOIN s ON (r.a < s.a")
    finally:
        trijoin_sql.disable(spark)
    assert not uses_us(spark.sql(CHAIN))


def test_an_extended_session_rewrites_once(
    tj: TriJoinSession, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compiled consists of SQL, which must not come back to us by way of ``spark.sql``."""
    seen: list[str] = []
    original = TriJoinSession.sql

    def sql_(self: TriJoinSession, text: str, *rest: Any, **more: Any) -> DataFrame:
        seen.append(text)
        return original(self, text, *rest, **more)

    monkeypatch.setattr(TriJoinSession, "sql", sql_)
    trijoin_sql.enable(spark)
    try:
        sql = CHAIN.replace("SELECT", "SELECT /*+ SCHEME('operator_tree((r, s), t)') */")
        assert uses_us(spark.sql(sql))
    finally:
        trijoin_sql.disable(spark)
    assert seen == [sql]


def test_zone_shift_is_what_clocks_change() -> None:
    assert largest_shift("UTC") == largest_shift("+05:30") == 0
    assert largest_shift("America/New_York") == 3_600_000_000
    assert largest_shift("Nowhere/Land") == 86_400_000_000


def test_what_we_fail_at_and_spark_does_not_is_sparks_on_tables(
    tj: TriJoinSession, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    """Only Spark knows what it calls a column without a name; streams cannot do without us."""
    inner = "SELECT count(*), r.id AS k FROM r JOIN s ON r.id = s.id GROUP BY r.id"
    sql = f"SELECT q.k FROM ({inner}) q JOIN t ON t.id = q.k WHERE q.`count(1)` > 0"
    assert bag(tj.sql(sql)) == bag(spark.sql(sql))
    assert "left to Spark" in caplog.text


def test_columns_of_another_type_are_not_given_out_for_sparks(
    tj: TriJoinSession, spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that means something else to Spark than to us often has another type."""
    real = Compiling.run_sql

    def misread(compiling: Compiling, text: str) -> DataFrame:
        frame = real(compiling, text)
        return frame.withColumn("third", functions.lit("x")) if compiling.below else frame

    monkeypatch.setattr(Compiling, "run_sql", misread)
    assert bag(tj.sql(CHAIN)) == bag(spark.sql(CHAIN))
    assert "bigint, bigint, string, to Spark bigint, bigint, bigint" in caplog.text


@pytest.mark.parametrize(
    "sql", [CHAIN, "SELECT r.id FROM r JOIN s ON r.nothing < s.a", "SELECT id FROM r LEFT JOIN s USING (id)"]
)
def test_a_statement_is_parsed_once(tj: TriJoinSession, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    parsed: list[str] = []

    def counted(text: str) -> Statement:
        parsed.append(text)
        return parse_statement(text)

    for module in ("glance", "pipeline"):
        monkeypatch.setattr(f"trijoin_sql.rewriter.{module}.parse_statement", counted)
    with suppress(AnalysisException):
        tj.sql(sql)
    assert parsed == [sql]


def test_text_that_spark_reads_by_another_setting_is_sparks(tj: TriJoinSession, spark: SparkSession) -> None:
    """Names in double quotes would have been strings to us; streams are joined in Spark's plan."""
    sql = 'SELECT "r".id FROM r JOIN s ON "r".a < s.a'
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        assert bag(tj.sql(sql)) == bag(spark.sql("SELECT r.id FROM r JOIN s ON r.a < s.a"))
        assert not uses_us(tj.sql(sql))
        assert uses_us(tj.sql(sql.replace("FROM r", "FROM stream_r r").replace("JOIN s", "JOIN stream_s s")))
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
