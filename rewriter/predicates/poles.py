"""Latitudes beyond the poles, of which a distance on a globe says nothing.

A cosine may be negative there, and a haversine small although the latitudes are far apart. Where no condition such as
``r.lat BETWEEN -90 AND 90`` rules them out, a band holds unless a latitude is beyond (`distances.Near.unless`). Nothing
is near NULL, NaN or infinity, whose cosine is NaN; of these only infinity counts as beyond.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sqlglot import exp

from ..sql.dialect import parse_expression, render
from ..sql.functions import called
from .known import Facts, kind_of
from .terms import Scope, bare


@dataclass(frozen=True)
class OutOfRange:
    """A number is outside a range around 0, and is not NaN; as a condition, and to be read."""

    condition: exp.Expr
    text: str


def with_unknown_cosine(tree: exp.Expr, facts: Facts) -> dict[exp.Expr, float]:
    """Return the angles whose cosine may be negative, and up to which magnitude (of what is written) it is not.

    Only numbers that Spark may compute for every row.
    """
    found = dict[exp.Expr, float]()
    for node in tree.find_all(exp.Anonymous):
        if called(node) != "cos" or len(node.expressions) != 1 or facts.cosine_is_positive(node.expressions[0]):
            continue
        inner, most = bare(node.expressions[0]), math.pi / 2
        if called(inner) == "radians" and len(inner.expressions) == 1:
            inner, most = bare(inner.expressions[0]), 90
        if len(facts.scope.relations(inner)) == 1 and facts.kind(inner) and facts.is_safe(inner):
            found[inner] = most
    return found


def out_of_range(inner: exp.Expr, most: float, scope: Scope) -> OutOfRange:
    """Return the condition that a number is outside a range; not by ABS, which fails at the least whole number."""
    text = render(inner)
    condition = f"({text} < -{most} OR {text} > {most})"
    if kind_of(inner, scope) == "float":
        condition += f" AND NOT ISNAN({text})"
    return OutOfRange(parse_expression(condition), f"{text.replace('`', '')} NOT BETWEEN -{most} AND {most}")
