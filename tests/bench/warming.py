"""Steady state: warm-up rounds, until the JVM has compiled what runs often.

A streaming query runs for days, a benchmark for minutes, and for the first four of these the JVM's compiler takes a
good part of two cores: triggers of a JVM that is a minute old take two to three times as long as those of one that has
settled. The compiler's own clock shows when it has settled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

#: The compiler has settled when it takes less than this share of a core.
SETTLED = 0.15


class Warming:
    """Warm-up rounds of one kind of run.

    Parameters
    ----------
    compiling
        Returns the milliseconds of compilation in the JVM, over all threads.
    seconds
        How long further rounds may take until the compiler has settled; 0 asks for none.
    clock
        Returns seconds.

    Attributes
    ----------
    share
        The share of a core that the compiler took in the last round, None before the first.
    """

    def __init__(
        self, compiling: Callable[[], float], seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.compiling, self.seconds, self.clock = compiling, seconds, clock
        self.share: float | None = None

    @property
    def has_settled(self) -> bool:
        """Whether the compiler took almost no time in the last round."""
        return self.share is not None and self.share < SETTLED

    def rounds(self, least: int) -> Iterator[int]:
        """Yield the numbers of rounds: ``least`` of them, and more until the compiler has settled, or time is over."""
        number, began = 0, self.clock()
        while number < least or (self.clock() - began < self.seconds and not self.has_settled):
            since, compiled = self.clock(), self.compiling()
            yield number
            self.share = (self.compiling() - compiled) / 1000 / max(self.clock() - since, 1e-9)
            number += 1
            began = self.clock() if number <= least else began
