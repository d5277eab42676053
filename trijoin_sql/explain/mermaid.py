"""An explanation as a Mermaid flowchart: the join graphs, and the flow of rows through the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..rewriter.plan.document import Document, Group
from ..rewriter.plan.schemes import RECORDS
from .wording import kind_sign, node_title, shape_sentence, shorten

_LABEL = 72
_BRACKETS = {
    "relation": ("([", "])"),
    "hub": ("([", "]):::hub"),
    "residual": ("[/", "/]:::residual"),
    "join": ("[[", "]]"),
    "spark": ("[", "]"),
}
_PLAIN = frozenset(" ,.:()=+-_/")


def render_mermaid(document: Document) -> str:
    """Return an explanation as a Mermaid flowchart: a subgraph for each join graph, and one, the last, for the plan.

    Identifiers in the text are our own. Every name of the query is in a quoted label, in which anything but
    letters, digits and a few marks is written as a character code. So odd names cannot end a label.
    """
    several = len(document.groups) > 1
    lines = ["flowchart LR"]
    for group in document.groups:
        number = f"group {group.index}: " if several else ""
        title = f"{number}join graph, {shape_sentence(group)}"
        lines += _subgraph(f"g{group.index}", title, *_join_graph(group))
    lines += _subgraph("plan", "plan", *_flow(document))
    lines += ["  classDef hub stroke-width:3px", "  classDef residual stroke-dasharray:4 3"]
    return "\n".join(lines) + "\n"


def _subgraph(name: str, title: str, nodes: Iterable[str], edges: Iterable[str]) -> Iterator[str]:
    yield f"  subgraph {name}[{_label([title])}]"
    yield "    direction LR"
    yield from (f"    {line}" for line in (*nodes, *edges))
    yield "  end"


def _join_graph(group: Group) -> tuple[list[str], list[str]]:
    """Return the lines of a join graph's nodes and edges."""
    prefix, graph = f"g{group.index}", group.graph
    ids = {alias: f"{prefix}r{i}" for i, alias in enumerate(graph.relations)}
    nodes = [_node(at, [alias], "hub" if alias == graph.hub else "relation") for alias, at in ids.items()]
    edges = []
    for edge in graph.edges:
        if edge.left in ids and edge.right in ids:
            texts = [f"{kind_sign(p.kind)} {p.kind}: {shorten(p.sql, _LABEL)}" for p in edge.predicates]
            texts += ["(derived)"] if edge.derived else []
            edges.append(_edge(ids[edge.left], "-.-" if edge.derived else "---", ids[edge.right], texts))
    for i, residual in enumerate(graph.whole):
        text = f"{kind_sign('residual')} residual: {shorten(residual.sql, _LABEL)}"
        nodes.append(_node(f"{prefix}x{i}", [text], "residual"))
    return nodes, edges


def _flow(document: Document) -> tuple[list[str], list[str]]:
    """Return the lines of the plan's nodes and edges: a group may read another."""
    nodes, edges, read = [], [], set[str]()
    names = {group.name: f"p{group.index}" for group in document.groups if group.name}
    for group in document.groups:
        here = f"p{group.index}"
        kept = {stream.alias: stream for stream in group.state.streams}
        sources: dict[str, str] = {}
        for i, alias in enumerate(group.graph.relations):
            source = names.get(alias, here)
            if source == here:
                source, texts = f"{here}s{i}", [alias]
                if alias in kept and not group.decision.left_to_spark:
                    stream = kept[alias]
                    texts.append("UNBOUNDED: kept for ever" if stream.keep_for is None else f"kept {stream.kept}")
                nodes.append(_node(source, texts, "relation"))
            read.add(source)
            sources[alias] = source
        for name, texts, inputs in _joins(group, here):
            nodes.append(_node(name, texts, "spark" if group.decision.left_to_spark else "join"))
            edges += [_edge(sources[one], "-->", name) for one in inputs]
            sources[_joined(inputs)] = name
    nodes.append(_node("out", ["the rest of the query, in Spark"], "spark"))
    groups = (f"p{group.index}" for group in document.groups)
    return nodes, edges + [_edge(one, "-->", "out") for one in groups if one not in read]


def _joins(group: Group, here: str) -> Iterator[tuple[str, list[str], tuple[str, ...]]]:
    """Yield the joins of a group, a join before those that read it: its node, what it says, and what it joins."""
    if group.decision.scheme != "operator_tree":
        yield here, [node_title(group)], group.graph.relations
        return
    units = RECORDS["operator_tree"].draw(group)
    for number, one in enumerate(units, 1):
        root = number == len(units)
        name = here if root else f"{here}j{number}"
        yield name, [node_title(group), one.name] if root else [one.name], tuple(rows.rows for rows in one.arrivals)


def _joined(inputs: tuple[str, ...]) -> str:
    return "⋈".join(inputs)


def _node(name: str, texts: Iterable[str], role: str) -> str:
    opening, closing = _BRACKETS[role]
    return f"{name}{opening}{_label(texts)}{closing}"


def _edge(source: str, line: str, target: str, texts: Iterable[str] = ()) -> str:
    label = _label(texts)
    return f"{source} {line} {target}" if label == '""' else f"{source} {line}|{label}| {target}"


def _label(lines: Iterable[str]) -> str:
    return '"' + "<br/>".join(_escape(line) for line in lines) + '"'


def _escape(text: str) -> str:
    """Return text for a quoted label: unusual characters as Mermaid's ``#code;``."""
    if not text.strip():
        return "#160;"
    printable = (char if char.isprintable() else "\ufffd" for char in text)
    return "".join(char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in printable)
