"""The documentation without Spark: its links, its commands, its SQL, and the parts that come from the code."""

from __future__ import annotations

import codeop
import importlib.util
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from trijoin_sql import TriJoinSession, cli
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job

from .pages import DOCS, PAGES, PENDING, ROOT, Block, blocks, of_language

#: Languages of blocks, each with the test that looks at it; text is what a program printed.
LANGUAGES = {"python", "sql", "sh", "text"}
COMMANDS = [pytest.param(block, id=f"{page.name}:{block.line}") for page in PAGES for block in of_language(page, "sh")]


def of(page: Path) -> str:
    return page.name


def test_what_is_pending_is_not_there_yet() -> None:
    group: Any = typer.main.get_command(cli.app)
    options = {name for command in group.commands.values() for parameter in command.params for name in parameter.opts}
    there = {name for name in PENDING if hasattr(TriJoinSession, name)} | PENDING & (options | set(group.commands))
    assert there == set(), "take it out of PENDING: its examples can be tested now"


def test_the_generated_parts_are_those_of_the_code() -> None:
    """`make docs-parts` writes them: errors, settings, liberties, commands, and README's picture."""
    found = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    stale = [path.name for path, text in module.generated() if path.read_text("utf-8") != text]
    assert stale == [], "run `make docs-parts`"


def test_the_picture_is_that_of_readmes_query() -> None:
    (first, *_) = of_language(ROOT / "README.md", "python")
    declared = (DOCS / "first_query.sql").read_text("utf-8").partition("\n\n")[2].rstrip("; \n")
    assert " ".join(declared.split()) in " ".join(first.code.split())
    assert "(docs/images/join_graph.svg)" in (ROOT / "README.md").read_text("utf-8")


def test_readme_is_short_and_has_its_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count("\n") <= 170
    assert "\nmake demo" in text
    assert "\nmake test" in text
    assert "<!-- versions -->" in text
    assert "<!-- /versions -->" in text


def test_the_plots_and_the_tables_of_the_page_on_performance_agree() -> None:
    figures = json.loads((DOCS / "performance.json").read_text("utf-8"))
    page = (DOCS / "performance.md").read_text("utf-8")
    for one in figures["latency"]:
        part = page[page.index(f"| `{one['workload']}` | `{one['scheme']}`") :].partition("\n\n")[0]
        rows = dict(re.findall(r"^\| ([\d,]+) tuples/s[^|]*\| (.*) \| -", part, re.MULTILINE))
        for place, rate in enumerate(one["rates"]):
            shown = [
                f"{one[name]['mean'][place]:.2f} s ({one[name]['p99'][place]:.2f})" for name in (one["scheme"], "tree")
            ]
            assert rows[f"{rate:,}"] == " | ".join(shown)
    for one in figures["engines"]:
        assert "Flink" in one["engine"] or f"{one['tuples_per_second']:,}" in page


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, by GitHub's rule, which Sphinx follows here."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [*PAGES, DOCS / "README.md"], ids=of)
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text("utf-8")):
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(f"{target}#{anchor}")
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=of)
def test_every_block_is_in_a_language_that_is_checked(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert all(block.exempt is None or len(block.exempt) > 10 for block in blocks(page)), "an exception has a reason"


@pytest.mark.parametrize("block", COMMANDS)
def test_commands_and_options_exist(block: Block) -> None:
    group: Any = typer.main.get_command(cli.app)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for line in block.code.splitlines():
        words = shlex.split(re.split(r" [|>] ", line)[0], comments=True)
        if words[:1] == ["make"]:
            assert words[1] in targets
        if words[:1] == ["trijoin-sql"] and not PENDING & set(words):
            options = {name for parameter in group.commands[words[1]].params for name in parameter.opts}
            assert {word for word in words[2:] if word.startswith("-") and word != "-"} <= options | {"--help"}, line


def test_commands_in_sentences_exist() -> None:
    group: Any = typer.main.get_command(cli.app)
    for page in PAGES:
        for command, rest in re.findall(r"`trijoin-sql ([a-z]+)([^`]*)`", page.read_text("utf-8")):
            if PENDING & {command, *rest.split()}:
                continue
            options = {name for parameter in group.commands[command].params for name in parameter.opts}
            assert set(re.findall(r"(?<!\S)--?[a-z][\w-]*", rest)) <= options | {"--help"}, (page.name, command, rest)


def declarations(text: str) -> str:
    """Return the statements of a block that declare relations: up to the first of another kind."""
    return "".join(re.findall(r"CREATE (?:STREAM|TABLE|TEMPORARY VIEW)\b[^;]*;\n*", text))


def explained_plan(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what `explain` says of a job file's text, as data; the folders that it reads exist."""
    monkeypatch.chdir(tmp_path)
    for folder in re.findall(r"path '([^']+)'", text):
        Path(folder).mkdir(parents=True, exist_ok=True)
    Path("block.sql").write_text(text)
    said = CliRunner().invoke(cli.app, ["explain", "block.sql", "--format", "json"])
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)


@pytest.mark.parametrize("page", [page for page in PAGES if of_language(page, "python")], ids=of)
def test_python_can_be_pasted_at_the_prompt(page: Path) -> None:
    """The prompt runs a compound statement at the first empty line behind it, and only then takes the next one."""
    for block in of_language(page, "python"):
        entered: list[str] = []
        for line in [*block.code.splitlines(), ""]:
            entered.append(line)
            try:
                if codeop.compile_command("\n".join(entered), symbol="single") is not None:
                    entered = []
            except SyntaxError as error:
                pytest.fail(f"{page.name}:{block.line}: {error.msg} at {line!r}")
        assert not "".join(entered).strip(), f"{page.name}:{block.line}: an empty line is missing at the end"


#: On each page but those of recipes, declarations hold for the blocks below them too.
SQL_BLOCKS = [
    pytest.param(page, at, id=f"{page.name}:{block.line}")
    for page in PAGES
    for at, block in enumerate(of_language(page, "sql"))
    if re.search(r"\bSELECT\b", block.code)
]


@pytest.mark.parametrize(("page", "at"), SQL_BLOCKS)
def test_sql_is_a_bounded_join_of_ours(page: Path, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe stands alone; elsewhere a block that declares nothing goes on from the last one that does."""
    found = of_language(page, "sql")[: at + 1]
    above = [block.code for block in found if "CREATE STREAM" in block.code][-1:]
    alone = page.name in ("recipes.md", "sequences.md") or "CREATE STREAM" in found[-1].code
    text = found[-1].code if alone else declarations("".join(above)) + found[-1].code
    plan = explained_plan(text, tmp_path, monkeypatch)
    plans = plan if isinstance(plan, list) else [plan]
    nodes = [group["decision"]["node"] for one in plans for group in one["groups"]]
    assert nodes, "no join of ours"
    assert "none" not in nodes
    assert all(group["state"]["bounded"] for one in plans for group in one["groups"])
    if "INSERT INTO" in text:
        assert check_job(parse_job(Script("block.sql", text))) == []
