"""What the crash tests run: data, and a query for each scheme. Harness, driver program and fixtures share it."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id bigint, a int, b int, g string, ts timestamp"
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.int32()),
        ("b", pa.int32()),
        ("g", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
STREAMS = ("r", "s", "t")

#: Rows come at most this much out of order (seconds), which is less than the watermark's delay: none is late.
DISORDER, DELAY = 4, "10 seconds"

#: Rows with ids from here on come an hour before all others: they are late from the third file on.
LATE_IDS = 1_000_000

_START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
_OUTPUT = "r.id AS r, s.id AS s, t.id AS t, t.g AS g, r.ts AS at"
_CHAIN = "FROM r JOIN s ON ABS(r.a - s.a) <= 2 JOIN t ON s.b BETWEEN t.b - 1 AND t.b + 1"
_BY_KEY = f"{_CHAIN.replace('ON ', 'ON r.g = s.g AND ', 1)} AND s.g = t.g"
_CYCLE = f"{_CHAIN} AND r.g <> t.g"
_NEAR = (
    "AND r.ts BETWEEN s.ts - INTERVAL 90 SECONDS AND s.ts + INTERVAL 90 SECONDS "
    "AND t.ts BETWEEN s.ts - INTERVAL 90 SECONDS AND s.ts + INTERVAL 90 SECONDS"
)


@dataclass(frozen=True, slots=True)
class Case:
    """A query, whether its streams have watermarks (then rows expire on the way), and whether tables come first."""

    sql: str
    watermarks: bool
    histories: bool = False


def _case(hint: str, join: str, *, window: bool = False) -> Case:
    where = " WHERE " + _NEAR.removeprefix("AND ") if window else ""
    return Case(f"SELECT /*+ {hint} */ {_OUTPUT} {join}{where}", window)


CASES: dict[str, Case] = {
    "symmetric": _case("SCHEME('symmetric'), UNITS(2)", _CYCLE),
    "symmetric window": _case("SCHEME('symmetric'), UNITS(3)", _CYCLE, window=True),
    "semi_symmetric": _case("SCHEME('semi_symmetric'), UNITS(3)", _CHAIN),
    "semi_symmetric window": _case("SCHEME('semi_symmetric'), UNITS(2)", _CHAIN, window=True),
    "matrix": _case("SCHEME('matrix'), UNITS(4)", _CYCLE),
    "matrix window": _case("SCHEME('matrix'), UNITS(4)", _CHAIN, window=True),
    "tree": _case("SCHEME('tree'), UNITS(2)", _CHAIN),
    "tree window": _case("SCHEME('tree'), UNITS(2)", _CYCLE, window=True),
    "pair window": Case(
        "SELECT /*+ UNITS(3) */ r.id AS r, s.id AS s, s.g AS g FROM r JOIN s ON ABS(r.a - s.a) <= 30 "
        "AND r.ts BETWEEN s.ts - INTERVAL 90 SECONDS AND s.ts",
        True,
    ),
    "key window": _case("SCHEME('semi_symmetric'), UNITS(3)", _BY_KEY, window=True),
    "range window": Case(
        "SELECT /*+ ROUTING('range'), UNITS(3) */ r.id AS r, s.id AS s, s.g AS g FROM r JOIN s ON ABS(r.a - s.a) <= 30 "
        "AND r.ts BETWEEN s.ts - INTERVAL 90 SECONDS AND s.ts",
        True,
    ),
}


_PAIR = "FROM r JOIN s ON ABS(r.a - s.a) <= 30 AND r.ts BETWEEN s.ts - INTERVAL 90 SECONDS AND s.ts"
#: All of it is closed when the last rows have come, although the join holds the watermark back by 90 seconds.
_CLOSED = "r.ts < TIMESTAMP '2024-01-01 00:05:40'"

#: Spark's own state above a join of ours, whose watermark is held back.
ABOVE: dict[str, Case] = {
    "window above a pair": Case(
        f"SELECT /*+ UNITS(3) */ window(r.ts, '20 seconds').start AS at, count(*) AS n, sum(s.id) AS s {_PAIR} "
        f"WHERE {_CLOSED} GROUP BY window(r.ts, '20 seconds')",
        True,
    ),
    "left join above a pair": Case(
        f"SELECT /*+ UNITS(2) */ r.id AS r, s.id AS s, t.id AS t {_PAIR} LEFT JOIN t ON t.g = r.g AND t.b = r.b AND "
        f"t.ts BETWEEN r.ts AND r.ts + INTERVAL 20 SECONDS WHERE {_CLOSED}",
        True,
    ),
}

#: Joins whose rows without a partner leave when the watermark has passed them, on their way through crashes.
_NEARLY = "ABS(r.a - s.a) <= 5 AND r.ts BETWEEN s.ts - INTERVAL 90 SECONDS AND s.ts"
OUTER: dict[str, Case] = {
    "left join": Case(
        f"SELECT /*+ UNITS(3) */ r.id AS r, r.g AS g, s.id AS s, s.g AS h FROM r LEFT JOIN s ON {_NEARLY} "
        f"WHERE {_CLOSED}",
        True,
    ),
    "full join": Case(
        f"SELECT r.id AS r, s.id AS s, s.g AS h FROM r FULL JOIN s ON {_NEARLY} "
        f"WHERE {_CLOSED.replace('r.ts', 'COALESCE(r.ts, s.ts)')}",
        True,
    ),
    "right join": Case(
        f"SELECT /*+ UNITS(3) */ r.id AS r, s.id AS s, s.g AS g FROM r RIGHT JOIN s ON {_NEARLY} "
        f"WHERE {_CLOSED.replace('r.ts', 's.ts')}",
        True,
    ),
    "semi join": Case(f"SELECT /*+ UNITS(3) */ r.id AS r, r.g AS g FROM r LEFT SEMI JOIN s ON {_NEARLY}", True),
    "anti join in cells of a key": Case(
        f"SELECT /*+ UNITS(3) */ r.id AS r, r.ts AS at FROM r WHERE {_CLOSED} AND NOT EXISTS (SELECT 1 FROM s "
        f"WHERE r.g = s.g AND {_NEARLY})",
        True,
    ),
    "the latest of each key": Case(
        f"SELECT /*+ UNITS(3) */ r.id AS r, s.ts AS at FROM r LEFT ASOF JOIN s MATCH_CONDITION (r.ts > s.ts) "
        f"ON r.g = s.g WHERE {_CLOSED}",
        True,
    ),
    "the closest in a window": Case(
        f"SELECT /*+ UNITS(3) */ r.id AS r, s.a AS a FROM r ASOF JOIN s MATCH_CONDITION (r.a >= s.a) "
        f"ON r.ts BETWEEN s.ts - INTERVAL 60 SECONDS AND s.ts WHERE {_CLOSED.replace('05:40', '05:00')}",
        True,
    ),
    "left and closest on a row": Case(
        f"SELECT /*+ UNITS(3) */ r.id AS r, s.id AS s, s.g AS h, t.ts AS at FROM r LEFT JOIN s ON {_NEARLY} "
        f"LEFT ASOF JOIN t MATCH_CONDITION (r.ts > t.ts) ON r.g = t.g WHERE {_CLOSED}",
        True,
    ),
    "left and anti on a row": Case(
        f"SELECT /*+ UNITS(2) */ r.id AS r, s.id AS s FROM r LEFT JOIN s ON r.g = s.g AND {_NEARLY} WHERE {_CLOSED} "
        "AND NOT EXISTS (SELECT 1 FROM t WHERE ABS(r.a - t.a) <= 3 AND t.ts BETWEEN r.ts AND r.ts + INTERVAL 9 SECOND)",
        True,
    ),
    "full join that Spark tests": Case(
        f"SELECT /*+ UNITS(2) */ r.id AS r, s.id AS s, s.g AS h FROM r FULL JOIN s ON {_NEARLY} AND r.a * s.a % 3 <> 1 "
        f"WHERE {_CLOSED.replace('r.ts', 'COALESCE(r.ts, s.ts)')}",
        True,
    ),
    "anti join that Spark tests": Case(
        f"SELECT /*+ UNITS(3) */ r.id AS r, r.ts AS at FROM r LEFT ANTI JOIN s ON {_NEARLY} AND r.a * s.a % 7 < 2 "
        f"WHERE {_CLOSED}",
        True,
    ),
    "anti join above a pair": Case(
        f"SELECT /*+ UNITS(2) */ r.id AS r, s.id AS s {_PAIR} LEFT ANTI JOIN t ON ABS(s.a - t.a) <= 5 AND t.ts BETWEEN "
        f"s.ts AND s.ts + INTERVAL 30 SECONDS WHERE {_CLOSED.replace('05:40', '05:00')}",
        True,
    ),
}

#: The same queries over streams that begin with a table each, which has the first files.
HISTORIES: dict[str, Case] = {
    f"{name}, histories": Case(re.sub(r"\b(FROM|JOIN) ([rst])\b", r"\1 \2 HISTORY old_\2", case.sql), True, True)
    for name, case in {**CASES, **ABOVE, **OUTER}.items()
    if case.watermarks
}
_OLD, _NEW = "0000[0-4].parquet", "{0000[5-9],0001*}.parquet"


def with_units(sql: str, units: int | None) -> str:
    """Return a case's query with another number of units, None for its own."""
    return sql if units is None else re.sub(r"UNITS\(\d+\)", f"UNITS({units})", sql)


