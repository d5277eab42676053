"""The explanation document as frozen records: what renderers work from. `reading` makes them of the JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A value of a JSON document.
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


#: A unit with this many times the mean of all units has too much to do.
_SKEWED = 1.5


@dataclass(frozen=True, slots=True)
class Stage:
    """The plan after one rewriter stage, and the reason if the stage did nothing."""

    name: str
    plan: str
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunct; ``number`` counts the conjuncts of a group from 1, over its edges and then its residuals."""

    number: int
    sql: str
    kind: str
    derived: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the join graph."""

    left: str
    right: str
    derived: bool
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A scheme that was considered. Costs that are not finite numbers are None."""

    scheme: str
    network: float | None
    memory: float | None
    cpu: float | None
    stages: int | None
    chosen: bool


@dataclass(frozen=True, slots=True)
class InputRate:
    """The rows of an input that costs are estimated for, and where that number comes from."""

    alias: str
    rows: float
    streaming: bool
    rows_from: str


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of a grid of cells; rows of the ``streams`` have a place along it, all others are copied along it."""

    name: str
    size: int
    streams: tuple[str, ...]
    hashed: bool


@dataclass(frozen=True, slots=True)
class StreamState:
    """How long the rows of one stream are kept; None means for ever."""

    alias: str
    keep_for: str | None
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class UnitLoad:
    """What one unit holds."""

    unit: str
    rows: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Live:
    """Counters of a running query, including micro-batch ``batch``; its units; scaling's settings, decisions."""

    batch: int | None
    counters: tuple[tuple[str, Json], ...]
    units: tuple[UnitLoad, ...]
    estimates: Mapping[str, Json]
    actual: Mapping[str, Json]
    layout: Mapping[str, Json] = field(default_factory=dict)
    policy: Mapping[str, Json] = field(default_factory=dict)
    decisions: tuple[Mapping[str, Json], ...] = ()
    idle: tuple[str, ...] = ()

    def skew(self) -> float | None:
        """Return the rows of the fullest unit divided by the mean of all units, None without rows."""
        total = sum(unit.rows for unit in self.units)
        if not total:
            return None
        return max(unit.rows for unit in self.units) * len(self.units) / total

    def is_skewed(self) -> bool:
        """Tell whether a unit holds far more than the others."""
        return (self.skew() or 0) >= _SKEWED

    def skew_advice(self, group: Group) -> str | None:
        """Return what helps against units that hold far more than others, None if no remedy is known."""
        units = len(self.units)
        if not self.is_skewed() or not group.goes_by_one_key:
            return None
        divisors = [n for n in range(1, units) if units % n == 0]
        fewer = int(str(group.option("subgroups") or units))
        subgroups = max((n for n in divisors if n < fewer), default=None)
        if subgroups is None:
            return None
        return f"a heavy key is spread over more units by the hint ROUTING('contrand', {subgroups})"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What happens to the aggregation above a group: units take its first step, or ``reason`` says why not."""

    in_units: bool
    aggregates: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    from_packs: bool = False
    listed: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def sentence(self) -> str:
        """What it is, without its title."""
        if not self.in_units:
            return self.reason or "it stays with Spark"
        keys = f" by ({', '.join(self.keys)})" if self.keys else ""
        but = f", those of {' and '.join(self.listed)} listed" if self.listed else ", without listing the results"
        how = f"; from packs{but}" if self.from_packs else ""
        return f"{', '.join(self.aggregates)}{keys}{how}".strip()

    @property
    def title(self) -> str:
        """Where it happens."""
        return "aggregated inside the units" if self.in_units else "not aggregated inside the units"


@dataclass(frozen=True, slots=True)
class EventTime:
    """Which columns of a group's results are event time for operators above it, and what holds watermarks back."""

    columns: tuple[str, ...]
    held_back: str | None = None

    @property
    def sentence(self) -> str:
        """What it is, without its title."""
        lag = f"; the inputs' watermarks are held back by {self.held_back}, by which results may lag behind"
        return ", ".join(self.columns) + (lag if self.held_back else "")


@dataclass(frozen=True, slots=True)
class Group:
    """One join group: its graph, the decision, the alternatives and the state."""

    index: int
    name: str | None
    shape: str
    hub: str | None
    relations: tuple[str, ...]
    edges: tuple[Edge, ...]
    residuals: tuple[Predicate, ...]
    node: str
    scheme: str | None
    units: int | None
    reason: str
    options: tuple[tuple[str, Json], ...]
    alternatives: tuple[Alternative, ...]
    bounded: bool
    streams: tuple[StreamState, ...]
    live: Live | None = None
    aggregation: Aggregation | None = None
    event_time: EventTime | None = None
    units_reason: str | None = None
    rates: tuple[InputRate, ...] = ()
    from_checkpoint: bool = False
    grid: tuple[Dimension, ...] = ()

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """All conjuncts in the order of their numbers."""
        return tuple(p for edge in self.edges for p in edge.predicates) + self.residuals

    @property
    def left_to_spark(self) -> bool:
        """True if Spark, and not a node of ours, runs the group."""
        return self.node == "none"

    @property
    def unbounded(self) -> tuple[StreamState, ...]:
        """The streams whose rows are kept for ever, by a node of ours."""
        return () if self.left_to_spark else tuple(stream for stream in self.streams if stream.keep_for is None)

    @property
    def state_is_unbounded(self) -> bool:
        """True if a node of ours keeps rows for ever."""
        return not self.left_to_spark and (not self.bounded or bool(self.unbounded))

    @property
    def goes_by_one_key(self) -> bool:
        """True if rows go to their units by a key that all relations share, and another routing could spread it."""
        if self.scheme != "matrix":
            return self.option("routing") in ("hash", "contrand")
        return len(self.relations) < 4 and any(len(axis.streams) == len(self.relations) for axis in self.grid)

    def option(self, name: str) -> Json:
        """Return an option of the scheme, None if it is not set."""
        return dict(self.options).get(name)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why neither we nor Spark can run a query on streams, and a way out; ``append``: in append mode only."""

    reason: str
    hint: str | None
    append: bool


@dataclass(frozen=True, slots=True)
class Document:
    """A whole explanation."""

    version: int
    sql: str
    stages: tuple[Stage, ...]
    groups: tuple[Group, ...]
    advice: tuple[str, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def refused(self) -> bool:
        """True if the query cannot run on streams in any output mode."""
        return any(not refusal.append for refusal in self.refusals)
