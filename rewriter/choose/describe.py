"""A join group as the plain data that EXPLAIN draws: the ``groups`` of `Rewrite.to_dict`."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..plan.conjuncts import Predicate
from ..plan.display import duration_text
from ..plan.grid import lay_out
from ..plan.nodes import JoinNode, LeftAlone
from .cost import DEFAULT_UNITS, can_hash


def group_dict(group: JoinNode | LeftAlone) -> dict[str, Any]:
    """Return one join group as plain data."""
    graph, decision = group.graph, group.decision
    pairs: dict[tuple[str, ...], list[Predicate]] = {(e.left, e.right): list(e.predicates) for e in graph.edges}
    for predicate in graph.residuals:
        if len(predicate.relations) == 2:
            pairs.setdefault(predicate.relations, []).append(predicate)
    rank = {name: index for index, name in enumerate(graph.relations)}
    keep = {r.alias: r for r in group.retention}
    return {
        **({"name": group.name} if isinstance(group, JoinNode) else {}),
        "graph": {
            "shape": graph.shape,
            "hub": graph.hub,
            "relations": list(graph.relations),
            "edges": [
                {
                    "left": pair[0],
                    "right": pair[1],
                    "derived": all(p.derived for p in predicates),
                    "predicates": [
                        {"sql": p.sql, "kind": p.kind, **({"derived": True} if p.derived else {})} for p in predicates
                    ],
                }
                for pair, predicates in sorted(pairs.items(), key=lambda item: tuple(rank[a] for a in item[0]))
            ],
            "residuals": [p.sql for p in graph.residuals if len(p.relations) != 2],
        },
        "decision": {
            "node": decision.node,
            "scheme": decision.scheme,
            "units": decision.units,
            "options": decision.options.shown(graph.relations),
            "expected": dict(decision.expected),
            "reason": decision.reason,
            "units_reason": decision.units_reason,
            "from_checkpoint": decision.from_checkpoint,
            "rates": [dataclasses.asdict(rate) for rate in decision.rates],
            "advice": decision.advice,
            "alternatives": [
                {"scheme": a.scheme, "cost": dataclasses.asdict(a.cost), "chosen": a.chosen}
                for a in decision.alternatives
            ],
            **({"unscaled": decision.unscaled} if decision.unscaled else {}),
            **({"grid": _grid(group)} if isinstance(group, JoinNode) and decision.scheme == "matrix" else {}),
        },
        **_aggregation(group),
        **_event_times(group),
        "state": {
            "bounded": all(kept.keep_for is not None for kept in keep.values()),
            "streams": [
                {
                    "alias": alias,
                    "keep_for": None if kept.keep_for is None else duration_text(kept.keep_for),
                    **({"advice": kept.advice} if kept.advice else {}),
                }
                for alias, kept in keep.items()
            ],
        },
    }


def _grid(node: JoinNode) -> list[dict[str, Any]]:
    """Return the dimensions of a matrix; where units are not known, those that costs are estimated for."""
    grid = lay_out(node.graph, node.decision.units or DEFAULT_UNITS, can_hash(node))
    return [
        {
            "relations": list(dimension.relations),
            "key": None if dimension.key is None else [text for _, text in dimension.key],
            "shares": dimension.shares,
        }
        for dimension in grid
    ]


def _event_times(group: JoinNode | LeftAlone) -> dict[str, Any]:
    """Return which columns of a group's results are event time for operators above it; nothing if none is."""
    if not isinstance(group, JoinNode) or not group.event_times:
        return {}
    held_back = duration_text(group.held_back) if group.held_back else None
    origin = {column.name: f"{column.relation}.{column.column}" for column in group.output}
    columns = [origin.get(name, "the latest of all event times") for name in group.event_times]
    return {"event_time": {"columns": columns, "held_back": held_back}}


def _aggregation(group: JoinNode | LeftAlone) -> dict[str, Any]:
    """Return what happens to the aggregation above a group; nothing if there is none."""
    if not isinstance(group, JoinNode):
        return {}
    if group.aggregation is not None:
        found = group.aggregation
        keys = [key.term.sql for key in found.keys]
        return {
            "aggregation": {
                "in_units": True,
                "aggregates": list(found.shown),
                "keys": keys,
                "from_packs": found.from_packs,
                "listed": list(found.listed),
            }
        }
    if group.not_aggregated is not None:
        return {"aggregation": {"in_units": False, "reason": group.not_aggregated}}
    return {}
