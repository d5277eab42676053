"""Distances in two dimensions and on a globe, on streams: the rows of Spark batch, found by the bands that follow."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import trijoin_sql

from .differential import NAN, UTC, Tables, bag, cut, random_tables, run_stream

HAVERSINE = (
    "12742 * ASIN(SQRT(POWER(SIN((RADIANS(s.f) - RADIANS(r.d)) / 2), 2)"
    " + COS(RADIANS(r.d)) * COS(RADIANS(s.f)) * POWER(SIN(RADIANS(s.i - r.i) / 2), 2)))"
)
STATEMENTS = (
    "SELECT r.id, s.id AS sid FROM r JOIN s ON POWER(r.d - s.d, 2) + POWER(r.i - s.i, 2) <= 6.25",
    "SELECT /*+ SCHEME('matrix') */ r.id, s.id AS sid FROM r JOIN s ON hypot(r.d - s.f, r.i - s.i) < 2",
    "SELECT r.id, s.id AS sid, t.id AS tid FROM r JOIN s ON SQRT(POWER(r.d - s.d, 2) + POWER(r.f - s.f, 2)) <= 1.5 "
    "JOIN t ON (s.f - t.f) * (s.f - t.f) + ABS(s.n - t.n) < 2",
    "SELECT r.id, s.id AS sid FROM r JOIN s ON GREATEST(ABS(r.d - s.d), ABS(r.n - s.n)) <= 1.5 "
    "AND r.d IS NOT NULL AND s.d < 100",
    f"SELECT r.id, s.id AS sid FROM r JOIN s ON {HAVERSINE} < 200 AND ABS(r.d) <= 90 AND s.f BETWEEN -90 AND 90",
)


@pytest.mark.rare
@pytest.mark.parametrize("number", range(len(STATEMENTS)))
def test_the_rows_are_those_of_batch(spark: SparkSession, tmp_path: Path, number: int) -> None:
    tj, sql = trijoin_sql.TriJoinSession.create(spark), STATEMENTS[number]
    tables = random_tables(spark, tmp_path)
    tables.use(streaming=False)
    wanted = bag(spark.sql(sql).collect())
    tables.use(streaming=True)
    assert wanted
    edges = [edge for group in tj.explain(sql).to_dict()["groups"] for edge in group["graph"]["edges"]]
    kinds = [[(one["kind"], one.get("derived", False)) for one in edge["predicates"]] for edge in edges]
    assert all(("band", True) in of_edge and ("residual", False) in of_edge for of_edge in kinds)
    assert run_stream(tj.sql(sql), tmp_path / "checkpoint") == wanted


GLOBE = "id BIGINT, lat DOUBLE, lon DOUBLE, f FLOAT, n DECIMAL(9,6), i INT, k INT, ts TIMESTAMP"
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("lat", pa.float64()),
        ("lon", pa.float64()),
        ("f", pa.float32()),
        ("n", pa.decimal128(9, 6)),
        ("i", pa.int32()),
        ("k", pa.int32()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
#: Near each other on the globe, if one turns on beyond the poles; without a place; and so large that rounding is all.
LATITUDES = (52.0, 52.001, -52.0, 128.0, 127.999, -308.0, 412.0, 90.0, -90.0, 89.9999, 90.00000000000001, 91.0, -91.0,
    270.0, -270.0, 0.0, -0.0, 180.0, 360.0, NAN, None, float("inf"), float("-inf"), 1e17, 1e300)  # fmt: skip
LONGITUDES = (13.0, 13.001, -167.0, 193.0, 0.0, NAN, None)
A = (
    "POWER(SIN((RADIANS(s.{0}) - RADIANS(r.{0})) / 2), 2)"
    " + COS(RADIANS(r.{0})) * COS(RADIANS(s.{0})) * POWER(SIN(RADIANS(s.lon - r.lon) / 2), 2)"
)
COSINES = (
    "6371 * ACOS(SIN(RADIANS(r.lat)) * SIN(RADIANS(s.lat))"
    " + COS(RADIANS(r.lat)) * COS(RADIANS(s.lat)) * COS(RADIANS(s.lon - r.lon))) < 5"
)
CLOSE = "s.ts BETWEEN r.ts - INTERVAL 20 SECONDS AND r.ts + INTERVAL 20 SECONDS"
#: By the column with the latitudes of r and s.
AROUND_THE_GLOBE = {
    "lat": f"SELECT r.id, s.id AS sid FROM r JOIN s ON 12742 * ASIN(SQRT({A.format('lat')})) < 5",
    "f": f"SELECT r.id, s.id AS sid FROM r JOIN s ON r.k = s.k AND 12742 * ASIN(LEAST(1, SQRT({A.format('f')}))) < 5",
    "n": f"SELECT r.id, s.id AS sid FROM r JOIN s ON 12742 * ATAN2(SQRT({A.format('n')}),"
    f" SQRT(1 - ({A.format('n')}))) < 5 AND {CLOSE}",
    "`lat`": f"SELECT /*+ SCHEME('matrix') */ r.id, s.id AS sid FROM r JOIN s ON {COSINES} AND r.i <> s.i",
    "i": f"SELECT r.id, s.id AS sid, t.id AS tid FROM r JOIN s ON 12742 * ASIN(SQRT({A.format('i')})) < 5 AND s.k = 1"
    f" AND {CLOSE} JOIN t ON {COSINES.replace('r.', 't.')}",
}


def _on_the_globe(spark: SparkSession, home: Path) -> Tables:
    chance, made = Random(34), Tables(spark, home)
    for name in "rst":
        rows: list[dict[str, Any]] = []
        for number, lat in enumerate(chance.choices(LATITUDES, k=90)):
            finite = lat is not None and abs(lat) < 1000
            second = datetime.timedelta(seconds=number // 3)
            rows.append(
                {
                    "id": number,
                    "lat": lat,
                    "lon": chance.choice(LONGITUDES),
                    "f": lat if finite or chance.random() < 0.5 else NAN,
                    "n": Decimal(f"{lat:.6f}") if finite else None,
                    "i": round(lat) if finite else None,
                    "k": chance.randrange(2),
                    "ts": datetime.datetime(2024, 1, 1, tzinfo=UTC) + second,
                }
            )
        made.create(name, cut(rows, (1, 40)), GLOBE, ARROW, lambda frame: frame.withWatermark("ts", "1 minute"))
    return made


@pytest.mark.rare
@pytest.mark.parametrize("column", AROUND_THE_GLOBE)
def test_latitudes_beyond_the_poles_join_as_in_batch(spark: SparkSession, tmp_path: Path, column: str) -> None:
    """Some results are outside the band: without its other branches they would be missing."""
    tj, sql = trijoin_sql.TriJoinSession.create(spark), AROUND_THE_GLOBE[column]
    tables = _on_the_globe(spark, tmp_path)
    tables.use(streaming=False)
    wanted = bag(spark.sql(sql).collect())
    assert wanted >= bag(spark.sql(f"{sql} AND ABS(r.{column} - s.{column}) > 1").collect()) > Counter()
    tables.use(streaming=True)
    edges = [edge for group in tj.explain(sql).to_dict()["groups"] for edge in group["graph"]["edges"]]
    assert all("either" in [one["kind"] for one in edge["predicates"]] for edge in edges if len(edge["predicates"]) > 1)
    assert run_stream(tj.sql(sql), tmp_path / "checkpoint") == wanted
