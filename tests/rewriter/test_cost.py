"""What the cost model says that each scheme sends, keeps and compares."""

from __future__ import annotations

import dataclasses

import pytest
from trijoin_sql.rewriter.choose.cost import model_of, total
from trijoin_sql.rewriter.choose.operator_trees import cheapest_tree, costs_of_trees
from trijoin_sql.rewriter.choose.routing import fit_of
from trijoin_sql.rewriter.options import CostDefaults, Settings
from trijoin_sql.rewriter.plan.cost_model import Model
from trijoin_sql.rewriter.plan.decision import Cost
from trijoin_sql.rewriter.plan.nodes import JoinNode, walk
from trijoin_sql.rewriter.plan.schemes import RECORDS, cost_of_order
from trijoin_sql.rewriter.plan.trees import tree_text

from .tables import CATALOG, node, rewritten

CYCLE = "SELECT 1 AS o FROM r JOIN s ON r.a < s.a JOIN t ON s.a < t.a AND r.x < t.x WITHIN 1 MINUTES"


def cost_of(scheme: str, model: Model, join: JoinNode, reached: int = 1) -> Cost:
    """Return the cost of a scheme whose rows reach so many units of another group."""
    cost = RECORDS[scheme].cost(model, fit_of(join, model, reached))
    assert cost is not None
    return cost


def test_all_results_of_a_matrix_are_compared_in_some_cell() -> None:
    """Cells share the work of one: together they compare at least what one would."""
    join = node(CYCLE)
    model = model_of(join, Settings(), 2)
    costs = [cost_of("matrix", dataclasses.replace(model, units=cells), join).cpu for cells in (1, 2, 8)]
    assert costs == sorted(costs)


def test_rows_that_are_kept_for_no_time_are_not_taken_for_rows_of_an_hour() -> None:
    """ "Soon after": rows of `s` join earlier ones of `r` only, so none waits longer than its micro-batch."""
    join = node("SELECT 1 AS o FROM r JOIN s ON r.x < s.x AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 10 SECONDS")
    assert [kept.keep_for for kept in join.retention] == [10_000_000, 0]
    model = model_of(join, Settings(), None)
    assert model.bounded
    assert model.kept == (10 * model.rates[0], model.rates[1])


def test_rows_sent_are_those_of_slots() -> None:
    """A slot holds unit i of every group: a row that goes to all units crosses the shuffle once for each slot.

    What the slots count is beside what is predicted in tests/bench/test_scale.py.
    """
    join = node(CYCLE)
    join = dataclasses.replace(
        join,
        sources=tuple(dataclasses.replace(s, rows=100.0) for s in join.sources),  # type: ignore[type-var]
    )
    model = model_of(join, Settings(), 3)
    assert cost_of("symmetric", model, join, reached=3).network == 300 * 3
    assert cost_of("symmetric", model, join, reached=3).stages == 1
    assert cost_of_order(model, (0, 1, 2)).stages == 2
    assert cost_of_order(model, (0, 1, 2)).network == (300 + 100 + model.rate(frozenset((0, 1)))) * 3
    assert cost_of("matrix", dataclasses.replace(model, units=1), join).network == 300
    assert cost_of("matrix", dataclasses.replace(model, units=8), join).network == 300 * 4
    pair = node("SELECT 1 AS o FROM r JOIN s ON r.a < s.a")
    two = model_of(pair, Settings(), 3)
    assert cost_of("biclique", two, pair, reached=3).network == 3 * sum(two.rates)
    assert cost_of("biclique", two, pair).network == sum(two.rates)


@pytest.mark.parametrize(
    ("conditions", "order"),
    [
        ("r JOIN s ON r.a < s.a JOIN t ON r.x = t.x", {"r": "ts", "s": "rt", "t": "rs"}),
        ("r JOIN s ON r.a < s.a JOIN t ON ABS(s.a - t.a) < 2 WITHIN 1 MINUTE", {"r": "st", "s": "tr", "t": "sr"}),
        # nearly all rows that are kept lie in the window, so it narrows down nothing
        (
            "r JOIN s ON s.ts BETWEEN r.ts - INTERVAL 1 MINUTE AND r.ts + INTERVAL 1 MINUTE JOIN t ON r.a < t.a "
            "AND t.ts BETWEEN s.ts - INTERVAL 1 MINUTE AND s.ts + INTERVAL 1 MINUTE AND ABS(s.x - t.x) < 1",
            {"r": "ts", "s": "tr", "t": "sr"},
        ),
    ],
)
def test_probe_order(conditions: str, order: dict[str, str]) -> None:
    found = node(f"SELECT /*+ SCHEME('matrix') */ 1 AS o FROM {conditions}").decision.probes
    assert {one: "".join(others) for one, others in found} == order


