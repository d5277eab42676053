"""The table of errors: complete, well-formed, and the classes that carry its rows."""

from __future__ import annotations

import pickle
import re
from string import Formatter

import pytest

import trijoin_sql
from trijoin_sql import errors

EXAMPLES = [
    errors.SqlSyntaxError("unexpected FROM", "SELECT\n  FROM r", line=2, column=3),
    errors.UnsupportedQueryError("a theta outer join on streams", hint="use an inner join"),
    errors.NotProvenError("rows of r are kept for ever", "r", "add WITHIN 10 MINUTES", "SELECT 1 FROM r", 14),
    errors.UnavailableError("resuming", "a checkpoint cannot be read through Spark Connect", hint="write its hints"),
    errors.InvalidHintError("UNITS(0)", "units start at 1"),
    errors.InvalidSettingError("trijoin.units", "many", "an integer is needed"),
    errors.JobError("there is no format named parket", "job.sql", "CREATE STREAM r USING parket", 1, 23, "try parquet"),
    errors.PlanError("two nodes with one name"),
    errors.CheckpointMismatchError("/tmp/checkpoint", "the predicate r.a < s.a is new"),
    errors.CheckpointVersionError("/tmp/checkpoint", "its state has format 3, and this version reads format 2"),
    errors.SinkMismatchError("/tmp/checkpoint", "out holds the batches up to 5 of another checkpoint"),
    errors.CheckpointDamagedError("/tmp/checkpoint", "chunk 7 is missing from the state store"),
    errors.JoinOverflowError("r.a - s.a", "BIGINT"),
]


def classes() -> set[type[errors.TriJoinError]]:
    return {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.TriJoinError) and value is not errors.TriJoinError
    }


@pytest.mark.parametrize("place", [0, 3, 49, 51, 150, 299, 340, 350, 396, 400])
@pytest.mark.parametrize("tab", ["", "\t"])
def test_a_long_line_is_shown_around_its_place(place: int, tab: str) -> None:
    """A caret behind hundreds of characters stood on another line of the terminal, below nothing."""
    line = tab + "".join(f"{number:04}" for number in range(100))
    text = f"SELECT\n{line}\nFROM r"
    error = errors.SqlSyntaxError("wrong", text, 2, place + len(tab) + 1)
    _, shown, caret = str(error).splitlines()
    assert len(shown) <= errors.SHOWN + 2
    assert shown.strip("…") in line
    assert (shown.startswith("…"), shown.endswith("…")) == (
        not line.startswith(shown[:9]),
        not line.endswith(shown[-9:]),
    )
    at = caret.index("^")
    assert caret.count("\t") == shown[:at].count("\t")
    if place < 400:
        assert shown[at : at + 3].strip("…") in line[place + len(tab) : place + len(tab) + 3]
        assert line.index(shown.strip("…")) + at - shown.startswith("…") == place + len(tab)
    else:
        assert at == len(shown)


def test_every_class_and_every_condition_has_an_example() -> None:
    assert {type(error) for error in EXAMPLES} == classes()
    assert {error.condition for error in EXAMPLES} == set(errors.CONDITIONS)


def test_every_class_is_exported() -> None:
    assert {name.__name__ for name in classes()} | {"TriJoinError"} <= set(trijoin_sql.__all__)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_follows_pysparks_conventions(error: errors.TriJoinError) -> None:
    condition = errors.CONDITIONS[error.getCondition()]
    assert re.fullmatch(r"[0-9A-Z]{5}", error.getSqlState())
    fields = {field for _, field, _, _ in Formatter().parse(condition.message) if field}
    assert fields == set(error.getMessageParameters())
    assert str(error).startswith(f"[{error.condition}] ")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_a_syntax_error_points_at_the_place() -> None:
    error = EXAMPLES[0]
    *_, text, caret = str(error).splitlines()
    assert text[caret.index("^") :].startswith("FROM")
    assert error.getMessageParameters() == {"detail": "unexpected FROM", "line": "2", "column": "3"}
    assert error.message == "Syntax error: unexpected FROM (line 2, column 3)"


def test_the_caret_stands_below_a_tab_as_wide_as_it_is() -> None:
    assert str(errors.SqlSyntaxError("unexpected FROM", "\tSELECT FROM r", 1, 9)).endswith("\n\t       ^")


def test_a_column_named_like_a_secret_is_none() -> None:
    """It stands in conditions, which errors have to show."""
    sql = "SELECT r.token, s.token x FROM r JOIN s ON r.token = s.token WHERE MAX(token) < 3"
    assert errors.without_secrets(sql) == sql
    assert errors.without_secrets("SET my.token = a.b; SET x = y") == "SET my.token = ***; SET x = y"
