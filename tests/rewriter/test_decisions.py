"""Which node and scheme a group gets, and what the alternatives would cost."""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress

import pytest
from trijoin_sql.rewriter.choose.decide import _Asked, _untaken
from trijoin_sql.rewriter.options import CostDefaults, Settings
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.conjuncts import Bounds
from trijoin_sql.rewriter.plan.decision import Decision
from trijoin_sql.rewriter.plan.nodes import BiJoin, Hints, JoinNode, MultiJoin, Scan, TriJoin, walk
from trijoin_sql.rewriter.plan.stored import Stored
from trijoin_sql.rewriter.sql.catalog import DdlCatalog, TableInfo
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import InvalidHintError, InvalidSettingError, TriJoinError

from .goldens import queries
from .tables import node, nodes, rewritten

CHAIN = "SELECT {} r.id FROM r JOIN s ON r.a < s.a JOIN t ON s.a < t.a"
CYCLE = CHAIN + " AND r.x < t.x"


def test_a_group_below_an_outer_join_in_another_is_planned_like_any_other() -> None:
    """It had no scheme, and a table among its streams."""
    below = "r JOIN s ON r.a < s.a JOIN c ON c.id = r.id LEFT JOIN c AS d ON d.id = s.id"
    sql = f"SELECT r.id FROM {below} JOIN t ON t.a < d.id"
    inner, outer = nodes(sql)
    assert [inner.graph.relations, outer.graph.relations] == [("r", "s"), ("r", "t")]
    assert {inner.decision.scheme, outer.decision.scheme} == {"biclique"}


@pytest.mark.parametrize(
    ("sql", "kind", "scheme"),
    [
        (CHAIN, TriJoin, "semi_symmetric"),
        (CYCLE, TriJoin, "symmetric"),
        ("SELECT {} r.id FROM r JOIN s ON r.a < s.a, t", TriJoin, "matrix"),
        ("SELECT {} r.id FROM r JOIN s ON r.a < s.a", BiJoin, "biclique"),
        ("SELECT {} r.id FROM r, s, t, u WHERE r.id = s.id AND s.id = t.id AND t.id = u.key", MultiJoin, "matrix"),
    ],
)
def test_the_shape_decides(sql: str, kind: type, scheme: str) -> None:
    join = node(sql.format(""))
    assert type(join) is kind
    assert join.decision.scheme == scheme
    assert join.decision.node == kind.__name__
    assert [a.scheme for a in join.decision.alternatives if a.chosen] == [scheme]


def test_two_relations_are_routed_by_hash_only_if_something_is_equal() -> None:
    assert node("SELECT 1 AS o FROM r JOIN s ON r.a = s.a").decision.options.routing == "hash"
    assert node("SELECT 1 AS o FROM r JOIN s ON r.a < s.a").decision.options.routing == "random"


def test_rows_can_only_be_hashed_by_a_key_that_equality_makes() -> None:
    # <=> has no dimension in the operators: NULL has no partition of its own there.
    assert node("SELECT 1 AS o FROM r JOIN s ON r.a <=> s.a").decision.options.routing == "random"


COMMON = "SELECT {} r.id FROM r JOIN s ON r.a = s.a JOIN t ON s.a = t.a AND r.x < t.x"


@pytest.mark.parametrize(
    ("hint", "options"),
    [
        ("ROUTING('random')", {"routing": "random"}),
        ("ROUTING('hash')", {"routing": "hash"}),
        ("ROUTING('contrand', 2), UNITS(6)", {"routing": "contrand", "subgroups": "2"}),
    ],
)
def test_a_hint_says_how_rows_are_routed(hint: str, options: dict[str, str]) -> None:
    for sql in (COMMON, "SELECT {} r.id FROM r JOIN s ON r.a = s.a"):
        decision = node(sql.format(f"/*+ SCHEME('{'symmetric' if sql is COMMON else 'biclique'}'), {hint} */")).decision
        assert decision.options.shown(()) == options


@pytest.mark.parametrize(
    ("sql", "hint", "reason"),
    [
        (COMMON, "ROUTING('contrand')", "number of subgroups"),
        (COMMON, "ROUTING('contrand', 0)", "number of subgroups"),
        (COMMON, "ROUTING('robin')", "random"),
        (COMMON, "SCHEME('matrix'), ROUTING('hash')", "routing of its own"),
        (COMMON, "SCHEME('symmetric'), ROUTING('contrand', 4), UNITS(6)", "divided evenly"),
        (CHAIN, "ROUTING('hash')", "equal in all relations"),
    ],
)
def test_a_routing_that_cannot_be_is_an_error(sql: str, hint: str, reason: str) -> None:
    with pytest.raises(InvalidHintError, match=reason) as raised:
        node(sql.format(f"/*+ {hint} */"))
    assert "ROUTING" in str(raised.value)


