"""``trijoin-sql shell``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from ..errors import JobError
from ..jobs.options import Jars, Master, Packages, Quiet, Verbose, jar_settings, setting, show_mistake

if TYPE_CHECKING:
    from ..jobs.job_text import Script
    from .shell import Shell

HELP = """Enter SQL and see results; over streams they grow until Ctrl-C, which ends the query and not the shell.

Statements end with ; and are those of a job file (CREATE STREAM, CREATE SINK, INSERT INTO), with SELECT, EXPLAIN and \
any Spark SQL. Spark starts while the first statement is typed. \\help lists the few commands.

\b
trijoin-sql shell                           # a prompt
trijoin-sql shell -c 'SELECT 1; SHOW TABLES'   # no prompt; a mistake ends it
trijoin-sql shell --once < queries.sql      # streams: take what is there
trijoin-sql shell --format json < some.sql  # rows as JSON objects

Exit codes: 0 done, 1 a query failed, 2 wrong usage or a mistake in a statement, 130 a query over tables was stopped.
"""


def shell(
    statements: Annotated[
        list[str] | None, typer.Option("--command", "-c", metavar="SQL", help="Run this and end; as often as needed.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Queries over streams take what is there, then end.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("--format", help="Of rows on stdout.")] = "text",
    master: Master = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; as often as needed.")
    ] = None,
    packages: Packages = None,
    jars: Jars = None,
    history: Annotated[
        Path,
        typer.Option(envvar="TRIJOIN_HISTORY", metavar="FILE", help="Keeps what was entered; empty for none."),
    ] = Path("~/.trijoin_sql_history"),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Enter SQL; see `HELP`."""
    given = [*(conf or []), *jar_settings(packages or [], jars or [])]
    settings = dict(map(setting, [*given, *([f"spark.master={master}"] if master else [])]))
    err = Console(stderr=True, highlight=False, soft_wrap=True)
    script = _script(statements)
    try:
        code = _run(script, settings, err, once=once, output=output, history=history, quiet=quiet, verbose=verbose)
    except JobError as error:  # before Spark starts
        show_mistake(error, err)
        code = 2
    if code:
        raise typer.Exit(code)


def _script(statements: list[str] | None) -> Script | None:
    """Return what is to be run without a prompt."""
    from ..jobs.job_text import Script

    if statements:
        return Script("shell", ";\n".join(statements))
    return None if sys.stdin.isatty() else Script.read("-")


def _run(
    script: Script | None,
    settings: dict[str, str],
    err: Console,
    *,
    once: bool,
    output: str,
    history: Path,
    quiet: bool,
    verbose: bool,
) -> int:
    from ..jobs.job_text import Script
    from ..jobs.statements import Job
    from .entered import Drop, read_entered

    found = [] if script is None else [one.statement for one in read_entered(script, ())]
    job = Job(script or Script("shell", ""), tuple(one for one in found if not isinstance(one, Drop)))

    from .engine import Engine
    from .shell import Log, Shell

    out = Console(highlight=False)
    live = script is None and out.is_terminal and output == "text"
    logger = logging.getLogger("trijoin_sql")
    logger.handlers = [Log(out if live else err)]
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING)

    def show(line: str) -> None:
        err.print(line, markup=False, highlight=False)

    engine = Engine(job, settings, show if verbose else None)
    try:
        here = Shell(engine, out, err, lines=output == "json", once=once, live=live, quiet=quiet)
        if script is None:
            return _prompt(here, history, quiet=quiet)
        return here.attempt(lambda: here.run(script))
    finally:
        engine.close()


def _prompt(shell: Shell, history: Path, *, quiet: bool) -> int:
    from importlib.metadata import version

    from .editor import Editor

    editor = Editor(shell.names, history.expanduser() if history.name else None)
    if not quiet:
        told = f"trijoin-sql {version('trijoin-sql')} on Spark {version('pyspark')}"
        shell.err.print(Text.assemble((told, "bold"), (r" – statements end with ;  \help says more", "dim")))
    while True:
        try:
            text = editor.read()
        except KeyboardInterrupt:  # clears the line
            continue
        except EOFError:
            return 0
        if text.strip() and not shell.enter(text):
            return 2 if shell.lost else 0
