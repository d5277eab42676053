"""The explanation document, read into frozen records.

The document is the JSON object that ``explain --format json`` prints. Renderers work from the records here, so that
the keys that may be absent are dealt with in one place. Unknown keys are kept in the document and ignored here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import PlanError

#: A value of a JSON document.
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


#: A unit with so many times the mean of all has too much to do.
_SKEWED = 1.5


@dataclass(frozen=True, slots=True)
class RuleReason:
    """Why a rule did or did not apply in a stage; ``applied`` is None where the document does not say."""

    rule: str | None
    applied: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Stage:
    """The plan after one rewriter stage."""

    name: str
    plan: str
    reasons: tuple[RuleReason, ...] = ()


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
    """The rows of an input that costs are estimated for, and who says so."""

    alias: str
    rows: float
    streaming: bool
    rows_from: str


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
    """Counters of a running query, up to and with micro-batch ``batch``; its units, what scaling may do and said."""

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
        """Return what helps against units that hold far more than others, None where nothing is known to."""
        units = len(self.units)
        if not self.is_skewed() or group.option("routing") not in ("hash", "contrand"):
            return None
        divisors = [n for n in range(1, units) if units % n == 0]
        fewer = int(str(group.option("subgroups") or units))
        subgroups = max((n for n in divisors if n < fewer), default=None)
        if subgroups is None:
            return None
        return f"a heavy key is spread over more units by the hint ROUTING('contrand', {subgroups})"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What becomes of the aggregation above a group: units take its first step, or ``reason`` says why not."""

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
    columns: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    live: Live | None = None
    aggregation: Aggregation | None = None
    units_reason: str | None = None
    rates: tuple[InputRate, ...] = ()
    from_checkpoint: bool = False

    @property
    def predicates(self) -> tuple[Predicate, ...]:
        """All conjuncts in the order of their numbers."""
        return tuple(p for edge in self.edges for p in edge.predicates) + self.residuals

    @property
    def left_to_spark(self) -> bool:
        """True if no node of ours runs the group."""
        return self.node == "none"

    @property
    def unbounded(self) -> tuple[StreamState, ...]:
        """The streams whose rows are kept for ever, by a node of ours."""
        return () if self.left_to_spark else tuple(stream for stream in self.streams if stream.keep_for is None)

    @property
    def state_is_unbounded(self) -> bool:
        """True if a node of ours keeps rows for ever."""
        return not self.left_to_spark and (not self.bounded or bool(self.unbounded))

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
        """Whether the query cannot run on streams in any output mode."""
        return any(not refusal.append for refusal in self.refusals)


