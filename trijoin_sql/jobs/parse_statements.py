"""Text to statements. The first mistake stops it, with its place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ..errors import SqlSyntaxError
from ..rewriter.sql.dialect import parse_statement
from ..rewriter.sql.intervals import lengths
from ..rewriter.sql.spark_types import ONE_WORD
from ..rewriter.sql.token_reader import QUOTED, TokenReader, nesting
from .job_text import Script, Word, close, did_you_mean
from .statements import (
    MODES,
    ColumnDefinition,
    CreateSink,
    CreateStream,
    InsertInto,
    Job,
    JobStatement,
    Option,
    Options,
    SparkStatement,
    StartSetting,
    Trigger,
    WatermarkClause,
)

_TEXT = (TokenType.STRING, TokenType.RAW_STRING)

STREAM_CLAUSES = ("USING", "OPTIONS", "WATERMARK")
SINK_CLAUSES = ("USING", "OPTIONS", "MODE", "TRIGGER")
_TRIGGER = "TRIGGER PROCESSING TIME '10 seconds', TRIGGER AVAILABLE NOW or TRIGGER ONCE"
_WATERMARK = "WATERMARK column DELAY OF INTERVAL 10 SECONDS"


def parse_job(script: Script) -> Job:
    """Parse a job file.

    Raises
    ------
    JobError
        At the first mistake.
    """
    return Job(script, tuple(_statement(script, tokens) for tokens in script.statements()))


def parse_declarations(script: Script) -> Job:
    """Parse the streams, sinks and inserts of a file, if it is a job's: one that has a sink.

    A file without a sink only shows queries over inputs that need not exist; nothing of it is parsed.

    Raises
    ------
    JobError
        At the first mistake.
    """
    found = [(tokens, [token.text.upper() for token in tokens[:2]]) for tokens in script.statements()]
    ours = (["CREATE", "STREAM"], ["CREATE", "SINK"], ["INSERT", "INTO"])
    is_job = any(words == ["CREATE", "SINK"] for _, words in found)
    taken = [tokens for tokens, words in found if is_job and words in ours]
    return Job(script, tuple(_statement(script, tokens) for tokens in taken))


def _statement(script: Script, tokens: list[Token]) -> JobStatement:
    reader = _Reader(script, tokens)
    words = [token.text.upper() for token in tokens[:5] if token.token_type not in QUOTED]
    match words:
        case ["CREATE", "OR", "REPLACE", "STREAM" | "SINK" as kind, *_]:
            reader.fail_at(1, f"CREATE {kind} takes no OR REPLACE: a job starts from nothing")
        case ["CREATE", "OR", "REPLACE", "TEMP" | "TEMPORARY", "STREAM" | "SINK" as kind, *_]:
            reader.fail_at(1, f"CREATE {kind} takes no OR REPLACE: a job starts from nothing")
        case ["CREATE", "TEMP" | "TEMPORARY" as word, "STREAM" | "SINK" as kind, *_]:
            reader.fail_at(1, f"CREATE {kind} takes no {word}: it lasts as long as the job anyway")
        case ["CREATE", "STREAM", *_]:
            return _stream(reader)
        case ["CREATE", "SINK", *_]:
            return _sink(reader)
        case ["DROP", "STREAM" | "SINK" as kind, *_]:
            reader.fail_at(0, f"there is no DROP {kind}: a job starts from nothing", "leave the statement out")
        case ["CREATE", "STREAMING", *_] | ["CREATE", "OR", "REFRESH", *_]:
            reader.fail_at(
                1, "a job has no streaming tables", "write CREATE STREAM for an input, CREATE SINK for an output"
            )
        case ["#" | "/" | "//" | "DIV", *_]:
            reader.fail_at(0, "no statement begins like this", "a comment begins with -- or stands in /* */")
        case ["INSERT", *_]:
            return _insert(reader)
        case ["SELECT" | "WITH" | "FROM", *_]:
            hint = "put INSERT INTO and the name of a sink before it"
            reader.fail_at(0, "a query on its own has nowhere to put its rows", hint)
        case ["EXPLAIN", *_]:
            reader.fail_at(0, "EXPLAIN runs nothing", "ask for plans with: trijoin-sql explain")
        case ["SET", *rest]:
            _check_one_line(reader)
            if rest[:3] == ["SPARK", ".", "JARS"]:
                return _start_setting(reader)
    for at, known in enumerate((("CREATE", "INSERT"), ("STREAM", "SINK") if words[:1] == ["CREATE"] else ())):
        is_word = at < len(tokens) and words[at : at + 1] == [tokens[at].text.upper()]
        meant = close(words[at], known, 0.75) if is_word else None
        if meant is not None and meant != words[at]:
            reader.fail_at(at, f"no statement begins with {' '.join(words[: at + 1])}", f"did you mean {meant}?")
    sql = reader.rest()
    if words[:1] == ["CREATE"] and "VIEW" in words:
        _check_sql(script, sql)
    return SparkStatement(sql)


def _stream(reader: _Reader) -> CreateStream:
    name = reader.declared_name("STREAM")
    columns = _columns(reader) if reader.word() == "(" else ()
    source, options, watermark = None, Options(), None
    for clause in reader.clauses(STREAM_CLAUSES):
        match clause:
            case "USING":
                source = reader.name("a format such as parquet")
            case "OPTIONS":
                options = _options(reader)
            case _:
                watermark = _watermark(reader)
    if source is None:
        reader.fail_end("USING and a format are missing: where do the rows come from?")
    return CreateStream(name, source, columns, options, watermark)


def _sink(reader: _Reader) -> CreateSink:
    name = reader.declared_name("SINK")
    if reader.word() == "(":
        reader.fail("a sink declares no columns: those of the query that is inserted count")
    target, options, mode, trigger = None, Options(), None, None
    for clause in reader.clauses(SINK_CLAUSES):
        match clause:
            case "USING":
                target = reader.name("a format such as parquet")
            case "OPTIONS":
                options = _options(reader)
            case "MODE":
                word = reader.name("append, update or complete")
                mode = Word(word.text.lower(), word.start)
                if mode.text not in MODES:
                    reader.script.fail(mode.start, f"there is no mode {word.text}", did_you_mean(word.text, MODES))
            case _:
                trigger = _trigger(reader)
    if target is None:
        reader.fail_end("USING and a format are missing: where do the rows go to?")
    return CreateSink(name, target, options, mode, trigger)


def _insert(reader: _Reader) -> InsertInto:
    reader.take()
    if reader.word() == "OVERWRITE":
        reader.fail("streams are inserted INTO a sink; nothing is overwritten", "use MODE complete on the sink")
    reader.expect("INTO", "INSERT INTO sink SELECT ...")
    if reader.word() == "TABLE" and reader.word(1) not in ("", "SELECT", "WITH", "FROM", "("):
        reader.fail("INSERT INTO takes the name of a sink, without TABLE")
    sink = reader.name("the name of a sink")
    if reader.word() == ".":
        reader.fail("a sink has a simple name, without a dot")
    if reader.word() == "VALUES":
        reader.fail("a sink takes the rows of a SELECT, no VALUES")
    if reader.word() == "(" and reader.word(1) not in ("SELECT", "WITH", "FROM", "("):
        reader.fail("a list of columns is not taken here", "choose the columns and their names in the SELECT")
    if reader.word() not in ("SELECT", "WITH", "FROM", "TABLE", "("):
        reader.fail_here("a SELECT is missing after the name of the sink")
    query = reader.rest()
    _check_sql(reader.script, query)
    return InsertInto(sink, query)


def _start_setting(reader: _Reader) -> StartSetting:
    reader.take()
    key = reader.rest()
    name, equals, value = key.text.partition("=")
    text = value.strip()
    if not equals or not text:
        reader.fail_end(f"{name.strip()} has no value", "write SET spark.jars.packages = group:artifact:version")
    start = key.start + len(name) + 1 + len(value) - len(value.lstrip())
    listed = ",".join(part.strip() for part in text.strip("'\"").split(","))
    return StartSetting(Word(name.strip(), key.start), Word(listed, start))


def _check_one_line(reader: _Reader) -> None:
    """Fail where a statement begins on a line of its own: the value of a SET would swallow it."""
    for at, token in enumerate(reader.tokens[1:], 1):
        line_before = reader.script.text[: token.start].rpartition("\n")[2]
        if token.text.upper() in ("CREATE", "INSERT", "SET") and not line_before.strip():
            reader.fail_at(at, f"a semicolon is missing before {token.text}")


def _check_sql(script: Script, sql: Word) -> None:
    try:
        statement = parse_statement(sql.text)
    except SqlSyntaxError as error:
        raise script.syntax_error(error, sql.start) from None
    marker = next(iter(statement.tree.find_all(exp.Placeholder)), None) if statement.tree else None
    if marker is not None:
        text = "?" if "start" in marker.meta else f":{marker.name}"
        at = marker.meta.get("start") or sql.text.find(text)
        script.fail(sql.start + max(at, 0), f"a job has no parameters, and {text} is one", "write the value")


def _columns(reader: _Reader) -> tuple[ColumnDefinition, ...]:
    columns: list[ColumnDefinition] = []
    reader.take()
    while True:
        name = reader.name("the name of a column")
        if any(column.name.text.lower() == name.text.lower() for column in columns):
            reader.script.fail(name.start, f"there are two columns named {name.text}")
        if reader.word() in (",", ")"):
            reader.fail(f"the column {name.text} has no type")
        columns.append(ColumnDefinition(name, reader.until_comma("the list of columns")))
        reader.check_type(columns[-1])
        if reader.take().text == ")":
            return tuple(columns)


def _options(reader: _Reader) -> Options:
    reader.expect("(", "OPTIONS (key 'value', ...)")
    found: list[Option] = []
    while reader.word() != ")" or found:
        key = _key(reader)
        if reader.word() in ("=>", ":", ":="):
            reader.fail(f"the option {key.text} is followed by its value", "write OPTIONS (key 'value', ...)")
        if reader.word() == "=":
            reader.take()
        value = _value(reader, key)
        if any(option.key.text.lower() == key.text.lower() for option in found):
            reader.script.fail(key.start, f"the option {key.text} is given twice")
        found.append(Option(key, value))
        if reader.word() == ")":
            break
        reader.expect(",", "a comma between options")
    reader.take()
    return Options(found)


def _key(reader: _Reader) -> Word:
    first = reader.take("the name of an option")
    if first.token_type in QUOTED:
        return Word(first.text, first.start)
    text = first.text
    while reader.word() == ".":
        reader.take()
        text += "." + reader.take("the rest of the option's name").text
    if not re.fullmatch(r"[\w.-]+", text):
        reader.script.fail(first.start, f"an option has a name and a value; {first.text} is no name")
    return Word(text, first.start)


def _value(reader: _Reader, key: Word) -> Word:
    if reader.word() in (",", ")", ""):
        reader.fail(f"the option {key.text} has no value")
    token = reader.take()
    sign, start = "", token.start
    if token.text == "-" and token.token_type not in QUOTED:
        sign, token = "-", reader.take("a number")
    plain = token.token_type in (*_TEXT, TokenType.NUMBER) or token.text.lower() in ("true", "false")
    if not plain:
        curly = any(quote in token.text for quote in "‘’“”")
        hint = "these are typographic quotes; write 'value'" if curly else "quote it if it is text: 'value'"
        reader.script.fail(token.start, f"the value of {key.text} is a text in quotes, a number, true or false", hint)
    return Word(sign + token.text, start)


def _watermark(reader: _Reader) -> WatermarkClause:
    column = reader.name(f"the column of {_WATERMARK}")
    if reader.word() == ".":
        reader.fail("WATERMARK takes a column of the stream, without a dot", f"write {_WATERMARK}")
    first, length = reader.delay()
    return WatermarkClause(column, Word(_duration(reader, length, first.start), first.start))


def _trigger(reader: _Reader) -> Trigger:
    start = reader.take("what triggers")
    match start.text.upper(), reader.word():
        case "AVAILABLE", "NOW":
            reader.take()
            return Trigger("available_now")
        case "ONCE", _:
            return Trigger("once")
        case "PROCESSING", "TIME":
            reader.take()
            if reader.at_text():
                token = reader.take()
                return Trigger("processing", _duration(reader, token.text, token.start))
            if reader.word() == "INTERVAL":
                reader.take()
                first, length = reader.length()
                return Trigger("processing", _duration(reader, length, first.start))
            reader.fail("how often? A time such as '10 seconds' is missing", f"write {_TRIGGER}")
        case "CONTINUOUS", _:
            reader.script.fail(
                start.start, "continuous processing cannot run joins, aggregations or foreachBatch", f"write {_TRIGGER}"
            )
    raise reader.script.error(start.start, f"{start.text} is no trigger", f"write {_TRIGGER}")


def _duration(reader: _Reader, text: str, start: int) -> str:
    text = re.sub(r"^interval\s+", "", text.strip().lower())
    parts = lengths(text)
    if parts is None:
        hint = "write a number and a unit such as 10 seconds"
        raise reader.script.error(start, f"{text!r} is no length of time", hint)
    return " ".join(f"{number} {unit.lower()}s" for number, unit in parts)


class _Reader(TokenReader):
    """Reads one statement; every mistake has its place in the file and, where there is one, a way out."""

    ends = (*STREAM_CLAUSES, *SINK_CLAUSES, "CREATE", "INSERT", "SET")

    def __init__(self, script: Script, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.script = script

    def at_text(self) -> bool:
        return self.position < len(self.tokens) and self.tokens[self.position].token_type in _TEXT

    def ended(self, what: str) -> NoReturn:
        self.fail_end(f"the statement ends where {what} is expected")

    def missing(self, word: str) -> NoReturn:
        if word == "INTERVAL":
            self.fail("INTERVAL is missing", f"write {_WATERMARK}")
        self.expect(word, _WATERMARK)
        raise AssertionError(f"{word} is there")

    def expect(self, word: str, form: str) -> None:
        if self.position >= len(self.tokens):
            self.fail_end(f"{word} is missing", f"write {form}")
        if self.word() != word:
            self.fail(f"{word} is missing before {self.tokens[self.position].text}", f"write {form}")
        self.position += 1

    def name(self, what: str) -> Word:
        token = self.take(what)
        quoted = token.token_type == TokenType.IDENTIFIER
        if token.token_type in _TEXT or not (quoted or re.fullmatch(r"[^\W\d][\w-]*", token.text)):
            hint = f"write {token.text} or `{token.text}`" if re.fullmatch(r"[^\W\d]\w*", token.text) else None
            self.script.fail(token.start, f"{what} is expected here, not {self._shown(token)}", hint)
        if not token.text:
            self.script.fail(token.start, f"{what} is empty")
        text, end = token.text, token.end
        # Formats such as rate-micro-batch are several tokens in one word.
        while not quoted and self.word() == "-" and self.tokens[self.position].start == end + 1:
            text += "-" + self.tokens[self.position + 1].text if self.word(1) else "-"
            end = self.tokens[min(self.position + 1, len(self.tokens) - 1)].end
            self.position = min(self.position + 2, len(self.tokens))
        return Word(text, token.start)

    def declared_name(self, kind: str) -> Word:
        self.position = 2
        if self.word() == "IF":
            self.fail(f"CREATE {kind} takes no IF NOT EXISTS: a job starts from nothing")
        if self.word() in ("", "USING"):
            self.fail_here(f"the {kind.lower()} has no name")
        name = self.name(f"the name of the {kind.lower()}")
        if self.word() == ".":
            self.fail(f"a {kind.lower()} has a simple name, without a dot")
        return name

    def clauses(self, known: tuple[str, ...]) -> Iterator[str]:
        """Yield the clauses that follow, each at most once; the caller reads their contents."""
        seen: set[str] = set()
        while self.position < len(self.tokens):
            word = self.word()
            if word not in known:
                token = self.tokens[self.position]
                if self.starts_statement():
                    self.fail(f"a semicolon is missing before {token.text}")
                best = close(token.text, known)
                hint = f"did you mean {best}?" if best else f"the clauses are {', '.join(known)}"
                self.fail(f"{self._shown(token)} was not expected here", hint)
            if word in seen:
                self.fail(f"{word} is given twice")
            seen.add(word)
            self.position += 1
            yield word

    def until_comma(self, what: str) -> Word:
        """Read up to a comma or a closing parenthesis at this depth, which stays."""
        read = self.to_comma()
        if not self.word():
            self.fail_end(f"{what} has no end: a ) is missing")
        return Word(self.script.text[read[0].start : read[-1].end + 1], read[0].start)

    def check_type(self, column: ColumnDefinition) -> None:
        """Fail at text that follows a column's type, which was just read, and is not part of it."""
        first = next(at for at in range(self.position) if self.tokens[at].start == column.type.start)
        depth = 0
        for at in range(first, self.position):
            text = self.word(at - self.position)
            if at > first and not depth and text in ("NOT", "COMMENT", "COLLATE"):
                return
            if at > first and not depth and nesting(text) <= 0 and self.tokens[first].text.lower() in ONE_WORD:
                shown = self._shown(self.tokens[at])
                detail = f"a column has a name and a type, and perhaps NOT NULL or a COMMENT; {shown} was not expected"
                self.fail_at(at, detail)
            depth += nesting(text)

    def starts_statement(self) -> bool:
        return self.word() in ("CREATE", "INSERT", "SET")

    def rest(self) -> Word:
        """Return the rest of the statement as it is in the file, with its comments and hints."""
        start = self.tokens[self.position].start
        return Word(self.script.text[start : self.tokens[-1].end + 1], start)

    def fail(self, detail: str, hint: str | None = None) -> NoReturn:
        self.script.fail(self.tokens[min(self.position, len(self.tokens) - 1)].start, detail, hint)

    def fail_at(self, position: int, detail: str, hint: str | None = None) -> NoReturn:
        self.script.fail(self.tokens[position].start, detail, hint)

    def fail_end(self, detail: str, hint: str | None = None) -> NoReturn:
        self.script.fail(self.tokens[-1].end + 1, detail, hint)

    def fail_here(self, detail: str) -> NoReturn:
        if self.position < len(self.tokens):
            self.fail(detail)
        self.fail_end(detail)

    def _shown(self, token: Token) -> str:
        return self.script.text[token.start : token.end + 1]
