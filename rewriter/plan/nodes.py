"""Plan nodes, which the rewriter's stages pass to one another and, at the end, to the operators.

A plan is a tree of frozen dataclasses that check themselves when they are built. SQL text inside a node is Spark SQL:
Spark evaluates it, and we only decide where it runs. This module imports only the standard library, so that the
operator library can import it without pulling in sqlglot or networkx.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from typing import TypeVar

from ...errors import PlanError
from .conjuncts import Predicate, Term
from .decision import Decision
from .joins import PADDED, Branch, Closest, JoinKind, NodeKind
from .parts import Aggregation, At, Column, JoinGraph, OutputColumn, Retention, RowsFrom, TimeUses
from .trees import TreeOf

T = TypeVar("T")


@dataclass(frozen=True)
class Node:
    """A node of a plan."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes below, left to right."""
        return ()

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """Return the same node over other inputs."""
        if inputs:
            raise PlanError(f"{type(self).__name__} has no inputs")
        return self


@dataclass(frozen=True)
class OverOne(Node):
    """A node over one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        (only,) = inputs
        return dataclasses.replace(self, input=only)


@dataclass(frozen=True)
class Scan(Node):
    """A relation of FROM: a table, a view, a stream, a derived table, a CTE or the output of another join node.

    Parameters
    ----------
    alias
        Unique in its join group.
    relation
        The FROM item without its alias, as Spark SQL: ``orders``, ``STREAM r WATERMARK ts DELAY OF INTERVAL 10
        SECONDS``, ``(SELECT ...)``. The output of a join node below stands in it under that node's `name`.
    columns
        All its columns, as far as the schema is known.
    ctes
        Common table expressions that the relation needs, as ``(name, sql)`` in the order of their definition.
    below
        The join nodes whose `name` occurs in `relation` or `ctes`.
    streaming
        Whether it is a stream; None if unknown.
    event_time, delay
        The column with the watermark and the watermark's delay in microseconds, where there is one.
    rows
        Rows (batch) or rows a second (stream), if known.
    rows_from
        Where this number comes from: ``assumed`` if it is not known.
    lasting
        What must not change in `relation` and `ctes` when a query restarts on its state: their text without the
        delays of watermarks. Empty until the text is final.
    stateful
        Whether a stateful Spark operator makes the rows of the stream: an aggregation, a deduplication, a join
        of streams. Such an operator holds rows back until the watermark passes them, so they come at or before the
        micro-batch's own watermark, but later than that of the micro-batch before. None of them is late.
    behind
        As in a `TableInfo`.
    time_of
        For a derived table: the column of a relation inside it, as ``(alias, name)``, that is its event time.
    first_of
        For the result of a join that may fill its first relation with NULL: the event times of relations inside it, as
        ``(alias, name)``. The first of them that is not NULL is its own.
    """

    alias: str
    relation: str
    columns: tuple[Column, ...] = ()
    ctes: tuple[tuple[str, str], ...] = ()
    below: tuple[Node, ...] = ()
    streaming: bool | None = None
    event_time: str | None = None
    delay: int | None = None
    rows: float | None = None
    rows_from: RowsFrom = "assumed"
    lasting: str = ""
    stateful: bool = False
    behind: int = 0
    time_of: tuple[str, str] | None = None
    first_of: tuple[tuple[str, str], ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.below

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return dataclasses.replace(self, below=inputs)


@dataclass(frozen=True)
class Filter(OverOne):
    """Keeps the rows for which every condition is true."""

    conditions: tuple[Term, ...]


@dataclass(frozen=True)
class Project(OverOne):
    """Keeps some columns: ``items`` are ``(output name, Spark SQL)``."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Exchange(OverOne):
    """A redistribution of rows in the binary plan: hashed by ``keys``, or broadcast if there are none."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Join(Node):
    """A binary join. With ``by_spark`` it stays with Spark, because of a hint or of a static side.

    One with ``in_where`` is a subquery over a stream in WHERE, as which Spark cannot run it. A ``closest`` or
    ``left_closest`` join has `closest`; MATCH_CONDITION is one of its predicates too. One with ``in_tree`` may be a
    branch of a node with other joins (`rules.mark_join_trees`), even if Spark could run it alone.
    """

    kind: JoinKind
    left: Node
    right: Node
    predicates: tuple[Predicate, ...] = ()
    by_spark: bool = False
    in_where: bool = False
    closest: Closest | None = None
    in_tree: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        left, right = inputs
        return dataclasses.replace(self, left=left, right=right)


@dataclass(frozen=True)
class JoinGroup(OverOne):
    """A multi-join group found by step 1 of the Two-Step Convert (004 section 3.2.1): a marked binary join tree.

    One that is ``mixed`` has joins of several kinds.
    """

    members: int
    mixed: bool = False


@dataclass(frozen=True)
class JoinNode(Node):
    """A physical n-way join, made by step 2 of the Two-Step Convert (004 section 3.2.2).

    Parameters
    ----------
    name
        The name under which SQL above it refers to its output, unique in the plan: ``__trijoin_1``.
    sources
        The inputs in plan order, one for each of ``graph.relations``: ``Scan``, or ``Filter`` over ``Scan`` (filters on
        that relation alone, conditions qualified with the alias). An inner node of an operator tree is an input as
        ``Scan(alias, relation=its name, below=(node,))``.
    output
        The output columns, including those that only residuals need.
    result_time
        The name of a further output column with the latest event time of a result's rows, None if nothing above it
        reads one (see `rewriter.event_time.event_times`).
    event_times
        The output columns that are event time for operators above the node.
    held_back
        By how much, in microseconds, the watermarks of the inputs are held back, so that no result comes later than the
        watermark allows for `event_times` and for those of the nodes above.
    behind
        By how much, in microseconds, rows of its inputs may come behind Spark's watermark, where a stateful operator of
        Spark's makes some of them, or what lags could not be held back; None where they come before it, by what is.
    join
        ``inner``, the kind of a join of two inputs, or ``mixed``: inner joins, and `branches` of other kinds.
    branches
        The joins of a ``mixed`` node that are not inner.
    apart
        Why it is a node of its own above others, if it could be one with them.
    matching
        Of another kind: the conditions of ON over one input. A row for which one is not true has no partner.
    closest
        Which of a row's partners are results, None if all are.
    spread
        Whether its pairs are found in one node and its rows settled in others (`rules.settle_pairs`) to run in several
        units.
    settles
        If set, its second input are pairs of rows of the first with partners of theirs, none earlier than that row
        (`rules.settle_pairs`). Those of a ``left`` join are results as they are, with these columns, under the names
        that `output` has for them, in place of those of the first input.
    candidates_of
        If it finds these pairs: the inputs whose rows nodes above settle. They read them too, and tell which are late.
    aggregation
        If set, the node puts out its keys and states instead of `output`: see `Aggregation`.
    not_aggregated
        Why the aggregation of the SELECT above stays with Spark as a whole; None if there is none.
    """

    name: str
    sources: tuple[Node, ...]
    graph: JoinGraph
    decision: Decision
    output: tuple[OutputColumn, ...]
    retention: tuple[Retention, ...] = ()
    result_time: str | None = None
    aggregation: Aggregation | None = None
    not_aggregated: str | None = None
    event_times: tuple[str, ...] = ()
    held_back: int = 0
    behind: int | None = None
    join: NodeKind = "inner"
    matching: tuple[Term, ...] = ()
    closest: Closest | None = None
    branches: tuple[Branch, ...] = ()
    apart: str | None = None
    spread: bool = False
    settles: tuple[OutputColumn, ...] | None = None
    candidates_of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.join not in ("inner", "mixed") and len(self.sources) != 2:
            raise PlanError(f"{self.name}: a {self.join} join of {len(self.sources)} inputs")
        if len(self.sources) != len(self.graph.relations):
            raise PlanError(f"{self.name}: {len(self.sources)} inputs for {len(self.graph.relations)} relations")
        names = [column.name.lower() for column in self.output]
        if len(set(names)) != len(names):
            raise PlanError(f"{self.name}: output names are not unique: {names}")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.sources

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return dataclasses.replace(self, sources=inputs)

    @property
    def cells_may_change(self) -> bool:
        """Whether another number of cells may come at a restart: no row is kept for ever, and one side is tested."""
        return self.join != "full" and all(one.keep_for is not None and one.latest is None for one in self.retention)

    @property
    def tested(self) -> tuple[str, ...]:
        """The inputs of whose rows it matters whether they have a partner: each row is tested in one unit."""
        first, *others = self.graph.relations
        return {"inner": (), "mixed": (), "right": tuple(others), "full": self.graph.relations}.get(self.join, (first,))

    @property
    def pads(self) -> bool:
        """Whether results come when the watermark has passed a row: it finds no partner, or no closer one, any more."""
        return self.join not in ("inner", "semi") and (self.join != "mixed" or any(one.waits for one in self.branches))

    @property
    def tests_pairs(self) -> bool:
        """Whether pairs of rows are found, and tested by Spark, before it is known which rows have a partner."""
        return bool(self.tested) and (self.spread or bool(self.graph.residuals))

    @property
    def padded(self) -> frozenset[str]:
        """The inputs whose columns may be NULL in results for want of a row."""
        if self.join == "mixed":
            return frozenset(one.relation for one in self.branches if one.pads)
        return frozenset(self.graph.relations[at] for at in PADDED.get(self.join, ()))

    @property
    def listed(self) -> tuple[str, ...]:
        """The inputs whose columns results have."""
        if self.join == "mixed":
            hidden = {one.relation for one in self.branches if not one.is_listed}
            return tuple(one for one in self.graph.relations if one not in hidden)
        return self.graph.relations[:1] if self.join in ("semi", "anti") else self.graph.relations

    @property
    def looks(self) -> tuple[Closest, ...]:
        """By what rows look for the closest ones, in the whole node."""
        found = (self.closest, *(branch.closest for branch in self.branches))
        return tuple(one for one in found if one is not None)


@dataclass(frozen=True)
class BiJoin(JoinNode):
    """Two relations."""


@dataclass(frozen=True)
class TriJoin(JoinNode):
    """Three relations (001)."""


@dataclass(frozen=True)
class MultiJoin(JoinNode):
    """Four or more relations (004)."""


def join_node_class(count: int) -> type[JoinNode]:
    """Return the class of a join node with this number of inputs."""
    return {2: BiJoin, 3: TriJoin}.get(count, MultiJoin)


@dataclass(frozen=True)
class Where(OverOne):
    """Conjuncts over a join tree that have no place yet; those that stay become Spark's WHERE."""

    predicates: tuple[Predicate, ...]


