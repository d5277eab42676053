"""What each scheme costs.

Costs are per second of stream time: rows sent over the network, rows kept, comparisons. They follow 002's equation 1
(the rows sent by an operator are, over all inputs, the partial results along its probe order, each times the units it
goes to), extended by the memory that each scheme keeps and by the number of stages. Rates, selectivities and retention
come from the catalog and the graph; `CostDefaults` fills in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, permutations

from ..options import CostDefaults, Settings
from ..plan.comparison import common_type, widest
from ..plan.conjuncts import KINDS
from ..plan.grid import KeyClass, lay_out
from ..plan.nodes import JoinNode, Scan, source_scan
from ..plan.parts import Cost
from ..plan.schemes import EXHAUSTIVE
from ..plan.trees import TreeOf, leaves

#: Units of a stream's group, and cells of a matrix, where nothing sets them.
DEFAULT_UNITS = 2

#: A member in a pack is a row number, a small part of a row.
PACKED = 0.1

#: Another order is better only if it costs less than this share.
NOTICED = 0.95


@dataclass(frozen=True, eq=False)  # sizes are cached by model: hashing its numbers costs more
class Model:
    """The numbers of one group.

    Parameters
    ----------
    relations, rates, kept
        Per relation: its name, its rows a second, the rows that are kept.
    shares
        Per pair: the share of pairs that the user's own predicates let match.
    units
        Units of a stream's group, or cells.
    equal, implied
        Pairs with an equality that the user wrote; shares of pairs that match by an equality derived from others.
        The latter count where the others do not: with ``r.k = s.k`` and ``s.k = t.k``, in the join of ``r`` and ``t``.
    """

    relations: tuple[str, ...]
    rates: tuple[float, ...]
    kept: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    units: int
    equal: frozenset[tuple[int, int]] = frozenset()
    implied: Mapping[tuple[int, int], float] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many relations there are."""
        return len(self.relations)

    def linked(self, one: int, other: int) -> bool:
        """Tell whether predicates join two relations."""
        return self.shares[one][other] < 1.0 or (min(one, other), max(one, other)) in self.implied

    def size(self, members: frozenset[int]) -> float:
        """Return how many rows the join of all kept rows of some relations has."""
        return _size(self, members)

    def rate(self, members: frozenset[int]) -> float:
        """Return how many rows a second the join of some relations gets."""
        return sum(self.rates[one] * self.size(members) / max(self.kept[one], 1.0) for one in sorted(members))


@lru_cache(maxsize=4096)
def _size(model: Model, members: frozenset[int]) -> float:
    size = math.prod(model.kept[one] for one in sorted(members))
    size *= math.prod([model.shares[one][other] for one, other in combinations(sorted(members), 2)])
    joined = list(range(model.count))  # by equalities, which follow from one another inside a part
    for one, other in (*model.equal, *model.implied) if model.implied else ():
        if one in members and other in members and joined[one] != joined[other]:
            size *= model.implied.get((one, other), 1.0)
            joined = [joined[one] if part == joined[other] else part for part in joined]
    return size


def model_of(node: JoinNode, settings: Settings, units: int | None, *, observed: bool = True) -> Model:
    """Collect the numbers of a group; without the observed ones, only what a new session would know."""
    defaults = settings.costs
    selectivity = dict(defaults.selectivity)
    below = [source_scan(source) for source in node.sources]
    keep = {retention.alias: retention.keep_for for retention in node.retention}
    rates, kept = [], []
    for scan in below:
        rate = rows_of(scan, defaults) if observed or scan.rows_from != "observed" else defaults.rate
        length = keep.get(scan.alias)
        rates.append(rate)
        kept.append(rate if scan.streaming is False else rate * (length / 1e6 if length else defaults.keep_for))
    names = node.graph.relations
    shares = [[1.0] * len(names) for _ in names]
    equal, implied = set(), {}
    for edge in node.graph.edges:
        one, other = sorted((names.index(edge.left), names.index(edge.right)))
        most = defaults.partners / max(kept[one], kept[other], 1.0)
        written = [predicate.kind for predicate in edge.predicates if not predicate.derived]
        shares[one][other] = shares[other][one] = _share(written, selectivity, most)
        if any(KINDS[kind].equal for kind in written):
            equal.add((one, other))
        elif any(KINDS[predicate.kind].equal for predicate in edge.predicates):
            implied[one, other] = _share(["equi"], selectivity, most)
    return Model(
        names,
        tuple(rates),
        tuple(kept),
        tuple(map(tuple, shares)),
        units or DEFAULT_UNITS,
        frozenset(equal),
        implied,
    )


