"""What the rewriter, the compiler and EXPLAIN know of each scheme: one record each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations
from math import expm1
from types import MappingProxyType
from typing import Any, Literal

from .cost_model import WIDE, Model, SharedCells, matches, probing, search
from .decision import Cost
from .document import Group
from .parts import Shape
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


def _store_units(group: Group) -> Units:
    """Each stream is stored in a stage; what rows have found in the stages before probes there."""
    order = tuple(map(str, read_tree(str(group.decision.option("order")))))
    found: list[UnitGroup] = []
    for stage, own in enumerate(order, 1):
        probing = []
        for start in order:
            before = [one for one in order[: stage - 1] if one != start]
            if start != own:
                probing.append(Arrival(_joined(start, *before), (own,)))
        found.append(UnitGroup(stage, f"units of {own}", (_own(own), *probing)))
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
class Fit:
    """What the cost of a scheme depends on besides the numbers of a group.

    Parameters
    ----------
    shape, hub
        The shape of the join graph, and the number of its hub.
    reached
        How many units of another stream's group a row goes to.
    copies
        By relation, in how many ranges a row lies where they are routed by range, each of which reaches so many units.
    shared_cells
        In how many cells of a grid matching rows of some relations are found together, on average; of one relation, how
        many copies a row has.
    pairs
        Whether intermediates are stored once a match, not with a pack.
    """

    shape: Shape
    hub: int | None
    reached: int
    copies: tuple[float, ...]
    shared_cells: SharedCells
    pairs: bool = False


@dataclass(frozen=True, slots=True)
class _Hubs:
    """Rows of one relation that become hubs of stored rows of another one, in the units of the latter.

    Parameters
    ----------
    sent
        Of an arriving row: the units in which it finds partners.
    stored
        The hubs that are kept in all units.
    members
        The pairs of a hub and an earlier row that they stand for.
    """

    sent: float
    stored: float
    members: float

    @classmethod
    def of(cls, model: Model, hub: int, other: int, fit: Fit) -> _Hubs:
        """Return them. How many units a row finds partners in follows from how many it finds in each (Poisson).

        Of a history that grows, an earlier row has found fewer.
        """
        found = matches(model, hub, other)
        each = max(found / fit.reached, 1e-12)
        sent = found if fit.pairs else fit.reached * -expm1(-each)
        before = found / 2 if fit.pairs else fit.reached * (1 + expm1(-each) / each)
        stored = model.stored(hub) * (sent if model.bounded else before)
        return cls(sent, stored, model.kept[hub] * found / 2)


def _found_in_hubs(model: Model, arriving: int, hub: int, other: int, fit: Fit) -> float:
    """Return the comparisons of a row that probes hubs of one relation with members of another."""
    hubs, share = _Hubs.of(model, hub, other, fit), model.share(arriving, hub)
    members = hubs.members * share if model.checks(arriving, other) else 0.0
    return fit.reached * search(hubs.stored / model.units) + hubs.stored * share + members


def _found(model: Model, arriving: int, other: int, fit: Fit) -> float:
    """Return the comparisons of a row that probes stored rows of another relation."""
    share, looks = model.searched.get((arriving, other), (model.share(arriving, other), 1.0))
    return fit.reached * looks * search(model.stored(other) / model.units) + model.stored(other) * share


def _sent(model: Model, fit: Fit) -> float:
    """Return the rows a second that reach the units of all groups."""
    return fit.reached * sum(rate * copies for rate, copies in zip(model.rates, fit.copies, strict=True))


def _kept(model: Model, fit: Fit) -> float:
    return sum(model.stored(one) * copies for one, copies in enumerate(fit.copies))


def _cost_of_symmetric(model: Model, fit: Fit) -> Cost:
    """Return the cost of TriJoin's cyclic scheme: a row is stored once; unit i of every group is in slot i.

    It reaches all slots, or those that its key selects, once each.
    """
    ways = list(permutations(range(3)))  # stored, hub, arriving
    hubs = sum(_Hubs.of(model, y, x, fit).stored for x, y, _ in ways)
    compared = sum(
        model.rates[z] * (_found_in_hubs(model, z, y, x, fit) + _found(model, z, x, fit)) for x, y, z in ways
    )
    return Cost(_sent(model, fit), _kept(model, fit) + hubs, compared, 1)


def _cost_of_semi_symmetric(model: Model, fit: Fit) -> Cost | None:
    """Return the cost of TriJoin's chain scheme.

    Two stages, and all rows cross to both; packs go from the R units to the T units.
    """
    hub = fit.hub
    if fit.shape != "chain" or hub is None:
        return None
    first, last = (one for one in range(3) if one != hub)
    sent = _Hubs.of(model, hub, first, fit).sent
    found = matches(model, hub, first), matches(model, hub, last)
    checked = model.checks(first, last)
    packs = model.rates[hub] * sent * fit.reached  # each is joined with the stored rows of the other end
    network = 2 * _sent(model, fit) + packs + model.rates[hub] * found[0] * fit.reached
    hubs = lists = compared = 0.0
    for end, other in ((first, last), (last, first)):
        hubs += _Hubs.of(model, hub, end, fit).stored
        listed = _Hubs.of(model, end, hub, fit).stored
        lists += listed
        compared += model.rates[hub] * _found(model, hub, end, fit)
        compared += model.rates[other] * _found_in_hubs(model, other, hub, end, fit)
        compared += model.rates[end] * _found(model, end, hub, fit)
        entered = model.rates[other] * matches(model, other, hub)  # reads the list of each
        compared += entered * (search(listed / model.units) + matches(model, hub, end) / 2 * (1 + checked))
    compared += packs * search(model.stored(last) / model.units) + model.rates[hub] * sent * found[1]
    compared += model.rates[hub] * found[0] * found[1] * checked
    return Cost(network, _kept(model, fit) + hubs + lists, compared, 2)


def _cost_of_biclique(model: Model, fit: Fit) -> Cost:
    """Return the cost of BiStream's biclique: a row goes to all slots, or to those of its key."""
    compared = sum(model.rates[one] * _found(model, one, other, fit) for one, other in ((0, 1), (1, 0)))
    return Cost(_sent(model, fit), _kept(model, fit), compared, 1)


