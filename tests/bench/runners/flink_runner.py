"""Flink SQL in streaming mode, on a mini cluster in one JVM, state on the heap.

Results are counted after the join, in mini-batches, so counting costs next to nothing; nothing else is stored or
printed. A small run before the measured one loads classes and compiles code.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

#: Rows of each stream in the run before the measured one.
WARM_UP = 5_000

#: The same heap as the Spark driver of a benchmark.
HEAP = "-Xmx4g"


def write_csv(request: dict[str, Any]) -> None:
    """Write the streams as CSV (the wheel has no Parquet): all rows, and the first rows of each."""
    options = csv.WriteOptions(include_header=False)
    for stream in request["streams"]:
        whole = pq.read_table(f"{request['folder']}/{stream}").combine_chunks()
        for kind, table in (("whole", whole), ("warm", whole.slice(0, WARM_UP))):
            folder = Path(request["scratch"]) / kind / stream
            folder.mkdir(parents=True)
            for number, batch in enumerate(table.to_batches(max_chunksize=50_000)):
                csv.write_csv(pa.Table.from_batches([batch]), folder / f"{number:05}.csv", options)


def environment(parallelism: int) -> Any:
    """Return a table environment; the JVM starts here."""
    os.environ["JVM_ARGS"] = HEAP
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    for key, value in {
        "parallelism.default": str(parallelism),
        "state.backend.type": "hashmap",
        "pipeline.object-reuse": "true",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 s",
        "table.exec.mini-batch.size": "20000",
        "rest.port": "0",
    }.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration)
    return TableEnvironment.create(settings.build())


def count(tables: Any, request: dict[str, Any], kind: str) -> int:
    """Run the query over one kind of files; return the number of results."""
    columns = ", ".join(f"`{name}` {type_}" for name, type_ in request["columns"])
    for stream in request["streams"]:
        path = Path(request["scratch"]) / kind / stream
        tables.execute_sql(f"DROP TABLE IF EXISTS {stream}")
        tables.execute_sql(
            f"CREATE TABLE {stream} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"
        )
    last = 0
    with tables.execute_sql(f"SELECT COUNT(*), SUM(r_l) FROM ({request['sql']})").collect() as rows:
        for row in rows:
            last = row[0]
    return last


def main(request: dict[str, Any]) -> None:
    """Warm up, then run."""
    write_csv(request)
    tables = environment(int(request["parallelism"]))
    count(tables, request, "warm")
    print(json.dumps({"ready": True}), flush=True)
    start = time.perf_counter()
    results = count(tables, request, "whole")
    print(json.dumps({"seconds": time.perf_counter() - start, "results": results}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