def rows_of(scan: Scan, defaults: CostDefaults) -> float:
    """Return the rows of an input; the assumed ones if they are not known."""
    return defaults.rate if scan.rows is None else scan.rows


def _share(kinds: Sequence[str], selectivity: dict[str, float], most: float) -> float:
    """Return the share of pairs that match by some predicates; with an equality or a band, ``most`` at most."""
    share = math.prod(selectivity.get(kind, 1.0) for kind in kinds)
    return min(share, most) if any(KINDS[kind].finds_few for kind in kinds) else share


# ------------------------------------------------------------------------------------------------------------- schemes


def symmetric(model: Model, reached: int) -> Cost:
    """Return the cost of TriJoin's cyclic scheme: a row is stored once and goes to both other groups (001 section 4).

    It reaches all units of each group, or those that its key selects.
    """
    network = sum(model.rates) * (1 + 2 * reached)
    hubs = sum(_hubs(model, y, x, reached) for x, y in permutations(range(3), 2))
    probes = sum(
        model.rates[z] * (2 * reached * _search(model.kept[x] / model.units) + _matches(model, z, x))
        for z, x in permutations(range(3), 2)
    )
    return Cost(network, sum(model.kept) + hubs, probes + model.rate(frozenset(range(3))), 1)


def semi_symmetric(model: Model, hub: int, reached: int) -> Cost:
    """Return the cost of TriJoin's chain scheme: two stages, packs go from the R units to the T units."""
    first, last = (one for one in range(3) if one != hub)
    packs = model.rates[hub] * min(reached, _matches(model, hub, first)) * reached
    network = sum(model.rates) * (1 + reached) + model.rates[hub] * reached + packs
    hubs = _hubs(model, hub, first, reached) + _hubs(model, hub, last, reached)
    probes = sum(
        model.rates[one] * (reached * _search(model.kept[hub] / model.units) + _matches(model, one, hub))
        + model.rates[hub] * (reached * _search(model.kept[one] / model.units) + _matches(model, hub, one))
        for one in (first, last)
    )
    return Cost(network, sum(model.kept) + hubs, probes + model.rate(frozenset(range(3))), 2)


def _hubs(model: Model, hub: int, other: int, reached: int) -> float:
    """Return the rows of packs of two relations: a hub in each unit that it reaches with matches, and members."""
    pairs = model.size(frozenset((hub, other)))
    return min(model.kept[hub] * reached, pairs) + PACKED * pairs / 2


def biclique(model: Model, reached: int) -> Cost:
    """Return the cost of BiStream's biclique: a row goes to all units of the other side, or to those of its key."""
    probes = sum(
        model.rates[one] * (reached * _search(model.kept[other] / model.units) + _matches(model, one, other))
        for one, other in ((0, 1), (1, 0))
    )
    return Cost(sum(model.rates) * (1 + reached), sum(model.kept), probes, 1)


def iterative(model: Model) -> Cost:
    """Return the cost of probing stream after stream inside one unit (004 section 3.1)."""
    return Cost(sum(model.rates), sum(model.kept), _probing(model), 1)


