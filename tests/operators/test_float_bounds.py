"""Bounds of differences of floats: the last number that is within, for every x."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from trijoin_sql.operators.checks import Band, EdgeSpec
from trijoin_sql.operators.kernels.float_bounds import closed, last_within
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
        x = np.array([*(random.normal(size=20) * 10.0 ** random.integers(-10, 10, 20)), *near, *ends], dtype)
        y, none = last_within(x, limit, single=single, below=below)

        def fulfils(
            one: Any, other: Any, constant: float = constant, strict: bool = strict, below: bool = below
        ) -> bool:
            difference = float(dtype(one) - dtype(other))
            if below:
                return difference > constant if strict else difference >= constant
            return difference < constant if strict else difference <= constant

        for one, last, nothing in zip(x, y.astype(dtype), none, strict=True):
            if nothing:
                assert not any(fulfils(one, other) for other in (-math.inf, math.inf, 0.0, one))
                continue
            further = np.nextafter(last, dtype(math.inf if below else -math.inf))
            assert fulfils(one, last), (one, constant)
            assert further == last or not fulfils(one, further), (one, constant)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_band_of_floats_is_decided_by_the_index(kind: Any) -> None:
    """As a band of integers is: its candidates need no second look, and ranges of an index can be counted."""
    plan = plan_probe(EdgeSpec(0, 1, (Band("a", "b", -0.1, 0.1, True, True, kind),)))
    assert plan.checks == ()
    one_sided = plan_probe(EdgeSpec(0, 1, (Band("a", "b", None, 0.1, True, True, kind),)))
    assert len(one_sided.checks) == 1  # NaN is above every number
