"""Random trees of joins of several kinds, as SQL: a core of inner joins, and branches that hang on rows of it."""

from __future__ import annotations

import argparse
import datetime
import itertools
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import trijoin_sql

from ..sessions import quick_session
from .differential import Bag, Tables, bag
from .test_outer_joins import ARROW, compared, last_row, streams, without_last

_ENOUGH = "enough of these units"
#: A loaded machine does not always start a Python worker within Spark's ten seconds.
_NO_WORKER = "Python worker failed to connect back"

#: A LEFT JOIN that stays Spark's own, below a stage of ours: rows without a time do not come out of it (semantics.md).
_OF_SPARK = re.compile(r"LEFT JOIN \w ON (STRUCT\(.*?\)|\S+) <?=>? ")

#: The relations of a tree: three in the core and three branches at most. ``w`` is a column.
NAMES = "rstuvy"

#: Between a relation of the core ``{a}`` and the one that is joined ``{b}``.
_CONDITIONS = (
    "{a}.k = {b}.k",
    "{a}.k = {b}.k AND {a}.x <> {b}.x",
    "{a}.k <=> {b}.k AND {a}.x >= {b}.x",
    "{a}.x < {b}.x",
    "ABS({a}.x - {b}.x) <= 1",
    "{a}.x BETWEEN {b}.x AND {b}.x + 2",
    "ABS({a}.d - {b}.d) < 0.5",
    "{a}.n >= {b}.n - 1.5 AND {a}.x <> {b}.x",
    "{a}.x + {b}.x > 6",
    "({a}.x = {b}.x OR {a}.d < {b}.d)",
    "{a}.x < {b}.x AND {a}.k > 0",
    "{a}.k = {b}.k AND {b}.w = 'a'",
    "{a}.k = {b}.x AND {a}.w = 'a'",
    "NOT ({a}.x < {b}.x) AND {a}.k <> {b}.x",
    "{a}.x IN ({b}.x, {b}.x + 1)",
    # What only Spark decides.
    "{a}.x * {b}.x < 10",
    "{a}.k IS DISTINCT FROM {b}.k AND {a}.x <= {b}.x",
    "ABS({a}.x - {b}.x) <= {b}.k",
    "ABS({a}.n - {b}.n) <= 0.2 * {a}.n",
    "startswith({a}.w, {b}.w)",
    "{a}.w LIKE CONCAT({b}.w, '%') AND {a}.x > {b}.x",
    "CASE WHEN {a}.k = 1 THEN {b}.x > 2 ELSE {a}.x < {b}.x END",
    "SQRT(POWER({a}.x - {b}.x, 2) + POWER({a}.k - {b}.k, 2)) < 2",
    "STRUCT({a}.k, {a}.w) = STRUCT({b}.k, {b}.w)",
)
_BOUNDS = (
    "{b}.ts BETWEEN {a}.ts AND {a}.ts + INTERVAL {n} SECONDS",
    "{b}.ts BETWEEN {a}.ts - INTERVAL {n} SECONDS AND {a}.ts",
    "{b}.ts BETWEEN {a}.ts - INTERVAL {n} SECONDS AND {a}.ts + INTERVAL {n} SECONDS",
    "{b}.ts BETWEEN {a}.ts + INTERVAL 5 SECONDS AND {a}.ts + INTERVAL {n} SECONDS",
)
_CLOSEST = (
    ("{a}.ts >= {b}.ts", "{a}.k = {b}.k"),
    ("{a}.ts >= {b}.ts", "{a}.k = {b}.k AND {b}.ts >= {a}.ts - INTERVAL {n} SECONDS"),
    ("{a}.ts > {b}.ts", "{a}.k = {b}.k AND {a}.x < {b}.x AND {b}.ts >= {a}.ts - INTERVAL {n} SECONDS"),
    ("{a}.ts <= {b}.ts", "{a}.k = {b}.k AND {b}.ts <= {a}.ts + INTERVAL {n} SECONDS"),
)


