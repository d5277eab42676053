"""Where a Python operator goes wrong beside Spark; the numbers are those of the project's list of traps.

Every expectation is Spark batch's own answer to the same SQL. Trap 20 is in ``streaming/test_layouts.py`` and
``streaming/test_restart.py``, 21 in ``streaming/test_checkpoints.py``, 22 to 24 in ``test_traps_restart.py``.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import trijoin_sql

from .streaming.differential import Bag, Tables, bag, run_stream

Same = Callable[..., Bag]
Both = Callable[..., tuple[Bag, Bag]]


@pytest.fixture
def view(spark: SparkSession) -> Iterator[Callable[[str, str, str], None]]:
    """Make a batch view of SQL values: ``view("r", "id, a", "(1, 2), (3, 4)")``."""
    made: list[str] = []

    def make(name: str, columns: str, rows: str) -> None:
        spark.sql(f"SELECT * FROM VALUES {rows} AS {name}({columns})").createOrReplaceTempView(name)
        made.append(name)

    yield make
    for name in made:
        spark.catalog.dropTempView(name)


@pytest.fixture
def both(spark: SparkSession) -> Iterator[Both]:
    """Run SQL through us and in Spark batch, and return both bags; ``ours``: the join must not be left to Spark."""
    tj = trijoin_sql.TriJoinSession.create(spark)

    def run(sql: str, *, ours: bool = True) -> tuple[Bag, Bag]:
        groups = tj.explain(sql).to_dict()["groups"]
        assert not ours or [group["decision"]["node"] != "none" for group in groups] == [True] * len(groups) != [], sql
        return bag(tj.sql(sql).collect()), bag(spark.sql(sql).collect())

    yield run
    spark.conf.unset("spark.trijoin.units")


@pytest.fixture
def same(both: Both) -> Same:
    """Run SQL through us and in Spark batch, fail if the bags differ, and return one for further assertions."""

    def run(sql: str, *, ours: bool = True) -> Bag:
        found, wanted = both(sql, ours=ours)
        assert found == wanted, sql
        return wanted

    return run


def outcome(run: Callable[[str], DataFrame], sql: str) -> Bag | None:
    """Return the rows, or None if the query fails."""
    try:
        return bag(run(sql).collect())
    except (PySparkException, trijoin_sql.TriJoinError):
        return None


def test_trap_01_null_in_comparisons(view: Any, both: Both) -> None:
    """Unknown is not true, NOT unknown neither; only <=> finds NULL equal to NULL."""
    for name in "rst":
        view(name, "id, a, b", "(1, 1, 1), (2, NULL, 1), (3, 2, NULL), (4, CAST(NULL AS INT), CAST(NULL AS INT))")
    for condition in (
        "NOT (r.a < s.a)",
        "r.a <=> s.a",
        "r.a BETWEEN s.a AND s.b",
        "r.a NOT BETWEEN s.a - 1 AND s.a",
        "(r.a < s.a OR r.b = s.b)",
        "ABS(r.a - s.a) < 2",
    ):
        sql = f"SELECT r.id, s.id, t.id FROM r JOIN s ON {condition} JOIN t ON s.b <=> t.b AND t.a IS NOT NULL"
        found, wanted = both(sql)
        assert found == wanted, sql


def test_trap_02_nan(view: Any, both: Both) -> None:
    """NaN equals NaN and is above infinity; NumPy, pandas and Python say no to both."""
    values = ("'NaN'", "'Infinity'", "'-Infinity'", "1.5", "NULL")
    queries = [
        f"SELECT r.id, s.id, t.id FROM r JOIN s ON r.x {op} s.x JOIN t ON s.x >= t.x" for op in ("=", ">=", "<", "<>")
    ]
    queries += ["SELECT r.id, s.id FROM r JOIN s ON ABS(r.x - s.x) <= 1.5"]
    queries += ["SELECT r.id, s.id FROM r JOIN s ON r.x - s.x > -1 AND r.x - s.x < 1"]
    for kind in ("DOUBLE", "FLOAT"):
        for name in "rst":
            view(name, "id, x", ", ".join(f"({n}, CAST({x} AS {kind}))" for n, x in enumerate(values)))
        for sql in queries:
            found, wanted = both(sql)
            assert found == wanted, (kind, sql)


@pytest.mark.parametrize("scheme", ["matrix", "symmetric"])
def test_trap_03_negative_zero(view: Any, same: Same, scheme: str) -> None:
    """-0.0 and 0.0 are one key: in comparisons, in hashes and in the routing to units."""
    for name in "rst":
        view(name, "id, x", "(1, -0.0D), (2, 0.0D), (3, 1.0D)")
    hint = f"/*+ SCHEME('{scheme}'), UNITS(5) */"
    found = same(f"SELECT {hint} r.id, s.id, t.id, r.x FROM r JOIN s ON r.x = s.x JOIN t ON s.x = t.x AND r.x <= t.x")
    assert sum(found.values()) == 9


def test_trap_04_decimals_of_different_scale(view: Any, same: Same) -> None:
    """1.0 equals 1.00 and, as a bigint, 1; a wide decimal beside a double is rounded as Spark rounds."""
    view("r", "id, x", "(1, CAST(1 AS DECIMAL(10,1))), (2, CAST(0.1 AS DECIMAL(10,1)))")
    view(
        "s", "id, x", "(1, CAST(1 AS DECIMAL(38,10))), (2, CAST(0.1 AS DECIMAL(38,10))), (3, CAST(3 AS DECIMAL(38,10)))"
    )
    view("t", "id, x, y", "(1, 1L, 1.0D), (2, 3L, 0.1D)")
    assert same("SELECT r.id, s.id, t.id FROM r JOIN s ON r.x = s.x JOIN t ON s.x <= t.x")
    assert same("SELECT r.id, s.id, t.id FROM r JOIN s ON r.x <> s.x JOIN t ON s.x = t.y")
    assert same("SELECT r.id, s.id, t.id FROM r JOIN s ON r.x - s.x < 0.5 JOIN t ON ABS(r.x - t.x) < 1.5")


def test_trap_05_integer_and_string(spark: SparkSession, view: Any, same: Same) -> None:
    """The text is cast, not the number; text that is no number fails the query, as in batch."""
    view("r", "id, a", "(1, 2), (2, 3)")
    view("t", "id, a", "(1, 2), (2, 3)")
    view("s", "id, x", "(1, '2'), (2, ' 2 '), (3, '003')")
    assert same("SELECT r.id, s.id, t.id FROM r JOIN s ON r.a = s.x JOIN t ON r.a <= t.a")
    assert same("SELECT r.id, s.id FROM r JOIN s ON r.a < s.x")
    tj = trijoin_sql.TriJoinSession.create(spark)
    for text, condition in (("2.5", "r.a = s.x"), ("x", "r.a < s.x")):
        view("s", "id, x", f"(1, '2'), (2, '{text}')")
        sql = f"SELECT r.id, s.id, t.id FROM r JOIN s ON {condition} JOIN t ON r.a <= t.a"
        assert outcome(spark.sql, sql) is None
        assert outcome(tj.sql, sql) is None, sql


def test_trap_06_dates_times_and_zones(spark: SparkSession, view: Any, same: Same) -> None:
    """A date is the session zone's midnight; a night with a gap, one with an overlap, and microseconds."""
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        view("r", "id, d", "(1, DATE'2024-03-31'), (2, DATE'2024-10-27'), (3, DATE'1900-01-01')")
        moments = (
            "2024-03-30 23:00:00Z",
            "2024-10-27 00:30:00Z",
            "2024-10-27 01:30:00Z",
            "2024-03-31 01:00:00.000001Z",
        )
        view("s", "id, t", ", ".join(f"({n}, TIMESTAMP'{text}')" for n, text in enumerate(moments)))
        walls = ("2024-03-31 00:00:00", "2024-03-31 02:30:00", "2024-10-27 02:30:00")
        view("t", "id, n", ", ".join(f"({n}, TIMESTAMP_NTZ'{text}')" for n, text in enumerate(walls)))
        assert same("SELECT r.*, s.*, t.* FROM r JOIN s ON r.d = s.t JOIN t ON r.d <= t.n")
        assert same("SELECT r.*, s.*, t.* FROM r JOIN s ON r.d <= s.t JOIN t ON s.t = t.n")
        for bound in ("90 MINUTES", "1 DAY"):
            same(f"SELECT a.*, b.* FROM s a JOIN s b ON a.t BETWEEN b.t - INTERVAL {bound} AND b.t")
            same(f"SELECT a.*, b.* FROM s a JOIN s b ON a.t - b.t <= INTERVAL {bound}")
            same(f"SELECT s.*, t.* FROM s JOIN t ON ABS(s.t - t.n) < INTERVAL {bound}", ours=False)
        same("SELECT a.*, b.* FROM r a JOIN r b ON a.d BETWEEN b.d - 210 AND b.d + 1")
        same("SELECT a.*, b.* FROM r a JOIN r b ON ABS(DATEDIFF(a.d, b.d)) <= 210")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