@dataclass(frozen=True)
class StaticJoin(Node):
    """Static relations joined to one stream before its group; rendered as that stream's derived table."""

    stream: Node
    statics: tuple[Node, ...]
    predicates: tuple[Predicate, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.stream, *self.statics)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return dataclasses.replace(self, stream=inputs[0], statics=inputs[1:])


@dataclass(frozen=True)
class LeftAlone(OverOne):
    """A join group that stays with Spark; ``decision.reason`` says why."""

    graph: JoinGraph
    decision: Decision
    retention: tuple[Retention, ...] = ()


@dataclass(frozen=True)
class Hints:
    """What the hints of one SELECT ask for.

    Parameters
    ----------
    convert
        False for NO_TRIJOIN.
    relations
        The relations of TRIJOIN(...): only a group of exactly these is converted. Empty without such a hint.
    scheme, units
        The values of SCHEME(...) and UNITS(...).
    tree
        The tree of SCHEME('operator_tree(...)'), or the order of SCHEME('tree(...)').
    intermediates
        The value of INTERMEDIATES(...): ``pack`` or ``pair``.
    routing, subgroups
        The values of ROUTING(...): ``random``, ``hash``, ``contrand`` with its number of subgroups, ``range`` with or
        without.
    aggregate
        False for NO_UNIT_AGGREGATE: results leave the units one by one.
    trees
        False for NO_JOIN_TREE: each join that is not inner is a node of its own.
    shares
        The values of SELECTIVITY(...): two relations, and the share of their pairs of rows that match.
    """

    convert: bool = True
    relations: tuple[str, ...] = ()
    scheme: str | None = None
    units: int | None = None
    tree: TreeOf[str] = ()
    intermediates: str | None = None
    routing: str | None = None
    subgroups: int | None = None
    aggregate: bool = True
    trees: bool = True
    shares: tuple[tuple[str, str, float], ...] = ()

    @property
    def steers(self) -> bool:
        """Whether they ask for something; what is declared only informs costs."""
        return dataclasses.replace(self, shares=()) != Hints()


