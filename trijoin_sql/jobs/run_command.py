"""``trijoin-sql run JOB.sql``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from ..errors import JobError
from ..settings import UNITS

if TYPE_CHECKING:
    from .run import Outcome

FAILED, REFUSED = 1, 2

HELP = """Run an SQL job: streams, sinks, and queries from streams into sinks.

A job file has these statements, with any Spark SQL (SET, CREATE TEMPORARY VIEW ...) between them:

\b
CREATE STREAM name [(column TYPE, ...)] USING format
  [OPTIONS (key 'value', ...)]
  [WATERMARK column DELAY OF INTERVAL 10 SECONDS];
CREATE SINK name USING format [OPTIONS (key 'value', ...)]
  [MODE append|update|complete] [TRIGGER trigger];
INSERT INTO sink SELECT ...;

\b
streams   parquet, json, csv, orc, text, rate, rate-micro-batch, socket, kafka
sinks     parquet, json, csv, orc, text, console, memory, kafka, noop,
          foreachBatch OPTIONS (function 'module:name')
triggers  PROCESSING TIME '10 seconds', AVAILABLE NOW, ONCE

Kafka is Spark's own connector, which Spark fetches from Maven's repositories. Where it cannot, or for another \
version: --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION, or --jars FOLDER with the jars. In the job \
file SET spark.jars.packages = ... and SET spark.jars = ... say the same.

Files, Kafka and foreachBatch need the option checkpointLocation; from there a job goes on where it was. Everything is \
checked before anything starts. SIGINT and SIGTERM stop the job after the running batch, a second one stops it at once.

\b
trijoin-sql run job.sql                  # until Ctrl-C, with live progress
trijoin-sql run job.sql --once           # take what is there, then end
trijoin-sql run job.sql --format json    # a summary that programs read

Exit codes: 0 done or stopped, 1 a query failed, 2 wrong usage, a mistake in the file, no Spark.
"""


def run(
    job: Annotated[Path, typer.Argument(metavar="JOB.sql", help="The job file, - for stdin.", show_default=False)],
    once: Annotated[bool, typer.Option("--once", help="Take what is there, then end.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark's master.", show_default="local[*,4]")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A Spark setting; as often as needed.")
    ] = None,
    packages: Annotated[
        list[str] | None,
        typer.Option("--packages", metavar="GROUP:NAME:VERSION", help="Jars for Spark to fetch, by Maven coordinates."),
    ] = None,
    jars: Annotated[
        list[Path] | None, typer.Option("--jars", metavar="PATH", help="Jars for Spark: files, or folders of jars.")
    ] = None,
    units: Annotated[
        int | None, typer.Option(min=1, help="Units of a stream's group.", show_default="one a core")
    ] = None,
    output: Annotated[
        Literal["text", "json"],
        typer.Option("--format", help="Of the summary on stdout; with json console sinks write a JSON object a row."),
    ] = "text",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only results and errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Spark's log and our own, in full.")] = False,
) -> None:
    """Run a job; see `HELP`."""
    err = Console(stderr=True, highlight=False, soft_wrap=True)
    settings = [*(conf or []), *_jar_settings(packages or [], jars or [])]
    settings += [f"{key}={value}" for key, value in (("spark.master", master), (UNITS, units)) if value is not None]
    try:
        why = run_job(str(job), err, settings, once=once, lines=output == "json", quiet=quiet, verbose=verbose)
    except JobError as error:
        place, _, rest = error.located.partition("\n")
        err.print(Text.assemble((place, "bold red"), "\n" + rest if rest else ""))
        raise typer.Exit(REFUSED) from None
    except BrokenPipeError:  # the reader of our results has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    else:
        if why is not None:
            err.print(Text(why, style="red"))
            raise typer.Exit(FAILED)


def run_job(
    path: str, err: Console, settings: list[str], *, once: bool, lines: bool, quiet: bool, verbose: bool
) -> str | None:
    """Run a job file (``-``: stdin) from beginning to end; return why a query failed, None if all is well.

    ``settings`` are ``KEY=VALUE``; the last one of a key counts. With ``lines`` stdout gets JSON.

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

    notes = Console(stderr=True, highlight=False, soft_wrap=True, quiet=quiet)
    script = Script.read(path)
    job = parse_job(script)
    for warning in check_job(job):
        notes.print(Text(f"{warning} (warning)", style="yellow"))
    given = dict(map(_setting, settings))

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
    notes.print(Text("starting Spark", style="dim"))
    try:
        # Twice: Spark sets a handler for SIGINT of its own when it starts.
        with signals(request), job_session(job, given, show if verbose else None) as session, signals(request):
            prepared = () if request.count else prepare(job, session)
            if request.count:
                return None
            for query in prepared:
                line, column = script.place(query.insert.query.start)
                if query.endless:
                    rows = f"rows of {', '.join(query.endless)} are kept for ever"
                    how = f"trijoin-sql explain {script.path} says how to bound them"
                    warning = f"{script.path}:{line}:{column}: UNBOUNDED: {rows}; {how} (warning)"
                    notes.print(Text(warning, style="yellow"))
                for caution in query.cautions:
                    notes.print(Text(f"{script.path}:{line}:{column}: {caution} (warning)", style="yellow"))
                for kept in query.kept:
                    notes.print(Text(f"{script.path}:{line}: {kept}", style="dim"))
            outcome = run_queries(job, prepared, board, request, once=once, lines=lines, live=live)
    except QueryFailedError as failure:
        return str(failure)
    except SparkStartError as error:
        err.print(Text(f"{error}\nHint: trijoin-sql doctor says what this machine lacks", style="red"))
        raise typer.Exit(REFUSED) from None
    if lines or not quiet:
        _summary(outcome, script.path, lines)
    return None


def _jar_settings(packages: list[str], jars: list[Path]) -> list[str]:
    """Return the settings that name the jars of the command line."""
    from .jars import JARS, PACKAGES, jar_files

    try:
        files = jar_files(jars)
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error), param_hint="'--jars'") from None
    return [f"{key}={','.join(values)}" for key, values in ((PACKAGES, packages), (JARS, files)) if values]


def _setting(text: str) -> tuple[str, str]:
    from .setting_names import hint_if_unknown

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint="'--conf'")
    if (hint := hint_if_unknown(key.strip())) is not None:
        raise typer.BadParameter(f"there is no setting {key.strip()}; {hint}", param_hint="'--conf'")
    return key.strip(), value


def _summary(outcome: Outcome, job: str, lines: bool) -> None:
    if lines:
        queries = [tally.to_dict() for tally in outcome.tallies]
        for query in queries:
            if query["sink"] in outcome.rows:
                query["rows"] = [json.loads(row) for row in outcome.rows[query["sink"]]]
        summary = {"job": job, "ended": outcome.ended, "seconds": round(outcome.seconds, 3), "queries": queries}
        print(json.dumps(summary), flush=True)
        return
    for tally in outcome.tallies:
        for row in outcome.rows.get(tally.sink, []):
            print(row)
        print(tally)
        for lost in tally.lost:
            print(f"  {lost}")
        if tally.still_open:
            print(f"  {tally.still_open}")
    ended = "done" if outcome.ended == "done" else f"stopped by {outcome.ended}"
    print(f"{ended} after {outcome.seconds:.1f} s", flush=True)
