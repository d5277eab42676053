"""``trijoin-sql run JOB.sql``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from ..errors import JobError

DONE, FAILED, REFUSED = 0, 1, 2

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
    try:
        outcome = run_job(
            job,
            err,
            once=once,
            master=master,
            conf=settings,
            units=units,
            output=output,
            quiet=quiet,
            verbose=verbose,
        )
    except JobError as error:
        _refuse(err, error.located)
    except BrokenPipeError:  # the reader of our results has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    else:
        if outcome is not None:
            err.print(Text(outcome, style="red"))
            raise typer.Exit(FAILED)


def run_job(
    path: Path,
    err: Console,
    *,
    once: bool,
    master: str | None,
    conf: list[str],
    units: int | None,
    output: Literal["text", "json"],
    quiet: bool,
    verbose: bool,
) -> str | None:
    """Run a job file from beginning to end.

    Returns
    -------
    str or None
        Why a query failed, None if all is well.

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

    script = Script.read(str(path))
    job = parse_job(script)
    for warning in check_job(job):
        if not quiet:
            err.print(Text(f"{warning} (warning)", style="yellow"))
    settings = dict(_setting(text) for text in conf)

    from ..running.stopping import StopRequest, signals
    from .prepare import prepare
    from .run import QueryFailedError, run_queries
    from .start_spark import SessionOptions, SparkStartError, job_session

    def show(line: str) -> None:
        err.print(line, markup=False, highlight=False)

    request = StopRequest()
    console_sinks = any(sink.format.text.lower() == "console" for sink in job.sinks)
    # Spark's tables on the same terminal would break a redrawn table.
    live = err.is_terminal and not quiet and not (console_sinks and sys.stdout.isatty())
    board = Console(stderr=True, highlight=False, soft_wrap=not live, quiet=quiet)
    options = SessionOptions(master, settings, units, show if verbose else None)
    if not quiet:
        err.print(Text("starting Spark", style="dim"))
    try:
        # Twice: Spark sets a handler for SIGINT of its own when it starts.
        with signals(request), job_session(job, options) as session, signals(request):
            prepared = () if request.count else prepare(job, session)
            if request.count:
                return None
            for query in prepared if not quiet else ():
                _warn_of_endless_state(err, job, query)
                line, _ = job.script.place(query.insert.query.start)
                for kept in query.kept:
                    err.print(Text(f"{job.script.path}:{line}: {kept}", style="dim"))
            outcome = run_queries(job, prepared, board, request, once=once, lines=output == "json", live=live)
    except QueryFailedError as failure:
        return str(failure)
    except SparkStartError as error:
        err.print(Text(f"{error}\nHint: trijoin-sql doctor says what this machine lacks", style="red"))
        raise typer.Exit(REFUSED) from None
    if output == "json" or not quiet:
        _summary(outcome, script.path, output)
    return None


def _warn_of_endless_state(err: Console, job: Any, query: Any) -> None:
    if query.endless:
        line, column = job.script.place(query.insert.query.start)
        rows = f"rows of {', '.join(query.endless)} are kept for ever"
        how = f"trijoin-sql explain {job.script.path} says how to bound them"
        err.print(Text(f"{job.script.path}:{line}:{column}: UNBOUNDED: {rows}; {how} (warning)", style="yellow"))


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


def _summary(outcome: Any, job: str, output: str) -> None:
    if output == "json":
        queries = [
            {**tally.to_dict(), **({"rows": list(map(json.loads, outcome.rows[tally.sink]))} if memory else {})}
            for tally in outcome.tallies
            for memory in [tally.sink in outcome.rows]
        ]
        summary = {"job": job, "ended": outcome.ended, "seconds": round(outcome.seconds, 3), "queries": queries}
        print(json.dumps(summary), flush=True)
        return
    for tally in outcome.tallies:
        for row in outcome.rows.get(tally.sink, []):
            print(row)
        print(tally)
        if tally.still_open:
            print(f"  {tally.still_open}")
    print(
        f"{outcome.ended if outcome.ended == 'done' else f'stopped by {outcome.ended}'} after {outcome.seconds:.1f} s",
        flush=True,
    )


def _refuse(err: Console, message: str) -> None:
    place, _, rest = message.partition("\n")
    err.print(Text.assemble((place, "bold red"), "\n" + rest if rest else ""))
    raise typer.Exit(REFUSED)
