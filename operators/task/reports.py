"""What the slots of a running query report, on its way from the workers to the driver.

A slot reports once in a micro-batch. A Spark accumulator carries that beside the results: with each task that ends, and
so before Spark tells of the micro-batch. As a row among the results, collected by ``observe``, it costs every result a
column, a look at it and a copy: 66 ns a row of three columns become 150, measured. Spark Connect has no accumulators;
there it stays that row.

A worker imports this before it imports anything else of ours (see `processor`), so it imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import Accumulator, AccumulatorParam, _accumulatorRegistry

if TYPE_CHECKING:
    from pyspark import SparkContext

#: In a report, where slots probe stream after stream: by aliases ``r s pairs`` and ``r s found``, how many pairs of
#: rows there were of two streams, and how many of them match.
EDGES = "edges"

#: Reports by query and micro-batch, by slot: JSON objects. A task that is tried again says the same once more.
Reports = dict[tuple[str, int], dict[int, str]]


#: The accumulators of the joins that this process has compiled, by key.
_accumulators: dict[str, Accumulator[Reports]] = {}


class LatestReports(AccumulatorParam[Reports]):
    """Merges reports, and keeps those of the latest micro-batches.

    Parameters
    ----------
    most
        How many micro-batches.
    """

    def __init__(self, most: int) -> None:
        self.most = most

    def zero(self, value: Reports) -> Reports:
        """Return no reports."""
        return {}

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:  # noqa: N802 (PySpark's name)
        """Add reports to others."""
        for about, slots in value2.items():
            value1.setdefault(about, {}).update(slots)
        while len(value1) > self.most:  # the first to come are the oldest
            del value1[next(iter(value1))]
        return value1


def accumulator(context: SparkContext, key: str, most: int) -> Accumulator[Reports]:
    """Return what the slots of a join report to.

    Parameters
    ----------
    context
        Of a classic session.
    key
        The join's key, which no other join of this process has.
    most
        Reports of how many micro-batches are kept, about.
    """
    found: Accumulator[Reports] = context.accumulator({}, LatestReports(most))
    _accumulators[key] = found
    return found


def reported(key: str, query: str, batch: int) -> list[str]:
    """Return what the slots of a join reported of a micro-batch; a slot without rows says nothing.

    Parameters
    ----------
    key
        The join's key.
    query
        The query's id.
    """
    found = _accumulators.get(key)
    return [] if found is None else list(found.value.get((query, batch), {}).values())


def forget(keys: Iterable[str]) -> None:
    """Drop what is known of joins that nothing can run any more."""
    for key in keys:
        found: Any = _accumulators.pop(key, None)
        if found is not None:
            _accumulatorRegistry.pop(found.aid, None)  # of PySpark, which drops none


def known_keys() -> set[str]:
    """Return the keys of the joins that have accumulators."""
    return set(_accumulators)


def forget_attempt(key: str, query: str, batch: int) -> None:
    """Drop what slots have said of a micro-batch that begins: an earlier attempt in this process said it."""
    _accumulators[key].value.pop((query, batch), None)
