"""Whether syntax trees that all queries share are still what their texts say, with each node a part of its own tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlglot import exp
from trijoin_sql.rewriter.sql import dialect


def intact(sql: str) -> bool:
    """Tell whether the tree that `parse_expression` keeps for a text is as it would read it anew."""
    kept, fresh = dialect.parse_expression(sql), dialect.parse_expression.__wrapped__(sql)
    held = all(child.parent is node for node in kept.walk() for child in node.iter_expressions())
    return held and kept.parent is None and kept == fresh


@contextmanager
def watched() -> Iterator[list[str]]:
    """Note the texts whose trees `parse_expression` makes."""
    made: list[str] = []
    parse = dialect.DIALECT.parse_into

    def noted(kind: Any, sql: str, **options: Any) -> Any:
        found = parse(kind, sql, **options)
        if kind is exp.Condition:  # that can be read
            made.append(sql)
        return found

    dialect.parse_expression.cache_clear()  # what is there already was not noted
    dialect.DIALECT.parse_into = noted  # type: ignore[method-assign]
    try:
        yield made
    finally:
        dialect.DIALECT.parse_into = parse  # type: ignore[method-assign]
