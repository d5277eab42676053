"""Carries out what was entered, by the same code as a job: `jobs` parses, checks, prepares and runs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ..errors import JobError, JoinOverflowError, PlanError, TriJoinError
from ..jobs.check import check_places, check_statements
from ..jobs.check_declarations import declared_catalog
from ..jobs.check_inserts import check_late
from ..jobs.columns import check_columns
from ..jobs.job_text import Script
from ..jobs.locate import locate
from ..jobs.options import show_mistake
from ..jobs.prepare import prepare, run_sql
from ..jobs.progress import Tally
from ..jobs.run import QueryFailedError, run_queries, with_socket
from ..jobs.run_command import say_what_is_kept, summary
from ..jobs.start_spark import SparkStartError
from ..jobs.statements import CreateSink, CreateStream, InsertInto, Job, SparkStatement, StartSetting
from ..rewriter.sql.clauses import Word
from ..rewriter.sql.dialect import quote
from ..running.stopping import StopRequest
from ..session import TriJoinSession
from ..spark.messages import reason
from ..spark.refusals import StreamCheck
from .completion import Names
from .engine import Engine, StoppedError
from .entered import LEAVE, Drop, Entered, command, read_entered
from .results import Growing, follow, print_rows, printing, table, texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows of a query over tables that a terminal shows, unless \rows says otherwise.
ROWS = 100
#: Tables whose columns are looked up for completion.
LOOKED_UP = 200

#: What can go wrong without a bug of ours.
_KNOWN = (StoppedError, SparkStartError, QueryFailedError, TriJoinError, PySparkException, Py4JError, OSError)

HELP = r"""A statement ends with ; and may have several lines. All of Spark's SQL, and

  CREATE STREAM r (id BIGINT, x DOUBLE, ts TIMESTAMP) USING json OPTIONS (path 'in/r')
    WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
  SELECT ... FROM r JOIN s ON ABS(r.x - s.x) < 5 WITHIN 1 MINUTE;   over streams: until Ctrl-C
  EXPLAIN [FORMATTED | MERMAID | JSON] SELECT ...;                  how it will run
  CREATE SINK near USING parquet OPTIONS (path 'out', checkpointLocation 'checkpoint');
  INSERT INTO near SELECT ...;                                      into it, until Ctrl-C
  DROP STREAM r; DROP SINK near;                                    CREATE OR REPLACE works, too

  \tables         streams, tables, views and sinks
  \rows N         show N rows of a query over tables (now {rows})
  \once on|off    queries over streams take what is there, and end (now {once})
  \run FILE.sql   run the statements of a file
  \quit           leave; so does Ctrl-D