def _cost_of_iterative(model: Model, _fit: Fit) -> Cost:
    """Return the cost of probing stream after stream inside one unit (004 section 3.1)."""
    return Cost(sum(model.rates), sum(map(model.stored, range(model.count))), probing(model), 1)


def _cost_of_matrix(model: Model, fit: Fit) -> Cost:
    """Return the cost of the join matrix in the grid that the operators lay out."""
    copies = [fit.shared_cells(frozenset((one,))) for one in range(model.count)]
    network = sum(rate * copy for rate, copy in zip(model.rates, copies, strict=True))
    memory = sum(model.stored(one) * copy for one, copy in enumerate(copies))
    return Cost(network, memory, probing(model, fit.shared_cells, model.units), 1)


def cost_of_order(model: Model, order: tuple[int, ...]) -> Cost:
    """Return the cost of a chain of bicliques that store their results and join the relations in an order.

    Each stage passes on the rows of the streams that later ones add.
    """
    network = sum(model.rates) * model.units
    memory = cpu = 0.0
    done = frozenset(order[:1])
    for at, one in enumerate(order[1:], 1):
        left, right = model.rate(done) if len(done) > 1 else model.rates[min(done)], model.rates[one]
        if len(done) > 1:
            network += (left + sum(model.rates[later] for later in order[at:])) * model.units
        # Some rows of windows' results are old: their pieces do not go before the last of them does.
        stored = results(model, done) * (1 + WIDE * model.bounded) if len(done) > 1 else model.stored(min(done))
        share, looks = model.found((one,), done)
        memory += stored + model.stored(one)
        cpu += left * (looks * model.units * search(model.stored(one) / model.units) + model.stored(one) * share)
        cpu += right * (looks * model.units * search(stored / model.units) + stored * share)
        done |= {one}
    return Cost(network, memory, cpu, model.count - 1)


def results(model: Model, members: frozenset[int]) -> float:
    """Return how many results of an inner join can be joined: of windows, those that have come in the last one."""
    return model.size(members) * (len(members) if model.bounded else 1)


