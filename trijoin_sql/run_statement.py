"""The path of a statement, on one screen: read it, then let Spark or us run it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from .compile_statement import Planned, Ran, compile_statement
from .errors import NotProvenError, PlanError, SqlSyntaxError, UnavailableError, UnsupportedQueryError
from .explain import FORMS, Explanation
from .operators.compile.compiling import sql_over
from .operators.compile.logical_plans import is_query
from .rewriter.glance import glance, left_to_spark, read_otherwise, tries_pairs
from .rewriter.pipeline import Rewrite
from .rewriter.plan.nodes import Scan, walk
from .rewriter.plan.parts import Refusal
from .rewriter.plan.stored import Stored
from .rewriter.sql.arguments import Arguments
from .rewriter.sql.hints import for_spark
from .rewriter.sql.places import placed
from .rewriter.sql.statement import ASOF, Statement, View, parse_statement, read_histories, without_online
from .rewriter.strict import unproven
from .running.history import with_histories
from .running.known_joins import behind_spark, known_numbers
from .running.listener import listen, observed_rates, observed_shares
from .running.metrics import numbers_of, topmost_number
from .settings import STRICT, refuse_unknown, rewriter_settings, value
from .spark.config import refuse_default_store, refuse_server_without_us, tasks_at_once
from .spark.flags import Setting, settings_of
from .spark.frames import Named, named_frames, refuse_missing, takes_frames, temporary_views
from .spark.liberties import HOLD_BACK_IN_PLAN, JOIN_IN_PLAN, taken
from .spark.null_keys import with_nulls_apart
from .spark.plan_joins import LeftToSparkError, in_users_words, join_in_plan
from .spark.quiet import errors_expected
from .spark.refusals import check_all_modes, leave_out_plan, of_another_door, of_streams
from .spark.session_catalog import SparkCatalog
from .spark.unproven import refuse_spark_joins
from .spark.versions import lacks, lacks_clause

#: How the checkpoint of `TriJoinSession.resuming` stores rows.
stored: ContextVar[tuple[Stored, ...]] = ContextVar("stored", default=())

#: The checkpoints of `TriJoinSession.resuming`.
checkpoints: ContextVar[tuple[str, ...]] = ContextVar("checkpoints", default=())

#: Whether the late rows of what is compiled can be asked for.
late_rows: ContextVar[bool] = ContextVar("late_rows", default=False)

_log = logging.getLogger("trijoin_sql")

#: How many statements can be explained by their DataFrames on Spark Connect: the latest.
_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a statement: `text` and `args` as the user gave them, and what Spark runs where it runs it."""

    text: str
    args: Any
    frames: Named  # that the text knows by name
    spark_sql: str
    planned: Planned | None = None  # how it runs, if it may be ours
    outer: Statement | None = None  # Spark's over tables, because its joins are all outer, semi or anti ones
    frame: DataFrame | None = None  # as Spark has analysed it
    unreadable: SqlSyntaxError | None = None  # the mistake in a text that only Spark may be able to parse
    refused: UnsupportedQueryError | None = None  # why it cannot run, unless Spark finds another mistake


