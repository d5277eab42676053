"""What a query must be to go on with the state of another: whatever would join rows by other rules is a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from trijoin_sql.operators.compile.node import Compiled, compile_join
from trijoin_sql.operators.state.changed_query import difference, is_same, only_chosen_differs
from trijoin_sql.rewriter.render.delays import without_delays
from trijoin_sql.rewriter.sql.dialect import render
from trijoin_sql.rewriter.sql.statement import parse_statement

import trijoin_sql
from trijoin_sql import compile_statement
from trijoin_sql.running.checkpoint import group_of

Fingerprint = Callable[..., str]

DELAYS = ("r", "10 SECONDS"), ("s", "1 MINUTE 5 SECONDS")
BAND = "SELECT r.id, s.id AS other FROM {r} JOIN s ON ABS(r.x - s.x) < 5"


@pytest.fixture(scope="module")
def fingerprint(spark: SparkSession) -> Iterator[Fingerprint]:
    """Compile a query over streams (each once) and return the fingerprint of its join."""
    compiled: list[Compiled] = []

    def spy(*arguments: Any, **named: Any) -> Compiled:
        compiled.append(compile_join(*arguments, **named))
        return compiled[-1]

    @cache
    def made(sql: str, argument: Any = None, x: str = "INT") -> str:
        frame = spark.readStream.format("rate").load()
        frame = frame.selectExpr("value AS id", f"CAST(value AS {x}) AS x", "timestamp AS ts", "'Rome' AS city")
        for name in ("r", "s", "r2"):
            frame.createOrReplaceTempView(name)
        tj.sql(sql, None if argument is None else {"v": argument})
        return compiled[-1].spec.fingerprint

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_statement, "compile_join", spy)
        tj = trijoin_sql.TriJoinSession.create(spark)
        yield made


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("r", "r2 AS r", "input r was r and is now r2"),
        (
            "(SELECT id, x * 2 AS x FROM r WHERE x > 5 OR id < 0) AS r",
            "(SELECT id, x * 3 AS x FROM r WHERE x > 5 OR id < 0) AS r",
            "input r was (SELECT id, x * 2 AS x FROM r",
        ),
    ],
)
def test_another_input_is_a_difference(fingerprint: Fingerprint, old: str, new: str, words: str) -> None:
    """Its rows were computed or chosen in another way than those that are stored."""
    assert words in difference(fingerprint(BAND.format(r=old)), fingerprint(BAND.format(r=new)))


def test_functions_may_be_written_in_capitals(fingerprint: Fingerprint) -> None:
    """What stands in quotes may not: it is another text, or a column of another name."""
    sql = BAND.format(r="r") + " AND upper(r.city) < 'A(1)'"
    assert is_same(fingerprint(sql), fingerprint(sql.replace("ABS", "abs").replace("upper", "Upper")))
    assert not is_same(fingerprint(sql), fingerprint(sql.replace("'A(1)'", "'a(1)'")))


def test_common_table_expressions_are_part_of_it(fingerprint: Fingerprint) -> None:
    sql = "WITH q AS (SELECT id, x + {by} AS x FROM r UNION ALL SELECT id, x FROM r) " + BAND.format(r="q AS r")
    assert "x + 1" in difference(fingerprint(sql.format(by=1)), fingerprint(sql.format(by=2)))


@pytest.mark.parametrize(("condition", "before", "after"), [("r.city = :v", "Rome", "Oslo"), ("s.x > :v", 7, 8)])
def test_arguments_are_part_of_it(fingerprint: Fingerprint, condition: str, before: Any, after: Any) -> None:
    """Those that are written into conditions as literals, and those that stay parameters, such as text."""
    sql = f"{BAND.format(r='r')} AND {condition}"
    assert fingerprint(sql, before) != fingerprint(sql, after)


def test_arguments_above_the_join_are_not_part_of_it(fingerprint: Fingerprint) -> None:
    sql = BAND.format(r="r").replace("s.id AS other", "s.id + :v AS other")
    assert fingerprint(sql, 1) == fingerprint(sql, 2)


def test_types_of_keys_are_part_of_it(fingerprint: Fingerprint) -> None:
    """A key outside the SELECT list is stored too; Arrow would fail on two types, with a traceback at every start."""
    sql = BAND.format(r="r")
    assert "keys of r was r.x int and is now r.x bigint" in difference(fingerprint(sql), fingerprint(sql, x="BIGINT"))


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark 4.0 has no WATERMARK in FROM")
def test_the_event_time_is_part_of_it(fingerprint: Fingerprint) -> None:
    with_time = [f"{name} WATERMARK ts DELAY OF INTERVAL {delay} AS {name}" for name, delay in DELAYS]
    sql = f"SELECT r.id FROM {' JOIN '.join(with_time)} ON r.x < s.x WITHIN 1 MINUTE"
    late = sql.replace("10 SECONDS", "20 SECONDS")
    assert fingerprint(late) == fingerprint(sql), "a watermark's delay may change at any restart"
    without = (
        "SELECT r.id FROM r JOIN s ON r.x < s.x AND r.ts BETWEEN s.ts - INTERVAL 1 MINUTE AND s.ts + INTERVAL 1 MINUTE"
    )
    assert "event time of r was ts and is now none" in difference(fingerprint(sql), fingerprint(without))


@pytest.mark.parametrize(
    "delay",
    [
        "INTERVAL 2 HOURS",
        "INTERVAL 1 HOUR 30 MINUTES",
        "INTERVAL '1 hour 30 minutes'",
        "INTERVAL '1:30' HOUR TO MINUTE",
    ],
)
@pytest.mark.parametrize("query", ["SELECT * FROM r {}", "SELECT a FROM (SELECT a FROM r {} AS x WHERE a > 1) AS y"])
def test_a_delay_in_any_spelling_is_left_out(query: str, delay: str) -> None:
    said = query.format("WATERMARK ts DELAY OF INTERVAL 10 SECONDS")
    other = parse_statement(query.format(f"WATERMARK ts DELAY OF {delay}")).tree
    assert other is not None
    assert without_delays(render(other)) == without_delays(said)
    assert without_delays(said) != without_delays(said.replace("WATERMARK ts", "WATERMARK later"))


def test_a_hint_does_not_keep_what_is_another_query() -> None:
    """What only the new query has is a difference too: with the hint it would be refused again."""
    biclique, other = "scheme: biclique\nstream r: id int", "scheme: matrix\nstream r: id int"
    assert only_chosen_differs(biclique, other)
    assert not only_chosen_differs("scheme: biclique", "scheme: matrix\nargument x: 3")
    assert not only_chosen_differs("scheme: biclique\nargument x: 3", "scheme: matrix")


def test_a_hint_keeps_the_order_of_a_tree() -> None:
    """A checkpoint holds intermediate results of one order; before orders were chosen, it was that of FROM."""
    old = "scheme: tree\norder of streams: r, s, the t"
    new = old.replace("tree", "tree\noption order: 1,2,0")
    assert only_chosen_differs(old, new)
    assert [group_of(text).hint for text in (old, new)] == [
        "SCHEME('tree(r, s, `the t`)')",
        "SCHEME('tree(s, `the t`, r)')",
    ]
    assert "option order was 1,2,0 and is now absent" in difference(new, old)


def test_what_is_above_the_join_is_not_part_of_it(fingerprint: Fingerprint) -> None:
    """Another projection of the same columns, names of its results, and how the text is laid out."""
    sql = BAND.format(r="r")
    assert fingerprint(sql.replace("r.id,", "r.id + 1 AS one,")) == fingerprint(sql)
    assert fingerprint(sql.replace(" FROM ", "\n  FROM ").replace("JOIN", "join")) == fingerprint(sql)


def test_what_follows_from_a_scheme_does_not_hide_the_hint_that_keeps_it(fingerprint: Fingerprint) -> None:
    """Another scheme packs other columns; that is no difference of the query."""
    sql = BAND.format(r="r").replace("ABS(r.x - s.x) < 5", "r.id = s.id AND r.x < s.x")
    old = fingerprint(sql.replace("SELECT", "SELECT /*+ SCHEME('biclique'), ROUTING('random') */"))
    new = fingerprint(sql.replace("SELECT", "SELECT /*+ SCHEME('matrix'), UNITS(3) */"))
    assert only_chosen_differs(old, new)
    assert "stored columns" not in difference(old, new)
    changed = fingerprint(sql.replace("<", "<=").replace("SELECT", "SELECT /*+ SCHEME('matrix') */"))
    assert not only_chosen_differs(old, changed)
