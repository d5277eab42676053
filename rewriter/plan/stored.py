"""How a checkpoint stores the rows of a join group, so that a query that restarts on it is planned alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from .nodes import JoinNode, source_scan
from .parts import Edge, JoinGraph
from .schemes import RECORDS
from .trees import TreeOf, order_text


@dataclass(frozen=True, slots=True)
class Stored:
    """How a checkpoint stores the rows of one join group: a query that restarts on it must store them alike.

    Parameters
    ----------
    relations
        The group's relations, in any order.
    scheme
        As in a `Decision`.
    units
        As in a `Decision`; None if they may change at a restart, so that the layouts in the checkpoint tell them.
    tree
        The operator tree over the relations, or the order of a ``tree``.
    conditions
        The conditions of its edges, sorted, which tell two groups of the same relations apart.
    together
        Whether Spark reads a source once for all of its aliases; older versions read it for each alias.
    """

    relations: tuple[str, ...]
    scheme: str
    units: int | None = None
    tree: TreeOf[str] = ()
    conditions: tuple[str, ...] = ()
    together: bool = False

    @classmethod
    def of(cls, group: JoinNode, units: int | None, *, together: bool = True) -> Stored:
        """Return how a group's rows are stored in a number of units, and whether its sources are read once."""
        names, options = group.graph.relations, group.decision.options
        scheme = group.decision.scheme or ""
        order = options.tree or (tuple(range(len(names))) if RECORDS[scheme or "matrix"].own_order else ())
        return cls(names, scheme, units, _named(order, names), conditions_of(group.graph), together)

    @property
    def hint(self) -> str:
        """The hint with which a query is planned like this."""
        tree = f"({order_text(self.tree)})" if self.tree else ""
        units = "" if self.units is None else f", UNITS({self.units})"
        return f"SCHEME('{self.scheme}{tree}'){units}"

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Stored:
        """Return it from plain data, in which lists stand for tuples; older ones lack what has a default."""
        known = [one for one in fields(cls) if one.name in body or one.default is MISSING]
        return cls(**{one.name: _tuples(body[one.name]) for one in known})


def conditions_of(graph: JoinGraph) -> tuple[str, ...]:
    """Return the conditions of a group's edges, sorted."""
    return tuple(sorted(" AND ".join(predicate.sql for predicate in edge.predicates) for edge in graph.edges))


def edge_key(node: JoinNode, edge: Edge) -> tuple[str, ...]:
    """Return by what an edge is known in other plans: what its relations read, by alias, and its conditions."""
    reads = (scan for scan in map(source_scan, node.sources) if scan.alias in (edge.left, edge.right))
    return (*(f"{scan.relation} AS {scan.alias}".lower() for scan in reads), *(one.sql for one in edge.predicates))


def _named(tree: TreeOf[int], names: tuple[str, ...]) -> TreeOf[str]:
    return tuple(_named(part, names) if isinstance(part, tuple) else names[part] for part in tree)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
