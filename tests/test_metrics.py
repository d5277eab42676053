"""Counters of a running query, as Spark reports them on classic and on Connect sessions."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import Row
from trijoin_sql.operators.task import reports
from trijoin_sql.operators.task.reports import LatestReports, reported

from trijoin_sql.running.metrics import BatchCounters, Metrics, compiled_number, live_groups, read_metrics


def slot(number: int, results: int, kept: int) -> str:
    return json.dumps(
        {
            "slot": number,
            "units": 1,
            "slots": 2,
            "results": results,
            "comparisons": 10 * results,
            "state_rows": kept,
            "state_bytes": 8,
        }
    )


QUERY = UUID(int=7)

#: Number, begin, milliseconds, and what each slot said.
BATCHES = [
    (0, "2024-05-01T10:00:00.000Z", 1000, [slot(1, 3, 5), slot(0, 2, 4)]),
    (1, "2024-05-01T10:00:10.000Z", 2000, [slot(0, 7, 9), slot(1, 0, 5)]),
]


def classic(*slots: str) -> Row:
    """An observed row of a classic session; what the slots said came by an accumulator."""
    return Row("packed")(len(slots))


def connect(*slots: str) -> Row:
    """An observed row as the JSON of a progress report on Connect has it."""
    return Row("values", "schema")([list(slots)], {"type": "struct", "fields": [{"name": "slots", "type": "array"}]})


def query(form: Any) -> Any:
    """A query with two micro-batches, ten seconds apart; the second took two."""
    recent = [
        SimpleNamespace(
            id=QUERY,
            runId="run",
            batchId=batch,
            timestamp=timestamp,
            batchDuration=took,
            numInputRows=60,
            observedMetrics={"__trijoin_1@4": form(*slots), "somebody else's": Row("n")(1)},
        )
        for batch, timestamp, took, slots in BATCHES
    ]
    return SimpleNamespace(recentProgress=recent, runId="run")


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the slots of the query reported in a classic session."""
    about = {(str(QUERY), batch): {json.loads(text)["slot"]: text for text in slots} for batch, _, _, slots in BATCHES}
    monkeypatch.setattr(reports, "_accumulators", {"__trijoin_1@4": SimpleNamespace(value=about)})


@pytest.mark.parametrize("form", [classic, connect])
def test_counters_are_read_slot_by_slot(form: Any) -> None:
    metrics = read_metrics(query(form))
    assert compiled_number(query(form)) == 4
    assert [(batch.node, batch.batch, [one["slot"] for one in batch.slots]) for batch in metrics.batches] == [
        ("__trijoin_1", 0, [0, 1]),
        ("__trijoin_1", 1, [0, 1]),
    ]
    total = metrics.total()
    assert (total["results"], total["comparisons"], total["state_rows"]) == (12, 120, 14)  # of a gauge the last


def late(*slots: dict[str, tuple[str, int, bool]]) -> tuple[dict[str, Any], ...]:
    """What slots say of late rows: by alias the stream, the rows, and whether it is filtered."""
    return tuple(
        {
            "late": sum(rows for _, rows, _ in one.values()),
            "late_rows": {
                alias: {"of": of, "rows": n, "filtered": cut, "behind": [n, *[0] * 6]}
                for alias, (of, n, cut) in one.items()
            },
        }
        for one in slots
    )


def test_a_late_row_of_a_self_join_counts_once() -> None:
    """Rows of one stream spread over slots by alias, so only sums over slots can be compared."""
    first = late({"p": ("r", 3, False), "q": ("r", 1, True)}, {"q": ("r", 1, True), "s": ("s", 2, False)})
    second = late({"p": ("r", 1, False), "q": ("r", 1, True)})
    joins = BatchCounters("__trijoin_1", 0, first), BatchCounters("__trijoin_1", 1, second)
    other = BatchCounters("__trijoin_2", 1, late({"p": ("r", 1, False)}))  # another join of the same query
    metrics = Metrics((*joins, other))
    assert metrics.late().streams == {"r": 3 + 1, "s": 2}
    assert metrics.late().inputs == {"p": 5, "q": 3, "s": 2}
    assert (metrics.total()["late"], joins[0].total()["late"], metrics.late().at_least) == (6, 5, False)
    assert metrics.late().how_late() == {"r": {"1 second": 4}, "s": {"1 second": 2}}


def test_aliases_with_conditions_of_their_own_may_have_dropped_different_rows() -> None:
    metrics = Metrics((BatchCounters("__trijoin_1", 0, late({"p": ("r", 3, True), "q": ("r", 2, True)})),))
    assert (metrics.total()["late"], metrics.late().at_least) == (3, True)
    alone = Metrics((BatchCounters("__trijoin_1", 0, late({"p": ("r", 3, True), "q": ("", 2, True)})),))
    assert (alone.late().streams, alone.late().at_least) == ({"r": 3, "q": 2}, False)


