"""``trijoin-sql run JOB.sql``."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from ..errors import JobError, UnavailableError
from ..settings import UNITS
from .options import Jars, Master, Packages, Quiet, Strict, Verbose, jar_settings, setting, show_mistake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..running.metrics_server import MetricsServer
    from .job_text import Script
    from .prepare import PreparedQuery
    from .run import Outcome
    from .watch import WatchFile, WatchServer

FAILED, REFUSED = 1, 2

HELP = """Run an SQL job: streams, sinks, and queries from streams into sinks.

A job file has these statements, with any Spark SQL (SET, CREATE TEMPORARY VIEW ...) between them:

\b
CREATE STREAM name [(column TYPE, ...)] USING format
  [OPTIONS (key 'value', ...)]
  [WATERMARK column DELAY OF INTERVAL 10 SECONDS];
CREATE SINK name USING format [OPTIONS (key 'value', ...)]
  [MODE append|update|complete] [TRIGGER trigger];
INSERT INTO sink SELECT ... [LATE ROWS INTO sink];

\b
streams   parquet, json, csv, orc, text, rate, rate-micro-batch, socket, kafka,
          delta, iceberg (path or table), any other format that Spark has,
          python OPTIONS (class 'module:Class', ...), a DataSource of yours
sinks     parquet, json, csv, orc, text, console, memory, kafka, noop,
          delta, iceberg, python, any other format that Spark has,
          foreachBatch OPTIONS (function 'module:name')
triggers  PROCESSING TIME '10 seconds', AVAILABLE NOW, ONCE,
          REAL TIME '5 minutes' (row by row, Kafka to Kafka)

Kafka, Avro, Delta Lake and Iceberg come in packages, which Spark fetches from Maven's repositories in the version for \
the installed Spark. Where it cannot, or for another version or format: --packages GROUP:NAME:VERSION, or --jars \
FOLDER with the jars. In the job file SET spark.jars.packages = ... and SET spark.jars = ... say the same.

Sinks that last (all but console, memory and noop) need the option checkpointLocation; from there a job goes on where \
it was. Everything is checked before anything starts. SIGINT and SIGTERM stop the job after the running batch, a \
second one stops it at once.

\b
trijoin-sql run job.sql                  # until Ctrl-C, with live progress
trijoin-sql run job.sql --once           # take what is there, then end
trijoin-sql run job.sql --format json    # a summary that programs read
trijoin-sql run job.sql --watch 8080     # a page about it: http://127.0.0.1:8080
trijoin-sql run job.sql --watch job.html # the same page, as a file
trijoin-sql run job.sql --metrics 9464   # for Prometheus; --watch PORT has it too, at /metrics

Exit codes: 0 done or stopped, 1 a query failed, 2 wrong usage, a mistake in the file, no Spark.
"""


def run(
    job: Annotated[Path, typer.Argument(metavar="JOB.sql", help="The job file, - for stdin.", show_default=False)],
    once: Annotated[bool, typer.Option("--once", help="Take what is there, then end.")] = False,
    master: Master = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A Spark setting; as often as needed.")
    ] = None,
    packages: Packages = None,
    jars: Jars = None,
    units: Annotated[
        int | None, typer.Option(min=1, help="Units of a stream's group.", show_default="one a core")
    ] = None,
    output: Annotated[
        Literal["text", "json"],
        typer.Option("--format", help="Of the summary on stdout; with json console sinks write a JSON object a row."),
    ] = "text",
    watch: Annotated[
        str | None,
        typer.Option(metavar="PORT|FILE", help="A page with rates, lags, state and times of ten minutes; 0: any port."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Serve /metrics for Prometheus; without HOST to this machine."),
    ] = None,
    strict: Strict = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run a job; see `HELP`."""
    err = Console(stderr=True, highlight=False, soft_wrap=True)
    settings = [*(conf or []), *jar_settings(packages or [], jars or [])]
    settings += [f"{key}={value}" for key, value in (("spark.master", master), (UNITS, units)) if value is not None]
    try:
        lines = output == "json"
        told = {"quiet": quiet, "verbose": verbose, "strict": strict}
        why = run_job(str(job), err, settings, once=once, lines=lines, watch=watch, metrics=metrics, **told)
    except JobError as error:
        show_mistake(error, err)
        raise typer.Exit(REFUSED) from None
    except BrokenPipeError:  # the reader of our results has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    else:
        if why is not None:
            err.print(Text(why, style="red"))
            raise typer.Exit(FAILED)


