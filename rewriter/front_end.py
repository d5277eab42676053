"""The front end of SQL text: `read` makes a plan of a statement, and `Reading.put_back` a statement of the plan.

The stages between the two know a query by its plan alone. What a plan does not say (the syntax tree, the scope of each
name) stays in here, so that another front end, such as one over Spark's analysed plans, has only these two to offer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from ..errors import UnsupportedQueryError
from .exists import as_semi_joins
from .names.resolve import resolve
from .on_streams import NOT_IN, not_exists
from .options import Settings
from .parse import build_plan, computed_anew
from .plan.nodes import Node, Query
from .render.select import render_query
from .sql.arguments import Arguments, put_into_conditions
from .sql.catalog import Catalog
from .sql.dialect import render
from .sql.hints import positional, without_our_clauses
from .sql.statement import Statement


@dataclass(frozen=True)
class Reading:
    """A statement as a plan.

    Parameters
    ----------
    plan
        One `Block` for each SELECT that joins.
    put_back
        Returns the query for Spark over the join nodes of a converted plan, with the nodes in their final form. It may
        be called once.
    joined
        The statement with joins where it has subqueries over streams, which Spark does not even analyse; None without
        any.
    """

    plan: Query
    put_back: Callable[[Node], Query]
    joined: str | None = None


def read(statement: Statement, catalog: Catalog, settings: Settings, arguments: Arguments = None) -> Reading:
    """Read a query.

    Raises
    ------
    UnsupportedQueryError
        A join reads a stream that is computed anew each time; or WITHIN stands in a SELECT without a join.
    InvalidHintError
        One of our hints cannot be followed.
    """
    assert statement.tree is not None
    tree = statement.tree.copy()
    put_into_conditions(arguments, tree)
    resolution, joined = resolve(tree, catalog, settings), None
    if as_semi_joins(resolution, catalog.types_of):
        joined = positional(render(without_our_clauses(tree)), statement.positional)
        resolution = resolve(tree, catalog, settings)
    parsed = build_plan(resolution)
    for block in parsed.resolution.blocks:
        for source in block.sources if len(block.sources) > 1 else ():
            if (why := computed_anew(source)) is not None and source.info is not None and source.info.streaming:
                raise UnsupportedQueryError(why, "write its values to a table or a topic first, and join that")
    bound = {id(binding.block.select) for binding in parsed.bindings.values()}
    if any(select.args.get("within") and id(select) not in bound for select in tree.find_all(exp.Select)):
        found = NOT_IN.search(statement.sql)
        hint = not_exists(found)[1] if found else None
        raise UnsupportedQueryError("WITHIN bounds a join, and its SELECT has none", hint, subject="WITHIN")
    return Reading(parsed.plan, lambda plan: render_query(plan, parsed), joined)
