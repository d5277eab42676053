"""The chosen scheme of a group as a picture: its units, the rows that they store, and where rows go."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ..rewriter.plan.document import Group
from ..rewriter.plan.parts import Dimension
from .svg import Box, around, arrow, element, path, picture, rect, text, text_width, title
from .wording import count, dimension_name, node_title, shorten

_FONT = 14
_CHIP = 36
_PANEL = 98
_GAP = 26
_FLOW = 150
_SHOWN_UNITS = 5
_SHOWN_CELLS = 8
_SHOWN_COLUMNS = 32
_UNKNOWN_UNITS = 2


def scheme_svg(group: Group) -> str:
    """Return the scheme of a group as SVG, an empty text if the group is left to Spark."""
    if group.decision.left_to_spark or not group.graph.relations:
        return ""
    return _DRAWINGS.get(group.decision.scheme or "", _plain_node)(group)


def _chip(alias: str, x: float, y: float, rank: int, *, suffix: str = "") -> tuple[str, Box]:
    label = shorten(alias, 18) + suffix
    box = Box(x, y, _chip_width(label), _CHIP)
    return element(
        "g",
        title(alias),
        rect(box, radius=_CHIP / 2, class_="body"),
        text(box.cx, box.cy + 5, label, text_anchor="middle", class_="alias"),
        class_=f"node s{rank % 8}",
    ), box


def _chip_width(label: str) -> float:
    return max(52, text_width(shorten(label, 19), _FONT) + 30)


def _panel(box: Box, heading: str, caption: str, rank: int | None = None) -> str:
    return element(
        "g",
        rect(box, radius=10, class_="panel"),
        text(box.x + 34, box.y + 24, heading, class_="heading"),
        text(box.x + 34, box.y + 41, caption, class_="caption"),
        class_="units" if rank is None else f"units s{rank % 8}",
    )


def _unit_boxes(group: Group, box: Box, name: str) -> str:
    units = group.decision.units or _UNKNOWN_UNITS
    shown = min(units, _SHOWN_UNITS)
    parts = []
    for i in range(shown):
        unit = Box(box.x + 34 + i * 50, box.bottom - 44, 42, 28)
        parts.append(rect(unit, radius=6, class_="unit"))
        parts.append(text(unit.cx, unit.cy + 4, str(i + 1), text_anchor="middle", class_="small"))
    if units > shown or group.decision.units is None:
        rest = f"… {units}" if group.decision.units else "…"
        parts.append(text(box.x + 38 + shown * 50, box.bottom - 26, rest, class_="small"))
    return element("g", title(f"units of {name}"), *parts)


def _port(x: float, y: float, rank: int, how: str) -> str:
    """Return the mark where rows enter units: a filled ``1`` for rows stored in one unit, else a hollow mark."""
    width = 20 if len(how) == 1 else 16 + 6.4 * len(how)
    box = Box(x - width / 2, y - 10, width, 20)
    state = "port stored" if how in ("1", "store") else "port"
    return element(
        "g",
        rect(box, radius=10, class_=state),
        text(box.cx, box.cy + 4, how, text_anchor="middle", class_=f"{state} how"),
        class_=f"s{rank % 8}",
    )


def _route(chip: Box, x: float, y: float, rank: int, *, stored: bool, start: float) -> str:
    """Return a line from a stream to a port: it bends just after the streams and then runs horizontally."""
    middle = (start + start + _FLOW) / 2
    turn = start + _FLOW
    commands: list[object] = ["M", chip.right, chip.cy, "L", start, chip.cy]
    commands += ["C", middle, chip.cy, middle, y, min(turn, x), y, "L", x, y]
    return path(*commands, class_=f"route s{rank % 8} {'stored' if stored else 'sent'}")


def _results(panels: Sequence[Box], y: float) -> list[str]:
    right = max(panel.right for panel in panels)
    x = right + 56
    parts = []
    middle = (right + x) / 2 + 8
    for panel in panels:
        curve = ("L", right, panel.cy, "C", middle, panel.cy, middle, y, x - 6, y)
        parts.append(path("M", panel.right, panel.cy, *curve, class_="route result"))
    parts.append(arrow(x, y, "result"))
    parts.append(text(x + 8, y + 4, "results", class_="heading"))
    return parts


def _legend(x: float, y: float, sent: str) -> list[str]:
    return [
        path("M", x, y, "L", x + 34, y, class_="route stored"),
        text(x + 42, y + 4, "stored in one unit", class_="caption"),
        path("M", x + 190, y, "L", x + 224, y, class_="route sent"),
        text(x + 232, y + 4, sent, class_="caption"),
    ]


def _unit_groups(group: Group) -> str:
    """`symmetric` and `biclique`: every stream has its own units, and the other streams probe there."""
    routing = str(group.decision.option("routing") or "random")
    probe = {"hash": "1", "contrand": "some"}.get(routing, "all")
    how = {
        "1": "sent to the one unit of its key, to probe",
        "some": "sent to every unit of its key's subgroup, to probe",
    }
    rows = [(i, alias) for i, alias in enumerate(group.graph.relations)]
    chips, boxes = _chips(rows)
    start = max(box.right for box in boxes) + 14
    panels = [Box(start + _FLOW, i * (_PANEL + _GAP), _panel_width(group), _PANEL) for i, _ in rows]
    routes, ports, bodies = [], [], []
    for i, alias in rows:
        others = [other for other in group.graph.relations if other != alias]
        bodies.append(
            _panel(
                panels[i],
                f"units of {shorten(alias, 18)}",
                f"{_list(others)} probe{'s' if len(others) == 1 else ''} here",
                i,
            )
        )
        bodies.append(_unit_boxes(group, panels[i], alias))
        for j, _ in rows:
            y = panels[i].y + _PANEL * (j + 1) / (len(rows) + 1)
            routes.append(_route(boxes[j], panels[i].x, y, j, stored=i == j, start=start))
            ports.append(_port(panels[i].x, y, j, ("store" if probe == "1" else "1") if i == j else probe))
    bottom = panels[-1].bottom + 34
    legend = _legend(0, bottom, how.get(probe, "sent to every unit of the group, to probe"))
    results = _results(panels, panels[len(panels) // 2].cy)
    return _finish(group, [*routes, *results, *bodies, *ports, *chips, *legend], bottom, panels)


def _semi_symmetric(group: Group) -> str:
    """The ends and the hub of a chain: first the units of one end, then the units of the hub and of the other end."""
    hub = group.graph.hub
    ends = [alias for alias in group.graph.relations if alias != hub]
    if hub is None or len(ends) != 2:
        return _unit_groups(group)
    order = [ends[0], hub, ends[1]]
    rows = [(group.graph.relations.index(alias), alias) for alias in order]
    chips, boxes = _chips(rows)
    start = max(box.right for box in boxes) + 14
    width = _panel_width(group)
    first, second = start + _FLOW, start + _FLOW + width + 90
    panels = [Box(first if i == 0 else second, i * (_PANEL + _GAP), width, _PANEL) for i in range(3)]
    captions = [
        f"{shorten(hub, 12)} becomes a hub, {shorten(ends[1], 12)} probes hubs",
        "lists of later rows at both ends",
        f"{shorten(hub, 12)} becomes a hub, packs arrive",
    ]
    bands = []
    for i, x in ((1, first), (2, second)):
        band = Box(x - 26, -46, width + 46, panels[-1].bottom + 64)
        bands += [
            rect(band, radius=14, class_="band"),
            text(band.cx, -22, f"stage {i}", text_anchor="middle", class_="stage"),
        ]
    routes, ports, bodies = [], [], []
    for i, (rank, alias) in enumerate(rows):
        bodies.append(_panel(panels[i], f"units of {shorten(alias, 18)}", captions[i], rank))
        bodies.append(_unit_boxes(group, panels[i], alias))
        for j, (other, _) in enumerate(rows):
            y = panels[i].y + _PANEL * (j + 1) / 5
            routes.append(_route(boxes[j], panels[i].x, y, other, stored=i == j, start=start))
            ports.append(_port(panels[i].x, y, other, "1" if i == j else "all"))
    y = panels[2].y + _PANEL * 4 / 5
    x = panels[0].cx
    turn = ("L", x, y - 12, "Q", x, y, x + 12, y)
    routes.append(path("M", x, panels[0].bottom, *turn, "L", panels[2].x - 6, y, class_="route packs"))
    ports.append(arrow(panels[2].x - 1, y, "packs"))
    label = f"packs: {shorten(hub, 12)} with its {shorten(ends[0], 12)}"
    ports.append(text(x + 16, y + 16, label, class_="caption"))
    bottom = panels[-1].bottom + 44
    legend = _legend(0, bottom, "sent to every unit of the group, to probe")
    results = _results(panels, panels[1].cy)
    return _finish(group, [*bands, *routes, *results, *bodies, *ports, *chips, *legend], bottom, panels)


def _chips(rows: Sequence[tuple[int, str]]) -> tuple[list[str], list[Box]]:
    drawn = [_chip(alias, 0, i * (_PANEL + _GAP) + (_PANEL - _CHIP) / 2, rank) for i, (rank, alias) in enumerate(rows)]
    return [markup for markup, _ in drawn], [box for _, box in drawn]


def _panel_width(group: Group) -> float:
    return 54 + max(3, min(group.decision.units or _UNKNOWN_UNITS, _SHOWN_UNITS)) * 50 + 44


def _tree(group: Group) -> str:
    """A chain of two-way joins, each a stage with units for both of its sides."""
    option = group.decision.option("order")
    written = re.findall(r"`((?:[^`]|``)+)`|([^\s,`]+)", option) if isinstance(option, str) else []
    order = [quoted.replace("``", "`") or plain for quoted, plain in written] or list(group.graph.relations)
    ranks = {alias: i for i, alias in enumerate(group.graph.relations)}
    first, chip = _chip(order[0], 0, 30, ranks[order[0]])
    parts, x, panels = [first], chip.right + 60, []
    left, left_right = order[0], chip.right
    for i, alias in enumerate(order[1:], 1):
        width = max(190, text_width(shorten(left, 24), 12) + 90)
        panel = Box(x, 0, width, 150)
        panels.append(panel)
        colour = f"s{ranks[order[0]] % 8}" if i == 1 else ""
        markup, box = _chip(alias, panel.cx - _chip_width(alias) / 2, 196, ranks[alias])
        parts += [
            path("M", left_right, 48, "L", x - 1, 48, class_=f"route stored {colour}"),
            arrow(x, 48, colour),
            path("M", box.cx, box.y, "L", box.cx, panel.bottom + 1, class_=f"route stored s{ranks[alias] % 8}"),
            rect(panel, radius=10, class_="panel"),
            text(panel.x + 16, 22, f"join {i}, stage {i}", class_="heading"),
            rect(Box(x + 14, 34, width - 28, 44), radius=7, class_="unit"),
            text(panel.cx, 61, f"stores {shorten(left, 24)}", text_anchor="middle", class_="small"),
            rect(Box(x + 14, 92, width - 28, 44), radius=7, class_="unit"),
            text(panel.cx, 119, f"stores {shorten(alias, 20)}", text_anchor="middle", class_="small"),
            markup,
        ]
        left, left_right, x = f"{left}⋈{alias}", panel.right, panel.right + 70
    y = 48.0
    note = "Rows are stored on their own side and probe the other; what a join finds is stored by the next."
    parts += [
        path("M", left_right, y, "L", x - 14, y, class_="route result"),
        arrow(x - 8, y, "result"),
        text(x, y + 4, "results", class_="heading"),
        text(0, 268, note, class_="caption"),
    ]
    return _finish(group, parts, 274, panels)


def _iterative(group: Group) -> str:
    """One unit with all streams: for each stream, the order in which its new rows probe the others."""
    ranks = {alias: i for i, alias in enumerate(group.graph.relations)}
    parts: list[str] = []
    right = 0.0
    for i, alias in enumerate(group.graph.relations):
        y = 56 + i * 52.0
        parts.append(text(22, y + 23, "new", class_="caption"))
        markup, box = _chip(alias, 58, y, i)
        parts.append(markup)
        for other in _probe_order(group, alias):
            x = box.right + 46
            parts.append(path("M", box.right, box.cy, "L", x - 2, box.cy, class_="route stored"))
            parts.append(arrow(x, box.cy, ""))
            markup, box = _chip(other, x, y, ranks[other], suffix="*" if ranks[other] < i else "")
            parts.append(markup)
        right = max(right, box.right)
    height = 56 + len(group.graph.relations) * 52.0 + 8
    panel = Box(0, 0, max(right + 24, 280), height)
    units = (
        f"each of {count(group.decision.units, 'unit')}"
        if group.decision.units and group.decision.units > 1
        else "one unit"
    )
    heading = [rect(panel, radius=12, class_="panel"), text(22, 30, f"{units}: stores every stream", class_="heading")]
    note = "A probe stops when nothing is left. * with the rows of this micro-batch"
    caption = text(0, height + 28, note, class_="caption")
    return _finish(group, [*heading, *parts, *_results([panel], panel.cy), caption], height + 34, [panel])


def _probe_order(group: Group, first: str) -> list[str]:
    """Return the other streams, connected ones first."""
    near: dict[str, set[str]] = {alias: set() for alias in group.graph.relations}
    for edge in group.graph.edges:
        if edge.left in near and edge.right in near:
            near[edge.left].add(edge.right)
            near[edge.right].add(edge.left)
    seen, order = {first}, []
    while len(seen) < len(group.graph.relations):
        waiting = [alias for alias in group.graph.relations if alias not in seen]
        following = next((alias for alias in waiting if near[alias] & seen), waiting[0])
        seen.add(following)
        order.append(following)
    return order


def _matrix(group: Group) -> str:
    """The grid of cells, once for each stream, with the cells that one of its rows goes to."""
    grid = group.decision.grid
    if not grid:
        return _plain_node(group)
    shown = _shown_sizes(grid)
    rows, columns = shown[0], math.prod(shown[1:])
    cell = 36 if columns <= 4 else 26 if columns <= 8 else 18 if columns <= 16 else 10
    width = max(columns * (cell + 4), 190)
    across = max(1, min(len(group.graph.relations), 900 // int(width + 50)))
    height = 52 + rows * (cell + 4) + 46
    parts, boxes = [], []
    for i, alias in enumerate(group.graph.relations):
        x, y = (i % across) * (width + 46), (i // across) * (height + 22)
        markup, _ = _chip(alias, x, y, i)
        parts.append(markup)
        drawn = _grid(alias, grid, shown, Box(x, y + 50, cell, cell))
        parts.append(element("g", title(f"the cells that a row of {alias} goes to"), *drawn, class_=f"s{i % 8}"))
        has, lacks = _placing(alias, grid)
        below = y + 50 + rows * (cell + 4) + 16
        parts.append(text(x, below, shorten(has, int(width / 6.4)), class_="caption"))
        parts.append(text(x, below + 17, shorten(lacks, int(width / 6.4)), class_="caption"))
        boxes.append(Box(x, y, width, height))
    bottom = max(box.bottom for box in boxes) + 24
    note = "Filled: the cells one row goes to. Ringed: the one cell where these rows meet."
    parts.append(text(0, bottom, note, class_="caption"))
    if group.decision.units is None:
        bottom += 18
        cells = count(math.prod(dimension.shares for dimension in grid), "cell")
        note = f"Drawn with {cells}; there will be as many as Spark runs tasks side by side."
        parts.append(text(0, bottom, note, class_="caption"))
    if any(dimension.shares > size for dimension, size in zip(grid, shown, strict=True)):
        bottom += 18
        full = ", ".join(f"{dimension_name(dimension)}: {dimension.shares}" for dimension in grid)
        parts.append(text(0, bottom, f"Drawn in part, the dimensions have {full} cells.", class_="caption"))
    return _finish(group, parts, bottom, boxes)


def _shown_sizes(grid: Sequence[Dimension]) -> list[int]:
    """Return how many cells of each dimension are drawn: few enough for a readable grid."""
    shown = [min(dimension.shares, _SHOWN_CELLS) for dimension in grid]
    while math.prod(shown[1:]) > _SHOWN_COLUMNS:
        largest = max(range(1, len(shown)), key=shown.__getitem__)
        shown[largest] -= 1
    return shown


def _placing(alias: str, grid: Sequence[Dimension]) -> tuple[str, str]:
    has = [dimension for dimension in grid if alias in dimension.relations]
    copies = math.prod(dimension.shares for dimension in grid if alias not in dimension.relations)
    hashed, spread = [dimension_name(d) for d in has if d.key], [d for d in has if not d.key]
    how = [f"hashed by {_list(hashed)}"] if hashed else []
    how += ["spread evenly"] if spread else []
    return ", ".join(how) or "to every cell", "stored once" if copies == 1 else f"copied to {count(copies, 'cell')}"


def _grid(alias: str, grid: Sequence[Dimension], shown: Sequence[int], first: Box) -> list[str]:
    pick = [min(1, size - 1) for size in shown]
    fixed = [alias in dimension.relations for dimension in grid]
    columns = math.prod(shown[1:])
    step = first.width + 4
    cells = []
    for row in range(shown[0]):
        for column in range(columns):
            place, rest = [row], column
            for size in reversed(shown[1:]):
                place.insert(1, rest % size)
                rest //= size
            goes = all(not is_fixed or at == chosen for at, chosen, is_fixed in zip(place, pick, fixed, strict=True))
            meets = place == pick
            box = Box(first.x + column * step, first.y + row * step, first.width, first.height)
            cells.append(rect(box, radius=4, class_="cell on" if goes else "cell"))
            if meets:
                cells.append(rect(box.grown(2), radius=6, class_="meet"))
    return cells


def _plain_node(group: Group) -> str:
    """A scheme without a drawing of its own: streams, the node, results."""
    rows = list(enumerate(group.graph.relations))
    drawn = [_chip(alias, 0, i * 48, i) for i, alias in rows]
    right = max(box.right for _, box in drawn)
    heading = node_title(group)
    height = len(rows) * 48 - 12
    lines = [shorten(heading, 60)]
    panel = Box(right + 120, min(0, height / 2 - 30), text_width(lines[0], 14, "sans") + 60, max(60, height))
    parts = []
    for rank, (markup, box) in enumerate(drawn):
        y = panel.y + panel.height * (rank + 1) / (len(rows) + 1)
        middle = (box.right + panel.x) / 2
        parts.append(
            path(
                "M",
                box.right,
                box.cy,
                "C",
                middle,
                box.cy,
                middle,
                y,
                panel.x - 4,
                y,
                class_=f"route stored s{rank % 8}",
            )
        )
        parts.append(arrow(panel.x, y, f"s{rank % 8}"))
        parts.append(markup)
    parts.append(rect(panel, radius=10, class_="panel"))
    parts.append(text(panel.cx, panel.cy + 5, lines[0], text_anchor="middle", class_="heading"))
    return _finish(group, [*parts, *_results([panel], panel.cy)], max(panel.bottom, height), [panel])


def _finish(group: Group, parts: Sequence[str], bottom: float, boxes: Sequence[Box]) -> str:
    top = min(0, *(box.y for box in boxes)) - (
        48 if group.decision.scheme == "semi_symmetric" and group.graph.hub else 4
    )
    right = max(box.right for box in boxes) + (20 if group.decision.scheme == "matrix" else 140)
    view = around([Box(0, top, max(right, 540), bottom - top + 8)], 14)
    label = f"{node_title(group)}: streams {_list(list(group.graph.relations))}, their units and what is sent where"
    return picture(view, label, *parts, css_class="scheme")


def _list(names: Sequence[str]) -> str:
    short = [shorten(name, 16) for name in names]
    return short[0] if len(short) == 1 else f"{', '.join(short[:-1])} and {short[-1]}" if short else ""


_DRAWINGS: Mapping[str, Callable[[Group], str]] = MappingProxyType(
    {
        "symmetric": _unit_groups,
        "biclique": _unit_groups,
        "semi_symmetric": _semi_symmetric,
        "tree": _tree,
        "iterative": _iterative,
        "matrix": _matrix,
    }
)
