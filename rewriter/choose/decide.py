"""Which node, scheme and units a group gets.

The scheme with the least total runs, by measured weights, for as many units as there are. Where totals are alike
(`cost.NOTICED`) the shape decides: three streams in a cycle are ``symmetric``, in a chain ``semi_symmetric``; with a
key shared by all they are a ``matrix``. Some schemes cost does not choose (`_untaken`): those that run by hint alone,
those with one unit, however many rows come, and those that store results, where nobody said how many rows come. A hint
has precedence over all this, then what the query's checkpoint stores.

A hint or a setting sets the units. Without either, cost chooses them where the rates of streams are declared;
else there are as many units as tasks that Spark runs in parallel.

Rates and selectivities observed in earlier queries decide nothing: a new session would not know them, and its query
would not fit its checkpoint. They are used in what is expected and in the advice.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ...errors import InvalidHintError
from ..options import CostDefaults, Settings
from ..plan.cost_model import Model, probe_order, source_of
from ..plan.decision import Alternative, Cost, Decision, InputRate, NodeName, SchemeOptions
from ..plan.grid import is_elastic, lay_out
from ..plan.join_graph import is_connected
from ..plan.joins import KINDS_OF_JOINS
from ..plan.nodes import Hints, JoinNode, join_node_class, source_scan
from ..plan.schemes import RECORDS
from ..plan.stored import Stored, conditions_of
from ..plan.trees import TreeOf, leaves, order_text
from ..sql.catalog import RATE_OPTION, RATE_SETTING, own_name
from .cost import NOTICED, can_hash, model_of, rows_of, searched, shares_of, total
from .proposals import proposals
from .routing import fit_of, has_common_key, hinted, reached, takes_ranges

_ON_A_GUESS = "declare rates"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A group that runs somehow, and by what that is decided."""

    node: JoinNode
    hints: Hints
    settings: Settings
    rates: tuple[InputRate, ...]
    from_packs: bool

    @property
    def known(self) -> bool:
        """Whether somebody has said how many rows come."""
        return all(rate.rows_from in ("declared", "statistics") for rate in self.rates)


@dataclass(frozen=True, slots=True)
class _Costed:
    """The cost of a scheme in its best number of units, and the total by which schemes are compared."""

    cost: Cost
    units: int | None
    number: float
    tree: TreeOf[int] | None = None


def decide(node: JoinNode, hints: Hints, settings: Settings, *, from_packs: bool = False) -> Decision:
    """Decide how a group runs: node, scheme and units.

    Parameters
    ----------
    node
        The group.
    hints
        The hints of its SELECT.
    settings
        Units, the assumptions of the cost model, and what the query's checkpoint stores.
    from_packs
        Whether a chain's results would be counted from packs, so that only other schemes have to list them.

    Raises
    ------
    InvalidHintError
        The hinted scheme cannot run this group, or has no intermediates of the kind that is hinted.
    """
    rates = _rates(node, settings.costs)
    asked = _Asked(node, hints, settings, rates, from_packs)
    stored = _stored(node, settings)
    written = _written(hints, stored, node)
    counts, units_from = _unit_counts(asked, stored)
    meet = node.tested and not node.tests_pairs  # else its rows meet in one node, and are tested in others
    if meet and math.prod(one.shares for one in lay_out(node.graph, 2, can_hash(node), node.tested)) < 2:
        counts, units_from = (1,), "both tested"
    candidates = _costed(asked, counts, written)
    seen = candidates
    if "observed" in {*(rate.rows_from for rate in rates), *(edge.share_from for edge in node.graph.edges)}:
        seen = _costed(asked, counts, written, observed=True)
    by_cost, reason, advice = _cheapest(asked, candidates, seen)
    resumed = False
    if hints.scheme:
        chosen, reason, advice = hints.scheme, f"the hint SCHEME('{hints.scheme}')", None
        if chosen not in candidates:
            raise InvalidHintError(f"SCHEME('{chosen}')", _unfit(chosen, node))
        if RECORDS[chosen].units == 1 and (hints.units or 1) > 1:
            raise InvalidHintError(f"UNITS({hints.units})", f"the scheme {chosen} joins in one unit; matrix has cells")
    elif stored is not None and stored.scheme in candidates:
        chosen, resumed, advice = stored.scheme, True, None
        if by_cost == chosen:
            reason = f"the checkpoint's scheme; {reason}"
        else:
            advice = f"the checkpoint stores rows for {chosen} and keeps it; on a new one {by_cost} would run: {reason}"
            reason = f"the checkpoint's scheme, although {reason}"
    else:
        chosen = by_cost
    found = candidates[chosen]
    alternatives = tuple(
        Alternative(scheme, _rounded(one.cost), scheme == chosen, _number(one.number / 1000), _untaken(scheme, asked))
        for scheme, one in sorted(candidates.items())
    )
    model = model_of(node, settings, found.units)
    decision = Decision(
        cast(NodeName, join_node_class(model.count).__name__),
        chosen,
        found.units,
        reason,
        alternatives,
        _options(hints, node, chosen, found),
        _expected(model, _rounded(seen[chosen].cost)),
        units_reason=_why_units(
            asked, f"the scheme {chosen}" if RECORDS[chosen].units else units_from, found.units, counts
        ),
        rates=rates,
        advice=advice,
        from_checkpoint=resumed,
        units_from=units_from,
        unscaled=_unscaled(chosen, asked),
        selectivities=shares_of(node, model, settings.costs),
    )
    return dataclasses.replace(decision, **probes_of(node, decision, settings))


