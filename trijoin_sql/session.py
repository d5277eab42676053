"""The session: SQL text in, a DataFrame out. ``TriJoinSession.sql`` is the whole path on one screen."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Literal

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from .errors import PlanError, SqlSyntaxError, UnavailableError, UnsupportedQueryError
from .explain import FORMS, Explanation
from .operators.compile.aggregation import SumTypeError
from .operators.compile.edges import UnlikeTypesError
from .operators.compile.inputs import run_sql
from .operators.compile.node import compile_join
from .operators.spec import RUN
from .rewriter.event_time.bounds import unbounded
from .rewriter.glance import glance, left_to_spark, read_otherwise
from .rewriter.pipeline import Rewrite, for_spark, rewrite
from .rewriter.plan.nodes import JoinNode, Refusal, Scan, walk
from .rewriter.plan.stored import Stored
from .rewriter.sql.arguments import Arguments
from .rewriter.sql.dialect import parse_statement, without_online
from .rewriter.sql.places import place_of_reason
from .running.checkpoint import stored_groups
from .running.listener import Registered, next_number, observed_rates, register
from .running.metrics import Metrics, compiled_number, live_groups, read_metrics
from .running.scaled_query import ScaledQuery, scaling_policy
from .settings import parallelism, rewriter_settings, warm_bytes
from .spark.config import STATE_SETTINGS, hush_false_alarm, prepare_workers
from .spark.frames import named_frames, takes_frames, temporary_views
from .spark.liberties import (
    HOLD_BACK_IN_PLAN,
    HUSH_FALSE_ALARM,
    JOIN_IN_PLAN,
    LOCAL_FILES,
    all_taken,
    taken,
)
from .spark.local_disk import set_permissions_without_processes
from .spark.plan_joins import join_in_plan
from .spark.refusals import check_all_modes, leave_out_plan, of_streams
from .spark.session_catalog import SparkCatalog
from .spark.shipping import ship

#: How the checkpoint of `TriJoinSession.resuming` stores rows.
_stored: ContextVar[tuple[Stored, ...]] = ContextVar("stored", default=())

_log = logging.getLogger("trijoin_sql")
_ZONE = "spark.sql.session.timeZone"
_STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


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
        self.spark = spark
        #: Whether to look at output modes; a job knows its modes and says so itself.
        self.checks_modes = True
        self._compiled: dict[int, Rewrite] = {}
        if (spark.conf.get(_STATE_PROVIDER, "") or "").endswith("HDFSBackedStateStoreProvider"):
            for key, value in STATE_SETTINGS.items():
                spark.conf.set(key, value)
        context = getattr(spark, "_sc", None)  # of a classic session
        if context is not None:
            prepare_workers(context, str(spark.conf.get("spark.sql.shuffle.partitions")))
            ship(context)
            if taken(HUSH_FALSE_ALARM, self._setting):
                hush_false_alarm(context)

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
        """
        return cls(spark)

    def sql(self, text: str, args: Mapping[str, Any] | list[Any] | None = None, **kwargs: Any) -> DataFrame:
        """Run a statement: parse, rewrite, compile. A statement that is not ours goes to Spark unchanged.

        Parameters
        ----------
        text
            One statement of Spark SQL with our clauses.
        args, kwargs
            As in ``SparkSession.sql``: values of parameters, and of ``{name}`` in the text, DataFrames among them. On
            Spark Connect, text with ``{name}`` goes to Spark as it is.

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
        self._check_alive()
        if not isinstance(text, str):
            raise TypeError(f"sql() takes the text of a statement, not {type(text).__name__}")
        with suppress(SqlSyntaxError):  # mistakes in the text are reported below
            text = without_online(text)
        try:
            return self._sql(text, args, kwargs)
        except AnalysisException as error:
            ours = of_streams(error, text)
            if ours is not None:
                raise ours from None
            leave_out_plan(error, text)
            raise

    def _sql(self, text: str, args: Mapping[str, Any] | list[Any] | None, kwargs: Mapping[str, Any]) -> DataFrame:
        if kwargs and takes_frames(self.spark, text):
            with named_frames(self.spark, text, kwargs) as named:
                return self._sql(named, args, {})
        if kwargs or not (args is None or isinstance(args, Mapping | list)):  # Spark reports other mistakes
            return _spark_sql(self.spark, text, args, kwargs)
        if read_otherwise(text, self._setting):
            return self._joined_in_plan(_spark_sql(self.spark, text, args, {}), text)
        try:
            seen = glance(text)
            rewritten = self._rewrite(text, args) if seen.joins == "inner" else None
        except SqlSyntaxError as error:
            return self._spark_or(error, text, args)
        except UnsupportedQueryError as error:
            self._let_spark_refuse(text, args)
            raise UnsupportedQueryError(error.reason, error.hint, text, place_of_reason(text, error.reason)) from None
        except PlanError as error:  # a bug of ours must not keep a user from Spark
            _log.warning("left to Spark: %s", error)
            return self._joined_in_plan(_spark_sql(self.spark, text, args, {}), text)
        if rewritten is None:  # not ours, whatever its tables
            frame = _spark_sql(self.spark, seen.spark_sql, args, {})
            if seen.joins == "outer" and frame.isStreaming:
                _refuse(self._rewrite(text, args), text)
            return self._joined_in_plan(frame, text)
        match rewritten.kind:
            case "explain" if rewritten.explain_format is not None or rewritten.converted:
                form = (rewritten.explain_format or "text").lower()
                plan = FORMS.get(form, str)(Explanation(rewritten.to_dict()))
                return self.spark.createDataFrame([(plan,)], "plan string")
            case "create_view" if rewritten.converted:
                return self._create_view(rewritten, self._compiled_or_refused(rewritten, args))
            case "select" if rewritten.converted:
                return self._compiled_or_refused(rewritten, args)
            case "other" | "explain":
                return self._joined_in_plan(_spark_sql(self.spark, text, args, {}), text)
            case _:
                original = _spark_sql(self.spark, rewritten.spark_sql, args, {})
                frame, told = self._join_in_plan(original, text)
                if frame is original and frame.isStreaming:
                    _refuse(rewritten, text)
                return (
                    self._checked(frame, text, told) if rewritten.view is None else self._create_view(rewritten, frame)
                )

    def _compiled_or_refused(self, rewritten: Rewrite, args: Any) -> DataFrame:
        """Compile; if Spark refuses, ask it again with the user's own text, so that its message shows that text.

        If Spark accepts the user's text, the mistake is ours. Queries over tables, unlike streams, can run without us.
        """
        if any(isinstance(node, Scan) and node.streaming for group in rewritten.groups for node in walk(group)):
            _refuse(rewritten, rewritten.sql)
        try:
            frame, told = self._join_in_plan(self._compile(rewritten, args), rewritten.sql)
            told = (*rewritten.append_refusals, *told)
            return frame if rewritten.view is not None else self._checked(frame, rewritten.sql, told)
        except AnalysisException as error:
            self._let_spark_refuse(rewritten.sql, args)
            original = _spark_sql(self.spark, rewritten.spark_sql, args, {})
            frame, told = self._join_in_plan(original, rewritten.sql)
            if frame is not original:
                return self._checked(frame, rewritten.sql, told)
            if frame.isStreaming:
                raise
            _log.warning("left to Spark: %s", str(error).splitlines()[0])
            return frame

    def _let_spark_refuse(self, text: str, args: Any) -> None:
        """Raise Spark's error for a query without our clauses: an unknown table or column."""
        statement = parse_statement(text)
        if statement.tree is not None:
            _ = _spark_sql(self.spark, for_spark(text, statement, statement.tree), args, {}).schema

    def _create_view(self, rewritten: Rewrite, frame: DataFrame) -> DataFrame:
        view = rewritten.view
        assert view is not None
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

    def _spark_or(self, error: SqlSyntaxError, text: str, args: Any) -> DataFrame:
        """Let Spark run what we cannot parse (its grammar is larger than ours); if it cannot either, give the place."""
        try:
            frame = _spark_sql(self.spark, text, args, {})
        except ParseException:
            raise error from None
        return self._joined_in_plan(frame, text)

    def _joined_in_plan(self, frame: DataFrame, text: str) -> DataFrame:
        frame, told = self._join_in_plan(frame, text)
        return self._checked(frame, text, told)

    def _join_in_plan(self, frame: DataFrame, text: str) -> tuple[DataFrame, tuple[Refusal, ...]]:
        """Replace the joins of streams that Spark can parse but not run, whatever their text (`plan_joins`)."""
        if not frame.isStreaming or not hasattr(frame, "_jdf") or left_to_spark(text):
            return frame, ()
        if not taken(JOIN_IN_PLAN, self._setting):
            return frame, ()
        return join_in_plan(frame, self._run_over)

    def _checked(self, frame: DataFrame, text: str, told: Sequence[Refusal]) -> DataFrame:
        """Refuse a query that no output mode runs; a job knows its mode, and checks only that one."""
        return check_all_modes(frame, text, {"append": told}) if self.checks_modes else frame

    def _run_over(self, text: str, views: dict[str, DataFrame]) -> DataFrame:
        """Run a SELECT that we wrote ourselves, over temporary views."""
        with temporary_views(views):
            rewritten = self._rewrite(text)
            if not rewritten.converted:
                _refuse(rewritten)
                reason = next((group.decision.reason for group in rewritten.groups), "its form is not supported")
                raise UnsupportedQueryError(f"a join of streams without an equality: {reason}")
            _refuse(rewritten)
            return self._compile(rewritten, None)

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

    def explain(self, query: str | StreamingQuery | ScaledQuery, args: Arguments = None) -> Explanation:
        """Explain a statement, or what a running query has done.

        Parameters
        ----------
        query
            SQL text (with or without EXPLAIN in front), or a streaming query of ours (EXPLAIN ANALYZE: with its
            counters, and the load of its units).
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
            The streaming query is not from this session, or has not finished a micro-batch.
        """
        if isinstance(query, str):
            self._check_alive()
            return Explanation(self._rewrite(query, args).to_dict())
        if not isinstance(query, ScaledQuery) and not hasattr(query, "recentProgress"):
            raise TypeError(f"explain() takes the text of a query, or a streaming query, not {type(query).__name__}")
        decisions, policy = {}, {}
        if isinstance(query, ScaledQuery):
            decisions, policy, query = query.to_dict(), query.settings(), query.query
        number = compiled_number(query)
        if number is None or number not in self._compiled:
            raise UnavailableError(
                "an explanation of this streaming query",
                "it was not made by this session, or has not reported yet",
                "explain a query whose DataFrame came from sql() of this session, after its first micro-batch",
            )
        document = self._compiled[number].to_dict()
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

    def _rewrite(
        self, text: str, args: Arguments = None, *, aggregate: bool = True, left: frozenset[str] = frozenset()
    ) -> Rewrite:
        settings = replace(rewriter_settings(self._setting), left_to_spark=left)
        if not aggregate:
            settings = replace(settings, aggregate_in_units=False)
        if _stored.get():
            settings = replace(settings, stored=_stored.get())
        settings = replace(settings, watermarks=self._watermarks())
        return rewrite(text, SparkCatalog(self.spark, observed_rates(self.spark)), settings, args)

    def _watermarks(self) -> Literal["plan", "text", "none"]:
        """Return where watermarks can be held back. If the furthest one counts, not all can be."""
        if self._setting("spark.sql.streaming.multipleWatermarkPolicy") == "max":
            return "none"
        if not hasattr(self.spark, "_jsparkSession"):
            return "text"
        return "plan" if taken(HOLD_BACK_IN_PLAN, self._setting) else "none"

    def _check_alive(self) -> None:
        context = getattr(self.spark, "_sc", None)
        if context is not None and context._jsc is None:  # PySpark would fail with an empty AssertionError
            raise UnavailableError("the Spark session", "it has been stopped", "make another one, and its views")

    def _setting(self, name: str) -> str | None:
        text = self.spark.conf.get(name, None)
        if text is None and name == _ZONE:  # unset, it is that of the JVM
            text = self.spark.conf.get(name)
        return None if text is None else str(text)

    def _compile(
        self, rewritten: Rewrite, args: Mapping[str, Any] | list[Any] | None, left: frozenset[str] = frozenset()
    ) -> DataFrame:
        """Compile the join nodes from the bottom up, then let Spark run the rest of the SELECT over them."""
        plan = rewritten.plan
        assert plan is not None
        named = _named(rewritten, args)
        number, liberties = next_number(), all_taken(self._setting)
        frames: dict[str, DataFrame] = {}
        joins: list[Registered] = []
        groups = {group.name: group for group in rewritten.groups if isinstance(group, JoinNode)}
        units = parallelism(self._setting) or 1
        try:
            for node in reversed(list(walk(plan))):
                if isinstance(node, JoinNode) and node.name not in frames:
                    compiled = compile_join(
                        self.spark,
                        node,
                        frames,
                        named,
                        default_units=units,
                        metric=f"{node.name}{RUN}{number}",
                        warm_bytes=warm_bytes(self._setting),
                        liberties=liberties,
                    )
                    frames[node.name], group = compiled.frame, groups.get(node.name)
                    fixed = None if compiled.spec.elastic else node.decision.units or units
                    stored = () if group is None else (Stored.of(group, fixed),)
                    endless = unbounded(node.retention) if self.checks_modes else None
                    joins.append(Registered(compiled.spec, stored, node.decision.units_by_cost, endless))
        except SumTypeError as error:
            _log.warning("aggregated by Spark alone: %s", error)
            return self._compile(self._rewrite(rewritten.sql, args, aggregate=False, left=left), args, left)
        except UnlikeTypesError as error:
            if error.sql in left:
                raise
            left |= {error.sql}
            return self._compile(self._rewrite(rewritten.sql, args, left=left), args, left)
        result = run_sql(self.spark, plan.sql, frames, named)
        if result.isStreaming:
            self._compiled[number] = rewritten  # for `explain`; a batch query reports nothing to explain
            register(self.spark, joins)
            if LOCAL_FILES in liberties and getattr(self.spark, "_sc", None) is not None:  # a classic session
                set_permissions_without_processes(self.spark.sparkContext)
        # Spark names the columns: users see its names for expressions.
        original = _spark_sql(self.spark, rewritten.spark_sql, args, {})
        ours, theirs = (", ".join(one.dataType.simpleString() for one in frame.schema) for frame in (result, original))
        if ours != theirs:  # something was misread
            _log.warning("its columns are %s, to Spark %s: a bug of TriJoin SQL, please report the query", ours, theirs)
            if not original.isStreaming:
                return original
        return result.toDF(*original.columns)


def check_is_session(value: object) -> None:
    """Raise a TypeError if the argument is not a Spark session."""
    if isinstance(value, type) or not hasattr(type(value), "readStream"):
        what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(f"a SparkSession is needed, not {what}")


def _spark_sql(spark: SparkSession, text: str, args: Any, kwargs: Mapping[str, Any]) -> DataFrame:
    """Call Spark's own ``sql``, even if the session is extended."""
    return type(spark).sql(spark, text, args, **kwargs)


def _refuse(rewritten: Rewrite, text: str = "") -> None:
    """Raise for a query on streams with parts that neither we nor Spark can run."""
    for refusal in rewritten.refusals:
        raise UnsupportedQueryError(refusal.reason, refusal.hint, text, place_of_reason(text, refusal.reason))


def _named(rewritten: Rewrite, args: Mapping[str, Any] | list[Any] | None) -> dict[str, Any] | None:
    """Return the arguments by name; rewriting gave names to positional markers."""
    if args is None:
        return None
    if isinstance(args, Mapping):
        return dict(args)
    return dict(zip(rewritten.parameters, args, strict=False))
