"""The shape of a join decides its scheme, so it has to be the shape that the user wrote."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trijoin_sql.rewriter.plan.join_graph import shape_of

from .tables import node


@pytest.mark.parametrize(
    ("relations", "edges", "expected"),
    [
        ("ab", "ab", ("pair", None)),
        ("ab", "", ("disconnected", None)),
        ("abc", "ab bc", ("chain", "b")),
        ("abc", "ac bc", ("chain", "c")),
        ("abc", "ab bc ac", ("cyclic", None)),
        ("abc", "ab", ("disconnected", None)),
        ("abcd", "ab bc cd", ("chain", None)),
        ("abcd", "ab bc cd da", ("cyclic", None)),
        ("abcd", "ab ac ad", ("star", "a")),
        ("abcd", "ab ac ad bc bd cd", ("clique", None)),
        ("abcd", "ab bc ca cd", ("general", None)),
        ("abcde", "ab ac ad de", ("general", None)),
    ],
)
def test_shapes(relations: str, edges: str, expected: tuple[str, str | None]) -> None:
    assert shape_of(list(relations), [(e[0], e[1]) for e in edges.split()]) == expected


@given(st.permutations("abcde"), st.sets(st.sampled_from(list(combinations("abcde", 2)))))
def test_the_shape_does_not_depend_on_the_order(order: list[str], edges: set[tuple[str, str]]) -> None:
    turned = [(b, a) for a, b in sorted(edges, reverse=True)]
    assert shape_of(order, turned) == shape_of(list("abcde"), sorted(edges))


def test_derived_edges_are_marked_and_do_not_count() -> None:
    """r.id = s.id and s.id = t.id: the kernel may use r.id = t.id, but the join stays a chain."""
    graph = node("SELECT 1 AS o FROM r JOIN s ON r.id = s.id JOIN t ON s.id = t.id").graph
    assert (graph.shape, graph.hub) == ("chain", "s")
    assert [(e.left, e.right, e.derived) for e in graph.edges] == [
        ("r", "s", False),
        ("r", "t", True),
        ("s", "t", False),
    ]


def test_equality_is_not_transitive_over_types() -> None:
    """'01' = 1 and 1 = '1', but '01' is not '1'."""
    graph = node("SELECT 1 AS o FROM r JOIN s ON r.n = s.id JOIN t ON s.id = t.n").graph
    assert [(e.left, e.right) for e in graph.edges] == [("r", "s"), ("s", "t")]
