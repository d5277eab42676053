"""Compare many random queries, converted and not, on Spark batch (`make fuzz`): ``fuzz.py --seconds 600 --seed 1``.

Every difference is printed with its seed and its SQL. A query that Spark itself refuses is counted, no more; if Spark
runs it, ours must run too.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from trijoin_sql.rewriter.options import Settings

from trijoin_sql.errors import PlanError, TriJoinError

if __package__:
    from .random_queries import random_query
    from .reference import views
    from .tables import BATCH, CATALOG, COLUMNS, rewritten
else:
    from random_queries import random_query
    from reference import views
    from tables import BATCH, CATALOG, COLUMNS, rewritten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Small queries are faster without generated code, without replanning, and in one partition.
FAST = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


def create_tables(spark: SparkSession, rows: int = 9) -> None:
    """Make the tables of `tables` temporary views: small, with NULL, NaN, -0.0 and duplicates."""
    dice = random.Random(5)

    def maybe(value: object) -> object:
        return None if dice.random() < 0.12 else value

    def row() -> tuple[object, ...]:
        start = dt.datetime(2024, 1, 1)
        return (
            maybe(dice.randint(0, 6)),
            maybe(dice.randint(-3, 8)),
            maybe(start + dt.timedelta(minutes=dice.randint(0, 20))),
            maybe(dice.choice([0.0, -0.0, 1.5, 2.0, float("nan"), 3.25, 1e300])),
            maybe(dice.choice(["x", "y", "z", "%"])),
            maybe(start.date() + dt.timedelta(days=dice.randint(0, 6))),
            maybe(dice.choice([0, 1, 2])),
        )

    for name in "rst":
        _view(spark, name, [row() for _ in range(rows)], COLUMNS)
    c = [(dice.randint(0, 5), dice.choice([None, 1, 2, 3]), dice.choice("xyz")) for _ in range(5)]
    _view(spark, "c", c, "id INT, `Größe X` INT, n STRING")
    u = [(dice.randint(0, 5), dice.choice([None, 1, 2, 3])) for _ in range(6)]
    _view(spark, "u", u, "Key INT, Val INT")


def _view(spark: SparkSession, name: str, rows: list[tuple[Any, ...]], schema: str) -> None:
    """Make a view of literal rows: Spark reads them without a task of Python's."""
    names, kinds = zip(
        *(part.strip().rsplit(" ", 1) for part in schema.replace("10,2", "10;2").split(",")), strict=True
    )
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    casts = [
        f"CAST({column} AS {kind.replace(';', ',')}) AS {column}" for column, kind in zip(names, kinds, strict=True)
    ]
    spark.sql(f"SELECT {', '.join(casts)} FROM VALUES {values} AS v({', '.join(names)})").createOrReplaceTempView(name)


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case dt.datetime():
            return f"TIMESTAMP '{value}'"
        case dt.date():
            return f"DATE '{value}'"
        case str():
            return f"'{value}'"
    return str(value)


def bag(df: DataFrame) -> Counter[str]:
    """Return the rows as a bag; NaN equals itself, and -0.0 is not 0.0."""
    return Counter(repr(tuple(row)) for row in df.collect())


def check(spark: SparkSession, sql: str, batch: bool = False, *, ansi: bool = True) -> str:
    """Compare one query; return how it went: ``converted``, ``left alone`` or ``refused by Spark``.

    Raises
    ------
    AssertionError
        Converted and unconverted query differ.
    """
    from pyspark.errors import AnalysisException, ParseException

    spark.conf.set("spark.sql.ansi.enabled", str(ansi).lower())
    try:
        result = rewritten(sql, Settings(ansi=ansi, zone_shift=0, tables="all"), BATCH if batch else CATALOG)
    except PlanError:
        raise
    except TriJoinError:
        return "refused by us"
    try:
        expected = spark.sql(result.spark_sql)
    except (AnalysisException, ParseException):
        return "refused by Spark"
    if result.plan is None:
        return "left alone"
    try:
        wanted = bag(expected)
    except Exception:  # its optimizer has bugs of its own: PLAN_VALIDATION_FAILED, a lost CTERelationDef
        return "refused by Spark"
    for name, view in views(result):
        spark.sql(view).createOrReplaceTempView(name)
    found = spark.sql(result.plan.sql)
    assert [field.dataType for field in found.schema] == [field.dataType for field in expected.schema]
    assert bag(found) == wanted, result.plan.sql
    return "converted"


def main() -> int:
    """Run until the time is over; the exit code says whether all agreed."""
    from pyspark.sql import SparkSession

    import trijoin_sql

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(0, 10**6), help="of the first query")
    parser.add_argument("--count", type=int, default=10**9, help="at most so many queries")
    options = parser.parse_args()
    builder = SparkSession.builder.master("local[1,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config(map=FAST)
    builder = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    spark = trijoin_sql.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    create_tables(spark)
    outcomes: Counter[str] = Counter()
    failed, start, seed = 0, time.monotonic(), options.seed
    while time.monotonic() - start < options.seconds and seed < options.seed + options.count:
        sql = random_query(random.Random(seed))
        try:
            outcomes[check(spark, sql, batch=seed % 2 == 0, ansi=seed % 3 > 0)] += 1
        except Exception as error:
            failed += 1
            print(f"-- seed {seed}: {type(error).__name__}: {str(error)[:600]}\n{sql}\n", flush=True)
        seed += 1
        if seed % 50 == 0:
            spark.catalog.clearCache()
    spark.stop()
    count, seconds = seed - options.seed, time.monotonic() - start
    print(f"{count} queries from seed {options.seed} on in {seconds:.0f} s: {dict(outcomes)}, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
