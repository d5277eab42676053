"""For queries without rows in small data: the same without some of its filters, so that a comparison says something.

DuckDB tries on the generated data which conditions have to go: as few as possible, comparisons with constants first;
equalities of columns stay. `make corpus` writes what it finds to ``queries/*/loose/``, each with what was taken out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import combinations, islice

import duckdb
from sqlglot import exp, parse_one

#: How many ways are tried, how long one may take, and how many rows are too many to compare.
TRIES, SECONDS, MOST = 400, 5.0, 20_000


def loosened(db: duckdb.DuckDBPyConnection, query: str) -> tuple[str, list[str]] | None:
    """Return a query (in DuckDB's SQL) with rows and the conditions that it lacks.

    None if the query has rows as it is, or none of those tried has.
    """
    tree = parse_one(query, read="duckdb")
    tree.set("limit", None)
    if count(db, tree) != 0:
        return None
    conditions = removable(tree)
    for removed in islice(_subsets(len(conditions)), TRIES):
        changed = tree.copy()
        found = removable(changed)
        for number in removed:
            found[number].replace(exp.true())
        rows = count(db, changed)
        if rows is not None and 0 < rows <= MOST:
            return changed.sql("duckdb"), [conditions[number].sql("duckdb") for number in removed]
    return None


def _subsets(size: int) -> Iterator[tuple[int, ...]]:
    """Yield which conditions go: one, two, ... of them, but all of them soon, for some queries need that."""
    yield from combinations(range(size), 1)
    yield from islice(combinations(range(size), 2), TRIES // 3)
    yield from islice(combinations(range(size), 3), TRIES // 3)
    for fewer in range(min(size, 30)):
        yield tuple(range(fewer, size))


def removable(tree: exp.Expr) -> list[exp.Expr]:
    """Return the conjuncts that may go: comparisons of one column with constants first, equalities of columns never."""
    found: list[exp.Expr] = []
    for clause in tree.find_all(exp.Where, exp.Having):
        parts = [clause.this]
        while parts:
            part = parts.pop(0)
            if isinstance(part, exp.And):
                parts[:0] = [part.left, part.right]
            elif isinstance(part, exp.Paren) and isinstance(part.this, exp.And):
                parts.insert(0, part.this)
            elif not (
                isinstance(part, exp.EQ) and all(isinstance(side, exp.Column) for side in part.unnest_operands())
            ):
                found.append(part)
    return sorted(found, key=lambda part: not is_constant(part))


def is_constant(part: exp.Expr) -> bool:
    """Tell whether a condition compares one column with literals."""
    columns = len({column.sql() for column in part.find_all(exp.Column)})
    return columns == 1 and not any(part.find_all(exp.Query, exp.AggFunc)) and any(part.find_all(exp.Literal))


def count(db: duckdb.DuckDBPyConnection, tree: exp.Expr) -> int | None:
    """Return how many rows a query has; None if it fails or takes too long."""
    timer = threading.Timer(SECONDS, db.interrupt)
    timer.start()
    try:
        row = db.execute(f"SELECT count(*) FROM ({tree.sql('duckdb')})").fetchone()
    except duckdb.Error:
        return None
    finally:
        timer.cancel()
    return int(row[0]) if row else None