BORDER = (
    "(1, 2147483647, 100Y, 9223372036854775807L), (2, 5, 1Y, 5L), (3, -2147483648, -100Y, -9223372036854775808L), "
    "(4, 0, 0Y, 0L), (5, 1, 1Y, 1L)"
)
OVERFLOWS = [
    "ABS(r.a - s.a) < 2",
    "ABS(r.c - s.c) < 2",
    "ABS(r.ti - s.ti) < 2",
    "r.id = s.id + 2 AND ABS(r.a - s.a) < 2",
    "r.id = s.id AND ABS(r.a - s.a) < 2",
    "r.id + 1 < s.id AND ABS(r.a - s.a) < 2",
    "r.id < s.id - 5 AND ABS(r.a - s.a) < 2",
    "r.a BETWEEN s.a - 0 AND s.a",
    "r.a BETWEEN s.ti - 1 AND s.ti + 1",
    "r.ti BETWEEN s.ti - 1 AND s.ti + 1",
    "r.ti <= s.ti + 1",
    "r.ti + 1 <= s.ti AND r.ti >= s.ti - 50",
    "r.a <= s.a + 1",
    "ABS(r.ti + 1 - s.ti) < 3",
    "r.a - s.a < 2 AND r.id = 3 AND s.id = 4",
    "r.c + 1 - s.c < 3 AND r.id = 3 AND s.id = 5",
    "ABS(r.c + 1 - s.c) < 3 AND r.id = 3 AND s.id = 5",
    "r.a < s.a + 0 AND r.a - s.a > -4 AND r.id = 1 AND s.id = 2",
    "ABS(r.a - s.a) < 9 AND ABS(r.a - 1 - s.a) < 9 AND r.id IN (1, 2) AND s.id IN (4, 5)",
    "ABS(r.a - s.a - 1) < 2 AND r.id IN (1, 4) AND s.id IN (2, 4)",
    "2 - r.a + s.a > 1 AND r.id > 3 AND s.id = 1",
    "r.a + s.a < 3 AND r.id = 1 AND s.id = 3",
    "r.a + s.a < 3 AND r.id = 3 AND s.id = 3",
    "r.c - s.c = 9223372036854775807 AND r.id = 1 AND s.id > 3",
    "ABS(r.a) < s.a",
]


