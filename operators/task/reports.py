"""What the slots of a running query report, on its way from the workers to the driver.

A slot reports once in a micro-batch. A Spark accumulator carries that beside the results: with each task that ends, and
so before Spark tells of the micro-batch. As a row among the results, collected by ``observe``, it costs every result a
column, a look at it and a copy: 66 ns a row of three columns become 150, measured. Spark Connect has no accumulators;
there it stays that row.

Where late rows can be asked for, the driver also knows here where each join's are found.

A worker imports this before it imports anything else of ours (see `processor`), so it imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.accumulators import Accumulator, AccumulatorParam, _accumulatorRegistry

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Reports by query and micro-batch, by slot: JSON objects. A task that is tried again says the same once more.
Reports = dict[tuple[str, int], dict[int, str]]


class LateStream(NamedTuple):
    """How the late rows of a stream are found among the rows that its dispatcher gets.

    Parameters
    ----------
    rank
        The stream's.
    time
        The column with its event time (microseconds).
    keep
        The boolean column that says which rows are its own, None for all.
    required
        The columns without which the dispatcher drops a row before it can be late.
    """

    rank: int
    time: str
    keep: str | None
    required: tuple[str, ...]


class LateSource(NamedTuple):
    """Where the late rows of a source are: the dispatcher's column with the whole row as JSON, and its streams."""

    whole: str
    streams: tuple[LateStream, ...]


#: The accumulators of the joins that this process has compiled, by key; and where their late rows are.
_accumulators: dict[str, Accumulator[Reports]] = {}
_late: dict[str, tuple[LateSource, ...]] = {}


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


def keep_late_sources(key: str, sources: Sequence[LateSource]) -> None:
    """Note where the late rows of a join are."""
    _late[key] = tuple(sources)


def forget(keys: Iterable[str]) -> None:
    """Drop what is known of joins that nothing can run any more."""
    for key in keys:
        _late.pop(key, None)
        found: Any = _accumulators.pop(key, None)
        if found is not None:
            _accumulatorRegistry.pop(found.aid, None)  # of PySpark, which drops none


def known_keys() -> set[str]:
    """Return the keys of the joins that have accumulators."""
    return set(_accumulators)


def late_sources(key: str) -> tuple[LateSource, ...]:
    """Return where the late rows of a join are; empty if it was not compiled such that they can be had."""
    return _late.get(key, ())


def forget_attempt(key: str, query: str, batch: int) -> None:
    """Drop what slots have said of a micro-batch that begins: an earlier attempt in this process said it."""
    _accumulators[key].value.pop((query, batch), None)
