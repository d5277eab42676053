"""What Enter does with unfinished text, what is parsed as a job is, and what can be completed. No Spark."""

from __future__ import annotations

import doctest

import pytest
from rich.console import Console

from trijoin_sql.errors import JobError
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.statements import CreateSink, CreateStream, InsertInto, SparkStatement, StartSetting
from trijoin_sql.shell import completion, entered
from trijoin_sql.shell.completion import Names, suggestions
from trijoin_sql.shell.entered import Drop, is_complete, read_entered

NAMES = Names(
    {"orders": ("id", "total", "ts"), "paid": ("order_id", "ts"), "odd name": ("a b",)}, ("near",), ("timestampdiff",)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("DROP TABLE r;", "write DROP STREAM r"),
        ("DROP VIEW R;", "write DROP STREAM R"),
        ("CREATE STREAM t USING rate; INSERT INTO t SELECT 1;", "t is a stream"),
        ("INSERT INTO r SELECT 1;", "rows are inserted into a sink"),
    ],
)
def test_a_stream_is_no_table(text: str, says: str) -> None:
    with pytest.raises(JobError, match=says):
        read_entered(Script("shell", text), (), ("r",))


def parsed(text: str, *sinks: str) -> list[entered.Entered]:
    return read_entered(Script("shell", text), sinks)


@pytest.mark.parametrize("module", [completion, entered])
def test_the_examples_are_right(module: object) -> None:
    tried = doctest.testmod(module)  # type: ignore[arg-type]
    assert tried.attempted > 0
    assert tried.failed == 0


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;\n", True),
        ("SELECT 1; SELECT", False),
        ("SELECT 'a;", False),
        ("SELECT `a;", False),
        ("SELECT 1 -- ;", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1; /* done */", True),
        ("-- only a comment", True),
        ("\\rows 5", True),
        ("quit", True),
        ("exit;", True),
        ("SELECT help", False),
    ],
)
def test_enter_runs_only_what_a_semicolon_ends(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_statements_are_those_of_a_job_and_more() -> None:
    text = """CREATE OR REPLACE STREAM r USING rate; CREATE SINK near USING noop; INSERT INTO near SELECT 1;
    INSERT INTO `NEAR` SELECT 1; INSERT INTO a_table VALUES (1); SELECT 1; EXPLAIN SELECT 1; DROP SINK near;
    SET spark.jars.packages = a:b:1; SHOW TABLES"""
    found = parsed(text)
    kinds = [type(one.statement) for one in found]
    inserts = [InsertInto, InsertInto, SparkStatement]
    assert kinds == [
        CreateStream,
        CreateSink,
        *inserts,
        SparkStatement,
        SparkStatement,
        Drop,
        StartSetting,
        SparkStatement,
    ]
    assert [one.replaces for one in found] == [True] + [False] * 9
    table = found[4].statement
    assert isinstance(table, SparkStatement)
    assert (table.sql.text, table.sql.start) == ("INSERT INTO a_table VALUES (1)", text.index("INSERT INTO a_table"))


def test_a_sink_of_an_earlier_input_is_known() -> None:
    assert isinstance(parsed("INSERT INTO Near SELECT 1", "near")[0].statement, InsertInto)
    assert isinstance(parsed("INSERT INTO near SELECT 1")[0].statement, SparkStatement)


@pytest.mark.parametrize(
    ("text", "place", "detail"),
    [
        ("SELECT 1;\nCREATE STREAM r", (2, 16), "USING and a format are missing"),
        ("CRAETE STREAM r", (1, 1), "did you mean CREATE"),
        ("DROP STREAM", (1, 12), "the stream has no name"),
        ("DROP SINK a b", (1, 13), "takes the name of a sink"),
        ("SELECT 'a", (1, 8), ""),
    ],
)
def test_a_mistake_has_its_place(text: str, place: tuple[int, int], detail: str) -> None:
    with pytest.raises(JobError) as caught:
        parsed(text)
    assert (caught.value.line, caught.value.column) == place
    assert detail in caught.value.told
    assert caught.value.told.count("^") == 1


def completed(text: str) -> list[str]:
    """Return what can stand at the mark | of a text."""
    cursor = text.index("|")
    return [found for found, _, _ in suggestions(text.replace("|", ""), cursor, NAMES)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM |", ["orders", "paid", "`odd name`"]),
        ("SELECT * FROM orders JOIN p|", ["paid"]),
        ("SELECT o.| FROM orders AS o", ["id", "total", "ts"]),
        ("SELECT O.t| FROM orders o JOIN paid", ["total", "ts"]),
        ("SELECT * FROM orders WHERE orders.i|", ["id"]),
        ("SELECT * FROM orders, paid x ON x.|", ["order_id", "ts"]),
        ("SELECT `odd name`.| FROM `odd name`", ["`a b`"]),
        ("INSERT INTO n|", ["near"]),
        ("SEL|", ["SELECT"]),
        ("select tot| from orders", ["total"]),
        ("SELECT timestampd|", ["timestampdiff"]),
        ("SELECT x.| FROM nothing AS x", []),
        ("SELECT * FROM orders; SELECT tot|", []),  # of the statement before
        ("SELECT |", []),  # nothing typed: no list of everything
    ],
)
def test_what_can_come_next(text: str, expected: list[str]) -> None:
    assert completed(text) == expected


def test_aliases_and_keywords_are_offered_in_the_case_that_is_typed() -> None:
    assert {"orders", "or", "order"} <= set(completed("SELECT * FROM orders WHERE or|"))
    assert {"OR", "ORDER"} <= set(completed("SELECT * FROM orders WHERE OR|"))
    assert "mine" in completed("SELECT mi| FROM orders AS mine")
    assert completed("SELECT * FROM orders WHERE o.|") == []  # WHERE is no alias


def test_values_cannot_write_to_the_terminal() -> None:
    """A value with an escape sequence or a line's end stays on its line; NULL is not the text NULL."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from trijoin_sql.shell.results import table

    schema = StructType([StructField("a\nb", LongType()), StructField("a\nb", StringType())])
    console = Console(width=60, force_terminal=True, color_system="standard")
    with console.capture() as captured:
        console.print(table(schema, [("1", "x\x1b[2Jy\nz"), (None, "[bold]long" + "g" * 90)], width=60))
    text = captured.get()
    assert "\x1b[2J" not in text
    assert r"x\x1b[2Jy\nz" in text
    assert "[bold]long" in text
    assert len(text.splitlines()) == 4
    assert "\x1b[2mNULL" in text


def test_all_rows_of_a_task_are_read_and_some_are_kept() -> None:
    import pyarrow as pa

    from trijoin_sql.shell.results import first_rows

    batches = [pa.RecordBatch.from_pydict({"a": list(range(start, start + 4))}) for start in (0, 4, 8)]
    source = iter(batches)
    kept = [value for batch in first_rows(6)(source) for value in batch["a"].to_pylist()]
    assert kept == [0, 1, 2, 3, 4, 5]
    assert list(source) == []