def test_the_reports_of_the_latest_micro_batches_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slot's once, however often a task was tried; those of another query apart, for its batches count anew."""
    kept, rule = SimpleNamespace(value={}), LatestReports(2)
    monkeypatch.setitem(reports._accumulators, "j@1", kept)
    for more in (
        {("a", 0): {0: "x"}},
        {("a", 1): {0: "tried"}},
        {("a", 1): {0: "y"}},
        {("a", 1): {1: "z"}, ("b", 1): {0: "w"}},
    ):
        kept.value = rule.addInPlace(kept.value, more)
    assert reported("j@1", "a", 1) == ["y", "z"]
    assert reported("j@1", "b", 1) == ["w"]
    assert reported("j@1", "a", 0) == [], "the oldest went"
    assert reported("j@2", "a", 1) == []


def test_an_attempt_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed attempt has said is no sign that the next one has computed."""
    monkeypatch.setitem(reports._accumulators, "j@1", SimpleNamespace(value={("a", 1): {0: "x"}, ("b", 1): {0: "y"}}))
    reports.forget_attempt("j@1", "a", 1)
    assert (reported("j@1", "a", 1), reported("j@1", "b", 1)) == ([], ["y"])


def test_estimates_stand_beside_what_came() -> None:
    expected = {"input rows a second": 3000.0, "results a second": 9.0, "rows kept": 100.0}
    planned = {"name": "__trijoin_1", "decision": {"expected": expected}, "graph": {"relations": ["r", "s"]}}
    document = {"groups": [planned, {"name": "another"}]}
    group, other = live_groups(document, read_metrics(query(classic)), {"__trijoin_1": [{"wanted": 3}]})
    assert group["live"]["estimates"] == expected
    assert group["live"]["actual"] == {
        "input rows a second": 10.0,  # 120 rows in 12 seconds
        "comparisons a second": 10.0,
        "results a second": 1.0,
        "rows kept": 14,
    }
    assert "live" not in other
    assert group["live"]["layout"] == {"units": 1, "slots": 2}, "one stores new rows, one more holds old ones"
    assert group["live"]["scaling"] == [{"wanted": 3}]


def test_selectivities_stand_beside_what_was_counted() -> None:
    """Of all slots and micro-batches; of relations whose pairs no slot counts there is nothing to say."""
    slots = ({**json.loads(slot(0, 1, 1)), "edges": {"r s pairs": 400, "r s found": 3}}, json.loads(slot(1, 1, 1)))
    later = {**slots[0], "edges": {"r s pairs": 600, "r s found": 7}}
    metrics = Metrics((BatchCounters("__trijoin_1", 0, slots), BatchCounters("__trijoin_1", 1, (later,))))
    known = [{"left": "r", "right": other, "share": 0.001, "share_from": "assumed"} for other in "st"]
    planned = {"name": "__trijoin_1", "decision": {"selectivities": known}, "graph": {"relations": ["r", "s", "t"]}}
    (group,) = live_groups({"groups": [planned]}, metrics, {})
    assert group["live"]["estimates"] == {"share of pairs of r and s that match": 0.001}
    assert group["live"]["actual"]["share of pairs of r and s that match"] == 0.01


def test_the_nodes_of_an_operator_tree_are_shown_by_themselves() -> None:
    """The root's counters were taken for the tree's, and what an inner node found for results of the query."""

    def said(number: int, results: int, kept: int, **inputs: int | None) -> dict[str, Any]:
        return {**json.loads(slot(number, results, kept)), "inputs": inputs}

    tree = Metrics(
        (
            BatchCounters("__trijoin_1", 0, ()),
            BatchCounters("__trijoin_1_inner", 0, (said(0, 4, 7, r=1, s=1), said(1, 2, 7, r=1))),
            BatchCounters("__trijoin_1", 1, (said(0, 5, 9, r_s=0, t=2),)),
            BatchCounters("__trijoin_1_inner", 1, (said(1, 1, 8, r=None, s=1),)),
        )
    )
    assert tree.total()["results"] == 5
    assert (tree.total()["comparisons"], tree.total()["state_rows"]) == (120, 9 + 8)
    planned = {"name": "__trijoin_1", "decision": {}, "graph": {"relations": ["r", "s", "t"]}}
    (group,) = live_groups({"groups": [planned]}, tree, {})
    live = group["live"]
    assert (live["counters"]["results"], live["actual"]["rows kept"]) == (5, 17)
    assert [(one["node"], one["counters"]["results"], one["counters"]["state_rows"]) for one in live["nodes"]] == [
        ("__trijoin_1", 5, 9),
        ("__trijoin_1_inner", 7, 8),
    ]
    assert [unit["rows"] for unit in live["units"]] == [9]
    assert {one["alias"] for one in live["inputs"]} == {"r", "s", "t"}, "what an inner node stores is no input"


def test_a_query_without_progress_has_no_counters() -> None:
    metrics = read_metrics(SimpleNamespace(recentProgress=[], runId="run"))  # type: ignore[arg-type]
    assert (metrics.batches, metrics.seconds) == ((), 0.0)
