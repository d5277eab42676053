"""Finds the place in the job file of what Spark refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from sqlglot.tokenizer_core import TokenType

from ..errors import (
    InvalidHintError,
    InvalidSettingError,
    JobError,
    SqlSyntaxError,
    TriJoinError,
    UnsupportedQueryError,
)
from ..rewriter.sql.clauses import Word
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.similar import did_you_mean
from ..spark.messages import sentence
from .job_text import Script

#: Message parameters of Spark that hold a name from the statement, the most useful first.
_NAMES = (
    "objectName",
    "relationName",
    "routineName",
    "fieldName",
    "columnName",
    "name",
    "expression",
    "expr",
    "dataType",
)


def locate(error: Exception, script: Script, sql: Word, tables: Callable[[], list[str]]) -> JobError:
    """Return an error of ours or of PySpark's at its place in the job file.

    ``tables`` returns the names of all streams, views and tables.
    """
    if isinstance(error, SqlSyntaxError):
        return script.syntax_error(error, sql.start)
    if isinstance(error, InvalidHintError):
        name = error.parameters["hint"].partition("(")[0].strip().lower()
        at = sql.text.lower().find(name) if name else -1
        return script.error(sql.start + max(at, 0), error.message)
    if isinstance(error, InvalidSettingError) and (set_at := _set_at(script.text[: sql.start], error)) is not None:
        return script.error(set_at, error.message)
    if isinstance(error, UnsupportedQueryError) and error.offset is not None:
        return script.error(sql.start + error.offset, error.unplaced, error.hint)
    if isinstance(error, TriJoinError):
        return script.error(sql.start, error.message, error.hint)
    if (unknown := _unknown_table(error)) is not None:
        detail = f"there is no stream or table named {unknown}"
        return script.error(sql.start + _offset(error, sql.text), detail, did_you_mean(unknown, tables()))
    hint = None
    if "CANNOT_MODIFY" in str(error):
        hint = "this setting counts when Spark starts: give it with --conf KEY=VALUE"
    elif "INVALID_TEMP_OBJ_REFERENCE" in str(error):
        hint = "streams last as long as the job, and so do views over them: write CREATE TEMPORARY VIEW"
    return script.error(sql.start + _offset(error, sql.text), sentence(error), hint)


def _unknown_table(error: Any) -> str | None:
    """Return the name of a table that Spark did not find; Spark's message is about catalogs and search paths."""
    if not str(error).startswith("[TABLE_OR_VIEW_NOT_FOUND]"):
        return None
    name = (error.getMessageParameters() or {}).get("relationName")
    return name.replace("`", "").removeprefix("spark_catalog.default.") if name else None


def _set_at(text: str, error: InvalidSettingError) -> int | None:
    """Return where the job file last set the setting of an error, None if it did not."""
    name = re.escape(error.parameters["setting"])
    found = list(re.finditer(rf"\bSET\s+`?({name})`?\s*=", text, re.IGNORECASE))
    return found[-1].start(1) if found else None


def _offset(error: Any, sql: str) -> int:
    """Return the place of a Spark error in a statement, 0 if it is not known."""
    placed = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    if placed:
        return Script("", sql).offset(0, int(placed[1]), int(placed[2]) + 1)
    if "FILTER_NOT_BOOLEAN" in str(error):  # Spark marks the whole SELECT
        return _after(sql, "WHERE")
    for context in _contexts(error):
        start, fragment = context.startIndex(), context.fragment()
        if fragment and sql[start : start + len(fragment)] == fragment:
            return int(start)
    parameters = error.getMessageParameters() if hasattr(error, "getMessageParameters") else None
    for key in _NAMES:
        name = (parameters or {}).get(key)
        found = _find(sql, name) if name else None
        if found is not None:
            return found
    return 0


def _contexts(error: Any) -> list[Any]:
    try:
        return [context for context in error.getQueryContext() if context.contextType().name == "SQL"]
    except (AttributeError, TypeError):
        return []


def _after(sql: str, word: str) -> int:
    """Return where the token after a word begins."""
    tokens = tokenize(sql)
    found = (after.start for token, after in pairwise(tokens) if token.text.upper() == word)
    return int(next(found, 0))


def _find(sql: str, name: str) -> int | None:
    """Return the place in a statement of a name that Spark writes in back quotes or double quotes."""
    last = re.findall(r"[^`\".]+", name)[-1:] or [name]
    try:
        tokens = tokenize(sql)
    except SqlSyntaxError:
        return None
    for token in tokens:
        if token.token_type not in (TokenType.STRING, TokenType.RAW_STRING) and token.text.lower() == last[0].lower():
            return int(token.start)
    return None