def random_tree(random: Random, names: str = NAMES) -> str:
    """Return a query over some of the relations; each has the columns id, k, x, d, n, w and ts.

    ASOF joins take columns that tell rows of one event time and key apart from no other: of equally close rows Spark
    may take any.
    """
    size = random.choice((1, 1, 2, 2, 3))
    core, left = list(names[:size]), names[size:]
    branches = left[: random.choice((1, 2, 2, 3) if size > 1 else (2, 2, 3))]
    columns = [f"{one}.id AS {one}_id" for one in core] + [f"{core[0]}.w AS {core[0]}_w", f"{core[-1]}.ts AS t"]
    text, where = f"FROM {core[0]}", []
    joins = []
    for at, one in enumerate(core[1:], 1):
        joins.append((one, f" JOIN {one} ON {condition(random, random.choice(core[:at]), one)}"))
    for one in branches:
        anchor = random.choice(core)
        kind = random.choice(
            ("LEFT", "LEFT", "LEFT", "LEFT SEMI", "LEFT ANTI", "ASOF", "LEFT ASOF", "EXISTS", "NOT EXISTS")
        )
        if kind.endswith("EXISTS"):
            where.append(f"{kind} (SELECT 1 FROM {one} WHERE {condition(random, anchor, one, core)})")
            continue
        if kind.endswith("ASOF"):
            match, on = random.choice(_CLOSEST)
            clause = f" {kind} JOIN {one} MATCH_CONDITION ({match}) ON {on}".format(a=anchor, b=one, n=_seconds(random))
            columns.append(f"{one}.ts AS {one}_ts")
        else:
            clause = f" {kind} JOIN {one} ON {condition(random, anchor, one, core)}"
            columns += [f"{one}.id AS {one}_id", f"{one}.n AS {one}_n"] if kind == "LEFT" else []
        joins.append((one, clause))
    placed = {core[0]}
    random.shuffle(joins)
    while joins:  # each after what it reads
        at = next(i for i, (one, clause) in enumerate(joins) if _read(clause, core) - {one} <= placed)
        one, clause = joins.pop(at)
        placed.add(one)
        text += clause
    if random.random() < 0.3:
        where.append(f"{random.choice(core)}.k >= 1")
    hint = random.choice(("", "", "/*+ UNITS(1) */ ", "/*+ UNITS(3) */ ", "/*+ UNITS(4) */ "))
    tree = f"SELECT {hint}{', '.join(columns)} {text}{' WHERE ' + ' AND '.join(where) if where else ''}"
    if random.random() < 0.85:
        return tree
    # Rows that come behind the watermark are lost in windows; those of the last rows are never closed.
    group = "GROUP BY window(t, '20 seconds')"
    return f"SELECT window(t, '20 seconds').start AS at, count(*) AS c FROM ({tree}) WHERE {core[0]}_id >= 0 {group}"


