"""From the converted plan back to SQL: the rest of the query over the outputs of the join nodes."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from ...errors import PlanError
from ..aggregates.two_steps import replaced
from ..event_time.bounds import input_scan
from ..event_time.event_times import RESULT_TIME, event_times
from ..names.lookup import column_of, given_name, star_fields
from ..names.scopes import Field, field_of
from ..names.time_uses import latest_of
from ..parse import Binding, Parsed, base_fields, expand, plan_text
from ..plan.nodes import Block, JoinNode, Node, Query, Where, own_tree, walk
from ..sql.dialect import identifier, quote, render
from ..sql.hints import without_our_clauses
from .from_clause import FromClause, drop_unused_ctes, mentioned


def render_query(plan: Node, parsed: Parsed) -> Query:
    """Rewrite the SQL of every converted SELECT, inner ones first, and return the plan to run."""
    blocks = {node.number: node for node in walk(plan) if isinstance(node, Block)}
    nodes: dict[str, JoinNode] = {}
    if not any(block.problem for block in parsed.resolution.blocks):
        _name_items(parsed.resolution.tree)
    for number in sorted(blocks):
        _BlockRenderer(blocks[number], parsed.bindings[number], nodes).run()
    tree = parsed.resolution.tree
    drop_unused_ctes(tree)
    return Query(render(without_our_clauses(tree)), mentioned(tree.find_all(exp.Table), nodes))


class _BlockRenderer:
    """Renders one SELECT in place."""

    def __init__(self, block: Block, binding: Binding, nodes: dict[str, JoinNode]) -> None:
        self.block, self.binding, self.nodes = block, binding, nodes
        self.from_ = FromClause(binding.block.tree, binding.block.select, nodes)
        self.times: dict[frozenset[tuple[str, str]], str] = {}
        self.merges: dict[str, str] = {}

    def run(self) -> None:
        mine = [node for node in own_tree(self.block.input) if isinstance(node, JoinNode)]
        for node in mine:
            times = event_times(node)
            if times and all(input_scan(source).event_time for source in node.sources):  # none that lags without bound
                self.times[times] = node.name
            self.from_.finish(node)
            if node.aggregation is not None:
                self.merges.update(node.aggregation.merges)
                self.merges.update((key.text, f"{quote(node.name)}.{key.name}") for key in node.aggregation.keys)
        if mine:
            self.rewrite_select()

    def rewrite_select(self) -> None:
        select = self.binding.block.select
        items: list[exp.Expr] = []
        for item in select.expressions:
            items += self.item(item)
        select.set("expressions", _without_repeated_aliases(items) if _is_second_branch(select) else items)
        for key, value in list(select.args.items()):
            if key in ("expressions", "from_", "joins", "where", "hint", "within", "with_") or not value:
                continue
            if isinstance(value, list):
                select.set(key, [self.rewrite(tree) if isinstance(tree, exp.Expr) else tree for tree in value])
            elif isinstance(value, exp.Expr):
                select.set(key, self.rewrite(value))
        self.order_by_outputs(select)
        tree = self.block.input
        left_over: list[exp.Expr] = []
        if isinstance(tree, Where):
            left_over = [self.from_.tree(p.condition) for p in tree.predicates]
            tree = tree.input
        conditions = [*left_over, *(self.rewrite(conjunct) for conjunct in self.binding.stuck)]
        select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)
        self.from_.put(tree, select)

    def item(self, item: exp.Expr) -> list[exp.Expr]:
        stars = star_fields(item)
        if stars is not None:
            return [exp.alias_(expand(column_of(one), self.column), identifier(one.name), copy=False) for one in stars]
        if isinstance(item, exp.Column | exp.Dot) and not isinstance(item, exp.Star):
            name = item.name
            return [exp.alias_(self.rewrite(item), identifier(name), copy=False)]
        return [self.rewrite(item)]

    def column(self, field: Field) -> exp.Expr:
        if field.source is None:
            raise PlanError(f"the column {field.name} belongs to no relation")
        alias, name = field.source.plan_alias or field.source.alias, field.name
        node, output = self.from_.columns.get((alias, name), (alias, name))
        return exp.column(identifier(output), identifier(node))

    def is_mine(self, field: Field) -> bool:
        if field.tree is not None:
            bases = list(base_fields(field.tree))
            return any(map(self.is_mine, bases)) if bases else self.offers(field)
        return field.source is not None and self.from_.sources.get(field.source.plan_alias) is field.source

    def offers(self, field: Field) -> bool:
        """Tell whether a constant is a column of a derived table of this SELECT."""
        frame = self.binding.block.frame
        return field in frame.visible or any(field in (source.fields or ()) for source in frame.sources)

    def rewrite(self, tree: exp.Expr) -> exp.Expr:
        """Rewrite the columns of this SELECT, in place; subqueries inside may refer to them too."""
        if self.merges:
            tree = replaced(tree, self.merges, plan_text)
        for call in list(tree.find_all(exp.Anonymous, exp.Column)) if self.times else ():
            time = self.result_time(call)
            if time is not None and call is tree:
                return time
            if time is not None:
                call.replace(time)
        found = field_of(tree) if isinstance(tree, exp.Column) else None
        if found is not None:
            return expand(tree, self.column) if self.is_mine(found) else tree
        for node in list(tree.find_all(exp.Column)):
            field = field_of(node)
            if field is not None and self.is_mine(field):
                node.replace(expand(node, self.column))
        return tree

    def result_time(self, tree: exp.Expr) -> exp.Expr | None:
        """Return the event time of a node's results if an expression is just that, and make the node put it out."""
        name = self.times.get(latest_of(tree))
        node = self.nodes.get(name) if name is not None else None
        if node is None or not event_times(node):  # an input that became optional has lost its event time
            return None
        if (node.behind or 0) > 0:  # the last row of a result may have waited below
            return None
        marked = (*node.event_times, RESULT_TIME) if RESULT_TIME not in node.event_times else node.event_times
        self.nodes[node.name] = dataclasses.replace(node, result_time=RESULT_TIME, event_times=marked)
        return exp.column(identifier(RESULT_TIME), identifier(node.name))

    def order_by_outputs(self, select: exp.Select) -> None:
        """Make ORDER BY name outputs: it cannot reach a column below SELECT DISTINCT or GROUP BY."""
        names = [item.alias_or_name.lower() for item in select.expressions]
        outputs = [
            (item.this, item.args["alias"])
            for item in select.expressions
            if isinstance(item, exp.Alias) and names.count(item.alias.lower()) == 1
        ]
        for clause in (select.args[key] for key in ("order", "sort") if select.args.get(key)):
            for ordered in clause.expressions:
                if isinstance(ordered.this, exp.Literal):
                    continue  # the position of an output
                columns = ordered.find_all(exp.Column) if select.args.get("distinct") else ()
                for node in (ordered.this, *columns):
                    name = next((name for tree, name in outputs if tree == node), None)
                    if name is not None:
                        node.replace(exp.Column(this=name.copy()))


