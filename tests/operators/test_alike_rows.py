"""Rows that are alike are spread over the units of their subgroup; a task that is tried again sends the same ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trijoin_sql.operators.batches.ipc import from_bytes
from trijoin_sql.operators.checks import EdgeSpec
from trijoin_sql.operators.spec import JoinSpec
from trijoin_sql.operators.task import dispatch, micro_batch
from trijoin_sql.operators.task.dispatch import AlikeRows, Dispatcher, Reading

from .reference import streams


def spread(*pieces: list[int], first: int = 0) -> list[int]:
    alike = AlikeRows(first)
    batches = [
        pa.record_batch({"x": pa.array(piece, pa.int64()), "route": pa.array(piece, pa.int64())}) for piece in pieces
    ]
    return [route for batch in batches for route in alike.spread(batch, "route").column("route").to_pylist()]


def test_the_nth_of_alike_rows_gets_its_route_plus_n() -> None:
    assert spread([5, 5, 70], [70, 5, 90], [], [5, -3]) == [5, 6, 70, 71, 7, 90, 8, -3]


@given(st.lists(st.lists(st.integers(-4, 4), max_size=8), max_size=5), st.randoms(use_true_random=False))
def test_the_order_and_the_cut_of_rows_do_not_matter(pieces: list[list[int]], random) -> None:  # type: ignore[no-untyped-def]
    """A shuffle brings them in another order when the task is tried again: as a bag it must send the same."""
    rows = [row for piece in pieces for row in piece]
    random.shuffle(rows)
    cut = random.randint(0, len(rows))
    assert Counter(spread(*pieces)) == Counter(spread(rows[:cut], rows[cut:]))


@pytest.mark.parametrize("units", [2, 4, 7])
def test_a_heavy_key_is_spread_evenly(units: int) -> None:
    """Where a row is nothing but its key, its hash alone would store all of them in one unit."""
    routes = np.array(spread([123456789] * 700, [123456789] * 300))
    counts = np.bincount(np.mod(routes, units), minlength=units)
    assert counts.max() - counts.min() <= 1


def test_routes_of_many_unlike_rows_stay() -> None:
    routes = np.random.default_rng(1).integers(-(2**62), 2**62, 50_000).tolist()
    assert spread(routes[:30_000], routes[30_000:]) == routes


@pytest.mark.parametrize("a_batch", [1, 3, 8])
def test_a_heavy_key_of_few_rows_a_micro_batch_is_spread_too(a_batch: int) -> None:
    """Each micro-batch would begin with the same unit again."""
    routes = [route for batch in range(40) for route in spread([123456789] * a_batch, first=batch)]
    counts = np.bincount(np.mod(routes, 8), minlength=8)
    assert counts.max() - counts.min() <= a_batch


def test_a_micro_batch_and_its_partitions_have_turns_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatcher asks Spark for them; a query over tables, which has no micro-batches, has none."""
    context = SimpleNamespace(getLocalProperty=lambda _name: "5", partitionId=lambda: 2)
    monkeypatch.setattr(micro_batch.TaskContext, "get", lambda: context)
    spec = JoinSpec("j", streams(2, ("x",)), (EdgeSpec(0, 1, ()),), "biclique", 2)
    spec = replace(spec, streams=tuple(replace(one, alike=True) for one in spec.streams))
    rows = pa.RecordBatch.from_pydict({"id": [1, 1], "x": [1, 1], "route": [70, 70]})
    monkeypatch.setattr(
        dispatch, "for_this_batch", lambda one: SimpleNamespace(spec=one, calls_all=lambda _batch: False)
    )
    (packed, *_) = Dispatcher(spec, [Reading(0)])(iter([rows]))
    assert from_bytes(packed["data"][0].as_py())["route"].to_pylist() == [77, 78]
    context.getLocalProperty = lambda _name: None
    (packed, *_) = Dispatcher(spec, [Reading(0)])(iter([rows]))
    assert from_bytes(packed["data"][0].as_py())["route"].to_pylist() == [70, 71]
