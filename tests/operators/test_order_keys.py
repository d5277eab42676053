"""Order keys: Spark's order for every type, as int64."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trijoin_sql.operators.kernels.order_keys import HIGHEST, LOWEST, float_key, is_exact, order_key, plus, values

from .reference import DOMAINS, order


def assert_ordered(array: pa.Array, numbers: list[Any]) -> None:
    """Compare the keys of all pairs with Spark's order of the values."""
    keys = order_key(array).tolist()
    exact = is_exact(array.type)
    for (one, x), (other, y) in product(zip(keys, numbers, strict=True), repeat=2):
        if x is None or y is None:
            continue
        if order(x) < order(y):
            assert one < other if exact else one <= other, (x, y)
        elif order(x) == order(y):
            assert one == other, (x, y)


@pytest.mark.parametrize("name", DOMAINS)
def test_order_at_the_borders_of_every_type(name: str) -> None:
    type_, numbers = DOMAINS[name]
    assert_ordered(pa.array(numbers, type_), numbers)


@pytest.mark.parametrize("name", DOMAINS)
def test_slices_and_nulls_do_not_shift_keys(name: str) -> None:
    """A slice's buffers start before its first value; a null's slot may hold anything."""
    type_, numbers = DOMAINS[name]
    mixed = [None, *(x for number in numbers for x in (number, None))]
    whole = pa.array(mixed, type_)
    assert_ordered(whole, mixed)
    for start in range(4):
        assert_ordered(whole.slice(start, len(mixed) - start - 1), mixed[start:-1])
    assert len(order_key(whole.slice(0, 0))) == 0
    assert len(order_key(pa.nulls(3, type_))) == 3


@pytest.mark.parametrize("name", DOMAINS)
def test_which_types_are_exact(name: str) -> None:
    """An inexact key that is taken for exact joins 'aaaaaaaab' with 'aaaaaaaac'."""
    type_, numbers = DOMAINS[name]
    different = len({order(number) for number in numbers})
    assert is_exact(type_) == (name not in ("string", "binary", "wide_decimal"))
    if is_exact(type_):
        assert len(np.unique(order_key(pa.array(numbers, type_)))) == different


@pytest.mark.parametrize("type_", [pa.large_string(), pa.large_binary()])
def test_large_strings_are_strings(type_: pa.DataType) -> None:
    """Spark sends them where arrow.useLargeVarTypes is on."""
    numbers = DOMAINS["string"][1] if type_ == pa.large_string() else DOMAINS["binary"][1]
    assert not is_exact(type_)
    assert_ordered(pa.array(numbers, type_).slice(2), numbers[2:])


@pytest.mark.parametrize("type_", [pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.month_day_nano_interval()])
def test_types_without_an_order_are_refused(type_: pa.DataType) -> None:
    """Silence would be a wrong join."""
    with pytest.raises(TypeError):
        is_exact(type_)
    with pytest.raises(TypeError):
        order_key(pa.nulls(1, type_))


@settings(max_examples=150)
@given(st.lists(st.text(alphabet="\0ab Ä\uffff😀", max_size=12), max_size=12))
def test_strings_by_bytes(texts: list[str]) -> None:
    assert_ordered(pa.array(texts, pa.string()), texts)


@settings(max_examples=150)
@given(st.lists(st.floats(width=32), max_size=12), st.sampled_from([pa.float32(), pa.float64()]))
def test_floats(numbers: list[float], type_: pa.DataType) -> None:
    assert_ordered(pa.array(numbers, type_), numbers)


#: Unscaled decimals of every length, and where 128 bits in two words could go wrong.
WIDE = st.one_of(
    st.sampled_from(
        [sign * (1 << bits) + by for sign in (-1, 1) for bits in (0, 56, 57, 63, 64, 65, 120) for by in (-1, 0, 1)]
    ),
    st.sampled_from([0, 10**38 - 1, 1 - 10**38, 10**38 - 2]),
    st.integers(1, 126).flatmap(lambda bits: st.integers(-min(1 << bits, 10**38 - 1), min(1 << bits, 10**38 - 1))),
)


def unscaled(numbers: list[int]) -> pa.Array:
    return pa.array([Decimal(number) for number in numbers], pa.decimal128(38, 0))


@settings(max_examples=150)
@given(st.lists(WIDE, max_size=24))
def test_wide_decimals(numbers: list[int]) -> None:
    assert_ordered(unscaled(numbers), numbers)


def test_wide_decimals_of_few_digits_have_keys_of_their_own() -> None:
    """The high word of all of them is 0 or -1: every stored row was a candidate of every probe."""
    numbers = [
        sign * number for number in (*range(2000), 10**16, 10**16 + 1, (1 << 57) - 1, 1 << 57) for sign in (-1, 1)
    ]
    assert len(np.unique(order_key(unscaled(numbers)))) == len(set(numbers))
    large = [
        sign * (number << shift)
        for sign in (-1, 1)
        for shift in (1, 40, 68)
        for number in range(1 << 56, (1 << 56) + 50)
    ]
    assert len(np.unique(order_key(unscaled(large)))) == len(set(large))


def test_all_bit_patterns_of_nan_are_one_value() -> None:
    """Spark's NaN equals NaN, whichever bits it has, and is above infinity."""
    bits = np.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFF8000000000001, 0xFFFFFFFFFFFFFFFF], np.uint64)
    keys = float_key(bits.view(np.float64))
    assert len(np.unique(keys)) == 1
    assert keys[0] > float_key(np.array([math.inf]))[0]


@settings(max_examples=200)
@given(
    st.sampled_from([LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST]),
    st.sampled_from([-(1 << 70), LOWEST, LOWEST + 1, -5, -1, 0, 1, 5, HIGHEST, 1 << 70]),
)
def test_plus_stops_at_the_borders(key: int, amount: int) -> None:
    """A wrapped bound turns a full range into an empty one."""
    wanted = max(min(key + amount, HIGHEST), LOWEST)
    assert plus(np.array([key]), amount).tolist() == [wanted]


def test_values_of_booleans_are_refused() -> None:
    """They are bits: reading them as bytes would give eight rows' values for one."""
    with pytest.raises(TypeError):
        values(pa.array([True, False]))
