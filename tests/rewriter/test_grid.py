"""The grid of a matrix: cost, operators and EXPLAIN share one derivation of it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import pytest
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan import grid
from trijoin_sql.rewriter.plan.conjuncts import Compare, Term
from trijoin_sql.rewriter.plan.grid import Dimension, common_key, lay_out
from trijoin_sql.rewriter.plan.parts import Edge, JoinGraph
from trijoin_sql.rewriter.sql.declarations import read_script
from trijoin_sql.rewriter.sql.expressions import parsed


def graph(relations: str, *conditions: str) -> JoinGraph:
    """Return a graph with conditions such as ``a.k = b.k`` or ``a.x < b.x``, in plan order."""
    edges = []
    for condition in conditions:
        left, op, right = condition.split()
        sides = (Term(parsed(side), (side[0],)) for side in (left, right))
        edges.append(Edge(left[0], right[0], (Compare(condition, Term(parsed(condition)), *sides, op),)))  # type: ignore[arg-type]
    return JoinGraph(tuple(relations), tuple(edges))


def anything(_: object) -> bool:
    return True


def test_dimensions_follow_from_equalities() -> None:
    found = lay_out(graph("abcde", "a.k = b.k", "b.k = c.k", "c.x < d.x", "d.x < e.x"), 8, anything)
    assert found == (
        Dimension(("a", "b", "c"), ("a.k", "b.k", "c.k"), 4),
        Dimension(("d",), None, 2),
        Dimension(("e",), None, 1),
    )


def test_a_relation_is_hashed_by_one_expression_of_a_class() -> None:
    found = lay_out(graph("abc", "a.k = b.k", "a.l = b.k", "a.l = c.l"), 4, anything)
    assert found == (Dimension(("a", "b", "c"), ("a.k", "b.k", "c.l"), 4),)


def test_a_class_that_cannot_be_hashed_has_no_dimension() -> None:
    one = graph("abc", "a.k = b.k", "b.l = c.l")
    assert [dimension.key for dimension in lay_out(one, 4, lambda members: ("a", "a.k") not in members)] == [
        ("b.l", "c.l"),
        None,
    ]
    assert common_key(graph("ab", "a.k = b.k"), anything) == (("a", "a.k"), ("b", "b.k"))
    assert common_key(graph("ab", "a.k = b.k"), lambda _: False) is None


def test_a_chain_is_cut_at_its_hub() -> None:
    """Every stream is copied as often wherever it is cut, but only there each pair is found in one cell."""
    for hub, conditions in (("b", ("a.x < b.x", "b.x < c.x")), ("a", ("a.x < b.x", "a.x < c.x"))):
        split = [d.relations for d in lay_out(graph("abc", *conditions), 2, anything) if d.shares == 2]
        assert split == [(hub,)]


def test_no_grid_stores_fewer_copies() -> None:
    chance = random.Random(7)
    for _ in range(60):
        names = "abcde"[: chance.randint(2, 5)]
        pairs = chance.sample([*itertools.combinations(names, 2)], chance.randint(1, len(names) - 1))
        found = graph(names, *(f"{one}.k {chance.choice('=<')} {other}.k" for one, other in sorted(pairs)))
        cells = chance.choice([1, 2, 6, 8, 12])
        dimensions = lay_out(found, cells, anything)

        def copies(shares: tuple[int, ...], names: str = names, dims: tuple[Dimension, ...] = dimensions) -> int:
            return sum(
                math.prod(share for share, along in zip(shares, dims, strict=True) if alias not in along.relations)
                for alias in names
            )

        all_shares = itertools.product(range(1, cells + 1), repeat=len(dimensions))
        least = min(copies(shares) for shares in all_shares if math.prod(shares) == cells)
        assert copies(tuple(dimension.shares for dimension in dimensions)) == least


def test_many_cells_of_many_relations_are_not_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are 24 million ways to share 5040 cells out over ten relations: none of them is listed."""

    def listed(cells: int, count: int) -> Iterator[tuple[int, ...]]:
        raise AssertionError(f"{cells} cells over {count} dimensions")

    names = "abcdefghij"
    monkeypatch.setattr(grid, "_factorings", listed)
    found = lay_out(graph(names, *(f"{one}.x < {other}.x" for one, other in itertools.pairwise(names))), 5040, anything)
    assert math.prod(dimension.shares for dimension in found) == 5040
    assert max(dimension.shares for dimension in found) <= 7


