"""Which scheme, how many units."""

from __future__ import annotations

from .join_graph import is_connected
from .plan import Decision, Hints, JoinNode
from .settings import Settings


def decide(node: JoinNode, hints: Hints, settings: Settings) -> Decision:
    """Decide how a group runs."""
    graph = node.graph
    units = hints.units or settings.units
    kind = {2: "BiJoin", 3: "TriJoin"}.get(len(graph.relations), "MultiJoin")
    if kind == "BiJoin":
        equal = any(p.kind in ("equi", "null_safe") for edge in graph.edges for p in edge.predicates)
        return Decision("BiJoin", "biclique", units, "two relations", (), (("routing", "hash" if equal else "random"),))
    if kind == "TriJoin" and graph.shape == "cyclic":
        return Decision("TriJoin", "symmetric", units, "three relations, all pairs joined")
    if kind == "TriJoin" and graph.shape == "chain":
        return Decision("TriJoin", "semi_symmetric", units, f"a chain of three with hub {graph.hub}")
    return Decision("MultiJoin", "matrix", units, "four or more relations" if is_connected(graph) else "not connected")
