"""What was entered: where it ends, and its statements. Needs no Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from ..errors import SqlSyntaxError
from ..jobs.job_text import Script
from ..jobs.parse_statements import read_statement
from ..jobs.statements import CreateSink, CreateStream, JobStatement, SparkStatement
from ..rewriter.sql.clauses import QUOTED, Word
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.similar import did_you_mean

#: Words that leave the shell, as in other ones.
LEAVE = ("exit", "quit", r"\q", r"\quit")


@dataclass(frozen=True, slots=True)
class Drop:
    """``DROP STREAM name`` or ``DROP SINK name``: a job starts from nothing, a shell does not."""

    kind: str
    name: Word


@dataclass(frozen=True, slots=True)
class Entered:
    """A statement; ``replaces`` with OR REPLACE, which a job does not have either."""

    statement: JobStatement | Drop
    replaces: bool = False


def command(text: str) -> str | None:
    r"""Return a command of the shell's own, None for SQL.

    Examples
    --------
    >>> command(" quit; "), command(r"\rows 50"), command("SELECT 1")
    ('quit', '\\rows 50', None)
    """
    words = text.strip().rstrip(";").strip()
    return words if words.startswith("\\") or words.lower() in (*LEAVE, "help", "?") else None


def is_complete(text: str) -> bool:
    r"""Tell whether Enter runs a text, or only begins another line.

    Examples
    --------
    >>> [is_complete(text) for text in ("SELECT 1", "SELECT 1;", "SELECT ';", "SELECT 1; -- done", r"\help", " ")]
    [False, True, False, True, True, True]
    """
    if command(text) is not None:
        return True
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:  # a string, a quoted name or a comment goes on
        return False
    return not tokens or tokens[-1].token_type == TokenType.SEMICOLON


def read_entered(script: Script, sinks: Collection[str], streams: Collection[str] = ()) -> list[Entered]:
    """Parse what was entered, as a job is parsed, and also what only a shell has.

    Parameters
    ----------
    script
        The text.
    sinks
        The names of the sinks that exist, in lower case: any other INSERT is Spark's.
    streams
        Those of the streams.

    Raises
    ------
    JobError
        At the first mistake.
    """
    found, known, read = list[Entered](), set(sinks), set(streams)
    if (begin := len(script.text) - len(script.text.lstrip())) < len(script.text) and script.text[begin] == "\\":
        script.fail(begin, "commands that begin with \\ work at the prompt only", "leave it out here")
    for tokens in script.statements():
        one = _read(script, tokens, known, read)
        if isinstance(one.statement, CreateSink | CreateStream):
            (known if isinstance(one.statement, CreateSink) else read).add(one.statement.name.text.lower())
        found.append(one)
    return found


def _read(script: Script, tokens: list[Token], sinks: set[str], streams: set[str]) -> Entered:
    words = ["" if token.token_type in QUOTED else token.text.upper() for token in tokens[:4]]
    match words:
        case ["CREATE", "OR", "REPLACE", "STREAM" | "SINK"]:
            return Entered(read_statement(script, [tokens[0], *tokens[3:]]), replaces=True)
        case ["DROP", "STREAM" | "SINK" as kind, *_]:
            return Entered(_drop(script, tokens, kind.lower()))
        case ["INSERT", "INTO", _, *_] if tokens[2].text.lower() in sinks:
            return Entered(read_statement(script, tokens))
        case ["INSERT", "INTO", _, *_] if "WITHIN" in [token.text.upper() for token in tokens]:
            hint = did_you_mean(tokens[2].text, sorted(sinks)) if sinks else "declare it: CREATE SINK name USING ..."
            script.fail(tokens[2].start, f"there is no sink named {tokens[2].text}", hint)
        case ["INSERT", "INTO", _, *_] if tokens[2].text.lower() in streams:
            name = tokens[2].text
            script.fail(tokens[2].start, f"{name} is a stream: rows are inserted into a sink", "CREATE SINK makes one")
        case ["DROP", "TABLE" | "VIEW", _, *_] if tokens[2].text.lower() in (*streams, *sinks):
            kind = "STREAM" if tokens[2].text.lower() in streams else "SINK"
            script.fail(tokens[1].start, f"{tokens[2].text} is a {kind.lower()}", f"write DROP {kind} {tokens[2].text}")
        case ["SHOW", "STREAMS" | "SINKS" as kind, *_]:
            script.fail(tokens[1].start, f"Spark has no SHOW {kind}", r"\tables lists streams, sinks, tables and views")
        case ["INSERT" | "SELECT" | "WITH" | "FROM" | "EXPLAIN", *_]:
            start, end = tokens[0].start, tokens[-1].end + 1
            return Entered(SparkStatement(Word(script.text[start:end], start)))
    return Entered(read_statement(script, tokens))


def _drop(script: Script, tokens: list[Token], kind: str) -> Drop:
    if len(tokens) == 2:
        script.fail(tokens[1].end + 1, f"the {kind} has no name")
    if len(tokens) > 3:
        script.fail(tokens[3].start, f"DROP {kind.upper()} takes the name of a {kind}, and nothing else")
    return Drop(kind, Word(tokens[2].text, tokens[2].start))