@pytest.mark.rare
def test_trap_07_overflow(spark: SparkSession, view: Any) -> None:
    """Where Spark's nested loop overflows we do, and where it compares shifted values we do not.

    A condition a kind: Spark starts a failing task four times, with new Python workers. Hundreds of random conditions
    over thousands of values at the borders are in ``rewriter/test_differences.py``, without Spark.
    """
    for name in "rs":
        view(name, "id, a, ti, c", BORDER)
    tj = trijoin_sql.TriJoinSession.create(spark)
    raised = 0
    for condition in OVERFLOWS:
        sql = f"SELECT /*+ UNITS(1) */ r.id, s.id FROM r JOIN s ON {condition}"
        wanted = outcome(spark.sql, sql)
        raised += wanted is None
        assert outcome(tj.sql, sql) == wanted, condition
    assert 0 < raised < len(OVERFLOWS)


def test_trap_08_guards_against_errors(view: Any, same: Same) -> None:
    """A division by zero that another conjunct rules out must stay ruled out, whoever evaluates which."""
    for name in "rst":
        view(name, "id, a, b", "(1, 6, 0), (2, 6, 3), (3, 0, 2), (4, 7, NULL)")
    assert same("SELECT r.id, s.id, t.id FROM r JOIN s ON s.b <> 0 AND r.a / s.b > 1 JOIN t ON s.a = t.a")
    assert same("SELECT r.id, s.id, t.id FROM r JOIN s ON r.a <> s.b AND 1 / (r.a - s.b) > 0 JOIN t ON s.a = t.a")
    assert same("SELECT r.id, s.id FROM r JOIN s ON r.a = s.a AND s.b > 0 AND 10 / s.b > r.b")


