"""Finds columns that a stream does not have, and ambiguous ones, from the text alone."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import SqlSyntaxError
from ..rewriter.names.resolve import resolve
from ..rewriter.names.scopes import Misnamed
from ..rewriter.sql.catalog import DdlCatalog
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.statement import parse_statement
from .job_text import Script, did_you_mean


def check_columns(script: Script, sql: str, start: int, catalog: DdlCatalog) -> None:
    """Check the columns of a statement, as far as all relations in scope are known.

    Other names – a field of a struct, a column of a relation that only Spark knows – are left to Spark, and so is a
    statement that does not parse. ``start`` is where in the file it begins.

    Raises
    ------
    JobError
        At the first column that no relation has, or that several have.
    """
    try:
        tree = parse_statement(sql).tree
    except SqlSyntaxError:
        return
    if tree is None:
        return
    hidden = {*_declared(script, "view", start), *_declared(script, "table", start)}
    known = tuple((name, info) for name, info in catalog.tables if info.columns and name.lower() not in hidden)
    variables = {*_declared(script, "declare", start), *_declared(script, "variable", start)}
    for misnamed in resolve(tree, DdlCatalog(known)).misnamed:
        column = misnamed.column
        # Names with _ are Spark's own, such as _metadata.
        if not column.name.startswith("_") and not {column.name.lower(), column.table.lower()} & variables:
            first = column.args["table"] if column.table else column.this
            script.fail(start + int(first.meta.get("start") or 0), *_told(misnamed))


def _told(misnamed: Misnamed) -> tuple[str, str]:
    """Return what is wrong with a column, and a hint."""
    column, sources = misnamed.column, misnamed.sources
    aliases = [source.alias for source in sources if not source.alias.startswith("__")]
    if misnamed.ambiguous:
        choices = " or ".join(f"{alias}.{column.name}" for alias in aliases)
        return f"the column {column.name} is ambiguous: {' and '.join(aliases)} have it", f"write {choices}"
    names = [field.name for source in sources for field in source.fields or ()]
    if not column.table:
        detail = f"`{column.name}` cannot be resolved: {', '.join(aliases)} {_have(aliases)} no column {column.name}"
        return detail, did_you_mean(column.name, list(dict.fromkeys(names)))
    detail = f"`{column.table}`.`{column.name}` cannot be resolved: "
    if len(sources) > 1 or column.table.lower() not in (sources[0].alias.lower(), *sources[0].parts[-1:]):
        return f"{detail}there is no relation {column.table} here", did_you_mean(column.table, aliases)
    return f"{detail}{sources[0].parts[-1]} has no column {column.name}", did_you_mean(column.name, names)


def _have(aliases: list[str]) -> str:
    return "has" if len(aliases) == 1 else "have"


def _declared(script: Script, word: str, end: int) -> Iterator[str]:
    """Yield the names that a file declares before an offset behind a word: a view may hide a stream."""
    words = [token.text.lower() for token in tokenize(script.text) if token.start < end]
    for number, one in enumerate(words):
        if one == word:
            yield from words[number + 1 : number + 6]
