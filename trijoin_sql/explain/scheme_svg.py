"""The chosen scheme of a group as a picture: its units by stage, the rows that they store, and who probes what there.

What there is to draw stands in the scheme's record (`rewriter.plan.schemes`). One row of the picture is one kind of
rows that arrive in a unit: the cells that one of them goes to, and then what it probes, in the order that runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from ..errors import PlanError
from ..rewriter.plan.document import Group
from ..rewriter.plan.grid import BREADTH
from ..rewriter.plan.schemes import RECORDS, Arrival, SchemeRecord, UnitGroup
from .svg import Box, around, arrow, element, path, picture, rect, text, text_width, title
from .wording import count, dimension_name, node_title, shorten

_CHIP = 30
_CELL, _STEP = 14, 17
_HEAD = 40
_SHOWN, _SHOWN_COLUMNS = 8, 16
_UNKNOWN_UNITS = 2


#: A dimension of the units that rows are spread over: how many there are, and whether a row has one place along it.
_Axis = tuple[int, bool]


def scheme_svg(group: Group) -> str:
    """Return the scheme of a group as SVG, an empty text if the group is left to Spark."""
    relations = group.graph.relations
    if group.decision.left_to_spark or not relations:
        return ""
    try:
        units = _record(group).draw(group)
    except (ValueError, LookupError) as error:
        raise PlanError(
            f"the options of {group.decision.scheme} in an explanation are not well formed: {error}"
        ) from None
    parts: list[str] = []
    boxes: list[tuple[UnitGroup, Box]] = []
    ports: list[tuple[Arrival, int, float, float]] = []
    x = 0.0
    for stage, here in groupby(units, key=lambda one: one.stage):
        y = 0.0
        drawn = []
        for one in here:
            markup, box, rows = _units(group, one, x, y)
            parts.append(markup)
            drawn.append((one, box))
            ports += [(arrival, stage, x, middle) for arrival, middle in rows]
            y = box.bottom + 24
        if units[-1].stage > 1:
            parts.append(text(x, -12, f"stage {stage}", class_="stage"))
        boxes += drawn
        x = max(box.right for _, box in drawn) + 96
    flows = [_flow(arrival, stage, x, y, boxes) for arrival, stage, x, y in ports if arrival.rows not in relations]
    last = [box for one, box in boxes if one.stage == units[-1].stage]
    right, bottom = max(box.right for box in last), max(box.bottom for _, box in boxes) + 26
    middle = sum(box.cy for box in last) / len(last)
    for box in last:
        curve = ("C", right + 30, box.cy, right + 20, middle, right + 50, middle)
        flows.append(path("M", box.right, box.cy, "L", right, box.cy, *curve, class_="route result"))
    flows += [arrow(right + 56, middle, "result"), text(right + 64, middle + 4, "results", class_="heading")]
    for note in _notes(group):
        parts.append(text(0, bottom, note, class_="caption"))
        bottom += 18
    top = -30 if units[-1].stage > 1 else -4
    view = around([Box(0, top, max(right + 130, 540), bottom - top - 8)], 14)
    label = f"{node_title(group)}: streams {_list(relations)}, their units and what is probed where"
    return picture(view, label, *flows, *parts, css_class="scheme")


def _units(group: Group, units: UnitGroup, x: float, y: float) -> tuple[str, Box, list[tuple[Arrival, float]]]:
    """Return the drawing of some units, the box around them, and the height of each row of it."""
    ranks = {alias: rank for rank, alias in enumerate(group.graph.relations)}
    first = x + 34 + max(_chip_width(arrival.rows) for arrival in units.arrivals)
    parts: list[str] = []
    rows: list[tuple[Arrival, float]] = []
    right, top = first + 120, y + _HEAD
    for arrival in units.arrivals:
        axes = _axes(group, arrival)
        sizes = _shown_sizes(axes)
        height = max(_CHIP, sizes[0] * _STEP) + 28
        middle = top + (height - 20) / 2
        parts.append(_chip(arrival.rows, x + 16, middle, ranks.get(arrival.rows)))
        ring = bool(group.decision.grid) or arrival.kept == arrival.rows
        cells = _drawn_cells(axes, sizes, first, middle - sizes[0] * _STEP / 2, ring=ring)
        rank = ranks.get(arrival.rows, 7) % 8
        parts.append(element("g", title(f"where a row of {arrival.rows} goes"), *cells, class_=f"s{rank}"))
        how = _how(group, arrival, axes)
        parts.append(text(first, top + height - 10, how, class_="caption"))
        at = first + math.prod(sizes[1:]) * _STEP + 6
        for probed in arrival.probes:
            parts += [path("M", at, middle, "L", at + 30, middle, class_="route stored"), arrow(at + 32, middle, "")]
            parts.append(_chip(probed, at + 34, middle, ranks.get(probed)))
            at += 40 + _chip_width(probed)
        if arrival.kept not in (None, arrival.rows):
            note = f"then kept as {shorten(arrival.kept or '', 20)}"
            parts.append(text(at + 4, middle + 4, note, class_="caption"))
            at += 8 + text_width(note, 12, "sans")
        right = max(right, at, first + text_width(how, 12, "sans"))
        rows.append((arrival, middle))
        top += height
    name = f"{shorten(units.name, 30)}: {_stored(units)}"
    right = max(right, x + 16 + text_width(name, 13, "bold"))
    box = Box(x, y, right + 16 - x, top - y + 4)
    heading = text(x + 16, y + 25, name, class_="heading")
    own = [ranks.get(one.rows) for one in units.arrivals if one.kept == one.rows]
    css_class = f"units s{own[0] % 8}" if len(own) == 1 and own[0] is not None else None  # the colour of its stream
    return element("g", rect(box, radius=10, class_="panel"), heading, *parts, class_=css_class), box, rows


def _stored(units: UnitGroup) -> str:
    stored = list(dict.fromkeys(one.kept for one in units.arrivals if one.kept is not None))
    probing = [one.rows for one in units.arrivals if one.kept != one.rows]
    return f"{_list(stored)} stored" + (f", {_list(probing)} probe{'s' * (len(probing) == 1)} here" if probing else "")


def _record(group: Group) -> SchemeRecord:
    """Return what is known of the scheme; one that is not known is drawn as cells."""
    return RECORDS.get(group.decision.scheme or "", RECORDS["matrix"])


def _axes(group: Group, arrival: Arrival) -> list[_Axis]:
    """Return the dimensions that a row is spread over: those of the grid, or subgroups and the units of each."""
    decision = group.decision
    if decision.grid:
        return [(one.shares, arrival.rows in one.relations) for one in decision.grid]
    if _record(group).runs_as is None:  # each node has a scheme of its own
        return [(1, True)]
    units = _record(group).units or decision.units or _UNKNOWN_UNITS
    divided = int(str(decision.option("subgroups") or units))
    subgroups = {"hash": units, "contrand": divided, "range": divided}
    groups = subgroups.get(str(decision.option("routing")), 1)
    return [(groups, True), (max(units // groups, 1), arrival.kept == arrival.rows)]


def _how(group: Group, arrival: Arrival, axes: Sequence[_Axis]) -> str:
    """Return in words where a row goes."""
    copies = math.prod(size for size, placed in axes if not placed)
    if group.decision.grid:
        placed = [one for one in group.decision.grid if arrival.rows in one.relations]
        hashed = [dimension_name(one) for one in placed if one.key and one.home is None]
        ranges = [dimension_name(one) for one in placed if one.home is not None]
        how = [f"hashed by {_list(hashed)}"] if hashed else []
        how += [f"by {_list(ranges)}"] if ranges else []
        how += ["spread evenly"] if len(placed) > len(hashed) + len(ranges) else []
        where = "stored once" if copies == 1 else f"copied to {count(copies, 'cell')}"
        if any(one.home not in (None, arrival.rows) and one.shares > 1 for one in placed):
            where += f", one row in {BREADTH} in a range more"
        return f"{', '.join(how) or 'to every cell'}, {where}"
    if arrival.kept == arrival.rows:
        return "stored" if _record(group).runs_as is None else "stored in one unit"
    routing = group.decision.option("routing")
    return {
        "hash": "to the one unit of its key",
        "contrand": "to the units of its subgroup",
        "range": "to the units of its range",
    }.get(str(routing), "to every unit")


def _notes(group: Group) -> list[str]:
    """Return what helps to read the picture."""
    decision, grid, unit = group.decision, group.decision.grid, _record(group).unit
    meet = "the one cell where these rows meet" if grid else "the one that stores it"
    notes = [f"Filled: the {unit}s one row goes to. Ringed: {meet}."]
    if decision.probes:
        notes.append("Arrows: what a new row probes, in the order that runs; it stops when nothing is left.")
    axes = _axes(group, Arrival(""))
    full = [size for size, _ in axes]
    if decision.units is None and math.prod(full) > 1:
        drawn = count(math.prod(full), unit)
        notes.append(f"Drawn with {drawn}; there will be as many as Spark runs tasks side by side.")
    if full != _shown_sizes(axes):
        named = ", ".join(f"{dimension_name(one)}: {one.shares}" for one in grid)
        notes.append(f"Drawn in part: there are {named or math.prod(full)} {unit}s.")
    return notes


def _shown_sizes(axes: Sequence[_Axis]) -> list[int]:
    """Return how many cells of each dimension are drawn: few enough for a readable grid."""
    shown = [min(size, _SHOWN) for size, _ in axes]
    while math.prod(shown[1:]) > _SHOWN_COLUMNS:
        largest = max(range(1, len(shown)), key=shown.__getitem__)
        shown[largest] -= 1
    return shown


def _drawn_cells(axes: Sequence[_Axis], sizes: Sequence[int], x: float, y: float, *, ring: bool) -> list[str]:
    pick = [min(1, size - 1) for size in sizes]
    cells = []
    for row in range(sizes[0]):
        for column in range(math.prod(sizes[1:])):
            place, rest = [row], column
            for size in reversed(sizes[1:]):
                place.insert(1, rest % size)
                rest //= size
            goes = all(not placed or at == to for at, to, (_, placed) in zip(place, pick, axes, strict=True))
            box = Box(x + column * _STEP, y + row * _STEP, _CELL, _CELL)
            cells.append(rect(box, radius=4, class_="cell on" if goes else "cell"))
            if ring and place == pick:
                cells.append(rect(box.grown(1.5), radius=5, class_="meet"))
    return cells


def _chip_width(label: str) -> float:
    return max(44, text_width(shorten(label, 20), 14) + 24)


def _chip(label: str, x: float, middle: float, rank: int | None) -> str:
    """Return a relation, or a partial result, as a chip."""
    box = Box(x, middle - _CHIP / 2, _chip_width(label), _CHIP)
    body = rect(box, radius=_CHIP / 2 if rank is not None else 6, class_="body" if rank is not None else "unit")
    name = text(box.cx, box.cy + 5, shorten(label, 20), text_anchor="middle", class_="alias")
    return element("g", title(label), body, name, class_="part" if rank is None else f"node s{rank % 8}")


def _flow(arrival: Arrival, stage: int, x: float, y: float, boxes: Sequence[tuple[UnitGroup, Box]]) -> str:
    """Return the line along which partial results come from where they are found: an earlier stage."""
    lines = [
        path("M", box.right, box.cy, "C", box.right + 48, box.cy, x - 48, y, x - 6, y, class_="route packs")
        for one, box in boxes
        if one.stage < stage and one.finds == arrival.rows
    ]
    return element("g", *lines, arrow(x, y, "packs"))


def _list(names: Sequence[str]) -> str:
    short = [shorten(name, 16) for name in names]
    return short[0] if len(short) == 1 else f"{', '.join(short[:-1])} and {short[-1]}" if short else "nothing"
