"""What differs between the query that wrote a checkpoint and the one that goes on from it, by their fingerprints."""

from __future__ import annotations

import re

#: A literal, a quoted name, or the name of a function: it may be written in capitals or not.
_CALLS = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|\b[A-Za-z_]\w*(?=\()")

#: What the line of a stream's stored columns begins with.
STORED = "stored columns of "

#: What the line begins with that says which inputs Spark reads once.
TOGETHER = "read together with "

_KEYS = "keys of "

#: What the lines begin with that have conditions of the user.
_WRITTEN = ("condition between ", "filter on ")

#: What the lines begin with that older versions wrote: how many units there are is part of the state.
_UNITS = ("units: ", "subgroups: ", "option grid: ")

#: What the lines begin with that name a setting of the session by which stored columns were computed.
SETTING = "setting "

#: What the line begins with that names a setting by which the join was planned: alone it changes nothing.
PLANNED = "planned by setting "

_KIND = "kind of join"

#: What to do about a tree of joins whose joins a checkpoint has apart.
APART = "The hint NO_JOIN_TREE keeps joins apart that may have been apart there, and so does tj.resuming(checkpoint)"

#: The lines that say what cost chooses; a stream's stored columns follow from it.
CHOSEN = ("scheme", "option routing", "option order")


def lines_of(text: str) -> dict[str, str]:
    """Return the lines of a fingerprint by what they are of."""
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def is_same(old: str, new: str) -> bool:
    """Return whether a query may go on with what another one has stored, by their fingerprints.

    Older versions wrote the units, too, which a checkpoint has as its first layout, and no settings.
    """
    return old == new or _comparable(old, new) == _comparable(new, old)


def _comparable(text: str, other: str) -> list[str]:
    """Return the lines of a fingerprint that decide, without settings that the other one does not have."""
    known = lines_of(other)
    return [
        _CALLS.sub(lambda found: found[0] if found[0][0] in "'`" else found[0].lower(), line)
        for line in text.split("\n")
        if not line.startswith((*_UNITS, PLANNED)) and (not line.startswith(SETTING) or line.split(": ", 1)[0] in known)
    ]


def _lines(old: str, new: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the lines of two fingerprints to be compared."""
    before, after = _comparable(old, new), _comparable(new, old)
    return {_KIND: "inner", **lines_of("\n".join(before))}, {_KIND: "inner", **lines_of("\n".join(after))}


def difference(old: str, new: str) -> str:
    """Say in one sentence what differs between two fingerprints."""
    before, after = _lines(old, new)
    if after[_KIND] == "mixed" and before[_KIND] != "mixed":
        return f"it has a node for each of the joins that are one node now. {APART}"
    names = [name for name in {**before, **after} if (before.get(name) or "") != (after.get(name) or "")]
    # Keys, what is stored and how follow from what the user wrote: they are said where nothing else is.
    of_kind = (*CHOSEN, _KEYS, STORED) if _KIND in names else ()
    for following in (of_kind, (_KEYS, STORED) if any(name.startswith(_WRITTEN) for name in names) else (), (STORED,)):
        names = [name for name in names if not name.startswith(tuple(following))] or names
    changes = []
    old_lines, new_lines = lines_of(old), lines_of(new)
    for name in (
        one for one in new_lines if one.startswith(PLANNED) and old_lines.get(one, new_lines[one]) != new_lines[one]
    ):
        said = f"{name.removeprefix('planned by ')} was {old_lines[name]} and is now {new_lines[name]}"
        changes.append(f"{said}, so the join is another one")
    for name in names:
        was, now = before.get(name), after.get(name)
        if name.startswith(_WRITTEN) and was is not None and now is not None:
            was, now = _only_changed(was, now)
        changes.append(f"{name} was {was or 'absent'} and is now {now or 'absent'}")
    if any(name.startswith(SETTING) for name in names):
        changes.append("what is stored was computed by it: set it as it was, or begin a new checkpoint")
    return "; ".join(changes) or "it was written by another version"


def _only_changed(old: str, new: str) -> tuple[str, str]:
    """Return the conjuncts that differ of two conditions, each once: a band can come from one conjunct twice.

    Examples
    --------
    >>> _only_changed("a < 5 AND x BETWEEN 1 AND 2", "a < 6 AND a < 6 AND x BETWEEN 1 AND 2")
    ('a < 5', 'a < 6')
    """
    olds, news = _conjuncts(old), _conjuncts(new)
    was, now = ([one for one in some if one not in others] for some, others in ((olds, news), (news, olds)))
    return (" AND ".join(was) or "absent", " AND ".join(now) or "absent") if was or now else (old, new)


def _conjuncts(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split(" AND "):
        whole = not found or found[-1].upper().count("BETWEEN") == found[-1].count(" AND ")
        found = [*found, part] if whole else [*found[:-1], f"{found[-1]} AND {part}"]
    return list(dict.fromkeys(found))


def only_chosen_differs(old: str, new: str) -> bool:
    """Return whether two fingerprints differ only in what cost chooses, so that a hint makes them the same again."""
    before, after = _lines(old, new)
    names = {**before, **after}
    changed = [name for name in names if before.get(name) != after.get(name) and not name.startswith(STORED)]
    return any(name in ("scheme", "option order") for name in changed) and set(changed) <= set(CHOSEN)