def run_job(
    path: str,
    err: Console,
    settings: list[str],
    *,
    once: bool,
    lines: bool,
    quiet: bool,
    verbose: bool,
    watch: str | None = None,
    metrics: str | None = None,
    strict: bool = False,
) -> str | None:
    """Run a job file (``-``: stdin) from beginning to end; return why a query failed, None if all is well.

    ``settings`` are ``KEY=VALUE``; the last one of a key counts. With ``lines`` stdout gets JSON. ``watch`` is a port
    or a file for a page, ``metrics`` a port for Prometheus. With ``strict`` queries are refused whose state is not
    proven, whatever settings say.

    Raises
    ------
    JobError
        The file has a mistake.
    OSError
        It cannot be read.
    """
    from .check import check_job
    from .job_text import Script
    from .parse_statements import parse_job

    begun = time.monotonic()
    notes = Console(stderr=True, highlight=False, soft_wrap=True, quiet=quiet)
    script = Script.read(path)
    job = parse_job(script)
    given = dict(map(setting, settings))
    for warning in check_job(job, given):
        notes.print(Text(f"{warning} (warning)", style="yellow"))

    from ..running.stopping import StopRequest, signals
    from .prepare import prepare
    from .run import QueryFailedError, run_queries
    from .start_spark import SparkStartError, job_session

    def show(line: str) -> None:
        err.print(line, markup=False, highlight=False)

    request = StopRequest()
    console_sinks = any(sink.format.text.lower() == "console" for sink in job.sinks)
    # Spark's tables on the same terminal would break a redrawn table.
    live = err.is_terminal and not quiet and not (console_sinks and sys.stdout.isatty())
    board = Console(stderr=True, highlight=False, soft_wrap=not live, quiet=quiet)
    page = None if watch is None else _started(script.path, watch)
    if page is not None:
        notes.print(Text(f"watch: {page.place}", style="dim"))
    scraped = None if metrics is None else _scraped(metrics)
    if scraped is not None:
        notes.print(Text(f"metrics: {scraped.url}", style="dim"))
    notes.print(Text("starting Spark", style="dim"))
    try:
        # Twice: Spark sets a handler for SIGINT of its own when it starts.
        with signals(request), job_session(job, given, show if verbose else None) as session, signals(request):
            session.statements.strict = strict
            _count(session.spark, page, scraped)
            prepared = () if request.count else prepare(job, session)
            if request.count:
                return None
            for query in prepared:
                say_what_is_kept(query, script, f"trijoin-sql explain {script.path}", notes)
            starting = time.monotonic() - begun
            outcome = run_queries(job, prepared, board, request, once=once, lines=lines, live=live, watch=page)
    except QueryFailedError as failure:
        return str(failure)
    except SparkStartError as error:
        err.print(Text(f"{error}\nHint: trijoin-sql doctor says what this machine lacks", style="red"))
        raise typer.Exit(REFUSED) from None
    finally:
        for one in (page, scraped):
            if one is not None:
                one.close()
    if lines or not quiet:
        summary(outcome, script.path, lines, starting)
    return None


def _scraped(where: str) -> MetricsServer:
    from ..running.metrics_server import MetricsServer, new_registry

    host, _, port = where.rpartition(":")
    try:
        return MetricsServer(new_registry(), int(port), host or "127.0.0.1")
    except ValueError:
        why = "name a port, or HOST:PORT"
    except OverflowError:
        why = "ports end at 65535"
    except OSError as error:
        why = f"{error.strerror or error}"
    raise typer.BadParameter(f"{where}: {why}", param_hint="'--metrics'")


def _count(spark: SparkSession, page: WatchFile | WatchServer | None, scraped: MetricsServer | None) -> None:
    """Count for Prometheus from now on, where somebody may ask."""
    from ..running.metrics_server import count_into, new_registry
    from .watch import WatchServer

    if scraped is not None:
        scraped.count(spark)
    if isinstance(page, WatchServer):
        with suppress(UnavailableError):  # which /metrics says then
            registry = scraped.registry if scraped is not None else new_registry()
            if scraped is None:
                count_into(registry, spark)
            page.registry = registry


def _started(job: str, watch: str) -> WatchFile | WatchServer:
    from .watch import start_watch

    try:
        return start_watch(job, watch)
    except OverflowError:
        why = "ports end at 65535"
    except ValueError as error:
        why = str(error)
    except OSError as error:
        why = f"{error.strerror or error}" if watch.isdigit() else f"it cannot be written: {error.strerror}"
    raise typer.BadParameter(f"{watch}: {why}", param_hint="'--watch'")


def say_what_is_kept(query: PreparedQuery, script: Script, explain: str, notes: Console) -> None:
    """Warn of rows that a query keeps for ever, and say what follows from its checkpoint; ``explain`` says more."""
    line, column = script.place(query.insert.query.start)
    if query.endless:
        rows = f"rows of {', '.join(query.endless)} are kept for ever"
        warning = f"{script.path}:{line}:{column}: UNBOUNDED: {rows}; {explain} says how to bound them (warning)"
        notes.print(Text(warning, style="yellow"))
    for caution in query.cautions:
        notes.print(Text(f"{script.path}:{line}:{column}: {caution} (warning)", style="yellow"))
    for kept in query.kept:
        notes.print(Text(f"{script.path}:{line}: {kept}", style="dim"))


def summary(outcome: Outcome, job: str, lines: bool, starting: float = 0.0) -> None:
    """Print what a job did to stdout; ``starting`` are the seconds before its queries began."""
    seconds = starting + outcome.seconds
    if lines:
        queries = [tally.to_dict() for tally in outcome.tallies]
        for query in queries:
            for sink, key in ((query["sink"], "rows"), (query["late_sink"], "late")):
                if sink in outcome.rows:
                    query[key] = [json.loads(row) for row in outcome.rows[sink]]
        times = {"seconds": round(seconds, 3), "starting_seconds": round(starting, 3)}
        print(json.dumps({"job": job, "ended": outcome.ended, **times, "queries": queries}), flush=True)
        return
    for tally in outcome.tallies:
        for row in (*outcome.rows.get(tally.sink, ()), *outcome.rows.get(tally.late_sink, ())):
            print(row)
        print(tally.summary())
        for lost in [*tally.told_late, *tally.lost]:
            print(f"  {lost}")
        if tally.still_open:
            print(f"  {tally.still_open}")
    ended = "done" if outcome.ended == "done" else f"stopped by {outcome.ended}"
    parts = f": {starting:.1f} s to start, {outcome.seconds:.1f} s for the queries" if starting else ""
    print(f"{ended} after {seconds:.1f} s{parts}", flush=True)
