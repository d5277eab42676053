"""Settings of the session that decide what is stored: which ones a streaming input was computed by, as Spark shows it.

What is stored of a row is computed when it arrives. A later run in another time zone would compare it with keys of that
zone. Spark says in its plan by which zone an expression goes, but also where the zone does not matter: for a cast from
INT to BIGINT, for ten seconds before a time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from .logical_plans import plan_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .inputs import Input

_log = logging.getLogger("trijoin_sql")

ZONE, PARSER = "spark.sql.session.timeZone", "spark.sql.legacy.timeParserPolicy"
_ESCAPES = "spark.sql.parser.escapedStringLiterals"

_DAY = 24 * 60 * 60 * 1_000_000

#: Expressions that write or read times by patterns, which another policy understands otherwise.
_PARSED = ("CsvToStructs", "JsonToStructs")
#: Those of them that the optimiser replaces.
_REPLACED = ("StructsToCsv", "StructsToJson")
_BY_PATTERN = {
    *_PARSED,
    *_REPLACED,
    "DateFormatClass",
    "FromUnixTime",
    "GetTimestamp",
    "ToUnixTimestamp",
    "UnixTimestamp",
}
_UNIX = ("ToUnixTimestamp", "UnixTimestamp")
#: Seconds are alike in all zones, and so are minutes since 1972 at the edge of one.
_SECONDS, _SHORT = ("Second", "SecondWithFraction"), ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE")

#: Pairs of types between which the zone decides; a type of Spark's that holds one of them does, too.
_BY_ZONE = frozenset(
    {
        ("string", "timestamp"),
        ("timestamp", "string"),
        ("date", "timestamp"),
        ("timestamp", "date"),
        ("timestamp_ntz", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("timestamp", "time"),
        ("variant", "timestamp"),
        ("variant", "date"),
        ("timestamp", "variant"),
    }
)


class _Expression:
    """A node of a plan or an expression, from Spark's JSON: its fields, and its children."""

    def __init__(self, listed: Iterator[dict[str, Any]]) -> None:
        self.fields = next(listed)
        self.name = str(self.fields["class"]).rpartition(".")[2]
        self.children = [_Expression(listed) for _ in range(self.fields["num-children"])]

    def types(self) -> frozenset[str]:
        """Return the plain types in its type, of its first child where Spark writes none."""
        found = self.fields.get("dataType")
        if found is None:
            return self.children[0].types() if self.children else frozenset()
        return frozenset(_plain(found))

    def zone(self) -> str | None:
        """Return the time zone on which its value depends, None if on none."""
        zone, below = self.fields.get("timeZoneId"), self.children
        if not isinstance(zone, str) or self.name in _SECONDS:
            return None
        if self.name == "Cast":
            pairs = {(old, new) for old in below[0].types() for new in self.types()}
            return zone if pairs & _BY_ZONE else None
        if self.name in (*_REPLACED, *_PARSED):
            return zone if {"timestamp", "date"} & {*_plain(self.fields), *_all_types(below)} else None
        if self.name in _UNIX and below[0].types() <= {"timestamp"}:
            return None
        if self.name == "TruncTimestamp" and str(below[0].fields.get("value")).upper() in _SHORT:
            return None
        if self.name == "TimestampAddInterval" and _is_short(below[1]):
            return None
        return None if below and below[0].types() == {"timestamp_ntz"} else zone


def _plain(value: Any) -> Iterator[str]:
    """Yield the plain types in a type as JSON: a name, or an object with types inside."""
    if isinstance(value, str):
        yield "string" if value.startswith("string") else value
    elif isinstance(value, dict):
        for name in ("type", "elementType", "keyType", "valueType", "fields", "schema", "dataType"):
            yield from _plain(value.get(name))
    elif isinstance(value, list):
        for one in value:
            yield from _plain(one)