def test_hints_choose_scheme_and_units() -> None:
    decision = node(CHAIN.format("/*+ SCHEME('matrix') UNITS(8) */")).decision
    assert (decision.node, decision.scheme, decision.units) == ("TriJoin", "matrix", 8)
    assert "hint" in decision.reason
    assert node(CHAIN.format("/*+ SCHEME('symmetric') */")).decision.node == "TriJoin"
    assert node(CHAIN.format(""), Settings(units=4)).decision.units == 4


@pytest.mark.parametrize(
    "hint",
    [
        "SCHEME('fastest')",
        "SCHEME('biclique')",
        "UNITS(0)",
        "UNITS('x')",
        "TRIJOIN(r, nobody)",
        "TRIJOIN(r SCHEME('x')",
    ],
)
def test_a_hint_that_cannot_be_followed_is_an_error(hint: str) -> None:
    with pytest.raises(InvalidHintError):
        rewritten(CHAIN.format(f"/*+ {hint} */"))


@pytest.mark.parametrize(
    ("slip", "meant"), [("SCHME('matrix')", "SCHEME"), ("UNIT(4)", "UNITS"), ("NO_TRIJION", "NO_TRIJOIN")]
)
def test_a_hint_that_is_nearly_one_of_ours_is_a_slip(slip: str, meant: str) -> None:
    """Spark passes over hints that it does not know, and the query would run otherwise than its author thinks."""
    with pytest.raises(InvalidHintError, match=f"perhaps {meant} is meant"):
        rewritten(CHAIN.format(f"/*+ {slip} */"))
    for other in ("BROADCAST(r)", "MERGE(s)", "SHUFFLE_HASH(t)", "REPARTITION(4)", "REBALANCE", "SKEW('r')"):
        assert nodes(CHAIN.format(f"/*+ {other} */"))


@pytest.mark.parametrize(
    ("hint", "on", "also", "unfit"),
    [
        ("ROUTING('range')", "ABS(r.a - s.a) < 2", "r.a < t.a", "r and t no condition"),
        ("ROUTING('range')", "r.a < s.a", "ABS(r.a - t.a) < 2", "r and s no condition"),
        ("SCHEME('biclique')", "r.a < s.a", "r.a < t.a", "r and t a semi join runs as matrix"),
    ],
)
def test_a_hint_that_fits_one_group_of_two_names_the_other(hint: str, on: str, also: str, unfit: str) -> None:
    """Else nobody knows which of several joins it means."""
    sql = f"SELECT /*+ {hint} */ r.id FROM r JOIN s ON {on} WHERE EXISTS (SELECT 1 FROM t WHERE {also})"
    with pytest.raises(InvalidHintError, match=f"is for every join group of its SELECT, and in that of {unfit}"):
        rewritten(sql)
    with pytest.raises(InvalidHintError) as alone:
        rewritten("SELECT /*+ ROUTING('range') */ r.id FROM r JOIN s ON r.a < s.a")
    assert "group" not in str(alone.value)


def test_a_chain_scheme_needs_a_chain() -> None:
    with pytest.raises(InvalidHintError, match="chain"):
        rewritten(CYCLE.format("/*+ SCHEME('semi_symmetric') */"))


def test_trijoin_names_the_relations_of_the_group() -> None:
    (join,) = nodes(CHAIN.format("/*+ TRIJOIN(s, T) */"))
    assert join.graph.relations == ("s", "t")


KNOWN = read_script("".join(f"CREATE TABLE {name} (id INT, a INT, x DOUBLE);" for name in ("few", "some", "many")))[0]


@dataclasses.dataclass(frozen=True)
class Counted:
    """A catalog that knows how many rows its tables have."""

    rows: dict[str, float]

    def types_of(self, texts: object, columns: object) -> tuple[str, ...]:
        return ()

    def table(self, name: tuple[str, ...]) -> TableInfo | None:
        found = KNOWN.table(name)
        return found and dataclasses.replace(found, rows=self.rows[name[-1]])


def test_cost_decides_where_rows_are_known() -> None:
    """Over many partners, a matrix would list each result of a chain from pairs; packs of hubs are far fewer."""
    sql = "SELECT m.id FROM many m JOIN some s ON m.id <= s.id JOIN few f ON s.a <= f.a"
    large = Counted(dict.fromkeys(("few", "some", "many"), 1e6))
    decision = rewrite(sql, large, Settings(units=16)).groups[0].decision
    assert (decision.node, decision.scheme) == ("TriJoin", "semi_symmetric")
    assert re.fullmatch(r"semi_symmetric costs [\d.]+% of matrix, which the shape suggests \(.*\)", decision.reason)
    hinted = rewrite(sql.replace("SELECT", "SELECT /*+ SCHEME('tree') */"), large).groups[0].decision
    assert (hinted.scheme, hinted.reason) == ("tree", "the hint SCHEME('tree')")


