"""Data, streams over it, and their results as bags, for tests that compare with Spark batch."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Bag = Counter[str]
UTC = datetime.UTC
NAN = float("nan")

#: By column its type in Arrow, in Spark, and values; the first is the most frequent one.
COLUMNS: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "ti": (pa.int8(), "tinyint", [3, -128, 0, 1, 2, 127]),
    "si": (pa.int16(), "smallint", [3, -32768, 0, 1, 2]),
    "i": (pa.int32(), "int", [3, 0, 1, 2, 16777216, 16777217]),
    "b": (pa.int64(), "bigint", [3, -(1 << 63), 0, 1, 2, 9007199254740992, 9007199254740993, (1 << 63) - 1]),
    "f": (pa.float32(), "float", [1.5, NAN, -0.0, 0.0, 3.0, float("inf"), 16777216.0]),
    "d": (pa.float64(), "double", [1.5, NAN, -0.0, 0.0, 3.0, float("-inf"), 9007199254740992.0, 0.1]),
    "n": (
        pa.decimal128(10, 2),
        "decimal(10,2)",
        [Decimal(x) for x in ("1.50", "-0.01", "0.00", "3.00", "99999999.99")],
    ),
    "m": (pa.decimal128(20, 4), "decimal(20,4)", [Decimal(x) for x in ("1.5000", "1.5001", "0.0000", "3.0000")]),
    "w": (
        pa.decimal128(38, 10),
        "decimal(38,10)",
        [Decimal(x) for x in ("1.5000000000", "3.0000000000", f"-{'9' * 28}.{'9' * 10}", "1.5000000001")],
    ),
    "dt": (pa.date32(), "date", [datetime.date(2024, 3, 31), datetime.date(1, 1, 1), datetime.date(2024, 4, 1)]),
    "ts": (
        pa.timestamp("us", "UTC"),
        "timestamp",
        [
            datetime.datetime(2024, 3, day, hour, 0, 0, us, UTC)
            for day, hour, us in ((30, 23, 0), (31, 0, 0), (31, 0, 1))
        ],
    ),
    "tn": (
        pa.timestamp("us"),
        "timestamp_ntz",
        [datetime.datetime(2024, 3, 31, h, 30) for h in (0, 1, 2, 3)] + [datetime.datetime(2024, 3, 31)],
    ),
    "s": (pa.string(), "string", ["aaaaaaaab", "aaaaaaaac", "", "a", "a ", "a\0", "B", "😀", "\uffff"]),
    "x": (pa.string(), "string", ["3", " 3 ", "0", "1"]),
    "bi": (pa.binary(), "binary", [b"\x80", b"\x7f", b"", b"aaaaaaaab", b"aaaaaaaac"]),
    "bo": (pa.bool_(), "boolean", [True, False]),
}
SCHEMA = "id bigint, " + ", ".join(f"{name} {ddl}" for name, (_, ddl, _) in COLUMNS.items())
ARROW = pa.schema([("id", pa.int64()), *((name, type_) for name, (type_, _, _) in COLUMNS.items())])


def random_rows(seed: int, count: int, nulls: float = 0.1) -> list[dict[str, Any]]:
    """Rows with NULLs, skew, and every fourth one twice."""
    random = Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        if number % 4 == 3:
            rows.append(dict(rows[-1]))
            continue
        row: dict[str, Any] = {"id": number}
        for name, (_, _, values) in COLUMNS.items():
            chosen = values[0] if random.random() < 0.2 else random.choice(values)
            row[name] = None if random.random() < nulls else chosen
        rows.append(row)
    return rows


class Tables:
    """Tables as folders of Parquet files; each file is one micro-batch.

    Parameters
    ----------
    spark, home
        The session, and a folder of this test's own.
    """

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home
        self.schemas: dict[str, str] = {}
        self.views: dict[str, Callable[[DataFrame], DataFrame]] = {}
        self._files = 0

    def create(
        self,
        name: str,
        pieces: Iterable[Sequence[Mapping[str, Any]]],
        schema: str = SCHEMA,
        arrow: pa.Schema = ARROW,
        view: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    ) -> None:
        """Make a table of some files; ``view`` is put on top of it."""
        (self.home / name).mkdir(parents=True)
        self.schemas[name], self.views[name] = schema, view
        for rows in pieces:
            self.add(name, rows, arrow)

    def add(self, name: str, rows: Sequence[Mapping[str, Any]], arrow: pa.Schema = ARROW) -> None:
        """Add a file that is younger than all others."""
        self._files += 1
        path = self.home / name / f"part-{self._files:05d}.parquet"
        hidden = path.with_name("." + path.name)
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], arrow), hidden)
        os.utime(hidden, (1_700_000_000 + self._files, 1_700_000_000 + self._files))
        hidden.rename(path)

    def use(self, *, streaming: bool) -> None:
        """Make the tables visible to SQL, as batch relations or as streams."""
        for name, schema in self.schemas.items():
            reader = self.spark.readStream.option("maxFilesPerTrigger", 1) if streaming else self.spark.read
            frame = reader.schema(schema).parquet(str(self.home / name))
            self.views[name](frame).createOrReplaceTempView(name)


def cut(rows: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> list[Sequence[Mapping[str, Any]]]:
    """Cut rows into pieces of these sizes; the rest is the last one."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(rows[start : start + size])
        start += size
    return [*pieces, rows[start:]]


def random_tables(spark: SparkSession, home: Path) -> Tables:
    """Return three streams of micro-batches of unlike size, the second of which starts late, and one without rows."""
    made = Tables(spark, home)
    for seed, (name, sizes) in enumerate({"r": (1, 12, 0), "s": (0, 0, 20), "t": (30, 2)}.items(), 1):
        made.create(name, cut(random_rows(seed, 40), sizes))
    made.create("nothing", [[]])
    return made


def bag(rows: Iterable[Any]) -> Bag:
    """Return rows as a bag; NaN equals itself, and -0.0 is not 0.0."""
    return Counter(repr(_plain(row)) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((repr(_plain(key)), _plain(item)) for key, item in value.items())
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value


def run_stream(
    frame: DataFrame, checkpoint: Path, mode: str = "append", look: Callable[[StreamingQuery], None] | None = None
) -> Bag:
    """Run a streaming query over what is there, and return its results; ``look`` sees it at its end."""
    found: Bag = Counter()

    def keep(batch: DataFrame, _: int) -> None:
        if mode == "complete":
            found.clear()
        found.update(bag(batch.collect()))

    writer = frame.writeStream.outputMode(mode).foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
        if look is not None:
            look(query)
    finally:
        query.stop()
    return found