def test_explain_shows_only_keys_that_spark_compares_in_one_type() -> None:
    """Beside a text a number is compared as BIGINT; whole numbers and decimals as they are."""
    tables = "CREATE STREAM {} (k {}, x INT) USING rate;"
    for kind, key in (
        ("STRING", ["CAST(r.k AS BIGINT)", "CAST(s.k AS BIGINT)"]),
        ("ARRAY<INT>", None),
        ("DECIMAL(9,2)", ["r.k", "s.k"]),
    ):
        text = "".join(tables.format(name, kind if name == "s" else "INT") for name in "rst")
        text += "SELECT /*+ SCHEME('matrix'), UNITS(4) */ r.x FROM r JOIN s ON r.k = s.k JOIN t ON s.x < t.x"
        catalog, (query,) = read_script(text)
        (group,) = rewrite(query, catalog).to_dict()["groups"]
        assert [dimension["key"] for dimension in group["decision"]["grid"] if dimension["key"]] == (
            [key] if key else []
        )
        assert math.prod(dimension["shares"] for dimension in group["decision"]["grid"]) == 4


def ranged(
    *conditions: str, tested: tuple[str, ...] = (), cells: int = 16, subgroups: int | None = None
) -> list[tuple[str, int, str | None]]:
    """Return the dimensions of a join: by what, their shares, and the relation in the middle."""
    columns = "id BIGINT, x INT, y INT, d DOUBLE, k INT, ts TIMESTAMP"
    names = [name for name in "rstu" if any(f"{name}." in one for one in conditions)]
    declared = ";".join(f"CREATE STREAM {name} ({columns}) USING json OPTIONS (path '/none')" for name in names)
    catalog, (sql,) = read_script(f"{declared}; SELECT r.id FROM {', '.join(names)} WHERE {' AND '.join(conditions)}")
    (node,) = rewrite(sql, catalog).groups
    found = lay_out(node.graph, cells, anything, tested, ranges=True, subgroups=subgroups)
    return [(" = ".join(one.key or one.relations), one.shares, one.home) for one in found]


def test_each_column_that_bands_compare_is_a_dimension() -> None:
    """The one in the middle is of the relation that most edges have; bands around one column share a dimension."""
    assert ranged("ABS(r.x - s.x) < 2", "ABS(s.y - t.y) < 2") == [
        ("r.x = s.x", 4, "s"),
        ("s.y = t.y", 4, "s"),
    ]
    assert ranged("ABS(r.x - s.x) < 2", "ABS(s.x - t.y) < 9") == [("r.x = s.x = t.y", 16, "s")]
    assert ranged("ABS(r.x - s.x) < 2", "s.d - t.d BETWEEN 0 AND 1", "ABS(t.y - r.y) < 2") == [
        ("r.x = s.x", 2, "r"),
        ("r.y = t.y", 2, "r"),
        ("s.d = t.d", 4, "s"),
    ]


def test_ranges_stand_beside_keys_and_spread_rows() -> None:
    assert ranged("r.k = s.k", "ABS(s.x - t.x) < 2") == [("r.k = s.k", 4, None), ("s.x = t.x", 4, "s")]
    assert ranged("ABS(r.x - s.x) < 2", "s.y < t.y") == [("r.x = s.x", 8, "s"), ("t", 2, None)]
    assert ranged("ABS(r.x - s.x) < 2", "ABS(s.d - t.d) < 2", "s.k < u.k", cells=8)[2] == ("u", 2, None)


@pytest.mark.parametrize("condition", ["r.x < s.x", "r.x - s.x > 3", "ABS(r.d - s.d) <= 0", "r.x <> s.x"])
def test_what_is_no_band_has_no_ranges(condition: str) -> None:
    assert not [home for _, _, home in ranged(condition) if home]


def test_a_tested_relation_is_in_the_middle() -> None:
    """Each of its rows must be in one cell, with all of its partners."""
    assert ranged("ABS(r.x - s.x) < 2", tested=("r",)) == [("r.x = s.x", 16, "r")]
    assert ranged("ABS(r.x - s.x) < 2", tested=("r", "s")) == [("r", 1, None), ("s", 1, None)]


def test_a_heavy_range_is_shared_by_the_cells_of_its_subgroup() -> None:
    """Rows have a place along the ranges and one of their own."""
    assert ranged("ABS(r.x - s.x) < 2", subgroups=4) == [("r.x = s.x", 4, "r"), ("r", 2, None), ("s", 2, None)]
    assert [shares for _, shares, _ in ranged("ABS(r.x - s.x) < 2", "ABS(s.y - t.y) < 2", subgroups=4)] == [
        2,
        2,
        1,
        2,
        2,
    ]


def test_more_subgroups_than_cells_are_laid_out_before_they_are_refused() -> None:
    """How many units there will be is not always known where costs are compared."""
    assert ranged("ABS(r.x - s.x) < 2", cells=2, subgroups=3) == [("r.x = s.x", 3, "r"), ("r", 1, None), ("s", 1, None)]
    assert ranged("ABS(r.x - s.x) < 2", tested=("r",), cells=2, subgroups=3)[0] == ("r.x = s.x", 3, "r")
