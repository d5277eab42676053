"""Finds names that do not resolve, and what Spark does with no column, from the text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from ..errors import SqlSyntaxError, UnsupportedQueryError
from ..rewriter.mistakes import mistakes
from ..rewriter.names.resolve import resolve
from ..rewriter.names.scopes import Misnamed, Resolution
from ..rewriter.sql.catalog import DdlCatalog
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.statement import parse_statement
from .job_text import Script, did_you_mean


def check_columns(script: Script, sql: str, start: int, catalog: DdlCatalog, *, ansi: bool = False) -> None:
    """Check the columns of a statement and what it does with them, as far as all relations in scope are known.

    Other names – a field of a struct, a column of a relation that only Spark knows – are left to Spark, and so is a
    statement that does not parse. ``start`` is where in the file it begins, ``ansi`` tells that Spark certainly casts
    as ANSI mode does.

    Raises
    ------
    JobError
        At the first column that no relation has, or that several have; at the first mistake of `mistakes`.
    """
    found = _resolved(script, sql, start, catalog)
    if found is None:
        return
    variables = {*_declared(script, "declare", start), *_declared(script, "variable", start)}
    for misnamed in found.misnamed:
        column = misnamed.column
        # Names with _ are Spark's own, such as _metadata.
        if not column.name.startswith("_") and not {column.name.lower(), column.table.lower()} & variables:
            first = column.args["table"] if column.table else column.this
            script.fail(start + int(first.meta.get("start") or 0), *_told(misnamed))
    if "function" not in [token.text.lower() for token in tokenize(script.text)]:  # of the file's own, by any name
        for one in mistakes(found, sql, ansi=ansi):
            script.fail(start + one.at, one.reason, one.hint)


def unknown_relation(
    script: Script, sql: str, start: int, catalog: DdlCatalog, error: UnsupportedQueryError
) -> Exception | None:
    """Return a mistake in the name of a relation that has no event time for WITHIN because nothing declares it."""
    alias = re.fullmatch(r"WITHIN needs the event time of (.+)", error.reason)
    tree = parse_statement(sql).tree
    if alias is None or tree is None:
        return None
    for table in tree.find_all(exp.Table):
        name = ".".join(part.name for part in table.parts)
        if table.alias_or_name == alias[1] and catalog.table(tuple(name.split("."))) is None:
            at = table.parts[0].meta.get("start")
            if name and at is not None:
                known = [known for known, _ in catalog.tables]
                detail = f"there is no stream or table named {name} in this file"
                return script.error(start + int(at), detail, did_you_mean(name, known))
    return None


def _resolved(script: Script, sql: str, start: int, catalog: DdlCatalog) -> Resolution | None:
    """Resolve a statement's names over the tables that a file certainly declares; None if nothing is certain."""
    if "spark.sql.casesensitive" in script.text.lower():
        return None
    try:
        tree = parse_statement(sql).tree
    except SqlSyntaxError:
        return None
    hidden = {*_declared(script, "view", start), *_declared(script, "table", start)}
    known = tuple((name, info) for name, info in catalog.tables if info.columns and name.lower() not in hidden)
    return None if tree is None else resolve(tree, DdlCatalog(known))


def _told(misnamed: Misnamed) -> tuple[str, str]:
    """Return what is wrong with a column, and a hint."""
    column, sources = misnamed.column, misnamed.sources
    aliases = [source.alias for source in sources if not source.alias.startswith("__")]
    if misnamed.ambiguous:
        choices = " or ".join(f"{alias}.{column.name}" for alias in aliases)
        return f"the column {column.name} is ambiguous: {' and '.join(aliases)} have it", f"write {choices}"
    names = [field.name for source in sources for field in source.fields or ()]
    if not column.table:
        have = "has" if len(aliases) == 1 else "have"
        detail = f"`{column.name}` cannot be resolved: {', '.join(aliases)} {have} no column {column.name}"
        return detail, did_you_mean(column.name, list(dict.fromkeys(names)))
    detail = f"`{column.table}`.`{column.name}` cannot be resolved: "
    if len(sources) > 1 or column.table.lower() not in (sources[0].alias.lower(), *sources[0].parts[-1:]):
        return f"{detail}there is no relation {column.table} here", did_you_mean(column.table, aliases)
    return f"{detail}{sources[0].parts[-1]} has no column {column.name}", did_you_mean(column.name, names)


def _declared(script: Script, word: str, end: int) -> Iterator[str]:
    """Yield the names that a file declares before an offset behind a word: a view may hide a stream."""
    words = [token.text.lower() for token in tokenize(script.text) if token.start < end]
    for number, one in enumerate(words):
        if one == word:
            yield from words[number + 1 : number + 6]