@dataclass(frozen=True)
class Block(OverOne):
    """One SELECT with joins: its FROM and WHERE as a plan. The rest stays in the syntax tree.

    Parameters
    ----------
    number
        The number of the SELECT, in plan order.
    required
        The columns, as ``(alias, name)``, that the rest of the SELECT reads.
    within, within_places
        The length of WITHIN in microseconds, and where the clause stands in the text.
    problem
        Why nothing in it can be converted.
    aggregation
        Its GROUP BY and aggregates as two steps, None if it does not aggregate.
    not_aggregated
        Why it aggregates, but not in two steps.
    times
        What the rest of the SELECT does with columns that may be event times.
    """

    number: int
    required: tuple[tuple[str, str], ...] = ()
    hints: Hints = field(default_factory=Hints)
    within: int | None = None
    problem: str | None = None
    aggregation: Aggregation | None = None
    not_aggregated: str | None = None
    within_places: tuple[tuple[int, int], ...] = ()
    times: TimeUses = field(default_factory=TimeUses)


@dataclass(frozen=True)
class Query(Node):
    """The rest of a SELECT (projection, grouping, ordering ...) as Spark SQL over the join nodes below.

    ``sql`` refers to the output of a join node below under that node's ``name`` (a quoted identifier).

    Parameters
    ----------
    words
        The identifiers of the text, in small letters: generated names must differ from them.
    """

    sql: str
    below: tuple[Node, ...] = field(default=())
    words: frozenset[str] = frozenset()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.below

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return dataclasses.replace(self, below=inputs)


