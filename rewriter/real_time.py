"""Whether a query can run with Spark's trigger ``realTime``, as far as its plan tells, and how it runs then."""

from __future__ import annotations

from .pipeline import Rewrite
from .plan.nodes import JoinNode, walk
from .plan.parts import Refusal

_OTHER = "start it with another trigger"


def why_not_in_real_time(node: JoinNode) -> Refusal | None:
    """Return why a join cannot run row by row, None if it can.

    Rows wait for nothing there, and the watermark moves at the ends of batches only, which last for minutes.
    """
    if node.join != "inner":
        kind = {"closest": "ASOF", "left_closest": "ASOF", "mixed": "outer, anti and ASOF"}.get(
            node.join, node.join.upper()
        )
        return Refusal(
            f"{kind} joins wait for the watermark, which moves only at the end of a batch of the trigger realTime",
            f"{_OTHER}, or write an inner join",
            kind,
        )
    if node.aggregation is not None:
        return Refusal(
            "the units of this join aggregate its results, and the trigger realTime takes no part of that",
            "add the hint NO_UNIT_AGGREGATE(), and Spark aggregates them",
            "GROUP BY",
        )
    if node.result_time is not None or node.held_back:
        return Refusal(
            "an operator above the join reads its event time, and the trigger realTime holds no watermark back",
            f"{_OTHER}, or leave the window above the join out",
        )
    if any(isinstance(one, JoinNode) for one in walk(node) if one is not node):
        return Refusal(
            "it has joins above one another, and the trigger realTime takes one stateful operator below a union",
            "write it as one join of all streams, with the hint SCHEME('matrix')",
        )
    return None


def real_time_refusal(rewritten: Rewrite) -> Refusal | None:
    """Return why a rewritten query cannot run in real time, None if its plan does not tell."""
    for group in rewritten.groups:
        if not isinstance(group, JoinNode):
            return Refusal(
                f"Spark would run a join of it ({group.decision.reason})", "make it a join of streams of ours"
            )
        if (why := why_not_in_real_time(group)) is not None:
            return why
    if len(rewritten.groups) > 1:
        return Refusal(
            "it has joins above one another, and the trigger realTime takes one",
            "write it as one join of all streams",
        )
    return None


def real_time_sentence(rewritten: Rewrite) -> str:
    """Return what EXPLAIN says about real time."""
    if not rewritten.groups:
        return "real time: it has no join of ours; Spark says whether it runs"
    why = real_time_refusal(rewritten)
    if why is not None:
        return f"real time: no. {why.reason}; {why.hint}"
    (node,) = rewritten.groups
    cells = (cells_in_real_time(node) or 1) if isinstance(node, JoinNode) else 1
    number = f"{cells} cell{'s' if cells > 1 else ''}"
    tasks = len(node.graph.relations) + cells if isinstance(node, JoinNode) else cells
    return (
        f"real time: yes, as matrix in {number}. Streams from Kafka, results into Kafka, the console or foreach; at "
        f"least {tasks} tasks must run at once. Rows are kept for up to a batch longer"
    )


def cells_in_real_time(node: JoinNode) -> int | None:
    """Return the cells of a join in real time that the user chose; None: those of the checkpoint, one if it is new."""
    chosen = node.decision.units_from in ("the hint", "the setting")
    return node.decision.units if chosen else None