def probes_of(node: JoinNode, decision: Decision, settings: Settings) -> dict[str, Any]:
    """Return in which order rows of each relation probe the others, and by what, whatever ran before.

    Nothing is stored by it, so a restart may change it.
    """
    record = RECORDS[decision.scheme or "matrix"]
    stages = leaves(decision.options.tree) if record.hinted_as == "order" and not record.stores_results else ()
    if not stages and not record.probes:
        return {}
    model, names = model_of(searched(node), settings, None, observed=False), node.graph.relations
    orders = [
        [one for one in stages if one != at] or [one for one, _ in probe_order(model, at)] for at in range(len(names))
    ]
    found = {} if stages else {"probes": orders}
    if any(edge.declared is not None for edge in node.graph.edges):
        found["sources"] = [
            [source_of(model, [at, *order[:done]], one) for done, one in enumerate(order)]
            for at, order in enumerate(orders)
        ]
    return {
        what: tuple((name, tuple(names[one] for one in order)) for name, order in zip(names, listed, strict=True))
        for what, listed in found.items()
    }


def _rates(node: JoinNode, defaults: CostDefaults) -> tuple[InputRate, ...]:
    scans = [source_scan(source) for source in node.sources]
    return tuple(InputRate(s.alias, rows_of(s, defaults), s.streaming is not False, s.rows_from) for s in scans)


def _stored(node: JoinNode, settings: Settings) -> Stored | None:
    """Return how the query's checkpoint stores this group's rows, None if that is not known."""
    names = sorted(name.lower() for name in node.graph.relations)
    found = [one for one in settings.stored if sorted(name.lower() for name in one.relations) == names]
    if len(found) > 1:
        found = [one for one in found if one.conditions == conditions_of(node.graph)] or found
    return found[0] if found else None


def _written(hints: Hints, stored: Stored | None, node: JoinNode) -> dict[str, TreeOf[int]]:
    """Return, by scheme, the tree of a hint, else that of the query's checkpoint."""
    if hints.tree and hints.scheme is not None:
        return {hints.scheme: _numbered(hints.scheme, hints.tree, node)}
    if stored is None or hints.scheme not in (None, stored.scheme) or not stored.tree:
        return {}
    return {stored.scheme: _numbered(stored.scheme, stored.tree, node)}


def _unit_counts(asked: _Asked, stored: Stored | None) -> tuple[tuple[int | None, ...], str]:
    """Return the numbers of units among which cost chooses, and where they come from."""
    hints, settings = asked.hints, asked.settings
    if hints.units is not None:
        return (hints.units,), "the hint"
    if settings.units is not None:
        return (settings.units,), "the setting"
    if stored is not None and hints.scheme in (None, stored.scheme):
        return (stored.units,), "the checkpoint"
    most = settings.parallelism
    if most is None or not asked.known or not any(rate.streaming for rate in asked.rates):
        return (most,), "Spark"
    counts = sorted({*(2**power for power in range(most.bit_length())), most})
    fitting = [count for count in counts if count % (hints.subgroups or 1) == 0]
    return tuple(fitting or [most]), "cost"


