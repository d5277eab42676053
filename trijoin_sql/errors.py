"""Errors, in PySpark's conventions: a condition name, an SQLSTATE, message parameters.

This module is a leaf: the rewriter and the operators raise these classes too, and import nothing else from the package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Condition:
    """One row of the table of errors.

    Parameters
    ----------
    sqlstate
        Five characters; Spark's own where Spark has the same condition.
    message
        The sentence that a user reads, with ``{parameters}``.
    action
        What to do about it.
    """

    sqlstate: str
    message: str
    action: str


#: Every error condition there is. `make docs-parts` writes the table of docs/errors.md from it.
CONDITIONS: Mapping[str, Condition] = MappingProxyType(
    {
        "TRIJOIN_SYNTAX_ERROR": Condition(
            "42601",
            "Syntax error: {detail} (line {line}, column {column})",
            "Correct the SQL at the place that the caret marks.",
        ),
        "TRIJOIN_UNSUPPORTED_QUERY": Condition(
            "0A000", "This query cannot run on streams: {reason}.", "Follow the hint, or run it on batch tables."
        ),
        "TRIJOIN_NOT_PROVEN": Condition(
            "0A000",
            "Strict mode refuses this query: {reason}.",
            "Add the clause that the hint names, or run it without --strict and spark.trijoin.strict.",
        ),
        "TRIJOIN_UNAVAILABLE": Condition("0A000", "{what} is not available: {reason}.", "Follow the hint."),
        "TRIJOIN_INVALID_HINT": Condition(
            "42602", "The hint {hint} is not usable here: {reason}.", "Correct or remove the hint."
        ),
        "TRIJOIN_INVALID_SETTING": Condition(
            "22023",
            "The setting {setting} = {value} is not usable: {reason}.",
            "Give it a value of the kind that the message names.",
        ),
        "TRIJOIN_CHECKPOINT_MISMATCH": Condition(
            "55000",
            "The checkpoint {checkpoint} belongs to another query: {difference}.",
            "Use a new checkpoint location, or start the query that the checkpoint was written by.",
        ),
        "TRIJOIN_CHECKPOINT_VERSION": Condition(
            "55000",
            "The checkpoint {checkpoint} was written by another version of TriJoin SQL or Spark: {difference}.",
            "Go on with that version, or give the query a new checkpoint; this one has changed nothing in it.",
        ),
        "TRIJOIN_SINK_MISMATCH": Condition(
            "55000",
            "The checkpoint {checkpoint} is new, and its file sink is not: {difference}.",
            "Empty or rename the sink's folder, or go on with the checkpoint that it was written with.",
        ),
        "TRIJOIN_CHECKPOINT_DAMAGED": Condition(
            "58030",
            "The checkpoint {checkpoint} is damaged: {detail}.",
            "Put back a whole copy of it, or use a new checkpoint location.",
        ),
        "TRIJOIN_ARITHMETIC_OVERFLOW": Condition(
            "22003",
            "{expression} overflows {type}.",
            "Cast the operands to a wider type; Spark itself raises here in ANSI mode.",
        ),
        "TRIJOIN_JOB_ERROR": Condition(
            "42000", "{place}: {detail}", "Correct the job file at the place that the caret marks."
        ),
        "TRIJOIN_INTERNAL": Condition(
            "XX000", "A broken invariant, which is a bug of TriJoin SQL: {detail}.", "Please report it with the query."
        ),
    }
)


_TWICE = (
    "another run of this query is writing to the same checkpoint or folder: a job that was started twice. Let one of "
    "them end; the other goes on where it stopped"
)

#: What Spark says of causes that it does not name, and what that means.
_CAUSES = {
    "Python worker failed to connect back": (
        "a Python worker did not start in time: the machine is too busy, or too many sessions and queries share it. "
        "Run fewer at once, or give Spark fewer cores (local[2,4]); it waits ten seconds, and no setting changes that"
    ),
    "assertion failed: CheckpointInfo length": (
        "its sink did not read all rows of a micro-batch, so no state was saved. In a classic session "
        "spark.trijoin.liberties.wholeBatches=true computes them all the same, or trijoin_sql.recover_file_sink and "
        "recover_foreach_batch do; elsewhere a function of foreachBatch must read its whole DataFrame"
    ),
    # Names of classes: Spark has them in its refusals for the trigger realTime alone.
    "joins.SortMergeJoinExec": (
        "Spark joins a table by sorting, which the trigger realTime does not allow. Let Spark broadcast it: with the "
        "hint BROADCAST(its name or alias), or with a larger spark.sql.autoBroadcastJoinThreshold"
    ),
    "joins.BroadcastNestedLoopJoinExec": (
        "a table is joined without an equality, and the trigger realTime does not allow how Spark does that. Join it "
        "by an equality too, or start the query with another trigger"
    ),
    "CONCURRENT_STREAM_LOG_UPDATE": _TWICE,
    "multiple concurrent streaming queries are writing to the same output": _TWICE,
    "Multiple streaming queries are concurrently using": _TWICE,
}


def hint_of(why: str, text: str) -> str:
    """Return the line with the way out for a reason of ours, as its error gave it in a text; empty if there is none."""
    condition = re.match(r"\[(TRIJOIN_\w+)\]", why)
    if condition is None or condition[1] not in CONDITIONS:
        return ""
    given = re.search(r"\nHint: (.*)", text[max(text.find(f"[{condition[1]}]"), 0) :])
    return f"\nHint: {given[1] if given else CONDITIONS[condition[1]].action}"


def cause_of(failure: str) -> str | None:
    """Return why a query failed, where Spark's own message about that does not say it."""
    return next((why for mark, why in _CAUSES.items() if mark in failure), None)


