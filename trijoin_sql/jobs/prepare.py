"""Makes streams, views and queries of a job in a Spark session; all refusals come before anything runs."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..errors import CheckpointDamagedError, NotProvenError, TriJoinError, UnsupportedQueryError
from ..operators.compile.logical_plans import plan_of
from ..rewriter.plan.nodes import JoinNode, LeftAlone
from ..rewriter.plan.parts import Refusal
from ..rewriter.sql.catalog import RATE_OPTION, RATE_SETTING
from ..rewriter.sql.clauses import Word
from ..rewriter.sql.dialect import quote
from ..running.known_joins import late_sources
from ..running.metrics import join_keys
from ..spark.messages import sentence
from ..spark.refusals import StreamCheck
from .check_inserts import check_output
from .formats import CHECKPOINT, PYTHON, SOURCES, TABLES, find_format
from .jars import check_formats
from .job_text import Script
from .late_sinks import late_columns
from .locate import locate
from .planning import NEVER_LATE, NO_LATE_ROWS, NO_STREAM
from .progress import counted, without_corrupt
from .sinks import checkpoint_of, spark_format
from .statements import CreateSink, CreateStream, InsertInto, Job, SparkStatement
from .static_tables import tables_without_files

if TYPE_CHECKING:
    from ..compile_statement import Ran
    from ..session import TriJoinSession


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query that only has to be started.

    Parameters
    ----------
    sink
        Where its rows go.
    insert
        The statement.
    frame
        Its rows, counted.
    endless
        The inputs whose rows our joins keep for ever.
    kept
        The reasons of joins that store rows as their checkpoint does although cost would now choose otherwise, and
        of joins that scaling leaves alone.
    cautions
        What its writer probably does not mean, such as a product.
    late
        Where its late rows go.
    """

    sink: CreateSink
    insert: InsertInto
    frame: DataFrame
    endless: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    late: CreateSink | None = None


def prepare(job: Job, session: TriJoinSession) -> tuple[PreparedQuery, ...]:
    """Carry out a job's statements in order, and get its queries ready.

    Raises
    ------
    JobError
        At the first statement that is refused.
    """
    queries: list[PreparedQuery] = []
    kept: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    session.statements.checks_modes = False
    check_formats(job.script, job.streams, session.spark)
    for statement in job.statements:
        match statement:
            case CreateStream():
                _create_stream(job, session, statement)
            case InsertInto():
                sink = job.sink(statement.sink.text)
                assert sink is not None  # check_job has checked this
                queries.append(_query(job, session, statement, sink, kept, cautions))
                kept, cautions = (), ()
            case SparkStatement():  # any query may read a view with a join
                with ExitStack() as stack:
                    stack.enter_context(session.late_rows(any(insert.late is not None for insert in job.inserts)))
                    _resume(job, session, [sink for sink in job.sinks if not job.is_late(sink)], stack, statement.sql)
                    ran = run_sql(job, session, statement.sql)
                    kept, cautions = kept + _kept(ran.groups), cautions + ran.cautions
    check_formats(job.script, job.sinks, session.spark)
    return tuple(queries)


