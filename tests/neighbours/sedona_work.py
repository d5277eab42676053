"""Joins on geometries of Apache Sedona, in a session of its own: it needs jars and the package ``apache-sedona``.

``python -m tests.neighbours.sedona_work JARS FOLDER`` prints what came out, as JSON.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from trijoin_sql.rewriter.plan.expr import UNKNOWN
from trijoin_sql.rewriter.predicates.envelopes import overlaps
from trijoin_sql.rewriter.predicates.terms import Scope
from trijoin_sql.rewriter.sql.expressions import parsed

import trijoin_sql

from ..sessions import compiled_pyspark, local_session

PAGE = Path(__file__).parents[2] / "docs" / "neighbours.md"

COLUMNS = "id BIGINT, ts TIMESTAMP, wkt STRING, far DOUBLE, x DOUBLE, y DOUBLE"

#: A pair of rows for which one of these is true has boxes that overlap.
CONDITIONS = [
    *(f"ST_{name}(r.g, s.g)" for name in ("Intersects", "Contains", "Within", "Covers", "CoveredBy", "Touches")),
    *(f"ST_{name}(s.g, r.g)" for name in ("Crosses", "Overlaps", "Equals", "Contains", "Covers")),
    *("ST_DWithin(r.g, s.g, 2)", "ST_DWithin(s.g, r.g, s.far)", "ST_DWithin(s.g, r.g, r.far, FALSE)"),
    *("ST_Distance(r.g, s.g) < 1.5", "0 >= ST_Distance(s.g, r.g)", "ST_Intersects(ST_Point(r.x, r.y), s.g)"),
    "ST_Intersects(ST_Envelope(r.g), ST_Centroid(s.g))",
]
#: Sedona raises an error for a point without coordinates.
ON_GLOBE = [
    "ST_DistanceSphere(r.g, s.g) < 3E5",
    "ST_DistanceSpheroid(s.g, r.g) <= 3E5",
    "ST_DWithin(r.g, s.g, 3E5, TRUE)",
]

#: Queries over streams, and over the same tables.
QUERIES = {
    "inner": "SELECT r.id, s.id AS other, r.g, s.g AS h FROM r JOIN s ON ST_Intersects(r.g, s.g) {}",
    "left": "SELECT r.id, s.id AS other, r.g, s.g AS h FROM r LEFT JOIN s ON ST_Contains(s.g, r.g) {}",
    "full": "SELECT r.id, s.id AS other, s.g FROM r FULL JOIN s ON ST_DWithin(r.g, s.g, s.far) {}",
    "anti": "SELECT r.id, r.g FROM r LEFT ANTI JOIN s ON ST_Distance(r.g, s.g) < 1 {}",
    "equal": "SELECT r.id, s.id AS other FROM r JOIN s ON r.g = s.g {}",
    "texts": "SELECT r.id, s.id AS other FROM r JOIN s"
    " ON ST_Intersects(ST_GeomFromWKT(r.wkt), ST_GeomFromWKT(s.wkt)) {}",
    "three": "SELECT r.id, s.id AS other, t.id AS third, t.g FROM r JOIN s ON ST_Intersects(r.g, s.g) {}"
    " JOIN t ON ST_DWithin(s.g, t.g, 1) AND t.ts BETWEEN s.ts AND s.ts + INTERVAL 1 MINUTE",
}
#: By name, what the page calls such a stream.
STREAMS = {"r": "vehicles", "s": "zones", "t": "routes"}
SOON = "AND r.ts BETWEEN s.ts - INTERVAL 2 MINUTES AND s.ts + INTERVAL 2 MINUTES"


def text_of(dice: random.Random, *, odd: bool) -> str | None:
    """Return a geometry: a point, a line or a rectangle; seldom none, an empty one, or one with NaN."""
    drawn = dice.random() if odd else 1.0
    if drawn < 0.03:
        return None
    if drawn < 0.1:
        return dice.choice(["POINT EMPTY", "POLYGON EMPTY", "GEOMETRYCOLLECTION EMPTY"])
    if drawn < 0.14:
        return "POINT(NaN 3)"
    digits = dice.choice([0, 1, 15])
    x, y = (round(dice.uniform(0, 25), digits) for _ in "xy")
    wide, high = dice.uniform(0.1, 5), dice.uniform(0.1, 5)
    return dice.choice(
        [
            f"POINT({x} {y})",
            f"LINESTRING({x} {y}, {x + wide} {y - high})",
            f"POLYGON(({x} {y}, {x + wide} {y}, {x + wide} {y + high}, {x} {y + high}, {x} {y}))",
        ]
    )


def write(spark: SparkSession, folder: Path, name: str) -> None:
    """Write three files of a stream, and one of two hours later, by which all rows are settled."""
    dice = random.Random(name)
    for number in range(4):
        last = number == 3
        rows = [
            (
                -1 if last else 100 * number + one,
                f"2026-03-01 {12 if last else 10}:{dice.randrange(10):02d}:{dice.randrange(60):02d}",
                None if last else text_of(dice, odd=True),
                dice.choice([None, 0.0, 0.5, 2.0]),
                dice.choice([None, *(round(dice.uniform(0, 25), 1) for _ in range(9))]),
                round(dice.uniform(0, 25), 1),
            )
            for one in range(1 if last else 20)
        ]
        frame = spark.createDataFrame(rows, COLUMNS.replace("TIMESTAMP", "STRING"))
        frame.selectExpr("id", "TIMESTAMP(ts) AS ts", "wkt", "far", "x", "y").coalesce(1).write.mode("append").parquet(
            str(folder / name)
        )


def implied(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """Yield whether boxes overlap wherever a condition is true, and say how few of all pairs are left."""
    scope = Scope(("r", "s"), {(one, name): "double" for one in "rs" for name in ("far", "x", "y")})
    for conditions, odd in ((CONDITIONS, True), (ON_GLOBE, False)):
        for name in "rs":
            dice = random.Random(f"{name}{odd}")
            rows = [(n, text_of(dice, odd=odd), dice.choice([None, 0.5, 2.0]), dice.uniform(0, 25)) for n in range(150)]
            frame = spark.createDataFrame(rows, "id INT, wkt STRING, far DOUBLE, x DOUBLE")
            frame.selectExpr("id", "far", "x", "x / 2 AS y", "ST_GeomFromWKT(wkt) AS g").createOrReplaceTempView(
                f"of_{name}"
            )
        for condition in conditions:
            expr = parsed(condition, lambda one: scope.types.get((one.table, one.name), UNKNOWN))
            boxes = " AND ".join(f"{one.left.sql} {one.op} {one.right.sql}" for one in overlaps(expr, scope))
            row = spark.sql(
                f"SELECT COUNT_IF({condition}), COUNT_IF({boxes}), "
                f"COUNT_IF({condition} AND COALESCE(NOT ({boxes}), TRUE)) FROM of_r AS r CROSS JOIN of_s AS s"
            ).first()
            fine = row is not None and row[2] == 0 and row[0] <= row[1] < 150 * 150 / 2
            yield condition, "as in batch" if fine else f"true of {row[0]}, boxes of {row[1]}, lost {row[2]}"  # type: ignore[index]


def show(frame: DataFrame, name: str) -> None:
    """Make views of a stream or its table: by its name, with geometries, and by that of the page, with texts."""
    frame.createOrReplaceTempView(STREAMS[name])
    frame.selectExpr("*", "ST_GeomFromWKT(wkt) AS g").createOrReplaceTempView(name)


def bag(rows: list[Row]) -> Counter[str]:
    """Return rows as texts, but for those of the end."""
    return Counter(str(row) for row in rows if -1 not in (row[0], row[1] if len(row) > 1 else None))


def streamed(spark: SparkSession, tj: trijoin_sql.TriJoinSession, query: str, home: Path) -> Counter[str]:
    """Return the rows of a query over streams; it stops in between, and goes on from its checkpoint."""
    frame = tj.sql(query)
    for once in (True, False):
        writer = frame.writeStream.format("parquet").option("path", str(home / "out"))
        writer = writer.option("checkpointLocation", str(home / "checkpoint"))
        running = (
            writer.trigger(processingTime="0 seconds").start() if once else writer.trigger(availableNow=True).start()
        )
        if once:
            while not running.recentProgress and running.isActive:
                running.awaitTermination(0.2)
            running.stop()
        else:
            running.awaitTermination()
    return bag(spark.read.schema(frame.schema).parquet(str(home / "out")).collect())


def main(jars: Path, home: Path) -> None:
    """Try all, and print what came out."""
    settings = {
        "spark.jars": ",".join(map(str, jars.glob("*.jar"))),
        "spark.sql.extensions": "org.apache.sedona.sql.SedonaSqlExtensions",
        "spark.sedona.join.optimizationmode": "none",  # Spark's own joins are what is compared with
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    }
    with compiled_pyspark(home / "home"):
        spark = local_session(home, "sedona", settings)
    spark.sparkContext.setLogLevel("OFF")
    report = dict(implied(spark))
    for name in STREAMS:
        write(spark, home, name)
        show(spark.read.schema(COLUMNS).parquet(str(home / name)), name)
    section = PAGE.read_text("utf-8").partition("## Apache Sedona")[2].partition("\n## ")[0]
    shown = re.findall(r"```sql\n(.*?);\n```", section, re.DOTALL)
    queries = {name: query.format(SOON) for name, query in QUERIES.items()} | {
        one.partition("\n")[0]: one for one in shown
    }
    wanted = {name: bag(spark.sql(query).collect()) for name, query in queries.items()}
    for name in STREAMS:
        read = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(home / name))
        show(read.withWatermark("ts", "30 minutes"), name)
    tj = trijoin_sql.TriJoinSession(spark)
    for number, (name, query) in enumerate(queries.items()):
        found = streamed(spark, tj, query, home / f"query_{number}")
        missing, more = wanted[name] - found, found - wanted[name]
        fine = wanted[name] and not missing and not more
        report[name] = "as in batch" if fine else f"{wanted[name].total()} wanted, missing {missing}, more {more}"
    print(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
