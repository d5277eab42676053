"""The benchmarks' command line: ``python -m tests.bench``, from the root of the repository."""

from __future__ import annotations

import typer

from trijoin_sql.cli import Command

from .bench_command import HELP, bench

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)
app.command(cls=Command, help=HELP)(bench)

if __name__ == "__main__":
    app(prog_name="python -m tests.bench")