def test_measured_weights_decide_on_guesses_too_but_for_what_stores_results() -> None:
    """Nobody said how many rows there are. More partners than assumed fill a tree with results, and nothing else."""
    sql = "SELECT m.id FROM many m JOIN some s ON m.id <= s.id JOIN few f ON s.a <= f.a"
    guess = Settings(units=16, costs=CostDefaults(rate=1e5))
    assert rewrite(sql, KNOWN, guess).groups[0].decision.scheme == "semi_symmetric"
    trickle = rewrite(sql, KNOWN, Settings(units=16, costs=CostDefaults(rate=1.0))).groups[0].decision
    assert trickle.scheme == "matrix"
    assert "costs least" in trickle.reason
    dear = decided(WIDE, Settings(units=4))
    costs = {one.scheme: (one.total, one.untaken) for one in dear.alternatives}
    assert costs["tree"] < costs[dear.scheme]
    assert costs["tree"][1] == "declare rates"


BY_KEY = "SELECT {} r.id FROM r JOIN s ON r.id = s.id JOIN t ON s.id = t.id AND r.x < t.x {} WITHIN 1 MINUTE"


@pytest.mark.parametrize(
    ("hint", "scheme"),
    [
        ("", "matrix"),
        ("/*+ ROUTING('contrand', 2) */", "symmetric"),
        ("/*+ ROUTING('random') */", "symmetric"),
        ("/*+ INTERMEDIATES('pair') */", "symmetric"),
    ],
)
def test_a_key_that_all_share_needs_no_packs(hint: str, scheme: str) -> None:
    """A matrix sends each row to one cell in one stage, and keeps nothing else; a hint about packs asks for packs."""
    for cycle in (BY_KEY.format(hint, ""), BY_KEY.format(hint, "AND r.x < s.x")):
        decision = rewritten(cycle).groups[0].decision
        assert (decision.scheme, decision.advice) == (scheme, None)


def test_a_count_over_a_key_that_all_share_is_taken_from_packs() -> None:
    """Results are the product of a key's rows; packs count them, unless WITHIN has to look at the ends of each."""
    sql = "SELECT COUNT(*) AS n FROM r JOIN s ON r.id = s.id JOIN t ON s.id = t.id {}"
    assert node(sql.format("")).decision.scheme == "semi_symmetric"
    assert node(sql.format("WITHIN 1 MINUTE")).decision.scheme == "matrix"


def test_results_counted_from_packs_are_not_listed() -> None:
    """A chain's results need no listing where they are only counted; every other scheme would list them."""
    sql = "SELECT COUNT(*) AS n FROM many m JOIN some s ON m.a < s.a JOIN few f ON s.x < f.x"
    rows = Counted(dict.fromkeys(("few", "some", "many"), 5000.0))
    for units in (1, 2, 16):
        assert rewrite(sql, rows, Settings(units=units)).groups[0].decision.scheme == "semi_symmetric"


def test_results_that_spark_aggregates_are_listed_whoever_says_so() -> None:
    """Switched off by the setting, costs went on as if they were counted from packs."""
    sql = "SELECT /*+ {} */ COUNT(*) AS n FROM many m JOIN some s ON m.a < s.a JOIN few f ON ABS(s.x - f.x) < 2"
    rows = Counted(dict.fromkeys(("few", "some", "many"), 2000.0))
    by_hint = rewrite(sql.format("NO_UNIT_AGGREGATE"), rows, Settings(units=2)).groups[0].decision
    by_setting = rewrite(sql.format("UNITS(2)"), rows, Settings(units=2, aggregate_in_units=False)).groups[0].decision
    on = rewrite(sql.format("UNITS(2)"), rows).groups[0].decision
    assert (on.scheme, by_hint.scheme, by_setting.scheme) == ("semi_symmetric", "tree", "tree")


FOUR = (
    "SELECT /*+ SCHEME('operator_tree') */ r.id, u.val FROM r, s, t, u AS u "
    "WHERE r.id = s.id AND s.a BETWEEN t.a - 1 AND t.a + 2 AND t.id < u.key AND r.x + u.val > 3 "
    "AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 2 MINUTES AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 5 MINUTES"
)


def test_an_operator_tree_is_nodes_over_nodes() -> None:
    """002: the inner node's result is stored; the root joins it with the rest."""
    result = rewritten(FOUR.replace("operator_tree'", "operator_tree(((r, s), t), u)'"))
    (group,) = result.groups
    assert isinstance(group, MultiJoin)
    assert group.decision.scheme == "operator_tree"
    assert result.plan is not None
    (root,) = result.plan.below
    assert isinstance(root, JoinNode)
    assert root.name == group.name
    joins = [one for one in walk(root) if isinstance(one, JoinNode)]
    assert [one.graph.relations for one in joins] == [("r_s_t", "u"), ("r_s", "t"), ("r", "s")]
    assert {c.name for c in root.output} == {c.name for c in group.output}
    written = [p for edge in group.graph.edges for p in edge.predicates]
    placed = [p for join in joins for edge in join.graph.edges for p in edge.predicates]
    assert len(placed) == len(written)


