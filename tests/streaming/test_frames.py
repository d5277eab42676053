"""Joins written with DataFrames, on streams: the rows, columns and names of the same joins in Spark batch."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import trijoin_sql
from trijoin_sql.errors import InvalidHintError, UnsupportedQueryError

from .differential import Tables, bag, run_stream

SCHEMA = "id int, x int, `my col` int, `ti``ck` int, st struct<a: int, `b c`: string>, ts timestamp"
ARROW = pa.schema(
    [
        *((name, pa.int32()) for name in ("id", "x", "my col", "ti`ck")),
        ("st", pa.struct([("a", pa.int32()), ("b c", pa.string())])),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
START = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Iterator[Tables]:
    made = Tables(spark, tmp_path)
    for shift, name in enumerate("rst"):
        rows = [row(n, 3 * shift, name) for n in range(8)]
        made.create(name, [rows[:3], rows[3:]], SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", "1 minute"))
    spark.createDataFrame([(1, 3), (2, 9)], "id int, x int").createOrReplaceTempView("fixed")
    yield made
    for name in ("r", "s", "t", "fixed"):
        spark.catalog.dropTempView(name)


def row(number: int, shift: int, name: str) -> dict[str, Any]:
    return {
        "id": number,
        "x": None if number == 5 else (7 * number + shift) % 5,
        "my col": number % 3,
        "ti`ck": shift + number % 2,
        "st": {"a": number, "b c": f"{name}{number}"},
        "ts": START + datetime.timedelta(minutes=number + shift),
    }


def near(aliases: str, minutes: int) -> Column:
    """That the event times of all pairs are within some minutes, as Spark would be told."""
    times = [F.unix_micros(F.col(f"{one}.ts")) for one in aliases]
    pairs = [F.abs(one - other) <= minutes * 60_000_000 for n, one in enumerate(times) for other in times[n + 1 :]]
    return reduce(lambda one, other: one & other, pairs)


R_S_T = {"r": "r", "s": "s", "t": "t"}
R_S = {"r": "r", "s": "s"}


def joins() -> tuple[tuple[dict[str, str], dict[str, Any], Any], ...]:
    """Aliases and tables, the arguments of `join`, and what they say beside that, in Spark's words."""
    col, theta = F.col, "r.x < s.x"
    strange, odd = {"a b": "r", "x.y": "s", "from": "t"}, {"ti`ck": "r", "é": "s"}
    soon = col("r.ts") < F.lit(START).cast("timestamp") + F.expr("INTERVAL 5 MINUTES")
    return (
        (R_S, {"on": theta}, None),
        (R_S_T, {"on": f"{theta} AND t.x BETWEEN r.x AND s.x + 1", "select": ["r.id", "s.id AS sid", "t.x"]}, None),
        (R_S, {"on": [F.abs(col("r.x") - col("s.x")) < 2, "r.id <> s.id"], "select": col("r.st.b c")}, None),
        (
            R_S_T,
            {"on": [theta, col("t.st.a") >= col("s.st.a")], "scheme": "matrix", "units": 3, "select": "t.ts"},
            None,
        ),
        (R_S, {"on": "r.x = s.x", "routing": ("contrand", 1), "units": 2}, None),
        ({"a": "r", "b": "r"}, {"on": "a.x < b.x"}, None),  # with itself
        (strange, {"on": ["`a b`.x < `x.y`.x", "`from`.`my col` > `a b`.`my col`"]}, None),
        (odd, {"on": "`ti``ck`.`ti``ck` < `é`.`ti``ck`", "select": ["`ti``ck`.`ti``ck`", "`é`.*"]}, None),
        (
            R_S,
            {"on": "r.st.`b c` < s.st.`b c`", "select": ["r.st", "s.st.*", "r.id + s.id", "upper(r.st.`b c`) u"]},
            None,
        ),
        (R_S, {"within": "2 minutes"}, near("rs", 2)),
        (R_S_T, {"on": theta, "within": "3 minutes 30 seconds", "select": ["r.id", "s.id", "t.id"]}, near("rst", 3)),
        (R_S_T, {"on": [theta, "r.id IN (1, 2, 3) OR s.id > 4"], "within": "4 minutes"}, near("rst", 4)),
        (R_S, {"on": [col("r.x") + F.lit(1.5) > col("s.x"), soon]}, None),
        ({"r": "r", "s": "fixed"}, {"on": theta}, None),  # a stream and a table, by Spark
    )


