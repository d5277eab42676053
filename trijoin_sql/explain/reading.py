"""From the JSON object that ``explain --format json`` prints to the records of `document`.

Keys that may be absent are handled only here. Unknown keys are kept in the object and ignored here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from ..errors import PlanError
from .document import (
    Aggregation,
    Alternative,
    Dimension,
    Document,
    Edge,
    EventTime,
    Group,
    InputRate,
    Json,
    Live,
    Predicate,
    Refusal,
    Stage,
    StreamState,
    UnitLoad,
)


def plain(value: object) -> Json:
    """Return a copy of a value that JSON can hold: mappings, sequences, text, finite numbers, booleans, None.

    Numbers that are not finite become None, because JSON cannot express them.

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
        If a required key is missing or of the wrong type.
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
    return Stage(_text(stage["name"]), _text(stage["plan"]), _maybe(stage.get("skipped")))


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
        options=tuple(_object(decision.get("options") or {}).items()),
        alternatives=tuple(_alternative(_object(item)) for item in _items(decision.get("alternatives") or [])),
        bounded=bool(state["bounded"]),
        streams=tuple(
            StreamState(_text(stream["alias"]), _maybe(stream["keep_for"]), _maybe(stream.get("advice")))
            for stream in map(_object, _items(state["streams"]))
        ),
        live=_live(group.get("live")),
        aggregation=_aggregation(group.get("aggregation")),
        event_time=_event_time(group.get("event_time")),
        units_reason=_maybe(decision.get("units_reason")),
        rates=tuple(_rate(_object(item)) for item in _items(decision.get("rates") or [])),
        from_checkpoint=bool(decision.get("from_checkpoint")),
        grid=tuple(_dimension(_object(item)) for item in _items(decision.get("grid") or [])),
    )


def _rate(item: dict[str, Json]) -> InputRate:
    rows = _number(item["rows"]) or 0
    return InputRate(_text(item["alias"]), rows, bool(item.get("streaming")), _text(item["rows_from"]))


def _dimension(item: dict[str, Json]) -> Dimension:
    streams = tuple(_text(alias) for alias in _items(item["relations"]))
    keys = [_text(key) for key in _items(item.get("key") or [])]
    bare = sorted({_bare(key, alias) for key, alias in zip(keys, streams, strict=False)})
    return Dimension(" = ".join(bare or streams), _whole(item["shares"]) or 1, streams, bool(keys))


def _bare(text: str, alias: str) -> str:
    """Return an expression without the alias in front of its columns."""
    return re.sub(rf"(?<![\w`])`?{re.escape(alias)}`?\.", "", text).replace("`", "")


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


def _event_time(value: Json) -> EventTime | None:
    if value is None:
        return None
    found = _object(value)
    return EventTime(tuple(sentences(found["columns"])), _maybe(found.get("held_back")))


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