@dataclass(frozen=True, slots=True)
class SchemeRecord:
    """A scheme.

    Parameters
    ----------
    words
        What it does, for EXPLAIN.
    draw
        Its units, who is stored and who probes there, for the picture in EXPLAIN.
    cost
        What it costs, None for a group that it does not join, or whose trees and orders are costed in
        `choose.proposals`.
    relations, suits
        How many relations it joins, None for any number; the shape of such a group that suggests it (None for any), and
        why.
    joins
        What it joins, as a sentence: for who hints at it where it does not fit.
    runs_as
        The scheme of `operators.schemes` that runs it, None for one that becomes several nodes.
    in_cells
        Whether its units are cells of a grid, whose coordinates say which rows come there.
    packs
        Whether it stores packs of intermediate results (001 section 3.3), or pairs instead.
    routed
        Whether rows can go to units at random, by hash or in subgroups (003 section 3.2).
    elastic
        Whether rows of units of one layout meet those of another, so that they may change at any restart.
    sends_on
        Whether a stage sends what it has found to the units of the next.
    ends_meet_at_hub
        Whether the ends of a chain meet only at a row of the hub, so that what follows from the hub's edges holds.
    units
        How many units it has; None for any number.
    probes
        Whether rows probe stream after stream, in an order that the decision names.
    unit
        What people call one of its units.
    hinted_as, own_order
        What a hint may say of it: the order of its stages or a tree of nodes; whether its stages are in the order of
        FROM if nothing is said.
    stores_results
        Whether it stores what some of the streams give together: dear if more rows come than was assumed.
    by_hint
        Whether it runs where a hint asks for it, or in the nodes of an operator tree: cost does not choose it.
    """

    words: str
    draw: Callable[[Group], Units]
    cost: Callable[[Model, Fit], Cost | None] = lambda _model, _fit: None
    relations: int | None = None
    suits: tuple[Shape | None, str] | None = None
    joins: str = "it does not fit"
    runs_as: str | None = None
    in_cells: bool = False
    packs: bool = False
    routed: bool = False
    elastic: bool = False
    sends_on: bool = False
    ends_meet_at_hub: bool = False
    units: int | None = None
    probes: bool = False
    unit: str = "unit"
    hinted_as: Literal["order", "tree"] | None = None
    own_order: bool = False
    stores_results: bool = False
    by_hint: bool = False


#: By name, in the order in which messages list them.
RECORDS: Mapping[str, SchemeRecord] = MappingProxyType(
    {
        "symmetric": SchemeRecord(
            "A row is stored in one unit of its own group and sent to every unit of the other groups, which probe with "
            "it. One stage.",
            _hub_units,
            _cost_of_symmetric,
            relations=3,
            suits=("cyclic", "three relations, each pair of them joined: a cyclic join"),
            joins="it joins three relations",
            runs_as="symmetric",
            packs=True,
            routed=True,
            elastic=True,
        ),
        "semi_symmetric": SchemeRecord(
            "Rows of the ends meet the hub in their own units; packs of partial results travel from the first end's "
            "units to the last end's. Two stages.",
            _chain_units,
            _cost_of_semi_symmetric,
            relations=3,
            suits=("chain", "three relations in a chain with the hub {hub}"),
            joins="it joins three relations in a chain",
            runs_as="semi_symmetric",
            packs=True,
            routed=True,
            elastic=True,
            sends_on=True,
            ends_meet_at_hub=True,
        ),
        "biclique": SchemeRecord(
            "Each stream has its own units. A row is stored among its own and probes the other side's.",
            _own_units,
            _cost_of_biclique,
            relations=2,
            suits=(None, "two relations"),
            joins="it joins two relations",
            runs_as="biclique",
            routed=True,
            elastic=True,
        ),
        "tree": SchemeRecord(
            "A chain of two-way joins; each stores the intermediate results of the one before it.",
            _tree_units,
            runs_as="tree",
            elastic=True,
            sends_on=True,
            hinted_as="order",
            own_order=True,
            stores_results=True,
        ),
        "non_materializing": SchemeRecord(
            "Each stream has a stage of its own, whose units store its rows and nothing else. A new row goes from "
            "stage to stage with what it has found so far.",
            _store_units,
            joins="it joins three relations or more, one of which conditions join with each other one, "
            "as it may be in the nodes of an operator_tree",
            runs_as="non_materializing",
            routed=True,
            elastic=True,
            sends_on=True,
            hinted_as="order",
            by_hint=True,
        ),
        "matrix": SchemeRecord(
            "Units form a grid. A row is hashed along the dimensions it has and copied along those it lacks, so every "
            "result arises in exactly one cell. One stage.",
            _cells,
            _cost_of_matrix,
            runs_as="matrix",
            in_cells=True,
            probes=True,
            unit="cell",
        ),
        "iterative": SchemeRecord(
            "A unit holds every stream. A new row probes stream after stream and stops when nothing is left; no "
            "intermediate result is stored.",
            _cells,
            _cost_of_iterative,
            runs_as="matrix",
            units=1,
            probes=True,
        ),
        "operator_tree": SchemeRecord(
            "Smaller joins below larger ones, each of two, three or more inputs. A join below another one stores its "
            "results, or hands them on as packs, and is a stage of its own.",
            _nodes,
            joins=f"it joins four to {EXHAUSTIVE} relations that predicates connect",
            hinted_as="tree",
            stores_results=True,
        ),
    }
)