def plain(value: object) -> Json:
    """Return a copy of a value that JSON can hold: mappings, sequences, text, finite numbers, booleans, None.

    Numbers that are not finite become None, as JSON has no word for them.

    Raises
    ------
    PlanError
        If the value has no JSON form.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Sequence() if not isinstance(value, bytes | bytearray):
            return [plain(item) for item in value]
    item = getattr(value, "item", None)  # a NumPy scalar
    if callable(item):
        return plain(item())
    raise PlanError(f"an explanation cannot hold a {type(value).__name__}")


def read(document: Mapping[str, Json]) -> Document:
    """Read an explanation document.

    Parameters
    ----------
    document
        The object of ``explain --format json``.

    Raises
    ------
    PlanError
        If a key that every explanation has is missing or of the wrong type.
    """
    try:
        return Document(
            version=_whole(document["version"]) or 1,
            sql=_text(document["sql"]),
            stages=tuple(_stage(_object(stage)) for stage in _items(document["stages"])),
            groups=tuple(_group(i, _object(group)) for i, group in enumerate(_items(document["groups"]), 1)),
            advice=tuple(sentences(document["advice"])),
            refusals=tuple(
                Refusal(_text(item["reason"]), _maybe(item.get("hint")), key == "append_refusals")
                for key in ("refusals", "append_refusals")
                for item in map(_object, _items(document.get(key) or []))
            ),
        )
    except KeyError as error:
        raise PlanError(f"an explanation lacks the key {error}") from error
    except TypeError as error:
        raise PlanError(f"an explanation is not well formed: {error}") from error


def sentences(value: Json) -> list[str]:
    """Return a value of unknown form as a list of sentences."""
    match value:
        case None | "" | False:
            return []
        case list():
            return [sentence for item in value for sentence in sentences(item)]
        case {"reason": str(reason), **rest}:
            subject = ", ".join(_scalar(item) for item in rest.values() if isinstance(item, str | int | float))
            return [f"{subject}: {reason}" if subject else reason]
        case dict():
            return [f"{key}: {', '.join(sentences(item)) or '-'}" for key, item in value.items()]
    return [_scalar(value)]


def _stage(stage: dict[str, Json]) -> Stage:
    skipped = [RuleReason(None, False, sentence) for sentence in sentences(stage.get("skipped"))]
    return Stage(_text(stage["name"]), _text(stage["plan"]), (*skipped, *_reasons(stage.get("reasons"))))


def _reasons(value: Json) -> list[RuleReason]:
    if isinstance(value, dict) and not value.keys() & {"rule", "reason"}:
        return [RuleReason(rule, None, "; ".join(sentences(text))) for rule, text in value.items()]
    if isinstance(value, dict):
        applied = value.get("applied")
        text = "; ".join(sentences(value.get("reason")))
        return [RuleReason(_maybe(value.get("rule")), applied if isinstance(applied, bool) else None, text)]
    if isinstance(value, list):
        return [reason for item in value for reason in _reasons(item)]
    return [RuleReason(None, None, sentence) for sentence in sentences(value)]


def _group(index: int, group: dict[str, Json]) -> Group:
    graph, decision, state = (_object(group[key]) for key in ("graph", "decision", "state"))
    edges: list[Edge] = []
    number = 0
    for item in _items(graph["edges"]):
        edge = _object(item)
        derived = bool(edge.get("derived"))
        predicates: list[Predicate] = []
        for predicate in map(_object, _items(edge["predicates"])):
            sql, kind = _text(predicate["sql"]), _text(predicate["kind"])
            if any((known.sql, known.kind) == (sql, kind) for known in predicates):
                continue  # a condition with two sides, such as ABS(x) < y, has become two conjuncts
            number += 1
            predicates.append(Predicate(number, sql, kind, derived or bool(predicate.get("derived"))))
        edges.append(Edge(_text(edge["left"]), _text(edge["right"]), derived, tuple(predicates)))
    residuals = [
        Predicate(number + i, sql, "residual", False) for i, sql in enumerate(sentences(graph.get("residuals")), 1)
    ]
    return Group(
        index=index,
        name=_maybe(group.get("name")),
        shape=_text(graph["shape"]),
        hub=_maybe(graph.get("hub")),
        relations=tuple(_text(relation) for relation in _items(graph["relations"])),
        edges=tuple(edges),
        residuals=tuple(residuals),
        node=_text(decision["node"]),
        scheme=_maybe(decision.get("scheme")),
        units=_whole(decision.get("units")),
        reason=_text(decision["reason"]),
        options=tuple(_options(decision.get("options"))),
        alternatives=tuple(_alternative(_object(item)) for item in _items(decision.get("alternatives") or [])),
        bounded=bool(state["bounded"]),
        streams=tuple(
            StreamState(_text(stream["alias"]), _maybe(stream["keep_for"]), _maybe(stream.get("advice")))
            for stream in map(_object, _items(state["streams"]))
        ),
        columns=tuple(_columns(group.get("columns"))),
        refusals=tuple(sentences(group.get("refusals"))),
        live=_live(group.get("live")),
        aggregation=_aggregation(group.get("aggregation")),
        units_reason=_maybe(decision.get("units_reason")),
        rates=tuple(_rate(_object(item)) for item in _items(decision.get("rates") or [])),
        from_checkpoint=bool(decision.get("from_checkpoint")),
    )


def _rate(item: dict[str, Json]) -> InputRate:
    rows = _number(item["rows"]) or 0
    return InputRate(_text(item["alias"]), rows, bool(item.get("streaming")), _text(item["rows_from"]))


def _alternative(item: dict[str, Json]) -> Alternative:
    cost = _object(item["cost"])
    return Alternative(
        scheme=_text(item["scheme"]),
        network=_number(cost.get("network")),
        memory=_number(cost.get("memory")),
        cpu=_number(cost.get("cpu")),
        stages=_whole(cost.get("stages")),
        chosen=bool(item.get("chosen")),
    )


def _aggregation(value: Json) -> Aggregation | None:
    if value is None:
        return None
    found = _object(value)
    return Aggregation(
        bool(found.get("in_units")),
        tuple(sentences(found.get("aggregates"))),
        tuple(sentences(found.get("keys"))),
        bool(found.get("from_packs")),
        tuple(sentences(found.get("listed"))),
        _maybe(found.get("reason")),
    )


def _options(value: Json) -> list[tuple[str, Json]]:
    match value:
        case dict():
            return list(value.items())
        case list():
            return [(_text(pair[0]), pair[1]) for pair in value if isinstance(pair, list) and len(pair) == 2]
    return []


def _columns(value: Json) -> list[str]:
    match value:
        case {"name": str(name), **rest}:
            detail = " ".join(item for item in rest.values() if isinstance(item, str))
            return [f"{name} {detail}".rstrip()]
        case dict():
            return [f"{alias}: {', '.join(_columns(item))}" for alias, item in value.items()]
        case list():
            return [column for item in value for column in _columns(item)]
    return sentences(value)


def _live(value: Json) -> Live | None:
    if not isinstance(value, dict):
        return None

    def part(key: str) -> dict[str, Json]:
        inner = value.get(key)
        return inner if isinstance(inner, dict) else {}

    units = [_object(unit) for unit in _items(value.get("units") or [])]
    return Live(
        batch=_whole(value.get("batch")),
        counters=tuple(part("counters").items()),
        units=tuple(
            UnitLoad(_scalar(unit["unit"]), _number(unit.get("rows")) or 0, _number(unit.get("bytes")) or 0)
            for unit in units
        ),
        idle=tuple(sentences(value.get("idle"))),
        estimates=part("estimates"),
        actual=part("actual"),
        layout=part("layout"),
        policy=part("policy"),
        decisions=tuple(_object(one) for one in _items(value.get("scaling") or [])),
    )


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, found {type(value).__name__}")
    return value


def _items(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise TypeError(f"expected an array, found {type(value).__name__}")
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {type(value).__name__}")
    return value


def _maybe(value: Json) -> str | None:
    return None if value is None else _scalar(value)


def _number(value: Json) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: Json) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _scalar(value: Json) -> str:
    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case list() | dict():
            return "; ".join(sentences(value))
    return str(value)
