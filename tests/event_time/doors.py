"""Random joins of streams through every door, over restarts with one setting changed, and with late rows (`make fuzz`).

Each seed draws a join and its conditions, by which door it comes (SQL text, a view of plain Spark, a pipe, session
variables, DataFrames), the session's settings, and what is tried with it. The rows must be those of Spark batch, or the
query must be refused by an error of ours. ``python -m tests.event_time.doors --seconds 600 --seed 1``.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

import trijoin_sql
from tests.sessions import local_session
from tests.streaming.differential import Bag, Tables, bag, run_stream
from trijoin_sql.errors import UnsupportedQueryError

from .corpus import TIMES, tables

DOORS = ("text", "view", "pipe", "variable", "frames")
KINDS = {
    **{"JOIN": "inner", "LEFT JOIN": "left", "RIGHT JOIN": "right", "FULL JOIN": "full"},
    **{"LEFT SEMI JOIN": "left_semi", "LEFT ANTI JOIN": "left_anti"},
}
#: What decides the join: units compare it, or Spark equates it.
DECIDING = (
    "r.x < s.x",
    "ABS(r.x - s.x) <= {n}",
    "r.x BETWEEN s.x - {n} AND s.x + 1",
    "(r.x < s.x - {n} OR r.k = s.k)",
    "r.k = s.k",
    "r.k <=> s.k AND r.x <> s.x",
    "CAST(r.k AS STRING) = CAST(s.k AS STRING)",
    "r.x % 4 = s.k AND s.x >= r.x",
    "typeof(r.x) = typeof(s.x) AND r.x < s.x",
    "date_trunc('MINUTE', r.ts) = date_trunc('MINUTE', s.ts) AND r.x > s.x",
)
#: What stands beside it: over one side, in time, and what is written otherwise than read. The last rows pass what is
#: over one side: Spark filters below the watermark, and would wait for others.
BESIDE = (
    "abs(r.x) > {n}",
    "s.k NOT IN (1, {n})",
    "exists(array(r.x, r.k), e -> abs(e) > {n})",
    "array_sort(array(r.x, r.k))[0] < s.x",
    "extract(SECOND FROM r.ts) <= 50",
    "hour(r.ts) <= hour(s.ts)",
    "r.ts >= TIMESTAMP'2026-01-01 00:00:30Z'",
    "concat(r.x, '\\\\d') <> concat(s.x, \"'\")",
    "from_json(concat('{\"a\":', r.x, '}'), 'a INT').a <= s.x + {n}",
    "CASE WHEN r.k > 1 THEN r.x ELSE {n} END <= s.x",
    "r.x + s.x < 2147483647",
    "date_add(DATE'2026-01-01', r.k) < date_add(DATE'2026-01-02', s.k + {n})",
)
#: What only Spark evaluates, on pairs.
ON_PAIRS = ("concat(r.k, s.k) LIKE '%1%'", "array_contains(array(r.x, r.k), s.k)")
ABOVE = ("", "", "r.k <> 2", "r.x % 2 = 0")

SETTINGS = {
    "spark.sql.session.timeZone": ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"),
    "spark.sql.ansi.enabled": ("true", "true", "false"),
    "spark.sql.caseSensitive": ("false", "true"),
}
#: By what a restart may differ.
CHANGES = {**SETTINGS, "spark.sql.shuffle.partitions": ("1", "3", "5"), "spark.trijoin.units": ("1", "3")}
TRIED = ("once", "once", "restart", "restart", "late")


@dataclass(frozen=True)
class Drawn:
    """What a seed drew; `n` is the number in its conditions, which a session variable holds at that door."""

    kind: str
    on: str
    above: str
    door: str
    tried: str
    settings: Mapping[str, str]
    change: tuple[str, str]
    n: int

    @property
    def columns(self) -> tuple[str, ...]:
        """What is selected: of a semi or an anti join, only columns of r."""
        other = () if KINDS[self.kind] in ("left_semi", "left_anti") else ("s.id AS sid", "s.k AS sk")
        return ("r.id AS rid", "r.x + 1 AS x1", *other)

    def conditions(self, number: str) -> tuple[str, str]:
        """Return ON and WHERE, with a text for the number."""
        return self.on.replace("{n}", number), self.above

    def sql(self, *, hint: str = "", number: str | None = None) -> str:
        """Return the query as SQL text."""
        on, above = self.conditions(number or str(self.n))
        where = f" WHERE {above}" if above else ""
        return f"SELECT {hint}{', '.join(self.columns)} FROM r {self.kind} s ON {on}{where}"


def draw(seed: int) -> Drawn:
    """Return what a seed stands for."""
    dice = Random(seed)
    kind = dice.choice(("JOIN", "JOIN", *KINDS))
    on = [dice.choice(DECIDING), *dice.sample(BESIDE, dice.randint(0, 2)), dice.choice(tuple(TIMES.values()))]
    if dice.random() < 0.1:
        on.append(dice.choice(ON_PAIRS))
    settings = {name: dice.choice(values) for name, values in SETTINGS.items()}
    change = dice.choice(tuple(CHANGES))
    above = dice.choice(ABOVE if kind in ("JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN") else ("",))
    values = [value for value in CHANGES[change] if value != settings.get(change)]
    tried = dice.choice(TRIED)
    door = "text" if tried == "late" else dice.choice(DOORS)  # which has hints
    return Drawn(
        kind, " AND ".join(on), above, door, tried, settings, (change, dice.choice(values)), dice.randint(0, 3)
    )


Sql = Callable[[str], DataFrame]


def opened(spark: SparkSession, drawn: Drawn, sql: Sql) -> DataFrame:
    """Return the query as it comes by its door; ``sql`` reads a text."""
    plain = type(spark).sql
    on, above = drawn.conditions(str(drawn.n))
    match drawn.door:
        case "view":
            plain(spark, f"CREATE OR REPLACE TEMP VIEW joined AS {drawn.sql()}")
            return sql("SELECT * FROM joined")
        case "pipe":
            where = f"|> WHERE {above} " if above else ""
            return sql(f"FROM r |> {drawn.kind} s ON {on} {where}|> SELECT {', '.join(drawn.columns)}")
        case "variable":
            plain(spark, f"DECLARE OR REPLACE VARIABLE drawn_n INT DEFAULT {drawn.n}")
            return sql(drawn.sql(number="drawn_n"))
        case "frames":
            r, s = (spark.table(name).alias(name) for name in "rs")
            joined = r.join(s, F.expr(on), KINDS[drawn.kind])
            return (joined.where(above) if above else joined).selectExpr(*drawn.columns)
    return sql(drawn.sql())


@contextmanager
def set_to(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Have settings for a while."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def verdict(spark: SparkSession, home: Path, drawn: Drawn, seed: int) -> str:
    """Return how a query went: ``equal``, ``refused: ...``, or what is wrong with it.

    A refusal is one of ours: who is told something else than the truth is told so by `main`, which prints each once.
    """
    # An outer join of Spark's keeps rows without a time for ever.
    nulls = KINDS[drawn.kind] not in ("right", "full")
    made = tables(spark, home / "tables", seed, (6, 6, 6), late=drawn.tried == "late", nulls=nulls)
    with set_to(spark, drawn.settings):
        try:
            if drawn.tried == "late":
                return _late(spark, made, home, drawn)
            return _restarted(spark, made, home, drawn)
        except UnsupportedQueryError as error:
            return f"refused: {error.reason}"


def _streamed(spark: SparkSession, made: Tables, drawn: Drawn) -> DataFrame:
    made.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    frame = opened(spark, drawn, tj.sql)
    return tj.rewrite(frame) if drawn.door == "frames" else frame


def _batch(spark: SparkSession, made: Tables, drawn: Drawn) -> Bag:
    made.use(streaming=False)
    return bag(opened(spark, drawn, lambda text: type(spark).sql(spark, text)).collect())


def _restarted(spark: SparkSession, made: Tables, home: Path, drawn: Drawn) -> str:
    """Run a query; if a restart is drawn, first over half of the files, and then with a setting changed."""
    found: Bag = Counter()
    kept, wanted = _half(made) if drawn.tried == "restart" else {}, [_batch(spark, made, drawn)]
    found += run_stream(_streamed(spark, made, drawn), home / "checkpoint")
    if drawn.tried == "restart":
        for path, (data, modified) in kept.items():
            path.write_bytes(data)
            os.utime(path, (modified, modified))  # Spark reads files by their age
        with set_to(spark, dict([drawn.change])):
            wanted = [_batch(spark, made, drawn), *_unchanged(spark, made, drawn)]
            try:
                found += run_stream(_streamed(spark, made, drawn), home / "checkpoint")
            except StreamingQueryException as error:
                if "TRIJOIN_CHECKPOINT_MISMATCH" not in str(error):
                    raise
                return f"refused: {str(error).partition('belongs to another query: ')[2].splitlines()[0]}"
    found = Counter({row: count for row, count in found.items() if not _AHEAD.search(row)})
    return "equal" if found in wanted else _difference(wanted[0], found)


#: A row with one of those far ahead, that close all others.
_AHEAD = re.compile(r"(?<!\d)-1\b")


def _unchanged(spark: SparkSession, made: Tables, drawn: Drawn) -> list[Bag]:
    """Return what batch gives under the settings of the first run: a query may keep these."""
    name = drawn.change[0]
    if name not in drawn.settings:
        return []
    with set_to(spark, {name: drawn.settings[name]}):
        return [_batch(spark, made, drawn)]


def _half(made: Tables) -> dict[Path, tuple[bytes, float]]:
    """Take away the later half of each stream's files, and return them with the times of their last change."""
    kept: dict[Path, tuple[bytes, float]] = {}
    for name in made.schemas:
        files = sorted((made.home / name).glob("part-*.parquet"))
        kept |= {path: (path.read_bytes(), path.stat().st_mtime) for path in files[len(files) // 2 :]}
    for path in kept:
        path.unlink()
    return kept


def _late(spark: SparkSession, made: Tables, home: Path, drawn: Drawn) -> str:
    """Run a query in several numbers of units: rows are late or not whatever unit they fall into."""
    rows = {}
    for units in (1, 2, 5):
        made.use(streaming=True)
        sql = drawn.sql(hint=f"/*+ UNITS({units}) */ ")
        rows[units] = run_stream(trijoin_sql.TriJoinSession.create(spark).sql(sql), home / f"checkpoint{units}")
    for units in (2, 5):
        if rows[units] != rows[1]:
            return f"UNITS({units}) beside UNITS(1): {_difference(rows[1], rows[units])}"
    return "equal"


def _difference(wanted: Bag, found: Bag) -> str:
    missing, extra = wanted - found, found - wanted
    return f"{missing.total()} rows missing {[*missing][:3]}, {extra.total()} too many {[*extra][:3]}"


def main() -> int:
    """Run until the time is over; the exit code says whether all were equal or refused."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=SystemRandom().randint(0, 10**6), help="of the first query")
    parser.add_argument("--count", type=int, default=10**9, help="at most so many queries")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    said: set[str] = set()
    start, seed = time.monotonic(), options.seed
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        spark = local_session(Path(home), "doors", {})
        spark.sparkContext.setLogLevel("OFF")
        while time.monotonic() - start < options.seconds and seed < options.seed + options.count:
            drawn = draw(seed)
            try:
                found = verdict(spark, Path(home) / str(seed), drawn, seed)
            except Exception as error:
                found = f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
            word = found.partition(":")[0] if found.startswith(("equal", "refused")) else "WRONG"
            outcomes[word] += 1
            if word != "equal" and found not in said:
                said.add(found)
                changed = f", then {'='.join(drawn.change)}" if drawn.tried == "restart" else ""
                print(
                    f"-- seed {seed}, {drawn.door}, {dict(drawn.settings)}{changed}: {found}\n{drawn.sql()}\n",
                    flush=True,
                )
            seed += 1
        spark.stop()
    seconds = time.monotonic() - start
    print(f"{seed - options.seed} queries from seed {options.seed} on in {seconds:.0f} s: {dict(outcomes)}")
    return 1 if outcomes["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
