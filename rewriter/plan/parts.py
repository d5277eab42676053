"""What the nodes of a plan hold: columns, predicates, the join graph, the decision on how a group runs.

It imports only the standard library, as `nodes` does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ...errors import PlanError
from .conjuncts import Compare, Either, KernelPredicate, Residual, Term
from .json_codec import ALWAYS, HIDDEN, Json
from .trees import TreeOf, leaves, order_text, tree_text

Shape = Literal["pair", "chain", "cyclic", "star", "clique", "general", "disconnected"]
StateFunction = Literal["count", "sum", "min", "max"]
#: How rows go to units of their own stream's group.
Routing = Literal["random", "hash", "contrand", "range"]
#: The names of our nodes, by the number of inputs.
NodeName = Literal["TriJoin", "MultiJoin", "BiJoin", "none"]
#: Where a number of rows comes from: a declaration, earlier queries, Spark's statistics, or an assumption.
RowsFrom = Literal["declared", "observed", "statistics", "assumed"]
#: A column of a relation, as ``(alias, name)``, the name in small letters.
At = tuple[str, str]


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
class Edge:
    """The kernel predicates between two relations of a join group; ``left`` comes before ``right`` in plan order."""

    left: str
    right: str
    predicates: tuple[KernelPredicate, ...]

    def __post_init__(self) -> None:
        for predicate in self.predicates:
            if predicate.relations != (self.left, self.right):
                raise PlanError(f"{predicate.sql} does not belong to the edge {self.left} - {self.right}")

    @property
    def derived(self) -> bool:
        """True if every predicate on the edge follows from others."""
        return all(predicate.derived for predicate in self.predicates)


@dataclass(frozen=True, slots=True)
class TimeStep:
    """A step of the proof of a bound: ``later <= earlier + most`` (microseconds), by one predicate.

    Parameters
    ----------
    earlier, later
        The two event times, as ``r.ts``.
    most
        How much later the one may be than the other.
    sql, derived, places
        As in the predicate that says so.
    """

    earlier: str
    later: str
    most: int
    sql: str
    derived: bool = False
    places: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TimeBound:
    """A difference constraint on event time: ``lower <= right.time - left.time <= upper``, in microseconds.

    None stands for minus or plus infinity. `lower_by` and `upper_by` are the steps by which these follow from
    predicates, as far as they are known.
    """

    left: str
    right: str
    lower: int | None
    upper: int | None
    lower_by: tuple[TimeStep, ...] = field(default=(), compare=False)
    upper_by: tuple[TimeStep, ...] = field(default=(), compare=False)


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
    residuals: tuple[Residual, ...] = ()
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

    def is_own(self, edge: Edge) -> bool:
        """Return whether the query itself connects the two relations of an edge.

        By a predicate of its own, or by one that follows from a residual between just these two: a band of times from
        ``timestampdiff(...)``, say. WITHIN, what follows from other edges, and an OR of filters connect nothing.
        """
        tested = {one.sql for one in self.residuals if one.relations == (edge.left, edge.right)}
        own = (one for one in edge.predicates if not one.derived or tested & {one.sql, one.source})
        return any(not isinstance(one, Either) or one.connects for one in own)

    def edge(self, one: str, other: str) -> Edge | None:
        """Return the edge between two relations, or None."""
        for edge in self.edges:
            if {edge.left, edge.right} == {one, other}:
                return edge
        return None

    def most(self, one: str, other: str) -> int | None:
        """Return how much later its partner in ``other`` may be than a row of ``one``, in microseconds."""
        for bound in self.time_bounds:
            if (bound.left, bound.right) == (one, other):
                return bound.upper
            if (bound.left, bound.right) == (other, one):
                return None if bound.lower is None else -bound.lower
        return None

    def proof(self, one: str, other: str) -> tuple[TimeStep, ...]:
        """Return the steps by which `most` follows from predicates."""
        for bound in self.time_bounds:
            if (bound.left, bound.right) == (one, other):
                return bound.upper_by
            if (bound.left, bound.right) == (other, one):
                return bound.lower_by
        return ()

    def not_implied(self, edge: Edge) -> tuple[KernelPredicate, ...]:
        """Return an edge's predicates, except those that rows joined with a row of the hub always fulfil.

        These are the derived equalities of both its relations with one expression of the hub.
        """
        if self.hub is None or self.hub in (edge.left, edge.right):
            return edge.predicates
        return tuple(
            predicate
            for predicate in edge.predicates
            if not (isinstance(predicate, Compare) and predicate.derived and predicate.kind == "equi")
            or not self._equal_at_hub(edge.left, predicate.left) & self._equal_at_hub(edge.right, predicate.right)
        )

    def _equal_at_hub(self, relation: str, term: Term) -> set[Term]:
        """Return the hub's expressions in equalities with an expression of a relation."""
        edge = self.edge(relation, self.hub or "")
        if edge is None:
            return set()
        equal = [
            (found.left, found.right)
            for found in edge.predicates
            if isinstance(found, Compare) and found.kind == "equi"
        ]
        sides = equal if edge.left == relation else [(mine, other) for other, mine in equal]
        return {other for mine, other in sides if mine == term}


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimated cost of a scheme per second of stream time (rows sent, rows kept, comparisons), and its stages."""

    network: float
    memory: float
    cpu: float
    stages: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """One scheme or operator tree that was considered."""

    scheme: str
    cost: Cost
    chosen: bool = field(default=False, metadata=ALWAYS)


@dataclass(frozen=True, slots=True)
class InputRate:
    """The rows of one input that costs are estimated for.

    Parameters
    ----------
    alias
        The input.
    rows
        Rows a second of a stream, rows of a table.
    streaming
        Whether it counts as a stream.
    rows_from
        Where this number comes from.
    """

    alias: str
    rows: float
    streaming: bool
    rows_from: RowsFrom


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of a grid of cells.

    Parameters
    ----------
    relations
        The aliases whose rows have a place along it, in plan order; all other rows are copied along it.
    key
        The expression of each of them that its rows are placed by; None if the rows of one relation are spread evenly.
    shares
        Cells along it.
    home
        None if rows are hashed. Else values are cut into ranges: the relation whose rows lie in the range of their own
        value; rows of the others go to each range in which they may find a partner (nearly always one, else two).
    """

    relations: tuple[str, ...]
    key: tuple[str, ...] | None
    shares: int
    home: str | None = None