def _why_units(asked: _Asked, units_from: str, units: int | None, counts: tuple[int | None, ...]) -> str | None:
    if units_from.startswith("the scheme"):
        return f"{units_from} joins in one"
    match units_from:
        case "both tested":
            why = "both sides are tested and no equality says where partners meet, so all rows come to one"
            return (
                f"{why}; with the hint UNITS(n), on a new checkpoint, pairs are found in n units and settled in others"
            )
        case "the hint":
            return f"the hint UNITS({units})"
        case "the setting":
            return "as set"
        case "the checkpoint":
            return "as many as the checkpoint's rows are stored in"
        case "cost":
            rows = sum(rate.rows for rate in asked.rates if rate.streaming)
            least = "one costs" if units == 1 else f"{units} cost"
            return f"for {rows:,.4g} rows a second {least} least, of at most {counts[-1]} that Spark runs side by side"
    if units is None:
        return None
    why = "" if asked.known else ", for nobody declared how many rows come"
    return f"as many as Spark runs side by side{why}"


def _costed(
    asked: _Asked, counts: tuple[int | None, ...], written: Mapping[str, TreeOf[int]], *, observed: bool = False
) -> dict[str, _Costed]:
    """Return each scheme with the number of units in which it costs least, by observed rates or without them."""
    node, settings = asked.node, asked.settings
    best: dict[str, _Costed] = {}
    proposed = proposals(node, asked.hints, settings, written)
    for units in counts:
        model = model_of(node, settings, units, observed=observed)
        found: dict[str, tuple[Cost, TreeOf[int] | None]] = {
            scheme: (cost, None) for scheme, cost in _candidates(asked, model).items()
        }
        for scheme, proposal in proposed.items():
            # Trees of nodes are many: they are looked at once, for as many units as there may be.
            once = RECORDS[scheme].runs_as is None
            if (units == counts[-1] or not once) and (made := proposal(model)) is not None:
                found[scheme] = made
        results = model.rate(frozenset(range(model.count)))
        for scheme, (cost, shape) in found.items():
            number = total(
                cost,
                settings.costs,
                units=RECORDS[scheme].units or model.units,
                parallel=settings.parallelism,
                taken=sum(model.rates),
                listed=results if asked.from_packs and scheme != "semi_symmetric" else 0.0,
            )
            if scheme not in best or number < best[scheme].number:
                best[scheme] = _Costed(cost, RECORDS[scheme].units or units, number, shape)
    return best


def _cheapest(
    asked: _Asked, candidates: Mapping[str, _Costed], seen: Mapping[str, _Costed]
) -> tuple[str, str, str | None]:
    """Return the cheapest scheme, or that of the shape if it is about as cheap; the reason; and advice."""
    suggested, shape = _by_shape(asked)
    why = {scheme: _untaken(scheme, asked) for scheme in candidates}
    numbers = {scheme: one.number for scheme, one in candidates.items() if why[scheme] is None or scheme == suggested}
    least = min(sorted(numbers), key=numbers.__getitem__)
    share = numbers[least] / numbers[suggested]
    chosen = suggested if share > NOTICED else least
    looked_at = {chosen, *(scheme for scheme in seen if why[scheme] == _ON_A_GUESS)}
    if not any(rate.rows_from == "assumed" for rate in asked.rates):  # what was observed would choose among all
        looked_at.update(numbers)
    cheapest = min(sorted(looked_at), key=lambda scheme: seen[scheme].number)
    advice = _advice(asked, cheapest, chosen, seen)
    if least == suggested:
        return suggested, f"{shape}, and {suggested} costs least", advice
    if chosen == suggested:
        return suggested, f"{shape}, and no other scheme costs noticeably less", advice
    return least, f"{least} costs {share:.1%} of {suggested}, which the shape suggests ({shape})", advice


