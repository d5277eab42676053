"""Mermaid: well formed whatever the names are."""

from __future__ import annotations

import re

import pytest
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.parts import Column
from trijoin_sql.rewriter.sql.catalog import DdlCatalog, TableInfo

from trijoin_sql.explain import Explanation

from .samples import CHAIN_UNBOUNDED, ODD_NAMES, SAMPLES, SEVERAL

_LABEL = r'"(?:[\w ,.:()=+\-_/]|[#]\d+;|<br/>)*"'
_ID = r"[a-z][a-z0-9]*"
_MERMAID = re.compile(
    rf"""flowchart\ LR
    |\ \ subgraph\ {_ID}\[{_LABEL}\]
    |\ \ \ \ direction\ LR
    |\ \ \ \ {_ID}(?:\(\[{_LABEL}\]\)|\[\[{_LABEL}\]\]|\[/{_LABEL}/\]|\[{_LABEL}\])(?::::(?:hub|residual))?
    |\ \ \ \ {_ID}\ (?:---|-\.-|-->)(?:\|{_LABEL}\|)?\ {_ID}
    |\ \ end
    |\ \ classDef\ (?:hub|residual)\ [\w\-:\ ]+
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize("name", SAMPLES)
def test_mermaid_lines_are_of_the_grammar(name: str) -> None:
    text = Explanation(SAMPLES[name]).to_mermaid()
    bad = [line for line in text.splitlines() if not _MERMAID.fullmatch(line)]
    assert bad == []
    assert text.count("\n  subgraph ") == text.count("\n  end\n")


def test_names_survive_mermaid() -> None:
    text = Explanation(SAMPLES["odd"]).to_mermaid()
    labels = [
        re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label) for label in re.findall(r'\(\["(.*?)"\]\)', text)
    ]
    readable = [name.replace("\n", "\ufffd") for name in ODD_NAMES if name.strip()]
    assert [label for label in labels if label in readable][: len(readable)] == readable


def test_join_graph_and_plan() -> None:
    mermaid = Explanation(CHAIN_UNBOUNDED).to_mermaid()
    assert 'g1r1(["v"]):::hub' in mermaid
    assert re.search(r"g1r0 -\.-\|.*\(derived\).*\| g1r2", mermaid)
    assert "UNBOUNDED: kept for ever" in mermaid
    assert "p1 --> out" in mermaid


def test_groups_feed_one_another() -> None:
    document = {**SEVERAL, "groups": [dict(group) for group in SEVERAL["groups"]]}
    second = document["groups"][1]
    second["graph"] = {**second["graph"], "relations": ["__trijoin_1", "asks"], "edges": []}
    text = Explanation(document).to_mermaid()
    assert "p1 --> p2" in text
    assert "p1 --> out" not in text
    assert "p2 --> out" in text


def test_an_operator_tree_is_a_tree() -> None:
    """Each of its joins is a node, which reads relations or other joins."""
    sql = """SELECT /*+ SCHEME('operator_tree((a, b), (c, d))') */ a.x FROM a, b, c, d
        WHERE a.x < b.x AND b.x < c.x AND c.x < d.x"""
    catalog = DdlCatalog(tuple((name, TableInfo((Column("x", "int"),), streaming=True)) for name in "abcd"))
    flow = Explanation(rewrite(sql, catalog).to_dict()).to_mermaid().partition("subgraph plan")[2]
    read = re.findall(r"(p1\w*) --> (\w+)", flow)
    assert read == [
        *(("p1s0", "p1j1"), ("p1s1", "p1j1"), ("p1s2", "p1j2"), ("p1s3", "p1j2")),
        *(("p1j1", "p1"), ("p1j2", "p1"), ("p1", "out")),
    ]
