"""The delays of watermarks, which may change at any restart of a query, as in Spark."""

from __future__ import annotations

import dataclasses

from ..errors import SqlSyntaxError
from .dialect import Watermark, parse_statement, render
from .plan import Scan


def lasting(scan: Scan) -> Scan:
    """Return a scan whose text is final with what of it must last, `Scan.lasting`."""
    relation = without_delays(f"SELECT * FROM {scan.relation}").removeprefix("SELECT * FROM ")
    ctes = "".join(f"; {name} is {without_delays(body)}" for name, body in scan.ctes)
    return dataclasses.replace(scan, lasting=f"{relation}{ctes}")


def without_delays(query: str) -> str:
    """Return a query without the delays of its watermarks, however they are written."""
    try:
        tree = parse_statement(query).tree if "WATERMARK" in query.upper() else None
    except SqlSyntaxError:
        tree = None
    if tree is None:
        return query
    for watermark in tree.find_all(Watermark):
        watermark.set("delay", None)
    return render(tree)