def test_trap_09_identifier_case(spark: SparkSession, view: Any, same: Same) -> None:
    """Names resolve without case and keep their spelling; quoted ones may have any character."""
    view("R", "Id, `1-_./Ü`, Aa", "(1, 5, 1), (2, 6, 2)")
    view("s", "ID, `1-_./Ü`", "(1, 5), (3, 6)")
    sql = "SELECT r.iD, a.`1-_./ü` AS `x y`, AA FROM r JOIN S AS a ON R.`1-_./ü` <= A.`1-_./Ü` AND R.id <= a.id"
    assert same(sql)
    tj = trijoin_sql.TriJoinSession.create(spark)
    assert tj.sql(sql).columns == spark.sql(sql).columns
    assert tj.sql("SELECT * FROM r JOIN s ON r.id < s.id").columns == ["Id", "1-_./Ü", "Aa", "ID", "1-_./Ü"]


def test_trap_10_duplicate_output_names(spark: SparkSession, view: Any, same: Same) -> None:
    """Two columns of one name are two columns; a dict keyed by name would lose one."""
    for name, shift in (("r", 0), ("s", 1), ("t", 2)):
        view(name, "id, c", f"({1 + shift}, {shift}), ({2 + shift}, {shift})")
    sql = "SELECT s.c, r.c, *, r.id AS c FROM r JOIN s ON r.c < s.c JOIN t ON s.c < t.c"
    assert same(sql)
    tj = trijoin_sql.TriJoinSession.create(spark)
    assert tj.sql(sql).columns == spark.sql(sql).columns == ["c", "c", "id", "c", "id", "c", "id", "c", "c"]


def test_trap_11_using_and_natural(spark: SparkSession, view: Any, same: Same) -> None:
    """The merged column comes first and once; each relation's own is still there under its name."""
    for name, shift in (("r", 0), ("s", 1), ("t", 2)):
        view(name, f"k, id, {name}x", f"(1, {shift}, 1), (1, {shift + 1}, 3), (2, {shift}, 2), (NULL, 0, 0)")
    tj = trijoin_sql.TriJoinSession.create(spark)
    for sql in (
        "SELECT * FROM r JOIN s USING (k) JOIN t USING (k) WHERE r.id <= s.id AND s.id < t.id",
        "SELECT k, s.k, t.*, r.* FROM r JOIN s USING (k) JOIN t USING (k) WHERE rx < sx AND sx <= tx",
        "SELECT * FROM r NATURAL JOIN s",
    ):
        assert same(sql), sql
        assert tj.sql(sql).columns == spark.sql(sql).columns, sql


ROWS = [{"id": number, "k": number % 3, "x": number} for number in range(7)]
SCHEMA = "id bigint, k int, x int"
ARROW = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("x", pa.int32())])


def streamed(
    spark: SparkSession, home: Path, tables: dict[str, Sequence[Sequence[dict[str, Any]]]], sql: str
) -> tuple[Bag, Bag]:
    """Return the results on streams and in Spark batch."""
    made = Tables(spark, home / "tables")
    for name, pieces in tables.items():
        made.create(name, pieces, SCHEMA, ARROW)
    made.use(streaming=False)
    wanted = bag(spark.sql(sql).collect())
    made.use(streaming=True)
    return run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), home / "checkpoint"), wanted


@pytest.mark.parametrize("pieces", [[ROWS], [[row] for row in ROWS[:4]]], ids=["one batch", "one row a batch"])
def test_trap_12_self_join(spark: SparkSession, tmp_path: Path, pieces: list[list[dict[str, Any]]]) -> None:
    """Each alias is an input of its own: every ordered triple once, and each row with itself."""
    sql = "SELECT a.id, b.id, c.id FROM r a JOIN r b ON ABS(a.x - b.x) < 2 JOIN r c ON b.k = c.k AND a.x <= c.x"
    found, wanted = streamed(spark, tmp_path, {"r": pieces}, sql)
    assert found == wanted
    assert "[3, 3, 3]" in found


