"""Finds names that do not resolve, and what Spark does with no column, from the text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from ..errors import UnsupportedQueryError
from ..explain.wording import COLUMNS_UNKNOWN, IN_WAREHOUSE, NOT_DECLARED
from ..rewriter.mistakes import mistakes
from ..rewriter.names.resolve import resolve
from ..rewriter.names.scopes import Misnamed, Resolution
from ..rewriter.sql.catalog import DdlCatalog
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.functions import SPARKS, called, is_builtin
from ..rewriter.sql.similar import close, did_you_mean
from ..rewriter.sql.statement import parse_statement, tree_of
from .found_columns import is_path
from .job_text import Script


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
    found = _resolved(script, sql, catalog)
    if found is None:
        return
    variables = {*_declared(script, "declare", start), *_declared(script, "variable", start)}
    for misnamed in found.misnamed:
        column = misnamed.column
        # Names with _ are Spark's own, such as _metadata; one that is no word may be an expression's in a view.
        if re.fullmatch(r"[^\W_]\w*", column.name) and not {column.name.lower(), column.table.lower()} & variables:
            first = column.args["table"] if column.table else column.this
            script.fail(start + int(first.meta.get("start") or 0), *_told(misnamed))
    if "function" not in [token.text.lower() for token in tokenize(script.text)]:  # of the file's own, by any name
        for one in mistakes(found, sql, ansi=ansi):
            script.fail(start + one.at, one.reason, one.hint)


def why_unknown(
    script: Script, sql: str, start: int, catalog: DdlCatalog, error: UnsupportedQueryError
) -> Exception | None:
    """Return what is to be said where WITHIN is refused over a relation of which too little is known without Spark."""
    if error.unknown is None:
        return None
    for table, name, declared in _unknown_relations(sql, catalog):
        at = int(table.parts[0].meta.get("start") or 0)
        known = [known for known, _ in catalog.tables]
        slip = not declared and close(name, known) is not None  # whatever else is missing
        if error.unknown not in ("", table.alias_or_name) and not slip:
            continue
        if not declared:
            detail = f"there is no stream or table named {name} in this file"
            return script.error(start + at, detail, did_you_mean(name, known))
        detail = f"the columns of {name} are unknown without Spark, and {error.reason}"
        return script.error(start + at, detail, "declare them; trijoin-sql run has Spark read them")
    return None


def unknown_advice(sql: str, catalog: DdlCatalog) -> list[str]:
    """Return what EXPLAIN says of relations and functions that it does not know, in a file that declares streams."""
    known = [name for name, _ in catalog.tables]
    if not any(info.streaming for _, info in catalog.tables):
        return []
    said = []
    for _, name, declared in _unknown_relations(sql, catalog):
        best = None if declared else close(name, known)
        told = (COLUMNS_UNKNOWN if declared else NOT_DECLARED).format(name)
        said.append(f"{told} Did you mean {best}?" if best else told)
    for name, info in catalog.tables:
        if info.in_warehouse and re.search(rf"(?i)\b{re.escape(name)}\b", sql):
            said.append(IN_WAREHOUSE.format(info.in_warehouse, name))
    return list(dict.fromkeys([*said, *_misspelt_functions(sql)]))


def _misspelt_functions(sql: str) -> Iterator[str]:
    """Yield what is said of calls that look like misspelt ones of Spark's; somebody may have made such a function."""
    tree = parse_statement(sql).tree
    for node in tree.find_all(exp.Anonymous) if tree is not None else ():
        name = called(node)
        meant = None if is_builtin(name) else close(name, SPARKS, 0.85)
        if name in ("tumble", "tumble_start", "tumble_end", "hop", "hop_start", "hop_end"):
            meant = "window(ts, '1 minute')"
        if meant is not None:
            yield f"Spark itself has no function {node.name}. Did you mean {meant}?"


def _unknown_relations(sql: str, catalog: DdlCatalog) -> Iterator[tuple[exp.Table, str, bool]]:
    """Yield the relations of a query whose columns are not known, and whether the file says what they are."""
    tree, names = parse_statement(sql).tree, {known.lower() for known, _ in catalog.tables}
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)} if tree is not None else set()
    for table in tree.find_all(exp.Table) if tree is not None else ():
        parts = tuple(part.name for part in table.parts)
        info = catalog.table(parts)
        if all(parts) and not (info is not None and info.columns) and parts[0].lower() not in ctes:
            name = ".".join(parts)
            yield table, name, name.lower() in names or is_path(parts)


def _resolved(script: Script, sql: str, catalog: DdlCatalog) -> Resolution | None:
    """Resolve a statement's names, None if nothing is certain."""
    if "spark.sql.casesensitive" in script.text.lower():
        return None
    tree = tree_of(sql)
    return None if tree is None else resolve(tree, catalog)


def _told(misnamed: Misnamed) -> tuple[str, str]:
    """Return what is wrong with a column, and a hint."""
    column, sources = misnamed.column, misnamed.sources
    aliases = [source.alias for source in sources if not source.alias.startswith("__")]
    if misnamed.ambiguous:
        choices = " or ".join(f"{alias}.{column.name}" for alias in aliases)
        return f"the column {column.name} is ambiguous: {' and '.join(aliases)} have it", f"write {choices}"
    if not sources:
        return f"the column {column.sql()} is read, and there is no FROM", "write FROM and the relation that has it"
    names = [field.name for source in sources for field in source.fields or ()]
    if not column.table:
        have = "has" if len(aliases) == 1 else "have"
        detail = f"`{column.name}` cannot be resolved: {', '.join(aliases)} {have} no column {column.name}"
        return detail, did_you_mean(column.name, list(dict.fromkeys(names)))
    detail = f"`{column.table}`.`{column.name}` cannot be resolved: "
    if len(sources) > 1 or column.table.lower() not in (sources[0].alias.lower(), *sources[0].parts[-1:]):
        return f"{detail}there is no relation {column.table} here", did_you_mean(column.table, aliases)
    owner = sources[0].parts[-1] if sources[0].parts else sources[0].alias
    return f"{detail}{owner} has no column {column.name}", did_you_mean(column.name, names)


def _declared(script: Script, word: str, end: int) -> Iterator[str]:
    """Yield the names that a file declares before an offset behind a word: a view may hide a stream."""
    words = [token.text.lower() for token in tokenize(script.text) if token.start < end]
    for number, one in enumerate(words):
        if one == word:
            yield from words[number + 1 : number + 6]
