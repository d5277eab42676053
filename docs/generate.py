"""Writes what the documentation takes from the code: ``make docs-parts``.

The picture of README's first query; and, between markers, the tables of errors, settings, liberties and commands, and
the public names. A test compares them with the files, so a new setting without its row fails. Nothing here needs Spark.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from trijoin_sql.rewriter.plan.conjuncts import KINDS

import trijoin_sql
from trijoin_sql import cli
from trijoin_sql.errors import CONDITIONS, TriJoinError
from trijoin_sql.explain.graph_svg import graph_svg
from trijoin_sql.explain.reading import read
from trijoin_sql.settings import OWN
from trijoin_sql.spark import config
from trijoin_sql.spark.liberties import LIBERTIES

DOCS = Path(__file__).parent
_TEMPLATES = DOCS.parent / "trijoin_sql" / "explain" / "templates"

#: Rules for the parts of a join graph, with the names that `graph_svg` gives them.
_RULES = """
text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: var(--ink); }
.card { fill: var(--card); stroke: var(--line); }
.alias { font: 600 14px ui-monospace, Menlo, Consolas, monospace; }
.node .body { fill: var(--card); stroke: var(--stream); stroke-width: 2; }
.node .ring { fill: none; stroke: var(--stream); stroke-width: 1.25; }
.edge { fill: none; stroke: var(--kind); stroke-width: 2; }
.edge.derived { opacity: 0.75; stroke-width: 1.25; }
.label .plate { fill: var(--card); stroke: var(--line); }
.predicate { font: 12px ui-monospace, Menlo, Consolas, monospace; }
.sign { font: 700 13px ui-monospace, Menlo, Consolas, monospace; fill: var(--kind); }
"""


def join_graph() -> str:
    """Return the join graph of ``first_query.sql``, as `trijoin-sql explain` draws it, as an SVG file of its own.

    The page of `explain` has its colours from style sheets; a picture in README has to bring them along. It stands on a
    card of its own colour, because some sites show dark pages and give pictures the light scheme.
    """
    (document,) = cli._documents(str(DOCS / "first_query.sql"))
    picture = graph_svg(read(document).groups[0])
    sheets = "".join((_TEMPLATES / name).read_text("utf-8") for name in ("page.css", "figures.css"))
    pairs = re.findall(r"(\.s\d )?\{? *(--[\w-]+): light-dark\(([^,]+), ([^)]+)\)", sheets)
    light, dark = [], []
    for where, name, *colours in pairs:
        if where or name in ("--ink", "--card", "--line"):
            for lines, colour in zip((light, dark), colours, strict=True):
                lines.append(f"{where.strip() or 'svg'} {{ {name}: {colour}; }}")
    for kind, record in KINDS.items():
        light.append(f".k-{kind} {{ --kind: {record.light}; }}")
        dark.append(f".k-{kind} {{ --kind: {record.dark}; }}")
    edges = [f".edge.k-{kind} {{ {record.edge} }}" for kind, record in KINDS.items() if record.edge]
    used = [line for line in (*light, *edges) if _is_used(line, picture)]
    at_night = "\n".join(line for line in dark if _is_used(line, picture))
    style = "\n".join([*used, f"@media (prefers-color-scheme: dark) {{\n{at_night}\n}}", _RULES.strip()])
    found = re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', picture)
    assert found is not None
    x, y, width, height = (float(number) + shift for number, shift in zip(found.groups(), (1, 1, -2, -2), strict=True))
    card = f'<rect class="card" x="{x}" y="{y}" width="{width:.1f}" height="{height:.1f}" rx="12"></rect>'
    head, start, rest = picture.partition(">")
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    lines = re.sub(r"(<g |<path |</svg>)", r"\n\1", f"{card}{rest}")
    return f"{head}{start}\n<style>\n{style}\n</style>\n{lines}\n"


def _is_used(rule: str, picture: str) -> bool:
    """Return whether the last class of a rule's selector is in the picture."""
    name = rule.partition(" {")[0].rpartition(".")[2]
    return name == "svg" or re.search(rf'class="[^"]*\b{name}\b', picture) is not None


def _table(heads: str, rows: Iterator[tuple[str, ...]]) -> str:
    names = [name.strip() for name in heads.split("|")]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)])


def _code(text: object) -> str:
    return f"`{text}`"


def errors() -> str:
    """Return the table of errors."""
    rows = ((_code(name), row.sqlstate, row.message, row.action) for name, row in CONDITIONS.items())
    return _table("Condition | SQLSTATE | Message | What to do", rows)