class StatementRunner:
    """Runs the statements of a session.

    Parameters
    ----------
    spark
        A classic or Spark Connect session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        #: Whether to look at output modes; a job knows its modes and says so itself.
        self.checks_modes = True
        #: Whether strict mode is on, whatever the session's setting says.
        self.strict = False
        #: What was run, by its number, for `explain`.
        self.compiled: dict[int | None, Rewrite | None] = {}

    def run(self, text: str, args: Any = None, kwargs: Mapping[str, Any] = MappingProxyType({})) -> Ran:
        """Run a statement, and say how.

        Parameters
        ----------
        text, args, kwargs
            As in `TriJoinSession.sql`, which says what is raised.

        Returns
        -------
        Ran
            Its rows, and how it was rewritten.
        """
        self.check_alive()
        if not isinstance(text, str):
            raise TypeError(f"sql() takes the text of a statement, not {type(text).__name__}")
        with suppress(SqlSyntaxError):  # mistakes in the text are reported below
            text = without_online(text)
        with _told_shortly(text, self.spark.version):
            return self._run(text, args, kwargs)

    def _run(self, text: str, args: Any, kwargs: Mapping[str, Any]) -> Ran:
        if "{" in text:
            refuse_missing(text, kwargs)
        if kwargs and takes_frames(text):
            with named_frames(self.spark, text, kwargs) as (formatted, frames):
                return self.run_named(formatted, args, frames)
        if kwargs:
            return Ran(type(self.spark).sql(self.spark, text, args, **kwargs))
        return self.run_named(text, args, {})

    def run_named(self, text: str, args: Any, frames: Named) -> Ran:
        """Run a statement that may know DataFrames by name."""
        if not (args is None or isinstance(args, Mapping | list)):  # Spark reports other mistakes
            return Ran(sql_over(self.spark, text, args, frames))
        if histories := read_histories(text):
            explains = text.lstrip()[:7].upper() == "EXPLAIN"
            text = (
                parse_statement(text).sql
                if explains
                else with_histories(self.spark, text, histories, checkpoints.get())
            )
        read = self._with_outer_joins(self._read(text, args, frames))
        planned = read.planned
        if planned is None:
            return Ran(self._by_spark(read))
        rewritten = planned.rewritten
        if rewritten.kind == "explain" and (rewritten.explain_format is not None or rewritten.converted):
            form, explained = (rewritten.explain_format or "text").lower(), Explanation(rewritten.to_dict())
            plan = explained.to_text(verbose=True) if form == "formatted" else FORMS[form](explained)
            return Ran(self.spark.createDataFrame([(plan,)], "plan string"), rewritten)
        ran = self._by_us(read, planned) if rewritten.converted else Ran(self._by_spark(read), rewritten)
        return ran if rewritten.view is None else replace(ran, frame=self._create_view(rewritten.view, ran.frame))

    def _read(self, text: str, args: Any, frames: Named) -> _Read:
        """Read a statement, once, and plan it if it may be ours."""
        if read_otherwise(text, settings_of(self.spark)):
            return _Read(text, args, frames, text)
        statement: Statement | None = None
        try:
            seen = glance(text)
            statement = seen.statement
            if statement is None or seen.joins != "inner":  # not ours, whatever its tables
                return _Read(text, args, frames, seen.spark_sql, outer=statement if seen.joins == "outer" else None)
        except SqlSyntaxError as error:
            return _Read(text, args, frames, text, unreadable=error)
        return self._planned(statement, text, args, frames)

    def _planned(self, statement: Statement, text: str, args: Any, frames: Named) -> _Read:
        try:
            planned = self.plan(statement, args, frames)
        except NotProvenError as error:
            return _Read(text, args, frames, for_spark(statement), refused=error)
        except UnsupportedQueryError as error:
            refused = placed(error, text)
            return _Read(text, args, frames, for_spark(statement), refused=refused)
        except PlanError as error:  # a bug of ours must not keep a user from Spark
            _log.warning("left to Spark: %s", error)
            return _Read(text, args, frames, text)
        rewritten = planned.rewritten
        if rewritten.kind == "explain":
            return _Read(text, args, frames, text, planned)
        return _Read(text, rewritten.spark_arguments(args), frames, rewritten.spark_sql, planned)

    def _with_outer_joins(self, read: _Read) -> _Read:
        """Plan a statement whose joins are all outer, semi or anti ones, if over streams, or if it tries pairs of rows.

        Spark tells by analysing it, which it does anyway. Over tables it runs most without our looking closer.
        """
        if read.outer is None:
            return read
        try:
            frame = sql_over(self.spark, read.spark_sql, read.args, read.frames)
        except AnalysisException:
            return read  # a mistake, which `_by_spark` explains
        if not frame.isStreaming and not tries_pairs(read.outer):
            return replace(read, frame=frame)
        found = self._planned(read.outer, read.text, read.args, read.frames)
        return replace(found, frame=frame, spark_sql=read.spark_sql)

    def _by_spark(self, read: _Read) -> DataFrame:
        """Let Spark run a statement, but for joins of streams that it can parse and not run."""
        try:
            original = read.frame or sql_over(self.spark, read.spark_sql, read.args, read.frames)
        except ParseException as error:
            misplaced = lacks(self.spark.version, read.spark_sql, error) or of_another_door(read.text)
            raise misplaced or read.unreadable or error from None
        except AnalysisException as error:
            if read.unreadable is not None and read.unreadable.detail == ASOF:  # an alias, to Spark
                raise read.unreadable from None
            nearest = (error.getCondition() or "") == "NEAREST_BY_JOIN.STREAMING_NOT_SUPPORTED"
            if nearest or of_streams(error, read.text) is not None:  # Spark does not know that these are our joins
                if read.refused is not None and (nearest or isinstance(read.refused, NotProvenError)):
                    raise read.refused from None
                if read.planned is not None:
                    _refuse(read.planned.rewritten, read.text)
            raise
        if read.refused is not None:
            _ = original.schema  # Spark may not know a table or a column
            raise read.refused from None
        frame, told = self._join_in_plan(original, read.text)
        rewritten = None if read.planned is None else read.planned.rewritten
        if rewritten is not None and frame is original and frame.isStreaming:
            _refuse(rewritten, read.text)
        return self.checked(frame, told, read)

    def _by_us(self, read: _Read, planned: Planned) -> Ran:
        """Compile; if Spark refuses, ask it again with the user's own text, so that its message shows that text.

        If Spark accepts the user's text, the mistake is ours. Queries over tables, unlike streams, can run without us.
        """
        rewritten = planned.rewritten
        scans = [node for group in rewritten.groups for node in walk(group) if isinstance(node, Scan)]
        streaming = any(scan.streaming for scan in scans)
        if streaming:
            _refuse(rewritten, read.text)
        try:
            ran = self._compile(planned)
            frame, told = self._join_in_plan(ran.frame, read.text)
            return replace(ran, frame=self.checked(frame, (*rewritten.append_refusals, *told), read))
        except (AnalysisException, UnsupportedQueryError) as error:
            if streaming and isinstance(error, UnsupportedQueryError):
                raise
            try:
                original = sql_over(self.spark, read.spark_sql, read.args, read.frames)
            except ParseException:  # of SQL that only we know, or that a setting of Spark's allows
                raise error from None
            _ = original.schema
            frame, told = self._join_in_plan(original, read.text)
            if frame is original and frame.isStreaming:
                raise
            if frame is original:
                reason = error.reason if isinstance(error, UnsupportedQueryError) else str(error).splitlines()[0]
                _log.warning("left to Spark: %s", reason)
            return Ran(self.checked(frame, told, read), rewritten)

    def _create_view(self, view: View, frame: DataFrame) -> DataFrame:
        if view.columns:
            if len(view.columns) != len(frame.columns):
                counts = f"{len(view.columns)} columns, and its query has {len(frame.columns)}"
                raise UnsupportedQueryError(f"the view {view.name} names {counts}", "name each, or none")
            frame = frame.toDF(*view.columns)
        match view.everywhere, view.replace:
            case False, replace:
                (frame.createOrReplaceTempView if replace else frame.createTempView)(view.name)
            case True, replace:
                (frame.createOrReplaceGlobalTempView if replace else frame.createGlobalTempView)(view.name)
        return self.spark.createDataFrame([], "result string")

    def _join_in_plan(self, frame: DataFrame, text: str) -> tuple[DataFrame, tuple[Refusal, ...]]:
        """Replace the joins of streams that Spark can parse but not run, whatever their text (`plan_joins`)."""
        if not frame.isStreaming or not hasattr(frame, "_jdf") or left_to_spark(text):
            return frame, ()
        return join_in_plan(frame, self.run_over) if taken(JOIN_IN_PLAN, settings_of(self.spark)) else (frame, ())

    def checked(self, frame: DataFrame, told: Sequence[Refusal], read: _Read | None = None) -> DataFrame:
        """Refuse a query that no output mode runs, and in strict mode one whose state is not proven; return it.

        Its FULL JOINs by Spark pair no NULLs then. A job knows its mode, and checks only that one; a view has none.
        """
        self.prove(frame)
        if (read is None or not left_to_spark(read.text)) and taken(JOIN_IN_PLAN, settings_of(self.spark)):
            frame = with_nulls_apart(frame)
        if frame.isStreaming:  # Spark's own joins, too, leave state unsaved where a sink does not read all rows
            listen(self.spark)
        planned = None if read is None else read.planned
        if not self.checks_modes or (planned is not None and planned.rewritten.view is not None):
            return frame
        return check_all_modes(frame, "" if read is None else read.text, {"append": told})

    def prove(self, frame: DataFrame) -> None:
        """Raise a `NotProvenError` in strict mode, for joins of a DataFrame that were not planned under it.

        These are joins that Spark runs, and ours of views that were made before strict mode was on.
        """
        if not frame.isStreaming or not (self.strict or value(settings_of(self.spark), STRICT)):
            return
        refuse_spark_joins(frame)
        for number in numbers_of(frame):
            made = self.compiled.get(number)
            for error in unproven(() if made is None else made.groups):
                raise error

    def run_over(self, text: str, views: dict[str, DataFrame]) -> DataFrame:
        """Run a SELECT that we wrote ourselves, over temporary views."""
        with temporary_views(views):
            try:
                planned = self.plan(text, None)
                rewritten = planned.rewritten
                _refuse(rewritten)
            except NotProvenError as error:  # its place is one in our own text
                reason, streams, hint = in_users_words((error.reason, error.streams, error.hint))
                raise NotProvenError(reason, streams, hint) from None
            except UnsupportedQueryError as error:
                reason, hint = in_users_words((error.reason, error.hint))
                raise UnsupportedQueryError(reason, hint) from None
            if not rewritten.converted:
                reason = next((group.decision.reason for group in rewritten.groups), "its form is not supported")
                raise LeftToSparkError(reason)
            return self._compile(planned).frame

    def explained(self, text: str, args: Arguments) -> Rewrite:
        """Return how a statement is rewritten; raise what running it would, as far as its text and its names tell."""
        with _told_shortly(text, self.spark.version):
            try:
                rewritten = self.plan(text, args).rewritten
            except UnsupportedQueryError:
                read = self._read(text, args, {})
                if read.refused is not None:
                    _ = sql_over(self.spark, read.spark_sql, read.args, {}).schema  # Spark may not know a column
                raise
            if hasattr(self.spark, "_jsparkSession"):
                try:
                    parsed = self.spark._jsparkSession.sessionState().sqlParser().parsePlan(rewritten.spark_sql)
                except ParseException as error:
                    if not rewritten.converted or lacks(self.spark.version, rewritten.spark_sql, error) is None:
                        raise of_another_door(text) or error from None
                if rewritten.kind == "other" and is_query(self.spark, parsed):  # joins in its plan may be ours
                    return self.compiled.get(topmost_number(self._run(text, args, {}).frame)) or rewritten
            return rewritten

    def plan(self, statement: str | Statement, args: Arguments, frames: Named | None = None) -> Planned:
        """Rewrite a statement; see `rewrite` for what is raised."""
        get = settings_of(self.spark)
        refuse_unknown(get)
        settings = replace(rewriter_settings(get), stored=stored.get(), watermarks=self._watermarks(get))
        parallelism = settings.parallelism or tasks_at_once(self.spark)
        strict, seen = settings.strict or self.strict, observed_shares(self.spark)
        settings = replace(settings, strict=strict, parallelism=parallelism, seen=seen)
        catalog = SparkCatalog(self.spark, observed_rates(self.spark), frames, behind_spark)
        return Planned.of(statement, args, catalog, settings)

    def _compile(self, planned: Planned) -> Ran:
        refuse_server_without_us(self.spark)
        asked = {"warns": self.checks_modes, "late_rows": late_rows.get()}
        ran = compile_statement(self.spark, planned, settings_of(self.spark), **asked)
        if ran.frame.isStreaming:  # for `explain`; a batch query reports nothing to explain
            refuse_default_store(self.spark)
            self.compiled[ran.number] = ran.rewritten
            classic = hasattr(self.spark, "_jsparkSession")  # else nobody tells which can still run
            known = known_numbers() if classic else set(list(self.compiled)[-_REMEMBERED:])
            for number in self.compiled.keys() - known:
                del self.compiled[number]
        return ran

    def _watermarks(self, get: Setting) -> Literal["plan", "text", "none"]:
        """Return where watermarks can be held back. If the furthest one counts, not all can be."""
        if str(get("spark.sql.streaming.multipleWatermarkPolicy")).lower() == "max":
            return "none"
        if not hasattr(self.spark, "_jsparkSession"):
            return "text"
        return "plan" if taken(HOLD_BACK_IN_PLAN, get) else "none"

    def check_alive(self) -> None:
        """Raise an `UnavailableError` if the Spark session has been stopped."""
        context = getattr(self.spark, "_sc", None)
        if context is not None and context._jsc is None:  # PySpark would fail with an empty AssertionError
            raise UnavailableError("the Spark session", "it has been stopped", "make another one, and its views")


@contextmanager
def _told_shortly(text: str, version: str) -> Iterator[None]:
    """Raise what Spark does not analyse in one sentence: without its plan, and without Java's stack in the log."""
    try:
        with errors_expected():
            yield
    except AnalysisException as error:
        ours = of_streams(error, text) or lacks_clause(version, text, error.getCondition() or "")
        if ours is not None:
            raise ours from None
        leave_out_plan(error, text)
        raise


def _refuse(rewritten: Rewrite, text: str = "") -> None:
    """Raise for a query on streams with parts that neither we nor Spark can run."""
    for refusal in rewritten.refusals:
        raise placed(refusal, text)
