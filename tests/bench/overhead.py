"""What `enable` costs a query that is not ours: ``spark.sql`` with it and without, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The name on the command line.
NAME = "overhead"

#: Milliseconds by which a query that is not ours may take longer.
LIMIT = 5.0

#: Turns of each query, after as many warm-up turns.
TURNS, WARM = 60, 20

_CASES = ",\n  ".join(
    f"CASE WHEN x > {i} AND y < {2 * i} THEN 'class {i}' ELSE UPPER(z) END AS c{i}" for i in range(40)
)

#: By name: statements without a join for us.
QUERIES: Mapping[str, str] = {
    "no table": "SELECT 1 AS one",
    "one table": "SELECT x, COUNT(*) AS n FROM a WHERE y > 3 GROUP BY x HAVING n > 1 ORDER BY n",
    "window, CTE, UNION": """\
WITH ranked AS (SELECT x, y, ROW_NUMBER() OVER (PARTITION BY x ORDER BY y DESC) AS place FROM a)
SELECT x, y FROM ranked WHERE place <= 3 UNION ALL SELECT x, MAX(y) FROM b GROUP BY x""",
    "40 columns of CASE": f"SELECT {_CASES}\nFROM a",
    "outer join": "SELECT a.x, b.y FROM a LEFT JOIN b ON a.x = b.x AND a.y > 3",
    "semi join": "SELECT x FROM a WHERE x IN (SELECT x FROM b WHERE y > 3)",
    "join by Spark's choice": "SELECT /*+ NO_TRIJOIN */ a.x, b.y FROM a JOIN b ON a.x = b.x AND a.y < b.y",
    "three, by Spark's choice": """\
SELECT /*+ NO_TRIJOIN */ a.x, SUM(c.y) AS s FROM a JOIN b ON a.x = b.x JOIN c ON b.y < c.y GROUP BY a.x""",
    "SHOW TABLES": "SHOW TABLES",
}


@dataclass(frozen=True, slots=True)
class Overhead:
    """Medians of the milliseconds of a call of ``spark.sql``, which analyses a query and does not run it.

    Parameters
    ----------
    query
        Its name in `QUERIES`.
    plain, enabled
        Without our SQL and with it.
    added
        The median difference of the two calls of a turn.
    """

    query: str
    plain: float
    enabled: float
    added: float


def measure_overhead(spark: SparkSession) -> list[Overhead]:
    """Measure every query of `QUERIES`.

    Parameters
    ----------
    spark
        A session, which gets the views ``a``, ``b`` and ``c``.
    """
    from trijoin_sql.extension import disable, enable

    for name in "abc":
        spark.sql("SELECT id AS x, id * 2 AS y, CAST(id AS STRING) AS z FROM range(9)").createOrReplaceTempView(name)
    plain = spark.sql
    enable(spark)
    extended = spark.sql
    disable(spark)
    return [_measure(name, text, plain, extended) for name, text in QUERIES.items()]


def _measure(name: str, text: str, plain: Callable[[str], DataFrame], extended: Callable[[str], DataFrame]) -> Overhead:
    took: dict[str, list[float]] = {"plain": [], "enabled": []}
    for turn in range(TURNS + WARM):
        calls = [("plain", plain), ("enabled", extended)]
        for which, call in calls if turn % 2 else calls[::-1]:  # neither always goes first
            begun = time.perf_counter()
            call(text)
            took[which].append(1000 * (time.perf_counter() - begun))
    kept = {which: times[WARM:] for which, times in took.items()}
    differences = [with_us - without for without, with_us in zip(kept["plain"], kept["enabled"], strict=True)]
    return Overhead(name, *(statistics.median(times) for times in (kept["plain"], kept["enabled"], differences)))


def overhead_document(found: list[Overhead]) -> dict[str, Any]:
    """Return the measurements as plain data."""
    return {"workload": NAME, "limit_ms": LIMIT, "queries": [asdict(one) for one in found]}


def overhead_table(found: list[Overhead]) -> Table:
    """Return a table with a line for each query."""
    table = Table(title=f"{NAME}: spark.sql of queries that are not ours, medians of {TURNS} calls in ms", expand=False)
    for column in ("query", "plain", "enabled", "added"):
        table.add_column(column, justify="left" if column == "query" else "right")
    for one in found:
        style = "red" if one.added > LIMIT else ""
        table.add_row(one.query, f"{one.plain:.2f}", f"{one.enabled:.2f}", f"{one.added:+.2f}", style=style)
    return table
