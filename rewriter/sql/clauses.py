"""The clauses that CREATE TABLE, CREATE STREAM and CREATE SINK have in common, as words with their places.

Those of a job are read by the same code as those of a file that `explain` shows; `Fail` makes the error of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NoReturn

from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from .catalog import RATE_OPTION
from .intervals import lengths
from .similar import close
from .spark_types import ONE_WORD, type_name

QUOTED = (TokenType.STRING, TokenType.RAW_STRING, TokenType.HEREDOC_STRING, TokenType.IDENTIFIER)
TEXT = (TokenType.STRING, TokenType.RAW_STRING)

#: Raises a mistake: its offset in the file, what is wrong, and a way out.
Fail = Callable[[int, str, "str | None"], NoReturn]

_WATERMARK = "WATERMARK column DELAY OF INTERVAL 10 SECONDS"

#: Words that no length of time goes on with.
_ENDS = ("USING", "OPTIONS", "WATERMARK", "MODE", "TRIGGER", "CREATE", "INSERT", "SET")

#: Words that follow a column's type.
_BEHIND_TYPE = ("NOT", "NULL", "COMMENT", "DEFAULT", "PRIMARY")


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of a file's text with its place.

    Parameters
    ----------
    text
        Its value, without the quotes that the file may have.
    start
        Offset of its first character in the file.
    """

    text: str
    start: int

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A declared column: its name, all that follows (type, NOT NULL, COMMENT ...), and its type as Spark calls it."""

    name: Word
    type: Word
    kind: str


@dataclass(frozen=True, slots=True)
class Option:
    """One entry of ``OPTIONS (...)``."""

    key: Word
    value: Word


class Options(tuple[Option, ...]):
    """The entries of ``OPTIONS (...)``; keys are not case-sensitive, as in Spark."""

    __slots__ = ()

    def find(self, key: str) -> Word | None:
        """Return the value of a key, None if it is not given."""
        return next((option.value for option in self if option.key.text.lower() == key.lower()), None)

    def text(self, key: str) -> str | None:
        """Return the value of a key as text, None if it is not given."""
        found = self.find(key)
        return None if found is None else found.text

    def is_true(self, key: str) -> bool:
        """Tell whether a key is set to true."""
        return (self.text(key) or "").lower() == "true"

    def rate(self, source: str) -> Word | None:
        """Return the rows a second that they declare for a stream: by our option, else as the source ``rate`` does."""
        return self.find(RATE_OPTION) or (self.find("rowsPerSecond") if source.lower() == "rate" else None)


NO_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class WatermarkClause:
    """``WATERMARK column DELAY OF INTERVAL ...``; the delay's text is one that Spark's ``withWatermark`` takes."""

    column: Word
    delay: Word


def late_rows_clauses(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield where in a statement ``LATE ROWS INTO`` stands, which is no other SQL.

    Examples
    --------
    >>> from trijoin_sql.rewriter.sql.dialect import tokenize
    >>> list(late_rows_clauses(tokenize("INSERT INTO a SELECT b FROM c LATE ROWS INTO d")))
    [7]
    >>> list(late_rows_clauses(tokenize("SELECT SUM(a) OVER (ORDER BY late ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)")))
    []
    """
    words = ["" if token.token_type in QUOTED else token.text.upper() for token in tokens]
    yield from (at for at in range(len(words) - 2) if words[at : at + 3] == ["LATE", "ROWS", "INTO"])


@dataclass(frozen=True, slots=True)
class HistoryClause:
    """``stream [WATERMARK ...] HISTORY table [UNTIL TIMESTAMP '...']`` in a FROM.

    Parameters
    ----------
    stream, table
        As SQL; that of the stream with its WATERMARK. `name` is the stream's own name.
    until
        A literal: the table's rows are those before it, the stream's those from it on. Empty if all rows of both are.
    at, end
        Where HISTORY begins, and where the clause ends.
    aliased
        Whether an alias follows.
    """

    stream: Word
    name: str
    table: str
    until: str
    at: int
    end: int
    aliased: bool

    @property
    def last_name(self) -> str:
        """The last part of the stream's name, by which a query knows it without an alias."""
        parts: list[str] = re.findall(r"`[^`]*`|[^.`]+", self.name)
        return parts[-1]

    def __str__(self) -> str:
        return f"{self.table} UNTIL {self.until}" if self.until else self.table


_HISTORY = "write stream HISTORY table, or stream HISTORY table UNTIL TIMESTAMP '2026-01-01 00:00:00', then the alias"

#: What clauses other than FROM begin with.
_OTHER_CLAUSES = ("SELECT", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "SORT", "CLUSTER", "DISTRIBUTE", "VALUES")

