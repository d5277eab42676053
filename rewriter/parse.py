"""From the resolved syntax tree to the binary plan: `Scan`, `Project`, `Join`, `Where` under one `Block` a SELECT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from ..errors import UnsupportedQueryError
from .aggregates.two_steps import AggregationReader, NotInUnits, aggregates
from .closest import read_closest
from .names.derived_tables import MergedTree, open_derived_tables
from .names.lookup import column_of, star_fields
from .names.scopes import (
    Field,
    JoinTree,
    Output,
    Resolution,
    ResolvedSelect,
    Source,
    Tree,
    Unresolvable,
    field_of,
    leaves,
    origin_of,
    own_nodes,
)
from .names.time_uses import time_uses
from .plan.conjuncts import Residual, Term
from .plan.nodes import Block, Join, Node, Project, Query, Scan, Where, scans
from .plan.parts import Aggregation, Column, TimeUses, unused
from .predicates.terms import Scope
from .sql.catalog import TableInfo
from .sql.dialect import Nearest, identifier, places_of, render
from .sql.functions import AGGREGATES, GENERATORS, RANDOM, called, read_anew
from .sql.hints import read_hints
from .sql.intervals import interval_microseconds
from .sql.spark_types import INTEGERS

#: Functions that return another value for each call, even within one micro-batch.
_OTHER_EACH_TIME = RANDOM - {"assert_true", "raise_error"}


@dataclass(frozen=True)
class Binding:
    """What ties a plan block to the syntax tree.

    Parameters
    ----------
    block
        The resolved SELECT.
    stuck
        Conjuncts of WHERE and of inner joins that stay in WHERE: subqueries, columns of other SELECTs, rand().
    """

    block: ResolvedSelect
    stuck: tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Parsed:
    """The binary plan, and per block what it came from."""

    plan: Query
    bindings: dict[int, Binding]
    resolution: Resolution


def build_plan(resolution: Resolution) -> Parsed:
    """Build the binary plan of a resolved query."""
    for block in resolution.blocks:
        open_derived_tables(block)
    bindings: dict[int, Binding] = {}
    plans: dict[int, Node] = {}
    for block in resolution.blocks:
        if block.merged or (len(block.sources) < 2 and not isinstance(block.tree, MergedTree)):
            continue
        plan, binding = _Builder(block, plans, resolution.blocks).build()
        plans[block.number], bindings[block.number] = plan, binding
    inner = {id(node) for plan in plans.values() for scan in scans(plan) for node in scan.below}
    tops = tuple(plan for plan in plans.values() if id(plan) not in inner)
    words = frozenset(one.name.lower() for one in resolution.tree.find_all(exp.Identifier))
    return Parsed(Query(render(resolution.tree), tops, words), bindings, resolution)


# -------------------------------------------------------------------------------------------------------------- blocks


class _Builder:
    """Builds the plan of one SELECT."""

    def __init__(self, block: ResolvedSelect, plans: dict[int, Node], blocks: list[ResolvedSelect]) -> None:
        self.block, self.plans, self.blocks = block, plans, blocks
        self.problem = block.problem
        self.sources: list[Source] = []
        self.stuck: list[exp.Expr] = []

    def build(self) -> tuple[Block, Binding]:
        self.collect(self.block.tree, None)
        for source in self.sources:
            self.problem = self.problem or source.problem or computed_anew(source)
        tree = self.node(self.block.tree, True)
        conjuncts: list[Residual] = []
        where = self.block.select.args.get("where")
        if where is not None and not self.problem:
            conjuncts += self.conjuncts(where.this, self.stuck)
        required = self.required()
        if conjuncts:
            tree = Where(tree, tuple(conjuncts))
        within = self.block.select.args.get("within")
        aggregation, not_aggregated = self.aggregation()
        plan = Block(
            tree,
            self.block.number,
            required,
            read_hints(self.block.select),
            interval_microseconds(within) if within else None,
            self.problem,
            aggregation,
            not_aggregated,
            places_of(within) if within else (),
            TimeUses() if self.problem else time_uses(self.block.select),
        )
        return plan, Binding(self.block, tuple(self.stuck))

    def collect(self, tree: Tree, prefix: str | None) -> None:
        """List the relations and give each a unique alias."""
        match tree:
            case JoinTree():
                self.collect(tree.left, prefix)
                self.collect(tree.right, prefix)
            case MergedTree():
                self.collect(tree.inner.tree, tree.alias)
            case _:
                taken = {source.plan_alias.lower() for source in self.sources}
                name = tree.alias
                if name.lower() in taken and prefix:
                    name = f"{prefix}_{name}"
                tree.plan_alias = unused(name, taken)
                self.sources.append(tree)

    # --------------------------------------------------------------------------------------------------------- nodes

    def node(self, tree: Tree, all_inner: bool) -> Node:
        match tree:
            case JoinTree():
                below = all_inner and tree.kind == "inner"
                left, right = self.node(tree.left, below), self.node(tree.right, below)
                predicates = [self.equality(one, other) for one, other in tree.equal]
                if tree.on is not None and not self.problem:
                    stuck: list[exp.Expr] = []
                    predicates += self.conjuncts(tree.on, stuck)
                    if stuck and not below:
                        self.problem = f"the condition {render(stuck[0])} under an outer join"
                    self.stuck += stuck
                closest = None
                if tree.closest is not None and not self.problem:
                    aliases = [frozenset(scan.alias for scan in scans(side)) for side in (left, right)]
                    closest, reason = read_closest(tree.closest, aliases, self.relations, self.term)
                    if any(map(read_anew, tree.closest.walk())):
                        told = f"what is closest by {render(tree.closest)} changes with the clock, or with each look"
                        closest, reason = None, (told, "compare columns of the two sides")
                    if reason is not None and any(scan.streaming for scan in scans(right)):
                        subject = "NEAREST" if isinstance(tree.closest, Nearest) else "MATCH_CONDITION"
                        raise UnsupportedQueryError(*reason, subject=subject)
                    self.problem = self.problem or (reason and reason[0])
                    if closest is not None and closest.by != "distance":
                        places = places_of(tree.closest)
                        predicates.append(Residual(closest.condition.sql, closest.condition, places=places))
                kind = "cross" if tree.kind == "inner" and not predicates else tree.kind
                return Join(kind, left, right, tuple(predicates), in_where=tree.in_where, closest=closest)
            case MergedTree():
                return self.merged(tree)
            case _:
                return self.scan(tree)

    def merged(self, tree: MergedTree) -> Node:
        below = self.node(tree.inner.tree, True)
        where = tree.inner.select.args.get("where")
        if where is not None and not self.problem:
            below = Where(below, tuple(self.conjuncts(where.this, self.stuck)))
        items = tuple((field.name, plan_text(field.tree)) for field in tree.fields or [] if field.tree is not None)
        return Project(below, items)

    def scan(self, source: Source) -> Scan:
        info = source.info or TableInfo(())
        fields = _fields_of(source)
        spelled = {field.name.lower(): field.name for field in fields}
        event_time, delay = self.event_time(source, info)
        spelled_time = spelled.get(event_time.lower(), event_time) if event_time else None
        return Scan(
            source.plan_alias,
            render(relation_of(source)),
            tuple(Column(field.name, field.type) for field in fields),
            (),
            tuple(self.plans[number] for number in _blocks_in(source, self.blocks) if number in self.plans),
            info.streaming,
            spelled_time,
            delay,
            info.rows,
            info.rows_from if info.rows is not None else "assumed",
            stateful=info.stateful,
            behind=info.behind,
            time_of=None if source.query is None else _time_of(source.query, event_time),
        )

    def event_time(self, source: Source, info: TableInfo) -> tuple[str | None, int | None]:
        """Return the event time of a relation and its delay; if there are several, the first that a condition reads.

        WITHIN reads one too: a time, if there is one beside windows of it.
        """
        times = info.times
        if self.block.select.args.get("within"):
            types = {field.name.lower(): field.type for field in _fields_of(source)}
            times = tuple(time for time in times if not types.get(time[0].lower(), "").startswith("struct")) or times
        compared = (time for time in times if (id(source), time[0].lower()) in self.compared)
        return next(compared, times[0] if times else (None, None))

    @cached_property
    def compared(self) -> set[tuple[int, str]]:
        """The columns that ON, USING and WHERE read, each as its source and its name."""
        return {(id(one.source), one.name.lower()) for one in _compared(self.block)}

    # ---------------------------------------------------------------------------------------------------- conditions

    def conjuncts(self, tree: exp.Expr, stuck: list[exp.Expr]) -> list[Residual]:
        found = []
        for conjunct in split_and(tree):
            predicate = self.predicate(conjunct)
            if predicate:
                found.append(predicate)
            else:
                stuck.append(conjunct)
        return found

    def predicate(self, conjunct: exp.Expr) -> Residual | None:
        """Return a conjunct as a raw predicate, None if it must stay in place."""
        for node in own_nodes(conjunct):
            if isinstance(node, exp.Query | exp.Window | exp.Star):
                return None
            if isinstance(node, exp.Alias) and called(node.parent) != "struct":
                return None
            if called(node) in AGGREGATES | GENERATORS or read_anew(node):
                return None
            if isinstance(node, exp.Interval) and node.args.get("unit") is None and isinstance(node.this, exp.Column):
                raise ValueError("an INTERVAL has no unit")
            if isinstance(node, exp.Column) and field_of(node) is None:
                return None
        used = self.relations(conjunct)
        if used is None or (len(used) > 1 and conjunct.find(exp.Placeholder)):
            return None
        return Residual(render(conjunct), self.term(conjunct), places=places_of(conjunct))

    def relations(self, tree: exp.Expr) -> tuple[str, ...] | None:
        found = set()
        for field in base_fields(tree):
            if field.source not in self.sources:
                return None
            found.add(field.source.plan_alias)
        return tuple(source.plan_alias for source in self.sources if source.plan_alias in found)

    def equality(self, one: Field, other: Field) -> Residual:
        term = self.term(exp.EQ(this=column_of(one), expression=column_of(other)))
        return Residual(term.sql, term)

    def term(self, tree: exp.Expr) -> Term:
        return self.scope.read(plan_tree(tree))

    @cached_property
    def scope(self) -> Scope:
        fields = ((source, field) for source in self.sources for field in _fields_of(source))
        types = {(source.plan_alias, field.name): field.type for source, field in fields}
        return Scope(tuple(source.plan_alias for source in self.sources), types)

    # -------------------------------------------------------------------------------------------------- the rest of it

    def aggregation(self) -> tuple[Aggregation | None, str | None]:
        """Return the aggregation of the SELECT as two steps, or the reason why not."""
        if self.problem or not aggregates(self.block.select):
            return None, None
        if self.stuck:
            return None, f"Spark has to filter by {render(self.stuck[0])} first"
        try:
            reader = AggregationReader(
                self.block.select, plan_text, self.term, self.relations, self.sources[0].plan_alias
            )
            return reader.read(), None
        except NotInUnits as reason:
            return None, str(reason)

    def required(self) -> tuple[tuple[str, str], ...]:
        """List the columns that the rest of the SELECT reads."""
        select = self.block.select
        trees: list[exp.Expr] = list(self.stuck)
        for key, value in select.args.items():
            if key in ("from_", "joins", "where", "hint", "within", "with_"):
                continue
            trees += [tree for tree in (value if isinstance(value, list) else [value]) if isinstance(tree, exp.Expr)]
        needed: dict[tuple[str, str], None] = {}
        for tree in trees:
            for field in self.fields_read(tree):
                if field.source in self.sources and field.source is not None:
                    needed[field.source.plan_alias, field.name] = None
        order = [source.plan_alias for source in self.sources]
        return tuple(sorted(needed, key=lambda pair: order.index(pair[0])))

    def fields_read(self, tree: exp.Expr) -> Iterable[Field]:
        try:
            stars = star_fields(tree)
        except Unresolvable as reason:
            self.problem = self.problem or str(reason)
            return
        if stars is not None:
            for field in stars:
                yield from base_fields(column_of(field))
            return
        for star in tree.find_all(exp.Star):
            if called(star.parent) != "count" and star.find_ancestor(exp.Select) is self.block.select:
                self.problem = self.problem or "a star inside an expression"
        yield from base_fields(tree)


def plan_text(tree: exp.Expr) -> str:
    """Render a resolved expression with columns qualified by the aliases of the plan."""
    return render(plan_tree(tree))


def plan_tree(tree: exp.Expr) -> exp.Expr:
    """Return a copy of a resolved expression with columns qualified by the aliases of the plan."""
    return expand(tree, lambda field: exp.column(identifier(field.name), _alias_of(field)))


def _fields_of(source: Source) -> list[Field]:
    return source.fields if source.fields is not None else list(source.guessed.values())


def _alias_of(field: Field) -> exp.Identifier:
    assert field.source is not None
    return identifier(field.source.plan_alias)


def computed_anew(source: Source) -> str | None:
    """Return why a common table expression cannot be an input: each reading would give it other values."""
    cte = source.definition
    if cte is None or cte.uses < 2 or not any(called(node) in _OTHER_EACH_TIME for node in cte.node.walk()):
        return None
    return f"{cte.name} is read {cte.uses} times and has other values each time it is computed"


def _compared(block: ResolvedSelect) -> Iterator[Field]:
    """Yield the columns that ON, USING and WHERE of a SELECT read, also of derived tables that were opened."""
    where = block.select.args.get("where")
    if where is not None:
        yield from base_fields(where.this)
    pending = [block.tree]
    while pending:
        tree = pending.pop()
        if isinstance(tree, MergedTree):
            yield from _compared(tree.inner)
        elif isinstance(tree, JoinTree):
            yield from (origin_of(one) for pair in tree.equal for one in pair)
            if tree.on is not None:
                yield from base_fields(tree.on)
            pending += [tree.left, tree.right]


def _time_of(output: Output, event_time: str | None) -> tuple[str, str] | None:
    """Return the column of a joined relation that is a query's event time, as ``(alias, name)``."""
    time = next((column for column in output.columns or [] if column.name == event_time), None)
    found = None if time is None else origin_of(time)
    if found is None or found.source is None:
        return None
    source = found.source
    return _time_of(source.query, found.name) if source.query is not None else (source.plan_alias, found.name.lower())


