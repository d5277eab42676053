"""Words and numbers that all renderers share: schemes, shapes, compact numbers, durations."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ..rewriter.plan.conjuncts import KINDS
from ..rewriter.plan.decision import Dimension
from ..rewriter.plan.document import Document, EventTime, Group, Live, StreamState, UnitAggregation
from ..rewriter.plan.joins import KINDS_OF_JOINS
from ..rewriter.plan.json_codec import Json
from ..rewriter.plan.parts import Refusal
from ..rewriter.plan.schemes import RECORDS
from ..rewriter.plan.trees import TreeOf, order_text, read_tree

#: What EXPLAIN says of a file's relations of which it knows too little without Spark.
COLUMNS_UNKNOWN = "The columns of {} are unknown without Spark, so their names and types are not checked here."
IN_WAREHOUSE = (
    "The path {0!r} of the table {1} begins in Spark's warehouse, not where the command runs: write the whole path, or "
    "CREATE TEMPORARY VIEW {1} ... USING, whose path begins there."
)
NOT_DECLARED = "{} is not declared in this file: here it is a table of Spark's catalog, whose columns are unknown."

#: What EXPLAIN says of a query in a job with LATE ROWS INTO.
LATE_ROWS_GO = "Rows that come too late go into {}, each once, as JSON; of streams with a watermark."

_UNITS: Mapping[str, float] = MappingProxyType(
    {
        "us": 1e-6, "µs": 1e-6, "microsecond": 1e-6, "ms": 1e-3, "millisecond": 1e-3, "s": 1, "sec": 1, "second": 1,
        "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400, "w": 604800,
        "week": 604800, "month": 2629800, "year": 31557600,
    }
)  # fmt: skip
#: A unit with this many times the mean of all units has too much to do.
_SKEWED = 1.5
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
    return f"{number:,} {noun if number == 1 else plural}"


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def compact(number: float | None) -> str:
    """Return a number in at most five characters of digits: ``950``, ``1.2k``, ``3.4M``, ``10¹⁷``."""
    if number is None or math.isnan(number):
        return "-"
    if abs(number) >= 1e15:  # an estimate of what is kept for ever
        return f"10{str(round(math.log10(abs(number)))).translate(_RAISED)}"
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
            if name.startswith("latency"):
                return milliseconds(value)
            return byte_size(value) if "bytes" in name.lower() else compact(value)
        case str():
            return value
    return "; ".join(_sentences(value))


def option(group: Group, name: str, value: Json) -> str:
    """Return the value of a scheme's option for people: relations of a tree by their names."""
    if name != "tree":
        return measure(name, value)
    names = group.graph.relations
    return order_text(_named(read_tree(str(value)), names))


def _named(tree: TreeOf[str], names: Sequence[str]) -> TreeOf[str]:
    return tuple(_named(part, names) if isinstance(part, tuple) else names[int(part)] for part in tree)


def milliseconds(some: float) -> str:
    """Return a time in milliseconds for people.

    Examples
    --------
    >>> milliseconds(4.25), milliseconds(371.0)
    ('4.2 ms', '371 ms')
    """
    return f"{some:.1f} ms" if some < 100 else f"{some:,.0f} ms"


def _sentences(value: Json) -> list[str]:
    """Return a value of unknown form as a list of sentences."""
    match value:
        case None | "" | False:
            return []
        case list():
            return [sentence for item in value for sentence in _sentences(item)]
        case dict():
            return [f"{key}: {', '.join(_sentences(item)) or '-'}" for key, item in value.items()]
        case float() if value.is_integer() and abs(value) < 1e15:
            return [str(int(value))]
    return ["yes" if value is True else str(value)]


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


def tested_sentence(group: Group) -> str | None:
    """Return which partners of a row are results, and what conditions of ON over one input mean for its rows.

    None if all partners are, and there are no such conditions.
    """
    said = [f"the closest by {group.closest}"] if group.closest else []
    said += [f"rows without {' AND '.join(group.matching)} have no partner"] if group.matching else []
    for one in group.branches:
        words = [f"{one.join} {one.relation} for rows of {one.anchor}", *([f"by {one.closest}"] if one.closest else [])]
        words += [f"only where {' AND '.join(one.matching)}"] if one.matching else []
        said.append(" ".join(words))
    return "; ".join(said) or None


