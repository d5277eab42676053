"""What the rewriter and the compiler know of each scheme: one record each. Its costs are in `choose.cost`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

#: All orders are tried up to this many relations, greedy ones beyond.
EXHAUSTIVE = 7


@dataclass(frozen=True, slots=True)
class SchemeRecord:
    """A scheme.

    Parameters
    ----------
    joins
        What it joins, as a sentence: for who hints at it where it does not fit.
    runs_as
        The scheme of `operators.schemes` that runs it, None for one that becomes several nodes.
    packs
        Whether it stores packs of intermediate results (001 section 3.3), or pairs instead.
    routed
        Whether rows can go to units at random, by hash or in subgroups (003 section 3.2).
    elastic
        Whether its units may change at a restart, unless rows go by a key: each row goes to all units of other groups.
    ends_meet_at_hub
        Whether the ends of a chain meet only at a row of the hub, so that what follows from the hub's edges holds.
    units
        How many units it has; None for any number.
    """

    joins: str = "it does not fit"
    runs_as: str | None = None
    packs: bool = False
    routed: bool = False
    elastic: bool = False
    ends_meet_at_hub: bool = False
    units: int | None = None


#: By name, in the order in which messages list them.
RECORDS: Mapping[str, SchemeRecord] = MappingProxyType(
    {
        "symmetric": SchemeRecord("it joins three relations", "symmetric", packs=True, routed=True, elastic=True),
        "semi_symmetric": SchemeRecord(
            "it joins three relations in a chain",
            "semi_symmetric",
            packs=True,
            routed=True,
            elastic=True,
            ends_meet_at_hub=True,
        ),
        "biclique": SchemeRecord("it joins two relations", "biclique", routed=True, elastic=True),
        "tree": SchemeRecord(runs_as="tree", elastic=True),
        "matrix": SchemeRecord(runs_as="matrix"),
        "iterative": SchemeRecord(runs_as="matrix", units=1),
        "operator_tree": SchemeRecord(f"it joins four to {EXHAUSTIVE} relations that predicates connect"),
    }
)
