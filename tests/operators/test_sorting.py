"""Sorting keys: the order is a stable one for any range of keys, and range ends are those of a binary search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trijoin_sql.operators.kernels import sorting
from trijoin_sql.operators.kernels.order_keys import HIGHEST, LOWEST, float_key, order_key
from trijoin_sql.operators.kernels.sorting import forget, range_ends, ranges, sort_column, sort_keys

KEYS = st.one_of(st.integers(-3, 3), st.sampled_from([LOWEST, LOWEST + 1, -1, 0, HIGHEST - 1, HIGHEST]))


@given(st.lists(KEYS, max_size=40), st.sampled_from([1, 7]))
def test_any_keys_are_sorted_stably(keys, times):
    array = np.array(keys * times, np.int64)
    order, ordered = sort_keys(array)
    assert order.tolist() == np.argsort(array, kind="stable").tolist()
    assert ordered.tolist() == sorted(array.tolist())


@pytest.fixture(params=[True, False])
def fast(request, monkeypatch):
    """Sort as on a machine where NumPy sorts fast, and as where it does not."""
    monkeypatch.setattr(sorting, "_sorts_fast", lambda: request.param)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("count", [3, 500, 5000])
@pytest.mark.parametrize("span", [1, 1 << 15, 1 << 20, 1 << 31, 1 << 33, 1 << 46, 1 << 56, 1 << 62, 1 << 63])
def test_keys_of_any_span_are_sorted_stably(span, count):
    """By comparison, by one to four digits, or with the rows' numbers: the limits of each are among the spans."""
    array = np.random.default_rng(1).integers(-span, span, count)
    array[1], array[2] = max(-span, LOWEST), span - 1
    array[: count // 3] = array[-(count // 3) :]
    order, ordered = sort_keys(array)
    assert (order == np.argsort(array, kind="stable")).all()
    assert (ordered == np.sort(array)).all()


@given(
    st.lists(st.integers(0, 30), max_size=300),
    st.lists(st.tuples(st.integers(-1, 31), st.integers(0, 40))),
    st.sampled_from([1, 300]),
)
def test_range_ends_are_those_of_a_binary_search(keys, probes, times):
    """Few probes are searched for, many walk."""
    ordered = np.sort(np.array(keys, np.int64))
    probes = np.array(sorted(probes * times), np.int64).reshape(-1, 2)
    begin, upper = np.searchsorted(ordered, probes[:, 0], "left"), probes[:, 0] + probes[:, 1] - 2
    for right in (True, False):
        wanted = np.maximum(np.searchsorted(ordered, upper, "right" if right else "left"), begin)
        assert range_ends(ordered, begin, upper, right=right).tolist() == wanted.tolist()


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=100),
    st.sampled_from([LOWEST, LOWEST + 1, -30, HIGHEST - 61, HIGHEST - 60]),
    st.lists(st.tuples(KEYS, st.integers(-2, 62), st.integers(-2, 62)), max_size=20),
)
def test_ranges_are_those_of_two_binary_searches(keys, least, probes):
    """Many probes among few numbers look into a table, the first search and a later one; borders of int64 have none."""
    forget()
    ordered = np.sort(np.array(keys, np.int64) + least)
    near = [
        (max(min(least + one, HIGHEST), LOWEST), max(min(least + other, HIGHEST), LOWEST)) for _, one, other in probes
    ]
    bounds = np.array([*near, *((far, far) for far, _, _ in probes)] * 20, np.int64).reshape(-1, 2)
    lower, upper = bounds[:, 0], bounds[:, 1]
    for lower_right, upper_right in ((False, True), (True, False), (True, True)):
        begin, end = ranges(ordered, lower, upper, lower_right=lower_right, upper_right=upper_right)
        wanted = np.searchsorted(ordered, lower, "right" if lower_right else "left")
        assert begin.tolist() == wanted.tolist()
        wanted = np.maximum(np.searchsorted(ordered, upper, "right" if upper_right else "left"), wanted)
        assert end.tolist() == wanted.tolist()


#: Long keys: by name, as many as are asked for, and whether a table by buckets of equal width has them.
LONG: dict[str, tuple[Callable[[np.random.Generator, int], Any], bool]] = {
    "uniform": (lambda rng, n: float_key(rng.uniform(-100, 100, n)), True),
    "normal": (lambda rng, n: float_key(rng.normal(size=n)), True),
    "cents": (lambda rng, n: float_key(rng.integers(0, 2 * n, n) / 100), True),
    "skewed": (lambda rng, n: float_key(rng.lognormal(0, 3, n)), True),
    "hashes": (lambda rng, n: rng.integers(LOWEST, HIGHEST, n, endpoint=True), True),
    "microseconds": (lambda rng, n: rng.integers(10**15, 10**15 + 10**12, n), True),
    "some are NaN, infinities and -0.0": (
        lambda rng, n: float_key(
            np.where(rng.random(n) < 0.001, rng.choice([np.nan, np.inf, -np.inf, -0.0], n), rng.normal(size=n))
        ),
        True,
    ),
    "many are NaN": (lambda rng, n: float_key(np.where(rng.random(n) < 0.5, np.nan, rng.normal(size=n))), False),
    "subnormal": (lambda rng, n: float_key(rng.integers(-99 * n, 99 * n, n) * 5e-324), True),
    "of all sizes": (lambda rng, n: float_key(rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n)), True),
    "further apart than a float": (lambda rng, n: float_key(rng.uniform(-1, 1, n) * 1.7e308), False),
    "many are alike": (lambda rng, n: float_key(rng.zipf(1.3, n).astype(np.float64) / 3), False),
    "one number": (lambda rng, n: np.full(n, float_key(np.array([0.1]))[0]), False),
    "close to each other, one far": (lambda rng, n: np.append(rng.integers(0, 100, n - 1), HIGHEST), False),
    "close to each other, some far": (lambda rng, n: np.append(rng.integers(0, 10**9, n - 2), [LOWEST, HIGHEST]), True),
}


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("kind", LONG)
def test_long_keys_are_sorted_stably(kind):
    keys = LONG[kind][0](np.random.default_rng(3), 9000)
    order, ordered = sort_keys(keys)
    assert (order == np.argsort(keys, kind="stable")).all()
    assert (ordered == np.sort(keys)).all()


