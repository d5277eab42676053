"""Plan nodes: what the rewriter's stages hand to one another and, at the end, to the operators.

A plan is a tree of frozen dataclasses that check themselves when they are built. SQL text inside a node is Spark SQL:
Spark evaluates it, we only decide where it runs. This module imports nothing but the standard library, so that the
operator library can import it without pulling in sqlglot or networkx.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ..errors import PlanError

Shape = Literal["pair", "chain", "cyclic", "star", "clique", "general", "disconnected"]
PredicateKind = Literal["equi", "null_safe", "band", "range", "not_equal", "residual"]
ComparisonOp = Literal["=", "<=>", "<", "<=", ">", ">=", "<>", "band"]
JoinKind = Literal["inner", "cross", "left", "right", "full", "semi", "anti"]

#: The comparison with its operands exchanged: ``a < b`` is ``b > a``.
FLIPPED: dict[str, ComparisonOp] = {
    "=": "=",
    "<=>": "<=>",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation.

    Parameters
    ----------
    name
        The name in the spelling of its schema.
    type
        Spark's DDL name of the type, such as ``"decimal(10,2)"``; ``"unknown"`` where no schema tells.
    """

    name: str
    type: str = "unknown"


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column that a join node puts out.

    Parameters
    ----------
    name
        The name in the node's output, unique there (also without regard to case): ``r__id`` for ``r.id``.
    relation
        The alias of the input it comes from.
    column
        Its name in that input.
    type
        As in `Column`.
    """

    name: str
    relation: str
    column: str
    type: str = "unknown"


@dataclass(frozen=True, slots=True)
class Predicate:
    """One conjunct of a join condition.

    Parameters
    ----------
    sql
        The conjunct as the user wrote it (for people to read).
    kind
        What sort of conjunct it is; only ``"residual"`` is left to Spark, all others are evaluated by the kernel.
    relations
        The aliases it mentions, in plan order. Kernel predicates mention exactly two: `left` is over the first and
        `right` over the second.
    op
        The comparison ``left op right``; ``"band"`` stands for ``lower <(=) left - right <(=) upper``.
    left, right
        Spark SQL expressions over one relation each, with columns qualified by its alias.
    lower, upper
        For ``"band"``: Spark SQL constants, None where that side is open: whole numbers for integers and (as days) for
        dates, day-time intervals for timestamps.
    lower_inclusive, upper_inclusive
        For ``"band"``: whether the difference may equal the bound.
    guards
        Spark SQL expressions over one relation each, as ``(alias, sql)``, that Spark must evaluate although the kernel
        does not need their value, so that an ANSI error that the original text would raise is still raised.
    rendered
        For residuals of a join node: the same conjunct over the node's output names, ready for Spark. Otherwise the
        conjunct with columns qualified by their aliases.
    derived
        True if it follows from others (transitive equality, WITHIN) and was not written by the user.
    """

    sql: str
    kind: PredicateKind
    relations: tuple[str, ...]
    op: ComparisonOp | None = None
    left: str | None = None
    right: str | None = None
    lower: str | None = None
    upper: str | None = None
    lower_inclusive: bool = False
    upper_inclusive: bool = False
    guards: tuple[tuple[str, str], ...] = ()
    rendered: str | None = None
    derived: bool = False

    def __post_init__(self) -> None:
        if self.kind == "residual":
            if self.op is not None:
                raise PlanError(f"a residual has no kernel comparison: {self.sql}")
            return
        if len(self.relations) != 2 or self.op is None or self.left is None or self.right is None:
            raise PlanError(f"a kernel predicate compares two relations: {self.sql}")
        if self.op == "band" and self.lower is None and self.upper is None:
            raise PlanError(f"a band has at least one bound: {self.sql}")


@dataclass(frozen=True, slots=True)
class Edge:
    """The kernel predicates between two relations of a join group; ``left`` comes before ``right`` in plan order."""

    left: str
    right: str
    predicates: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        for predicate in self.predicates:
            if predicate.relations != (self.left, self.right):
                raise PlanError(f"{predicate.sql} does not belong to the edge {self.left} - {self.right}")

    @property
    def derived(self) -> bool:
        """True if every predicate on the edge follows from others."""
        return all(predicate.derived for predicate in self.predicates)


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A difference constraint on event time: ``lower <= right.time - left.time <= upper``, in microseconds.

    None stands for minus or plus infinity.
    """

    left: str
    right: str
    lower: int | None
    upper: int | None


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """The join graph of a group: relations are nodes, theta conjuncts label the edges (001 section 3.1).

    Parameters
    ----------
    relations
        The aliases in plan order (the order of FROM). It is also the streams' rank order.
    edges
        One for each pair of relations with a kernel predicate, in plan order.
    residuals
        Conjuncts that Spark evaluates over the group's output.
    shape
        The shape of the edges that the user wrote; derived edges do not count.
    hub
        The middle relation of a chain of three, the centre of a star, else None.
    time_bounds
        The closed event-time bounds between pairs of relations (only pairs with at least one finite side).
    """

    relations: tuple[str, ...]
    edges: tuple[Edge, ...]
    residuals: tuple[Predicate, ...] = ()
    shape: Shape = "general"
    hub: str | None = None
    time_bounds: tuple[TimeBound, ...] = ()

    def __post_init__(self) -> None:
        names = set(self.relations)
        if len(names) != len(self.relations):
            raise PlanError(f"relations of a join group have different aliases: {self.relations}")
        for edge in self.edges:
            if self.relations.index(edge.left) >= self.relations.index(edge.right):
                raise PlanError(f"edge {edge.left} - {edge.right} is not in plan order")

    def edge(self, one: str, other: str) -> Edge | None:
        """Return the edge between two relations, or None."""
        for edge in self.edges:
            if {edge.left, edge.right} == {one, other}:
                return edge
        return None


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimated cost of a scheme, per second of stream time (rows sent, rows kept, comparisons) and its stages."""

    network: float
    memory: float
    cpu: float
    stages: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """One scheme or operator tree that was considered."""

    scheme: str
    cost: Cost
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """How a group will run, and why.

    Parameters
    ----------
    node
        The physical node, ``"none"`` if the group is left to Spark.
    scheme
        One of `operators.schemes`: ``symmetric``, ``semi_symmetric``, ``biclique``, ``tree``, ``matrix``, ...
    units
        Units a stream's group; cells for ``matrix``. None lets the operators take their default.
    options
        Further settings of the scheme as ``(name, value)``, for example ``("routing", "hash")``.
    """

    node: Literal["TriJoin", "MultiJoin", "BiJoin", "none"]
    scheme: str | None
    units: int | None
    reason: str
    alternatives: tuple[Alternative, ...] = ()
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a stream's rows are kept. ``keep_for`` is in microseconds; None means for ever."""

    alias: str
    keep_for: int | None
    advice: str | None = None


