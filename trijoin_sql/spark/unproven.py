"""What strict mode finds in Spark's own plan: joins of streams that Spark runs, however they were written."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame

from ..errors import NotProvenError
from ..operators.compile.logical_plans import joins_streams, plan_of, walk

_REASON = "Spark would run {} of streams, and TriJoin SQL does not prove what Spark keeps"
_HINT = "write it as SQL with WITHIN 10 MINUTES after WHERE, without NO_TRIJOIN: then TriJoin SQL runs it"

#: A line of a plan that Spark prints on Connect: what stands before the node, a mark (~ of a stream), and the node.
_LINE = re.compile(r"(?P<before>(?:[:+] *-? ?| )*)[~']?(?P<node>[A-Z].*)")


def refuse_spark_joins(frame: DataFrame) -> None:
    """Refuse a streaming DataFrame in which Spark joins two streams.

    Raises
    ------
    NotProvenError
        It does.
    """
    kind = _in_plan(plan_of(frame)) if hasattr(frame, "_jdf") else _in_text(frame)
    if kind is not None:
        name = kind.upper().replace("OUTER", "").strip()
        raise NotProvenError(_REASON.format(f"a join ({name})"), "of Spark", _HINT)


def _in_plan(plan: Any) -> str | None:
    """Return the kind of the first join of two streams in a plan of a classic session."""
    if "Join" not in plan.toString():  # one call instead of one for each node
        return None
    return next((str(step.node.joinType().sql()) for step in walk(plan) if joins_streams(step.node)), None)


def _in_text(frame: Any) -> str | None:
    """Return the kind of the first join of two streams in a plan that Spark Connect prints.

    A node's children are indented by three characters more; those of a join have each a stream below them.
    """
    text = frame._explain_string(extended=True).partition("== Analyzed Logical Plan ==")[2].partition("\n== ")[0]
    found = [(len(one["before"]), one["node"]) for one in map(_LINE.fullmatch, text.splitlines()) if one]
    for at, (depth, node) in enumerate(found):
        join = re.match(r"Join (\w+)", node)
        if join is None:
            continue
        sides: list[bool] = []
        for below, one in found[at + 1 :]:
            if below <= depth:
                break
            if below == depth + 3:
                sides.append(False)
            sides[-1] |= "StreamingRelation" in one or "StreamingDataSource" in one
        if len(sides) == 2 and all(sides):
            return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", join[1])
    return None