def node_title(group: Group) -> str:
    """Return the node, the scheme and the units of a group on one line."""
    decision = group.decision
    if decision.left_to_spark:
        return "left to Spark"
    parts = [decision.node, *([decision.scheme] if decision.scheme else [])]
    if group.join != "inner":
        parts.insert(1, KINDS_OF_JOINS[group.join])
    if decision.units:
        cells = decision.scheme is not None and decision.scheme in RECORDS and RECORDS[decision.scheme].unit == "cell"
        parts.append(count(decision.units, "cell") if cells else f"{count(decision.units, 'unit')} a group")
    return " · ".join(parts)


#: What the costs of alternatives are.
ESTIMATES = "estimates for a second of stream time; total: how long Spark is busy with it, units side by side"


def rate_sentence(group: Group) -> str:
    """Return the rows that the costs of a group are estimated for, and where they come from; empty if not known."""
    rates = group.decision.rates
    return _by_source((one.rows_from, f"{one.alias} {one.rows:,.4g}{'/s' if one.streaming else ''}") for one in rates)


def share_sentence(group: Group) -> str:
    """Return the shares of pairs that the costs of a group are estimated for, and where they come from."""
    shares = group.decision.selectivities
    return _by_source((one.share_from, f"{one.left} and {one.right} {one.share:g}") for one in shares)


def _by_source(told: Iterable[tuple[str, str]]) -> str:
    """Return what is told, grouped by who says so."""
    said: dict[str, list[str]] = {}
    for who, text in told:
        said.setdefault(who, []).append(text)
    return "; ".join(f"{who}: {', '.join(texts)}" for who, texts in said.items())


def why_endless(stream: StreamState) -> str:
    """Return why a stream's rows are kept for ever and what would bound them; that they are kept is said elsewhere."""
    return (stream.advice or "").removeprefix(f"{stream.alias} is kept for ever (UNBOUNDED): ")


def grouped(advice: Sequence[str], aliases: Iterable[str]) -> list[str]:
    """Return advice with what is the same of several relations said once.

    Examples
    --------
    >>> grouped(["r has no event time", "look", "s has no event time"], ["r", "s"])
    ['r has no event time. Likewise s.', 'look']
    """
    names = list(dict.fromkeys(aliases))
    found: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    for sentence in advice:
        name = next((alias for alias in names if sentence.startswith(f"{alias} ")), "")
        shape = re.sub(rf"(?<![\w`]){re.escape(name)}(?![\w`])", "\0", sentence) if name else sentence
        first.setdefault(shape, sentence)
        found.setdefault(shape, []).append(name)
    return [
        sentence if len(found[shape]) == 1 else f"{sentence}. Likewise {', '.join(found[shape][1:])}."
        for shape, sentence in first.items()
    ]


def shape_sentence(group: Group) -> str:
    """Return the shape of a group's join graph in words."""
    number = len(group.graph.relations)
    match group.graph.shape:
        case "pair":
            return "two relations"
        case "cyclic":
            return "cyclic: every pair of the three is joined"
        case "chain":
            return f"chain of {number}" + (f", {group.graph.hub} in the middle" if group.graph.hub else "")
        case "star":
            return f"star of {number}" + (f", {group.graph.hub} in the centre" if group.graph.hub else "")
        case "clique":
            return f"clique: every pair of the {number} is joined"
        case "disconnected":
            return f"{count(number, 'relation')}, not all connected by predicates"
    return f"{count(number, 'relation')}, {count(sum(not e.derived for e in group.graph.edges), 'edge')}"


def titled_refusals(document: Document) -> list[tuple[str, Refusal]]:
    """Return why a query is refused, each with words that stand out and say where."""
    return [("REFUSED ON STREAMS", one) for one in document.refusals] + [
        ("REFUSED IN APPEND MODE", one) for one in document.append_refusals
    ]


def aggregation_title(aggregation: UnitAggregation) -> str:
    """Return where results are aggregated."""
    return "aggregated inside the units" if aggregation.in_units else "not aggregated inside the units"


def aggregation_sentence(aggregation: UnitAggregation) -> str:
    """Return what is aggregated there and how, or why nothing is."""
    if not aggregation.in_units:
        return aggregation.reason or "it stays with Spark"
    keys = f" by ({', '.join(aggregation.keys)})" if aggregation.keys else ""
    listed = aggregation.listed
    but = f", those of {' and '.join(listed)} listed" if listed else ", without listing the results"
    how = f"; from packs{but}" if aggregation.from_packs else ""
    return f"{', '.join(aggregation.aggregates)}{keys}{how}".strip()


