"""The picture of a scheme says what runs: who is stored where, who probes what, in which order."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from trijoin_sql.rewriter.plan.document import Group
from trijoin_sql.rewriter.plan.schemes import RECORDS, Arrival

from tests.rewriter.tables import rewritten
from trijoin_sql.errors import PlanError
from trijoin_sql.explain.reading import read
from trijoin_sql.explain.scheme_svg import scheme_svg

CHAIN = "r.id FROM r JOIN s ON r.a < s.a JOIN t ON ABS(s.a - t.a) < 5 WITHIN 5 MINUTES"
KEY = "r.id FROM r JOIN s ON r.a < s.a JOIN t ON r.x = t.x WITHIN 5 MINUTES"


def group(sql: str) -> Group:
    """Return the only group of a query, as EXPLAIN reads it."""
    (only,) = read(rewritten(f"SELECT {sql}").to_dict()).groups
    return only


def rows(sql: str) -> dict[str, list[str]]:
    """Return for each group of units what arrives there: ``r > s > t`` for r that probes s and then t."""

    def said(one: Arrival) -> str:
        return " > ".join((one.rows, *one.probes)) + (f" as {one.kept}" if one.kept is not None else "")

    drawn = RECORDS[group(sql).decision.scheme or ""].draw(group(sql))
    return {units.name: [said(one) for one in units.arrivals] for units in drawn}


def test_symmetric() -> None:
    found = rows(f"/*+ SCHEME('symmetric') */ {CHAIN}")
    assert found["units of s"] == ["s as s", "r > t⋈s as r⋈s", "t > r⋈s as t⋈s"]


def test_semi_symmetric() -> None:
    assert rows(f"/*+ SCHEME('semi_symmetric') */ {CHAIN}") == {
        "units of r": ["r as r", "s > r as s⋈r", "t > s⋈r"],
        "units of s": ["s as s", "r > s > s⋈t as s⋈r", "t > s > s⋈r as s⋈t"],
        "units of t": ["t as t", "s > t as s⋈t", "r > s⋈t", "s⋈r > t"],
    }


def test_tree() -> None:
    assert rows(f"/*+ SCHEME('tree(t, s, r)') */ {CHAIN}") == {
        "units of t": ["t as t", "s > t"],
        "units of s": ["s as s", "t > s"],
        "units of t⋈s": ["t⋈s as t⋈s", "r > t⋈s"],
        "units of r": ["r as r", "t⋈s > r"],
    }


def test_non_materializing() -> None:
    """The stages of figure 4 in 002, hub first: rows that r and t have found in s meet the third stream next."""
    assert rows(f"/*+ SCHEME('non_materializing') */ {CHAIN}") == {
        "units of s": ["s as s", "t > s", "r > s"],
        "units of t": ["t as t", "s > t", "r⋈s > t"],
        "units of r": ["r as r", "s⋈t > r", "t⋈s > r"],
    }
    sql = f"/*+ SCHEME('non_materializing(s, r, t)') */ {CHAIN}"
    assert list(rows(sql)) == ["units of s", "units of r", "units of t"]
    ElementTree.fromstring(scheme_svg(group(sql)))


@pytest.mark.parametrize(("scheme", "name"), [("matrix", "every cell"), ("iterative", "one unit")])
def test_the_order_of_probing_is_the_one_that_runs(scheme: str, name: str) -> None:
    """The equality before the comparison, whatever their order in FROM."""
    sql = f"/*+ SCHEME('{scheme}') */ {KEY}"
    assert rows(sql) == {name: ["r > t > s as r", "s > r > t as s", "t > r > s as t"]}
    drawn = ElementTree.fromstring(scheme_svg(group(sql)))
    assert "".join(text.text or "" for text in drawn.iter("text") if text.get("class") == "alias") == "rtssrttrs"


def test_operator_tree() -> None:
    four = f"{KEY.replace('WITHIN', 'JOIN t AS u ON u.a < t.a WITHIN')}"
    assert rows(f"/*+ SCHEME('operator_tree((r, s), (t, u))') */ {four}") == {
        "join 1": ["r as r", "s as s"],
        "join 2": ["t as t", "u as u"],
        "join 3": ["r⋈s as r⋈s", "t⋈u as t⋈u"],
    }


def test_options_that_are_no_order() -> None:
    document = rewritten(f"SELECT /*+ SCHEME('tree(t, s, r)') */ {CHAIN}").to_dict()
    document["groups"][0]["decision"]["options"]["order"] = "t, (s"
    with pytest.raises(PlanError, match="the options of tree in an explanation are not well formed"):
        scheme_svg(read(document).groups[0])


@pytest.mark.parametrize(
    ("routing", "words", "cells"),
    [
        ("ROUTING('random')", "to every unit", (1, 6)),
        ("ROUTING('hash')", "to the one unit of its key", (1, 1)),
        ("ROUTING('contrand', 2)", "to the units of its subgroup", (1, 3)),
    ],
)
def test_routing(routing: str, words: str, cells: tuple[int, int]) -> None:
    """The units that a row goes to are filled: of a stream's own one, of the other's those that it probes."""
    sql = f"/*+ SCHEME('biclique'), UNITS(6), {routing} */ r.id FROM r JOIN s ON r.id = s.id WITHIN 5 MINUTES"
    drawn = ElementTree.fromstring(scheme_svg(group(sql)))
    assert [text.text for text in drawn.iter("text")].count(words) == 2
    assert [rect.get("class") for rect in drawn.iter("rect")].count("cell on") == 2 * sum(cells)


def test_routing_by_ranges() -> None:
    """The stream in the middle is in one cell; of the others some rows lie in two ranges."""
    sql = "/*+ UNITS(4), ROUTING('range') */ r.id FROM r JOIN s ON ABS(r.a - s.a) < 5 JOIN t ON ABS(s.x - t.x) < 5"
    said = [text.text for text in ElementTree.fromstring(scheme_svg(group(sql))).iter("text")]
    assert said.count("by ranges of s.a and ranges of s.x, stored once") == 1
    assert said.count("by ranges of s.a, copied to 2 cells, one row in 8 in a range more") == 1
    assert said.count("by ranges of s.x, copied to 2 cells, one row in 8 in a range more") == 1
