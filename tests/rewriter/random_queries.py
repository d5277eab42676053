"""Random join queries over the tables of `tables`, for comparing converted and unconverted rows."""

from __future__ import annotations

import random

NUMBERS = ("id", "a")
RELATIONS = ("r", "s", "t")


def random_query(seed: int) -> str:
    """Return a query of two to four relations with random predicates, nesting and clauses around the join.

    Every query has a deterministic bag of rows: no LIMIT without a total order, no sums of floats.
    """
    dice = random.Random(seed)
    count = dice.choice((2, 2, 3, 3, 3, 4))
    aliases = [f"q{number}" for number in range(count)]
    if dice.random() < 0.3:
        aliases[0] = "Straße"
    items = [(alias, _relation(dice)) for alias in aliases]
    joined, where = _from(dice, items)
    conditions = [*where, *(_single(dice, dice.choice(aliases)) for _ in range(dice.randint(0, 2)))]
    if dice.random() < 0.3:
        conditions.append(_any_condition(dice, aliases))
    if dice.random() < 0.2:
        inner = f"SELECT i.a FROM s AS i JOIN t AS j ON i.id = j.id WHERE j.a >= {_name(aliases[0])}.a"
        conditions.append(f"{_name(aliases[-1])}.a IN ({inner})")
    tail = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    first, last = _name(aliases[0]), _name(aliases[-1])
    match dice.randint(0, 4):
        case 0:
            return f"SELECT {first}.n AS g, count(*) AS c, max({last}.a) AS m FROM {joined}{tail} GROUP BY {first}.n"
        case 1:
            return f"SELECT DISTINCT {first}.id, {last}.a + 1 AS b FROM {joined}{tail} ORDER BY {first}.id"
        case 2:
            inner = f"SELECT {first}.id AS k, {last}.a AS v FROM {joined}{tail}"
            return f"SELECT w.k, w.v, u.val FROM ({inner}) AS w JOIN u ON w.k = u.key AND w.v <> u.val"
        case 3:
            inner = f"SELECT {first}.id AS k, max({last}.a) AS v FROM {joined}{tail} GROUP BY {first}.id"
            return f"WITH w AS ({inner}) SELECT w.v, x.k FROM w JOIN w AS x ON w.k <= x.k"
        case _:
            columns = ", ".join(f"{_name(alias)}.id, {_name(alias)}.a" for alias in aliases)
            return f"SELECT {columns} FROM {joined}{tail}"


def _name(alias: str) -> str:
    return alias if alias.isascii() else f"`{alias}`"


def _relation(dice: random.Random) -> str:
    name = dice.choice(RELATIONS)
    if dice.random() < 0.8:
        return name
    return f"(SELECT id, a, ts, x, n, d FROM {name} WHERE a {dice.choice(('>', '<='))} {dice.randint(-1, 5)})"


def _from(dice: random.Random, items: list[tuple[str, str]]) -> tuple[str, list[str]]:
    text = f"{items[0][1]} AS {_name(items[0][0])}"
    where: list[str] = []
    comma = dice.random() < 0.3
    for index, (alias, relation) in enumerate(items[1:], 1):
        before = [name for name, _ in items[:index]]
        conditions = [_pair(dice, dice.choice(before), alias) for _ in range(dice.choice((1, 1, 2)))]
        item = f"{relation} AS {_name(alias)}"
        if comma:
            text, where = f"{text}, {item}", where + conditions
        else:
            kind = dice.choice(("JOIN",) * 6 + ("LEFT JOIN", "RIGHT JOIN"))
            if kind != "JOIN":
                conditions = [f"{_name(before[-1])}.id = {_name(alias)}.id", *conditions]
            text = f"{text} {kind} {item} ON {' AND '.join(conditions)}"
    return text, where


def _pair(dice: random.Random, one: str, other: str) -> str:
    left, right = (one, other) if dice.random() < 0.5 else (other, one)
    a, b = (f"{_name(left)}.{dice.choice(NUMBERS)}", f"{_name(right)}.{dice.choice(NUMBERS)}")
    left, right = _name(left), _name(right)
    return dice.choice(
        (
            f"{a} = {b}",
            f"{a} = {b}",
            f"{a} <=> {b}",
            f"{a} {dice.choice(('<', '<=', '>', '>='))} {b}",
            f"{a} <> {b}",
            f"{a} BETWEEN {b} - 1 AND {b} + {dice.randint(0, 2)}",
            f"ABS({a} - {b}) <= {dice.randint(0, 2)}",
            f"{a} - {b} < {dice.randint(-1, 2)}",
            f"{left}.ts BETWEEN {right}.ts - INTERVAL {dice.randint(0, 9)} MINUTES AND {right}.ts",
            f"ABS({left}.x - {right}.x) < 1.6",
            f"{left}.x >= {right}.x",
            f"{left}.n = {right}.n",
            f"NOT ({left}.n < {right}.n)",
            f"datediff({left}.d, {right}.d) BETWEEN -1 AND 1",
            f"({a} = {b} OR {left}.n = {right}.n)",
            f"{left}.n LIKE {right}.n",
            f"coalesce({a}, 0) >= {b} + 1",
        )
    )


def _single(dice: random.Random, alias: str) -> str:
    name = _name(alias)
    return dice.choice(
        (
            f"{name}.a > {dice.randint(-2, 3)}",
            f"{name}.n IN ('x', 'y')",
            f"({name}.n = 'x' OR {name}.a IS NULL)",
            f"{name}.id BETWEEN 1 AND 5",
            f"{name}.x IS NOT NULL",
            "1 = 1",
        )
    )


def _any_condition(dice: random.Random, aliases: list[str]) -> str:
    one, other = _name(aliases[0]), _name(aliases[-1])
    total = " + ".join(f"{_name(alias)}.a" for alias in aliases)
    return dice.choice(
        (
            f"{total} > {dice.randint(-3, 6)}",
            f"(({one}.n = 'x' AND {other}.n = 'y') OR ({one}.n = 'y' AND {other}.n <> 'x'))",
            f"{one}.a = (SELECT max(val) FROM u)",
            f"EXISTS (SELECT 1 FROM u WHERE u.key = {other}.id AND u.val <= {one}.a)",
        )
    )
