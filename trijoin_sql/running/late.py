"""Rows that came too late, each row of a stream once.

A self join reads a stream once for each of its aliases, and each of them drops the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..operators.task.outputs import LATE_ROWS


@dataclass(slots=True)
class LateRows:
    """The late rows of a query so far.

    Parameters
    ----------
    streams
        By stream (or view, or derived table, which is named by its alias): its late rows, each once.
    inputs
        By alias: the rows that it dropped. Aliases of one stream drop the same rows.
    at_least
        Whether there may be more: each alias of a stream has conditions of its own, which may keep other rows.
    """

    streams: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    at_least: bool = False

    def add(self, nodes: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        """Add what the slots of each join node have reported of one micro-batch."""
        found: dict[str, dict[tuple[int, str], int]] = {}
        whole: set[str] = set()
        for number, slots in enumerate(nodes):
            for slot in slots:
                for alias, one in slot.get(LATE_ROWS, {}).items():
                    stream, key = one["of"] or alias, (number, alias)
                    rows = found.setdefault(stream, {})
                    rows[key] = rows.get(key, 0) + one["rows"]
                    self.inputs[alias] = self.inputs.get(alias, 0) + one["rows"]
                    if not one["filtered"]:
                        whole.add(stream)
        for stream, rows in found.items():
            self.streams[stream] = self.streams.get(stream, 0) + max(rows.values())
            self.at_least |= len(rows) > 1 and stream not in whole

    @property
    def total(self) -> int:
        """The late rows of all streams."""
        return sum(self.streams.values())
