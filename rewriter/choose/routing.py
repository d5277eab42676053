"""Which routings a group's conditions allow, and what a hint chooses of them (003 section 3.2)."""

from __future__ import annotations

from functools import cache

from ...errors import InvalidHintError
from ..plan.cost_model import Model
from ..plan.decision import Dimension, SchemeOptions
from ..plan.grid import BREADTH, common_key, common_range, lay_out, range_classes
from ..plan.nodes import Hints, JoinNode
from ..plan.schemes import RECORDS, Fit
from .cost import can_hash


def has_common_key(node: JoinNode) -> bool:
    """Tell whether equalities give all relations one key that rows can be hashed by."""
    return common_key(node.graph, can_hash(node)) is not None


def divides(node: JoinNode, routing: str | None) -> bool:
    """Tell whether a row goes to some units of each group only: those of its key, or of the range of its value."""
    if routing == "range":
        return common_range(node.graph) is not None
    return routing != "random" and has_common_key(node)


def reached(node: JoinNode, hints: Hints, model: Model) -> int:
    """Return how many units of another stream's group a row goes to."""
    if not divides(node, hints.routing):
        return model.units
    return max(model.units // (hints.subgroups or model.units), 1)


def fit_of(node: JoinNode, model: Model, reached: int, hints: Hints | None = None) -> Fit:
    """Return what the costs of schemes depend on besides the numbers; a row reaches so many units of another group."""
    graph, ranges = node.graph, hints is not None and hints.routing == "range"
    subgroups = hints.subgroups if hints is not None and ranges else None

    @cache  # many nodes of operator trees are costed, few of which are grids
    def grid() -> tuple[Dimension, ...]:
        return lay_out(graph, model.units, can_hash(node), node.tested, ranges=ranges, subgroups=subgroups)

    def along(dimension: Dimension, names: set[str]) -> float:
        if not names & set(dimension.relations):
            return dimension.shares
        return 1 if dimension.home is None or dimension.home in names or dimension.shares == 1 else 1 + 1 / BREADTH

    def shared_cells(members: frozenset[int], other: int | None = None, by: int | None = None) -> float:
        names = {graph.relations[one] for one in members}
        further = set() if other is None else {graph.relations[other]}
        found = 1.0
        for one in grid():
            if by is None or graph.relations[by] in one.relations:
                found *= along(one, names | further)
            else:  # along it one may lie anywhere for the other
                found *= along(one, names) * along(one, further) / one.shares
        return found

    hub = None if graph.hub is None else graph.relations.index(graph.hub)
    ranged = common_range(graph) if ranges and (subgroups or model.units) > 1 else None
    copies = tuple(1 if ranged is None or alias == ranged[0] else 1 + 1 / BREADTH for alias in graph.relations)
    return Fit(graph.shape, hub, reached, copies, shared_cells, hints is not None and hints.intermediates == "pair")


def takes_ranges(scheme: str, node: JoinNode) -> bool:
    """Tell whether a scheme routes by ranges of values here: by one column for all relations, or by dimensions."""
    record = RECORDS[scheme]
    if record.runs_as is None:  # each of its nodes as far as it can
        return True
    if record.in_cells:
        return record.units is None and bool(range_classes(node.graph, node.tested))
    return record.routed and common_range(node.graph) is not None


def hinted(hints: Hints, node: JoinNode, scheme: str, units: int | None, *, pairs: bool) -> SchemeOptions:
    """Return the options with a hinted routing.

    Raises
    ------
    InvalidHintError
        The group or the scheme cannot have it, or the units cannot be divided into its subgroups.
    """
    values = [f"'{hints.routing}'"] + ([str(hints.subgroups)] if hints.subgroups else [])
    reason = _obstacle(hints, node, scheme, units)
    if reason is not None:
        raise InvalidHintError(f"ROUTING({', '.join(values)})", reason)
    match hints.routing:
        case "random" | "range" as routing:
            return SchemeOptions(pairs, routing, hints.subgroups)
    return SchemeOptions(pairs, "contrand" if hints.subgroups else "hash", hints.subgroups)


def _obstacle(hints: Hints, node: JoinNode, scheme: str, units: int | None) -> str | None:
    """Return why a group cannot have a hinted routing, None if it can."""
    record, by_range = RECORDS[scheme], hints.routing == "range"
    if units is not None and units % (hints.subgroups or 1):
        return f"{units} units cannot be divided evenly into {hints.subgroups} subgroups"
    if by_range and not takes_ranges(scheme, node):
        return _no_ranges(node, scheme)
    if by_range and hints.subgroups and not record.routed and not record.in_cells:
        return f"the scheme {scheme} has no subgroups, write ROUTING('range')"
    if not by_range and not record.routed:
        return f"the scheme {scheme} has a routing of its own"
    if not by_range and hints.routing != "random" and not has_common_key(node):
        return "no predicates make one column equal in all relations, to hash rows by"
    return None


def _no_ranges(node: JoinNode, scheme: str) -> str:
    record = RECORDS[scheme]
    if not record.routed and (not record.in_cells or record.units):
        return f"the scheme {scheme} has a routing of its own"
    if not range_classes(node.graph):
        band = "a band with two ends, other than one of event times, to cut its values into ranges"
        return f"no condition that the kernel evaluates is {band}"
    if record.routed:
        return "no column is in a band with one of each other relation; matrix takes several"
    return f"rows of {' and '.join(node.tested)} are tested, and only those of one relation lie in one range each"
