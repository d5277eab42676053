"""The join graph of a group as a picture. The layout is a pure function of the graph."""

from __future__ import annotations

import math

from ..rewriter.plan.document import GraphEdge as Edge
from ..rewriter.plan.document import Group
from .svg import Box, around, element, path, picture, rect, text, text_width, title
from .wording import kind_sign, shape_sentence, shorten, strongest

_FONT = 14
_LABEL_FONT = 12
_LINE = 20
_NODE_HEIGHT = 38
_LABEL = 34
_DETAILED_EDGES = 4
#: Possible places of a label on an edge, the middle first.
_ALONG = (0.5, 0.45, 0.55, 0.4, 0.6, 0.36, 0.64, 0.32, 0.68, 0.28, 0.72, 0.24, 0.76)
#: A circle is drawn larger until its labels do not overlap.
_SCALES = (1, 1.25, 1.6, 2, 2.6)


def graph_svg(group: Group) -> str:
    """Return the join graph as SVG: relations as nodes, predicates as labels of the edges."""
    detailed = len(group.graph.edges) <= _DETAILED_EDGES and len(group.graph.relations) <= 4
    labels = [_label_lines(edge, detailed) for edge in group.graph.edges]
    sizes = [_label_size(lines) for lines in labels]
    line = _path_order(group)
    for scale in _SCALES:
        boxes = _in_line(group, line, sizes) if line else _in_circle(group, sizes, scale)
        curves = [_curve(edge, boxes, line, size) for edge, size in zip(group.graph.edges, sizes, strict=True)]
        places, hits = _place_all(curves, sizes, list(boxes.values()))
        if line or not hits:
            break
    edges, texts = [], []
    for edge, lines, curve, place in zip(group.graph.edges, labels, curves, places, strict=True):
        if curve is None or place is None:
            continue
        kind = strongest(tuple(predicate.kind for predicate in edge.predicates))
        numbers = " ".join(f"g{group.index}p{predicate.number}" for predicate in edge.predicates)
        css_class = f"k-{kind}" + (" derived" if edge.derived else "")
        edges.append(curve.draw(f"edge {css_class}", numbers))
        texts.append(_label(edge, lines, place, numbers, css_class))
    aliases = enumerate(group.graph.relations)
    nodes = [_node(alias, boxes[alias], i, hub=alias == group.graph.hub) for i, alias in aliases]
    covered = [*boxes.values(), *(place for place in places if place)]
    view = around(covered, 18)
    described = "; ".join(
        f"{edge.left} to {edge.right}{' (derived)' if edge.derived else ''}: "
        + ", ".join(f"{p.kind} {shorten(p.sql, 80)}" for p in edge.predicates)
        for edge in group.graph.edges
    )
    label_text = f"Join graph, {shape_sentence(group)}. {described}"
    return picture(view, label_text, *edges, *nodes, *texts, css_class="graph")


def _path_order(group: Group) -> list[str] | None:
    """Return the relations in a line, if the user's edges form a path over all of them, or there are no edges."""
    if not group.graph.edges and len(group.graph.relations) <= 4:
        return list(group.graph.relations)
    near: dict[str, list[str]] = {alias: [] for alias in group.graph.relations}
    for edge in group.graph.edges:
        if not edge.derived and edge.left in near and edge.right in near:
            near[edge.left].append(edge.right)
            near[edge.right].append(edge.left)
    ends = [alias for alias in group.graph.relations if len(near[alias]) == 1]
    if len(ends) != 2 or any(len(others) > 2 for others in near.values()):
        return None
    order = [ends[0]]
    while True:
        following = [alias for alias in near[order[-1]] if alias not in order]
        if not following:
            return order if len(order) == len(group.graph.relations) else None
        order.append(following[0])


def _node_width(alias: str) -> float:
    return max(64, text_width(shorten(alias, 22), _FONT) + 34)


def _in_line(group: Group, order: list[str], sizes: list[tuple[float, float]]) -> dict[str, Box]:
    """Place two side by side, more below each other: on a narrow page a long line has letters too small."""
    between = {frozenset((edge.left, edge.right)): size for edge, size in zip(group.graph.edges, sizes, strict=True)}
    boxes: dict[str, Box] = {}
    x = y = 0.0
    for i, alias in enumerate(order):
        width = _node_width(alias)
        boxes[alias] = Box(x, 0, width, _NODE_HEIGHT) if len(order) < 3 else _centred(alias, 0, y)
        if i + 1 < len(order):
            wide, high = between.get(frozenset((alias, order[i + 1])), (0.0, 0.0))
            x += width + max(110, wide + 44)
            y += _NODE_HEIGHT + high + 44
    return boxes


def _in_circle(group: Group, sizes: list[tuple[float, float]], scale: float) -> dict[str, Box]:
    widest = max((width for width, _ in sizes), default=0)
    outer = [alias for alias in group.graph.relations if not (group.graph.shape == "star" and alias == group.graph.hub)]
    count = len(outer)
    rx = max(150, widest * 1.05 + 40, count * 34) * scale
    ry = max((112 if count == 3 else 130) * scale**0.5, rx * (0.42 if count <= 4 else 0.55))
    start = -math.pi / 2 if count != 4 else -math.pi * 3 / 4
    boxes: dict[str, Box] = {}
    for i, alias in enumerate(outer):
        angle = start + 2 * math.pi * i / max(count, 1)
        boxes[alias] = _centred(alias, rx * math.cos(angle), ry * math.sin(angle))
    if group.graph.shape == "star" and group.graph.hub is not None:
        boxes[group.graph.hub] = _centred(group.graph.hub, 0, 0)
    return boxes


