"""Formulas of distances: arithmetic of doubles over pairs of rows, as Spark computes it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from trijoin_sql.operators.kernels.formulas import evaluate

LEFT = np.array([0.5, -0.25, 3.0, math.nan, 0.0])
RIGHT = np.array([0.25, -0.5, 3.0, 1.0, math.inf])


def leaf(name: str, _: int) -> npt.NDArray[np.float64]:
    return {"left": LEFT, "right": RIGHT, "difference": LEFT - RIGHT}[name]


ONE: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "negative": lambda x: -x,
    "exp": math.exp,
    "cos": math.cos,
    "atan": math.atan,
    "radians": math.radians,
    "degrees": math.degrees,
}


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one(name: str) -> None:
    found = evaluate((name, ("left", 0)), leaf)
    assert found.tolist() == pytest.approx([ONE[name](x) for x in LEFT], nan_ok=True)


def test_outside_of_their_domains_functions_are_nan() -> None:
    with np.errstate(invalid="ignore"):
        assert np.isnan(evaluate(("sqrt", ("left", 0)), leaf)).tolist() == [False, True, False, True, False]
        assert np.isnan(evaluate(("asin", ("left", 0)), leaf)).tolist() == [False, False, True, True, False]
        assert np.isnan(evaluate(("power", ("left", 0), ("number", 0.5)), leaf)).tolist()[1]


def test_nan_is_the_greatest_number() -> None:
    pair = ("left", 0), ("right", 0)
    assert evaluate(("greatest", *pair), leaf).tolist()[:3] == [0.5, -0.25, 3.0]
    assert math.isnan(evaluate(("greatest", *pair), leaf)[3])
    assert evaluate(("least", *pair), leaf).tolist() == [0.25, -0.5, 3.0, 1.0, 0.0]


def test_the_great_circle() -> None:
    """Haversine, from Berlin to Paris: 878 km."""
    places = {"left": (52.52, 13.405), "right": (48.8566, 2.3522)}
    there = {name: [math.radians(degrees) for degrees in place] for name, place in places.items()}

    def angle(name: str, number: int) -> npt.NDArray[np.float64]:
        if name == "difference":
            return np.array([there["left"][number] - there["right"][number]])
        return np.array([there[name][number]])

    def half(number: int) -> tuple[object, ...]:
        return "power", ("sin", ("/", ("difference", number), ("number", 2.0))), ("number", 2.0)

    cosines = "*", ("cos", ("left", 0)), ("cos", ("right", 0))
    formula = "*", ("number", 12742.0), ("asin", ("sqrt", ("+", half(0), ("*", cosines, half(1)))))
    assert evaluate(formula, angle).tolist() == pytest.approx([877.5], abs=1)
