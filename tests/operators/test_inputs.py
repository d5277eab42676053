"""How SQL over the outputs of join nodes reaches Spark."""

from __future__ import annotations

from typing import Any

import pytest
from trijoin_sql.operators.inputs import run_sql


class Recorder:
    """Stands in for a session and keeps what it was asked."""

    def sql(self, text: str, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        return text, kwargs


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("SELECT j_1.a FROM j_1, j_10", "SELECT {j_1}.a FROM {j_1}, {j_10}"),
        ("SELECT `j_10`.a, '{}' FROM `j_10`", "SELECT {j_10}.a, '{{}}' FROM {j_10}"),
    ],
)
def test_nodes_are_found_by_whole_words(text: str, asked: str) -> None:
    below: dict[str, Any] = {f"j_{number}": f"frame {number}" for number in range(1, 12)}
    found, used = run_sql(Recorder(), text, below, None)  # type: ignore[arg-type]
    assert found == asked
    names = {name for name in below if "{" + name + "}" in asked}
    assert used == {"args": None, **{name: below[name] for name in names}}


def test_other_text_is_left_as_it_is() -> None:
    assert run_sql(Recorder(), "SELECT '{x}'", {}, None) == ("SELECT '{x}'", {})  # type: ignore[arg-type]
