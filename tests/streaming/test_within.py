"""WITHIN over trees of joins of all kinds: it bounds the rows that are there, and a padded side is no row.

The reference is written apart: nested loops in Python over the same rows, join by join as the text has them.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import trijoin_sql

from .differential import UTC, Tables, cut

pytestmark = pytest.mark.slow

START = datetime.datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "id int, k int, x int, ts timestamp"
ARROW = pa.schema(
    [("id", pa.int32()), ("k", pa.int32()), ("x", pa.int32()), ("ts", pa.timestamp("us", "UTC"))],
)
NAMES = "rstu"
SECONDS = 15

#: A row of a relation, and a row of a join: a row of each relation, None where it is padded. `""` has USING's column.
Row = dict[str, Any]
Joined = dict[str, Any]


@dataclass(frozen=True)
class Tree:
    """A join of a tree: its kind in SQL, its condition in SQL and in Python, and the relations that its rows have."""

    kind: str
    left: Tree | str
    right: Tree | str
    on: str
    holds: Callable[[Joined, Joined], bool]
    shown: tuple[str, ...]


def rows_of(seed: int, count: int) -> list[Row]:
    """Return rows out of order, with NULLs; no two of them have one time, so that one row is the closest."""
    random = Random(seed)
    rows = []
    for number in range(count):
        second = number * 5 + random.choice((0, 0, 7, 21)) + seed / 100
        ts = None if random.random() < 0.08 else START + datetime.timedelta(seconds=second)
        rows.append(
            {"id": number, "k": random.choice([None, 0, 1, 2]), "x": random.choice([None, *range(6)]), "ts": ts}
        )
    return rows


def near(one: Row, other: Row) -> bool:
    """Tell whether two rows are within the distance."""
    times = one["ts"], other["ts"]
    return None not in times and abs(times[0] - times[1]) <= datetime.timedelta(seconds=SECONDS)


def compared(one: Any, other: Any, op: str) -> bool:
    """Compare two values as SQL does: with NULL no comparison is true."""
    if one is None or other is None:
        return False
    return bool({"=": one == other, "<": one < other, "~": op == "~" and abs(one - other) <= 1}[op])


def evaluate(tree: Tree | str, tables: dict[str, list[Row]]) -> list[Joined]:
    """Join the rows of tables."""
    if isinstance(tree, str):
        return [{tree: row, "": row["k"]} for row in tables[tree]]
    left, right = evaluate(tree.left, tables), evaluate(tree.right, tables)
    pairs: list[tuple[int, int]] = []
    for at, one in enumerate(left):
        met = [to for to, other in enumerate(right) if tree.holds(one, other) and all_near(one, other)]
        if "ASOF" in tree.kind:  # the condition orders these two by time
            met = sorted(met, key=lambda to: latest(right[to]))[-1:]
        pairs += [(at, to) for to in met]
    pad = {side: dict.fromkeys(names(rows)) for side, rows in ((0, tree.left), (1, tree.right))}
    found = [{**left[at], **right[to], "": merged(left[at], right[to])} for at, to in pairs]
    with_partner = [{pair[side] for pair in pairs} for side in (0, 1)]
    if tree.kind in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
        return [one for at, one in enumerate(left) if (at in with_partner[0]) == ("SEMI" in tree.kind)]
    if tree.kind.startswith(("LEFT", "FULL")):
        found += [{**pad[1], **one} for at, one in enumerate(left) if at not in with_partner[0]]
    if tree.kind.startswith(("RIGHT", "FULL")):
        found += [{**pad[0], **one} for at, one in enumerate(right) if at not in with_partner[1]]
    return found


def all_near(one: Joined, other: Joined) -> bool:
    """Tell whether each row of one side that is there is near each of the other."""
    there = [[row for name, row in side.items() if name and row is not None] for side in (one, other)]
    return all(near(first, second) for first in there[0] for second in there[1])


def latest(joined: Joined) -> Any:
    """Return the time by which the right side of an ASOF JOIN, a relation, is ordered."""
    (row,) = (row for name, row in joined.items() if name)
    return row["ts"]


def merged(one: Joined, other: Joined) -> Any:
    """Return USING's column."""
    return other[""] if one[""] is None else one[""]


