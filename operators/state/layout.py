"""The layout of the units: in how many of them a micro-batch's rows are stored, and which slots still hold any.

Under a content-insensitive scheme (each row in one unit by its route, and sent to all) the number of units may change
between two micro-batches (003 section 6.4): old units keep their rows until these expire, new rows are spread over the
new units, and rows and packs reach every slot that still holds something. No row ever moves.

A history tells which layout a micro-batch has. It is durable before a micro-batch that follows it is planned, so a
micro-batch that is replayed runs as it was planned. Whoever needs the layout (dispatch, the join) takes it from the
history and the micro-batch's number, and from nothing else, so that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..spec import JoinSpec


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one micro-batch.

    Parameters
    ----------
    units
        Its rows are stored in the slots 0 to ``units - 1``.
    slots
        Its rows and packs reach the slots 0 to ``slots - 1``; those from ``units`` on are retired and only empty
        themselves.
    """

    units: int
    slots: int


@dataclass(frozen=True, slots=True)
class History:
    """The layouts of a join since its checkpoint's first micro-batch.

    Parameters
    ----------
    entries
        ``(first micro-batch, units)``, in order.
    emptied
        ``(micro-batch, slots)``: after that micro-batch the slots from that number on held nothing.
    """

    entries: tuple[tuple[int, int], ...]
    emptied: tuple[int, int] | None = None

    def at(self, batch: int) -> Layout:
        """Return the layout of a micro-batch."""
        past = [(first, units) for first, units in self.entries if first <= batch] or list(self.entries[:1])
        units = past[-1][1]
        if self.emptied is None or batch <= self.emptied[0]:  # a replayed one may come before they were empty
            return Layout(units, max(units for _, units in past))
        since, slots = self.emptied
        return Layout(units, max(units, slots, *(units for first, units in past if first > since)))

    def until(self, batch: int) -> History:
        """Return what decided the layouts of micro-batches up to one."""
        return History(tuple(entry for entry in self.entries if entry[0] <= batch) or self.entries[:1])

    def changed(self, batch: int, units: int) -> History:
        """Return the history with another number of units from a micro-batch on that has not been planned yet."""
        kept = tuple(entry for entry in self.entries if entry[0] < batch)
        if kept and kept[-1][1] == units:
            return replace(self, entries=kept)
        return replace(self, entries=(*kept, (batch, units)))

    def retire(self, batch: int, held: Mapping[int, bool]) -> History:
        """Return the history after the slots said, at the end of a micro-batch, whether they hold something.

        A slot that said nothing counts as one that does.
        """
        layout = self.at(batch)
        slots = layout.slots
        while slots > layout.units and held.get(slots - 1) is False:
            slots -= 1
        return self if slots == layout.slots else replace(self, emptied=(batch, slots))

    def to_dict(self) -> dict[str, Any]:
        """Return the history as plain data."""
        return {"layouts": [list(entry) for entry in self.entries], "emptied": self.emptied and list(self.emptied)}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> History:
        """Return the history in plain data."""
        emptied = body.get("emptied")
        entries = tuple((int(first), int(units)) for first, units in body["layouts"])
        return cls(entries, None if emptied is None else (int(emptied[0]), int(emptied[1])))


def laid_out(spec: JoinSpec, layout: Layout) -> JoinSpec:
    """Return a join with the layout of a micro-batch."""
    return replace(spec, units=layout.units, retired=layout.slots - layout.units)


def obstacle(spec: JoinSpec, old: int, new: int) -> str | None:
    """Say why an elastic join cannot go from one number of units to another, None if it can.

    Parameters
    ----------
    spec
        The join. One that is not elastic has its units in its fingerprint.
    old, new
        Numbers of units.
    """
    if new < old and not spec.bounded:
        return f"rows are kept for ever, so the units from {new} on would never empty"
    return None
