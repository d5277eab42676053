"""Declarations at the head of an SQL file, `CREATE TABLE` and `CREATE STREAM`, as a catalog."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from ...errors import SqlSyntaxError, line_and_column
from ..plan.parts import Column
from .catalog import DdlCatalog, FixedColumns, TableInfo, positive
from .clauses import NO_OPTIONS, STREAM_CLAUSES, ClauseReader, Options, WatermarkClause, Word
from .dialect import tokenize
from .intervals import length_microseconds


def read_script(sql: str, fixed: FixedColumns | None = None) -> tuple[DdlCatalog, tuple[str, ...]]:
    """Split an SQL file into the catalog that its DDL declares and its other statements.

    Parameters
    ----------
    sql
        The file's text.
    fixed
        Tells the columns of a stream that declares none, from its format and its options.

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
    catalog, statements = read_with_places(sql, fixed)
    return catalog, tuple(statement for _, statement in statements)


def read_with_places(sql: str, fixed: FixedColumns | None = None) -> tuple[DdlCatalog, list[tuple[int, str]]]:
    """Do what `read_script` does, and return of each statement also where in the file it begins."""
    tables: list[tuple[str, TableInfo]] = []
    statements: list[tuple[int, str]] = []

    def fail(offset: int, detail: str, hint: str | None) -> NoReturn:
        raise SqlSyntaxError(f"{detail}; {hint}" if hint else detail, sql, *line_and_column(sql, offset))

    for tokens in split(tokenize(sql)):
        match [token.text.upper() for token in tokens[:2]]:
            case ["CREATE", "TABLE" | "STREAM" as kind]:
                tables.append(_table(ClauseReader(sql, tokens, fail, 2), fixed, streaming=kind == "STREAM"))
            case _:
                statements.append((tokens[0].start, sql[tokens[0].start : tokens[-1].end + 1]))
    return DdlCatalog(tuple(tables)), statements


def split(tokens: Iterable[Token]) -> list[list[Token]]:
    """Split tokens at semicolons; empty statements are left out."""
    is_end = lambda token: token.token_type == TokenType.SEMICOLON  # noqa: E731
    return [list(statement) for ended, statement in groupby(tokens, is_end) if not ended]


def _table(reader: ClauseReader, fixed: FixedColumns | None, *, streaming: bool) -> tuple[str, TableInfo]:
    """Read a declaration from its name on: a stream's clauses are ours alone, a table may have others of Spark's."""
    reader.skip("IF", "NOT", "EXISTS")
    name = reader.name("a name").text
    while reader.word() == ".":
        reader.position += 1
        name += f".{reader.name('a name')}"
    declared = reader.columns(strict=streaming)
    known = {word: read for word, read in STREAM_CLAUSES.items() if streaming or word != "OPTIONS"}
    found = reader.clauses(known, others=not streaming)
    source: Word | None = found.get("USING")
    options: Options = found.get("OPTIONS", NO_OPTIONS)
    watermark: WatermarkClause | None = found.get("WATERMARK")
    columns = tuple(Column(one.name.text, one.kind) for one in declared)
    if not columns and source is not None and fixed is not None:
        columns = tuple(Column(*column) for column in fixed(source.text, options))
    if watermark and columns and watermark.column.text.lower() not in [one.name.lower() for one in columns]:
        reader.raises(watermark.column.start, f"{name} has no column {watermark.column}", None)
    times = ((watermark.column.text, length_microseconds(watermark.delay.text)),) if watermark else ()
    rate = options.rate(source.text if source is not None else "")
    rows = None if rate is None else positive(rate.text)
    if rate is not None and rows is None:
        reader.raises(rate.start, f"a number of rows a second above 0 is needed, not {rate.text!r}", None)
    return name, TableInfo(columns, streaming, rows, times)
