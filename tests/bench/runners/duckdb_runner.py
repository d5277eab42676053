"""DuckDB: the query as one batch join over tables in memory. A yardstick, not a stream engine."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import duckdb


def main(request: dict[str, Any]) -> None:
    """Load the tables, then run the query."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {int(request['parallelism'])}")
    for stream in request["streams"]:
        files = f"{request['folder']}/{stream}/*.parquet".replace("'", "''")
        connection.execute(f"CREATE TABLE {stream} AS SELECT * FROM read_parquet('{files}')")
    print(json.dumps({"ready": True}), flush=True)
    start = time.perf_counter()
    # The sum makes it compute a column of every result.
    found = connection.execute(f"SELECT count(*), sum(r_l) FROM ({request['sql']})").fetchall()
    print(json.dumps({"seconds": time.perf_counter() - start, "results": found[0][0]}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
