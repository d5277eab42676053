"""Pairs of rows: ranges that become pairs, and predicates evaluated on pairs as Spark would."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trijoin_sql.operators.checks import Band, Compare
from trijoin_sql.operators.kernels.pairs import evaluate, expand

from trijoin_sql.errors import JoinOverflowError

from .reference import DOMAINS, INT64, OPS, compare, holds

RANGES = st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 9)), max_size=12)


@settings(max_examples=300)
@given(RANGES, st.integers(1, 12))
def test_expand_lists_every_pair_once(ranges: list[tuple[int, int]], block: int) -> None:
    """Empty ranges, ranges that end before they begin, blocks shorter than a range."""
    begin = np.array([first for first, _ in ranges], np.int64)
    end = np.array([first + length for first, length in ranges], np.int64)
    wanted = [(row, at) for row, (first, length) in enumerate(ranges) for at in range(first, first + length)]
    blocks = list(expand(begin, end, block))
    assert [pair for rows, at in blocks for pair in zip(rows.tolist(), at.tolist(), strict=True)] == wanted
    longest = max((length for _, length in ranges), default=0)
    assert all(len(rows) <= max(block, longest) for rows, _ in blocks)
    assert all(len(rows) for rows, _ in blocks)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", DOMAINS)
def test_every_comparison_of_every_type(name: str, op: str) -> None:
    """All pairs of border values and NULL; slices, because their buffers do not start at the first value."""
    type_, numbers = DOMAINS[name]
    pairs = list(product([*numbers, None], repeat=2))
    left = pa.array([None, *(x for x, _ in pairs)], type_).slice(1)
    right = pa.array([None, None, *(y for _, y in pairs)], type_).slice(2)
    found = evaluate(Compare(op, "x", "y"), left, right)
    assert found.dtype == np.bool_
    assert found.tolist() == [compare(op, x, y) for x, y in pairs]


NUMBERS = [*INT64, INT64[0] + 1, INT64[1] - 1, -(1 << 31), (1 << 31) - 1, -2, -1, 0, 1, 2, 5]


BOUNDS = [(-1, 1), (None, 2), (-2, None), (3, 1), INT64, (1, INT64[1]), (-(1 << 65), 1 << 65), (1 << 65, None)]


@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
def test_integer_bands_at_the_borders(lower: int | None, upper: int | None) -> None:
    """A difference of two 64-bit numbers needs 65 bits: a wrapped one is small and would match."""
    band = Band("x", "y", lower, upper)
    pairs = list(product([*NUMBERS, None], repeat=2))
    left, right = (pa.array([pair[side] for pair in pairs], pa.int64()) for side in (0, 1))
    wanted = [holds(band, {"x": x}, {"y": y}) for x, y in pairs]
    assert evaluate(band, left, right).tolist() == wanted
    assert evaluate(band.mirrored(), right, left).tolist() == wanted


NARROW = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "date": pa.date32()}


@pytest.mark.parametrize("among", [True, False])
@pytest.mark.parametrize(("lower", "upper"), BOUNDS)
@pytest.mark.parametrize("name", NARROW)
def test_bands_of_narrow_integers(name: str, lower: int | None, upper: int | None, among: bool) -> None:
    """They are decided in a few passes of their own; with NULLs, slices, and pairs that were ruled out before."""
    band = Band("x", "y", lower, upper)
    numbers = [number for number in (*NUMBERS, -128, 127) if abs(number + 0.5) < 1 << (7 if name == "int8" else 15)]
    pairs = list(product([*numbers, None], repeat=2))
    sides = [pa.array([None, *(pair[side] for pair in pairs)], NARROW[name]).slice(1) for side in (0, 1)]
    before = np.arange(len(pairs)) % 3 > 0 if among else None
    wanted = [holds(band, {"x": x}, {"y": y}) for x, y in pairs]
    if before is not None:
        wanted = [one and bool(ok) for one, ok in zip(wanted, before, strict=True)]
    assert evaluate(band, *sides, before).tolist() == wanted
    assert evaluate(band.mirrored(), *reversed(sides), before).tolist() == wanted
    assert evaluate(band, *(side.slice(0, 0) for side in sides)).tolist() == []


@pytest.mark.parametrize(
    ("x", "y", "raises"),
    [
        ((1 << 31) - 1, -1, True),
        (-(1 << 31), 1, True),
        ((1 << 31) - 1, 0, False),
        (-(1 << 31), 0, False),
        (-(1 << 31), -1, False),
        (0, -(1 << 31), True),
    ],
)
def test_a_difference_that_leaves_its_type_raises(x: int, y: int, raises: bool) -> None:
    """Spark in ANSI mode does; mirrored bands at exactly the other border."""
    band = Band("x", "y", -1, 1, limits=(-(1 << 31), (1 << 31) - 1), sql="ABS(r.x - s.y) < 2", type_name="int")
    left, right = pa.array([x], pa.int32()), pa.array([y], pa.int32())
    for check, sides in ((band, (left, right)), (band.mirrored(), (right, left))):
        if raises:
            with pytest.raises(JoinOverflowError, match="ABS"):
                evaluate(check, *sides)
        else:
            evaluate(check, *sides)


WIDE = [*INT64, INT64[0] + 1, INT64[1] - 1, -3, 0, 3]


@pytest.mark.parametrize("shift", [0, 1, -1, 5, -(1 << 40)])
@pytest.mark.parametrize("absolute", [0, 1])
def test_overflow_of_a_shifted_difference_at_the_borders_of_bigint(shift: int, absolute: int) -> None:
    """``ABS(x + 1 - y)`` overflows where x - y does not, and does not where x - y does: that takes 65 bits."""
    limits = INT64[0] + absolute - shift, INT64[1] - shift
    band = Band("x", "y", -3, 3, limits=limits, type_name="bigint")
    for x, y in product(WIDE, repeat=2):
        left, right = pa.array([x], pa.int64()), pa.array([y], pa.int64())
        for check, sides in ((band, (left, right)), (band.mirrored(), (right, left))):
            if limits[0] <= x - y <= limits[1]:
                assert evaluate(check, *sides).tolist() == [abs(x - y) <= 3]
            else:
                with pytest.raises(JoinOverflowError, match="bigint"):
                    evaluate(check, *sides)


def test_pairs_that_an_earlier_predicate_rules_out_do_not_overflow() -> None:
    band = Band("x", "y", -1, 1, limits=(-128, 127))
    left, right = pa.array([100, 5], pa.int8()), pa.array([-100, 5], pa.int8())
    with pytest.raises(JoinOverflowError):
        evaluate(band, left, right)
    assert evaluate(band, left, right, np.array([False, True])).tolist() == [False, True]


def test_null_does_not_overflow() -> None:
    """Spark's difference with NULL is NULL, whatever Arrow keeps in the null's slot."""
    band = Band("x", "y", -1, 1, limits=(-(1 << 31), (1 << 31) - 1))
    slots = pa.py_buffer(np.array([(1 << 31) - 1, 5], np.int32))
    filled = pa.Array.from_buffers(pa.int32(), 2, [pa.array([None, 5]).buffers()[0], slots])
    assert evaluate(band, filled, pa.array([-5, 5], pa.int32())).tolist() == [False, True]


@pytest.mark.parametrize("name", ["float", "double"])
@pytest.mark.parametrize("strict", [False, True])
def test_fractional_bands(name: str, strict: bool) -> None:
    """Infinity minus infinity is NaN, and NaN is above every upper bound; floats round as floats."""
    type_, numbers = DOMAINS[name]
    kind = "float32" if name == "float" else "float64"
    pairs = list(product([*numbers, 0.1, 0.25, None], repeat=2))
    pairs = [tuple(None if x is None else pa.scalar(x, type_).as_py() for x in pair) for pair in pairs]
    left, right = (pa.array([pair[side] for pair in pairs], type_) for side in (0, 1))
    for lower, upper in ((-1.5, 1.5), (0.0, 0.15), (-math.inf, 0.0), (0.0, math.inf)):
        band = Band("x", "y", lower, upper, strict, strict, kind)
        wanted = [holds(band, {"x": x}, {"y": y}) for x, y in pairs]
        assert evaluate(band, left, right).tolist() == wanted
        assert evaluate(band.mirrored(), right, left).tolist() == wanted