def by_hand(tables: Tables, aliases: dict[str, str], asked: dict[str, Any], said: Any) -> DataFrame:
    """The join in Spark batch."""
    tables.use(streaming=False)
    frames = [tables.spark.table(name).alias(alias) for alias, name in aliases.items()]
    frame = reduce(DataFrame.crossJoin, frames)
    conditions = asked["on"] if isinstance(asked.get("on"), list) else [asked.get("on", "true")]
    for one in [*conditions, *([] if said is None else [said])]:
        frame = frame.where(one)
    select = asked.get("select", [])
    select = select if isinstance(select, list) else [select]
    return frame.select(*[F.expr(one) if isinstance(one, str) else one for one in select]) if select else frame


@pytest.mark.rare
def test_a_join_of_streams_has_the_rows_of_batch(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    tj = trijoin_sql.TriJoinSession.create(spark)
    for number, (aliases, asked, said) in enumerate(joins()):
        reference = by_hand(tables, aliases, asked, said)
        wanted = bag(reference.collect())
        assert wanted, asked
        given = {alias: spark.table(name) for alias, name in aliases.items()}
        found = tj.join(given, **asked)
        assert (found.columns, bag(found.collect())) == (reference.columns, wanted), asked  # tables, not streams
        tables.use(streaming=True)
        frame = tj.join({alias: spark.table(name) for alias, name in aliases.items()}, **asked)
        assert frame.columns == reference.columns
        assert [one.dataType for one in frame.schema] == [one.dataType for one in reference.schema]
        assert run_stream(frame, tmp_path / f"checkpoint{number}") == wanted, asked


def streams(tables: Tables, names: str = "rs") -> list[DataFrame]:
    tables.use(streaming=True)
    return [tables.spark.table(name) for name in names]


@pytest.mark.matrix
@pytest.mark.parametrize("how", ["left", "semi", "inner"])
def test_differences_of_fractions(spark: SparkSession, tables: Tables, tmp_path: Path, how: str) -> None:
    """Spark's plan casts the constants beside them, and units compare the differences all the same."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    on = "ABS(r.d - s.d) < 1.5 AND s.f - r.f <= 2.25 AND ABS(r.m - s.m) <= 2"

    def frames() -> list[DataFrame]:
        casts = ("id", "ts", "x / 2D AS d", "CAST(x AS FLOAT) / 2F AS f", "CAST(x AS DECIMAL(10, 2)) AS m")
        return [spark.table(name).selectExpr(*casts) for name in "rs"]

    select = ["r.id"] if how == "semi" else ["r.id", "s.id AS sid"]
    tables.use(streaming=False)
    r, s = (frame.alias(name) for name, frame in zip("rs", frames(), strict=True))
    soon = near("rs", 3)
    wanted = bag(r.join(s, F.expr(on) & soon, how).selectExpr(*select).where("id < 10000").collect())
    assert wanted
    for name in "rs":
        tables.add(name, [row(far, 0, name) for far in (10_000, 20_000)], ARROW)
    tables.use(streaming=True)
    r, s = frames()
    found = tj.join({"r": r, "s": s}, on, how=how, within="3 minutes", select=select)
    (group,) = tj.explain(found).to_dict()["groups"]
    kinds = [one["kind"] for edge in group["graph"]["edges"] for one in edge["predicates"]]
    assert kinds.count("band") >= 3
    assert not group["graph"].get("residuals")
    assert run_stream(found.where("id < 10000"), tmp_path / "checkpoint") == wanted


def test_columns_keep_their_frames(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """As after ``DataFrame.join``: by alias, and by the DataFrame that they are a column of."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    r, s = streams(tables)
    both = tj.join({"r": r, "s": s}, r["x"] < s["x"])
    found = both.where(F.col("s.id") > 1).select("r.id", F.col("s.id").alias("other"), r["x"], s["x"].alias("sx"))
    tables.use(streaming=False)
    r, s = spark.table("r").alias("r"), spark.table("s").alias("s")
    wanted = r.join(s, F.expr("r.x < s.x AND s.id > 1")).selectExpr("r.id", "s.id AS other", "r.x", "s.x AS sx")
    assert run_stream(found, tmp_path / "checkpoint") == bag(wanted.collect())


@pytest.mark.rare
def test_a_join_goes_on_from_its_checkpoint(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    tj, checkpoint = trijoin_sql.TriJoinSession.create(spark), tmp_path / "checkpoint"

    def once(**asked: Any) -> DataFrame:
        r, s = streams(tables)
        return tj.join({"r": r, "s": s}, F.col("r.x") < F.col("s.x"), within="1 hour", **asked)

    first = run_stream(once(), checkpoint)
    tables.add("r", [row(8, 0, "new")], ARROW)
    second = run_stream(once(units=3), checkpoint)
    tables.use(streaming=False)
    wanted = spark.table("r").alias("r").join(spark.table("s").alias("s"), F.expr("r.x < s.x"))
    assert first + second == bag(wanted.collect())
    assert second


def test_event_time_passes_through(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """Windows above a join close, though rows come later than the watermarks of the inputs say."""
    tj = trijoin_sql.TriJoinSession.create(spark)

    def counted(frame: DataFrame) -> DataFrame:
        return frame.groupBy(F.window("r.ts", "2 minutes").alias("w")).count().select("w.start", "count")

    for name in "rs":
        tables.add(name, [row(10_000, 0, name)], ARROW)
    r, s = streams(tables)
    for number, frame in enumerate(
        (
            tj.join({"r": r, "s": s}, "r.x <> s.x", within="3 minutes"),
            tj.rewrite(counted(r.alias("r").join(s.alias("s"), F.expr("r.x <> s.x") & bounded()))),
        )
    ):
        found = run_stream(frame if number else counted(frame), tmp_path / f"checkpoint{number}")
        tables.use(streaming=False)
        old = {name: spark.table(name).where("id < 10000").alias(name) for name in "rs"}
        wanted = bag(counted(old["r"].join(old["s"], F.expr("r.x <> s.x") & near("rs", 3))).collect())
        assert found == wanted
        assert wanted


def bounded() -> Column:
    return F.expr("s.ts BETWEEN r.ts - INTERVAL 3 MINUTES AND r.ts + INTERVAL 3 MINUTES")


@pytest.mark.rare
def test_times_before_an_event_bound_a_join(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """An outer join above another one in a view of Spark's, and an anti join of frames without names."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    later = "BETWEEN r.ts - INTERVAL 3 MINUTES AND r.ts + INTERVAL 5 MINUTES"
    view = (
        "CREATE OR REPLACE TEMP VIEW stacked AS SELECT r.id, s.id AS sid, t.id AS tid FROM r "
        f"LEFT JOIN s ON r.x > s.x AND s.ts {later} LEFT JOIN t ON t.x < r.x AND t.ts {later}"
    )

    def lonely() -> DataFrame:
        r, s = (spark.table(name).select("id", "x", "ts") for name in "rs")
        early = s["ts"] >= r["ts"] - F.expr("INTERVAL 3 MINUTES")
        return r.join(s, (r["x"] < s["x"]) & early & (s["ts"] <= r["ts"]), "left_anti").select(r["id"])

    for name in "rst":
        for far in (10_000, 20_000):
            tables.add(name, [{**row(far, 0, name), "x": -far if name == "r" else far}], ARROW)
    tables.use(streaming=False)
    spark.sql(view)
    wanted = [bag(spark.table("stacked").where("id < 10000").collect()), bag(lonely().where("id < 10000").collect())]
    tables.use(streaming=True)
    spark.sql(view)
    try:
        found = [
            run_stream(tj.sql("SELECT * FROM stacked WHERE id < 10000"), tmp_path / "stacked"),
            run_stream(tj.rewrite(lonely().where("id < 10000")), tmp_path / "lonely"),
        ]
    finally:
        spark.catalog.dropTempView("stacked")
    assert found == wanted
    assert all(wanted)


def test_python_functions_need_no_name_in_sql(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """Over both sides Spark calls them for pairs of rows; over one side for its rows."""

    @F.udf("boolean")
    def near(one, other):  # type: ignore[no-untyped-def]  # PySpark would read annotations
        return one is not None and other is not None and abs(one - other) < 3

    def joined() -> DataFrame:
        r, s = (spark.table(name) for name in "rs")
        return r.join(s, (r["x"] <= s["x"]) & near(r["id"], s["id"]) & near(s["x"], s["id"])).select(r["id"], s["x"])

    tables.use(streaming=False)
    wanted = bag(joined().collect())
    tables.use(streaming=True)
    assert run_stream(trijoin_sql.TriJoinSession.create(spark).rewrite(joined()), tmp_path / "checkpoint") == wanted
    assert wanted


@pytest.mark.rare
def test_what_dataframe_join_makes_runs(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """By `rewrite`, and in a session that `enable` extended by itself."""
    tj = trijoin_sql.TriJoinSession.create(spark)

    def written(r: DataFrame, s: DataFrame, t: DataFrame) -> DataFrame:
        both = r.join(s, r["x"] < s["x"]).withColumn("sum", r["x"] + s["x"])
        return both.join(t, (t["x"] > r["x"]) & (t["my col"] <= s["my col"])).select(r["id"], "sum", t["st.b c"])

    tables.use(streaming=False)
    wanted = bag(written(*[spark.table(name) for name in "rst"]).collect())
    assert wanted
    assert run_stream(tj.rewrite(written(*streams(tables, "rst"))), tmp_path / "rewritten") == wanted
    trijoin_sql.enable(spark)
    try:
        assert run_stream(written(*streams(tables, "rst")), tmp_path / "enabled") == wanted
        r, s = streams(tables)
        by_spark = r.join(s, "id")
        assert tj.rewrite(by_spark) is by_spark
        with pytest.raises(UnsupportedQueryError, match="the LEFT JOIN would never know that a row of r has no"):
            _ = r.alias("r").join(s.alias("s"), F.expr("r.x < s.x"), "left").writeStream
    finally:
        trijoin_sql.disable(spark)
    with pytest.raises(PySparkException, match="without equality"):
        run_stream(written(*streams(tables, "rst")), tmp_path / "disabled")


def test_a_dataframe_is_explained(spark: SparkSession, tables: Tables) -> None:
    tj = trijoin_sql.TriJoinSession.create(spark)
    r, s = streams(tables)
    found = tj.explain(tj.join({"r": r, "s": s}, "r.x < s.x", within="1 minute", scheme="matrix").select("r.id"))
    (group,) = found.to_dict()["groups"]
    assert (group["decision"]["scheme"], group["graph"]["relations"]) == ("matrix", ["r", "s"])
    with pytest.raises(trijoin_sql.UnavailableError, match="explain what join"):
        tj.explain(r)


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"on": "r.x < s.x", "how": "most"}, UnsupportedQueryError, "how = 'most'"),
        ({"how": "left"}, UnsupportedQueryError, "how = 'left' takes two DataFrames and a condition"),
        ({"on": "r.x < s.x", "how": "left"}, UnsupportedQueryError, "the LEFT JOIN would never know"),
        ({"on": "r.st.`b c` LIKE s.st.`b c`", "how": "left"}, UnsupportedQueryError, "a LEFT JOIN .* only Spark can"),
        ({"within": "soon"}, UnsupportedQueryError, "'soon' is no length of time"),
        ({"within": "1 month"}, UnsupportedQueryError, "'1 month' is no length of time"),
        ({"on": "r.x < s.x", "scheme": "fast"}, InvalidHintError, "the schemes are"),
        ({"on": "r.x < s.x", "scheme": "it's"}, InvalidHintError, "the schemes are"),
        ({"on": "r.x < s.x", "units": 0}, InvalidHintError, "one whole number"),
        ({"on": "r.x < s.y"}, AnalysisException, "(?s)cannot be resolved(?!.*Project)"),
        ({"on": "x < s.x"}, AnalysisException, "ambiguous"),
        ({"on": "r.x < s.x AND rand() > 0"}, AnalysisException, "deterministic"),
        ({"on": "r.x <"}, ParseException, "Syntax error"),
        ({"on": 5}, TypeError, "SQL text and columns for on, not int"),
        ({"on": "r.x < s.x", "select": [5]}, TypeError, "for select, not int"),
    ],
)
def test_what_cannot_be_is_refused(
    spark: SparkSession, tables: Tables, asked: dict[str, Any], error: type[Exception], said: str
) -> None:
    tj = trijoin_sql.TriJoinSession.create(spark)
    r, s = streams(tables)
    with pytest.raises(error, match=said):
        tj.join({"r": r, "s": s}, **asked)


def test_a_column_is_the_condition_of_any_join(spark: SparkSession, tables: Tables) -> None:
    """Python took the truth of a column, which is none."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    r, s = streams(tables)
    for how in ("left", "semi", "inner", None):
        found = tj.join({"r": r, "s": s}, F.col("r.x") < F.col("s.x"), how, within="1 minute")  # type: ignore[arg-type]
        assert found.isStreaming


def test_a_frame_without_event_time_is_told_how_to_get_one(spark: SparkSession, tables: Tables) -> None:
    """In DataFrames' words: join() has no place for a clause."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    r, s = streams(tables)
    with pytest.raises(UnsupportedQueryError, match="needs the event time of r") as caught:
        tj.join({"r": r.select("x", "id"), "s": s}, "r.x < s.x", within="1 minute")
    assert "WATERMARK" not in str(caught.value)


def test_frames_must_be_frames_by_alias(spark: SparkSession, tables: Tables) -> None:
    tj = trijoin_sql.TriJoinSession.create(spark)
    (r,) = streams(tables, "r")
    for frames in ([r, r], {"r": r}, {"r": r, "s": "s"}, {"": r, "s": r}, {"r": r, "R": r}):
        with pytest.raises(TypeError, match=r"join\(\) takes"):
            tj.join(frames, "true")  # type: ignore[arg-type]
