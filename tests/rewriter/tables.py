"""Streams and tables that the tests of the rewriter share."""

from __future__ import annotations

from trijoin_sql.rewriter.options import DEFAULTS, Settings
from trijoin_sql.rewriter.pipeline import Rewrite, rewrite
from trijoin_sql.rewriter.plan.nodes import JoinNode
from trijoin_sql.rewriter.sql.catalog import DdlCatalog
from trijoin_sql.rewriter.sql.declarations import read_script

COLUMNS = "id INT, a INT, ts TIMESTAMP, x DOUBLE, n STRING, d DATE, m DECIMAL(10,2)"

#: Three streams of the same columns, two without event time, and a table.
CATALOG: DdlCatalog = read_script(
    "".join(f"CREATE STREAM {name} ({COLUMNS}) WATERMARK ts DELAY OF INTERVAL 10 SECONDS;" for name in "rst")
    + "CREATE STREAM u (Key INT, Val INT); CREATE TABLE c (id INT, `Größe X` INT, n STRING);"
    + "CREATE STREAM wide (a INT, k BIGINT)"
)[0]

#: The same without streams: nothing is a static relation beside a stream.
BATCH: DdlCatalog = read_script(
    "".join(f"CREATE TABLE {name} ({COLUMNS});" for name in "rst")
    + "CREATE TABLE u (Key INT, Val INT); CREATE TABLE c (id INT, `Größe X` INT, n STRING)"
)[0]


def rewritten(sql: str, settings: Settings = DEFAULTS, catalog: DdlCatalog = CATALOG) -> Rewrite:
    """Rewrite a query over the shared tables."""
    return rewrite(sql, catalog, settings)


def nodes(sql: str, settings: Settings = DEFAULTS) -> list[JoinNode]:
    """Return the join nodes of a query, inner ones first."""
    return [group for group in rewritten(sql, settings).groups if isinstance(group, JoinNode)]


def node(sql: str, settings: Settings = DEFAULTS) -> JoinNode:
    """Return the only join node of a query."""
    (only,) = nodes(sql, settings)
    return only


def reasons(sql: str, settings: Settings = DEFAULTS) -> list[str]:
    """Return why the groups of a query are left alone."""
    return [g.decision.reason for g in rewritten(sql, settings).groups if not isinstance(g, JoinNode)]


def final_sql(sql: str, settings: Settings = DEFAULTS) -> str:
    """Return the SQL over the join nodes, with the name of the only node shortened."""
    plan = rewritten(sql, settings).plan
    assert plan is not None
    return plan.sql
