"""Rows that came too late, each row of a stream once.

Each alias of a self join has the row, and each of them drops it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..operators.task.late_rows import FURTHER, LIMITS
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
    behind
        By stream: how many of its late rows were how far behind the watermark that they missed. Numbers for 1 second
        at most, 10 seconds, 1 minute, 10 minutes, 1 hour, 1 day, and more.
    """

    streams: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    at_least: bool = False
    behind: dict[str, list[int]] = field(default_factory=dict)

    def add(self, nodes: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        """Add the late rows of one micro-batch.

        Parameters
        ----------
        nodes
            What the slots of each join node have reported.
        """
        found: dict[str, dict[tuple[int, str], int]] = {}
        behind: dict[tuple[int, str], list[int]] = {}
        whole: set[str] = set()
        for number, slots in enumerate(nodes):
            for slot in slots:
                for alias, one in slot.get(LATE_ROWS, {}).items():
                    stream, key = self._known(one["of"] or alias, found), (number, alias)
                    behind[key] = _added(behind.get(key), one["behind"])
                    rows = found.setdefault(stream, {})
                    rows[key] = rows.get(key, 0) + one["rows"]
                    self.inputs[alias] = self.inputs.get(alias, 0) + one["rows"]
                    if not one["filtered"]:
                        whole.add(stream)
        for stream, rows in found.items():
            most = max(rows, key=lambda key: rows[key])
            self.streams[stream] = self.streams.get(stream, 0) + rows[most]
            self.behind[stream] = _added(self.behind.get(stream), behind[most])
            self.at_least |= len(rows) > 1 and stream not in whole

    def _known(self, stream: str, found: Mapping[str, Any]) -> str:
        """Return the spelling in which a stream is known: a query may write its name in several."""
        same = (name for name in (*self.streams, *found) if name.lower() == stream.lower())
        return next(same, stream)

    def how_late(self) -> dict[str, dict[str, int]]:
        """Return by stream how many rows were how late: by limit, in words, the rows up to it and above the one before.

        Limits without rows are left out.
        """
        words = (*LIMITS, FURTHER)
        return {
            stream: {word: rows for word, rows in zip(words, numbers, strict=True) if rows}
            for stream, numbers in self.behind.items()
        }

    @property
    def total(self) -> int:
        """The late rows of all streams."""
        return sum(self.streams.values())


def _added(one: Sequence[int] | None, other: Sequence[int]) -> list[int]:
    return list(other) if one is None else [a + b for a, b in zip(one, other, strict=True)]
