"""The site builds with warnings as errors, and its pages lead somewhere and fetch nothing."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from .pages import DOCS

#: Elements that load what their attribute names as the page opens.
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class _Page(HTMLParser):
    """Links, what is loaded, and the ids of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.ids: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if tag == "a" and name == "href" and value:
                self.links.add(value)
            if (tag, name) in LOADED and value:
                self.loaded.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("furo", reason="make setup")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", str(folder / "trees")]
    built = subprocess.run([*command, str(DOCS), str(folder / "html")], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.mark.rare
@pytest.mark.slow
def test_every_link_inside_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: _Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 15
    broken = []
    for path, page in pages.items():
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "data", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            known = pages.get(target)
            if not target.exists() or (parts.fragment and known and unquote(parts.fragment) not in known.ids):
                broken.append((path.name, link))
    assert broken == []


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = [(path.name, _Page(path)) for path in site.rglob("*.html")]
    outside = [(name, one) for name, page in pages for one in page.loaded if urlsplit(one).netloc]
    assert outside == []
