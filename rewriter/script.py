"""SQL files with more in them than queries: where the query of an INSERT begins, and what a view declares."""

from __future__ import annotations

import dataclasses
import re

from ..errors import InvalidSettingError
from .catalog import RATE_SETTING, DdlCatalog, TableInfo, positive
from .dialect import parse_statement, tokenize
from .plan import Column
from .resolve import resolve
from .settings import MOST_UNITS, Settings

_SET_RATE = re.compile(rf"\s*SET\s+{re.escape(RATE_SETTING)}(\S+?)\s*=\s*(\S+)\s*", re.IGNORECASE)
_SET_UNITS = re.compile(r"\s*SET\s+spark\.trijoin\.units\s*=\s*(\S+)\s*", re.IGNORECASE)
_QUERY = ("SELECT", "WITH", "FROM", "(")


def query_start(sql: str) -> int:
    """Return where the query of an ``INSERT INTO name SELECT ...`` begins, 0 for any other statement."""
    tokens = tokenize(sql)
    if [token.text.upper() for token in tokens[:2]] != ["INSERT", "INTO"]:
        return 0
    return next((token.start for token in tokens[3:] if token.text.upper() in _QUERY), 0)


def with_rate(catalog: DdlCatalog, sql: str) -> DdlCatalog:
    """Return a catalog that knows the rate that ``SET spark.trijoin.rate.NAME = 200`` declares.

    Any other statement adds nothing, nor does a value that is no rate: Spark takes it, and the query that reads it says
    what is wrong.
    """
    found = _SET_RATE.fullmatch(sql)
    rows = positive(found[2].strip("'\"")) if found else None
    return catalog if found is None or rows is None else catalog.with_rate(found[1].replace("`", ""), rows)


def with_units(settings: Settings, sql: str) -> Settings:
    """Return settings with the units that ``SET spark.trijoin.units = 4`` asks for; any other statement sets nothing.

    Raises
    ------
    InvalidSettingError
        The value is no number of units.
    """
    found = _SET_UNITS.fullmatch(sql)
    if found is None:
        return settings
    text = found[1].strip("'\"")
    if not re.fullmatch("[0-9]{1,9}", text):
        raise InvalidSettingError("spark.trijoin.units", text, f"it takes a whole number from 1 to {MOST_UNITS}")
    return dataclasses.replace(settings, units=int(text))


def with_view(catalog: DdlCatalog, sql: str) -> DdlCatalog:
    """Return a catalog that knows the view that a ``CREATE TEMPORARY VIEW`` declares; any other statement adds nothing.

    Examples
    --------
    >>> from trijoin_sql.rewriter.catalog import read_script
    >>> catalog, (view,) = read_script("CREATE STREAM r (a INT); CREATE TEMPORARY VIEW v AS SELECT a + 1 AS b FROM r")
    >>> with_view(catalog, view).table(("v",))
    TableInfo(columns=(Column(name='b', type='int'),), streaming=True, rows=None, event_time=None, delay=None, \
rows_from='declared')
    """
    statement = parse_statement(sql)
    if statement.kind != "create_view" or statement.tree is None or statement.view is None:
        return catalog
    output = resolve(statement.tree, catalog).output
    if output.columns is None:  # its columns are unknown: so is the view
        return catalog
    (name,) = tokenize(statement.view.name)
    columns = tuple(Column(field.name, field.type) for field in output.columns)
    event_time = output.event_time
    if statement.view.columns:
        if len(statement.view.columns) != len(columns):
            return catalog
        renamed = dict(zip((column.name for column in columns), statement.view.columns, strict=True))
        columns = tuple(Column(name, one.type) for name, one in zip(statement.view.columns, columns, strict=True))
        event_time = renamed.get(event_time) if event_time else None
    info = TableInfo(columns, output.streaming, output.rows, event_time, output.delay, output.rows_from)
    return catalog.with_tables([(f"global_temp.{name.text}" if statement.view.everywhere else name.text, info)])