Tab completes. Ctrl-R searches what was entered before. Ctrl-C ends a query, not the shell."""


class Shell:
    """What has been declared, and where results go.

    Parameters
    ----------
    engine
        Spark.
    out, err
        For results, and for all else.
    lines
        Rows are JSON objects.
    once
        Queries over streams take what is there.
    live
        Results grow in place, and a query over tables is cut: for somebody who looks on.
    quiet
        Only results and errors.
    """

    def __init__(
        self,
        engine: Engine,
        out: Console,
        err: Console,
        *,
        lines: bool = False,
        once: bool = False,
        live: bool = False,
        quiet: bool = False,
    ) -> None:
        self.engine, self.out, self.err = engine, out, err
        self.lines, self.once, self.live, self.quiet = lines, once, live, quiet
        self.rows = ROWS
        #: Whether Spark does not start.
        self.lost = False
        self.names = Names()
        self.streams: dict[str, CreateStream] = {}
        self.sinks: dict[str, CreateSink] = {}

    def enter(self, text: str) -> bool:
        """Run what was entered at the prompt; return False to leave. A mistake is told, and changes nothing."""
        if (told := command(text)) is not None:
            return self._command(told)
        self.attempt(lambda: self.run(Script("shell", text)))
        return not self.lost

    def attempt(self, work: Callable[[], Any]) -> int:
        """Do something; tell what goes wrong in a sentence, and return the exit code."""
        try:
            work()
        except BrokenPipeError:  # the reader of our results has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except _KNOWN as error:
            self.lost = error is self.engine.failure()
            return self._tell(error)
        return 0

    def _tell(self, error: Exception) -> int:
        match error:
            case StoppedError():
                self._say("stopped", "yellow")
                return 130
            case JobError():
                show_mistake(error, self.err)
                return 2
            case SparkStartError():
                self._say(f"{error}\nHint: trijoin-sql doctor says what this machine lacks", "red")
                return 2
            case OSError():
                self._say(f"{error.filename}: {error.strerror}" if error.filename else str(error), "red")
                return 2
            case TriJoinError():
                self._say(error.told, "red")
                return 1 if isinstance(error, PlanError | JoinOverflowError) else 2
        why = str(error) if isinstance(error, QueryFailedError) else reason(error)
        self._say(with_socket(why, self.streams.values()), "red")
        return 1

    def run(self, script: Script) -> None:
        """Parse a whole text, then run its statements one after the other."""
        for one in read_entered(script, self.sinks, self.streams):
            self.execute(script, one)

    def execute(self, script: Script, entered: Entered) -> None:
        """Run one statement.

        Raises
        ------
        JobError
            It has a mistake.
        """
        match entered.statement:
            case CreateStream() | CreateSink() as made:
                self._declare(script, made, replaces=entered.replaces)
            case Drop() as drop:
                self._drop(script, drop)
            case InsertInto() as insert:
                self._insert(script, insert)
            case StartSetting(key):
                if self.live:  # elsewhere Spark was started with it
                    hint = f"begin the shell with it: trijoin-sql shell --conf {key}=..."
                    script.fail(0, f"{key} counts when Spark starts, and it has been started", hint)
            case SparkStatement(sql):
                check_statements(Job(script, (entered.statement,)))
                self._sql(script, sql)
        self._learn()

    def _declare(self, script: Script, made: CreateStream | CreateSink, *, replaces: bool) -> None:
        name = made.name.text.lower()
        kind = "STREAM" if isinstance(made, CreateStream) else "SINK"
        if (name in self.streams or name in self.sinks) and not replaces:
            hint = f"write CREATE OR REPLACE {kind} {made.name}, or DROP it first"
            script.fail(made.name.start, f"there is already something named {made.name}", hint)
        job = Job(script, (made,))
        check_statements(job)
        check_places(job)
        self._work(lambda session: prepare(job, session))
        self.streams.pop(name, None)
        self.sinks.pop(name, None)
        if isinstance(made, CreateStream):
            self.streams[name] = made
        else:
            self.sinks[name] = made
        self._done()

    def _drop(self, script: Script, drop: Drop) -> None:
        known: dict[str, Any] = self.streams if drop.kind == "stream" else self.sinks
        if known.pop(drop.name.text.lower(), None) is None:
            script.fail(drop.name.start, f"there is no {drop.kind} named {drop.name}")
        if drop.kind == "stream":
            self._work(lambda session: session.spark.catalog.dropTempView(drop.name.text))
        self._done()

    def _insert(self, script: Script, insert: InsertInto) -> None:
        sink = self.sinks[insert.sink.text.lower()]
        late = None if insert.late is None else self.sinks.get(insert.late.text.lower())
        sinks = (sink,) if late is None or late is sink else (sink, late)
        job = Job(script, (*sinks, insert))
        check_late(job, insert)
        prepared = self._work(lambda session: prepare(job, session))
        for query in prepared:
            say_what_is_kept(query, script, "EXPLAIN", Console(stderr=True, quiet=self.quiet, soft_wrap=True))
        live = self.live and sink.format.text.lower() != "console"
        named, request = Job(script, (*self.streams.values(), *sinks, insert)), StopRequest()
        board = Console(stderr=True, highlight=False, soft_wrap=not live, quiet=self.quiet)
        outcome = self.engine.run(
            lambda _: run_queries(named, prepared, board, request, once=self.once, lines=self.lines, live=live), request
        )
        if self.lines or not self.quiet:
            summary(outcome, script.path, self.lines)

    def _sql(self, script: Script, sql: Word) -> None:
        try:
            frame, mode = self._work(lambda session: self._query(session, script, sql))
        except JobError:  # what is wrong with columns we may say better than Spark
            check_columns(script, sql.text, sql.start, declared_catalog(self.streams.values()))
            raise
        if frame.isStreaming:
            self._follow(frame, mode)
        elif not frame.columns:
            self._done()
        elif sql.text[:7].upper() == "EXPLAIN":
            plan = self._work(lambda _: frame.collect())
            self.out.print(Text(plan[0][0].rstrip("\n")), soft_wrap=True)
        else:
            self._work(lambda _: self._show(script, sql, frame))

    def _query(self, session: TriJoinSession, script: Script, sql: Word) -> tuple[DataFrame, str]:
        """Compile a statement, and say in which output mode it runs: all groups at every time, if there are any."""
        session.statements.checks_modes = True
        frame = run_sql(Job(script, ()), session, sql).frame
        if not frame.isStreaming:
            return frame, ""
        check = StreamCheck(frame)
        answers = {mode: check.answer(mode) for mode in ("complete", "append", "update")}
        mode = next((mode for mode, answer in answers.items() if answer is None), None)
        if mode is None and (answer := answers["append"]) is not None:
            error = answer.error(sql.text, ())
            raise script.error(sql.start + (error.offset or 0), error.reason, error.hint)
        return frame, mode or "append"

    def _follow(self, frame: DataFrame, mode: str) -> None:
        request, tally = StopRequest(), Tally("rows", appends=mode == "append")

        def run(take: Callable[[DataFrame, int], None]) -> None:
            streams = self.streams.values()
            self.engine.run(lambda _: follow(frame, mode, take, tally, streams, request, once=self.once), request)

        try:
            if self.live:
                growing = Growing(self.out, frame.schema, mode == "complete", tally, request)
                with Live(growing, console=self.out, refresh_per_second=4, vertical_overflow="crop"):
                    run(growing.take)
                    growing.over = True
            else:
                run(printing(self.out, lines=self.lines))
        except (StreamingQueryException, Py4JError) as error:
            detail = f"the query failed: {with_socket(reason(error), self.streams.values())}"
            raise QueryFailedError(detail) from None
        if tally.still_open:
            self._say(tally.still_open, "dim")

    def _show(self, script: Script, sql: Word, frame: DataFrame) -> None:
        """Show the rows of a query over tables."""
        try:
            if not self.live or self.lines:
                print_rows(frame, self.out, lines=self.lines)
                return
            rows = [tuple(row) for row in texts(frame).take(self.rows + 1)]
        except PySparkException as error:  # such as a division by zero, which Spark finds as it runs
            raise locate(error, script, sql, list) from None
        self.out.print(table(frame.schema, rows[: self.rows], width=self.out.width))
        more = rf"the first {self.rows:,} rows; \rows N shows more"
        count = f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'}"
        self._say(more if len(rows) > self.rows else count, "dim")

    def _command(self, text: str) -> bool:
        word, _, rest = text.partition(" ")
        match word.lower(), rest.strip():
            case known, _ if known in LEAVE:
                return False
            case ((r"\help" | r"\h" | r"\?" | "help" | "?"), _):
                help_ = HELP.replace("{rows}", str(self.rows)).replace("{once}", "on" if self.once else "off")
                self.out.print(Text(help_), soft_wrap=True)
            case r"\rows", number if number.isdigit() and int(number):
                self.rows = int(number)
            case r"\once", "on" | "off" as wanted:
                self.once = wanted == "on"
            case r"\tables" | r"\d", "":
                self.attempt(self._tables)
            case r"\run" | r"\i", file if file:
                self.attempt(lambda: self.run(Script.read(file.strip("'\""))))
            case (r"\rows" | r"\once" | r"\run" | r"\i") as known, _:
                takes = {r"\rows": "a number of rows, 50 say", r"\once": "on or off"}
                self._say(f"{known} takes {takes.get(known, 'the name of a file')}", "red")
            case _:
                self._say(rf"there is no command {text}; \help says which there are", "red")
        return True

    def _tables(self) -> None:
        self._work(self._look_up)
        for name, columns in sorted(self.names.tables.items()):
            stream = self.streams.get(name.lower())
            what = f"stream, {stream.format}" if stream else "table or view"
            self.out.print(Text.assemble((name, "bold"), f" ({', '.join(columns)})", (f"  {what}", "dim")))
        for sink in self.sinks.values():
            self.out.print(Text.assemble((sink.name.text, "bold"), (f"  sink, {sink.format}", "dim")))

    def _work(self, work: Callable[[TriJoinSession], Any]) -> Any:
        """Let Spark work; on a terminal something turns if that takes longer."""
        if not self.live:
            return self.engine.run(work)
        what = "starting Spark" if self.engine.starting else "running; Ctrl-C stops"
        with self.err.status(Text(what, style="dim"), spinner="dots"):
            return self.engine.run(work)

    def _learn(self) -> None:
        """Look up in the background what can be completed now."""
        self.names.sinks = tuple(sink.name.text for sink in self.sinks.values())
        if self.live:
            self.engine.later(self._look_up)

    def _look_up(self, session: TriJoinSession) -> None:
        spark, found = session.spark, dict[str, tuple[str, ...]]()
        for one in spark.catalog.listTables()[:LOOKED_UP]:
            try:
                found[one.name] = tuple(spark.table(quote(one.name)).columns)
            except PySparkException:  # a view of something that is gone
                found[one.name] = ()
        self.names.tables = found
        if not self.names.functions:
            rows = session.spark.sql("SHOW FUNCTIONS").collect()
            self.names.functions = tuple(row[0] for row in rows if row[0].isidentifier())

    def _done(self) -> None:
        if self.live:
            self._say("ok", "dim")

    def _say(self, text: str, style: str) -> None:
        self.err.print(Text(text, style=style))


class Log(logging.Handler):
    """Sends the package's warnings to a console, where a table that is being redrawn makes room for them."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record as a line."""
        self._console.print(Text(f"{record.levelname.lower()}: {record.getMessage()}", style="yellow"))