def test_trap_13_duplicates(spark: SparkSession, tmp_path: Path) -> None:
    """m x n x k copies, in one batch and over several; state keyed by a row's content would collapse them."""
    row = ROWS[0]
    tables = {"r": [[row, row], [row]], "s": [[row], [row, row]], "t": [[row, row, row, row], []]}
    sql = "SELECT r.id, s.id, t.id FROM r JOIN s ON r.x <= s.x JOIN t ON s.k = t.k"
    found, wanted = streamed(spark, tmp_path, tables, sql)
    assert found == wanted
    assert list(found.values()) == [3 * 3 * 4]


def test_trap_14_idle_stream(spark: SparkSession, tmp_path: Path) -> None:
    """A silent input has no results; when it wakes up with old rows, all partners are still there."""
    made = Tables(spark, tmp_path / "tables")
    for name, pieces in {"r": [ROWS[:3], ROWS[3:]], "s": [ROWS], "t": [[]]}.items():
        made.create(name, pieces, SCHEMA, ARROW)
    sql = "SELECT r.id, s.id, t.id FROM r JOIN s ON r.x < s.x JOIN t ON s.x BETWEEN t.x - 1 AND t.x"
    made.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    assert not run_stream(tj.sql(sql), tmp_path / "checkpoint")
    made.add("t", ROWS, ARROW)
    made.use(streaming=True)
    found = run_stream(tj.sql(sql), tmp_path / "checkpoint")
    made.use(streaming=False)
    assert found == bag(spark.sql(sql).collect())
    assert found


def timed(*seconds: int) -> list[dict[str, Any]]:
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    return [{"id": second, "ts": start + datetime.timedelta(seconds=second)} for second in seconds]


TIMED = "id bigint, ts timestamp", pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
NEAR = (
    "SELECT r.id, s.id, t.id FROM r JOIN s ON r.ts BETWEEN s.ts - INTERVAL 20 SECONDS AND s.ts + INTERVAL 20 SECONDS "
    "JOIN t ON t.ts BETWEEN s.ts AND s.ts + INTERVAL 20 SECONDS"
)


def near(
    spark: SparkSession, home: Path, pieces: dict[str, list[list[dict[str, Any]]]], hint: str = ""
) -> tuple[Bag, Bag, int]:
    """Run NEAR with watermarks of ten seconds; return the results on streams and in Spark batch, and the late rows."""
    made = Tables(spark, home)
    for name, some in pieces.items():
        made.create(name, some, *TIMED, view=lambda frame: frame.withWatermark("ts", "10 seconds"))
    made.use(streaming=False)
    wanted = bag(spark.sql(NEAR).collect())
    made.use(streaming=True)
    tj, late = trijoin_sql.TriJoinSession.create(spark), [0]

    def look(query: StreamingQuery) -> None:
        late[0] = tj.metrics(query).total()["late"]

    sql = NEAR.replace("SELECT", f"SELECT {hint}")
    return run_stream(tj.sql(sql), home / "checkpoint", look=look), wanted, late[0]


