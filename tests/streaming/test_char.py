"""CHAR columns: Spark pads the shorter of two where it compares them, which it knows by metadata; the rows of batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import trijoin_sql

from .differential import bag, run_stream

NULL = "(4, NULL, '', '')"
ROWS = {
    "chars_r": f"(1, 'ab', 'ab', 'ab '), (2, 'b', 'b', 'b'), (3, 'abc', 'abc', ''), {NULL}, (5, '', '', '')",
    "chars_s": f"(1, 'ab', 'ab', 'ab'), (2, 'abcde', 'abcd', 'b'), (3, 'b', 'b', 'abc'), {NULL}, (5, 'a', '', '')",
}
#: By table: the lengths of its two CHAR columns; v is VARCHAR(6).
LENGTHS = {"chars_r": (3, 4), "chars_s": (5, 4)}

#: What is compared and what is not, as a condition between r and s beside one that makes the join ours.
CONDITIONS = (
    *(f"r.c {sign} s.c" for sign in ("=", "<=>", "<", "<=", ">", ">=", "<>")),
    "s.c = r.c AND r.e = s.e",
    "r.c = s.v",
    "r.c < s.v OR r.c = s.c",
    "r.c = s.c OR r.id = 1 AND r.c <> s.c",
    "r.c BETWEEN s.c AND s.e",
    "r.c IN (s.c, s.e)",
    "r.c IN (s.c, s.v)",
    "r.c = 'ab' AND s.c <> 'ab'",
    "r.c = 'ab' OR s.c = 'ab' OR r.c = 'ab  '",
    "upper(r.c) = upper(s.c)",
    "NOT (r.c < s.c) AND concat(r.c, s.c) <> 'ab ab   '",
    "CASE r.c WHEN s.c THEN true ELSE r.e = s.c END",
    "length(r.c) < length(s.c)",
    "coalesce(r.c, s.c) = s.c",
)
JOINS = ("JOIN", "LEFT JOIN", "LEFT ANTI JOIN", "FULL JOIN")


@pytest.fixture
def chars(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    for name, rows in ROWS.items():
        c, e = LENGTHS[name]
        columns = f"id INT, c CHAR({c}), e CHAR({e}), v VARCHAR(6)"
        spark.sql(f"CREATE TABLE {name} ({columns}) USING parquet LOCATION '{tmp_path / name}'")
        spark.sql(f"INSERT INTO {name} VALUES {rows}")
    yield
    for name in ROWS:
        spark.sql(f"DROP TABLE {name}")


def statements() -> Iterator[str]:
    for number, condition in enumerate(CONDITIONS):
        join = JOINS[number % len(JOINS)] if "OR" not in condition else "JOIN"
        columns = (
            "r.id" if "ANTI" in join else "r.id, s.id AS sid, r.c = s.c AS same, r.c < s.e AS less, r.c || s.c AS both"
        )
        yield f"SELECT {columns} FROM chars_r r {join} chars_s s ON r.id <> s.id + 3 AND ({condition})"
    yield "SELECT * FROM chars_r r JOIN (SELECT id AS sid, c FROM chars_s) s USING (c) WHERE r.id <> sid + 3"
    yield "SELECT * FROM (SELECT c, id FROM chars_r) r NATURAL JOIN (SELECT c, id AS i FROM chars_s) s WHERE id < i + 9"
    yield "SELECT r.id FROM chars_r r WHERE EXISTS (SELECT 1 FROM chars_s s WHERE s.c = r.c AND s.id < r.id + 9)"
    yield (
        "SELECT MIN(r.c) AS least, COUNT(*) AS n FROM chars_r r JOIN chars_s s ON r.c <= s.c "
        "JOIN chars_r t ON t.c >= s.c GROUP BY s.c"
    )


@pytest.mark.rare
def test_tables_compare_as_in_spark(spark: SparkSession, chars: None) -> None:
    """Also where a condition is cut into its sides, goes over results, or stands in SELECT."""
    tj = trijoin_sql.TriJoinSession.create(spark)
    for sql in statements():
        assert bag(tj.sql(sql).collect()) == bag(spark.sql(sql).collect()), sql


@pytest.mark.rare
@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.legacy.charVarcharAsString": "true"},
        {"spark.sql.readSideCharPadding": "false"},
        {"spark.sql.readSideCharPadding": "false", "spark.sql.legacy.noCharPaddingInPredicate": "true"},
    ],
)
def test_settings_change_padding(spark: SparkSession, chars: None, settings: dict[str, str]) -> None:
    theirs = spark.newSession()
    tj = trijoin_sql.TriJoinSession.create(theirs)
    for name, value in settings.items():
        theirs.conf.set(name, value)
    for condition in CONDITIONS[:9]:
        on = f"{condition} AND r.id <> s.id + 3"
        sql = f"SELECT r.id, s.id AS sid, r.c || '|' AS c FROM chars_r r JOIN chars_s s ON {on}"
        assert bag(tj.sql(sql).collect()) == bag(theirs.sql(sql).collect()), condition


def test_files_that_others_wrote_without_padding(spark: SparkSession, tmp_path: Path) -> None:
    """Where reading does not pad, Spark's comparisons do, of two columns of one length too."""
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.readSideCharPadding", "false")
    tj = trijoin_sql.TriJoinSession.create(theirs)
    for name, texts in (("bare_r", "('ab'), ('ab '), ('b')"), ("bare_s", "('ab'), ('b  '), ('')")):
        theirs.sql(f"SELECT c FROM VALUES {texts} AS rows(c)").write.parquet(str(tmp_path / name))
        theirs.sql(f"CREATE TABLE {name} (c CHAR(3)) USING parquet LOCATION '{tmp_path / name}'")
    try:
        for condition in ("r.c = s.c", "r.c <= s.c", "r.c <> s.c", "r.c = s.c OR r.c > s.c"):
            on = f"{condition} AND length(r.c) < length(s.c) + 9"
            sql = f"SELECT r.c || '|' AS c, s.c || '|' AS d FROM bare_r r JOIN bare_s s ON {on}"
            assert bag(tj.sql(sql).collect()) == bag(theirs.sql(sql).collect()), condition
    finally:
        for name in ("bare_r", "bare_s"):
            theirs.sql(f"DROP TABLE {name}")


