"""Where in the user's text each predicate of a join group stands."""

from __future__ import annotations

import pytest

from .tables import rewritten


def places(sql: str) -> list[str]:
    """Return the texts that the predicates of a query point to: several of one predicate with ``|``."""
    graphs = [group.graph for group in rewritten(sql).document.groups]
    found = [
        places
        for graph in graphs
        for places in (*(one.places for edge in graph.edges for one in edge.predicates), *graph.residual_places)
    ]
    return ["|".join(sql[start:end] for start, end in places) for places in found]


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("SELECT r.id FROM r JOIN s ON r.a<s.a", ["r.a<s.a"]),
        ("SELECT r.id FROM r JOIN s ON S.a   >\n `r`.A", ["S.a   >\n `r`.A"]),
        ("SELECT r.id FROM r, s WHERE r.x > 1 AND (r.a = s.a) AND s.x < 2", ["r.a = s.a"]),
        ("SELECT r.id FROM r JOIN s ON r.a /* = */ < -- nor >\n s.a AND r.x > 0", ["r.a /* = */ < -- nor >\n s.a"]),
        ("SELECT r.id FROM r JOIN s ON r.n = s.n AND r.n <> 'a = b' || s.n", ["r.n = s.n", "r.n <> 'a = b' || s.n"]),
        ("SELECT r.id FROM r JOIN s ON r.a BETWEEN s.a - 1 AND s.a + 1", ["r.a BETWEEN s.a - 1 AND s.a + 1"]),
        ("SELECT r.id FROM r JOIN s ON r.a BETWEEN s.a AND s.x", ["r.a BETWEEN s.a AND s.x"] * 2),
        ("SELECT r.id FROM r JOIN s ON abs(r.x-s.x)<3", ["abs(r.x-s.x)<3"]),
        ("SELECT r.id FROM r JOIN s ON r.a < s.a + 5 AND r.n < s.n AND r.a > s.a - 5",
         ["r.a < s.a + 5|r.a > s.a - 5", "r.n < s.n"]),
        ("SELECT r.id FROM r JOIN s ON NOT (r.a < s.a OR r.x > s.x)", ["NOT (r.a < s.a OR r.x > s.x)"] * 2),
        ("SELECT r.id FROM r JOIN s ON r.a < s.a OR r.x > s.x", ["r.a < s.a OR r.x > s.x"]),
        ("SELECT r.id FROM r JOIN s ON (r.a = s.a AND r.x = 1) OR (r.a = s.a AND s.x = 1)",
         ["(r.a = s.a AND r.x = 1) OR (r.a = s.a AND s.x = 1)"] * 2),
        ("SELECT r.id FROM r JOIN s ON r.n LIKE s.n", ["r.n LIKE s.n"]),
        ("SELECT r.id FROM r, s, t WHERE r.a < s.a AND s.a < t.a AND r.x + s.x = t.x",
         ["r.a < s.a", "s.a < t.a", "r.x + s.x = t.x"]),
        ("EXPLAIN HTML SELECT ONLINE r.id FROM r JOIN s ON r.a < s.a;", ["r.a < s.a"]),
        ("CREATE TEMP VIEW v AS SELECT r.id FROM r JOIN s ON r.a < s.a", ["r.a < s.a"]),
    ],
)  # fmt: skip
def test_a_conjunct_points_to_the_users_text(sql: str, texts: list[str]) -> None:
    assert places(sql) == texts


def test_one_text_in_two_selects() -> None:
    sql = "SELECT r.id FROM r JOIN s ON r.a < s.a UNION ALL SELECT r.id FROM r JOIN s ON r.a < s.a"
    one, other = (group.graph.edges[0].predicates[0].places for group in rewritten(sql).document.groups)
    assert one == ((sql.index("r.a < s.a"), sql.index("r.a < s.a") + 9),)
    assert other == ((sql.rindex("r.a < s.a"), sql.rindex("r.a < s.a") + 9),)


def test_a_derived_table_that_is_opened() -> None:
    """Its relations get other aliases and its columns are spelled out."""
    sql = (
        "SELECT q.k FROM (SELECT r.a + 1 AS k, s.x FROM r JOIN s ON r.id < s.id) AS q "
        "JOIN (SELECT r.a AS k, r.x FROM r) AS p ON q.k < p.k AND q.x <> p.x"
    )
    assert sorted(places(sql)) == ["q.k < p.k", "q.x <> p.x", "r.id < s.id"]


def test_a_common_table_expression() -> None:
    sql = "WITH near AS (SELECT r.id, r.a FROM r JOIN s ON r.x <= s.x) SELECT * FROM near JOIN t ON near.a < t.a"
    assert sorted(filter(None, places(sql))) == ["near.a < t.a", "r.x <= s.x"]


def test_what_follows_from_conjuncts_has_no_place() -> None:
    sql = "SELECT r.id FROM r JOIN s ON r.a = s.a JOIN t ON s.a = t.a"
    assert places(sql) == ["r.a = s.a", "", "s.a = t.a"]
    edge = rewritten(sql).to_dict()["groups"][0]["graph"]["edges"][1]
    assert edge["predicates"] == [{"sql": "r.a = t.a", "kind": "equi", "derived": True}]


def test_within_points_to_its_clause() -> None:
    sql = "SELECT r.id FROM r JOIN s ON r.a < s.a WITHIN INTERVAL 10 MINUTES"
    assert places(sql) == ["r.a < s.a", "WITHIN INTERVAL 10 MINUTES"]
    assert places(sql.replace("INTERVAL ", "")) == ["r.a < s.a", "WITHIN 10 MINUTES"]


def test_places_in_the_json_object() -> None:
    sql = "SELECT r.id FROM r, s, t WHERE r.a < s.a AND s.a < t.a AND r.x + s.x = t.x"
    graph = rewritten(sql).to_dict()["groups"][0]["graph"]
    at = sql.index("r.a <")
    assert graph["edges"][0]["predicates"] == [{"sql": "r.a < s.a", "kind": "range", "places": [[at, at + 9]]}]
    assert graph["residuals"] == ["r.x + s.x = t.x"]
    assert graph["residual_places"] == [[[sql.index("r.x"), len(sql)]]]