@dataclass(frozen=True, slots=True)
class SchemeOptions:
    """What a scheme is told besides its units; nothing where it does not have such a choice.

    Parameters
    ----------
    pairs
        Whether ``symmetric`` and ``semi_symmetric`` store intermediates as pairs instead of packs.
    routing, subgroups
        How rows go to units (003 section 3.2).
    tree
        For ``operator_tree``: the tree over the numbers of the group's relations. For ``tree``: the order in which they
        are joined, if it is not their own.
    """

    pairs: bool = False
    routing: Routing | None = None
    subgroups: int | None = None
    tree: TreeOf[int] = ()

    def shown(self, relations: Sequence[str]) -> dict[str, str]:
        """Return the options as EXPLAIN and fingerprints have them, by name."""
        flat = all(isinstance(part, int) for part in self.tree)
        found = {
            "intermediates": "pair" if self.pairs else None,
            "routing": self.routing,
            "subgroups": None if self.subgroups is None else str(self.subgroups),
            "order": order_text(relations[int(one)] for one in leaves(self.tree)) if self.tree and flat else None,
            "tree": None if flat else tree_text(self.tree),
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Decision:
    """How a group will run, and why: in the plan, and in the document that EXPLAIN draws.

    Parameters
    ----------
    node
        The physical node, ``"none"`` if the group is left to Spark.
    scheme
        One of `operators.schemes`: ``symmetric``, ``semi_symmetric``, ``biclique``, ``tree``, ``matrix``, ...
    units
        Units of a stream's group; cells for ``matrix``. With None the operators use their default.
    options
        What else the scheme is told.
    expected
        Estimates for the chosen scheme, as ``(name, number)``: rows and results a second, rows kept. A running query
        shows its own numbers beside these.
    units_reason
        Why there are this many units.
    rates
        The rows of each input that costs were estimated for, and where these numbers come from.
    advice
        What to declare or hint so that a scheme that looks much cheaper runs; for a checkpoint that keeps its scheme,
        that scheme.
    from_checkpoint
        Whether scheme and units are those that a checkpoint stores rows by.
    units_by_cost
        Whether cost chose the units: then a checkpoint's number has precedence.
    unscaled
        Where scaling is on: why it leaves these units alone, and what it would scale.
    probes
        For ``matrix`` and ``iterative``: the relations that the rows of each one probe, one after the other.
    shown, grid
        In the document only: the options by name, and the grid of a ``matrix``.
    """

    node: NodeName
    scheme: str | None
    units: int | None
    reason: str
    alternatives: tuple[Alternative, ...] = field(default=(), metadata=ALWAYS)
    options: SchemeOptions = field(default=SchemeOptions(), metadata=HIDDEN)
    expected: tuple[tuple[str, float], ...] = field(default=(), metadata=ALWAYS)
    units_reason: str | None = field(default=None, metadata=ALWAYS)
    rates: tuple[InputRate, ...] = field(default=(), metadata=ALWAYS)
    advice: str | None = field(default=None, metadata=ALWAYS)
    from_checkpoint: bool = field(default=False, metadata=ALWAYS)
    units_by_cost: bool = field(default=False, metadata=HIDDEN)
    unscaled: str | None = None
    probes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shown: tuple[tuple[str, Json], ...] = field(default=(), metadata={**ALWAYS, "key": "options"})
    grid: tuple[Dimension, ...] = ()

    @property
    def left_to_spark(self) -> bool:
        """Whether Spark, and not a node of ours, runs the group."""
        return self.node == "none"

    def option(self, name: str) -> Json:
        """Return a shown option of the scheme, None if it is not set."""
        return dict(self.shown).get(name)


#: What the caution about a cross product begins with.
PRODUCT = "CROSS PRODUCT"


@dataclass(frozen=True)
class Refusal:
    """What cannot run on streams, and why; `hint` names a way out."""

    reason: str
    hint: str


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a stream's rows are kept. ``keep_for`` is in microseconds; None means for ever.

    With `latest`, of each key (some expressions, or none) the latest row that has expired stays.
    """

    alias: str
    keep_for: int | None
    advice: str | None = None
    latest: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A GROUP BY expression over the relations of one input, computed before the join.

    Parameters
    ----------
    name
        Its column in the node's output.
    term
        The expression.
    text
        The text that identifies it in the SELECT.
    """

    name: str
    term: Term
    text: str


@dataclass(frozen=True, slots=True)
class PartialState:
    """What a unit keeps of an aggregate while it joins, and puts out once for each group and micro-batch.

    Parameters
    ----------
    name
        Its column in the node's output.
    function
        ``count`` counts the values of `term` that are not NULL, all rows if there is no `term`.
    term
        The argument over the relations of one input, computed before the join.
    type
        Spark's type of the state; ``"unknown"`` for ``min`` and ``max``, whose type is the argument's.
    """

    name: str
    function: StateFunction
    term: Term | None = None
    type: str = "bigint"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregation in two steps (003 section 3.4.2): units reduce their results to states, Spark merges the states.

    Parameters
    ----------
    keys
        The GROUP BY expressions that are computed before the join.
    states
        What the units put out for each group.
    merges
        The replacement of each aggregate, by its text with qualified columns: Spark SQL over the states.
    shown
        The aggregates as the user wrote them.
    from_packs, listed
        Whether results are counted and summed without listing them, and relations whose rows are listed all the same.
    """

    keys: tuple[GroupKey, ...] = ()
    states: tuple[PartialState, ...] = ()
    merges: tuple[tuple[str, str], ...] = ()
    shown: tuple[str, ...] = ()
    from_packs: bool = False
    listed: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[GroupKey | PartialState, ...]:
        """What the node puts out, in order."""
        return (*self.keys, *self.states)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The expressions that are computed before the join."""
        return tuple(one.term for one in self.columns if one.term is not None)

    def with_terms(self, change: Callable[[Term], Term]) -> Aggregation:
        """Return the same aggregation over changed terms."""
        keys = tuple(replace(key, term=change(key.term)) for key in self.keys)
        states = tuple(replace(one, term=one.term and change(one.term)) for one in self.states)
        return replace(self, keys=keys, states=states)


@dataclass(frozen=True, slots=True)
class WindowUse:
    """A call of ``window`` or ``session_window``: the columns of its time.

    ``alone`` is the column that the time is, and ``latest`` the columns of ``GREATEST(...)``, if it is just that.
    """

    columns: frozenset[At]
    alone: At | None
    latest: frozenset[At]


@dataclass(frozen=True, slots=True)
class TimeUses:
    """What a SELECT does with columns that may be event times.

    ``items`` are the columns that it puts out unchanged, ``grouped`` those that it groups by or makes windows of.
    """

    items: tuple[At, ...] = ()
    grouped: frozenset[At] = frozenset()
    windows: tuple[WindowUse, ...] = ()
    distinct: bool = False


def unused(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken, with a number if needed; the taken names are in small letters."""
    unique, number = name, 2
    while unique.lower() in taken:
        unique, number = f"{name}_{number}", number + 1
    return unique
