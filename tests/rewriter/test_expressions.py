"""Expressions are what sqlglot reads, typed; and their text is what it writes."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
from sqlglot import exp
from trijoin_sql.rewriter.aggregates.state_types import argument_type
from trijoin_sql.rewriter.plan.expr import Call, Column, Constant, Expr, parts_of, rebuilt
from trijoin_sql.rewriter.sql.declarations import read_script
from trijoin_sql.rewriter.sql.dialect import DIALECT, parse_expression, render
from trijoin_sql.rewriter.sql.expressions import expression, parsed
from trijoin_sql.rewriter.sql.statement import parse_statement

from .goldens import queries
from .random_queries import random_query

TYPES = {"i": "int", "b": "bigint", "m": "decimal(10,2)", "x": "double", "ts": "timestamp", "d": "date", "s": "string"}


def conditions(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the expressions of a statement that have no subquery."""
    for node in tree.find_all(exp.Select):
        found = [item.unalias() for item in node.expressions]
        found += [join.args["on"] for join in node.args.get("joins") or () if join.args.get("on")]
        found += [node.args[key].this for key in ("where", "having") if node.args.get(key)]
        yield from (one for one in found if not one.find(exp.Query) and not isinstance(one, exp.Star))


def agrees(tree: exp.Expr) -> bool:
    before, found = repr(tree), expression(tree)
    read = {(column.table, column.name) for column in tree.find_all(exp.Column)}
    return found.sql == render(tree) and set(found.columns) == read and repr(tree) == before


def test_the_text_of_random_queries() -> None:
    dice, count = random.Random(7), 0
    for _ in range(150):
        for tree in conditions(DIALECT.parse(random_query(dice))[0] or exp.Null()):
            assert agrees(tree), render(tree)
            count += 1
    assert count > 600


def test_the_text_of_the_corpus() -> None:
    count = 0
    for path in queries():
        _, statements = read_script(path.read_text(encoding="utf-8"))
        text = re.sub(r"^INSERT INTO \w+\s+", "", statements[-1])
        for tree in conditions(parse_statement(text).tree or exp.Null()):
            assert agrees(tree), render(tree)
            count += 1
    assert count > 100


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("- -r.i", Call("NEG", (Call("NEG", (Column(("r", "i"), "r.i"),), ("-", "")),), ("- ", ""))),
        ("r.i BETWEEN SYMMETRIC 1 AND 2", parsed("(r.i BETWEEN 1 AND 2 OR r.i BETWEEN 2 AND 1)")),
        ("ABS(r.i)", parsed("abs(r.i)")),
        ("INTERVAL '1-2' YEAR TO MONTH", Constant("INTERVAL '1-2' YEAR TO MONTH", ((1, "YEAR"), (2, "MONTH")))),  # type: ignore[arg-type]
    ],
)
def test_what_is_equal(text: str, wanted: Expr) -> None:
    assert parsed(text) == wanted
    assert hash(parsed(text)) == hash(wanted)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("r.i + r.b", "bigint"),
        ("r.i - 1.5", "unknown"),
        ("r.ts + INTERVAL '1' HOUR", "timestamp"),
        ("r.d + 1", "date"),
        ("r.d + INTERVAL '1' HOUR", "unknown"),
        ("(r.i < r.b) AND r.s LIKE 'x'", "boolean"),
        ("CAST(r.s AS DECIMAL(5, 1))", "decimal(5,1)"),
        ("CAST(r.s AS DECIMAL(5))", "decimal(5,0)"),
        ("abs(r.s)", "double"),
        ("r.x * r.i", "double"),
        ("5L", "bigint"),
    ],
)
def test_types(text: str, kind: str) -> None:
    assert parsed(text, lambda column: TYPES[column.name]).type == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("r.m * 2 + r.i", "decimal(13,2)"),
        ("-(r.m - 1.5)", "decimal(11,2)"),
        ("CASE WHEN r.i > 1 THEN r.m ELSE r.b END", "decimal(22,2)"),
        ("CASE WHEN r.i > 1 THEN r.i ELSE r.x END", "double"),
        ("coalesce(r.m, NULL)", "decimal(10,2)"),
        ("greatest(r.m, r.x)", "unknown"),
    ],
)
def test_types_of_what_is_added_up(text: str, kind: str) -> None:
    assert argument_type(parsed(text, lambda column: TYPES[column.name])) == kind


def test_columns_are_replaced_and_nothing_else_changes() -> None:
    text = "CASE WHEN r.i IN (1, 2) THEN r.s ELSE date_format(r.d, 'yyyy') END = r.`a b`"
    before = parsed(text)
    after = rebuilt(before, lambda one: Column(("t", one.at[1]), f"t.{one.at[1]}") if one.op == "COLUMN" else one)  # type: ignore[union-attr]
    assert after.sql == "CASE WHEN t.i IN (1, 2) THEN t.s ELSE date_format(t.d, 'yyyy') END = t.a b"
    assert before == parsed(text)
    assert sum(isinstance(part, Column) for part in parts_of(before)) == 4


def test_a_sum_of_a_thousand_columns_is_read() -> None:
    text = " + ".join(["r.i"] * 300)
    assert parsed(text).sql == text == render(parse_expression(text))
    chain = " OR ".join(f"r.i = {number}" for number in range(3000))
    assert len(parsed(chain).args) == 3000
