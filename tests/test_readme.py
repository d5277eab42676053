"""README keeps its promises: the first query runs and finds what stands below it, the links lead somewhere."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
FOLDERS = ("trijoin_sql", "trijoin_sql/explain", "rewriter", "operators", "queries", "tests")
READMES = [ROOT / "README.md", *(ROOT / name / "README.md" for name in FOLDERS)]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(readme: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", readme.read_text("utf-8"))
    assert [link for link in links if not (readme.parent / link).exists()] == []


@pytest.mark.slow
def test_the_first_query_runs(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(code.splitlines()) <= 16
    exec(code, {})
    assert not spark.streams.active
    rows = sorted(map(tuple, spark.table("found").collect()))
    steps = [[step * value for value in range(20)] for step in (7, 11, 13)]
    near = [three for three in product(*steps) if max(three) - min(three) < 5]
    assert rows == sorted(near)
    shown = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert rows == [tuple(map(int, row)) for row in shown], "the table below the query"
    said = capfd.readouterr()
    assert "|heat|load|noise|" in said.out
    assert "Traceback" not in said.err
    assert "Exception" not in said.err


@pytest.mark.parametrize("folder", ["trijoin_sql", "rewriter", "operators"])
def test_every_module_is_named_where_a_newcomer_looks(folder: str) -> None:
    """Runners of other engines are named by their folder."""
    said = "".join(path.read_text("utf-8") for path in (ROOT / folder).rglob("README.md"))
    modules = [path for path in (ROOT / folder).rglob("[a-z]*.py") if path.parent.name != "runners"]
    assert len(modules) > 20
    assert [path.name for path in modules if path.name not in said and f"`{path.stem}`" not in said] == []
