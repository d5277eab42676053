"""Rows that are alike are spread over the units of their subgroup; a task that is tried again sends the same ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trijoin_sql.operators.task.dispatch import AlikeRows


def spread(*pieces: list[int]) -> list[int]:
    alike = AlikeRows()
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