#: Words behind a relation that is called ``history``: no table's name.
_BEHIND_RELATION = ("WATERMARK", "WITHIN", "APPROX", "EXACT", "NEAREST", "OFFSET", "QUALIFY", "PIVOT", "UNPIVOT")


def history_clauses(sql: str, tokens: Sequence[Token], fail: Fail) -> Iterator[HistoryClause]:
    """Yield the clauses HISTORY of a statement; to Spark two names in a row behind a relation are a mistake.

    Examples
    --------
    >>> from trijoin_sql.rewriter.sql.dialect import tokenize
    >>> sql = "SELECT history FROM r HISTORY old.r AS a JOIN s AS history ON a.x = history.x"
    >>> [(one.name, one.table) for one in history_clauses(sql, tokenize(sql), print)]
    [('r', 'old.r')]
    """
    words = [_word(token) for token in tokens]
    named = [
        token.token_type in Parser.TABLE_ALIAS_TOKENS and word not in _BEHIND_RELATION
        for token, word in zip(tokens, words, strict=True)
    ]
    for at in range(2, len(tokens) - 1):
        if words[at] != "HISTORY" or not named[at + 1] or words[at - 1] in (".", "AS", "DESC", "DESCRIBE"):
            continue
        begin = next((one + 1 for one in range(at - 1, -1, -1) if words[one] in ("FROM", "JOIN", ",")), at)
        name_ends = words.index("WATERMARK", begin, at) if "WATERMARK" in words[begin:at] else at
        names = (
            word in (".", "AS") or is_name for word, is_name in zip(words[begin:name_ends], named[begin:], strict=False)
        )
        if begin == at or not all(names) or not _in_from(words[:begin]):  # it names a relation or a column
            continue
        reader = ClauseReader(sql, list(tokens), fail, begin)
        reader.skip("STREAM")
        name = reader.relation()
        if reader.word() == "WATERMARK":
            reader.position += 1
            reader.watermark()
        if reader.position != at:
            reader.fail_at(at, "HISTORY stands right behind the name of a stream and its WATERMARK", _HISTORY)
        reader.position = at + 1
        table, until = reader.relation(), ""
        if reader.word() == "UNTIL":
            reader.position += 1
            reader.skip("TIMESTAMP")
            if reader.word() != "'":
                reader.fail("UNTIL takes a time", _HISTORY)
            until = f"TIMESTAMP {reader.shown(reader.take('a time'))}"
        behind = reader.position
        aliased = behind < len(tokens) and (words[behind] == "AS" or named[behind])
        stream, end = sql[tokens[begin].start : tokens[at - 1].end + 1], tokens[behind - 1].end + 1
        yield HistoryClause(Word(stream, tokens[begin].start), name, table, until, tokens[at].start, end, aliased)


def _in_from(words: Sequence[str]) -> bool:
    """Tell whether words end within a FROM clause."""
    inside = 0
    for word in reversed(words):
        inside += {")": 1, "(": -1}.get(word, 0)
        if inside < 0 or (not inside and word.split()[0] in _OTHER_CLAUSES):
            return False
        if not inside and word in ("FROM", "JOIN"):
            return True
    return False


