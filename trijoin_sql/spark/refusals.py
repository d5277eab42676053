"""What Spark refuses on streams, in one sentence and before anything starts.

Spark checks a streaming plan when its query starts, and again when it plans the first micro-batch; its message shows
the plan. `StreamCheck` runs both checks first, for each output mode, and says what the message means. ``sql()`` itself
refuses a query that no mode runs. ``start()`` refuses a query that one mode does not run, if the DataFrame that
``sql()`` returned is the one that is written. The table `_MEANINGS` has what Spark refuses, and the words for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..errors import SqlSyntaxError, UnsupportedQueryError, line_and_column
from ..operators.compile.logical_plans import items, walk
from ..operators.spec import DISPATCH
from ..rewriter import on_streams
from ..rewriter.cautions import NEVER_CLOSE, UNBOUNDED_OUTER
from ..rewriter.glance import glance
from ..rewriter.plan.parts import Refusal
from ..rewriter.sql.match_recognize import match_recognize
from ..rewriter.sql.places import place_of
from .messages import first_sentence
from .plan_joins import OUTER
from .versions import minor, streaming_class

#: Spark's switch for its check, and the name of its answer if the answer has no name.
_UNCHECKED, _NO_NAME = "spark.sql.streaming.unsupportedOperationCheck", "no condition"


@dataclass(frozen=True)
class _Meaning:
    """The meaning of a Spark message with a pattern.

    Parameters
    ----------
    pattern
        It may have a group, whose match goes to ``{0}``, with joins by their SQL names.
    reason, hint
        What is refused, and the way out.
    words
        Words at that place in a statement, as ``A B|C``: the first phrase that occurs.
    by_mode
        Whether another output mode may run it.
    """

    pattern: str
    reason: str
    hint: str
    words: str = ""
    by_mode: bool = False


_APPEND_ALONE = "use MODE append"
#: What helps if the hint is there.
_NOT_OURS = ", or leave out the hint NO_TRIJOIN"
_PIVOT = Refusal("PIVOT of a stream", "write max(CASE WHEN ... END) for each of its columns")
_DISTINCT = Refusal(on_streams.DISTINCT.reason, on_streams.DISTINCT.hint)

_MEANINGS = (
    _Meaning(r"Streaming query is not allowed in subquery", *on_streams.SUBQUERY),
    _Meaning(r"^Sorting is not", *on_streams.SORT),
    _Meaning(r"^Offset is not", *on_streams.OFFSET),
    _Meaning(r"^Limits are not", *on_streams.LIMIT, by_mode=True),
    _Meaning(r"^Sampling is not", *on_streams.SAMPLE),
    _Meaning(r"^Intersect of", *on_streams.INTERSECT),
    _Meaning(r"^Except on", *on_streams.EXCEPT),
    _Meaning(r"^Union between streaming and batch", *on_streams.UNION),
    _Meaning(r"^Distinct aggregations", *on_streams.DISTINCT_AGGREGATE),
    _Meaning(r"Expression\(s\): (.+?) is not supported", "{0} over a stream", "leave it out, or use uuid() for an id"),
    _Meaning(r"^pivot is not", _PIVOT.reason, _PIVOT.hint or "", "PIVOT"),
    _Meaning(
        r"^Stream-stream (\w+) join .* without a watermark",
        UNBOUNDED_OUTER.reason,
        UNBOUNDED_OUTER.hint or "",
        "{0}",
    ),
    _Meaning(
        r"^Stream-stream join without equality",
        "a join of streams without an equality is left to Spark",
        f"add an equality of columns of both sides, such as a common key{_NOT_OURS}",
        "JOIN",
    ),
    _Meaning(r"^(LeftAnti) joins with a streaming", *on_streams.ANTI),
    _Meaning(r"^(\w+Outer) joins? with .* (?:and a|on the \w+ and a) static", *on_streams.TABLE_KEPT),
    _Meaning(r"^(\w+) joins? with a streaming", *on_streams.SEMI),
    _Meaning(
        r"^(Inner|Cross) join between two streaming .* not supported in (?:\w+) output",
        "a join of streams that Spark does by itself runs in append and update mode alone",
        f"use MODE append or update{_NOT_OURS}",
        by_mode=True,
    ),
    _Meaning(
        r"^(\w+) join between two streaming .* not supported in \w+ output mode, only in Append output",
        "a {0} of streams runs in append mode alone",
        _APPEND_ALONE,
        "{0}",
        by_mode=True,
    ),
    _Meaning(
        r"^(\w+) join between two streaming .* not supported in \w+ output",
        "a {0} of streams runs in append and update mode alone",
        "use MODE append or update",
        "{0}",
        by_mode=True,
    ),
    _Meaning(
        r"append. This output mode is not supported for streaming aggregations without watermark"
        r"|Append output mode not supported for aggregations",
        *on_streams.GROUPS,
        by_mode=True,
    ),
    _Meaning(
        r"complete. This output mode is not supported for no streaming aggregations",
        *on_streams.NOTHING_TO_COMPLETE,
        by_mode=True,
    ),
    _Meaning(
        r"update. This output mode is not supported for session window", *on_streams.SESSIONS_UPDATED, by_mode=True
    ),
    _Meaning(r"^Global aggregation with session window", *on_streams.SESSIONS_ALONE),
    _Meaning(
        r"^Detected pattern of possible 'correctness' issue|^Multiple streaming aggregations are not",
        *on_streams.AGGREGATED_TWICE,
        by_mode=True,
    ),
    _Meaning(r"Window function is not supported", *on_streams.OVER),
    _Meaning(
        r"^More than one event time column",
        "more than one column of event time reaches an aggregation, a join or a deduplication",
        "leave all but one out of what it reads, or read the others as text: CAST(s.ts AS STRING)",
    ),
)

#: A statement with groups that DISTINCT alone makes.
_ONLY_DISTINCT = re.compile(r"(?is)^(?!.*\bGROUP\s+BY\b).*\bSELECT\s+DISTINCT\b")

#: Joins as Spark names them in messages, and in SQL.
_JOINS = {kind.title().replace(" ", ""): words for kind, words in OUTER.items()}

#: The messages about streams in Spark's answer when it plans. Any other message may be temporary.
_OF_PLANS = r"^Stream-stream join without equality|^Global aggregation with session window"


@dataclass(frozen=True)
class Answer:
    """Why Spark would not run a query.

    Parameters
    ----------
    because
        The reason and the way out.
    words
        Words at that place in the statement.
    condition
        Spark's condition.
    by_mode
        Whether another output mode may run it.
    """

    because: Refusal
    words: str
    condition: str
    by_mode: bool = False

    def error(self, text: str, told: Sequence[Refusal] = ()) -> UnsupportedQueryError:
        """Return the error; ``told`` are refusals of the rewriter, which knows more about the query's event times."""
        own = told[0] if told and "event time" in self.because.reason else self.because
        if own.reason == NEVER_CLOSE.reason and _ONLY_DISTINCT.search(text):
            own = _DISTINCT
        hint = own.hint if "NO_TRIJOIN" in text.upper() else (own.hint or "").replace(_NOT_OURS, "")
        if self.words == on_streams.SUBQUERY.words and (found := on_streams.NOT_IN.search(text)):
            return UnsupportedQueryError(*on_streams.not_exists(found), text, found.start("not"), self.condition)
        if self.words == on_streams.OVER.words and (at := place_of(text, on_streams.QUALIFY.words)) is not None:
            return UnsupportedQueryError(*on_streams.QUALIFY[:2], text, at, self.condition)
        at = place_of(text, own.subject) if own is not self.because else None
        at = place_of(text, self.words) if at is None else at
        return UnsupportedQueryError(own.reason, hint, text, at, self.condition)