def with_changes(spark: SparkSession, tables: Tables, home: Path, sql: str, random: Random) -> tuple[Bag, Bag, int]:
    """Run a tree of joins that is killed now and then and starts again in other units.

    Returns
    -------
    What it found, what Spark batch finds, and how often its units have changed.
    """
    tables.use(streaming=False)
    wanted = without_last(bag(spark.sql(sql).collect()))
    tables.use(streaming=True)
    found: dict[int, Bag] = {}
    count, changes, ended = random.randrange(1, 5), 0, False
    while True:
        last = max(found, default=-1) + random.randrange(1, 4)

        def keep(batch: DataFrame, number: int, last: int = -1 if ended else last) -> None:
            found[number] = bag(batch.collect())
            if number == last:
                raise RuntimeError(_ENOUGH)

        hinted = sql.replace("SELECT", f"SELECT /*+ UNITS({count}) */", 1)
        frame = trijoin_sql.TriJoinSession.create(spark).sql(hinted)
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(home / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if "kept for ever never leave" in str(error):  # an ASOF join without a bound
                return *compared(spark, tables, home / "again", sql), 0
            if _ENOUGH not in str(error):
                raise
        else:
            if ended:
                return without_last(sum(found.values(), bag([]))), wanted, changes
            # Spark runs no batch without rows behind one that it has repeated; and then none is killed.
            ended = True
            later(tables, NAMES)
            continue
        before, count = count, random.randrange(1, 5)
        changes += count != before


def later(tables: Tables, names: str) -> None:
    """Add to each stream one more row that passes all filters, a day after its last one."""
    for rank, name in enumerate(names):
        row = last_row(rank)
        tables.add(name, [{**row, "ts": row["ts"] + datetime.timedelta(days=1)}], ARROW)
    tables.use(streaming=True)


def _seconds(random: Random) -> int:
    return random.choice((8, 20, 35))


def condition(random: Random, anchor: str, other: str, core: Sequence[str] = ()) -> str:
    """Return a random condition of one relation of the ``core`` with another, bounded in time."""
    both = f"{random.choice(_CONDITIONS)} AND {random.choice(_BOUNDS)}".format(a=anchor, b=other, n=_seconds(random))
    if len(core) < 2 or random.random() > 0.15 or " = " in both or "<=>" in both:  # which Spark would run
        return both
    one, two = random.sample(core, 2)  # then it hangs on no one relation, and stays apart
    return f"{both} AND {other}.x {random.choice(('<', '<=', '>', '<>'))} {one}.x + {two}.x"


def _read(clause: str, core: list[str]) -> set[str]:
    return {one for one in core if f"{one}." in clause}


#: A random query's text, and what runs it: it returns what the query finds, and what Spark batch finds.
Attempt = tuple[str, Callable[[], tuple[Bag, Bag]]]
Attempting = Callable[[SparkSession, int, Path, argparse.Namespace], Attempt]


def attempts(what: str, parser: argparse.ArgumentParser, attempt: Attempting) -> int:
    """Run random queries for so many seconds, and tell those that are wrong, fail or are refused; return an exit code.

    What Spark batch runs and fails on streams is wrong too, but for a worker that a loaded machine did not start.
    """
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="trijoin-random-"))
    settings = {
        "spark.sql.join.asofJoin.enabled": "true",
        # For so few rows Spark compiles its plans longer than it runs them; our workers do the same either way.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    spark = quick_session(home, "random", settings)
    end, done, wrong, refused = time.monotonic() + options.seconds, 0, 0, 0
    for seed in itertools.count(options.seed):
        if time.monotonic() > end:
            break
        said, run = attempt(spark, seed, home / str(seed), options)
        try:
            found, wanted = run()
        except trijoin_sql.UnsupportedQueryError as error:
            refused += 1
            print(f"seed {seed} is refused: {error}\n    {said}", flush=True)
            continue
        except Exception as error:
            wrong += _NO_WORKER not in str(error)
            print(f"seed {seed} fails: {error}\n    {said}", flush=True)
            continue
        done += 1
        if found != wanted:
            wrong += 1
            print(f"seed {seed}: lost {wanted - found}, too many {found - wanted}\n    {said}", flush=True)
        shutil.rmtree(home / str(seed), ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    print(f"{done} {what} from seed {options.seed}, {wrong} wrong, {refused} refused")
    return 1 if wrong else 0


def _attempt(spark: SparkSession, seed: int, folder: Path, options: argparse.Namespace) -> Attempt:
    sql = random_tree(Random(seed))
    tables = streams(spark, folder / "tables", seed, 25, NAMES, untimed=0.0 if _OF_SPARK.search(sql) else 0.05)
    if not options.changes:
        return sql, lambda: compared(spark, tables, folder, sql)
    bare = re.sub(r"/\*.*?\*/ ", "", sql)
    return bare, lambda: with_changes(spark, tables, folder, bare, Random(seed))[:2]


def main() -> int:
    """Run random trees from the command line: ``python -m tests.streaming.join_trees --seconds 600``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", action="store_true", help="kill each query now and then, and change its units")
    return attempts("trees of joins", parser, _attempt)


if __name__ == "__main__":
    sys.exit(main())
