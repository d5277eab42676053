"""FROM over join nodes: the clause as a syntax tree, and the final text of what the nodes read.

The items of a FROM are copies of the user's own, so that their tables still say which common table expressions they
read (`scopes.cte_of`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

from sqlglot import exp

from ...errors import PlanError
from ..event_time.bounds import input_scan
from ..names.derived_tables import MergedTree
from ..names.scopes import Cte, JoinTree, Source, Tree, cte_of
from ..parse import relation_of, tables_of
from ..plan.conjuncts import Predicate, Term
from ..plan.joins import Closest
from ..plan.nodes import Filter, Join, JoinNode, Node, Scan, StaticJoin, Where, column_types, scans
from ..plan.parts import Column, named_columns, unused
from ..predicates.terms import MovedColumns, column_term, with_field_names
from ..rules.prune_columns import read_by_node
from ..sql.dialect import Nearest, identifier, parse_expression, quote, render
from ..sql.hints import join_hints, without_our_clauses
from .delays import lasting

#: Side and kind of a join.
_JOINS = {
    "inner": (None, None),
    "cross": (None, "CROSS"),
    "left": ("LEFT", None),
    "right": ("RIGHT", None),
    "full": ("FULL", None),
    "semi": ("LEFT", "SEMI"),
    "anti": ("LEFT", "ANTI"),
    "closest": (None, None),
    "left_closest": ("LEFT", None),
}


class FromClause:
    """The FROM of one SELECT.

    Parameters
    ----------
    tree
        Its relations.
    select
        The SELECT.
    nodes
        The join nodes in their final form, by name: those of inner SELECTs, and those that `finish` adds.
    """

    def __init__(self, tree: Tree, select: exp.Select, nodes: dict[str, JoinNode]) -> None:
        self.select, self.nodes = select, nodes
        self.sources = {source.plan_alias: source for source in _sources(tree)}
        #: By column of a relation, as ``(alias, name)``: the join node and its column that hold the values.
        self.columns = MovedColumns()

    def tree(self, term: Term) -> exp.Expr:
        """Return a term's tree over the columns of relations, or of the join nodes that replaced them."""
        named = dataclasses.replace(term, expr=with_field_names(term.expr))
        return parse_expression(self.columns.term(named).sql).copy()

    # ---------------------------------------------------------------------------------------------------- join nodes

    def finish(self, node: JoinNode) -> None:
        """Give a join node the final text of its inputs; an input that is itself a join becomes a derived table."""
        moved = MovedColumns()
        sources = tuple(
            self._finished(source) if isinstance(_unfiltered(source), Scan) else self._derived(source, node, moved)
            for source in node.sources
        )
        edges = tuple(
            dataclasses.replace(edge, predicates=tuple(one.with_terms(moved.term) for one in edge.predicates))
            for edge in node.graph.edges
        )
        residuals = tuple(dataclasses.replace(one, condition=moved.term(one.condition)) for one in node.graph.residuals)
        aggregation = node.aggregation
        if aggregation is not None:
            aggregation = aggregation.with_terms(moved.term)
        final = dataclasses.replace(
            node,
            sources=sources,
            graph=dataclasses.replace(node.graph, edges=edges, residuals=residuals),
            output=tuple(map(moved.output, node.output)),
            aggregation=aggregation,
            matching=tuple(map(moved.term, node.matching)),
            closest=None if node.closest is None else node.closest.with_terms(moved.term),
            branches=tuple(one.with_terms(moved.term) for one in node.branches),
        )
        self.nodes[node.name] = final
        self.columns.update({(one.relation, one.column): (node.name, one.name) for one in node.output})

    def _derived(self, source: Node, node: JoinNode, moved: MovedColumns) -> Scan:
        """Return a join below a group (an outer join, a stream with its static relations) as a scan."""
        inside = [self._scan(scan) for scan in scans(source)]
        here = _read_here(source)  # the others come from the output of a join node
        known = [self.sources[scan.alias] for scan in here if scan.alias in self.sources]
        names = _unique_names(cte for one in known for cte in _ctes_of(one))
        read = [self._scan(scan, names) for scan in here]
        first, stands = inside[0], input_scan(source)
        aliases = {scan.alias for scan in inside}
        wanted = [pair for pair in sorted(read_by_node(node)) if pair[0] in aliases]
        if not stands.first_of and stands.event_time is not None and (first.alias, stands.event_time) not in wanted:
            wanted += [(first.alias, c.name) for c in first.columns if c.name == stands.event_time]
        items: list[exp.Expr] = []
        columns = []
        for one in named_columns(
            wanted, column_types(inside), (), {at: at[1] for at in wanted if at[0] == first.alias}
        ):
            at = one.relation, one.column
            moved[at] = (first.alias, one.name)
            items.append(exp.alias_(self.tree(column_term(at)), identifier(one.name), copy=False))
            columns.append(Column(one.name, one.type))
        event_time = stands.event_time
        if stands.first_of:
            event_time = unused("event_time", {one.name.lower() for one in columns})
            times = [self.tree(column_term(at)) for at in stands.first_of]
            value = exp.Anonymous(this="COALESCE", expressions=times)
            items.append(exp.alias_(value, identifier(event_time), copy=False))
            columns.append(Column(event_time, "timestamp"))
            event_time = event_time if self._carries(stands.first_of) else None
        select = exp.Select(expressions=items or [exp.Literal.number(1)])
        self.put(source, select)
        _rename_ctes(select, names)
        if isinstance(source, StaticJoin) and source.predicates:
            select.set("where", exp.Where(this=self._conjunction(source.predicates)))
        found = lasting(
            dataclasses.replace(
                first,
                event_time=event_time,
                first_of=stands.first_of,
                streaming=stands.streaming,
                stateful=stands.stateful,
                relation=render(exp.Subquery(this=select)),
                columns=tuple(columns),
                ctes=tuple(dict(pair for scan in read for pair in scan.ctes).items()),
                below=(*_outermost(source, self.nodes), *dict.fromkeys(one for scan in read for one in scan.below)),
            )
        )
        names_here = {name.lower() for scan in inside for name in (scan.alias, scan.relation.strip("`"))}
        if (hint := join_hints(self.select, names_here)) is None:
            return found
        select.set("hint", hint)  # how Spark joins may change at any restart
        return dataclasses.replace(found, relation=render(exp.Subquery(this=select)))

    def _carries(self, times: Iterable[tuple[str, str]]) -> bool:
        """Return whether the results of a join have some event times, for which its watermarks are held back."""
        columns = [self.columns.get(at, ("", "")) for at in times]
        return all(name in self.nodes and column in self.nodes[name].event_times for name, column in columns)

    def _finished(self, node: Node) -> Node:
        if isinstance(node, Scan):
            return lasting(self._scan(node))
        return node.with_inputs(tuple(self._finished(below) for below in node.inputs))

    def _scan(self, scan: Scan, names: Mapping[Cte, str] | None = None) -> Scan:
        source = self.sources.get(scan.alias)
        if source is None:
            return scan
        drop_unused_ctes(source.item)
        ctes = _ctes_of(source)
        names = _unique_names(ctes) if names is None else names
        item = relation_of(source)
        _rename_ctes(item, names)
        tables = [*tables_of(source), *(table for cte in ctes for table in cte.node.find_all(exp.Table))]
        return dataclasses.replace(
            scan,
            relation=render(item),
            ctes=tuple((names[cte], cte_sql(cte, names)) for cte in ctes),
            below=mentioned(tables, self.nodes),
        )

    # ---------------------------------------------------------------------------------------------------- the clause

    def put(self, node: Node, select: exp.Select) -> None:
        """Rewrite the FROM of a SELECT."""
        first, joins = self._items(node)
        select.set("from_", exp.From(this=first))
        select.set("joins", joins)

    def _items(self, node: Node) -> tuple[exp.Expr, list[exp.Join]]:
        match node:
            case JoinNode():
                return exp.Table(this=identifier(node.name)), []
            case Scan():
                return relation_of(self.sources[node.alias], node.alias), []
            case Filter():
                select = exp.Select(expressions=[exp.Star()])
                self.put(node.input, select)
                conditions = (exp.Paren(this=parse_expression(one.sql).copy()) for one in node.conditions)
                select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
                return exp.Subquery(this=select, alias=exp.TableAlias(this=identifier(_scan(node).alias))), []
            case Join():
                first, joins = self._items(node.left)
                side, kind = _JOINS[node.kind]
                match = None if node.closest is None else node.closest.condition
                given = [one for one in node.predicates if one.condition != match]
                needless = kind == "CROSS" or match is not None
                on = self._conjunction(given) if given else None if needless else exp.true()
                join = exp.Join(this=self._item(node.right), side=side, kind=kind, on=on)
                if node.closest is not None:
                    self._closest(node.closest, join)
                return first, [*joins, join]
            case StaticJoin():
                first, joins = self._items(node.inputs[0])
                return first, [*joins, *(exp.Join(this=self._item(one), kind="CROSS") for one in node.inputs[1:])]
            case Where():
                raise PlanError("a condition is in the middle of a FROM")
        return self._items(node.inputs[0])

    def _closest(self, closest: Closest, join: exp.Join) -> None:
        """Give a join the clause that says which rows are closest."""
        condition = self.tree(closest.condition)
        if closest.by != "distance":
            join.set("method", "ASOF")
            join.set("match_condition", condition)
            return
        words = {"approximate": closest.approximate, "count": closest.count, "similarity": closest.similarity}
        join.set("nearest", Nearest(this=condition, **words))

    def _item(self, node: Node) -> exp.Expr:
        """Return the right side of a join, in parentheses if it is itself a join."""
        first, joins = self._items(node)
        if not joins:
            return first
        first.set("joins", joins)
        return exp.Subquery(this=first)

    def _conjunction(self, predicates: Iterable[Predicate]) -> exp.Expr:
        trees = (self.tree(predicate.condition) for predicate in predicates)
        conjuncts = (exp.Paren(this=tree) if isinstance(tree, exp.Or) else tree for tree in trees)
        return reduce(lambda one, other: exp.And(this=one, expression=other), conjuncts)


