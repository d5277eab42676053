"""What an older Spark lacks is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from trijoin_sql.errors import UnavailableError
from trijoin_sql.spark.versions import OLDEST, lacks, lacks_clause, minor, refuse_older


@pytest.mark.parametrize(
    ("version", "text", "position", "told"),
    [
        # an older parser takes the word for an alias, and stumbles later
        ("4.1.0", "SELECT * FROM t QUALIFY row_number() OVER (ORDER BY a) = 1", 24, "QUALIFY"),
        ("4.2.1", "SELECT * FROM r ASOF JOIN s MATCH_CONDITION (r.a >= s.a)", 44, "MATCH_CONDITION"),
        ("4.2.1", "SELECT * FROM r ASOF LEFT JOIN", 30, "ASOF"),
        ("4.1.2", "SELECT * FROM r JOIN s APPROX NEAREST 5 BY DISTANCE x", 30, "NEAREST"),
        ("4.2.0", "SELECT * FROM t QUALIFY row_number() OVER (ORDER BY a) = 1 1", 59, None),
        ("4.3.0", "SELECT * FROM r ASOF JOIN s MATCH_CONDITION (r.a >= s.a", 44, None),
        ("4.1.0", "SELECT `qualify` FROM t t t", 26, None),
        ("4.1.0", "SELECT qualify, a, b, c, d, e FROM t t t", 39, None),
    ],
)
def test_a_word_of_a_newer_spark(version: str, text: str, position: int, told: str | None) -> None:
    """A mistake somewhere else is Spark's to say."""
    found = lacks(version, text, Exception(f"[PARSE_SYNTAX_ERROR] Syntax error. (line 1, pos {position})"))
    assert (found and found.getMessageParameters()["what"]) == told
    if found is not None:
        assert f"and this is Spark {version}" in str(found)


def test_the_place_is_found_in_several_lines() -> None:
    text = "SELECT *\nFROM t\nQUALIFY row_number() OVER (ORDER BY a) = 1"
    assert lacks("4.1.0", text, Exception("(line 3, pos 8)")) is not None
    assert lacks("4.1.0", text, Exception("(line 2, pos 5)")) is None
    assert lacks("4.1.0", text, Exception("no place")) is None


@pytest.mark.parametrize(
    ("version", "text", "told"),
    [
        ("4.0.2", "SELECT * FROM STREAM r", "STREAM in FROM"),
        ("4.0.2", "SELECT * FROM r watermark ts\ndelay of INTERVAL 1 HOUR AS x", "WATERMARK in FROM"),
        ("4.0.2", "SELECT * FROM r JOIN STREAM (s)", "STREAM in FROM"),
        ("4.0.2", "SELECT stream.a FROM r AS stream JOIN s", None),
        ("4.1.0", "SELECT * FROM STREAM r", None),
    ],
)
def test_a_clause_that_spark_4_0_takes_for_a_name(version: str, text: str, told: str | None) -> None:
    found = lacks_clause(version, text, "PARSE_SYNTAX_ERROR")
    assert lacks_clause(version, text, "DIVIDE_BY_ZERO") is None
    assert (found and found.getMessageParameters()["what"]) == told


@pytest.mark.parametrize("version", ["3.5.9", "2.4.8"])
def test_an_older_spark_is_refused(version: str) -> None:
    with pytest.raises(UnavailableError, match=rf"Spark {version}.*needs Spark 4\.0 or newer"):
        refuse_older(version)


@pytest.mark.parametrize("version", ["4.0.0", "4.1.0", "4.3.0", "4.4.0.dev1", "5.0.0-SNAPSHOT", "nightly"])
def test_another_spark_is_not(version: str) -> None:
    refuse_older(version)  # raises nothing
    assert minor(version) >= OLDEST


def test_versions_are_compared_as_numbers() -> None:
    assert minor("4.10.1") > minor("4.2.0")


def test_a_session_looks_at_its_spark() -> None:
    from trijoin_sql import TriJoinSession

    class Session:
        readStream: Any = None  # noqa: N815
        version = "3.5.9"

    with pytest.raises(UnavailableError, match=r"Spark 3\.5\.9"):
        TriJoinSession.create(Session())  # type: ignore[arg-type]
