"""The fingerprint of a join: what a query must be to go on with the state of a checkpoint, as text, line by line.

A change that would join rows with stored rows of another query is refused, so everything is in it that decides which
rows are stored, in which form, and which of them join. What stands above the join is not, nor is what a view is made
of: views are known by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...rewriter.plan.nodes import JoinNode, Scan, source_conditions, source_scan
from ..spec import JoinSpec
from ..state.changed_query import PLANNED, SETTING, STORED, TOGETHER

if TYPE_CHECKING:
    from .inputs import Input


def fingerprint(
    spec: JoinSpec,
    node: JoinNode,
    inputs: Mapping[str, Input],
    types: Mapping[str, str],
    stored: Mapping[str, str],
    arguments: Mapping[str, Any] | None,
    settings: Mapping[str, str],
    *,
    ansi: bool,
) -> str:
    """Return a join's fingerprint.

    Parameters
    ----------
    spec
        The join.
    node
        What it was compiled from.
    inputs
        Its inputs by alias.
    types
        DDL names of the output columns.
    stored
        By alias: the stored columns with their types, as DDL.
    arguments
        Values of the SQL parameters (``:name``).
    settings
        Those of the session by which stored columns are computed.
    ansi
        Whether arithmetic raises where it overflows: by that a condition is one on its columns, or Spark's.
    """
    lines = [f"scheme: {spec.scheme}"]
    if spec.join != "inner":
        lines += [
            f"kind of join: {spec.join}",
            f"conditions on one side: {' AND '.join(one.sql for one in node.matching)}",
        ]
    if node.closest is not None:
        lines.append(f"closest rows: {node.closest.sql}")
    lines += [f"branch {one.relation}: {one.sql}" for one in node.branches]
    # How many units there are, and the grid of their cells, is part of the state: see `operators.state.layout`.
    options = node.decision.options.shown(tuple(map(str, range(len(spec.streams)))))
    options |= {f"ranges {one.axis}": f"{one.width} of {spec.streams[one.home].alias}" for one in spec.options.ranges}
    lines += [f"option {name}: {value.replace(', ', ',')}" for name, value in options.items()]
    for stream in spec.streams:
        columns = ", ".join(f"{name} {types[name]}" for _, name in stream.payload)
        lines.append(f"stream {stream.alias}: {columns}")
    lines.append("order of streams: " + ", ".join(node.graph.relations))
    if spec.aggregate is not None and node.aggregation is not None:
        lines.append(f"aggregated inside the units: {', '.join(term.sql for term in node.aggregation.terms)}")
    for source in node.sources:
        lines += _of_source(source_scan(source), source_conditions(source), inputs)
    for edge in node.graph.edges:
        conditions = " AND ".join(predicate.sql for predicate in edge.predicates)
        lines.append(f"condition between {edge.left} and {edge.right}: {conditions}")
    lines += [f"{STORED}{alias}: {columns}" for alias, columns in stored.items()]
    lines += _together(inputs)
    used = set(re.findall(r":(\w+)", "\n".join(lines)))
    lines += [f"argument {name}: {value!r}" for name, value in sorted((arguments or {}).items()) if name in used]
    lines += [f"{SETTING}{name}: {value}" for name, value in sorted(settings.items())]
    lines.append(f"{PLANNED}spark.sql.ansi.enabled: {str(ansi).lower()}")
    return "\n".join(line.replace("\n", "\\n") for line in lines)


def _together(inputs: Mapping[str, Input]) -> Iterator[str]:
    """Yield which inputs are read together: a checkpoint has an offset for each reading of a source, by its place."""
    for frame in {id(side.frame): side.frame for side in inputs.values() if side.frame.isStreaming}.values():
        first, *others = (alias for alias, side in inputs.items() if side.frame is frame)
        if others:
            yield f"{TOGETHER}{first}: {', '.join(others)}"


def _of_source(scan: Scan, conditions: Iterable[str], inputs: Mapping[str, Input]) -> Iterator[str]:
    yield f"input {scan.alias}: {scan.lasting or scan.relation}"
    yield f"filter on {scan.alias}: {' AND '.join(conditions) or 'none'}"
    side = inputs[scan.alias]
    keys = [f"{text} {side.type_of(what, text)}" for what, text in side.read if what == "key"]
    yield f"keys of {scan.alias}: {', '.join(keys) or 'none'}"
    yield f"event time of {scan.alias}: {side.event_time or 'none'}"