def matrix(model: Model, node: JoinNode) -> Cost:
    """Return the cost of the join matrix in the grid that the operators lay out."""
    grid = lay_out(node.graph, model.units, can_hash(node))
    copies = [
        math.prod(dimension.shares for dimension in grid if alias not in dimension.relations)
        for alias in model.relations
    ]
    network, memory = (
        sum(rows * copy for rows, copy in zip(some, copies, strict=True)) for some in (model.rates, model.kept)
    )
    inside = tuple(kept * copy / model.units for kept, copy in zip(model.kept, copies, strict=True))
    searches = (
        _search(inside[other]) * model.rates[one] * (copies[one] - 1)
        for one, other in permutations(range(model.count), 2)
    )
    return Cost(network, memory, _probing(model) + sum(searches), 1)


def can_hash(node: JoinNode) -> Callable[[KeyClass], bool]:
    """Return a test whether rows can be hashed by a class of equal expressions, as far as types are known."""
    types = {term.sql: term.type for edge in node.graph.edges for one in edge.predicates for term in one.terms}

    def has_common_type(members: KeyClass) -> bool:
        known = [name for _, text in members if common_type(name := types[text], name) is not None]
        return not known or widest(known) is not None

    return has_common_type


def tree(model: Model, order: tuple[int, ...]) -> Cost:
    """Return the cost of a chain of bicliques that store their results and join the relations in an order."""
    network = memory = cpu = 0.0
    done = frozenset(order[:1])
    for one in order[1:]:
        left, right = model.rate(done) if len(done) > 1 else model.rates[min(done)], model.rates[one]
        stored = model.size(done)
        network += (left + right) * (1 + model.units)
        memory += stored + model.kept[one]
        joined = model.rate(done | {one})
        cpu += left * model.units * _search(model.kept[one]) + right * model.units * _search(stored) + joined
        done |= {one}
    return Cost(network, memory, cpu, model.count - 1)


def best_order(model: Model) -> tuple[int, ...]:
    """Return the order of the chain of bicliques that sends and keeps least.

    The order of FROM stays unless another is noticeably better, and units do not matter: a query's checkpoint holds
    results of one order.
    """
    model = replace(model, units=DEFAULT_UNITS)

    def rows(order: tuple[int, ...]) -> float:
        cost = tree(model, order)
        return cost.network + cost.memory

    written = tuple(range(model.count))
    best = min(_orders(model), key=lambda order: (rows(order), order))
    return best if rows(best) < NOTICED * rows(written) else written


def operator_tree(model: Model, defaults: CostDefaults) -> tuple[Cost, TreeOf[int]] | None:
    """Return the best tree of materialising inner nodes under a non-materialising root, by 002's equation 1.

    One inner node joins a connected subset of two or more relations first and stores the result. Further ones are added
    one at a time while that makes the tree cheaper: beside it, above it or inside it.
    """
    if model.count > EXHAUSTIVE:
        return None
    found = [(cost_of_tree(model, tree), tree) for tree in _grouped(model, tuple(range(model.count)))]
    if not found:
        return None
    cost, tree = min(found, key=lambda one: (one[0].network + one[0].memory, leaves(one[1])))
    while True:
        more = [(cost_of_tree(model, one), one) for one in _grouped(model, tree)]
        best = min(more, key=lambda one: (total(one[0], defaults), str(one[1])), default=None)
        if best is None or total(best[0], defaults) >= total(cost, defaults):
            return cost, tree
        cost, tree = best


def cost_of_tree(model: Model, tree: TreeOf[int]) -> Cost:
    """Return the cost of an operator tree: each node by 002's equation 1, and what inner nodes send and store."""
    network, cpu = _equation_one(model, [frozenset(leaves((part,))) for part in tree])
    memory, stages = 0.0, 1
    for part in tree:
        if isinstance(part, int):
            memory += model.kept[part]
            continue
        below, members = cost_of_tree(model, part), frozenset(leaves(part))
        network += below.network + model.rate(members)
        memory += below.memory + model.size(members)
        cpu, stages = cpu + below.cpu, stages + below.stages
    return Cost(network, memory, cpu, stages)