class ClauseReader:
    """Reads one statement, token by token; every mistake has its place in the file and, where there is one, a way out.

    Parameters
    ----------
    text
        The file.
    tokens
        Those of the statement.
    raises
        Raises a mistake.
    position
        Where reading begins.
    """

    def __init__(self, text: str, tokens: list[Token], raises: Fail, position: int = 0) -> None:
        self.text, self.tokens, self.raises, self.position = text, tokens, raises, position

    def word(self, ahead: int = 0) -> str:
        """Return the next word in capitals, empty at the end; what is quoted is no word."""
        at = self.position + ahead
        return _word(self.tokens[at]) if at < len(self.tokens) else ""

    def take(self, what: str) -> Token:
        """Read the next token."""
        if not self.word():
            self.fail(f"the statement ends where {what} is expected")
        self.position += 1
        return self.tokens[self.position - 1]

    def skip(self, *words: str) -> None:
        """Read each of some words that is there."""
        for word in words:
            self.position += self.word() == word

    def expect(self, word: str, form: str) -> None:
        """Read a word that has to be there."""
        if self.word() != word:
            before = f" before {self.tokens[self.position].text}" if self.word() else ""
            self.fail(f"{word} is missing{before}", f"write {form}")
        self.position += 1

    def name(self, what: str) -> Word:
        """Read a name, quoted or not; formats such as rate-micro-batch are several tokens in one word."""
        token = self.take(what)
        quoted = token.token_type == TokenType.IDENTIFIER
        if token.token_type in TEXT or not (quoted or re.fullmatch(r"[^\W\d][\w-]*", token.text)):
            hint = f"write {token.text} or `{token.text}`" if re.fullmatch(r"[^\W\d]\w*", token.text) else None
            self.raises(token.start, f"{what} is expected here, not {self.shown(token)}", hint)
        if not token.text:
            self.raises(token.start, f"{what} is empty", None)
        text, end = token.text, token.end
        while not quoted and self.word() == "-" and self.tokens[self.position].start == end + 1:
            text += "-" + self.tokens[self.position + 1].text if self.word(1) else "-"
            end = self.tokens[min(self.position + 1, len(self.tokens) - 1)].end
            self.position = min(self.position + 2, len(self.tokens))
        return Word(text, token.start)

    def relation(self) -> str:
        """Read a name with its parts, as it is in the file."""
        first = self.position
        self.name("the name of a relation")
        while self.word() == ".":
            self.position += 1
            self.name("the rest of the name")
        return self._between(self.tokens[first : self.position]).text

    def format(self) -> Word:
        """Read what follows USING."""
        return self.name("a format such as parquet")

    def clauses(self, known: Mapping[str, Callable[[Any], Any]], *, others: bool = False) -> dict[str, Any]:
        """Read the clauses that follow, each at most once, by what reads the rest of each; return it by first words.

        Where there may be other ones, as those of CREATE TABLE, they are skipped, and so is a query after AS.
        """
        found: dict[str, Any] = {}
        while self.position < len(self.tokens) and not (others and self.word() == "AS"):
            word, token = self.word(), self.tokens[self.position]
            if word not in known and not others:
                if word in ("CREATE", "INSERT", "SET"):
                    self.fail(f"a semicolon is missing before {token.text}")
                best = close(token.text, list(known))
                hint = f"did you mean {best}?" if best else f"the clauses are {', '.join(known)}"
                self.fail(f"{self.shown(token)} was not expected here", hint)
            if word in found:
                self.fail(f"{word} is given twice")
            self.position += 1
            if word in known:
                found[word] = known[word](self)
        return found

    def columns(self, *, strict: bool) -> tuple[ColumnDefinition, ...]:
        """Read ``(name type, ...)``; none if they are not there. Where not strict, Spark may take more than we know."""
        columns: list[ColumnDefinition] = []
        if self.word() != "(":
            return ()
        self.position += 1
        while True:
            name = self.name("the name of a column")
            if strict and any(column.name.text.lower() == name.text.lower() for column in columns):
                self.raises(name.start, f"there are two columns named {name.text}", None)
            if self.word() in (",", ")"):
                self.fail(f"the column {name.text} has no type")
            columns.append(self._column(name, strict))
            if self.take("a )").text == ")":
                return tuple(columns)

    def _column(self, name: Word, strict: bool) -> ColumnDefinition:
        first, depth = self.position, 0
        while (word := self.word()) and (depth or word not in (",", ")")):
            depth += nesting(word)
            self.position += 1
        if not self.word():
            self.fail("the list of columns has no end: a ) is missing")
        tokens = self.tokens[first : self.position]
        if strict:
            self._check_type(tokens)
        kind = list(takewhile(lambda token: _word(token) not in _BEHIND_TYPE, tokens)) or tokens[:1]
        return ColumnDefinition(name, self._between(tokens), type_name(self._between(kind).text))

    def _check_type(self, tokens: list[Token]) -> None:
        """Fail at text behind a column's type that is not part of it."""
        depth = 0
        for token in tokens[1:]:
            word = _word(token)
            if not depth and word in ("NOT", "COMMENT", "COLLATE"):
                return
            if not depth and nesting(word) <= 0 and tokens[0].text.lower() in ONE_WORD:
                detail = "a column has a name and a type, and perhaps NOT NULL or a COMMENT; "
                self.raises(token.start, f"{detail}{self.shown(token)} was not expected", None)
            depth += nesting(word)

    def options(self) -> Options:
        """Read ``(key 'value', ...)``."""
        self.expect("(", "OPTIONS (key 'value', ...)")
        found: list[Option] = []
        while self.word() != ")" or found:
            key = self._key()
            if self.word() in ("=>", ":", ":="):
                self.fail(f"the option {key.text} is followed by its value", "write OPTIONS (key 'value', ...)")
            self.skip("=")
            value = self._value(key)
            if any(option.key.text.lower() == key.text.lower() for option in found):
                self.raises(key.start, f"the option {key.text} is given twice", None)
            found.append(Option(key, value))
            if self.word() == ")":
                break
            self.expect(",", "a comma between options")
        self.position += 1
        return Options(found)

    def text_in_quotes(self) -> Word:
        """Read what follows LOCATION."""
        token = self.take("a path")
        return Word(token.text, token.start)

    def _key(self) -> Word:
        first = self.take("the name of an option")
        if first.token_type in QUOTED:
            return Word(first.text, first.start)
        text = first.text
        while self.word() == ".":
            self.position += 1
            text += "." + self.take("the rest of the option's name").text
        if not re.fullmatch(r"[\w.-]+", text):
            self.raises(first.start, f"an option has a name and a value; {first.text} is no name", None)
        return Word(text, first.start)

    def _value(self, key: Word) -> Word:
        if self.word() in (",", ")", ""):
            self.fail(f"the option {key.text} has no value")
        token = self.take("a value")
        sign, start = "", token.start
        if token.text == "-" and token.token_type not in QUOTED:
            sign, token = "-", self.take("a number")
        plain = token.token_type in (*TEXT, TokenType.NUMBER) or token.text.lower() in ("true", "false")
        if not plain:
            curly = any(quote in token.text for quote in "‘’“”")
            hint = "these are typographic quotes; write 'value'" if curly else "quote it if it is text: 'value'"
            self.raises(token.start, f"the value of {key.text} is a text in quotes, a number, true or false", hint)
        return Word(sign + token.text, start)

    def watermark(self) -> WatermarkClause:
        """Read ``column DELAY OF INTERVAL 10 SECONDS``."""
        column = self.name(f"the column of {_WATERMARK}")
        if self.word() == ".":
            self.fail("WATERMARK takes a column of the stream, without a dot", f"write {_WATERMARK}")
        self.expect("DELAY", _WATERMARK)
        self.expect("OF", _WATERMARK)
        if self.word() != "INTERVAL":
            self.fail("INTERVAL is missing", f"write {_WATERMARK}")
        self.position += 1
        return WatermarkClause(column, self.length())

    def length(self) -> Word:
        """Read ``10 SECONDS``, ``'10' SECONDS`` or ``'1 hour 30 minutes'``."""
        first = self.take("a length of time")
        words = [first.text]
        while self.word() not in ("", *_ENDS) and (
            _is_number(words[-1]) or _is_number(self.tokens[self.position].text)
        ):
            words.append(self.take("a unit").text)
        return self.duration(Word(" ".join(words), first.start))

    def duration(self, written: Word) -> Word:
        """Return a length of time in the form that Spark's ``withWatermark`` and triggers take."""
        text = re.sub(r"^interval\s+", "", written.text.strip().lower())
        parts = lengths(text)
        if parts is None:
            hint = "write a number and a unit such as 10 seconds"
            self.raises(written.start, f"{text!r} is no length of time", hint)
        return Word(" ".join(f"{number} {unit.lower()}s" for number, unit in parts), written.start)

    def rest(self) -> Word:
        """Return the rest of the statement as it is in the file, with its comments and hints."""
        return self._between(self.tokens[self.position :])

    def fail(self, detail: str, hint: str | None = None) -> NoReturn:
        """Fail at the next token, or behind the statement where there is none."""
        if self.position < len(self.tokens):
            self.fail_at(self.position, detail, hint)
        self.fail_end(detail, hint)

    def fail_at(self, position: int, detail: str, hint: str | None = None) -> NoReturn:
        """Fail at a token."""
        self.raises(self.tokens[position].start, detail, hint)

    def fail_end(self, detail: str, hint: str | None = None) -> NoReturn:
        """Fail behind the statement."""
        self.raises(self.tokens[-1].end + 1, detail, hint)

    def shown(self, token: Token) -> str:
        """Return a token as it is in the file."""
        return self._between([token]).text

    def _between(self, tokens: list[Token]) -> Word:
        """Return the text from the first to the last token."""
        return Word(self.text[tokens[0].start : tokens[-1].end + 1], tokens[0].start)


#: What reads the clauses of CREATE STREAM, by their first words.
STREAM_CLAUSES: Mapping[str, Callable[[ClauseReader], Any]] = {
    "USING": ClauseReader.format,
    "OPTIONS": ClauseReader.options,
    "WATERMARK": ClauseReader.watermark,
}


def nesting(word: str) -> int:
    """Return by how much a word of a type deepens its nesting; ``>>`` ends two."""
    return (word in ("(", "<", "[")) - sum(word.count(char) for char in ")>]")


def _word(token: Token) -> str:
    return "'" if token.token_type in QUOTED else token.text.upper()


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text) is not None