@dataclass
class StreamCheck:
    """Spark's checks of a streaming DataFrame of a classic session, run before its start."""

    frame: DataFrame

    def answer(self, mode: str) -> Answer | None:
        """Return why Spark would not run the query in an output mode, None if it would."""
        return self.unsupported(self._analyzed, mode) or self._unplannable(mode)

    def unsupported(self, plan: Any, mode: str) -> Answer | None:
        """Return what Spark's check of operations says about a plan, unless it is switched off."""
        if self.frame.sparkSession.conf.get(_UNCHECKED) == "false":
            return None
        modes = self._sql.streaming.OutputMode
        try:
            self._sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
                plan, getattr(modes, mode.capitalize())()
            )
        except PySparkException as error:
            return meaning(error)
        return None

    @cached_property
    def concerns_us(self) -> bool:
        """Whether there is a join, Spark's or ours, or a set operation: other queries stay with Spark."""
        return _JOINING.search(self._text) is not None

    @cached_property
    def _text(self) -> str:
        """The plan as text: one call instead of one for each node."""
        return str(self._analyzed.toString())

    @cached_property
    def _sql(self) -> Any:
        return self.frame.sparkSession._jvm.org.apache.spark.sql  # type: ignore[union-attr]

    @cached_property
    def _analyzed(self) -> Any:
        return self.frame._jdf.queryExecution().analyzed()

    @cached_property
    def _execution(self) -> Any:
        """The execution that EXPLAIN makes of a streaming query: a micro-batch in append mode, planned but not run.

        None in Spark 4.1, which does not show it. What it refuses there, it refuses when the query starts.
        """
        if minor(self.frame.sparkSession.version) < (4, 2):
            return None
        return self.frame._jdf.alias("planned").queryExecution().queryExecutionForExplain()

    @cached_property
    def _planned(self) -> tuple[Answer | None, Answer | None]:
        """What Spark says when it plans the query, and about event times that clear state."""
        if not (_OF_SPARKS.search(self._text) or _STATEFUL.search(self._text)):
            return None, None
        if self._execution is None:
            return None, None
        try:
            plan = self._execution.sparkPlan()
        except PySparkException as error:
            found = meaning(error) if re.search(_OF_PLANS, first_sentence(error)) else None
            return found, None
        return None, self._of_event_times(plan)

    def _of_event_times(self, plan: Any) -> Answer | None:
        """Return what Spark says about the event times below operators that clear their state by one."""
        name = streaming_class("operators.stateful.WatermarkSupport", self.frame.sparkSession.version)
        find = getattr(self.frame.sparkSession._jvm, name).findEventTimeColumn
        try:
            for step in walk(plan):
                for below in items(step.node.children()) if step.name in _CLEARING else ():
                    find(below.output(), False)
        except PySparkException as error:
            return meaning(error)
        return None

    def _unplannable(self, mode: str) -> Answer | None:
        planned, times = self._planned
        if planned is not None or (times is not None and mode != "complete"):
            return planned or times
        if mode != "append" or not re.search(r"[-~ ]Except\b", self._text) or self._execution is None:
            return None
        found = self.unsupported(self._execution.optimizedPlan(), mode)  # EXCEPT has become an aggregation there
        return found if found is not None and found.by_mode else None


