"""What a query with a join of ours says first when it fails: one sentence, before Spark's own text.

Spark's text shows its plan, which is one of ours that no user has written, and SQL out of it. For a checkpoint that is
damaged it has many words, and some of them name neither the checkpoint nor the file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from ..errors import CheckpointDamagedError, TriJoinError, UnavailableError, hint_of
from ..operators.recent import Recent
from ..operators.spec import PREFIX
from ..spark.messages import FAILED, last_cause, reason, sentence, without_class
from ..spark.plan_joins import in_users_words
from ..spark.quiet import leave_out_logged_errors
from .metrics import numbers_of
from .writers import location

#: Queries of ours by id: the checkpoint, and the names of the joined relations.
_started = Recent[str, tuple[str, frozenset[str]]](1000)

#: The names of relations that queries over tables join, the newest last.
_joined = Recent[str, None](1000)

#: A part of a statement in Spark's text, and the marks below it.
_MARKED = r"\n== SQL \(.*\) ==\n[^^]*\^+"

#: Spark's words for a checkpoint that cannot be read, and ours.
_DAMAGES = (
    (r"Failed to read log file (\S+)\. \[MALFORMED_LOG_FILE\]", "its file {0} cannot be read"),
    (r"(?:^|exception: )\[MALFORMED_LOG_FILE\] ([^\n]+?)\.? SQLSTATE", "one of its files cannot be read: {0}"),
    (r"\[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY\]()", "its folder state is gone"),
    (r"\[CANNOT_LOAD_STATE_STORE[.\w]*\]()", "its folder state cannot be read: {1}"),
    (r"terminated with exception:\s+SQLSTATE()", "one of its files cannot be read: {1}"),  # an exception without words
)


def remember(query_id: str, checkpoint: str, relations: Iterable[str]) -> None:
    """Keep what the failure of a query is told with."""
    _started[query_id] = checkpoint, frozenset(relations)


def remember_relations(names: Iterable[str]) -> None:
    """Keep what the failure of a query over tables is told with."""
    for name in names:
        _joined[name] = None


def told(text: str, stack: str = "") -> str:
    """Return Spark's text about a query that failed, with a sentence before it and without our plan.

    Parameters
    ----------
    text
        Spark's message.
    stack
        Java's stack of it, with all causes.

    Returns
    -------
    str
        The text as it is, if it is not about a query of ours.
    """
    known = next((one for one in re.findall(r"\bid = ([0-9a-f-]{36})", text) if one in _started), None)
    if known is None or text.startswith(FAILED):
        return text
    checkpoint, relations = _started[known]
    detail = damage(text, checkpoint, stack)
    why = reason(text) if detail is None else str(CheckpointDamagedError(checkpoint, detail))
    expression = _expression(text) if detail is None else None
    first = _in_users_words(f"{FAILED}{why}{f', in {expression}' if expression else ''}", relations)
    if hint := hint_of(why, text):
        first += hint
        if "\n" not in text:  # it was refused by us, and there is no more to it
            return first
    below = re.sub(_MARKED, "", text.partition("\n\nLogical Plan:")[0])
    return f"{first}\n\nSpark says:\n{_in_users_words(below, relations)}"


def marked(text: str) -> str:
    """Return Spark's text about a query over tables with what it marks in our SQL in the words of the query."""
    block, expression = re.search(_MARKED, text), _expression(text)
    if block is None or expression is None:
        return text
    said = _in_users_words(expression, _joined)
    if said == expression and not re.search(r"\bAS v\d|STRUCT\(\*\)", block[0]):  # the query's own SQL
        return text
    return f"{text[: block.start()]}\n== SQL (of the query) ==\n{said}\n{'^' * len(said)}{text[block.end() :]}"


