"""What a release is made of: links that work on a package index, changelog fragments, an sdist that has its tests."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
ADDRESS = PYPROJECT["project"]["urls"]["Repository"]
KINDS = [one["directory"] for one in PYPROJECT["tool"]["towncrier"]["type"]]


def readme() -> str:
    """README as a package index shows it."""
    spec = importlib.util.spec_from_file_location("setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text: str = module.readme()
    return text


def test_links_on_an_index_lead_into_the_repository() -> None:
    """None is left relative; pictures are the files themselves; every path is there."""
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", readme())
    assert len(links) > 20
    for picture, link in links:
        assert link.startswith(("#", "http")), link
        if link.startswith(ADDRESS):
            assert link.startswith(f"{ADDRESS}/{'raw' if picture else 'blob'}/main/"), link
            assert (ROOT / link.partition("/main/")[2].partition("#")[0]).exists(), link


@pytest.mark.parametrize(
    "name", ["CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "docs/changes/README.md"]
)
def test_links_of_the_small_files_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / name).read_text("utf-8"))
    for link in links:
        if not link.startswith("http"):
            assert (ROOT / name).parent.joinpath(link.partition("#")[0]).exists(), link


def test_the_repository_s_address_stands_in_one_place() -> None:
    """Who knows it has one line to change; contributing tells which."""
    found = subprocess.run(["git", "grep", "-l", "--fixed-strings", ADDRESS], cwd=ROOT, capture_output=True, text=True)
    if found.returncode > 1:
        pytest.skip("not a git checkout")
    assert set(found.stdout.split()) <= {"pyproject.toml", "docs/contributing.md"}


def test_fragments_are_of_a_kind_that_the_changelog_has() -> None:
    for path in (ROOT / "docs" / "changes").glob("*"):
        assert path.name == "README.md" or path.name.split(".")[1:] in [[kind, "md"] for kind in KINDS], path.name


def test_the_newest_release_fits_a_screen_and_begins_with_checkpoints() -> None:
    """Who upgrades has to see these first."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert PYPROJECT["tool"]["towncrier"]["start_string"] in text
    newest = text.split("\n## ")[1]
    assert next(line for line in newest.splitlines() if line.startswith("### ")) == "### Checkpoints"
    assert newest.count("\n- ") <= 25


def test_a_checkout_without_tags_comes_before_the_release_that_it_prepares() -> None:
    fallback = Version(PYPROJECT["tool"]["setuptools_scm"]["fallback_version"])
    newest = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1].split()[0]
    assert fallback.is_devrelease
    assert Version(newest) <= Version(fallback.base_version)


@pytest.mark.slow
@pytest.mark.rare
def test_the_sdist_has_its_tests(tmp_path: Path) -> None:
    """And what they read: a distribution builds from it and runs them."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    assert {name for name in listed if name.isascii() and (ROOT / name).is_file()} <= names