def base_fields(tree: exp.Expr) -> Iterable[Field]:
    """Yield the fields of relations that a resolved expression reads, through computed fields."""
    for column in tree.find_all(exp.Column):
        field = field_of(column)
        if field is None:
            continue
        if field.tree is not None:
            yield from base_fields(field.tree)
        elif field.source is not None:
            yield field


def expand(tree: exp.Expr, column: Callable[[Field], exp.Expr]) -> exp.Expr:
    """Return a copy of a resolved expression with its columns rewritten and computed fields spelled out."""
    copy = tree.copy()
    found = field_of(copy) if isinstance(copy, exp.Column) else None
    if found is not None:
        return _expanded(found, column)
    for node in list(copy.find_all(exp.Column)):
        found = field_of(node)
        if found is not None:
            node.replace(_expanded(found, column))
    return copy


def _expanded(field: Field, column: Callable[[Field], exp.Expr]) -> exp.Expr:
    if field.tree is None:
        return column(field)
    inner = expand(field.tree, column)
    if _is_whole_number(inner) and field.type in INTEGERS:
        # a column: Spark uses its type, but of a literal the value, or takes it for the position of an output
        return exp.Cast(this=inner.unnest(), to=exp.DataType.build(field.type))
    simple = exp.Column | exp.Literal | exp.Paren | exp.Anonymous | exp.Cast
    return inner if isinstance(inner, simple) else exp.Paren(this=inner)


