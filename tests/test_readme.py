"""README keeps its promises: the first query runs, the links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trijoin_sql.settings import OWN, OwnSetting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
FOLDERS = ("trijoin_sql", "trijoin_sql/explain", "rewriter", "operators", "queries", "tests")
READMES = [ROOT / "README.md", *(ROOT / name / "README.md" for name in FOLDERS)]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(readme: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", readme.read_text("utf-8"))
    assert [link for link in links if not (readme.parent / link).exists()] == []


def test_targets_and_commands_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)) <= targets


@pytest.mark.slow
def test_the_first_query_runs(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(code.splitlines()) <= 16
    exec(code, {})
    assert not spark.streams.active
    rows = spark.table("found").collect()
    assert rows
    assert all(abs(r - s) <= 1 and s < t < r + 3 for r, s, t in rows)
    said = capfd.readouterr()
    assert f"|{rows[0].r}" in said.out.replace(" ", "")
    assert "Traceback" not in said.err
    assert "Exception" not in said.err


@pytest.mark.parametrize("folder", ["trijoin_sql", "rewriter", "operators"])
def test_every_module_is_named_where_a_newcomer_looks(folder: str) -> None:
    """Runners of other engines are named by their folder."""
    said = "".join(path.read_text("utf-8") for path in (ROOT / folder).rglob("README.md"))
    modules = [path for path in (ROOT / folder).rglob("[a-z]*.py") if path.parent.name != "runners"]
    assert len(modules) > 20
    assert [path.name for path in modules if path.name not in said and f"`{path.stem}`" not in said] == []


@pytest.mark.parametrize("setting", OWN, ids=lambda setting: setting.name)
def test_every_setting_is_in_a_table_as_it_is_read(setting: OwnSetting) -> None:
    (row,) = re.findall(rf"^\| `{re.escape(setting.name)}` \| (.*) \|$", READMES[0].read_text("utf-8"), re.MULTILINE)
    default, _, meaning = row.partition(" | ")
    assert setting.default is None or default == f"`{setting.default}`"
    assert meaning.startswith(setting.meaning)