def _untaken(scheme: str, asked: _Asked) -> str | None:
    """Return why cost does not choose a scheme, None if it may."""
    record, hints = RECORDS[scheme], asked.hints
    if record.units == 1 or record.by_hint:
        return "by hint"  # one unit, however many rows come
    if hints.routing == "range" and not takes_ranges(scheme, asked.node):
        return "not by ranges"
    routed = record.routed or hints.routing == "range"
    if (hints.routing and not routed) or (hints.intermediates and not record.packs):
        return "not as hinted"
    if asked.settings.elastic and not _may_change(scheme, asked):
        return "units are fixed"
    return _ON_A_GUESS if record.stores_results and not asked.known else None


def _advice(asked: _Asked, least: str, chosen: str, candidates: Mapping[str, _Costed]) -> str | None:
    """Return what to declare, or to hint, where another scheme looks much cheaper; None if none does."""
    share = candidates[least].number / candidates[chosen].number
    if share * asked.settings.costs.advised >= 1 or not any(rate.streaming for rate in asked.rates):
        return None
    relations = {scan.alias: own_name(scan.relation) for scan in map(source_scan, asked.node.sources)}
    setting = {
        alias: RATE_SETTING + (relation if re.fullmatch(r"[\w.]+", relation) else alias)
        for alias, relation in relations.items()
    }
    or_hint, of_it = f"or write the hint SCHEME('{least}')", f"{share:.0%}" if share >= 0.01 else "less than 1%"
    assumed = [rate for rate in asked.rates if rate.rows_from == "assumed"]
    if assumed:
        return (
            f"nobody declared how many rows come ({', '.join(rate.alias for rate in assumed)}), and {least}, which "
            f"stores results, is not chosen on a guess; at {assumed[0].rows:,g} a second each, which is assumed, it "
            f"would cost {of_it} of {chosen}: declare them (the option {RATE_OPTION} of CREATE STREAM, or "
            f"{setting[assumed[0].alias]} in the session) and cost chooses, {or_hint}"
        )
    seen = [f"{setting[rate.alias]} = {rate.rows:g}" for rate in asked.rates if rate.rows_from == "observed"]
    pairs = [one for one in asked.node.graph.edges if one.share_from == "observed"]
    seen += [f"the hint SELECTIVITY({one.left}, {one.right}, {one.share:g})" for one in pairs]
    what = "the rows that queries of this session read" + (" and the pairs that matched" if pairs else "")
    return (
        f"with {what}, {least} would cost {of_it} of {chosen}: declare them ({', '.join(seen)}) and a query on a new "
        f"checkpoint runs so, {or_hint}"
    )


def _may_change(scheme: str, asked: _Asked) -> bool:
    """Return whether the units of a scheme may change at a restart (see `operators.state.layout`)."""
    hints, runs_as = asked.hints, RECORDS[scheme].runs_as
    if runs_as == "matrix":
        return asked.node.cells_may_change
    if runs_as is None:  # its nodes run as other schemes do, matrix among them
        return asked.node.cells_may_change and hints.routing != "range"
    return is_elastic(scheme, hints.routing, hints.subgroups)


def _unscaled(chosen: str, asked: _Asked) -> str | None:
    """Return that scaling is on and leaves this group alone, and what it would scale; None if it scales the group."""
    node, hints = asked.node, asked.hints
    if not asked.settings.elastic or not any(rate.streaming for rate in asked.rates) or _may_change(chosen, asked):
        return None
    of_it = f"scaling is on, but the units of {chosen} do not follow the load"
    if node.join == "full":
        return f"{of_it}: rows of both sides of a FULL JOIN wait in their cells"
    if RECORDS[chosen].elastic:
        why, hint = "what its stages find goes on by ranges of values", f"ROUTING('range', {hints.units or 2})"
    else:
        why = "rows that are kept for ever never leave their cells"
        if node.join != "inner":
            return f"{of_it}: {why}; with a bound of event times they would, on a new checkpoint"
        some = {
            name: one for name, one in RECORDS.items() if one.elastic and one.relations in (None, len(node.sources))
        }
        suiting = (name for name, one in some.items() if one.suits is not None and one.suits[0] == node.graph.shape)
        hint = f"SCHEME('{next(suiting, next(iter(some)))}')"
    return f"{of_it}: {why}; those of the hint {hint} do, on a new checkpoint"


