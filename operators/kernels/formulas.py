"""Arithmetic of doubles over pairs of rows, as Spark computes it: what NEAREST BY calls a distance.

NumPy's functions and Java's may differ in the last bit. That matters only between two rows that are as good as equally
close.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

#: By name what a formula calls; `rewriter.closest` reads no others. NaN is Spark's greatest number.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "negative": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "radians": np.radians,
    "degrees": np.degrees,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "power": np.power,
    "pow": np.power,
    "greatest": lambda *values: reduce(np.maximum, values),
    "least": lambda *values: reduce(np.fmin, values),
}


def evaluate(formula: tuple[Any, ...], leaf: Callable[[str, int], Doubles]) -> Any:
    """Return a formula's values, shape (k,).

    Parameters
    ----------
    formula
        A function's name and its arguments, which are formulas; ``("number", 2.0)``; or a leaf: ``("left", 0)``,
        ``("right", 0)`` or ``("difference", 0)``.
    leaf
        Returns the values of a leaf.
    """
    name, *arguments = formula
    if name == "number":
        return np.float64(arguments[0])
    if name in ("left", "right", "difference"):
        return leaf(name, arguments[0])
    return _FUNCTIONS[name](*(evaluate(one, leaf) for one in arguments))
