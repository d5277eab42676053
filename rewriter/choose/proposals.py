"""What schemes propose whose cost depends on a tree or an order of the group's relations: the papers' baselines.

All others are costed by their records alone. A tree that a hint wrote, or a checkpoint stores, is taken as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from ...errors import InvalidHintError
from ..options import Settings
from ..plan.cost_model import Model
from ..plan.decision import Cost
from ..plan.join_graph import joined_with_all
from ..plan.nodes import Hints, JoinNode
from ..plan.schemes import cost_of_order
from ..plan.trees import TreeOf, leaves, order_text
from .cost import best_order, model_of, searched, store_order, stores
from .operator_trees import cheapest_tree, costs_of_trees
from .routing import reached

#: The tree or order for the numbers of a group, and what it costs; None where there is none.
Proposal: TypeAlias = "Callable[[Model], tuple[Cost, TreeOf[int]] | None]"


def _in_order(node: JoinNode, _: Hints, settings: Settings, written: TreeOf[int]) -> Proposal | None:
    """Propose the order of a chain of bicliques that sends and keeps least."""
    if node.join != "inner":
        return None
    order = leaves(written) or best_order(model_of(node, settings, None, observed=False))
    return lambda model: (cost_of_order(model, order), order)


def _in_stores(node: JoinNode, hints: Hints, settings: Settings, written: TreeOf[int]) -> Proposal | None:
    """Propose in which order streams are stored if nothing else is (002 section 4.1), where somebody asks for that.

    Every row probes the first of them before all others, so it is one that conditions join with each other one.
    """
    scheme = "non_materializing"
    firsts = joined_with_all(node.graph)
    if node.join != "inner" or len(node.sources) < 3 or not (written or hints.scheme == scheme) or not firsts:
        return None
    order = leaves(written) or store_order(model_of(searched(node), settings, None, observed=False), firsts)
    if order[0] not in firsts:
        names = [node.graph.relations[one] for one in order]
        first = " or ".join(node.graph.relations[one] for one in firsts)
        reason = f"all other relations probe the first one, so conditions have to join it with each: begin with {first}"
        raise InvalidHintError(f"SCHEME('{scheme}({order_text(names)})')", reason)
    return lambda model: (stores(model, order, reached(node, hints, model)), order)


def _in_nodes(node: JoinNode, hints: Hints, settings: Settings, written: TreeOf[int]) -> Proposal | None:
    """Propose the cheapest operator tree (002 section 4) of four relations or more."""
    if not written and (node.join != "inner" or len(node.sources) < 4):
        return None

    def proposal(model: Model) -> tuple[Cost, TreeOf[int]] | None:
        cost_of = costs_of_trees(node, model, hints.routing)
        return (cost_of(written), written) if written else cheapest_tree(model, cost_of, settings.costs)

    return proposal


_PROPOSED_BY: Mapping[str, Callable[[JoinNode, Hints, Settings, TreeOf[int]], Proposal | None]] = MappingProxyType(
    {"tree": _in_order, "non_materializing": _in_stores, "operator_tree": _in_nodes}
)


def proposals(
    node: JoinNode, hints: Hints, settings: Settings, written: Mapping[str, TreeOf[int]]
) -> dict[str, Proposal]:
    """Return by scheme what it proposes for a group, if anything.

    Raises
    ------
    InvalidHintError
        What is written does not fit.
    """
    made = {name: propose(node, hints, settings, written.get(name, ())) for name, propose in _PROPOSED_BY.items()}
    return {name: proposal for name, proposal in made.items() if proposal is not None}
