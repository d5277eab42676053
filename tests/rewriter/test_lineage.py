"""Column lineage: by hand, and beside what sqlglot's own ``lineage`` says of the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import lineage as of_sqlglot
from trijoin_sql.rewriter.names.lineage import Inputs, Lineage, lineage
from trijoin_sql.rewriter.names.resolve import resolve
from trijoin_sql.rewriter.sql.catalog import DdlCatalog
from trijoin_sql.rewriter.sql.declarations import read_with_places
from trijoin_sql.rewriter.sql.statement import parse_statement

DDL = """
CREATE STREAM r (id INT, x INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 1 SECOND;
CREATE STREAM s (id INT, x INT, y INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 1 SECOND;
CREATE TABLE t (id INT, name STRING) USING parquet;
"""
CATALOG: DdlCatalog = read_with_places(DDL)[0]
JOINED = "FROM r JOIN s ON r.x < s.x"


def of(sql: str, views: dict[str, Lineage] | None = None) -> Lineage:
    tree = parse_statement(sql).tree
    assert tree is not None
    return lineage(resolve(tree.copy(), CATALOG), views or {})


def shown(inputs: Inputs) -> dict[str, str]:
    """By column, the kinds of transformation."""
    kinds = {f"{table}.{column}": " ".join(sorted(kind for _, kind in of)) for (table, column), of in inputs.items()}
    return dict(sorted(kinds.items()))


@pytest.mark.parametrize(
    ("item", "comes_from"),
    [
        ("r.x", {"r.x": "IDENTITY"}),
        ("r.x + s.y", {"r.x": "TRANSFORMATION", "s.y": "TRANSFORMATION"}),
        ("UPPER(CAST(y AS STRING))", {"s.y": "TRANSFORMATION"}),
        ("1", {}),
        (
            "CASE WHEN r.id > 1 THEN s.y ELSE r.x END",
            {"r.id": "CONDITIONAL", "r.x": "TRANSFORMATION", "s.y": "TRANSFORMATION"},
        ),
        ("IF(r.id > 1, s.y, 0)", {"r.id": "CONDITIONAL", "s.y": "TRANSFORMATION"}),
        ("SUM(r.x + s.y)", {"r.x": "AGGREGATION", "s.y": "AGGREGATION"}),
        ("1 + MAX(s.y)", {"s.y": "AGGREGATION"}),
        ("COUNT(*)", {}),
        ("ROW_NUMBER() OVER (PARTITION BY r.id ORDER BY s.y)", {"r.id": "WINDOW", "s.y": "WINDOW"}),
        ("LAG(r.x) OVER (ORDER BY s.y)", {"r.x": "TRANSFORMATION", "s.y": "WINDOW"}),
        ("(SELECT MAX(t.id) FROM t WHERE t.name = 'a')", {"t.id": "AGGREGATION"}),
    ],
)
def test_an_output_column(item: str, comes_from: dict[str, str]) -> None:
    found = of(f"SELECT {item} AS o {JOINED}").columns
    assert found is not None
    assert shown(found["o"]) == comes_from


@pytest.mark.parametrize(
    ("sql", "decide"),
    [
        (f"SELECT r.id {JOINED}", {"r.x": "JOIN", "s.x": "JOIN"}),
        ("SELECT r.id FROM r, s WHERE r.x < s.x AND s.y = 3", {"r.x": "JOIN", "s.x": "JOIN", "s.y": "FILTER"}),
        ("SELECT id FROM r JOIN s USING (id)", {"r.id": "JOIN", "s.id": "JOIN"}),
        (f"SELECT r.id {JOINED} WITHIN 5 SECONDS", {"r.ts": "JOIN", "r.x": "JOIN", "s.ts": "JOIN", "s.x": "JOIN"}),
        (
            f"SELECT r.id, COUNT(*) AS n {JOINED} GROUP BY r.id HAVING MAX(s.y) > 1",
            {"r.id": "GROUP_BY", "r.x": "JOIN", "s.x": "JOIN", "s.y": "FILTER"},
        ),
        ("SELECT x + 1 AS o, COUNT(*) FROM r GROUP BY 1", {"r.x": "GROUP_BY"}),
        ("SELECT x + 1 AS o FROM r ORDER BY o", {"r.x": "SORT"}),
        (
            "SELECT r.id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.x = r.x AND s.y > 2)",
            {"r.x": "JOIN", "s.x": "JOIN", "s.y": "FILTER"},
        ),
        ("SELECT r.id FROM r WHERE r.x IN (SELECT y FROM s)", {"r.x": "FILTER", "s.y": "FILTER"}),
        (
            "SELECT r.id FROM r ASOF JOIN s MATCH_CONDITION (r.ts >= s.ts) ON r.id = s.id",
            {"r.id": "JOIN", "r.ts": "JOIN", "s.id": "JOIN", "s.ts": "JOIN"},
        ),
    ],
)  # fmt: skip
def test_what_decides_which_rows_there_are(sql: str, decide: dict[str, str]) -> None:
    assert shown(of(sql).rows) == decide


@pytest.mark.parametrize(
    ("sql", "comes_from"),
    [
        ("WITH c AS (SELECT x * 2 AS o FROM r) SELECT MAX(o) AS o FROM c", {"r.x": "AGGREGATION"}),
        ("WITH c (o) AS (SELECT x FROM r) SELECT o FROM c", {"r.x": "IDENTITY"}),
        ("SELECT q.o FROM (SELECT r.id, s.y AS o FROM r JOIN s ON r.x < s.x) AS q", {"s.y": "IDENTITY"}),
        ("SELECT o FROM (SELECT x FROM r) AS q(o)", {"r.x": "IDENTITY"}),
        ("SELECT o FROM r AS q(a, o, c)", {"r.x": "IDENTITY"}),
        ("SELECT x AS o FROM r UNION ALL SELECT y FROM s", {"r.x": "IDENTITY", "s.y": "IDENTITY"}),
        ("SELECT 2 * x AS a, a + 1 AS o FROM r", {"r.x": "TRANSFORMATION"}),
        ("SELECT window.start AS o, COUNT(*) FROM r GROUP BY window(ts, '1 minute')", {"r.ts": "TRANSFORMATION"}),
        ("SELECT l.o FROM r LATERAL VIEW EXPLODE(SEQUENCE(1, x)) l AS o", {"r.x": "TRANSFORMATION"}),
        ("SELECT q.o FROM r, LATERAL (SELECT s.y AS o FROM s WHERE s.id = r.id) AS q", {"s.y": "IDENTITY"}),
        ("SELECT b AS o, o AS b FROM r", {}),  # Spark refuses it
    ],
)  # fmt: skip
def test_columns_are_followed(sql: str, comes_from: dict[str, str]) -> None:
    found = of(sql).columns
    assert found is not None
    assert shown(found["o"]) == comes_from


def test_a_star_has_every_column() -> None:
    found = of("SELECT * FROM r JOIN s USING (id)").columns
    assert found is not None
    assert {name: shown(inputs) for name, inputs in found.items() if name in ("id", "y")} == {
        "id": {"r.id": "IDENTITY"},
        "y": {"s.y": "IDENTITY"},
    }


def test_a_view_is_followed_to_its_streams() -> None:
    """What filters the view filters what reads it."""
    view = of("SELECT x * 2 AS twice, id FROM r WHERE ts IS NOT NULL")
    found = of("SELECT v.twice AS o FROM v JOIN s ON v.id = s.id", {"v": view})
    assert found.columns is not None
    assert shown(found.columns["o"]) == {"r.x": "TRANSFORMATION"}
    assert shown(found.rows) == {"r.id": "JOIN", "r.ts": "FILTER", "s.id": "JOIN"}


def test_the_corpus_as_sqlglot_sees_it() -> None:
    """Direct and per column. It knows neither the case of Spark's names nor LATERAL: two files are left out."""
    compared = 0
    root = Path(__file__).parents[2] / "queries"
    for path in (
        path
        for room in ("pair", "chain", "cyclic", "nway", "nexmark", "negative")
        for path in (root / room).glob("*.sql")
    ):
        if path.name in ("named_columns.sql", "lateral.sql"):
            continue
        catalog, statements = read_with_places(path.read_text("utf-8"))
        schema = {name: {column.name: column.type for column in info.columns} for name, info in catalog.tables}
        for _, sql in statements:
            tree = parse_statement(sql).tree
            ours = lineage(resolve(tree.copy(), catalog), {}) if tree is not None else Lineage(None)
            for name, inputs in (ours.columns or {}).items():
                assert tree is not None
                theirs = sqlglots(name, tree.copy(), schema)
                if theirs is not None:
                    compared += 1
                    assert {(table.lower(), column.lower()) for table, column in inputs} == theirs, (path.name, name)
    assert compared > 60


def sqlglots(name: str, tree: exp.Expr, schema: dict[str, dict[str, str]]) -> set[tuple[str, str]] | None:
    for select in tree.find_all(exp.Select):
        select.set("within", None)
        select.set("hint", None)
    try:
        nodes = list(of_sqlglot(name, tree, schema=schema, dialect="databricks").walk())
    except (SqlglotError, ValueError):  # a name that it does not find
        return None
    leaves = [node for node in nodes if not node.downstream and isinstance(node.expression, exp.Table)]
    return {(node.expression.name.lower(), node.name.rpartition(".")[2].strip('"`').lower()) for node in leaves}
