"""Finding predicates in SQL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trijoin_sql.explain.sql_text import locate, pieces, tokens

from .samples import CYCLIC, SAMPLES


def found(sql: str, *predicates: str) -> list[str | None]:
    """Return the text that each predicate was found as."""
    places = {span.key: sql[span.start : span.end] for span in locate(sql, predicates)}
    return [places.get(i) for i in range(len(predicates))]


@given(st.text(max_size=200))
def test_tokens_are_the_text(sql: str) -> None:
    assert "".join(token.text for token in tokens(sql)) == sql


@given(st.text(alphabet="ab.'\"`-/*()<>=! \n1", max_size=80), st.lists(st.text(alphabet="ab.=<>() ", max_size=8)))
def test_pieces_are_the_text(sql: str, predicates: list[str]) -> None:
    cut = list(pieces(sql, locate(sql, predicates)))
    assert "".join(token.text for piece in cut for token in piece.tokens) == sql


@pytest.mark.parametrize(
    ("sql", "predicate", "text"),
    [
        ("ON r.a=s.b", "r.a = s.b", "r.a=s.b"),
        ("ON R.A  =\n S.b", "r.a = s.b", "R.A  =\n S.b"),
        ("ON `r`.a = s.b", "r.a = s.b", "`r`.a = s.b"),
        ("ON r.a != s.b", "r.a <> s.b", "r.a != s.b"),
        ("ON r.a == s.b", "r.a = s.b", "r.a == s.b"),
        ("ON s.b > r.a", "r.a < s.b", "s.b > r.a"),
        ("ON (r.a + 1) < s.b AND x", "r.a + 1 < s.b", "(r.a + 1) < s.b"),
        ("ON r.a + 1 < s.b", "(r.a + 1) < s.b", "r.a + 1 < s.b"),
        ("ON r.t < s.t + INTERVAL 5 MINUTES", "r.t < s.t + INTERVAL '5' MINUTE", "r.t < s.t + INTERVAL 5 MINUTES"),
        ("WHERE x WITHIN 10 MINUTES", "WITHIN '10' MINUTE", "WITHIN 10 MINUTES"),
        ("WHERE x WITHIN INTERVAL '10' MINUTES", "WITHIN '10' MINUTE", "WITHIN INTERVAL '10' MINUTES"),
        ("ON abs(r.a-s.b)<3", "ABS(r.a - s.b) < 3", "abs(r.a-s.b)<3"),
        ("ON r.a /* why */ = s.b", "r.a = s.b", "r.a /* why */ = s.b"),
        ("ON r.a = 'X' AND r.a = s.b", "r.a = s.b", "r.a = s.b"),
        ("ON r.a = s.b.c", "r.a = s.b", None),
        ("ON r.a = s.b + 1", "r.a = s.b", None),
        ("-- r.a = s.b", "r.a = s.b", None),
        ("ON r.a = 'B'", "r.a = 'b'", None),
        ("", "r.a = s.b", None),
        ("ON r.a = s.b", "", None),
    ],
)
def test_where_a_predicate_stands(sql: str, predicate: str, text: str | None) -> None:
    assert found(sql, predicate) == [text]


def test_each_place_is_given_once() -> None:
    assert found("r.a = s.b AND x AND r.a = s.b", "r.a = s.b", "r.a = s.b", "r.a = s.b") == [
        "r.a = s.b", "r.a = s.b", None
    ]  # fmt: skip


def test_longer_predicates_win() -> None:
    assert found("r.a = s.b OR r.c", "r.a = s.b", "r.a = s.b OR r.c") == [None, "r.a = s.b OR r.c"]


def test_all_predicates_of_a_query() -> None:
    graph = CYCLIC["groups"][0]["graph"]
    predicates = [p["sql"] for edge in graph["edges"] for p in edge["predicates"]] + graph["residuals"]
    assert None not in found(SAMPLES["cyclic"]["sql"], *predicates)