BUSHY = (
    "SELECT /*+ SCHEME('operator_tree((q1, q2), ((q3, q4), `q5`), q6)') */ q1.id, q6.n "
    "FROM r q1, s q2, t q3, r q4, s q5, t q6 "
    "WHERE q1.id = q2.id AND q2.a < q3.a AND q3.ts BETWEEN q4.ts AND q4.ts + INTERVAL 1 MINUTE AND q4.n = q5.n "
    "AND q5.x <= q6.x AND q6.a + q3.a > 2 WITHIN 9 MINUTES"
)


def test_a_hint_writes_an_operator_tree_down() -> None:
    """Inner nodes side by side and one over another; every predicate is in just one of the nodes."""
    result = rewritten(BUSHY)
    assert result.plan is not None
    found = {one.name: one for one in walk(result.plan) if isinstance(one, JoinNode)}
    root, left, right, inmost = (found[f"__trijoin_1{end}"] for end in ("", "_inner", "_inner2", "_inner3"))
    assert root.graph.relations == ("q1_q2", "q3_q4_q5", "q6")
    assert (left.graph.relations, right.graph.relations) == (("q1", "q2"), ("q3_q4", "q5"))
    assert inmost.graph.relations == ("q3", "q4")
    (group,) = result.groups
    written = [p for edge in group.graph.edges for p in edge.predicates]
    assert len([p for one in found.values() for edge in one.graph.edges for p in edge.predicates]) == len(written)
    assert all(column.type != "unknown" for one in found.values() for column in one.output)
    assert all(retention.keep_for is not None for one in found.values() for retention in one.retention)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(q1, q2), (q3, q4, q5)", "each once"),
        ("(q1, q2), (q3, q4, q5, q6), q1", "each once"),
        ("(q1, q2), (q3, q4, q5, q7)", "no relation 'q7'"),
        ("q1, q2, q3, q4, q5, q6", "no inner node"),
        ("(q1), q2, q3, q4, q5, q6", "fewer than two parts"),
        ("(q1, q2, q3, q4, q5, q6", "write operator_tree"),
        ("(q1, q2) q3, q4, q5, q6", "write operator_tree"),
        ("", "write operator_tree"),
    ],
)
def test_a_tree_that_does_not_fit_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidHintError, match=reason):
        rewritten(BUSHY.replace("(q1, q2), ((q3, q4), `q5`), q6", text))


@pytest.mark.parametrize(
    ("joins", "order"),
    [
        ("r JOIN s ON r.a < s.a JOIN t ON ABS(s.x - t.x) < 5 WITHIN 5 MINUTES", "s, t, r"),
        ("r JOIN s ON r.id = s.id JOIN t ON s.id = t.id AND s.x < t.x", "r, s, t"),
        ("r JOIN s ON r.a < s.a JOIN t ON r.id = t.id JOIN u ON r.id = u.key", "r, t, u, s"),
    ],
)
def test_streams_are_stored_in_stages_of_which_all_rows_probe_the_first(joins: str, order: str) -> None:
    """Else it would make a cross product. An equality that follows joins two relations, a distance in time does not."""
    join = node(f"SELECT /*+ SCHEME('non_materializing') */ r.id FROM {joins}")
    assert join.decision.options.shown(join.graph.relations) == {"order": order}
    assert "non_materializing" not in {one.scheme for one in node(f"SELECT r.id FROM {joins}").decision.alternatives}


@pytest.mark.parametrize(
    ("scheme", "joins", "reason"),
    [
        ("", "r JOIN s ON r.a = s.a JOIN t ON s.x < t.x JOIN u ON t.id = u.key", "one of which .* operator_tree"),
        ("(r, s, t)", "r JOIN s ON r.a = s.a JOIN t ON s.x < t.x WITHIN 5 MINUTES", "begin with s"),
        ("(r, s)", "r JOIN s ON r.a = s.a JOIN t ON s.x < t.x", "each once"),
        ("((r, s), t)", "r JOIN s ON r.a = s.a JOIN t ON s.x < t.x", "one relation after the other"),
        ("", "r JOIN s ON r.a = s.a", "three relations or more"),
    ],
)
def test_an_order_of_stages_that_does_not_fit_is_refused(scheme: str, joins: str, reason: str) -> None:
    with pytest.raises(InvalidHintError, match=reason):
        rewritten(f"SELECT /*+ SCHEME('non_materializing{scheme}') */ r.id FROM {joins}")