def _all_types(nodes: list[_Expression]) -> Iterator[str]:
    for node in nodes:
        yield from node.types()
        yield from _all_types(node.children)


def _is_short(interval: _Expression) -> bool:
    """Return whether an interval is known and has no days, which are as long as the zone's clocks make them."""
    while interval.name == "UnaryMinus":
        (interval,) = interval.children
    value = interval.fields.get("value")
    known = interval.name == "Literal" and str(interval.fields["dataType"]).startswith("interval")
    return known and isinstance(value, str) and value.lstrip("-").isdigit() and abs(int(value)) < _DAY


def _expressions(value: Any) -> Iterator[_Expression]:
    """Yield all expressions and nodes of a plan as JSON, those inside of others too."""
    if isinstance(value, dict):
        for one in value.values():
            yield from _expressions(one)
    elif isinstance(value, list):
        if value and isinstance(value[0], dict) and "num-children" in value[0]:
            waiting = [_Expression(iter(value))]
            while waiting:
                node = waiting.pop()
                yield node
                waiting += node.children
        for one in value:
            yield from _expressions(one)


def settings_of_inputs(spark: SparkSession, inputs: Iterable[Input]) -> dict[str, str]:
    """Return the settings by which the inputs of a join were computed, with their values: those of all, sorted."""
    found: dict[str, set[str]] = {}
    for side in {id(side.frame): side for side in inputs}.values():
        whole = [] if side.whole is None else [side.whole]  # is not stored
        for name, value in settings_in(spark, side.frame.drop(*whole) if whole else side.frame).items():
            found.setdefault(name, set()).add(value)
        if any("\\" in text for _, text in side.read):
            found.setdefault(_ESCAPES, set()).add(str(spark.conf.get(_ESCAPES)).lower())
    return {name: ", ".join(sorted(values)) for name, values in found.items()}


def settings_in(spark: SparkSession, frame: DataFrame) -> dict[str, str]:
    """Return the settings by which the rows of a stream were computed, with the values they had.

    Parameters
    ----------
    spark
        The session. None are known of Spark Connect, which does not show plans.
    frame
        The columns that are stored, and what they were computed from.
    """
    if not frame.isStreaming or not hasattr(spark, "_jsparkSession"):
        return {}
    from py4j.protocol import Py4JError

    session: Any = spark
    try:
        written = [*_expressions(json.loads(str(plan_of(frame).toJSON())))]
        if not _found(spark, written):
            return {}
        # Without the columns that nobody wants. The optimiser replaces some expressions by calls that show no zone.
        plan = session._jsparkSession.sessionState().optimizer().execute(plan_of(frame))
        hidden = [node for node in written if node.name in _REPLACED]
        return _found(spark, [*_expressions(json.loads(str(plan.toJSON()))), *hidden])
    except (Py4JError, PySparkException):  # Spark cannot write every node of every source: then no restart is compared
        _log.debug("the settings by which a stream is computed are not known", exc_info=True)
        return {}


def _found(spark: SparkSession, nodes: Iterable[_Expression]) -> dict[str, str]:
    zones, found = set(), {}
    for node in nodes:
        if (zone := node.zone()) is not None:
            zones.add(_same_for_all_names(spark, zone))
        if node.name in _BY_PATTERN and not (node.name in _UNIX and node.children[0].types() <= {"timestamp"}):
            found[PARSER] = str(spark.conf.get(PARSER)).upper()
        found |= {name: str(value) for name, value in node.fields.items() if name.startswith("legacy")}
    return {**({ZONE: ", ".join(sorted(zones))} if zones else {}), **found}


def _same_for_all_names(spark: SparkSession, zone: str) -> str:
    """Return the offset of a zone whose clocks never change, which has many names; else the zone."""
    jvm: Any = spark._jvm
    rules = jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(zone).getRules()
    return str(rules.getOffset(jvm.java.time.Instant.EPOCH).toString()) if rules.isFixedOffset() else zone