def _sources(tree: Tree) -> Iterator[Source]:
    """Yield the relations of a FROM, including those of opened derived tables."""
    match tree:
        case JoinTree():
            yield from _sources(tree.left)
            yield from _sources(tree.right)
        case MergedTree():
            yield from _sources(tree.inner.tree)
        case _:
            yield tree


def mentioned(tables: Iterable[exp.Table], nodes: Mapping[str, JoinNode]) -> tuple[Node, ...]:
    """Return the join nodes that some tables are."""
    names = {table.name for table in tables}
    return tuple(node for name, node in nodes.items() if name in names)


def _unfiltered(node: Node) -> Node:
    while isinstance(node, Filter):
        node = node.input
    return node


def _scan(node: Node) -> Scan:
    while not isinstance(node, Scan):
        node = node.inputs[0]
    return node


def _outermost(node: Node, nodes: Mapping[str, JoinNode]) -> tuple[Node, ...]:
    """Return the final form of the join nodes that a tree reads."""
    if isinstance(node, JoinNode):
        return (nodes[node.name],)
    if isinstance(node, Scan):
        return ()
    return tuple(found for below in node.inputs for found in _outermost(below, nodes))


def _read_here(node: Node) -> tuple[Scan, ...]:
    """Return the relations that the FROM of a tree names: those outside join nodes."""
    if isinstance(node, Scan):
        return (node,)
    if isinstance(node, JoinNode):
        return ()
    return tuple(scan for below in node.inputs for scan in _read_here(below))


