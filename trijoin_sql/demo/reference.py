"""The same SQL in Spark batch, a slice of the year at a time.

Spark batch joins on ``ABS(e.ts - j.ts) <= ...`` by comparing every pair: 13 billion pairs of departures for the year,
at about 150 ns each. Rows of one result are never further apart than the query's `reach`, so the year is cut into
slices: the first relation's rows of a slice, and the others' rows of the slice and of `reach` around it. Every
result belongs to exactly one slice, that of its first row. The SQL text is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from .flights import AIRPORTS, WEEK, Year, between
from .queries import DemoQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Bag:
    """The size of a bag of rows, and the sum of its rows' hashes: equal for equal bags in any order."""

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: Bag) -> Bag:
        return Bag(self.rows + other.rows, self.checksum + other.checksum)


def bag_of(frame: DataFrame) -> Bag:
    """Count and hash a frame's rows in one pass."""
    frame.createOrReplaceTempView("bag")
    row = frame.sparkSession.sql("SELECT COUNT(*), SUM(CAST(XXHASH64(*) AS DECIMAL(38, 0))) FROM bag").first()
    assert row is not None
    return Bag(row[0], int(row[1] or Decimal(0)))


def batch_result(
    spark: SparkSession, query: DemoQuery, year: Year, *, threads: int, done: Callable[[], None] = lambda: None
) -> Bag:
    """Run a query in plain Spark batch over the whole year, some slices at a time, in new sessions beside this one.

    ``done`` is called after every slice.
    """
    sessions = [spark.newSession() for _ in range(threads)]
    for session in sessions:  # re-planning during execution costs more than such small queries
        session.conf.set("spark.sql.adaptive.enabled", "false")
    slices, width = slice_count(query, year), query.slice

    def part(thread: int) -> Bag:
        session, total = sessions[thread], Bag()
        for number in range(thread, slices, threads):
            for rank, (view, folder) in enumerate(query.views.items()):
                reach = query.reach if rank else pd.Timedelta(0)
                table = between(_stream(year, folder), number * width - reach, (number + 1) * width + reach)
                session.createDataFrame(table).createOrReplaceTempView(view)
            total += bag_of(session.sql(query.sql))
            done()
        return total

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(part, range(threads)), Bag())


def slice_count(query: DemoQuery, year: Year) -> int:
    """Return the number of slices of the year for a query."""
    return -(-year.weeks * WEEK // query.slice)


def _stream(year: Year, folder: str) -> pa.Table:
    """Return the rows of a stream's folder."""
    if folder == "weather":
        return year.weather
    airport = folder.rpartition("/")[2]
    if airport not in AIRPORTS:
        return year.departures
    return year.departures.filter(pa.compute.equal(year.departures["origin"], airport))
