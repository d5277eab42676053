"""Words and numbers that all renderers share: schemes, shapes, compact numbers, durations."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

from ..rewriter.plan.conjuncts import KINDS
from .document import Group, Json, Live, Refusal, StreamState
from .reading import sentences

SCHEMES: Mapping[str, str] = MappingProxyType(
    {
        "symmetric": "A row is stored in one unit of its own group and sent to every unit of the other groups, "
        "which probe with it. One stage.",
        "semi_symmetric": "Rows of the ends meet the hub in their own units; packs of partial results travel from the "
        "first end's units to the last end's. Two stages.",
        "biclique": "Each stream has its own units. A row is stored among its own and probes the other side's.",
        "tree": "A chain of two-way joins; each stores the intermediate results of the one before it.",
        "matrix": "Units form a grid. A row is hashed along the dimensions it has and copied along those it lacks, so "
        "every result arises in exactly one cell. One stage.",
        "iterative": "A unit holds every stream. A new row probes stream after stream and stops when nothing is left; "
        "no intermediate result is stored.",
        "operator_tree": "Smaller joins below larger ones, each of two, three or more inputs. A join below another one "
        "stores its results, or hands them on as packs, and is a stage of its own.",
    }
)

_UNITS: Mapping[str, float] = MappingProxyType(
    {
        "us": 1e-6, "µs": 1e-6, "microsecond": 1e-6, "ms": 1e-3, "millisecond": 1e-3, "s": 1, "sec": 1, "second": 1,
        "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400, "w": 604800,
        "week": 604800, "month": 2629800, "year": 31557600,
    }
)  # fmt: skip
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*['\"]?\s*([a-zµ]+)", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+)\s+)?(\d+):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


def kind_sign(kind: str) -> str:
    """Return the sign of a kind of predicate."""
    return KINDS[kind].sign if kind in KINDS else "•"


def strongest(kinds: tuple[str, ...]) -> str:
    """Return the most selective of some kinds."""
    order = tuple(KINDS)
    return min(kinds, key=lambda kind: order.index(kind) if kind in order else len(order), default="residual")


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 stream``, ``3 streams``."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("ch") else "s")
    return f"{number} {noun if number == 1 else plural}"


def compact(number: float | None) -> str:
    """Return a number in at most five characters of digits: ``950``, ``1.2k``, ``3.40M``."""
    if number is None:
        return "-"
    if abs(number) >= 1e15:
        return f"{number:.1e}"
    for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit * 0.99995:
            return f"{number / limit:.4g}{suffix}"
    return f"{number:.4g}" if number == 0 or abs(number) >= 0.001 else f"{number:.1e}"


def byte_size(number: float) -> str:
    """Return a number of bytes with a binary unit."""
    for limit, suffix in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= limit:
            return f"{number / limit:.3g} {suffix}" if number / limit < 999.5 else f"{number / limit:.0f} {suffix}"
    return f"{number:.0f} B"


def measure(name: str, value: Json) -> str:
    """Return the value of a counter or an option for people; the name tells bytes from plain numbers."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return byte_size(value) if "bytes" in name.lower() else compact(value)
        case str():
            return value
    return "; ".join(sentences(value))


def ratio(estimate: Json, actual: Json) -> str:
    """Return how many times the estimate the actual value is."""
    match estimate, actual:
        case (int() | float() as expected, int() | float() as found) if expected:
            return f"×{compact(found / expected)}" if abs(found / expected) >= 1000 else f"×{found / expected:.3g}"
    return "-"


def seconds(duration: str) -> float | None:
    """Return the length of a duration such as ``10 minutes`` or ``1 day 02:30:00``, None if it does not read as one."""
    total, rest = 0.0, duration
    clock = _CLOCK.search(rest)
    if clock:
        days, hours, minutes, secs = clock.groups()
        total += int(days or 0) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(secs or 0)
        rest = rest[: clock.start()] + rest[clock.end() :]
    parts = _DURATION.findall(rest)
    for amount, unit in parts:
        name = unit.lower()
        scale = _UNITS.get(name) or _UNITS.get(name.rstrip("s"))
        if scale is None:
            return None
        total += float(amount) * scale
    return total if clock or parts else None