def _centred(alias: str, x: float, y: float) -> Box:
    width = _node_width(alias)
    return Box(x - width / 2, y - _NODE_HEIGHT / 2, width, _NODE_HEIGHT)


def _bend(edge: Edge, line: list[str] | None, boxes: dict[str, Box], width: float) -> float:
    """Return how far an edge is bent to the right; an edge is bent if it passes over other nodes of a line."""
    if not line or abs(line.index(edge.left) - line.index(edge.right)) == 1:
        return 0
    return max(box.width for box in boxes.values()) + 1.6 * width


def _curve(edge: Edge, boxes: dict[str, Box], line: list[str] | None, size: tuple[float, float]) -> _Curve | None:
    if edge.left not in boxes or edge.right not in boxes:
        return None
    return _Curve(boxes[edge.left], boxes[edge.right], _bend(edge, line, boxes, size[0]))


class _Curve:
    """A straight or bent edge between the borders of two nodes."""

    def __init__(self, start: Box, end: Box, bend: float) -> None:
        self.bent = bend > 0
        self.control = ((start.cx + end.cx) / 2 + bend, (start.cy + end.cy) / 2)
        self.start = (start.right, start.cy) if self.bent else _border(start, end.cx, end.cy)
        self.end = (end.right, end.cy) if self.bent else _border(end, start.cx, start.cy)

    def at(self, t: float) -> tuple[float, float]:
        """Return the point at a fraction of the way."""
        (x0, y0), (x1, y1), (x2, y2) = self.start, self.control, self.end
        if not self.bent:
            return x0 + (x2 - x0) * t, y0 + (y2 - y0) * t
        u = 1 - t
        return u * u * x0 + 2 * u * t * x1 + t * t * x2, u * u * y0 + 2 * u * t * y1 + t * t * y2

    def draw(self, css_class: str, numbers: str) -> str:
        """Return the path."""
        bend = ("Q", *self.control, *self.end) if self.bent else ("L", *self.end)
        return path("M", *self.start, *bend, class_=css_class, data_preds=numbers)


def _border(box: Box, x: float, y: float) -> tuple[float, float]:
    """Return where the line from the middle of a box to a point leaves the box."""
    dx, dy = x - box.cx, y - box.cy
    if not dx and not dy:
        return box.cx, box.cy
    scale = min(box.width / 2 / abs(dx) if dx else math.inf, box.height / 2 / abs(dy) if dy else math.inf)
    return box.cx + dx * scale, box.cy + dy * scale


def _place_all(
    curves: list[_Curve | None], sizes: list[tuple[float, float]], nodes: list[Box]
) -> tuple[list[Box | None], int]:
    """Return a place for the label of each edge, and how often labels still cover nodes or other labels."""
    taken, places, covered = list(nodes), [], 0
    for curve, (width, height) in zip(curves, sizes, strict=True):
        best, least = None, math.inf
        for t in _ALONG if curve else ():
            x, y = curve.at(t) if curve else (0, 0)
            box = Box(x - width / 2, y - height / 2, width, height)
            hits = sum(box.overlaps(other, 4) for other in taken)
            if hits < least:
                best, least = box, hits
            if not hits:
                break
        places.append(best)
        if best:
            taken.append(best)
            covered += int(least)
    return places, covered


def _label_lines(edge: Edge, detailed: bool) -> list[tuple[str, str, str]]:
    """Return the lines of an edge's label as (kind, sign, text)."""
    derived = [("", "", "derived")] if edge.derived else []
    if not detailed:
        return [(p.kind, kind_sign(p.kind), str(p.number)) for p in edge.predicates] + derived
    kinds: dict[str, list[str]] = {}
    for predicate in edge.predicates:
        kinds.setdefault(predicate.sql, []).append(predicate.kind)
    strong = [(strongest(tuple(some)), sql) for sql, some in kinds.items()]
    lines = [(kind, kind_sign(kind), shorten(sql, _LABEL)) for kind, sql in strong[:3]]
    if len(strong) > 3:
        lines.append(("", "", f"and {len(strong) - 3} more"))
    return lines + derived


def _label_size(lines: list[tuple[str, str, str]]) -> tuple[float, float]:
    widest = max((text_width(content, _LABEL_FONT) for _, _, content in lines), default=0)
    return widest + 38, len(lines) * _LINE + 6


def _label(edge: Edge, lines: list[tuple[str, str, str]], box: Box, numbers: str, css_class: str) -> str:
    parts = [rect(box, radius=7, class_="plate")]
    for i, (kind, sign, content) in enumerate(lines):
        y = box.y + 3 + _LINE * i + 14
        if sign:
            parts.append(text(box.x + 15, y, sign, class_=f"sign k-{kind}", text_anchor="middle"))
        parts.append(text(box.x + 28, y, content, class_="predicate" if sign else "caption"))
    full = "\n".join(f"{p.kind}: {p.sql}" for p in edge.predicates) + ("\n(derived)" if edge.derived else "")
    return element("g", title(full), *parts, class_=f"label {css_class}", data_preds=numbers)


def _node(alias: str, box: Box, rank: int, *, hub: bool) -> str:
    parts = [title(f"{alias} (hub)" if hub else alias)]
    if hub:
        parts.append(rect(box.grown(4), radius=_NODE_HEIGHT / 2 + 4, class_="ring"))
    parts.append(rect(box, radius=_NODE_HEIGHT / 2, class_="body"))
    parts.append(text(box.cx, box.cy + 5, shorten(alias, 22), text_anchor="middle", class_="alias"))
    return element("g", *parts, class_=f"node s{rank % 8}" + (" hub" if hub else ""))