def test_a_checkpoint_keeps_the_order_of_stages() -> None:
    """Rates that are declared since would choose another, and its rows lie in other stages."""
    sql = "SELECT {} r.id FROM r JOIN s ON r.id = s.id JOIN t ON s.id = t.id"
    written = node(sql.format("/*+ SCHEME('non_materializing(t, r, s)'), UNITS(3) */"))
    stored = Stored.of(written, 3)
    assert stored.hint == "SCHEME('non_materializing(t, r, s)'), UNITS(3)"
    again = node(sql.format(""), Settings(stored=(stored,)))
    assert (again.decision.scheme, again.decision.options.tree) == ("non_materializing", (2, 0, 1))


def test_the_nodes_of_an_operator_tree_store_their_inputs_alone() -> None:
    """The root of 002's trees is non-materializing, as costs say; a key that all share does that in one stage."""
    star = "r JOIN s ON r.a < s.a JOIN t ON ABS(r.x - t.x) < 1 JOIN u ON t.id = u.key"
    found = []
    for tree in ("(t, u), r, s", "(r, s, t), u"):
        result = rewritten(f"SELECT /*+ SCHEME('operator_tree({tree})') */ r.id FROM {star}")
        assert result.plan is not None
        found += [one.decision.scheme for one in walk(result.plan) if isinstance(one, JoinNode)]
    assert found == ["non_materializing", "biclique", "biclique", "non_materializing"]


def test_a_stored_result_has_the_time_of_its_latest_member() -> None:
    """With the time of an early member it would be late, and dropped, when its last member comes."""
    sql = FOUR.replace("AS u ", "").replace("u.key", "u.id").replace("u.val", "u.a").replace("t, u", "t, t AS u")
    root = rewritten(sql).plan.below[0]  # type: ignore[union-attr]
    assert isinstance(root, JoinNode)
    stored = next(source for source in root.sources if source.inputs)
    assert isinstance(stored, Scan)
    assert stored.event_time == "__result_time"
    (inner,) = stored.below
    assert isinstance(inner, JoinNode)
    assert (inner.result_time, inner.event_times) == ("__result_time", ("__result_time",))


def test_exchanging_the_sides_of_a_predicate_changes_nothing() -> None:
    (edge,) = node("SELECT 1 AS o FROM r JOIN s ON r.ts > s.ts - INTERVAL 5 MINUTES AND r.ts <= s.ts").graph.edges
    (band,) = edge.predicates
    turned = band.mirrored()
    assert (turned.left, turned.right) == (band.right, band.left)
    assert turned.bounds == Bounds("timestamp", 0, 300_000_000, True, False, wide=True)
    assert turned.mirrored() == band


def test_iterative_joins_in_one_unit() -> None:
    """In several it would be a matrix, which is another scheme."""
    sql = CHAIN.format("/*+ SCHEME('iterative') */")
    for settings in (Settings(parallelism=8), Settings(units=4)):
        decision = node(sql, settings).decision
        assert (decision.scheme, decision.units) == ("iterative", 1)
        assert decision.units_reason == "the scheme iterative joins in one"
    with pytest.raises(InvalidHintError, match="joins in one unit"):
        node(CHAIN.format("/*+ SCHEME('iterative'), UNITS(4) */"))


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidSettingError, match="units"):
        Settings(units=0)


def test_intermediates_are_packs_unless_a_hint_asks_for_pairs() -> None:
    for hint, expected in (("UNITS(2)", {}), ("INTERMEDIATES('pack')", {}), ("INTERMEDIATES('pair')", "pair")):
        (join,) = nodes(CYCLE.format(f"/*+ {hint} */"))
        assert join.decision.options.shown(()) == ({"intermediates": expected} if expected else {})  # type: ignore[attr-defined]
    for hint in ("INTERMEDIATES('packs')", "INTERMEDIATES()", "SCHEME('tree'), INTERMEDIATES('pair')"):
        with pytest.raises(InvalidHintError, match="INTERMEDIATES"):
            rewritten(CHAIN.format(f"/*+ {hint} */"))


def rates(catalog: str, **rows: float) -> DdlCatalog:
    """A catalog with the streams r, s and t, some of which declare their rates."""
    return DdlCatalog(read_script(catalog)[0].tables, tuple(rows.items()))


STREAMS = "".join(
    f"CREATE STREAM {name} (id INT, a INT, x INT, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 10 SECONDS;"
    for name in "rst"
)
NEAR = "SELECT {} r.id FROM r JOIN s ON ABS(r.a - s.a) < 2 JOIN t ON ABS(s.x - t.x) < 2 WITHIN 1 MINUTE"
#: Nothing bounds what is kept, and r finds many rows of s: s and t are joined once, where that is stored.
WIDE = "SELECT {} r.id FROM r JOIN s ON r.a >= s.a JOIN t ON s.a = t.a AND (s.x = t.x OR t.a > s.a + 2)"


def decided(sql: str, settings: Settings = Settings(parallelism=8), **rows: float) -> Decision:  # noqa: B008
    return rewrite(sql.format(""), rates(STREAMS, **rows), settings).groups[0].decision