class TriJoinError(Exception):
    """Base of all errors that TriJoin SQL raises.

    Parameters
    ----------
    condition
        A key of `CONDITIONS`.
    parameters
        Values for the message's ``{parameters}``.
    hint
        A way out, in one sentence.
    marked
        The line that it is about, and a caret below the place.
    """

    def __init__(
        self, condition: str, parameters: Mapping[str, object], hint: str | None = None, marked: str | None = None
    ) -> None:
        self.condition = condition
        self.parameters = {name: str(value) for name, value in parameters.items()}
        self.hint = hint
        #: The sentence alone: no condition, no line, no hint.
        self.message = CONDITIONS[condition].message.format(**self.parameters)
        behind = ([marked] if marked else []) + ([f"Hint: {hint}"] if hint else [])
        #: All that a user reads but for the condition.
        self.told = "\n".join([self.message, *behind])
        super().__init__(f"[{condition}] {self.told}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.__dict__.copy(), self.args)

    def getCondition(self) -> str:  # noqa: N802 (PySpark's name)
        """Return the condition name, as PySpark's errors do."""
        return self.condition

    def getSqlState(self) -> str:  # noqa: N802 (PySpark's name)
        """Return the SQLSTATE."""
        return CONDITIONS[self.condition].sqlstate

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802 (PySpark's name)
        """Return the message parameters."""
        return dict(self.parameters)


def _rebuild(cls: type[TriJoinError], state: dict[str, object], args: tuple[object, ...]) -> TriJoinError:
    error = cls.__new__(cls)
    error.__dict__.update(state)
    error.args = args
    return error


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    r"""Return line and column, both from 1, of an offset in a text.

    Examples
    --------
    >>> line_and_column("SELECT a\nFROM r", 9)
    (2, 1)
    """
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


#: The longest line that an error shows whole; of a longer one it shows this much, around the place.
SHOWN = 100


_KEY = r"(?:password|passwd|secret|credential|jaas|token)[\w.\-]*+['\"`]?"

#: A key whose value nobody is to read in a log, and the value: a literal, which may have lost its end; a word behind an
#: equals sign or before a comma or parenthesis, unless it has a dot, as a column that is compared has; what SET gives.
_SECRET = re.compile(
    rf"""({_KEY}\s*=?\s*)('(?:[^'\\]|\\.|'')*|"(?:[^"\\]|\\.)*"""
    r"""|(?:(?<==)|(?<== )|(?<=\s)(?=[^\s;]+\s*[,)]))[^\s;,()'".]++(?!\.))"""
    rf"""|(\bSET\s+[\w.\-]*?{_KEY}\s*=\s*)([^\s;'"]+)""",
    re.IGNORECASE | re.DOTALL,
)


def without_secrets(text: str) -> str:
    """Return a text with a star for each letter of passwords, secrets and tokens; all else stays in its place.

    Examples
    --------
    >>> without_secrets("OPTIONS (path 'out', kafka.ssl.key.password 'abc', topic 'r'); SET my.token=xy;")
    "OPTIONS (path 'out', kafka.ssl.key.password '***', topic 'r'); SET my.token=**;"
    """
    return _SECRET.sub(lambda found: (found[1] or found[3]) + _starred(found[2] or found[4] or ""), text)


def _starred(value: str) -> str:
    quote = value[:1] if value[:1] in ("'", '"') else ""
    return quote + re.sub(r"[^\n]", "*", value[len(quote) :])


def secrets_in(text: str) -> list[str]:
    """Return what `without_secrets` takes from a text."""
    return [value for found in _SECRET.finditer(text) if (value := (found[2] or found[4] or "").lstrip("'\""))]


def _marked(text: str, line: int, column: int) -> str:
    """Return a line of a text, or the part of a long one around the place, and a caret below its column."""
    lines = without_secrets(text).split("\n")
    shown = lines[min(line, len(lines)) - 1].rstrip("\r")
    if len(shown) > SHOWN:
        first = max(0, min(column - 1 - SHOWN // 2, len(shown) - SHOWN))
        cut, last = shown[first : first + SHOWN], first + SHOWN
        shown = ("…" if first else "") + cut + ("…" if last < len(shown) else "")
        column += (1 if first else 0) - first
    before = "".join(char if char == "\t" else " " for char in shown[: column - 1])
    return f"{shown}\n{before.ljust(column - 1)}^"


class SqlSyntaxError(TriJoinError):
    """The SQL text does not parse.

    Parameters
    ----------
    detail
        What is wrong, in one sentence.
    sql
        The whole text.
    line, column
        Where, from 1.
    """

    def __init__(self, detail: str, sql: str, line: int, column: int) -> None:
        self.detail, self.sql, self.line, self.column = detail, sql, line, column
        place = {"line": line, "column": column}
        super().__init__("TRIJOIN_SYNTAX_ERROR", {"detail": detail, **place}, marked=_marked(sql, **place))


class UnsupportedQueryError(TriJoinError):
    """Neither TriJoin SQL nor Spark can run the query on streams.

    Parameters
    ----------
    reason
        Why not, a clause without a full stop.
    hint
        A way out, in one sentence.
    sql, offset
        The statement, and the place in it of what is refused.
    spark
        The condition of Spark's refusal.
    subject
        How what is refused begins in a statement, if that is in one place.
    unknown
        The relation of which more would have to be known, empty for any; None where knowing more would not help.
    """

    _condition = "TRIJOIN_UNSUPPORTED_QUERY"

    def __init__(
        self,
        reason: str,
        hint: str | None = None,
        sql: str | None = None,
        offset: int | None = None,
        spark: str | None = None,
        subject: str = "",
        unknown: str | None = None,
    ) -> None:
        self.offset, self.subject, self.unknown = offset, subject, unknown
        #: The reason without its place.
        self.reason = reason if spark is None else f"{reason} (Spark's condition {spark})"
        told = reason
        if sql is not None and offset is not None:
            told = "{}, line {}, column {}".format(reason, *line_and_column(sql, offset))
        told = told if spark is None else f"{told} (Spark's condition {spark})"
        parameters = {"reason": told} if spark is None else {"reason": told, "condition": spark}
        super().__init__(self._condition, parameters, hint)

    @property
    def unplaced(self) -> str:
        """The message without the place, and without a full stop."""
        return CONDITIONS[self.condition].message.format(reason=self.reason).removesuffix(".")


class NotProvenError(UnsupportedQueryError):
    """Strict mode refuses the query: a join of streams keeps rows for ever, makes a cross product, or is Spark's.

    Parameters
    ----------
    reason
        Why it is not proven, a clause without a full stop.
    streams
        The streams that it is about.
    hint
        What to add, in one sentence.
    sql, offset
        The statement, and the place in it of the stream or of the condition.
    """

    _condition = "TRIJOIN_NOT_PROVEN"

    def __init__(
        self, reason: str, streams: str, hint: str | None = None, sql: str | None = None, offset: int | None = None
    ) -> None:
        super().__init__(reason, hint, sql, offset)
        #: The streams that it is about.
        self.streams = streams


class UnavailableError(TriJoinError):
    """Something is not available in this session, or for this query, whatever its SQL.

    Parameters
    ----------
    what
        What was asked for.
    reason
        Why not, a clause without a full stop.
    hint
        A way out, in one sentence.
    """

    def __init__(self, what: str, reason: str, hint: str | None = None) -> None:
        super().__init__("TRIJOIN_UNAVAILABLE", {"what": what, "reason": reason}, hint)


class InvalidHintError(TriJoinError):
    """A TRIJOIN, SCHEME or UNITS hint cannot be followed.

    Parameters
    ----------
    hint_text
        The hint as the user wrote it.
    reason
        Why not, a clause without a full stop.
    """

    def __init__(self, hint_text: str, reason: str) -> None:
        super().__init__("TRIJOIN_INVALID_HINT", {"hint": hint_text, "reason": reason})


class InvalidSettingError(TriJoinError, ValueError):
    """A setting has an invalid value.

    Parameters
    ----------
    setting
        Its name.
    value
        What it was set to.
    reason
        What it takes, a clause without a full stop.
    """

    def __init__(self, setting: str, value: object, reason: str) -> None:
        super().__init__("TRIJOIN_INVALID_SETTING", {"setting": setting, "value": value, "reason": reason})


class JobError(TriJoinError):
    """A job file has a mistake.

    Parameters
    ----------
    detail
        What is wrong, in one sentence.
    path
        The file, as the user named it.
    text
        The file's whole text.
    line, column
        Where, from 1.
    hint
        A way out.
    """

    def __init__(self, detail: str, path: str, text: str, line: int, column: int, hint: str | None = None) -> None:
        for secret in secrets_in(text):  # which may be what is wrong
            detail = detail.replace(secret, "***")
        self.path, self.line, self.column, self.detail = path, line, column, detail
        parameters = {"place": f"{path}:{line}:{column}", "detail": detail}
        super().__init__("TRIJOIN_JOB_ERROR", parameters, hint, _marked(text, line, column))

    @property
    def located(self) -> str:
        """The message as compilers write it: the place first, which editors and terminals turn into a link."""
        return self.told


class PlanError(TriJoinError):
    """A broken invariant of a plan: a bug of ours, never the user's.

    Parameters
    ----------
    detail
        The broken invariant.
    """

    def __init__(self, detail: str) -> None:
        super().__init__("TRIJOIN_INTERNAL", {"detail": detail})


class CheckpointMismatchError(TriJoinError):
    """A checkpoint was written by another query.

    Parameters
    ----------
    checkpoint
        Its location.
    difference
        What differs, a clause without a full stop.
    """

    _condition = "TRIJOIN_CHECKPOINT_MISMATCH"

    def __init__(self, checkpoint: str, difference: str) -> None:
        super().__init__(self._condition, {"checkpoint": checkpoint, "difference": difference})


class CheckpointVersionError(CheckpointMismatchError):
    """A checkpoint was written by another version, in a format that this one does not know, or under a newer Spark.

    Parameters
    ----------
    checkpoint
        Its location.
    difference
        The versions of its parts.
    """

    _condition = "TRIJOIN_CHECKPOINT_VERSION"


class SinkMismatchError(CheckpointMismatchError):
    """A file sink has results that were written with another checkpoint.

    Parameters
    ----------
    checkpoint
        The query's checkpoint.
    difference
        What the sink has.
    """

    _condition = "TRIJOIN_SINK_MISMATCH"


class CheckpointDamagedError(TriJoinError):
    """A checkpoint lacks a part of its listed contents.

    Parameters
    ----------
    checkpoint
        Its location.
    detail
        What is missing or broken.
    """

    def __init__(self, checkpoint: str, detail: str) -> None:
        super().__init__("TRIJOIN_CHECKPOINT_DAMAGED", {"checkpoint": checkpoint, "detail": detail})


class JoinOverflowError(TriJoinError, ArithmeticError):
    """A difference in a join condition overflows its type, where Spark batch in ANSI mode raises too.

    Parameters
    ----------
    expression
        The difference, as SQL.
    type_name
        Its type, as SQL.
    """

    def __init__(self, expression: str, type_name: str) -> None:
        super().__init__("TRIJOIN_ARITHMETIC_OVERFLOW", {"expression": expression, "type": type_name})