def damage(text: str, checkpoint: str, stack: str) -> str | None:
    """Return what of a checkpoint cannot be read, None if an error is about something else."""
    for pattern, detail in _DAMAGES:
        found = re.search(pattern, text)
        if found is not None and (not re.match(r"\w+:/|/", found[1]) or found[1].startswith(checkpoint)):
            return detail.format(found[1].removeprefix(f"{checkpoint}/"), without_class(last_cause(stack)).rstrip("."))
    return None


def _expression(text: str) -> str | None:
    """Return what Spark marks in a statement."""
    found = re.search(r"\n== SQL \(.*\) ==\n(.*)\n( *)(\^+)", text)
    return None if found is None else found[1][found.start(3) - found.start(2) :][: len(found[3])]


def _in_users_words(text: str, relations: Iterable[str]) -> str:
    """Return a text in which columns of a join's results have the names that they have in the query."""
    names = "|".join(map(re.escape, sorted(relations, key=len, reverse=True)))
    text = re.sub(rf"\b({names})__(?=\w)", r"\1.", re.sub(r"\b_pyspark_[0-9a-f]{32}\.", "", text))
    return in_users_words(text)


def tell_failures(starts: Callable[[Any], AbstractContextManager[None]]) -> None:
    """Let PySpark's exceptions of queries of ours, and `start` on a checkpoint that is none, say so first.

    For the whole process, once.

    Parameters
    ----------
    starts
        Is entered with each writer while its query starts.
    """
    from pyspark.errors.exceptions.captured import AnalysisException, CapturedException, StreamingQueryException
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    leave_out_logged_errors()
    spark_says: Any = CapturedException.__str__
    if spark_says.__module__ == __name__:
        return

    def say(error: Any) -> str:
        text = str(spark_says(error))
        if isinstance(error, StreamingQueryException):
            return told(text, error._stackTrace or "")
        if isinstance(error, AnalysisException) and f"CollectMetrics {PREFIX}_" in text:
            return text.partition(";\n")[0]
        ours = re.search(r"\[TRIJOIN_\w+\] .*", text) if "Python worker" in text else None
        return marked(text) if ours is None else f"{ours[0]}\n\nSpark says:\n{text}"

    CapturedException.__str__ = say  # type: ignore[method-assign]
    for name in ("start", "toTable"):
        setattr(DataStreamWriter, name, _starting(vars(DataStreamWriter)[name], starts))


def _starting(start: Callable[..., Any], starts: Callable[[Any], AbstractContextManager[None]]) -> Callable[..., Any]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException

    from ..spark.refusals import meaning

    @functools.wraps(start)
    def starting(writer: Any, *args: Any, **options: Any) -> Any:
        try:
            with starts(writer):
                return start(writer, *args, **options)
        except Py4JJavaError as error:
            ours = not_started(error, writer)
            if ours is None or not numbers_of(writer._df):
                raise
        except AnalysisException as error:
            of_mode = (error.getCondition() or "") == "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"
            if not of_mode or not numbers_of(writer._df):
                raise
            ours = meaning(error).error("")
        raise ours

    return starting


def not_started(error: Exception, writer: Any) -> TriJoinError | None:
    """Return our error for Java's, if a query does not start because its checkpoint cannot be reached, made or read."""
    text = str(error)
    if re.search(r"No FileSystem for scheme|Mkdirs failed|Permission denied|CHECKPOINT_FILE_MANAGER", text):
        hint = "look at how the path begins, at who may write there, and at the packages that Spark reaches it with"
        why = without_class(last_cause(text)).rstrip(".")
        return UnavailableError(f"the checkpoint {location(writer) or 'of this query'}", why, hint)
    if "StreamMetadata" in text:
        return CheckpointDamagedError(
            location(writer) or "of this query", f"its file metadata cannot be read: {sentence(error)}"
        )
    if "ResolveWriteToStream" not in text:
        return None
    is_file = re.search(r"FileAlreadyExistsException|ParentNotDirectoryException", text)
    return CheckpointDamagedError(
        location(writer) or "of this query", f"{'a file is in its way: ' if is_file else ''}{sentence(error)}"
    )
