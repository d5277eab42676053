"""An explanation as a Mermaid flowchart: the join graphs, and the flow of rows through the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..rewriter.plan.document import Document
from .diagram import Cluster, DiagramEdge, DiagramNode, clusters

_BRACKETS = {
    "relation": ("([", "])"),
    "hub": ("([", "])"),
    "residual": ("[/", "/]"),
    "join": ("[[", "]]"),
    "spark": ("[", "]"),
}
_PLAIN = frozenset(" ,.:()=+-_/")


def render_mermaid(document: Document) -> str:
    """Return an explanation as a Mermaid flowchart.

    Identifiers in the text are our own. Every name of the query is in a quoted label, in which anything but
    letters, digits and a few marks is written as a character code. So odd names cannot end a label.
    """
    lines = ["flowchart LR"]
    for cluster in clusters(document):
        lines += _cluster(cluster)
    lines.append("  classDef hub stroke-width:3px")
    lines.append("  classDef residual stroke-dasharray:4 3")
    return "\n".join(lines) + "\n"


def _cluster(cluster: Cluster) -> Iterator[str]:
    yield f"  subgraph {cluster.id}[{_label([cluster.title])}]"
    yield "    direction LR"
    yield from (f"    {_node(node)}" for node in cluster.nodes)
    yield from (f"    {_edge(edge)}" for edge in cluster.edges)
    yield "  end"


def _node(node: DiagramNode) -> str:
    opening, closing = _BRACKETS[node.role]
    css_class = f":::{node.role}" if node.role in ("hub", "residual") else ""
    return f"{node.id}{opening}{_label(node.lines)}{closing}{css_class}"


def _edge(edge: DiagramEdge) -> str:
    line = "-->" if edge.directed else "-.-" if edge.derived else "---"
    label = f"|{_label(edge.lines)}|" if edge.lines else ""
    return f"{edge.source} {line}{label} {edge.target}"


def _label(lines: Iterable[str]) -> str:
    return '"' + "<br/>".join(_escape(line) for line in lines) + '"'


def _escape(text: str) -> str:
    """Return text for a quoted label: unusual characters as Mermaid's ``#code;``."""
    if not text.strip():
        return "#160;"
    printable = (char if char.isprintable() else "\ufffd" for char in text)
    return "".join(char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in printable)