def write_streams(home: Path, seed: int, files: Iterable[int], rows: int, late: int = 0) -> None:
    """Write files of three streams, ``home/r/00000.parquet`` and so on; each is one micro-batch.

    Parameters
    ----------
    home
        The folder.
    seed
        Of the values. Files of one seed may be written in several calls.
    files
        Their numbers; time goes on with the number.
    rows
        In each file; every seventh one twice, and one in twenty values NULL.
    late
        Late rows in each file from the fourth on, beside the others; two of them alike.
    """
    for number in files:
        for name in STREAMS:
            random = Random(f"{seed} {name} {number}")
            made: list[dict[str, Any]] = []
            for at in range(number * rows, (number + 1) * rows):
                seconds = at + random.randrange(-DISORDER // 2, DISORDER // 2)
                row = {
                    "id": at,
                    "a": random.randrange(300),
                    "b": None if random.random() < 0.05 else random.randrange(300),
                    "g": random.choice("xyz"),
                    "ts": _START + datetime.timedelta(seconds=seconds),
                }
                made.append(dict(made[-1]) if made and at % 7 == 6 else row)
            for at in range(late if number > 2 else 0):
                one = LATE_IDS + number * late + max(at, 1)
                ts = _START - datetime.timedelta(hours=1, seconds=one - LATE_IDS)
                made.append({"id": one, "a": 7, "b": 7, "g": name, "ts": ts})
            folder = home / name
            folder.mkdir(parents=True, exist_ok=True)
            hidden = folder / f".{number:05d}.parquet"
            pq.write_table(pa.Table.from_pylist(made, ARROW), hidden)
            os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
            hidden.rename(folder / f"{number:05d}.parquet")


def make_views(spark: SparkSession, home: Path, case: Case, *, streaming: bool) -> None:
    """Make r, s and t visible to SQL, as streams of one file a micro-batch or as batch relations."""
    for name in STREAMS:
        reader: Any = spark.readStream.option("maxFilesPerTrigger", 1) if streaming else spark.read
        if streaming and case.histories:
            reader = reader.option("pathGlobFilter", _NEW)
            old = spark.read.schema(SCHEMA).option("pathGlobFilter", _OLD).parquet(str(home / name))
            old.createOrReplaceTempView(f"old_{name}")
        frame: DataFrame = reader.schema(SCHEMA).parquet(str(home / name))
        if case.watermarks and streaming:
            frame = frame.withWatermark("ts", DELAY)
        frame.createOrReplaceTempView(name)
