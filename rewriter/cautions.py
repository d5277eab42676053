"""What a query over streams does and its writer probably does not mean: products, and casts of texts that may fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import networkx as nx

from .plan.conjuncts import Either, Residual
from .plan.expr import UNKNOWN, At, Column, Constant, Expr, bare, parts_of
from .plan.nodes import Filter, JoinNode, LeftAlone, Scan, scans, walk
from .plan.parts import PRODUCT, Refusal
from .sql.expressions import parsed
from .sql.spark_types import is_number, text_type

#: What Spark refuses, and can be told from the text alone.
NEVER_CLOSE = Refusal(
    "groups without a window of event time never close, so append mode would give none",
    "group by window(...) over an event time, or use MODE complete or update",
)
NO_GROUPS = Refusal("complete mode gives the groups of an aggregation, and there is none", "use MODE append")
UNBOUNDED_OUTER = Refusal(
    "the {} of streams has no bound in event time, so it would never know that a row has no partner",
    "give both sides a watermark, and bound their event times in ON: AND s.ts BETWEEN r.ts AND r.ts + INTERVAL ...",
)
#: What to write instead of an anti join that Spark would have to run.
UNMATCHED = "use a LEFT JOIN with bounds on event time, and keep the rows without a partner"

#: A cast of a whole key, and what a text must be for it.
_CAST = re.compile(r"CAST\((.+) AS ([\w(), ]+)\)")
_WHAT = {"DATE": "date", "TIMESTAMP": "time", "TIMESTAMP_NTZ": "time", "BOOLEAN": "boolean", "BIGINT": "whole number"}


def cautions(groups: Sequence[JoinNode | LeftAlone]) -> tuple[str, ...]:
    """Return sentences about the join groups of a query over streams.

    Parameters
    ----------
    groups
        In plan order.
    """
    found: list[str] = []
    for group in groups:
        if isinstance(group, JoinNode) and is_over_streams(group):
            found += [f"{one.sentence}; {one.hint}" for one in products(group)]
            found += _casts(group)
    return tuple(dict.fromkeys(found))


def is_over_streams(group: JoinNode) -> bool:
    """Tell whether a group has a stream among its relations."""
    return any(isinstance(one, Scan) and one.streaming for one in walk(group))


@dataclass(frozen=True)
class Product:
    """A cross product: what is said of it and what to write instead, its relations, and the place of its condition."""

    sentence: str
    hint: str
    relations: tuple[str, ...]
    place: int | None = None


def products(group: JoinNode) -> Iterator[Product]:
    """Yield the relations that nothing of the query's own connects with those before them; NEAREST connects its two."""
    graph = group.graph
    if graph.shape != "disconnected" or group.closest is not None:
        return
    whole: nx.Graph[str] = nx.Graph()
    whole.add_nodes_from(graph.relations)
    whole.add_edges_from((edge.left, edge.right) for edge in graph.edges if graph.is_own(edge))
    first, *others = (sorted(part, key=graph.relations.index) for part in nx.connected_components(whole))
    before = set(first)
    kinds = {(scan.alias, column.name.lower()): column.type for scan in scans(group) for column in scan.columns}
    read = {("", one.name): (one.relation, one.column) for one in group.output}  # residuals are over results

    def column_of(at: At) -> tuple[str, str]:
        alias, name = read.get(at, at)
        return f"{alias}.{name}", kinds.get((alias, name.lower()), UNKNOWN)

    for part in others:
        between = [one for one in graph.residuals if before & {*one.relations} and {*part} & {*one.relations}]
        if any(column_of(at)[1] == UNKNOWN for one in between for at in one.condition.columns):
            before |= {*part}  # it may be a band: only types tell
            continue
        tested = [one.sql for one in between]
        place = next((place[0] for one in between for place in one.places), None)
        bound = next((one.sql for edge in graph.edges if edge.derived for one in edge.predicates), "")
        bound = f" {bound}" if bound.startswith("WITHIN") else ""
        pairs = f"every pair of their rows{bound} is made"
        sides = f"{' and '.join(sorted(before, key=graph.relations.index))} with {' and '.join(part)}"
        what = f"{PRODUCT}: no condition compares {sides}, so {pairs}"
        if tested:
            what = f"{PRODUCT}: only {' AND '.join(tested)} compares {sides}, so {pairs}, and then tested"
        hint = _SPLIT if any(" OR " in sql for sql in tested) else _CONNECT
        unset = [mark.sql for one in between for mark in parts_of(one.condition.expr) if mark.op == "PLACEHOLDER"]
        hint = f"give a value for {', '.join(dict.fromkeys(unset))}, which may bound it" if unset else hint
        hint = next((_CAST_IT.format(text) for one in between for text in _texts_in_sums(one, column_of)), hint)
        if any(part.op.startswith("st_geom") for one in between for part in parts_of(one.condition.expr)):
            hint = _READ_BELOW
        yield Product(what, hint, tuple(part), place)
        before |= {*part}