@pytest.mark.parametrize("count", [5000, 20_000])
@pytest.mark.parametrize("kind", LONG)
def test_ranges_of_long_keys_are_those_of_two_binary_searches(kind, count):
    """Bounds that are keys, or next to one, or far from all; ends before beginnings; buckets where they are even."""
    make, buckets = LONG[kind]
    rng = np.random.default_rng(4)
    keys = np.sort(make(rng, count))
    off = rng.integers(-2, 3, 10_000)
    lower = np.sort(np.where(rng.random(10_000) < 0.5, make(rng, 10_000), rng.choice(keys, 10_000)))
    lower = np.where((lower > LOWEST + 2) & (lower < HIGHEST - 2), lower + off, lower)
    lower[:50], lower[50:100] = LOWEST, HIGHEST
    upper = np.maximum(lower, np.roll(lower, -3))
    upper[200:300] = rng.permutation(upper)[200:300]
    for lower_right, upper_right in ((False, True), (True, False)):
        forget()
        begin, end = ranges(keys, lower, upper, lower_right=lower_right, upper_right=upper_right)
        wanted = np.searchsorted(keys, lower, "right" if lower_right else "left")
        assert (begin == wanted).all()
        assert (end == np.maximum(np.searchsorted(keys, upper, "right" if upper_right else "left"), wanted)).all()
    assert any(table.scale is not None for _, table in sorting._tables.values()) == buckets


FLOATS = st.one_of(st.integers(-9, 9).map(float), st.floats(-9, 9), st.floats(), st.sampled_from([2.0**52, -(2.0**53)]))


@given(
    st.lists(st.one_of(st.integers(-8, 8).map(float), FLOATS), min_size=1, max_size=60), st.lists(FLOATS, max_size=20)
)
def test_ranges_of_whole_floats_are_those_of_two_binary_searches(numbers, probes):
    """Bounds need not be whole, nor finite; keys that are not whole have no table."""
    for some in (numbers, [float(round(number)) for number in numbers if abs(number) < 100] or [0.0]):
        forget()
        ordered = np.sort(float_key(np.array(some)))
        wanted = float_key(np.array([*probes, *(probe + 1 for probe in probes)] * 20, np.float64))
        for right in (False, True):
            begin, end = ranges(ordered, wanted, wanted, lower_right=False, upper_right=right)
            assert begin.tolist() == np.searchsorted(ordered, wanted, "left").tolist()
            assert end.tolist() == np.searchsorted(ordered, wanted, "right" if right else "left").tolist()


@given(
    st.lists(st.sampled_from([-2, -1, 0, 1 << 62, 0x3FF << 52]), min_size=1, max_size=20),
    st.lists(st.integers(-4, 4), min_size=1, max_size=9),
)
def test_ranges_of_integers_whose_bits_are_whole_floats(keys, probes):
    """Cells of infinities lie at 2**62, the bits of 2.0, and -1 has those of -0.0: cells -1 and 0 are two cells."""
    forget()
    ordered = np.sort(np.array(keys, np.int64))
    wanted = np.array([*probes, 1 << 62] * 40, np.int64)
    for right in (False, True):
        begin, end = ranges(ordered, wanted, wanted, lower_right=False, upper_right=right)
        assert begin.tolist() == np.searchsorted(ordered, wanted, "left").tolist()
        assert end.tolist() == np.searchsorted(ordered, wanted, "right" if right else "left").tolist()


def test_the_table_of_an_index_is_for_its_keys_alone():
    """It is remembered by the address of the keys, which others must not come to have while it is."""
    forget()
    for seed in range(50):
        keys = np.sort(np.random.default_rng(seed).integers(0, 100, 50))
        wanted = np.arange(-5, 105)
        assert (
            ranges(keys, wanted, wanted, lower_right=False, upper_right=True)[1]
            == np.searchsorted(keys, wanted, "right")
        ).all()
        del keys


def test_a_column_is_remembered_by_its_buffers_and_no_longer_than_them():
    """An address that is used again, by another column, must not bring back the order of the first."""
    forget()
    for seed in range(50):
        column = pa.array(np.random.default_rng(seed).integers(0, 1000, 1000))
        for part in (column, column.slice(100, 500), column.slice(200, 500)):
            order, keys = sort_column(part)
            assert (keys == np.sort(order_key(part))).all()
            assert (order_key(part)[order] == keys).all()
        del column, part
    same = pa.array([3, 1, 2])
    assert sort_column(same)[0] is sort_column(same)[0]
    forget()
    numbers = pa.array([3.5, -1.0, 2.0])
    assert sort_column(numbers)[0].tolist() == [1, 2, 0]