def test_the_probe_order_follows_the_rows() -> None:
    """Of two equally selective edges the one to the smaller stream comes first."""
    sql = "SELECT /*+ SCHEME('iterative') */ 1 AS o FROM r JOIN s ON r.a < s.a JOIN t ON r.x < t.x WITHIN 1 MINUTE"
    for few, order in (("s", "st"), ("t", "ts")):
        rates = tuple((name, 1.0 if name == few else 1000.0) for name in "rst")
        (group,) = rewritten(sql, catalog=dataclasses.replace(CATALOG, rates=rates)).groups
        assert dict(group.decision.probes)["r"] == tuple(order)


def test_an_equality_that_follows_from_others_counts_where_they_do_not() -> None:
    """Three relations with one key: r and t alone are joined by it too, and all three by two equalities, not three."""
    join = node("SELECT 1 AS o FROM r JOIN s ON r.id = s.id JOIN t ON s.id = t.id WHERE r.a < t.a")
    model = model_of(join, Settings(), 2)
    kept, share = model.kept[0], dict(CostDefaults().selectivity)
    key = min(share["equi"], CostDefaults().partners / kept)
    assert model.size(frozenset((0, 2))) == pytest.approx(kept**2 * share["range"] * key)
    assert model.size(frozenset((0, 1, 2))) == pytest.approx(kept**3 * share["range"] * key**2)
    star = "SELECT 1 AS o FROM r JOIN s ON r.id = s.id JOIN t ON r.id = t.id JOIN u ON r.id = u.key"
    model = model_of(node(star), Settings(), 2)
    assert model.size(frozenset((1, 2, 3))) == pytest.approx(kept**3 * key**2)
    assert model.size(frozenset((0, 1, 2, 3))) == pytest.approx(kept**4 * key**3)


def test_rows_that_share_a_key_go_to_one_unit_of_each_group() -> None:
    """Unless a hint says otherwise: random routing sends them to all, ContRand to those of a subgroup."""
    found = {}
    for hint in ("", "ROUTING('random')", "ROUTING('contrand', 2)"):
        text = f"SELECT /*+ SCHEME('symmetric') UNITS(6) {hint} */ r.x FROM r, s, t WHERE r.id = s.id AND s.id = t.id"
        decision = node(text).decision
        (cost,) = (one.cost for one in decision.alternatives if one.scheme == "symmetric")
        found[hint] = cost.network / 3000
    assert list(found.values()) == [1, 6, 3]


def test_more_units_cost_more_network_and_never_less_memory() -> None:
    join = node(CYCLE)
    few, many = (cost_of("symmetric", model_of(join, Settings(), units), join, reached=units) for units in (2, 6))
    assert few.network < many.network
    assert few.memory <= many.memory