def names(tree: Tree | str) -> tuple[str, ...]:
    """Return the relations whose columns a tree has."""
    return (tree,) if isinstance(tree, str) else tree.shown


def text(tree: Tree | str) -> str:
    """Return a tree as it stands in FROM."""
    if isinstance(tree, str):
        return tree
    right = tree.right if isinstance(tree.right, str) else f"({text(tree.right)})"
    return f"{text(tree.left)} {tree.kind} {right} {tree.on}"


def query(tree: Tree, exists: Tree | None = None, number: int = 0) -> str:
    """Return the ids of a tree's rows; with ``exists`` the tree is the left side of a semi or anti join in WHERE."""
    shown = names(tree)
    ids = ", ".join(f"{name}.id" if name in shown else "CAST(NULL AS INT)" for name in NAMES)
    where = ""
    if exists is not None:
        negated = "NOT " if "ANTI" in exists.kind else ""
        where = f" WHERE {negated}EXISTS (SELECT 1 FROM {exists.right} WHERE {exists.on.removeprefix('ON ')})"
    return f"SELECT {number} AS number, {ids} FROM {text(tree)}{where} WITHIN {SECONDS} SECONDS"


KINDS = (
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
    "LEFT ASOF JOIN",
    "ASOF JOIN",
)


def joined(kind: str, left: Tree | str, right: Tree | str, random: Random) -> Tree:
    """Return a join of two trees by a condition between a relation of each."""
    one, other = random.choice(names(left)), random.choice(names(right))
    column, op = random.choice((("k", "="), ("k", "="), ("x", "<"), ("x", "~")))
    sides = f"{one}.{column}", f"{other}.{column}"
    on = f"ON ABS({sides[0]} - {sides[1]}) <= 1" if op == "~" else f"ON {sides[0]} {op} {sides[1]}"

    def holds(first: Joined, second: Joined) -> bool:
        rows = first[one], second[other]
        later = "ASOF" not in kind or (None not in rows and compared(rows[1]["ts"], rows[0]["ts"], "<"))
        return later and None not in rows and compared(rows[0][column], rows[1][column], op)

    if "ASOF" in kind:
        on = f"MATCH_CONDITION ({one}.ts > {other}.ts) {on}"
    shown = names(left) if kind in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else (*names(left), *names(right))
    return Tree(kind, left, right, on, holds, shown)


def using(kind: str, left: Tree | str, right: str) -> Tree:
    """Return a join by USING."""
    shown = (*names(left), right)
    return Tree(kind, left, right, "USING (k)", lambda one, other: compared(one[""], other[""], "="), shown)


def random_tree(random: Random) -> tuple[Tree, Tree | None]:
    """Return a tree of three or four relations, and a semi or anti join over it in WHERE or None."""
    relations = random.sample(NAMES, random.choice((3, 3, 4)))
    first, second, third, *rest = relations
    kinds = [random.choice(KINDS) for _ in relations]
    if random.random() < 0.15:
        merging = ("LEFT JOIN", "FULL JOIN", "JOIN")
        tree: Tree = using(random.choice(merging), first, second)
        for name in (third, *rest):
            tree = using(random.choice(merging), tree, name)
        return tree, None
    if random.random() < 0.25:
        right = joined(random.choice([kind for kind in KINDS if "ASOF" not in kind]), second, third, random)
        kinds[0] = random.choice([kind for kind in KINDS if "ASOF" not in kind])
        tree = joined(kinds[0], first, right, random)
    else:
        tree = joined(kinds[1], joined(kinds[0], first, second, random), third, random)
    if rest and random.random() < 0.5:
        return tree, joined(random.choice(("LEFT SEMI JOIN", "LEFT ANTI JOIN")), tree, rest[0], random)
    return joined(kinds[2], tree, rest[0], random) if rest else tree, None


Query = tuple[Tree, Tree | None]
Found = Counter[tuple[Any, ...]]


def union(queries: Sequence[Query]) -> str:
    """Return queries as one, with their numbers."""
    return " UNION ALL ".join(query(*one, number) for number, one in enumerate(queries))


