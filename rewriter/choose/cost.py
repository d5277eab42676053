"""The numbers of a group, and what orders of joins cost; what other schemes cost stands in their records.

Costs are per second of stream time: rows sent over the network, rows kept, comparisons, and the number of stages. They
are those of what slots do, which the counters of a run show too. Rates, selectivities and retention come from
the catalog and the graph; `CostDefaults` fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import permutations

from ..options import CostDefaults, Settings
from ..plan.comparison import common_type, widest
from ..plan.conjuncts import KINDS, Band, Either, KernelPredicate
from ..plan.cost_model import DEFAULT_UNITS, Model, growth, probe_order, search, searches, source_of
from ..plan.decision import Cost, Selectivity
from ..plan.grid import KeyClass
from ..plan.nodes import JoinNode, Scan, source_scan
from ..plan.schemes import cost_of_order
from ..plan.stored import edge_key

#: Another order is better only if it costs less than this share.
NOTICED = 0.95

#: Seconds that a row is kept at least: it is there for its micro-batch, also where its bound is zero ("soon after").
LEAST_KEPT = 1.0


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
        seconds = defaults.keep_for if length is None else max(length / 1e6, LEAST_KEPT)
        kept.append(rate if scan.streaming is False else rate * seconds)
    names = node.graph.relations
    shares = [[1.0] * len(names) for _ in names]
    equal, implied, checked, bands = set(), {}, set(), set()
    for edge in node.graph.edges:
        one, other = sorted((names.index(edge.left), names.index(edge.right)))
        most = defaults.partners / max(kept[one], kept[other], 1.0)
        known = edge.share if observed else edge.declared
        written = edge.written
        share = _share(written, selectivity, most)
        if any(KINDS[predicate.kind].equal for predicate in written):
            equal.add((one, other))
        elif any(KINDS[predicate.kind].equal for predicate in edge.predicates):
            whole = share * min(selectivity.get("equi", 1.0), most) if known is None else known
            share, known = max(share, whole), None
            implied[one, other] = whole / share
        shares[one][other] = shares[other][one] = share if known is None else known
        if node.graph.not_implied(edge):
            checked.add((one, other))
        if any(isinstance(predicate, Band) and not predicate.bounds.wide for predicate in edge.predicates):
            bands.add((one, other))
    return Model(
        names,
        tuple(rates),
        tuple(kept),
        tuple(map(tuple, shares)),
        units or DEFAULT_UNITS,
        frozenset(equal),
        implied,
        all(scan.streaming is not False and keep.get(scan.alias) is not None for scan in below),
        frozenset(checked),
        frozenset(bands),
    )


def shares_of(node: JoinNode, model: Model, defaults: CostDefaults) -> tuple[Selectivity, ...]:
    """Return what a model takes each pair of relations with a condition to let match, and who says so."""
    at, said = model.relations.index, dict(defaults.selectivity)
    found = []
    for edge in node.graph.edges:
        if edge.counts:
            by_kind = any(said.get(one.kind) != KINDS[one.kind].selectivity for one in edge.written)
            share_from = edge.share_from if edge.share is not None or not by_kind else "declared"
            share = float(f"{model.share(at(edge.left), at(edge.right)):.4g}")
            found.append(Selectivity(edge.left, edge.right, share, share_from, edge_key(node, edge)))
    return tuple(found)


def searched(node: JoinNode) -> JoinNode:
    """Return a node without wide bands: nearly all rows that are kept lie within one."""
    narrow = [
        replace(edge, predicates=tuple(p for p in edge.predicates if not isinstance(p, Band) or not p.bounds.wide))
        for edge in node.graph.edges
    ]
    return replace(node, graph=replace(node.graph, edges=tuple(narrow)))


def rows_of(scan: Scan, defaults: CostDefaults) -> float:
    """Return the rows of an input; the assumed ones if they are not known."""
    return defaults.rate if scan.rows is None else scan.rows


def _share(predicates: Sequence[KernelPredicate], selectivity: dict[str, float], most: float) -> float:
    """Return the share of pairs that match by some predicates; with an equality or a band, ``most`` at most."""
    share, few = 1.0, False
    for predicate in predicates:
        if isinstance(predicate, Either):
            branches = predicate.branches[: 1 if predicate.exceptions else None]
            share *= min(1.0, sum(_share(branch, selectivity, most) for branch in branches))
        else:
            share *= selectivity.get(predicate.kind, 1.0)
            few |= KINDS[predicate.kind].finds_few
    return min(share, most) if few else share


def can_hash(node: JoinNode) -> Callable[[KeyClass], bool]:
    """Return a test whether rows can be hashed by a class of equal expressions, as far as types are known."""
    types = {term.sql: term.type for edge in node.graph.edges for one in edge.predicates for term in one.terms}

    def has_common_type(members: KeyClass) -> bool:
        known = [name for _, text in members if common_type(name := types[text], name) is not None]
        return not known or widest(known) is not None

    return has_common_type


def best_order(model: Model) -> tuple[int, ...]:
    """Return the order of the chain of bicliques that sends and keeps least.

    The order of FROM stays unless another is noticeably better, and units do not matter: a query's checkpoint holds
    results of one order.
    """
    model = replace(model, units=DEFAULT_UNITS)

    def rows(order: tuple[int, ...]) -> float:
        cost = cost_of_order(model, order)
        return cost.network + cost.memory

    written = tuple(range(model.count))
    best = min(_orders(model), key=lambda order: (rows(order), order))
    return best if rows(best) < NOTICED * rows(written) else written


def stores(model: Model, order: tuple[int, ...], reached: int) -> Cost:
    """Return the cost of an operator that stores inputs alone, each in a stage of its own (002's equation 1).

    Rows probe the other stages in order. What they have found goes to all units of the next stage, or to those of its
    key; to the stage that stores its own stream in one copy, and from there to all. Rows that are stored in a later
    stage go there in one copy too. Results are left out, as in all schemes: each leaves once.
    """
    first, last = order[0], len(order) - 1
    network = reached * (sum(model.rates) + model.rates[first])
    network += sum(model.rates[one] * stage for stage, one in enumerate(order))
    cpu = 0.0
    for start in order:
        done, rate, joined = frozenset((start,)), model.rates[start], [start]
        for stage, other in enumerate(order):
            if other == start:
                network += rate * reached if 0 < stage < last else 0.0
                continue
            source = source_of(model, joined, other)
            searched = searches(model, model.rates[start], rate) if source == start else rate
            cpu += searched * reached * search(model.kept[other] / model.units)
            candidates = rate * model.stored(other) * model.share(source, other)
            for one in (source, *(one for one in joined if one != source and model.checks(one, other))):
                cpu += candidates
                candidates *= model.share(one, other) if one != source else 1.0
            rate *= growth(model, done, frozenset((other,)))
            done |= {other}
            joined.append(other)
            if stage < last and len(done) < model.count:
                network += rate if order[stage + 1] == start else rate * reached
    return Cost(network, sum(model.kept), cpu, model.count)


def store_order(model: Model, firsts: Collection[int]) -> tuple[int, ...]:
    """Return the order of stages that sends least, among those that begin with one of some relations.

    Every row of another stream probes the first stage before all others. Units do not matter: a query's checkpoint
    holds what each stage stores.
    """
    orders: Iterable[tuple[int, ...]]
    if model.count <= 5:
        orders = (order for order in permutations(range(model.count)) if order[0] in firsts)
    else:
        orders = ((first, *(one for one, _ in probe_order(model, first))) for first in firsts)
    return min(orders, key=lambda order: (stores(model, order, DEFAULT_UNITS).network, order))


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
