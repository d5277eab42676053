"""What strict mode refuses: rows that a join keeps for ever, cross products, and joins of streams that are Spark's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..errors import NotProvenError
from .cautions import Product, is_over_streams, products
from .event_time.bounds import is_of_streams
from .plan.joins import join_words, written
from .plan.nodes import Block, Join, JoinNode, LeftAlone, Node, Scan, scans, walk
from .plan.parts import Retention
from .rules.create_multi_join_nodes import BY_WINDOWS
from .sql.places import place_of, place_of_relation

_NOT_OURS = "which Spark would run, and TriJoin SQL does not prove what Spark keeps"


def refuse_unproven(sql: str, plan: Node, groups: Sequence[JoinNode | LeftAlone]) -> None:
    """Refuse a query unless it is proven that its joins of streams keep no row for ever, and make no cross product.

    Parameters
    ----------
    sql
        The statement, in which the place is marked.
    plan, groups
        All of its plan, and its join groups.

    Raises
    ------
    NotProvenError
        It is not proven.
    """
    for error in (*unproven(groups, sql), *_left_to_spark(plan, sql)):
        raise error


def unproven(groups: Iterable[JoinNode | LeftAlone], sql: str | None = None) -> Iterator[NotProvenError]:
    """Yield why it is not proven that groups of ours keep no row for ever, and make no cross product."""
    for group in groups:
        if isinstance(group, JoinNode):
            if is_over_streams(group):
                yield from (_of_product(product, sql) for product in products(group))
            yield from (_of_stream(kept, sql) for kept in group.retention if kept.keep_for is None or kept.latest)


def _of_stream(kept: Retention, sql: str | None) -> NotProvenError:
    """Return the refusal for a stream whose rows are kept for ever, or the latest of each key."""
    reason = f"rows of {kept.alias} are kept for ever (UNBOUNDED){kept.why and f', since {kept.why}'}"
    if kept.latest:
        reason = f"of {kept.alias} the latest row of each {', '.join(kept.latest)} is kept for ever"
    place = None if sql is None else place_of_relation(sql, kept.alias)
    hint = kept.hint or "bound the join with WITHIN 10 MINUTES after WHERE"
    return NotProvenError(reason, kept.alias, hint, sql, place)


def _of_product(product: Product, sql: str | None) -> NotProvenError:
    """Return the refusal for a cross product."""
    place = product.place
    if place is None and sql is not None:
        place = place_of_relation(sql, product.relations[0])
    return NotProvenError(product.sentence, ", ".join(product.relations), product.hint, sql, place)


def _left_to_spark(plan: Node, sql: str) -> Iterator[NotProvenError]:
    """Yield the joins of streams that stay with Spark."""
    why = {id(one): node.decision.reason for node in walk(plan) if isinstance(node, LeftAlone) for one in walk(node)}
    problems = [node for node in walk(plan) if isinstance(node, Block) and node.problem]
    why |= {id(below): node.problem or "" for node in problems for below in walk(node)}
    for node in walk(plan):
        if not isinstance(node, Join) or not is_of_streams(node) or not any(map(_may_stream, scans(node))):
            continue
        streams = ", ".join(scan.alias for scan in scans(node) if _may_stream(scan))
        words = None if node.kind in ("inner", "cross") else join_words(node.kind, node.closest)
        if words is None and why.get(id(node)) == BY_WINDOWS:
            continue  # Spark forgets a window that the watermark has passed
        if words is None:
            reason = f"it joins the streams {streams} by a join {_NOT_OURS}: {why.get(id(node), 'it stays with Spark')}"
            yield NotProvenError(reason, streams, "write it so that TriJoin SQL runs it: EXPLAIN says how", sql)
        else:
            place = place_of(sql, f"{written(node.kind, node.closest)}|JOIN")
            reason = f"it joins the streams {streams} by a {words} {_NOT_OURS}"
            hint = "bound it with WITHIN 10 MINUTES after WHERE: then TriJoin SQL runs it"
            yield NotProvenError(reason, streams, hint, sql, place)


def _may_stream(scan: Scan) -> bool:
    return scan.streaming is not False
