"""The layout of the units: in which slots a micro-batch's rows are stored, and which other slots still hold any.

The number of units may change between two micro-batches (003 sections 5 and 6.4). No row ever moves: old rows stay in
the slots of their layout until they expire, and new rows and packs reach these slots too.

- Where each row goes to all units, it does not matter which one stores it. So layouts share slots: they all begin with
  slot 0, and a slot behind the last unit, which is retired, only empties itself.
- Where rows go by a key or by ranges, each layout cuts them otherwise, and has slots of its own. A row goes to its
  subgroup in each layout that may still hold rows, and is stored in the newest one. A result needs a stored row, which
  has one layout, so it is found in that layout's slots as if there were no other one, once. In shared slots it would
  not be: a row of a band has a copy in each range that it touches, and two layouts would lead to two of them.
- Between two stages, what a slot finds goes to all slots of each layout that may hold the same keys
  (`schemes.routing.partner_slots`). For ranges that is known only if all layouts have the same subgroups.
- An earlier layout is forgotten, and its slots are free for a later one, when its slots (but those in use) are empty.

Cells of a grid cannot change. A row has copies along the dimensions that it lacks, and a result is made where the
coordinates of all of its rows meet: two rows of two layouts would meet in no cell, or in several. So a query that
restarts takes the grid of its checkpoint, for however many tasks it was planned.

A history tells which layout a micro-batch has. It is durable before a micro-batch that follows it is planned, so a
micro-batch that is replayed runs as it was planned. Whoever needs the layout (dispatch, the join) takes it from the
history and the micro-batch's number, and from nothing else, so that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..spec import Block, JoinSpec


@dataclass(frozen=True, slots=True)
class History:
    """The layouts of a join since its checkpoint's first micro-batch.

    Parameters
    ----------
    entries
        ``(first micro-batch, units, first slot)``, in order; the slot is left out where it is 0.
    since
        ``(micro-batch, first)``: after that micro-batch no layout before the entry with this first micro-batch held
        anything.
    """

    entries: tuple[tuple[int, ...], ...]
    since: tuple[int, int] | None = None

    def at(self, batch: int) -> tuple[Block, ...]:
        """Return the units that a micro-batch's rows are stored in, and those of earlier layouts that may hold rows."""
        return tuple(dict.fromkeys(block for _, block in reversed(self._reached(batch))))

    def _reached(self, batch: int) -> list[tuple[int, Block]]:
        """Return the layouts that a micro-batch's rows reach, its own as the last one, with their first micro-batch."""
        past = [entry for entry in self.entries if entry[0] <= batch] or list(self.entries[:1])
        # a replayed micro-batch may come before they were empty
        oldest = self.since[1] if self.since is not None and batch > self.since[0] else past[0][0]
        return [(entry[0], Block(*entry[1:])) for entry in past if entry[0] >= oldest]

    def until(self, batch: int) -> History:
        """Return what decided the layouts of micro-batches up to one."""
        return History(tuple(entry for entry in self.entries if entry[0] <= batch) or self.entries[:1])

    def changed(self, batch: int, units: int, *, apart: bool = False) -> History:
        """Return the history with another number of units from a micro-batch on that has not been planned yet.

        Parameters
        ----------
        batch, units
            The micro-batch, and the units.
        apart
            Whether each layout has slots of its own.
        """
        kept = replace(self, entries=tuple(entry for entry in self.entries if entry[0] < batch))
        if not kept.entries:
            return History(((batch, units),))
        if kept.entries[-1][1] == units:
            return kept
        base = _free(kept.at(batch), units) if apart else 0
        return replace(kept, entries=(*kept.entries, (batch, units, base) if base else (batch, units)))

    def retire(self, batch: int, held: Mapping[int, bool]) -> History:
        """Return the history after the slots said, at the end of a micro-batch, whether they hold something.

        A slot that said nothing counts as one that does.
        """
        reached = self._reached(batch)
        now, used = reached[-1][0], reached[-1][1].slots
        oldest = next(
            first
            for first, block in reached
            if first == now or any(held.get(slot) is not False for slot in block.slots if slot not in used)
        )
        return self if oldest == reached[0][0] else replace(self, since=(batch, oldest))

    def to_dict(self) -> dict[str, Any]:
        """Return the history as plain data."""
        return {"layouts": [list(entry) for entry in self.entries], "since": self.since and list(self.since)}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> History:
        """Return the history in plain data."""
        since = body.get("since")
        entries = tuple(tuple(map(int, entry)) for entry in body["layouts"])
        return cls(entries, None if since is None else (int(since[0]), int(since[1])))


def _free(blocks: tuple[Block, ...], units: int) -> int:
    """Return the first slot from which on none of so many units is in use."""
    bases = sorted({0, *(block.slots.stop for block in blocks)})
    taken = {slot for block in blocks for slot in block.slots}
    return next(base for base in bases if taken.isdisjoint(Block(units, base).slots))


def laid_out(spec: JoinSpec, blocks: tuple[Block, ...], grid: tuple[int, ...] = ()) -> JoinSpec:
    """Return a join with the layout of a micro-batch: the units that store its rows, then those of earlier layouts.

    If the units are cells, ``grid`` has their shares along each dimension.
    """
    if grid:
        ranges = tuple(replace(one, shares=grid[one.axis]) for one in spec.options.ranges)
        spec = replace(spec, options=replace(spec.options, grid=grid, ranges=ranges))
    return replace(spec, units=blocks[0].units, base=blocks[0].base, earlier=blocks[1:])


def obstacle(spec: JoinSpec, old: int, new: int) -> str | None:
    """Say why a join cannot go from one number of units to another, None if it can.

    Parameters
    ----------
    spec
        The join.
    old, new
        Numbers of units.
    """
    if not spec.elastic and new != old:
        if spec.scheme == "matrix":
            why = "rows go to cells of a grid, so another number of units would have to move what is stored"
        else:
            why = (
                "what is found goes on by ranges, which other units would cut otherwise; with ROUTING('range', n) from "
                "the beginning they could change"
            )
        return f"{why}. Without a hint or a setting for its units, the query keeps those of the checkpoint"
    if new < old and not spec.bounded:
        return f"rows are kept for ever, so the units from {new} on would never empty"
    return None
