"""Rows that vanish without an error are said, once, from made-up reports of slots."""

from __future__ import annotations

from typing import Any

from trijoin_sql.running.vanished import IDLE, Vanished, phrases


def slot(came: dict[str, int | None], **nulls: Any) -> dict[str, Any]:
    return {"inputs": came} | ({"null_rows": nulls} if nulls else {})


def nulls(rows: int, dropped: int, **columns: int) -> dict[str, Any]:
    return {"rows": rows, "dropped": dropped, "time": "ts", "columns": columns}


def test_rows_without_event_time_are_said_once_and_counted() -> None:
    vanished = Vanished()
    (said,) = vanished.add([slot({"r": 5, "s": 5}), slot({"r": None, "s": 5}, r=nulls(9, 2, ts=2))])
    assert said.startswith("2 rows of r without event time, dropped: ts is NULL; a column that the data do not have")
    assert vanished.add([slot({"r": 5, "s": 5}, r=nulls(4, 1, ts=1))]) == []
    assert list(phrases(vanished.rows)) == ["3 rows of r cannot join (NULL: ts in 3)"]
    assert vanished.said == [said]
    assert str(vanished) == f"3 rows of r cannot join (NULL: ts in 3)\n{said}"
    assert repr(vanished) == f"<Vanished: 3 rows of r cannot join (NULL: ts in 3); {said}>"
    assert repr(Vanished()) == "<Vanished: no row has vanished>"


def test_a_column_that_is_always_null_is_said_and_one_that_sometimes_is_not() -> None:
    """NULL in a joined column is ordinary SQL; NULL in all rows is a column that nobody has."""
    vanished = Vanished()
    (said,) = vanished.add([slot({"r": None, "s": 5}, r=nulls(20, 20, x=20, y=3))])
    assert said.startswith("no row of r can join: x is NULL in all 20 rows so far; ")
    usual = Vanished()
    assert usual.add([slot({"r": 5, "s": 5}, r=nulls(20, 19, x=19))]) == []
    assert usual.rows["r"]["dropped"] == 19


def test_an_input_that_brings_nothing_is_said_after_some_micro_batches() -> None:
    vanished = Vanished()
    batch = [slot({"r": None, "s": 5, "__trijoin_2": None})]
    said = [text for _ in range(IDLE + 2) for text in vanished.add(batch)]
    assert said == [
        "no row of r has come, so nothing joins; while its stream brings none, the watermark waits for it, "
        "and no state expires"
    ]
    assert vanished.silent(while_others=True) == []  # said already
    assert Vanished().silent(while_others=True) == []


def test_an_input_whose_rows_are_all_dropped_before_the_join_is_not_called_silent() -> None:
    """By a filter, or by an empty table that it is joined with: its stream has brought rows; the watermark moves."""
    vanished = Vanished()
    for rows in ([0, 7], [0, 7], [9, 7]):
        vanished.read(rows)
        vanished.add([slot({"r": None, "s": 5})])
    assert vanished.said == [
        "no row of r is left to join: conditions on it, or a table that it is joined with first, drop all so far"
    ]
    vanished = Vanished()
    vanished.read([0, 7])
    vanished.add([slot({"r": None, "s": 5})])
    assert vanished.silent(while_others=True)[0].startswith("no row of r has come")


def test_a_query_that_ends_early_says_it_at_its_end() -> None:
    vanished = Vanished()
    assert vanished.add([slot({"r": None, "s": 0})]) == []
    assert len(vanished.silent(while_others=True)) == 1