def event_time_sentence(event_time: EventTime) -> str:
    """Return which columns are event time, and what holds watermarks back."""
    lag = f"; the inputs' watermarks are held back by {event_time.held_back}, by which results may lag behind"
    return ", ".join(event_time.columns) + (lag if event_time.held_back else "")


def dimension_name(dimension: Dimension) -> str:
    """Return what a dimension is called: what its rows are placed by, without aliases, or its relations."""
    named = zip(dimension.key or (), dimension.relations, strict=False)
    bare = {re.sub(rf"(?<![\w`])`?{re.escape(alias)}`?\.", "", text).replace("`", "") for text, alias in named}
    if dimension.home is not None:
        return f"ranges of {dict(zip(dimension.relations, dimension.key or (), strict=True))[dimension.home]}"
    return " = ".join(sorted(bare) or dimension.relations)


def comparisons(live: Live) -> list[tuple[str, str, str, str]]:
    """Return each number that was estimated or came: its name, both of them, and their ratio."""
    estimates, actual = dict(live.estimates), dict(live.actual)
    return [
        (name, measure(name, estimates.get(name)), measure(name, actual.get(name)),
         ratio(estimates.get(name), actual.get(name)))
        for name in dict.fromkeys([*estimates, *actual])
    ]  # fmt: skip


def skew(live: Live) -> float | None:
    """Return the rows of the fullest unit divided by the mean of all units, None without rows."""
    total = sum(unit.rows for unit in live.units)
    return max(unit.rows for unit in live.units) * len(live.units) / total if total else None


def is_skewed(live: Live) -> bool:
    """Tell whether a unit holds far more than the others."""
    return (skew(live) or 0) >= _SKEWED


def skew_advice(live: Live, group: Group) -> str | None:
    """Return what helps against units that hold far more than others, None if no remedy is known."""
    units = len(live.units)
    if not is_skewed(live) or not _goes_by_one_key(group):
        return None
    fewer = int(str(group.decision.option("subgroups") or units))
    subgroups = max((n for n in range(1, units) if units % n == 0 and n < fewer), default=None)
    if subgroups is None:
        return None
    heavy, routing = ("range", "range") if group.decision.option("routing") == "range" else ("key", "contrand")
    return f"a heavy {heavy} is spread over more units by the hint ROUTING('{routing}', {subgroups})"


def _goes_by_one_key(group: Group) -> bool:
    """Tell whether rows go to their units by a key that all relations share, and another routing could spread it."""
    count = len(group.graph.relations)
    if not RECORDS[group.decision.scheme or "matrix"].in_cells:
        return group.decision.option("routing") in ("hash", "contrand", "range")
    return count < 4 and any(len(axis.relations) == count for axis in group.decision.grid)


def scaling_sentences(live: Live) -> list[str]:
    """Return what is known about a running node's units: where rows are, scaling's settings and last decision."""
    found = []
    if layout := dict(live.layout):
        units, slots = (int(_number(layout, name)) for name in ("units", "slots"))
        text = f"new rows are stored in {count(units, 'unit')}"
        older = f"; {slots - units} more hold older rows and are reached until they are empty"
        found.append(text + (older if slots > units else ""))
    if policy := dict(live.policy):
        upper, lower = (f"{_number(policy, name):.0%}" for name in ("upper", "lower"))
        size, most, times = (_number(policy, name) for name in ("unitBytes", "maxUnits", "decisions"))
        found.append(
            f"scaling is on: another number of units, {most:.0f} at most, when more than {upper} or less than {lower} "
            f"of {byte_size(size)} a unit are used, {count(int(times), 'micro-batch')} in a row"
        )
    decisions = [one for one in live.scaling if isinstance(one, dict)]
    for said in (one for one in decisions if one["batch"] == decisions[-1]["batch"]):
        whose = "" if said.get("subgroup") is None else f" of subgroup {said['subgroup']}"
        used = f"{_number(said, 'load'):.0%} of the units' capacity is used"
        text = f"scaling{whose}, micro-batch {said['batch']}: {used}"
        if said["wanted"] == said["units"]:
            found.append(f"{text}, {said['units']} units are right")
        else:
            streak = count(int(_number(said, "streak")), "time")
            found.append(f"{text}, {said['wanted']} units are wanted instead of {said['units']} ({streak} in a row)")
    return found


def _number(values: Mapping[str, Json], name: str) -> float:
    return float(str(values[name]))
