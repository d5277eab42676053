"""``trijoin-sql init``: a job of the cookbook with its data generator, in a folder of its own."""

from __future__ import annotations

import ast
from itertools import takewhile
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

HELP = """Write a job that runs, with a generator of its data, into a new folder: a job to start from.

\b
trijoin-sql init --list            # the jobs to choose from
trijoin-sql init fraud             # into the folder fraud
trijoin-sql init fraud mine/here   # into another one

A name's beginning is enough. Nothing is overwritten.

Exit codes: 0 done, 2 wrong usage.
"""

#: The two files of a job.
JOB, DATA = "job.sql", "make_data.py"

_ABOUT = '''"""Writes the streams that {job} reads: ``python {data}``, a second's work.

An hour of made-up events as JSON files in ``data/`` beside this file, the same at every call. With a number of seconds
(``python {data} 120``) the hour before now arrives while they pass, a file a second: something to follow.
"""
'''


def init(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The job.", show_default=False)] = None,
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="A new folder.", show_default="one of that name")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", "-l", help="Say which jobs there are.")] = False,
) -> None:
    """Write a job; see `HELP`."""
    if listed:
        for job in jobs():
            typer.echo(f"{job:<20} {question(job)}")
        return
    if name is None:
        raise typer.BadParameter("which job? trijoin-sql init --list says which there are", param_hint="NAME")
    job, target = _meant(name), folder or Path(name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise typer.BadParameter(f"{target} exists; nothing is overwritten", param_hint="FOLDER")
    target.mkdir(parents=True, exist_ok=True)
    (target / JOB).write_text((home() / f"{job}.sql").read_text(encoding="utf-8"), encoding="utf-8")
    (target / DATA).write_text(generator(job), encoding="utf-8")
    typer.echo(f"{question(job)}\n\nNow run")
    for command, what in (
        (f"cd {quote(str(target))}", ""),
        (f"python {DATA}", "an hour of made-up events, in data/"),
        (f"trijoin-sql run {JOB} --once", "the answer, as a table"),
        (f"trijoin-sql explain {JOB}", "how it runs, how long rows are kept"),
    ):
        typer.echo(f"  {command:<30}  {what}".rstrip())


def home() -> Path:
    """Return the folder of the cookbook: of the installed package, or of the checkout that this file is in."""
    installed = Path(__file__).parent / "cookbook"
    return installed if installed.is_dir() else Path(__file__).parents[1] / "queries" / "cookbook"


def jobs() -> list[str]:
    """Return the names of the jobs."""
    return sorted(path.stem for path in home().glob("*.sql"))


def question(job: str) -> str:
    """Return what a job asks: the first sentence of the comment at its head."""
    lines = (home() / f"{job}.sql").read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.removeprefix("--").strip() for line in takewhile(lambda line: line.startswith("--"), lines))
    return comment.partition("?")[0] + "?"


def generator(job: str) -> str:
    """Return the Python file that writes the streams of one job: the cookbook's, without what makes the others."""
    text = (home() / "data.py").read_text(encoding="utf-8")
    lines, tree = text.splitlines(keepends=True), ast.parse(text)
    registry = next(node for node in tree.body if isinstance(node, ast.AnnAssign) and _names(node.target) == ["JOBS"])
    assert isinstance(registry.value, ast.Dict)
    entries = zip(registry.value.keys, registry.value.values, strict=True)
    makers = {ast.literal_eval(key or ast.Constant(None)): value for key, value in entries}
    kept = _names(makers[job])
    left_out = {name for value in makers.values() for name in _names(value)} - set(kept)
    parts = [_ABOUT.format(job=JOB, data=DATA)]
    end = tree.body[0].end_lineno or 0
    for node in tree.body[1:]:
        before, end = end, node.end_lineno or 0
        if node is registry:
            named = "".join(lines[node.lineno - 1 : node.lineno])
            parts += ["\n\n", named.replace("{\n", f'{{"{job}": {kept[0]}}}\n')]
        elif not (isinstance(node, ast.FunctionDef) and node.name in left_out):
            parts.append("".join(lines[before:end]))
    return "".join(parts)


def _names(node: ast.AST) -> list[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def _meant(name: str) -> str:
    from .rewriter.sql.similar import close

    known = jobs()
    found = [job for job in known if job == name] or [job for job in known if job.startswith(name.lower())]
    if len(found) == 1:
        return found[0]
    best = close(name, known)
    hint = (
        f"is it {' or '.join(found)}?" if found else f"did you mean {best}?" if best else f"there is {', '.join(known)}"
    )
    raise typer.BadParameter(f"there is no job {name}; {hint}", param_hint="NAME")