def display_width(text: str) -> int:
    """Return how many terminal columns a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def shorten(text: str, width: int) -> str:
    """Return a text on one line of at most ``width`` columns, cut with an ellipsis."""
    line = " ".join(text.split())
    if display_width(line) <= width:
        return line
    used, kept = 1, []
    for char in line:
        used += display_width(char)
        if used > width:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"


def node_title(group: Group) -> str:
    """Return the node, the scheme and the units of a group on one line."""
    if group.left_to_spark:
        return "left to Spark"
    parts = [group.node]
    if group.scheme:
        parts.append(group.scheme)
    if group.units:
        parts.append(
            count(group.units, "cell") if group.scheme == "matrix" else f"{count(group.units, 'unit')} a group"
        )
    return " · ".join(parts)


def how_chosen(group: Group) -> str:
    """Return a sentence on the costs of the alternatives, and on what chooses among them."""
    other = next((one.scheme for one in group.alternatives if not one.chosen), None)
    if other is None or "the hint" in group.reason or _cheapest(group) or group.from_checkpoint:
        return "estimates for a second of stream time"
    return (
        "estimates for a second of stream time; the shape of the join graph chooses, unless a hint says SCHEME('...')"
    )


def _cheapest(group: Group) -> bool:
    return "costs least" in group.reason or "noticeably less" in group.reason


def rate_sentence(group: Group) -> str:
    """Return the rows that the costs of a group are estimated for, and where they come from; empty if not known."""
    said: dict[str, list[str]] = {}
    for rate in group.rates:
        said.setdefault(rate.rows_from, []).append(f"{rate.alias} {rate.rows:,.4g}{'/s' if rate.streaming else ''}")
    return "; ".join(f"{who}: {', '.join(rows)}" for who, rows in said.items())


def why_endless(stream: StreamState) -> str:
    """Return why a stream's rows are kept for ever and what would bound them; that they are kept is said elsewhere."""
    return (stream.advice or "").removeprefix(f"{stream.alias} is kept for ever (UNBOUNDED): ")


def shape_sentence(group: Group) -> str:
    """Return the shape of a group's join graph in words."""
    number = len(group.relations)
    match group.shape:
        case "pair":
            return "two relations"
        case "cyclic":
            return "cyclic: every pair of the three is joined"
        case "chain":
            return f"chain of {number}" + (f", {group.hub} in the middle" if group.hub else "")
        case "star":
            return f"star of {number}" + (f", {group.hub} in the centre" if group.hub else "")
        case "clique":
            return f"clique: every pair of the {number} is joined"
        case "disconnected":
            return f"{count(number, 'relation')}, not all connected by predicates"
    return f"{count(number, 'relation')}, {count(sum(not e.derived for e in group.edges), 'edge')}"


def refusal_title(refusal: Refusal) -> str:
    """Return where a query is refused, in words that stand out."""
    return "REFUSED IN APPEND MODE" if refusal.append else "REFUSED ON STREAMS"


def scaling_sentences(live: Live) -> list[str]:
    """Return what is known about a running node's units: where rows are, scaling's settings and last decision."""
    found = []
    if live.layout:
        units, slots = (int(_number(live.layout, name)) for name in ("units", "slots"))
        text = f"new rows are stored in {count(units, 'unit')}"
        older = f"; {slots - units} more hold older rows and are reached until they are empty"
        found.append(text + (older if slots > units else ""))
    if live.policy:
        upper, lower = (f"{_number(live.policy, name):.0%}" for name in ("upper", "lower"))
        size, most, times = (_number(live.policy, name) for name in ("unitBytes", "maxUnits", "decisions"))
        found.append(
            f"scaling is on: another number of units, {most:.0f} at most, when more than {upper} or less than {lower} "
            f"of {byte_size(size)} a unit are used, {count(int(times), 'micro-batch')} in a row"
        )
    if live.decisions:
        said = live.decisions[-1]
        text = f"scaling, micro-batch {said['batch']}: {_number(said, 'load'):.0%} of the units' capacity is used"
        if said["wanted"] == said["units"]:
            found.append(f"{text}, {said['units']} units are right")
        else:
            streak = count(int(_number(said, "streak")), "time")
            found.append(f"{text}, {said['wanted']} units are wanted instead of {said['units']} ({streak} in a row)")
    return found


def _number(values: Mapping[str, Json], name: str) -> float:
    return float(str(values[name]))