def _create_stream(job: Job, session: TriJoinSession, stream: CreateStream) -> None:
    name = find_format(SOURCES, stream.format.text) or stream.format.text
    reader = session.spark.readStream.format(spark_format(session.spark, stream, job.script))
    table = stream.options.text("table") if name in TABLES else None
    for option in stream.options:
        if option.key.text.lower() not in (RATE_OPTION.lower(), "class" if name == PYTHON else ""):
            reader = reader.option(option.key.text, option.value.text)
    _declare_rate(session, stream, name)
    corrupt = None
    if stream.columns:
        schema = _schema(job.script, stream)
        corrupt = _corrupt_column(session, stream, name)
        declared = corrupt is not None and corrupt.lower() in (one.lower() for one in schema.names)
        if corrupt is not None and not declared:
            schema.add(corrupt, "string")
        reader = reader.schema(schema)
    elif name in ("parquet", "orc"):
        reader = reader.schema(_found_schema(job.script, session, stream, name))
    try:
        frame = reader.load() if table is None else reader.table(table)
    except Exception as error:
        raise _refused(error, job.script, stream.format, f"the stream {stream.name} cannot be read") from None
    if corrupt is not None:
        frame = without_corrupt(frame, corrupt, stream.name.text, keep=declared)
    if stream.watermark is not None:
        column = stream.watermark.column
        known = {field.name.lower(): field for field in frame.schema.fields}
        field = known.get(column.text.lower())
        if field is None:
            names = ", ".join(frame.columns)
            job.script.fail(column.start, f"{stream.name} has no column {column}", f"its columns are {names}")
        try:
            frame = frame.withWatermark(field.name, stream.watermark.delay.text)
            frame.schema  # noqa: B018 (Spark checks the column's type only now)
        except Exception as error:
            raise _refused(error, job.script, column, "the watermark cannot be used") from None
    frame.createOrReplaceTempView(quote(stream.name.text))


def _corrupt_column(session: TriJoinSession, stream: CreateStream, name: str) -> str | None:
    """Return the column for which Spark keeps the text of records that it cannot read; None if it keeps none."""
    if name not in ("json", "csv") or (stream.options.text("mode") or "PERMISSIVE").upper() != "PERMISSIVE":
        return None
    default = str(session.spark.conf.get("spark.sql.columnNameOfCorruptRecord"))
    return stream.options.text("columnNameOfCorruptRecord") or default


def _declare_rate(session: TriJoinSession, stream: CreateStream, source: str) -> None:
    """Let the session know a stream's rate, unless a setting says it."""
    rate = stream.options.rate(source)
    setting = RATE_SETTING + stream.name.text
    if rate is not None and all(session.spark.conf.get(key, None) is None for key in (setting, setting.lower())):
        session.spark.conf.set(setting.lower(), rate.text)


def _schema(script: Script, stream: CreateStream) -> Any:
    schema = StructType()
    for column in stream.columns:
        try:
            parsed: Any = StructType.fromDDL(f"{quote(column.name.text)} {column.type.text}")
        except PySparkException as error:
            script.fail(column.type.start, f"{column.type} is no type: {sentence(error)}")
        schema.add(parsed.fields[0])
    return schema


def _found_schema(script: Script, session: TriJoinSession, stream: CreateStream, name: str) -> Any:
    """Return the columns of the existing files."""
    path = stream.options.text("path")
    try:
        return session.spark.read.format(name).load(path).schema
    except (PySparkException, Py4JError) as error:  # the latter for a file of another format
        why = sentence(error)
    hint = f"write CREATE STREAM {stream.name} (a BIGINT, ts TIMESTAMP) USING {name}"
    raise script.error(stream.name.start, f"the columns of {stream.name} cannot be read from {path}: {why}", hint)


def run_sql(job: Job, session: TriJoinSession, sql: Word) -> Ran:
    """Run a statement; a refused one is run again as plain Spark SQL, because Spark knows the place."""
    try:
        return session.statements.run(sql.text)
    except Py4JError as error:  # a JVM exception that PySpark has no class for
        raise _refused(error, job.script, sql, "Spark cannot run this statement") from None
    except (TriJoinError, PySparkException) as error:
        refused: Exception = error
    asked = isinstance(refused, NotProvenError)  # after Spark had found no other mistake
    if not asked and (not isinstance(refused, TriJoinError) or isinstance(refused, UnsupportedQueryError)):
        try:
            SparkSession.sql(session.spark, sql.text)
        except ParseException:  # it does not know our clauses
            pass
        except PySparkException as error:
            refused = error
    tables = lambda: [table.name for table in session.spark.catalog.listTables()]  # noqa: E731
    raise locate(refused, job.script, sql, tables)


