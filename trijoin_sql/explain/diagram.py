"""The join graphs and the plan as nodes and edges, for the renderers of graph languages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..rewriter.plan.document import Document, Group
from .wording import kind_sign, node_title, shape_sentence, shorten

_LABEL = 72


@dataclass(frozen=True, slots=True)
class DiagramNode:
    """A node: an identifier of ASCII letters and digits, lines of text, and what it stands for."""

    id: str
    lines: tuple[str, ...]
    role: Literal["relation", "hub", "residual", "join", "spark"]


@dataclass(frozen=True, slots=True)
class DiagramEdge:
    """An edge; ``directed`` ones are flows of rows, others are edges of a join graph."""

    source: str
    target: str
    lines: tuple[str, ...]
    directed: bool
    derived: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A titled part of the diagram."""

    id: str
    title: str
    nodes: tuple[DiagramNode, ...]
    edges: tuple[DiagramEdge, ...]


def clusters(document: Document) -> list[Cluster]:
    """Return one cluster for each join graph and one, the last, for the flow of rows."""
    return [*(_join_graph(group, len(document.groups)) for group in document.groups), _flow(document)]


def _join_graph(group: Group, groups: int) -> Cluster:
    prefix = f"g{group.index}"
    ids = {alias: f"{prefix}r{i}" for i, alias in enumerate(group.graph.relations)}
    nodes = [DiagramNode(at, (alias,), "hub" if alias == group.graph.hub else "relation") for alias, at in ids.items()]
    edges = []
    for edge in group.graph.edges:
        if edge.left not in ids or edge.right not in ids:
            continue
        lines = [f"{kind_sign(p.kind)} {p.kind}: {shorten(p.sql, _LABEL)}" for p in edge.predicates]
        if edge.derived:
            lines.append("(derived)")
        edges.append(DiagramEdge(ids[edge.left], ids[edge.right], tuple(lines), directed=False, derived=edge.derived))
    for i, residual in enumerate(group.graph.whole):
        text = f"{kind_sign('residual')} residual: {shorten(residual.sql, _LABEL)}"
        nodes.append(DiagramNode(f"{prefix}x{i}", (text,), "residual"))
    number = f"group {group.index}: " if groups > 1 else ""
    return Cluster(prefix, f"{number}join graph, {shape_sentence(group)}", tuple(nodes), tuple(edges))


def _flow(document: Document) -> Cluster:
    nodes: list[DiagramNode] = []
    edges: list[DiagramEdge] = []
    names = {group.name: f"p{group.index}" for group in document.groups if group.name}
    read: set[str] = set()
    for group in document.groups:
        here = f"p{group.index}"
        kept = {stream.alias: stream for stream in group.state.streams}
        for i, alias in enumerate(group.graph.relations):
            if alias in names and names[alias] != here:
                edges.append(DiagramEdge(names[alias], here, (), directed=True))
                read.add(names[alias])
                continue
            lines = [alias]
            if alias in kept and not group.decision.left_to_spark:
                stream = kept[alias]
                lines.append("UNBOUNDED: kept for ever" if stream.keep_for is None else f"kept {stream.kept}")
            nodes.append(DiagramNode(f"{here}s{i}", tuple(lines), "relation"))
            edges.append(DiagramEdge(f"{here}s{i}", here, (), directed=True))
        title = node_title(group)
        nodes.append(DiagramNode(here, (title,), "spark" if group.decision.left_to_spark else "join"))
    nodes.append(DiagramNode("out", ("the rest of the query, in Spark",), "spark"))
    edges += [
        DiagramEdge(f"p{group.index}", "out", (), directed=True)
        for group in document.groups
        if f"p{group.index}" not in read
    ]
    return Cluster("plan", "plan", tuple(nodes), tuple(edges))
