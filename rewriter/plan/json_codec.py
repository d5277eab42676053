"""Frozen dataclasses to plain JSON values and back, by the types of their fields.

A field is the key of its name, or of the ``key`` in its metadata. What a document does not say has the field's default,
and a field at its default is left out unless it is marked `ALWAYS`. Pairs of a name and a value (``tuple[tuple[str,
float], ...]``) are an object, other tuples arrays. JSON has no NaN and no infinity: they become null, and a null number
is NaN again. Keys that a class does not have are passed over, so that a document of a newer version can be read.

A library such as cattrs or msgspec would need as many lines for these rules.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ...errors import PlanError

#: A value of a JSON document.
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

#: Marks of fields: not in the document; there even if it has its default.
HIDDEN: Final = {"json": "hidden"}
ALWAYS: Final = {"json": "always"}

_Model = TypeVar("_Model")
_WORDS = {dict: "an object", list: "an array", str: "text", bool: "true or false", int: "a whole number"}


def encode(value: object, kind: Any = None) -> Json:
    """Return a value as JSON can hold it: dataclasses, mappings, sequences, text, numbers (of NumPy too), booleans.

    Raises
    ------
    PlanError
        The value has no such form.

    Examples
    --------
    >>> encode({"half": (0.5, float("nan"))})
    {'half': [0.5, None]}
    """
    if _is_pairs(kind):
        value = dict(value)  # type: ignore[call-overload]
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): encode(item) for key, item in value.items()}
        case Sequence() if not isinstance(value, bytes | bytearray):
            return [encode(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = ((field, hint, getattr(value, field.name)) for field, hint in _fields(type(value)))
        return {
            _key(field): encode(item, hint)
            for field, hint, item in shown
            if field.metadata.get("json") == "always" or item != _default(field)
        }
    item = getattr(value, "item", None)  # a NumPy scalar
    if callable(item):
        return encode(item())
    raise PlanError(f"an explanation cannot hold a {type(value).__name__}")


def as_object(model: Any) -> dict[str, Any]:
    """Return a dataclass as a JSON object."""
    document = encode(model)
    assert isinstance(document, dict)
    return document


def decode(model: type[_Model], document: Json) -> _Model:
    """Read a dataclass from JSON.

    Raises
    ------
    PlanError
        A key that has no default is missing, or a value has another type than its field.

    Examples
    --------
    >>> from .parts import Refusal
    >>> decode(Refusal, {"reason": "a window", "hint": "none"})
    Refusal(reason='a window', hint='none')
    """
    try:
        read: _Model = _read(model, document, "")
    except KeyError as error:
        raise PlanError(f"an explanation lacks the key {error}") from None
    except TypeError as error:
        raise PlanError(f"an explanation is not well formed: {error}") from None
    return read


def _read(kind: Any, value: Json, place: str) -> Any:
    """Return a value of a type; ``place`` says where it stands, for errors."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [one for one in args if one is not type(None)]
        return value if value is None or len(kinds) > 1 else _read(kinds[0], value, place)  # several: any `Json`
    if origin is Literal:  # a newer version may have further words
        return _checked(value, str, place)
    if _is_pairs(kind):
        items = _checked(value, dict, place)
        return tuple((key, _read(get_args(args[0])[1], item, f"{place}.{key}")) for key, item in items.items())
    if origin is tuple:
        listed: list[Json] = _checked(value, list, place)
        each = args[:1] * len(listed) if args[-1] is Ellipsis else args
        if len(each) != len(listed):
            raise TypeError(f"expected {len(each)} values{_at(place)}, found {len(listed)}")
        return tuple(_read(*one, f"{place}[{at}]") for at, one in enumerate(zip(each, listed, strict=True)))
    if dataclasses.is_dataclass(kind):
        return _read_object(kind, _checked(value, dict, place), place)
    if kind is float:
        return math.nan if value is None else float(_checked(value, int, place))
    if kind is int:
        return int(_checked(value, int, place))
    return _checked(value, kind, place)


def _read_object(model: Any, items: dict[str, Json], place: str) -> Any:
    given = {}
    for field, hint in _fields(model):
        key = _key(field)
        value = items.get(key)
        if value is None and not _is_required(field):
            continue
        if key not in items and type(None) not in get_args(hint):
            raise KeyError(key)
        given[field.name] = _read(hint, value, f"{place}.{key}".lstrip("."))
    return model(**given)


def _checked(value: Json, kind: type, place: str) -> Any:
    """Return a value of a JSON type; any number is as good as a whole one."""
    is_number = kind is int and isinstance(value, int | float) and not isinstance(value, bool)
    if is_number or (isinstance(value, kind) and kind is not int):
        return value
    raise TypeError(f"expected {_WORDS[kind]}{_at(place)}, found {type(value).__name__}")


def _at(place: str) -> str:
    return f" at {place}" if place else ""


def _is_pairs(kind: Any) -> bool:
    """Tell whether a type is that of pairs of a name and a value."""
    args = get_args(kind)
    return get_origin(kind) is tuple and args[-1:] == (Ellipsis,) and get_args(args[0])[:1] == (str,)


def _key(field: dataclasses.Field[Any]) -> str:
    key: str = field.metadata.get("key", field.name)
    return key


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> object:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@cache
def _fields(model: type) -> list[tuple[dataclasses.Field[Any], Any]]:
    """Return the fields of a dataclass that documents have, with their types."""
    hints = get_type_hints(model)
    return [(field, hints[field.name]) for field in dataclasses.fields(model) if field.metadata != HIDDEN]