#: Nodes of a plan as text: joins, Spark's among them, and other nodes that Spark may refuse when it plans.
_OF_SPARKS = re.compile(r"[-~ ](?:\w*Join|Intersect|Except)\b")
_JOINING = re.compile(rf"{_OF_SPARKS.pattern}|MapInArrow {DISPATCH}")
_STATEFUL = re.compile(r"[-~ ](?:Aggregate|Distinct|Deduplicate)\b")

#: Operators of a plan that use the one event time of each of their inputs.
_CLEARING = ("StateStoreSave", "SessionWindowStateStoreSave", "StreamingDeduplicate", "StreamingSymmetricHashJoin")


def of_another_door(text: str) -> SqlSyntaxError | None:
    """Return why a text that Spark cannot parse is no statement of a session, but of a job, a file, another system."""
    if (found := match_recognize(text)) is not None:
        return found
    words = text.upper().split()
    reason = None
    if len(words) == 1 and words[0].endswith(".SQL"):
        reason = f"{text.strip()} is the name of a file, and this takes the text of a statement: read the file first"
    elif words[:2] in (["CREATE", "STREAM"], ["CREATE", "SINK"]):
        reason = f"CREATE {words[1]} belongs to a file that trijoin-sql runs; use spark.readStream and writeStream here"
    elif words[:1] in (["INSERT"], ["CREATE"], ["MERGE"]) and "WITHIN" in words:
        reason = f'WITHIN stands in a query, not below {words[0]}: start tj.sql("SELECT ...").writeStream.toTable(name)'
    first = len(text) - len(text.lstrip())
    return None if reason is None else SqlSyntaxError(reason, text, *line_and_column(text, first))


def meaning(error: PySparkException) -> Answer:
    """Return the meaning of a Spark error in one sentence."""
    told = first_sentence(error)
    condition = error.getCondition() or _NO_NAME
    for one in _MEANINGS:
        if found := re.search(one.pattern, told):
            group = found[1] if found.re.groups and found[1] else ""
            name = _JOINS.get(group, group)
            words = one.words.format(f"{name}|{name.replace(' JOIN', ' OUTER JOIN')}")
            return Answer(Refusal(one.reason.format(name), one.hint), words, condition, one.by_mode)
    hint = "change that part of the query, or run it on batch tables"
    return Answer(Refusal(told[:1].lower() + told[1:], hint), "", condition)