# --------------------------------------------------------------------------------------------------------------- nodes


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
        All its columns, as far as a schema tells.
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

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.below

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return dataclasses.replace(self, below=inputs)


@dataclass(frozen=True)
class Filter(Node):
    """Keeps the rows for which every condition is true. Conditions are Spark SQL over qualified columns."""

    input: Node
    conditions: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        (only,) = inputs
        return dataclasses.replace(self, input=only)


@dataclass(frozen=True)
class Project(Node):
    """Keeps some columns: ``items`` are ``(output name, Spark SQL)``."""

    input: Node
    items: tuple[tuple[str, str], ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        (only,) = inputs
        return dataclasses.replace(self, input=only)


@dataclass(frozen=True)
class Exchange(Node):
    """A redistribution of rows that the binary plan would need: hashed by ``keys``, or broadcast if there are none."""

    input: Node
    keys: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        (only,) = inputs
        return dataclasses.replace(self, input=only)


@dataclass(frozen=True)
class Join(Node):
    """A binary join. ``by_spark``: it stays with Spark, by a hint or because one side is static."""

    kind: JoinKind
    left: Node
    right: Node
    predicates: tuple[Predicate, ...] = ()
    by_spark: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        left, right = inputs
        return dataclasses.replace(self, left=left, right=right)


@dataclass(frozen=True)
class JoinGroup(Node):
    """A multi-join group found by step 1 of the Two-Step Convert (004 section 3.2.1): a marked binary join tree."""

    root: Node
    members: int

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.root,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        (only,) = inputs
        return dataclasses.replace(self, root=only)


@dataclass(frozen=True)
class JoinNode(Node):
    """A physical n-way inner join, made by step 2 of the Two-Step Convert (004 section 3.2.2).

    Parameters
    ----------
    name
        The name under which SQL above it refers to its output, unique in the plan: ``__trijoin_1``.
    sources
        The inputs in plan order, one for each of ``graph.relations``: ``Scan``, or ``Filter`` over ``Scan`` (filters on
        that relation alone, conditions qualified with the alias). An inner node of an operator tree is an input as
        ``Scan(alias, relation=its name, below=(node,))``.
    output
        What it puts out. Columns that only residuals need are among them.
    """

    name: str
    sources: tuple[Node, ...]
    graph: JoinGraph
    decision: Decision
    output: tuple[OutputColumn, ...]
    retention: tuple[Retention, ...] = ()

    def __post_init__(self) -> None:
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


@dataclass(frozen=True)
class BiJoin(JoinNode):
    """Two relations."""


@dataclass(frozen=True)
class TriJoin(JoinNode):
    """Three relations (001)."""


@dataclass(frozen=True)
class MultiJoin(JoinNode):
    """Four relations and more (004), or three under an n-way scheme."""


@dataclass(frozen=True)
class Where(Node):
    """Conjuncts over a join tree that have not found their place yet; those that stay become Spark's WHERE."""

    input: Node
    predicates: tuple[Predicate, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        (only,) = inputs
        return dataclasses.replace(self, input=only)


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
class LeftAlone(Node):
    """A join group that stays with Spark; ``decision.reason`` says why."""

    root: Node
    graph: JoinGraph
    decision: Decision
    retention: tuple[Retention, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.root,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        (only,) = inputs
        return dataclasses.replace(self, root=only)


@dataclass(frozen=True)
class Hints:
    """What the hints of one SELECT ask for.

    Parameters
    ----------
    convert
        False for NO_TRIJOIN.
    relations
        The relations of TRIJOIN(...): only a group of just these is converted. Empty if there is no such hint.
    scheme, units
        The values of SCHEME(...) and UNITS(...).
    """

    convert: bool = True
    relations: tuple[str, ...] = ()
    scheme: str | None = None
    units: int | None = None


@dataclass(frozen=True)
class Block(Node):
    """One SELECT that joins: its FROM and WHERE as a plan. The rest of it stays in the syntax tree.

    Parameters
    ----------
    number
        Which SELECT, in plan order.
    required
        The columns, as ``(alias, name)``, that the rest of the SELECT reads.
    within
        The length of WITHIN in microseconds.
    problem
        Why nothing in it can be converted.
    """

    number: int
    input: Node
    required: tuple[tuple[str, str], ...] = ()
    hints: Hints = field(default_factory=Hints)
    within: int | None = None
    problem: str | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        (only,) = inputs
        return dataclasses.replace(self, input=only)


@dataclass(frozen=True)
class Query(Node):
    """The rest of a SELECT (projection, grouping, ordering ...) as Spark SQL over the join nodes below.

    ``sql`` refers to the output of a join node below under that node's ``name`` (a quoted identifier).
    """

    sql: str
    below: tuple[Node, ...] = field(default=())

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
    """Return the conditions of all filters above the `Scan` of one input of a `JoinNode`."""
    conditions: tuple[str, ...] = ()
    node = source
    while not isinstance(node, Scan):
        if isinstance(node, Filter):
            conditions = node.conditions + conditions
        node = node.inputs[0]
    return conditions


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, parents first."""
    yield node
    for below in node.inputs:
        yield from walk(below)


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return the tree with ``change`` applied to every node, bottom up. Unchanged nodes are kept as they are."""
    inputs = tuple(transform(below, change) for below in node.inputs)
    if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
        node = node.with_inputs(inputs)
    return change(node)


def scans(node: Node) -> tuple[Scan, ...]:
    """Return the relations of a join tree from left to right, without those inside derived tables."""
    if isinstance(node, Scan):
        return (node,)
    return tuple(scan for below in node.inputs for scan in scans(below))
