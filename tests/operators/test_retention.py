"""How long EXPLAIN says that rows are kept is how long the units keep them."""

from __future__ import annotations

from trijoin_sql.operators.compile.node import _bounds
from trijoin_sql.operators.spec import JoinSpec, StreamSpec
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.nodes import JoinNode, walk
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import TriJoinError

from ..rewriter.goldens import queries


def test_explain_promises_what_the_units_do() -> None:
    """Both derive it from the closed bounds on event time, each in its own module: over the corpus, trees included."""
    compared = 0
    for path in queries():
        catalog, statements = read_script(path.read_text("utf-8"))
        try:
            plan = rewrite(statements[0], catalog).plan
        except TriJoinError:
            continue
        for node in walk(plan) if plan is not None else ():
            if isinstance(node, JoinNode):
                streams = tuple(StreamSpec(alias, (), (), "route") for alias in node.graph.relations)
                spec = JoinSpec(node.name, streams, (), "matrix", 1, bounds=_bounds(node))
                kept = {stream.alias: spec.keep_for(rank) for rank, stream in enumerate(streams)}
                assert {one.alias: one.keep_for for one in node.retention}.items() <= kept.items(), path
                compared += sum(one.keep_for is not None for one in node.retention)
    assert compared > 10
