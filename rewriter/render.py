"""From the converted plan back to SQL: the rest of the query over the outputs of the join nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from sqlglot import exp

from ..errors import PlanError
from .aggregation import replaced
from .bounds import input_scan
from .dialect import DIALECT, identifier, parse_expression, quote, render
from .hints import is_our_hint
from .names import star_fields
from .parse import Binding, MergedTree, Parsed, base_fields, expand, plan_text, relation_sql, tables_of
from .plan import (
    Block,
    Column,
    Filter,
    Join,
    JoinNode,
    LeftAlone,
    Node,
    Predicate,
    Query,
    Scan,
    StaticJoin,
    Where,
    scans,
    walk,
)
from .predicates import columns_of, remap
from .result_time import RESULT_TIME, event_times, is_wanted, latest_of
from .rules.prune_columns import read_by_node
from .scopes import Cte, Field, JoinTree, Source, Tree, field_of

_JOINS = {
    "inner": "JOIN",
    "cross": "CROSS JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
}


def render_query(plan: Node, parsed: Parsed, case_sensitive: bool = False) -> Query:
    """Write the SQL of every converted SELECT anew, inner ones first, and return the plan that is executed."""
    blocks = {node.number: node for node in walk(plan) if isinstance(node, Block)}
    nodes: dict[str, JoinNode] = {}
    for number in sorted(blocks):
        _BlockRenderer(blocks[number], parsed.bindings[number], nodes, parsed.resolution.reads, case_sensitive).run()
    tree = parsed.resolution.tree
    drop_unused_ctes(tree)
    return Query(render(without_our_clauses(tree)), _mentioned(tree.find_all(exp.Table), nodes))


def without_our_clauses(tree: exp.Expr) -> exp.Expr:
    """Return a query without our hints and without WITHIN, for Spark."""
    copy = tree.copy()
    for select in copy.find_all(exp.Select):
        select.set("within", None)
        hint = select.args.get("hint")
        if isinstance(hint, exp.Hint):
            kept = [item for item in hint.expressions if not is_our_hint(item)]
            select.set("hint", exp.Hint(expressions=kept) if kept else None)
    return copy


def drop_unused_ctes(tree: exp.Expr) -> None:
    """Remove, in place, the common table expressions that nothing reads any more."""
    for with_ in list(tree.find_all(exp.With)):
        for cte in reversed(list(with_.expressions)):
            own = {id(table) for table in cte.find_all(exp.Table)}
            name = cte.alias.lower()
            if not any(t.name.lower() == name and id(t) not in own for t in tree.find_all(exp.Table)):
                with_.set("expressions", [other for other in with_.expressions if other is not cte])
        if not with_.expressions and with_.parent is not None:
            with_.parent.set("with_", None)


def _mentioned(tables: Iterable[exp.Table], nodes: Mapping[str, JoinNode]) -> tuple[Node, ...]:
    names = {table.name for table in tables}
    return tuple(node for name, node in nodes.items() if name in names)


class _BlockRenderer:
    """Renders one SELECT in place."""

    def __init__(
        self,
        block: Block,
        binding: Binding,
        nodes: dict[str, JoinNode],
        reads: dict[int, Cte],
        case_sensitive: bool,
    ) -> None:
        self.block, self.binding, self.nodes, self.reads = block, binding, nodes, reads
        self.case_sensitive = case_sensitive
        self.columns: dict[tuple[str, str], tuple[str, str]] = {}
        self.sources: dict[str, Source] = {}
        self.times: dict[frozenset[tuple[str, str]], str] = {}
        self.merges: dict[str, str] = {}

    def run(self) -> None:
        mine = [node for node in _own(self.block.input) if isinstance(node, JoinNode)]
        if not mine:
            return
        self.find_sources()
        for node in mine:
            times = event_times(node)
            if times and is_wanted(node, self.binding.block.select):
                self.times[times] = node.name
            self.nodes[node.name] = self.final_node(node)
            for column in node.output:
                self.columns[column.relation, column.column] = (node.name, column.name)
            if node.aggregation is not None:
                self.merges.update(node.aggregation.merges)
                self.merges.update((key.text, f"{quote(node.name)}.{key.name}") for key in node.aggregation.keys)
        self.rewrite_select()

    def find_sources(self) -> None:
        def visit(tree: Tree) -> None:
            match tree:
                case JoinTree():
                    visit(tree.left)
                    visit(tree.right)
                case MergedTree():
                    visit(tree.inner.tree)
                case _:
                    self.sources[tree.plan_alias] = tree

        visit(self.binding.block.tree)

    # -------------------------------------------------------------------------------------------------------- inputs

    def final_node(self, node: JoinNode) -> JoinNode:
        """Return a node with the final text of its inputs; an input that is a join itself becomes a derived table."""
        sources: list[Node] = []
        moved: dict[tuple[str, str], tuple[str, str]] = {}
        for source in node.sources:
            if isinstance(_unfiltered(source), Scan):
                sources.append(self.final_source(source))
            else:
                sources.append(self.derived_scan(source, node, moved))

        def column(alias: str, name: str) -> exp.Expr | None:
            found = moved.get((alias, name))
            return exp.column(identifier(found[1]), identifier(found[0])) if found else None

        def moved_predicate(predicate: Predicate) -> Predicate:
            if predicate.left is None or predicate.right is None or not moved:
                return predicate
            guards = tuple((moved_alias(alias, sql), remap(sql, column)) for alias, sql in predicate.guards)
            left, right = remap(predicate.left, column), remap(predicate.right, column)
            return dataclasses.replace(predicate, left=left, right=right, guards=guards)

        def moved_alias(alias: str, sql: str) -> str:
            return next((moved[pair][0] for pair in columns_of(sql) if pair in moved), alias)

        def moved_expression(one: Any) -> Any:
            if one.sql is None:
                return one
            relations = tuple(dict.fromkeys(moved_alias(alias, one.sql) for alias in one.relations))
            return dataclasses.replace(one, sql=remap(one.sql, column), relations=relations[:1])

        edges = tuple(
            dataclasses.replace(edge, predicates=tuple(map(moved_predicate, edge.predicates)))
            for edge in node.graph.edges
        )
        output = []
        for item in node.output:
            alias, name = moved.get((item.relation, item.column), (item.relation, item.column))
            output.append(dataclasses.replace(item, relation=alias, column=name))
        graph = dataclasses.replace(node.graph, edges=edges)
        aggregation = node.aggregation
        if aggregation is not None and moved:
            aggregation = dataclasses.replace(
                aggregation,
                keys=tuple(map(moved_expression, aggregation.keys)),
                states=tuple(map(moved_expression, aggregation.states)),
            )
        return dataclasses.replace(
            node, sources=tuple(sources), graph=graph, output=tuple(output), aggregation=aggregation
        )

    def derived_scan(self, source: Node, node: JoinNode, moved: dict[tuple[str, str], tuple[str, str]]) -> Node:
        """Return a join below a group (an outer join, a stream with its static relations) as a scan."""
        inside = [self.final_scan(scan) for scan in scans(source)]
        read = [self.final_scan(scan) for scan in _read_here(source)]  # the others come as the output of a join node
        first, stands = inside[0], input_scan(source)
        aliases = {scan.alias for scan in inside}
        wanted = [pair for pair in sorted(read_by_node(node)) if pair[0] in aliases]
        if stands.event_time is not None and (first.alias, stands.event_time) not in wanted:
            wanted += [(first.alias, c.name) for c in first.columns if c.name == stands.event_time]
        types = {(scan.alias, column.name): column.type for scan in inside for column in scan.columns}
        taken = {name.lower() for alias, name in wanted if alias == first.alias}
        items, columns = [], []
        for alias, name in wanted:
            unique = base = name if alias == first.alias else f"{alias}__{name}"
            number = 2
            while alias != first.alias and unique.lower() in taken:
                unique, number = f"{base}_{number}", number + 1
            taken.add(unique.lower())
            moved[alias, name] = (first.alias, unique)
            items.append(f"{self.remap(f'{quote(alias)}.{quote(name)}')} AS {quote(unique)}")
            columns.append(Column(unique, types.get((alias, name), "unknown")))
        text, conditions = self.from_sql(source), ""
        if isinstance(source, StaticJoin) and source.predicates:
            conditions = " WHERE " + " AND ".join(_wrapped(self.remap(p.rendered or p.sql)) for p in source.predicates)
        return dataclasses.replace(
            first,
            event_time=stands.event_time,
            streaming=stands.streaming,
            relation=f"(SELECT {', '.join(items) or '1'} FROM {text}{conditions})",
            columns=tuple(columns),
            ctes=tuple(dict(pair for scan in read for pair in scan.ctes).items()),
            below=(*_outermost(source, self.nodes), *dict.fromkeys(one for scan in read for one in scan.below)),
        )

    def final_source(self, node: Node) -> Node:
        if isinstance(node, Scan):
            return self.final_scan(node)
        return node.with_inputs(tuple(self.final_source(below) for below in node.inputs))

    def final_scan(self, scan: Scan) -> Scan:
        source = self.sources.get(scan.alias)
        if source is None:
            return scan
        drop_unused_ctes(source.item)
        ctes = _ctes_of(source, self.reads)
        tables = [*tables_of(source), *(table for cte in ctes for table in cte.node.find_all(exp.Table))]
        return dataclasses.replace(
            scan,
            relation=relation_sql(source),
            ctes=tuple((cte.name, cte_sql(cte)) for cte in ctes),
            below=_mentioned(tables, self.nodes),
        )

    # -------------------------------------------------------------------------------------------------------- SELECT

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
        left_over: list[str] = []
        if isinstance(tree, Where):
            left_over = [self.remap(p.rendered or p.sql) for p in tree.predicates]
            tree = tree.input
        stuck = [self.rewrite(conjunct) for conjunct in (*self.binding.stuck, *self.binding.floating)]
        conditions = [*(parse_expression(text).copy() for text in left_over), *stuck]
        select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)
        skeleton = DIALECT.parse(f"SELECT 1 FROM {self.from_sql(tree)}")[0]
        if skeleton is None:
            raise PlanError("the rewritten FROM does not parse")
        select.set("from_", skeleton.args["from_"])
        select.set("joins", skeleton.args.get("joins"))
        self.say_again_what_reads_ctes(select)

    def say_again_what_reads_ctes(self, select: exp.Select) -> None:
        """Find the common table expressions of tables written anew, from text: a block above looks for them."""
        for table in select.find_all(exp.Table):
            name = table.name if self.case_sensitive else table.name.lower()
            cte, known = self.binding.block.ctes.get(name), self.reads.get(id(table))
            if cte is not None and not table.args.get("db") and (known is None or known.name.lower() != name.lower()):
                self.reads[id(table)] = cte

    def item(self, item: exp.Expr) -> list[exp.Expr]:
        stars = star_fields(item, self.binding.block.frame, self.case_sensitive)
        if stars is not None:
            return [exp.alias_(self.expression(field), identifier(field.name), copy=False) for field in stars]
        if isinstance(item, exp.Column | exp.Dot) and not isinstance(item, exp.Star):
            name = item.name
            return [exp.alias_(self.rewrite(item), identifier(name), copy=False)]
        if not isinstance(item, exp.Alias | exp.Aliases) and self.block_is_nested():
            return [exp.alias_(self.rewrite(item), exp.to_identifier(render(item), quoted=True), copy=False)]
        return [self.rewrite(item)]

    def block_is_nested(self) -> bool:
        parent = self.binding.block.select.parent
        return isinstance(parent, exp.CTE) or (
            isinstance(parent, exp.Subquery) and isinstance(parent.parent, exp.From | exp.Join)
        )

    def expression(self, field: Field) -> exp.Expr:
        column = exp.Column(this=identifier(field.name))
        column.meta["field"] = field
        return expand(column, self.column)

    def column(self, field: Field) -> exp.Expr:
        if field.source is None:
            raise PlanError(f"the column {field.name} belongs to no relation")
        alias, name = field.source.plan_alias or field.source.alias, field.name
        node, output = self.columns.get((alias, name), (alias, name))
        return exp.column(identifier(output), identifier(node))

    def is_mine(self, field: Field) -> bool:
        if field.tree is not None:
            return any(self.is_mine(base) for base in base_fields(field.tree))
        return field.source is not None and self.sources.get(field.source.plan_alias) is field.source

    def rewrite(self, tree: exp.Expr) -> exp.Expr:
        """Write the columns of this SELECT anew, in place; subqueries inside may refer to them too."""
        if self.merges:
            return replaced(tree, self.merges, plan_text)
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
        """Return the event time of a node's results where an expression is just that, and let the node put it out."""
        name = self.times.get(latest_of(tree))
        node = self.nodes.get(name) if name is not None else None
        if node is None or not event_times(node):  # an input that became optional has no event time left
            return None
        self.nodes[node.name] = dataclasses.replace(node, result_time=RESULT_TIME)
        return exp.column(identifier(RESULT_TIME), identifier(node.name))

    def remap(self, text: str) -> str:
        def column(alias: str, name: str) -> exp.Expr | None:
            found = self.columns.get((alias, name))
            return exp.column(identifier(found[1]), identifier(found[0])) if found else None

        return remap(text, column)

    def order_by_outputs(self, select: exp.Select) -> None:
        """Let ORDER BY name outputs: a column below SELECT DISTINCT or GROUP BY is out of its reach."""
        names = [item.alias_or_name.lower() for item in select.expressions]
        outputs = [
            (item.this, item.args["alias"])
            for item in select.expressions
            if isinstance(item, exp.Alias) and names.count(item.alias.lower()) == 1
        ]
        for key in ("order", "sort"):
            clause = select.args.get(key)
            for ordered in clause.expressions if clause else []:
                for tree, name in outputs:
                    if ordered.this == tree:
                        ordered.set("this", exp.Column(this=name.copy()))
                        break
                else:
                    if select.args.get("distinct"):
                        _replace_columns(ordered, outputs)

    # ---------------------------------------------------------------------------------------------------------- FROM

    def from_sql(self, node: Node) -> str:
        match node:
            case JoinNode():
                return quote(node.name)
            case Scan():
                return self.item_sql(node)
            case Filter(conditions=conditions, input=below):
                where = " AND ".join(f"({condition})" for condition in conditions)
                alias = quote(_scan(below).alias)
                return f"(SELECT * FROM {self.from_sql(below)} WHERE {where}) AS {alias}"
            case Join():
                right = self.from_sql(node.right)
                if _is_join(node.right):
                    right = f"({right})"
                text = f"{self.from_sql(node.left)} {_JOINS[node.kind]} {right}"
                conditions = tuple(self.remap(p.rendered or p.sql) for p in node.predicates)
                return text + (f" ON {' AND '.join(map(_wrapped, conditions))}" if conditions else "")
            case StaticJoin():
                return " CROSS JOIN ".join(map(self.from_sql, node.inputs))
            case LeftAlone():
                return self.from_sql(node.input)
            case Where():
                raise PlanError("a condition is in the middle of a FROM")
        return self.from_sql(node.inputs[0])

    def item_sql(self, scan: Scan) -> str:
        source = self.sources.get(scan.alias)
        if source is None:
            return f"{scan.relation} AS {quote(scan.alias)}"
        return f"{relation_sql(source)} AS {quote(scan.alias)}"


