"""Declarations in an SQL file as a catalog: `CREATE STREAM`, `CREATE TABLE`, `CREATE TEMPORARY VIEW ... USING`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby, takewhile
from typing import Literal, NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from ...errors import SqlSyntaxError, line_and_column
from ..plan.parts import Column
from .catalog import DdlCatalog, FixedColumns, TableInfo, positive
from .clauses import NO_OPTIONS, STREAM_CLAUSES, ClauseReader, Option, Options, WatermarkClause, Word
from .dialect import tokenize
from .intervals import length_microseconds

_Kind = Literal["STREAM", "TABLE", "VIEW", "GLOBAL"]

_BEFORE_TABLE = ("OR", "REPLACE", "GLOBAL", "TEMP", "TEMPORARY", "EXTERNAL")


def read_script(sql: str) -> tuple[DdlCatalog, tuple[str, ...]]:
    """Split an SQL file into the catalog that its DDL declares and its other statements.

    Parameters
    ----------
    sql
        The file's text.

    Raises
    ------
    SqlSyntaxError
        A declaration does not parse. The place is that in the whole file.

    Examples
    --------
    >>> catalog, statements = read_script("CREATE TABLE r (a INT); SELECT a FROM r")
    >>> catalog.table(("r",)).columns, statements
    ((Column(name='a', type='int'),), ('SELECT a FROM r',))
    """
    catalog, statements = read_with_places(sql)
    return catalog, tuple(statement for _, statement in statements)


def read_with_places(sql: str, fixed: FixedColumns | None = None) -> tuple[DdlCatalog, list[tuple[int, str]]]:
    """Do what `read_script` does, and return of each statement also where in the file it begins."""
    tables: list[tuple[str, TableInfo]] = []
    statements: list[tuple[int, str]] = []

    def fail(offset: int, detail: str, hint: str | None) -> NoReturn:
        raise SqlSyntaxError(f"{detail}; {hint}" if hint else detail, sql, *line_and_column(sql, offset))

    for tokens in split(tokenize(sql)):
        reader = ClauseReader(sql, tokens, fail)
        kind = _declares(reader)
        if kind is None:
            statements.append((tokens[0].start, sql[tokens[0].start : tokens[-1].end + 1]))
        else:
            tables.append(_table(reader, fixed, kind))
    return DdlCatalog(tuple(tables)), statements


def _options(reader: ClauseReader) -> Options:
    """Read options as Spark takes them; none are known if they have more than a name and a plain value."""
    begin = reader.position
    try:
        return reader.options()
    except SqlSyntaxError:
        reader.position = begin
        return NO_OPTIONS


#: What reads the clauses of a table, or of a view of files, that count here.
_TABLE_CLAUSES = {**STREAM_CLAUSES, "OPTIONS": _options, "LOCATION": ClauseReader.text_in_quotes}


def split(tokens: Iterable[Token]) -> list[list[Token]]:
    """Split tokens at semicolons; empty statements are left out."""
    is_end = lambda token: token.token_type == TokenType.SEMICOLON  # noqa: E731
    return [list(statement) for ended, statement in groupby(tokens, is_end) if not ended]


def _declares(reader: ClauseReader) -> _Kind | None:
    """Return what a statement declares, and read up to its name; None if it is another one."""
    words = [reader.word(ahead) for ahead in range(len(reader.tokens))]
    at = next((at for at, word in enumerate(words) if at and word not in _BEFORE_TABLE), 0)
    reader.position = at + 1
    match words[0], words[at]:
        case "CREATE", "STREAM" if at == 1:
            return "STREAM"
        case "CREATE", "TABLE":
            return "TABLE"
        case "CREATE", "VIEW" if "USING" in takewhile("AS".__ne__, words):  # others are queries
            return "GLOBAL" if "GLOBAL" in words[:at] else "VIEW"
    return None


def _table(reader: ClauseReader, fixed: FixedColumns | None, kind: _Kind) -> tuple[str, TableInfo]:
    """Read a declaration from its name on: a stream's clauses are ours alone, a table may have others of Spark's."""
    streaming = kind == "STREAM"
    reader.skip("IF", "NOT", "EXISTS")
    name = ("global_temp." if kind == "GLOBAL" else "") + reader.name("a name").text
    while reader.word() == ".":
        reader.position += 1
        name += f".{reader.name('a name')}"
    declared = reader.columns(strict=streaming)
    found = reader.clauses(STREAM_CLAUSES if streaming else _TABLE_CLAUSES, others=not streaming)
    source: Word | None = found.get("USING")
    options: Options = found.get("OPTIONS", NO_OPTIONS)
    watermark: WatermarkClause | None = found.get("WATERMARK")
    columns = tuple(Column(one.name.text, one.kind) for one in declared)
    if "LOCATION" in found:
        options = Options((*options, Option(Word("path", 0), found["LOCATION"])))
    path = options.text("path") or ""
    in_warehouse = kind == "TABLE" and not re.match(r"/|\w+:", path)  # where Spark looks, if it is relative
    if not columns and source is not None and fixed is not None and not in_warehouse:
        columns = tuple(Column(*column) for column in fixed(source.text, options))
    if watermark and columns and watermark.column.text.lower() not in [one.name.lower() for one in columns]:
        reader.raises(watermark.column.start, f"{name} has no column {watermark.column}", None)
    times = ((watermark.column.text, length_microseconds(watermark.delay.text)),) if watermark else ()
    rate = options.rate(source.text if source is not None else "") if streaming else None
    rows = None if rate is None else positive(rate.text)
    if rate is not None and rows is None:
        reader.raises(rate.start, f"a number of rows a second above 0 is needed, not {rate.text!r}", None)
    return name, TableInfo(columns, streaming, rows, times, in_warehouse=path if path and in_warehouse else None)
