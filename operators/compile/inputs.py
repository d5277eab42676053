"""Inputs of a join node: what Spark computes of each relation before a row reaches the kernel.

Filters, pruning and every key expression are Spark's (its code generation, its semantics); the kernel only compares
columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ...errors import UnsupportedQueryError
from ...rewriter.plan.conjuncts import KernelPredicate
from ...rewriter.plan.nodes import JoinNode, Scan, source_conditions, source_scan
from .compiling import Compiling
from .travel_types import quoted, to_wire, travels, type_names
from .watermarks import DELAY, held_back

#: The column of an input with the whole row as JSON, and how Spark writes that: all columns, times to the microsecond.
_WHOLE = "whole"
_AS_JSON = (
    "MAP('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)

#: A relation's bare column.
_BARE = re.compile(r"(?:`((?:[^`]|``)+)`|(\w+))\.(?:`((?:[^`]|``)+)`|(\w+))")


@dataclass(slots=True)
class Input:
    """One input while a node is compiled: Spark's columns of it, and the packed columns decided so far.

    Parameters
    ----------
    alias
        Its alias.
    frame
        Columns ``v0``, ``v1`` ... as read.
    read
        What each of them is: ``("column", name)``, ``("key", sql)``, ``("guard", sql)`` or ``("argument", sql)`` (of an
        aggregation) to the frame's column.
    types
        DDL names of the frame's columns.
    outputs
        Wanted columns as ``(column, output name)``.
    event_time
        The column with a watermark, None if there is none (or the input is not a stream).
    above
        The joins of earlier statements in it whose watermark is held back, by key.
    whole
        The frame's column with the whole row as JSON, None unless late rows may be asked for.
    packed
        The packed columns by name.
    required
        Packed columns that a predicate rejects if NULL, with the user's text of each: such rows never join.
    """

    alias: str
    frame: DataFrame
    read: dict[tuple[str, str], str]
    types: dict[str, str]
    outputs: list[tuple[str, str]]
    event_time: str | None = None
    above: tuple[str, ...] = ()
    whole: str | None = None
    packed: dict[str, Column] = field(default_factory=dict)
    required: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def type_of(self, what: str, text: str) -> str:
        """Return the type of a column or key that was read."""
        return self.types[self.read[what, text]]

    def pack(self, column: Column, identity: str) -> str:
        """Return the packed name of a column; the same ``identity`` is packed once."""
        if identity not in self._names:
            name = f"c{len(self._names)}"
            self._names[identity] = name
            self.packed[name] = column
        return self._names[identity]

    def pack_read(self, what: str, text: str, type_name: str | None = None) -> str:
        """Pack a column or key that was read, cast to a type."""
        name = self.read[what, text]
        wanted = type_name or self.types[name]
        return self.pack(to_wire(self.cast(what, text, wanted), wanted), f"{name} as {wanted}")

    def cast(self, what: str, text: str, type_name: str) -> Column:
        """Return a column or key that was read, cast to a type."""
        name = self.read[what, text]
        return F.col(name) if self.types[name] == type_name else F.col(name).cast(type_name)

    def require_matching(self) -> None:
        """Make rows for which a condition of ON on this side alone is not true never join."""
        for what, text in self.read:
            if what == "matching":
                self.required.setdefault(self.pack_read(what, text), text)

    def guards(self) -> list[Column]:
        """Return the columns that Spark must compute although nobody needs their value."""
        return [F.col(name) for (what, _), name in self.read.items() if what == "guard"]


def read_input(compiling: Compiling, node: JoinNode, source: Any) -> Input:
    """Let Spark read one input: filters, the columns that are wanted, every key expression, every guard."""
    scan = source_scan(source)
    outputs = [(column.column, column.name) for column in node.output if column.relation == scan.alias]
    predicates = [predicate for edge in node.graph.edges for predicate in edge.predicates]
    alias = quoted(scan.alias)
    items: dict[tuple[str, str], str] = {}
    for column, _ in outputs:
        items["column", column] = f"{alias}.{quoted(column)}"
    for predicate in predicates:
        what = {"key": predicate.keys, "guard": predicate.guards}
        items |= {
            (name, one.sql): one.sql for name, some in what.items() for one in some if scan.alias in one.relations
        }
    items |= {
        ("matching", one.sql): f"IF({one.sql}, true, NULL)" for one in node.matching if scan.alias in one.relations
    }
    if node.closest is not None:
        items |= {("key", one.sql): one.sql for one in node.closest.compared if scan.alias in one.relations}
    if node.aggregation is not None:
        terms = node.aggregation.terms
        items |= {("argument", one.sql): one.sql for one in terms if scan.alias in one.relations}
    if scan.event_time is not None:
        items["time", scan.event_time] = f"{alias}.{quoted(scan.event_time)}"
    # What is wanted for two reasons (as a key, and in the output) is read, sent and stored once. Named in the text: a
    # projection for the names alone would be one more for Spark to optimise every micro-batch.
    texts = {item: _as_column(text, scan.alias) for item, text in items.items()}
    matching = [one.sql for one in node.matching if scan.alias in one.relations]
    # Rows with NULL in a joined column are gone by then of a table, and of a stream are counted further on.
    texts = _computed_of_joinable(texts, predicates if scan.streaming else [], matching, scan.alias)
    names = {text: f"v{number}" for number, text in enumerate(dict.fromkeys(texts.values() or ["1"]))}
    columns = [f"{text} AS {name}" for text, name in names.items()]
    whole = _WHOLE if compiling.late_rows and scan.streaming and scan.event_time and not scan.stateful else None
    if whole is not None:
        columns.append(f"TO_JSON(STRUCT({alias}.*), {_AS_JSON}) AS {whole}")
    text = f"SELECT {', '.join(columns)} FROM {scan.relation} AS {alias}"
    conditions = source_conditions(source)
    if conditions:
        text += f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}"
    if scan.ctes:
        text = f"WITH {', '.join(f'{quoted(name)} AS ({body})' for name, body in scan.ctes)} {text}"
    frame, above = _held_back(compiling.run_sql(text), node.held_back, scan, str(compiling.number))
    _check_payload(scan, outputs, frame)
    read = {item: names[text] for item, text in texts.items()}
    types = dict(zip(names.values(), type_names(frame), strict=whole is None))
    return Input(scan.alias, frame, read, types, outputs, _event_time(scan, frame, read, types), above, whole)


def _computed_of_joinable(
    texts: Mapping[tuple[str, str], str], predicates: list[KernelPredicate], matching: list[str], alias: str
) -> dict[tuple[str, str], str]:
    """Return texts in which expressions are computed only of rows that can join by the bare columns of predicates, and
    by the conditions of ON on this side alone.

    Spark's own join never computes the other ones, so they must not fail on such rows.
    """
    keys = (
        texts["key", one.sql]
        for predicate in predicates
        if predicate.rejects_null
        for one in predicate.keys
        if alias in one.relations
    )
    there = [f"{key} IS NOT NULL" for key in dict.fromkeys(keys) if _BARE.fullmatch(key)]
    compared = [*there, *(f"({one})" for one in matching)]  # the other texts are in the rows of an outer join, too
    found = {}
    for item, text in texts.items():
        tested = compared if item[0] in ("key", "guard") else there
        plain = not tested or _BARE.fullmatch(text)
        found[item] = text if plain else f"IF({' AND '.join(tested)}, {text}, NULL)"
    return found


def _as_column(text: str, alias: str) -> str:
    """Return a relation's bare column in the spelling that we give it, and any other expression as it is."""
    found = _BARE.fullmatch(text)
    if found is None or (found[1] or found[2]).replace("``", "`") != alias:
        return text
    return f"{quoted(alias)}.{quoted((found[3] or found[4]).replace('``', '`'))}"


