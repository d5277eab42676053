"""What Spark refuses on streams, in one sentence and before anything starts.

Spark checks a streaming plan when its query starts, and answers with the plan. `refusal` asks it before, for one output
mode, and says what its answer means. What no mode runs is refused by ``sql()`` itself; what one mode does not run by
``start()``, where the DataFrame that ``sql()`` returned is the one that is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from .errors import SqlSyntaxError, UnsupportedQueryError
from .rewriter.dialect import tokenize
from .rewriter.plan import Refusal

MODES = ("append", "update", "complete")

_TIME = "a watermark on both sides and a condition that bounds their event times, such as WITHIN or t.ts BETWEEN ..."


@dataclass(frozen=True)
class _Meaning:
    """What a message of Spark's with a pattern means: what is refused, the way out, and words where that stands."""

    pattern: str
    reason: str
    hint: str
    words: str = ""


_APPEND_ALONE = "use MODE append"
_WINDOWS = "use MODE append, with a window of event time in each"
_OUTER = "LEFT RIGHT FULL SEMI"

_MEANINGS = (
    _Meaning(
        r"Streaming query is not allowed in subquery",
        "a subquery in an expression (EXISTS, IN, a scalar subquery) reads a stream",
        "join the stream in FROM instead (LEFT SEMI JOIN with an equality stands for EXISTS), or let it read a table",
        "EXISTS IN SELECT",
    ),
    _Meaning(
        r"^Sorting is not",
        "ORDER BY would have to wait for the end of a stream",
        "sort what the sink holds, or aggregate in MODE complete",
        "ORDER SORT",
    ),
    _Meaning(r"^Offset is not", "OFFSET over a stream", "leave it out", "OFFSET"),
    _Meaning(r"^Limits are not", "LIMIT over a stream runs in append mode alone", _APPEND_ALONE, "LIMIT"),
    _Meaning(
        r"^Sampling is not",
        "TABLESAMPLE of a stream",
        "filter by a hash of a key, such as pmod(hash(id), 10) = 0",
        "TABLESAMPLE",
    ),
    _Meaning(
        r"^Intersect of", "INTERSECT of streams", "write it as a LEFT SEMI JOIN with bounds on event time", "INTERSECT"
    ),
    _Meaning(r"^Except on", "EXCEPT with a stream on its right", "subtract a table instead", "EXCEPT MINUS"),
    _Meaning(
        r"^Distinct aggregations",
        "a DISTINCT aggregate over a stream",
        "use approx_count_distinct, or SELECT DISTINCT below it",
        "DISTINCT",
    ),
    _Meaning(
        r"^Stream-stream \w+ join .* without a watermark",
        "the outer join of streams has no bound in event time, so it would never know that a row has no partner",
        f"it needs {_TIME}",
        _OUTER,
    ),
    _Meaning(
        r"^Stream-stream join without equality",
        "a join of streams without an equality is left to Spark",
        "remove the hint NO_TRIJOIN, or add an equality",
        "JOIN",
    ),
    _Meaning(
        r"^LeftAnti joins with a streaming",
        "an anti join with a stream on its right",
        "use a LEFT JOIN with bounds on event time, and keep the rows without a partner",
        "ANTI NOT",
    ),
    _Meaning(
        r"^\w+Outer join with a streaming .* and a static",
        "an outer join that keeps all rows of a table beside a stream",
        "keep the rows of the stream, or use an inner join",
        _OUTER,
    ),
    _Meaning(
        r"join between two streaming .* not supported in \w+ output",
        "an outer join of streams runs in append mode alone",
        _APPEND_ALONE,
        _OUTER,
    ),
    _Meaning(
        r"append. This output mode is not supported for streaming aggregations without watermark",
        "groups without a window of event time never close, so append mode would give none",
        "group by window(...) over an event time, or use MODE complete or update",
        "GROUP DISTINCT UNION",
    ),
    _Meaning(
        r"complete. This output mode is not supported for no streaming aggregations",
        "complete mode gives the groups of an aggregation, and there is none",
        _APPEND_ALONE,
    ),
    _Meaning(
        r"update. This output mode is not supported for session window",
        "session windows do not run in update mode",
        _APPEND_ALONE,
        "SESSION_WINDOW",
    ),
    _Meaning(
        r"^Detected pattern of possible 'correctness' issue",
        "an aggregation, a join or a deduplication above another one runs in append mode alone",
        _WINDOWS,
        "GROUP",
    ),
    _Meaning(
        r"^Multiple streaming aggregations are not",
        "an aggregation above another one runs in append mode alone",
        _WINDOWS,
        "GROUP",
    ),
    _Meaning(
        r"Window function is not supported",
        "a window function other than window(...) over event time",
        "aggregate by window(...) and join, or compute it over what the sink holds",
        "OVER",
    ),
)