# -------------------------------------------------------------------------------------------- common table expressions


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


def _ctes_of(source: Source) -> list[Cte]:
    """Return the common table expressions that a relation reads, in the order of their definition."""
    found: dict[Cte, None] = {}
    inside = {cte_of(node) for node in source.item.find_all(exp.CTE)}

    def visit(tables: Iterable[exp.Table]) -> None:
        for cte in map(cte_of, tables):
            if cte is not None and cte not in found:
                visit(cte.node.this.find_all(exp.Table))
                if cte not in inside:
                    found[cte] = None

    visit(tables_of(source))
    return list(found)


def _unique_names(ctes: Iterable[Cte]) -> dict[Cte, str]:
    """Return a name for each: its own, with a number if an inner query's expression hides an outer one."""
    names: dict[Cte, str] = {}
    taken: set[str] = set()
    for cte in dict.fromkeys(ctes):
        names[cte] = unused(cte.name, taken)
        taken.add(names[cte].lower())
    return names


def _rename_ctes(tree: exp.Expr, names: Mapping[Cte, str]) -> None:
    """Make the tables of a copy read the common table expressions under their new names, in place."""
    for table in list(tree.find_all(exp.Table)):
        cte = cte_of(table)
        name = names.get(cte, cte.name) if cte is not None else None
        if cte is not None and name is not None and name != cte.name:
            if not table.alias and table is not tree:
                table.set("alias", exp.TableAlias(this=identifier(table.name)))
            table.set("this", identifier(name))


def cte_sql(cte: Cte, names: Mapping[Cte, str]) -> str:
    """Return a common table expression's query with its column list applied."""
    columns = cte.node.args["alias"].columns
    query = without_our_clauses(cte.node.this)
    _rename_ctes(query, names)
    body = render(query)
    if not columns:
        return body
    return f"SELECT * FROM ({body}) AS {quote(cte.name)}({', '.join(render(column) for column in columns)})"
