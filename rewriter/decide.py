"""Which node, scheme and units a group gets.

The cheapest scheme runs, but schemes whose costs are alike (`CostDefaults.alike`, or `guessed` where a relation's rows
are not known) count as equally cheap, and among those the shape decides: three streams in a cycle are ``symmetric``, in
a chain ``semi_symmetric``. That keeps a query's scheme, and its checkpoints, stable while statistics change, and
prefers the schemes whose units may change at a restart. A hint wins over all. Units are those of a hint or a setting;
without either a group has as many as Spark runs tasks side by side, for a unit is what a task works on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal

from ..errors import InvalidHintError
from .cost import (
    EXHAUSTIVE,
    Model,
    biclique,
    cost_of_tree,
    dimensions,
    iterative,
    matrix,
    model_of,
    operator_tree,
    semi_symmetric,
    symmetric,
    total,
    tree,
)
from .join_graph import is_connected
from .plan import Alternative, Cost, Decision, Hints, JoinNode, source_scan
from .settings import CostDefaults, Settings
from .trees import TreeOf, leaves, read_tree, tree_text


def _cheapest(
    candidates: dict[str, Cost], node: JoinNode, model: Model, defaults: CostDefaults, from_packs: bool
) -> tuple[str, str]:
    """Return the scheme that costs least, or what the shape suggests if that is about as cheap; and why."""
    suggested, shape = _by_shape(node)
    results = model.rate(frozenset(range(model.count)))
    known = all(source_scan(source).rows is not None for source in node.sources)
    numbers = {}
    for scheme, cost in candidates.items():
        if scheme == "iterative" or (scheme in ("tree", "operator_tree") and not known):
            continue  # the first has one unit, however many rows come; the others store results, which no guess may do
        listed = from_packs and scheme != "semi_symmetric"  # else all of them list the same results: no difference
        compared = dataclasses.replace(cost, cpu=max(cost.cpu - (0.0 if listed else results), 0.0))
        numbers[scheme] = total(compared, defaults, model.units)
    least = min(sorted(numbers), key=numbers.__getitem__)
    if least == suggested:
        return suggested, f"{shape}, and {suggested} costs least"
    share = numbers[least] / numbers[suggested]
    if share * (defaults.alike if known else defaults.guessed) >= 1:
        return suggested, f"{shape}; {least} would cost {share:.0%} of {suggested}, which estimates cannot tell apart"
    return least, f"{least} costs {share:.1%} of {suggested}, which the shape suggests ({shape})"


def decide(node: JoinNode, hints: Hints, settings: Settings, *, from_packs: bool = False) -> Decision:
    """Decide how a group runs: node, scheme and units.

    Parameters
    ----------
    node
        The group.
    hints
        The hints of its SELECT.
    settings
        Units and the assumptions of the cost model.
    from_packs
        Whether a chain's results would be counted from packs, so that only other schemes have to list them.

    Raises
    ------
    InvalidHintError
        The hinted scheme cannot run this group, or has no intermediates of the kind that is hinted.
    """
    units = hints.units or settings.units
    model = model_of(node, settings, units)
    candidates = _candidates(node, model)
    mixed = operator_tree(model, settings.costs) if model.count > 3 else None
    if hints.tree is not None:
        written = _hinted_tree(hints, node)
        mixed = cost_of_tree(model, written), written
    if mixed:
        candidates["operator_tree"] = mixed[0]
    if hints.scheme:
        chosen, reason = hints.scheme, f"the hint SCHEME('{hints.scheme}')"
        if chosen not in candidates:
            raise InvalidHintError(f"SCHEME('{chosen}')", _unfit(chosen, node))
    else:
        chosen, reason = _cheapest(candidates, node, model, settings.costs, from_packs)
    alternatives = tuple(
        Alternative(scheme, _rounded(cost), scheme == chosen) for scheme, cost in sorted(candidates.items())
    )
    options: tuple[tuple[str, str], ...] = ()
    if hints.intermediates and chosen not in ("symmetric", "semi_symmetric"):
        raise InvalidHintError(f"INTERMEDIATES('{hints.intermediates}')", f"the scheme {chosen} stores no packs")
    if hints.intermediates == "pair":
        options = (("intermediates", "pair"),)
    if hints.routing:
        options = (*options, *_routing(hints, node, chosen, units))
    elif chosen == "biclique":
        options = (("routing", "hash" if _has_common_key(node) else "random"),)
    elif chosen == "operator_tree":
        options = (("tree", tree_text(mixed[1])),) if mixed else ()
    expected = _expected(model, _rounded(candidates[chosen]))
    return Decision(_node_name(model.count), chosen, units, reason, alternatives, options, expected)


def _expected(model: Model, cost: Cost) -> tuple[tuple[str, float], ...]:
    """Return what a running query can be compared with."""
    results = _rounded(Cost(model.rate(frozenset(range(model.count))), 0, 0, 1)).network
    return (
        ("input rows a second", sum(model.rates)),
        ("comparisons a second", cost.cpu),
        ("results a second", results),
        ("rows kept", cost.memory),
    )


def _node_name(count: int) -> Literal["TriJoin", "MultiJoin", "BiJoin"]:
    return "BiJoin" if count == 2 else "TriJoin" if count == 3 else "MultiJoin"


def _candidates(node: JoinNode, model: Model) -> dict[str, Cost]:
    found: dict[str, Cost] = {"iterative": iterative(model), "matrix": matrix(model, node), "tree": tree(model)[0]}
    if model.count == 2:
        found["biclique"] = biclique(model, _has_common_key(node))
    if model.count == 3:
        found["symmetric"] = symmetric(model)
        if node.graph.shape == "chain" and node.graph.hub is not None:
            found["semi_symmetric"] = semi_symmetric(model, node.graph.relations.index(node.graph.hub))
    return found


def _by_shape(node: JoinNode) -> tuple[str, str]:
    graph = node.graph
    match len(graph.relations), graph.shape:
        case 2, _:
            return "biclique", "two relations"
        case 3, "cyclic":
            return "symmetric", "three relations, each pair of them joined: a cyclic join"
        case 3, "chain":
            return "semi_symmetric", f"three relations in a chain with the hub {graph.hub}"
        case 3, _:
            return "matrix", "three relations that the predicates do not connect"
        case count, shape:
            article = "not connected" if not is_connected(graph) else f"of the shape {shape}"
            return "matrix", f"{count} relations, {article}"


def _unfit(scheme: str, node: JoinNode) -> str:
    needs = {
        "symmetric": "it joins three relations",
        "semi_symmetric": "it joins three relations in a chain",
        "biclique": "it joins two relations",
        "operator_tree": f"it joins four to {EXHAUSTIVE} relations that predicates connect",
    }
    graph = node.graph
    return f"{needs.get(scheme, 'it does not fit')}, and this group has {len(graph.relations)} ({graph.shape})"


def _has_common_key(node: JoinNode) -> bool:
    """Tell whether equalities give all relations one key that rows can be hashed by."""
    return any(len(members) == len(node.graph.relations) for members in dimensions(node))


def _routing(hints: Hints, node: JoinNode, scheme: str, units: int | None) -> tuple[tuple[str, str], ...]:
    """Return the options of a hinted routing (003 section 3.2)."""
    values = [f"'{hints.routing}'"] + ([str(hints.subgroups)] if hints.subgroups else [])
    hint = f"ROUTING({', '.join(values)})"
    if scheme not in ("biclique", "symmetric", "semi_symmetric"):
        raise InvalidHintError(hint, f"the scheme {scheme} has a routing of its own")
    if hints.routing == "random":
        return (("routing", "random"),)
    if not _has_common_key(node):
        raise InvalidHintError(hint, "no predicates make one column equal in all relations, to hash rows by")
    if hints.subgroups is None:
        return (("routing", "hash"),)
    if units is not None and units % hints.subgroups:
        raise InvalidHintError(hint, f"{units} units cannot be divided evenly into {hints.subgroups} subgroups")
    return ("routing", "contrand"), ("subgroups", str(hints.subgroups))


def _rounded(cost: Cost) -> Cost:
    keep: Callable[[float], float] = lambda number: float(f"{min(number, 1e300):.4g}")  # noqa: E731
    return Cost(keep(cost.network), keep(cost.memory), keep(cost.cpu), cost.stages)


def _hinted_tree(hints: Hints, node: JoinNode) -> TreeOf[int]:
    """Return the tree that a hint writes down, over the relations of a group."""
    names = {name.lower(): index for index, name in enumerate(node.graph.relations)}

    def numbered(tree: TreeOf[str]) -> TreeOf[int]:
        if len(tree) < 2:
            raise ValueError("a node of it has fewer than two parts")
        return tuple(numbered(part) if isinstance(part, tuple) else names[part.lower()] for part in tree)

    hint = f"SCHEME('operator_tree({hints.tree})')"
    try:
        tree = numbered(read_tree(hints.tree or ""))
    except KeyError as error:
        raise InvalidHintError(hint, f"the group has no relation {error}") from None
    except ValueError as error:
        raise InvalidHintError(hint, f"{error}; a tree is written as operator_tree((r, s), t)") from None
    if sorted(leaves(tree)) != list(range(len(names))):
        raise InvalidHintError(hint, f"the group's relations are {', '.join(node.graph.relations)}, each once")
    if all(isinstance(part, int) for part in tree):
        raise InvalidHintError(hint, "it has no inner node; SCHEME('matrix') joins all relations in one")
    return tree