def _query(
    job: Job,
    session: TriJoinSession,
    insert: InsertInto,
    sink: CreateSink,
    kept: tuple[str, ...],
    cautions: tuple[str, ...],
) -> PreparedQuery:
    with ExitStack() as stack:
        stack.enter_context(session.late_rows(insert.late is not None))
        _resume(job, session, [sink], stack, insert.query)
        ran = run_sql(job, session, insert.query)
    frame = ran.frame
    if not frame.isStreaming:
        job.script.fail(insert.query.start, *NO_STREAM)
    check_output(job.script, [(one.name, one.dataType.simpleString()) for one in frame.schema.fields], insert, sink)
    told = ran.rewritten.append_refusals if ran.rewritten is not None and sink.output_mode == "append" else ()
    _check_mode(job.script, told, frame, insert, sink)
    kept_for = [one for group in ran.groups if isinstance(group, JoinNode) for one in group.retention]
    endless = tuple(one.alias for one in kept_for if one.keep_for is None)
    late = None if insert.late is None else job.sink(insert.late.text)
    if insert.late is not None and late is not None:
        _check_late(job.script, frame, insert.late)
        check_output(job.script, late_columns(late), insert, late)
    kept, cautions = kept + _kept(ran.groups), (*cautions, *ran.cautions, *dict.fromkeys(tables_without_files(frame)))
    return PreparedQuery(sink, insert, counted(frame), endless, kept, cautions, late)


def _check_late(script: Script, frame: DataFrame, late: Word) -> None:
    """Fail where no row of a query can be late, or only for operators of Spark's, which keep theirs."""
    keys = join_keys(plan_of(frame))
    if not keys:
        script.fail(late.start, *NO_LATE_ROWS)
    if not any(map(late_sources, keys)):
        script.fail(late.start, *NEVER_LATE)


def _resume(job: Job, session: TriJoinSession, sinks: Sequence[CreateSink], stack: ExitStack, sql: Word) -> None:
    """Plan for the checkpoints of sinks: a newly declared rate must not make a restart fail."""
    known = []
    for sink in sinks:
        checkpoint = checkpoint_of(session.spark, sink)
        try:
            if checkpoint is not None:
                with session.resuming(checkpoint):
                    known.append(checkpoint)
            elif "HISTORY" in sql.text.upper():  # each run starts afresh, and reads the history of a stream anew
                known.append(mkdtemp(prefix="run-", dir=_runs()))
        except (Py4JError, CheckpointDamagedError):  # an unknown file system, say: the query's start reports it
            continue
        except TriJoinError as error:
            word = sink.options.find(CHECKPOINT) or sink.name
            raise job.script.error(word.start, error.told) from None
    if known:
        stack.enter_context(session.resuming(*known))


@cache
def _runs() -> str:
    """Return a folder that lasts as long as this process."""
    folder = mkdtemp(prefix="trijoin-")
    atexit.register(rmtree, folder, ignore_errors=True)
    return folder


def _kept(groups: Sequence[JoinNode | LeftAlone]) -> tuple[str, ...]:
    """Return the notes on joins that stay as they are, although cost would choose otherwise or scaling is on."""
    decisions = [group.decision for group in groups]
    said = [one.advice for one in decisions if one.from_checkpoint] + [one.unscaled for one in decisions]
    return tuple(sentence for sentence in said if sentence)


def _check_mode(
    script: Script, told: Sequence[Refusal], frame: DataFrame, insert: InsertInto, sink: CreateSink
) -> None:
    """Let Spark check the query against the output mode, as it does when a query starts."""
    answer = StreamCheck(frame).answer(sink.output_mode)
    if answer is None:
        return
    error = answer.error(insert.query.text, told)
    if error.offset is None and sink.mode is not None and answer.by_mode:
        raise script.error(sink.mode.start, error.reason, error.hint)
    raise script.error(insert.query.start + (error.offset or 0), error.reason, error.hint)


def _refused(error: Exception, script: Script, at: Word, what: str) -> Exception:
    known = isinstance(error, PySparkException | Py4JError)
    return script.error(at.start, f"{what}: {sentence(error)}") if known else error
