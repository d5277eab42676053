"""What a query says first when it fails in a Python session, or does not start: one sentence, without our SQL."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ArithmeticException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

import trijoin_sql
from trijoin_sql import TriJoinSession
from trijoin_sql.errors import CheckpointDamagedError, InvalidSettingError, UnsupportedQueryError
from trijoin_sql.running.failures import remember, told
from trijoin_sql.settings import hint_if_unknown
from trijoin_sql.spark.flags import settings_of
from trijoin_sql.spark.messages import reason
from trijoin_sql.spark.plan_joins import in_users_words

from .streaming.differential import Tables, cut, random_rows, run_stream

ID = "16ee03a5-263a-4a5f-bc4d-886064208da9"
BEGINS = f"[STREAM_FAILED] Query [id = {ID}, runId = 2] terminated with exception: "
ENDS = f"\n=== Streaming Query ===\nIdentifier: [id = {ID}, runId = 2]\n\nLogical Plan:\n~Project [r__x#1]\n+- x"
ZERO = "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
VIEW = "_pyspark_ef4c72ed0c0f42599c3a276cc8d2047e."


def marked(text: str, part: str) -> str:
    return f"\n== SQL (line 1, position 8) ==\n{text}\n{' ' * text.index(part)}{'^' * len(part)}\n SQLSTATE: XXKST"


@pytest.mark.parametrize(
    ("text", "stack", "first"),
    [
        (
            ZERO + marked("SELECT r__x / (s__my__x - 1)", "r__x / (s__my__x - 1)"),
            "",
            "Division by zero [DIVIDE_BY_ZERO], in r.x / (s.my__x - 1)",
        ),
        (
            ZERO + marked(f"... {VIEW}r__x / 0 AS v", f"{VIEW}r__x / 0"),
            "",
            "Division by zero [DIVIDE_BY_ZERO], in r.x / 0",
        ),
        (
            "[CAST_INVALID_INPUT] The value is bad. SQLSTATE: 22018"
            + marked("...AS v0, IF(`r`.`ts` IS NOT NULL, CAST(r.t AS INT), NULL) AS v1...", "CAST(r.t AS INT)"),
            "",
            "The value is bad [CAST_INVALID_INPUT], in CAST(r.t AS INT)",
        ),
        (
            "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
            '  File "a.py", line 2, in f\nValueError: no good\n SQLSTATE: 38000 SQLSTATE: XXKST',
            "",
            "ValueError: no good",
        ),
        (
            "Failed to read log file file:/c/sources/0/1. [MALFORMED_LOG_FILE] Malformed. SQLSTATE: KD002",
            "",
            "[TRIJOIN_CHECKPOINT_DAMAGED] The checkpoint file:/c is damaged: its file sources/0/1 cannot be read.",
        ),
        (
            "Failed to read log file file:/in/_spark_metadata/1. [MALFORMED_LOG_FILE] Malformed. SQLSTATE: KD002",
            "",
            "Malformed [MALFORMED_LOG_FILE]",  # that of a source
        ),
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030",
            "x\nCaused by: java.io.FileNotFoundException: File 2.changelog does not exist.\n\tat y",
            "[TRIJOIN_CHECKPOINT_DAMAGED] The checkpoint file:/c is damaged: its folder state cannot be read: "
            "File 2.changelog does not exist.",
        ),
        (
            " SQLSTATE: XXKST",
            "x\nCaused by: java.io.EOFException\n\tat y",
            "[TRIJOIN_CHECKPOINT_DAMAGED] The checkpoint file:/c is damaged: one of its files cannot be read: "
            "java.io.EOFException.",
        ),
    ],
)
def test_the_first_line_says_why_in_the_users_words(text: str, stack: str, first: str) -> None:
    remember(ID, "file:/c", ("r", "s"))
    said = told(f"{BEGINS}{text}{ENDS}", stack)
    assert said.split("\n")[0] == f"The query failed: {first}"
    assert not [word for word in ("r__", "_pyspark", "AS v0", "Logical Plan", "~Project") if word in said]
    assert "Spark says:\n[STREAM_FAILED]" in said, "and Spark's own text comes below"
    assert ("\nHint: Put back" in said) is ("DAMAGED" in first)
    assert reason(said) == first, "as the command line says it"
    assert told(said) == said, "once"


def test_what_we_refuse_is_said_once() -> None:
    remember(ID, "file:/c", ("r",))
    said = told(f"{BEGINS}[TRIJOIN_CHECKPOINT_MISMATCH] The checkpoint file:/c belongs to another. SQLSTATE: XXKST")
    assert said == (
        "The query failed: [TRIJOIN_CHECKPOINT_MISMATCH] The checkpoint file:/c belongs to another.\n"
        "Hint: Use a new checkpoint location, or start the query that the checkpoint was written by."
    )


def test_a_query_of_sparks_says_what_it_said() -> None:
    text = f"{BEGINS.replace(ID, ID[::-1])}[X] y{ENDS.replace(ID, ID[::-1])}"
    assert told(text) == text


Q = "SELECT r.id AS a, s.id AS b FROM r JOIN s ON r.i <= s.i AND s.i < r.i + 2"


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    made = Tables(spark, tmp_path_factory.mktemp("tables"))
    for name in "rs":
        made.create(name, cut(random_rows(1, 20), ()))
    made.use(streaming=True)
    return made


@pytest.fixture
def tj(spark: SparkSession, tables: Tables) -> TriJoinSession:
    return TriJoinSession.create(spark)


def test_what_only_spark_evaluates(tj: TriJoinSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By way of a DataFrame that is not the one that `sql` returned."""
    frame = tj.sql(f"{Q} AND 1 / (r.i - s.i) > 0").select("a")
    with pytest.raises(StreamingQueryException) as caught:
        run_stream(frame, tmp_path / "c")
    first, *below = str(caught.value).split("\n")
    assert first.startswith("The query failed: Division by zero.")
    assert first.endswith("[DIVIDE_BY_ZERO], in 1 / (r.i - s.i)")
    assert not [word for word in ("r__i", "Logical Plan") if word in "".join(below)]
    assert len(below) < 45
    assert "SQLQueryContextLogger" not in capfd.readouterr().err


