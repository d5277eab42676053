"""Text to statements. The first mistake stops it, with its place in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from ..errors import SqlSyntaxError
from ..rewriter.sql.clauses import NO_OPTIONS, QUOTED, STREAM_CLAUSES, ClauseReader, Word, late_rows_clauses
from ..rewriter.sql.similar import close, did_you_mean
from ..rewriter.sql.statement import parse_statement
from .job_text import Script
from .setting_names import assignment
from .statements import (
    MODES,
    REAL_TIME,
    CreateSink,
    CreateStream,
    InsertInto,
    Job,
    JobStatement,
    SparkStatement,
    StartSetting,
)

_LATE = "write INSERT INTO sink SELECT ... LATE ROWS INTO another_sink"

_QUERY = ("SELECT", "WITH", "FROM", "(", "EXPLAIN")

_TRIGGER = "TRIGGER PROCESSING TIME '10 seconds', AVAILABLE NOW, ONCE or REAL TIME '5 minutes'"


def parse_job(script: Script) -> Job:
    """Parse a job file.

    Raises
    ------
    JobError
        At the first mistake.
    """
    return Job(script, tuple(read_statement(script, tokens) for tokens in script.statements()))


def parse_declarations(script: Script) -> Job:
    """Parse the statements of a file but its queries, if it is a job's: one that has a sink.

    A file without a sink only shows queries over inputs that need not exist; nothing of it is parsed.

    Raises
    ------
    JobError
        At the first mistake.
    """
    found = [(tokens, [token.text.upper() for token in tokens[:2]]) for tokens in script.statements()]
    is_job = any(words == ["CREATE", "SINK"] for _, words in found)
    taken = [tokens for tokens, words in found if is_job and (words[0] not in _QUERY or _inserts(tokens))]
    return Job(script, tuple(read_statement(script, tokens) for tokens in taken))


def _inserts(tokens: list[Token]) -> bool:
    """Tell whether WITH stands before an INSERT."""
    words = [token.text.upper() for token in tokens if token.token_type not in QUOTED]
    return words[0] == "WITH" and ("INSERT", "INTO") in pairwise(words)


def read_statement(script: Script, tokens: list[Token]) -> JobStatement:
    """Parse one statement of a job.

    Raises
    ------
    JobError
        It has a mistake.
    """
    reader = _Reader(script, tokens)
    words = [token.text.upper() for token in tokens[:5] if token.token_type not in QUOTED]
    if words[:1] != ["INSERT"] and (at := next(late_rows_clauses(tokens), None)) is not None:
        reader.fail_at(at, "LATE ROWS belongs to an INSERT INTO", _LATE)
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
            if _inserts(tokens):
                reader.fail_at(
                    0, "WITH stands before INSERT INTO", "write it behind: INSERT INTO sink WITH ... SELECT ..."
                )
            reader.fail_at(0, "a query on its own has nowhere to put its rows", hint)
        case ["EXPLAIN", *_]:
            reader.fail_at(0, "EXPLAIN runs nothing", "ask for plans with: trijoin-sql explain")
        case ["SET", *rest]:
            _check_one_line(reader)
            if rest[:3] == ["SPARK", ".", "JARS"]:
                return _start_setting(reader)
    refuse_slips(script, tokens)
    sql = reader.rest()
    if words[:1] == ["CREATE"] and "VIEW" in words:
        _check_sql(script, sql)
    return SparkStatement(sql)


def refuse_slips(script: Script, tokens: list[Token], verbs: tuple[str, ...] = ("CREATE", "INSERT")) -> None:
    """Fail at the first or second word of a statement that is probably one of these, mistyped."""
    words = [token.text.upper() for token in tokens[:5] if token.token_type not in QUOTED]
    for at, known in enumerate((verbs, ("STREAM", "SINK") if words[:1] == ["CREATE"] else ())):
        is_word = at < len(tokens) and words[at : at + 1] == [tokens[at].text.upper()]
        meant = close(words[at], known, 0.75) if is_word else None
        if meant is not None and meant != words[at]:
            detail = f"no statement begins with {' '.join(words[: at + 1])}"
            script.fail(tokens[at].start, detail, f"did you mean {meant}?")


def _stream(reader: _Reader) -> CreateStream:
    name = reader.declared_name("STREAM")
    columns = reader.columns(strict=True)
    found = reader.clauses(STREAM_CLAUSES)
    if "USING" not in found:
        reader.fail("USING and a format are missing: where do the rows come from?")
    return CreateStream(name, found["USING"], columns, found.get("OPTIONS", NO_OPTIONS), found.get("WATERMARK"))


def _sink(reader: _Reader) -> CreateSink:
    name = reader.declared_name("SINK")
    if reader.word() == "(":
        reader.fail("a sink declares no columns: those of the query that is inserted count")
    found = reader.clauses(SINK_CLAUSES)
    if "USING" not in found:
        reader.fail("USING and a format are missing: where do the rows go to?")
    return CreateSink(name, found["USING"], found.get("OPTIONS", NO_OPTIONS), found.get("MODE"), found.get("TRIGGER"))


def _insert(reader: _Reader) -> InsertInto:
    reader.position = 1
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
        refuse_slips(reader.script, reader.tokens[reader.position :], ("SELECT", "WITH", "FROM"))
        reader.fail("a SELECT is missing after the name of the sink")
    late = _late_rows(reader)
    query = reader.rest()
    _check_sql(reader.script, query)
    return InsertInto(sink, query, late)


def _late_rows(reader: _Reader) -> Word | None:
    """Read LATE ROWS INTO from the end of an INSERT, and leave the statement without it."""
    found = list(late_rows_clauses(reader.tokens))
    if not found:
        return None
    if len(found) > 1:
        reader.fail_at(found[1], "LATE ROWS is given twice", "the late rows of a query go into one sink")
    begin = reader.position
    reader.position = found[0] + 3
    name = reader.name("the name of the sink for late rows")
    if reader.word() == ".":
        reader.fail("a sink has a simple name, without a dot")
    if reader.word():
        reader.fail_at(found[0], "LATE ROWS INTO comes last in an INSERT", _LATE)
    reader.tokens, reader.position = reader.tokens[: found[0]], begin
    if len(reader.tokens) <= begin + 1:
        reader.fail("a SELECT is missing before LATE ROWS INTO")
    return name


def _start_setting(reader: _Reader) -> StartSetting:
    sql = reader.rest().text
    found = assignment(sql)
    if found is None or not found.value:
        name = sql[len("SET") :].partition("=")[0].strip()
        reader.fail_end(f"{name} has no value", "write SET spark.jars.packages = group:artifact:version")
    return StartSetting(found.key, ",".join(part.strip() for part in found.value.strip("'\"").split(",")))


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


def _mode(reader: ClauseReader) -> Word:
    word = reader.name("append, update or complete")
    if word.text.lower() not in MODES:
        reader.raises(word.start, f"there is no mode {word.text}", did_you_mean(word.text, MODES))
    return Word(word.text.lower(), word.start)


def _trigger(reader: ClauseReader) -> dict[str, str | bool]:
    """Read a trigger; return it as ``DataStreamWriter.trigger`` takes it."""
    first = reader.take("what triggers")
    match first.text.upper(), reader.word():
        case "ONCE", _:
            return {"once": True}
        case "AVAILABLE", "NOW":
            reader.position += 1
            return {"availableNow": True}
        case "PROCESSING", "TIME":
            reader.position += 1
            return {"processingTime": _interval(reader)}
        case "REAL", "TIME":
            reader.position += 1
            return {REAL_TIME: _interval(reader)}
        case "CONTINUOUS", _:
            detail = "continuous processing cannot run joins, aggregations or foreachBatch"
        case _:
            detail = f"{first.text} is no trigger"
    return reader.raises(first.start, detail, f"write {_TRIGGER}")


def _interval(reader: ClauseReader) -> str:
    if reader.word() == "INTERVAL":
        reader.position += 1
        return reader.length().text
    if reader.word() != "'":
        reader.fail("how often? A time such as '10 seconds' is missing", f"write {_TRIGGER}")
    token = reader.take("a time")
    return reader.duration(Word(token.text, token.start)).text


#: What reads the clauses of CREATE SINK, by their first words.
SINK_CLAUSES: Mapping[str, Callable[[ClauseReader], Any]] = {
    "USING": ClauseReader.format,
    "OPTIONS": ClauseReader.options,
    "MODE": _mode,
    "TRIGGER": _trigger,
}


class _Reader(ClauseReader):
    """Reads one statement of a job."""

    def __init__(self, script: Script, tokens: list[Token]) -> None:
        super().__init__(script.text, tokens, script.fail)
        self.script = script

    def declared_name(self, kind: str) -> Word:
        self.position = 2
        if self.word() == "IF":
            self.fail(f"CREATE {kind} takes no IF NOT EXISTS: a job starts from nothing")
        if self.word() in ("", "USING"):
            self.fail(f"the {kind.lower()} has no name")
        name = self.name(f"the name of the {kind.lower()}")
        if self.word() == ".":
            self.fail(f"a {kind.lower()} has a simple name, without a dot")
        return name