def _is_second_branch(select: exp.Select) -> bool:
    """Tell whether a SELECT is a branch of a set operation that gives it no names."""
    tree: exp.Expr = select
    while isinstance(tree.parent, exp.Subquery) and tree.parent.this is tree:
        tree = tree.parent
    parent = tree.parent
    return isinstance(parent, exp.SetOperation) and parent.expression is tree and not parent.args.get("by_name")


def _without_repeated_aliases(items: list[exp.Expr]) -> list[exp.Expr]:
    """Leave out the alias of a column that comes again under the same one: there Spark's optimizer fails in a UNION."""
    result: list[exp.Expr] = []
    for item in items:
        result.append(item.this if isinstance(item, exp.Alias) and item in result else item)
    return result


def _wrapped(condition: str) -> str:
    return f"({condition})" if isinstance(parse_expression(condition), exp.Or) else condition


def _replace_columns(tree: exp.Expr, outputs: list[tuple[exp.Expr, exp.Identifier]]) -> None:
    for node in list(tree.find_all(exp.Column)):
        for output, name in outputs:
            if node == output:
                node.replace(exp.Column(this=name.copy()))
                break


def _own(node: Node) -> Iterable[Node]:
    """Yield the nodes of one SELECT's tree bottom up, not those of derived tables."""
    if not isinstance(node, Scan):
        for below in node.inputs:
            yield from _own(below)
    yield node


