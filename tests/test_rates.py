"""What a session's settings declare of rates, and what progress reports tell of them."""

from __future__ import annotations

import pytest
from trijoin_sql.operators.state.layout import History
from trijoin_sql.rewriter.options import CostDefaults, Stored

from trijoin_sql import InvalidSettingError
from trijoin_sql.running.checkpoint import Join, read_stored
from trijoin_sql.spark.rates import ObservedRates, cost_defaults, declared_rate

PLAN = """\
~Join Inner
:- SubqueryAlias a
:  +- ~SubqueryAlias r
:     +- View (`r`, [v#1])
:        +- ~StreamingRelationV2 RateProvider@1, rate, [v#1]
:- SubqueryAlias b
:  +- ~SubqueryAlias r
:     +- View (`r`, [v#1])
:        +- ~StreamingRelationV2 RateProvider@1, rate, [v#1]
+- SubqueryAlias spark_catalog.default.s
   +- StreamingRelation FileSource[s], [v#2]
"""


def progress(second: int, *rows: int) -> dict[str, object]:
    sources = [{"numInputRows": count} for count in rows]
    return {"id": "q", "timestamp": f"2026-01-01T00:00:{second:02}.000Z", "sources": sources}


def test_rows_a_second_are_those_after_the_first_batch() -> None:
    """The first takes what had piled up; a source that is read twice is counted twice by Spark."""
    observed = ObservedRates()
    observed.started("q", PLAN)
    assert observed.rates() == {}
    observed.progressed(progress(0, 100_000, 0))
    assert observed.rates() == {}
    observed.progressed(progress(2, 40, 3))
    observed.progressed(progress(10, 160, 17))
    assert observed.rates() == {"r": 10.0, "spark_catalog.default.s": 2.0}
    observed.progressed(progress(20, 1))
    assert observed.rates()["r"] == 10.0, "a report that does not fit is left out"


def test_settings_are_read_by_name_and_checked() -> None:
    settings = {"spark.trijoin.rate.Orders": "7", "spark.trijoin.rate.db.t": "0.5", "spark.trijoin.rate.bad": "-1"}
    assert declared_rate(settings.get, ("Orders",)) == 7
    assert declared_rate(settings.get, ("DB", "T")) == 0.5
    assert declared_rate(settings.get, ("t",)) is None
    with pytest.raises(InvalidSettingError, match="above 0"):
        declared_rate(settings.get, ("bad",))


def test_selectivities_are_settings() -> None:
    """What is declared holds for any history; what is assumed does not say that a row finds a million partners."""
    assert cost_defaults({}.get) == CostDefaults()
    declared = cost_defaults({"spark.trijoin.selectivity.band": "0.2"}.get)
    assert dict(declared.selectivity)["band"] == 0.2
    assert declared.partners == float("inf")
    with pytest.raises(InvalidSettingError, match="share of pairs"):
        cost_defaults({"spark.trijoin.selectivity.equi": "2"}.get)


def join(scheme: str, relations: str, units: int, *lines: str) -> Join:
    text = "\n".join((f"scheme: {scheme}", f"order of streams: {relations}", *lines))
    return Join(text, History(((0, 9), (4, units))))


def test_a_checkpoint_tells_how_its_groups_are_stored() -> None:
    """Joins of one operator tree are one group: a node reads results under the names of their members."""
    chain = join("semi_symmetric", "a, b, c", 3, "condition between a and b: a.x < b.x")
    tree = [
        join("biclique", "r, s", 2),
        join("biclique", "t, u v", 2),
        join("matrix", "r_s, t_u v, w", 2, "units: 5"),
    ]
    found = read_stored([chain, *tree])
    assert found[0] == Stored(("a", "b", "c"), "semi_symmetric", 3, None, ("a.x < b.x",))
    assert found[-1] == Stored(("r", "s", "t", "u v", "w"), "operator_tree", 5, "(r, s), (t, `u v`), w")


def test_a_join_over_a_relation_with_the_name_of_a_trees_node_is_found_too() -> None:
    # WITH r_s AS (SELECT ... FROM r JOIN s ...) SELECT ... FROM r_s JOIN t: two groups, and no operator tree.
    found = read_stored([join("biclique", "r_s, t", 2), join("matrix", "r, s", 4, "units: 4")])
    assert Stored(("r", "s"), "matrix", 4) in found
    assert Stored(("r_s", "t"), "biclique", 2) in found
