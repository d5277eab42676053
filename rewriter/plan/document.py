"""The document that EXPLAIN draws: what the rewriter decided, as frozen dataclasses that `json_codec` saves and reads.

Where a record of the plan is what a person should see, it is part of the document as it is (`Decision` and what stands
in it, `Refusal`). The others are here: they show expressions and lengths of time as text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .decision import Decision
from .joins import NodeKind
from .json_codec import ALWAYS, HIDDEN, Json
from .parts import Refusal, Shape


@dataclass(frozen=True, slots=True)
class Stage:
    """The plan after one stage of the rewriter, as text; for a stage that found nothing to do, its reason."""

    name: str
    plan: str
    skipped: str | None = None


#: Where the first character of a text stands, and where the one behind its last.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A conjunct of a join condition.

    Parameters
    ----------
    sql, kind
        Its text, and the kind of predicate that it is.
    derived
        Whether it follows from others.
    places
        Where it stands in the statement, as ``(start, end)`` in characters; several if several conditions make it,
        none if it is derived (but WITHIN points to its clause), or if an older version wrote the document.
    number
        Its number in its group, from 1: over the edges and then the residuals.
    """

    sql: str
    kind: str
    derived: bool = False
    places: tuple[Place, ...] = ()
    number: int = field(default=0, metadata=HIDDEN)


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """What joins two relations, residuals included; it is derived if all of it follows from other conjuncts."""

    left: str
    right: str
    derived: bool
    predicates: tuple[Conjunct, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """The join graph of a group.

    Parameters
    ----------
    shape, hub, relations, edges
        As in `JoinGraph`.
    residuals, residual_places
        The conjuncts over three or more relations, and the places of each.
    whole
        The same with their numbers.
    """

    shape: Shape
    hub: str | None
    relations: tuple[str, ...]
    edges: tuple[GraphEdge, ...]
    residuals: tuple[str, ...] = field(default=(), metadata=ALWAYS)
    residual_places: tuple[tuple[Place, ...], ...] = ()
    whole: tuple[Conjunct, ...] = field(default=(), metadata=HIDDEN)

    @property
    def predicates(self) -> tuple[Conjunct, ...]:
        """All conjuncts in the order of their numbers."""
        return tuple(one for edge in self.edges for one in edge.predicates) + self.whole


@dataclass(frozen=True, slots=True)
class UnitAggregation:
    """What happens to the aggregation above a group: its first step is taken in the units, or ``reason`` says why not.

    Parameters
    ----------
    in_units
        Whether it is.
    aggregates, keys
        The aggregates as the user wrote them, and the GROUP BY expressions.
    from_packs, listed
        Whether results are counted and summed without listing them, and relations whose rows are listed all the same.
    reason
        Why Spark aggregates alone.
    """

    in_units: bool
    aggregates: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    from_packs: bool = field(default=False, metadata=ALWAYS)
    listed: tuple[str, ...] = field(default=(), metadata=ALWAYS)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class EventTime:
    """Which columns of a group's results are event time for operators above it, and what holds watermarks back."""

    columns: tuple[str, ...]
    held_back: str | None


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A step of a proof: a bound (``s.ts <= r.ts + 10 minutes``), and the predicate that says so with its places."""

    bound: str
    sql: str
    derived: bool = False
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """How much later a row of another input may be, and the steps from predicate to predicate that prove it."""

    other: str
    most: str
    steps: tuple[ProofStep, ...]


@dataclass(frozen=True, slots=True)
class StreamState:
    """How long the rows of a stream are kept, such as ``5 minutes``; None means for ever.

    Parameters
    ----------
    alias, keep_for
        The stream, and the length.
    advice
        What would bound it.
    expires
        When a row expires: ``when the watermark passes r.ts + 5 minutes``.
    proof
        Why no later row can meet it: a bound for each other input that has one.
    latest
        The key of which the latest row stays when it expires; None if none stays.
    """

    alias: str
    keep_for: str | None
    advice: str | None = None
    expires: str | None = None
    proof: tuple[Proof, ...] = ()
    latest: tuple[str, ...] | None = None

    @property
    def kept(self) -> str:
        """How long rows are kept, and what stays."""
        if self.latest is None:
            return self.keep_for or "for ever"
        of_each = f" of each {', '.join(self.latest)}" if self.latest else ""
        return f"{self.keep_for}, then the latest row{of_each}"


@dataclass(frozen=True, slots=True)
class State:
    """What a group keeps."""

    bounded: bool
    streams: tuple[StreamState, ...]


@dataclass(frozen=True, slots=True)
class UnitLoad:
    """What one unit holds."""

    unit: str
    rows: float = 0
    bytes: float = 0


#: Numbers and words by name.
Named = tuple[tuple[str, Json], ...]


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What a node of an operator tree has done, and what each of its units holds."""

    node: str
    counters: Named = ()
    units: tuple[UnitLoad, ...] = ()


@dataclass(frozen=True, slots=True)
class Live:
    """What a running query has done; see `running.metrics`.

    Parameters
    ----------
    batch
        The last micro-batch that is in it.
    counters, units
        The sums of all units' counters, and what each unit holds. Of an operator tree the sums over its nodes, with
        the root's results alone, and what the root's units hold.
    nodes
        The nodes of an operator tree, if it is one, each by itself.
    estimates, actual
        What was expected and what came, by the same names.
    layout
        ``units`` that store new rows, ``slots`` that rows reach.
    policy, scaling
        The settings of scaling and its decisions, the last one at the end.
    inputs, idle
        What inputs brought, and sentences on those that bring nothing.
    vanished
        Sentences on rows that cannot join, and on inputs that have brought none.
    """

    batch: int | None = None
    counters: Named = ()
    units: tuple[UnitLoad, ...] = ()
    nodes: tuple[NodeLoad, ...] = ()
    estimates: Named = ()
    actual: Named = ()
    layout: Named = ()
    policy: Named = ()
    scaling: tuple[Json, ...] = ()
    inputs: tuple[Json, ...] = ()
    idle: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hanging:
    """A branch of a ``mixed`` join: a relation that hangs on rows of another one, its `anchor`, by a join of a kind.

    `matching` and `closest` are those of a group.
    """

    relation: str
    anchor: str
    join: str
    matching: tuple[str, ...] = ()
    closest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A join group: its graph, the decision, what it keeps. ``index`` counts the groups of a document from 1.

    `join` is its kind, and `matching` has the conditions of ON over one input, without which a row has no partner.
    `closest` is the clause that says which partners of a row are results, if not all are. The `branches` of a ``mixed``
    join say so of each relation which is not joined by an inner join.
    """

    name: str | None = None
    join: NodeKind = "inner"
    matching: tuple[str, ...] = ()
    closest: str | None = None
    branches: tuple[Hanging, ...] = ()
    graph: Graph
    decision: Decision
    aggregation: UnitAggregation | None = None
    event_time: EventTime | None = None
    state: State
    live: Live | None = None
    index: int = field(default=0, metadata=HIDDEN)

    @property
    def unbounded(self) -> tuple[StreamState, ...]:
        """The streams whose rows a node of ours keeps for ever."""
        streams = () if self.decision.left_to_spark else self.state.streams
        return tuple(stream for stream in streams if stream.keep_for is None)

    @property
    def state_is_unbounded(self) -> bool:
        """Whether a node of ours keeps rows for ever."""
        return not self.decision.left_to_spark and (not self.state.bounded or bool(self.unbounded))


@dataclass(frozen=True, slots=True)
class Document:
    """A whole explanation.

    Parameters
    ----------
    version
        Of the document's form.
    sql
        The statement as the user wrote it.
    kind, converted
        What the statement is, and whether at least one group is a join node of ours.
    stages, groups
        The plan after each stage, and the join groups in plan order.
    advice
        Sentences for the user.
    refusals, append_refusals
        Why the query cannot run on streams, at all or in append mode.
    """

    version: int
    sql: str
    kind: str | None
    converted: bool | None
    stages: tuple[Stage, ...]
    groups: tuple[Group, ...]
    advice: tuple[str, ...]
    refusals: tuple[Refusal, ...] = field(default=(), metadata=ALWAYS)
    append_refusals: tuple[Refusal, ...] = field(default=(), metadata=ALWAYS)