def own_settings() -> str:
    """Return the table of our settings with a value of their own."""
    rows = ((_code(one.name), _code(one.default) if one.default else "none", one.meaning) for one in OWN)
    return _table("Setting | Default | Meaning", rows)


def spark_settings() -> str:
    """Return the table of Spark's settings that `configure` adds."""
    where: list[tuple[dict[str, str], str]] = [
        ({**config.STATE_SETTINGS, **config.ARROW_SETTINGS}, "every session"),
        (dict(config.CONTEXT_SETTINGS), "new contexts"),
        (dict(config.LOCAL_CHECKPOINT_SETTINGS), "local master and local disk"),
    ]
    except_for = {config._SOCKETS: ", not on YARN", config.FORMAT: "; `1` on Spark 4.0"}
    rows = (
        (_code(k), _code(v.rpartition(".")[2]), text + except_for.get(k, ""))
        for group, text in where
        for k, v in group.items()
    )
    partitions = ("`spark.sql.shuffle.partitions`", "the cores; 16 where they are not known", "not on Spark Connect")
    return _table("Setting | Value | Where", iter([*rows, partitions]))


def liberties() -> str:
    """Return the table of liberties with Spark's processes."""
    prefix = "spark.trijoin.liberties."
    rows = ((_code(one.switch.removeprefix(prefix)), one.does, one.why, one.gain) for one in LIBERTIES)
    return _table("Switch | What it does | Why | Gain", rows)


def commands() -> str:
    """Return each command of the command line with its arguments and options."""
    group: Any = typer.main.get_command(cli.app)
    parts = []
    for name, command in group.commands.items():
        first = re.sub(r"\s+", " ", (command.help or "").strip().split("\n\n")[0])
        rows = []
        for parameter in command.params:
            if parameter.hidden if hasattr(parameter, "hidden") else False:
                continue
            names = [*parameter.opts, *parameter.secondary_opts]
            shown = ", ".join(map(_code, names)) if names[0].startswith("-") else _code(parameter.metavar or names[0])
            metavar = f" {_code(parameter.metavar)}" if names[0].startswith("-") and parameter.metavar else ""
            rows.append((shown + metavar, re.sub(r"\s+", " ", parameter.help or "")))
        table = "\n\n" + _table("Argument | Meaning", iter(rows)) if rows else ""
        parts.append(f"### `trijoin-sql {name}`\n\n{first}{table}")
    return "\n\n".join(parts)


def _directives(lines: Iterator[str]) -> str:
    return "\n".join(["```{eval-rst}", "\n\n".join(lines), "```"])


def functions() -> str:
    """Return the directives that document the package's functions."""
    public = ((name, getattr(trijoin_sql, name)) for name in trijoin_sql.__all__)
    return _directives(f".. autofunction:: trijoin_sql.{name}" for name, one in public if inspect.isfunction(one))


def exceptions() -> str:
    """Return the directives that document the errors; the base has the methods."""
    public = ((name, getattr(trijoin_sql, name)) for name in trijoin_sql.__all__)
    names = [name for name, one in public if inspect.isclass(one) and issubclass(one, TriJoinError)]
    members = {"TriJoinError": "\n   :members:"}
    return _directives(f".. autoexception:: trijoin_sql.{name}{members.get(name, '')}" for name in names)


#: The parts by file and marker.
PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("errors.md", "errors"): errors,
    ("settings.md", "own settings"): own_settings,
    ("settings.md", "spark settings"): spark_settings,
    ("settings.md", "liberties"): liberties,
    ("command_line.md", "commands"): commands,
    ("api.md", "functions"): functions,
    ("api.md", "exceptions"): exceptions,
}


def generated() -> Iterator[tuple[Path, str]]:
    """Return each file that has generated parts, and its whole text with them."""
    yield DOCS / "images" / "join_graph.svg", join_graph()
    for name in dict.fromkeys(name for name, _ in PARTS):
        text = (DOCS / name).read_text("utf-8")
        for (file, marker), part in PARTS.items():
            if file == name:
                begin, end = f"<!-- {marker} -->\n", f"<!-- /{marker} -->"
                before, found, rest = text.partition(begin)
                _, closed, after = rest.partition(end)
                if not found or not closed:
                    raise ValueError(f"docs/{name} lacks the markers {begin.strip()} and {end.strip()}")
                text = f"{before}{begin}\n{part()}\n\n{end}{after}"
        yield DOCS / name, text


def main() -> None:
    """Write all of them."""
    for path, text in generated():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
