"""The notebook of the documentation runs, and its outputs are those that are committed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from .pages import DOCS


@pytest.mark.rare
@pytest.mark.slow
def test_the_notebook_shows_what_it_prints(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="make setup")
    found = importlib.util.spec_from_file_location("docs_notebook", DOCS / "notebook.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    committed = nbformat.read(module.NOTEBOOK, as_version=4)
    assert module.texts(module.executed(tmp_path)) == module.texts(committed), "run `make docs-parts`"


def test_the_notebook_holds_no_path_of_a_machine_and_has_its_outputs() -> None:
    text = (DOCS / "first_query.ipynb").read_text("utf-8")
    assert not any(place in text for place in ("/home/", "/tmp/", "/root/", "/Users/"))
    assert '"text/html"' in text