def _grouped(model: Model, tree: TreeOf[int]) -> Iterator[TreeOf[int]]:
    """Yield the trees with one more inner node, which joins some connected parts of one node first."""
    for size in range(2, len(tree)):
        for parts in combinations(tree, size):
            if _connected(model, [frozenset(leaves((part,))) for part in parts]):
                at = tree.index(parts[0])
                rest = [part for part in tree if part not in parts]
                yield (*rest[:at], parts, *rest[at:])
    for at, part in enumerate(tree):
        if not isinstance(part, int):
            for inside in _grouped(model, part):
                yield (*tree[:at], inside, *tree[at + 1 :])


def _equation_one(model: Model, parts: list[frozenset[int]]) -> tuple[float, float]:
    """002's equation 1: over all inputs, each partial result along the probe order times the units it is sent to."""
    sent = compared = 0.0
    for start in parts:
        done, rate = start, model.rate(start) if len(start) > 1 else model.rates[min(start)]
        others = [part for part in parts if part is not start]
        while others:
            nearest = min(others, key=lambda part: (_growth(model, done, part), sorted(part)))
            sent += rate * model.units
            compared += rate * model.units * _search(model.size(nearest) / model.units)
            rate *= _growth(model, done, nearest)
            done |= nearest
            others.remove(nearest)
        compared += rate
    return sent, compared


def _growth(model: Model, done: frozenset[int], part: frozenset[int]) -> float:
    return model.size(done | part) / max(model.size(done), 1e-9)


def probe_order(model: Model, start: int) -> Iterator[tuple[int, float]]:
    """Yield the other relations in the order in which a row of one probes them (002 section 4.1, local join order).

    Each time it is the one that makes the fewest partial results, and by what factor their number grows.
    """
    done, rest = frozenset((start,)), set(range(model.count)) - {start}
    while rest:
        grown = {one: _growth(model, done, frozenset((one,))) for one in sorted(rest)}
        nearest = min(grown, key=lambda one: (grown[one], one))
        yield nearest, grown[nearest]
        done |= {nearest}
        rest.remove(nearest)


def _probing(model: Model) -> float:
    total = 0.0
    for start, rate in enumerate(model.rates):
        for nearest, growth in probe_order(model, start):
            total += rate * _search(model.kept[nearest])
            rate *= growth
        total += rate
    return total


def _search(rows: float) -> float:
    return math.log2(max(rows, 1.0) + 1.0)


def _matches(model: Model, one: int, other: int) -> float:
    return _growth(model, frozenset((one,)), frozenset((other,)))


def _connected(model: Model, parts: list[frozenset[int]]) -> bool:
    done, rest = set(parts[0]), parts[1:]
    while rest:
        near = [part for part in rest if any(model.linked(one, other) for one in part for other in done)]
        if not near:
            return False
        done |= frozenset().union(*near)
        rest = [part for part in rest if part not in near]
    return True


def _orders(model: Model) -> list[tuple[int, ...]]:
    if model.count <= 5:
        return [order for order in permutations(range(model.count)) if order[0] < order[1]]
    found = []
    for start in range(model.count):
        order, rest = [start], set(range(model.count)) - {start}
        while rest:
            done = frozenset(order)
            nearest = min(rest, key=lambda one: (model.size(done | {one}), one))
            order.append(nearest)
            rest.remove(nearest)
        found.append(tuple(order))
    return found


def total(
    cost: Cost,
    defaults: CostDefaults,
    *,
    units: int = 1,
    parallel: int | None = None,
    taken: float = 0.0,
    listed: float = 0.0,
) -> float:
    """Return one number to compare by: microseconds that a second of stream time keeps Spark busy, and what is kept.

    Parameters
    ----------
    cost
        Of a scheme in so many units.
    defaults
        What each part costs.
    units
        The units; they share the work.
    parallel
        How many of them run side by side; all if None.
    taken, listed
        Input rows and results a second. Results that every scheme lists are left out: they tell none apart.
    """
    work = defaults.taken * taken + defaults.sent * cost.network + defaults.compared * cost.cpu
    work = (work + defaults.listed * listed) / min(units, parallel or units)
    return work + defaults.stored * cost.memory + defaults.stage * cost.stages + defaults.unit * units
