"""What differs between the query that wrote a checkpoint and the one that goes on from it, by their fingerprints."""

from __future__ import annotations

#: What the line of a stream's stored columns begins with.
STORED = "stored columns of "

#: The lines that say what cost chooses; a stream's stored columns follow from it.
CHOSEN = ("scheme", "units", "subgroups", "option grid", "option routing", "option order")


def lines_of(text: str) -> dict[str, str]:
    """Return the lines of a fingerprint by what they are of."""
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def difference(old: str, new: str) -> str:
    """Say in one sentence what differs between two fingerprints."""
    before, after = lines_of(old), lines_of(new)
    changes = [
        f"{what} was {before.get(what, 'absent')} and is now {after.get(what, 'absent')}"
        for what in (*before, *(name for name in after if name not in before))
        if before.get(what) != after.get(what)
    ]
    # What is stored follows from the rest: it is said where nothing else is.
    changes = [change for change in changes if not change.startswith(STORED)] or changes
    if before.get("scheme") == after.get("scheme") and before.get("units") != after.get("units"):
        kind = "cells of a grid" if after.get("scheme") == "matrix" else "units by a key that all streams share"
        changes.append(f"rows go to {kind}, so another number of units would have to move what is stored")
    return "; ".join(changes) or "it was written by another version"


def only_chosen_differs(old: str, new: str) -> bool:
    """Return whether two fingerprints differ only in what cost chooses, so that a hint makes them the same again."""
    before, after = lines_of(old), lines_of(new)
    names = {**before, **after}
    changed = [name for name in names if before.get(name) != after.get(name) and not name.startswith(STORED)]
    return any(name in ("scheme", "units", "option order") for name in changed) and set(changed) <= set(CHOSEN)