def refusal(frame: DataFrame, mode: str) -> tuple[Refusal, str, str] | None:
    """Return why Spark would not start a query in an output mode, the words where that stands, and its condition.

    Parameters
    ----------
    frame
        A streaming DataFrame of a classic session.
    mode
        ``append``, ``update`` or ``complete``.
    """
    sql: Any = frame.sparkSession._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    try:
        sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            frame._jdf.queryExecution().analyzed(), getattr(sql.streaming.OutputMode, mode.capitalize())()
        )
    except PySparkException as error:
        return meaning(error)
    return None


def meaning(error: PySparkException) -> tuple[Refusal, str, str]:
    """Return what an error of Spark's means in one sentence, the words where it stands, and its condition's name."""
    told = first_sentence(error)
    condition = error.getCondition() or "no condition"
    for one in _MEANINGS:
        if re.search(one.pattern, told):
            return Refusal(one.reason, one.hint), one.words, condition
    hint = "change that part of the query, or run it on batch tables"
    return Refusal(told[:1].lower() + told[1:], hint), "", condition


def first_sentence(error: PySparkException) -> str:
    """Return Spark's message without its condition, its SQLSTATE and the plan below it."""
    line = str(error).split("\n", 1)[0]
    line = re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", line)
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", line).rstrip(" ;.")


def refused(found: tuple[Refusal, str, str], text: str, told: list[Refusal]) -> UnsupportedQueryError:
    """Return the error for a refusal; ``told`` are those of the rewriter, which knows more of the query."""
    because, words, condition = found
    own = next((one for one in told), because)
    place = _place(text, words)
    return UnsupportedQueryError(f"{own.reason}{place} (Spark's condition {condition})", own.hint)


def check_all_modes(frame: DataFrame, text: str, told: dict[str, list[Refusal]]) -> DataFrame:
    """Refuse a query that runs in no output mode; else return it so that it is checked when it is written.

    Parameters
    ----------
    frame
        What is to be returned to the user.
    text
        The statement.
    told
        By mode: what the rewriter has to say.

    Raises
    ------
    UnsupportedQueryError
        Spark runs it in no mode.
    """
    unchecked = "spark.sql.streaming.unsupportedOperationCheck"
    if not frame.isStreaming or not hasattr(frame, "_jdf") or frame.sparkSession.conf.get(unchecked) == "false":
        return frame
    found = {}
    for mode in MODES:
        one = refusal(frame, mode)
        if one is None:
            break
        found[mode] = one
    else:
        mode = next((mode for mode in MODES if "output mode" not in found[mode][0].reason), "append")
        raise refused(found[mode], text, told.get(mode, []))

    def check(mode: str) -> None:
        because = refusal(frame, mode)
        if because is not None:
            raise refused(because, text, told.get(mode, [])) from None

    return _checked(frame, check)


def _checked(frame: DataFrame, check: Callable[[str], None]) -> DataFrame:
    """Return a DataFrame that is like another one, but for the check when a query is started from it."""
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    class Checked(Classic):
        @property
        def writeStream(self) -> DataStreamWriter:  # noqa: N802 (Spark's name)
            return _CheckedWriter(self, check)

    Checked.__name__ = Checked.__qualname__ = "DataFrame"
    return Checked(frame._jdf, frame.sparkSession)


class _CheckedWriter(DataStreamWriter):
    def __init__(self, frame: DataFrame, check: Callable[[str], None]) -> None:
        super().__init__(frame)
        self._check, self._mode = check, "append"

    def outputMode(self, outputMode: str) -> DataStreamWriter:  # noqa: N802, N803 (Spark's names)
        self._mode = str(outputMode).strip().lower()
        return super().outputMode(outputMode)

    def start(self, *args: Any, **options: Any) -> StreamingQuery:
        mode = str(options.get("outputMode") or (args[2:3] or [None])[0] or self._mode).strip().lower()
        if mode in MODES:
            self._check(mode)
        return super().start(*args, **options)

    def toTable(self, *args: Any, **options: Any) -> StreamingQuery:  # noqa: N802 (Spark's name)
        if self._mode in MODES:
            self._check(self._mode)
        return super().toTable(*args, **options)


def of_streams(error: AnalysisException, text: str) -> UnsupportedQueryError | None:
    """Return our error for one of Spark's that a statement gets only because it reads streams."""
    if (error.getCondition() or "") != "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY":
        return None
    return refused(meaning(error), text, [])


def place_of(text: str, words: str) -> int | None:
    """Return the offset in a text of the first of some words that stands there."""
    try:
        tokens = tokenize(text) if words else []
    except SqlSyntaxError:
        return None
    known = [token for word in words.split() for token in tokens if token.text.upper().split(" ")[0] == word]
    return known[0].start if known else None


def _place(text: str, words: str) -> str:
    start = place_of(text, words)
    if start is None:
        return ""
    return f", line {text.count(chr(10), 0, start) + 1}, column {start - text.rfind(chr(10), 0, start)}"
