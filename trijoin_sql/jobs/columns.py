"""Finds columns that a stream does not have, from the text alone."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import SqlSyntaxError
from ..rewriter.names.resolve import resolve
from ..rewriter.sql.catalog import DdlCatalog
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.statement import parse_statement
from .job_text import Script, did_you_mean


def check_columns(script: Script, sql: str, start: int, catalog: DdlCatalog) -> None:
    """Check the qualified columns of a statement (``r.x``) whose qualifier is a stream with known columns.

    Other names – a field of a struct, an output of a subquery, a column of a view – are left to Spark, and so is a
    statement that does not parse. ``start`` is where in the file it begins.

    Raises
    ------
    JobError
        At the first column that a stream does not have.
    """
    try:
        tree = parse_statement(sql).tree
    except SqlSyntaxError:
        return
    if tree is None:
        return
    hidden = set(_views(script))
    known = tuple((name, info) for name, info in catalog.tables if info.columns and name.lower() not in hidden)
    for column, source in resolve(tree, DdlCatalog(known)).missing:
        if not column.name.startswith("_"):  # Spark's own columns, such as _metadata
            place = start + int(column.args["table"].meta.get("start") or 0)
            table = source.parts[-1]
            detail = f"`{column.table}`.`{column.name}` cannot be resolved: {table} has no column {column.name}"
            script.fail(place, detail, did_you_mean(column.name, [field.name for field in source.fields or ()]))


def _views(script: Script) -> Iterator[str]:
    """Yield the names of the views that a file makes: one may hide a stream."""
    words = [token.text.lower() for token in tokenize(script.text)]
    for number, word in enumerate(words):
        if word == "view":
            yield from words[number + 1 : number + 6]
