"""Bands of linear expressions agree with Spark's ANSI arithmetic, up to the borders of the types."""

from __future__ import annotations

import random

import pytest
from sqlglot import exp
from trijoin_sql.rewriter.plan.conjuncts import Band
from trijoin_sql.rewriter.sql.dialect import parse_expression
from trijoin_sql.rewriter.sql.spark_types import integer_limits

from .tables import node

BITS = {"int": 1 << 31, "bigint": 1 << 63}


class OverflowInSparkError(Exception):
    """What Spark raises in ANSI mode."""


def evaluated(tree: exp.Expr, row: dict[str, int], kinds: dict[str, str]) -> tuple[int, str]:
    """Return the value of an expression and its type, as Spark computes it."""
    match tree:
        case exp.Paren():
            return evaluated(tree.this, row, kinds)
        case exp.Column():
            return row[tree.table], kinds[tree.table]
        case exp.Literal():
            return int(tree.name), "int" if int(tree.name) < BITS["int"] else "bigint"
        case exp.Cast():
            return evaluated(tree.this, row, kinds)[0], "bigint"
        case exp.Neg():
            value, kind = evaluated(tree.this, row, kinds)
            return checked(-value, kind)
        case exp.Add() | exp.Sub():
            (one, left), (other, right) = evaluated(tree.left, row, kinds), evaluated(tree.right, row, kinds)
            kind = "bigint" if "bigint" in (left, right) else "int"
            return checked(one + other if isinstance(tree, exp.Add) else one - other, kind)
        case exp.Anonymous():
            value, kind = evaluated(tree.expressions[0], row, kinds)
            return checked(abs(value), kind)
    raise AssertionError(tree)


def checked(value: int, kind: str) -> tuple[int, str]:
    """Return a value that its type can hold."""
    limits = integer_limits(kind)
    assert limits is not None
    if not limits[0] <= value <= limits[1]:
        raise OverflowInSparkError
    return value, kind


def holds(op: str, one: int, other: int) -> bool:
    """Return whether a comparison does."""
    return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other, "=": one == other}[op]


def expression(dice: random.Random, constants: list[int]) -> str:
    """Return a linear expression of both relations."""
    text = [f"{one}.{'a' if dice.random() < 0.7 else 'k'}" for one in dice.sample("rs", 2)]
    for at in (0, 1):
        if dice.random() < 0.4:
            text[at] = f"({text[at]} {dice.choice('+-')} {dice.choice(constants)})"
    joined = f"{text[0]} {dice.choice('--+')} {text[1]}"
    for _ in range(dice.choice((0, 1, 1, 2))):
        constant = dice.choice(constants)
        joined = dice.choice((f"{joined} {dice.choice('+-')} {constant}", f"{constant} {dice.choice('+-')} ({joined})"))
    return f"-({joined})" if dice.random() < 0.15 else joined


def test_bands_agree_with_ansi_arithmetic() -> None:
    """A band raises where the text does, and nowhere else; where neither does, they keep the same pairs."""
    dice = random.Random(8)
    near = [bits + step for bits in (0, *BITS.values()) for step in range(-3, 4)]
    borders = sorted({sign * value for value in near for sign in (1, -1)})
    constants = [0, 1, 2, 5, BITS["int"] - 1, BITS["int"] - 2, BITS["int"]]
    bands = raised = 0
    for _ in range(250):
        text = expression(dice, constants)
        op = dice.choice(("<", "<=", ">", ">=", "="))
        absolute = dice.random() < 0.3 and op in ("<", "<=")
        bound = dice.choice(constants) if absolute else dice.choice((1, -1)) * dice.choice(constants)
        condition = f"{f'ABS({text})' if absolute else text} {op} {bound}"
        sql = f"SELECT 1 AS o FROM wide r JOIN wide s ON {condition}"
        found = [p for edge in node(sql).graph.edges for p in edge.predicates]
        if not found:
            assert "k" in text, condition  # a sum of two, one of them BIGINT
            continue
        (band,) = found
        bands += 1
        tree = parse_expression(f"{condition}")
        sides = {name: "a" if f"{name}.a" in text else "k" for name in "rs"}
        kinds = {name: "int" if column == "a" else "bigint" for name, column in sides.items()}
        fitting = {name: [v for v in borders if abs(v + 0.5) < BITS[kinds[name]]] for name in "rs"}
        for _ in range(60):
            row = {name: dice.choice(fitting[name]) for name in "rs"}
            try:
                wanted: bool | None = holds(op, evaluated(tree.this, row, kinds)[0], bound)
            except OverflowInSparkError:
                wanted = None
            raised += wanted is None
            assert by_band(band, row, kinds) == wanted, (condition, row, band)
    assert bands > 150
    assert raised > 500


def by_band(band: object, row: dict[str, int], kinds: dict[str, str]) -> bool | None:
    """Return what a predicate says of two rows, None for an overflow."""
    try:
        for guard in band.guards:  # type: ignore[attr-defined]
            evaluated(parse_expression(guard.sql), row, kinds)
        one, other = (evaluated(parse_expression(side.sql), row, kinds)[0] for side in (band.left, band.right))  # type: ignore[attr-defined]
    except OverflowInSparkError:
        return None
    if not isinstance(band, Band):
        return holds(band.op, one, other)  # type: ignore[attr-defined]
    bounds = band.bounds
    if bounds.limits is not None and not bounds.limits[0] <= one - other <= bounds.limits[1]:
        return None
    low, high = bounds.lower, bounds.upper
    above = low is None or holds(">=" if bounds.lower_inclusive else ">", one - other, low)
    below = high is None or holds("<=" if bounds.upper_inclusive else "<", one - other, high)
    return above and below


@pytest.mark.parametrize(
    ("text", "keys", "guards"),
    [
        ("w.a + 1 < r.m - 2", ["w.a", "r.m"], ["w.a + 1"]),
        ("r.m - 2 BETWEEN w.a AND w.a + 7", ["w.a", "r.m"], ["w.a + 7"]),
        ("w.a + 1.5 < r.m", ["w.a", "r.m"], []),
        ("2 >= r.m - w.k", ["w.k + 2", "r.m"], []),
        ("2.5 >= r.m - w.k", ["w.k + 2.5", "r.m"], []),
    ],
)
def test_a_sum_of_whole_numbers_beside_a_decimal(text: str, keys: list[str], guards: list[str]) -> None:
    """Spark computes ``w.a + 1`` as INT, which may overflow; ``w.a + 1.5`` is a decimal."""
    (edge,) = node(f"SELECT 1 AS o FROM wide w JOIN r ON {text}").graph.edges
    (only,) = edge.predicates
    assert [side.sql for side in only.keys] == keys
    assert [guard.sql for guard in only.guards] == guards


@pytest.mark.parametrize("text", ["r.a - s.a - 2147483648 < 0", "ABS(r.k - s.a) <= 9223372036854775807"])
def test_the_greatest_constants_are_bands(text: str) -> None:
    (edge,) = node(f"SELECT 1 AS o FROM wide r JOIN wide s ON {text}").graph.edges
    assert [p.kind for p in edge.predicates] == ["band"]
