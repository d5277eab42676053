"""What a term says of itself is what its text says."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
from sqlglot import exp
from trijoin_sql.rewriter import pipeline
from trijoin_sql.rewriter.plan.conjuncts import ALWAYS, KINDS, Residual, Term
from trijoin_sql.rewriter.plan.nodes import Filter, Join, JoinNode, Node, StaticJoin, Where, scans, source_scan, walk
from trijoin_sql.rewriter.predicates.terms import Scope
from trijoin_sql.rewriter.sql.declarations import read_script
from trijoin_sql.rewriter.sql.dialect import parse_expression
from trijoin_sql.rewriter.sql.statement import parse_statement

from trijoin_sql.errors import TriJoinError

from ..shared_trees import intact, watched
from .goldens import queries
from .random_queries import random_query
from .tables import BATCH, CATALOG


def terms(plan: Node) -> Iterator[tuple[Term, Node]]:
    """Yield the terms over relations, each with the tree whose relations it reads."""
    for node in walk(plan):
        predicates = list(getattr(node, "predicates", ())) if isinstance(node, Join | Where | StaticJoin) else []
        if isinstance(node, JoinNode):
            predicates += [one for edge in node.graph.edges for one in edge.predicates]
            yield from ((term, node) for term in (node.aggregation.terms if node.aggregation is not None else ()))
        for one in predicates:
            assert one.kind in KINDS
            yield from ((term, node) for term in ((one.condition,) if isinstance(one, Residual) else one.terms))
        yield from ((term, node) for term in (node.conditions if isinstance(node, Filter) else ()))


def check(plan: Node) -> int:
    count = 0
    for term, node in terms(plan):
        scope = Scope.of(node)
        again = scope.read(parse_expression(term.sql))
        assert (again.sql, set(again.columns)) == (term.sql, set(term.columns)) or term.sql == ALWAYS
        owner = {scan.alias: scan.alias for scan in scans(node)}
        if isinstance(node, JoinNode):
            owner = {scan.alias: source_scan(source).alias for source in node.sources for scan in scans(source)}
        relations = {owner.get(alias, alias) for alias, _ in term.columns}
        assert set(term.relations) == relations or not relations
        assert term.type == again.type or "unknown" in (term.type, again.type)
        count += 1
    for one in walk(plan):
        for residual in one.graph.residuals if isinstance(one, JoinNode) else ():
            assert {alias for alias, _ in residual.condition.columns} <= {""}
    return count


@pytest.mark.parametrize("catalog", [CATALOG, BATCH], ids=["streams", "tables"])
def test_terms_of_random_queries(catalog: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every stage, and in the plan that runs."""
    seen = []
    monkeypatch.setattr(pipeline, "check_schema", lambda _name, _before, after: seen.append(check(after)))
    dice = random.Random(2711)
    for _ in range(50):
        try:
            result = pipeline.rewrite(random_query(dice), catalog)  # type: ignore[arg-type]
        except TriJoinError:
            continue
        if result.plan is not None:
            seen.append(check(result.plan))
    assert sum(seen) > 1500


@pytest.mark.parametrize("change", ["moved", "whole", "replaced"])
def test_a_change_of_a_shared_tree_is_seen(change: str) -> None:
    """The check after each file (`conftest.shared_trees`): of a node that is made a part of another one, too."""
    with watched() as made:
        shared = parse_expression("r.x + 1 < s.x")
        assert made == ["r.x + 1 < s.x"]
        assert intact(made[0])
        if change == "moved":
            exp.Neg(this=shared.this)
        elif change == "whole":
            exp.Paren(this=shared)
        else:
            shared.this.left.replace(exp.column("y", "r"))
        assert not intact(made[0])
    parse_expression.cache_clear()


def test_a_statement_stays_as_it_was_parsed() -> None:
    """It is planned again, such as with other arguments."""
    for path in queries():
        catalog, statements = read_script(path.read_text(encoding="utf-8"))
        statement = parse_statement(re.sub(r"^INSERT INTO \w+\s+", "", statements[-1]))
        before = repr(statement.tree)
        with suppress(TriJoinError):
            pipeline.rewrite(statement, catalog)
        assert repr(statement.tree) == before
