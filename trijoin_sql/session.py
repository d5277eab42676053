"""The session: SQL text in, a DataFrame out. ``TriJoinSession.sql`` is the whole path on one screen."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from .compile_statement import Planned, Ran, compile_statement
from .errors import PlanError, SqlSyntaxError, UnavailableError, UnsupportedQueryError
from .explain import FORMS, Explanation
from .operators.compile.compiling import sql_over
from .rewriter.glance import glance, left_to_spark, read_otherwise
from .rewriter.pipeline import Rewrite
from .rewriter.plan.nodes import Scan, walk
from .rewriter.plan.parts import Refusal
from .rewriter.plan.stored import Stored
from .rewriter.sql.arguments import Arguments
from .rewriter.sql.hints import for_spark, hints_of
from .rewriter.sql.intervals import length_microseconds
from .rewriter.sql.places import place_of_reason
from .rewriter.sql.statement import ASOF, Statement, View, without_online
from .running.checkpoint import stored_groups
from .running.listener import observed_rates
from .running.metrics import Metrics, compiled_number, live_groups, read_metrics, topmost_number
from .running.scaled_query import ScaledQuery, scaling_policy
from .settings import rewriter_settings
from .spark.config import STATE_SETTINGS, hush_false_alarm, prepare_workers, start_workers
from .spark.flags import Setting, settings_of
from .spark.frames import (
    Expressions,
    Named,
    joined_by_spark,
    joined_in_text,
    named_frames,
    refuse_missing,
    takes_frames,
    temporary_views,
)
from .spark.liberties import HOLD_BACK_IN_PLAN, HUSH_FALSE_ALARM, JOIN_IN_PLAN, taken
from .spark.plan_joins import Asked, join_in_plan
from .spark.refusals import check_all_modes, leave_out_plan, of_streams
from .spark.session_catalog import SparkCatalog
from .spark.shipping import ship
from .spark.versions import lacks, make_up_for, refuse_older

#: How the checkpoint of `TriJoinSession.resuming` stores rows.
_stored: ContextVar[tuple[Stored, ...]] = ContextVar("stored", default=())

_log = logging.getLogger("trijoin_sql")
_STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a statement: `text` and `args` as the user gave them, and what Spark runs where it runs it."""

    text: str
    args: Any
    frames: Named  # that the text knows by name
    spark_sql: str
    planned: Planned | None = None  # how it runs, if it may be ours
    outer: Statement | None = None  # Spark's because of its outer, semi or anti joins: on streams it may be refused
    unreadable: SqlSyntaxError | None = None  # the mistake in a text that only Spark may be able to parse
    refused: UnsupportedQueryError | None = None  # why it cannot run, unless Spark finds another mistake