def test_declared_rates_let_cost_choose_the_scheme() -> None:
    """A trickle over a chain: a second stage would double the time of every trigger."""
    assert decided(NEAR, Settings(parallelism=2, costs=CostDefaults(rate=1e6))).scheme == "semi_symmetric"
    found = decided(NEAR, r=10, s=10, t=10)
    assert (found.scheme, found.units) == ("matrix", 1)
    assert [(rate.rows, rate.rows_from) for rate in found.rates] == [(10.0, "declared")] * 3
    some = decided(NEAR, r=10, s=10)
    assert some.units == 8, "what is declared of some streams is a guess for the join"
    assert some.rates[2].rows_from == "assumed"


def test_units_follow_the_rates_up_to_what_runs_side_by_side() -> None:
    """A trickle needs one unit; a flood all there are; unknown rates keep the present number."""
    units = [decided(NEAR, r=rate, s=rate, t=rate).units for rate in (1, 100, 10_000, 1_000_000)]
    assert units[0] == 1
    assert units == sorted(units)  # type: ignore[type-var]
    assert units[-1] == 8
    assert decided(NEAR).units == 8
    assert "nobody declared" in str(decided(NEAR).units_reason)
    assert "30 rows a second one costs least, of at most 8" in str(decided(NEAR, r=10, s=10, t=10).units_reason)
    assert decided(NEAR, Settings(parallelism=3), r=1e6, s=1e6, t=1e6).units == 3
    asked = rewrite(NEAR.format("/*+ UNITS(5) */"), rates(STREAMS, r=1, s=1, t=1), Settings(parallelism=8)).groups[0]
    assert asked.decision.units == 5
    assert decided(NEAR, Settings(units=6, parallelism=8), r=1, s=1, t=1).units == 6
    assert decided(NEAR, Settings(), r=1, s=1, t=1).units is None, "who does not know Spark cannot say it"


def test_what_was_observed_advises_and_decides_nothing() -> None:
    """A new session would not know it, and its query would not fit the checkpoint."""

    @dataclasses.dataclass
    class Seen:
        rows: float

        def types_of(self, texts: object, columns: object) -> tuple[str, ...]:
            return ()

        def table(self, name: tuple[str, ...]) -> TableInfo | None:
            found = read_script(STREAMS)[0].table(name)
            return found and dataclasses.replace(found, rows=self.rows, rows_from="observed")

    two = Settings(parallelism=2)
    assert decided(NEAR, two, r=1e6, s=1e6, t=1e6).scheme == "semi_symmetric"
    found = rewrite(NEAR.format(""), Seen(1e6), two).groups[0].decision
    assert (found.scheme, found.alternatives) == ("matrix", decided(NEAR, two).alternatives)
    assert dict(found.expected)["input rows a second"] == 3e6
    result = rewrite(WIDE.format(""), Seen(40_000.0), Settings(parallelism=16))
    decision = result.groups[0].decision
    assert (decision.scheme, decision.units) == ("matrix", 16)
    assert "spark.trijoin.rate.r = 40000" in str(decision.advice)
    assert "tree would cost less than 1% of matrix" in str(decision.advice)
    assert decision.advice in result.advice
    assert decided(WIDE, Settings(parallelism=16), r=40_000, s=40_000, t=40_000).scheme == "tree"


def test_advice_says_what_to_declare_where_another_scheme_looks_much_cheaper() -> None:
    settings = Settings(parallelism=64, costs=CostDefaults(rate=50_000.0))
    advice = str(decided(WIDE, settings).advice)
    assert "trijoin.rowsPerSecond" in advice
    assert "spark.trijoin.rate.r" in advice
    assert "SCHEME('tree')" in advice
    hinted = rewrite(WIDE.format("/*+ SCHEME('tree') */"), rates(STREAMS), settings).groups[0]
    assert hinted.decision.advice is None
    frames = (
        WIDE.format("").replace("FROM r", "FROM __trijoin_arg_r AS r"),
        STREAMS.replace("STREAM r", "STREAM __trijoin_arg_r"),
    )
    advice = str(rewrite(frames[0], rates(frames[1]), settings).groups[0].decision.advice)
    assert "spark.trijoin.rate.r in" in advice, "a DataFrame has the name that its user gave it"
    pair = "SELECT r.id FROM r JOIN s ON ABS(r.a - s.a) < 2 WITHIN 1 MINUTE"
    assert decided(pair).advice is None, "nothing is cheaper"
    assert decided(NEAR, r=10, s=10, t=10).advice is None, "cost has chosen"


