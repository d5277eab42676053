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

Cells of a grid are another matter. A row has copies along the dimensions that it lacks, and a result is made where the
coordinates of all of its rows meet: two rows of two layouts would meet in no cell, or in several. So each layout of
cells joins by itself, and one stream, the `pivot`, parts the results among them: each result has one row of it.

- Rows of the other streams go to all layouts, each of which stores them.
- A row of the pivot goes to one layout that has all of its partners. That is the old one until the other streams' rows
  from before the change have expired, and the new one from then on. So a row without a partner is known for one, too.
- When pivots have left a layout and those in it have expired, its cells drop what they hold, and it is forgotten.

No result is found twice, and none is computed in vain. A change takes twice as long as rows are kept, in which the rows
of the other streams are stored twice. The tested stream of an outer, semi, anti or closest join is its pivot. A FULL
JOIN has two, and rows that are kept for ever never leave a layout: there the cells stay (`obstacle`), as they do where
nobody asks for others.

A history tells which layout a micro-batch has. It is durable before a micro-batch that follows it is planned, so a
micro-batch that is replayed runs as it was planned. Whoever needs the layout (dispatch, the join) takes it from the
history and the micro-batch's number, and from nothing else, so that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..spec import Block, JoinSpec

if TYPE_CHECKING:
    from ..store.store import Store


@dataclass(frozen=True, slots=True)
class History:
    """The layouts of a join since its checkpoint's first micro-batch.

    Parameters
    ----------
    entries
        ``(first micro-batch, units, first slot)`` and the shape of a `Block`, in order; the slot is left out where it
        is 0 and last.
    since
        ``(micro-batch, first)``: after that micro-batch no layout before the entry with this first micro-batch held
        anything.
    ends
        ``(first, time)``: of cells, when the other streams' rows from before the layout with this first micro-batch
        have expired, in microseconds.
    leads
        ``(micro-batch, first)``: from that micro-batch on the pivot's rows go to the layout with this first
        micro-batch.
    """

    entries: tuple[tuple[int, ...], ...]
    since: tuple[int, int] | None = None
    ends: tuple[tuple[int, int], ...] = ()
    leads: tuple[tuple[int, int], ...] = ()

    def at(self, batch: int) -> tuple[Block, ...]:
        """Return the units that a micro-batch's rows are stored in, and those of earlier layouts that may hold rows."""
        return tuple(dict.fromkeys(block for _, block in reversed(self._reached(batch))))

    def _reached(self, batch: int) -> list[tuple[int, Block]]:
        """Return the layouts that a micro-batch's rows reach, its own as the last one, with their first micro-batch."""
        past = [entry for entry in self.entries if entry[0] <= batch] or list(self.entries[:1])
        # a replayed micro-batch may come before they were empty
        oldest = self.since[1] if self.since is not None and batch > self.since[0] else past[0][0]
        return [(entry[0], Block(entry[1], sum(entry[2:3]), entry[3:])) for entry in past if entry[0] >= oldest]

    def lead(self, batch: int) -> Block:
        """Return the layout of cells to which a micro-batch's rows of the pivot go."""
        first = max((first for since, first in self.leads if since <= batch), default=0)
        return next(block for begin, block in self._reached(batch) if begin >= first)

    def until(self, batch: int) -> History:
        """Return what decided the layouts of micro-batches up to one."""
        return History(tuple(entry for entry in self.entries if entry[0] <= batch) or self.entries[:1])

    def changed(self, batch: int, units: int, *, apart: bool = False, shape: tuple[int, ...] = ()) -> History:
        """Return the history with other units from a micro-batch on that has not been planned yet.

        Parameters
        ----------
        batch, units
            The micro-batch, and the units.
        apart
            Whether each layout has slots of its own.
        shape
            Of a `Block`; without one, as many units are the same units.
        """
        kept = replace(
            self,
            entries=tuple(entry for entry in self.entries if entry[0] < batch),
            ends=tuple(end for end in self.ends if end[0] < batch),
        )
        if not kept.entries:
            return History(((batch, units),))
        if kept.entries[-1][1] == units and shape in ((), kept.entries[-1][3:]):
            return kept
        base = _free(kept.at(batch), units) if apart else 0
        entry = (batch, units, base, *shape) if base or shape else (batch, units)
        return replace(kept, entries=(*kept.entries, entry))

    def passed(self, batch: int, times: Mapping[int, tuple[int, int]], following: int) -> History:
        """Return the history after cells of earlier layouts told their times in a micro-batch.

        Parameters
        ----------
        batch
            The micro-batch.
        times
            By slot: when the rows there expire that are not the pivot's, and by which time rows have expired.
        following
            A micro-batch of which no task has been told anything yet.
        """
        ends, leads, older = dict(self.ends), self.leads, list[Block]()
        for first, block in self._reached(batch):
            told = [times.get(slot) for one in older for slot in one.slots]
            known = [one for one in told if one is not None]
            if older and first not in ends and len(known) == len(told):
                ends[first] = max(end for end, _ in known)
            now = min((now for _, now in known), default=0)
            if older and now and ends.get(first, now + 1) <= now and first > max((to for _, to in leads), default=0):
                leads = (*leads, (following, first))
            older.append(block)
        return replace(self, ends=tuple(sorted(ends.items())), leads=leads)

    def retire(self, batch: int, held: Mapping[int, bool], following: int | None = None) -> History:
        """Return the history after the slots said, at the end of a micro-batch, whether they hold something.

        A slot that said nothing counts as one that does. Empty layouts are left out from ``following`` on, a
        micro-batch of which no task has been told anything yet: two jobs of one share what was dispatched.
        """
        reached = self._reached(batch)
        now, used = reached[-1][0], reached[-1][1].slots
        oldest = next(
            first
            for first, block in reached
            if first == now or any(held.get(slot) is not False for slot in block.slots if slot not in used)
        )
        if oldest == reached[0][0] or (self.since is not None and oldest <= self.since[1]):
            return self
        return replace(self, since=(batch if following is None else following - 1, oldest))

    def to_dict(self) -> dict[str, Any]:
        """Return the history as plain data."""
        found: dict[str, Any] = {"layouts": [list(entry) for entry in self.entries]}
        found["since"] = self.since and list(self.since)
        moving = {"ends": self.ends, "leads": self.leads}
        return {**found, **{name: [list(one) for one in some] for name, some in moving.items() if some}}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> History:
        """Return the history in plain data."""
        since = body.get("since")
        entries = tuple(tuple(map(int, entry)) for entry in body["layouts"])
        ends, leads = (tuple((int(one), int(other)) for one, other in body.get(name, ())) for name in ("ends", "leads"))
        return cls(entries, None if since is None else (int(since[0]), int(since[1])), ends, leads)