def _texts_in_sums(predicate: Residual, column_of: Callable[[At], tuple[str, str]]) -> Iterator[str]:
    """Yield the columns of type STRING in sums and differences: Spark casts them, and units do not."""
    for node in parts_of(predicate.condition.expr):
        for side in map(bare, node.args if node.op in ("+", "-") else ()):
            if isinstance(side, Column):
                name, kind = column_of(side.at)
                if text_type(kind) == "string":
                    yield name


_CAST_IT = "{0} is a STRING: write TRY_CAST({0} AS DOUBLE), which makes texts that are no number NULL, or declare it so"
_READ_BELOW = (
    "read geometries of texts or bytes in a subquery, (SELECT *, ST_GeomFromWKT(wkt) AS g FROM zones) AS z: the boxes "
    "around columns are compared"
)
_SPLIT = "write one SELECT for each side of OR, and put them together with UNION ALL"
_CONNECT = "add an equality, an order (r.x < s.x) or a distance (ABS(r.x - s.x) < 5) between them"


#: A text that Spark casts to a number.
_NUMBER = re.compile(r"(?i)\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?[df]?|nan|inf(inity)?)\s*")


def _casts_to_numbers(condition: Expr) -> Iterator[str]:
    """Yield a sentence for each text of a condition that is compared with a number: a column, or what is no number."""
    for node in parts_of(condition):
        sides = [bare(one) for one in node.args if node.op in ("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN")]
        if not any(is_number(one.type) for one in sides):
            continue
        for one in sides:
            told = f"{node.sql} compares it with a number"
            if isinstance(one, Constant) and isinstance(one.value, str) and not _NUMBER.fullmatch(one.value):
                yield f"{one.sql} is no number, and {told}: the query fails at the first row"
            if isinstance(one, Column) and text_type(one.type) == "string":
                name = ".".join(one.at)
                yield (
                    f"{name} is a STRING, and {told}: the query fails at the first text that is none; write "
                    f"TRY_CAST({name} AS DOUBLE), or the number as a text"
                )


def _casts(group: JoinNode) -> Iterator[str]:
    """Yield a sentence for each text column that is compared with another type: the keys have Spark's own cast."""
    types = {f"{scan.alias}.{column.name}": column.type for scan in scans(group) for column in scan.columns}
    for below in (node for one in group.inputs for node in walk(one) if isinstance(node, Filter)):
        for condition in below.conditions:
            yield from _casts_to_numbers(condition.expr)
    for residual in group.graph.residuals:
        yield from _casts_to_numbers(parsed(residual.sql, lambda one: types.get(f"{one.table}.{one.name}", UNKNOWN)))
    for predicate in (one for edge in group.graph.edges for one in edge.predicates if not isinstance(one, Either)):
        for term, other in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
            cast = _CAST.fullmatch(term.sql)
            if cast is None or text_type(types.get(cast[1].replace("`", ""), "")) != "string":
                continue
            if term.sql.upper() not in predicate.condition.sql.upper():  # the user wrote no cast
                beside = inner[1] if (inner := _CAST.fullmatch(other.sql)) else other.sql
                what = _WHAT.get(cast[2].partition("(")[0], "number")
                yield (
                    f"{cast[1]} is a STRING and {beside} is not: Spark casts the text to {cast[2]}, and the query "
                    f"fails at the first one that is no {what}; write TRY_CAST({cast[1]} AS {cast[2]}), which makes "
                    "such texts NULL, or declare the column so"
                )
