"""What the rewriter, the compiler and EXPLAIN know of each scheme: one record each. Its costs are in `choose.cost`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .document import Group
from .trees import read_tree

#: All orders are tried up to this many relations, greedy ones beyond.
EXHAUSTIVE = 7


@dataclass(frozen=True, slots=True)
class Arrival:
    """What arriving rows do in a unit.

    Parameters
    ----------
    rows
        A relation, or a partial result such as ``r⋈s`` that another stage hands over.
    probes
        What they probe there, one after the other.
    kept
        As what they are stored: as themselves or with what they have found; None if they are not.
    """

    rows: str
    probes: tuple[str, ...] = ()
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """Units that do the same: their stage, what they are called, what arrives there and what a next stage gets."""

    stage: int
    name: str
    arrivals: tuple[Arrival, ...]
    finds: str = ""


Units = tuple[UnitGroup, ...]


def _joined(*rows: str) -> str:
    return "⋈".join(rows)


def _own(name: str) -> Arrival:
    return Arrival(name, (), name)


def _own_units(group: Group) -> Units:
    """Every stream has its own units, which the others probe."""
    names = group.graph.relations
    if len(names) > 3:
        return _cells(group)  # no such scheme joins so many
    others = {own: tuple(Arrival(one, (own,)) for one in names if one != own) for own in names}
    return tuple(UnitGroup(1, f"units of {own}", (_own(own), *arrivals)) for own, arrivals in others.items())


def _hub_units(group: Group) -> Units:
    """In the units of a stream, rows of each other one become hubs of its rows, which the third stream probes."""
    names = group.graph.relations
    if len(names) != 3:
        return _own_units(group)
    found = []
    for at, own in enumerate(names):
        one, other = (*names[:at], *names[at + 1 :])
        hubs = (Arrival(a, (_joined(b, own),), _joined(a, own)) for a, b in ((one, other), (other, one)))
        found.append(UnitGroup(1, f"units of {own}", (_own(own), *hubs)))
    return tuple(found)


def _chain_units(group: Group) -> Units:
    """First the units of one end, which send packs; then those of the hub and of the other end."""
    hub, ends = group.graph.hub, [name for name in group.graph.relations if name != group.graph.hub]
    if hub is None or len(ends) != 2:
        return _own_units(group)
    first, last = ends
    packs, others = _joined(hub, first), _joined(hub, last)
    of_first = (_own(first), Arrival(hub, (first,), packs), Arrival(last, (packs,)))
    of_hub = (_own(hub), Arrival(first, (hub, others), packs), Arrival(last, (hub, packs), others))
    of_last = (_own(last), Arrival(hub, (last,), others), Arrival(first, (others,)), Arrival(packs, (last,)))
    return (
        UnitGroup(1, f"units of {first}", of_first, packs),
        UnitGroup(2, f"units of {hub}", of_hub),
        UnitGroup(2, f"units of {last}", of_last),
    )


def _tree_units(group: Group) -> Units:
    """A chain of two-way joins: each stage stores what the one before it has found, beside one stream more."""
    order = group.decision.option("order")
    left, *others = map(str, read_tree(str(order))) if order else group.graph.relations
    found: list[UnitGroup] = []
    for stage, added in enumerate(others, 1):
        both = _joined(left, added)
        for own, other in ((left, added), (added, left)):
            found.append(UnitGroup(stage, f"units of {own}", (_own(own), Arrival(other, (own,))), both))
        left = both
    return tuple(found)


def _cells(group: Group) -> Units:
    """A row probes the streams of its cell one after the other."""
    probes = dict(group.decision.probes)
    arrivals = tuple(Arrival(name, probes.get(name, ()), name) for name in group.graph.relations)
    return (UnitGroup(1, "one unit" if group.decision.scheme == "iterative" else "every cell", arrivals),)


def _nodes(group: Group) -> Units:
    """Each inner node of the tree stores its inputs, in units of its own."""
    names = group.graph.relations
    found: list[UnitGroup] = []

    def visit(part: Any) -> tuple[str, int]:
        if isinstance(part, str):
            return names[int(part)], 0
        inputs = tuple(map(visit, part))
        both, stage = _joined(*(name for name, _ in inputs)), 1 + max(below for _, below in inputs)
        found.append(UnitGroup(stage, f"join {len(found) + 1}", tuple(_own(name) for name, _ in inputs), both))
        return both, stage

    tree = group.decision.option("tree")
    visit(read_tree(str(tree)) if tree else tuple(map(str, range(len(names)))))
    return tuple(sorted(found, key=lambda one: one.stage))


@dataclass(frozen=True, slots=True)
class SchemeRecord:
    """A scheme.

    Parameters
    ----------
    words
        What it does, for EXPLAIN.
    draw
        Its units, who is stored and who probes there, for the picture in EXPLAIN.
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
    probes
        Whether rows probe stream after stream, in an order that the decision names.
    unit, fixed
        What people call one of its units; why their number does not follow the load.
    """

    words: str
    draw: Callable[[Group], Units]
    joins: str = "it does not fit"
    runs_as: str | None = None
    packs: bool = False
    routed: bool = False
    elastic: bool = False
    ends_meet_at_hub: bool = False
    units: int | None = None
    probes: bool = False
    unit: str = "unit"
    fixed: str = ""


#: By name, in the order in which messages list them.
RECORDS: Mapping[str, SchemeRecord] = MappingProxyType(
    {
        "symmetric": SchemeRecord(
            "A row is stored in one unit of its own group and sent to every unit of the other groups, which probe with "
            "it. One stage.",
            _hub_units,
            "it joins three relations",
            "symmetric",
            packs=True,
            routed=True,
            elastic=True,
        ),
        "semi_symmetric": SchemeRecord(
            "Rows of the ends meet the hub in their own units; packs of partial results travel from the first end's "
            "units to the last end's. Two stages.",
            _chain_units,
            "it joins three relations in a chain",
            "semi_symmetric",
            packs=True,
            routed=True,
            elastic=True,
            ends_meet_at_hub=True,
        ),
        "biclique": SchemeRecord(
            "Each stream has its own units. A row is stored among its own and probes the other side's.",
            _own_units,
            "it joins two relations",
            "biclique",
            routed=True,
            elastic=True,
        ),
        "tree": SchemeRecord(
            "A chain of two-way joins; each stores the intermediate results of the one before it.",
            _tree_units,
            runs_as="tree",
            elastic=True,
        ),
        "matrix": SchemeRecord(
            "Units form a grid. A row is hashed along the dimensions it has and copied along those it lacks, so every "
            "result arises in exactly one cell. One stage.",
            _cells,
            runs_as="matrix",
            probes=True,
            unit="cell",
            fixed="its rows lie in cells, which their number lays out",
        ),
        "iterative": SchemeRecord(
            "A unit holds every stream. A new row probes stream after stream and stops when nothing is left; no "
            "intermediate result is stored.",
            _cells,
            runs_as="matrix",
            units=1,
            probes=True,
            fixed="it joins in one unit",
        ),
        "operator_tree": SchemeRecord(
            "Smaller joins below larger ones, each of two, three or more inputs. A join below another one stores its "
            "results, or hands them on as packs, and is a stage of its own.",
            _nodes,
            f"it joins four to {EXHAUSTIVE} relations that predicates connect",
        ),
    }
)