class TriJoinSession:
    """A Spark session that also joins streams on any condition.

    It wraps a session and changes nothing about it but what our queries cannot run without, where that is still Spark's
    default: the state store, and with a local master the interpreter of the Python workers. Other liberties with
    Spark's processes are taken in sessions that `configure` made, or where their settings say so (`liberties`).

    Parameters
    ----------
    spark
        A classic or Spark Connect session.

    Examples
    --------
    >>> tj = TriJoinSession.create(spark)  # doctest: +SKIP
    >>> tj.sql("SELECT r.id, s.id FROM r JOIN s ON ABS(r.x - s.x) < 5")  # doctest: +SKIP
    """

    def __init__(self, spark: SparkSession) -> None:
        check_is_session(spark)
        refuse_older(spark.version)
        self.spark = spark
        #: Whether to look at output modes; a job knows its modes and says so itself.
        self.checks_modes = True
        self._compiled: dict[int | None, Rewrite | None] = {}
        if (spark.conf.get(_STATE_PROVIDER, "") or "").endswith("HDFSBackedStateStoreProvider"):
            for key, value in STATE_SETTINGS.items():
                spark.conf.set(key, value)
        make_up_for(spark)
        context = getattr(spark, "_sc", None)  # of a classic session
        if context is not None:
            prepare_workers(context, str(spark.conf.get("spark.sql.shuffle.partitions")))
            ship(context)
            if taken(HUSH_FALSE_ALARM, settings_of(spark)):
                hush_false_alarm(context)
            start_workers(spark)

    @classmethod
    def create(cls, spark: SparkSession) -> TriJoinSession:
        """Return a session over a Spark session.

        Parameters
        ----------
        spark
            A classic or Spark Connect session.

        Returns
        -------
        TriJoinSession
            It wraps ``spark`` and leaves ``spark.sql`` as it is; see `enable`.

        Raises
        ------
        TypeError
            It is no Spark session.
        UnavailableError
            Its Spark is too old.
        """
        return cls(spark)

    def sql(self, text: str, args: Mapping[str, Any] | list[Any] | None = None, **kwargs: Any) -> DataFrame:
        """Run a statement: parse, rewrite, compile. A statement that is not ours goes to Spark unchanged.

        Parameters
        ----------
        text
            One statement of Spark SQL with our clauses.
        args, kwargs
            As in ``SparkSession.sql``: values of parameters, and of ``{name}`` in the text, DataFrames among them.

        Returns
        -------
        DataFrame
            Streaming if an input is.

        Raises
        ------
        TypeError
            ``text`` is not a string.
        SqlSyntaxError
            The text does not parse.
        UnsupportedQueryError
            Neither we nor Spark can run it on streams.
        InvalidHintError
            A hint cannot be followed.
        InvalidSettingError
            A setting ``spark.trijoin.*`` has an invalid value.
        UnavailableError
            The Spark session has been stopped.
        """
        return self.run(text, args, **kwargs).frame

    def run(self, text: str, args: Mapping[str, Any] | list[Any] | None = None, **kwargs: Any) -> Ran:
        """Run a statement as `sql` does, and say how.

        Parameters
        ----------
        text, args, kwargs
            As in `sql`.

        Returns
        -------
        Ran
            Its rows, and how it was rewritten.
        """
        self._check_alive()
        if not isinstance(text, str):
            raise TypeError(f"sql() takes the text of a statement, not {type(text).__name__}")
        with suppress(SqlSyntaxError):  # mistakes in the text are reported below
            text = without_online(text)
        try:
            return self._run(text, args, kwargs)
        except AnalysisException as error:
            ours = of_streams(error, text)
            if ours is not None:
                raise ours from None
            leave_out_plan(error, text)
            raise

    def join(
        self,
        frames: Mapping[str, DataFrame],
        on: Expressions = (),
        how: str = "inner",
        *,
        within: str | None = None,
        select: Expressions = (),
        scheme: str | None = None,
        units: int | None = None,
        routing: str | tuple[str, int] | None = None,
    ) -> DataFrame:
        """Join two, three or more DataFrames on any conditions, as `sql` joins the relations of a text.

        Parameters
        ----------
        frames
            The DataFrames by alias, streams or tables, in the order of a FROM clause. A stream's event time is the
            column of its ``withWatermark``.
        on
            The condition as SQL text or as a column, or several, which all hold. Columns have the names that they have
            in ``DataFrame.join`` of aliased DataFrames: ``"r.x < s.x"``, ``F.col("r.x") < F.col("s.x")``; in a classic
            session also ``r["x"] < s["x"]``.
        how
            Only ``"inner"``.
        within
            How far the event times of two joined rows are apart at most: ``"10 minutes"``. Without it, and without
            conditions that bound them, rows are kept for ever.
        select
            Columns of the result, as SQL texts or columns: ``["r.id", "s.id AS other"]``. What is not selected is not
            kept in state. Without it, the result has all columns of all DataFrames.
        scheme, units, routing
            As the hints ``SCHEME``, ``UNITS`` and ``ROUTING``: ``scheme="matrix"``, ``units=8``,
            ``routing=("contrand", 2)``.

        Returns
        -------
        DataFrame
            Streaming if one of ``frames`` is. Its columns keep their aliases, as those of ``DataFrame.join`` do: two
            may have the same name, and ``F.col("r.id")`` is one of them.

        Raises
        ------
        TypeError
            An argument has a wrong type.
        UnsupportedQueryError
            The join is not an inner one, or cannot run on streams.
        InvalidHintError
            ``scheme``, ``units`` or ``routing`` cannot be followed.

        Examples
        --------
        >>> near = tj.join({"r": r, "s": s}, on="ABS(r.x - s.x) < 5", within="10 minutes")  # doctest: +SKIP
        >>> near.select("r.id", F.col("s.id").alias("other")).writeStream.start("out")  # doctest: +SKIP
        """
        self._check_alive()
        if how != "inner":
            raise UnsupportedQueryError(
                f"join() with how = {how!r}: it makes inner joins alone",
                "use DataFrame.join, which on streams needs an equality for other joins",
            )
        hints = hints_of(SCHEME=scheme, UNITS=units, ROUTING=routing)
        asked = Asked(frozenset(frames), hints, _within(within))
        try:
            frame = joined_by_spark(frames, on, select)
            streams = sum(one.isStreaming for one in frames.values())
            if streams == 1 or not (streams or within):  # Spark joins a stream with tables itself
                return self.rewrite(frame) if streams and hasattr(frame, "_jdf") else frame
            if not hasattr(frame, "_jdf"):
                text, named = joined_in_text(frames, on, select, hints)
                return self._run_named(text + asked.within, None, named).frame
        except AnalysisException as error:
            leave_out_plan(error, "JOIN")
            raise
        return self._checked(*join_in_plan(frame, self._run_over, asked))

    def rewrite(self, frame: DataFrame) -> DataFrame:
        """Return a DataFrame whose joins of streams run, also those that Spark refuses for lack of an equality.

        Parameters
        ----------
        frame
            What ``DataFrame.join`` made in a classic session, and whatever was done with that: the whole query.

        Returns
        -------
        DataFrame
            The same columns; ``frame`` itself where Spark runs all of its joins. What stands above a join is known
            here, so columns that nothing reads are not kept in state.

        Raises
        ------
        UnsupportedQueryError
            Neither we nor Spark can run the query on streams.
        UnavailableError
            The session is one of Spark Connect.

        Examples
        --------
        >>> near = r.join(s, F.abs(r["x"] - s["x"]) < 5).select(r["id"])  # doctest: +SKIP
        >>> tj.rewrite(near).writeStream.start("out")  # doctest: +SKIP
        """
        self._check_alive()
        if not hasattr(frame, "_jdf"):
            raise UnavailableError("rewrite", "Spark Connect does not show the plan of a DataFrame", "use join()")
        joined, told = join_in_plan(frame, self._run_over) if frame.isStreaming else (frame, ())
        checked = self._checked(joined, told)
        return frame if joined is frame else checked

    def _run(self, text: str, args: Any, kwargs: Mapping[str, Any]) -> Ran:
        if "{" in text:
            refuse_missing(text, kwargs)
        if kwargs and takes_frames(text):
            with named_frames(self.spark, text, kwargs) as (formatted, frames):
                return self._run_named(formatted, args, frames)
        if kwargs:
            return Ran(type(self.spark).sql(self.spark, text, args, **kwargs))
        return self._run_named(text, args, {})

    def _run_named(self, text: str, args: Any, frames: Named) -> Ran:
        """Run a statement that may know DataFrames by name."""
        if not (args is None or isinstance(args, Mapping | list)):  # Spark reports other mistakes
            return Ran(sql_over(self.spark, text, args, frames))
        read = self._read(text, args, frames)
        planned = read.planned
        if planned is None:
            return Ran(self._by_spark(read))
        rewritten = planned.rewritten
        if rewritten.kind == "explain" and (rewritten.explain_format is not None or rewritten.converted):
            form = (rewritten.explain_format or "text").lower()
            plan = FORMS.get(form, str)(Explanation(rewritten.to_dict()))
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
            planned = self._plan(statement, args, frames)
        except SqlSyntaxError as error:
            return _Read(text, args, frames, text, unreadable=error)
        except UnsupportedQueryError as error:
            refused = UnsupportedQueryError(error.reason, error.hint, text, place_of_reason(text, error.reason))
            return _Read(text, args, frames, for_spark(statement) if statement else text, refused=refused)
        except PlanError as error:  # a bug of ours must not keep a user from Spark
            _log.warning("left to Spark: %s", error)
            return _Read(text, args, frames, text)
        rewritten = planned.rewritten
        return _Read(text, args, frames, text if rewritten.kind == "explain" else rewritten.spark_sql, planned)

    def _by_spark(self, read: _Read) -> DataFrame:
        """Let Spark run a statement, but for joins of streams that it can parse and not run."""
        try:
            original = sql_over(self.spark, read.spark_sql, read.args, read.frames)
        except ParseException as error:
            raise lacks(self.spark.version, read.spark_sql, error) or read.unreadable or error from None
        except AnalysisException:
            if read.unreadable is not None and read.unreadable.detail == ASOF:  # an alias, to Spark
                raise read.unreadable from None
            raise
        if read.refused is not None:
            _ = original.schema  # Spark may not know a table or a column
            raise read.refused from None
        if read.outer is not None and original.isStreaming:
            _refuse(self._plan(read.outer, read.args, read.frames).rewritten, read.text)
        frame, told = self._join_in_plan(original, read.text)
        rewritten = None if read.planned is None else read.planned.rewritten
        if rewritten is not None and frame is original and frame.isStreaming:
            _refuse(rewritten, read.text)
        return self._checked(frame, told, read)

    def _by_us(self, read: _Read, planned: Planned) -> Ran:
        """Compile; if Spark refuses, ask it again with the user's own text, so that its message shows that text.

        If Spark accepts the user's text, the mistake is ours. Queries over tables, unlike streams, can run without us.
        """
        rewritten = planned.rewritten
        if any(isinstance(node, Scan) and node.streaming for group in rewritten.groups for node in walk(group)):
            _refuse(rewritten, read.text)
        try:
            ran = self._compile(planned)
            frame, told = self._join_in_plan(ran.frame, read.text)
            return replace(ran, frame=self._checked(frame, (*rewritten.append_refusals, *told), read))
        except AnalysisException as error:
            original = sql_over(self.spark, read.spark_sql, read.args, read.frames)
            _ = original.schema
            frame, told = self._join_in_plan(original, read.text)
            if frame is original and frame.isStreaming:
                raise
            if frame is original:
                _log.warning("left to Spark: %s", str(error).splitlines()[0])
            return Ran(self._checked(frame, told, read), rewritten)

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
        return join_in_plan(frame, self._run_over) if taken(JOIN_IN_PLAN, settings_of(self.spark)) else (frame, ())

    def _checked(self, frame: DataFrame, told: Sequence[Refusal], read: _Read | None = None) -> DataFrame:
        """Refuse a query that no output mode runs. A job knows its mode, and checks only that one; a view has none."""
        planned = None if read is None else read.planned
        if not self.checks_modes or (planned is not None and planned.rewritten.view is not None):
            return frame
        return check_all_modes(frame, "" if read is None else read.text, {"append": told})

    def _run_over(self, text: str, views: dict[str, DataFrame]) -> DataFrame:
        """Run a SELECT that we wrote ourselves, over temporary views."""
        with temporary_views(views):
            planned = self._plan(text, None)
            rewritten = planned.rewritten
            _refuse(rewritten)
            if not rewritten.converted:
                reason = next((group.decision.reason for group in rewritten.groups), "its form is not supported")
                raise UnsupportedQueryError(f"a join of streams without an equality: {reason}")
            return self._compile(planned).frame

    @contextmanager
    def resuming(self, *checkpoints: str) -> Iterator[None]:
        """Plan the queries of a ``with`` block for the checkpoint that they will restart on.

        The contents of the checkpoint decide their schemes and units, unless a hint or a setting does: rates may
        have been declared since, and a query with another scheme would be refused. For a checkpoint that does not exist
        yet, they are planned as usual.

        Parameters
        ----------
        checkpoints
            The checkpoint location; if several queries read a view, the locations of all of them.

        Returns
        -------
        context manager
            For the block that calls `sql` or `explain`.

        Raises
        ------
        UnavailableError
            The session is one of Spark Connect.
        CheckpointVersionError
            Another version of TriJoin SQL wrote the checkpoint.

        Examples
        --------
        >>> with tj.resuming("checkpoints/near"):  # doctest: +SKIP
        ...     found = tj.sql("SELECT ...")
        >>> found.writeStream.option("checkpointLocation", "checkpoints/near").start("out")  # doctest: +SKIP
        """
        if not hasattr(self.spark, "_jsparkSession"):
            raise UnavailableError(
                "resuming",
                "a checkpoint cannot be read through Spark Connect",
                "write the first run's SCHEME and UNITS",
            )
        token = _stored.set(tuple(one for place in checkpoints for one in stored_groups(self.spark, place)))
        try:
            yield
        finally:
            _stored.reset(token)

    def start(self, writer: DataStreamWriter, checkpoint: str) -> ScaledQuery:
        """Start a query whose units follow its load, as the settings ``spark.trijoin.scaling.*`` say.

        Parameters
        ----------
        writer
            The query, ready to start: ``tj.sql(...).writeStream.format(...)``.
        checkpoint
            Its checkpoint location, which a query needs to restart with other units.

        Returns
        -------
        ScaledQuery
            It must be polled: call ``awaitTermination()``, or ``look()`` now and then.

        Raises
        ------
        InvalidSettingError
            A setting of scaling is wrong.
        """
        target = writer.option("checkpointLocation", checkpoint)
        return ScaledQuery(self.spark, target.start, scaling_policy(self.spark))

    def explain(self, query: str | DataFrame | StreamingQuery | ScaledQuery, args: Arguments = None) -> Explanation:
        """Explain a statement, or what a running query has done.

        Parameters
        ----------
        query
            SQL text (with or without EXPLAIN in front), a streaming DataFrame with a join of ours (the topmost one), or
            a streaming query of ours (EXPLAIN ANALYZE: with its counters, and the load of its units).
        args
            Values of the text's parameters, as in `sql`: conditions are planned and explained with them.

        Returns
        -------
        Explanation
            ``str()`` draws it as text; ``to_dict``, ``to_json``, ``to_mermaid``, ``to_dot``, ``to_html`` and ``save``
            give its other forms, and notebooks display it.

        Raises
        ------
        UnavailableError
            The DataFrame or the streaming query is not from this session, or has not finished a micro-batch.
        """
        if isinstance(query, str):
            self._check_alive()
            return Explanation(self._plan(query, args).rewritten.to_dict())
        if isinstance(query, DataFrame):
            rewritten = self._compiled.get(topmost_number(query))
            if rewritten is None:
                raise UnavailableError(
                    "an explanation of this DataFrame",
                    "no streams are joined in it by this session",
                    "explain what join(), rewrite() or sql() returned",
                )
            return Explanation(rewritten.to_dict())
        if not isinstance(query, ScaledQuery) and not hasattr(query, "recentProgress"):
            raise TypeError(
                f"explain() takes the text of a query, a DataFrame or a streaming query, not {type(query).__name__}"
            )
        decisions, policy = {}, {}
        if isinstance(query, ScaledQuery):
            decisions, policy, query = query.to_dict(), query.settings(), query.query
        number = compiled_number(query)
        compiled = self._compiled.get(number)
        if compiled is None:
            raise UnavailableError(
                "an explanation of this streaming query",
                "it was not made by this session, or has not reported yet",
                "explain a query whose DataFrame came from sql() of this session, after its first micro-batch",
            )
        document = compiled.to_dict()
        return Explanation({**document, "groups": live_groups(document, self.metrics(query), decisions, policy)})

    def metrics(self, query: StreamingQuery) -> Metrics:
        """Return the counters of a streaming query of ours, micro-batch by micro-batch.

        Parameters
        ----------
        query
            A query whose DataFrame came from `sql`.

        Returns
        -------
        Metrics
            As far back as Spark remembers (``spark.sql.streaming.numRecentProgressUpdates``).
        """
        return read_metrics(query)

    def _plan(self, statement: str | Statement, args: Arguments, frames: Named | None = None) -> Planned:
        get = settings_of(self.spark)
        settings = replace(rewriter_settings(get), stored=_stored.get(), watermarks=self._watermarks(get))
        return Planned.of(statement, args, SparkCatalog(self.spark, observed_rates(self.spark), frames), settings)

    def _compile(self, planned: Planned) -> Ran:
        ran = compile_statement(self.spark, planned, settings_of(self.spark), warns=self.checks_modes)
        if ran.frame.isStreaming:  # for `explain`; a batch query reports nothing to explain
            self._compiled[ran.number] = ran.rewritten
        return ran

    def _watermarks(self, get: Setting) -> Literal["plan", "text", "none"]:
        """Return where watermarks can be held back. If the furthest one counts, not all can be."""
        if get("spark.sql.streaming.multipleWatermarkPolicy") == "max":
            return "none"
        if not hasattr(self.spark, "_jsparkSession"):
            return "text"
        return "plan" if taken(HOLD_BACK_IN_PLAN, get) else "none"

    def _check_alive(self) -> None:
        context = getattr(self.spark, "_sc", None)
        if context is not None and context._jsc is None:  # PySpark would fail with an empty AssertionError
            raise UnavailableError("the Spark session", "it has been stopped", "make another one, and its views")


def check_is_session(value: object) -> None:
    """Raise a TypeError if the argument is not a Spark session."""
    if isinstance(value, type) or not hasattr(type(value), "readStream"):
        what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(f"a SparkSession is needed, not {what}")


def _within(length: str | None) -> str:
    """Return a length of time as a WITHIN clause."""
    if length is None:
        return ""
    micros = length_microseconds(length) if isinstance(length, str) else None
    if micros is None:
        raise UnsupportedQueryError(f"within = {length!r} is no length of time", "write it as within='10 minutes'")
    return f" WITHIN {micros} MICROSECONDS"


def _refuse(rewritten: Rewrite, text: str = "") -> None:
    """Raise for a query on streams with parts that neither we nor Spark can run."""
    for refusal in rewritten.refusals:
        raise UnsupportedQueryError(refusal.reason, refusal.hint, text, place_of_reason(text, refusal.reason))
