"""Pathway: its incremental joins over the streams' files, read at once.

It has no SQL, so it gets the query as steps, and no theta join: equalities become join conditions, the narrowest band
of each step an interval join, everything else a filter after it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.csv as csv
import pyarrow.parquet as pq

_TYPES = {"STRING": str, "DOUBLE": float, "BIGINT": int, "INT": int}


def write_csv(request: dict[str, Any]) -> None:
    """Write the streams as CSV."""
    for stream in request["streams"]:
        folder = Path(request["scratch"]) / stream
        folder.mkdir(parents=True)
        csv.write_csv(pq.read_table(f"{request['folder']}/{stream}"), folder / "rows.csv")


def joined(request: dict[str, Any]) -> Any:
    """Return the join of all streams, with every column as ``stream_column``."""
    import pathway as pw

    schema = pw.schema_from_types(**{name: _TYPES[type_] for name, type_ in request["columns"]})
    result: Any = None
    for stream, conditions in [(request["streams"][0], []), *request["joins"]]:
        path = str(Path(request["scratch"]) / stream)
        table = pw.io.csv.read(path, schema=schema, mode="static")
        table = table.select(**{f"{stream}_{name}": table[name] for name, _ in request["columns"]})
        result = table if result is None else _join(pw, result, table, conditions)
    return result


def _join(pw: Any, left: Any, right: Any, conditions: list[dict[str, Any]]) -> Any:
    equal = [left[c["left"]] == right[c["right"]] for c in conditions if c["op"] == "="]
    bands = sorted((c for c in conditions if c["op"] == "band"), key=lambda c: c["upper"] - c["lower"])
    if bands:
        first = bands[0]
        interval = pw.temporal.interval(-first["upper"], -first["lower"])
        pairs = left.interval_join(right, left[first["left"]], right[first["right"]], interval, *equal)
    else:
        pairs = left.join(right, *equal)
    result = pairs.select(**{name: side[name] for side in (left, right) for name in side.column_names()})
    for band in bands[1:]:
        difference = result[band["left"]] - result[band["right"]]
        result = result.filter((difference >= band["lower"]) & (difference <= band["upper"]))
    return result


def main(request: dict[str, Any]) -> None:
    """Build the graph, then run it."""
    os.environ["PATHWAY_THREADS"] = str(request["parallelism"])
    import pathway as pw

    write_csv(request)
    rows = joined(request)
    total = rows.reduce(count=pw.reducers.count(), total=pw.reducers.sum(rows.r_l))
    found = [0]

    def keep(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition:
            found[0] = row["count"]

    pw.io.subscribe(total, on_change=keep)
    print(json.dumps({"ready": True}), flush=True)
    start = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    print(json.dumps({"seconds": time.perf_counter() - start, "results": found[0]}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
