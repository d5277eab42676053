"""The rewriter from SQL text to join nodes: the one place that knows the order of the stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from .catalog import Catalog
from .cost import decide
from .dialect import parse_statement, render
from .display import duration_text, plan_text
from .parse import build_plan
from .plan import (
    BiJoin,
    Block,
    JoinNode,
    LeftAlone,
    MultiJoin,
    Node,
    Predicate,
    Query,
    TriJoin,
    transform,
    walk,
)
from .render import render_query, without_our_clauses
from .resolve import resolve
from .rules.classify_conditions import classify_conditions
from .rules.create_multi_join_groups import create_multi_join_groups
from .rules.create_multi_join_nodes import create_multi_join_nodes
from .rules.place_exchanges import place_exchanges
from .rules.prune_columns import prune_columns
from .rules.push_down_conditions import push_down_conditions
from .rules.rule import NotApplicable
from .rules.simplify_conditions import simplify_conditions
from .settings import Settings

Kind = Literal["select", "create_view", "explain", "other"]


@dataclass(frozen=True)
class Stage:
    """The plan after one stage, as text; for a rule that found nothing to do, its reason."""

    name: str
    plan_text: str
    skipped: str | None = None


@dataclass(frozen=True)
class Rewrite:
    """What became of a statement."""

    sql: str
    kind: Kind
    spark_sql: str
    plan: Query | None = None
    stages: tuple[Stage, ...] = ()
    groups: tuple[JoinNode | LeftAlone, ...] = ()
    advice: tuple[str, ...] = ()
    view: str | None = None
    replace: bool = False
    explain_format: str | None = None
    parameters: tuple[str, ...] = ()

    @property
    def converted(self) -> bool:
        """True if at least one group is a join node of ours."""
        return self.plan is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``explain --format json`` prints (DESIGN section 1)."""
        return {
            "version": 1,
            "sql": self.sql,
            "kind": self.kind,
            "converted": self.converted,
            "stages": [
                {"name": s.name, "plan": s.plan_text, **({"skipped": s.skipped} if s.skipped else {})}
                for s in self.stages
            ],
            "groups": [group_dict(group) for group in self.groups],
            "advice": list(self.advice),
        }


def group_dict(group: JoinNode | LeftAlone) -> dict[str, Any]:
    """Return one join group as plain data."""
    graph, decision = group.graph, group.decision
    pairs: dict[tuple[str, ...], list[Predicate]] = {(e.left, e.right): list(e.predicates) for e in graph.edges}
    for predicate in graph.residuals:
        if len(predicate.relations) == 2:
            pairs.setdefault(predicate.relations, []).append(predicate)
    rank = {name: index for index, name in enumerate(graph.relations)}
    keep = {r.alias: r.keep_for for r in group.retention}
    return {
        "graph": {
            "shape": graph.shape,
            "hub": graph.hub,
            "relations": list(graph.relations),
            "edges": [
                {
                    "left": pair[0],
                    "right": pair[1],
                    "derived": all(p.derived for p in predicates),
                    "predicates": [{"sql": p.sql, "kind": p.kind} for p in predicates],
                }
                for pair, predicates in sorted(pairs.items(), key=lambda item: tuple(rank[a] for a in item[0]))
            ],
            "residuals": [p.sql for p in graph.residuals if len(p.relations) != 2],
        },
        "decision": {
            "node": decision.node,
            "scheme": decision.scheme,
            "units": decision.units,
            "reason": decision.reason,
            "alternatives": [
                {"scheme": a.scheme, "cost": dataclasses.asdict(a.cost), "chosen": a.chosen}
                for a in decision.alternatives
            ],
        },
        "state": {
            "bounded": bool(keep) and all(value is not None for value in keep.values()),
            "streams": [
                {"alias": alias, "keep_for": None if value is None else duration_text(value)}
                for alias, value in keep.items()
            ],
        },
    }


StageFunction = Callable[[Node, Settings], Node | NotApplicable]


def _rule(rule: Callable[[Node], Node | NotApplicable]) -> StageFunction:
    return lambda plan, _settings: rule(plan)


def _choose(plan: Node, settings: Settings) -> Node | NotApplicable:
    def visit(node: Node) -> Node:
        if not isinstance(node, Block):
            return node
        block = node

        def inner(below: Node) -> Node:
            if not isinstance(below, JoinNode):
                return below
            decision = decide(below, block.hints, settings)
            kind: type[JoinNode] = {"BiJoin": BiJoin, "TriJoin": TriJoin}.get(decision.node, MultiJoin)
            values = {f.name: getattr(below, f.name) for f in dataclasses.fields(below)}
            return kind(**{**values, "decision": decision})

        return transform(block, inner)

    return transform(plan, visit)


#: The stages between parsing and rendering, in their order.
STAGES: tuple[tuple[str, StageFunction], ...] = (
    ("simplify_conditions", _rule(simplify_conditions)),
    ("push_down_conditions", _rule(push_down_conditions)),
    ("classify_conditions", _rule(classify_conditions)),
    ("place_exchanges", _rule(place_exchanges)),
    ("create_multi_join_groups", _rule(create_multi_join_groups)),
    ("create_multi_join_nodes", _rule(create_multi_join_nodes)),
    ("choose_schemes", _choose),
    ("prune_columns", _rule(prune_columns)),
)


#: What `rewrite` assumes without settings.
DEFAULTS = Settings()


def rewrite(sql: str, catalog: Catalog, settings: Settings = DEFAULTS) -> Rewrite:
    """Rewrite one statement."""
    statement = parse_statement(sql)
    if statement.tree is None:
        return Rewrite(sql, "other", sql)
    resolution = resolve(statement.tree, catalog, settings.case_sensitive)
    spark_sql = render(without_our_clauses(statement.tree))
    parsed = build_plan(resolution, settings.case_sensitive)
    plan: Node = parsed.plan
    stages = [Stage("parse", plan_text(plan))]
    for name, stage in STAGES:
        changed = stage(plan, settings)
        if isinstance(changed, NotApplicable):
            stages.append(Stage(name, plan_text(plan), changed.reason))
            continue
        plan = changed
        stages.append(Stage(name, plan_text(plan)))
    found = [node for node in walk(plan) if isinstance(node, JoinNode | LeftAlone)]
    final = None
    if any(isinstance(node, JoinNode) for node in found):
        final = render_query(plan, parsed, settings.case_sensitive)
        stages.append(Stage("render", plan_text(final)))
    return Rewrite(
        sql,
        statement.kind,
        spark_sql,
        final,
        tuple(stages),
        tuple(found),
        (),
        statement.view,
        statement.replace,
        statement.explain_format,
        tuple(f"__p{n + 1}" for n in range(statement.positional)),
    )
