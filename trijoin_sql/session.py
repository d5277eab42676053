"""The session: what users call. `run_statement` has the path of a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from .errors import NotProvenError, UnavailableError, UnsupportedQueryError
from .explain import Explanation
from .operators.compile.logical_plans import plan_of
from .rewriter.pipeline import Rewrite
from .rewriter.real_time import real_time_sentence
from .rewriter.sql.arguments import Arguments
from .rewriter.sql.hints import hints_of
from .rewriter.sql.intervals import length_microseconds
from .run_statement import StatementRunner, late_rows, stored
from .run_statement import checkpoints as known_checkpoints
from .running.checkpoint import check_locations, stored_groups
from .running.known_joins import late_sources
from .running.metrics import Metrics, compiled_number, join_keys, live_groups, numbers_of, read_metrics, topmost_number
from .running.scaled_query import ScaledQuery, scaling_policy
from .spark.config import hush_false_alarm, prepare_client, prepare_state_store, prepare_workers, start_workers
from .spark.flags import settings_of
from .spark.frames import HOW, Expressions, How, joined_by_spark, joined_in_text
from .spark.liberties import HUSH_FALSE_ALARM, taken
from .spark.null_keys import with_nulls_apart
from .spark.plan_joins import Asked, in_users_words, join_in_plan
from .spark.refusals import leave_out_plan
from .spark.shipping import ship
from .spark.versions import check_is_session, make_up_for, refuse_older


class TriJoinSession:
    """A Spark session that also joins streams on any condition.

    It wraps a session and changes nothing about it but what our queries cannot run without, where that is still Spark's
    default: the state store, on Spark Connect the shuffle partitions, and with a local master the interpreter of the
    Python workers. Other liberties with Spark's processes are taken in sessions that `configure` made, or where their
    settings say so (`liberties`).

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
        self.statements = StatementRunner(spark)
        prepare_state_store(spark)
        prepare_client(spark)
        make_up_for(spark)
        context = getattr(spark, "_sc", None)  # of a classic session
        if context is not None:
            prepare_workers(context)
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

    def sql(
        self,
        text: str,
        args: Mapping[str, Any] | list[Any] | None = None,
        *,
        late_rows: bool = False,
        **kwargs: Any,
    ) -> DataFrame:
        """Run a statement: parse, rewrite, compile. A statement that is not ours goes to Spark unchanged.

        Parameters
        ----------
        text
            One statement of Spark SQL with our clauses.
        args, kwargs
            As in ``SparkSession.sql``: values of parameters, and of ``{name}`` in the text, DataFrames among them.
        late_rows
            Whether rows that come too late can be had, by `trijoin_sql.with_late_rows`. Spark then writes each row of
            the joined streams as JSON, with all of its columns.

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
            The Spark session has been stopped; or ``late_rows`` is asked for on Spark Connect.
        """
        with self.late_rows(late_rows):
            frame = self.statements.run(text, args, kwargs).frame
        if late_rows and frame.isStreaming:
            keys = join_keys(plan_of(frame))
            if not keys:
                raise UnavailableError("the way to late rows", "no join of this query is ours", "leave late_rows out")
            if not any(map(late_sources, keys)):
                reason = "no stream that this query joins has a watermark, so no row is ever late"
                raise UnavailableError("the way to late rows", reason, "declare one with withWatermark")
        return frame

    @contextmanager
    def late_rows(self, asked: bool = True) -> Iterator[None]:
        """Make the queries of a ``with`` block such that their late rows can be had, as `sql` does with ``late_rows``.

        Parameters
        ----------
        asked
            False changes nothing.

        Returns
        -------
        context manager
            For the block.

        Raises
        ------
        UnavailableError
            The session is one of Spark Connect.
        """
        if asked and getattr(self.spark, "_sc", None) is None:
            raise UnavailableError("the way to late rows", "Spark Connect has none", "use a classic session")
        token = late_rows.set(asked or late_rows.get())
        try:
            yield
        finally:
            late_rows.reset(token)

    def join(
        self,
        frames: Mapping[str, DataFrame],
        on: Expressions = (),
        how: How = "inner",
        *,
        within: str | timedelta | None = None,
        select: Expressions = (),
        scheme: str | None = None,
        units: int | None = None,
        routing: str | tuple[str, int] | None = None,
        selectivity: Mapping[tuple[str, str], float] | None = None,
        late_rows: bool = False,
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
            ``"inner"``; of two DataFrames also ``"left"``, ``"right"``, ``"full"``, ``"semi"`` and ``"anti"`` (and the
            other names that ``DataFrame.join`` has for them).
        within
            How far the event times of two joined rows are apart at most: ``"10 minutes"``. Without it, and without
            conditions that bound them, rows are kept for ever.
        select
            Columns of the result, as SQL texts or columns: ``["r.id", "s.id AS other"]``. What is not selected is not
            kept in state. Without it, the result has all columns of all DataFrames.
        scheme, units, routing
            As the hints ``SCHEME``, ``UNITS`` and ``ROUTING``: ``scheme="matrix"``, ``units=8``,
            ``routing=("contrand", 2)``.
        selectivity
            As the hints ``SELECTIVITY``: by two aliases the share of their pairs of rows that match,
            ``{("r", "s"): 0.001}``.
        late_rows
            As in `sql`.

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
            The join cannot run on streams; or more than two DataFrames are to be joined otherwise than by inner joins.
        InvalidHintError
            ``scheme``, ``units``, ``routing`` or ``selectivity`` cannot be followed.

        Examples
        --------
        >>> near = tj.join({"r": r, "s": s}, on="ABS(r.x - s.x) < 5", within="10 minutes")  # doctest: +SKIP
        >>> near.select("r.id", F.col("s.id").alias("other")).writeStream.start("out")  # doctest: +SKIP
        """
        self.statements.check_alive()
        if not isinstance(frames, Mapping) or isinstance(on, DataFrame):
            raise TypeError('join() takes two DataFrames or more by alias: join({"r": r, "s": s}, on=...)')
        with self.late_rows(late_rows):
            shares = [(*aliases, share) for aliases, share in (selectivity or {}).items()]
            hints = hints_of(SCHEME=scheme, UNITS=units, ROUTING=routing, SELECTIVITY=shares)
            return self._join(frames, on, how, within, select, hints)

    def _join(
        self,
        frames: Mapping[str, DataFrame],
        on: Expressions,
        how: str,
        within: str | timedelta | None,
        select: Expressions,
        hints: str,
    ) -> DataFrame:
        kind = (how or "inner").lower().replace("_", "") if isinstance(how, str | None) else ""
        if kind not in HOW:
            raise UnsupportedQueryError(
                f"join() with how = {how!r}", "it takes inner, left, right, full, semi and anti"
            )
        if kind != "inner" and (len(frames) != 2 or (isinstance(on, list | tuple | str) and not on)):
            raise UnsupportedQueryError(
                f"join() with how = {how!r} takes two DataFrames and a condition",
                'write others as SQL: tj.sql("SELECT ... FROM {r} AS r LEFT JOIN {s} AS s ON ...", r=r, s=s)',
            )
        asked = Asked(frozenset(frames), hints, _within(within))
        try:
            frame = joined_by_spark(frames, on, select, kind)
            streams = sum(one.isStreaming for one in frames.values())
            if streams == 1 or not (streams or within):  # Spark joins a stream with tables itself
                return self.rewrite(frame) if streams and hasattr(frame, "_jdf") else frame
            if not hasattr(frame, "_jdf"):
                text, named = joined_in_text(frames, on, select, hints, kind)
                return self.statements.run_named(text + asked.within, None, named).frame
        except AnalysisException as error:
            leave_out_plan(error, "JOIN")
            raise
        for alias, one in frames.items():
            if not one._jdf.sparkSession().equals(self.spark._jsparkSession):
                hint = f"make one of its session: TriJoinSession.create({alias}.sparkSession)"
                raise UnavailableError(f"a join with {alias}", "it is a DataFrame of another session than this", hint)
        try:
            return self.statements.checked(*join_in_plan(frame, self.statements.run_over, asked))
        except NotProvenError:
            raise
        except UnsupportedQueryError as error:
            raise UnsupportedQueryError(error.reason, in_users_words(error.hint, frames=True)) from None

    def rewrite(self, frame: DataFrame, *, late_rows: bool = False) -> DataFrame:
        """Return a DataFrame whose joins of streams run, also those that Spark refuses for lack of an equality.

        Parameters
        ----------
        frame
            What ``DataFrame.join`` made in a classic session, and whatever was done with that: the whole query.
        late_rows
            As in `sql`.

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
        self.statements.check_alive()
        if not isinstance(frame, DataFrame):
            raise TypeError(f"rewrite() takes a DataFrame, not {type(frame).__name__}; sql() takes the text of a query")
        if not hasattr(frame, "_jdf"):
            raise UnavailableError("rewrite", "Spark Connect does not show the plan of a DataFrame", "use join()")
        if not frame._jdf.sparkSession().equals(self.spark._jsparkSession):
            hint = "make one of its session: TriJoinSession.create(frame.sparkSession)"
            raise UnavailableError("rewrite", "the DataFrame is of another session than this", hint)
        with self.late_rows(late_rows):
            joined, told = join_in_plan(frame, self.statements.run_over) if frame.isStreaming else (frame, ())
        joined = with_nulls_apart(joined)
        checked = self.statements.checked(joined, told)
        return frame if joined is frame and not numbers_of(frame) else checked

    @contextmanager
    def resuming(self, *checkpoints: str) -> Iterator[None]:
        """Plan the queries of a ``with`` block for the checkpoint that they will restart on.

        The contents of the checkpoint decide their schemes and units, unless a hint or a setting does: rates may
        have been declared since, and a query with another scheme would be refused. For a checkpoint that does not exist
        yet, they are planned as usual. A stream that begins with a table (``HISTORY``) keeps the table's rows there.

        Parameters
        ----------
        checkpoints
            The checkpoint location; if several queries read a view, the locations of all of them, one by one.

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
        check_locations("resuming", checkpoints)
        if not hasattr(self.spark, "_jsparkSession"):
            raise UnavailableError(
                "resuming",
                "a checkpoint cannot be read through Spark Connect",
                "write the first run's SCHEME and UNITS",
            )
        token = stored.set(tuple(one for place in checkpoints for one in stored_groups(self.spark, place)))
        places = known_checkpoints.set(checkpoints)
        try:
            yield
        finally:
            stored.reset(token)
            known_checkpoints.reset(places)

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
        if isinstance(writer, DataFrame) or not hasattr(writer, "foreachBatch"):
            raise TypeError(f"start() takes a writer, frame.writeStream.format(...), not {type(writer).__name__}")
        check_locations("start", (checkpoint,))
        target = writer.option("checkpointLocation", checkpoint)
        return ScaledQuery(self.spark, target.start, scaling_policy(self.spark))

    def explain(
        self, query: str | DataFrame | StreamingQuery | ScaledQuery, args: Arguments = None, *, real_time: bool = False
    ) -> Explanation:
        """Explain a statement, or what a running query has done.

        Parameters
        ----------
        query
            SQL text (with or without EXPLAIN in front), a streaming DataFrame with a join of ours (the topmost one), or
            a streaming query of ours (EXPLAIN ANALYZE: with its counters, and the load of its units).
        args
            Values of the text's parameters, as in `sql`: conditions are planned and explained with them.
        real_time
            Whether to say if the text or the DataFrame runs with the trigger ``realTime``, and how.

        Returns
        -------
        Explanation
            ``str()`` draws it as text; ``to_dict``, ``to_json``, ``to_mermaid``, ``to_html`` and ``save``
            give its other forms, and notebooks display it.

        Raises
        ------
        UnavailableError
            The DataFrame or the streaming query is not from this session, or has not finished a micro-batch.
        """
        if isinstance(query, str):
            self.statements.check_alive()
            return _explanation(self.statements.explained(query, args), real_time=real_time)
        if isinstance(query, DataFrame):
            rewritten = self.statements.compiled.get(topmost_number(query))
            if rewritten is None:
                raise UnavailableError(
                    "an explanation of this DataFrame",
                    "no streams are joined in it by this session",
                    "explain what join(), rewrite() or sql() returned",
                )
            return _explanation(rewritten, real_time=real_time)
        if not isinstance(query, ScaledQuery):
            _check_is_query(query, "explain() takes the text of a query, a DataFrame or a streaming query")
        decisions, policy = {}, {}
        if isinstance(query, ScaledQuery):
            decisions, policy, query = query.to_dict(), query.settings(), query.query
        number = compiled_number(query)
        compiled = self.statements.compiled.get(number)
        if compiled is None:
            raise UnavailableError(
                "an explanation of this streaming query",
                "it was not made by this session, or has not reported yet",
                "explain a query whose DataFrame came from sql() of this session, after its first micro-batch",
            )
        document = compiled.to_dict()
        live = {**document, "groups": live_groups(document, self.metrics(query), decisions, policy)}
        return Explanation(in_users_words(live))

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
        _check_is_query(query, "metrics() takes a streaming query, as start() returns it")
        found = read_metrics(query)
        if not found.batches and any("addBatch" in progress.durationMs for progress in query.recentProgress):
            hint = "query.recentProgress has Spark's own counters"
            raise UnavailableError("the counters of a join", "no join of this query is ours", hint)
        return found


def _explanation(rewritten: Rewrite, *, real_time: bool) -> Explanation:
    document = rewritten.to_dict()
    if real_time:
        document["advice"] = [*document["advice"], real_time_sentence(rewritten)]
    return Explanation(in_users_words(document))


def _check_is_query(value: object, takes: str) -> None:
    if not hasattr(value, "recentProgress"):
        raise TypeError(f"{takes}, not {type(value).__name__}")


def _within(length: str | timedelta | None) -> str:
    """Return a length of time as a WITHIN clause."""
    if length is None:
        return ""
    micros = length_microseconds(length) if isinstance(length, str) else None
    if isinstance(length, timedelta) and length >= timedelta():
        micros = length // timedelta(microseconds=1)
    if micros is None:
        raise UnsupportedQueryError(f"within = {length!r} is no length of time", "write it as within='10 minutes'")
    return f" WITHIN {micros} MICROSECONDS"