def test_a_checkpoint_keeps_its_scheme_and_units() -> None:
    """Rates that are declared anew must not turn a restart into a refusal."""
    stored, as_is = Stored(("t", "r", "S"), "semi_symmetric", 4), Stored(("t", "r", "S"), "matrix", 4)
    settings = Settings(parallelism=8, stored=(stored, Stored(("r", "s"), "biclique", 2)))
    found = decided(NEAR, settings, r=10, s=10, t=10)
    assert (found.scheme, found.units, found.from_checkpoint) == ("semi_symmetric", 4, True)
    assert "on a new one matrix would run" in str(found.advice)
    assert "on a new one" not in str(decided(NEAR, dataclasses.replace(settings, stored=(as_is,))).advice)
    assert decided(NEAR, dataclasses.replace(settings, units=2)).units == 2
    hinted = rewrite(NEAR.format("/*+ SCHEME('tree') */"), rates(STREAMS), settings).groups[0].decision
    assert (hinted.scheme, hinted.units, hinted.from_checkpoint) == ("tree", 8, False)


def test_two_groups_of_the_same_relations_are_told_apart_by_their_conditions() -> None:
    join = rewrite(NEAR.format(""), rates(STREAMS)).groups[0]
    mine = tuple(sorted(" AND ".join(p.sql for p in edge.predicates) for edge in join.graph.edges))
    other = Stored(("r", "s", "t"), "matrix", 2, conditions=("r.a < s.a",))
    for order in ((other, Stored(("r", "s", "t"), "tree", 3, ("r", "s", "t"), mine)), (other,)):
        scheme = decided(NEAR, Settings(stored=order)).scheme
        assert scheme == ("tree" if len(order) == 2 else "matrix")


def test_scaling_takes_only_schemes_whose_units_may_change() -> None:
    """Cells of a matrix may not where rows are kept for ever: they would never leave them."""
    settings = Settings(parallelism=8, elastic=True)
    by_key = "SELECT r.id FROM r, s, t WHERE r.id = s.id AND s.id = t.id AND r.a < t.a {} WITHIN 1 MINUTE"
    for sql in (by_key, NEAR):
        for scheme in ("matrix", "tree", "symmetric"):
            assert may_run(scheme, sql, settings)
        assert not may_run("matrix", sql.replace("WITHIN 1 MINUTE", ""), settings)
        assert may_run("tree", sql.replace("WITHIN 1 MINUTE", ""), settings)


def test_a_join_that_scaling_leaves_alone_says_so() -> None:
    """Else it is switched on, nothing happens, and nobody learns why; the hint that it names is one that scales."""
    elastic = Settings(parallelism=8, elastic=True)
    keyed = "SELECT {} r.id FROM r, s, t WHERE r.id = s.id AND s.id = t.id AND r.a < t.a"
    four = "SELECT {} r.id FROM r, s, t, t AS u WHERE r.a = s.a AND s.x = t.x AND t.id = u.a"
    keyed = keyed.replace("{}", "/*+ SCHEME('matrix') */")
    cells = four.replace("{}", "/*+ SCHEME('matrix') */")
    ranges = "SELECT /*+ SCHEME('semi_symmetric'), ROUTING('range') */ r.id FROM r JOIN s ON ABS(r.a - s.a) < 2 "
    ranges += "JOIN t ON ABS(s.a - t.a) < 2 WITHIN 1 MINUTE"
    for sql, why in (
        (keyed, "never leave their cells"),
        (cells, "never leave their cells"),
        (ranges, "by ranges of values"),
    ):
        said = decided(sql.format(""), elastic).unscaled or ""
        assert why in said
        hint = re.search(r"the hint (\S*\(.*?\)) do", said)
        assert hint is not None
        again = hint[1] if "SCHEME" in hint[1] else f"SCHEME('semi_symmetric'), {hint[1]}"
        scaled = decided(re.sub(r"/\*.*\*/", "{}", sql).format(f"/*+ {again} */"), elastic)
        assert scaled.unscaled is None
        assert decided(sql.format(""), dataclasses.replace(elastic, elastic=False)).unscaled is None
        assert said in rewrite(sql.format(""), rates(STREAMS), elastic).advice


def test_outer_joins_follow_the_load_where_rows_expire() -> None:
    """No hint lets the units of others change, so none is named."""
    elastic = Settings(parallelism=8, elastic=True)
    left = (
        "SELECT {} r.id, s.id AS o FROM r LEFT JOIN s ON r.a < s.a AND r.ts BETWEEN s.ts AND s.ts + INTERVAL 1 MINUTE"
    )
    assert decided(left, elastic).unscaled is None
    assert "both sides of a FULL JOIN" in str(decided(left.replace("LEFT", "FULL"), elastic).unscaled)
    latest = "SELECT {} r.id, s.id AS o FROM r ASOF JOIN s MATCH_CONDITION (r.ts >= s.ts)"
    assert "with a bound of event times they would" in str(decided(latest, elastic).unscaled)
    assert decided(f"{latest} WITHIN 1 MINUTE", elastic).unscaled is None


