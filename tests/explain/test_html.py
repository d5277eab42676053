"""The HTML page: self-contained, escaped, and complete."""

from __future__ import annotations

import base64
import copy
import hashlib
import itertools
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from trijoin_sql.explain import Explanation
from trijoin_sql.explain.graph_svg import graph_svg
from trijoin_sql.explain.reading import read
from trijoin_sql.explain.scheme_svg import scheme_svg
from trijoin_sql.explain.stage_diff import stage_changes
from trijoin_sql.explain.wording import dimension_name

from .samples import BI, CHAIN_UNBOUNDED, CYCLIC, MULTI, NOTHING, SAMPLES, SEVERAL, SPARK

_VOID = {"meta", "input", "link", "br", "img", "hr", "wbr"}
_LOADING = {"src", "srcset", "poster", "data", "action", "formaction", "background", "xlink:href"}
SCHEMES = ["symmetric", "semi_symmetric", "biclique", "matrix", "tree", "iterative", "MultiJoin(a, b, c)", None]


class Page(HTMLParser):
    """A page's elements and text, and whether its tags nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.bad: list[str] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.bad.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def all_text(self) -> str:
        """Return the text without markup, with single spaces."""
        return " ".join("".join(self.text).split())


def page(document: dict[str, Any]) -> Page:
    """Render and read a page."""
    return Page(Explanation(document).to_html())


@pytest.mark.parametrize("name", SAMPLES)
def test_tags_nest_and_ids_are_unique(name: str) -> None:
    read_page = page(SAMPLES[name])
    assert (read_page.bad, read_page.open) == ([], [])
    ids = [attributes["id"] for _, attributes in read_page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in read_page.elements:
        for reference in ("aria-labelledby", "aria-controls", "for"):
            for target in (attributes.get(reference) or "").split():
                assert target in ids


@pytest.mark.parametrize("name", SAMPLES)
def test_loads_nothing(name: str) -> None:
    read_page = page(SAMPLES[name])
    assert not {tag for tag, _ in read_page.elements} & {"link", "img", "iframe", "object", "embed", "base", "audio"}
    for tag, attributes in read_page.elements:
        assert not _LOADING & attributes.keys(), tag
        assert "style" not in attributes, tag
        assert not any(attribute.startswith("on") for attribute in attributes), tag
        assert (attributes.get("href") or "#").startswith("#"), tag
    html = Explanation(SAMPLES[name]).to_html()
    for content in re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", html, re.DOTALL):
        assert not re.search(r"https?:|//[a-z]+\.|url\(|@import|fetch\(|XMLHttp|import\(|WebSocket", content)
    if name != "odd":  # there an alias looks like an address
        assert not re.search(r"https?:", html)


@pytest.mark.parametrize("name", SAMPLES)
def test_policy_allows_its_own_scripts_and_styles_only(name: str) -> None:
    html = Explanation(SAMPLES[name]).to_html()
    policy = next(a["content"] for t, a in Page(html).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    contents = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", html, re.DOTALL)
    assert len(contents) == 3
    for content in contents:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_odd_text_stays_text() -> None:
    document = SAMPLES["odd"]
    read_page = page(document)
    assert [tag for tag, _ in read_page.elements].count("script") == 2
    assert not [tag for tag, _ in read_page.elements if tag == "img"]
    text = read_page.all_text()
    assert document["sql"] in text
    for piece in (
        "</title>",
        "<img src=x onerror=alert(1)>",
        "<script>alert('advice')</script>",
        "{{ 7 * 7 }}",
        "#quot;",
    ):
        assert piece in text
    assert "49" not in {word.strip() for word in text.split()}


def test_notebook_frame_holds_the_page() -> None:
    frame = Page(Explanation(SAMPLES["odd"])._repr_html_())
    ((tag, attributes),) = frame.elements
    assert tag == "iframe"
    assert attributes["sandbox"] == "allow-scripts"
    assert attributes["srcdoc"] == Explanation(SAMPLES["odd"]).to_html()


def test_says_what_a_reader_looks_for() -> None:
    text = page(CYCLIC).all_text()
    for part in (
        "r, s and t run as one TriJoin under the symmetric scheme.", "TriJoin · symmetric · 4 units a group", "bounded",
        "Three streams with a predicate between every pair", "r.account = s.source", "10 minutes 10 seconds",
        "did not change the plan", "did not apply", "every stream has an event-time bound", "2.16M", "×3",
        "units of r", "s and t probe here", "Before and after",
    ):  # fmt: skip
        assert part in text
    assert "UNBOUNDED" not in text


def test_predicates_are_marked_in_the_sql() -> None:
    marks = [a for tag, a in page(CYCLIC).elements if "pred" in (a.get("class") or "").split()]
    assert [(a["class"] or "").removeprefix("pred k-") for a in marks] == [
        "equi", "band", "range", "band", "not_equal", "residual", "band"
    ]  # fmt: skip
    assert [a["data-sign"] for a in marks] == ["=", "±", "<", "±", "≠", "ƒ", "±"]


def test_unbounded_is_loud() -> None:
    text = page(CHAIN_UNBOUNDED).all_text()
    assert text.count("UNBOUNDED") == 1  # and "kept for ever" beside each stream
    assert text.count("kept for ever") == 3
    assert "the state grows for as long as the query runs" in text
    assert "bound o.ts by v.ts, or add WITHIN" in text
    assert "UNBOUNDED" not in page(SPARK).all_text()


def test_what_is_the_same_of_several_streams_is_said_once() -> None:
    advice = [f"{alias} is kept for ever (UNBOUNDED): {alias} has no event time" for alias in "abc"]
    document = {**CHAIN_UNBOUNDED, "advice": ["see the manual", *advice]}
    document["groups"] = copy.deepcopy(CHAIN_UNBOUNDED["groups"])
    document["groups"][0]["graph"]["relations"] = ["a", "b", "c"]
    told = page(document).all_text()
    assert "a is kept for ever (UNBOUNDED): a has no event time. Likewise b, c." in told
    assert told.count("no event time") == 1
    assert "see the manual" in told


def test_a_chain_fits_a_narrow_page() -> None:
    """It goes downwards, so that its letters are hardly shrunk; an edge that is derived passes on its right."""
    document = copy.deepcopy(CHAIN_UNBOUNDED)
    for most, derived in ((600, True), (400, False)):
        graph = document["groups"][0]["graph"]
        graph["edges"] = [edge for edge in graph["edges"] if derived or not edge["derived"]]
        picture = ElementTree.fromstring(graph_svg(read(document).groups[0]))
        assert float(picture.attrib["width"]) < most


def test_query_without_groups() -> None:
    text = page(NOTHING).all_text()
    assert "the query goes to Spark unchanged" in text
    assert "SELECT 1" in text


def test_several_groups() -> None:
    text = page(SEVERAL).all_text()
    assert "Three join groups: one TriJoin, one BiJoin and one left to Spark." in text
    assert "in group 1" in text


def test_live_section() -> None:
    text = page(MULTI).all_text()
    for part in ("up to micro-batch 41", "7.75 MiB", "×0.733", "1.79", "cell 3", "1.15 MiB"):
        assert part in text


def test_diff_ignores_lines_that_only_moved() -> None:
    first, pushed, closed, converted = stage_changes(read(CYCLIC).stages)
    assert [view.state for view in (first, pushed, closed, converted)] == ["first", "changed", "same", "changed"]
    assert (pushed.added, pushed.removed) == (1, 2)
    assert [line.text for line in pushed.lines if line.state == "added"] == [
        "Join inner s.amount < t.amount, abs(t.amount - r.amount) < 10.5, r.city <> t.city"
    ]
    assert [line.indent + line.text for line in pushed.lines if line.state != "removed"] == pushed.plan.split("\n")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["cyclic", "chain_unbounded", "multi", "bi", "odd"])
@pytest.mark.parametrize("units", [None, 1, 7, 4096])
def test_every_scheme_has_a_picture(name: str, scheme: str | None, units: int | None) -> None:
    document = copy.deepcopy(SAMPLES[name])
    document["groups"][0]["decision"] |= {"scheme": scheme, "units": units, "options": {}}
    (group,) = read(document).groups
    for picture in (scheme_svg(group), graph_svg(group)):
        root = ElementTree.fromstring(picture)
        assert root.tag == "svg"
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert "NaN" not in picture
        assert len(picture) < 300_000


@pytest.mark.parametrize("shape", ["pair", "chain", "cyclic", "star", "clique", "general", "disconnected"])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 8])
def test_labels_of_the_join_graph_do_not_cover_one_another(shape: str, size: int) -> None:
    names = [f"s{i}" for i in range(size)]
    match shape:
        case "chain" | "pair":
            pairs = list(itertools.pairwise(names))
        case "star":
            pairs = [(names[0], name) for name in names[1:]]
        case "disconnected":
            pairs = []
        case _:
            pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    document: dict[str, Any] = copy.deepcopy(BI)
    predicate = {"sql": "x.long_column + 1 <= y.another_column", "kind": "range"}
    document["groups"][0]["graph"] = {
        "shape": shape,
        "hub": names[0] if shape == "star" else None,
        "relations": names,
        "edges": [{"left": a, "right": b, "derived": False, "predicates": [predicate]} for a, b in pairs],
        "residuals": [],
    }
    root = ElementTree.fromstring(graph_svg(read(document).groups[0]))
    plates = [r for r in root.iter("rect") if r.get("class") in ("plate", "body")]
    boxes = [tuple(float(r.get(key) or 0) for key in ("x", "y", "width", "height")) for r in plates]
    covered = sum(
        a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]
        for i, a in enumerate(boxes)
        for b in boxes[i + 1 :]
    )
    assert covered == 0


def test_a_dimension_is_called_by_what_rows_are_hashed_by() -> None:
    (grid,) = (group.decision.grid for group in read(MULTI).groups)
    assert [(dimension_name(d), d.shares, d.relations, d.key is not None) for d in grid] == [
        ("k", 4, ("a", "b", "c"), True), ("d", 1, ("d",), False), ("e", 2, ("e",), False)
    ]  # fmt: skip
    document = copy.deepcopy(MULTI)
    keys = ["lower(a.k)", "`b`.`K` + 1", "bb.k + c.c"]
    document["groups"][0]["decision"]["grid"][0]["key"] = keys
    assert dimension_name(read(document).groups[0].decision.grid[0]) == "K + 1 = bb.k + c = lower(k)"


def test_an_explanation_without_a_grid_is_drawn_without_cells() -> None:
    """One that was saved before grids were part of it."""
    document = copy.deepcopy(MULTI)
    drawn = scheme_svg(read(document).groups[0])
    del document["groups"][0]["decision"]["grid"]
    assert "the one cell" not in scheme_svg(read(document).groups[0])
    assert "the one cell" in drawn


def test_one_condition_may_be_several_conjuncts() -> None:
    document = copy.deepcopy(CYCLIC)
    edge = document["groups"][0]["graph"]["edges"][1]
    sql = "abs(t.amount - r.amount) < 10.5"
    places = edge["predicates"][0]["places"]
    edge["predicates"] = [{"sql": sql, "kind": kind, "places": places} for kind in ("residual", "range", "range")]
    elements = page(document).elements
    (mark,) = [a for tag, a in elements if (a.get("data-preds") or "") == "g1p3 g1p4" and tag == "span"]
    assert mark["class"] == "pred k-range"
    assert len([a for _, a in elements if a.get("href") == f"#{mark['id']}"]) == 2


def test_terminal_shows_first_plan_last_plan_and_changes() -> None:
    text = Explanation(CYCLIC).to_text(verbose=True)
    assert text.count("Scan r: STREAM transfers") == 2
    assert "- └─ Filter r.city <> t.city" in text


def test_reason_why_a_stage_did_nothing() -> None:
    document = copy.deepcopy(CYCLIC)
    document["stages"][2] = {"name": "close bounds", "plan": "x", "skipped": "no stream has event time"}
    assert "no stream has event time" in page(document).all_text()
    assert "no stream has event time" in Explanation(document).to_text(verbose=True)
