"""Random compositions of joins, as SQL: joins of joins, in derived tables, views, CTEs, used twice, united, grouped."""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import trijoin_sql

from .differential import Bag, Tables, bag
from .join_trees import Attempt, attempts, condition, later
from .test_outer_joins import streams, without_last

_STREAMS = "rst"
_STOPPED = "a stop in between"
#: What a stream is read by; all of them keep its last row, which moves the watermark.
_READ = (
    "{0}",
    "{0}",
    "{0}",
    "(SELECT * FROM {0} WHERE x > 1 OR id < 0)",
    "(SELECT * FROM {0} WHERE w IS NOT NULL)",
    "(SELECT id, k + 1 AS k, x, d, n, upper(w) AS w, ts FROM {0})",
)
_KINDS = ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "EXISTS", "NOT EXISTS")
_TOPS = (
    "SELECT window(ts, '20 seconds').start AS at, k, COUNT(*) AS c FROM ({0}) WHERE id NOT LIKE '%-1%' "
    "GROUP BY window(ts, '20 seconds'), k",
    "SELECT DISTINCT ts, k, x FROM ({0}) WHERE id NOT LIKE '%-1%'",
    "{0} UNION ALL {1}",
    *["{0}"] * 6,
)


@dataclass
class Composition:
    """A query over the streams r, s and t, and the views below it as ``(name, SELECT)`` in order.

    Each SELECT in it has the columns of the streams; ``id`` names all rows that a row is made of.
    """

    random: Random
    views: list[tuple[str, str]] = field(default_factory=list)
    sql: str = ""
    _names: itertools.count[int] = field(default_factory=itertools.count)

    @classmethod
    def of(cls, seed: int) -> Composition:
        """Return a random one."""
        found = cls(Random(seed))
        text = found._join(found.random.choice((1, 2, 2, 3)))
        hint = found.random.choice(("", "", "/*+ UNITS(1) */ ", "/*+ UNITS(3) */ "))
        text = text.replace("SELECT ", f"SELECT {hint}", 1)
        found.sql = found.random.choice(_TOPS).format(text, found._join(1))
        return found

    def _name(self) -> str:
        return f"v{next(self._names)}"

    def _source(self, depth: int) -> str:
        kind = self.random.random()
        if self.views and kind < 0.12:
            return self.random.choice(self.views)[0]
        if depth == 0 or kind < 0.35:
            text = self.random.choice(_READ).format(self.random.choice(_STREAMS))
            return f"(SELECT CAST(id AS STRING) AS id, k, x, d, n, w, ts FROM {text})"
        if kind < 0.45:
            one = self._source(depth - 1)
            return f"(SELECT * FROM {one} UNION ALL SELECT * FROM {self.random.choice((one, self._source(depth - 1)))})"
        text = self._join(depth)
        if self.random.random() < 0.6:
            return f"({text})"
        self.views.append((self._name(), text))
        return self.views[-1][0]

    def _join(self, depth: int) -> str:
        left, right = self._source(depth - 1), self._source(depth - 1)
        if self.random.random() < 0.15:
            right = left
        a, b, kind = self._name(), self._name(), self.random.choice(_KINDS)
        on = condition(self.random, a, b)
        if kind.endswith("EXISTS"):
            return f"SELECT {a}.* FROM {left} AS {a} WHERE {kind} (SELECT 1 FROM {right} AS {b} WHERE {on})"
        joined = f"FROM {left} AS {a} {kind} {right} AS {b} ON {on}"
        if kind not in ("JOIN", "LEFT JOIN"):
            return f"SELECT {a}.* {joined}"
        times = (f"{a}.ts",) if kind == "LEFT JOIN" else (f"{a}.ts", f"{b}.ts", f"greatest({a}.ts, {b}.ts)")
        both = f"concat({a}.id, '_', coalesce({b}.id, 'none')) AS id, {a}.k, {b}.x, {a}.d, {b}.n, {a}.w"
        return f"SELECT {both}, {self.random.choice(times)} AS ts {joined}"

    def frame(self, tj: trijoin_sql.TriJoinSession | SparkSession, how: str) -> DataFrame:
        """Return the query, over views or with them as CTEs."""
        if how == "ctes" and self.views:
            ctes = ", ".join(f"{name} AS ({text})" for name, text in self.views)
            return tj.sql(f"WITH {ctes} {self.sql}")
        for name, text in self.views:
            tj.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {text}")
        return tj.sql(self.sql)


def composed(spark: SparkSession, tables: Tables, home: Path, query: Composition) -> tuple[Bag, Bag]:
    """Return what a composition finds on streams, with a stop somewhere, and what Spark batch finds.

    It comes as text with CTEs, over views, or over views in a session that is extended.
    """
    how = query.random.choice(("ctes", "views", "enabled"))
    tables.use(streaming=False)
    wanted = without_last(bag(query.frame(spark, how).collect()))
    tables.use(streaming=True)
    found: dict[int, Bag] = {}
    stop, stopped = query.random.randrange(0, 5), False
    while True:

        def keep(batch: DataFrame, number: int, stop: int = stop) -> None:
            found[number] = bag(batch.collect())
            if number == stop:
                raise RuntimeError(_STOPPED)

        if how == "enabled":
            trijoin_sql.enable(spark)
        try:
            frame = query.frame(spark if how == "enabled" else trijoin_sql.TriJoinSession.create(spark), how)
        finally:
            trijoin_sql.disable(spark)
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(home / "checkpoint"))
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except StreamingQueryException as error:
            if _STOPPED not in str(error):
                raise
            stop, stopped = -1, True
        else:
            if not stopped:
                return without_last(sum(found.values(), bag([]))), wanted
            later(tables, _STREAMS)  # Spark runs no batch without rows behind one that it has repeated
            stopped = False


def _attempt(spark: SparkSession, seed: int, folder: Path, _: argparse.Namespace) -> Attempt:
    query = Composition.of(seed)
    # rows without a time do not come out of Spark's own outer joins (semantics.md)
    tables = streams(spark, folder / "tables", seed, 18, _STREAMS, untimed=0.0)
    return f"{query.views}\n    {query.sql}", lambda: composed(spark, tables, folder, query)


def main() -> int:
    """Run random compositions from the command line: ``python -m tests.streaming.compositions --seconds 600``."""
    return attempts("compositions", argparse.ArgumentParser(description=__doc__), _attempt)


if __name__ == "__main__":
    sys.exit(main())
