"""SQL files with more in them than queries: where the query of an INSERT begins and ends, and what a view declares."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ..errors import TriJoinError
from .names.resolve import resolve
from .plan.parts import Column
from .sql.catalog import RATE_SETTING, DdlCatalog, TableInfo, declared
from .sql.clauses import late_rows_clauses
from .sql.declarations import read_script
from .sql.dialect import tokenize
from .sql.spark_types import UNKNOWN
from .sql.statement import parse_statement

_QUERY = ("SELECT", "WITH", "FROM", "(")


def query_start(sql: str) -> int:
    """Return where the query of an ``INSERT INTO name SELECT ...`` begins, 0 for any other statement."""
    tokens = tokenize(sql)
    if [token.text.upper() for token in tokens[:2]] != ["INSERT", "INTO"]:
        return 0
    return next((token.start for token in tokens[3:] if token.text.upper() in _QUERY), 0)


def split_late_rows(sql: str) -> tuple[str, str | None]:
    """Return an ``INSERT`` without its ``LATE ROWS INTO name``, and that name; None if it has none.

    Examples
    --------
    >>> split_late_rows("INSERT INTO a SELECT b FROM c LATE ROWS INTO d")
    ('INSERT INTO a SELECT b FROM c', 'd')
    """
    tokens = tokenize(sql)
    at = next(late_rows_clauses(tokens), None)
    if at is None or at + 3 >= len(tokens):
        return sql, None
    return sql[: tokens[at - 1].end + 1], tokens[at + 3].text


def with_rate(catalog: DdlCatalog, key: str, value: str) -> DdlCatalog:
    """Return a catalog that knows the rate that ``SET spark.trijoin.rate.NAME = 200`` declares.

    Any other setting adds nothing.

    Raises
    ------
    InvalidSettingError
        The value is no rate.
    """
    if not key.lower().startswith(RATE_SETTING):
        return catalog
    return catalog.with_rate(key[len(RATE_SETTING) :].replace("`", ""), declared(key, value))


def after(catalog: DdlCatalog, sql: str) -> DdlCatalog:
    """Return what is known of relations after a statement that is no query; nothing of those that it may change.

    Examples
    --------
    >>> catalog = after(DdlCatalog(), "CREATE TABLE t (a INT) USING csv")
    >>> catalog.table(("t",)).columns, after(catalog, "ALTER TABLE t ADD COLUMN b INT").table(("t",)).columns
    ((Column(name='a', type='int'),), ())
    """
    names = {name.lower() for name, _ in catalog.tables}
    with suppress(TriJoinError, ValueError):  # only Spark may be able to read it
        made, rest = read_script(sql)
        if not rest and not names & {name.lower() for name, _ in made.tables}:  # else it stands behind a view, perhaps
            return catalog.with_tables(made.tables)
        if (known := with_view(catalog, sql)) is not catalog:
            return known
    words = {token.text.lower() for token in tokenize(sql)}
    return catalog.with_tables((name, TableInfo(())) for name in sorted(names) if name.rpartition(".")[2] in words)


def with_view(catalog: DdlCatalog, sql: str) -> DdlCatalog:
    """Return a catalog that knows the view that a ``CREATE TEMPORARY VIEW`` declares; any other statement adds nothing.

    Examples
    --------
    >>> from trijoin_sql.rewriter.sql.declarations import read_script
    >>> catalog, (view,) = read_script("CREATE STREAM r (a INT); CREATE TEMPORARY VIEW v AS SELECT a + 1 AS b FROM r")
    >>> with_view(catalog, view).table(("v",)).columns
    (Column(name='b', type='int'),)
    """
    statement = parse_statement(sql)
    if statement.kind != "create_view" or statement.tree is None or statement.view is None:
        return catalog
    output = resolve(statement.tree, catalog).output
    (name,) = tokenize(statement.view.name)
    names = statement.view.columns
    columns = tuple(Column(field.name, field.type) for field in output.columns or ())  # none if they are not known
    times = output.times
    if names and output.columns is None:
        columns = tuple(Column(name, UNKNOWN) for name in names)
    elif names and len(names) == len(columns):
        renamed = dict(zip((column.name for column in columns), names, strict=True))
        columns = tuple(Column(name, one.type) for name, one in zip(names, columns, strict=True))
        times = tuple((renamed[name], delay) for name, delay in times)
    elif names:
        return catalog
    info = replace(output.info, columns=columns, times=times)
    return catalog.with_tables([(f"global_temp.{name.text}" if statement.view.everywhere else name.text, info)])