def _free(blocks: tuple[Block, ...], units: int) -> int:
    """Return the first slot from which on none of so many units is in use."""
    bases = sorted({0, *(block.slots.stop for block in blocks)})
    taken = {slot for block in blocks for slot in block.slots}
    return next(base for base in bases if taken.isdisjoint(Block(units, base).slots))


def laid_out(spec: JoinSpec, history: History, batch: int, grid: tuple[int, ...] = ()) -> JoinSpec:
    """Return a join with the layout of a micro-batch: the units that store its rows, then those of earlier layouts.

    If the units are cells, ``grid`` has the shares of those along each dimension that the checkpoint began with.
    """
    lead, *blocks = (
        block if block.shape else block._replace(shape=grid) for block in (history.lead(batch), *history.at(batch))
    )
    newest = spec.in_layout(blocks[0])
    if len(blocks) == 1:
        return newest
    return replace(newest, earlier=tuple(blocks[1:]), lead=lead if spec.scheme == "matrix" else None)


def others_until(spec: JoinSpec, slot: int, stores: Mapping[str, Store]) -> int | None:
    """Return when what a cell of an earlier layout has of other streams than the pivot expires, in microseconds.

    None for any other slot.
    """
    if not any(slot in block.slots for block in spec.earlier) or spec.pivot is None:
        return None
    own = spec.streams[spec.pivot].alias
    return max(store.until for name, store in stores.items() if name != own)


def is_done(spec: JoinSpec, slot: int, stores: Mapping[str, Store]) -> bool:
    """Return whether a cell has no row of the pivot any more, and none comes: then what it holds joins nothing."""
    return is_left(spec, slot) and spec.pivot is not None and not len(stores[spec.streams[spec.pivot].alias])


def is_left(spec: JoinSpec, slot: int) -> bool:
    """Return whether a slot is of an earlier layout to which no rows of the pivot come."""
    return not any(slot in block.slots for block in spec.receiving)


def obstacle(spec: JoinSpec, old: int, new: int, *, real_time: bool = False) -> str | None:
    """Say why a join cannot go from one number of units to another, None if it can.

    Parameters
    ----------
    spec
        The join.
    old, new
        Numbers of units.
    real_time
        Whether it runs under the trigger ``realTime``.
    """
    if real_time and new != old:
        why = "under the trigger realTime a query keeps its cells"
        return f"{why}. Without a hint or a setting for its units it does so"
    if not spec.elastic and spec.pivot is None and new != old:
        if spec.join == "full":
            why = "both sides of a FULL JOIN are tested, and units would not know of partners in those of before"
        elif spec.scheme == "matrix":
            why = (
                "rows that are kept for ever never leave the cells that they are in: a bound of event times would let "
                "units change (WITHIN, or a condition on both times)"
            )
        else:
            why = (
                "what is found goes on by ranges, which other units would cut otherwise; with ROUTING('range', n) from "
                "the beginning they could change"
            )
        return f"{why}. Without a hint or a setting for its units, the query keeps those of the checkpoint"
    if new < old and not spec.bounded:
        return f"rows are kept for ever, so the units from {new} on would never empty"
    return None