@pytest.mark.parametrize("hint", ["/*+ UNITS(3) */", "/*+ SCHEME('matrix'), UNITS(4) */"], ids=["units", "cells"])
def test_trap_15_16_late_rows(spark: SparkSession, tmp_path: Path, hint: str) -> None:
    """A row at the watermark of the micro-batch before is late, as in Spark, and counted once; no other is dropped."""
    first = timed(100)
    pieces = {"r": [first, timed(90, 100), timed(90, 91, 110)], "s": [first], "t": [first]}
    found, wanted, count = near(spark, tmp_path, pieces, hint)
    assert count == 1, "each unit that the row reaches drops it, one counts it"
    late = {one for one in wanted if one.startswith("[90,")}
    assert late
    assert found == type(found)({one: count // 2 if one in late else count for one, count in wanted.items()})


def test_trap_17_results_do_not_depend_on_batches(spark: SparkSession, tmp_path: Path) -> None:
    """For rows that are not late: one batch, or as many as rows, with state expiring on the way."""
    seconds = [0, 4, 3, 21, 40, 80, 79]
    for way, pieces in {"one": [timed(*seconds)], "each": [timed(second) for second in seconds]}.items():
        found, wanted, _ = near(spark, tmp_path / way, dict.fromkeys("rst", pieces))
        assert found == wanted, way
        assert found


def test_trap_18_unbounded_state_is_said(spark: SparkSession, tmp_path: Path) -> None:
    """State is bounded only if time bounds connect every pair; anything else must not look bounded."""
    made = Tables(spark, tmp_path)
    for name in "rst":
        made.create(name, [timed(1)], *TIMED, view=lambda frame: frame.withWatermark("ts", "10 seconds"))
    made.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    one_sided = NEAR.replace("t.ts BETWEEN s.ts AND s.ts + INTERVAL 20 SECONDS", "t.ts >= s.ts")
    for sql, bounded in ((NEAR, True), (one_sided, False), (one_sided.replace("t.ts >= s.ts", "t.id = s.id"), False)):
        (group,) = tj.explain(sql).to_dict()["groups"]
        assert group["state"]["bounded"] is bounded, sql
        assert ("UNBOUNDED" in str(tj.explain(sql))) is not bounded, sql


def test_trap_19_a_changed_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark does not notice what changed inside a stateful operator; the sentence says what did."""
    made = Tables(spark, tmp_path / "tables")
    for name in "rst":
        made.create(name, [ROWS[:4]], SCHEMA, ARROW)
    made.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    sql = "SELECT r.id, s.id, t.id FROM r JOIN s ON r.x < s.x JOIN t ON s.k = t.k"
    run_stream(tj.sql(sql), tmp_path / "checkpoint")
    for name in "rst":
        made.add(name, ROWS[4:], ARROW)
    made.use(streaming=True)
    for changed, words in (
        (sql.replace("r.x < s.x", "r.x <= s.x"), "condition between r and s"),
        (sql.replace("r.id,", "r.id, r.k,"), "stream r"),
        (sql.replace(", t.id", ""), "stream t was"),
        (sql.replace("r.", "q.").replace("FROM r", "FROM r q"), "stream q"),
        ("SELECT r.id, s.id, t.id FROM s JOIN r ON r.x < s.x JOIN t ON s.k = t.k", "order of streams was r, s, t"),
        ("SELECT r.id, s.id, t.id FROM t JOIN s ON s.k = t.k JOIN r ON r.x < s.x", "order of streams was r, s, t"),
        (sql.replace("SELECT", "SELECT /*+ SCHEME('semi_symmetric') */"), "scheme was"),
        ("SELECT r.id, s.id FROM r JOIN s ON r.x < s.x", "stream t was"),
    ):
        with pytest.raises(StreamingQueryException) as caught:
            run_stream(tj.sql(changed), tmp_path / "checkpoint")
        assert "TRIJOIN_CHECKPOINT_MISMATCH" in str(caught.value), (changed, str(caught.value)[:1500])
        assert words in str(caught.value)
    assert run_stream(tj.sql(sql), tmp_path / "checkpoint")


def test_trap_25_duplicates_are_not_merged_by_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    """A replayed batch has the same rows, equal ones included, so a sink may go by the batch's number alone."""
    made = Tables(spark, tmp_path / "tables")
    for name in "rs":
        made.create(name, [[ROWS[1], ROWS[1]], [ROWS[2]]], SCHEMA, ARROW)
    made.use(streaming=True)
    sql = "SELECT r.id, s.id FROM r JOIN s ON r.x <= s.x"
    kept: dict[int, list[Bag]] = {}

    def sink(frame: DataFrame, batch: int) -> None:
        kept.setdefault(batch, []).append(bag(frame.collect()))
        if len(kept[batch]) == 1:
            raise RuntimeError("written, and then lost the connection")

    for _ in range(3):
        frame = trijoin_sql.TriJoinSession.create(spark).sql(sql)
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            continue
    made.use(streaming=False)
    assert all(len(attempts) == 2 and attempts[0] == attempts[1] for attempts in kept.values())
    assert sum((attempts[0] for attempts in kept.values()), bag([])) == bag(spark.sql(sql).collect())
    assert max(kept[0][0].values()) == 4


def test_trap_26_strings_by_bytes(view: Any, both: Both) -> None:
    """'B' before 'a', an emoji behind U+FFFF, trailing blanks count, and eight equal bytes prove nothing."""
    texts = ("a", "B", "a ", "", "ä", "\uffff", "😀", "aaaaaaaab", "aaaaaaaac", "aaaaaaaa")
    for name in "rst":
        view(name, "id, x", ", ".join(f"({n}, '{text}')" for n, text in enumerate(texts)))
    for op in ("<", "=", ">=", "<>"):
        found, wanted = both(f"SELECT r.id, s.id, t.id FROM r JOIN s ON r.x {op} s.x JOIN t ON s.x = t.x")
        assert found == wanted, op
    for condition in ("RPAD(r.x, 4, ' ') = s.x OR r.x < s.x", "r.x COLLATE UTF8_LCASE < s.x COLLATE UTF8_LCASE"):
        found, wanted = both(f"SELECT r.id, s.id FROM r JOIN s ON {condition}", ours=False)
        assert found == wanted, condition


def test_trap_27_wide_integers_beside_fractions(view: Any, both: Both) -> None:
    """2^53 + 1 beside a double is 2^53; 2^24 + 1 beside a float is exact, since Spark goes by way of double."""
    view("r", "id, i, b", "(1, 16777217, 9007199254740993L), (2, 16777216, 9007199254740992L)")
    view("s", "id, f, d", "(1, CAST(16777216 AS FLOAT), 9007199254740992D), (2, CAST(1 AS FLOAT), 9007199254740994D)")
    view("t", "id, b", "(1, 9007199254740993L), (2, 9007199254740992L)")
    for op in ("=", "<", ">="):
        for joins in (
            f"r JOIN s ON r.i {op} s.f JOIN t ON t.b = s.d",
            f"r JOIN s ON r.b {op} s.d JOIN t ON t.b {op} s.d AND t.b = r.b",
            f"r JOIN s ON r.b {op} s.f JOIN t ON t.b {op} r.b",
        ):
            found, wanted = both(f"SELECT r.id, s.id, t.id FROM {joins}")
            assert found == wanted, joins


def test_trap_28_constant_and_one_sided_conditions(view: Any, same: Same) -> None:
    """ON TRUE pairs everything, WHERE FALSE nothing, and a condition on one table is a filter."""
    for name in "rst":
        view(name, "id, a", "(1, 1), (2, 2), (3, NULL)")
    everything = same("SELECT r.id, s.id, t.id FROM r JOIN s ON TRUE JOIN t ON r.a < t.a", ours=False)
    assert sum(everything.values()) == 3
    assert not same("SELECT r.id, s.id, t.id FROM r JOIN s ON r.a < s.a JOIN t ON s.a < t.a WHERE FALSE", ours=False)
    assert same("SELECT r.id, s.id, t.id FROM r JOIN s ON r.a < s.a AND r.a = 1 JOIN t ON t.id > 1", ours=False)
    assert same("SELECT r.id, s.id, t.id FROM r JOIN s ON r.a <= s.a AND 1 = 1 JOIN t ON s.a <= t.a OR t.a IS NULL")


def test_trap_29_plain_spark_refuses_pure_theta_joins(spark: SparkSession, tmp_path: Path) -> None:
    """So Spark batch is the reference, never Spark's own stream of the same SQL; ours runs where that one does not."""
    made = Tables(spark, tmp_path / "tables")
    for name in "rs":
        made.create(name, [ROWS[:3]], SCHEMA, ARROW)
    sql = "SELECT r.id, s.id FROM r JOIN s ON r.x < s.x"
    made.use(streaming=True)
    with pytest.raises(PySparkException, match="without equality predicate is not supported"):
        run_stream(spark.sql(sql), tmp_path / "plain")
    found = run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), tmp_path / "checkpoint")
    made.use(streaming=False)
    assert found == bag(spark.sql(sql).collect()) == bag([(0, 1), (0, 2), (1, 2)])
