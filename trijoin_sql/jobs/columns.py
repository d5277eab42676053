"""Finds columns that a stream does not have, from the text alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from ..errors import SqlSyntaxError
from ..rewriter.sql.dialect import parse_statement, tokenize
from .job_text import Script, did_you_mean

#: Returns the names of a stream's columns, None if they are not known.
Lookup = Callable[[str], Sequence[str] | None]


def check_columns(script: Script, sql: str, start: int, lookup: Lookup) -> None:
    """Check the qualified columns of a statement (``r.x``) whose qualifier is a stream with known columns.

    Other names – a field of a struct, an output of a subquery, a column of a view – are left to Spark.

    Parameters
    ----------
    script
        The file.
    sql, start
        The statement, and where in the file it begins. A statement that does not parse is not checked.
    lookup
        Looks up the columns of streams.

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
    hidden = {cte.alias.lower() for cte in tree.find_all(exp.CTE)} | set(_views(script))
    for column in tree.find_all(exp.Column):
        if not column.table or column.args.get("db") or isinstance(column.this, exp.Star):
            continue
        if column.name.startswith("_"):  # Spark's own columns, such as _metadata
            continue
        if column.find_ancestor(exp.Lambda) is not None:  # its variables may have the name of a stream
            continue
        found = _missing(column, hidden, lookup)
        if found is not None:
            source, columns = found
            place = start + int(column.args["table"].meta.get("start") or 0)
            detail = f"`{column.table}`.`{column.name}` cannot be resolved: {source} has no column {column.name}"
            script.fail(place, detail, did_you_mean(column.name, list(columns)))


def _missing(column: exp.Column, hidden: set[str], lookup: Lookup) -> tuple[str, Sequence[str]] | None:
    """Return the stream that a column's qualifier names, and its columns, if it certainly lacks the column."""
    qualifier = column.table.lower()
    for select in _selects(column):
        sources = _sources(select)
        known = [_columns(source, hidden, lookup) for source in sources]
        if any(columns is None or qualifier in _lower(columns) for columns in known):
            return None  # of an unknown relation, or a field of a struct
        named = [number for number, source in enumerate(sources) if source.alias_or_name.lower() == qualifier]
        if len(named) == 1:
            columns = known[named[0]] or ()
            return None if column.name.lower() in _lower(columns) else (sources[named[0]].name, columns)
        if named:
            return None
    return None


def _selects(column: exp.Expr) -> Iterator[exp.Select]:
    """Yield the SELECTs around a column, the inner ones first."""
    found = column.find_ancestor(exp.Select)
    while found is not None:
        yield found
        found = found.find_ancestor(exp.Select)


def _sources(select: exp.Select) -> list[exp.Expr]:
    """Return what a SELECT reads: tables, and other items of FROM."""
    first = select.args.get("from_")
    found = [] if first is None else [first.this]
    found += [join.this for join in select.args.get("joins") or ()]
    return [*found, *(select.args.get("laterals") or ())]


def _columns(source: exp.Expr, hidden: set[str], lookup: Lookup) -> Sequence[str] | None:
    """Return the columns of a table, None if it is not a known stream."""
    plain = isinstance(source, exp.Table) and not source.args.get("db") and not source.args.get("pivots")
    alias = source.args.get("alias")
    if not plain or source.name.lower() in hidden or (alias is not None and alias.args.get("columns")):
        return None
    return lookup(source.name)


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


def _views(script: Script) -> Iterator[str]:
    """Yield the names of the views that a file makes: one may hide a stream."""
    words = [token.text.lower() for token in tokenize(script.text)]
    for number, word in enumerate(words):
        if word == "view":
            yield from words[number + 1 : number + 6]
