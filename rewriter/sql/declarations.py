"""Declarations at the head of an SQL file: `CREATE TABLE` and `CREATE STREAM`, token by token."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from ...errors import SqlSyntaxError, line_and_column
from ..plan.parts import Column
from .catalog import RATE_OPTION, DdlCatalog, FixedColumns, TableInfo, positive
from .dialect import tokenize
from .intervals import length_microseconds
from .spark_types import type_name
from .token_reader import TokenReader


def read_script(sql: str, fixed: FixedColumns | None = None) -> tuple[DdlCatalog, tuple[str, ...]]:
    """Split an SQL file into the catalog that its DDL declares and its other statements.

    Parameters
    ----------
    sql
        The file's text.
    fixed
        Tells the columns of a stream that declares none, from its format and its declaration.

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
    for tokens in split(tokenize(sql)):
        if [token.text.upper() for token in tokens[:2]] in (["CREATE", "TABLE"], ["CREATE", "STREAM"]):
            tables.append(_Declaration(sql, tokens, fixed).read())
        else:
            statements.append((tokens[0].start, sql[tokens[0].start : tokens[-1].end + 1]))
    return DdlCatalog(tuple(tables)), statements


def split(tokens: Iterable[Token]) -> list[list[Token]]:
    """Split tokens at semicolons; empty statements are left out."""
    is_end = lambda token: token.token_type == TokenType.SEMICOLON  # noqa: E731
    return [list(statement) for ended, statement in groupby(tokens, is_end) if not ended]


def _no_columns(_source: str, _declared: str) -> Iterable[tuple[str, str]]:
    return ()


class _Declaration(TokenReader):
    """Reads one CREATE TABLE or CREATE STREAM, token by token."""

    def __init__(self, sql: str, tokens: list[Token], fixed: FixedColumns | None = None) -> None:
        super().__init__(tokens, 1)
        self.sql, self.fixed = sql, fixed

    def read(self) -> tuple[str, TableInfo]:
        streaming = self.word() == "STREAM"
        self.position += 1
        for word in ("IF", "NOT", "EXISTS"):
            if self.word() == word:
                self.position += 1
        name = [self.take().text]
        while self.word() == ".":
            self.position += 1
            name.append(self.take().text)
        columns = self.columns() if self.word() == "(" else ()
        timed: tuple[Token, int] | None = None
        rows, source = None, ""
        while self.position < len(self.tokens):
            if self.word() == "WATERMARK":
                timed = self.watermark()
            elif self.word() == "USING":
                source, declared = self.format()
                columns = columns or tuple(Column(*column) for column in (self.fixed or _no_columns)(source, declared))
            elif self.word() == "OPTIONS" and streaming:
                rows = self.declared_rows(source)
            else:
                self.position += 1
        if timed and columns and timed[0].text.lower() not in [one.name.lower() for one in columns]:
            self.fail(f"{'.'.join(name)} has no column {timed[0].text}", timed[0])
        times = ((timed[0].text, timed[1]),) if timed else ()
        return ".".join(name), TableInfo(columns, streaming, rows, times)

    def ended(self, what: str) -> NoReturn:
        self.fail("the declaration ends too early")

    def missing(self, word: str) -> NoReturn:
        self.fail(f"WATERMARK column DELAY OF INTERVAL ...: {word} is missing")

    def fail(self, detail: str, token: Token | None = None) -> NoReturn:
        token = token or self.tokens[min(self.position, len(self.tokens) - 1)]
        raise SqlSyntaxError(detail, self.sql, *line_and_column(self.sql, token.start))

    def columns(self) -> tuple[Column, ...]:
        self.position += 1
        columns = []
        while True:
            name, kind = self.take().text, self.to_comma()
            if not self.word():
                self.fail("the list of columns has no end")
            columns.append(Column(name, self.type_name(kind)))
            if self.take().text == ")":
                return tuple(columns)

    def format(self) -> tuple[str, str]:
        """Read USING and a format; return it, and the text from there on."""
        self.position += 1
        first = self.take()
        words = [first.text]
        # Formats such as rate-micro-batch are several tokens in one word.
        while self.word() == "-":
            self.position += 1
            words.append(self.take().text)
        return "-".join(words), self.sql[first.start : self.tokens[-1].end + 1]

    def declared_rows(self, source: str) -> float | None:
        """Read OPTIONS (...); return the rows a second that they declare: ours, else those of the source ``rate``."""
        self.position += 2
        found: dict[str, float] = {}
        while self.word() not in (")", ""):
            start = self.position
            while self.word() not in (",", ")", ""):
                self.position += 1
            *key, value = self.tokens[start : self.position] or [self.tokens[start]]
            name = "".join(token.text for token in key if token.text != "=").lower()
            if name == RATE_OPTION.lower() or (name == "rowspersecond" and source.lower() == "rate"):
                rows = positive(value.text)
                if rows is None:
                    self.fail(f"{key[-1].text} is a number of rows a second above 0, not {value.text}", key[0])
                found[name] = rows
            self.position += self.word() == ","
        return found.get(RATE_OPTION.lower(), found.get("rowspersecond"))

    def type_name(self, tokens: list[Token]) -> str:
        if not tokens:
            self.fail("a column has no type")
        for index, token in enumerate(tokens):
            if token.text.upper() in ("NOT", "COMMENT", "DEFAULT", "PRIMARY", "NULL"):
                tokens = tokens[:index]
                break
        return type_name(self.sql[tokens[0].start : tokens[-1].end + 1])

    def watermark(self) -> tuple[Token, int]:
        self.position += 1
        column = self.take()
        first, length = self.delay()
        delay = length_microseconds(length)
        if delay is None:
            self.fail("the delay is a number and a unit such as SECONDS", first)
        return column, delay
