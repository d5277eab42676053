"""The delays of watermarks in a query's text. They may change at any restart of the query, as in Spark."""

from __future__ import annotations

import dataclasses

from ..plan.nodes import JoinNode, Node, Query, Scan, transform
from ..sql.catalog import with_histories_named
from ..sql.dialect import Watermark, parse_expression, render
from ..sql.intervals import interval_microseconds
from ..sql.statement import parse_statement, tree_of


def lasting(scan: Scan) -> Scan:
    """Return a scan with final text, and set `Scan.lasting`: the part of the text that must not change."""
    relation = without_delays(f"SELECT * FROM {scan.relation}").removeprefix("SELECT * FROM ")
    ctes = "".join(f"; {name} is {without_delays(body)}" for name, body in scan.ctes)
    return dataclasses.replace(scan, lasting=with_histories_named(f"{relation}{ctes}"))


def held_back_in_text(plan: Query) -> Query:
    """Write longer delays into the inputs of join nodes whose watermarks are held back."""

    def longer(node: Node, micros: int) -> Node:
        if not isinstance(node, Scan):
            return node.with_inputs(tuple(longer(below, micros) for below in node.inputs))
        if node.stateful or node.below or node.event_time is None:
            return node
        tree = parse_statement(f"SELECT * FROM {node.relation}").tree
        assert tree is not None
        for watermark in tree.find_all(Watermark):
            delay = interval_microseconds(watermark.args["delay"])
            if delay is not None:
                watermark.set("delay", parse_expression(f"INTERVAL {delay + micros} MICROSECONDS").copy())
        return dataclasses.replace(node, relation=render(tree).removeprefix("SELECT * FROM "))

    def visit(node: Node) -> Node:
        if not isinstance(node, JoinNode) or not node.held_back:
            return node
        return node.with_inputs(tuple(longer(source, node.held_back) for source in node.sources))

    changed = transform(plan, visit)
    assert isinstance(changed, Query)
    return changed


def without_delays(query: str) -> str:
    """Return a query without the delays of its watermarks, in any spelling."""
    tree = tree_of(query) if "WATERMARK" in query.upper() else None
    if tree is None:
        return query
    for watermark in tree.find_all(Watermark):
        watermark.set("delay", None)
    return render(tree)
