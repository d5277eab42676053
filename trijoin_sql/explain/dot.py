"""An explanation in DOT, Graphviz's language: the join graphs, and the flow of rows through the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..rewriter.plan.document import Document
from .diagram import Cluster, DiagramEdge, DiagramNode, clusters

_SHAPES = {
    "relation": 'shape=box style="rounded"',
    "hub": 'shape=box style="rounded" peripheries=2',
    "residual": 'shape=note style="dashed"',
    "join": 'shape=box style="bold"',
    "spark": "shape=box",
}


def render_dot(document: Document) -> str:
    """Return an explanation as one DOT digraph.

    Identifiers in the text are our own; names of the query stand in quoted labels, with quotes and backslashes escaped.
    """
    lines = [
        "digraph explanation {",
        "  rankdir=LR;",
        '  graph [fontname="Helvetica" fontsize=11 color="gray60"];',
        '  node [fontname="Helvetica" fontsize=11];',
        '  edge [fontname="Helvetica" fontsize=10];',
    ]
    for cluster in clusters(document):
        lines += _cluster(cluster)
    return "\n".join([*lines, "}"]) + "\n"


def _cluster(cluster: Cluster) -> Iterator[str]:
    yield f"  subgraph cluster_{cluster.id} {{"
    yield f"    label={_label([cluster.title])};"
    yield from (f"    {_node(node)}" for node in cluster.nodes)
    yield from (f"    {_edge(edge)}" for edge in cluster.edges)
    yield "  }"


def _node(node: DiagramNode) -> str:
    return f"{node.id} [label={_label(node.lines)} {_SHAPES[node.role]}];"


def _edge(edge: DiagramEdge) -> str:
    attributes = [f"label={_label(edge.lines)}"] if edge.lines else []
    if not edge.directed:
        attributes.append("dir=none")
    if edge.derived:
        attributes.append("style=dashed")
    return f"{edge.source} -> {edge.target}" + (f" [{' '.join(attributes)}];" if attributes else ";")


def _label(lines: Iterable[str]) -> str:
    return '"' + "\\n".join(_escape(line) for line in lines) + '"'


def _escape(text: str) -> str:
    """Return text for a quoted label. Graphviz also reads character entities in labels, so ``&`` is one."""
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return printable.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