def source_scan(source: Node) -> Scan:
    """Return the `Scan` at the bottom of one input of a `JoinNode`."""
    node = source
    while not isinstance(node, Scan):
        node = node.inputs[0]
    return node


def source_conditions(source: Node) -> tuple[str, ...]:
    """Return the conditions of all filters above the `Scan` of one input of a `JoinNode`, as text."""
    conditions: tuple[str, ...] = ()
    node = source
    while not isinstance(node, Scan):
        if isinstance(node, Filter):
            conditions = (*(condition.sql for condition in node.conditions), *conditions)
        node = node.inputs[0]
    return conditions


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, once each: before a node all those above it, though it stand in many places.

    So the other way round, as they are compiled, each comes after those that it reads (a CTE in two of them too).
    """
    seen: set[int] = set()
    found: list[Node] = []
    waiting = [(node, False)]
    while waiting:
        one, left = waiting.pop()
        if left:
            found.append(one)
        elif id(one) not in seen:
            seen.add(id(one))
            waiting.append((one, True))
            waiting.extend((below, False) for below in one.inputs)
    return reversed(found)


def once(function: Callable[[Node], T]) -> Callable[[Node], T]:
    """Return a function that asks each node once, and keeps the answer in the node, which never changes.

    A node may stand in several places, and those below it again: without this they would be asked for each path.
    """
    name = f"_{function.__name__}"

    @wraps(function)
    def ask(node: Node) -> T:
        if name not in node.__dict__:
            node.__dict__[name] = function(node)
        found: T = node.__dict__[name]
        return found

    return ask


def own_tree(node: Node) -> Iterator[Node]:
    """Yield the nodes of one SELECT's tree, parents last, not those of derived tables."""
    if not isinstance(node, Scan):
        for below in node.inputs:
            yield from own_tree(below)
    yield node


def transform(node: Node, change: Callable[[Node], Node], *, own: bool = False) -> Node:
    """Return the tree with ``change`` applied to every node once, bottom up; with ``own`` to those of `own_tree`."""
    return rebuilt(node, lambda _, one: change(one), own=own)


def rebuilt(node: Node, change: Callable[[Node, Node], Node], *, own: bool = False) -> Node:
    """Do as `transform` with a ``change`` that gets each node as it was, and as it is over its changed inputs.

    What equals the old node is the old node, so ``is`` tells whether anything changed: ``==`` of two plans would walk
    each path. A node that stands in several places (a common table expression read more than once) stays one node.
    """
    done: dict[int, Node] = {}

    def visit(one: Node) -> Node:
        if id(one) not in done:
            inputs = one.inputs if own and isinstance(one, Scan) else tuple(visit(below) for below in one.inputs)
            same = all(new is old for new, old in zip(inputs, one.inputs, strict=True))
            changed = change(one, one if same else one.with_inputs(inputs))
            done[id(one)] = one if same and changed == one else changed
        return done[id(one)]

    return visit(node)


def kind_of(node: Node) -> str:
    """Return how a node joins its inputs; ``inner`` if it does not."""
    return node.join if isinstance(node, JoinNode) else node.kind if isinstance(node, Join) else "inner"


def in_results(node: Node) -> tuple[tuple[Scan, bool], ...]:
    """Return the relations whose columns a join tree's results have, and whether each may be filled with NULL there."""
    if isinstance(node, Scan):
        return ((node, False),)
    if isinstance(node, JoinNode):
        sources = {source_scan(source).alias: source for source in node.sources}
        listed = [(alias in node.padded, sources[alias]) for alias in node.listed]
        return tuple((scan, null or padded) for padded, source in listed for scan, null in in_results(source))
    kind = kind_of(node)
    sides = node.inputs[:1] if kind in ("semi", "anti") else node.inputs
    padded = PADDED.get(kind, ())
    return tuple((scan, null or at in padded) for at, side in enumerate(sides) for scan, null in in_results(side))


def scans(node: Node) -> tuple[Scan, ...]:
    """Return the relations of a join tree from left to right, without those inside derived tables."""
    if isinstance(node, Scan):
        return (node,)
    return tuple(scan for below in node.inputs for scan in scans(below))


def column_types(relations: Iterable[Scan]) -> dict[At, str]:
    """Return the types of the columns of some relations."""
    return {(scan.alias, column.name): column.type for scan in relations for column in scan.columns}
