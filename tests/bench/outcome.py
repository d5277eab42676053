"""The outcome of one run of one engine."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from .processes import Cpu

#: Engines to compare with, and what their seconds include.
OTHERS: Mapping[str, str] = {
    "spark": "all micro-batches but the first; reading files is in them",
    "duckdb": "one batch join of tables that are in memory; loading them is not in it",
    "flink": "one job in streaming mode over all files, as CSV; reading them is in it, the start of its JVM is not",
    "pathway": "one run over all files, as CSV; reading them is in it, loading the engine is not",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of one engine.

    Parameters
    ----------
    engine
        A scheme of ours, or another engine.
    seconds
        Of the whole run, without the first micro-batch (which starts Python and compiles code).
    tuples
        Input rows in those seconds.
    results
        Results of the whole run, None where an engine does not count them.
    triggers
        Seconds that each later micro-batch took.
    counters
        Of ours, summed over the run.
    problem
        Why there is no result, if there is none.
    memory
        The peak of the bytes that its processes held themselves: for ours, the Python workers (the JVM is shared by
        all schemes); for others, all of them. None if unknown, as for Spark's own cascade.
    exceeded
        The run was stopped at its time limit: ``seconds`` is the limit, and the rate an upper bound.
    read
        Input rows of the whole run.
    slots
        Of ours, the rows that each slot of each join keeps at the end.
    cpu
        The processor time of the whole run, its first micro-batch included; None if unknown, as for other engines.
    """

    engine: str
    seconds: float = 0.0
    tuples: int = 0
    results: int | None = None
    triggers: tuple[float, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    problem: str | None = None
    memory: int | None = None
    exceeded: bool = False
    cpu: Cpu | None = None
    read: int = 0
    slots: tuple[int, ...] = ()

    @property
    def rate(self) -> float:
        """Tuples a second; the rate was lower than this if the time limit was exceeded."""
        return self.tuples / self.seconds if self.seconds else 0.0

    def trigger(self, quantile: float) -> float | None:
        """Return a quantile of the micro-batches' times (nearest rank)."""
        if not self.triggers:
            return None
        ranked = sorted(self.triggers)
        return ranked[min(int(quantile * len(ranked)), len(ranked) - 1)]


class StoppedError(Exception):
    """A process that runs queries has ended, or was stopped at its time limit.

    Parameters
    ----------
    problem
        Why, in a sentence.
    limit
        Its time limit, in seconds, if that was reached.
    """

    def __init__(self, problem: str, limit: float | None = None) -> None:
        super().__init__(problem)
        self.limit = limit


def median(outcomes: list[Outcome]) -> Outcome:
    """Return the run with the median rate of several runs of one engine."""
    good = [outcome for outcome in outcomes if outcome.problem is None]
    if not good:
        return outcomes[0]
    middle = statistics.median_low([outcome.rate for outcome in good])
    return next(outcome for outcome in good if outcome.rate == middle)
