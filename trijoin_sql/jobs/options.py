"""Options that commands with a Spark of their own share, and how they show a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..errors import InvalidSettingError, JobError

Master = Annotated[str | None, typer.Option(metavar="URL", help="Spark's master.", show_default="local[*,4]")]
Packages = Annotated[
    list[str] | None,
    typer.Option("--packages", metavar="GROUP:NAME:VERSION", help="Jars for Spark to fetch, by Maven coordinates."),
]
Jars = Annotated[
    list[Path] | None, typer.Option("--jars", metavar="PATH", help="Jars for Spark: files, or folders of jars.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse joins of streams that keep rows for ever, and cross products.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only results and errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Spark's log and our own, in full.")]


def jar_settings(packages: list[str], jars: list[Path]) -> list[str]:
    """Return the settings that name the jars of the command line."""
    from .jars import JARS, PACKAGES, jar_files

    for one in packages:
        if not all(part.count(":") == 2 and all(part.split(":")) for part in one.split(",")):
            raise typer.BadParameter(f"it takes GROUP:NAME:VERSION, not {one}", param_hint="'--packages'")
    try:
        files = jar_files(jars)
    except FileNotFoundError as error:
        raise typer.BadParameter(str(error), param_hint="'--jars'") from None
    return [f"{key}={','.join(values)}" for key, values in ((PACKAGES, packages), (JARS, files)) if values]


def setting(text: str) -> tuple[str, str]:
    """Return key and value of a ``--conf``.

    Raises
    ------
    BadParameter
        It has no value, or there is no such setting.
    """
    from ..settings import check_value, hint_if_unknown

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint="'--conf'")
    if (hint := hint_if_unknown(key.strip())) is not None:
        raise typer.BadParameter(f"there is no setting {key.strip()}; {hint}", param_hint="'--conf'")
    try:
        check_value({key.strip(): value}.get, key.strip())
    except InvalidSettingError as error:
        raise typer.BadParameter(error.message, param_hint="'--conf'") from None
    return key.strip(), value


def show_mistake(error: JobError, console: Console) -> None:
    """Print a mistake in a text: its place, what is wrong, and the caret."""
    place, _, rest = error.located.partition("\n")
    console.print(Text.assemble((place, "bold red"), "\n" + rest if rest else ""))