def check_all_modes(frame: DataFrame, text: str, told: Mapping[str, Sequence[Refusal]]) -> DataFrame:
    """Refuse a query that no output mode runs; else return it with a check for the time when it is written.

    A DataFrame over tables, or over streams without a join and QUALIFY, is returned unchanged. ``told`` are the
    refusals of the rewriter, by mode.

    Raises
    ------
    UnsupportedQueryError
        Spark runs it in no mode.
    """
    if not frame.isStreaming or not hasattr(frame, "_jdf"):
        return frame
    check = StreamCheck(frame)
    if not (check.concerns_us or place_of(text, on_streams.QUALIFY.words) is not None):
        return frame
    found = {}
    for mode in on_streams.MODES:
        answer = check.answer(mode)
        if answer is None:
            return _checked(check, text, told)
        found[mode] = answer
    if _runs_aggregated(frame):
        return _checked(check, text, told)
    mode = next((mode for mode in on_streams.MODES if not found[mode].by_mode), "append")
    # Its hint names modes that do not run it either; the rewriter knows better why.
    if found[mode].because.reason == NEVER_CLOSE.reason and not told.get(mode):
        mode = "update"
        if place_of(text, "PIVOT") is not None:
            found[mode] = replace(found[mode], because=_PIVOT, words="PIVOT")
    raise found[mode].error(text, told.get(mode, ()))


def _runs_aggregated(frame: DataFrame) -> bool:
    """Return whether a query runs in some mode if an aggregation is put above it."""
    above = StreamCheck(frame.groupBy().count())
    return any(above.answer(mode) is None for mode in on_streams.MODES)


def _checked(check: StreamCheck, text: str, told: Mapping[str, Sequence[Refusal]]) -> DataFrame:
    """Return a copy of a DataFrame that runs the check when a query is started from it."""
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    class Checked(Classic):
        @property
        def writeStream(self) -> DataStreamWriter:  # noqa: N802 (Spark's name)
            return _CheckedWriter(self, check, text, told)

    Checked.__name__ = Checked.__qualname__ = "DataFrame"
    return Checked(check.frame._jdf, check.frame.sparkSession)


class _CheckedWriter(DataStreamWriter):
    def __init__(self, frame: DataFrame, check: StreamCheck, text: str, told: Mapping[str, Sequence[Refusal]]) -> None:
        super().__init__(frame)
        self._check, self._text, self._told, self._mode = check, text, told, "append"

    def outputMode(self, outputMode: str) -> DataStreamWriter:  # noqa: N802, N803 (Spark's names)
        self._mode = outputMode
        return super().outputMode(outputMode)

    def start(self, *args: Any, **options: Any) -> StreamingQuery:
        self._refuse(options.get("outputMode") or (args[2:3] or [None])[0] or self._mode)
        return super().start(*args, **options)

    def toTable(self, *args: Any, **options: Any) -> StreamingQuery:  # noqa: N802 (Spark's name)
        self._refuse(options.get("outputMode") or (args[2:3] or [None])[0] or self._mode)
        return super().toTable(*args, **options)

    def _refuse(self, mode: Any) -> None:
        mode = str(mode).strip().lower()
        answer = self._check.answer(mode) if mode in on_streams.MODES else None
        if answer is not None:
            raise answer.error(self._text, self._told.get(mode, ()))


def of_streams(error: AnalysisException, text: str) -> UnsupportedQueryError | None:
    """Return our error for a Spark error that a statement gets only because it reads streams."""
    if (error.getCondition() or "") not in ("INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY", "_LEGACY_ERROR_TEMP_3063"):
        return None
    return meaning(error).error(text)


def leave_out_plan(error: Any, text: str) -> None:
    """Remove the plan below Spark's message about a statement with a join; class, condition and context stay."""
    if getattr(error, "_desc", None) and _may_join(text):
        error._desc = error._desc.partition(";\n")[0]


def _may_join(text: str) -> bool:
    if re.search(r"\bJOIN\b", text, re.IGNORECASE):  # only Spark parses pipes, INSERT and EXECUTE IMMEDIATE
        return True
    try:
        return glance(text).joins != "none"
    except SqlSyntaxError:
        return True
