"""What the cells of queries with the trigger ``realTime`` tell within a batch, which may last for minutes.

They report every second (`operators/realtime/Reports.java`), in the form of the slots of micro-batches, and with a
histogram of latencies: from the reading of a result's last row by Spark to the result's leaving of the join.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..operators.recent import Recent

#: By run of a query: what is asked for its reports.
_entries = Recent[str, Any](100)

#: The percentiles of latencies, by name.
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def follow(run: str, entry: Any) -> None:
    """Remember a run in real time, and the Java class that has its reports."""
    _entries[run] = entry


def is_live(run: str) -> bool:
    """Return whether a run is one in real time."""
    return run in _entries


def reports(run: str, first: int = 0) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Return what the cells of a run have told from a batch on: by the key of their join and the batch, in order."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for text in _entries[run].reports(run, first).splitlines() if run in _entries else ():
        one = json.loads(text)
        found.setdefault((one["node"], one["batch"]), []).append(one)
    return dict(sorted(found.items(), key=lambda item: item[0][1]))


def rows_in(slots: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return by alias the rows that came to cells, each once."""
    found: Counter[str] = Counter()
    for slot in slots:
        found.update(slot.get("rows", {}))
    return found


def latencies(slots: Iterable[Mapping[str, Any]]) -> Counter[int]:
    """Return how many results were how late: by an upper bound in microseconds, about an eighth above."""
    found: Counter[int] = Counter()
    for slot in slots:
        found.update({int(above): count for above, count in slot.get("latency", {}).items()})
    return found


def percentiles(histogram: Mapping[int, int]) -> dict[str, float]:
    """Return the percentiles of latencies in milliseconds, nothing of none.

    Examples
    --------
    >>> percentiles({1000: 98, 20000: 2})
    {'p50': 1.0, 'p95': 1.0, 'p99': 20.0, 'max': 20.0}
    """
    total, so_far, found = sum(histogram.values()), 0, dict[str, float]()
    for above, count in sorted(histogram.items()):
        so_far += count
        for name, share in PERCENTILES.items():
            if count and name not in found and so_far >= share * total:
                found[name] = above / 1000
    return found
