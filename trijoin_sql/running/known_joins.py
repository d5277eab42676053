"""The joins that statements of this process have compiled, by key: what a query may start with."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from ..operators.compile.lifetimes import ended
from ..operators.compile.node import Again
from ..operators.compile.packing import LateSource
from ..operators.recent import Recent
from ..operators.spec import JoinSpec, number_of
from ..operators.task.reports import forget, known_keys
from ..rewriter.plan.stored import Stored

_log = logging.getLogger("trijoin_sql")

_numbers = itertools.count()

#: The joins, and the warnings about rows that are kept for ever, already given.
_joins: dict[str, Registered] = {}
_said = Recent[tuple[str, str], None](1000)


@dataclass(frozen=True, slots=True)
class Registered:
    """A compiled join, which a query may start with.

    Parameters
    ----------
    spec
        What runs.
    stored
        The group that it runs, as its checkpoint is to record it.
    units_from
        What chose its units, as in a `Decision`.
    said
        Warnings to be given once when a query starts: rows that are kept for ever, products.
    warns
        Whether to warn of rows that cannot join while it runs.
    late
        Where its late rows are, if they can be asked for.
    again
        What it was compiled from: it is compiled anew for the trigger ``realTime``.
    """

    spec: JoinSpec
    stored: tuple[Stored, ...] = ()
    units_from: str = ""
    said: tuple[str, ...] = ()
    warns: bool = False
    late: tuple[LateSource, ...] = ()
    again: Again | None = None

    @property
    def keeps_units(self) -> bool:
        """Whether it runs in the units of its checkpoint unless the user asks for others.

        That is where cost or the checkpoint chose those, and where they cannot change, or with rows that are stored
        twice for a while.
        """
        chosen = self.units_from in ("the hint", "the setting")
        return self.units_from in ("cost", "the checkpoint") or not (self.spec.elastic or chosen)

    def grid(self, units: int) -> tuple[int, ...]:
        """Return how many cells there are along each dimension in so many units; none if these are no cells."""
        if self.spec.scheme != "matrix" or units == self.spec.units or self.again is None:
            return self.spec.options.grid
        return self.again.grid(units)

    def warn(self) -> None:
        """Log the warnings once, however often the query restarts."""
        for text in self.said:
            if (self.spec.fingerprint, text) not in _said:
                _said[self.spec.fingerprint, text] = None
                _log.warning("%s", text)


def next_number() -> int:
    """Return a number for a compiled statement that no other statement of this process has."""
    return next(_numbers)


def keep(joins: Iterable[Registered]) -> None:
    """Remember joins, and forget those that nothing can run any more."""
    _joins.update({join.spec.key: join for join in joins})
    gone = ended()
    keys = [key for key in known_keys() if number_of(key) in gone]
    forget(keys)
    for key in keys:
        _joins.pop(key, None)


def registered(key: str) -> Registered:
    """Return a join that a query starts with."""
    return _joins[key]


def again(key: str) -> Again | None:
    """Return what a join was compiled from, None of one that is not known, or cannot be compiled anew."""
    return None if (found := _joins.get(key)) is None else found.again


def known_numbers() -> set[int]:
    """Return the numbers of the statements whose joins are registered."""
    return {number_of(key) for key in tuple(_joins)}


def known_join(key: str) -> JoinSpec | None:
    """Return a registered join."""
    return None if (found := _joins.get(key)) is None else found.spec


def behind_spark(key: str) -> int:
    """Return by how much results of a join may come behind the watermark, in microseconds; see `JoinNode.behind`."""
    spec = known_join(key)
    if spec is None or spec.behind is None:
        return 0
    lag = max(spec.keep_for(rank) or 0 for rank in range(len(spec.streams)))
    return spec.behind + -(-lag // 1000) * 1000


def late_sources(key: str) -> tuple[LateSource, ...]:
    """Return where the late rows of a join are; empty if it was not compiled such that they can be had."""
    return () if (found := _joins.get(key)) is None else found.late