def _name_items(tree: exp.Expr) -> None:
    """Give unnamed items of derived tables and CTEs the name by which the SELECTs above know them."""
    for select in tree.find_all(exp.Select):
        if _gives_names(select):
            for item in [one for one in select.expressions if not isinstance(one, exp.Alias | exp.Aliases)]:
                name = given_name(item)
                if name is not None:
                    item.replace(exp.alias_(item.copy(), exp.to_identifier(name, quoted=True), copy=False))


def _gives_names(select: exp.Select) -> bool:
    """Tell whether a SELECT names the columns of a derived table or a CTE."""
    tree: exp.Expr = select
    while isinstance(tree.parent, exp.SetOperation | exp.Subquery) and tree.parent.this is tree:
        tree = tree.parent
        if isinstance(tree.parent, exp.From | exp.Join):
            return True
    return isinstance(tree.parent, exp.CTE)


def _is_second_branch(select: exp.Select) -> bool:
    """Tell whether a SELECT is a branch of a set operation whose names come from another branch."""
    tree: exp.Expr = select
    while isinstance(tree.parent, exp.Subquery) and tree.parent.this is tree:
        tree = tree.parent
    parent = tree.parent
    return isinstance(parent, exp.SetOperation) and parent.expression is tree and not parent.args.get("by_name")


def _without_repeated_aliases(items: list[exp.Expr]) -> list[exp.Expr]:
    """Leave out a repeated alias of the same column: Spark's optimizer fails on it in a UNION."""
    result: list[exp.Expr] = []
    for item in items:
        result.append(item.this if isinstance(item, exp.Alias) and item in result else item)
    return result