def test_chars_inside_of_a_struct(spark: SparkSession, tmp_path: Path) -> None:
    """Spark pads where it compares fields of structs, too, but not structs as a whole."""
    for name, length in (("nested_r", 3), ("nested_s", 5)):
        kind = f"STRUCT<c: CHAR({length}), n: INT>"
        spark.sql(f"CREATE TABLE {name} (id INT, p {kind}) USING parquet LOCATION '{tmp_path / name}'")
        values = ", ".join(f"({n}, named_struct('c', '{text}', 'n', {n}))" for n, text in enumerate(("ab", "b", "")))
        spark.sql(f"INSERT INTO {name} VALUES {values}")
    tj = trijoin_sql.TriJoinSession.create(spark)
    try:
        for condition in ("r.p.c = s.p.c", "r.p.c < s.p.c", "r.p <= s.p", "r.p = s.p AND r.id < 9", "r.p.c >= s.p.c"):
            sql = f"SELECT r.id, s.id AS sid, r.p FROM nested_r r JOIN nested_s s ON {condition} AND r.id <> s.id + 3"
            assert bag(tj.sql(sql).collect()) == bag(spark.sql(sql).collect()), condition
    finally:
        for name in ("nested_r", "nested_s"):
            spark.sql(f"DROP TABLE {name}")


def test_streams_compare_as_in_spark(spark: SparkSession, chars: None, tmp_path: Path) -> None:
    tj = trijoin_sql.TriJoinSession.create(spark)
    sql = (
        "SELECT r.id, s.id AS sid, r.c = s.c AS same FROM {r} r JOIN {s} s "
        "ON r.c <= s.c AND r.id <> s.id + 3 AND (r.c = s.c OR r.id = 3)"
    )
    frame = tj.sql(sql.format(r="STREAM(chars_r)", s="STREAM(chars_s)"))
    wanted = bag(spark.sql(sql.format(r="chars_r", s="chars_s")).collect())
    assert run_stream(frame, tmp_path / "checkpoint") == wanted
    assert len(wanted) > 2
