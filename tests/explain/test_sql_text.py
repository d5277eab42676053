"""SQL cut into tokens, for colours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trijoin_sql.explain.sql_text import tokens


@given(st.text(max_size=200))
def test_tokens_are_the_text(sql: str) -> None:
    assert "".join(token.text for token in tokens(sql)) == sql


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("SELECT a.from", ["keyword", "space", "word", "operator", "word"]),
        ("'it''s' -- 'no'", ["string", "space", "comment"]),
        ("`a``b`<=>1.5e3", ["quoted", "operator", "number"]),
    ],
)
def test_kinds_of_tokens(sql: str, kinds: list[str]) -> None:
    assert [token.kind for token in tokens(sql)] == kinds
