"""What the nodes of a plan hold: columns, the join graph, bounds of event time, aggregations.

It imports only the standard library, as `nodes` does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from ...errors import PlanError
from .conjuncts import KINDS, Compare, Either, KernelPredicate, Residual, Term
from .json_codec import HIDDEN

Shape = Literal["pair", "chain", "cyclic", "star", "clique", "general", "disconnected"]
StateFunction = Literal["count", "sum", "min", "max"]
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
    """The kernel predicates between two relations of a join group; ``left`` comes before ``right`` in plan order.

    Parameters
    ----------
    left, right, predicates
        The relations and what joins them.
    share, share_from
        The share of their pairs of rows that match, as far as it is known, and who says so.
    """

    left: str
    right: str
    predicates: tuple[KernelPredicate, ...]
    share: float | None = None
    share_from: RowsFrom = "assumed"

    def __post_init__(self) -> None:
        for predicate in self.predicates:
            if predicate.relations != (self.left, self.right):
                raise PlanError(f"{predicate.sql} does not belong to the edge {self.left} - {self.right}")

    @property
    def derived(self) -> bool:
        """True if every predicate on the edge follows from others."""
        return all(predicate.derived for predicate in self.predicates)

    @property
    def declared(self) -> float | None:
        """The share that a hint declares, None if none does."""
        return self.share if self.share_from == "declared" else None

    @property
    def written(self) -> tuple[KernelPredicate, ...]:
        """The user's own predicates, and what one of these between just these relations implies."""
        return tuple(predicate for predicate in self.predicates if not predicate.derived or predicate.source)

    @property
    def counts(self) -> bool:
        """Whether costs count it: the user wrote something of it, or it is an equality, though others imply it."""
        return bool(self.written) or any(KINDS[predicate.kind].equal for predicate in self.predicates)


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
    optional
        The relations of the branches of a ``mixed`` join: a result may be without a row of them.
    """

    relations: tuple[str, ...]
    edges: tuple[Edge, ...]
    residuals: tuple[Residual, ...] = ()
    shape: Shape = "general"
    hub: str | None = None
    time_bounds: tuple[TimeBound, ...] = ()
    optional: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = set(self.relations)
        if len(names) != len(self.relations):
            raise PlanError(f"relations of a join group have different aliases: {self.relations}")
        for edge in self.edges:
            if self.relations.index(edge.left) >= self.relations.index(edge.right):
                raise PlanError(f"edge {edge.left} - {edge.right} is not in plan order")

    @property
    def core(self) -> tuple[str, ...]:
        """The relations of which each result has a row."""
        return tuple(one for one in self.relations if one not in self.optional)

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


#: Said of rows that nothing lets go.
FOR_EVER = "is kept for ever (UNBOUNDED)"

#: What the caution about a cross product begins with.
PRODUCT = "CROSS PRODUCT"


@dataclass(frozen=True)
class Refusal:
    """What cannot run on streams, and why; `hint` names a way out.

    `subject` is how that begins in a statement (phrases for `sql.places.place_of`), if there is one place for it.
    """

    reason: str
    hint: str
    subject: str = field(default="", metadata=HIDDEN)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a stream's rows are kept. ``keep_for`` is in microseconds; None means for ever.

    With `latest`, of each key (some expressions, or none) the latest row that has expired stays. Of rows that are kept
    for ever, `why` says why, and `hint` what would bound that.
    """

    alias: str
    keep_for: int | None
    why: str = ""
    hint: str = ""
    latest: tuple[str, ...] | None = None

    @property
    def told(self) -> str:
        """Why rows are kept for ever, and what would bound that; empty if nothing is known of it."""
        return f"{self.why}; {self.hint}" if self.why else ""

    @property
    def advice(self) -> str | None:
        """The sentence about rows that are kept for ever."""
        return f"{self.alias} {FOR_EVER}: {self.told}" if self.why else None


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


def named_columns(
    wanted: Iterable[At], types: Mapping[At, str], taken: Iterable[str], kept: Mapping[At, str] = MappingProxyType({})
) -> tuple[OutputColumn, ...]:
    """Name columns of a node's inputs, each once: ``r__id`` for ``r.id``, with a number if that is taken.

    Parameters
    ----------
    wanted
        The columns.
    types
        Their types, as far as they are known.
    taken
        Names that none of them gets.
    kept
        The names that some of them have already.
    """
    used = {name.lower() for name in (*taken, *kept.values())}
    output = []
    for at in dict.fromkeys(wanted):
        name = kept.get(at) or unused("__".join(at), used)
        used.add(name.lower())
        output.append(OutputColumn(name, *at, types.get(at, "unknown")))
    return tuple(output)
