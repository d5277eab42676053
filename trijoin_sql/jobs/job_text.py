"""The text of a job file, and mistakes with their place in it."""

from __future__ import annotations

import re
import sys
from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from sqlglot.tokenizer_core import Token

from ..errors import JobError, SqlSyntaxError, line_and_column
from ..rewriter.sql.declarations import split
from ..rewriter.sql.dialect import tokenize


@dataclass(frozen=True, slots=True)
class Script:
    """A job file.

    Parameters
    ----------
    path
        As the user named it.
    text
        All of it.
    """

    path: str
    text: str

    @classmethod
    def read(cls, path: str) -> Script:
        """Read a file, or stdin where the path is ``-``.

        Raises
        ------
        JobError
            It is not UTF-8.
        OSError
            It cannot be read.
        """
        name, content = ("stdin", sys.stdin.buffer.read()) if path == "-" else (path, Path(path).read_bytes())
        content = content.removeprefix(BOM_UTF8).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        try:
            return cls(name, content.decode())
        except UnicodeDecodeError as error:
            before = content[: error.start].decode()
            place = line_and_column(before, len(before))
            raise JobError("the file is not UTF-8 text from here on", name, before, *place) from None

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column, both from 1, of an offset."""
        return line_and_column(self.text, offset)

    def offset(self, start: int, line: int, column: int) -> int:
        """Return the offset of a line and column that are counted from ``start``."""
        for _ in range(line - 1):
            found = self.text.find("\n", start)
            if found < 0:
                break
            start = found + 1
        return min(start + column - 1, len(self.text))

    def error(self, offset: int, detail: str, hint: str | None = None) -> JobError:
        """Return a mistake at an offset."""
        return JobError(detail, self.path, self.text, *self.place(min(offset, len(self.text))), hint=hint)

    def fail(self, offset: int, detail: str, hint: str | None = None) -> NoReturn:
        """Raise a mistake at an offset.

        Raises
        ------
        JobError
            Always.
        """
        raise self.error(offset, detail, hint)

    def syntax_error(self, error: SqlSyntaxError, start: int = 0) -> JobError:
        """Return a syntax error in a part of the file that begins at ``start``, at its place in the file."""
        offset = self.offset(start, error.line, error.column)
        statement = re.match(r"(CREATE|INSERT|SET)\b", self.text[offset:], re.IGNORECASE)
        line_before = self.text[:offset].rpartition("\n")[2]
        if statement and offset > start and not line_before.strip():
            return self.error(offset, f"a semicolon is missing before {statement[1]}")
        return self.error(offset, error.detail)

    def statements(self) -> list[list[Token]]:
        """Split the file at its semicolons.

        Returns
        -------
        list of list of Token
            For each statement its tokens, without the semicolon. Empty statements are left out.

        Raises
        ------
        JobError
            A string, a quoted name or a comment has no end.
        """
        try:
            return split(tokenize(self.text))
        except SqlSyntaxError as error:
            raise self.syntax_error(error) from None