def test_costs_find_two_inner_nodes() -> None:
    """Two pairs that hardly match, between which almost everything matches: join each pair first, as 002 section 4."""
    low, high = 1e-7, 0.9
    shares = tuple(
        tuple(1.0 if one == other else low if one // 2 == other // 2 else high for other in range(4))
        for one in range(4)
    )
    model = Model(("a", "b", "c", "d"), (1e5,) * 4, (1e6,) * 4, shares, 2)
    join = node("SELECT a.id FROM r a, r b, r c, r d WHERE a.a < b.a AND c.a < d.a AND b.x <> c.x")
    cost_of = costs_of_trees(join, model, None)
    found = cheapest_tree(model, cost_of, Settings().costs)
    assert found is not None
    assert tree_text(found[1]) == "(0,1),(2,3)"
    assert found[0].stages == 3
    assert total(found[0], Settings().costs) < total(cost_of(((0, 1), 2, 3)), Settings().costs)


@pytest.mark.parametrize(
    ("conditions", "routing", "least", "most"),
    [
        ("ABS(r.a - s.a) < 5 AND ABS(s.x - t.x) < 5", "", 16, 16),
        ("ABS(r.a - s.a) < 5 AND ABS(s.x - t.x) < 5", "ROUTING('range')", 1.01, 1 + 1 / 8),
        ("r.a = s.a AND s.x = t.x", "", 1, 1),
        ("r.a = s.a AND ABS(s.x - t.x) < 5", "", 2, 15),  # by key below, to all units above
        ("r.a = s.a AND ABS(s.x - t.x) < 5", "ROUTING('range')", 1.001, 1 + 1 / 8),  # and by range above
    ],
)
def test_each_node_of_an_operator_tree_costs_what_its_routing_sends(
    conditions: str, routing: str, least: float, most: float
) -> None:
    """Rows, and what the lower join finds, go to as many units as the node that gets them says."""
    network = {}
    for units in (1, 16):
        hints = f"SCHEME('operator_tree((r, s), t)') UNITS({units}) {routing}"
        decision = node(f"SELECT /*+ {hints} */ r.id FROM r, s, t WHERE {conditions}").decision
        (network[units],) = (one.cost.network for one in decision.alternatives if one.chosen)
    assert least <= network[16] / network[1] <= most


def test_many_cells_are_decided_quickly() -> None:
    """720 cells have 30 divisors: trying all 30 ** 6 combinations of six dimensions would take hours."""
    names = ", ".join(f"r AS q{number}" for number in range(6))
    decision = node(f"SELECT /*+ UNITS(720) */ q0.id FROM {names} WHERE q0.a < q1.a").decision
    (chosen,) = (a for a in decision.alternatives if a.chosen)
    assert chosen.scheme == "matrix"
    assert chosen.cost.network > 6000


RING = "SELECT {} a.id FROM r a JOIN s b ON ABS(a.a - b.a) < 2 JOIN t c ON ABS(b.id - c.id) < 2 AND ABS(a.id - c.a) < 2"


def test_a_selectivity_is_of_two_relations() -> None:
    """Two conditions of one kind differ; what is declared replaces the kind's number, and its limit of ten partners."""
    hints = "/*+ SELECTIVITY(b, A, 0.2), SELECTIVITY(b, c, 1e-6), SCHEME('matrix') */"
    decision = node(RING.format(hints)).decision
    found = {(one.left, one.right): (one.share, one.share_from) for one in decision.selectivities}
    assert found == {
        ("a", "b"): (0.2, "declared"),
        ("a", "c"): (pytest.approx(10 / 3.6e6, rel=1e-3), "assumed"),
        ("b", "c"): (1e-6, "declared"),
    }
    by_kind = Settings(costs=CostDefaults(selectivity=(("band", 0.5),)))
    assert [one.share_from for one in node(RING.format(""), by_kind).decision.selectivities] == ["declared"] * 3


def test_rows_probe_by_what_is_declared() -> None:
    """First where they find fewest, and of the relations that are joined by the one that finds fewest."""
    assert node(RING.format("/*+ SCHEME('matrix') */")).decision.sources == ()
    hints = "/*+ SELECTIVITY(a, b, 1e-6), SELECTIVITY(a, c, 0.2), SELECTIVITY(b, c, 1e-6), SCHEME('matrix') */"
    decision = node(RING.format(hints)).decision
    assert dict(decision.probes) == {"a": ("b", "c"), "b": ("a", "c"), "c": ("b", "a")}
    assert dict(decision.sources) == {"a": ("a", "b"), "b": ("b", "b"), "c": ("c", "b")}


def test_an_equality_that_others_imply_has_what_is_declared() -> None:
    sql = "SELECT {} r.id FROM r JOIN s ON r.id = s.id JOIN t ON s.id = t.id WHERE r.a < t.a"
    model = model_of(node(sql.format("/*+ SELECTIVITY(r, t, 0.02) */")), Settings(), 2)
    assert model.share(0, 2) == pytest.approx(0.02)
    assert model.shares[0][2] == pytest.approx(dict(CostDefaults().selectivity)["range"])
    model = model_of(node(sql.format("/*+ SELECTIVITY(r, t, 0.8) */")), Settings(), 2)
    assert (model.share(0, 2), model.implied[0, 2]) == (pytest.approx(0.8), 1)


def test_nodes_of_an_operator_tree_probe_by_what_is_declared_and_store_as_before() -> None:
    """A checkpoint of a tree does not hold the stages of its nodes: a declaration must not change them."""
    sql = "SELECT /*+ {} SCHEME('operator_tree((q, r), s, t)') */ r.id FROM r q JOIN r ON q.a < r.a JOIN s "
    sql += "ON ABS(r.a - s.a) < 2 JOIN t ON ABS(s.id - t.id) < 2 AND ABS(q.id - t.a) < 2 WITHIN 1 MINUTE"
    shares = "SELECTIVITY(r, s, 0.9), SELECTIVITY(s, t, 1e-7), SELECTIVITY(q, t, 0.5),"
    plain, told = (rewritten(sql.format(some)).plan for some in ("", shares))
    assert plain is not None
    assert told is not None
    before, after = (
        [one.decision for one in walk(plan) if isinstance(one, JoinNode) and len(one.sources) == 3]
        for plan in (plain, told)
    )
    assert before[0].scheme == after[0].scheme == "non_materializing"
    assert before[0].options == after[0].options
    assert (before[0].sources, bool(after[0].sources)) == ((), True)