def damaged(folder: str, whole: bool) -> Callable[[Path], None]:
    def damage(checkpoint: Path) -> None:
        for crc in checkpoint.rglob(".*.crc"):
            crc.unlink()
        if whole:
            shutil.rmtree(checkpoint / folder)
            return
        for path in (checkpoint / folder).rglob("[0-9]*"):
            path.write_text("garbage")

    return damage


@pytest.mark.parametrize(
    "sql",
    ["SELECT r.id, 1 / (r.i - r.i) AS q FROM r JOIN s ON r.i < s.i", f"{Q} AND 1 / (r.i - s.i) > 0"],
    ids=["SELECT", "ON"],
)
@pytest.mark.matrix
def test_a_query_over_tables(tj: TriJoinSession, tables: Tables, capfd: pytest.CaptureFixture[str], sql: str) -> None:
    """Spark marks a part of SQL, which is ours."""
    tables.use(streaming=False)
    try:
        with pytest.raises(ArithmeticException) as failed:
            tj.sql(sql).collect()
    finally:
        tables.use(streaming=True)
    said = str(failed.value)
    assert said.startswith("[DIVIDE_BY_ZERO] Division by zero.")
    assert "\n== SQL (of the query) ==\n1 / (r.i - " in said
    assert not re.search(r"r__|_pyspark_", said)
    assert "SQLQueryContextLogger" not in capfd.readouterr().err, "nor is it logged before it is raised"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (damaged("offsets", whole=True), "its folder offsets lacks micro-batch 0, which its commits have"),
        (damaged("offsets", whole=False), "its file offsets/0 cannot be read"),
        (damaged("commits", whole=False), "its file commits/0 cannot be read"),
        (damaged("trijoin", whole=True), "it has micro-batches and no folder trijoin"),
    ],
)
def test_a_damaged_checkpoint_is_named(
    tj: TriJoinSession, tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    checkpoint = tmp_path / "c"
    run_stream(tj.sql(Q), checkpoint)
    damage(checkpoint)
    with pytest.raises(StreamingQueryException) as caught:
        run_stream(tj.sql(Q), checkpoint)
    first, hint, *_ = str(caught.value).split("\n")
    assert first.startswith("The query failed: [TRIJOIN_CHECKPOINT_")
    assert f"{checkpoint}" in first
    assert says in first
    assert hint.startswith("Hint: ")


def plain(tj: TriJoinSession) -> DataFrame:
    return tj.spark.table("r").select("id")


def test_a_checkpoint_of_a_query_of_sparks(tj: TriJoinSession, tmp_path: Path) -> None:
    run_stream(plain(tj), tmp_path / "c")
    with pytest.raises(StreamingQueryException, match=r"The query failed: .*TRIJOIN_CHECKPOINT_MISMATCH"):
        run_stream(tj.sql(Q), tmp_path / "c")


def test_a_checkpoint_that_is_no_folder(tj: TriJoinSession, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file")
    for place in ("c", "c/below"):
        with pytest.raises(CheckpointDamagedError, match=f"{place} is damaged: a file is in its way"):
            run_stream(tj.sql(Q).select("a"), tmp_path / place)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "metadata").write_text("garbage")
    with pytest.raises(CheckpointDamagedError, match="d is damaged: its file metadata cannot be read"):
        run_stream(tj.sql(Q), tmp_path / "d")


@pytest.fixture
def misspelt(spark: SparkSession) -> Iterator[str]:
    spark.conf.set("spark.trijoin.unts", "4")
    yield "there is no such setting; did you mean spark.trijoin.units"
    spark.conf.unset("spark.trijoin.unts")


def test_a_misspelt_setting_of_a_session_is_refused(tj: TriJoinSession, misspelt: str) -> None:
    frames = {name: tj.spark.table(name) for name in "rs"}
    for made in (
        lambda: tj.sql(Q),
        lambda: tj.explain(Q),
        lambda: tj.join(frames, on="r.i < s.i"),
    ):
        with pytest.raises(InvalidSettingError, match=misspelt):
            made()
    assert tj.sql("SELECT 1 AS one").collect()[0].one == 1, "a statement without a join is Spark's"


def test_what_is_set_by_configure_and_by_users_is_known(spark: SparkSession) -> None:
    spark.conf.set("spark.trijoin.rate.r", "4")
    try:
        names = set(settings_of(spark).names())
        assert {name for name in names if hint_if_unknown(name) is not None} == set()
        assert {"spark.trijoin.rate.r", "spark.trijoin.tables"} <= names
        assert "spark.trijoin.liberties.tellFailures" in names, "as `configure` sets it"
    finally:
        spark.conf.unset("spark.trijoin.rate.r")


def test_what_is_done_with_a_join_is_checked_where_enable_was_called(spark: SparkSession, tables: Tables) -> None:
    tj = trijoin_sql.enable(spark)
    try:
        writer = tj.sql(Q).groupBy().count().writeStream.format("noop")
        with pytest.raises(UnsupportedQueryError, match=r"groups without a window .* never close"):
            writer.start()
    finally:
        trijoin_sql.disable(spark)


def test_a_dataframe_without_a_name_has_none_of_ours(tj: TriJoinSession) -> None:
    r, s = (tj.spark.table(name) for name in "rs")
    joined = tj.rewrite(r.select("i").join(s.selectExpr("i AS j"), expr("i < j")))
    shown = tj.explain(joined)
    assert not re.findall(r"\b__(?:i\d|trijoin_input)", f"{shown}{shown.to_json()}")
    assert "df_0 is kept for ever" in str(shown)
    with pytest.raises(UnsupportedQueryError, match="a row of df_0 has no partner") as caught:
        tj.rewrite(r.select("i").join(s.selectExpr("i AS j"), expr("i < j"), "left"))
    assert "__i" not in str(caught.value)


def test_names_keep_their_lengths_for_there_are_places_in_the_text() -> None:
    sql = "SELECT `__i0`.`x__i1` FROM __trijoin_input_0 AS `__i0` WHERE __i0.x < 'it__i0'"
    shown = in_users_words({"sql": sql, "places": [[7, 11]], "none": None})
    assert shown == {
        "sql": "SELECT `df_0`.`x__i1` FROM relation_number_0 AS `df_0` WHERE df_0.x < 'it__i0'",
        "places": [[7, 11]],
        "none": None,
    }
    assert in_users_words("with __i1 WATERMARK ts DELAY OF INTERVAL 10 SECONDS,") == (
        'with df_1.withWatermark("ts", "10 seconds"),'
    )


def test_a_column_that_a_join_does_not_have_is_one_line(tj: TriJoinSession) -> None:
    with pytest.raises(AnalysisException) as caught:
        tj.sql(Q).select("nope")
    assert str(caught.value).startswith("[UNRESOLVED_COLUMN.WITH_SUGGESTION]")
    assert "\n" not in str(caught.value)


def test_another_kind_of_argument_is_named(tj: TriJoinSession) -> None:
    import pandas as pd

    with pytest.raises(TypeError, match="'r' is a DataFrame of pandas"):
        tj.join({"r": pd.DataFrame(), "s": tj.spark.table("s")}, on="r.i < s.i")  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"metrics\(\) takes a streaming query, as start\(\) returns it, not DataFrame"):
        tj.metrics(tj.sql(Q))  # type: ignore[arg-type]