def _unfiltered(node: Node) -> Node:
    while isinstance(node, Filter):
        node = node.input
    return node


def _outermost(node: Node, nodes: Mapping[str, JoinNode]) -> tuple[Node, ...]:
    """Return the final form of the join nodes that a tree reads."""
    if isinstance(node, JoinNode):
        return (nodes[node.name],)
    if isinstance(node, Scan):
        return ()
    return tuple(found for below in node.inputs for found in _outermost(below, nodes))


def _read_here(node: Node) -> tuple[Scan, ...]:
    """Return the relations of a tree that its FROM names: those outside join nodes."""
    if isinstance(node, Scan):
        return (node,)
    if isinstance(node, JoinNode):
        return ()
    return tuple(scan for below in node.inputs for scan in _read_here(below))


def _is_join(node: Node) -> bool:
    while not isinstance(node, Join | JoinNode | Scan | Filter):
        node = node.inputs[0]
    return isinstance(node, Join)


def _scan(node: Node) -> Scan:
    while not isinstance(node, Scan):
        node = node.inputs[0]
    return node


def _ctes_of(source: Source, reads: Mapping[int, Cte]) -> list[Cte]:
    """Return the common table expressions that a relation reads, in the order of their definition."""
    found: dict[int, Cte] = {}
    inside = {id(node) for node in source.item.find_all(exp.CTE)}

    def visit(tables: Iterable[exp.Table]) -> None:
        for table in tables:
            cte = reads.get(id(table))
            if cte is not None and id(cte) not in found:
                visit(cte.node.this.find_all(exp.Table))
                if id(cte.node) not in inside:
                    found[id(cte)] = cte

    visit(tables_of(source))
    return list(found.values())


def cte_sql(cte: Cte) -> str:
    """Return a common table expression's query, its column list applied."""
    columns = cte.node.args["alias"].columns
    body = render(without_our_clauses(cte.node.this))
    if not columns:
        return body
    return f"SELECT * FROM ({body}) AS {quote(cte.name)}({', '.join(render(column) for column in columns)})"
