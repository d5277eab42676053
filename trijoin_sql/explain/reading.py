"""From the JSON object that ``explain --format json`` prints to the document that all forms are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count, zip_longest

from ..rewriter.plan.document import Conjunct, Document, Group
from ..rewriter.plan.json_codec import Json, decode


def read(document: Mapping[str, Json]) -> Document:
    """Read an explanation, and number its groups and their conjuncts.

    Parameters
    ----------
    document
        The object of ``explain --format json``, also one that an older version saved.

    Raises
    ------
    PlanError
        If a required key is missing or of the wrong type.
    """
    found = decode(Document, dict(document))
    return replace(found, groups=tuple(_numbered(index, group) for index, group in enumerate(found.groups, 1)))


def _numbered(index: int, group: Group) -> Group:
    """Return a group with its numbers; a condition with two sides that has become two conjuncts is one of them."""
    numbers = count(1)
    edges = []
    for edge in group.graph.edges:
        unlike = {(one.sql, one.kind): one for one in reversed(edge.predicates)}
        shown = [one for one in edge.predicates if unlike[one.sql, one.kind] is one]
        predicates = (replace(one, number=next(numbers), derived=edge.derived or one.derived) for one in shown)
        edges.append(replace(edge, predicates=tuple(predicates)))
    residuals = zip_longest(group.graph.residuals, group.graph.residual_places[: len(group.graph.residuals)])
    whole = tuple(Conjunct(sql, "residual", False, places or (), next(numbers)) for sql, places in residuals)
    return replace(group, index=index, graph=replace(group.graph, edges=tuple(edges), whole=whole))