def may_run(scheme: str, sql: str, settings: Settings) -> bool:
    return _untaken(scheme, _Asked(node(sql.format("")), Hints(), settings, (), from_packs=False)) is None


def test_units_by_cost_fit_the_subgroups_of_a_routing() -> None:
    """A trickle would get one unit, which cannot be divided into two subgroups."""
    sql = "SELECT /*+ ROUTING('contrand', 2) */ r.id FROM r JOIN s ON r.a = s.a WITHIN 1 MINUTE"
    decision = decided(sql, r=5, s=5)
    assert (decision.units, decision.options.subgroups) == (2, 2)


def test_costs_least_is_what_the_table_shows() -> None:
    """Nine of 36 decisions were beaten in every column by a scheme that was not taken, and nothing said why."""
    said = 0
    for query in queries():
        catalog, statements = read_script(query.read_text(encoding="utf-8"))
        with suppress(TriJoinError):
            text = re.sub(r"^INSERT INTO \w+\s+", "", statements[-1])
            for decision in (group.decision for group in rewrite(text, catalog).groups):
                if "costs least" in decision.reason:
                    said += 1
                    free = {one.scheme: one.total for one in decision.alternatives if one.untaken is None}
                    assert decision.scheme in free, query
                    assert min(map(float, filter(None, free.values()))) == free[decision.scheme], query
    assert said > 10


SAID = "SELECTIVITY(x, y, 0.5)"


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("SELECTIVITY(r, s)", "above 0 and up to 1: SELECTIVITY"),
        ("SELECTIVITY(r, s, 0)", "above 0 and up to 1"),
        ("SELECTIVITY(r, s, 1.5)", "above 0 and up to 1"),
        ("SELECTIVITY(r, r, 0.5)", "it takes two relations"),
        ("SELECTIVITY(r, s, 0.5), SELECTIVITY(S, r, 0.1)", "stands there twice"),
        ("SELECTIVITY(r, q, 0.5)", "no condition that the units evaluate joins r and q"),
        ("SELECTIVITY(r, t, 0.5)", "no condition that the units evaluate joins r and t"),
    ],
)
def test_a_selectivity_that_says_nothing_is_refused(hint: str, reason: str) -> None:
    with pytest.raises(InvalidHintError, match=re.escape(reason)):
        decided(NEAR.format(f"/*+ {hint} */"))


def test_a_declared_selectivity_makes_no_join_ours() -> None:
    """Else a query could not have it at a restart; other hints ask for us."""
    sql = "SELECT /*+ {} */ x.id FROM p x JOIN p y ON x.id = y.id"
    found = [rewrite(sql.format(hint), read_script("CREATE TABLE p (id INT)")[0]) for hint in ("UNITS(2)", SAID)]
    assert [one.converted for one in found] == [True, False]


def test_a_declared_selectivity_chooses_the_scheme_but_not_on_a_checkpoint() -> None:
    """A join that finds nothing first is worth a stage; a checkpoint keeps its scheme, as for rates."""
    told = NEAR.format("/*+ SELECTIVITY(r, s, 1e-9), SELECTIVITY(s, t, 0.9) */")
    rows = dict.fromkeys("rst", 2000.0)
    assert decided(NEAR, **rows).scheme == "matrix"
    assert decided(told, **rows).scheme == "tree"
    stored = Settings(parallelism=8, stored=(Stored(("r", "s", "t"), "matrix", 8),))
    kept = decided(told, stored, **rows)
    assert (kept.scheme, kept.units, kept.from_checkpoint) == ("matrix", 8, True)
    assert "on a new one tree would run" in str(kept.advice)


def test_an_observed_selectivity_advises_and_decides_nothing() -> None:
    """As an observed rate does; one that is declared has precedence. It is known by tables and conditions."""
    rows, settings = dict.fromkeys("rst", 2000.0), Settings(parallelism=8)
    plain = decided(NEAR, settings, **rows)
    seen = {one.key: share for one, share in zip(plain.selectivities, (1e-9, 0.9), strict=True)}
    settings = dataclasses.replace(settings, seen=seen)
    found = decided(NEAR, settings, **rows)
    assert (found.scheme, found.probes, found.alternatives) == (plain.scheme, plain.probes, plain.alternatives)
    assert [(one.share, one.share_from) for one in found.selectivities] == [(1e-9, "observed"), (0.9, "observed")]
    assert dict(found.expected)["results a second"] < dict(plain.expected)["results a second"]
    assert "declare them (the hint SELECTIVITY(r, s, 1e-09), the hint SELECTIVITY" in str(found.advice)
    said = decided(NEAR.format("/*+ SELECTIVITY(r, s, 0.5) */"), settings, **rows).selectivities[0]
    assert (said.share, said.share_from) == (0.5, "declared")
    other = decided(NEAR.replace("< 2 JOIN", "< 3 JOIN"), settings, **rows).selectivities
    assert [one.share_from for one in other] == ["assumed", "observed"]
