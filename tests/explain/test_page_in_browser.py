"""The HTML page in a headless Chromium: read, searched, zoomed, switched to dark; nothing fetched, nothing logged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trijoin_sql.explain import Explanation

from .browser import NAMES, Browser, find_chromium
from .samples import SAMPLES

pytestmark = [pytest.mark.slow, pytest.mark.rare]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = find_chromium()
    if chromium is None:
        pytest.skip(f"no Chromium on the PATH (looked for {', '.join(NAMES)}; Debian's package is chromium)")
    try:
        started = Browser(chromium)
    except TimeoutError as error:
        pytest.skip(f"{chromium} does not start here: {error}")
    with started as running:
        running.size(1280, 900)
        running.system_colours("light")
        yield running


@pytest.fixture
def opened(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Browser]:
    """A page, open; afterwards nothing else was fetched and the console is clean."""
    name = getattr(request, "param", "cyclic")
    path = Explanation(SAMPLES[name]).save(tmp_path / f"{name}.html")
    browser.size(1280, 900)
    browser.open(path)
    yield browser
    assert browser.requests == [path.as_uri()]
    assert browser.console == []


def hits(browser: Browser) -> str:
    return str(browser.run("document.getElementById('hits').textContent"))


@pytest.mark.parametrize("opened", SAMPLES, indirect=True)
@pytest.mark.parametrize("width", [1280, 420, 390])
def test_page_reads(opened: Browser, width: int) -> None:
    opened.size(width, 900)
    assert opened.run("document.querySelector('h1').innerText.length > 10")
    assert opened.run("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window"
    assert opened.run(
        "[...document.querySelectorAll('.canvas svg')].every((s) => s.getBoundingClientRect().width > 50)"
    )
    assert opened.run(
        "[...document.querySelectorAll('.canvas')].every((canvas) => canvas.querySelector('svg')"
        ".getBoundingClientRect().right <= canvas.getBoundingClientRect().right"
        " || (canvas.querySelector('svg.scheme') && innerWidth < 600"
        " && canvas.querySelector('.view').scrollWidth > canvas.querySelector('.view').clientWidth))"
    ), "a picture is cut at the right, and no scheme, which is moved on a narrow page"


@pytest.mark.parametrize("width", [1280, 600])
def test_long_lines_of_plans_wrap(opened: Browser, width: int, tmp_path: Path) -> None:
    """In every stage, and before and after: nothing has to be scrolled sideways to be read."""
    sql = "SELECT " + ", ".join(f"a_rather_long_name_{i} + {i} AS c{i}" for i in range(40))
    page = {**SAMPLES["cyclic"], "stages": [{"name": "parse", "plan": f"Query\n    {sql}\n  Scan r"}]}
    opened.requests.clear()
    path = Explanation(page).save(tmp_path / "cyclic.html")
    opened.size(width, 900)
    opened.open(path)
    wide = "[...document.querySelectorAll('pre.plan')].filter((p) => p.scrollWidth > p.clientWidth).length"
    assert opened.run("document.querySelector('pre.plan').innerText").split() == f"Query {sql} Scan r".split()
    assert opened.run(wide) == 0
    opened.click("[data-mode=ends]")
    assert opened.run(wide) == 0


def test_labels_fit_their_plates(opened: Browser) -> None:
    over = opened.run(
        "[...document.querySelectorAll('.label')].filter((l) => { const p = l.querySelector('.plate').getBBox(); "
        "return [...l.querySelectorAll('text')].some((t) => t.getBBox().x + t.getBBox().width > p.x + p.width); })"
        ".length"
    )
    assert over == 0


def test_search_counts_walks_and_highlights(opened: Browser) -> None:
    opened.key("/")
    assert opened.run("document.activeElement.id") == "query"
    opened.type("abs(t.amount - r.amount) < 10.5")
    opened.wait_for("document.querySelectorAll('mark.hit').length > 0")
    total = int(hits(opened).split(" of ")[1])
    assert total >= 5  # in the SQL, the graph, the table and the stages
    assert hits(opened) == f"1 of {total}"
    assert opened.run("document.querySelectorAll('.hit.now').length > 1"), "one match, over several tokens"
    opened.key("Enter")
    assert hits(opened) == f"2 of {total}"
    opened.key("Enter", shift=True)
    opened.key("Enter", shift=True)
    assert hits(opened) == f"{total} of {total}"
    assert opened.run("document.querySelector('.hit.now').checkVisibility()")
    opened.click("#next")
    assert hits(opened) == f"1 of {total}"
    before = opened.run("document.querySelector('.source').textContent")
    opened.run("document.getElementById('query').focus()")
    opened.key("Escape")
    assert hits(opened) == ""
    assert opened.run("document.querySelectorAll('.hit').length") == 0
    assert opened.run("document.querySelector('.source').textContent") == before


def test_search_opens_the_stage_of_a_match(opened: Browser) -> None:
    opened.key("/")
    opened.type("1 line added, 2 removed")
    opened.wait_for("document.getElementById('hits').textContent === '1 of 2'")
    assert opened.run("document.querySelector('.hit.now').checkVisibility()")
    assert opened.run("document.getElementById('stage-now').textContent") == "2 of 3"
    opened.run("document.getElementById('query').value = ''")
    opened.type("no such thing")
    opened.wait_for("document.getElementById('hits').textContent === 'none'")
    assert opened.run("document.getElementById('next').disabled")


def test_zoom_by_buttons_keys_and_wheel(opened: Browser) -> None:
    whole = opened.run("document.querySelector('.canvas svg').getAttribute('viewBox')")
    level = "document.querySelector('.zoom output').textContent"
    box = "document.querySelector('.canvas svg').getAttribute('viewBox')"
    opened.click("[data-zoom=in]")
    assert opened.run(level) == "140%"
    opened.click("[data-zoom=fit]")
    assert opened.run(box) == whole
    opened.run("document.querySelector('.view').focus()")
    opened.key("+")
    opened.key("+")
    assert opened.run(level) == "196%"
    zoomed = opened.run(box)
    opened.key("ArrowRight")
    assert opened.run(box) != zoomed
    opened.key("0")
    assert opened.run(box) == whole
    opened.wheel(".view", -240)
    opened.wait_for(f"{level} !== '100%'")
    opened.click("[data-zoom=fit]")
    assert opened.run("document.getElementById('stage-now').textContent") == "1 of 3", "arrows moved the picture only"


def test_wheel_scrolls_past_pictures_without_focus(opened: Browser) -> None:
    opened.run("document.activeElement.blur()")
    opened.wheel(".view", 200)
    opened.wait_for("scrollY > 0")
    assert opened.run("document.querySelector('.zoom output').textContent") == "100%"


def test_stages_by_arrow_keys(opened: Browser) -> None:
    shown = "[...document.querySelectorAll('.stage')].map((s) => s.checkVisibility())"
    assert opened.run(shown) == [True, False, False, False]
    opened.key("ArrowRight")
    opened.key("ArrowRight")
    assert opened.run(shown) == [False, False, False, True]  # the third one changed nothing
    opened.click("#stages-same")
    opened.key("ArrowLeft")
    assert opened.run(shown) == [False, False, True, False]
    opened.key("ArrowLeft")
    assert opened.run(shown) == [False, True, False, False]
    assert opened.run("document.querySelectorAll('#stage-2-panel .line.added').length") == 1
    opened.run("document.getElementById('stage-2').focus()")
    opened.key("End")
    assert opened.run("document.activeElement.id") == "stage-4"
    opened.click("[data-mode=ends]")
    assert opened.run("document.querySelector('.ends-view').checkVisibility()")
    assert opened.run(shown) == [False] * 4


def test_colours_follow_the_system_and_the_switch(opened: Browser) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = opened.run(ground)
    opened.system_colours("dark")
    dark = opened.run(ground)
    assert dark != light
    opened.click("#theme")
    assert opened.run(ground) == light
    opened.system_colours("light")
    opened.key("d")
    assert (opened.run("document.documentElement.dataset.theme"), opened.run(ground)) == ("dark", dark)
    assert opened.run("localStorage.getItem('trijoin-sql-theme')") == "dark"
    opened.key("d")
    assert opened.run(ground) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("opened", ["cyclic", "several", "multi"], indirect=True)
def test_text_has_contrast(opened: Browser, scheme: str) -> None:
    opened.system_colours(scheme)
    low = opened.run(_CONTRAST)
    opened.system_colours("light")
    assert low == []


def test_help_opens_and_closes(opened: Browser) -> None:
    opened.key("?")
    assert opened.run("document.getElementById('help').open")
    opened.click("#help button")
    assert not opened.run("document.getElementById('help').open")


def test_a_predicate_is_lit_everywhere(opened: Browser) -> None:
    opened.run("document.querySelector('[href$=sql-g1p1]').focus()")
    lit = "[...document.querySelectorAll('.lit')].map((e) => e.localName).sort().join()"
    assert opened.run(lit) == "g,path,span,tr"
    opened.run("document.activeElement.blur()")
    assert opened.run(lit) == ""


def test_buttons_have_names(opened: Browser) -> None:
    nameless = opened.run(
        "[...document.querySelectorAll('button, a, input, [role=img]')].filter((e) => "
        "!(e.getAttribute('aria-label') ?? (e.labels?.[0]?.textContent || e.textContent)).trim()).length"
    )
    assert nameless == 0


#: Visible text of the page with less contrast than WCAG's AA level asks for, as text and ratio.
_CONTRAST = r"""
(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  function rgba(colour) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
  const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  function ground(element) {
    const chain = [];
    for (let e = element; e; e = e.parentElement) chain.unshift(rgba(getComputedStyle(e).backgroundColor));
    return chain.reduce((under, top) => over(top, under), [255, 255, 255]);
  }
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.checkVisibility()) continue;
    if (e.closest('svg, script, style, :disabled, .skip, .visually-hidden')) continue;
    const under = ground(e);
    const [a, b] = [light(over(rgba(getComputedStyle(e).color), under)), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push([e.textContent.trim().slice(0, 40), Math.round(ratio * 100) / 100]);
  }
  return low;
})()
"""