def wanted(queries: Sequence[Query], tables: dict[str, list[Row]]) -> Found:
    """Return what `union` has to give."""
    found: Found = Counter()
    for number, (tree, exists) in enumerate(queries):
        shown = names(exists or tree)
        for row in evaluate(exists or tree, tables):
            found[number, *(row[name]["id"] if name in shown and row[name] else None for name in NAMES)] += 1
    return found


def difference(found: Found, expected: Found, queries: Sequence[Query]) -> str:
    """Return what is wrong, and of which query; an empty text if nothing is."""
    wrong = [("missing", expected - found), ("too many", found - expected)]
    return "\n".join(f"{what} {row}: {query(*queries[row[0]])}" for what, rows in wrong for row in rows)


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    """The rows of each relation."""
    return {name: rows_of(seed, 14) for seed, name in enumerate(NAMES, 1)}


@pytest.fixture(scope="module")
def relations(spark: SparkSession, rows: dict[str, list[Row]], tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The relations as files; the last row of each closes all before it."""
    made = Tables(spark, tmp_path_factory.mktemp("within"))
    for rank, name in enumerate(NAMES):
        late = START + datetime.timedelta(days=1 + rank)
        pieces = [
            *cut(rows[name], [(4, 0, 9, 6)[rank], 5]),
            [{"id": -1, "k": 9 + rank, "x": 90 + 9 * rank, "ts": late}],
        ]
        made.create(name, pieces, SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", "30 seconds"))
    return made


@pytest.mark.rare
@pytest.mark.parametrize("seed", range(3))
def test_tables(spark: SparkSession, relations: Tables, rows: dict[str, list[Row]], seed: int) -> None:
    relations.use(streaming=False)
    for name in NAMES:  # without the row that closes a stream
        spark.table(name).where("id >= 0").createOrReplaceTempView(name)
    random = Random(seed)
    queries = [random_tree(random) for _ in range(6)]
    frame = trijoin_sql.TriJoinSession.create(spark).sql(union(queries))
    assert not difference(Counter(map(tuple, frame.collect())), wanted(queries, rows), queries)


def chain(*kinds: str, using_key: bool = False) -> Query:
    """Return a tree by the kinds of its joins, from left to right."""
    random, tree = Random(str(kinds)), "r"  # type: tuple[Random, Tree | str]
    for kind, name in zip(kinds, NAMES[1:], strict=False):
        words = f"{kind} JOIN".strip()
        tree = using(words, tree, name) if using_key else joined(words, tree, name, random)
    assert isinstance(tree, Tree)
    return tree, None


def right_deep(above: str, below: str) -> Query:
    """Return a join with a join on its right side."""
    random = Random(above)
    return joined(above, "r", joined(below, "s", "t", random), random), None


#: Each of which has lost, doubled or made up rows, or was refused.
CHAINS = {
    "padded on the right": [chain("LEFT", "LEFT"), chain("LEFT", "LEFT ASOF"), chain("LEFT ASOF", "LEFT")],
    "padded on the left": [chain("RIGHT", "LEFT"), chain("FULL", "LEFT SEMI"), chain("RIGHT", "FULL")],
    "both": [chain("FULL", "FULL"), chain("FULL", "LEFT", "LEFT ANTI"), chain("FULL", "RIGHT")],
    "of four": [chain("FULL", "FULL", "FULL"), right_deep("LEFT JOIN", "FULL JOIN")],
    "by USING": [chain("FULL", "FULL", using_key=True), chain("FULL", "", "LEFT", using_key=True)],
    "inner above": [chain("LEFT", ""), chain("FULL", ""), chain("LEFT SEMI", "", "LEFT")],
}


@pytest.mark.rare
@pytest.mark.parametrize("name", CHAINS)
def test_streams(spark: SparkSession, relations: Tables, rows: dict[str, list[Row]], tmp_path: Path, name: str) -> None:
    relations.use(streaming=True)
    found: Found = Counter()

    def keep(batch: DataFrame, _: int) -> None:
        found.update(row for row in map(tuple, batch.collect()) if -1 not in row)

    frame = trijoin_sql.TriJoinSession.create(spark).sql(union(CHAINS[name]))
    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert not difference(found, wanted(CHAINS[name], rows), CHAINS[name])
