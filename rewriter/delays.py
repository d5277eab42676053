"""The delays of watermarks, which may change at any restart of a query, as in Spark."""

from __future__ import annotations

from ..errors import SqlSyntaxError
from .dialect import Watermark, parse_statement, render


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
