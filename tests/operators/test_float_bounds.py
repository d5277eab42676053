"""Bounds of differences of floats: the last number that is within, for every x."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from trijoin_sql.operators.checks import Band, EdgeSpec
from trijoin_sql.operators.kernels.float_bounds import closed, last_within
from trijoin_sql.operators.kernels.order_keys import float_key, mirrored
from trijoin_sql.operators.store.probe_plan import plan_probe

LIMITS = [0.0, 1.0, 5.0, 0.1, -0.1, -5.0, 1e-300, 1e300, -1e300, 3.5e38, 1e-45, 5e-324]


@np.errstate(all="ignore")
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_the_last_number_within_is_within_and_the_next_is_not(single: bool, below: bool, strict: bool) -> None:
    """Sizes far apart, near the bound, at the ends of the type: where rounding hides many digits of y."""
    random = np.random.default_rng(4)
    dtype: Any = np.float32 if single else np.float64
    limits = [*LIMITS, *(random.normal(size=60) * 10.0 ** random.integers(-8, 9, 60))]
    for constant in limits:
        limit = closed(constant, strict=strict, single=single, below=below)
        if not math.isfinite(limit):
            continue
        near = constant + random.normal(size=8) * 1e-16 * constant
        ends = [0.0, -0.0, constant, math.nextafter(constant, math.inf), 2 * constant, math.inf, -math.inf, math.nan]
        far = random.normal(size=400) * 10.0 ** random.integers(-10, 10, 400)
        times = (constant or 1.0) * np.array([3, 3.5, 4, 4.5, 5, 6, 8, 9, -2, -3, -3.5, -4, -7, -8])
        off = times * (1 + random.integers(-4, 5, (9, 1)) * np.finfo(dtype).eps)
        x = np.sort(np.array([*far, *off.ravel(), *near, *ends], dtype))
        keys, nothing = last_within(x, limit, single=single, below=below)
        y, none = _at(keys, dtype, below), np.zeros(len(x), np.bool_) if nothing is None else nothing
        # Sorted rows are searched for in the order of their bounds.
        assert (keys[~none][1:] >= keys[~none][:-1]).all()

        def fulfils(
            one: Any, other: Any, constant: float = constant, strict: bool = strict, below: bool = below
        ) -> Any:
            difference = (one - other).astype(np.float64)
            if below:
                return difference > constant if strict else difference >= constant
            return difference < constant if strict else difference <= constant

        for other in (-math.inf, math.inf, 0.0, x[none]):
            assert not fulfils(x[none], dtype(other)).any()
        x, y = x[~none], y[~none]
        further = np.nextafter(y, dtype(math.inf if below else -math.inf))
        assert fulfils(x, y).all(), (x[~fulfils(x, y)], constant)
        assert (~fulfils(x, further) | (further == y)).all(), (x[fulfils(x, further)], constant)


def _at(keys: Any, dtype: Any, below: bool) -> Any:
    """Return the numbers that keys let in last: the greatest up to a key, or the least from a key on."""
    inwards = dtype(-math.inf if below else math.inf)
    numbers = mirrored(keys).view(np.float64).astype(dtype)
    outside = float_key(numbers) > keys if below else float_key(numbers) < keys
    return np.where(outside, np.nextafter(numbers, inwards), numbers)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_band_of_floats_is_decided_by_the_index(kind: Any) -> None:
    """As a band of integers is: its candidates need no second look, and ranges of an index can be counted."""
    plan = plan_probe(EdgeSpec(0, 1, (Band("a", "b", -0.1, 0.1, True, True, kind),)))
    assert plan.checks == ()
    one_sided = plan_probe(EdgeSpec(0, 1, (Band("a", "b", None, 0.1, True, True, kind),)))
    assert len(one_sided.checks) == 1  # NaN is above every number
