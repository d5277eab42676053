"""One cyclic and one chain query on streams, run from an installed wheel and compared with plain Python."""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import trijoin_sql
from trijoin_sql.spark.quiet import quiet_jvm

QUERIES = {
    "cyclic": (
        "SELECT r.id, s.id, t.id FROM r JOIN s ON ABS(r.x - s.x) <= 2 JOIN t ON s.x <= t.x AND r.x + t.x > 50",
        lambda r, s, t: abs(r - s) <= 2 and s <= t and r + t > 50,
    ),
    "chain": (
        "SELECT r.id, s.id, t.id FROM r JOIN s ON r.x < s.x AND s.x < r.x + 3 JOIN t ON s.x = t.x WHERE r.x <> 7",
        lambda r, s, t: r < s < r + 3 and s == t and r != 7,
    ),
}


def main() -> int:
    """Return 0 if both queries give exactly what they should."""
    if Path(trijoin_sql.__file__).is_relative_to(Path(__file__).parent.parent / "trijoin_sql"):
        print("this is the checkout, not the wheel", file=sys.stderr)
        return 1
    draw = random.Random(1)
    rows = {name: [draw.randrange(50) for _ in range(60)] for name in "rst"}
    wrong = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        for name, values in rows.items():
            (home / name).mkdir()
            for part in range(3):
                ids = range(part, len(values), 3)
                table = pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array([values[i] for i in ids], pa.int64())})
                pq.write_table(table, home / name / f"{part}.parquet")
        builder = SparkSession.builder.master("local[2,4]").config("spark.driver.memory", "1g")
        for key in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
            builder.config(key, "false")
        with quiet_jvm(), warnings.catch_warnings(record=True) as warned:
            spark = trijoin_sql.configure(builder).getOrCreate()
        wrong += any("pandas" in str(one.message) for one in warned)  # PySpark's, of the newest: configure hushes it
        for name in rows:
            stream = spark.readStream.schema("id BIGINT, x BIGINT").option("maxFilesPerTrigger", 1)
            stream.parquet(str(home / name)).createOrReplaceTempView(name)
        session = trijoin_sql.TriJoinSession.create(spark)
        for name, (sql, matches) in QUERIES.items():
            frame = session.sql(sql).toDF("r", "s", "t")
            sink = frame.writeStream.format("memory").queryName(f"{name}_results").outputMode("append")
            query = (
                sink.option("checkpointLocation", str(home / f"{name}_checkpoint")).trigger(availableNow=True).start()
            )
            query.awaitTermination()
            found = sorted(map(tuple, spark.table(f"{name}_results").collect()))
            numbered = [list(enumerate(values)) for values in rows.values()]
            expected = sorted((i, j, k) for (i, r), (j, s), (k, t) in product(*numbered) if matches(r, s, t))
            wrong += found != expected
            print(
                f"{name}: {len(found)} rows, {len(expected)} expected: {'same' if found == expected else 'DIFFERENT'}"
            )
        spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
