"""The order in which a chain of two-way joins takes its relations: the best one, and it is the one that is priced."""

from __future__ import annotations

import re
from itertools import permutations

import pytest
from trijoin_sql.rewriter.choose.cost import best_order, model_of
from trijoin_sql.rewriter.options import Settings
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.decision import Decision, SchemeOptions
from trijoin_sql.rewriter.plan.schemes import cost_of_order
from trijoin_sql.rewriter.plan.stored import Stored
from trijoin_sql.rewriter.sql.catalog import TableInfo
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import InvalidHintError
from trijoin_sql.running.checkpoint import SavedJoin, groups_of

STREAMS = "".join(
    f"CREATE STREAM {name} (a INT, b INT) USING rate OPTIONS (trijoin.rowsPerSecond {rows});"
    for name, rows in (("r", 100), ("s", 1000), ("`the t`", 1000))
)
SQL = "SELECT /*+ {} */ r.a FROM r JOIN s ON r.a < s.a JOIN `the t` ON s.b = `the t`.b"


def decided(hint: str, settings: Settings | None = None, sql: str = SQL) -> Decision:
    catalog, _ = read_script(STREAMS)
    (group,) = rewrite(sql.format(hint), catalog, settings or Settings()).groups
    return group.decision


def test_the_order_that_is_priced_is_the_one_that_runs() -> None:
    """The equality first: in FROM's order nearly all pairs of r and s would be stored."""
    decision = decided("SCHEME('tree')")
    assert decision.options.shown(("r", "s", "the t")) == {"order": "s, `the t`, r"}
    priced = next(one.cost for one in decision.alternatives if one.chosen)
    catalog, _ = read_script(STREAMS)
    (group,) = rewrite(SQL.format("SCHEME('tree')"), catalog).groups
    model = model_of(group, Settings(), None)
    costs = {order: cost_of_order(model, order).network for order in permutations(range(3))}
    assert priced.network == pytest.approx(costs[1, 2, 0], rel=1e-3)
    assert priced.network == pytest.approx(min(costs.values()), rel=1e-3)
    assert costs[0, 1, 2] > 1000 * priced.network


@pytest.mark.parametrize("units", [1, 2, 16])
def test_units_do_not_change_the_order(units: int) -> None:
    """A restart may have other units, and its checkpoint holds results of one order."""
    assert decided("SCHEME('tree')", Settings(units=units)).options == decided("SCHEME('tree')").options


def test_the_order_of_from_stays_where_none_is_noticeably_better() -> None:
    alike = SQL.replace("r.a < s.a", "r.a = s.a").replace("FROM r JOIN s", "FROM s JOIN r")
    assert decided("SCHEME('tree')", sql=alike).options == SchemeOptions()


def test_what_was_observed_chooses_no_order() -> None:
    """A new session would not know it."""
    catalog, _ = read_script(re.sub(r"OPTIONS \(.*?\)", "", STREAMS))

    class Seen:
        def types_of(self, texts: object, columns: object) -> tuple[str, ...]:
            return ()

        def table(self, name: tuple[str, ...]) -> TableInfo | None:
            found, rows = catalog.table(name), {"r": 1e6}.get(name[-1], 1.0)
            return found and TableInfo(found.columns, True, rows, rows_from="observed")

    sql = SQL.format("SCHEME('tree')").replace("s.b = ", "s.b < ")
    (observed,), (unknown,) = rewrite(sql, Seen()).groups, rewrite(sql, catalog).groups
    assert observed.decision.options == unknown.decision.options == SchemeOptions()
    assert best_order(model_of(observed, Settings(), None)) != (0, 1, 2)


def test_a_hint_writes_the_order_down() -> None:
    assert decided("SCHEME('tree(R, s, `the t`)')").options == SchemeOptions()
    assert decided("SCHEME('tree(`the t`, r, s)')").options.shown(("r", "s", "the t")) == {"order": "`the t`, r, s"}


@pytest.mark.parametrize(
    ("hint", "says"),
    [
        ("tree((r, s), `the t`)", "one relation after the other; write tree(r, s, t)"),
        ("tree(r, s)", "the group's relations are r, s, the t, each once"),
        ("tree(r, s, t)", "no relation 't'"),
        ("tree(r, s,)", "write tree(r, s, t)"),
    ],
)
def test_an_order_that_is_none_is_refused(hint: str, says: str) -> None:
    with pytest.raises(InvalidHintError, match=re.escape(says)):
        decided(f"SCHEME('{hint}')")


def join(*lines: str) -> SavedJoin:
    fingerprint = "\n".join(("scheme: tree", "order of streams: r, s, the t", *lines))
    return SavedJoin.from_dict({"fingerprint": fingerprint, "layouts": [[0, 3]]})


@pytest.mark.parametrize("hint", ["NO_UNIT_AGGREGATE", "SCHEME('tree')"])
def test_a_checkpoint_keeps_its_order(hint: str) -> None:
    """One without a word of it was written when the order was always that of FROM."""
    stored = groups_of([join("option order: 2,0,1")])
    assert stored == (Stored(("r", "s", "the t"), "tree", 3, ("the t", "r", "s")),)
    decision = decided(hint, Settings(stored=stored))
    assert (decision.scheme, decision.options.shown(("r", "s", "the t"))) == ("tree", {"order": "`the t`, r, s"})
    assert decided(hint, Settings(stored=groups_of([join()]))).options == SchemeOptions()