def _expected(model: Model, cost: Cost) -> tuple[tuple[str, float], ...]:
    """Return the estimates that a running query can be compared with."""
    results = _rounded(Cost(model.rate(frozenset(range(model.count))), 0, 0, 1)).network
    return (
        ("input rows a second", sum(model.rates)),
        ("comparisons a second", cost.cpu),
        ("results a second", results),
        ("rows kept", cost.memory),
    )


def _candidates(asked: _Asked, model: Model) -> dict[str, Cost]:
    node, hints = asked.node, asked.hints
    fit = fit_of(node, model, reached(node, hints, model), hints)
    joining = {
        name: record
        for name, record in RECORDS.items()
        if record.relations in (None, model.count) and (node.join == "inner" or record.runs_as == "matrix")
    }
    found = {name: record.cost(model, fit) for name, record in joining.items()}
    return {name: cost for name, cost in found.items() if cost is not None}


def _by_shape(asked: _Asked) -> tuple[str, str]:
    """Return the scheme that the shape of a group suggests, and why."""
    node, hints = asked.node, asked.hints
    graph, count = node.graph, len(node.graph.relations)
    if node.join != "inner":
        return "matrix", f"{KINDS_OF_JOINS[node.join]}, which tests each row where all its partners come"
    keeps_packs = asked.from_packs or hints.intermediates or hints.routing
    if count == 3 and not keeps_packs and has_common_key(node):
        return "matrix", "three relations with one key, which sends a row to one unit"
    if count == 3 and not keeps_packs and all(source_scan(one).streaming is False for one in node.sources):
        return "matrix", "three tables, which matrix joins in one stage"
    if count > 2 and hints.routing == "range":
        return "matrix", "each column that bands compare has a dimension of ranges"
    for name, record in RECORDS.items():
        if record.suits is not None and record.relations == count and record.suits[0] in (None, graph.shape):
            return name, record.suits[1].format(hub=graph.hub)
    if count == 3:
        return "matrix", "three relations that the predicates do not connect"
    article = f"of the shape {graph.shape}" if is_connected(graph) else "not connected"
    return "matrix", f"{count} relations, {article}"


def _unfit(scheme: str, node: JoinNode) -> str:
    graph = node.graph
    if node.join != "inner":
        return f"{KINDS_OF_JOINS[node.join]} runs as matrix, or in one unit as iterative"
    return f"{RECORDS[scheme].joins}, and this group has {len(graph.relations)} ({graph.shape})"


def _options(hints: Hints, node: JoinNode, chosen: str, found: _Costed) -> SchemeOptions:
    """Return what else the chosen scheme is told."""
    if hints.intermediates and not RECORDS[chosen].packs:
        raise InvalidHintError(f"INTERMEDIATES('{hints.intermediates}')", f"the scheme {chosen} stores no packs")
    pairs = hints.intermediates == "pair"
    if hints.routing:
        return dataclasses.replace(hinted(hints, node, chosen, found.units, pairs=pairs), tree=found.tree or ())
    if chosen == "biclique":
        return SchemeOptions(routing="hash" if has_common_key(node) else "random")
    if found.tree and not (RECORDS[chosen].own_order and found.tree == tuple(range(len(found.tree)))):
        return SchemeOptions(tree=found.tree)
    return SchemeOptions(pairs)


def _number(number: float) -> float:
    return float(f"{min(number, 1e300):.4g}")


def _rounded(cost: Cost) -> Cost:
    return Cost(_number(cost.network), _number(cost.memory), _number(cost.cpu), cost.stages)


def _numbered(scheme: str, tree: TreeOf[str], node: JoinNode) -> TreeOf[int]:
    """Return a tree, or an order, of a group's relations over their numbers."""
    names = {name.lower(): index for index, name in enumerate(node.graph.relations)}

    def numbered(tree: TreeOf[str]) -> TreeOf[int]:
        return tuple(numbered(part) if isinstance(part, tuple) else names[part.lower()] for part in tree)

    hint = f"SCHEME('{scheme}({order_text(tree)})')"
    try:
        found = numbered(tree)
    except KeyError as error:
        raise InvalidHintError(hint, f"the group has no relation {error}") from None
    if sorted(leaves(found)) != list(range(len(names))):
        raise InvalidHintError(hint, f"the group's relations are {', '.join(node.graph.relations)}, each once")
    return found