def _check_payload(scan: Scan, outputs: list[tuple[str, str]], frame: DataFrame) -> None:
    """Refuse output columns that cannot reach Python and come back as they were."""
    for (column, _), field_ in zip(outputs, frame.schema.fields, strict=False):
        if not travels(field_.dataType):
            name = f"{scan.alias}.{column}"
            raise UnsupportedQueryError(
                f"column {name} has the type {field_.dataType.simpleString()}, which cannot pass through the join",
                f"Join on a subquery that selects CAST({column} AS STRING), or parts of it, in its place.",
            )


def _event_time(
    scan: Scan, frame: DataFrame, read: Mapping[tuple[str, str], str], types: Mapping[str, str]
) -> str | None:
    """Return the column with the watermark; one of another type than TIMESTAMP does not say when state may go."""
    if scan.event_time is None or not frame.isStreaming:
        return None
    name = read["time", scan.event_time]
    field = next(field for field in frame.schema.fields if field.name == name)
    return scan.event_time if types[name] == "timestamp" and DELAY in (field.metadata or {}) else None


def _held_back(frame: DataFrame, micros: int, scan: Scan, statement: str) -> tuple[DataFrame, tuple[str, ...]]:
    """Hold back the watermark of an input, unless what makes its rows goes by Spark's own."""
    if not micros or not frame.isStreaming or scan.event_time is None or scan.stateful or not hasattr(frame, "_jdf"):
        return frame, ()  # on Spark Connect the text of the input holds it back
    return held_back(frame, micros, statement)