def _is_whole_number(tree: exp.Expr) -> bool:
    """Tell whether an expression is a literal: ``2``, ``-2``, ``2L``."""
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        tree = tree.this
    return (isinstance(tree, exp.Literal) and tree.is_int) or "literal" in tree.meta


def split_and(tree: exp.Expr) -> list[exp.Expr]:
    """Return the conjuncts of a condition."""
    tree = tree.unnest()
    return [*split_and(tree.left), *split_and(tree.right)] if isinstance(tree, exp.And) else [tree]


def relation_of(source: Source, name: str | None = None) -> exp.Expr:
    """Return a copy of a FROM item under another alias, or without one."""
    item = source.item.copy()
    inner = item.this if isinstance(item, exp.Stream) else item
    inner.set("joins", None)
    alias = inner.args.get("alias")
    watermark = alias.args.get("watermark") if isinstance(alias, exp.TableAlias) else None
    if isinstance(alias, exp.TableAlias) and alias.columns:
        alias.set("this", alias.this or identifier(source.alias))
        inner = item = exp.Subquery(this=exp.Select(expressions=[exp.Star()], from_=exp.From(this=item)))
        watermark = None
    named = exp.TableAlias(this=identifier(name) if name else None, watermark=watermark)
    inner.set("alias", named if name or watermark else None)
    return item


def tables_of(source: Source) -> list[exp.Table]:
    """Return the tables that a FROM item reads; if it begins a parenthesised join, without the join's other tables."""
    inner = source.item.this if isinstance(source.item, exp.Stream) else source.item
    joined = {id(table) for join in inner.args.get("joins") or [] for table in join.find_all(exp.Table)}
    return [table for table in source.item.find_all(exp.Table) if id(table) not in joined]


def _blocks_in(source: Source, blocks: list[ResolvedSelect]) -> list[int]:
    """Return the numbers of the blocks inside a derived table or in the CTEs that a relation reads."""
    numbers: dict[int, None] = {}

    def visit(tree: exp.Expr) -> None:
        selects = {id(select) for select in tree.find_all(exp.Select)}
        for block in blocks:
            if id(block.select) in selects and block.number not in numbers:
                numbers[block.number] = None
                for inner in leaves(block.tree):
                    if inner.definition is not None:
                        visit(inner.definition.node.this)

    if source.definition is not None:
        visit(source.definition.node.this)
    elif not isinstance(source.item, exp.Table):
        visit(source.item)
    return sorted(numbers)
